/* SPDX-License-Identifier: Apache-2.0 */
/* Transports that show what has arrived: send_short, show, take, and the pairs, mixed with requests. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

/* In the order of the wire: what the sender tried first is no matter to the receiver. */
static uint64_t size_of(const struct member *member, uint64_t number)
{
    uint64_t state = number * 7919 + 1;
    const uint32_t random = random_next(&state);

    if (random % 20 == 0)
        return member->ops->short_bytes + 1 + random_next(&state) % 200000;
    return random_next(&state) % (random % 3 ? 100 : member->ops->short_bytes + 1);
}

/* Two messages by send_pair, if the transport has it and takes them; how many it sent. */
static unsigned send_two(struct member *member, uint64_t number, uint8_t *data)
{
    const uint64_t head = size_of(member, number), body = size_of(member, number + 1);

    if (!TUTTI_HAS(member->ops, send_pair) || head > member->ops->short_bytes || !body ||
        number % 3)
        return 0;
    fill_pattern(data, head, 0, number);
    fill_pattern(data + head, body, 0, number + 1);

    const tutti_status status =
        member->ops->send_pair(member->endpoint, member->peer[1], 0, data, head, data + head, body);
    check(!status || status == TUTTI_ERR_BUSY, "%s", member->words);
    return status ? 0 : 2;
}

/* Two messages of which the first is shown by take_pair; how many it took. */
static unsigned take_two(struct member *member, uint64_t number, uint8_t *data)
{
    const uint64_t bytes = size_of(member, number + 1);
    tutti_shown message;

    if (!TUTTI_HAS(member->ops, take_pair) || number % 4 == 3 || !bytes ||
        wait_shown(member, 0, &message) != TUTTI_OK)
        return 0;
    check(message.bytes + message.rest_bytes == size_of(member, number));
    copy_shown(&message, data);
    check_pattern(data, size_of(member, number), 0, number);
    check(member->ops->take_pair(member->endpoint, member->peer[0], 0, data, bytes + 1) ==
          TUTTI_ERR_NOT_READY); /* the next one is shorter */
    if (member->ops->take_pair(member->endpoint, member->peer[0], 0, data, bytes))
        return 0;
    check_pattern(data, bytes, 0, number + 1);
    return 2;
}

static void send_one(struct member *member, uint64_t number, uint8_t *data)
{
    const uint64_t bytes = size_of(member, number), head = bytes < 24 ? bytes : 24;
    struct operation operation;

    fill_pattern(data, bytes, 0, number);
    if (bytes <= member->ops->short_bytes && number % 5) {
        tutti_status status = member->ops->send_short(member->endpoint, member->peer[1], 0, data,
                                                      head, data + head, bytes - head);
        if (status == TUTTI_OK)
            return;
        check(status == TUTTI_ERR_BUSY, "%s", member->words);
    }
    send_to(member, 1, data, bytes, 0, &operation);
    check(wait_for(member, &operation) == TUTTI_OK);
}

static void receive_one(struct member *member, uint64_t number, uint8_t *data)
{
    const uint64_t bytes = size_of(member, number);
    struct operation operation;
    tutti_shown message;
    tutti_status status = wait_shown(member, 0, &message);

    if (bytes > member->ops->short_bytes) {
        check(status == TUTTI_ERR_BUSY);
        receive_from(member, 0, data, bytes, &operation);
        check(wait_for(member, &operation) == TUTTI_OK && operation.request.bytes == bytes);
    } else {
        check(status == TUTTI_OK, "%s", member->words);
        check(message.bytes + message.rest_bytes == bytes);
        copy_shown(&message, data);
        if (number % 7 == 0) { /* it stays until it is taken */
            check(member->ops->show(member->endpoint, member->peer[0], 0, &message) == TUTTI_OK);
            check(message.bytes + message.rest_bytes == bytes);
        }
        member->ops->take(member->endpoint, member->peer[0], 0);
    }
    check_pattern(data, bytes, 0, number);
}

