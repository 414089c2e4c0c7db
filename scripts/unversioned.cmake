# outboard_unversioned(TARGET): beside the library NAME.so.1 of a target, a NAME.so for programs that open
# that, and for linkers.
#
# It has the names of the other's symbols and what looks them up go to the other first (DT_FILTER), so
# both are one library in a process, whichever is opened first. Programs that are linked with it need NAME.so.1.
# A symbolic link would be the same here, but npm packs none, and a copy would be a second driver.
function(outboard_unversioned target)
  get_target_property(name ${target} OUTPUT_NAME)
  get_target_property(folder ${target} LIBRARY_OUTPUT_DIRECTORY)
  set(names ${CMAKE_BINARY_DIR}/${target}_names.c)
  add_custom_command(OUTPUT ${names}
    COMMAND ${CMAKE_COMMAND} -DLIBRARY=$<TARGET_FILE:${target}> -DNM=${CMAKE_NM} -DNAMES=${names}
            -P ${CMAKE_SOURCE_DIR}/scripts/names.cmake
    DEPENDS ${target} ${CMAKE_SOURCE_DIR}/scripts/names.cmake VERBATIM)
  add_library(${target}_unversioned SHARED ${names})
  set_target_properties(${target}_unversioned PROPERTIES
    PREFIX "" OUTPUT_NAME ${name} SUFFIX .so NO_SONAME ON LIBRARY_OUTPUT_DIRECTORY ${folder}
    BUILD_WITH_INSTALL_RPATH ON)
  target_compile_options(${target}_unversioned PRIVATE -fno-sanitize=all -w)
  # By its path, as this one has the same name for those that look for it later. In a file, where no shell
  # takes $ORIGIN for a variable.
  set(options ${CMAKE_BINARY_DIR}/${target}_filter)
  file(CONFIGURE OUTPUT ${options} CONTENT "--filter=$ORIGIN/${name}.so.1\n" @ONLY)
  target_link_options(${target}_unversioned PRIVATE
    -nostdlib -fno-sanitize=all -Wl,-soname,${name}.so.1 -Wl,-z,nodelete -Wl,@${options})
endfunction()
