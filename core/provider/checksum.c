/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport in front of another one, with a checksum behind each message.
 *
 * The checksum is a message of its own, 8 bytes: XXH3 of the message, with the message's number on its way as
 * the seed. So a bit that flips is noticed, and so is a message that comes twice, is lost or takes another's
 * place. It is made from the sender's memory and compared in the receiver's, so whatever lies between is
 * covered: rings, sockets, an engine's buffers. A receive that does not match ends with TUTTI_ERR_CORRUPT, and
 * the core ends the group.
 *
 * A request of the core is a pair of requests of the inner transport: it is complete when both are. Where the
 * inner transport has room for the first alone, the pair waits at its peer, which takes nothing else of this
 * direction until the second is posted. The functions for mapped memory are passed on, since a transport may keep its
 * rings there; the core leaves the rest of that memory alone (endpoint_maps()).
 */
#include "provider/checksum.h"

#define XXH_INLINE_ALL
#include <endian.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <xxhash.h>

#include "base/cleanup.h"
#include "base/error.h"

enum { REPORTS = 64 };

enum part { MESSAGE, SUM, PARTS };

enum direction { OUT, IN, DIRECTIONS };

struct pair {
    tutti_request part[PARTS];
    bool held[PARTS]; /* by the inner transport, which has not reported it */
    enum direction direction;
    bool is_ready; /* complete, and to be reported */
    tutti_request *outer;
    struct tutti_peer *peer;
    const void *memory; /* of the message */
    uint32_t lane, flags;
    uint64_t number; /* of the message on its way */
    uint64_t sum;    /* little endian */
    TAILQ_ENTRY(pair) link;
};

TAILQ_HEAD(pairs, pair);

struct tutti_peer {
    tutti_peer *inner;
    uint64_t posted[DIRECTIONS];   /* messages, whose numbers begin with 0 */
    struct pair *owed[DIRECTIONS]; /* whose sum is not posted; NULL: none */
    LIST_ENTRY(tutti_peer) link;
};

struct tutti_endpoint {
    tutti_transport_ops ops;
    const tutti_transport_ops *inner_ops;
    tutti_endpoint *inner;
    LIST_HEAD(, tutti_peer) peers;
    unsigned owing; /* peers with a pair that is owed */
    struct pairs under_way, ready, spare;
};

/* ---- pairs ---- */

static struct pair *pair_new(tutti_endpoint *e, tutti_peer *peer, enum direction direction,
                             const void *memory, uint32_t lane, uint32_t flags,
                             tutti_request *outer)
{
    struct pair *pair = TAILQ_FIRST(&e->spare);

    if (pair)
        TAILQ_REMOVE(&e->spare, pair, link);
    else
        pair = malloc(sizeof *pair);
    if (!pair)
        return NULL;
    *pair = (struct pair){.peer = peer,
                          .direction = direction,
                          .number = peer->posted[direction],
                          .memory = memory,
                          .lane = lane,
                          .flags = flags,
                          .outer = outer};
    TAILQ_INSERT_TAIL(&e->under_way, pair, link);
    outer->opaque[0] = (uintptr_t)pair;
    return pair;
}

static struct pair *pair_of(const tutti_request *outer)
{
    return (struct pair *)(uintptr_t)outer->opaque[0];
}

static bool is_owed(const struct pair *pair)
{
    return pair->peer->owed[pair->direction] == pair;
}

static void set_owed(tutti_endpoint *e, struct pair *pair, bool owed)
{
    if (owed == is_owed(pair))
        return;
    pair->peer->owed[pair->direction] = owed ? pair : NULL;
    e->owing += owed ? 1U : -1U;
}

static void pair_free(tutti_endpoint *e, struct pair *pair)
{
    set_owed(e, pair, false);
    TAILQ_REMOVE(pair->is_ready ? &e->ready : &e->under_way, pair, link);
    TAILQ_INSERT_HEAD(&e->spare, pair, link);
}

static uint64_t sum_of(const struct pair *pair, uint64_t bytes)
{
    return htole64(XXH3_64bits_withSeed(pair->memory, (size_t)bytes, pair->number));
}

