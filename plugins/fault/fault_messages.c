/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in front of an endpoint.
 *
 * A message is what is sent up to and with the first part without TUTTI_SEND_MORE; one decision is
 * taken for all its parts, and kept while the inner transport is busy. A dropped part is complete at
 * once, a delayed one waits in its peer's queue, behind which everything else to that peer waits too,
 * so that the order stays. The last part is the payload: headers come before it. A corrupted one is a copy with one bit
 * changed: the sender's memory is not ours to write.
 *
 * Every request that the inner transport has is in `posted`, since a way that is closed must complete
 * them: the inner endpoint forgets a peer's requests when it disconnects. While a request is not the
 * inner one's, its opaque words are ours.
 */
#include <stdio.h>
#include <string.h>

#include "fault_inside.h"

enum { REPORTS = 64 };

static void push(struct queue *queue, tutti_request *request)
{
    deferred_of(request)->next = NULL;
    if (queue->first)
        deferred_of(queue->last)->next = request;
    else
        queue->first = request;
    queue->last = request;
}

static tutti_request *pop(struct queue *queue)
{
    tutti_request *request = queue->first;

    if (request)
        queue->first = deferred_of(request)->next;
    return request;
}

static bool remove_from(struct queue *queue, tutti_request *request)
{
    tutti_request *before = NULL;

    for (tutti_request *at = queue->first; at; before = at, at = deferred_of(at)->next) {
        if (at != request)
            continue;
        if (before)
            deferred_of(before)->next = deferred_of(at)->next;
        else
            queue->first = deferred_of(at)->next;
        if (queue->last == at)
            queue->last = before;
        return true;
    }
    return false;
}

static int64_t now_ns(const tutti_endpoint *e)
{
    return e->wrapper->host->now_ns(e->wrapper->host_self);
}

static void finish(tutti_endpoint *e, struct tutti_peer *peer, tutti_request *request,
                   tutti_status status)
{
    deferred_of(request)->peer = peer;
    request->status = status;
    push(&e->done, request);
}

/* ---- what the inner transport has ---- */

static tutti_status no_memory(const tutti_endpoint *e)
{
    return e->wrapper->host->error(e->wrapper->host_self, TUTTI_ERR_NO_MEMORY, 0,
                                   "no memory for a message");
}

static tutti_status make_room(tutti_endpoint *e)
{
    const tutti_host *host = e->wrapper->host;
    uint64_t capacity = e->posted_capacity ? 2 * e->posted_capacity : 64;

    if (e->posted_count < e->posted_capacity)
        return TUTTI_OK;
    struct posted *more = host->allocate(e->wrapper->host_self, capacity * sizeof *more);
    if (!more)
        return no_memory(e);
    if (e->posted_count)
        memcpy(more, e->posted, e->posted_count * sizeof *more);
    host->release(e->wrapper->host_self, e->posted);
    e->posted = more;
    e->posted_capacity = capacity;
    return TUTTI_OK;
}

static void forget_posted(tutti_endpoint *e, uint64_t i)
{
    e->posted[i] = e->posted[--e->posted_count];
}

/* The inner transport has completed posted[i], or dropped it. */
static void settle(tutti_endpoint *e, uint64_t i, tutti_status status)
{
    struct posted posted = e->posted[i];

    forget_posted(e, i);
    if (posted.copy) {
        finish(e, posted.peer, posted.copy->original, status);
        e->wrapper->host->release(e->wrapper->host_self, posted.copy);
    } else {
        finish(e, posted.peer, posted.request, status);
    }
}

static void settle_request(tutti_endpoint *e, const tutti_request *request)
{
    for (uint64_t i = e->posted_count; i > 0; i--)
        if (e->posted[i - 1].request == request) {
            settle(e, i - 1, request->status);
            return;
        }
}

void fault_close_way(tutti_endpoint *e, struct tutti_peer *peer)
{
    if (!peer->inner)
        return;
    if (TUTTI_HAS(e->inner_ops, disconnect))
        e->inner_ops->disconnect(e->inner, peer->inner);
    else
        for (uint64_t i = 0; i < e->posted_count && TUTTI_HAS(e->inner_ops, cancel); i++)
            if (e->posted[i].peer == peer)
                e->inner_ops->cancel(e->inner, e->posted[i].request);
    peer->inner = NULL;
    for (uint64_t i = e->posted_count; i > 0; i--)
        if (e->posted[i - 1].peer == peer)
            settle(e, i - 1, TUTTI_ERR_PEER_LOST);
    for (tutti_request *request; (request = pop(&peer->delayed));)
        finish(e, peer, request, TUTTI_ERR_PEER_LOST);
}

