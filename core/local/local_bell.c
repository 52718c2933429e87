/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How local peers wake each other. Each has a doorbell, an eventfd of its own in the epoll that it sleeps
 * in: one system call wakes one. Where many wait for the same thing, the calls alone take longer
 * than the waking; so a larger group has one bell more, which every member watches by edge and
 * nobody reads. A member that it rings for nothing looks once and sleeps again.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "local/local.h"

enum {
    BELL_PEERS = 4, /* a smaller group saves too little to pay for a descriptor */
    BELL_SLEEPERS = 3
};

tutti_status local_bell_new(struct local_peers *local)
{
    if (local->count < BELL_PEERS)
        return TUTTI_OK;
    local->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return local->bell >= 0 ? TUTTI_OK
                            : error_set_errno(TUTTI_ERR_SYSTEM, errno,
                                              "cannot make the wake-up descriptor of this host");
}

static void ring(int bell)
{
    uint64_t one = 1;
    ssize_t ignored = write(bell, &one, sizeof one);

    (void)ignored; /* a counter that is full rings already */
}

void local_ring(const struct local_peers *local, int index)
{
    ring(local->peers[index].doorbell);
}

void local_ring_all(const struct local_peers *local)
{
    for (int i = 0; i < local->count; i++)
        if (i != local->self)
            local_ring(local, i);
}

void local_ring_sleepers(struct local_peers *local, bool (*spare)(const void *user, int index),
                         const void *user)
{
    int taken = 0, last = -1;
    bool at_once = false;

    if (local->bell >= 0) {
        int asleep = 0;

        for (int i = 0; i < local->count; i++)
            asleep += i != local->self && local_sleeps(local, i) && !(spare && spare(user, i));
        at_once = asleep >= BELL_SLEEPERS;
    }
    for (int i = 0; i < local->count; i++) {
        if (i == local->self || !local_sleeps(local, i) || (spare && spare(user, i)))
            continue;
        if (!at_once)
            local_ring_once(local, i);
        else if (atomic_exchange(&local->page->lines[i].sleeping, 0))
            taken++, last = i;
    }
    if (taken == 1)
        local_ring(local, last);
    else if (taken)
        ring(local->bell);
}
