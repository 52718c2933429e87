/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, cancelling and completing operations. */
#include "base/error.h"
#include "p2p/p2p_parts.h"

/* Why the group takes no operation with `peer`; OK when it does. */
static tutti_status check(const struct p2p_group *group, int peer, bool collective, uint64_t bytes)
{
    if (group->failed)
        return error_set(group->failed, "the group has failed: %s",
                         tutti_status_string(group->failed));
    if (peer < 0 || peer >= group->size || (collective && peer == group->rank))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "rank %d cannot be the other side: the group has the ranks 0 to %d and "
                         "this is rank %d",
                         peer, group->size - 1, group->rank);
    if (bytes > INT64_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "a message of %llu bytes is too long",
                         (unsigned long long)bytes);
    return TUTTI_OK;
}

static void begin(struct p2p_op *op, struct p2p_group *group, struct p2p_path *path, uint8_t state,
                  uint8_t space, uint64_t tag, const void *buffer, uint64_t bytes)
{
    op->status = TUTTI_ERR_NOT_READY;
    op->source = -1;
    op->bytes = 0;
    op->group = group;
    op->path = path;
    op->buffer = (void *)(uintptr_t)buffer; /* a send only reads it */
    op->capacity = op->room = bytes;
    op->tag = tag;
    op->issued = op->moved = 0;
    op->packet = op->held_by = NULL;
    op->held = op->claim = NULL;
    op->state = state;
    op->space = space;
    op->announced = op->has_id = op->any_source = 0;
    op->order = group->order++;
    p2p_link_init(&op->queue);
    p2p_link_init(&op->finished);
    p2p_link_append(&group->ops, &op->member);
}

static void unhook(struct p2p_op *op)
{
    if (op->held_by && (op->state == OP_ARRIVING || op->state == OP_SELF)) {
        if (op->state == OP_SELF)
            p2p_match_take(op->group, op->held_by);
        p2p_envelope_drop(op->held_by);
        op->held_by = NULL;
    } else if (op->held_by) {
        p2p_match_withdraw(op);
    }
    if (op->has_id)
        p2p_transfer_free(op->group->engine, op);
    if (op->claim)
        p2p_place_end(op);
    p2p_link_remove(&op->queue);
    p2p_link_remove(&op->member);
    op->state = OP_COMPLETE;
}

tutti_status p2p_op_give_up(struct p2p_op *op, const char *what)
{
    unhook(op);
    op->status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to queue a %s", what);
    return op->status;
}

void p2p_op_complete(struct p2p_op *op, tutti_status status)
{
    unhook(op);
    op->status = status;
    if (status == TUTTI_OK)
        op->bytes = op->capacity;
    if (op->done)
        p2p_link_append(&op->group->engine->finished, &op->finished);
}

unsigned p2p_op_finish(struct p2p_engine *engine, const struct p2p_group *group)
{
    struct p2p_link mine, *next;
    unsigned called = 0;

    p2p_link_init(&mine);
    for (struct p2p_link *link = engine->finished.next; link != &engine->finished; link = next) {
        next = link->next;
        if (!group || P2P_OF(link, struct p2p_op, finished)->group == group) {
            p2p_link_remove(link);
            p2p_link_append(&mine, link);
        }
    }
    while (!p2p_link_alone(&mine)) {
        struct p2p_op *op = P2P_FIRST(&mine, struct p2p_op, finished);

        p2p_link_remove(&op->finished);
        op->done(op);
        called++;
    }
    return called;
}

/* ---- send ---- */

/* Starts a large collective message, whose receiver grants it unasked: takes a grant that is here,
 * or waits for it. */
static tutti_status seek_grant(struct p2p_op *op, int destination)
{
    struct p2p_envelope *ready = p2p_match_posted(op->group, SPACE_READY, destination, op->tag);

    if (ready) {
        if (ready->header.bytes == op->capacity)
            p2p_flow_stream(op, ready->header.id);
        p2p_envelope_drop(ready);
    } else if (p2p_match_post(op->group, op, destination) != TUTTI_OK) {
        p2p_packet_drop(op->packet);
        return p2p_op_give_up(op, "send");
    }
    return TUTTI_OK;
}

/*
 * Whether the message may leave without a grant: its buffer is here and filled, and the peer has room for it. One that is
 * longer than path->eager_max has to leave at once, with its header, and to find a buffer.
 */
static bool is_eager(const struct p2p_op *op, bool collective, uint64_t bytes)
{
    const struct p2p_path *path = op->path;
    uint64_t most = path->eager_max;

    if (!collective && path->at->pair_max > most && !op->group->has_bare)
        most = path->at->pair_max < path->unasked_max ? path->at->pair_max : path->unasked_max;
    return !op->may_move && !op->may_read && bytes <= most && bytes <= path->credit;
}