static tutti_status result_of(const struct pair *pair)
{
    const tutti_request *message = &pair->part[MESSAGE], *sum = &pair->part[SUM];

    if (message->status || sum->status)
        return message->status ? message->status : sum->status;
    if (pair->direction == OUT)
        return TUTTI_OK;
    return sum->bytes == sizeof pair->sum && pair->sum == sum_of(pair, message->bytes)
               ? TUTTI_OK
               : TUTTI_ERR_CORRUPT;
}

/* Takes both parts back from the inner transport. */
static void withdraw(tutti_endpoint *e, struct pair *pair)
{
    for (int i = 0; i < PARTS; i++) {
        if (pair->held[i])
            e->inner_ops->cancel(e->inner, &pair->part[i]);
        pair->held[i] = false;
    }
    set_owed(e, pair, false);
}

/* Gives the core's request its result, if both parts are complete. Nothing comes behind a part that has
 * failed. */
static bool settle(tutti_endpoint *e, struct pair *pair)
{
    const bool failed = (pair->part[MESSAGE].status && !pair->held[MESSAGE]) ||
                        (pair->part[SUM].status && !pair->held[SUM]);

    if (failed && TUTTI_HAS(e->inner_ops, cancel))
        withdraw(e, pair);
    if (pair->held[MESSAGE] || pair->held[SUM] || is_owed(pair))
        return false;
    pair->outer->bytes = pair->part[MESSAGE].bytes;
    pair->outer->status = result_of(pair);
    return true;
}

/* ---- posting ---- */

static tutti_status post(tutti_endpoint *e, struct pair *pair, enum part which, void *memory,
                         uint64_t bytes)
{
    const uint32_t flags = which == SUM ? pair->flags : pair->flags | TUTTI_SEND_MORE;
    tutti_request *request = &pair->part[which];
    tutti_peer *to = pair->peer->inner;
    tutti_status status;

    request->user = pair;
    status = pair->direction == IN
                 ? e->inner_ops->irecv(e->inner, to, pair->lane, memory, bytes, request)
                 : e->inner_ops->isend(e->inner, to, pair->lane, memory, bytes, flags, request);
    pair->held[which] = !status && request->status == TUTTI_ERR_NOT_READY;
    return status;
}

/* The sum follows when there is room. */
static void post_sum(tutti_endpoint *e, struct pair *pair)
{
    const tutti_status status = post(e, pair, SUM, &pair->sum, sizeof pair->sum);

    set_owed(e, pair, status == TUTTI_ERR_BUSY);
    if (status)
        pair->part[SUM].status = status == TUTTI_ERR_BUSY ? TUTTI_OK : status;
}

/* Whether more can be posted in the direction. A late sum leaves alone: the message that was to follow it did not. */
static bool post_owed(tutti_endpoint *e, const tutti_peer *peer, enum direction direction)
{
    struct pair *pair = peer->owed[direction];

    if (!pair)
        return true;
    pair->flags &= ~(uint32_t)TUTTI_SEND_MORE;
    post_sum(e, pair);
    if (is_owed(pair))
        return false;
    if (settle(e, pair)) {
        TAILQ_REMOVE(&e->under_way, pair, link);
        pair->is_ready = true;
        TAILQ_INSERT_TAIL(&e->ready, pair, link);
    }
    return true;
}

static tutti_status post_pair(tutti_endpoint *e, struct pair *pair, void *memory, uint64_t bytes)
{
    if (!pair)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the checksum of a message");
    const tutti_status status = post(e, pair, MESSAGE, memory, bytes);
    if (status) {
        pair_free(e, pair);
        return status;
    }
    pair->peer->posted[pair->direction]++;
    if (pair->direction == OUT)
        pair->sum = sum_of(pair, bytes);
    post_sum(e, pair);
    pair->outer->status = TUTTI_ERR_NOT_READY;
    if (settle(e, pair))
        pair_free(e, pair);
    return TUTTI_OK;
}

static tutti_status checked_isend(tutti_endpoint *e, tutti_peer *peer, uint32_t lane,
                                  const void *data, uint64_t bytes, uint32_t flags,
                                  tutti_request *request)
{
    if (!post_owed(e, peer, OUT))
        return TUTTI_ERR_BUSY;
    return post_pair(e, pair_new(e, peer, OUT, data, lane, flags, request), (void *)(uintptr_t)data,
                     bytes);
}

