/* SPDX-License-Identifier: Apache-2.0 */
/* Registered memory: made, used by every operation, refused and freed. */
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/rank.h"

enum { FLOATS = 20000, BYTES = FLOATS * 4, PAGE = 4096 };

static float *private_floats(void)
{
    void *at = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    require(at != MAP_FAILED);
    return at;
}

static void fill(float *floats, int rank, int round)
{
    for (int i = 0; i < FLOATS; i++)
        floats[i] = (float)((i + round) % 11 + rank);
}

static void check_sum(const float *floats, int size, int round)
{
    for (int i = 0; i < FLOATS; i++)
        if (!check_eq(floats[i], (i + round) % 11 * size + size * (size - 1) / 2))
            return;
}

static tutti_status sum(tutti_group *group, float *floats)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(floats, TUTTI_F32, &shape, FLOATS);

    return tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL);
}

/* Whether the last call worked in place. */
static bool in_place(tutti_group *group)
{
    return strstr(rank_served_by(group), "_registered");
}

RANK_CASE(memory_is_zeroed_and_calls_work_in_it)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;

    require_ok(tutti_memory_allocate(world, BYTES, &memory));
    float *floats = tutti_memory_address(memory);
    check_eq((uintptr_t)floats % PAGE, 0);
    check_eq(tutti_memory_bytes(memory), BYTES);
    for (int i = 0; i < FLOATS; i++)
        require(floats[i] == 0);
    for (int round = 0; round < 3; round++) {
        fill(floats, rank, round);
        require_ok(sum(world, floats));
        check_sum(floats, size, round);
    }
    check_eq(in_place(world), tutti_memory_peers(memory) == size - 1);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(registering_keeps_contents_and_freeing_makes_them_private)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;
    float *floats = private_floats();
    int status;

    fill(floats, rank, 0);
    require_ok(tutti_memory_register(world, floats, BYTES, &memory));
    check(tutti_memory_address(memory) == floats);
    require_ok(sum(world, floats));
    check_sum(floats, size, 0);
    check_eq(in_place(world), tutti_memory_peers(memory) == size - 1);
    require_ok(tutti_memory_free(memory));
    check_sum(floats, size, 0);

    pid_t child = fork(); /* what it writes into private pages is its own */
    if (child == 0) {
        floats[0] = -1;
        _exit(0);
    }
    require(waitpid(child, &status, 0) == child && status == 0);
    check(floats[0] != -1);
    fill(floats, rank, 1);
    require_ok(sum(world, floats));
    check_sum(floats, size, 1);
    check(!in_place(world));
    check_ok(tutti_group_destroy(world));
    munmap(floats, BYTES);
}

/* Each rank's tensor is in registered memory, elsewhere, or strided, by turns. */
RANK_CASE(members_may_differ_in_their_memory)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;
    float *elsewhere = malloc(2 * BYTES);

    require(elsewhere != NULL);
    require_ok(tutti_memory_allocate(world, 2 * BYTES, &memory));
    for (int round = 0; round < 12; round++) {
        const int kind = (round >> rank) % 3; /* the same on all in round 0 */
        const int64_t stride = kind == 2 ? 2 : 1;
        float *base = kind == 1 ? elsewhere : tutti_memory_address(memory);
        int64_t shape = FLOATS, strides = stride;
        tutti_tensor tensor = tutti_tensor_1d(base, TUTTI_F32, &shape, FLOATS);

        tensor.strides = &strides;
        for (int i = 0; i < FLOATS; i++)
            base[i * stride] = (float)((i + round) % 11 + rank);
        require_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
        for (int i = 0; i < FLOATS; i++)
            if (!check_eq(base[i * stride], (i + round) % 11 * size + size * (size - 1) / 2))
                break;
        if (round == 0)
            check_eq(in_place(world), tutti_memory_peers(memory) == size - 1);
    }
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
    free(elsewhere);
}

