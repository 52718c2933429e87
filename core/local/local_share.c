/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of descriptors among local peers: each gives its own to the leader, which passes on
 * everybody's to everybody once it has them all. Exchanges are matched by their number, since every
 * local peer starts them in the same order.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "base/error.h"
#include "local/local.h"

enum { EXCHANGES_MAX = 64 };

struct tutti_exchange {
    struct tutti_exchange *next;
    uint32_t number, count; /* count 0: not known here yet */
    int received;           /* local peers whose descriptors are here */
    bool passed_on;
    int descriptors[][LOCAL_DESCRIPTORS_MAX]; /* [local_size], -1 where none */
};

static void exchange_free(struct local_peers *local, struct tutti_exchange *exchange)
{
    struct tutti_exchange **link = &local->exchanges;

    while (*link && *link != exchange)
        link = &(*link)->next;
    if (*link)
        *link = exchange->next;
    for (int i = 0; i < local->count; i++)
        for (int k = 0; k < LOCAL_DESCRIPTORS_MAX; k++)
            if (exchange->descriptors[i][k] >= 0)
                close(exchange->descriptors[i][k]);
    free(exchange);
}

void local_share_free(struct local_peers *local)
{
    while (local->exchanges)
        exchange_free(local, local->exchanges);
}

static struct tutti_exchange *exchange_get(struct local_peers *local, uint32_t number)
{
    uint32_t open = 0;

    for (struct tutti_exchange *e = local->exchanges; e; e = e->next, open++)
        if (e->number == number)
            return e;
    if (open >= EXCHANGES_MAX || number >= local->exchange_count + EXCHANGES_MAX)
        return NULL;

    const size_t bytes = (size_t)local->count * sizeof(int[LOCAL_DESCRIPTORS_MAX]);
    struct tutti_exchange *e = malloc(sizeof *e + bytes);
    if (!e)
        return NULL;
    *e = (struct tutti_exchange){.next = local->exchanges, .number = number};
    memset(e->descriptors, 0xff, bytes);
    local->exchanges = e;
    return e;
}

static bool has(const struct tutti_exchange *e, int index)
{
    return e->descriptors[index][0] >= 0;
}

static void exchange_put(struct tutti_exchange *e, int index, int *descriptors, int count)
{
    memcpy(e->descriptors[index], descriptors, (size_t)count * sizeof(int));
    e->received++;
    e->count = (uint32_t)count;
}

static tutti_status send_shared(struct local_peers *local, struct tutti_exchange *e, int to,
                                int source)
{
    uint8_t body[16];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, LOCAL_SHARED);
    write_u32(&w, e->number);
    write_u32(&w, (uint32_t)source);
    return local_send(local, to, body, w.size, e->descriptors[source], e->count);
}

/* A local peer whose connection has ended is no failure of the exchange: the control plane tells of its death. One
 * that lives finds the connection closed here, too (find_cut_off). */
static tutti_status cut_if_lost(struct local_peers *local, int to, tutti_status status)
{
    if (status != TUTTI_ERR_PEER_LOST)
        return status;
    if (local->peers[to].link) {
        local_link_close(local, local->peers[to].link);
        local_suspect(local);
    }
    return TUTTI_OK;
}

/* The leader's part, once everybody's descriptors are here. */
static tutti_status pass_on(struct local_peers *local, struct tutti_exchange *e)
{
    if (local->self || e->passed_on || e->received < local->count)
        return TUTTI_OK;
    for (int to = 1; to < local->count; to++)
        for (int source = 0; source < local->count; source++) {
            tutti_status status =
                source == to ? TUTTI_OK : cut_if_lost(local, to, send_shared(local, e, to, source));
            if (status)
                return status;
        }
    e->passed_on = true;
    return TUTTI_OK;
}

