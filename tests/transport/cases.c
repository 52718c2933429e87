/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

static const uint64_t sizes[] = {
    0,      1,    7,    8,      63,     64,    65,    1000,    1023,   1024,          1025,
    4095,   4096, 4097, 16384,  65528,  65535, 65536, 65537,   131072, 262143,        262144,
    262145, 0,    5,    300001, 999999, 8,     3,     1048576, 64,     (4 << 20) + 13};
enum { SIZES = sizeof sizes / sizeof *sizes };

void send_word(struct member *member, int to, uint64_t word)
{
    struct operation operation;

    send_to(member, to, &word, sizeof word, 0, &operation);
    check(wait_for(member, &operation) == TUTTI_OK, "%s", member->lost_words);
}

void receive_word(struct member *member, int from, uint64_t expected)
{
    struct operation operation;
    uint64_t word = 0;

    receive_from(member, from, &word, sizeof word, &operation);
    check(wait_for(member, &operation) == TUTTI_OK, "%s%s", member->words, member->lost_words);
    check(word == expected, "%llu", (unsigned long long)word);
}

struct transfer {
    struct operation operation;
    uint8_t *data;
};

static void start_receives(struct member *member, int from, struct transfer *transfers)
{
    for (uint64_t i = 0; i < SIZES; i++) {
        /* Capacities larger than the message, and just right. */
        transfers[i].data = malloc(sizes[i] + 16);
        receive_from(member, from, transfers[i].data, sizes[i] + (i % 2 ? 16 : 0),
                     &transfers[i].operation);
    }
}

static void start_sends(struct member *member, int to, struct transfer *transfers)
{
    for (uint64_t i = 0; i < SIZES; i++) {
        transfers[i].data = malloc(sizes[i] + 1);
        fill_pattern(transfers[i].data, sizes[i], member->rank, i);
        send_to(member, to, transfers[i].data, sizes[i], 0, &transfers[i].operation);
    }
}

static void finish(struct member *member, int from, struct transfer *transfers, bool receives)
{
    for (uint64_t i = 0; i < SIZES; i++) {
        check(wait_for(member, &transfers[i].operation) == TUTTI_OK);
        if (receives) {
            check(transfers[i].operation.request.bytes == sizes[i]);
            check_pattern(transfers[i].data, sizes[i], from, i);
        }
        free(transfers[i].data);
    }
}

static void exchange_sizes(struct member *member, bool receives_first)
{
    int other = 1 - member->rank;
    struct transfer *sends = calloc(SIZES, sizeof *sends);
    struct transfer *receives = calloc(SIZES, sizeof *receives);

    if (receives_first)
        start_receives(member, other, receives);
    start_sends(member, other, sends);
    if (!receives_first) {
        progress_for(member, 50); /* both sides run into back-pressure */
        start_receives(member, other, receives);
    }
    finish(member, other, receives, true);
    finish(member, other, sends, false);
    free(sends);
    free(receives);
    all_meet(member);
}

static void sizes_body(struct member *member)
{
    exchange_sizes(member, true);
}

static void receives_late_body(struct member *member)
{
    exchange_sizes(member, false);
}

void case_sizes(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, sizes_body);
    run_forked(ops, 2, -1, sizes_body);
}

void case_receives_late(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, receives_late_body);
}

/* ---- all to all, sizes at random, several under way ---------------------------------------- */

enum { FLOOD_MESSAGES = 300, FLOOD_WINDOW = 8, FLOOD_BYTES = 150000 };

struct stream {
    uint64_t state; /* of the sizes, the same on both sides */
    uint64_t started, finished;
    uint64_t bytes[FLOOD_WINDOW];
    struct operation operation[FLOOD_WINDOW];
    uint8_t *data[FLOOD_WINDOW];
};

