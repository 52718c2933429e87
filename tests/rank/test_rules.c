/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>

#include "harness/launch.h"

TestSuite(rules, .timeout = 400);

static const char *const two_hosts[] = {"a", "b", "a"};

static void run(const char *case_name, const char *rules, const char *const *hosts)
{
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_rules",
                                                .case_name = case_name,
                                                .size = 3,
                                                .backend = rules,
                                                .host_of = hosts,
                                                .timeout_ms = 120000}));
}

Test(rules, calls_in_any_order_take_the_backend_of_their_rule)
{
    run("calls_in_any_order_take_the_backend_of_their_rule",
        "all_reduce:0-4k=shm;all_reduce=tcp;*:64k-=tcp;barrier=tcp", NULL);
}

Test(rules, a_rule_leads_past_the_memory_of_hosts)
{
    run("a_rule_leads_past_the_memory_of_hosts", "cpu:auto;all_reduce:64k-=tcp;broadcast=auto",
        two_hosts);
}

Test(rules, calls_that_differ_are_a_mismatch_across_backends)
{
    run("calls_that_differ_are_a_mismatch_across_backends", "all_reduce:0-4k=shm;all_reduce=tcp",
        NULL);
}

Test(rules, rules_that_differ_are_refused_with_both_values)
{
    run("rules_that_differ_are_refused_with_both_values", "all_reduce:0-4k=shm;all_reduce=tcp",
        NULL);
}

Test(rules, rules_that_cannot_be_kept_are_refused)
{
    run("rules_that_cannot_be_kept_are_refused", "all_reduce:0-4k=shm;all_reduce=tcp", two_hosts);
}
