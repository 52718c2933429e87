/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mapping the memory of all local peers.
 *
 * Each member makes one memfd of the same size, sealed so that nobody can shrink it under the
 * others (which would be SIGBUS for them), and the core passes it to the local peers. Nothing has a name:
 * when the last process that maps it is gone, so is the memory. A received descriptor is mapped
 * only if its size and seals are what this member would have made.
 *
 * A segment: the core's bytes, rounded up to a page | one struct shm_control per local peer | room for one
 * ring per local peer | slots per local peer. Ring p of a segment carries what local peer p sends to the segment's
 * owner, who says how much of the room it has; slots p are the owner's of that pair, at first. Pages that nobody touches
 * cost nothing, so the layout is the same whether they are used or not.
 */
#include "shm.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

static uint64_t controls_at(const tutti_map *map)
{
    return shm_round(map->core_bytes, SHM_PAGE);
}

static uint64_t rings_at(const tutti_map *map)
{
    return controls_at(map) + shm_round(map->count * sizeof(struct shm_control), SHM_PAGE);
}

static uint64_t slots_at(const tutti_map *map)
{
    return rings_at(map) + map->count * map->ring_room;
}

static uint64_t slots_bytes(const tutti_map *map)
{
    return (uint64_t)shm_slots_each(map->ring_room) * SHM_SLOT_BYTES;
}

/* Two buffers whose addresses differ by a multiple of 256 MiB make a loop over both many times
 * slower on Zen. An odd number of pages between mappings, another for each, keeps the members'
 * bases away from that; nothing is mapped there, so it also stops an overrun. */
static uint64_t gap_before(uint32_t member)
{
    return (uint64_t)(2 * member + 1) * SHM_PAGE;
}

static void map_free(tutti_map *map)
{
    tutti_endpoint *endpoint = map->endpoint;

    for (tutti_map **at = &endpoint->maps; *at; at = &(*at)->next) {
        if (*at != map)
            continue;
        *at = map->next;
        break;
    }
    if (map->region)
        munmap(map->region, map->region_bytes);
    if (map->own_fd >= 0)
        close(map->own_fd);
    shm_release(endpoint, map->descriptors);
    shm_release(endpoint, map->bases);
    shm_release(endpoint, map->ring_bytes);
    shm_release(endpoint, map->peers);
    shm_release(endpoint, map);
}

static void drop_user(tutti_map *map)
{
    if (--map->users == 0)
        map_free(map);
}

void shm_map_leave(tutti_peer *peer)
{
    for (tutti_map *map = peer->endpoint->maps; map; map = map->next)
        for (uint32_t i = 0; i < map->count; i++)
            if (map->peers[i] == peer)
                map->peers[i] = NULL;
    if (peer->map)
        drop_user(peer->map);
}

/* The memory stays mapped as long as messages pass through it: another group's members may talk
 * through the rings that this group brought. */
void shm_map_close(tutti_endpoint *endpoint, tutti_map *map)
{
    (void)endpoint;
    drop_user(map);
}

void shm_map_close_all(tutti_endpoint *endpoint)
{
    while (endpoint->maps)
        map_free(endpoint->maps);
}

/* ---- starting ------------------------------------------------------------------------------ */

static tutti_map *map_new(tutti_endpoint *endpoint, tutti_peer *const *peers, uint32_t count)
{
    tutti_map *map = shm_allocate(endpoint, sizeof *map);

    if (!map)
        return NULL;
    *map = (tutti_map){.endpoint = endpoint, .count = count, .own_fd = -1, .users = 1};
    map->peers = shm_allocate(endpoint, count * sizeof *map->peers);
    map->bases = shm_allocate(endpoint, count * sizeof *map->bases);
    map->ring_bytes = shm_allocate(endpoint, count * sizeof *map->ring_bytes);
    map->descriptors = shm_allocate(endpoint, count * sizeof *map->descriptors);
    if (!map->peers || !map->bases || !map->ring_bytes || !map->descriptors) {
        map_free(map);
        return NULL;
    }
    memcpy(map->peers, peers, count * sizeof *map->peers);
    map->next = endpoint->maps;
    endpoint->maps = map;
    return map;
}

/* Where the segment of `owner` says how long its inbound rings are. */
static uint64_t ring_bytes_at(const tutti_map *map, uint32_t owner)
{
    return controls_at(map) + owner * sizeof(struct shm_control) +
           offsetof(struct shm_control, ring_bytes);
}

