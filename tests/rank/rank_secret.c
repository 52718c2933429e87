/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets that ranks have or lack, and records that somebody else writes.
 *
 * The somebody is a store of the program's own, in front of the one of the test: it changes what comes out
 * of the keys that a case names.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "harness/rank.h"
#include "port.h"

#define SECRET_A "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define SECRET_B "ff0102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"

static const tutti_init_options in_20_s = {sizeof in_20_s, .timeout_ms = 20000};

static void expect_proof(tutti_group *group, int32_t proof)
{
    tutti_group_info info = {.struct_size = sizeof info};

    require_ok(tutti_group_status(group, &info));
    check_eq(info.proof, proof);
}

static void form_and_end(const tutti_init_options *options, int32_t proof)
{
    tutti_group *world = rank_init(options), *all;

    expect_proof(world, proof);
    require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
    expect_proof(all, proof);
    check_ok(tutti_barrier(all, NULL, NULL));
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_group_destroy(world));
}

/* XDG_CONFIG_HOME becomes a folder of this rank's own, below the one that the test has made. */
static void own_folder(int rank, char ret_path[256])
{
    const char *above = getenv("TUTTI_TEST_FOLDER");

    require(above && snprintf(ret_path, 256, "%s/%d", above, rank) < 256);
    require(!mkdir(ret_path, 0700));
    setenv("XDG_CONFIG_HOME", ret_path, 1);
}

/* ---- who has which ---------------------------------------------------------------------------- */

RANK_CASE(a_rank_with_another_secret_is_named_on_all)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", rank == 2 ? SECRET_B : SECRET_A, 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "members have different secrets: rank 0: TUTTI_SECRET, id ");
    check_contains(tutti_last_error(), "; rank 2: TUTTI_SECRET, id ");
    check_contains(tutti_last_error(), "set TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks");
    check(!strstr(tutti_last_error(), "0405060708"));
}

RANK_CASE(a_rank_without_the_explicit_secret_is_named_on_all)
{
    tutti_group *world;

    if (rank != 1)
        setenv("TUTTI_SECRET", SECRET_A, 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "; rank 1: the user's own file, id ");
}

RANK_CASE(rank_0_without_the_explicit_secret_is_named_on_all)
{
    tutti_group *world;

    if (rank)
        setenv("TUTTI_SECRET", SECRET_A, 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: the user's own file, id ");
    check_contains(tutti_last_error(), "; rank 1: TUTTI_SECRET, id ");
}

/* What a rank with an unusable secret says itself is not believed, but that there is one is. */
RANK_CASE(a_rank_with_an_unusable_secret_is_named_on_all)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", rank == 1 ? "too short" : SECRET_A, 1);
    if (rank == 1) {
        check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
        check_contains(tutti_last_error(), "TUTTI_SECRET has 9 characters");
        return;
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "; rank 1: one that cannot be used");
}

RANK_CASE(rank_0_with_an_unusable_secret_is_named_on_all)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", rank ? SECRET_A : "too short", 1);
    if (!rank) {
        check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
        check_contains(tutti_last_error(), "TUTTI_SECRET has 9 characters");
        return;
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: one that cannot be used");
}

/* The server of rank 0 is there until all have heard it. */
RANK_CASE(an_unusable_secret_of_rank_0_is_named_where_it_serves_the_store)
{
    tutti_group *outside = rank_init(&in_20_s), *world;
    tutti_init_options options = in_20_s;
    char url[INNER_URL];

    meet_at_rank_0(outside, &options, url);
    setenv("TUTTI_SECRET", rank ? SECRET_A : "too short", 1);
    check_status(tutti_init(&options, &world),
                 rank ? TUTTI_ERR_MISMATCH : TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(),
                   rank ? "rank 0: one that cannot be used" : "TUTTI_SECRET has 9 characters");
    check_ok(tutti_barrier(outside, NULL, NULL));
    check_ok(tutti_group_destroy(outside));
}

/* Each says what is wrong with its own. */
RANK_CASE(unusable_secrets_are_told_by_each_rank)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", "too short", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_SECRET has 9 characters");
}

RANK_CASE(an_explicit_secret_proves_all)
{
    setenv("TUTTI_SECRET", SECRET_A, 1);
    form_and_end(&in_20_s, TUTTI_PROOF_VARIABLE);
}

