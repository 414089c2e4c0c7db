# Fuzz targets: built by clang in a folder of their own (build/fuzz, OUTBOARD_FUZZ=ON) and run by
# ctest there, label `fuzz`. Builds with the address sanitizer run the stored inputs through them, by
# their own compiler (fuzz_corpus.c). Everywhere else outboard_fuzz_target() does nothing.
#
#   outboard_fuzz_target(fuzz-frame-decoder
#     SOURCES fuzz/frame-decoder.c      # has LLVMFuzzerTestOneInput
#     LIBRARIES frames                  # what it links
#     CORPUS fuzz/corpus/frame-decoder  # stored inputs; each is run every time
#     RUNS 20000                        # inputs tried by the test, from a fixed seed
#     OPTIONS -dict=...                 # for libFuzzer, if any
#     OWN_CORPUS_TEST)                  # another test runs the stored inputs where there is no libFuzzer
#
# The test is bounded by count and starts from a fixed seed, so it does the same everywhere. To
# search for longer: npm run fuzz -- fuzz-frame-decoder SECONDS

option(OUTBOARD_FUZZ "build the fuzz targets (clang)" OFF)

if(OUTBOARD_FUZZ)
  # Coverage feedback in all code that a target may link.
  add_compile_options(-fsanitize=fuzzer-no-link)
  add_custom_target(fuzz-targets)
  add_library(fuzz-bytes OBJECT ${CMAKE_CURRENT_LIST_DIR}/fuzz_bytes.c)
endif()

function(outboard_fuzz_target name)
  cmake_parse_arguments(FUZZ "OWN_CORPUS_TEST" "CORPUS;RUNS" "SOURCES;LIBRARIES;OPTIONS" ${ARGN})
  if(NOT FUZZ_SOURCES OR NOT FUZZ_CORPUS OR NOT FUZZ_RUNS)
    message(FATAL_ERROR "outboard_fuzz_target(${name}): SOURCES, CORPUS and RUNS are needed")
  endif()
  get_filename_component(corpus ${FUZZ_CORPUS} ABSOLUTE)
  if(NOT OUTBOARD_FUZZ)
    if(OUTBOARD_SANITIZE MATCHES address AND NOT FUZZ_OWN_CORPUS_TEST)
      add_executable(${name} ${FUZZ_SOURCES} ${CMAKE_SOURCE_DIR}/scripts/fuzz_corpus.c)
      target_link_libraries(${name} PRIVATE ${FUZZ_LIBRARIES})
      add_test(NAME ${name}.corpus COMMAND ${name} ${corpus})
    endif()
    return()
  endif()
  file(GLOB inputs CONFIGURE_DEPENDS ${corpus}/*)
  if(NOT inputs)
    message(FATAL_ERROR "outboard_fuzz_target(${name}): no stored input in ${corpus}")
  endif()
  # libFuzzer writes what it finds into the corpus folder that it is given; a list of inputs instead
  # of a folder keeps the repository as it is. The list is comma-separated.
  string(REPLACE ";" "," inputs "${inputs}")
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}.inputs "${inputs}")
  # For scripts/fuzz.mjs: the program, the folder of its corpus, the options.
  list(JOIN FUZZ_OPTIONS "\n" options)
  file(WRITE ${CMAKE_BINARY_DIR}/targets/${name}
       "${CMAKE_CURRENT_BINARY_DIR}/${name}\n${corpus}\n${options}")

  add_executable(${name} ${FUZZ_SOURCES} $<TARGET_OBJECTS:fuzz-bytes>)
  target_link_libraries(${name} PRIVATE ${FUZZ_LIBRARIES})
  target_link_options(${name} PRIVATE -fsanitize=fuzzer -Wl,--wrap=LLVMFuzzerTestOneInput)
  add_dependencies(fuzz-targets ${name})
  add_test(NAME ${name}
           COMMAND ${name} -seed=1 -runs=${FUZZ_RUNS} -timeout=60 -print_final_stats=1
                   -artifact_prefix=${CMAKE_CURRENT_BINARY_DIR}/
                   -seed_inputs=@${CMAKE_CURRENT_BINARY_DIR}/${name}.inputs ${FUZZ_OPTIONS})
  set_tests_properties(${name} PROPERTIES LABELS fuzz)
endfunction()
