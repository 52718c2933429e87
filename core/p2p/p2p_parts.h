/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that the files of core/p2p share and nobody else calls. */
#pragma once

#include <tutti/plugin_copy.h>

#include "p2p/p2p_inside.h"

/* ---- p2p_op.c: starting, cancelling and completing operations ---- */

/* Undoes it when the operation could not be queued; NO_MEMORY. */
tutti_status p2p_op_give_up(struct p2p_op *op, const char *what) __attribute__((cold));
void p2p_op_complete(struct p2p_op *op, tutti_status status);
/* Calls `done` of what has completed; with a group, of its operations alone. */
unsigned p2p_op_finish(struct p2p_engine *engine, const struct p2p_group *group);

/* ---- p2p_match.c: waiting receives, messages that no receive has taken, and ids of transfers ---- */

/* The first operation that waits for a message (source, tag), taken out; or NULL. */
struct p2p_op *p2p_match_arrived(struct p2p_group *group, uint8_t space, int source, uint64_t tag);
/* The first envelope that a receive or early-grant seeker (source, tag) may take, taken out; or
 * NULL. */
struct p2p_envelope *p2p_match_posted(struct p2p_group *group, uint8_t space, int source,
                                      uint64_t tag);
tutti_status p2p_match_post(struct p2p_group *group, struct p2p_op *op, int source);
/* The kept request `id` of the path, taken out; or NULL. */
struct p2p_envelope *p2p_match_request(struct p2p_group *group, const struct p2p_path *path,
                                       int source, uint64_t tag, uint32_t id);
void p2p_match_withdraw(struct p2p_op *op);
tutti_status p2p_match_keep(struct p2p_group *group, uint8_t space, struct p2p_envelope *envelope);
/* Takes an envelope out that was kept. */
void p2p_match_take(struct p2p_group *group, struct p2p_envelope *envelope);
/* Whether an operation waits for a user's message (source, tag), or one has arrived that nobody has taken. */
bool p2p_match_is_known(const struct p2p_group *group, int source, uint64_t tag);
/* Takes envelopes out one by one; NULL when none is left. `cursor` begins at 0. */
struct p2p_envelope *p2p_match_any(struct p2p_group *group, size_t *cursor);
tutti_status p2p_transfer_new(struct p2p_engine *engine, struct p2p_op *op);
void p2p_transfer_free(struct p2p_engine *engine, struct p2p_op *op);
/* The operation, or NULL when it is gone; `ret_known` false when there never was such an id. */
struct p2p_op *p2p_transfer_find(struct p2p_engine *engine, uint32_t id, bool *ret_known);

/* ---- p2p_flow.c: the traffic of a path: packets, pieces, credits ---- */

bool p2p_packet_queue(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                      const void *data);
void p2p_packet_drop(struct p2p_packet *packet);
bool p2p_packet_copy(struct p2p_packet *packet);
void p2p_packet_free(struct p2p_packet *packet);
unsigned p2p_flow_send(struct p2p_path *path);
/* Sends what queues, unless that is to leave together with what comes. */
static inline void p2p_flow_start(struct p2p_path *path)
{
    if (!path->engine->gathers)
        p2p_flow_send(path);
    else if (p2p_link_alone(&path->gathered))
        p2p_link_append(&path->engine->gathered, &path->gathered);
}
unsigned p2p_flow_receive(struct p2p_path *path);
void p2p_flow_sent(struct p2p_io *io);
void p2p_flow_stream(struct p2p_op *op, uint32_t peer_id);
/* Tells the peer what is owed to it. */
void p2p_flow_tell_credit(struct p2p_path *path) __attribute__((noinline));
/* `bytes` that counted against the peer's credit were taken in; it is told once they are many. */
static inline void p2p_flow_owe(struct p2p_path *path, uint64_t bytes)
{
    path->owed += (uint32_t)bytes;
    if (bytes && path->owed >= path->window / 2)
        p2p_flow_tell_credit(path);
}
/* The same, also of the way to oneself, which gives it back at once. */
static inline void p2p_flow_credit(struct p2p_path *path, uint64_t bytes)
{
    if (path->at)
        p2p_flow_owe(path, bytes);
    else
        path->credit += (uint32_t)bytes;
}
bool p2p_flow_expect(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                     struct p2p_envelope *envelope);
void p2p_flow_received(struct p2p_io *io);
/* Sends a header of the group that has no payload and is of no operation. False: no memory. */
static inline bool p2p_flow_tell(struct p2p_path *path, const struct p2p_group *group,
                                 struct p2p_header *header)
{
    header->group = group->id;
    header->source = (uint32_t)group->rank;
    if (!p2p_packet_queue(path, header, NULL, NULL))
        return false;
    p2p_flow_start(path);
    return true;
}
/* The peer is about to hear of header->credit. */
static inline void p2p_flow_told(struct p2p_path *path, const struct p2p_header *header)
{
    path->owed -= header->credit;
    path->peer_used -= header->credit;
    path->greeted = true;
    if (header->kind == P2P_CREDIT)
        path->credit_queued = false;
}
/* Bytes of it have left, or have arrived. */
void p2p_flow_moved(struct p2p_op *op, uint64_t bytes);
/* A payload is in the memory of its receive (NULL: nobody wants it) from `offset` on, and counted against the sender's
 * credit if it was `charged`. */
