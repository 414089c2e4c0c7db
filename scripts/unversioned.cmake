# outboard_unversioned(TARGET): beside the library NAME.so.1 of a target, a NAME.so for programs that open that.
#
# It has nothing in it but the need of the other, so both names are one library in a process, whichever is
# opened first. A symbolic link would be the same here, but npm packs none, and a copy would be a second driver.
set(OUTBOARD_NOTHING ${CMAKE_BINARY_DIR}/nothing.c)
file(CONFIGURE OUTPUT ${OUTBOARD_NOTHING} CONTENT "")

function(outboard_unversioned target)
  get_target_property(name ${target} OUTPUT_NAME)
  get_target_property(folder ${target} LIBRARY_OUTPUT_DIRECTORY)
  add_library(${target}_unversioned SHARED ${OUTBOARD_NOTHING})
  set_target_properties(${target}_unversioned PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} SUFFIX .so NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${folder}
    BUILD_WITH_INSTALL_RPATH ON INSTALL_RPATH $ORIGIN)
  target_compile_options(${target}_unversioned PRIVATE -fno-sanitize=all)
  # Among the options, where CMake makes no `-lcuda` of the path, which might find this one itself.
  target_link_options(${target}_unversioned PRIVATE
    -nostdlib -fno-sanitize=all -Wl,-soname,${name}.so -Wl,-z,nodelete
    -Wl,--no-as-needed -Wl,$<TARGET_FILE:${target}>)
  add_dependencies(${target}_unversioned ${target})
endfunction()
