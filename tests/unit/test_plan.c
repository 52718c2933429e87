/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Layouts of hosts, and the plan of a call: which algorithm it takes by its size, its layout and the
 * backends that can carry it.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/collective.h>
#include <tutti/tensor.h>

#include "dispatch/dispatch.h"
#include "plugin/about.h"

Test(layout, hosts_are_numbered_by_their_lowest_rank_whatever_they_are_called, .timeout = 60)
{
    const int host_of[] = {9, -4, 9, 9, -4};
    const int hosts[] = {0, 1, 0, 0, 1}, locals[] = {0, 0, 1, 2, 1}, order[] = {0, 2, 3, 1, 4};
    const int peers[] = {0, 1, 2, 4}; /* two leaders a host */
    struct layout layout;

    cr_assert_eq(layout_init(&layout, 5, 3, host_of), TUTTI_OK);
    cr_assert_eq(layout.hosts, 2);
    cr_assert_eq(layout.leaders, 2);
    cr_assert_eq(layout.host, 0);
    cr_assert_eq(layout.local, 2);
    cr_assert_arr_eq(layout.host_of, hosts, sizeof hosts);
    cr_assert_arr_eq(layout.local_of, locals, sizeof locals);
    cr_assert_arr_eq(layout.by_host, order, sizeof order);
    cr_assert_arr_eq(layout.peers, peers, sizeof peers);
    cr_assert_eq(layout_host_size(&layout, 0), 3);
    layout_free(&layout);
    cr_assert_eq(layout_init(&layout, 5, 5, host_of), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(layout_init(&layout, 0, 0, host_of), TUTTI_ERR_INVALID_ARGUMENT);
}

/* `hosts`: members of each host, one digit a host. */
static void check_plan(const char *hosts, bool mapped, bool messages, uint8_t operation,
                       uint64_t bytes, const char *algorithm, const char *provider)
{
    int host_of[64], size = 0;
    struct layout layout;
    struct plan plan = {0};

    for (int host = 0; hosts[host]; host++)
        for (int i = 0; i < hosts[host] - '0'; i++)
            host_of[size++] = host;
    cr_assert_eq(layout_init(&layout, size, 0, host_of), TUTTI_OK);

    const struct group_facts facts = {.layout = &layout,
                                      .mapped = mapped,
                                      .messages = messages,
                                      .local_name = mapped ? "shm" : NULL,
                                      .remote_name = "tcp",
                                      .remote_cost = plugin_usual_cost(0)};
    const struct call_fields fields = {.operation = operation, .count = bytes, .dtype = TUTTI_U8};
    const tutti_status status = plan_choose(&facts, &fields, 1, &plan);

    if (!algorithm) {
        cr_expect_eq(status, TUTTI_ERR_UNSUPPORTED);
        cr_expect_not_null(strstr(tutti_last_error(), provider), "%s", tutti_last_error());
    } else {
        cr_expect_eq(status, TUTTI_OK);
        cr_expect_str_eq(plan.algorithm->name, algorithm, "%s for %s, %lu bytes",
                         plan.algorithm->name, hosts, (unsigned long)bytes);
        cr_expect_str_eq(plan.provider, provider);
    }
    layout_free(&layout);
}

Test(plan, size_layout_and_providers_choose_the_algorithm, .timeout = 60)
{
    enum {
        R = OPERATION_ALL_REDUCE,
        B = OPERATION_BROADCAST,
        W = OPERATION_BARRIER,
        O = OPERATION_REDUCE,
        A = OPERATION_ALL_GATHER,
        G = OPERATION_GATHER,
        S = OPERATION_SCATTER,
        X = OPERATION_ALL_TO_ALL
    };
    const struct {
        const char *hosts;
        bool mapped, messages;
        uint8_t operation;
        uint64_t bytes;
        const char *algorithm, *provider;
    } rows[] = {
        {"1", true, true, R, 100, "all_reduce_alone", "self"},
        {"2", true, true, R, 0, "all_reduce_inline", "shm"},
        {"2", true, true, R, 2047, "all_reduce_inline", "shm"},
        {"2", true, true, R, 2048, "all_reduce_staged", "shm"},
        {"2", true, true, A, 2048, "all_gather_mapped", "shm"},
        {"2", true, true, X, 1023, "all_to_all_inline", "shm"},
        {"2", true, true, X, 1024, "all_to_all_mapped", "shm"},
        {"2", true, true, B, 4096, "broadcast_inline", "shm"},
        {"3", true, true, R, 4096, "all_reduce_inline", "shm"},
        {"3", true, true, R, 4097, "all_reduce_staged", "shm"},
        {"2", true, true, R, 131072, "all_reduce_staged", "shm"},
        {"2", true, true, R, 131073, "all_reduce_staged_parts", "shm"},
        {"8", true, true, R, 32769, "all_reduce_staged_parts", "shm"},
        {"2", true, true, O, 16 << 20, "reduce_staged", "shm"},
        {"3", true, true, O, 87381, "reduce_staged", "shm"},
        {"3", true, true, O, 87382, "reduce_staged_parts", "shm"},
        {"4", false, true, R, 0, "barrier_dissemination", "tcp"},
        {"4", false, true, R, 16384, "all_reduce_recursive_doubling", "tcp"},
        {"4", false, true, R, 16385, "all_reduce_halving_doubling", "tcp"},
        {"3", false, true, R, 16385, "all_reduce_ring", "tcp"},
        {"6", false, true, R, 131072, "all_reduce_halving_doubling", "tcp"},
        {"6", false, true, R, 131073, "all_reduce_ring", "tcp"},
        {"3", false, true, A, 8, "all_gather_direct", "tcp"},
        {"4", false, true, A, 0, "all_gather_bruck", "tcp"},
        {"8", false, true, A, 16383, "all_gather_bruck", "tcp"},
        {"8", false, true, A, 16384, "all_gather_ring", "tcp"},
        {"3", false, true, X, 8, "all_to_all_direct", "tcp"},
        {"4", false, true, X, 1535, "all_to_all_bruck", "tcp"},
        {"8", false, true, X, 1536, "all_to_all_direct", "tcp"},
        {"5", false, true, OPERATION_REDUCE_SCATTER, 8, "reduce_scatter_direct", "tcp"},
        {"6", false, true, OPERATION_REDUCE_SCATTER, 510, "reduce_scatter_halving", "tcp"},
        {"6", false, true, OPERATION_REDUCE_SCATTER, 511, "reduce_scatter_direct", "tcp"},
        {"8", false, true, OPERATION_REDUCE_SCATTER, 8192, "reduce_scatter_halving", "tcp"},
        {"8", false, true, OPERATION_REDUCE_SCATTER, 8193, "reduce_scatter_direct", "tcp"},
        {"995", false, true, G, 8, "gather_direct", "tcp"},
        {"996", false, true, G, 4095, "gather_binomial", "tcp"},
        {"996", false, true, G, 4096, "gather_direct", "tcp"},
        {"996", false, true, S, 4095, "scatter_binomial", "tcp"},
        {"996", false, true, S, 4096, "scatter_direct", "tcp"},
        {"22", true, true, R, 8, "all_reduce_composed", "shm+tcp"},
        {"22", true, true, R, 0, "barrier_composed", "shm+tcp"},
        {"1111", true, true, R, 8, "all_reduce_recursive_doubling", "tcp"},
        {"22", false, true, R, 8, "all_reduce_recursive_doubling", "tcp"},
        {"22", true, false, R, 8, NULL, "no provider carries messages"},
        {"3", true, true, B, 4096, "broadcast_inline", "shm"},
        {"3", true, true, B, 4097, "broadcast_mapped", "shm"},
        {"3", false, true, B, 32767, "broadcast_binomial", "tcp"},
        {"3", false, true, B, 32768, "broadcast_scatter_all_gather", "tcp"},
        {"314", true, true, B, 0, "broadcast_composed", "shm+tcp"},
        {"3", true, true, W, 0, "barrier_inline", "shm"},
        {"3", false, true, W, 0, "barrier_dissemination", "tcp"},
        {"31", true, true, W, 0, "barrier_composed", "shm+tcp"},
        {"31", true, true, OPERATION_REDUCE, 8, "reduce_composed", "shm+tcp"},
        {"31", true, true, OPERATION_REDUCE, 0, "barrier_composed", "shm+tcp"},
        {"31", true, true, OPERATION_ALL_GATHER, 1 << 20, "all_gather_composed", "shm+tcp"},
        {"314", true, true, OPERATION_REDUCE_SCATTER, 8, "reduce_scatter_composed", "shm+tcp"},
        {"22", true, true, OPERATION_GATHER, 8, "gather_composed", "shm+tcp"},
        {"22", true, true, OPERATION_SCATTER, 1 << 20, "scatter_composed", "shm+tcp"},
        {"314", true, true, X, 0, "barrier_composed", "shm+tcp"},
        {"314", true, true, X, 8, "all_to_all_composed", "shm+tcp"},
        {"22", true, true, X, 1 << 20, "all_to_all_composed", "shm+tcp"},
        {"22", false, true, X, 1 << 20, "all_to_all_direct", "tcp"},
        {"3", true, true, OPERATION_NONE, 0, NULL, "no algorithm for operation 0"},
    };

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        check_plan(rows[i].hosts, rows[i].mapped, rows[i].messages, rows[i].operation,
                   rows[i].bytes, rows[i].algorithm, rows[i].provider);
}

/* Far from it only where a seam was measured or set late. */
static const char *chosen_of(struct group_facts facts, bool crowded, uint8_t operation,
                             uint64_t bytes)
{
    const struct call_fields fields = {.operation = operation, .count = bytes, .dtype = TUTTI_U8};
    struct thresholds thresholds = thresholds_standard;
    struct layout layout = *facts.layout;
    struct plan plan = {0};

    thresholds_fit(&thresholds, crowded);
    layout.thresholds = &thresholds;
    facts.layout = &layout;
    cr_assert_eq(plan_choose(&facts, &fields, 1, &plan), TUTTI_OK);
    return plan.algorithm->name;
}

Test(plan, members_that_outnumber_their_cpus_go_in_rounds, .timeout = 60)
{
    const int one_host[16] = {0}, two_hosts[8] = {0, 0, 0, 0, 0, 0, 0, 1};
    struct group_facts facts = {.mapped = true,
                                .messages = true,
                                .local_name = "shm",
                                .remote_name = "tcp",
                                .remote_cost = plugin_usual_cost(0)};
    struct layout all, few, many, apart;

    cr_assert_eq(layout_init(&all, 8, 0, one_host), TUTTI_OK);
    cr_assert_eq(layout_init(&few, 7, 0, one_host), TUTTI_OK);
    cr_assert_eq(layout_init(&many, 16, 0, one_host), TUTTI_OK);
    cr_assert_eq(layout_init(&apart, 8, 0, two_hosts), TUTTI_OK);
    facts.layout = &all;
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 8), "all_reduce_inline_rounds");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 4097), "all_reduce_rounds");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 32768), "all_reduce_rounds");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 32769),
                     "all_reduce_staged_parts");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_BARRIER, 0), "barrier_inline_rounds");
    cr_expect_str_eq(chosen_of(facts, false, OPERATION_ALL_REDUCE, 8), "all_reduce_inline");
    cr_expect_str_eq(chosen_of(facts, false, OPERATION_BARRIER, 0), "barrier_inline");
    facts.layout = &few;
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 8), "all_reduce_inline");
    facts.layout = &many;
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 8), "all_reduce_inline_rounds");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 128 * 1024), "all_reduce_rounds");
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_ALL_REDUCE, 128 * 1024 + 1),
                     "all_reduce_staged_parts");
    facts.layout = &apart;
    cr_expect_str_eq(chosen_of(facts, true, OPERATION_BARRIER, 0), "barrier_composed");
    layout_free(&all);
    layout_free(&few);
    layout_free(&many);
    layout_free(&apart);
}