/* ---- sending ---- */

static uint64_t place_of(const tutti_endpoint *e, const struct tutti_peer *peer)
{
    return fault_hash(e->group->name) ^ (uint64_t)peer->world_rank;
}

static void decide(tutti_endpoint *e, struct tutti_peer *peer)
{
    struct tutti_wrapper *w = e->wrapper;
    const uint64_t place = place_of(e, peer);
    struct decision d = {.taken = true};

    peer->messages++;
    for (unsigned i = 0; i < w->rules.count; i++) {
        struct fault_rule *rule = &w->rules.rule[i];

        if (!rule->of_messages || (rule->rank != FAULT_ANY && rule->rank != w->rank) ||
            (rule->peer != FAULT_ANY && rule->peer != peer->world_rank) ||
            !fault_in_progress(w, rule, e->group->core))
            continue;
        fault_met(w, rule);
        if (!fault_falls(&w->rules, rule, w->rank, place, peer->messages))
            continue;
        if (rule->action == FAULT_KILL)
            fault_kill();
        if (rule->action == FAULT_CLOSE)
            fault_close_way(e, peer);
        d.drop |= rule->action == FAULT_DROP;
        d.corrupt |= rule->action == FAULT_CORRUPT;
        d.delay_ns += rule->delay_ns;
    }
    peer->decision = d;
}

/* Hands it to the inner transport. */
static tutti_status pass(tutti_endpoint *e, struct tutti_peer *peer, uint32_t lane,
                         const void *data, uint64_t bytes, uint32_t flags, tutti_request *request)
{
    tutti_status status = make_room(e);

    if (!status)
        status = e->inner_ops->isend(e->inner, peer->inner, lane, data, bytes, flags, request);
    if (!status && request->status == TUTTI_ERR_NOT_READY)
        e->posted[e->posted_count++] = (struct posted){.request = request, .peer = peer};
    return status;
}

static tutti_status pass_corrupted(tutti_endpoint *e, struct tutti_peer *peer, uint32_t lane,
                                   const void *data, uint64_t bytes, tutti_request *request)
{
    const tutti_host *host = e->wrapper->host;
    struct copy *copy = host->allocate(e->wrapper->host_self, sizeof *copy + bytes);
    uint64_t bit = fault_number(&e->wrapper->rules, FAULT_RULES_MAX, e->wrapper->rank,
                                place_of(e, peer), peer->messages) %
                   (bytes * 8);

    if (!copy)
        return no_memory(e);
    memcpy(copy->data, data, bytes);
    copy->data[bit / 8] ^= (uint8_t)(1u << bit % 8);
    copy->original = request;
    copy->request.status = TUTTI_ERR_NOT_READY;
    tutti_status status = pass(e, peer, lane, copy->data, bytes, 0, &copy->request);
    request->status = status ? request->status : copy->request.status;
    if (status || copy->request.status != TUTTI_ERR_NOT_READY)
        host->release(e->wrapper->host_self, copy);
    else
        e->posted[e->posted_count - 1].copy = copy;
    return status;
}

static tutti_status pass_on(tutti_endpoint *e, struct tutti_peer *peer, uint32_t lane,
                            const void *data, uint64_t bytes, uint32_t flags, bool corrupt,
                            tutti_request *request)
{
    return corrupt ? pass_corrupted(e, peer, lane, data, bytes, request)
                   : pass(e, peer, lane, data, bytes, flags, request);
}

static tutti_status lost(const tutti_endpoint *e, const struct tutti_peer *peer)
{
    char words[64];

    snprintf(words, sizeof words, "the connection to rank %d was closed", peer->rank);
    return e->wrapper->host->error(e->wrapper->host_self, TUTTI_ERR_PEER_LOST, 0, words);
}

