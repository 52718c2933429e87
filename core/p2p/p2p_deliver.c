/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an arrived header means.
 *
 * Everything in it comes from outside. A header that makes no sense fails its path; one that comes
 * too late (its group or transfer is over) is dropped with its payload, because a member that
 * fails or leaves cannot know what is still on its way. Envelopes are bounded: by count for all
 * of the process, by credit in what they carry.
 *
 * A large collective receive sends READY when it is posted. The sender's request then needs no
 * grant: per (source, sequence) both sides go through their operations in the same order, so the
 * n-th grant, early or asked for, always belongs to the n-th large send. (A mismatch of a small
 * send with a large receive leaves an early grant over; the group fails because of it anyway.)
 */
#include <stdio.h>

#include "p2p/p2p_parts.h"

void p2p_nonsense(struct p2p_path *path, const char *why)
{
    p2p_path_fail(path, TUTTI_ERR_INTERNAL,
                  "rank %d sent an invalid header (%s): it may run another version of tutti; the "
                  "connection is no longer used",
                  path->label_rank, why);
}

static bool is_eager(const struct p2p_header *h)
{
    return h->kind == P2P_MESSAGE || h->kind == P2P_COLLECTIVE;
}

static uint8_t space_of(const struct p2p_header *h)
{
    if (h->kind == P2P_READY)
        return SPACE_READY;
    return h->kind == P2P_COLLECTIVE || h->kind == P2P_COLLECTIVE_REQUEST ? SPACE_COLLECTIVE
                                                                          : SPACE_USER;
}

/* Takes the payload that follows, if any, for nobody. */
static void drain(struct p2p_path *path, const struct p2p_header *h)
{
    if (p2p_wire_payload(h))
        p2p_flow_expect(path, h, NULL, NULL);
}

/* ---- envelopes ---- */

static void envelope_free(struct p2p_envelope *envelope)
{
    struct p2p_engine *engine = envelope->path->engine;

    if (is_eager(&envelope->header))
        p2p_flow_credit(envelope->path, envelope->header.bytes);
    p2p_buffer_give(&engine->buffers, envelope->buffer);
    p2p_pool_give(&engine->envelope_pool, envelope);
    engine->envelopes--;
}

void p2p_envelope_drop(struct p2p_envelope *envelope)
{
    if (envelope->state == ENVELOPE_ARRIVING) {
        envelope->op = NULL;
        envelope->dropped = true;
    } else {
        envelope_free(envelope);
    }
}

/* Makes an envelope of a header, and prepares for its payload. NULL: the path has failed. */
static struct p2p_envelope *envelope_new(struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_engine *engine = path->engine;
    struct p2p_envelope *envelope = p2p_pool_take(&engine->envelope_pool);

    if (!envelope) {
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to keep a message of rank %d",
                      path->label_rank);
        return NULL;
    }
    *envelope = (struct p2p_envelope){.header = *h, .path = path, .state = ENVELOPE_WAITING};
    p2p_link_init(&envelope->by_source);
    p2p_link_init(&envelope->by_tag);
    engine->envelopes++;
    if (is_eager(h))
        envelope->state = h->bytes ? ENVELOPE_ARRIVING : ENVELOPE_ARRIVED;
    if (h->bytes && is_eager(h) && !p2p_flow_expect(path, h, NULL, envelope)) {
        envelope->state = ENVELOPE_BROKEN;
        envelope_free(envelope);
        return NULL;
    }
    return envelope;
}

/* More than can be kept: the group of the message ends, and its words name the sender. */
static void overflow(struct p2p_group *group, struct p2p_path *path, const struct p2p_header *h)
{
    char message[sizeof path->message];

    snprintf(message, sizeof message,
             "%d messages wait to be received in this process, the last one from rank %d: "
             "receive them, or send less ahead",
             P2P_ENVELOPES_MAX, (int)h->source);
    group->events->peer_failed(group->user, (int)h->source, TUTTI_ERR_NO_MEMORY, message);
    drain(path, h);
    p2p_group_end(group, TUTTI_ERR_NO_MEMORY);
}

