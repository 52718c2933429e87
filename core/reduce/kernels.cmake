# SPDX-License-Identifier: Apache-2.0
# kernels.c is compiled once per instruction set. Each time a file of two lines includes it, so
# that debuggers and gcov show the one source.
set(kernel_isas generic)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64|amd64")
    list(APPEND kernel_isas avx2 avx512)
endif()
# For what whole registers leave, avx2 and avx512 have loops over smaller ones. Here they would be a sixth of the code.
set(kernel_flags_generic $<$<C_COMPILER_ID:GNU>:--param=vect-epilogues-nomask=0>)
set(kernel_flags_avx2 -mavx2 -mf16c)
set(kernel_flags_avx512 -mavx512f -mavx512bw -mavx512vl -mavx512dq -mf16c
    -mprefer-vector-width=512)

# No contraction to FMA: results are the same bits with every instruction set. Without
# -fno-trapping-math comparisons of floats are not vectorised; it changes no result. Without
# -fno-tree-loop-distribute-patterns the copy loops become the calls to memcpy that they replace.
# Clang reports loops over whole registers as not vectorised further.
set(kernel_flags -ffp-contract=off -fno-trapping-math
    $<$<C_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns>
    $<$<C_COMPILER_ID:Clang>:-Wno-pass-failed>)
if(NOT CMAKE_BUILD_TYPE STREQUAL Debug)
    # All loops are vectorised; kernels.c says which are unrolled. All of them by -O3 -funroll-loops are 0.5 MB more of
    # code, and no faster.
    list(APPEND kernel_flags -O2 -ftree-vectorize $<$<C_COMPILER_ID:GNU>:-fvect-cost-model=dynamic>)
endif()

if(TUTTI_LTO) # kernels are called by pointers: nothing is inlined, and their flags stay their own
    list(APPEND kernel_flags -fno-lto)
endif()

foreach(isa ${kernel_isas})
    set(source ${CMAKE_CURRENT_BINARY_DIR}/reduce/kernels_${isa}.c)
    file(CONFIGURE OUTPUT ${source} CONTENT
         "#define KERNELS_ISA @isa@\n#include \"reduce/kernels.c\"\n" @ONLY)
    set_source_files_properties(${source} PROPERTIES
        COMPILE_OPTIONS "${kernel_flags};${kernel_flags_${isa}}")
    target_sources(tutti_core PRIVATE ${source})
endforeach()