/* The last one is another user, whom nobody gives memory. */
RANK_CASE(ranks_of_two_users_talk_over_tcp)
{
    enum { ANOTHER_USER = 54321 };
    tutti_group_info info = {.struct_size = sizeof info};

    if (rank == size - 1)
        require(!setgid(ANOTHER_USER) && !setuid(ANOTHER_USER));
    tutti_group *world = rank_init(&in_20_s);
    require_ok(tutti_group_status(world, &info));
    check_eq(info.proof, TUTTI_PROOF_VARIABLE);
    check_eq(info.local_size, rank == size - 1 ? 1 : size - 1);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(ranks_make_their_users_file_together)
{
    form_and_end(&in_20_s, TUTTI_PROOF_OWN_FILE);
}

RANK_CASE(different_files_on_one_host_are_refused)
{
    char folder[256];
    tutti_group *world;

    own_folder(rank, folder);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: the user's own file, id ");
    check_contains(tutti_last_error(), "; rank 1: the user's own file, id ");
}

/* The harness gives each rank a namespace as its host. */
RANK_CASE(different_files_on_several_hosts_make_an_open_group)
{
    char folder[256];

    own_folder(rank, folder);
    form_and_end(&in_20_s, TUTTI_PROOF_NONE);
}

RANK_CASE(different_files_are_refused_where_a_rank_requires_proof)
{
    char folder[256];
    tutti_group *world;

    own_folder(rank, folder);
    if (rank == 1)
        setenv("TUTTI_AUTH", "required", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "members have different secrets: rank 0: ");
}

RANK_CASE(without_a_home_the_group_is_open)
{
    setenv("XDG_CONFIG_HOME", "/proc/tutti", 1);
    form_and_end(&in_20_s, TUTTI_PROOF_NONE);
}

RANK_CASE(without_a_home_required_proof_is_refused)
{
    tutti_group *world;

    setenv("XDG_CONFIG_HOME", "/proc/tutti", 1);
    setenv("TUTTI_AUTH", "required", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_AUTH=required, and rank ");
}

/* A world keeps the secret that it began with. The next one of the same run would have another. */
RANK_CASE(a_secret_that_is_replaced_changes_no_running_job)
{
    char path[256], other[300];
    tutti_group *world = rank_init(&in_20_s), *all;

    require(snprintf(path, sizeof path, "%s/tutti/secret", getenv("XDG_CONFIG_HOME")) < 256);
    if (rank == 0) {
        snprintf(other, sizeof other, "%s.new", path);
        FILE *file = fopen(other, "w");

        require(file != NULL);
        require(!chmod(other, 0600));
        fputs(SECRET_B "\n", file);
        require(!fclose(file) && !rename(other, path));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
    check_ok(tutti_barrier(all, NULL, NULL));
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_group_destroy(world));
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(),
                   "the secret was replaced since, or another job uses this store");
}

/* ---- records that somebody else writes -------------------------------------------------------- */

static const char *tampered; /* a part of the keys whose values change */

static void tamper(const char *key, tutti_store_value *value)
{
    if (tampered && strstr(key, tampered) && value->size > 8)
        ((uint8_t *)value->data)[8] ^= 1; /* of the body */
}

static tutti_status set(void *self, const char *key, const void *data, size_t size,
                        int64_t timeout_ms)
{
    return tutti_store_set(self, key, data, size, timeout_ms ? timeout_ms : 1);
}

static tutti_status get(void *self, const char *key, int64_t timeout_ms,
                        tutti_store_value *ret_value)
{
    int32_t present;
    tutti_status status = tutti_store_check(self, &key, 1, timeout_ms ? timeout_ms : 1, &present);

    if (status || !present)
        return status ? status : TUTTI_ERR_NOT_READY;
    status = tutti_store_get(self, key, 10000, ret_value);
    if (!status)
        tamper(key, ret_value);
    return status;
}

static tutti_status compare_set(void *self, const char *key, const void *expected,
                                size_t expected_size, const void *desired, size_t desired_size,
                                int64_t timeout_ms, tutti_store_value *ret_value)
{
    const tutti_status status =
        tutti_store_compare_set(self, key, expected, expected_size, desired, desired_size,
                                timeout_ms ? timeout_ms : 1, ret_value);

    if (!status)
        tamper(key, ret_value);
    return status;
}

static tutti_store *open_plain(void)
{
    unsigned port = 0;
    const char *url = getenv("TUTTI_STORE");
    tutti_store *store = NULL;

    require(url && sscanf(url, "tcp://127.0.0.1:%u", &port) == 1);
    require_ok(tutti_store_open_tcp("127.0.0.1", (uint16_t)port, 10000, &store));
    return store;
}

static void close_plain(void *self)
{
    tutti_store_unref(self);
}

/* All ranks see the change, or only `victim`. */
static void expect_named(int rank, int size, int victim, const char *key, const char *words)
{
    const tutti_store_ops ops = {.struct_size = sizeof ops,
                                 .set = set,
                                 .get = get,
                                 .compare_set = compare_set,
                                 .close = close_plain};
    tutti_init_options options = in_20_s;
    tutti_group *world;

    tampered = victim < 0 || victim == rank ? key : NULL;
    setenv("TUTTI_SECRET", SECRET_A, 1);
    options.rank = rank;
    options.world_size = size;
    require_ok(tutti_store_create(&ops, open_plain(), &options.store));
    check_status(tutti_init(&options, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(), words);
    check_contains(tutti_last_error(), "has no valid seal of this job's secret (TUTTI_SECRET, id ");
    tutti_store_unref(options.store);
}

RANK_CASE(a_changed_offer_is_named_on_all)
{
    expect_named(rank, size, 0, "/offer/2", "the offer of rank 2 in the store, key \"/");
}

RANK_CASE(a_changed_decision_is_named_on_all)
{
    expect_named(rank, size, 1, "/decision/1", "the decision of rank 0 in the store, key \"/");
}

RANK_CASE(a_changed_outcome_is_named_on_all)
{
    expect_named(rank, size, -1, "/outcome/", "the outcome in the store, key \"/");
}

static void world_key(char ret_key[256], const char *name)
{
    snprintf(ret_key, 256, "tutti/%s/0/0/world/%s", getenv("TUTTI_RUN_ID"), name);
}

/* Rank 2 has no secret, and reaches the store. */
static void write_as_stranger(const char *from, const char *to)
{
    tutti_store *store = open_plain();
    tutti_store_value value;
    char key[256];

    world_key(key, from);
    require_ok(tutti_store_get(store, key, 20000, &value));
    world_key(key, to);
    require_ok(tutti_store_set(store, key, value.data, value.size, 10000));
    tutti_store_value_free(&value);
    tutti_store_unref(store);
}

RANK_CASE(an_offer_copied_by_a_stranger_is_named_on_all)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", SECRET_A, 1);
    if (rank == 2) {
        write_as_stranger("offer/1", "offer/2");
        return;
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(), "the offer of rank 2 in the store, key \"/");
    check_contains(tutti_last_error(), "somebody who is no member writes to the store");
}

/* A decision that looks like a good one, from what a stranger sees of this run. */
RANK_CASE(a_decision_written_by_a_stranger_is_named_on_all)
{
    tutti_group *world;

    setenv("TUTTI_SECRET", SECRET_A, 1);
    if (rank == 0) {
        write_as_stranger("offer/2", "decision/1");
        rank_await("go");
        return;
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(), "the decision of rank 0 in the store, key \"/");
    rank_point("refused");
}

RANK_CASE(a_count_written_by_a_stranger_is_named_on_all)
{
    tutti_group *world;
    char key[256];

    setenv("TUTTI_SECRET", SECRET_A, 1);
    if (rank == 1) {
        tutti_store *store = open_plain();

        snprintf(key, sizeof key, "tutti/%s/0/met/world/1", getenv("TUTTI_RUN_ID"));
        require_ok(tutti_store_set(store, key, "7 a b", 5, 10000));
        tutti_store_unref(store);
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(),
                   "met/world/1\" in the store was not written with this rank's "
                   "secret (TUTTI_SECRET, id ");
}

/* Under `tutti run`: rank 2 has its secret, but is not the launcher. */
RANK_CASE(an_end_told_by_a_stranger_is_named_on_all)
{
    tutti_group *world;

    if (rank == 2) {
        tutti_store *store = open_plain();

        require_ok(tutti_store_append(store, "tutti/run/ended", "\4\0\0\0rank", 8, 10000));
        tutti_store_unref(store);
        rank_sleep_ms(2000);
        return;
    }
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_STORE);
    check_contains(tutti_last_error(),
                   "the key \"/tutti/run/ended\" in the store has an entry that the "
                   "launcher did not write");
}