Test(plan, messages_are_few_where_members_outnumber_their_cpus, .timeout = 60)
{
    static const struct {
        uint8_t operation;
        uint64_t bytes;
        const char *crowded, *elsewhere;
    } rows[] = {
        {OPERATION_BROADCAST, 1 << 20, "broadcast_binomial", "broadcast_scatter_all_gather"},
        {OPERATION_BROADCAST, 32 << 20, "broadcast_scatter_all_gather",
         "broadcast_scatter_all_gather"},
        {OPERATION_REDUCE, 1 << 20, "reduce_binomial", "reduce_parts"},
        {OPERATION_ALL_REDUCE, 32768, "all_reduce_recursive_doubling",
         "all_reduce_halving_doubling"},
        {OPERATION_ALL_GATHER, 8192, "all_gather_bruck", "all_gather_bruck"},
        {OPERATION_ALL_GATHER, 1 << 20, "all_gather_direct", "all_gather_ring"},
        {OPERATION_SCATTER, 4096, "scatter_binomial", "scatter_direct"},
        {OPERATION_REDUCE_SCATTER, 4096, "reduce_scatter_halving", "reduce_scatter_direct"},
        {OPERATION_ALL_TO_ALL, 4096, "all_to_all_bruck", "all_to_all_direct"},
    };
    const int one_host[4] = {0};
    struct layout layout;
    const struct group_facts facts = {.layout = &layout,
                                      .messages = true,
                                      .remote_name = "tcp",
                                      .remote_cost = plugin_usual_cost(0)};

    cr_assert_eq(layout_init(&layout, 4, 0, one_host), TUTTI_OK);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        cr_expect_str_eq(chosen_of(facts, true, rows[i].operation, rows[i].bytes), rows[i].crowded);
        cr_expect_str_eq(chosen_of(facts, false, rows[i].operation, rows[i].bytes),
                         rows[i].elsewhere);
    }
    layout_free(&layout);
}

