/* SPDX-License-Identifier: Apache-2.0 */
/* Point to point beyond a send and its receive: oneself, batches, exchanges, unknown lengths. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/rank.h"

enum { LARGE = 2 << 20 };

static tutti_tensor word_of(int64_t *word, int64_t *shape)
{
    return tutti_tensor_1d(word, TUTTI_I64, shape, 1);
}

static tutti_tensor bytes_of(uint8_t *data, int64_t *shape, int64_t count)
{
    return tutti_tensor_1d(data, TUTTI_U8, shape, count);
}

/* ---- oneself --------------------------------------------------------------------------------- */

static void send_to_oneself(tutti_group *group)
{
    int rank = tutti_group_rank(group);
    uint8_t *out = malloc(LARGE), *in = calloc(1, LARGE);
    int64_t shapes[4], word = 7, got = 0;
    tutti_tensor small_out = word_of(&word, &shapes[0]), small_in = word_of(&got, &shapes[1]);
    int32_t source = -1;
    tutti_work *work;

    require(out && in);
    memset(out, 0x5a, LARGE);
    require_ok(tutti_send(group, &small_out, rank, 1, NULL)); /* buffered */
    require_ok(tutti_recv(group, &small_in, TUTTI_ANY_SOURCE, 1, NULL, &source));
    check_eq(got, 7);
    check_eq(source, rank);

    tutti_tensor big_out = bytes_of(out, &shapes[2], LARGE),
                 big_in = bytes_of(in, &shapes[3], LARGE);
    require_ok(tutti_irecv(group, &big_in, rank, 2, NULL, &work));
    require_ok(tutti_send(group, &big_out, rank, 2, NULL)); /* its receive was started before */
    require_ok(tutti_work_wait(work, 0));
    check_eq(tutti_work_source(work), rank);
    tutti_work_free(work);
    check(!memcmp(out, in, LARGE));

    memset(in, 0, LARGE);
    require_ok(tutti_isend(group, &big_out, rank, 3, NULL, &work));
    require_ok(tutti_recv(group, &big_in, rank, 3, NULL, NULL));
    require_ok(tutti_work_wait(work, 0));
    tutti_work_free(work);
    check(!memcmp(out, in, LARGE));
    require_ok(tutti_sendrecv(group, &small_out, rank, 4, &small_in, rank, 4, NULL, &source));
    check_eq(source, rank);
    free(out);
    free(in);
}

RANK_CASE(a_rank_sends_to_itself)
{
    tutti_group *world = rank_init(NULL), *alone;

    send_to_oneself(world);
    require_ok(tutti_group_split(world, rank, 0, NULL, &alone));
    check_eq(tutti_group_size(alone), 1);
    send_to_oneself(alone);
    check_ok(tutti_group_destroy(alone));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_receive_with_another_tag_is_told_which_one_was_sent)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    uint8_t byte = 0;
    int64_t shape;
    tutti_tensor t = bytes_of(&byte, &shape, 1);

    options.timeout_ms = 300;
    if (rank == 1)
        check_ok(tutti_send(world, &t, 0, 7, NULL));
    check_ok(tutti_barrier(world, NULL, NULL));
    if (!rank) {
        check_status(tutti_recv(world, &t, 1, 8, &options, NULL), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "; it has sent tag 7, for which there is no receive");
        check_ok(tutti_recv(world, &t, 1, 7, NULL, NULL));
        check_status(tutti_recv(world, &t, 1, 8, &options, NULL), TUTTI_ERR_TIMEOUT);
        check(!strstr(tutti_last_error(), "it has sent tag"));
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

RANK_CASE(a_receive_from_a_rank_that_left_is_told_which_tag_it_sent)
{
    tutti_group *world = rank_init(NULL);
    uint8_t byte = 0;
    int64_t shape;
    tutti_tensor t = bytes_of(&byte, &shape, 1);

    if (rank == 1) {
        check_ok(tutti_send(world, &t, 0, 7, NULL));
    } else if (!rank) {
        check_status(tutti_recv(world, &t, 1, 8, NULL, NULL), TUTTI_ERR_PEER_LOST);
        check_contains(tutti_last_error(), "sent no more messages with tag 8; it has sent tag 7, "
                                           "for which there is no receive");
    }
    check_ok(tutti_group_destroy(world));
}

/* What is too long to be buffered announces itself; nobody has a receive for it. */
RANK_CASE(a_large_send_that_nobody_receives_ends_alone_at_its_deadline)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    uint8_t *data = calloc(1, LARGE);
    int64_t shape;
    tutti_tensor t = bytes_of(data, &shape, LARGE);
    tutti_work *work;

    require(data);
    options.timeout_ms = 200;
    if (!rank) {
        check_status(tutti_send(world, &t, 1, 1, &options), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "rank 1");
        check_contains(tutti_last_error(), "which has no receive for it");
        require_ok(tutti_isend(world, &t, 1, 1, &options, &work));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_TIMEOUT);
        tutti_work_free(work);
        require_ok(tutti_isend(world, &t, 1, 1, NULL, &work));
        rank_sleep_ms(50); /* announced by now */
        check_ok(tutti_work_cancel(work));
        check_status(tutti_work_wait(work, 0), TUTTI_ERR_ABORTED);
        tutti_work_free(work);
        data[LARGE - 1] = 3;
    }
    check_ok(tutti_barrier(world, NULL, NULL)); /* the group goes on */
    if (!rank)
        check_ok(tutti_send(world, &t, 1, 1, NULL));
    if (rank == 1) {
        check_ok(tutti_recv(world, &t, 0, 1, NULL, NULL));
        check_eq(data[LARGE - 1], 3); /* of those that were taken back nothing is here */
    }
    check_ok(tutti_group_destroy(world));
    free(data);
}

