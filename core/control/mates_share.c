/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gather of descriptors among host-mates: each gives its own to the leader, which passes on
 * everybody's to everybody once it has them all. Exchanges are matched by their number, since every
 * mate starts them in the same order.
 */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/codec.h"
#include "base/error.h"
#include "control/mates.h"

enum { EXCHANGES_MAX = 64 };

struct tutti_exchange {
    struct tutti_exchange *next;
    uint32_t number, count; /* count 0: not known here yet */
    int received;           /* mates whose descriptors are here */
    bool passed_on;
    int *descriptors; /* [mates * MATES_DESCRIPTORS_MAX], -1 where none */
    bool *have;       /* [mates] */
};

static void exchange_free(struct mates *mates, struct tutti_exchange *exchange)
{
    struct tutti_exchange **link = &mates->exchanges;

    while (*link && *link != exchange)
        link = &(*link)->next;
    if (*link)
        *link = exchange->next;
    for (int i = 0; exchange->descriptors && i < mates->count * MATES_DESCRIPTORS_MAX; i++)
        if (exchange->descriptors[i] >= 0)
            close(exchange->descriptors[i]);
    free(exchange->descriptors);
    free(exchange->have);
    free(exchange);
}

void mates_share_free(struct mates *mates)
{
    while (mates->exchanges)
        exchange_free(mates, mates->exchanges);
}

static struct tutti_exchange *exchange_get(struct mates *mates, uint32_t number)
{
    uint32_t open = 0;

    for (struct tutti_exchange *e = mates->exchanges; e; e = e->next, open++)
        if (e->number == number)
            return e;
    if (open >= EXCHANGES_MAX || number >= mates->exchange_count + EXCHANGES_MAX)
        return NULL;

    struct tutti_exchange *e = calloc(1, sizeof *e);
    size_t slots = (size_t)mates->count * MATES_DESCRIPTORS_MAX;
    if (!e)
        return NULL;
    e->number = number;
    e->descriptors = malloc(slots * sizeof(int));
    e->have = calloc((size_t)mates->count, sizeof(bool));
    if (!e->descriptors || !e->have) {
        free(e->descriptors);
        free(e->have);
        free(e);
        return NULL;
    }
    memset(e->descriptors, 0xff, slots * sizeof(int));
    e->next = mates->exchanges;
    mates->exchanges = e;
    return e;
}

static void exchange_put(struct tutti_exchange *e, int index, int *descriptors, int count)
{
    memcpy(e->descriptors + index * MATES_DESCRIPTORS_MAX, descriptors,
           (size_t)count * sizeof(int));
    e->have[index] = true;
    e->received++;
    e->count = (uint32_t)count;
}

static tutti_status send_shared(struct mates *mates, struct tutti_exchange *e, int to, int source)
{
    uint8_t body[16];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, MATES_SHARED);
    write_u32(&w, e->number);
    write_u32(&w, (uint32_t)source);
    return mates_send(mates, to, body, w.size, e->descriptors + source * MATES_DESCRIPTORS_MAX,
                      e->count);
}

/* The leader's part, once everybody's descriptors are here. */
static tutti_status pass_on(struct mates *mates, struct tutti_exchange *e)
{
    if (mates->self || e->passed_on || e->received < mates->count)
        return TUTTI_OK;
    for (int to = 1; to < mates->count; to++)
        for (int source = 0; source < mates->count; source++) {
            tutti_status status = source == to ? TUTTI_OK : send_shared(mates, e, to, source);
            if (status)
                return status;
        }
    e->passed_on = true;
    return TUTTI_OK;
}