Test(plan, short_blocks_take_what_costs_least_by_the_model, .timeout = 60)
{
    static const uint8_t operations[] = {OPERATION_GATHER, OPERATION_SCATTER, OPERATION_ALL_GATHER,
                                         OPERATION_REDUCE_SCATTER, OPERATION_ALL_TO_ALL};
    static const uint64_t sizes[] = {8, 512, 1024, 4096, 8192};
    int host_of[64] = {0};

    for (int size = 2; size <= 64; size++) {
        struct layout layout;

        cr_assert_eq(layout_init(&layout, size, 0, host_of), TUTTI_OK);
        for (size_t i = 0; i < sizeof operations * (sizeof sizes / sizeof sizes[0]); i++) {
            const struct group_facts facts = {.layout = &layout,
                                              .messages = true,
                                              .remote_name = "tcp",
                                              .remote_cost = plugin_usual_cost(0)};
            const struct call_fields fields = {.operation = operations[i % sizeof operations],
                                               .count = sizes[i / sizeof operations],
                                               .dtype = TUTTI_U8};
            struct plan_candidate candidates[PLAN_CANDIDATES_MAX];
            const int count = plan_explain(&facts, &fields, 1, fields.count, candidates);

            for (int k = 1; k < count; k++)
                cr_expect(!candidates[k].possible ||
                              candidates[0].estimated_us < 1.4 * candidates[k].estimated_us,
                          "%d members, %lu bytes: %s %.1f us, %s %.1f us", size,
                          (unsigned long)fields.count, candidates[0].plan.algorithm->name,
                          candidates[0].estimated_us, candidates[k].plan.algorithm->name,
                          candidates[k].estimated_us);
        }
        layout_free(&layout);
    }
}

