/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank of the sweep: one call of each kind after the other, until one fails; then what a program does
 * that meets an error: it keeps the words, destroys what it has, and ends. It tells where it ended and
 * with which words, how long the slowest call took, and what it has left behind.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"
#include "sweep/nth_call.h"

enum { SMALL = 8, LARGE = 1 << 17, TIMEOUT_MS = 8000 };

static struct {
    const char *stage; /* where the first failure was; NULL: nowhere */
    tutti_status status;
    char words[1024];
    int64_t slowest_ns, began_ns;
    const char *slowest;
} told;

static bool went(const char *stage, tutti_status status)
{
    const int64_t took = rank_now_ns() - told.began_ns;

    if (took > told.slowest_ns) {
        told.slowest_ns = took;
        told.slowest = stage;
    }
    told.began_ns = rank_now_ns();
    if (status && !told.stage) {
        told.stage = stage;
        told.status = status;
        snprintf(told.words, sizeof told.words, "%s", tutti_last_error());
    }
    return !status;
}

static int entries_of(const char *folder)
{
    DIR *dir = opendir(folder);
    int count = 0;

    while (dir && readdir(dir))
        count++;
    if (dir)
        closedir(dir);
    return count;
}

/* ---- the calls ---- */

static float *small_in, *small_out, *large_in, *large_out;

static bool reduce_all(tutti_group *group, const char *stage, float *data, int64_t count)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(data, TUTTI_F32, &shape, count);

    for (int64_t i = 0; i < count; i++)
        data[i] = 1;
    if (!went(stage, tutti_all_reduce(group, &t, TUTTI_SUM, NULL, NULL)))
        return false;
    check_eq(data[count - 1], tutti_group_size(group));
    return true;
}

static bool exchange_all(tutti_group *group, const char *stage, int64_t each)
{
    const int32_t size = tutti_group_size(group);
    int64_t shapes[2];
    tutti_tensor in = tutti_tensor_1d(large_in, TUTTI_F32, &shapes[0], each * size);
    tutti_tensor out = tutti_tensor_1d(large_out, TUTTI_F32, &shapes[1], each * size);

    return went(stage, tutti_all_to_all(group, &in, &out, NULL, NULL));
}

static bool send_round(tutti_group *group, const char *stage, float *data, int64_t count)
{
    const int32_t rank = tutti_group_rank(group), size = tutti_group_size(group);
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(data, TUTTI_F32, &shape, count);
    const int32_t right = (rank + 1) % size, left = (rank + size - 1) % size;

    if (!rank && !went(stage, tutti_send(group, &t, right, 1, NULL)))
        return false;
    if (!went(stage, tutti_recv(group, &t, left, 1, NULL, NULL)))
        return false;
    return !rank || went(stage, tutti_send(group, &t, right, 1, NULL));
}

static bool exchange_works(tutti_group *group, const char *stage, int64_t count)
{
    const int32_t rank = tutti_group_rank(group), size = tutti_group_size(group);
    int64_t shapes[2];
    tutti_tensor in = tutti_tensor_1d(large_in, TUTTI_F32, &shapes[0], count);
    tutti_tensor out = tutti_tensor_1d(large_out, TUTTI_F32, &shapes[1], count);
    tutti_work *works[3] = {NULL};

    tutti_status status = tutti_isend(group, &in, (rank + 1) % size, 2, NULL, &works[0]);
    if (!status)
        status = tutti_irecv(group, &out, (rank + size - 1) % size, 2, NULL, &works[1]);
    return went(stage, rank_end_works(works, 2, status));
}

static bool reduce_work(tutti_group *group, const char *stage)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(small_in, TUTTI_F32, &shape, SMALL);
    tutti_work *work = NULL;

    tutti_status status = tutti_all_reduce(group, &t, TUTTI_SUM, NULL, &work);
    return went(stage, rank_end_works(&work, work ? 1 : 0, status));
}