/* Grants and withdrawals meet on their way. */
RANK_CASE(sends_that_are_cancelled_while_receives_come_lose_and_swap_nothing)
{
    enum { ROUNDS = 150, WORDS = 40000 };
    tutti_group *world = rank_init(NULL);
    int64_t *data = calloc(WORDS, sizeof *data), shape, cancelled = 0;
    tutti_tensor t = tutti_tensor_1d(data, TUTTI_I64, &shape, WORDS);
    tutti_work *work;

    require(data);
    for (int64_t round = 0; round < ROUNDS && rank < 2; round++) {
        for (bool sent = false; !rank && !sent;) {
            int32_t done;

            data[0] = data[WORDS - 1] = round;
            require_ok(tutti_isend(world, &t, 1, 1, NULL, &work));
            for (int i = 0; i < round % 7 * 20; i++)
                (void)tutti_work_test(work, &done);
            sent = cancelled == 4 * ROUNDS || tutti_work_cancel(work) != TUTTI_OK;
            cancelled += !sent;
            check_status(tutti_work_wait(work, 0), sent ? TUTTI_OK : TUTTI_ERR_ABORTED);
            tutti_work_free(work);
        }
        if (rank) {
            require_ok(tutti_recv(world, &t, round % 3 ? 0 : TUTTI_ANY_SOURCE, 1, NULL, NULL));
            check_eq(data[0], round);
            check_eq(data[WORDS - 1], round);
        }
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
    free(data);
}

RANK_CASE(a_large_blocking_send_to_oneself_ends_at_its_deadline_and_says_why)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    uint8_t *data = calloc(1, LARGE);
    int64_t shape;
    tutti_tensor t = bytes_of(data, &shape, LARGE);

    require(data);
    options.timeout_ms = 100;
    check_status(tutti_send(world, &t, rank, 1, &options), TUTTI_ERR_TIMEOUT);
    check_contains(tutti_last_error(), "this rank itself: start the other side first");
    check_ok(tutti_barrier(world, NULL, NULL)); /* the group goes on */
    check_ok(tutti_group_destroy(world));
    free(data);
}

RANK_CASE(a_started_receive_from_any_source_may_be_met_by_oneself_when_all_others_have_left)
{
    tutti_group *world = rank_init(NULL);
    tutti_options options = TUTTI_OPTIONS_INIT;
    int64_t shapes[3], word = 7, got = 0, none = 0;
    tutti_tensor out = word_of(&word, &shapes[0]), in = word_of(&got, &shapes[1]);
    tutti_tensor other = word_of(&none, &shapes[2]);
    tutti_work *work, *unmet;

    if (!rank) {
        require_ok(tutti_irecv(world, &in, TUTTI_ANY_SOURCE, 1, NULL, &work));
        check_status(tutti_recv(world, &other, TUTTI_ANY_SOURCE, 2, NULL, NULL),
                     TUTTI_ERR_PEER_LOST); /* they have left */
        require_ok(tutti_send(world, &out, rank, 1, NULL));
        check_ok(tutti_work_wait(work, 0));
        check_eq(tutti_work_source(work), rank);
        check_eq(got, 7);
        tutti_work_free(work);

        options.timeout_ms = 100;
        require_ok(tutti_irecv(world, &other, TUTTI_ANY_SOURCE, 2, &options, &unmet));
        check_status(tutti_work_wait(unmet, 0), TUTTI_ERR_TIMEOUT);
        check_contains(tutti_last_error(), "every other member left");
        tutti_work_free(unmet);
    }
    check_ok(tutti_group_destroy(world));
}

