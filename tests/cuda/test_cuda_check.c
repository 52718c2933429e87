/* SPDX-License-Identifier: Apache-2.0 */
/* The command over the stand-in: what `tutti check` and `tutti info` say of the plugin cuda. */
#include <criterion/criterion.h>
#include <string.h>

#include "cli/command.h"

TestSuite(cuda_check, .timeout = 200);

#define PLUGIN TUTTI_CUDA_PLUGIN
#define OVER_STANDIN "TUTTI_CUDA=" TUTTI_STANDIN_CUDA " "

enum { SEEDS = 3, OTHER_CHECKS = 34 }; /* transport.*, collectives.*, ranks.* */

Test(cuda_check, the_plugin_passes_over_the_stand_in)
{
    struct ran checked = ran(OVER_STANDIN "$TUTTI check " PLUGIN);
    g_autofree char *end =
        g_strdup_printf(" 0 remarks, 0 failed, %d not tried\n", (int)OTHER_CHECKS);

    cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, end), "%s", checked.out);
    ran_free(&checked);
}

Test(cuda_check, the_plugin_passes_with_other_delays)
{
    for (int seed = 1; seed <= SEEDS; seed++) {
        struct ran checked = ran(OVER_STANDIN "STANDIN_CUDA_DEVICES=2 STANDIN_CUDA_SEED=%d "
                                              "$TUTTI check --only 'device.*' " PLUGIN,
                                 seed);

        cr_expect_eq(checked.code, 0, "seed %d: %s%s", seed, checked.out, checked.err);
        cr_expect_not_null(strstr(checked.out, "9 passed"), "seed %d: %s", seed, checked.out);
        ran_free(&checked);
    }
}

/* Its own driver, if there is one, does not count. */
Test(cuda_check, without_a_driver_the_devices_are_not_tried)
{
    struct ran checked =
        ran("TUTTI_CUDA=/nonexistent/libcuda.so.1 $TUTTI check --only 'device.*' " PLUGIN);

    cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, "its driver is not here: no CUDA driver:"), "%s",
                       checked.out);
    cr_expect_not_null(strstr(checked.out, "0 failed, 9 not tried"), "%s", checked.out);
    ran_free(&checked);
}

Test(cuda_check, info_names_the_driver_and_each_device)
{
    struct ran info = ran(OVER_STANDIN "STANDIN_CUDA_DEVICES=2 COLUMNS=500 $TUTTI info --json");

    cr_expect_eq(info.code, 0, "%s", info.err);
    cr_expect_not_null(strstr(info.out, "driver CUDA 12.4, "), "%s", info.out);
    cr_expect_not_null(strstr(info.out, ", 2 devices"), "%s", info.out);
    cr_expect_not_null(strstr(info.out, "cuda:1: Stand-in GPU 1, 1.0 GiB, GPU-"), "%s", info.out);
    ran_free(&info);
}

Test(cuda_check, info_says_what_is_missing_and_how_to_get_it)
{
    struct ran info = ran("TUTTI_CUDA=/nonexistent/libcuda.so.1 $TUTTI info --json");

    cr_expect_eq(info.code, 0, "%s", info.err);
    cr_expect_not_null(strstr(info.out, "no CUDA driver: /nonexistent/libcuda.so.1"), "%s",
                       info.out);
    cr_expect_not_null(strstr(info.out, "Install NVIDIA's driver on this host"), "%s", info.out);
    ran_free(&info);
}
