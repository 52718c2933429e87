# SPDX-License-Identifier: Apache-2.0
# TUTTI_BENCH_WITHOUT: a build for measurements whose calls lack some safeties (core/base/without.h),
# to find out what they cost. Its version says so, it has no tests, and it cannot be installed.
set(TUTTI_BENCH_WITHOUT "" CACHE STRING
    "Safeties that a build for measurements leaves out: some of mismatch,deadline,recorder")
if(NOT TUTTI_BENCH_WITHOUT)
    return()
endif()

string(REPLACE "," ";" tutti_without "${TUTTI_BENCH_WITHOUT}")
foreach(safety IN LISTS tutti_without)
    if(NOT safety MATCHES "^(mismatch|deadline|recorder)$")
        message(FATAL_ERROR "TUTTI_BENCH_WITHOUT=${TUTTI_BENCH_WITHOUT}: no safety is called '${safety}'; "
                            "use some of mismatch,deadline,recorder")
    endif()
    string(TOUPPER ${safety} safety)
    add_compile_definitions(TUTTI_WITHOUT_${safety}=1)
endforeach()
if(TUTTI_TESTS)
    message(FATAL_ERROR "TUTTI_BENCH_WITHOUT=${TUTTI_BENCH_WITHOUT} makes a build for measurements, in which "
                        "tests fail: add -DTUTTI_TESTS=OFF")
endif()
add_compile_definitions(TUTTI_WITHOUT="${TUTTI_BENCH_WITHOUT}")
# Before all other rules, so nothing is installed.
install(CODE "message(FATAL_ERROR \"this build is for measurements and is without ${TUTTI_BENCH_WITHOUT}: \"
                                  \"install a build that was configured without TUTTI_BENCH_WITHOUT\")"
        ALL_COMPONENTS)