static void *receive_from_oneself(void *user)
{
    tutti_group *group = user;
    int64_t shape;
    uint8_t *in = calloc(1, LARGE);
    tutti_tensor t = bytes_of(in, &shape, LARGE);
    bool fine =
        in && !tutti_recv(group, &t, tutti_group_rank(group), 1, NULL, NULL) && in[LARGE - 1] == 9;

    free(in);
    return fine ? user : NULL;
}

RANK_CASE(another_thread_may_receive_what_a_rank_sends_to_itself)
{
    tutti_group *world = rank_init(NULL);
    uint8_t *out = malloc(LARGE);
    int64_t shape;
    tutti_tensor t = bytes_of(out, &shape, LARGE);
    pthread_t thread;
    void *result;

    require(out);
    memset(out, 9, LARGE);
    require(!pthread_create(&thread, NULL, receive_from_oneself, world));
    check_ok(tutti_send(world, &t, rank, 1, NULL));
    pthread_join(thread, &result);
    check(result != NULL);
    check_ok(tutti_group_destroy(world));
    free(out);
}

/* ---- sizes ----------------------------------------------------------------------------------- */

/* Around what is copied, what travels with its header, and a piece. */
static const int64_t sizes[] = {
    0,    1,     63,    64,    65,     4096,   8191,    8192,          8193,
    9000, 65535, 65536, 65537, 262144, 262145, 1 << 20, (1 << 20) + 1, LARGE};
enum { SIZES = sizeof sizes / sizeof *sizes };

static uint8_t byte_of(int from, int size, int64_t place)
{
    return (uint8_t)(place * 7 + place / 251 + from * 31 + size);
}

RANK_CASE(messages_around_every_limit_arrive_whole_in_any_order)
{
    tutti_group *world = rank_init(NULL);
    const int other = 1 - rank;
    uint8_t *out[SIZES], *in[SIZES];
    int64_t shapes[2 * SIZES];
    tutti_work *works[2 * SIZES];

    for (int turn = 0; turn < 4; turn++) {
        const int first = turn % 2 ? 0 : SIZES; /* of `works`: sends or receives */

        for (int i = 0; i < SIZES; i++) {
            out[i] = malloc((size_t)sizes[i] + 1);
            in[i] = calloc(1, (size_t)sizes[i] + 1);
            require(out[i] && in[i]);
            for (int64_t j = 0; j < sizes[i]; j++)
                out[i][j] = byte_of(rank, i, j);
        }
        for (int n = 0; n < 2 * SIZES; n++) {
            const int at = (first + n) % (2 * SIZES), i = at % SIZES;
            tutti_tensor t = bytes_of(at < SIZES ? out[i] : in[i], &shapes[at], sizes[i]);

            if (at < SIZES)
                require_ok(tutti_isend(world, &t, other, 5, NULL, &works[at]));
            else
                require_ok(tutti_irecv(world, &t, other, 5, NULL, &works[at]));
        }
        for (int at = 0; at < 2 * SIZES; at++) {
            require_ok(tutti_work_wait(works[at], 0));
            tutti_work_free(works[at]);
        }
        for (int i = 0; i < SIZES; i++) {
            for (int64_t j = 0; j < sizes[i]; j++)
                require(in[i][j] == byte_of(other, i, j));
            free(out[i]);
            free(in[i]);
        }
    }
    check_ok(tutti_group_destroy(world));
}

/* ---- short messages that need no call --------------------------------------------------------- */

enum { TOLD = 400 };

/* Sends, or receives, the same without options, which may need no call, and with them, which does: both end in the same
 * words. */