static tutti_status checked_irecv(tutti_endpoint *e, tutti_peer *peer, uint32_t lane, void *data,
                                  uint64_t capacity, tutti_request *request)
{
    if (!post_owed(e, peer, IN))
        return TUTTI_ERR_BUSY;
    return post_pair(e, pair_new(e, peer, IN, data, lane, 0, request), data, capacity);
}

/* ---- completing ---- */

static uint32_t checked_progress(tutti_endpoint *e, tutti_request **ret_done, uint32_t capacity)
{
    tutti_request *done[REPORTS];
    uint32_t count = 0;
    struct pair *pair;
    tutti_peer *peer;

    for (peer = e->owing ? LIST_FIRST(&e->peers) : NULL; peer; peer = LIST_NEXT(peer, link))
        for (int direction = OUT; direction < DIRECTIONS; direction++)
            (void)post_owed(e, peer, (enum direction)direction);
    for (; count < capacity && (pair = TAILQ_FIRST(&e->ready)); pair_free(e, pair))
        ret_done[count++] = pair->outer;
    const uint32_t room = capacity - count < REPORTS ? capacity - count : (uint32_t)REPORTS;
    const uint32_t more = e->inner_ops->progress(e->inner, done, room);
    for (uint32_t i = 0; i < more && i < room; i++) {
        pair = done[i]->user;
        pair->held[done[i] == &pair->part[SUM]] = false;
        if (settle(e, pair)) {
            ret_done[count++] = pair->outer;
            pair_free(e, pair);
        }
    }
    return count;
}

static tutti_status checked_test(tutti_endpoint *e, tutti_request *request)
{
    struct pair *pair = pair_of(request);

    if (request->status != TUTTI_ERR_NOT_READY)
        return request->status;
    if (is_owed(pair) && post_owed(e, pair->peer, pair->direction) && pair->is_ready) {
        pair_free(e, pair);
        return request->status;
    }
    for (int i = 0; i < PARTS; i++)
        if (pair->held[i])
            pair->held[i] = e->inner_ops->test(e->inner, &pair->part[i]) == TUTTI_ERR_NOT_READY;
    if (settle(e, pair))
        pair_free(e, pair);
    return request->status;
}

static void checked_cancel(tutti_endpoint *e, tutti_request *request)
{
    struct pair *pair = pair_of(request);

    withdraw(e, pair);
    pair_free(e, pair);
}

/* ---- peers, and what is passed on ---- */

static tutti_status checked_address(tutti_endpoint *e, void *ret_address, uint64_t capacity,
                                    uint64_t *ret_bytes)
{
    return e->inner_ops->address(e->inner, ret_address, capacity, ret_bytes);
}

static tutti_status checked_connect(tutti_endpoint *e, const void *address, uint64_t bytes,
                                    uint64_t label, tutti_peer **ret_peer)
{
    AUTOFREE struct tutti_peer *peer = calloc(1, sizeof *peer);

    if (!peer)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a peer");
    tutti_status status = e->inner_ops->connect(e->inner, address, bytes, label, &peer->inner);
    if (status)
        return status;
    LIST_INSERT_HEAD(&e->peers, peer, link);
    *ret_peer = TAKE(peer);
    return TUTTI_OK;
}

static void drop_pairs(tutti_endpoint *e, struct pairs *pairs, const tutti_peer *peer)
{
    for (struct pair *pair = TAILQ_FIRST(pairs), *next; pair; pair = next) {
        next = TAILQ_NEXT(pair, link);
        if (pair->peer == peer)
            pair_free(e, pair);
    }
}

static void checked_disconnect(tutti_endpoint *e, tutti_peer *peer)
{
    e->inner_ops->disconnect(e->inner, peer->inner);
    drop_pairs(e, &e->under_way, peer);
    drop_pairs(e, &e->ready, peer);
    LIST_REMOVE(peer, link);
    free(peer);
}