/* Keeps what nobody waits for yet. */
static void keep(struct p2p_group *group, struct p2p_path *path, const struct p2p_header *h,
                 struct p2p_envelope *envelope)
{
    if (!envelope && path->engine->envelopes >= P2P_ENVELOPES_MAX) {
        overflow(group, path, h);
        return;
    }
    if (!envelope && !(envelope = envelope_new(path, h)))
        return;
    if (p2p_match_keep(group, space_of(h), envelope) != TUTTI_OK) {
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to keep a message of rank %d",
                      path->label_rank);
        p2p_envelope_drop(envelope);
    }
}

/* ---- matched ---- */

void p2p_answer(struct p2p_path *path, uint8_t kind, const struct p2p_group *group, uint32_t id,
                uint64_t tag)
{
    struct p2p_header header = {.kind = kind, .id = id, .tag = tag};

    if (!p2p_flow_tell(path, group, &header))
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY, "no memory to answer rank %d", path->label_rank);
}

bool p2p_deliver_meet(struct p2p_op *op, struct p2p_path *path, const struct p2p_header *h)
{
    op->source = (int32_t)h->source;
    op->path = path;
    if (op->capacity == h->bytes || (op->up_to && op->capacity > h->bytes)) {
        op->capacity = h->bytes;
        op->met = path->met += op->space == SPACE_USER;
        return true;
    }
    op->bytes = h->bytes;
    p2p_op_complete(op, TUTTI_ERR_MISMATCH);
    return false;
}

void p2p_ask(struct p2p_op *op, struct p2p_path *path, uint32_t id)
{
    struct p2p_group *group = op->group;

    if (!op->has_id && p2p_transfer_new(group->engine, op) != TUTTI_OK) {
        p2p_op_complete(op, TUTTI_ERR_NO_MEMORY);
        p2p_answer(path, P2P_REFUSE, group, id, 0);
        return;
    }
    op->state = OP_WAITING_DATA;
    op->peer_id = id;
    group->engine->begun += op->capacity;
    if (!op->announced)
        p2p_answer(path, P2P_GRANT, group, id, op->id);
}

static void matched_request(struct p2p_op *op, struct p2p_path *path, const struct p2p_header *h)
{
    if (!p2p_deliver_meet(op, path, h))
        p2p_answer(path, P2P_REFUSE, op->group, h->id, 0);
    else if (path->failed)
        p2p_op_complete(op, path->failed);
    else if (op->may_move && p2p_move_meets(op, h))
        return;
    else if (!h->place.memory || !p2p_place_read(op, path, h))
        p2p_ask(op, path, h->id);
}

static void take_payload(struct p2p_op *op, struct p2p_envelope *envelope)
{
    uint64_t bytes = envelope->header.bytes;

    if (bytes) /* else there is no buffer */
        tutti_copy_plain(op->buffer, envelope->buffer->data, bytes);
    op->moved = bytes;
    envelope_free(envelope);
    p2p_op_complete(op, TUTTI_OK);
}

void p2p_deliver_envelope(struct p2p_op *op, struct p2p_envelope *envelope)
{
    struct p2p_path *path = envelope->path;

    if (envelope->state == ENVELOPE_SELF) {
        p2p_self_deliver(op, envelope);
    } else if (envelope->state == ENVELOPE_WAITING) {
        matched_request(op, path, &envelope->header);
        envelope_free(envelope);
    } else if (!p2p_deliver_meet(op, path, &envelope->header)) {
        p2p_envelope_drop(envelope);
    } else if (envelope->state == ENVELOPE_ARRIVED) {
        take_payload(op, envelope);
    } else if (envelope->state == ENVELOPE_BROKEN) {
        envelope_free(envelope);
        p2p_op_complete(op, path->failed);
    } else {
        envelope->op = op;
        op->held_by = envelope;
        op->state = OP_ARRIVING;
    }
}

void p2p_envelope_settle(struct p2p_envelope *envelope, enum p2p_envelope_state state)
{
    struct p2p_op *op = envelope->op;

    envelope->state = (uint8_t)state;
    if (envelope->dropped) {
        envelope_free(envelope);
    } else if (op) {
        op->held_by = NULL;
        if (state == ENVELOPE_ARRIVED) {
            take_payload(op, envelope);
        } else {
            p2p_op_complete(op, envelope->path->failed);
            envelope_free(envelope);
        }
    }
}