static void message_fails(tutti_group *group, bool sends, const tutti_tensor *tensor, int32_t peer,
                          uint64_t tag, tutti_status status, const char *word)
{
    const tutti_options options = TUTTI_OPTIONS_INIT;
    const tutti_options *with[] = {NULL, &options};
    char told[2][TOLD];

    for (int i = 0; i < 2; i++) {
        check_status(sends ? tutti_send(group, tensor, peer, tag, with[i])
                           : tutti_recv(group, tensor, peer, tag, with[i], NULL),
                     status);
        check_contains(tutti_last_error(), word);
        snprintf(told[i], TOLD, "%s", tutti_last_error());
    }
    check_str_eq(told[0], told[1]);
}

RANK_CASE(a_message_fails_in_the_same_words_with_options_and_without)
{
    static const int32_t nobody[] = {INT32_MIN, -2, INT32_MAX};
    tutti_group *world = rank_init(NULL);
    const int32_t other = (rank + 1) % size;
    int64_t shapes[3];
    uint8_t data[9] = {0};
    tutti_tensor eight = bytes_of(data, &shapes[0], 8), seven = bytes_of(data, &shapes[1], 7),
                 nine = bytes_of(data, &shapes[2], 9);

    for (int sends = 0; sends < 2; sends++) {
        for (int i = 0; i < 3; i++)
            message_fails(world, sends, &eight, nobody[i], 1, TUTTI_ERR_INVALID_ARGUMENT,
                          "not in a group of");
        message_fails(world, sends, &eight, size, 1, TUTTI_ERR_INVALID_ARGUMENT,
                      "not in a group of");
        message_fails(world, sends, &eight, other, UINT64_C(1) << 62, TUTTI_ERR_INVALID_ARGUMENT,
                      "tag");
        message_fails(world, sends, NULL, other, 1, TUTTI_ERR_INVALID_ARGUMENT, "tensor");
    }
    for (uint64_t i = 0; i < 4 && rank == 1; i++)
        require_ok(tutti_send(world, i % 2 ? &nine : &seven, 0, 1 + i % 2, NULL));
    if (rank == 0) {
        message_fails(world, false, &eight, 1, 1, TUTTI_ERR_MISMATCH, "7 bytes");
        message_fails(world, false, &eight, 1, 2, TUTTI_ERR_MISMATCH, "9 bytes");
    }
    rank_meet_beside(world);
    if (rank == 0)
        check_ok(tutti_group_abort(world, "the tests want it"));
    check_status(tutti_barrier(world, NULL, NULL), TUTTI_ERR_ABORTED);
    for (int sends = 0; sends < 2; sends++)
        message_fails(world, sends, &eight, other, 1, TUTTI_ERR_ABORTED, "the tests want it");
    check_status(tutti_group_destroy(world), TUTTI_ERR_ABORTED);
}

/* ---- lengths --------------------------------------------------------------------------------- */