static inline void p2p_flow_taken_in(struct p2p_path *path, struct p2p_op *op, uint64_t offset,
                                     uint64_t bytes, bool charged)
{
    if (charged)
        p2p_flow_credit(path, bytes);
    if (op && op->arrived)
        op->arrived(op, offset, bytes);
    if (op)
        p2p_flow_moved(op, bytes);
}
/* There is no memory for a payload: fails the path. False. */
bool p2p_flow_no_room(struct p2p_path *path, uint64_t bytes) __attribute__((cold));
void p2p_incoming_free(struct p2p_incoming *incoming);
bool p2p_incoming_redirect(struct p2p_incoming *incoming);

/* ---- p2p_short.c: header and payload as one message ---- */

/* What a transport shows, and its header. */
struct p2p_short_message {
    tutti_shown shown;
    uint64_t size;
    uint32_t header_bytes;
    const char *wrong; /* NULL, or why it begins with no header */
    struct p2p_header header;
};

/* Whether nothing queues before a short message. */
static inline bool p2p_short_may_send(const struct p2p_path *path)
{
    return path->at->shows && !path->failed && !path->mute && p2p_link_alone(&path->queue);
}
/* The next message, which stays. NOT_READY: there is none. */
tutti_status p2p_short_show(const struct p2p_path *path, struct p2p_short_message *ret_message);
/* Copies `bytes` from `offset` of the message on, which has so many. It lies in one part nearly always. */
void p2p_short_copy_parts(const tutti_shown *message, uint64_t offset, void *to, uint64_t bytes);
static inline void p2p_short_copy(const tutti_shown *message, uint64_t offset, void *to,
                                  uint64_t bytes)
{
    if (message->rest_bytes)
        p2p_short_copy_parts(message, offset, to, bytes);
    else
        tutti_copy_plain(to, (const uint8_t *)message->data + offset, bytes);
}

/* Sends both now, before whatever queues. False: not possible. */
bool p2p_short_send(struct p2p_path *path, struct p2p_header *header, const void *data);
/* As p2p_flow_expect(), where the payload is here already. */
bool p2p_short_expect(struct p2p_path *path, const struct p2p_header *header, struct p2p_op *op,
                      struct p2p_envelope *envelope);
/* Delivers what the transport shows of the path, of all paths; how many messages. */
unsigned p2p_short_look(struct p2p_path *path);
unsigned p2p_short_look_all(struct p2p_engine *engine);

/* ---- p2p_deliver.c: the meaning of an arrived header ---- */

/* The peer has sent what no member could have sent: fails the path. */
void p2p_nonsense(struct p2p_path *path, const char *why) __attribute__((cold));
/* Tells the peer what becomes of its send `id`. */
void p2p_answer(struct p2p_path *path, uint8_t kind, const struct p2p_group *group, uint32_t id,
                uint64_t tag);
