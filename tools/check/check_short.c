/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages without requests. Short ones: each is shown whole, where it lies, until it is taken, in one order
 * with those that requests carry, and who waits for one is woken. Pairs: a short one and any other behind it are sent
 * together, and taken together, or neither is.
 */
#include "check/check_core.h"

#include <string.h>

enum { MESSAGES = 2000, LONG_EVERY = 40, REQUEST_EVERY = 5, AGAIN_EVERY = 7, LONGER = 70000 };

static uint64_t bytes_of(const struct core *core, uint64_t number)
{
    const uint64_t longest = core->ops->short_bytes;

    if (number % LONG_EVERY == LONG_EVERY - 1)
        return longest + 1 + number * 97 % LONGER;
    return number % 3 ? number * 31 % 200 : number * 7919 % (longest + 1);
}

/* False: it has to go by isend. */
static bool send_short(struct core *core, const uint8_t *data, uint64_t bytes)
{
    const uint64_t head = MIN(bytes, 24);

    check_enters("send_short");
    const tutti_status status = core->ops->send_short(core->endpoint, core->peer, core->lane, data,
                                                      head, data + head, bytes - head);
    check_leaves();
    if (status && status != TUTTI_ERR_BUSY)
        check_fails(
            "send_short of %llu bytes returns %s; what it cannot send it leaves to isend, with "
            "TUTTI_ERR_BUSY",
            (unsigned long long)bytes, core_says(core, status));
    return status == TUTTI_OK;
}

static void send_one(struct core *core, uint64_t number)
{
    const uint64_t bytes = bytes_of(core, number);
    uint8_t *data = core_buffer(bytes);
    struct transfer transfer;

    check_doing("sending message %llu, of %llu bytes", (unsigned long long)number,
                (unsigned long long)bytes);
    core_fill(data, bytes, number);
    if (bytes > core->ops->short_bytes || number % REQUEST_EVERY == 0 ||
        !send_short(core, data, bytes)) {
        core_send(core, data, bytes, 0, &transfer);
        const tutti_status status = core_wait(core, &transfer);
        if (status)
            check_fails("the send of message %llu, %llu bytes, ends with %s",
                        (unsigned long long)number, (unsigned long long)bytes,
                        status == TUTTI_ERR_NOT_READY ? "nothing: lost" : core_says(core, status));
    }
    core_buffer_free(data);
}

static tutti_status show(struct core *core, tutti_shown *ret_message)
{
    struct check_time time = check_time_of(CORE_WAIT_MS);
    tutti_status status;

    for (;;) {
        check_enters("show");
        status = core->ops->show(core->endpoint, core->peer, core->lane, ret_message);
        check_leaves();
        if (status != TUTTI_ERR_NOT_READY || !check_time_is_left(&time))
            return status;
        core_turn(core, NULL, 0);
    }
}

static void take(struct core *core)
{
    check_enters("take");
    core->ops->take(core->endpoint, core->peer, core->lane);
    check_leaves();
}

/* What is shown is the message `number`, of so many bytes. */
static void expect_shown(const tutti_shown *message, uint64_t bytes, uint64_t number)
{
    const uint64_t shown = message->bytes + message->rest_bytes;
    uint8_t *copy = core_buffer(bytes);

    if (shown != bytes)
        check_fails("where message %llu of %llu bytes was due, one of %llu bytes is shown",
                    (unsigned long long)number, (unsigned long long)bytes,
                    (unsigned long long)shown);
    if (message->bytes)
        memcpy(copy, message->data, message->bytes);
    if (message->rest_bytes)
        memcpy(copy + message->bytes, message->rest, message->rest_bytes);
    const uint64_t place = core_differs(copy, 0, bytes, number);
    if (place < bytes)
        check_fails(
            "byte %llu of message %llu, %llu bytes, is shown as another than was sent: is it "
            "shown twice, or overwritten before take?",
            (unsigned long long)place, (unsigned long long)number, (unsigned long long)bytes);
    core_buffer_free(copy);
}

static void receive_longer(struct core *core, uint64_t bytes, uint64_t number)
{
    uint8_t *data = core_buffer(bytes);
    struct transfer transfer;

    core_receive(core, data, bytes, &transfer);
    const tutti_status status = core_wait(core, &transfer);
    if (status || transfer.request.bytes != bytes || core_differs(data, 0, bytes, number) < bytes)
        check_fails(
            "message %llu, %llu bytes, which is too long to be shown, does not arrive by irecv",
            (unsigned long long)number, (unsigned long long)bytes);
    core_buffer_free(data);
}

static void receive_one(struct core *core, uint64_t number)
{
    const uint64_t bytes = bytes_of(core, number), longest = core->ops->short_bytes;
    tutti_shown message;

    check_doing("looking at message %llu, of %llu bytes", (unsigned long long)number,
                (unsigned long long)bytes);
    const tutti_status status = show(core, &message);
    if (status != (bytes > longest ? TUTTI_ERR_BUSY : TUTTI_OK))
        check_fails(
            "message %llu has %llu bytes, of which short_bytes is %llu, and show returns %s",
            (unsigned long long)number, (unsigned long long)bytes, (unsigned long long)longest,
            core_says(core, status));
    if (status) {
        receive_longer(core, bytes, number);
        return;
    }
    expect_shown(&message, bytes, number);
    if (number % AGAIN_EVERY == 0) {
        if (show(core, &message))
            check_fails("message %llu is not shown again before it was taken",
                        (unsigned long long)number);
        expect_shown(&message, bytes, number);
    }
    take(core);
}