static void stream_init(struct stream *stream, int from, int to)
{
    memset(stream, 0, sizeof *stream);
    stream->state = (uint64_t)(from * 10 + to + 1);
    for (int i = 0; i < FLOOD_WINDOW; i++)
        stream->data[i] = malloc(FLOOD_BYTES);
}

static void stream_free(struct stream *stream)
{
    for (int i = 0; i < FLOOD_WINDOW; i++)
        free(stream->data[i]);
}

static void stream_start(struct member *member, struct stream *stream, int other, bool sending)
{
    uint64_t number = stream->started++, slot = number % FLOOD_WINDOW;
    uint32_t dice = random_next(&stream->state);
    uint64_t bytes = dice % 4 ? dice % 200 : dice % FLOOD_BYTES;

    stream->bytes[slot] = bytes;
    if (sending) {
        fill_pattern(stream->data[slot], bytes, member->rank, number);
        send_to(member, other, stream->data[slot], bytes, 0, &stream->operation[slot]);
    } else {
        receive_from(member, other, stream->data[slot], FLOOD_BYTES, &stream->operation[slot]);
    }
}

static void stream_finish(struct member *member, struct stream *stream, int other, bool sending)
{
    uint64_t number = stream->finished++, slot = number % FLOOD_WINDOW;

    check(wait_for(member, &stream->operation[slot]) == TUTTI_OK);
    if (sending)
        return;
    check(stream->operation[slot].request.bytes == stream->bytes[slot]);
    check_pattern(stream->data[slot], stream->bytes[slot], other, number);
}

static void flood_body(struct member *member)
{
    struct stream sends[MEMBERS_MAX], receives[MEMBERS_MAX];
    int size = member->world->size;

    for (int i = 0; i < size; i++) {
        stream_init(&sends[i], member->rank, i);
        stream_init(&receives[i], i, member->rank);
    }
    for (int step = 0; step < FLOOD_MESSAGES + FLOOD_WINDOW; step++)
        for (int i = 0; i < size; i++) {
            if (i == member->rank)
                continue;
            if (step >= FLOOD_WINDOW) {
                stream_finish(member, &receives[i], i, false);
                stream_finish(member, &sends[i], i, true);
            }
            if (step < FLOOD_MESSAGES) {
                stream_start(member, &receives[i], i, false);
                stream_start(member, &sends[i], i, true);
            }
        }
    for (int i = 0; i < size; i++) {
        stream_free(&sends[i]);
        stream_free(&receives[i]);
    }
    all_meet(member);
}

void case_flood(const tutti_transport_ops *ops)
{
    run_threads(ops, MEMBERS_MAX, flood_body);
    run_forked(ops, 2, -1, flood_body);
}

/* ---- many small messages, without and with MORE -------------------------------------------- */

enum { SMALL_MESSAGES = 5000, SMALL_WINDOW = 100 };

static void small_body(struct member *member)
{
    struct operation *operations = calloc(2 * SMALL_WINDOW, sizeof *operations);
    uint64_t words[2 * SMALL_WINDOW];

    for (uint64_t first = 0; first < SMALL_MESSAGES; first += SMALL_WINDOW) {
        for (uint64_t i = 0; i < SMALL_WINDOW; i++) {
            if (member->rank == 0) {
                words[i] = first + i;
                send_to(member, 1, &words[i], sizeof words[i], i % 3 ? TUTTI_SEND_MORE : 0,
                        &operations[i]);
            } else {
                receive_from(member, 0, &words[i], sizeof words[i], &operations[i]);
            }
        }
        for (uint64_t i = 0; i < SMALL_WINDOW; i++) {
            check(wait_for(member, &operations[i]) == TUTTI_OK);
            check(member->rank == 0 || words[i] == first + i);
        }
    }
    if (member->rank == 0)
        progress_for(member, 1); /* the last one may have said that more follows */
    free(operations);
    all_meet(member);
}

void case_small_forked(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, -1, small_body);
}

/* ---- header and payload, as the core sends them -------------------------------------------- */