static bool broadcast(tutti_group *group, const char *stage, float *data, int64_t count)
{
    int64_t shape;
    tutti_tensor t = tutti_tensor_1d(data, TUTTI_F32, &shape, count);

    return went(stage, tutti_broadcast(group, &t, 0, NULL, NULL));
}

static bool use_subgroups(tutti_group *world)
{
    tutti_group *made = NULL, *part = NULL;
    const int32_t ranks[] = {1, 0};

    bool good = went("group_new", tutti_group_new(world, ranks, 2, NULL, &made));
    if (good && made)
        good = reduce_all(made, "all_reduce_of_group", small_in, SMALL);
    if (made)
        good &= went("group_destroy", tutti_group_destroy(made));
    good = good && went("split", tutti_group_split(world, 0, 0, NULL, &part));
    if (part) {
        good = good && went("barrier_of_split", tutti_barrier(part, NULL, NULL));
        good &= went("split_destroy", tutti_group_destroy(part));
    }
    return good;
}

static bool make_calls(tutti_group *world)
{
    return went("barrier", tutti_barrier(world, NULL, NULL)) &&
           reduce_all(world, "all_reduce_small", small_in, SMALL) &&
           reduce_all(world, "all_reduce_large", large_in, LARGE) &&
           broadcast(world, "broadcast_small", small_out, SMALL) &&
           broadcast(world, "broadcast_large", large_out, LARGE) &&
           exchange_all(world, "all_to_all_small", 2) &&
           exchange_all(world, "all_to_all_large", LARGE / 4) &&
           send_round(world, "send_recv_small", small_in, SMALL) &&
           send_round(world, "send_recv_large", large_in, LARGE) &&
           exchange_works(world, "isend_small", SMALL) &&
           exchange_works(world, "isend_large", LARGE) && reduce_work(world, "work") &&
           use_subgroups(world) && went("last_barrier", tutti_barrier(world, NULL, NULL));
}

/* ---- what it tells ---- */

static void *of_preload(const char *name)
{
    return dlsym(RTLD_DEFAULT, name);
}

static void tell_calls(void)
{
    long (*calls)(int) = (long (*)(int))(uintptr_t)of_preload("nth_calls");
    int function = 0;

    if (!calls || !getenv("NTH_TELL"))
        return;
#define TELL(name, returns) rank_value("calls_" #name, "%ld", calls(function++));
    NTH_FUNCTIONS(TELL)
#undef TELL
}

static void tell(int fds, int threads)
{
    bool (*failed)(void) = (bool (*)(void))(uintptr_t)of_preload("nth_failed");
    long (*live)(void) = (long (*)(void))(uintptr_t)of_preload("nth_live");

    rank_value("failed", "%d", failed && failed());
    rank_value("live", "%ld", live ? live() : 0);
    rank_value("left", "%d %d", fds, threads);
    rank_value("slowest", "%lld %s", (long long)(told.slowest_ns / 1000000), told.slowest);
    if (told.stage) {
        rank_value("stage", "%s", told.stage);
        rank_value("status", "%s", tutti_status_name(told.status));
        rank_value("words", "%s", told.words);
    }
}

RANK_CASE(each_kind_of_call)
{
    tutti_init_options options = {.struct_size = sizeof options, .timeout_ms = TIMEOUT_MS};
    tutti_group *world = NULL;

    small_in = calloc(SMALL, sizeof(float));
    small_out = calloc(SMALL, sizeof(float));
    large_in = calloc(LARGE, sizeof(float));
    large_out = calloc(LARGE, sizeof(float));
    require(small_in && small_out && large_in && large_out);

    const int fds = entries_of("/proc/self/fd"), threads = entries_of("/proc/self/task");
    told.began_ns = rank_now_ns();
    if (went("init", tutti_init(&options, &world)))
        (void)make_calls(world);
    (void)went("destroy", tutti_group_destroy(world));
    tell_calls();
    tell(entries_of("/proc/self/fd") - fds, entries_of("/proc/self/task") - threads);
    free(small_in);
    free(small_out);
    free(large_in);
    free(large_out);
}
