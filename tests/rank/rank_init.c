/* SPDX-License-Identifier: Apache-2.0 */
/* tutti_init() after tutti_group_destroy(), as programs that make their world anew do it. */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "harness/rank.h"

static int laps(void)
{
    const char *text = getenv("TUTTI_TEST_LAPS");

    return text ? atoi(text) : 20;
}

static void sum_ranks(tutti_group *world, int rank, int size)
{
    int64_t shape = 1, value = rank;
    tutti_tensor tensor = {.data = &value,
                           .device = {TUTTI_DEVICE_CPU, 0},
                           .ndim = 1,
                           .dtype = TUTTI_I64,
                           .shape = &shape};

    require_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    require(value == (int64_t)size * (size - 1) / 2);
}

/* TUTTI_TEST_URL: where rank 0 serves the store; not set: somebody else does. */
RANK_CASE(init_and_destroy_without_a_pause)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.init_url = getenv("TUTTI_TEST_URL");
    options.timeout_ms = 30000;
    for (int i = 0; i < laps(); i++) {
        tutti_group *world = rank_init(&options);

        sum_ranks(world, rank, size);
        require_ok(tutti_group_destroy(world));
    }
}

static unsigned store_port(void)
{
    const char *url = getenv("TUTTI_STORE");
    unsigned port = 0;

    require(url && sscanf(url, "tcp://127.0.0.1:%u", &port) == 1);
    return port;
}

static tutti_store *open_store(void)
{
    tutti_store *store = NULL;

    require_ok(tutti_store_open_tcp("127.0.0.1", (uint16_t)store_port(), 10000, &store));
    return store;
}

/* As a runtime does that makes a context and opens its store for each of its groups. */
RANK_CASE(a_store_that_is_opened_anew_serves_another_world)
{
    for (int i = 0; i < 4; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        options.store = open_store();
        options.rank = rank;
        options.world_size = size;
        options.timeout_ms = 20000;
        require_ok(tutti_context_create(&options.context));
        tutti_group *world = rank_init(&options);

        tutti_store_unref(options.store);
        sum_ranks(world, rank, size);
        require_ok(tutti_group_destroy(world));
        require_ok(tutti_context_destroy(options.context));
    }
}

/* Each rank has another history of inits; the names tell the worlds apart. */
RANK_CASE(pairs_of_three_ranks_meet_by_their_names)
{
    static const struct {
        int low, high;
        const char *name;
    } pairs[] = {{0, 1, "pair01"}, {0, 2, "pair02"}, {1, 2, "pair12"}};
    tutti_store *store = open_store();

    for (int lap = 0; lap < 3; lap++) {
        for (int i = 0; i < 3; i++) {
            tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

            if (rank != pairs[i].low && rank != pairs[i].high)
                continue;
            options.store = store;
            options.rank = rank == pairs[i].high;
            options.world_size = 2;
            options.group_name = pairs[i].name;
            options.timeout_ms = 10000;
            tutti_group *world = rank_init(&options);

            sum_ranks(world, options.rank, 2);
            require_ok(tutti_group_destroy(world));
        }
    }
    tutti_store_unref(store);
}

/* Rank 0 leaves as soon as it may: the others hear of it while they make the group. */
RANK_CASE(a_good_init_leaves_the_last_error_alone)
{
    for (int lap = 0; lap < 8; lap++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
        tutti_group *world = NULL;

        options.timeout_ms = 20000;
        require_ok(tutti_init(&options, &world));
        check_str_eq(tutti_last_error(), lap ? "tutti_group_new: ret_group is NULL" : "");
        check_status(tutti_group_new(world, NULL, 0, NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
        (void)tutti_group_destroy(world);
    }
}

/* The names of two of them would be one part of a key, or more, as they are. */
RANK_CASE(worlds_and_groups_of_any_printable_name_meet)
{
    char long_one[256], long_other[256];
    const char *names[] = {"tp/0", "tp%2F0", "tp", "0/met", long_one, long_other};
    tutti_store *store = open_store();

    memset(long_one, 'x', 255);
    long_one[255] = 0;
    memcpy(long_other, long_one, 256);
    long_other[254] = 'y';
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
        tutti_group_options named = TUTTI_GROUP_OPTIONS_INIT;
        tutti_group *group;

        options.store = store;
        options.rank = rank;
        options.world_size = size;
        options.group_name = named.name = names[i];
        options.timeout_ms = 10000;
        tutti_group *world = rank_init(&options);

        check_str_eq(tutti_group_name(world), names[i]);
        require_ok(tutti_group_new(world, NULL, 0, &named, &group));
        check_str_eq(tutti_group_name(group), names[i]);
        sum_ranks(group, rank, size);
        check_ok(tutti_barrier(world, NULL, NULL)); /* no sum is aborted */
        check_ok(tutti_group_abort(group, "for a test"));
        check_status(tutti_barrier(group, NULL, NULL), TUTTI_ERR_ABORTED);
        check_contains(tutti_last_error(), names[i]);
        check_status(tutti_group_destroy(group), TUTTI_ERR_ABORTED);
        require_ok(tutti_group_destroy(world));
    }
    tutti_store_unref(store);
}

/* ---- members of another version, played by the store ------------------------------------------- */

enum { OTHER_PROTOCOL = 900 };

static void world_key(char ret_key[256], const char *name)
{
    snprintf(ret_key, 256, "tutti/%s/0/0/world/%s", getenv("TUTTI_RUN_ID"), name);
}

static size_t put_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
    return 4;
}