static void more_round(struct member *member, uint64_t number, uint64_t bytes)
{
    struct operation head, body;
    uint64_t header[8] = {number, bytes};
    uint8_t *data = malloc(bytes + 1);
    int other = 1 - member->rank;

    if (member->rank == (int)(number % 2)) {
        fill_pattern(data, bytes, member->rank, number);
        send_to(member, other, header, sizeof header, TUTTI_SEND_MORE, &head);
        send_to(member, other, data, bytes, 0, &body);
        check(wait_for(member, &head) == TUTTI_OK);
        check(wait_for(member, &body) == TUTTI_OK);
    } else {
        receive_from(member, other, header, sizeof header, &head);
        check(wait_for(member, &head) == TUTTI_OK);
        check(header[0] == number && header[1] == bytes);
        receive_from(member, other, data, bytes, &body);
        check(wait_for(member, &body) == TUTTI_OK);
        check_pattern(data, bytes, other, number);
    }
    free(data);
}

static void more_body(struct member *member)
{
    uint64_t number = 0;

    for (int i = 0; i < 40; i++)
        for (uint64_t j = 0; j < SIZES; j += i < 38 ? 9 : 1)
            more_round(member, number++, sizes[j]);

    /* Nothing follows although it was announced: it goes when the sender progresses or sleeps. */
    struct operation lonely;
    uint64_t word = 77;
    if (member->rank == 0) {
        send_to(member, 1, &word, sizeof word, TUTTI_SEND_MORE, &lonely);
        check(wait_for(member, &lonely) == TUTTI_OK);
        for (int turns = 0; member->ops->arm(member->endpoint) != TUTTI_ARMED; turns++) {
            check(turns < 1000, "never sleeps");
            progress_for(member, 1); /* something came meanwhile */
        }
    } else {
        receive_from(member, 0, &word, sizeof word, &lonely);
        check(wait_for(member, &lonely) == TUTTI_OK && word == 77);
    }
    all_meet(member);
}

void case_more(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, more_body);
    run_forked(ops, 2, -1, more_body);
}

/* What was to wait for more goes although what follows is for another member. */
static void more_to_two_body(struct member *member)
{
    struct operation to_first, to_second;
    uint64_t words[2] = {6, 7};

    if (member->rank == 0) {
        for (int i = 1; i <= 2; i++)
            send_word(member, i, 5); /* connected from here on */
        send_to(member, 1, &words[0], sizeof words[0], TUTTI_SEND_MORE, &to_first);
        send_to(member, 2, &words[1], sizeof words[1], 0, &to_second);
        check(wait_for(member, &to_first) == TUTTI_OK);
        check(wait_for(member, &to_second) == TUTTI_OK);
        progress_for(member, 1); /* the first may be complete and not have gone */
    } else {
        receive_word(member, 0, 5);
        receive_word(member, 0, words[member->rank - 1]);
    }
    all_meet(member);
}

void case_more_to_two(const tutti_transport_ops *ops)
{
    run_threads(ops, 3, more_to_two_body);
}

/* ---- counters ------------------------------------------------------------------------------ */

static void traffic_body(struct member *member)
{
    struct operation operation;
    uint64_t counters[5];
    uint8_t data[1000] = {0};
    bool maps = member->ops->capabilities & TUTTI_CAP_MAP;

    if (member->rank == 0)
        send_to(member, 1, data, sizeof data, 0, &operation);
    else
        receive_from(member, 0, data, sizeof data, &operation);
    check(wait_for(member, &operation) == TUTTI_OK);
    member->ops->traffic(member->endpoint, counters);
    check(counters[2] == (member->rank == 0));
    check(counters[3] == (member->rank == 1));
    check(counters[maps ? 4 : member->rank] == (maps && member->rank == 1 ? 0 : 1008));
    all_meet(member);
}

void case_traffic(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, traffic_body);
}
