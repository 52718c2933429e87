/* SPDX-License-Identifier: Apache-2.0 */
/* Groups whose rules (TUTTI_BACKEND) send calls through two backends. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/recorder.h>

#include "harness/rank.h"

enum { LONGEST = 40000 };

static tutti_tensor numbers(int32_t *memory, int64_t *shape, int64_t count, int32_t value)
{
    for (int64_t i = 0; i < count; i++)
        memory[i] = value + (int32_t)i;
    return tutti_tensor_1d(memory, TUTTI_I32, shape, count);
}

static tutti_record last_record(tutti_group *group)
{
    tutti_record record = {0};
    uint32_t count = 0;

    require_ok(tutti_recorder_read(group, &record, sizeof record, 1, &count));
    require(count == 1);
    return record;
}

/* `rule` NULL: none took it. */
static void check_record(tutti_group *group, const char *provider, const char *rule)
{
    const tutti_record record = last_record(group);

    check_str_eq(record.provider, provider);
    check_str_eq(record.rule ? record.rule : "none", rule ? rule : "none");
}

static void reduce_and_check(tutti_group *group, int64_t count, int rank, int size, int round)
{
    static int32_t memory[LONGEST];
    int64_t shape, wrong = 0;
    tutti_tensor t = numbers(memory, &shape, count, rank + round);

    require_ok(tutti_all_reduce(group, &t, TUTTI_SUM, NULL, NULL));
    for (int64_t i = 0; i < count; i++)
        wrong += memory[i] != size * ((int32_t)i + round) + size * (size - 1) / 2;
    check_eq(wrong, 0);
}

static void broadcast_and_check(tutti_group *group, int64_t count, int root, int rank, int round)
{
    static int32_t memory[LONGEST];
    int64_t shape, wrong = 0;
    tutti_tensor t = numbers(memory, &shape, count, rank == root ? round : -1);

    require_ok(tutti_broadcast(group, &t, root, NULL, NULL));
    for (int64_t i = 0; i < count; i++)
        wrong += memory[i] != round + (int32_t)i;
    check_eq(wrong, 0);
}

