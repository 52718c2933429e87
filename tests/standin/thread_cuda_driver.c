/* SPDX-License-Identifier: Apache-2.0
 *
 * The rules of CUDA's driver that the stand-in keeps, checked over the stand-in, or over a real driver:
 * TUTTI_CUDA=libcuda.so.1 thread_cuda_driver [PART-OF-A-NAME...]
 */
#include "driver_cases.h"

int main(int argc, char **argv)
{
#define CASE(name, bare) DRIVER_CASE(name, bare, 0, NULL),
    static const struct driver_case cases[] = {DRIVER_CASES(CASE)};
#undef CASE

    return driver_run(cases, sizeof cases / sizeof *cases, argc, argv);
}
