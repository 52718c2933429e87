/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shm with one fault in what it does with mapped memory, which `tutti check` has to name:
 * FAULT_DEAF (wakes nobody), FAULT_PRIVATE (a local peer's memory is a copy), FAULT_SWAPS (one local peer has the
 * bases in another order), FAULT_KEEPS (a descriptor), FAULT_SHOWS_TWICE or FAULT_TAKES_ONE (of a pair). Its files are untouched: what it
 * offers for that is wrapped here.
 */
#include "shm.h"

#include <unistd.h>

#ifdef FAULT_DEAF
static void wake_nobody(void *self, tutti_host_mates *local, uint32_t index)
{
    (void)self;
    (void)local;
    (void)index;
}
#endif

static tutti_status faulty_map_start(tutti_endpoint *endpoint, tutti_host_mates *local,
                                     tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                                     uint64_t bytes, tutti_map **ret_map)
{
    static tutti_host host;

    host = *endpoint->host;
#ifdef FAULT_DEAF
    host.wake_mate = wake_nobody;
#endif
    endpoint->host = &host;
    return shm_map_start(endpoint, local, peers, count, self_index, bytes, ret_map);
}

static tutti_status faulty_map_test(tutti_endpoint *endpoint, tutti_map *map, void **ret_bases)
{
    tutti_status status = shm_map_test(endpoint, map, ret_bases);

    if (status)
        return status;
#ifdef FAULT_PRIVATE
    static _Alignas(SHM_PAGE) uint8_t alone[2 << 20];

    ret_bases[!map->self_index] = alone;
#endif
#ifdef FAULT_SWAPS
    void *first = ret_bases[0];

    if (map->self_index) {
        ret_bases[0] = ret_bases[1];
        ret_bases[1] = first;
    }
#endif
#ifdef FAULT_KEEPS
    if (dup(STDIN_FILENO) < 0)
        return TUTTI_ERR_SYSTEM;
#endif
    return TUTTI_OK;
}

#ifdef FAULT_SHOWS_TWICE
static void take_every_second(tutti_peer *peer)
{
    static int count;

    if (count++ % 2)
        shm_stream_take(peer);
}
#define shm_stream_take take_every_second
#endif

#ifdef FAULT_TAKES_ONE
static bool take_the_first(tutti_peer *peer, void *to, uint64_t bytes)
{
    const bool took = shm_stream_take_pair(peer, to, bytes);

    if (!took)
        shm_stream_take(peer);
    return took;
}
#define shm_stream_take_pair take_the_first
#endif

#define shm_map_start faulty_map_start
#define shm_map_test faulty_map_test
#include "shm.c"