/* Blocks of other sizes and in another order on each rank. */
RANK_CASE(uneven_blocks_are_found_wherever_they_lie)
{
    enum { EACH = 5000 };
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;
    int64_t counts[8], in_offsets[8], out_offsets[8], out_counts[8], in_shape, out_shape;

    require_ok(tutti_memory_allocate(world, (uint64_t)size * EACH * 8, &memory));
    int32_t *in = tutti_memory_address(memory), *out = in + size * EACH;
    for (int i = 0; i < size; i++) {
        counts[i] = (rank + 2 * i) % 4 * 1000 + i; /* what this rank has for i */
        out_counts[i] = (i + 2 * rank) % 4 * 1000 + rank;
        in_offsets[i] = (size - 1 - i) * EACH;
        out_offsets[i] = (i + rank) % size * EACH;
        for (int k = 0; k < counts[i]; k++)
            in[in_offsets[i] + k] = rank * 1000000 + i * 100000 + k;
    }
    tutti_tensor from = tutti_tensor_1d(in, TUTTI_I32, &in_shape, size * EACH);
    tutti_tensor to = tutti_tensor_1d(out, TUTTI_I32, &out_shape, size * EACH);
    require_ok(tutti_all_to_all_v(world, &from, counts, in_offsets, &to, out_counts, out_offsets,
                                  NULL, NULL));
    check_eq(in_place(world), tutti_memory_peers(memory) == size - 1);
    for (int i = 0; i < size; i++)
        for (int k = 0; k < out_counts[i]; k++)
            if (!check_eq(out[out_offsets[i] + k], i * 1000000 + rank * 100000 + k))
                break;
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

/* Rank 1 has more for rank 0 than that expects. */
RANK_CASE(a_block_of_another_size_is_a_mismatch)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;
    int64_t counts[2] = {2000, 2000}, out_counts[2] = {2000, 2000}, shapes[2];

    require_ok(tutti_memory_allocate(world, 40000, &memory));
    int32_t *in = tutti_memory_address(memory), *out = in + 5000;
    if (rank == 1)
        counts[0] = 2001;
    tutti_tensor from = tutti_tensor_1d(in, TUTTI_I32, &shapes[0], 5000);
    tutti_tensor to = tutti_tensor_1d(out, TUTTI_I32, &shapes[1], 5000);
    check_status(tutti_all_to_all_v(world, &from, counts, NULL, &to, out_counts, NULL, NULL, NULL),
                 TUTTI_ERR_MISMATCH);
    check_contains(tutti_last_error(), "rank 0: the block of rank 1 for this rank has 8004 bytes, "
                                       "and this rank expects 8000");
    check_ok(tutti_memory_free(memory));
    check_status(tutti_group_destroy(world), TUTTI_ERR_MISMATCH);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Rank 0's address is refused; the others hear so, and the group goes on. */
static void refuse(tutti_group *world, int rank, void *address, uint64_t bytes, const char *words)
{
    static const char nothing[] = "nothing";
    tutti_memory *memory = (tutti_memory *)nothing;
    float *good = private_floats();

    check_status(tutti_memory_register(world, rank ? good : address, rank ? BYTES : bytes, &memory),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), rank ? "rank 0 cannot take part" : words);
    check(memory == (tutti_memory *)nothing);
    munmap(good, BYTES);
    check_ok(tutti_barrier(world, NULL, NULL));
}

