/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages that are over where they begin: a short one that the transport takes at once, and one that is there, or comes
 * while its receiver looks. No call is made of them. So only messages go this way that no wrapper is to see, no batch
 * keeps, and whose tensor needs no stand-in.
 */
#pragma once

#include "base/fork.h"
#include "collective/batch.h"
#include "collective/call.h"
#include "progress/progress.h"
#include "provider/routes.h"
#include "tensor/layout.h"

#define MESSAGE_TAG_MAX ((UINT64_C(1) << 62) - 1)

/* All that a short message is. */
struct plain_message {
    int32_t peer; /* a rank of the group, and not this one */
    bool up_to;   /* a shorter one is welcome */
    uint64_t tag;
    void *data;
    uint64_t bytes;
};

/* What is declared so is compiled into each function of the public API that uses it, where `kind` is known: calls
 * between its parts would take longer than most of these messages. */
#define ON_THE_WAY static inline __attribute__((always_inline))

/* Whether a message has no options, and a vector in host memory for a tensor; fills in all but up_to. False as well if
 * something is wrong with it: those who check all other messages find out what. */
ON_THE_WAY bool message_is_plain(tutti_group *group, const tutti_tensor *tensor, int32_t peer,
                                 uint64_t tag, const tutti_options *options,
                                 struct plain_message *ret_message)
{
    uint64_t count;

    if (!group || options || !tensor || group->fork_generation != fork_current() ||
        (uint32_t)peer >= (uint32_t)group->size || peer == group->rank || tag > MESSAGE_TAG_MAX ||
        batch_of(group) || tensor->device.type != TUTTI_DEVICE_CPU ||
        !tensor_measure_vector(tensor, &count, &ret_message->bytes))
        return false;
    ret_message->peer = peer;
    ret_message->tag = tag;
    ret_message->data = tensor->data;
    return true;
}

/* Looks for a message that is not there yet for as long as a peer on another CPU takes to answer; point_to_point.c. */
enum p2p_now message_look_soon(struct tutti_group *group, struct p2p_group *space,
                               struct plain_message *m);

ON_THE_WAY bool message_try_receive(struct tutti_group *group, struct p2p_group *space,
                                    struct plain_message *m, bool blocks)
{
    uint64_t bytes = m->bytes;
    enum p2p_now now =
        p2p_recv_at_once(space, m->peer, m->tag, m->data, m->bytes, m->up_to, &bytes);

    if (now == P2P_NOW_NOTHING && blocks) {
        struct plain_message sought = *m; /* so that only then it has an address */

        now = message_look_soon(group, space, &sought);
        bytes = sought.bytes;
    }
    m->bytes = bytes;
    return now == P2P_NOW_DONE;
}

/* Sends or receives a short message without a call, if that can be done now, or, where the caller `blocks` anyway, in a
 * moment. False: nothing was sent or taken. Under the progress lock. */
ON_THE_WAY bool message_try(struct tutti_group *group, struct plain_message *m, enum call_kind kind,
                            bool blocks)
{
    if (group->calls.held || group->ways.wrappers || group_ended(group))
        return false;

    struct p2p_group *space = route_messages(group);
    const bool over = kind == CALL_SEND ? p2p_send_now(space, m->peer, m->tag, m->data, m->bytes)
                                        : message_try_receive(group, space, m, blocks);
    if (over)
        (void)record_message(group, kind == CALL_SEND, m->peer, m->tag, m->bytes, RECORD_DONE);
    return over;
}

/* The same for a blocking call; takes the progress lock for it. */
ON_THE_WAY bool message_try_blocking(struct tutti_group *group, struct plain_message *m,
                                     enum call_kind kind)
{
    struct progress_engine *engine = &group->context->engine;

    engine_take(engine);
    const bool over = message_try(group, m, kind, true);
    engine_release(engine);
    return over;
}