void local_share_message(struct local_peers *local, struct local_link *link,
                         enum local_message type, const uint8_t *data, size_t size,
                         int *descriptors, int count)
{
    struct reader r = {.data = data, .size = size};
    uint32_t number = (read_u32(&r), read_u32(&r));
    uint32_t index = type == LOCAL_SHARED ? read_u32(&r) : (uint32_t)link->index;
    struct tutti_exchange *e = r.bad ? NULL : exchange_get(local, number);
    bool from_leader = local->self != 0;

    if (!e || index >= (uint32_t)local->count || has(e, (int)index) || !count ||
        (e->count && e->count != (uint32_t)count) || from_leader != (type == LOCAL_SHARED)) {
        local_close_all(descriptors, count);
        local_fail(local, "a process on this host sent unexpected descriptors");
        return;
    }
    exchange_put(e, (int)index, descriptors, count);
    if (pass_on(local, e))
        local_fail(local, "%s", error_message());
}

static tutti_status give(struct local_peers *local, struct tutti_exchange *e,
                         const int32_t *descriptors, uint32_t count)
{
    int own[LOCAL_DESCRIPTORS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        own[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 0);
        if (own[i] < 0) {
            while (i--)
                close(own[i]);
            return error_set(TUTTI_ERR_SYSTEM, "out of descriptors (raise ulimit -n)");
        }
    }
    exchange_put(e, local->self, own, (int)count);
    if (!local->self)
        return pass_on(local, e);

    uint8_t body[16];
    struct writer w = {.data = body, .capacity = sizeof body};
    write_u32(&w, LOCAL_SHARE);
    write_u32(&w, e->number);
    return cut_if_lost(local, 0, local_send(local, 0, body, w.size, own, count));
}

tutti_status local_share_start(struct local_peers *local, const int32_t *descriptors,
                               uint32_t count, tutti_exchange **ret_exchange)
{
    if (!count || count > LOCAL_DESCRIPTORS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "1 to %d descriptors can be shared at once",
                         LOCAL_DESCRIPTORS_MAX);
    LOCK_SCOPE(&local->control->lock);
    struct tutti_exchange *e = exchange_get(local, local->exchange_count);
    if (!e)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to share descriptors");
    if (e->count && e->count != count)
        return error_set(TUTTI_ERR_PLUGIN,
                         "processes of this host share %u and %u descriptors in one exchange; each "
                         "must share as many: this is an error of the plugin that shares them",
                         e->count, count);
    local->exchange_count++;
    tutti_status status = give(local, e, descriptors, count);
    if (status)
        exchange_free(local, e);
    else
        *ret_exchange = e;
    return status;
}

/* A local peer from whom descriptors would come by a connection that is no more; -1: there is none. */
static int find_cut_off(const struct local_peers *local, const struct tutti_exchange *e)
{
    if (local->self)
        return local->peers[0].link ? -1 : 0;
    for (int i = 1; i < local->count; i++)
        if (!has(e, i) && !local->peers[i].link)
            return i;
    return -1;
}

tutti_status local_share_test(struct local_peers *local, tutti_exchange *exchange,
                              int32_t *ret_descriptors)
{
    int missing;
    tutti_status status = TUTTI_OK;

    control_poll(local->control);
    LOCK_SCOPE(&local->control->lock);
    if (exchange->received == local->count && (local->self || exchange->passed_on)) {
        for (int i = 0; i < local->count; i++)
            for (uint32_t k = 0; k < exchange->count; k++) {
                *ret_descriptors++ = exchange->descriptors[i][k];
                exchange->descriptors[i][k] = -1;
            }
    } else if (local->state == LOCAL_FAILED || local->broken) {
        status =
            error_set(local->broken ? TUTTI_ERR_SYSTEM : TUTTI_ERR_PEER_LOST, "%s", local->message);
    } else if (local_is_cut_off(local) && (missing = find_cut_off(local, exchange)) >= 0) {
        status = error_set(TUTTI_ERR_SYSTEM, "the connection to rank %d of this host has ended",
                           local->peers[missing].rank);
    } else {
        return TUTTI_ERR_NOT_READY;
    }
    exchange_free(local, exchange);
    return status;
}