/* ---- kinds ---- */

/* A message or request of `group`; `envelope` when it had been kept. */
static void arrived_message(struct p2p_group *group, struct p2p_path *path,
                            const struct p2p_header *h, struct p2p_envelope *envelope)
{
    uint8_t space = space_of(h);

    if (space == SPACE_COLLECTIVE)
        group->events->announce(group->user, (int)h->source, &h->announce);

    struct p2p_op *op = p2p_match_arrived(group, space, (int)h->source, h->tag);
    if (!op) {
        keep(group, path, h, envelope);
    } else if (envelope) {
        p2p_deliver_envelope(op, envelope);
    } else if (!is_eager(h)) {
        matched_request(op, path, h);
    } else if (!p2p_deliver_meet(op, path, h)) {
        drain(path, h);
    } else if (h->bytes) {
        op->state = OP_ARRIVING;
        p2p_flow_expect(path, h, op, NULL);
    } else {
        p2p_op_complete(op, TUTTI_OK);
    }
}

/* An early grant: for the large send that waits, else kept for the one that comes. */
static void arrived_ready(struct p2p_group *group, struct p2p_path *path,
                          const struct p2p_header *h, struct p2p_envelope *envelope)
{
    struct p2p_op *op = p2p_match_arrived(group, SPACE_READY, (int)h->source, h->tag);

    if (!op) {
        keep(group, path, h, envelope);
        return;
    }
    /* Of another size it is of no use: the request will be refused. */
    if (op->capacity == h->bytes && !path->failed) {
        p2p_flow_stream(op, h->id);
        p2p_flow_send(path);
    }
    if (envelope)
        envelope_free(envelope);
}

/* The operation that an answer or piece names. */
static struct p2p_op *named(struct p2p_group *group, struct p2p_path *path,
                            const struct p2p_header *h)
{
    bool known;
    struct p2p_op *op = p2p_transfer_find(path->engine, h->id, &known);

    if (!known || (op && (op->group != group || op->path != path))) {
        p2p_nonsense(path, "a transfer that was never asked for");
        return NULL;
    }
    return op;
}

static void arrived_answer(struct p2p_group *group, struct p2p_path *path,
                           const struct p2p_header *h)
{
    struct p2p_op *op = named(group, path, h);

    if (!op ||
        (op->state != OP_WAITING_GRANT && !(op->state == OP_HELPING && h->kind == P2P_TAKEN)))
        return;
    if (op->packet) {
        p2p_nonsense(path, "an answer to what was not sent");
    } else if (h->kind == P2P_AGREE) {
        p2p_move_agreed(op, h);
    } else if (h->kind == P2P_GRANT && op->has_no_buffer) {
        p2p_move_granted(op, (uint32_t)h->tag);
    } else if (h->kind == P2P_GRANT) {
        p2p_flow_stream(op, (uint32_t)h->tag);
        p2p_flow_send(path);
    } else if (h->kind == P2P_HELP) {
        p2p_place_help(op, h);
    } else { /* received as far as the sender is concerned: where sizes differ, the receiver has the mismatch */
        p2p_op_complete(op, TUTTI_OK);
    }
}

static void arrived_data(struct p2p_group *group, struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_op *op = named(group, path, h);

    if (path->failed)
        return;
    if (!op || op->state != OP_WAITING_DATA) {
        drain(path, h);
    } else if (h->tag != op->issued || h->bytes > op->capacity - op->issued) {
        p2p_nonsense(path, "a piece that does not fit");
    } else if (p2p_flow_expect(path, h, op, NULL)) {
        op->issued += h->bytes;
    }
}

static void arrived_move(struct p2p_group *group, struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_op *op = named(group, path, h);

    if (op && op->state != OP_AGREED)
        p2p_nonsense(path, "it moves what was not agreed on");
    else if (op)
        p2p_move_begins(op);
}

