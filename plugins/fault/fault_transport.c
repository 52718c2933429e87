/* SPDX-License-Identifier: Apache-2.0 */
/* The wrapper of an endpoint: its peers, and the functions that it passes through. */
#include <pthread.h>

#include "fault_inside.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* the wrappers' lists of endpoints */

void fault_close_ways(tutti_wrapper *wrapper, const void *group, int32_t peer)
{
    pthread_mutex_lock(&lock);
    for (tutti_endpoint *e = wrapper->endpoints; e; e = e->next)
        for (struct tutti_peer *p = e->peers; p && e->group->core == group; p = p->next)
            if (peer == FAULT_ANY || p->world_rank == peer)
                fault_close_way(e, p);
    pthread_mutex_unlock(&lock);
}

void fault_hold_ways(tutti_wrapper *wrapper, const void *group, int32_t peer, int64_t until_ns)
{
    pthread_mutex_lock(&lock);
    for (tutti_endpoint *e = wrapper->endpoints; e; e = e->next)
        for (struct tutti_peer *p = e->peers; p && e->group->core == group; p = p->next)
            if (p->rank == peer && p->hold_until_ns < until_ns)
                p->hold_until_ns = until_ns;
    pthread_mutex_unlock(&lock);
}

static tutti_status fault_wait_fd(tutti_endpoint *e, int32_t *ret_fd)
{
    return e->inner_ops->wait_fd(e->inner, ret_fd);
}

/* A delayed message needs no waking: nobody sleeps longer than some milliseconds. */
static int32_t fault_arm(tutti_endpoint *e)
{
    return e->done.first ? TUTTI_EVENTS_PENDING : e->inner_ops->arm(e->inner);
}

/* ---- peers ---- */

static tutti_status fault_address(tutti_endpoint *e, void *ret_address, uint64_t capacity,
                                  uint64_t *ret_bytes)
{
    return e->inner_ops->address(e->inner, ret_address, capacity, ret_bytes);
}

static tutti_status fault_connect(tutti_endpoint *e, const void *address, uint64_t bytes,
                                  uint64_t label, tutti_peer **ret_peer)
{
    const tutti_host *host = e->wrapper->host;
    struct tutti_peer *peer = host->allocate(e->wrapper->host_self, sizeof *peer);

    if (!peer)
        return host->error(e->wrapper->host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory for a peer");
    tutti_status status = e->inner_ops->connect(e->inner, address, bytes, label, &peer->inner);
    if (status) {
        host->release(e->wrapper->host_self, peer);
        return status;
    }
    peer->rank = (int32_t)label;
    peer->world_rank = label < (uint64_t)e->group->size ? e->group->world_ranks[label] : FAULT_ANY;
    pthread_mutex_lock(&lock);
    peer->next = e->peers;
    e->peers = peer;
    pthread_mutex_unlock(&lock);
    *ret_peer = peer;
    return TUTTI_OK;
}

static void fault_disconnect(tutti_endpoint *e, tutti_peer *peer)
{
    fault_close_way(e, peer);
    fault_forget_reports(e, peer);
    pthread_mutex_lock(&lock);
    for (struct tutti_peer **at = &e->peers; *at; at = &(*at)->next)
        if (*at == peer) {
            *at = peer->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    e->wrapper->host->release(e->wrapper->host_self, peer);
}

static void fault_traffic(tutti_endpoint *e, uint64_t ret_counters[5])
{
    e->inner_ops->traffic(e->inner, ret_counters);
}

static tutti_status fault_map_start(tutti_endpoint *e, tutti_host_mates *local,
                                    tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                                    uint64_t bytes, tutti_map **ret_map)
{
    const tutti_host *host = e->wrapper->host;
    tutti_peer **inner = host->allocate(e->wrapper->host_self, count * sizeof *inner);

    if (!inner)
        return host->error(e->wrapper->host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory to map");
    for (uint32_t i = 0; i < count; i++)
        inner[i] = peers[i] ? peers[i]->inner : NULL;
    tutti_status status =
        e->inner_ops->map_start(e->inner, local, inner, count, self_index, bytes, ret_map);
    host->release(e->wrapper->host_self, inner);
    return status;
}

static tutti_status fault_map_test(tutti_endpoint *e, tutti_map *map, void **ret_bases)
{
    return e->inner_ops->map_test(e->inner, map, ret_bases);
}

static void fault_map_close(tutti_endpoint *e, tutti_map *map)
{
    e->inner_ops->map_close(e->inner, map);
}

/* ---- opening and closing ---- */

static void fault_close_endpoint(tutti_endpoint *e)
{
    struct tutti_wrapper *w = e->wrapper;

    pthread_mutex_lock(&lock);
    for (tutti_endpoint **at = &w->endpoints; *at; at = &(*at)->next)
        if (*at == e) {
            *at = e->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    e->inner_ops->close(e->inner);
    for (uint64_t i = 0; i < e->posted_count; i++)
        w->host->release(w->host_self, e->posted[i].copy);
    w->host->release(w->host_self, e->posted);
    for (struct tutti_peer *peer = e->peers, *next; peer; peer = next) {
        next = peer->next;
        w->host->release(w->host_self, peer);
    }
    w->host->release(w->host_self, e);
}

/* Offers the functions that the inner transport has. */
static void offer(tutti_endpoint *e, const tutti_transport_ops *inner)
{
    e->ops = (tutti_transport_ops){
        .struct_size = sizeof e->ops,
        .threads = inner->threads,
        .capabilities = inner->capabilities & (TUTTI_CAP_MAP | TUTTI_CAP_HOST_ONLY),
        .max_message = inner->max_message,
        .lanes = inner->lanes,
        .open = inner->open,
        .address = fault_address,
        .connect = fault_connect,
        .isend = fault_isend,
        .irecv = fault_irecv,
        .test = fault_test,
        .close = fault_close_endpoint,
        .progress = fault_progress,
        .cancel = TUTTI_HAS(inner, cancel) ? fault_cancel : NULL,
        .wait_fd = TUTTI_HAS(inner, wait_fd) ? fault_wait_fd : NULL,
        .arm = TUTTI_HAS(inner, arm) ? fault_arm : NULL,
        .disconnect = TUTTI_HAS(inner, disconnect) ? fault_disconnect : NULL,
        .traffic = TUTTI_HAS(inner, traffic) ? fault_traffic : NULL,
        .piece_bytes = TUTTI_HAS(inner, piece_bytes) ? inner->piece_bytes : 0,
    };
    if (!(inner->capabilities & TUTTI_CAP_MAP))
        return;
    e->ops.map_start = fault_map_start;
    e->ops.map_test = fault_map_test;
    e->ops.map_close = fault_map_close;
}

tutti_status fault_transport(tutti_wrapper *wrapper, const tutti_wrapped_group *group,
                             const char *name, const tutti_transport_ops *inner,
                             tutti_endpoint *inner_endpoint, const tutti_transport_ops **ret_ops,
                             tutti_endpoint **ret_endpoint)
{
    tutti_endpoint *e = wrapper->host->allocate(wrapper->host_self, sizeof *e);

    (void)name;
    if (!e)
        return wrapper->host->error(wrapper->host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory");
    offer(e, inner);
    e->inner_ops = inner;
    e->inner = inner_endpoint;
    e->wrapper = wrapper;
    e->group = group;
    pthread_mutex_lock(&lock);
    e->next = wrapper->endpoints;
    wrapper->endpoints = e;
    pthread_mutex_unlock(&lock);
    *ret_ops = &e->ops;
    *ret_endpoint = e;
    return TUTTI_OK;
}