static void short_body(struct member *member)
{
    enum { MESSAGES = 3000 };
    uint8_t *data = malloc(1 << 20);
    tutti_shown message;

    for (uint64_t i = 0, two = 0; i < MESSAGES; i += two ? two : 1) {
        two = i + 1 == MESSAGES   ? 0
              : member->rank == 0 ? send_two(member, i, data)
                                  : take_two(member, i, data);
        if (!two && member->rank == 0)
            send_one(member, i, data);
        else if (!two)
            receive_one(member, i, data);
        if (member->rank == 1 && i % 500 < 2)
            progress_for(member, 20); /* the sender finds it full, and sleeps */
    }
    all_meet(member);
    if (member->rank == 1)
        check(member->ops->show(member->endpoint, member->peer[0], 0, &message) ==
              TUTTI_ERR_NOT_READY);
    free(data);
    all_meet(member);
}

void case_short(const tutti_transport_ops *ops)
{
    check(ops->short_bytes && ops->send_short && ops->show && ops->take);
    run_threads(ops, 2, short_body);
    run_forked(ops, 2, -1, short_body);
}

/* A process that only shows is woken as one that has a receive posted. */
static void wakes_body(struct member *member)
{
    tutti_shown message;
    uint64_t word = 1;

    for (int i = 0; i < 20; i++) {
        if (member->rank == 0) {
            progress_for(member, 10);
            check(member->ops->send_short(member->endpoint, member->peer[1], 0, &word, 8, NULL,
                                          0) == TUTTI_OK);
        } else {
            check(wait_shown(member, 0, &message) == TUTTI_OK && message.bytes == 8);
            member->ops->take(member->endpoint, member->peer[0], 0);
        }
    }
    all_meet(member);
}

void case_short_wakes(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, wakes_body);
}

/* What send_pair has taken needs no progress of the sender to arrive. */
static void pairs_body(struct member *member)
{
    const uint64_t most = member->ops->short_bytes;
    const uint64_t sizes[] = {1, most - 1, most, most + 1, 3 * most, 40000, 256 << 10};
    uint8_t *data = malloc(256 << 10);
    const uint64_t word = 9;
    const int64_t deadline = now_ms() + WAIT_MS;
    tutti_shown message;

    for (uint64_t i = 0; i < 70; i++) {
        const uint64_t bytes = sizes[i % 7];

        if (member->rank == 0) {
            fill_pattern(data, bytes, 0, i);
            check(member->ops->send_pair(member->endpoint, member->peer[1], 0, &word, sizeof word,
                                         data, bytes) == TUTTI_OK);
        } else {
            check(wait_shown(member, 0, &message) == TUTTI_OK && message.bytes == sizeof word);
            while (member->ops->take_pair(member->endpoint, member->peer[0], 0, data, bytes))
                check(now_ms() < deadline);
            check_pattern(data, bytes, 0, i);
        }
        all_meet(member);
    }
    free(data);
}

/* A second message that is longer than a ring: nothing of the two is taken, and requests receive it. */
static void long_pair_body(struct member *member)
{
    enum { LONG = 9 << 20 };
    uint8_t *data = malloc(LONG);
    struct operation operation;
    tutti_shown message;

    if (member->rank == 0) {
        send_to(member, 1, "head", 4, 0, &operation);
        check(wait_for(member, &operation) == TUTTI_OK);
        fill_pattern(data, LONG, 0, 1);
        send_to(member, 1, data, LONG, 0, &operation);
        check(wait_for(member, &operation) == TUTTI_OK);
    } else {
        for (int i = 0; i < 50; i++) {
            check(wait_shown(member, 0, &message) == TUTTI_OK && message.bytes == 4);
            check(member->ops->take_pair(member->endpoint, member->peer[0], 0, data, LONG) ==
                  TUTTI_ERR_NOT_READY);
            progress_for(member, 1);
        }
        member->ops->take(member->endpoint, member->peer[0], 0);
        receive_from(member, 0, data, LONG, &operation);
        check(wait_for(member, &operation) == TUTTI_OK);
        check_pattern(data, LONG, 0, 1);
    }
    free(data);
    all_meet(member);
}

void case_pairs(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, pairs_body);
    run_threads(ops, 2, long_pair_body);
}
