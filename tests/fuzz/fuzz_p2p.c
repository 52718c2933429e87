/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hostile peers: one engine whose two peers are the input. An input is a row of commands, each a
 * byte and its arguments: a raw header, a header put together from few bytes (so that ids, tags and
 * groups meet), the payload that is awaited, and what the program at this end does meanwhile. Some transports
 * show what has arrived: then a message is a header with a payload, in two parts.
 * Messages may be copied from place to place: claims are written by the peers, too.
 * Buffers have their exact size and are freed as soon as their operation is complete.
 */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "p2p/p2p_inside.h"

enum { PEERS = 2, OPS = 24, HELD = 64, SHORT = 4096, CLAIMS = 4, PLACES = 200000 };

struct tutti_peer {
    tutti_request *receive[4];
    void *into[4];
    uint64_t capacity[4];
    unsigned receives;
    uint8_t *message; /* to be shown; NULL: none */
    uint64_t message_bytes, first_bytes;
};

struct tutti_endpoint {
    struct tutti_peer peers[PEERS];
    tutti_request *sends[HELD];
    unsigned send_count;
    tutti_request *done[HELD];
    unsigned done_count;
    bool full, shows;
};

struct input {
    const uint8_t *at;
    size_t left;
};

struct slot {
    struct p2p_op op;
    uint8_t *data;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint8_t next(struct input *in)
{
    if (!in->left)
        return 0;
    in->left--;
    return *in->at++;
}

/* ---- the transport ------------------------------------------------------------------------------
 */

static tutti_status fuzz_isend(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                               const void *data, uint64_t bytes, uint32_t flags,
                               tutti_request *request)
{
    const volatile uint8_t *read = data;

    (void)peer, (void)lane, (void)flags;
    if (endpoint->full || endpoint->send_count == HELD)
        return TUTTI_ERR_BUSY;
    if (bytes)
        (void)(read[0] + read[bytes - 1]);
    endpoint->sends[endpoint->send_count++] = request;
    return TUTTI_OK;
}

static tutti_status fuzz_irecv(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                               void *data, uint64_t capacity, tutti_request *request)
{
    (void)endpoint, (void)lane;
    if (peer->receives == 4)
        return TUTTI_ERR_BUSY;
    peer->receive[peer->receives] = request;
    peer->into[peer->receives] = data;
    peer->capacity[peer->receives++] = capacity;
    return TUTTI_OK;
}

static tutti_status fuzz_send_short(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                    const void *head, uint64_t head_bytes, const void *body,
                                    uint64_t body_bytes)
{
    const volatile uint8_t *first = head, *last = body;

    (void)peer, (void)lane;
    if (head_bytes + body_bytes > SHORT)
        abort();
    if (endpoint->full)
        return TUTTI_ERR_BUSY;
    (void)(first[0] + first[head_bytes - 1]);
    if (body_bytes)
        (void)(last[0] + last[body_bytes - 1]);
    return TUTTI_OK;
}

static tutti_status fuzz_show(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                              tutti_shown *ret_message)
{
    (void)endpoint, (void)lane;
    if (peer->receives)
        abort();
    if (!peer->message)
        return TUTTI_ERR_NOT_READY;
    if (peer->message_bytes > SHORT)
        return TUTTI_ERR_BUSY;
    *ret_message = (tutti_shown){.data = peer->message,
                                 .bytes = peer->first_bytes,
                                 .rest = peer->message + peer->first_bytes,
                                 .rest_bytes = peer->message_bytes - peer->first_bytes};
    return TUTTI_OK;
}

static void fuzz_take(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane)
{
    (void)endpoint, (void)lane;
    if (!peer->message)
        abort();
    free(peer->message);
    peer->message = NULL;
}

static tutti_status fuzz_send_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                   const void *head, uint64_t head_bytes, const void *body,
                                   uint64_t body_bytes)
{
    const volatile uint8_t *last = body;

    if (!body_bytes)
        abort();
    (void)(last[0] + last[body_bytes - 1]);
    return fuzz_send_short(endpoint, peer, lane, head, head_bytes, NULL, 0);
}

/* A payload that is never here is as good as one of zeros: what it holds steers nothing. */
static tutti_status fuzz_take_pair(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                   void *to, uint64_t bytes)
{
    memset(to, 0, bytes);
    if (endpoint->full)
        return TUTTI_ERR_NOT_READY;
    fuzz_take(endpoint, peer, lane);
    return TUTTI_OK;
}

static tutti_status fuzz_test(tutti_endpoint *endpoint, tutti_request *request)
{
    (void)endpoint;
    return request->status;
}