static tutti_status make_segment(tutti_map *map)
{
    tutti_endpoint *endpoint = map->endpoint;
    const uint64_t ring_bytes = map->ring_bytes[map->self_index];
    char name[32];

    snprintf(name, sizeof name, "tutti-shm-%d", endpoint->rank);
    map->own_fd = memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (map->own_fd < 0)
        return shm_error(endpoint, TUTTI_ERR_SYSTEM, errno,
                         "cannot make a shared memory segment (memfd_create)");
    if (ftruncate(map->own_fd, (off_t)map->segment_bytes) != 0)
        return shm_error(endpoint, TUTTI_ERR_SYSTEM, errno,
                         "cannot make a shared memory segment of %llu bytes",
                         (unsigned long long)map->segment_bytes);
    if (pwrite(map->own_fd, &ring_bytes, sizeof ring_bytes,
               (off_t)ring_bytes_at(map, map->self_index)) != (ssize_t)sizeof ring_bytes)
        return shm_error(endpoint, TUTTI_ERR_SYSTEM, errno,
                         "cannot write to a shared memory segment");
    if (fcntl(map->own_fd, F_ADD_SEALS, SEALS) != 0)
        return shm_error(endpoint, TUTTI_ERR_SYSTEM, errno, "cannot seal a shared memory segment");
    return TUTTI_OK;
}

tutti_status shm_map_start(tutti_endpoint *endpoint, tutti_host_mates *local,
                           tutti_peer *const *peers, uint32_t count, uint32_t self_index,
                           uint64_t bytes, tutti_map **ret_map)
{
    if (count == 0 || count > SHM_LOCAL_MAX || self_index >= count || bytes > (UINT64_C(1) << 42))
        return shm_error(endpoint, TUTTI_ERR_INVALID_ARGUMENT, 0,
                         "cannot map %llu bytes of each of %u local peers (this is local peer %u)",
                         (unsigned long long)bytes, count, self_index);
    tutti_map *map = map_new(endpoint, peers, count);
    if (!map)
        return shm_error(endpoint, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    map->local = local;
    map->self_index = self_index;
    map->core_bytes = bytes;
    map->ring_room = shm_ring_room(count - 1);
    map->ring_bytes[self_index] = shm_ring_bytes(map->ring_room);
    map->segment_bytes = count > 1 ? slots_at(map) + count * slots_bytes(map) : rings_at(map);

    tutti_status status = make_segment(map);
    if (status == TUTTI_OK) {
        int32_t fd = map->own_fd;

        status = endpoint->host->share_start(endpoint->host_self, local, &fd, 1, &map->exchange);
    }
    if (status != TUTTI_OK) {
        map_free(map);
        return status;
    }
    *ret_map = map;
    return TUTTI_OK;
}

/* ---- receiving the local peers' segments --------------------------------------------------------- */

static tutti_status check_segment(tutti_map *map, uint32_t local_peer, int fd)
{
    struct stat st;
    int seals = fcntl(fd, F_GET_SEALS);

    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || seals < 0)
        return shm_error(map->endpoint, TUTTI_ERR_DENIED, 0,
                         "local peer %u passed something that is not a sealed memory file",
                         local_peer);
    if (st.st_size < 0 || (uint64_t)st.st_size != map->segment_bytes)
        return shm_error(map->endpoint, TUTTI_ERR_MISMATCH, 0,
                         "local peer %u passed a segment of %lld bytes where this member has "
                         "%llu: do all run the same version?",
                         local_peer, (long long)st.st_size, (unsigned long long)map->segment_bytes);
    if ((seals & SEALS) != SEALS)
        return shm_error(map->endpoint, TUTTI_ERR_DENIED, 0,
                         "local peer %u passed a segment that it could still resize", local_peer);
    return TUTTI_OK;
}

static struct shm_control *control_of(const tutti_map *map, uint32_t owner, uint32_t producer)
{
    return (struct shm_control *)(void *)(map->bases[owner] + controls_at(map)) + producer;
}

/* How long the rings in a mapped segment are, as its owner has written; this member knows its own. */
static tutti_status check_rings(tutti_map *map, uint32_t owner)
{
    const struct shm_control *own = control_of(map, owner, owner);
    const uint64_t bytes = owner == map->self_index
                               ? map->ring_bytes[owner]
                               : atomic_load_explicit(&own->ring_bytes, memory_order_relaxed);

    if (bytes < SHM_RING_MIN || bytes > map->ring_room || bytes & (bytes - 1))
        return shm_error(map->endpoint, TUTTI_ERR_MISMATCH, 0,
                         "local peer %u passed a segment with rings of %llu bytes: do all run the "
                         "same version?",
                         owner, (unsigned long long)bytes);
    map->ring_bytes[owner] = bytes;
    return TUTTI_OK;
}

