# SPDX-License-Identifier: Apache-2.0
add_library(standin_ucc SHARED ucc.c ucc_collective.c ucc_context.c ucc_plan.c ucc_reduce.c ucc_ring.c
            ucc_sockets.c)
target_include_directories(standin_ucc PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
target_link_libraries(standin_ucc PRIVATE Threads::Threads)
set_target_properties(standin_ucc PROPERTIES OUTPUT_NAME ucc SOVERSION 1
    LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib/standin)

# A job that uses UCC directly, over this or a real one.
add_executable(ucc_play ucc_play.c ucc_play_grid.c ucc_play_rules.c)
target_include_directories(ucc_play PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
target_link_libraries(ucc_play PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

tutti_add_ranks_test(test_standin_ucc test_standin_ucc.c ${PROJECT_SOURCE_DIR}/tests/cli/command.c)
if(TARGET test_standin_ucc)
    pkg_check_modules(GLIB REQUIRED IMPORTED_TARGET glib-2.0)
    target_link_libraries(test_standin_ucc PRIVATE PkgConfig::GLIB)
    target_compile_definitions(test_standin_ucc PRIVATE
        STANDIN_LIBRARY="$<TARGET_FILE:standin_ucc>" STANDIN_PROGRAMS="${CMAKE_RUNTIME_OUTPUT_DIRECTORY}"
        TUTTI_COMMAND="")
    add_dependencies(test_standin_ucc ucc_play)
endif()
