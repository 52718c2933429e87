# SPDX-License-Identifier: Apache-2.0
# The target `docs`: the API reference in build/…/docs, where doxygen is installed.
find_program(DOXYGEN doxygen)
if(DOXYGEN)
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
endif()
