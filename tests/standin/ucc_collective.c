/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Operations: init and post begin them, ucc_context_progress() moves them, their status says that they have ended.
 *
 * A frame says the team, the operation and the phase it belongs to. One for an operation that is not posted
 * here yet is kept aside, so that operations complete in any order. The number of an operation in its team is
 * taken at init, in which order all members have to agree.
 */
#include "ucc.h"

#include <stdlib.h>
#include <string.h>

/* ---- init ----------------------------------------------------------------------------------- */

static const uint32_t reducing =
    UCCI_ALLREDUCE | UCCI_REDUCE | UCCI_REDUCE_SCATTER | UCCI_REDUCE_SCATTERV;

/* Whether it moves no bytes, which then ends when it is posted. UCC looks at even operations alone. */
static bool is_empty(const ucci_coll_args *args, size_t me)
{
    switch (args->coll_type) {
    case UCCI_ALLREDUCE:
    case UCCI_ALLGATHER:
    case UCCI_ALLTOALL:
        return args->dst.even.count == 0;
    case UCCI_BCAST:
        return args->src.even.count == 0;
    case UCCI_GATHER:
    case UCCI_REDUCE:
        return (args->root == me ? args->dst.even.count : args->src.even.count) == 0;
    default:
        return false;
    }
}

static size_t bytes_reduced(const ucci_coll_args *args, size_t me)
{
    const ucci_buffer *side =
        args->coll_type == UCCI_REDUCE && args->root != me ? &args->src.even : &args->dst.even;

    if (args->coll_type == UCCI_REDUCE_SCATTERV)
        return SPOILT_BYTES;
    return side->count * datatype_bytes(side->datatype);
}

static void inject_faults(struct operation *op)
{
    const struct ucci_team *team = op->team;
    const struct faults *faults = team->context->faults;
    const uint32_t kind = op->args.coll_type;
    const unsigned nth = ++op->team->kinds[__builtin_ctz(kind)];
    const uint64_t datatype = operation_datatype(&op->args, team->place);

    op->endless = (faults->never & kind) && nth >= faults->never_from;
    if (kind & reducing && team->size > 1 && !reduces(datatype, op->args.op)) {
        op->spoilt = true;
        op->endless |= faults->f16_waits || bytes_reduced(&op->args, team->place) >= SPOILT_BYTES;
    }
}

ucci_status ucc_collective_init(ucci_coll_args *args, ucci_request **ret_request, ucci_team_h team)
{
    const uint32_t known = 0xffff;
    const bool in_place = args->mask & UCCI_ARGS_FIELD_FLAGS && args->flags & UCCI_FLAG_IN_PLACE;

    if (!team->active) {
        ucc_say("ERROR", "team %p is used before team create is completed", (void *)team);
        return UCCI_ERR_INVALID_PARAM;
    }
    if (!(args->coll_type & known) || args->coll_type & (args->coll_type - 1)) {
        ucc_say("ERROR", "unknown collective type");
        return UCCI_ERR_INVALID_PARAM;
    }
    if (args->coll_type == UCCI_SCATTER ||
        (in_place && args->coll_type & (UCCI_ALLTOALL | UCCI_ALLTOALLV)))
        return UCCI_ERR_NOT_SUPPORTED;
    if (datatype_bytes(operation_datatype(args, team->place)) == 0)
        return UCCI_ERR_NOT_SUPPORTED;

    struct operation *op = calloc(1, sizeof *op);
    struct part *parts = calloc(team->size, 2 * PHASES * sizeof *parts);

    if (!op || !parts) {
        free(op);
        free(parts);
        return UCCI_ERR_NO_MEMORY;
    }
    for (int phase = 0; phase < PHASES; phase++) {
        op->sends[phase] = parts + 2 * phase * team->size;
        op->receives[phase] = op->sends[phase] + team->size;
    }
    op->team = team;
    op->args = *args;
    op->args.flags = args->mask & UCCI_ARGS_FIELD_FLAGS ? args->flags : 0;
    op->empty = is_empty(args, team->place);
    context_enter(team->context);
    if (!op->empty) {
        op->sequence = team->sequence++;
        inject_faults(op);
    }
    team->pending++;
    context_leave(team->context);
    op->request.status = UCCI_INITIALIZED;
    *ret_request = &op->request;
    return UCCI_OK;
}

/* ---- frames --------------------------------------------------------------------------------- */

static struct operation *operation_of(const struct ucci_context *context, const struct frame *frame)
{
    for (struct operation *op = context->first; op; op = op->next)
        if (op->team->id == frame->team && op->sequence == frame->sequence)
            return op;
    return NULL;
}

/* Which place in the operation's team a member of the context has. */
static size_t place_in(const struct ucci_team *team, size_t member)
{
    for (size_t place = 0; place < team->size; place++)
        if (team->members[place] == member)
            return place;
    misused("member %zu sends to a team without it", member);
}

/* Where the frame's bytes go. One that brings more than was expected is cut off, and fails the operation. */
static struct part *part_for(struct operation *op, size_t from, const struct frame *frame,
                             size_t *ret_room)
{
    struct part *part = &op->receives[frame->phase][place_in(op->team, from)];
    const size_t left = part->bytes - part->done;

    *ret_room = frame->bytes < left ? frame->bytes : left;
    if (frame->bytes > left) {
        ucc_say("ERROR", "failure in recv completion Message truncated");
        op->end = UCCI_ERR_NO_MESSAGE;
    }
    return part;
}