static tutti_status map_segments(tutti_map *map)
{
    uint64_t region_bytes = 0;

    for (uint32_t i = 0; i < map->count; i++)
        region_bytes += gap_before(i) + map->segment_bytes;
    void *region =
        mmap(NULL, region_bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return shm_error(map->endpoint, TUTTI_ERR_NO_MEMORY, errno,
                         "no address space for %u segments of %llu bytes", map->count,
                         (unsigned long long)map->segment_bytes);
    map->region = region;
    map->region_bytes = region_bytes;

    uint8_t *at = map->region;
    for (uint32_t i = 0; i < map->count; i++) {
        tutti_status status = check_segment(map, i, map->descriptors[i]);

        if (status != TUTTI_OK)
            return status;
        at += gap_before(i);
        if (mmap(at, map->segment_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                 map->descriptors[i], 0) == MAP_FAILED)
            return shm_error(map->endpoint, TUTTI_ERR_SYSTEM, errno,
                             "cannot map the segment of local peer %u", i);
        map->bases[i] = at;
        at += map->segment_bytes;
        status = check_rings(map, i);
        if (status != TUTTI_OK)
            return status;
    }
    return TUTTI_OK;
}

static uint8_t *ring_of(const tutti_map *map, uint32_t owner, uint32_t producer)
{
    return map->bases[owner] + rings_at(map) + producer * map->ring_room;
}

static uint8_t *slots_of(const tutti_map *map, uint32_t owner, uint32_t peer)
{
    return map->bases[owner] + slots_at(map) + peer * slots_bytes(map);
}

/* Those of this member and that one. */
static void begin_slots(const tutti_map *map, uint32_t peer, struct shm_slots *ret_slots)
{
    const uint32_t self = map->self_index;
    const bool lower = self < peer;
    uint8_t *own = slots_of(map, self, peer), *other = slots_of(map, peer, self);

    shm_slots_begin(ret_slots, lower ? own : other, lower ? other : own,
                    shm_slots_each(map->ring_room), lower);
}

/* Whether the members outnumber the CPUs. One that is bound to a CPU does not know those of the others, which are
 * taken to have their own. */
static bool is_crowded(const tutti_map *map)
{
    cpu_set_t cpus;
    long count = sysconf(_SC_NPROCESSORS_ONLN);

    if (!sched_getaffinity(0, sizeof cpus, &cpus) && CPU_COUNT(&cpus) > 1)
        count = CPU_COUNT(&cpus);
    return count > 0 && map->count > (uint64_t)count;
}

/* Gives each local peer that has no rings yet the ones of this map, and slots. Local peers map in the same order, so both
 * sides choose the same. */
static void bind_peers(tutti_map *map)
{
    const uint32_t self = map->self_index;
    const uint64_t in_bytes = map->ring_bytes[self];
    const uint16_t wins_by = is_crowded(map) ? (uint16_t)TUTTI_COPY_WINS_BY : 0;

    for (uint32_t i = 0; i < map->count; i++) {
        tutti_peer *peer = map->peers[i];
        const uint64_t out_bytes = map->ring_bytes[i];

        if (!peer || i == self || peer->map)
            continue;
        peer->map = map;
        peer->index = i;
        map->users++;
        peer->out = (struct shm_outlet){.control = control_of(map, i, self),
                                        .bytes = ring_of(map, i, self),
                                        .size = out_bytes,
                                        .whole_max = shm_whole_max(out_bytes),
                                        .clear = SHM_PAGE,
                                        .copy = {.window_bytes = out_bytes, .wins_by = wins_by}};
        peer->in = (struct shm_inlet){.control = control_of(map, self, i),
                                      .bytes = ring_of(map, self, i),
                                      .size = in_bytes,
                                      .whole_max = shm_whole_max(in_bytes)};
        begin_slots(map, i, &peer->slots);
    }
}

static tutti_status receive_segments(tutti_map *map)
{
    tutti_endpoint *endpoint = map->endpoint;
    tutti_status status =
        endpoint->host->share_test(endpoint->host_self, map->exchange, map->descriptors);

    if (status == TUTTI_ERR_NOT_READY)
        return status;
    map->exchange = NULL;
    close(map->own_fd);
    map->own_fd = -1;
    if (status != TUTTI_OK)
        return status;
    status = map_segments(map);
    for (uint32_t i = 0; i < map->count; i++)
        close(map->descriptors[i]);
    if (status == TUTTI_OK)
        bind_peers(map);
    return status;
}

tutti_status shm_map_test(tutti_endpoint *endpoint, tutti_map *map, void **ret_bases)
{
    (void)endpoint;
    if (map->exchange)
        map->status = receive_segments(map);
    if (map->status == TUTTI_OK)
        memcpy(ret_bases, map->bases, map->count * sizeof *map->bases);
    return map->status;
}
