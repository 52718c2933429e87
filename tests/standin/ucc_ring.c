/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames from one process to another through a ring of bytes in the receiver's memory.
 *
 * The memory has no name: another process opens it in /proc by the number of the process and of the
 * descriptor, so that nothing is left when all are killed. A ring has one writer and one reader; each only
 * ever raises its own count. Nothing here notices that the other side has died.
 */
#include "ucc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

bool rings_make(size_t members, struct ring **ret_rings, struct address *ret_address)
{
    const size_t bytes = members * sizeof(struct ring);
    const int fd = memfd_create("ucc-stand-in", MFD_CLOEXEC);

    if (fd < 0 || ftruncate(fd, (off_t)bytes) != 0) {
        if (fd >= 0)
            close(fd);
        return false;
    }
    void *rings = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (rings == MAP_FAILED) {
        close(fd);
        return false;
    }
    *ret_rings = rings;
    *ret_address = (struct address){.pid = getpid(), .fd = fd, .bytes = bytes};
    return true;
}

bool rings_map(const struct address *address, struct ring **ret_rings)
{
    char path[64];

    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)address->pid, address->fd);
    const int fd = open(path, O_RDWR | O_CLOEXEC);
    const bool died = fd < 0 && (errno == ENOENT || errno == ESRCH);

    if (fd < 0 && !died)
        return false;
    void *rings = mmap(NULL, address->bytes, PROT_READ | PROT_WRITE,
                       died ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    if (rings == MAP_FAILED)
        return false;
    *ret_rings = rings;
    return true;
}

void rings_unmap(struct ring *rings, size_t members)
{
    munmap(rings, members * sizeof *rings);
}

/* ---- bytes, which may go around the end ----------------------------------------------------- */

static void put(struct ring *ring, uint64_t at, const void *data, size_t bytes)
{
    const size_t start = at % RING_BYTES;
    const size_t first = bytes < RING_BYTES - start ? bytes : RING_BYTES - start;

    memcpy(ring->data + start, data, first);
    memcpy(ring->data, (const uint8_t *)data + first, bytes - first);
}

static void get(const struct ring *ring, uint64_t at, void *to, size_t bytes)
{
    const size_t start = at % RING_BYTES;
    const size_t first = bytes < RING_BYTES - start ? bytes : RING_BYTES - start;

    if (!bytes)
        return; /* `to` may be NULL */
    memcpy(to, ring->data + start, first);
    memcpy((uint8_t *)to + first, ring->data, bytes - first);
}

/* ---- frames --------------------------------------------------------------------------------- */

size_t ring_write(struct ring *ring, struct frame frame, const void *data, size_t bytes)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_acquire);
    const uint64_t room = RING_BYTES - (written - read);

    if (bytes > FRAME_BYTES)
        bytes = FRAME_BYTES;
    if (room < sizeof frame + bytes)
        return 0;
    frame.bytes = (uint16_t)bytes;
    put(ring, written, &frame, sizeof frame);
    put(ring, written + sizeof frame, data, bytes);
    atomic_store_explicit(&ring->written, written + sizeof frame + bytes, memory_order_release);
    return bytes;
}

bool ring_peek(struct ring *ring, struct frame *ret_frame)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);

    if (atomic_load_explicit(&ring->written, memory_order_acquire) == read)
        return false;
    get(ring, read, ret_frame, sizeof *ret_frame);
    return true;
}

void ring_take(struct ring *ring, const struct frame *frame, void *to, size_t room)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);

    get(ring, read + sizeof *frame, to, room < frame->bytes ? room : frame->bytes);
    atomic_store_explicit(&ring->read, read + sizeof *frame + frame->bytes, memory_order_release);
}