RANK_CASE(calls_in_any_order_take_the_backend_of_their_rule)
{
    tutti_group *world = rank_init(NULL);
    int32_t word = 0;
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(&word, TUTTI_I32, &shape, 1);

    check_str_eq(tutti_group_backend(world), "shm+tcp");
    for (int round = 0; round < 40; round++) {
        reduce_and_check(world, 1024, rank, size, round);
        check_record(world, "shm", "all_reduce:0-4k=shm");
        reduce_and_check(world, round % 2 ? 1025 : LONGEST, rank, size, round);
        check_record(world, "tcp", "all_reduce=tcp");
        broadcast_and_check(world, 100, round % size, rank, round);
        check_record(world, "shm", NULL);
        broadcast_and_check(world, LONGEST, round % size, rank, round);
        check_record(world, "tcp", "*:64k-=tcp");
        require_ok(tutti_barrier(world, NULL, NULL));
        check_record(world, "tcp", "barrier=tcp");
        word = round;
        require_ok(rank ? tutti_recv(world, &t, 0, 7, NULL, NULL)
                        : tutti_send(world, &t, 1, 7, NULL));
        if (rank == 0)
            for (int r = 2; r < size; r++)
                require_ok(tutti_send(world, &t, r, 7, NULL));
        check_eq(word, round);
        check_record(world, "shm", NULL);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(one_backend_may_stand_for_both_levels_before_rules)
{
    tutti_group *world = rank_init(NULL);

    for (int round = 0; round < 5; round++) {
        reduce_and_check(world, 1024, rank, size, round);
        check_record(world, "shm", "all_reduce:0-4k=shm");
        reduce_and_check(world, LONGEST, rank, size, round);
        check_record(world, "tcp", NULL);
        broadcast_and_check(world, LONGEST, round % size, rank, round);
        check_record(world, "tcp", "broadcast=tcp");
        require_ok(tutti_barrier(world, NULL, NULL));
        check_record(world, "tcp", NULL);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_rule_leads_past_the_memory_of_hosts)
{
    tutti_group *world = rank_init(NULL);

    for (int round = 0; round < 20; round++) {
        reduce_and_check(world, 1024, rank, size, round);
        check_record(world, "shm+tcp", NULL);
        reduce_and_check(world, LONGEST, rank, size, round);
        check_record(world, "tcp", "all_reduce:64k-=tcp");
        broadcast_and_check(world, LONGEST, round % size, rank, round);
        check_record(world, "shm+tcp", "broadcast=auto");
    }
    check_ok(tutti_group_destroy(world));
}

/* Rank 0 sends to all others. */
static void send_and_check(tutti_group *group, int64_t count, int rank, int size, int round)
{
    static int32_t memory[LONGEST];
    int64_t shape, wrong = 0;
    tutti_tensor t = numbers(memory, &shape, count, rank ? -1 : round);

    for (int r = 1; r < size && !rank; r++)
        require_ok(tutti_send(group, &t, r, 7, NULL));
    if (rank)
        require_ok(tutti_recv(group, &t, TUTTI_ANY_SOURCE, 7, NULL, NULL));
    for (int64_t i = 0; i < count; i++)
        wrong += memory[i] != round + (int32_t)i;
    check_eq(wrong, 0);
}

RANK_CASE(rules_bring_further_backends_in)
{
    tutti_group *world = rank_init(NULL);

    check_str_eq(tutti_group_backend(world), "shm+tcp+template");
    for (int round = 0; round < 20; round++) {
        reduce_and_check(world, 1024, rank, size, round);
        check_record(world, "shm", "all_reduce:0-4k=shm");
        reduce_and_check(world, LONGEST, rank, size, round);
        check_record(world, "tcp", "all_reduce=tcp");
        broadcast_and_check(world, 100, round % size, rank, round);
        check_record(world, "shm", NULL);
        broadcast_and_check(world, LONGEST, round % size, rank, round);
        check_record(world, "template", "broadcast:64k-=template");
        require_ok(tutti_barrier(world, NULL, NULL));
        check_record(world, "template", "barrier:local=template,remote=tcp");
        send_and_check(world, round % 2 ? 1 : LONGEST, rank, size, round);
        check_str_eq(last_record(world).rule, "recv=template");
        if (!rank)
            check_str_eq(last_record(world).provider, "template");
    }
    check_ok(tutti_group_destroy(world));
}

/* What serves each kind of call, and by which rule (NULL: none). */
struct served {
    const char *provider, *rule;
};

struct servers {
    const char *backend;
    bool short_too; /* every other call is short */
    struct served reduce, broadcast, barrier;
    const char *last_send; /* of rank 0: to rank 2, its local peer */
};

static void rounds_are_served_by(const struct servers *by, int rank, int size)
{
    tutti_group *world = rank_init(NULL);

    check_str_eq(tutti_group_backend(world), by->backend);
    for (int round = 0; round < 20; round++) {
        const bool is_short = by->short_too && round % 2;

        reduce_and_check(world, is_short ? 1024 : LONGEST, rank, size, round);
        check_record(world, by->reduce.provider, by->reduce.rule);
        broadcast_and_check(world, is_short ? 100 : LONGEST, round % size, rank, round);
        check_record(world, by->broadcast.provider, by->broadcast.rule);
        require_ok(tutti_barrier(world, NULL, NULL));
        check_record(world, by->barrier.provider, by->barrier.rule);
        send_and_check(world, round % 2 ? 1 : LONGEST, rank, size, round);
        if (!rank)
            check_str_eq(last_record(world).provider, by->last_send);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_rule_has_levels_of_its_own)
{
    rounds_are_served_by(
        &(struct servers){.backend = "shm+tcp+template",
                          .reduce = {"tcp", "all_reduce:local=template,remote=tcp"},
                          .broadcast = {"tcp", "broadcast=tcp"},
                          .barrier = {"shm+tcp", NULL},
                          .last_send = "template"},
        rank, size);
}

RANK_CASE(gloo_serves_between_hosts_where_a_rule_says_so)
{
    rounds_are_served_by(
        &(struct servers){.backend = "shm+tcp+gloo",
                          .reduce = {"shm+gloo", "all_reduce:local=shm,remote=gloo"},
                          .broadcast = {"gloo", "broadcast=gloo"},
                          .barrier = {"shm+tcp", NULL},
                          .last_send = "gloo"},
        rank, size);
}

RANK_CASE(gloo_composes_with_shared_memory)
{
    rounds_are_served_by(&(struct servers){.backend = "shm+gloo",
                                           .short_too = true,
                                           .reduce = {"shm+gloo", NULL},
                                           .broadcast = {"shm+gloo", NULL},
                                           .barrier = {"shm+gloo", NULL},
                                           .last_send = "shm"},
                         rank, size);
}

RANK_CASE(a_backend_of_a_rule_that_is_not_there_is_told_alike)
{
    tutti_group *world = NULL;

    check_status(tutti_init(NULL, &world), TUTTI_ERR_PLUGIN);
    check_contains(tutti_last_error(), "backend tpc is not usable on rank 0: unknown backend "
                                       "\"tpc\": did you mean \"tcp\"?");
    (void)rank;
    (void)size;
}

RANK_CASE(calls_that_differ_are_a_mismatch_across_backends)
{
    tutti_group *world = rank_init(NULL);
    static int32_t memory[LONGEST];
    int64_t shape;
    tutti_tensor t = numbers(memory, &shape, rank == 1 ? LONGEST : 4, 1);

    reduce_and_check(world, 8, rank, size, 0);
    check_status(tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 1: all_reduce 40000 x i32");
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

RANK_CASE(rules_that_differ_are_refused_with_both_values)
{
    tutti_group *world = NULL;

    if (rank == 1)
        setenv("TUTTI_BACKEND", "all_reduce:0-8k=shm;all_reduce=tcp", 1);
    check_status(tutti_init(NULL, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: «local=shm,remote=tcp;all_reduce:0-4k=shm;");
    check_contains(tutti_last_error(), "rank 1: «local=shm,remote=tcp;all_reduce:0-8k=shm;");
    (void)size;
}

/* Before any call. */
RANK_CASE(rules_that_cannot_be_kept_are_refused)
{
    tutti_group *world = NULL;

    check_status(tutti_init(NULL, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "the rule all_reduce:0-4k=shm cannot be kept: shm reaches "
                                       "members of one host only, and the members are on 2 hosts");
    (void)rank;
    (void)size;
}