static size_t put_text(uint8_t *at, const char *text)
{
    const size_t size = strlen(text);

    memcpy(at + put_u32(at, (uint32_t)size), text, size);
    return 4 + size;
}

static void expect_both_versions(const char *words)
{
    check_contains(words, "versions of tutti that cannot work together: rank 0: " TUTTI_VERSION);
    check_contains(words, "; rank 2: 9.8.7 (protocol 900)");
}

/* What follows the version in its offer is nobody's business. */
RANK_CASE(a_member_of_another_protocol_is_told_with_both_versions)
{
    uint8_t offer[64];
    char key[256];
    tutti_group *world;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.timeout_ms = 20000;
    if (rank < 2) {
        check_status(tutti_init(&options, &world), TUTTI_ERR_MISMATCH);
        expect_both_versions(tutti_last_error());
        return;
    }
    tutti_store *store = open_store();
    tutti_store_value decision;
    size_t size_of_offer = put_u32(offer, OTHER_PROTOCOL);

    size_of_offer += put_text(offer + size_of_offer, "9.8.7");
    world_key(key, "offer/2");
    require_ok(tutti_store_set(store, key, offer, size_of_offer, 10000));
    world_key(key, "decision/1");
    require_ok(tutti_store_get(store, key, 20000, &decision));
    require(decision.size > 17 && ((uint8_t *)decision.data)[4] == 2); /* to abort */
    expect_both_versions((const char *)decision.data + 17);
    tutti_store_value_free(&decision);
    tutti_store_unref(store);
}

RANK_CASE(a_decision_of_another_protocol_is_named_by_its_number)
{
    uint8_t decision[128];
    char key[256];
    tutti_group *world;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.timeout_ms = 20000;
    if (rank > 0) {
        check_status(tutti_init(&options, &world), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(),
                       "versions of tutti that cannot work together: rank 0 has "
                       "protocol 900");
        return;
    }
    tutti_store *store = open_store();
    size_t used = put_u32(decision, OTHER_PROTOCOL);

    decision[used++] = 2;
    used += put_u32(decision + used, (uint32_t)TUTTI_ERR_MISMATCH);
    used += put_u32(decision + used, 1);
    used += put_text(decision + used, "rank 0: 9.8.7; rank 1: an older one");
    world_key(key, "decision/1");
    require_ok(tutti_store_set(store, key, decision, used, 10000));
    rank_sleep_ms(500); /* the store is the test's */
    tutti_store_unref(store);
}

/* ---- a store of the program's own ---------------------------------------------------------------- */

static tutti_status own_set(void *self, const char *key, const void *data, size_t size,
                            int64_t timeout_ms)
{
    return tutti_store_set(self, key, data, size, timeout_ms ? timeout_ms : 1);
}

static tutti_status own_get(void *self, const char *key, int64_t timeout_ms,
                            tutti_store_value *ret_value)
{
    int32_t present;
    tutti_status status = tutti_store_check(self, &key, 1, timeout_ms ? timeout_ms : 1, &present);

    if (status)
        return status;
    return present ? tutti_store_get(self, key, 10000, ret_value) : TUTTI_ERR_NOT_READY;
}

static tutti_status own_compare_set(void *self, const char *key, const void *expected,
                                    size_t expected_size, const void *desired, size_t desired_size,
                                    int64_t timeout_ms, tutti_store_value *ret_value)
{
    return tutti_store_compare_set(self, key, expected, expected_size, desired, desired_size,
                                   timeout_ms ? timeout_ms : 1, ret_value);
}

