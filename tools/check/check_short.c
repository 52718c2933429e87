/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Short messages without requests: each message is shown whole, where it lies, until it is taken, in one order
 * with those that requests carry, and who waits for one is woken.
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
    check_enters("take");
    core->ops->take(core->endpoint, core->peer, core->lane);
    check_leaves();
}

void check_short(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    if (!TUTTI_HAS(core.ops, show))
        check_skips("it has no show(): the core posts receives");
    for (uint64_t i = 0; i < MESSAGES; i++) {
        const bool sends = i / 100 % 2 == (uint64_t)member->index;

        if (sends)
            send_one(&core, i);
        else
            receive_one(&core, i);
    }
    check_meet();
    core_close(&core);
}