/* False: it cannot leave now. */
static bool send_at_once(struct p2p_op *op, struct p2p_header *header)
{
    struct p2p_path *path = op->path;

    if (!p2p_short_may_send(path) || !p2p_short_send(path, header, op->buffer))
        return false;
    path->credit -= (uint32_t)header->bytes;
    p2p_op_complete(op, TUTTI_OK);
    return true;
}

/* Makes the header a request of a grant for the send. */
static tutti_status make_request(struct p2p_op *op, struct p2p_header *header, bool collective)
{
    const tutti_status status = p2p_transfer_new(op->group->engine, op);

    if (status)
        return status;
    if (op->claim)
        p2p_place_open(op);
    header->kind = collective ? P2P_COLLECTIVE_REQUEST : P2P_REQUEST;
    header->id = op->id;
    header->moves = op->may_move;
    return TUTTI_OK;
}

static tutti_status send(struct p2p_group *group, struct p2p_op *op, int destination,
                         struct p2p_header *header, const void *buffer)
{
    uint64_t bytes = header->bytes;
    bool collective = header->kind == P2P_COLLECTIVE;
    tutti_status status = check(group, destination, collective, bytes);

    if (status != TUTTI_OK)
        return status;

    struct p2p_path *path = group->paths[destination];
    if (path->failed)
        return error_set(path->failed, "%s", path->message);

    begin(op, group, path, OP_WAITING_GRANT, collective ? SPACE_READY : SPACE_USER, header->tag,
          buffer, bytes);
    header->group = group->id;
    header->source = (uint32_t)group->rank;

    const bool is_long = bytes > path->eager_max;
    bool eager = is_eager(op, collective, bytes);
    /* A long message from registered memory is copied once, by its receiver. */
    if ((!eager || is_long) && !collective && !op->may_move &&
        p2p_place_offer(op, destination, header))
        eager = false;
    if (eager && send_at_once(op, header))
        return TUTTI_OK;
    eager = eager && !is_long;
    if (eager)
        op->state = OP_EAGER;
    if ((!eager && make_request(op, header, collective)) ||
        !p2p_packet_queue(path, header, op, buffer))
        return p2p_op_give_up(op, "send");
    if (eager)
        path->credit -= (uint32_t)bytes;
    else if (collective && is_long)
        status = seek_grant(op, destination);
    if (!status)
        p2p_flow_start(path);
    return status;
}

tutti_status p2p_send(struct p2p_group *group, struct p2p_op *op, int destination, uint64_t tag,
                      const void *buffer, uint64_t bytes)
{
    struct p2p_header header = {.kind = P2P_MESSAGE, .tag = tag, .bytes = bytes};

    if (destination == group->rank) {
        tutti_status status = check(group, destination, false, bytes);

        if (status != TUTTI_OK)
            return status;
        begin(op, group, &group->engine->self, OP_SELF, SPACE_USER, tag, buffer, bytes);
        return p2p_self_send(op);
    }
    return send(group, op, destination, &header, buffer);
}

tutti_status p2p_collective_send(struct p2p_group *group, struct p2p_op *op, int destination,
                                 const struct announce *announce, const void *buffer,
                                 uint64_t bytes)
{
    struct p2p_header header = {
        .kind = P2P_COLLECTIVE, .tag = announce->sequence, .bytes = bytes, .announce = *announce};

    return send(group, op, destination, &header, buffer);
}

tutti_status p2p_announce(struct p2p_group *group, int destination, const struct announce *announce,
                          bool answers)
{
    struct p2p_header header = {.kind = answers ? P2P_ANSWER : P2P_ANNOUNCE,
                                .tag = announce->sequence,
                                .announce = *announce};
    tutti_status status = check(group, destination, true, 0);

    if (status || group->paths[destination]->failed)
        return status;
    if (!p2p_flow_tell(group->paths[destination], group, &header))
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to announce a call");
    return TUTTI_OK;
}

/* ---- receive ---- */

/* Tells the sender of a large collective message that it need not ask. False: no memory. */
static bool say_ready(struct p2p_op *op)
{
    struct p2p_header header = {.kind = P2P_READY, .bytes = op->capacity, .tag = op->tag};

    if (p2p_transfer_new(op->group->engine, op) != TUTTI_OK)
        return false;
    header.id = op->id;
    op->announced = p2p_flow_tell(op->path, op->group, &header);
    return op->announced;
}

