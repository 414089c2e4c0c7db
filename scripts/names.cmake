# Writes NAMES, a source with a function by the name of each that LIBRARY exports.
execute_process(COMMAND ${NM} -D --defined-only ${LIBRARY}
                OUTPUT_VARIABLE listed OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL " [TW] [A-Za-z0-9_]+" functions "${listed}")
if(NOT functions)
  message(FATAL_ERROR "${LIBRARY} exports nothing")
endif()
list(TRANSFORM functions REPLACE "^ [TW] (.*)" "void \\1(void) {}")
list(JOIN functions "\n" text)
file(CONFIGURE OUTPUT ${NAMES} CONTENT "${text}\n" @ONLY)