RANK_CASE(a_receive_of_up_to_so_many_bytes_tells_how_many_came)
{
    static const int64_t lengths[] = {0, 1, 1000, LARGE - 1, LARGE};
    tutti_group *world = rank_init(NULL);
    uint8_t *data = malloc(LARGE);
    int64_t shape;

    require(data);
    for (int i = 0; i < 5; i++) {
        tutti_work_info info = {.struct_size = sizeof info};
        int32_t source = -1;
        uint64_t bytes = 99;
        tutti_work *work;

        memset(data, rank ? 200 + i : 1, LARGE);
        tutti_tensor message = bytes_of(data, &shape, lengths[i]);
        if (rank == 1) {
            require_ok(tutti_send(world, &message, 0, 1, NULL));
            require_ok(tutti_send(world, &message, 0, 1, NULL));
        } else if (rank == 0) {
            tutti_tensor room = bytes_of(data, &shape, LARGE);

            require_ok(tutti_recv_up_to(world, &room, TUTTI_ANY_SOURCE, 1, NULL, &source, &bytes));
            check_eq(source, 1);
            check_eq(bytes, lengths[i]);
            require_ok(tutti_irecv_up_to(world, &room, 1, 1, NULL, &work));
            require_ok(tutti_work_wait(work, 0));
            require_ok(tutti_work_result(work, &info));
            tutti_work_free(work);
            check_eq(info.bytes, lengths[i]);
            check_eq(info.source, 1);
            check(!lengths[i] || data[lengths[i] - 1] == 200 + i);
            check(lengths[i] == LARGE || data[lengths[i]] == 1); /* nothing beyond it */
        }
    }
    tutti_tensor nine = bytes_of(data, &shape, 9);
    if (rank == 1) {
        require_ok(tutti_send(world, &nine, 0, 2, NULL));
    } else if (rank == 0) {
        tutti_tensor eight = bytes_of(data, &shape, 8);

        check_status(tutti_recv_up_to(world, &eight, 1, 2, NULL, NULL, NULL), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "9 bytes");
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
    free(data);
}

/* ---- exchanges and batches ------------------------------------------------------------------- */

/* All send first: with blocking sends of this size nobody would come to its receive. */
RANK_CASE(sendrecv_passes_large_messages_around_a_ring)
{
    tutti_group *world = rank_init(NULL);
    uint8_t *out = malloc(LARGE), *in = malloc(LARGE);
    int64_t shapes[2];
    int right = (rank + 1) % size, left = (rank - 1 + size) % size;
    int32_t source = -1;

    require(out && in);
    tutti_tensor to = bytes_of(out, &shapes[0], LARGE), from = bytes_of(in, &shapes[1], LARGE);
    memset(out, rank, LARGE);
    for (int step = 1; step <= size; step++) {
        require_ok(tutti_sendrecv(world, &to, right, 3, &from, step % 2 ? left : TUTTI_ANY_SOURCE,
                                  3, NULL, &source));
        check_eq(source, left);
        check_eq(in[0], (rank - step + size) % size);
        check_eq(in[LARGE - 1], in[0]);
        memcpy(out, in, LARGE);
    }
    check_status(tutti_sendrecv(world, &to, right, 3, &to, left, 3, NULL, NULL),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "overlap");
    check_ok(tutti_group_destroy(world));
    free(out);
    free(in);
}

RANK_CASE(an_exchange_ends_whole_when_one_half_fails)
{
    tutti_group *world = rank_init(NULL);
    int64_t out[2] = {rank, rank}, in[2] = {-1, -1}, shapes[2];
    tutti_tensor to = word_of(out, &shapes[0]), from = word_of(in, &shapes[1]);

    if (rank == 0) { /* what comes is longer; what goes arrives */
        check_status(tutti_sendrecv(world, &to, 1, 1, &from, 1, 1, NULL, NULL), TUTTI_ERR_MISMATCH);
        check_contains(tutti_last_error(), "16 bytes");
    } else if (rank == 1) {
        int64_t shape;
        tutti_tensor longer = tutti_tensor_1d(out, TUTTI_I64, &shape, 2);

        check_ok(tutti_sendrecv(world, &longer, 0, 1, &from, 0, 1, NULL, NULL));
        check_eq(in[0], 0);
    }
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

enum { ROUNDS = 20, PER_PEER = 3 };

/* Everybody with everybody, itself included, receives last in the array and in another order. */
RANK_CASE(a_batch_of_sends_and_receives_may_be_in_any_order)
{
    tutti_group *world = rank_init(NULL);
    uint32_t count = (uint32_t)(2 * PER_PEER * size);
    tutti_p2p_op *ops = calloc(count, sizeof *ops);
    tutti_work **works = calloc(count, sizeof *works);
    tutti_tensor *tensors = calloc(count, sizeof *tensors);
    int64_t *words = calloc(count, sizeof *words), *shapes = calloc(count, sizeof *shapes);

    require(ops && works && tensors && words && shapes);
    for (int round = 0; round < ROUNDS; round++) {
        uint32_t n = 0;

        for (int peer = 0; peer < size; peer++)
            for (int k = 0; k < PER_PEER; k++, n++) {
                words[n] = round * 10000 + rank * 100 + peer * 10 + k;
                ops[n] = (tutti_p2p_op){.kind = TUTTI_P2P_SEND, .peer = peer, .tag = (uint64_t)k};
            }
        for (int peer = size - 1; peer >= 0; peer--)
            for (int k = PER_PEER - 1; k >= 0; k--, n++)
                ops[n] = (tutti_p2p_op){.kind = TUTTI_P2P_RECV, .peer = peer, .tag = (uint64_t)k};
        for (uint32_t i = 0; i < count; i++) {
            tensors[i] = word_of(&words[i], &shapes[i]);
            ops[i].tensor = &tensors[i];
        }
        require_ok(tutti_batch_isend_irecv(world, ops, sizeof *ops, count, NULL, works));
        require_ok(tutti_work_wait_all(works, count, 0, NULL));
        for (uint32_t i = 0; i < count; i++) {
            if (i >= count / 2)
                check_eq(words[i], round * 10000 + ops[i].peer * 100 + rank * 10 + (int)ops[i].tag);
            tutti_work_free(works[i]);
        }
    }
    check_ok(tutti_group_destroy(world));
    free(ops);
    free(works);
    free(tensors);
    free(words);
    free(shapes);
}

RANK_CASE(a_batch_with_a_wrong_operation_starts_none)
{
    tutti_group *world = rank_init(NULL);
    int64_t words[3] = {5, 6, 0}, shapes[3];
    tutti_tensor tensors[3];
    tutti_p2p_op ops[3];
    tutti_work *works[3] = {NULL};
    int peer = (rank + 1) % size;

    for (int i = 0; i < 3; i++) {
        tensors[i] = word_of(&words[i], &shapes[i]);
        ops[i] =
            (tutti_p2p_op){.kind = TUTTI_P2P_SEND, .peer = peer, .tag = 1, .tensor = &tensors[i]};
    }
    ops[2].peer = size;
    check_status(tutti_batch_isend_irecv(world, ops, sizeof *ops, 3, NULL, works),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "operation 2 of 3: destination 3");
    ops[2] = (tutti_p2p_op){.kind = 9, .peer = peer, .tensor = &tensors[2]};
    check_status(tutti_batch_isend_irecv(world, ops, sizeof *ops, 3, NULL, works),
                 TUTTI_ERR_UNSUPPORTED);
    ops[2] = (tutti_p2p_op){.kind = TUTTI_P2P_SEND, .peer = peer};
    check_status(tutti_batch_isend_irecv(world, ops, sizeof *ops, 3, NULL, works),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_contains(tutti_last_error(), "operation 2 of 3: the tensor is NULL");
    check_status(tutti_batch_isend_irecv(world, ops, 0, 3, NULL, works),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_status(tutti_batch_isend_irecv(world, NULL, sizeof *ops, 3, NULL, works),
                 TUTTI_ERR_INVALID_ARGUMENT);
    check_ok(tutti_batch_isend_irecv(world, NULL, 0, 0, NULL, NULL));
    check(!works[0]);

    /* Nothing of them is under way: the next message of that tag is this one. */
    words[0] = 55;
    check_ok(tutti_sendrecv(world, &tensors[0], peer, 1, &tensors[2], (rank - 1 + size) % size, 1,
                            NULL, NULL));
    check_eq(words[2], 55);
    check_ok(tutti_group_destroy(world));
}

/* Arrays of a program that was built with other headers. */
RANK_CASE(operations_of_another_size_are_read_as_far_as_they_are_known)
{
    struct newer {
        tutti_p2p_op op;
        uint64_t more;
    } newer[2];
    tutti_group *world = rank_init(NULL);
    int64_t words[2] = {rank, -1}, shapes[2];
    tutti_tensor tensors[2];
    tutti_work *works[2];

    memset(newer, 0, sizeof newer);
    for (int i = 0; i < 2; i++) {
        tensors[i] = word_of(&words[i], &shapes[i]);
        newer[i].op = (tutti_p2p_op){.kind = i ? TUTTI_P2P_RECV : TUTTI_P2P_SEND,
                                     .peer = i ? (rank - 1 + size) % size : (rank + 1) % size,
                                     .tensor = &tensors[i]};
    }
    newer[1].more = 1;
    check_status(tutti_batch_isend_irecv(world, &newer[0].op, sizeof *newer, 2, NULL, works),
                 TUTTI_ERR_NEWER_CALLER);
    check_contains(tutti_last_error(), "operation 1 of 2: ");
    newer[1].more = 0;
    require_ok(tutti_batch_isend_irecv(world, &newer[0].op, sizeof *newer, 2, NULL, works));
    check_ok(tutti_work_wait_all(works, 2, 0, NULL));
    check_eq(words[1], (rank - 1 + size) % size);
    tutti_work_free(works[0]);
    tutti_work_free(works[1]);
    check_ok(tutti_group_destroy(world));
}