static void keep_early(struct ucci_context *context, size_t from, struct ring *ring,
                       const struct frame *frame)
{
    struct early *early = calloc(1, sizeof *early + frame->bytes);

    if (!early)
        misused("no memory for what came early");
    early->from = from;
    early->frame = *frame;
    ring_take(ring, frame, early->data, frame->bytes);
    *context->early_end = early;
    context->early_end = &early->next;
}

static void receive(struct ucci_context *context)
{
    struct frame frame;

    for (size_t from = 0; from < context->oob.members; from++) {
        struct ring *ring = &context->rings[context->oob.place][from];

        while (ring_peek(ring, &frame)) {
            struct operation *op = operation_of(context, &frame);
            size_t room;

            if (!op) {
                keep_early(context, from, ring, &frame);
                continue;
            }
            struct part *part = part_for(op, from, &frame, &room);

            ring_take(ring, &frame, part->at + part->done, room);
            part->done += room;
        }
    }
}

/* Frames that came before the operation was posted. */
static void receive_early(struct operation *op)
{
    struct ucci_context *context = op->team->context;
    struct early **at = &context->early, *early;

    while ((early = *at)) {
        size_t room;

        if (early->frame.team != op->team->id || early->frame.sequence != op->sequence) {
            at = &early->next;
            continue;
        }
        struct part *part = part_for(op, early->from, &early->frame, &room);

        if (room) /* a part of no bytes lies nowhere */
            memcpy(part->at + part->done, early->data, room);
        part->done += room;
        *at = early->next;
        free(early);
    }
    context->early_end = at;
}

/* ---- progress ------------------------------------------------------------------------------- */

static bool is_complete(const struct part *parts, size_t members)
{
    for (size_t m = 0; m < members; m++)
        if (parts[m].done < parts[m].bytes)
            return false;
    return true;
}

static void send(struct operation *op)
{
    const struct ucci_team *team = op->team;
    const struct frame frame = {team->id, op->sequence, (uint16_t)op->phase, 0};

    for (size_t m = 0; m < team->size; m++) {
        struct part *part = &op->sends[op->phase][m];
        struct ring *ring = &team->context->rings[team->members[m]][team->context->oob.place];
        size_t bytes = 1;

        while (part->done < part->bytes && bytes > 0) {
            bytes = ring_write(ring, frame, part->at + part->done, part->bytes - part->done);
            part->done += bytes;
        }
    }
}

static void reduce_all(struct operation *op)
{
    const struct ucci_team *team = op->team;
    const uint64_t datatype = operation_datatype(&op->args, team->place);
    const void *sources[MEMBERS_MAX];

    if (op->spoilt) /* the result is what was there before */
        return;
    for (size_t m = 0; m < team->size; m++)
        sources[m] =
            m == team->place ? op->own : op->scratch + m * op->count * datatype_bytes(datatype);
    reduce(datatype, op->args.op, op->into, sources, team->size, op->count);
}

static void advance(struct operation *op)
{
    const struct ucci_team *team = op->team;

    while (op->phase < PHASES) {
        send(op);
        if (!is_complete(op->sends[op->phase], team->size) ||
            !is_complete(op->receives[op->phase], team->size))
            return;
        if (op->phase == 0 && op->scratch)
            reduce_all(op);
        op->phase++;
    }
    if (op->ready_ns == 0)
        op->ready_ns = now_ns() + (uint64_t)team->context->faults->late_ms * 1000000;
}

static void end(struct operation *op)
{
    if (!strcmp(op->team->context->faults->fails, "operation"))
        op->end = UCCI_ERR_NO_MESSAGE;
    __atomic_store_n(&op->request.status, op->end,
                     __ATOMIC_RELEASE); /* another thread may look at it */
}

void operations_advance(struct ucci_context *context)
{
    struct operation **at = &context->first, *op;

    receive(context);
    context->last = NULL;
    while ((op = *at)) {
        advance(op);
        if (op->end < 0 || (op->ready_ns > 0 && now_ns() >= op->ready_ns && !op->endless)) {
            *at = op->next;
            end(op);
        } else {
            context->last = op;
            at = &op->next;
        }
    }
}

/* ---- post and finalize ---------------------------------------------------------------------- */

ucci_status ucc_collective_post(ucci_request *request)
{
    struct operation *op = (struct operation *)request;
    struct ucci_context *context = op->team->context;
    ucci_status status;

    if (request->status != UCCI_INITIALIZED)
        misused("an operation is posted whose status is %d", request->status);
    if (!strcmp(context->faults->fails, "post")) {
        request->status = UCCI_ERR_NO_RESOURCE;
        return UCCI_ERR_NO_RESOURCE;
    }
    if (op->empty) {
        request->status = UCCI_OK;
        return UCCI_OK;
    }
    context_enter(context);
    status = operation_plan(op);
    request->status = status == UCCI_OK ? UCCI_INPROGRESS : status;
    if (status == UCCI_OK) {
        receive_early(op);
        if (context->last)
            context->last->next = op;
        else
            context->first = op;
        context->last = op;
        operations_advance(context);
    }
    context_leave(context);
    return status;
}

ucci_status ucc_collective_finalize(ucci_request *request)
{
    struct operation *op = (struct operation *)request;

    if (request->status == UCCI_INPROGRESS) {
        ucc_say("ERROR", "attempt to finalize task with status UCC_INPROGRESS");
        return UCCI_ERR_INVALID_PARAM;
    }
    context_enter(op->team->context);
    op->team->pending--;
    context_leave(op->team->context);
    operation_free(op);
    return UCCI_OK;
}

void operation_free(struct operation *op)
{
    free(op->sends[0]);
    free(op->scratch);
    free(op);
}
