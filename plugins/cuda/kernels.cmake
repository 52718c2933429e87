# SPDX-License-Identifier: Apache-2.0
# The kernels of plugins/cuda: `tutti_cuda_kernel_sources` is what the plugin adds. Their PTX is in ptx/, since it takes
# clang to make it: scripts/generate-ptx does, and no build needs it.
file(GLOB ptx_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_LIST_DIR}/ptx/*.ptx)
add_library(tutti-cuda-kernel-table OBJECT ${CMAKE_CURRENT_LIST_DIR}/kernel_table.c)
target_include_directories(tutti-cuda-kernel-table PRIVATE ${PROJECT_SOURCE_DIR}/api ${PROJECT_BINARY_DIR}/api)
target_compile_definitions(tutti-cuda-kernel-table PRIVATE KERNEL_PTX_FOLDER="${CMAKE_CURRENT_LIST_DIR}/ptx")
set_source_files_properties(${CMAKE_CURRENT_LIST_DIR}/kernel_table.c PROPERTIES OBJECT_DEPENDS "${ptx_files}")
set(tutti_cuda_kernel_sources $<TARGET_OBJECTS:tutti-cuda-kernel-table>)

# The same source for the host, for tests. ThreadSanitizer sees what orders kernels, and would take a minute for their
# elements.
add_library(tutti-cuda-kernels-host OBJECT EXCLUDE_FROM_ALL ${CMAKE_CURRENT_LIST_DIR}/kernels.c)
target_compile_options(tutti-cuda-kernels-host PRIVATE -ffp-contract=off -fno-sanitize=thread)

foreach(target tutti-cuda-kernel-table tutti-cuda-kernels-host)
    set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE ON)
    if(TUTTI_LTO) # it does not see what assembly defines, and kernels are called by pointers
        target_compile_options(${target} PRIVATE -fno-lto)
    endif()
endforeach()