static tutti_status receive(struct p2p_group *group, struct p2p_op *op, uint8_t space, int source,
                            uint64_t tag, void *buffer, uint64_t bytes)
{
    bool any = space == SPACE_USER && source == P2P_ANY_SOURCE;
    tutti_status status = check(group, any ? 0 : source, space == SPACE_COLLECTIVE, bytes);

    if (status != TUTTI_OK)
        return status;

    struct p2p_path *path = any                     ? NULL
                            : source == group->rank ? &group->engine->self
                                                    : group->paths[source];
    struct p2p_envelope *envelope = p2p_match_posted(group, space, source, tag);

    if (!envelope && path && path->failed)
        return error_set(path->failed, "%s", path->message);
    begin(op, group, path, OP_POSTED, space, tag, buffer, bytes);
    op->any_source = any;
    if (envelope) {
        /* Of many that a member sends ahead the core keeps few records: each is told once more. */
        if (space == SPACE_COLLECTIVE)
            group->events->announce(group->user, source, &envelope->header.announce);
        p2p_deliver_envelope(op, envelope);
        return TUTTI_OK;
    }
    if (p2p_match_post(group, op, source) != TUTTI_OK)
        return p2p_op_give_up(op, "receive");
    /* A collective names its source, so there is a path. NOLINTNEXTLINE */
    if (space == SPACE_COLLECTIVE && bytes > path->eager_max && !say_ready(op))
        return p2p_op_give_up(op, "receive");
    return TUTTI_OK;
}

tutti_status p2p_recv(struct p2p_group *group, struct p2p_op *op, int source, uint64_t tag,
                      void *buffer, uint64_t bytes)
{
    return receive(group, op, SPACE_USER, source, tag, buffer, bytes);
}

tutti_status p2p_collective_recv(struct p2p_group *group, struct p2p_op *op, int source,
                                 uint64_t sequence, void *buffer, uint64_t bytes)
{
    return receive(group, op, SPACE_COLLECTIVE, source, sequence, buffer, bytes);
}

/* ---- cancel, words ---- */

bool p2p_is_unmatched(const struct p2p_op *op)
{
    return op->state == OP_WAITING_GRANT && op->space == SPACE_USER && !op->packet &&
           (!op->claim || p2p_place_is_untouched(op));
}

tutti_status p2p_cancel(struct p2p_op *op)
{
    struct p2p_packet *packet = op->packet;
    struct p2p_header withdrawal = {.kind = P2P_WITHDRAW, .id = op->id, .tag = op->tag};
    bool sends = op->state == OP_EAGER || op->state == OP_WAITING_GRANT;

    if (p2p_is_unmatched(op)) {
        if (op->claim && !p2p_place_take_back(op))
            return error_set(TUTTI_ERR_BUSY, "the message is being received");
        /* A grant that is on its way names an id that is over, and is dropped. */
        if (!p2p_flow_tell(op->path, op->group, &withdrawal))
            return error_set(TUTTI_ERR_BUSY, "no memory to take an announced message back");
    } else if (sends && packet && packet->stage == PACKET_QUEUED) {
        p2p_packet_drop(packet);
    } else if ((op->state != OP_POSTED && op->state != OP_SELF) || op->announced) {
        return error_set(TUTTI_ERR_BUSY, "the operation is under way and cannot be withdrawn");
    }
    unhook(op);
    op->status = TUTTI_ERR_ABORTED;
    return TUTTI_OK;
}

tutti_status p2p_op_error(const struct p2p_op *op)
{
    const struct p2p_path *path = op->path;

    if (op->status == TUTTI_OK || op->status == TUTTI_ERR_NOT_READY)
        return op->status;
    if (op->status == TUTTI_ERR_MISMATCH && op->source >= 0 && op->bytes != op->capacity)
        error_set(op->status,
                  "a receive of %llu bytes matched a message of %llu bytes from rank %d (%s %llu); "
                  "the message was dropped",
                  (unsigned long long)op->capacity, (unsigned long long)op->bytes, op->source,
                  op->space == SPACE_USER ? "tag" : "sequence", (unsigned long long)op->tag);
    else if (path && path->failed == op->status)
        error_set(op->status, "%s", path->message);
    else if (op->status == TUTTI_ERR_ABORTED && op->source >= 0 && !op->group->failed)
        error_set(op->status,
                  "rank %d withdrew the message of %llu bytes (tag %llu) that this receive had "
                  "matched, and later messages have matched other receives; post the receive again",
                  op->source, (unsigned long long)op->bytes, (unsigned long long)op->tag);
    else
        error_set(op->status, "the operation ended with its group: %s",
                  tutti_status_string(op->status));
    error_where(-1, op->source, 0, NULL);
    return op->status;
}
