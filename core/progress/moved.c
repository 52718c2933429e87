/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages of tensors on devices whose bytes the group's engine for devices moves where they lie.
 *
 * p2p matches their headers as those of any message, and both sides agree (p2p/p2p_move.c). A send is offered once its
 * stream has come to it. A receive agrees once its stream has; if it waits for long, the message goes by pinned memory,
 * since its sender may be what the stream waits for. So what is agreed on waits for nothing but the other member, and
 * each ordered pair of members has a channel and a stream of its own, on which the messages are in one order.
 *
 * Each time the group is moved, all that has been agreed on is *launched*, as one launch of the engine. On each
 * channel that is the first message, and those of its batch right behind it. These are one operation on the channel's
 * stream, and complete together. Messages of different batches are never one operation: a program may count on the
 * first while the second moves. No message is held back for the rest of its batch: the other member may need it
 * before it receives more.
 *
 * Members may launch differently, and still do not wait in a circle. Operations of different channels are
 * independent. An operation waits for the other ends of its messages alone, and the other member launches each of
 * these when it is the first of its channel, whatever its program does. There is one exception: engines put nothing
 * of a launch on streams before they have connected all its channels, for which both ends have to come. So a
 * channel's first launch is by itself.
 *
 * A message that is on its stream is *flying*. A blocking call is complete then, and its own stream waits for the mark
 * behind the message. A work is complete when the stream has passed that.
 *
 * Invariant: moving.under_way counts the calls in the lists of this file, and what is flying. What is flying counts as an
 * unattended work of the progress engine, too.
 */
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "device/device.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "provider/channel.h"
#include "provider/native.h"

enum {
    STREAM_WAITS_MS = 200,
    STREAM_PAUSE_MS = 50, /* the progress engine asks more often, unless the process stands still */
    TROUBLE_WAITS_MS = 6000,
    LAUNCH_MESSAGES_MAX = 512 /* NCCL's manual names a limit of 2,048 operations */
};

struct flying {
    struct flying *next; /* first */
    struct device_mark *mark;
    struct call *call; /* a work that is not complete; NULL: it is */
    uint64_t record, bytes, tag;
    int64_t since_ns, timeout_ms;
};

/* ---- posting ---- */

static void meets(struct p2p_op *op, enum p2p_meeting what);

bool moved_may(const struct tutti_group *group, int peer, uint64_t bytes)
{
    return channels_carry(group, peer, bytes);
}

uint64_t moved_batch(struct tutti_group *group)
{
    return ++group->calls.moving.batches;
}

void *moved_post(struct call *call)
{
    void *memory = device_stand_in_memory(call->packed);

    call->message.may_move = true;
    call->message.has_no_buffer = !memory;
    call->message.meets = meets;
    return memory;
}

/* ---- what a message meets; in the middle of p2p's work ---- */

static void take_out(struct call **first, struct call ***last, const struct call *call)
{
    struct call **at = first;

    while (*at && *at != call)
        at = &(*at)->next_moved;
    if (!*at)
        return;
    *at = call->next_moved;
    if (!*at)
        *last = at;
}

static void append(struct call ***last, struct call *call)
{
    call->next_moved = NULL;
    **last = call;
    *last = &call->next_moved;
}

static int peer_of(const struct call *call)
{
    return call->kind == CALL_SEND ? call->peer : call->message.source;
}

void moved_forget(struct tutti_group *group, struct call *call)
{
    struct moving *moving = &group->calls.moving;
    struct channel *channel = NULL;

    if (call->moved == MOVED_NOT)
        return;
    if (call->moved == MOVED_MET)
        take_out(&moving->met, &moving->last_met, call);
    else if ((channel = channel_find(group, peer_of(call), call->kind == CALL_SEND)))
        take_out(&channel->first, &channel->last, call);
    call->moved = MOVED_NOT;
    moving->under_way--;
}

static void is_met(struct tutti_group *group, struct call *call)
{
    call->moved = MOVED_MET;
    call->met_ns = call->asked_ns = clock_now_ns();
    append(&group->calls.moving.last_met, call);
    group->calls.moving.under_way++;
}

static void is_agreed(struct tutti_group *group, struct call *call)
{
    struct channel *channel = channel_find(group, peer_of(call), call->kind == CALL_SEND);

    if (!channel) {
        group_call_failed(group, call, error_set(TUTTI_ERR_NO_MEMORY, "no memory for a channel"));
        return;
    }
    call->moved = MOVED_AGREED;
    append(&channel->last, call);
    group->calls.moving.under_way++;
}