/* Whether a receive has met a send, and nothing of it has come. */
static bool is_met(const struct p2p_op *op)
{
    return op->state == OP_WAITING_DATA || op->state == OP_OFFERED || op->state == OP_AGREED ||
           op->state == OP_BARE;
}

/* The receive that has met the send `id` of the path and has nothing of it; or NULL. */
static struct p2p_op *receive_of(struct p2p_group *group, const struct p2p_path *path, uint32_t id)
{
    P2P_EACH(op, &group->ops, struct p2p_op, member) {
        if (is_met(op) && op->space == SPACE_USER && op->path == path && op->peer_id == id)
            return op;
    }
    return NULL;
}

/*
 * The grant has met the withdrawal on its way. The receive takes the next message that it can, as if the
 * one that was taken back had never been; unless one that was sent later has met another receive, since then
 * it would get its messages in another order than they were sent.
 */
static void receive_again(struct p2p_op *op)
{
    struct p2p_group *group = op->group;
    const int source = op->any_source ? P2P_ANY_SOURCE : op->source;

    op->bytes = op->capacity;
    if (op->met != op->path->met) {
        p2p_op_complete(op, TUTTI_ERR_ABORTED);
        return;
    }
    if (op->may_move)
        op->meets(op, P2P_MEETS_NOTHING);
    if (op->has_id)
        p2p_transfer_free(group->engine, op);
    op->state = OP_POSTED;
    op->capacity = op->room;
    op->bytes = 0;
    op->source = -1;
    if (op->any_source)
        op->path = NULL;

    struct p2p_envelope *envelope = p2p_match_posted(group, SPACE_USER, source, op->tag);
    if (envelope)
        p2p_deliver_envelope(op, envelope);
    else if (p2p_match_post(group, op, source) != TUTTI_OK)
        p2p_op_complete(op, TUTTI_ERR_NO_MEMORY);
}

/* A withdrawal of a send that is not known any more has no effect: its receive was of another size
 * and has refused it. */
static void arrived_withdrawal(struct p2p_group *group, struct p2p_path *path,
                               const struct p2p_header *h)
{
    struct p2p_envelope *envelope = p2p_match_request(group, path, (int)h->source, h->tag, h->id);
    struct p2p_op *op = envelope ? NULL : receive_of(group, path, h->id);

    if (envelope)
        p2p_envelope_drop(envelope);
    else if (op && op->issued)
        p2p_nonsense(path, "a message that it sends is taken back");
    else if (op)
        receive_again(op);
}

static void arrived_announce(const struct p2p_group *group, const struct p2p_header *h)
{
    group->events->announce(group->user, (int)h->source, &h->announce);
    if (h->kind == P2P_ANNOUNCE && group->events->announced)
        group->events->announced(group->user, (int)h->source, h->tag);
}

static void arrived(struct p2p_group *group, struct p2p_path *path, const struct p2p_header *h,
                    struct p2p_envelope *envelope)
{
    if (h->source >= (uint32_t)group->size || group->paths[h->source] != path) {
        p2p_nonsense(path, "it claims another rank's place");
        if (envelope)
            p2p_envelope_drop(envelope);
        return;
    }
    switch (h->kind) {
    case P2P_ANNOUNCE:
    case P2P_ANSWER:
        arrived_announce(group, h);
        if (envelope)
            envelope_free(envelope);
        break;
    case P2P_READY:
        arrived_ready(group, path, h, envelope);
        break;
    case P2P_GRANT:
    case P2P_REFUSE:
    case P2P_TAKEN:
    case P2P_HELP:
    case P2P_AGREE:
        arrived_answer(group, path, h);
        break;
    case P2P_MOVE:
        arrived_move(group, path, h);
        break;
    case P2P_DATA:
        arrived_data(group, path, h);
        break;
    case P2P_WITHDRAW:
        arrived_withdrawal(group, path, h);
        break;
    default:
        arrived_message(group, path, h, envelope);
    }
}

/* A message of a group that has ended. */
static void arrived_late(struct p2p_path *path, const struct p2p_header *h)
{
    if (p2p_wire_payload(h) > P2P_BUFFER_MAX)
        p2p_path_cut_off(path); /* as in p2p_group.c */
    else
        drain(path, h);
}