void mates_share_message(struct mates *mates, struct mates_link *link, enum mates_message type,
                         const uint8_t *data, size_t size, int *descriptors, int count)
{
    struct reader r = {.data = data, .size = size};
    uint32_t number = (read_u32(&r), read_u32(&r));
    uint32_t index = type == MATES_SHARED ? read_u32(&r) : (uint32_t)link->index;
    struct tutti_exchange *e = r.bad ? NULL : exchange_get(mates, number);
    bool from_leader = mates->self != 0;

    if (!e || index >= (uint32_t)mates->count || e->have[index] || !count ||
        (e->count && e->count != (uint32_t)count) || from_leader != (type == MATES_SHARED)) {
        for (int i = 0; i < count; i++)
            close(descriptors[i]);
        mates_fail(mates, "a process on this host sent descriptors that nobody asked for");
        return;
    }
    exchange_put(e, (int)index, descriptors, count);
    if (pass_on(mates, e))
        mates_fail(mates, "%s", error_message());
}

static tutti_status give(struct mates *mates, struct tutti_exchange *e, const int32_t *descriptors,
                         uint32_t count)
{
    int own[MATES_DESCRIPTORS_MAX];

    for (uint32_t i = 0; i < count; i++) {
        own[i] = fcntl(descriptors[i], F_DUPFD_CLOEXEC, 0);
        if (own[i] < 0) {
            while (i--)
                close(own[i]);
            return error_set(TUTTI_ERR_SYSTEM, "out of descriptors (raise ulimit -n)");
        }
    }
    exchange_put(e, mates->self, own, (int)count);
    if (!mates->self)
        return pass_on(mates, e);

    uint8_t body[16];
    struct writer w = {.data = body, .capacity = sizeof body};
    write_u32(&w, MATES_SHARE);
    write_u32(&w, e->number);
    return mates_send(mates, 0, body, w.size, own, count);
}

tutti_status mates_share_start(struct mates *mates, const int32_t *descriptors, uint32_t count,
                               tutti_exchange **ret_exchange)
{
    tutti_status status;

    if (!count || count > MATES_DESCRIPTORS_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "1 to %d descriptors can be shared at once",
                         MATES_DESCRIPTORS_MAX);
    pthread_mutex_lock(&mates->control->lock);
    struct tutti_exchange *e = exchange_get(mates, mates->exchange_count);
    if (!e) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to share descriptors");
    } else if (e->count && e->count != count) {
        status = error_set(TUTTI_ERR_PLUGIN, "processes of this host share %u and %u descriptors",
                           e->count, count);
    } else {
        mates->exchange_count++;
        status = give(mates, e, descriptors, count);
        if (status)
            exchange_free(mates, e);
        else
            *ret_exchange = e;
    }
    pthread_mutex_unlock(&mates->control->lock);
    return status;
}

/* A mate from whom descriptors would come by a connection that is no more; -1: there is none. */
static int find_cut_off(const struct mates *mates, const struct tutti_exchange *e)
{
    if (mates->self)
        return mates->peers[0].link ? -1 : 0;
    for (int i = 1; i < mates->count; i++)
        if (!e->have[i] && !mates->peers[i].link)
            return i;
    return -1;
}

tutti_status mates_share_test(struct mates *mates, tutti_exchange *exchange,
                              int32_t *ret_descriptors)
{
    int missing;
    tutti_status status = TUTTI_ERR_NOT_READY;

    control_poll(mates->control);
    pthread_mutex_lock(&mates->control->lock);
    if (exchange->received == mates->count && (mates->self || exchange->passed_on)) {
        for (int i = 0; i < mates->count; i++)
            for (uint32_t k = 0; k < exchange->count; k++) {
                int *slot = &exchange->descriptors[i * MATES_DESCRIPTORS_MAX + (int)k];

                *ret_descriptors++ = *slot;
                *slot = -1;
            }
        status = TUTTI_OK;
    } else if (mates->state == MATES_FAILED || mates->broken) {
        status =
            error_set(mates->broken ? TUTTI_ERR_SYSTEM : TUTTI_ERR_PEER_LOST, "%s", mates->words);
    } else if (mates_is_cut_off(mates) && (missing = find_cut_off(mates, exchange)) >= 0) {
        status = error_set(TUTTI_ERR_SYSTEM, "the connection to rank %d of this host has ended",
                           mates->peers[missing].rank);
    }
    if (status != TUTTI_ERR_NOT_READY)
        exchange_free(mates, exchange);
    pthread_mutex_unlock(&mates->control->lock);
    return status;
}