/* A member that hands a block on must know how long it is. */
Test(plan, uneven_blocks_are_composed_where_all_members_know_their_sizes, .timeout = 60)
{
    const int host_of[] = {0, 0, 0, 1, 2, 2, 2, 2};
    static const struct {
        uint8_t operation;
        uint64_t sum;
        const char *algorithm;
    } rows[] = {{OPERATION_ALL_GATHER, 0, "barrier_composed"},
                {OPERATION_ALL_GATHER, 100, "all_gather_composed"},
                {OPERATION_ALL_GATHER, 8 << 20, "all_gather_composed"},
                {OPERATION_GATHER, 0, "gather_direct"},
                {OPERATION_SCATTER, 0, "scatter_direct"},
                {OPERATION_REDUCE_SCATTER, 8 << 20, "reduce_scatter_composed"},
                {OPERATION_ALL_TO_ALL, 0, "all_to_all_direct"}};
    struct layout layout;

    cr_assert_eq(layout_init(&layout, 8, 0, host_of), TUTTI_OK);
    const struct group_facts facts = {.layout = &layout,
                                      .mapped = true,
                                      .messages = true,
                                      .local_name = "shm",
                                      .remote_name = "tcp",
                                      .remote_cost = plugin_usual_cost(0)};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const struct call_fields fields = {.operation = rows[i].operation,
                                           .count = rows[i].sum,
                                           .flags = CALL_UNEVEN,
                                           .dtype = TUTTI_U8};
        struct plan plan;

        cr_assert_eq(plan_choose(&facts, &fields, 1, &plan), TUTTI_OK);
        cr_expect_str_eq(plan.algorithm->name, rows[i].algorithm);
    }
    layout_free(&layout);
}

