/* SPDX-License-Identifier: Apache-2.0 */
/* Groups whose rules (TUTTI_BACKEND) send calls through several backends; rank_rules.c says what each rank checks. */
#include <criterion/criterion.h>
#include <stdio.h>

#include "harness/launch.h"

TestSuite(rules, .timeout = 400);

static const char *const two_hosts[] = {"a", "b", "a"};

static void run(const char *case_name, const char *rules, const char *const *hosts)
{
    char backend[512]; /* ranks_options.backend is a list, and a rule may have a comma */
    const char *const env[] = {backend, "TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS, NULL};

    snprintf(backend, sizeof backend, "TUTTI_BACKEND=%s", rules);
    cr_expect(ranks_run(&(struct ranks_options){.program = "rank_rules",
                                                .case_name = case_name,
                                                .size = 3,
                                                .host_of = hosts,
                                                .env = env,
                                                .timeout_ms = 120000}));
}

Test(rules, calls_in_any_order_take_the_backend_of_their_rule)
{
    run("calls_in_any_order_take_the_backend_of_their_rule",
        "all_reduce:0-4k=shm;all_reduce=tcp;*:64k-=tcp;barrier=tcp", NULL);
}

Test(rules, one_backend_may_stand_for_both_levels_before_rules)
{
    run("one_backend_may_stand_for_both_levels_before_rules",
        "local=tcp,remote=tcp;all_reduce:0-4k=shm;broadcast=tcp", NULL);
}

Test(rules, a_rule_leads_past_the_memory_of_hosts)
{
    run("a_rule_leads_past_the_memory_of_hosts", "cpu:auto;all_reduce:64k-=tcp;broadcast=auto",
        two_hosts);
}

Test(rules, rules_bring_further_backends_in)
{
    run("rules_bring_further_backends_in",
        "all_reduce:0-4k=shm;all_reduce=tcp;broadcast:64k-=template;recv=template;"
        "barrier:local=template,remote=tcp",
        NULL);
}

Test(rules, a_rule_has_levels_of_its_own)
{
    run("a_rule_has_levels_of_its_own",
        "auto;all_reduce:local=template,remote=tcp;broadcast=tcp;send:local=template,remote=tcp",
        two_hosts);
}

Test(rules, gloo_serves_between_hosts_where_a_rule_says_so)
{
    if (ranks_lack("gloo"))
        cr_skip("%s", ranks_lack("gloo"));
    run("gloo_serves_between_hosts_where_a_rule_says_so",
        "auto;all_reduce:local=shm,remote=gloo;broadcast=gloo;send=gloo", two_hosts);
}

Test(rules, gloo_composes_with_shared_memory)
{
    if (ranks_lack("gloo"))
        cr_skip("%s", ranks_lack("gloo"));
    run("gloo_composes_with_shared_memory", "local=shm,remote=gloo", two_hosts);
}

Test(rules, a_backend_of_a_rule_that_is_not_there_is_told_alike)
{
    run("a_backend_of_a_rule_that_is_not_there_is_told_alike", "auto;all_reduce=tpc", NULL);
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
