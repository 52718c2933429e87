/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(layouts, .timeout = 400);

static void run(const char *case_name, int size, const char *const *hosts)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_layouts",
                                                .case_name = case_name,
                                                .size = size,
                                                .backend = hosts ? "auto" : "shm,tcp",
                                                .host_of = hosts,
                                                .timeout_ms = 120000}));
}

Test(layouts, members_may_differ_in_shape_and_strides)
{
    static const char *const hosts[] = {"a", "b", "a"};

    run("members_may_differ_in_shape_and_strides", 3, NULL);
    run("members_may_differ_in_shape_and_strides", 3, hosts);
}

Test(layouts, outputs_that_cannot_be_written_are_refused_in_words)
{
    run("outputs_that_cannot_be_written_are_refused_in_words", 2, NULL);
}

Test(layouts, calls_that_fail_leave_the_tensor_alone)
{
    run("calls_that_fail_leave_the_tensor_alone", 2, NULL);
}