static uint32_t fuzz_progress(tutti_endpoint *endpoint, tutti_request **ret_done, uint32_t capacity)
{
    uint32_t count = endpoint->done_count;

    if (count > capacity)
        count = capacity;
    memcpy(ret_done, endpoint->done, count * sizeof *ret_done);
    endpoint->done_count -= count;
    memmove(endpoint->done, endpoint->done + count, endpoint->done_count * sizeof *endpoint->done);
    return count;
}

static void forget(tutti_request **list, unsigned *count, const tutti_request *request)
{
    for (unsigned i = 0; i < *count; i++) {
        if (list[i] == request) {
            memmove(list + i, list + i + 1, (--*count - i) * sizeof *list);
            return;
        }
    }
}

static void fuzz_cancel(tutti_endpoint *endpoint, tutti_request *request)
{
    forget(endpoint->sends, &endpoint->send_count, request);
    forget(endpoint->done, &endpoint->done_count, request);
    for (int i = 0; i < PEERS; i++)
        for (unsigned k = 0; k < endpoint->peers[i].receives; k++)
            if (endpoint->peers[i].receive[k] == request)
                endpoint->peers[i].receives = 0; /* its stream is over */
}

/* The peer sends a header, or some of one, and `more` bytes in one message, shown in two parts. */
static void write_message(struct tutti_peer *peer, const void *header, uint64_t bytes,
                          uint64_t more)
{
    if (peer->message || peer->receives)
        return;
    peer->message_bytes = bytes + more;
    peer->first_bytes = more % 7 < 2 ? (bytes + more) / 3 : bytes + more;
    peer->message = malloc(bytes + more ? bytes + more : 1);
    memcpy(peer->message, header, bytes);
    memset(peer->message + bytes, 0x55, more);
}

/* The peer writes `bytes`; what is left of them is lost. */
static void write_bytes(tutti_endpoint *endpoint, int which, const void *data, uint64_t bytes)
{
    struct tutti_peer *peer = &endpoint->peers[which];

    if (!peer->receives || endpoint->done_count == HELD)
        return;
    if (bytes > peer->capacity[0])
        bytes = peer->capacity[0];
    if (data)
        memcpy(peer->into[0], data, bytes);
    else
        memset(peer->into[0], 0x55, bytes);
    peer->receive[0]->bytes = bytes;
    peer->receive[0]->status = TUTTI_OK;
    endpoint->done[endpoint->done_count++] = peer->receive[0];
    peer->receives--;
    memmove(peer->receive, peer->receive + 1, sizeof peer->receive - sizeof peer->receive[0]);
    memmove(peer->into, peer->into + 1, sizeof peer->into - sizeof peer->into[0]);
    memmove(peer->capacity, peer->capacity + 1, sizeof peer->capacity - sizeof peer->capacity[0]);
}

static void finish_sends(tutti_endpoint *endpoint, tutti_status status)
{
    while (endpoint->send_count && endpoint->done_count < HELD) {
        tutti_request *request = endpoint->sends[0];

        request->status = status;
        forget(endpoint->sends, &endpoint->send_count, request);
        endpoint->done[endpoint->done_count++] = request;
    }
}

/* ---- the program --------------------------------------------------------------------------------
 */

static void announced(void *user, int source, const struct announce *a)
{
    (void)user;
    if (source < 1 || source > PEERS || a->fields.operation >= OPERATION_COUNT)
        abort();
}

static void peer_failed(void *user, int source, tutti_status status, const char *words)
{
    (void)user;
    if (source < 1 || source > PEERS || !status || !*words)
        abort();
}

/* What the peers map of this process, and this one of them. */
static struct {
    bool some;
    unsigned used;
    _Atomic uint64_t own[CLAIMS], theirs[CLAIMS];
    unsigned char *memory; /* a peer's */
} placed;

static bool place(void *user, int destination, const void *buffer, uint64_t bytes,
                  struct p2p_place *ret_place, _Atomic uint64_t **ret_claim)
{
    const unsigned claim = (unsigned)__builtin_ctz(~placed.used);

    (void)user;
    if (destination < 1 || destination > PEERS || !buffer || !bytes)
        abort();
    if (!placed.some || claim >= CLAIMS)
        return false;
    placed.used |= 1u << claim;
    *ret_place = (struct p2p_place){.memory = 1, .claim = claim};
    *ret_claim = &placed.own[claim];
    return true;
}

static void unplace(void *user, _Atomic uint64_t *claim)
{
    const unsigned bit = 1u << (claim - placed.own);

    (void)user;
    if (!(placed.used & bit))
        abort();
    placed.used &= ~bit;
}

static tutti_status find(void *user, int source, const struct p2p_place *at, uint64_t bytes,
                         unsigned char **ret_at, _Atomic uint64_t **ret_claim)
{
    (void)user;
    if (source < 1 || source > PEERS)
        abort();
    if (at->memory != 1)
        return TUTTI_ERR_NOT_READY;
    if (at->claim >= CLAIMS || at->offset > PLACES || bytes > PLACES - at->offset)
        return TUTTI_ERR_INTERNAL;
    *ret_at = placed.memory + at->offset;
    *ret_claim = &placed.theirs[at->claim];
    return TUTTI_OK;
}

