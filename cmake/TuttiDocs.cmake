# SPDX-License-Identifier: Apache-2.0
# The target `docs`: the API reference in build/…/docs. Where doxygen is installed, `cmake --install` also
# writes manual pages of section 3 from the headers.
find_program(DOXYGEN doxygen)
if(NOT DOXYGEN)
    add_custom_target(docs
        COMMAND ${CMAKE_COMMAND} -E echo "The API reference needs doxygen, which is not installed: apt-get install doxygen, then configure again (cmake --preset release)"
        COMMAND ${CMAKE_COMMAND} -E false
        COMMENT "Looking for doxygen" VERBATIM)
    return()
endif()
file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/Doxyfile CONTENT [[
@INCLUDE         = "@PROJECT_SOURCE_DIR@/docs/Doxyfile"
PROJECT_NUMBER   = @PROJECT_VERSION@
INPUT            = "@PROJECT_SOURCE_DIR@/api/tutti" "@PROJECT_BINARY_DIR@/api/tutti"
STRIP_FROM_PATH  = "@PROJECT_SOURCE_DIR@/api" "@PROJECT_BINARY_DIR@/api"
INPUT_FILTER     = "awk -f @PROJECT_SOURCE_DIR@/docs/doxygen-filter"
OUTPUT_DIRECTORY = "@PROJECT_BINARY_DIR@/docs"
]])
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/docs)
add_custom_target(docs COMMAND ${DOXYGEN} ${PROJECT_BINARY_DIR}/Doxyfile
                  COMMENT "Writing the API reference to ${PROJECT_BINARY_DIR}/docs" VERBATIM)

file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/Doxyfile-manuals CONTENT [[
@INCLUDE         = "@PROJECT_BINARY_DIR@/Doxyfile"
OUTPUT_DIRECTORY = "@PROJECT_BINARY_DIR@/manuals"
GENERATE_HTML    = NO
GENERATE_MAN     = YES
MAN_LINKS        = YES
WARN_AS_ERROR    = NO
]])
configure_file(${PROJECT_SOURCE_DIR}/cmake/InstallFunctionManuals.cmake.in
               ${PROJECT_BINARY_DIR}/InstallFunctionManuals.cmake @ONLY)
install(SCRIPT ${PROJECT_BINARY_DIR}/InstallFunctionManuals.cmake)
