/* SPDX-License-Identifier: Apache-2.0 */
#include "broken.h"

#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "tcp.h"

#define MESSAGE                                                                                    \
    tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane, const void *data, uint64_t bytes,   \
        uint32_t flags, tutti_request *request
#define THE_MESSAGE endpoint, peer, lane, data, bytes, flags, request

enum { SHADOWS = 64, SMALL = 64, CRASH_BYTES = 100000 };

/* True at each `period`-th call. */
static bool each(unsigned period)
{
    static unsigned count;

    return ++count % period == period / 2;
}

static tutti_status complete(tutti_request *request)
{
    request->status = TUTTI_OK;
    return TUTTI_OK;
}

/* ---- sends of which the core does not know ------------------------------------------------- */

static struct shadow {
    tutti_request request;
    uint8_t data[SMALL];
    bool busy;
} shadows[SHADOWS];

/* A request of our own, and with `copies` room for a small message. */
static struct shadow *take_shadow(void)
{
    for (int i = 0; i < SHADOWS; i++)
        if (!shadows[i].busy) {
            shadows[i].busy = true;
            return &shadows[i];
        }
    return NULL;
}

static bool is_shadow(tutti_request *request)
{
    for (int i = 0; i < SHADOWS; i++)
        if (request == &shadows[i].request) {
            shadows[i].busy = false;
            return true;
        }
    return false;
}

static bool send_in_shadow(tutti_endpoint *endpoint, tutti_peer *peer, const void *data,
                           uint64_t bytes)
{
    struct shadow *shadow = take_shadow();

    if (!shadow)
        return false;
    if (bytes <= SMALL) {
        memcpy(shadow->data, data, bytes);
        data = shadow->data;
    }
    sound->isend(endpoint, peer, 0, data, bytes, 0, &shadow->request);
    shadow->busy = shadow->request.status == TUTTI_ERR_NOT_READY;
    return true;
}

static uint32_t progress_beside_shadows(tutti_endpoint *endpoint, tutti_request **ret_done,
                                        uint32_t capacity)
{
    const uint32_t n = sound->progress(endpoint, ret_done, capacity);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if (!is_shadow(ret_done[i]))
            ret_done[kept++] = ret_done[i];
    return kept;
}

/* ---- messages ------------------------------------------------------------------------------ */

static struct {
    tutti_peer *peer;
    const void *data;
    uint64_t bytes;
    tutti_request *request; /* NULL: none is held back */
} late;

static void send_late(tutti_endpoint *endpoint)
{
    tutti_request *request = late.request;

    late.request = NULL;
    if (request)
        sound->isend(endpoint, late.peer, 0, late.data, late.bytes, 0, request);
}

static tutti_status isend_reorders(MESSAGE)
{
    if (each(7) && !late.request) {
        late.peer = peer;
        late.data = data;
        late.bytes = bytes;
        late.request = request;
        request->status = TUTTI_ERR_NOT_READY;
        return TUTTI_OK;
    }
    const tutti_status status = sound->isend(THE_MESSAGE);
    send_late(endpoint);
    return status;
}

/* Takes into account that one that was held back may be complete at once, and is then reported by us. */
static uint32_t progress_reorders(tutti_endpoint *endpoint, tutti_request **ret_done,
                                  uint32_t capacity)
{
    tutti_request *request = late.request;

    send_late(endpoint);
    if (request && request->status != TUTTI_ERR_NOT_READY) {
        ret_done[0] = request;
        return 1;
    }
    return sound->progress(endpoint, ret_done, capacity);
}

static tutti_status isend_loses_some(MESSAGE)
{
    return each(7) ? complete(request) : sound->isend(THE_MESSAGE);
}

static tutti_status isend_loses_few(MESSAGE)
{
    return each(1000) ? complete(request) : sound->isend(THE_MESSAGE);
}

static tutti_status isend_loses_empty(MESSAGE)
{
    return !bytes ? complete(request) : sound->isend(THE_MESSAGE);
}