/* Each member sends and receives, `turn` numbers at a time; then both close. */
static void in_turns(struct core *core, const struct check_member *member, uint64_t count,
                     uint64_t turn, void (*send)(struct core *, uint64_t),
                     void (*receive)(struct core *, uint64_t))
{
    for (uint64_t i = 0; i < count; i++)
        (i / turn % 2 == (uint64_t)member->index ? send : receive)(core, i);
    check_meet();
    core_close(core);
}

void check_short(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    if (!TUTTI_HAS(core.ops, show))
        check_skips("it has no show(): the core posts receives");
    in_turns(&core, member, MESSAGES, 100, send_one, receive_one);
}

/* ---- pairs ---- */

enum { PAIRS = 400, HEAD = 64, TAKE_MS = 200, PATIENT_EVERY = 3 };

/* Of the second message of a pair. */
static uint64_t body_of(const struct core *core, uint64_t number)
{
    const uint64_t longest = core->ops->short_bytes;
    const uint64_t bytes[] = {1, longest - 1, longest, longest + 1, 3 * longest, 20000, 262144};

    return bytes[number % (sizeof bytes / sizeof *bytes)];
}

static void send_by_request(struct core *core, const uint8_t *data, uint64_t bytes)
{
    struct transfer transfer;

    core_send(core, data, bytes, 0, &transfer);
    if (core_wait(core, &transfer))
        check_fails("the send of %llu bytes fails after send_pair was busy",
                    (unsigned long long)bytes);
}

static void send_two(struct core *core, uint64_t number)
{
    const uint64_t bytes = body_of(core, number);
    uint8_t head[HEAD], *body = core_buffer(bytes);

    check_doing("sending pair %llu, of %d and %llu bytes", (unsigned long long)number, HEAD,
                (unsigned long long)bytes);
    core_fill(head, HEAD, 2 * number);
    core_fill(body, bytes, 2 * number + 1);
    check_enters("send_pair");
    const tutti_status status =
        core->ops->send_pair(core->endpoint, core->peer, core->lane, head, HEAD, body, bytes);
    check_leaves();
    if (status && status != TUTTI_ERR_BUSY)
        check_fails(
            "send_pair of %d and %llu bytes returns %s; what it cannot send it leaves to isend, "
            "with TUTTI_ERR_BUSY",
            HEAD, (unsigned long long)bytes, core_says(core, status));
    if (status) {
        send_by_request(core, head, HEAD);
        send_by_request(core, body, bytes);
    }
    core_buffer_free(body);
}

static tutti_status take_pair(struct core *core, uint8_t *to, uint64_t bytes)
{
    check_enters("take_pair");
    const tutti_status status =
        core->ops->take_pair(core->endpoint, core->peer, core->lane, to, bytes);
    check_leaves();
    return status;
}

static void expect_head(struct core *core, uint64_t number)
{
    tutti_shown message;
    const tutti_status status = show(core, &message);

    if (status)
        check_fails("the first message of pair %llu, %d bytes, is not shown: %s",
                    (unsigned long long)number, HEAD, core_says(core, status));
    expect_shown(&message, HEAD, 2 * number);
}

/* The second message, after `take` of the first. */
static void receive_body(struct core *core, uint64_t bytes, uint64_t number)
{
    tutti_shown message;

    if (bytes > core->ops->short_bytes) {
        receive_longer(core, bytes, 2 * number + 1);
        return;
    }
    if (show(core, &message))
        check_fails("the second message of pair %llu, %llu bytes, is not shown",
                    (unsigned long long)number, (unsigned long long)bytes);
    expect_shown(&message, bytes, 2 * number + 1);
    take(core);
}

static void receive_two(struct core *core, uint64_t number)
{
    const uint64_t bytes = body_of(core, number);
    struct check_time time = check_time_of(number % PATIENT_EVERY ? TAKE_MS : 0);
    uint8_t *body = core_buffer(bytes + 1);
    tutti_status status;

    check_doing("taking pair %llu, of %d and %llu bytes", (unsigned long long)number, HEAD,
                (unsigned long long)bytes);
    expect_head(core, number);
    if (!take_pair(core, body, bytes + 1))
        check_fails("take_pair of %llu bytes takes a message of %llu",
                    (unsigned long long)bytes + 1, (unsigned long long)bytes);
    expect_head(core, number); /* it took nothing */
    while ((status = take_pair(core, body, bytes)) == TUTTI_ERR_NOT_READY &&
           check_time_is_left(&time))
        core_turn(core, NULL, 0);
    if (status && status != TUTTI_ERR_NOT_READY)
        check_fails("take_pair returns %s", core_says(core, status));
    if (status) {
        expect_head(core, number);
        take(core);
        receive_body(core, bytes, number);
    } else if (core_differs(body, 0, bytes, 2 * number + 1) < bytes) {
        check_fails("take_pair of pair %llu, %llu bytes, brings other bytes than were sent",
                    (unsigned long long)number, (unsigned long long)bytes);
    }
    core_buffer_free(body);
}

void check_pairs(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    if (!TUTTI_HAS(core.ops, take_pair))
        check_skips("it has no take_pair(): the core posts receives for longer messages");
    in_turns(&core, member, PAIRS, 50, send_two, receive_two);
}
