/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of UCC that a caller has to know beside what collectives compute: who waits for whom, what is
 * refused and when, and what becomes of operations that cannot end.
 */
#include "ucc_play.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static ucci_buffer even(void *buffer, size_t count, uint64_t datatype)
{
    return (ucci_buffer){
        .buffer = buffer, .count = count, .datatype = datatype, .memory = UCCI_MEMORY_HOST};
}

static ucci_coll_args reduction(uint32_t kind, uint64_t datatype, uint32_t op, void *src, void *dst,
                                size_t count)
{
    return (ucci_coll_args){.coll_type = kind,
                            .op = op,
                            .src.even = even(src, count, datatype),
                            .dst.even = even(dst, count, datatype)};
}

static ucci_coll_args broadcast(uint32_t root, void *buffer, size_t bytes)
{
    return (ucci_coll_args){
        .coll_type = UCCI_BCAST, .root = root, .src.even = even(buffer, bytes, UCCI_UINT8)};
}

/* Waits until a member's flag has the value. */
static void await(struct player *player, uint32_t member, uint64_t value)
{
    const double until = now_s() + WAIT_S;

    while (atomic_load(&player->board->flags[member]) < value) {
        CHECK(player, now_s() < until, "waited for member %u", member);
        sched_yield();
    }
}

static void raise_flag(struct player *player, uint64_t value)
{
    atomic_store(&player->board->flags[player->rank], value);
}

static void barrier(struct player *player)
{
    ucci_coll_args args = {.coll_type = UCCI_BARRIER};

    perform(player, player->world, &args);
}

/* ---- what is gathered, and how often -------------------------------------------------------- */

void play_rounds(struct player *player)
{
    const uint64_t begin = player->size == 1 ? 0 : 2, team = player->size == 1 ? 0 : 1;

    CHECK(player, player->for_context.rounds >= begin && player->for_context.rounds <= 3 * team,
          "a context gathered %d times", (int)player->for_context.rounds);
    CHECK(player, player->for_world.rounds == team, "a team gathered %d times",
          (int)player->for_world.rounds);
    barrier(player);
    const uint64_t before = player->for_context.rounds;

    end_world(player);
    CHECK(player, player->for_context.rounds == before + team,
          "the end of a context gathered %d times", (int)(player->for_context.rounds - before));
    player->ended = true;
}

/* ---- what is refused ------------------------------------------------------------------------ */

void play_refusals(struct player *player)
{
    uint32_t in[64] = {0}, out[64];
    ucci_coll_args args = {.coll_type = UCCI_SCATTER,
                           .src.even = even(in, player->size, UCCI_UINT32),
                           .dst.even = even(out, 1, UCCI_UINT32)};
    ucci_request *request = NULL;
    ucci_status status = library.collective_init(&args, &request, player->world);

    CHECK(player, player->size == 1 || status == UCCI_ERR_NOT_SUPPORTED, "scatter: %s",
          library.status_string(status));
    for (unsigned i = 0; i < 2 && player->size > 1; i++) {
        args.coll_type = i ? UCCI_ALLTOALLV : UCCI_ALLTOALL;
        args.mask = UCCI_ARGS_FIELD_FLAGS;
        args.flags = UCCI_FLAG_IN_PLACE;
        status = library.collective_init(&args, &request, player->world);
        CHECK(player, status == UCCI_ERR_NOT_SUPPORTED, "alltoall in place: %s",
              library.status_string(status));
    }

    /* One in flight cannot be given back; member 0 keeps the others waiting. */
    ucci_coll_args meet = {.coll_type = UCCI_BARRIER};

    if (player->rank == 0)
        await(player, player->size - 1, player->size > 1);
    request = begin(player, player->world, &meet);
    if (player->rank == player->size - 1 && player->size > 1) {
        CHECK(player, request->status == UCCI_INPROGRESS, "a barrier that is alone ended");
        CHECK(player, library.collective_finalize(request) == UCCI_ERR_INVALID_PARAM,
              "an operation in progress was taken back");
        raise_flag(player, 1);
    }
    CHECK(player, finish(player, request, WAIT_S) == UCCI_OK, "barrier");
    CHECK(player, library.collective_finalize(request) == UCCI_OK, "finalize");
}

/* ---- who waits for whom --------------------------------------------------------------------- */

