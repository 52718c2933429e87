/* SPDX-License-Identifier: Apache-2.0 */
/* A rank case over one provider for all ranks, and over both composed. */
#pragma once

#include <criterion/criterion.h>

#include "harness/launch.h"

/* Composed, some ranks share a host and others have one of their own. At most five ranks. */
static inline void run_everywhere(const char *program, const char *case_name, int size)
{
    static const char *const hosts[] = {"a", "b", "a", "c", "a"};
    struct ranks_options options = {.program = program,
                                    .case_name = case_name,
                                    .size = size,
                                    .backend = "shm,tcp",
                                    .timeout_ms = 120000};

    cr_expect(ranks_run(&options));
    options.backend = "auto";
    options.host_of = hosts;
    cr_expect(ranks_run(&options));
}