RANK_CASE(memory_that_cannot_be_registered_is_refused_on_all_ranks)
{
    tutti_group *world = rank_init(NULL);
    char stack[2 * PAGE];
    char *shared = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    char *readable = mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *gap = mmap(NULL, 3 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *partly = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    tutti_memory *memory, *part;

    munmap(gap + PAGE, PAGE);
    memset(stack, 1, sizeof stack);
    refuse(world, rank, stack, sizeof stack, "this thread's stack");
    refuse(world, rank, MAP_FAILED, PAGE, "beyond the end of the address space");
    refuse(world, rank, shared, PAGE, "a shared mapping");
    refuse(world, rank, readable, PAGE, "r--p");
    refuse(world, rank, gap, 3 * (uint64_t)PAGE, "nothing is mapped at");
    refuse(world, rank, gap, UINT64_MAX, "beyond the end of the address space");
    refuse(world, rank, sbrk(PAGE), PAGE, "the heap");
    check_status(tutti_memory_register(world, NULL, PAGE, &memory), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_memory_allocate(world, 0, &memory), TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "bytes is 0");
    check_status(tutti_memory_allocate(world, PAGE, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_memory_allocate(world, rank ? PAGE : UINT64_MAX / 4, &memory),
                 TUTTI_ERR_NO_MEMORY);
    check_contains(tutti_last_error(), rank ? "rank 0 cannot take part" : "bytes are available");

    require_ok(tutti_memory_register(world, partly + PAGE, PAGE, &part));
    refuse(world, rank, partly, 4 * (uint64_t)PAGE, "registered already");
    check_ok(tutti_memory_free(part));
    check_ok(tutti_memory_free(NULL));
    check_eq(tutti_memory_peers(NULL), 0);
    check(!tutti_memory_address(NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(memory_is_busy_while_a_call_works_in_it)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;
    tutti_work *work;
    int64_t shape;

    require_ok(tutti_memory_allocate(world, BYTES, &memory));
    float *floats = tutti_memory_address(memory);
    tutti_tensor tensor = tutti_tensor_1d(floats, TUTTI_F32, &shape, FLOATS);
    fill(floats, rank, 0);
    if (rank == 0) {
        require_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, &work));
        if (tutti_memory_peers(memory) == size - 1) {
            check_status(tutti_memory_free(memory), TUTTI_ERR_BUSY);
            check_contains(tutti_last_error(), "not complete (1)");
        }
        rank_point("begun");
    }
    rank_await("go");
    if (rank)
        require_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, &work));
    require_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check_sum(floats, size, 0);
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_group_destroy(world));
}

/* ---- messages ---- */

enum { LONG = 700000 };

/* Where the tensor of a message is. */
enum kind { ELSEWHERE, REGISTERED, STRIDED, KINDS };

struct room {
    int64_t shape, stride;
    float *registered, *elsewhere;
};

static tutti_tensor tensor_of(struct room *room, enum kind kind, int64_t count)
{
    room->shape = count;
    room->stride = kind == STRIDED ? 2 : 1;
    return (tutti_tensor){.data = kind == ELSEWHERE ? room->elsewhere : room->registered,
                          .device = {TUTTI_DEVICE_CPU, 0},
                          .ndim = 1,
                          .dtype = TUTTI_F32,
                          .shape = &room->shape,
                          .strides = &room->stride};
}

static float *element(const tutti_tensor *tensor, int64_t index)
{
    return (float *)tensor->data + index * tensor->strides[0];
}

static void check_message(const tutti_tensor *tensor, int source, int round)
{
    for (int64_t i = 0; i < tensor->shape[0]; i++)
        if (!check_eq(*element(tensor, i), (i + round) % 11 + source))
            return;
}

static struct room take_room(tutti_group *world, bool first, tutti_memory **ret_memory)
{
    struct room room = {.elsewhere = malloc(LONG * sizeof(float))};

    require(room.elsewhere != NULL);
    require_ok(tutti_memory_allocate(world, 4 * LONG * sizeof(float), ret_memory));
    room.registered = (float *)tutti_memory_address(*ret_memory) + (first ? 0 : 2 * LONG);
    return room;
}

/* Round the ring: each kind of memory on either side, and what is short, long, or very long. */
RANK_CASE(messages_arrive_from_and_in_any_memory)
{
    static const int64_t counts[] = {100, 20000, LONG};
    tutti_group *world = rank_init(NULL);
    tutti_memory *of_out, *of_in;
    struct room out = take_room(world, true, &of_out), in = take_room(world, false, &of_in);
    const int right = (rank + 1) % size, left = (rank + size - 1) % size;

    for (int round = 0; round < KINDS * KINDS * 3; round++) {
        const int64_t count = counts[round / KINDS / KINDS];
        tutti_tensor sent = tensor_of(&out, (enum kind)((round + rank) % KINDS), count),
                     received = tensor_of(&in, (enum kind)(round / KINDS % KINDS), count);

        for (int64_t i = 0; i < count; i++)
            *element(&sent, i) = (float)((i + round) % 11 + rank);
        if (round % 2) {
            require_ok(tutti_sendrecv(world, &sent, right, 7, &received, left, 7, NULL, NULL));
        } else {
            tutti_work *work;

            require_ok(tutti_isend(world, &sent, right, 7, NULL, &work));
            require_ok(tutti_recv(world, &received, TUTTI_ANY_SOURCE, 7, NULL, NULL));
            require_ok(tutti_work_wait(work, 0));
            tutti_work_free(work);
            require_ok(tutti_barrier(world, NULL, NULL));
        }
        check_message(&received, left, round);
    }
    check_ok(tutti_memory_free(of_out));
    check_ok(tutti_memory_free(of_in));
    check_ok(tutti_group_destroy(world));
    free(out.elsewhere);
    free(in.elsewhere);
}

