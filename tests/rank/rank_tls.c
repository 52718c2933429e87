/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that encrypt what they send, or do not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/rank.h"

#include "known_bytes.h"

static const tutti_init_options in_20_s = {sizeof in_20_s, .timeout_ms = 20000};

static void expect_encryption(tutti_group *group, int32_t encryption)
{
    tutti_group_info info = {.struct_size = sizeof info};

    require_ok(tutti_group_status(group, &info));
    check_eq(info.encryption, encryption);
}

static tutti_tensor bytes_of(uint8_t *data, int64_t *count)
{
    return (tutti_tensor){.data = data,
                          .device = {TUTTI_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = TUTTI_U8,
                          .shape = count};
}

static void fill(uint8_t *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        data[i] = (uint8_t)known_bytes[i % KNOWN_BYTES];
}

static void expect_filled(const uint8_t *data, int64_t count)
{
    for (int64_t i = 0; i < count; i++)
        if (data[i] != (uint8_t)known_bytes[i % KNOWN_BYTES]) {
            check_eq(i, -1);
            return;
        }
}

/* Around the ring. */
static void pass_on(tutti_group *world, int rank, int size, int64_t count)
{
    uint8_t *out = malloc((size_t)count), *in = calloc((size_t)count, 1);
    tutti_tensor sent = bytes_of(out, &count), received = bytes_of(in, &count);
    tutti_work *works[3] = {NULL};

    require(out && in);
    fill(out, count);
    require_ok(tutti_isend(world, &sent, (rank + 1) % size, 7, NULL, &works[0]));
    require_ok(tutti_irecv(world, &received, (rank + size - 1) % size, 7, NULL, &works[1]));
    check_ok(rank_end_works(works, 2, TUTTI_OK));
    expect_filled(in, count);
    free(out);
    free(in);
}

static void share(tutti_group *world, int rank, int64_t count)
{
    uint8_t *data = calloc((size_t)count, 1);
    tutti_tensor tensor = bytes_of(data, &count);

    require(data);
    if (!rank)
        fill(data, count);
    check_ok(tutti_broadcast(world, &tensor, 0, NULL, NULL));
    expect_filled(data, count);
    if (rank)
        memset(data, 0, (size_t)count);
    check_ok(tutti_all_reduce(world, &tensor, TUTTI_MAX, NULL, NULL));
    expect_filled(data, count);
    free(data);
}

/* Messages and collectives, short and long ones, of bytes that the test looks for on the network. */
RANK_CASE(known_bytes_are_sent)
{
    const char *tls = getenv("TUTTI_TLS");
    tutti_group *world = rank_init(&in_20_s), *all;

    expect_encryption(world,
                      tls && !strcmp(tls, "1") ? TUTTI_ENCRYPTION_FULL : TUTTI_ENCRYPTION_NONE);
    rank_point("open");
    rank_await("go");
    for (int64_t count = KNOWN_BYTES; count <= 256 << 10; count *= 8) {
        pass_on(world, rank, size, count);
        share(world, rank, count);
    }
    require_ok(tutti_group_new(world, NULL, 0, NULL, &all));
    share(all, rank, KNOWN_BYTES);
    check_ok(tutti_group_destroy(all));
    check_ok(tutti_group_destroy(world));
}

/* More than sockets take at once, in both directions. */
RANK_CASE(long_messages_are_whole)
{
    tutti_group *world = rank_init(&in_20_s);

    expect_encryption(world, TUTTI_ENCRYPTION_FULL);
    for (int lap = 0; lap < 3; lap++) {
        pass_on(world, rank, size, (8 << 20) + lap * 1001);
        share(world, rank, (2 << 20) + lap * 77);
    }
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(ranks_that_disagree_are_refused)
{
    tutti_group *world;

    setenv("TUTTI_TLS", rank == 2 ? "0" : "1", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(),
                   "members disagree about TUTTI_TLS: rank 0: «1»; rank 2: «0»; it must be the "
                   "same on all");
}

RANK_CASE(a_wrong_value_is_refused)
{
    tutti_group *world;

    setenv("TUTTI_TLS", "maybe", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_TLS=maybe is not valid: use 0, 1 or where-possible");
}

/* Starts this program once more, and the loader looks for libraries in the folder first. */
static void look_for_libraries_in(const char *folder, const char *case_name)
{
    if (getenv("LD_LIBRARY_PATH"))
        return;
    setenv("LD_LIBRARY_PATH", folder, 1);
    execl("/proc/self/exe", "rank_tls", case_name, (char *)NULL);
    require(false);
}

/* The last rank, or all. In the folder is a libssl that cannot be loaded. */
RANK_CASE(a_libssl_that_is_missing_is_told_to_all)
{
    const char *folder = getenv("TUTTI_TEST_LIBRARIES"), *all = getenv("TUTTI_TEST_ALL");
    tutti_group *world;
    char words[128];

    require(folder);
    snprintf(words, sizeof words, "TUTTI_TLS needs OpenSSL's libssl: %s/libssl.so.3: ", folder);
    if (all || rank == size - 1)
        look_for_libraries_in(folder, "a_libssl_that_is_missing_is_told_to_all");
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_SYSTEM);
    check_contains(tutti_last_error(), words);
}

/* There is no place for the user's own file. */
RANK_CASE(an_open_group_is_refused)
{
    tutti_group *world;

    setenv("XDG_CONFIG_HOME", "/proc/tutti", 1);
    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "TUTTI_TLS=1, and rank ");
    check_contains(tutti_last_error(), "set TUTTI_SECRET_FILE or TUTTI_SECRET alike on all ranks");
}

RANK_CASE(an_open_group_is_encrypted_in_part)
{
    setenv("XDG_CONFIG_HOME", "/proc/tutti", 1);
    tutti_group *world = rank_init(&in_20_s);

    expect_encryption(world, TUTTI_ENCRYPTION_PARTLY);
    share(world, rank, 1000);
    check_ok(tutti_group_destroy(world));
}

/* Between hosts; inside one it carries what it likes. */
RANK_CASE(a_backend_that_cannot_encrypt_is_refused)
{
    tutti_group *world;

    check_status(tutti_init(&in_20_s, &world), TUTTI_ERR_UNSUPPORTED);
    check_contains(tutti_last_error(), "TUTTI_TLS=1, and backend ");
    check_contains(tutti_last_error(),
                   " does not encrypt what it sends between hosts; use tcp there");
}

RANK_CASE(a_backend_that_cannot_encrypt_is_used)
{
    const char *expected = getenv("TUTTI_TEST_ENCRYPTION");
    tutti_group *world = rank_init(&in_20_s);

    require(expected);
    expect_encryption(world, atoi(expected));
    share(world, rank, 100000);
    check_ok(tutti_group_destroy(world));
}