static tutti_status checked_wait_fd(tutti_endpoint *e, int32_t *ret_fd)
{
    return e->inner_ops->wait_fd(e->inner, ret_fd);
}

static int32_t checked_arm(tutti_endpoint *e)
{
    return TAILQ_EMPTY(&e->ready) ? e->inner_ops->arm(e->inner) : TUTTI_EVENTS_PENDING;
}

static void checked_traffic(tutti_endpoint *e, uint64_t ret_counters[5])
{
    e->inner_ops->traffic(e->inner, ret_counters);
}

static tutti_status checked_map_start(tutti_endpoint *e, tutti_host_mates *local,
                                      tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                                      uint64_t bytes, tutti_map **ret_map)
{
    AUTOFREE tutti_peer **inner = calloc(count, sizeof *inner);

    if (!inner)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %u local peers", count);
    for (uint32_t i = 0; i < count; i++)
        inner[i] = peers[i] ? peers[i]->inner : NULL;
    return e->inner_ops->map_start(e->inner, local, inner, count, self_index, bytes, ret_map);
}

static tutti_status checked_map_test(tutti_endpoint *e, tutti_map *map, void **ret_bases)
{
    return e->inner_ops->map_test(e->inner, map, ret_bases);
}

static void checked_map_close(tutti_endpoint *e, tutti_map *map)
{
    e->inner_ops->map_close(e->inner, map);
}

/* ---- opening and closing ---- */

static void free_pairs(struct pairs *pairs)
{
    for (struct pair *pair = TAILQ_FIRST(pairs), *next; pair; pair = next) {
        next = TAILQ_NEXT(pair, link);
        free(pair);
    }
}

static void checked_close(tutti_endpoint *e)
{
    e->inner_ops->close(e->inner);
    free_pairs(&e->under_way);
    free_pairs(&e->ready);
    free_pairs(&e->spare);
    for (tutti_peer *peer = LIST_FIRST(&e->peers), *next; peer; peer = next) {
        next = LIST_NEXT(peer, link);
        free(peer);
    }
    free(e);
}

/* Offers the functions that the inner transport has, but for messages that are shown: a sum would have to be
 * shown with each. */
static void offer(tutti_endpoint *e)
{
    const tutti_transport_ops *inner = e->inner_ops;

    e->ops = (tutti_transport_ops){
        .struct_size = sizeof e->ops,
        .threads = inner->threads,
        .capabilities = inner->capabilities,
        .max_message = inner->max_message,
        .lanes = 1, /* a way has one count of messages */
        .open = inner->open,
        .address = checked_address,
        .connect = checked_connect,
        .isend = checked_isend,
        .irecv = checked_irecv,
        .test = checked_test,
        .close = checked_close,
        .progress = TUTTI_HAS(inner, progress) ? checked_progress : NULL,
        .cancel = TUTTI_HAS(inner, cancel) ? checked_cancel : NULL,
        .wait_fd = TUTTI_HAS(inner, wait_fd) ? checked_wait_fd : NULL,
        .arm = TUTTI_HAS(inner, arm) ? checked_arm : NULL,
        .disconnect = TUTTI_HAS(inner, disconnect) ? checked_disconnect : NULL,
        .traffic = TUTTI_HAS(inner, traffic) ? checked_traffic : NULL,
        .piece_bytes = TUTTI_HAS(inner, piece_bytes) ? inner->piece_bytes : 0,
    };
    if (inner->capabilities & TUTTI_CAP_MAP) {
        e->ops.map_start = checked_map_start;
        e->ops.map_test = checked_map_test;
        e->ops.map_close = checked_map_close;
    }
}

tutti_status checksum_transport(const tutti_transport_ops **ops, tutti_endpoint **endpoint)
{
    struct tutti_endpoint *e = calloc(1, sizeof *e);

    if (!e)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for an endpoint");
    e->inner_ops = *ops;
    e->inner = *endpoint;
    LIST_INIT(&e->peers);
    TAILQ_INIT(&e->under_way);
    TAILQ_INIT(&e->ready);
    TAILQ_INIT(&e->spare);
    offer(e);
    *ops = &e->ops;
    *endpoint = e;
    return TUTTI_OK;
}