RANK_CASE(memory_is_busy_while_a_message_waits_in_it)
{
    tutti_group *world = rank_init(NULL);
    tutti_options soon = TUTTI_OPTIONS_INIT;
    tutti_memory *memory;
    struct room room = take_room(world, true, &memory);
    tutti_tensor tensor = tensor_of(&room, REGISTERED, LONG);
    tutti_work *work;

    soon.timeout_ms = 50;
    for (int64_t i = 0; i < LONG; i++)
        *element(&tensor, i) = (float)(i % 11);
    if (rank == 0) { /* nobody receives the first two */
        check_status(tutti_send(world, &tensor, 1, 8, &soon), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "has no receive for it");
        require_ok(tutti_isend(world, &tensor, 1, 9, NULL, &work));
        check_ok(tutti_work_cancel(work));
        tutti_work_free(work);
        require_ok(tutti_isend(world, &tensor, 1, 7, NULL, &work));
        check_status(tutti_memory_free(memory), TUTTI_ERR_BUSY);
        check_contains(tutti_last_error(), "not complete (1)");
        require_ok(tutti_barrier(world, NULL, NULL));
        require_ok(tutti_work_wait(work, 0));
        tutti_work_free(work);
    } else {
        tensor = tensor_of(&room, ELSEWHERE, LONG);
        require_ok(tutti_barrier(world, NULL, NULL));
        require_ok(tutti_recv(world, &tensor, 0, 7, NULL, NULL));
        check_message(&tensor, 0, 0);
    }
    check_ok(tutti_memory_free(memory));
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
    free(room.elsewhere);
}

/* ---- lives ----------------------------------------------------------------------------------- */

/* A rank frees its part, and calls in which the root's part is used go on. */
RANK_CASE(members_free_their_parts_in_any_order)
{
    tutti_group *world = rank_init(NULL);
    float *elsewhere = malloc(BYTES);

    require(elsewhere != NULL);
    for (int round = 0; round < 2 * size; round++) {
        const int root = round % size;
        tutti_memory *memory;
        int64_t shape;

        require_ok(tutti_memory_allocate(world, BYTES, &memory));
        const bool shared = tutti_memory_peers(memory) == size - 1;
        float *floats = rank == root ? tutti_memory_address(memory) : elsewhere;
        tutti_tensor tensor = tutti_tensor_1d(floats, TUTTI_F32, &shape, FLOATS);
        if (rank != root)
            check_ok(tutti_memory_free(memory));
        else
            fill(floats, rank, round);
        require_ok(tutti_broadcast(world, &tensor, root, NULL, NULL));
        check_eq(in_place(world), shared);
        for (int i = 0; i < FLOATS; i++)
            if (!check_eq(floats[i], (i + round) % 11 + root))
                break;
        if (rank == root)
            check_ok(tutti_memory_free(memory));
    }
    check_ok(tutti_group_destroy(world));
    free(elsewhere);
}