/* A peer writes a claim: one that it should, or could. */
static void write_claim(struct input *in)
{
    const uint8_t which = next(in), id = next(in), counts = next(in);
    const uint64_t claim = (uint64_t)((id & 15u) | (id >> 4u) << 20) << 32 |
                           (uint64_t) !(which & 128) << 30 | (uint64_t)(counts >> 4) << 15 |
                           (counts & 15u);

    if (which & 64)
        placed.own[which % CLAIMS] = claim;
    else
        placed.theirs[which % CLAIMS] = claim;
}

static const struct p2p_events events = {.announce = announced,
                                         .peer_failed = peer_failed,
                                         .place = place,
                                         .unplace = unplace,
                                         .find = find};
static const uint32_t sizes[] = {0, 1, 8, 100, 9000, 65536, 262144, 300000};

static void start(struct p2p_group *group, struct slot *slot, struct input *in)
{
    uint8_t how = next(in), what = next(in);
    uint64_t bytes = sizes[what & 7], tag = what >> 3 & 3;
    int peer = 1 + (how & 1);
    struct announce a = {.sequence = tag, .fields = {.operation = OPERATION_BROADCAST}};
    tutti_status status;

    if (slot->data)
        return;
    slot->data = calloc(1, bytes ? bytes : 1);
    memset(&slot->op, 0, sizeof slot->op);
    switch (how >> 1 & 3) {
    case 0:
        status = p2p_send(group, &slot->op, peer, tag, slot->data, bytes);
        break;
    case 1:
        status =
            p2p_recv(group, &slot->op, how & 8 ? P2P_ANY_SOURCE : peer, tag, slot->data, bytes);
        break;
    case 2:
        status = p2p_collective_send(group, &slot->op, peer, &a, slot->data, bytes);
        break;
    default:
        status = p2p_collective_recv(group, &slot->op, peer, tag, slot->data, bytes);
    }
    if (status) {
        free(slot->data);
        slot->data = NULL;
    }
}

/* A message without an operation. */
static void do_now(struct p2p_group *group, int peer, struct input *in)
{
    const uint8_t what = next(in);
    const uint64_t bytes = sizes[what & 7], tag = what >> 3 & 3;
    uint64_t got = 0;
    uint8_t *data = calloc(1, bytes ? bytes : 1);

    if (what & 64)
        (void)p2p_send_now(group, peer, tag, data, bytes);
    else if (p2p_may_recv_now(group, peer, tag) &&
             p2p_recv_now(group, peer, tag, data, bytes, what & 128, &got) == P2P_NOW_DONE &&
             (got > bytes || (got != bytes && !(what & 128))))
        abort();
    free(data);
}

static void reap(struct slot *slots)
{
    for (int i = 0; i < OPS; i++) {
        if (slots[i].data && slots[i].op.status != TUTTI_ERR_NOT_READY) {
            free(slots[i].data);
            slots[i].data = NULL;
        }
    }
}

static void likely_header(tutti_endpoint *endpoint, int which, struct input *in)
{
    uint8_t wire[P2P_HEADER_BYTES], kind = next(in), what = next(in), id = next(in);
    struct p2p_header h = {.kind = (uint8_t)(1 + kind % P2P_HELP),
                           .group = kind >> 4 & 1,
                           .source = (uint32_t)which + 1 + (kind >> 7),
                           .credit = kind & 64 ? sizes[id & 7] : 0,
                           .bytes = sizes[what & 7],
                           .tag = what >> 3 & 3};

    if (h.kind != P2P_MESSAGE && h.kind != P2P_COLLECTIVE && h.kind != P2P_CREDIT)
        h.id = (id & 15u) | (id >> 4u) << 20;
    if ((h.kind == P2P_REQUEST && what & 32) || h.kind == P2P_HELP)
        h.place = (struct p2p_place){.memory = 1u + (what >> 6 & 1),
                                     .claim = id % (CLAIMS + 1),
                                     .offset = sizes[id >> 4 & 7]};
    if (h.kind == P2P_GRANT || h.kind == P2P_REFUSE || h.kind == P2P_CREDIT ||
        h.kind == P2P_WITHDRAW || h.kind == P2P_TAKEN || h.kind == P2P_HELP)
        h.bytes = 0;
    if (h.kind == P2P_DATA || h.kind == P2P_REFUSE || h.kind == P2P_CREDIT || h.kind == P2P_TAKEN ||
        h.kind == P2P_HELP)
        h.tag = 0;
    if (h.kind == P2P_CREDIT)
        h.group = h.source = 0;
    h.announce.fields.operation = OPERATION_BROADCAST;
    if (endpoint->shows) {
        h.shows = id & 128;
        const uint32_t bytes =
            h.shows ? p2p_wire_encode_short(&h, wire) : (p2p_wire_encode(&h, wire), sizeof wire);
        const uint64_t payload = p2p_wire_payload(&h);

        write_message(&endpoint->peers[which], wire, bytes,
                      bytes == P2P_COMPACT_BYTES || id & 64 ? payload + (what == 0xff) : 0);
        return;
    }
    p2p_wire_encode(&h, wire);
    write_bytes(endpoint, which, wire, sizeof wire);
}

