/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Endpoints, paths and progress.
 *
 * Every request that a transport has is in its path's `held` list. What completes, at once or
 * later, goes through engine->ready and is looked at in p2p_progress() alone, so that no completion
 * is handled in the middle of another. A path that fails is taken apart there too, after everything
 * that had arrived on it was delivered. A send that ends with PEER_LOST does not fail its path: the
 * receives go on until the transport ends them, which it does behind the peer's last message.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "p2p/p2p_parts.h"

enum {
    REPORTS_MAX = 64,     /* completions taken from a transport in one call */
    PROGRESS_BUDGET = 512 /* completions handled in one p2p_progress(), so that it always returns */
};

/* Bytes of a piece that is copied before it is sent: a path holds P2P_PIECES_MAX of them. */
static const uint64_t PIECE_COPIED = 256 << 10;

tutti_status p2p_engine_new(struct p2p_engine **ret_engine)
{
    struct p2p_engine *engine = calloc(1, sizeof *engine);

    if (!engine)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a message engine");
    p2p_link_init(&engine->groups);
    p2p_link_init(&engine->ready);
    p2p_link_init(&engine->blocked);
    p2p_link_init(&engine->gathered);
    p2p_link_init(&engine->failing);
    p2p_link_init(&engine->placed);
    p2p_link_init(&engine->finished);
    p2p_link_init(&engine->orphans);
    engine->free_first = UINT32_MAX;
    engine->copy.wins_by = TUTTI_COPY_WINS_BY; /* ranks may outnumber the CPUs */
    p2p_pool_init(&engine->packets, sizeof(struct p2p_packet));
    p2p_pool_init(&engine->incomings, sizeof(struct p2p_incoming));
    p2p_pool_init(&engine->envelope_pool, sizeof(struct p2p_envelope));
    p2p_pool_init(&engine->bins, sizeof(struct p2p_bin));
    p2p_buffers_init(&engine->buffers);
    engine->self = (struct p2p_path){.engine = engine,
                                     .window = P2P_WINDOW_MAX,
                                     .eager_max = P2P_EAGER_MAX,
                                     .credit = P2P_WINDOW_MAX};
    *ret_engine = engine;
    return TUTTI_OK;
}

/* Buffers longer than a pool's are freed by their holder: here. */
static void give_buffers(struct p2p_path *path)
{
    struct p2p_buffers *buffers = &path->engine->buffers;

    P2P_EACH(packet, &path->queue, struct p2p_packet, link)
        p2p_buffer_give(buffers, packet->buffer);
    P2P_EACH(packet, &path->issued, struct p2p_packet, link)
        p2p_buffer_give(buffers, packet->buffer);
    P2P_EACH(incoming, &path->incoming, struct p2p_incoming, link)
        p2p_buffer_give(buffers, incoming->buffer);
}

void p2p_engine_free(struct p2p_engine *engine)
{
    if (!engine)
        return;

    P2P_EACH(envelope, &engine->orphans, struct p2p_envelope, by_source)
        p2p_buffer_give(&engine->buffers, envelope->buffer);
    for (struct p2p_endpoint *at = engine->endpoints; at; at = at->next)
        P2P_EACH(path, &at->paths, struct p2p_path, link)
            give_buffers(path);
    chain_free(&engine->memory);
    free(engine->transfers);
    p2p_pool_fini(&engine->packets);
    p2p_pool_fini(&engine->incomings);
    p2p_pool_fini(&engine->envelope_pool);
    p2p_pool_fini(&engine->bins);
    p2p_buffers_fini(&engine->buffers);
    free(engine);
}

/* Without `cancel` pieces are copied, and a path has several. */
static uint64_t piece_bytes(const tutti_transport_ops *ops)
{
    uint64_t bytes = P2P_BUFFER_MAX;

    if (!TUTTI_HAS(ops, cancel))
        bytes = PIECE_COPIED;
    else if (TUTTI_HAS(ops, piece_bytes))
        bytes = ops->piece_bytes;
    if (bytes < P2P_EAGER_MAX)
        bytes = P2P_EAGER_MAX;
    if (bytes > P2P_PIECE_MAX)
        bytes = P2P_PIECE_MAX;
    return ops->max_message && ops->max_message < bytes ? ops->max_message : bytes;
}

/* Short messages are worth their own way if a header and a few bytes fit. */
static bool shows(const tutti_transport_ops *ops)
{
    return TUTTI_HAS(ops, send_short) && TUTTI_HAS(ops, show) && TUTTI_HAS(ops, take) &&
           ops->short_bytes >= 2 * P2P_HEADER_BYTES;
}

