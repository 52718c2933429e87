/* SPDX-License-Identifier: Apache-2.0 */
/* Transports that show what has arrived: send_short, show and take, mixed with requests. */
#include "cases.h"

#include <stdlib.h>
#include <string.h>

/* In the order of the wire: what the sender tried first is no matter to the receiver. */
static uint64_t size_of(const struct member *member, uint64_t number)
{
    uint64_t state = number * 7919 + 1;
    const uint32_t random = random_next(&state);

    if (random % 50 == 0)
        return member->ops->short_bytes + 1 + random_next(&state) % 200000;
    return random_next(&state) % (random % 3 ? 100 : member->ops->short_bytes + 1);
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

    for (uint64_t i = 0; i < MESSAGES; i++) {
        if (member->rank == 0)
            send_one(member, i, data);
        else
            receive_one(member, i, data);
        if (member->rank == 1 && i % 500 == 0)
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