/* A receive that has met the send `id` asks for its payload. */
void p2p_ask(struct p2p_op *op, struct p2p_path *path, uint32_t id);

/* Whether it is within the limits of a peer in any group: its credit and the longest piece. NULL, or what is
 * wrong. Takes the credit that it returns, and charges what it carries. */
const char *p2p_deliver_limits(struct p2p_path *path, const struct p2p_header *h);
/* The header in path->wire has arrived, or its receive has failed. */
void p2p_deliver_header(struct p2p_path *path);
/* A header has arrived, or what is none, for `wrong`. Its payload is in `message`, or follows if that is NULL. */
void p2p_deliver(struct p2p_path *path, const struct p2p_header *header, const char *wrong,
                 const struct p2p_short_message *message);
/* Delivers the messages that arrived before their groups existed. */
void p2p_deliver_orphans(struct p2p_engine *engine);
/* Gives a receive what had arrived before it was posted. */
void p2p_deliver_envelope(struct p2p_op *op, struct p2p_envelope *envelope);
/* `op`, which is in no bin any more, has met the message `h`. False: the sizes do not agree, and the
 * receive is complete with that. */
bool p2p_deliver_meet(struct p2p_op *op, struct p2p_path *path, const struct p2p_header *h);
/* The envelope is no longer ARRIVING. */
void p2p_envelope_settle(struct p2p_envelope *envelope, enum p2p_envelope_state state);
/* Nobody will receive it. */
void p2p_envelope_drop(struct p2p_envelope *envelope);

/* ---- p2p_move.c: messages that engines move ---- */

/* A receive has met a request. False: it is one as any other. */
bool p2p_move_meets(struct p2p_op *receive, const struct p2p_header *h);
/* A send without a buffer was granted. */
void p2p_move_granted(struct p2p_op *send, uint32_t peer_id);
/* The receiver of a send agrees; the sender of a receive moves it. */
void p2p_move_agreed(struct p2p_op *send, const struct p2p_header *h);
void p2p_move_begins(struct p2p_op *receive);

/* ---- p2p_place.c: messages that are copied from place to place ---- */

/* Whether a send is offered, with a request that is still to be made: fills in header->place then. */
bool p2p_place_offer(struct p2p_op *send, int destination, struct p2p_header *header);
/* The send, which is offered, has got its id. */
void p2p_place_open(struct p2p_op *send);
/* Whether the receiver has copied nothing of a send that was offered. */
bool p2p_place_is_untouched(const struct p2p_op *send);
/* Takes the offer back before the receiver copies from it. False: it does. */
bool p2p_place_take_back(struct p2p_op *send);
/* The receiver's memory may be written by the sender. */
void p2p_place_help(struct p2p_op *send, const struct p2p_header *h);
/* The operation is over, or is no longer copied from place to place. */
void p2p_place_end(struct p2p_op *op);
/* A receive has met a request with a place. False: it cannot be read there. */
bool p2p_place_read(struct p2p_op *receive, struct p2p_path *path, const struct p2p_header *h);
/* Each operation copies a piece. How many did. */
unsigned p2p_place_progress(struct p2p_engine *engine);

/* ---- p2p_engine.c: endpoints, paths, progress ---- */

/* Takes back everything that the transport of a failed path holds, if it can. */
void p2p_path_withdraw(struct p2p_path *path);

/* ---- p2p_group.c: making, failing and freeing groups ---- */

/* Ends a path that bytes are on for which nobody has memory any more. */
void p2p_path_cut_off(struct p2p_path *path);
/* NULL: no group of that id was ever made here. */
struct p2p_group_name *p2p_group_find(struct p2p_engine *engine, uint32_t group_id);
/* p2p_group_fail() without calling `done`, for use inside p2p_progress(). */
void p2p_group_end(struct p2p_group *group, tutti_status status);

/* ---- p2p_self.c: messages of a member to itself ---- */

/* Starts a send to oneself, an operation that is filled in. */
tutti_status p2p_self_send(struct p2p_op *send);
/* A receive takes the envelope of a send to oneself that still waits. */
void p2p_self_deliver(struct p2p_op *receive, struct p2p_envelope *envelope);
