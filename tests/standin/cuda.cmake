# SPDX-License-Identifier: Apache-2.0
# It lies in a folder of its own under its real name, for LD_LIBRARY_PATH.
set(standin_cuda_folder ${PROJECT_BINARY_DIR}/lib/standin)

file(GLOB sources CONFIGURE_DEPENDS cuda*.c)
add_library(standin_cuda SHARED ${sources} $<TARGET_OBJECTS:tutti-cuda-kernels-host>)
target_include_directories(standin_cuda PRIVATE ${PROJECT_SOURCE_DIR}/plugins/cuda)
target_link_libraries(standin_cuda PRIVATE Threads::Threads ${CMAKE_DL_LIBS} m)
set_target_properties(standin_cuda PROPERTIES
    OUTPUT_NAME cuda SOVERSION 1 LIBRARY_OUTPUT_DIRECTORY ${standin_cuda_folder})

# Plain programs, as they run under ThreadSanitizer and on a machine with a GPU.
add_library(driver_harness STATIC driver.c $<TARGET_OBJECTS:tutti-cuda-kernel-table>)
target_include_directories(driver_harness PUBLIC
    ${PROJECT_SOURCE_DIR}/plugins/cuda ${PROJECT_SOURCE_DIR}/api ${PROJECT_BINARY_DIR}/api)
target_compile_definitions(driver_harness PRIVATE STANDIN_LIBCUDA="${standin_cuda_folder}/libcuda.so.1")
target_link_libraries(driver_harness PUBLIC Threads::Threads ${CMAKE_DL_LIBS})
add_dependencies(driver_harness standin_cuda)

file(GLOB cases CONFIGURE_DEPENDS driver_*.c)
add_executable(thread_cuda_driver thread_cuda_driver.c ${cases})
target_link_libraries(thread_cuda_driver PRIVATE driver_harness)
add_executable(thread_cuda_standin thread_cuda_standin.c)
target_link_libraries(thread_cuda_standin PRIVATE driver_harness)
