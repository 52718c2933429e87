# SPDX-License-Identifier: Apache-2.0
# Language level, warnings and sanitizers for every target of the tree.
set(CMAKE_C_STANDARD 11)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS OFF)
set(CMAKE_C_VISIBILITY_PRESET hidden)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

if(NOT CMAKE_BUILD_TYPE)
    set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_C_FLAGS_DEBUG "-Og -g")

set(TUTTI_SANITIZE "" CACHE STRING "Sanitizers: address,undefined or thread")
option(TUTTI_COVERAGE "Instrument for gcov" OFF)
option(TUTTI_WERROR "Treat warnings as errors, as the presets do" OFF)

add_compile_options(-Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion
                    $<$<COMPILE_LANGUAGE:C>:-Wstrict-prototypes> -Wpointer-arith -Wvla
                    $<$<COMPILE_LANGUAGE:C>:-Wmissing-prototypes> -fno-math-errno
                    $<$<C_COMPILER_ID:Clang>:-Wno-string-conversion>) # check(!"words")
# gcc clears structs of 88 bytes and more by «rep stos» on x86, some 3 ns each time (Xeon, 2026), and a call
# has several such; some stores do it in less than one.
include(CheckCCompilerFlag)
set(tutti_clear -mmemset-strategy=vector_loop:256:noalign,libcall:-1:noalign)
check_c_compiler_flag(${tutti_clear} TUTTI_HAS_MEMSET_STRATEGY)
if(TUTTI_HAS_MEMSET_STRATEGY)
    add_compile_options($<$<COMPILE_LANGUAGE:C>:${tutti_clear}>)
endif()
if(TUTTI_WERROR)
    add_compile_options(-Werror)
endif()
add_compile_definitions(_GNU_SOURCE)
if(TUTTI_SANITIZE)
    add_compile_options(-fsanitize=${TUTTI_SANITIZE} -fno-omit-frame-pointer)
    add_link_options(-fsanitize=${TUTTI_SANITIZE})
    if(TUTTI_SANITIZE MATCHES undefined)
        add_compile_options(-fno-sanitize-recover=undefined)
    endif()
endif()
if(TUTTI_COVERAGE)
    add_compile_options(--coverage -fprofile-update=atomic)
    add_link_options(--coverage)
endif()

# A call passes through a dozen files of the library: inlined across them, a send of 8 bytes takes a seventh
# fewer instructions. Objects hold ordinary code, too, which the unit tests link.
option(TUTTI_LTO "Optimise the library and the transports at link time (gcc)" ON)
if(NOT CMAKE_C_COMPILER_ID STREQUAL "GNU" OR NOT CMAKE_BUILD_TYPE MATCHES "^Rel|^Min" OR
   TUTTI_SANITIZE OR TUTTI_COVERAGE)
    set(TUTTI_LTO OFF)
endif()
# With gcc's own limit for functions that are not marked inline, 15, the library has more than 1 MB.
set(tutti_lto_flags -flto=auto --param=max-inline-insns-auto=12)
function(tutti_optimise_at_link_time target)
    if(TUTTI_LTO)
        target_compile_options(${target} PRIVATE ${tutti_lto_flags} -ffat-lto-objects)
        target_link_options(${target} PRIVATE ${tutti_lto_flags})
    endif()
endfunction()
