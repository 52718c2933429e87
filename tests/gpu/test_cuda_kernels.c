/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernels of plugins/cuda, compiled for the host, give the bits of core/reduce. The code for GPUs comes from the
 * same source; gpu_kernels.c runs it where there is one.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/trials.h"

static void *allocate(size_t bytes)
{
    return aligned_alloc(256, (bytes + 255) / 256 * 256);
}

static void copy(void *to, const void *from, size_t bytes)
{
    memcpy(to, from, bytes);
}

static void run(const struct kernel_id *id, void *arguments, size_t bytes)
{
    const struct host_kernel *kernel = host_kernels;

    (void)bytes;
    while (kernel->name && strcmp(kernel->name, id->name) != 0)
        kernel++;
    cr_assert(kernel->name, "there is no kernel %s", id->name);
    kernel->run(arguments);
}

static const struct runner host = {allocate, copy, copy, run};

Test(cuda_kernels, reductions_have_the_bits_of_the_core, .timeout = 300)
{
    for (int row = 0; row < TRIAL_ROWS; row++)
        cr_expect_eq(trial_reduce(&host, row), 0);
}

Test(cuda_kernels, every_small_number_has_the_bits_of_the_core, .timeout = 300)
{
    cr_expect_eq(trial_small(&host), 0);
}

Test(cuda_kernels, products_with_a_factor_have_the_bits_of_the_core, .timeout = 300)
{
    cr_expect_eq(trial_scale(&host), 0);
}

Test(cuda_kernels, strides_of_any_kind_are_packed_and_unpacked, .timeout = 300)
{
    cr_expect_eq(trial_pack(&host), 0);
    cr_expect_eq(trial_pack_far(&host), 0);
}

Test(cuda_kernels, each_module_has_the_kernels_that_are_looked_for_in_it, .timeout = 10)
{
    for (enum kernel_module module = 0; module < KERNEL_MODULE_COUNT; module++)
        cr_expect_eq(strncmp(kernel_ptx(module), ".version", 8), 0);
    for (const struct host_kernel *kernel = host_kernels; kernel->name; kernel++) {
        bool found = false;

        for (enum kernel_module module = 0; module < KERNEL_MODULE_COUNT; module++)
            found |= strstr(kernel_ptx(module), kernel->name) != NULL;
        cr_expect(found, "no module has %s", kernel->name);
    }
}