static tutti_status isend_repeats(MESSAGE)
{
    if (each(500) && bytes <= SMALL)
        send_in_shadow(endpoint, peer, data, bytes);
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_completes_early(MESSAGE)
{
    if (bytes > SMALL && send_in_shadow(endpoint, peer, data, bytes))
        return complete(request);
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_truncates(MESSAGE)
{
    bytes -= bytes > 1000 ? 8 : 0;
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_counts_in_16_bits(MESSAGE)
{
    bytes = (uint16_t)bytes;
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_is_busy_though_taken(MESSAGE)
{
    if (each(50) && bytes <= SMALL && send_in_shadow(endpoint, peer, data, bytes))
        return TUTTI_ERR_BUSY;
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_leaks(MESSAGE)
{
    char *volatile lost = malloc(SMALL);

    if (lost)
        *lost = 1;
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_takes_3_ms(MESSAGE)
{
    usleep(3000);
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_blocks_for_seconds(MESSAGE)
{
    static bool blocked;

    if (!blocked)
        sleep(2);
    blocked = true;
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_blocks(MESSAGE)
{
    (void)endpoint, (void)peer, (void)lane, (void)data, (void)bytes, (void)flags, (void)request;
    wait_for_ever();
}

static tutti_status isend_writes(MESSAGE)
{
    const tutti_status status = sound->isend(THE_MESSAGE);

    if (bytes && request->status == TUTTI_OK)
        ((uint8_t *)(uintptr_t)data)[bytes - 1] ^= 0xff;
    return status;
}

/* As one does that scrambles what goes over the wire in place, and puts it right again. */
static tutti_status isend_writes_and_restores(MESSAGE)
{
    volatile uint8_t *first = (uint8_t *)(uintptr_t)data;

    if (bytes) {
        *first ^= 0xff;
        *first ^= 0xff;
    }
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_crashes(MESSAGE)
{
    (void)endpoint, (void)peer, (void)lane, (void)data, (void)bytes, (void)flags, (void)request;
    raise(SIGSEGV);
    return TUTTI_OK;
}

/* Its peer has a receive waiting, and hears of the lost connection before anybody hears of the crash. */
static tutti_status isend_crashes_late(MESSAGE)
{
    if (bytes > CRASH_BYTES)
        raise(SIGSEGV);
    return sound->isend(THE_MESSAGE);
}

static tutti_status isend_exits(MESSAGE)
{
    (void)endpoint, (void)peer, (void)lane, (void)data, (void)bytes, (void)flags, (void)request;
    exit(0);
}

/* Whatever the endpoint: the peer of the last connect() in this process. */
static tutti_peer *last_peer;

static tutti_status connect_shares(tutti_endpoint *endpoint, const void *address, uint64_t bytes,
                                   uint64_t label, tutti_peer **ret_peer)
{
    const tutti_status status = sound->connect(endpoint, address, bytes, label, ret_peer);

    if (!status)
        last_peer = *ret_peer;
    return status;
}

static tutti_status isend_shares(MESSAGE)
{
    peer = last_peer;
    endpoint = peer->endpoint;
    return sound->isend(THE_MESSAGE);
}

/* Four lanes are claimed, and all go the same way. */
static tutti_status isend_ignores_lanes(MESSAGE)
{
    lane = 0;
    return sound->isend(THE_MESSAGE);
}

static tutti_status irecv_ignores_lanes(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                        void *data, uint64_t capacity, tutti_request *request)
{
    (void)lane;
    return sound->irecv(endpoint, peer, 0, data, capacity, request);
}

/* ---- what was received --------------------------------------------------------------------- */

static struct {
    tutti_request *request;
    uint8_t *data;
} posted[SHADOWS];

static void (*received)(tutti_request *request, uint8_t *data);

static tutti_status irecv_and_look(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                   void *data, uint64_t capacity, tutti_request *request)
{
    const tutti_status status = sound->irecv(endpoint, peer, lane, data, capacity, request);
    int i = 0;

    if (status)
        return status;
    if (request->status != TUTTI_ERR_NOT_READY) {
        received(request, data);
        return status;
    }
    while (i < SHADOWS - 1 && posted[i].request)
        i++;
    posted[i].request = request;
    posted[i].data = data;
    return status;
}

static uint32_t progress_and_look(tutti_endpoint *endpoint, tutti_request **ret_done,
                                  uint32_t capacity)
{
    const uint32_t n = sound->progress(endpoint, ret_done, capacity);

    for (uint32_t i = 0; i < n; i++)
        for (int k = 0; k < SHADOWS; k++)
            if (posted[k].request == ret_done[i]) {
                posted[k].request = NULL;
                if (!ret_done[i]->status)
                    received(ret_done[i], posted[k].data);
            }
    return n;
}

static void corrupts_1000th(tutti_request *request, uint8_t *data)
{
    if (request->bytes && each(1000))
        data[0] ^= 0x10;
}

static void corrupts_10000th(tutti_request *request, uint8_t *data)
{
    if (request->bytes && each(10000))
        data[request->bytes / 2] ^= 0x10;
}

static void corrupts_long(tutti_request *request, uint8_t *data)
{
    if (request->bytes > 700000)
        data[request->bytes / 2] ^= 0x10;
}

static void lengthens(tutti_request *request, uint8_t *data)
{
    (void)data;
    request->bytes += request->bytes > 100;
}

/* A request of a dead peer is never reported. */
static uint32_t progress_forgets_the_lost(tutti_endpoint *endpoint, tutti_request **ret_done,
                                          uint32_t capacity)
{
    const uint32_t n = sound->progress(endpoint, ret_done, capacity);
    uint32_t kept = 0;

    for (uint32_t i = 0; i < n; i++)
        if (ret_done[i]->status == TUTTI_ERR_PEER_LOST)
            ret_done[i]->status = TUTTI_ERR_NOT_READY;
        else
            ret_done[kept++] = ret_done[i];
    return kept;
}

static uint32_t progress_hangs(tutti_endpoint *endpoint, tutti_request **ret_done,
                               uint32_t capacity)
{
    if (each(20))
        wait_for_ever();
    return sound->progress(endpoint, ret_done, capacity);
}

void messages_look(tutti_transport_ops *ops, void (*look)(tutti_request *request, uint8_t *data))
{
    received = look;
    ops->irecv = irecv_and_look;
    ops->progress = progress_and_look;
}

/* ---- the defects --------------------------------------------------------------------------- */

static void received_with_another_status(tutti_request *request, uint8_t *data)
{
    (void)data;
    request->status = 7;
}

const struct defect message_defects[] = {
    {"reorders", {.isend = isend_reorders, .progress = progress_reorders}, NULL, NULL},
    {"loses-some", {.isend = isend_loses_some}, NULL, NULL},
    {"loses-few", {.isend = isend_loses_few}, NULL, NULL},
    {"loses-empty", {.isend = isend_loses_empty}, NULL, NULL},
    {"repeats", {.isend = isend_repeats, .progress = progress_beside_shadows}, NULL, NULL},
    {"corrupts-1000th", {.lanes = 1}, corrupts_1000th, NULL},
    {"corrupts-10000th", {.lanes = 1}, corrupts_10000th, NULL},
    {"corrupts-long", {.lanes = 1}, corrupts_long, NULL},
    {"lengthens", {.lanes = 1}, lengthens, NULL},
    {"completes-early",
     {.isend = isend_completes_early, .progress = progress_beside_shadows},
     NULL,
     NULL},
    {"truncates", {.isend = isend_truncates}, NULL, NULL},
    {"counts-in-16-bits", {.isend = isend_counts_in_16_bits}, NULL, NULL},
    {"busy-though-taken",
     {.isend = isend_is_busy_though_taken, .progress = progress_beside_shadows},
     NULL,
     NULL},
    {"leaks-per-message", {.isend = isend_leaks}, NULL, NULL},
    {"claims-lanes",
     {.lanes = 4, .isend = isend_ignores_lanes, .irecv = irecv_ignores_lanes},
     NULL,
     NULL},
    {"isend-crashes", {.isend = isend_crashes}, NULL, NULL},
    {"isend-crashes-late", {.isend = isend_crashes_late}, NULL, NULL},
    {"isend-exits", {.isend = isend_exits}, NULL, NULL},
    {"isend-blocks", {.isend = isend_blocks}, NULL, NULL},
    {"isend-takes-2-s", {.isend = isend_blocks_for_seconds}, NULL, NULL},
    {"isend-takes-3-ms", {.isend = isend_takes_3_ms}, NULL, NULL},
    {"isend-writes", {.isend = isend_writes}, NULL, NULL},
    {"isend-writes-and-restores", {.isend = isend_writes_and_restores}, NULL, NULL},
    {"progress-hangs", {.progress = progress_hangs}, NULL, NULL},
    {"dead-peer-unseen", {.progress = progress_forgets_the_lost}, NULL, NULL},
    {"shares-state", {.connect = connect_shares, .isend = isend_shares}, NULL, NULL},
    {"status-of-its-own", {.lanes = 1}, received_with_another_status, NULL},
    {"misses-function", {.lanes = 1}, NULL, NULL},
    {NULL, {.lanes = 1}, NULL, NULL},
};
