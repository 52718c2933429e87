# SPDX-License-Identifier: Apache-2.0
# It uses what the process has of the stand-in for libcuda, and nothing of it when it is linked.
add_library(standin_nccl SHARED nccl.c nccl_group.c nccl_join.c nccl_move.c nccl_reduce.c)
target_include_directories(standin_nccl PRIVATE ${PROJECT_SOURCE_DIR}/plugins ${PROJECT_SOURCE_DIR}/plugins/cuda)
target_link_libraries(standin_nccl PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
set_target_properties(standin_nccl PROPERTIES OUTPUT_NAME nccl SOVERSION 2
    LIBRARY_OUTPUT_DIRECTORY ${standin_cuda_folder})

# Plain programs, as those of the driver.
add_library(nccl_ranks STATIC nccl_ranks.c nccl_ranks_capture.c)
target_compile_definitions(nccl_ranks PRIVATE STANDIN_LIBNCCL="${standin_cuda_folder}/libnccl.so.2")
target_include_directories(nccl_ranks PUBLIC ${PROJECT_SOURCE_DIR}/plugins)
target_link_libraries(nccl_ranks PUBLIC driver_harness)
add_dependencies(nccl_ranks standin_nccl)
foreach(program thread_nccl thread_nccl_standin)
    add_executable(${program} ${program}.c)
    target_link_libraries(${program} PRIVATE nccl_ranks m)
endforeach()

if(NOT TUTTI_SANITIZE MATCHES thread)
    add_executable(test_nccl_names test_nccl_names.c)
    target_include_directories(test_nccl_names PRIVATE ${PROJECT_SOURCE_DIR}/plugins)
    target_link_libraries(test_nccl_names PRIVATE PkgConfig::CRITERION)
endif()
