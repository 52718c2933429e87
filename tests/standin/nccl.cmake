# SPDX-License-Identifier: Apache-2.0
# It uses what the process has of the stand-in for libcuda, and nothing of it when it is linked.
# standin_nccl_old is the same without the functions for memory that NCCL has since 2.19.
function(tutti_add_standin_nccl target folder)
    add_library(${target} SHARED nccl.c nccl_group.c nccl_join.c nccl_memory.c nccl_move.c nccl_reduce.c)
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/plugins ${PROJECT_SOURCE_DIR}/plugins/cuda)
    target_link_libraries(${target} PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
    set_target_properties(${target} PROPERTIES OUTPUT_NAME nccl SOVERSION 2 LIBRARY_OUTPUT_DIRECTORY ${folder})
endfunction()
tutti_add_standin_nccl(standin_nccl ${standin_cuda_folder})
tutti_add_standin_nccl(standin_nccl_old ${standin_cuda_folder}/old)
target_compile_definitions(standin_nccl_old PRIVATE STANDIN_NCCL_OLD)

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