tutti_status fault_isend(tutti_endpoint *e, tutti_peer *peer, uint32_t lane, const void *data,
                         uint64_t bytes, uint32_t flags, tutti_request *request)
{
    const bool later_part = peer->decision.taken;

    if (!later_part)
        decide(e, peer);
    if (!peer->inner)
        return lost(e, peer);

    struct decision d = peer->decision;
    int64_t now = now_ns(e), due = now + d.delay_ns;
    /* The payload, which comes last; what has none is left alone. */
    bool corrupt = d.corrupt && later_part && bytes && !(flags & TUTTI_SEND_MORE);
    tutti_status status = TUTTI_OK;

    if (due < peer->hold_until_ns)
        due = peer->hold_until_ns;
    if (d.drop) {
        request->status = TUTTI_OK;
        request->bytes = bytes;
    } else if (due > now || peer->delayed.first) {
        request->status = TUTTI_ERR_NOT_READY;
        *deferred_of(request) = (struct deferred){.data = data,
                                                  .bytes = bytes,
                                                  .due_ns = due,
                                                  .peer = peer,
                                                  .lane = lane,
                                                  .flags = flags,
                                                  .corrupt = corrupt};
        push(&peer->delayed, request);
    } else {
        status = pass_on(e, peer, lane, data, bytes, flags, corrupt, request);
    }
    if (!status)
        peer->decision.taken = flags & TUTTI_SEND_MORE;
    return status;
}

tutti_status fault_irecv(tutti_endpoint *e, tutti_peer *peer, uint32_t lane, void *data,
                         uint64_t capacity, tutti_request *request)
{
    if (!peer->inner)
        return lost(e, peer);
    tutti_status status = make_room(e);
    if (!status)
        status = e->inner_ops->irecv(e->inner, peer->inner, lane, data, capacity, request);
    if (!status && request->status == TUTTI_ERR_NOT_READY)
        e->posted[e->posted_count++] = (struct posted){.request = request, .peer = peer};
    return status;
}

/* ---- progress ---- */

/* Gives messages that are due to the inner transport, in order, until it is busy. */
static void release_delayed(tutti_endpoint *e, struct tutti_peer *peer, int64_t now)
{
    for (tutti_request *request; (request = peer->delayed.first);) {
        struct deferred d = *deferred_of(request);

        if (d.due_ns > now)
            return;
        tutti_status status =
            pass_on(e, peer, d.lane, d.data, d.bytes, d.flags, d.corrupt, request);
        if (status == TUTTI_ERR_BUSY) {
            *deferred_of(request) = d;
            return;
        }
        peer->delayed.first = d.next;
        if (status || request->status != TUTTI_ERR_NOT_READY)
            finish(e, peer, request, status ? status : request->status);
    }
}

static void pump(tutti_endpoint *e)
{
    int64_t now = 0;

    for (struct tutti_peer *peer = e->peers; peer; peer = peer->next)
        if (peer->delayed.first) {
            now = now ? now : now_ns(e);
            release_delayed(e, peer, now);
        }
    if (TUTTI_HAS(e->inner_ops, progress)) {
        tutti_request *done[REPORTS];
        uint32_t count = e->inner_ops->progress(e->inner, done, REPORTS);

        for (uint32_t i = 0; i < count && i < REPORTS; i++)
            settle_request(e, done[i]);
        return;
    }
    /* Requests that complete while another one is tested must be reported with it, as the core does
     * (test_all()). */
    for (uint64_t i = 0; i < e->posted_count; i++)
        (void)e->inner_ops->test(e->inner, e->posted[i].request);
    for (uint64_t i = e->posted_count; i > 0; i--)
        if (e->posted[i - 1].request->status != TUTTI_ERR_NOT_READY)
            settle(e, i - 1, e->posted[i - 1].request->status);
}

uint32_t fault_progress(tutti_endpoint *e, tutti_request **ret_done, uint32_t capacity)
{
    uint32_t count = 0;

    pump(e);
    while (count < capacity && e->done.first)
        ret_done[count++] = pop(&e->done);
    return count;
}

tutti_status fault_test(tutti_endpoint *e, tutti_request *request)
{
    pump(e);
    if (request->status != TUTTI_ERR_NOT_READY)
        remove_from(&e->done, request);
    return request->status;
}

void fault_cancel(tutti_endpoint *e, tutti_request *request)
{
    for (struct tutti_peer *peer = e->peers; peer; peer = peer->next)
        if (remove_from(&peer->delayed, request))
            return;
    if (remove_from(&e->done, request))
        return;
    for (uint64_t i = 0; i < e->posted_count; i++) {
        struct posted posted = e->posted[i];

        if (posted.request != request && (!posted.copy || posted.copy->original != request))
            continue;
        e->inner_ops->cancel(e->inner, posted.request);
        forget_posted(e, i);
        if (posted.copy)
            e->wrapper->host->release(e->wrapper->host_self, posted.copy);
        return;
    }
}

void fault_forget_reports(tutti_endpoint *e, const struct tutti_peer *peer)
{
    for (tutti_request *request = e->done.first, *next; request; request = next) {
        next = deferred_of(request)->next;
        if (deferred_of(request)->peer == peer)
            remove_from(&e->done, request);
    }
}