/* What moves no bytes ends where it is posted, also alone. */
void play_empty(struct player *player)
{
    static const uint32_t kinds[] = {UCCI_ALLREDUCE, UCCI_REDUCE, UCCI_ALLGATHER,
                                     UCCI_GATHER,    UCCI_BCAST,  UCCI_ALLTOALL};
    uint32_t nothing;

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds && player->rank == 0; i++) {
        ucci_coll_args args = reduction(kinds[i], UCCI_UINT32, UCCI_SUM, &nothing, &nothing, 0);
        ucci_request *request = begin(player, player->world, &args);

        CHECK(player, finish(player, request, 0) == UCCI_OK, "an empty operation %#x waits",
              kinds[i]);
        CHECK(player, library.collective_finalize(request) == UCCI_OK, "finalize");
    }
    barrier(player);
}

/* A root that has little to give does not wait, and operations end in another order than they began. */
void play_order(struct player *player)
{
    enum { MANY = 16 };
    const uint32_t last = player->size - 1;
    uint8_t bytes[MANY][32], late = 0;
    ucci_request *requests[MANY];

    memset(bytes, (int)player->rank, sizeof bytes);
    ucci_coll_args args = broadcast(0, &late, 1);

    if (player->rank == 0) {
        late = 77;
        perform(player, player->world, &args); /* while no other member has come */
        raise_flag(player, 1);
    } else {
        await(player, 0, 1);
        perform(player, player->world, &args);
    }
    CHECK(player, late == 77, "a byte was %d", late);

    /* Every other one has its root at the end, which comes to them last. */
    for (unsigned i = 0; i < MANY; i++) {
        args = broadcast(i % 2 ? last : 0, bytes[i], sizeof bytes[i]);
        requests[i] = begin(player, player->world, &args);
        if (player->rank == last && last > 0 && i == 0)
            await(player, 0, 2);
        if (player->rank == 0 && i == 0)
            raise_flag(player, 2);
    }
    for (unsigned i = MANY; i-- > 0;) {
        CHECK(player, finish(player, requests[i], WAIT_S) == UCCI_OK, "broadcast %u", i);
        CHECK(player, library.collective_finalize(requests[i]) == UCCI_OK, "finalize");
        CHECK(player, bytes[i][31] == (i % 2 ? last : 0), "broadcast %u has %d", i, bytes[i][31]);
    }
}

/* ---- teams of some -------------------------------------------------------------------------- */

/* Teams of one, of the even and of the odd members, and of all, with operations of all in flight at once. */
void play_teams(struct player *player)
{
    const uint32_t odd = player->rank % 2;
    struct gatherer alone = {.channel = &player->board->channels[2], .members = 1};
    struct gatherer half = {.channel = &player->board->channels[3 + odd],
                            .members = (player->size + 1 - odd) / 2,
                            .place = player->rank / 2};
    struct gatherer all = {
        .channel = &player->board->channels[5], .members = player->size, .place = player->rank};
    ucci_team_h teams[4] = {player->world, make_team(player, &alone), make_team(player, &half),
                            make_team(player, &all)};
    const uint32_t sizes[4] = {player->size, 1, half.members, player->size};

    for (unsigned round = 0; round < 50; round++) {
        uint32_t in[4], out[4];
        ucci_request *requests[4];

        for (unsigned t = 0; t < 4; t++) {
            in[t] = round + t;
            ucci_coll_args args =
                reduction(UCCI_ALLREDUCE, UCCI_UINT32, UCCI_SUM, &in[t], &out[t], 1);
            requests[t] = begin(player, teams[t], &args);
        }
        for (unsigned t = 0; t < 4; t++) {
            CHECK(player, finish(player, requests[t], WAIT_S) == UCCI_OK, "team %u", t);
            CHECK(player, library.collective_finalize(requests[t]) == UCCI_OK, "finalize");
            CHECK(player, out[t] == sizes[t] * in[t], "the sum of team %u is %u", t, out[t]);
        }
    }
    for (unsigned t = 1; t < 4; t++)
        CHECK(player, library.team_destroy(teams[t]) == UCCI_OK, "team_destroy");
    barrier(player);
}

/* ---- two threads ---------------------------------------------------------------------------- */

struct thread {
    struct player *player;
    ucci_team_h team;
    pthread_t id;
};

/* Each moves the context, and with it also the operations of the other. */
static void *sum_often(void *self)
{
    const struct thread *thread = self;

    for (uint32_t i = 0; i < 300; i++) {
        uint32_t out = 0;
        ucci_coll_args args = reduction(UCCI_ALLREDUCE, UCCI_UINT32, UCCI_SUM, &i, &out, 1);

        perform(thread->player, thread->team, &args);
        CHECK(thread->player, out == i * thread->player->size, "sum %u is %u", i, out);
    }
    return NULL;
}