static void command(tutti_endpoint *endpoint, struct p2p_engine *engine, struct p2p_path **paths,
                    struct p2p_group **groups, struct slot *slots, struct input *in)
{
    uint8_t c = next(in), wire[P2P_HEADER_BYTES];
    int which = c >> 4 & 1, id = c >> 5 & 1;

    switch (c & 15) {
    case 0:
        for (int i = 0; i < P2P_HEADER_BYTES; i++)
            wire[i] = next(in);
        if (endpoint->shows)
            write_message(&endpoint->peers[which], wire, next(in) % (sizeof wire + 1), next(in));
        else
            write_bytes(endpoint, which, wire, sizeof wire - (c >> 7));
        break;
    case 1:
    case 2:
    case 3:
        likely_header(endpoint, which, in);
        break;
    case 4:
    case 5:
        write_bytes(endpoint, which, NULL, UINT64_MAX);
        break;
    case 6:
    case 7:
        if (groups[id])
            start(groups[id], &slots[next(in) % OPS], in);
        break;
    case 8: {
        struct slot *slot = &slots[next(in) % OPS];

        if (slot->data)
            (void)p2p_cancel(&slot->op);
        break;
    }
    case 9:
        if (groups[id] && c & 128)
            p2p_group_fail(groups[id], TUTTI_ERR_TIMEOUT);
        break;
    case 10:
        if (!groups[id])
            (void)p2p_group_new(engine, (uint32_t)id, 0, PEERS + 1, paths, &events, NULL,
                                &groups[id]);
        break;
    case 11:
        endpoint->full = c & 128;
        break;
    case 12:
        finish_sends(endpoint, c == 0xfc ? TUTTI_ERR_PEER_LOST : TUTTI_OK);
        break;
    case 13:
        if (groups[id])
            do_now(groups[id], 1 + which, in);
        break;
    case 14:
        write_claim(in);
        break;
    default:
        (void)p2p_progress(engine);
    }
    reap(slots);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct input in = {data, size};
    uint8_t options = next(&in);
    tutti_endpoint endpoint = {0};
    tutti_transport_ops ops = {.struct_size = sizeof ops,
                               .lanes = 1,
                               .isend = fuzz_isend,
                               .irecv = fuzz_irecv,
                               .test = fuzz_test,
                               .progress = fuzz_progress,
                               .cancel = options & 1 ? NULL : fuzz_cancel};
    if (options & 4) {
        endpoint.shows = true;
        ops.short_bytes = SHORT;
        ops.send_short = fuzz_send_short;
        ops.show = fuzz_show;
        ops.take = fuzz_take;
        ops.send_pair = options & 16 ? fuzz_send_pair : NULL;
        ops.take_pair = options & 16 ? fuzz_take_pair : NULL;
    }
    placed.some = options & 8;
    placed.memory = calloc(1, PLACES);
    struct p2p_path *paths[PEERS + 1] = {0};
    struct p2p_group *groups[2] = {0};
    struct slot slots[OPS] = {0};
    struct p2p_engine *engine;
    unsigned index;

    if (p2p_engine_new(&engine) || p2p_engine_add_endpoint(engine, &ops, &endpoint, &index))
        abort();
    for (int i = 0; i < PEERS; i++)
        if (p2p_engine_add_path(engine, index, &endpoint.peers[i], i + 1,
                                options & 2 ? 4096 : PEERS + 1, &paths[i + 1]))
            abort();
    if (p2p_group_new(engine, 0, 0, PEERS + 1, paths, &events, NULL, &groups[0]))
        abort();
    while (in.left)
        command(&endpoint, engine, paths, groups, slots, &in);
    for (int i = 0; i < 2; i++)
        p2p_group_free(groups[i]);
    reap(slots);
    for (int i = 0; i < OPS; i++)
        if (slots[i].data)
            abort(); /* the group is gone and the operation is not complete */
    if (placed.used)
        abort(); /* a place is still held */
    p2p_engine_free(engine);
    free(placed.memory);
    for (int i = 0; i < PEERS; i++)
        free(endpoint.peers[i].message);
    return 0;
}