static void meets(struct p2p_op *op, enum p2p_meeting what)
{
    struct call *call = op->user;

    moved_forget(call->group, call);
    if (what == P2P_IS_AGREED)
        is_agreed(call->group, call);
    else if (what != P2P_MEETS_NOTHING)
        is_met(call->group, call);
}

/* ---- answering ---- */

/* It goes by pinned memory. NOT_READY: there is none now, or what is sent is on its way there. */
static tutti_status go_by_host(struct tutti_group *group, struct call *call)
{
    void *memory;
    tutti_status status = device_stand_in_now(call->packed, &memory);

    if (!status) {
        staged_message(group, call);
        status = call->kind == CALL_SEND ? staged_may_leave(call) : TUTTI_OK;
    }
    if (status)
        return status;
    moved_forget(group, call);
    call->in.base = call->out.base = memory;
    record_staged(group, call);
    p2p_give_buffer(&call->message, memory);
    return TUTTI_OK;
}

/* Counts how long the stream is waited for, and tells whether that is long. A pause between two looks counts little: where
 * the process stood still, its stream did as well. */
static bool has_waited_long(struct call *call, int64_t now_ns)
{
    const int64_t too_long_ns = now_ns - call->asked_ns - STREAM_PAUSE_MS * CLOCK_NS_PER_MS;

    if (too_long_ns > 0)
        call->met_ns += too_long_ns;
    call->asked_ns = now_ns;
    return now_ns - call->met_ns > STREAM_WAITS_MS * CLOCK_NS_PER_MS;
}

static tutti_status answer(struct tutti_group *group, struct call *call, int64_t now_ns)
{
    tutti_status status;

    if (!p2p_is_offered(&call->message))
        return go_by_host(group, call);
    status = packed_fill(call->packed);
    if (status == TUTTI_ERR_NOT_READY && has_waited_long(call, now_ns))
        return go_by_host(group, call);
    if (status)
        return status;
    moved_forget(group, call);
    p2p_agree(&call->message);
    return TUTTI_OK;
}

static unsigned answer_all(struct tutti_group *group)
{
    const int64_t now_ns = clock_now_ns();
    unsigned moved = 0;

    for (struct call *call = group->calls.moving.met, *next; call; call = next) {
        next = call->next_moved;
        if (call_is_failing(call))
            continue;
        const tutti_status status = answer(group, call, now_ns);

        moved += !status;
        if (status && status != TUTTI_ERR_NOT_READY)
            group_call_failed(group, call, status);
    }
    return moved;
}

/* ---- flying ---- */

static void end_first(struct tutti_group *group, struct channel *channel, tutti_status status)
{
    struct progress_engine *engine = &group->context->engine;
    struct flying *flying = channel->flying;
    struct call *call = flying->call;

    channel->flying = flying->next;
    if (!channel->flying)
        channel->last_flying = &channel->flying;
    record_state(group, flying->record, status ? RECORD_FAILED : RECORD_DONE);
    group->calls.moving.under_way--;
    engine_count_unattended(engine, -1);
    if (call) {
        call->state.work->mark = NULL;
        if (status)
            error_keep(&call->state.work->error);
        engine_complete(engine, &call->state, status);
    }
    device_mark_free(flying->mark);
    free(flying);
}

/* The first message of the channel is on its stream, before the mark. */
static tutti_status flies(struct tutti_group *group, struct channel *channel,
                          struct device_mark *mark)
{
    struct call *call = channel->first;
    struct flying *flying = calloc(1, sizeof *flying);

    if (!flying)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a message");
    flying->mark = device_mark_share(mark);
    flying->record = call->record;
    flying->bytes = call->message.capacity;
    flying->tag = call->tag;
    flying->since_ns = clock_now_ns();
    flying->timeout_ms = call->timeout_ms;
    if (call->state.work) {
        flying->call = call;
        call->state.work->mark = flying->mark;
    } else {
        call->mark = device_mark_share(flying->mark);
    }
    call->issued = true;
    call->waited = !call->state.work;
    moved_forget(group, call);
    packed_end(&call->packed, false);
    *channel->last_flying = flying;
    channel->last_flying = &flying->next;
    group->calls.moving.under_way++;
    engine_count_unattended(&group->context->engine, 1);
    engine_visit(&group->context->engine);
    p2p_moved(&call->message);
    (void)p2p_finish(group->ways.p2p_engine); /* the call leaves its list before its mark ends it */
    return TUTTI_OK;
}