static uint64_t pair_max(const tutti_transport_ops *ops)
{
    if (!shows(ops) || !TUTTI_HAS(ops, send_pair) || !TUTTI_HAS(ops, take_pair))
        return 0;
    return ops->max_message && ops->max_message < P2P_PAIR_MAX ? ops->max_message : P2P_PAIR_MAX;
}

tutti_status p2p_engine_add_endpoint(struct p2p_engine *engine, const tutti_transport_ops *ops,
                                     tutti_endpoint *endpoint, unsigned *ret_index)
{
    if (ops->max_message && ops->max_message < P2P_EAGER_MAX)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "the transport takes messages of at most %llu bytes, and %d are needed",
                         (unsigned long long)ops->max_message, P2P_EAGER_MAX);

    struct p2p_endpoint *at = chain_allocate(&engine->memory, sizeof *at);
    struct p2p_endpoint **last = &engine->endpoints;
    if (!at)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an endpoint");
    *at = (struct p2p_endpoint){.ops = ops,
                                .endpoint = endpoint,
                                .can_cancel = TUTTI_HAS(ops, cancel),
                                .shows = shows(ops),
                                .pair_max = pair_max(ops),
                                .piece_bytes = piece_bytes(ops)};
    p2p_link_init(&at->paths);
    while (*last)
        last = &(*last)->next;
    *last = at;
    *ret_index = engine->endpoint_count++;
    return TUTTI_OK;
}

tutti_status p2p_engine_add_path(struct p2p_engine *engine, unsigned endpoint_index,
                                 tutti_peer *peer, int label_rank, int members,
                                 struct p2p_path **ret_path)
{
    struct p2p_endpoint *at = engine->endpoints;

    while (at && endpoint_index--)
        at = at->next;
    if (!at || members < 1)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "no such endpoint, or %d members", members);

    struct p2p_path *path = chain_allocate(&engine->memory, sizeof *path);
    if (!path)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the connection to rank %d",
                         label_rank);
    uint32_t window = (uint32_t)(P2P_WINDOWS_TOTAL / members);
    if (window > P2P_WINDOW_MAX)
        window = P2P_WINDOW_MAX;
    *path = (struct p2p_path){.engine = engine,
                              .at = at,
                              .peer = peer,
                              .label_rank = label_rank,
                              .window = window,
                              .credit = window,
                              .eager_max = window / 4 < P2P_EAGER_MAX ? window / 4 : P2P_EAGER_MAX,
                              .unasked_max = window / 4,
                              .header = {.path = path, .kind = IO_HEADER_IN},
                              .header_wanted = !at->shows};
    p2p_link_init(&path->blocked);
    p2p_link_init(&path->gathered);
    p2p_link_init(&path->failing);
    p2p_link_init(&path->queue);
    p2p_link_init(&path->issued);
    p2p_link_init(&path->streams);
    p2p_link_init(&path->held);
    p2p_link_init(&path->incoming);
    p2p_link_append(&at->paths, &path->link);
    p2p_flow_receive(path);
    *ret_path = path;
    return TUTTI_OK;
}

/* ---- requests ---- */

static void io_ready(struct p2p_io *io)
{
    p2p_link_remove(&io->link);
    io->held = false;
    p2p_link_append(&io->path->engine->ready, &io->link);
}

/*
 * The transport without `progress`: asks for each request, and then takes what is complete in the order in
 * which it was posted. In one go a message would be passed over that completes while the one behind it is
 * asked for, and the end of the connection would be heard before it.
 */
static void test_all(struct p2p_endpoint *at)
{
    P2P_EACH(path, &at->paths, struct p2p_path, link)
        P2P_EACH(io, &path->held, struct p2p_io, link)
            (void)at->ops->test(at->endpoint, &io->request);
    P2P_EACH(path, &at->paths, struct p2p_path, link)
        P2P_EACH(io, &path->held, struct p2p_io, link)
            if (io->request.status != TUTTI_ERR_NOT_READY)
                io_ready(io);
}

static void poll_endpoint(struct p2p_endpoint *at)
{
    tutti_request *done[REPORTS_MAX];

    if (!TUTTI_HAS(at->ops, progress)) {
        test_all(at);
        return;
    }

    uint32_t count = at->ops->progress(at->endpoint, done, REPORTS_MAX);
    for (uint32_t i = 0; i < count && i < REPORTS_MAX; i++)
        io_ready(done[i]->user);
}