void play_threads(struct player *player)
{
    ucci_lib_attr attr = {.mask = UCCI_LIB_FIELD_THREAD_MODE};
    struct gatherer second = {
        .channel = &player->board->channels[2], .members = player->size, .place = player->rank};
    struct thread threads[2] = {{.player = player, .team = player->world}, {.player = player}};

    CHECK(player, library.lib_get_attr(player->lib, &attr) == UCCI_OK, "lib_get_attr");
    CHECK(player, attr.thread_mode == UCCI_THREAD_MULTIPLE, "thread mode %u", attr.thread_mode);
    threads[1].team = make_team(player, &second);
    for (int t = 0; t < 2; t++)
        CHECK(player, pthread_create(&threads[t].id, NULL, sum_often, &threads[t]) == 0,
              "no thread");
    for (int t = 0; t < 2; t++)
        pthread_join(threads[t].id, NULL);
    CHECK(player, library.team_destroy(threads[1].team) == UCCI_OK, "team_destroy");
    barrier(player);
}

/* ---- what cannot end ------------------------------------------------------------------------ */

/*
 * A sum that UCC cannot compute, of which it says nothing at init. A short one ends with OK and another
 * result; a long one does not end. In both, a member may get an error when it posts.
 */
void play_spoilt(struct player *player)
{
    enum { LONGEST = 1 << 20 };
    const uint16_t one = 0x3c00, sum[] = {0, one, 0x4000, 0x4200, 0x4400};
    uint16_t *in = calloc(1, LONGEST), *out = calloc(1, LONGEST);

    CHECK(player, in && out && player->size < 5, "no memory");
    for (size_t i = 0; i < LONGEST / 2; i++)
        in[i] = one;
    for (size_t bytes = 256; bytes <= LONGEST; bytes *= 4096) {
        ucci_coll_args args = reduction(UCCI_ALLREDUCE, UCCI_FLOAT16, UCCI_SUM, in, out, bytes / 2);
        ucci_request *request;
        ucci_status status = library.collective_init(&args, &request, player->world);

        CHECK(player, status == UCCI_OK, "init of a sum of f16: %s", library.status_string(status));
        if (library.collective_post(request) != UCCI_OK)
            continue;
        status = finish(player, request, 0.5);
        CHECK(player, status != UCCI_OK || bytes == 256, "a sum of %zu bytes of f16 ended", bytes);
        CHECK(player, status != UCCI_OK || out[0] != sum[player->size],
              "a sum of f16 is right: plugins/ucc may serve it");
    }
    _exit(0);
}

/* A member that dies in the middle of an operation, or never comes, is not noticed. */
void play_dead(struct player *player)
{
    uint32_t one = 1, sum;
    ucci_coll_args args = reduction(UCCI_ALLREDUCE, UCCI_UINT32, UCCI_SUM, &one, &sum, 1);

    barrier(player);
    if (player->rank == player->size - 1) {
        atomic_store(&player->board->dies[player->rank], true);
        raise(SIGKILL);
    }
    ucci_request *request = begin(player, player->world, &args);

    CHECK(player, finish(player, request, 2) == UCCI_INPROGRESS,
          "an operation ended without a member");
    _exit(0);
}

void play_absent(struct player *player)
{
    if (player->rank == player->size - 1) {
        atomic_store(&player->board->dies[player->rank], true);
        raise(SIGKILL);
    }
    make_library(player);
    player->for_context.patience_ms = 1000;
    const double began = now_s();
    const ucci_status status = make_context(player);

    CHECK(player, status < 0, "a context without a member: %s", library.status_string(status));
    CHECK(player, now_s() - began > 0.9, "context_create() did not wait");
    _exit(0);
}

/* For the faults that only the stand-in has: tells what becomes of a sum within a second. */
void play_sum(struct player *player)
{
    const double began = now_s();
    uint32_t one = 1, sum = 0;
    ucci_coll_args args = reduction(UCCI_ALLREDUCE, UCCI_UINT32, UCCI_SUM, &one, &sum, 1);
    ucci_request *request;
    ucci_status status = library.collective_init(&args, &request, player->world);

    if (status == UCCI_OK)
        status = library.collective_post(request);
    if (status == UCCI_OK)
        status = finish(player, request, 1);
    fprintf(stderr, "member %u: %s, sum %u, %s\n", player->rank, library.status_string(status), sum,
            now_s() - began < 0.1 ? "at once" : "late");
    _exit(0);
}