static void fail(struct tutti_group *group, tutti_status status, const char *words)
{
    char message[CONTROL_MESSAGE_MAX];

    snprintf(message, sizeof message, "rank %d: %.*s", group->rank, TEXT_CUT(words, 900));
    group->calls.moving.fails = true;
    control_propose(group->control, status, group->rank, message);
}

/* The control plane may know which member was lost. */
static void judge_trouble(struct tutti_group *group, const struct channel *channel, int64_t now_ns)
{
    if (channel->trouble != TUTTI_ERR_PEER_LOST ||
        now_ns - channel->trouble_ns >= TROUBLE_WAITS_MS * CLOCK_NS_PER_MS)
        fail(group, channel->trouble, channel->words);
}

/* `whose`: "", or that it may be the trouble of others, too. */
static void note_trouble(struct tutti_group *group, struct channel *channel, tutti_status status,
                         const char *whose)
{
    channel->trouble = status;
    channel->trouble_ns = clock_now_ns();
    snprintf(channel->words, sizeof channel->words, "messages %s rank %d%s: %.*s",
             channel->sends ? "to" : "from", channel->peer, whose, TEXT_CUT(error_message(), 700));
    judge_trouble(group, channel, channel->trouble_ns);
}

static void has_trouble(struct tutti_group *group, struct channel *channel, tutti_status status)
{
    note_trouble(group, channel, status, "");
}

/* ---- launching ---- */

static bool has_given(const struct channel *channel)
{
    return channel->first && channel->first->moved == MOVED_GIVEN;
}

/* All that was given to the channel is on its stream. */
static tutti_status take_off(struct tutti_group *group, struct channel *channel)
{
    struct device_mark *mark;
    tutti_status status = device_mark(channel->native->device, channel->stream, &mark);

    if (status)
        return status;
    channel->has_launched = true;
    while (!status && has_given(channel))
        status = flies(group, channel, mark);
    device_mark_free(mark);
    return status;
}

/* OK: the channel takes messages, and has some. */
static tutti_status get_ready(struct tutti_group *group, struct channel *channel)
{
    tutti_status status = channel->first ? channel_opens(group, channel) : TUTTI_ERR_NOT_READY;

    if (!status && has_given(channel)) {
        status = channel_asks(channel);
        if (!status)
            status = take_off(group, channel);
    }
    return status || channel->first ? status : TUTTI_ERR_NOT_READY;
}

/* The first message, and those of its batch behind it. `given`: in this launch so far. */
static tutti_status give(struct channel *channel, unsigned *given)
{
    const uint64_t batch = channel->first->batch;
    tutti_status status = TUTTI_OK;

    for (struct call *call = channel->first; call && !status && *given < LAUNCH_MESSAGES_MAX;
         call = call->next_moved) {
        if (call != channel->first && (!batch || call->batch != batch))
            break;
        status = channel_gives(channel, device_tensor_memory(call->packed), call->message.capacity);
        call->moved = MOVED_GIVEN;
        ++*given;
    }
    return status;
}

/* The next channel of a launch, from `channel` on: of all that have launched before, or of `alone`. */
static struct channel *next_ready(struct channel *channel, const struct channel *alone)
{
    while (channel && !(channel->is_ready && channel->first &&
                        (alone ? channel == alone : channel->has_launched)))
        channel = channel->next;
    return channel;
}

/* How many messages the engine has got. Where it refuses one, those of the others are lost as well. */
static unsigned launch(struct tutti_group *group, struct channel *alone)
{
    struct moving *moving = &group->calls.moving;
    struct channel *const first = next_ready(moving->channels, alone);
    unsigned given = 0;

    if (!first)
        return 0;
    const bool is_alone = !next_ready(first->next, alone);
    tutti_status status = channels_begin_launch(group);
    if (!status) {
        for (struct channel *c = first; c && !status && given < LAUNCH_MESSAGES_MAX;
             c = next_ready(c->next, alone))
            status = give(c, &given);
        const tutti_status end = channels_end_launch(group);
        status = status ? status : end;
    }
    for (struct channel *c = first; c && status != TUTTI_ERR_NOT_READY && !moving->fails;
         c = next_ready(c->next, alone)) {
        const tutti_status one = !status && has_given(c) ? take_off(group, c) : status;

        if (one && (c == first || has_given(c)))
            note_trouble(group, c, one, is_alone ? "" : ", or others of the same launch");
    }
    return given;
}