static void poll_endpoints(struct p2p_engine *engine)
{
    for (struct p2p_endpoint *at = engine->endpoints; at; at = at->next)
        poll_endpoint(at);
}

static inline void io_handle(struct p2p_io *io)
{
    p2p_link_remove(&io->link);
    switch (io->kind) {
    case IO_HEADER_IN:
        if (!io->path->failed)
            p2p_deliver_header(io->path);
        break;
    case IO_PAYLOAD_IN:
        p2p_flow_received(io);
        break;
    default:
        p2p_flow_sent(io);
    }
}

static unsigned handle_ready(struct p2p_engine *engine)
{
    unsigned handled = 0;

    while (!p2p_link_alone(&engine->ready) && handled < PROGRESS_BUDGET) {
        io_handle(P2P_FIRST(&engine->ready, struct p2p_io, link));
        handled++;
    }
    return handled;
}

/* What transports have completed, and what they show, until neither brings anything new. */
static unsigned handle_arrived(struct p2p_engine *engine)
{
    unsigned moved = 0, more;

    do {
        more = handle_ready(engine) + p2p_short_look_all(engine);
        moved += more;
    } while (more && moved < PROGRESS_BUDGET);
    return moved;
}

/* Each path that was blocked is tried once; it comes back when the transport is still full. */
static unsigned retry_blocked(struct p2p_engine *engine)
{
    struct p2p_link *last = engine->blocked.prev, *link;
    unsigned given = 0;

    if (last == &engine->blocked)
        return 0;
    do {
        struct p2p_path *path = P2P_FIRST(&engine->blocked, struct p2p_path, blocked);

        link = &path->blocked;
        p2p_link_remove(link);
        given += p2p_flow_receive(path);
        given += p2p_flow_send(path);
    } while (link != last);
    return given;
}

/* ---- failing ---- */

void p2p_path_fail(struct p2p_path *path, tutti_status status, const char *format, ...)
{
    va_list args;

    if (path->failed)
        return;
    path->failed = status;
    va_start(args, format);
    (void)vsnprintf(path->message, sizeof path->message, format, args);
    va_end(args);
    p2p_link_remove(&path->blocked);
    p2p_link_append(&path->engine->failing, &path->failing);
}

void p2p_path_fail_receive(struct p2p_path *path, tutti_status status)
{
    if (status == TUTTI_ERR_CORRUPT)
        p2p_path_fail(
            path, status,
            "what came from rank %d was altered on its way, by its checksum; the memory, a "
            "CPU or the network of one of the two is faulty",
            path->label_rank);
    else
        p2p_path_fail(path, status, "receiving from rank %d failed: %s", path->label_rank,
                      tutti_status_string(status));
}

uint64_t p2p_path_arrived(const struct p2p_path *path)
{
    return path->arrived;
}

void p2p_path_withdraw(struct p2p_path *path)
{
    struct p2p_io *io;

    while (path->at->can_cancel && (io = P2P_FIRST(&path->held, struct p2p_io, link))) {
        path->at->ops->cancel(path->at->endpoint, &io->request);
        io->held = false;
        io->request.status = path->failed;
        io_handle(io);
    }
}

/* Nobody's packets: what the transport still has of them is freed when it lets go. */
static void abandon_packets(struct p2p_link *list)
{
    P2P_EACH(packet, list, struct p2p_packet, link) {
        if (packet->op && packet->op->packet == packet)
            packet->op->packet = NULL;
        packet->op = NULL;
        packet->stage = PACKET_GIVEN;
        if (!packet->outstanding)
            p2p_packet_free(packet);
    }
}

static void abandon_incoming(struct p2p_path *path)
{
    P2P_EACH(incoming, &path->incoming, struct p2p_incoming, link) {
        struct p2p_envelope *envelope = incoming->envelope;

        incoming->op = NULL;
        incoming->envelope = NULL;
        if (envelope)
            p2p_envelope_settle(envelope, ENVELOPE_BROKEN);
        if (path->unposted == incoming)
            p2p_incoming_free(incoming);
    }
}

/* What an engine moves needs the path no more. */
static void fail_operations(struct p2p_group *group, struct p2p_path *path)
{
    P2P_EACH(op, &group->ops, struct p2p_op, member)
        if (op->path == path && op->state != OP_MOVING)
            p2p_op_complete(op, path->failed);
}