/* By two groups, of which one ends before; what is left is private when the world has ended. */
RANK_CASE(memory_may_be_registered_with_several_groups)
{
    tutti_group *world = rank_init(NULL), *again;
    tutti_memory *in_world, *in_again, *of_allocated, *allocated, *part;
    float *floats = private_floats();

    require_ok(tutti_group_new(world, NULL, 0, NULL, &again));
    require_ok(tutti_memory_register(world, floats, BYTES, &in_world));
    require_ok(tutti_memory_register(again, floats, BYTES, &in_again));
    require_ok(tutti_memory_allocate(world, BYTES, &allocated));
    require_ok(tutti_memory_register(again, tutti_memory_address(allocated), BYTES, &of_allocated));
    for (int round = 0; round < 4; round++) {
        tutti_group *group = round % 2 ? again : world;
        float *at = round < 2 ? floats : tutti_memory_address(allocated);

        fill(at, rank, round);
        require_ok(sum(group, at));
        check_sum(at, size, round);
        check_eq(in_place(group), tutti_memory_peers(in_world) == size - 1);
    }
    /* A piece inside another one does not hide what lies behind it. */
    require_ok(tutti_memory_register(world, (char *)floats + PAGE, PAGE, &part));
    fill(floats, rank, 5);
    require_ok(sum(world, floats));
    check_sum(floats, size, 5);
    check_eq(in_place(world), tutti_memory_peers(in_world) == size - 1);
    check_ok(tutti_group_destroy(again));
    fill(floats, rank, 9);
    require_ok(sum(world, floats));
    check_sum(floats, size, 9);
    check_eq(in_place(world), tutti_memory_peers(in_world) == size - 1);
    check_ok(tutti_group_destroy(world));
    check_sum(floats, size, 9);
    munmap(floats, BYTES);
}

/* More than a group may have at a time, then as many again. */
RANK_CASE(pieces_that_all_have_freed_make_room)
{
    enum { PIECES = 1024 };
    static tutti_memory *memories[PIECES];
    tutti_group *world = rank_init(NULL);
    tutti_memory *memory;

    for (int i = 0; i < PIECES; i++)
        require_ok(tutti_memory_allocate(world, 1, &memories[i]));
    if (tutti_memory_peers(memories[0])) {
        check_status(tutti_memory_allocate(world, 1, &memory), TUTTI_ERR_NO_MEMORY);
        check_contains(tutti_last_error(), "1024 pieces");
    }
    for (int i = 0; i < PIECES; i++)
        check_ok(tutti_memory_free(memories[i]));
    check_ok(tutti_barrier(world, NULL, NULL));
    for (int i = 0; i < 4; i++) {
        require_ok(tutti_memory_allocate(world, 1, &memory));
        check_ok(tutti_memory_free(memory));
    }
    check_ok(tutti_group_destroy(world));
}

/* The same in messages, of which one is always being received. */
RANK_CASE(a_death_in_messages_leaves_the_memory_usable)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *of_out, *of_in;
    struct room out = take_room(world, true, &of_out), in = take_room(world, false, &of_in);
    tutti_tensor sent = tensor_of(&out, REGISTERED, LONG),
                 received = tensor_of(&in, REGISTERED, LONG);
    tutti_status status = TUTTI_OK;

    for (int round = 0; !status; round++) {
        status = tutti_sendrecv(world, &sent, (rank + 1) % size, 7, &received,
                                (rank + size - 1) % size, 7, NULL, NULL);
        if (!round)
            rank_point("running");
    }
    check_status(status, TUTTI_ERR_PEER_LOST);
    memset(tutti_memory_address(of_out), 1, (size_t)tutti_memory_bytes(of_out));
    check_ok(tutti_memory_free(of_out));
    check_ok(tutti_memory_free(of_in));
    tutti_group_destroy(world);
    free(out.elsewhere);
    free(in.elsewhere);
}

/* The survivors' call ends, and what they had registered is theirs again. */
RANK_CASE(a_death_leaves_the_memory_usable)
{
    tutti_group *world = rank_init(NULL);
    tutti_memory *allocated, *registered;
    float *floats = private_floats();
    tutti_status status = TUTTI_OK;

    require_ok(tutti_memory_register(world, floats, BYTES, &registered));
    require_ok(tutti_memory_allocate(world, BYTES, &allocated));
    rank_point("running");
    for (int round = 0; !status; round++) {
        fill(floats, rank, round);
        status = sum(world, round % 2 ? floats : tutti_memory_address(allocated));
    }
    check_status(status, TUTTI_ERR_PEER_LOST);
    memset(tutti_memory_address(allocated), 1, BYTES);
    check_ok(tutti_memory_free(allocated));
    check_ok(tutti_memory_free(registered));
    fill(floats, rank, 1);
    check_eq(floats[0], 1 + rank);
    check_status(tutti_memory_allocate(world, BYTES, &allocated), TUTTI_ERR_PEER_LOST);
    tutti_group_destroy(world);
    munmap(floats, BYTES);
}