/* Launches what can be; how many messages moved on. */
static unsigned launch_all(struct tutti_group *group)
{
    struct moving *moving = &group->calls.moving;
    unsigned given = 0;

    for (struct channel *c = moving->channels; c && !moving->fails; c = c->next) {
        const tutti_status status = c->trouble ? TUTTI_ERR_NOT_READY : get_ready(group, c);

        c->is_ready = !status;
        if (status && status != TUTTI_ERR_NOT_READY)
            has_trouble(group, c, status);
    }
    for (struct channel *c = moving->channels; c && !moving->fails; c = c->next)
        if (c->is_ready && !c->has_launched)
            given += launch(group, c);
    return moving->fails ? given : given + launch(group, NULL);
}

/* Ends what its stream has passed. */
static unsigned land(struct tutti_group *group, struct channel *channel)
{
    tutti_status status = TUTTI_OK;
    unsigned ended = 0;

    while (channel->flying && !(status = device_mark_passed(channel->flying->mark))) {
        end_first(group, channel, TUTTI_OK);
        ended++;
    }
    if (status && status != TUTTI_ERR_NOT_READY && !channel->trouble)
        has_trouble(group, channel, status);
    return ended;
}

unsigned moved_move(struct tutti_group *group)
{
    struct moving *moving = &group->calls.moving;
    unsigned moved = 0, given;

    if (moving->fails || control_verdict_status(group->control))
        return 0;
    moved = answer_all(group);
    do {
        given = launch_all(group);
        moved += given;
    } while (given && !moving->fails);
    for (struct channel *channel = moving->channels; channel && !moving->fails;
         channel = channel->next)
        moved += land(group, channel);
    return moved;
}

/* ---- by the clock ---- */

static void time_out(struct tutti_group *group, const struct channel *channel)
{
    const struct flying *flying = channel->flying;
    struct control_timeout timeout = {.verdict.culprit = channel->peer, .heard = {-1, -1}};
    char who[256];

    control_describe(group->control, channel->peer, who, sizeof who);
    snprintf(timeout.verdict.message, sizeof timeout.verdict.message,
             "%s of %llu bytes, tag %llu timed out after %lld ms on rank %d: it is on a stream, "
             "waiting for %s",
             channel->sends ? "send" : "recv", (unsigned long long)flying->bytes,
             (unsigned long long)flying->tag, (long long)flying->timeout_ms, group->rank, who);
    group->calls.moving.fails = true;
    control_time_out(group->control, &timeout);
}

/* An idle one is not asked: a member that has left ends it. */
static void look_at(struct tutti_group *group, struct channel *c, int64_t now_ns)
{
    const struct flying *flying = c->flying;
    const tutti_status status =
        c->is_open && (c->first || flying) ? channel_asks(c) : TUTTI_ERR_NOT_READY;

    if (status && status != TUTTI_ERR_NOT_READY)
        has_trouble(group, c, status);
    else if (flying && (now_ns - flying->since_ns) / CLOCK_NS_PER_MS >= flying->timeout_ms)
        time_out(group, c);
}

void moved_look(struct tutti_group *group, int64_t now_ns)
{
    struct moving *moving = &group->calls.moving;

    for (struct channel *c = moving->channels; c && !moving->fails; c = c->next) {
        if (c->trouble)
            judge_trouble(group, c, now_ns);
        else
            look_at(group, c, now_ns);
    }
}

/* ---- the end ---- */

void moved_fail(struct tutti_group *group)
{
    channels_abort(group);
    for (struct channel *c = group->calls.moving.channels; c; c = c->next)
        while (c->flying)
            end_first(group, c, group_verdict(group));
}

tutti_status moved_await(struct call *call)
{
    struct progress_engine *engine = &call->group->context->engine;
    tutti_status status;

    engine_take(engine);
    status = device_mark_wait(call->mark, call->stream);
    device_mark_free(call->mark);
    call->mark = NULL;
    engine_release(engine);
    return status ? group_end_by_own(call->group, status) : TUTTI_OK;
}