static void own_close(void *self)
{
    tutti_store_unref(self);
    rank_point("closed");
}

static int connections_to_the_store(void)
{
    const unsigned port = store_port();
    int count = 0;

    for (int fd = 0; fd < 256; fd++) {
        struct sockaddr_in peer = {.sin_family = 0};
        socklen_t bytes = sizeof peer;

        count += !getpeername(fd, (struct sockaddr *)&peer, &bytes) && peer.sin_family == AF_INET &&
                 ntohs(peer.sin_port) == port;
    }
    return count;
}

RANK_CASE(a_store_of_ones_own_makes_worlds_and_groups)
{
    const tutti_store_ops ops = {.struct_size = sizeof ops,
                                 .set = own_set,
                                 .get = own_get,
                                 .compare_set = own_compare_set,
                                 .close = own_close};
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    require_ok(tutti_store_create(&ops, open_store(), &options.store));
    options.rank = rank;
    options.world_size = size;
    options.timeout_ms = 20000;
    for (int lap = 0; lap < 2; lap++) {
        tutti_group *world = rank_init(&options), *all;

        sum_ranks(world, rank, size);
        require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
        sum_ranks(all, rank, size);
        check_ok(tutti_group_destroy(all));
        check_ok(tutti_group_destroy(world));
    }
    check_eq(connections_to_the_store(), 1);
    tutti_store_unref(options.store);
    check_eq(connections_to_the_store(), 0);
}

/* As where the host pauses while a member, whose deadline has ended, asks which offers are there: until then only
 * that of rank 0 is looked for. */
static tutti_status pausing_get(void *self, const char *key, int64_t timeout_ms,
                                tutti_store_value *ret_value)
{
    static bool has_paused;

    if (has_paused || !strstr(key, "offer/") || strstr(key, "offer/0"))
        return own_get(self, key, timeout_ms, ret_value);
    has_paused = true;
    rank_sleep_ms((int)timeout_ms);
    return TUTTI_ERR_TIMEOUT;
}

RANK_CASE(a_store_that_does_not_answer_in_a_pause_is_asked_again)
{
    const tutti_store_ops ops = {.struct_size = sizeof ops,
                                 .set = own_set,
                                 .get = pausing_get,
                                 .compare_set = own_compare_set};
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_store *store = open_store();
    tutti_group *world;

    if (rank > 0) {
        require_ok(tutti_store_create(&ops, store, &options.store));
        options.rank = rank;
        options.world_size = size;
        options.timeout_ms = 1000;
        check_status(tutti_init(&options, &world), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(),
                       "timed out waiting for rank 0 to decide; missing: rank 0");
        tutti_store_unref(options.store);
    }
    tutti_store_unref(store);
}

/* The late one is late for one group; a second thread of the others makes another one meanwhile. */
struct maker {
    tutti_group *world, *group;
    tutti_status status;
};

static void *make_pair(void *argument)
{
    struct maker *maker = argument;
    static const int32_t pair[] = {0, 1};
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;

    options.name = "pair";
    maker->status = tutti_group_new(maker->world, pair, 2, &options, &maker->group);
    return NULL;
}

RANK_CASE(groups_share_the_connection_of_a_given_store)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *all;

    options.store = open_store();
    options.rank = rank;
    options.world_size = size;
    options.timeout_ms = 20000;
    tutti_group *world = rank_init(&options);
    struct maker maker = {.world = world};
    pthread_t thread;
    tutti_group_options named = TUTTI_GROUP_OPTIONS_INIT;

    named.name = "all";
    if (rank < 2) {
        require(!pthread_create(&thread, NULL, make_pair, &maker));
        const int64_t began = rank_now_ns();

        rank_sleep_ms(100);
        check_eq(connections_to_the_store(), 1);
        require_ok(tutti_group_new(world, NULL, 0, &named, &all));
        check(rank_now_ns() - began > 1000000000);
        pthread_join(thread, NULL);
        check_ok(maker.status);
        check_ok(tutti_group_destroy(maker.group));
    } else {
        rank_sleep_ms(2000);
        require_ok(tutti_group_new(world, NULL, 0, &named, &all));
    }
    sum_ranks(all, rank, size);
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_group_destroy(world));
    tutti_store_unref(options.store);
}