Test(plan, uneven_blocks_travel_one_by_one, .timeout = 60)
{
    const int host_of[64] = {0};
    struct layout layout;

    cr_assert_eq(layout_init(&layout, 64, 0, host_of), TUTTI_OK);
    const struct group_facts facts = {.layout = &layout,
                                      .messages = true,
                                      .remote_name = "tcp",
                                      .remote_cost = plugin_usual_cost(0)};

    for (uint8_t operation = OPERATION_ALL_GATHER; operation <= OPERATION_ALL_TO_ALL; operation++) {
        const struct call_fields fields = {
            .operation = operation, .flags = CALL_UNEVEN, .dtype = TUTTI_U8};
        struct plan plan;

        cr_assert_eq(plan_choose(&facts, &fields, 1, &plan), TUTTI_OK);
        cr_expect_not_null(strstr(plan.algorithm->name, "_direct"), "%s", plan.algorithm->name);
    }
    layout_free(&layout);
}

/* The candidates of a call as member `rank` sees them; `hosts` as in check_plan(). */
static int candidates_of(const char *hosts, int rank, uint8_t operation, uint64_t bytes,
                         struct plan_candidate ret_candidates[PLAN_CANDIDATES_MAX])
{
    int host_of[64], size = 0, count;
    struct layout layout;

    for (int host = 0; hosts[host]; host++)
        for (int i = 0; i < hosts[host] - '0'; i++)
            host_of[size++] = host;
    cr_assert_eq(layout_init(&layout, size, rank, host_of), TUTTI_OK);

    const struct group_facts facts = {.layout = &layout,
                                      .mapped = true,
                                      .messages = true,
                                      .local_name = "shm",
                                      .remote_name = "tcp",
                                      .remote_cost = plugin_usual_cost(0)};
    const struct call_fields fields = {.operation = operation, .count = bytes, .dtype = TUTTI_U8};

    count = plan_explain(&facts, &fields, 1, fields.count, ret_candidates);
    layout_free(&layout);
    return count;
}

/* Members that share a host share its network: compositions are taken where that counts. */
Test(plan, a_composition_is_taken_where_the_model_says_that_it_is_faster, .timeout = 60)
{
    static const struct {
        const char *hosts;
        bool always;
    } rows[] = {{"22", true},   {"31", true}, {"13", true},       {"314", false},
                {"5232", true}, {"21", true}, {"1111112", false}, {"88888", true}};
    static const uint8_t operations[] = {
        OPERATION_ALL_REDUCE, OPERATION_BROADCAST, OPERATION_REDUCE,         OPERATION_ALL_GATHER,
        OPERATION_GATHER,     OPERATION_SCATTER,   OPERATION_REDUCE_SCATTER, OPERATION_ALL_TO_ALL};
    struct plan_candidate first[PLAN_CANDIDATES_MAX], last[PLAN_CANDIDATES_MAX];
    int slower = 0;

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++)
        for (size_t o = 0; o < sizeof operations / sizeof operations[0]; o++)
            for (uint64_t bytes = 8; bytes <= 64 << 20; bytes *= 2) {
                const bool taken =
                    candidates_of(rows[r].hosts, 0, operations[o], bytes, first) > 0 &&
                    first[0].plan.algorithm->kind == ALGORITHM_COMPOSED;

                cr_expect(taken || !rows[r].always, "%s, %lu bytes: %s", rows[r].hosts,
                          (unsigned long)bytes, first[0].plan.algorithm->name);
                slower += !taken;
                candidates_of(rows[r].hosts, rows[r].hosts[0] - '0', operations[o], bytes, last);
                cr_expect_eq(first[0].plan.algorithm, last[0].plan.algorithm);
                cr_expect_eq(first[0].estimated_us, last[0].estimated_us,
                             "a member of another host sees another cost of %s",
                             first[0].plan.algorithm->name);
            }
    cr_expect_gt(slower, 0, "there are layouts in which too few share a host");
}