static void tear_down(struct p2p_path *path)
{
    p2p_path_withdraw(path);
    abandon_incoming(path);
    abandon_packets(&path->queue);
    abandon_packets(&path->issued);
    P2P_EACH(group, &path->engine->groups, struct p2p_group, link) {
        for (int rank = 0; rank < group->size && !group->failed; rank++) {
            if (group->paths[rank] != path)
                continue;
            group->events->peer_failed(group->user, rank, path->failed, path->message);
            fail_operations(group, path);
        }
    }
}

/*
 * Of what a transport completed before the end of the path it may have reported the end alone, as a receive
 * that was complete when it was posted. So everything is asked for once more, and only the paths that had
 * failed before that are taken apart.
 */
static unsigned tear_down_failing(struct p2p_engine *engine)
{
    const struct p2p_link *last = engine->failing.prev;
    struct p2p_link *link = NULL;

    if (last == &engine->failing)
        return 0;
    poll_endpoints(engine);
    unsigned count = 1 + handle_arrived(engine);
    while (p2p_link_alone(&engine->ready) && link != last) {
        struct p2p_path *path = P2P_FIRST(&engine->failing, struct p2p_path, failing);

        link = &path->failing;
        p2p_link_remove(link);
        tear_down(path);
    }
    return count;
}

/* ---- sends that leave together ---- */

void p2p_gather(struct p2p_engine *engine)
{
    engine->gathers = true;
}

void p2p_release(struct p2p_engine *engine)
{
    P2P_EACH(path, &engine->gathered, struct p2p_path, gathered) {
        p2p_link_remove(&path->gathered);
        p2p_flow_send(path);
    }
    engine->gathers = false;
}

/* ---- progress ---- */

/* Whether something was complete when it was started. It may be all that the caller waits for, so the transports, which
 * may need a system call to look, are asked the next time. */
static bool is_complete(struct p2p_engine *engine)
{
    engine->passed_over = !engine->passed_over && !p2p_link_alone(&engine->ready);
    return engine->passed_over;
}

unsigned p2p_progress(struct p2p_engine *engine)
{
    unsigned moved = 0;

    if (engine->adopting)
        p2p_deliver_orphans(engine);
    if (is_complete(engine)) {
        moved += handle_ready(engine);
    } else {
        poll_endpoints(engine);
        moved += handle_arrived(engine);
    }
    moved += retry_blocked(engine);
    moved += p2p_place_progress(engine);
    moved += tear_down_failing(engine);
    return moved + p2p_finish(engine);
}

unsigned p2p_hear(struct p2p_engine *engine)
{
    engine->passed_over = true;
    return p2p_progress(engine);
}

unsigned p2p_finish(struct p2p_engine *engine)
{
    return p2p_link_alone(&engine->finished) ? 0 : p2p_op_finish(engine, NULL);
}

/* Whether the transport wakes a sleeper, by its descriptor or by local peers that ring the
 * process's doorbell (tutti_host.wake_mate). */
static bool is_woken(const tutti_transport_ops *ops)
{
    return TUTTI_HAS(ops, arm) &&
           (TUTTI_HAS(ops, wait_fd) || ops->capabilities & TUTTI_CAP_HOST_ONLY);
}

bool p2p_is_polled(const struct p2p_engine *engine)
{
    for (const struct p2p_endpoint *at = engine->endpoints; at; at = at->next)
        if (!is_woken(at->ops))
            return true;
    return false;
}

uint64_t p2p_begun(struct p2p_engine *engine)
{
    const uint64_t begun = engine->begun;

    engine->begun = 0;
    return begun;
}

bool p2p_arm(struct p2p_engine *engine)
{
    if (engine->adopting || !p2p_link_alone(&engine->ready) || !p2p_link_alone(&engine->blocked) ||
        !p2p_link_alone(&engine->failing) || !p2p_link_alone(&engine->placed) ||
        !p2p_link_alone(&engine->finished))
        return false;
    for (struct p2p_endpoint *at = engine->endpoints; at; at = at->next)
        if (!is_woken(at->ops) || at->ops->arm(at->endpoint) != TUTTI_ARMED)
            return false;
    return true;
}

bool p2p_idle(const struct p2p_engine *engine)
{
    for (const struct p2p_endpoint *at = engine->endpoints; at; at = at->next) {
        P2P_EACH(path, &at->paths, const struct p2p_path, link) {
            if (!path->failed && !path->mute &&
                !(p2p_link_alone(&path->queue) && p2p_link_alone(&path->issued) &&
                  p2p_link_alone(&path->streams)))
                return false;
        }
    }
    return true;
}