/* Takes a request out that waits for its group. */
static void withdraw_early(struct p2p_path *path, const struct p2p_header *h)
{
    P2P_EACH(envelope, &path->engine->orphans, struct p2p_envelope, by_source) {
        if (envelope->path == path && envelope->header.kind == P2P_REQUEST &&
            envelope->header.group == h->group && envelope->header.id == h->id) {
            p2p_link_remove(&envelope->by_source);
            p2p_envelope_drop(envelope);
            return;
        }
    }
}

/* A header of a group that this process has not made yet. */
static void arrived_early(struct p2p_path *path, const struct p2p_header *h)
{
    struct p2p_engine *engine = path->engine;

    if (h->kind == P2P_GRANT || h->kind == P2P_REFUSE || h->kind == P2P_TAKEN ||
        h->kind == P2P_HELP || h->kind == P2P_AGREE || h->kind == P2P_MOVE || h->kind == P2P_DATA) {
        p2p_nonsense(path, "an answer to a group that does not exist");
        return;
    }
    if (h->kind == P2P_WITHDRAW) {
        withdraw_early(path, h);
        return;
    }
    if (engine->envelopes >= P2P_ENVELOPES_MAX) {
        p2p_path_fail(path, TUTTI_ERR_NO_MEMORY,
                      "%d messages wait to be received in this process, the last one from rank %d "
                      "for group %u, which does not exist here",
                      P2P_ENVELOPES_MAX, path->label_rank, h->group);
        return;
    }

    struct p2p_envelope *envelope = envelope_new(path, h);
    if (envelope)
        p2p_link_append(&engine->orphans, &envelope->by_source);
}

void p2p_deliver_orphans(struct p2p_engine *engine)
{
    P2P_EACH(envelope, &engine->orphans, struct p2p_envelope, by_source) {
        struct p2p_group_name *name = p2p_group_find(engine, envelope->header.group);

        if (!name)
            continue;
        p2p_link_remove(&envelope->by_source);
        if (!name->group || name->group->failed) {
            p2p_envelope_drop(envelope);
        } else {
            struct p2p_header header = envelope->header;

            arrived(name->group, envelope->path, &header, envelope);
        }
    }
    engine->adopting = false;
}

/* ---- the entry ---- */

const char *p2p_deliver_limits(struct p2p_path *path, const struct p2p_header *h)
{
    if (h->credit > path->window - path->credit)
        return "it returns more credit than it has";
    path->credit += h->credit;
    if (h->kind == P2P_DATA && h->bytes > P2P_PIECE_MAX)
        return "a piece that is too long";
    if (!is_eager(h))
        return NULL;
    if (h->bytes > path->unasked_max || h->bytes > path->window - path->peer_used)
        return "it sent more than its credit";
    path->peer_used += (uint32_t)h->bytes;
    return NULL;
}

void p2p_deliver(struct p2p_path *path, const struct p2p_header *header, const char *wrong,
                 const struct p2p_short_message *message)
{
    path->arrived++;
    if (!wrong)
        wrong = p2p_deliver_limits(path, header);
    if (wrong) {
        p2p_nonsense(path, wrong);
        return;
    }
    path->peer_shows |= header->shows;
    path->shown = message;
    if (header->kind != P2P_CREDIT) {
        struct p2p_group_name *name = p2p_group_find(path->engine, header->group);

        if (!name)
            arrived_early(path, header);
        else if (!name->group || name->group->failed)
            arrived_late(path, header);
        else
            arrived(name->group, path, header, NULL);
    }
    path->shown = NULL;
}

void p2p_deliver_header(struct p2p_path *path)
{
    if (path->header.request.status != TUTTI_OK) {
        p2p_path_fail_receive(path, path->header.request.status);
        return;
    }
    struct p2p_header header;
    uint32_t bytes;
    const char *wrong = p2p_wire_decode(path->wire, path->header.request.bytes, &header, &bytes);

    path->header_wanted = true;
    if (!wrong && bytes != path->header.request.bytes)
        wrong = "its length";
    p2p_deliver(path, &header, wrong, NULL);
    p2p_flow_receive(path);
}