/* Of 65,535 members, the most that can be asked for, and of a few. */
Test(plan, no_size_is_so_absurd_that_its_estimate_is_small_again, .timeout = 300)
{
    static const struct {
        int size, each_host;
    } rows[] = {{2, 1}, {3, 2}, {65535, 65535}, {65535, 32768}, {65535, 16}, {65535, 1}};
    const uint64_t long_enough = UINT64_C(1) << 28; /* no threshold lies above */
    int asked = 0;

    for (size_t r = 0; r < sizeof rows / sizeof rows[0]; r++) {
        struct layout layout;
        int *host_of = calloc((size_t)rows[r].size, sizeof *host_of);

        cr_assert_not_null(host_of);
        for (int i = 0; i < rows[r].size; i++)
            host_of[i] = i / rows[r].each_host;
        cr_assert_eq(layout_init(&layout, rows[r].size, 0, host_of), TUTTI_OK);
        const struct group_facts facts = {.layout = &layout,
                                          .mapped = true,
                                          .messages = true,
                                          .remote_name = "tcp",
                                          .remote_cost = plugin_usual_cost(0)};
        for (int a = 0; a < ALGORITHMS; a++) {
            if (choose_obstacle(&facts, algorithm_table[a]->kind))
                continue;
            uint64_t before = model_estimate(&facts, algorithm_table[a], long_enough);

            asked++;
            for (int bit = 29; bit < 64; bit++) {
                const uint64_t now = model_estimate(&facts, algorithm_table[a], UINT64_C(1) << bit);

                cr_expect_geq(now, before, "%s of %d members: 2^%d bytes cost less than half of it",
                              algorithm_table[a]->name, rows[r].size, bit);
                before = now;
            }
        }
        layout_free(&layout);
        free(host_of);
    }
    cr_expect_gt(asked, ALGORITHMS);
}

static struct cost composed_cost, messages_cost;

static struct cost of_composed(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    (void)bytes;
    return composed_cost;
}

static struct cost of_messages(const struct layout *layout, uint64_t bytes)
{
    (void)layout;
    (void)bytes;
    return messages_cost;
}

/* The last bit decides on every CPU, also where a double has no room for it. */
Test(plan, of_equal_costs_the_composition_is_taken_and_of_others_the_lower, .timeout = 60)
{
    static const struct {
        struct cost composed, messages;
        bool slower;
    } rows[] = {
        {{.hand_overs = 60}, {.messages = 1}, false}, /* 6 us both */
        {{.hand_overs = 60, .reduced_bytes = 1}, {.messages = 1}, true},
        {{.hand_overs = 59, .reduced_bytes = 1}, {.messages = 1}, false},
        {{.reduced_bytes = 1ull << 58}, {.reduced_bytes = 1ull << 58}, false},
        {{.reduced_bytes = (1ull << 58) + 1}, {.reduced_bytes = 1ull << 58}, true},
        {{.reduced_bytes = 1ull << 58}, {.reduced_bytes = (1ull << 58) + 1}, false},
        {{.message_bytes = UINT64_MAX}, {.messages = UINT64_MAX}, false}, /* no end to either */
    };
    static const struct algorithm composed = {.kind = ALGORITHM_COMPOSED, .cost = of_composed};
    static const struct algorithm messages = {.kind = ALGORITHM_MESSAGES, .cost = of_messages};
    const int host_of[3] = {0, 0, 1};
    struct layout layout;

    cr_assert_eq(layout_init(&layout, 3, 0, host_of), TUTTI_OK);
    const struct group_facts facts = {
        .layout = &layout, .remote_name = "tcp", .remote_cost = plugin_usual_cost(0)};

    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        composed_cost = rows[i].composed;
        messages_cost = rows[i].messages;
        cr_expect_eq(model_finds_slower(&facts, &composed, &messages, 8), rows[i].slower, "row %zu",
                     i);
    }
    layout_free(&layout);
}

Test(plan, calls_that_differ_have_different_keys, .timeout = 60)
{
    const struct call_fields a = {
        .count = 8, .dtype = TUTTI_F32, .op = 0, .root = -1, .operation = OPERATION_ALL_REDUCE};
    struct call_fields others[5] = {a, a, a, a, a};

    others[0].count = 9;
    others[1].dtype = TUTTI_F64;
    others[2].op = 1;
    others[3].root = 0;
    others[4].operation = OPERATION_BROADCAST;
    for (int i = 0; i < 5; i++)
        cr_expect_neq(plan_key(&a), plan_key(&others[i]), "%d", i);
    others[0].count = 8;
    cr_expect_eq(plan_key(&a), plan_key(&others[0]));
}
