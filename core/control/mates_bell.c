/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How mates wake each other. Each has a doorbell, an eventfd of its own in the epoll that it sleeps
 * in: one system call wakes one. Where many wait for the same thing, the calls alone take longer
 * than the waking; so a larger group has one bell more, which every member watches by edge and
 * nobody reads. Who is rung by it for nothing looks once and lies down again.
 */
#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/error.h"
#include "control/mates.h"

enum {
    BELL_MATES = 4, /* a smaller group saves too little to pay for a descriptor */
    BELL_SLEEPERS = 3
};

tutti_status mates_bell_new(struct mates *mates)
{
    if (mates->count < BELL_MATES)
        return TUTTI_OK;
    mates->bell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    return mates->bell >= 0
               ? TUTTI_OK
               : error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the bell of this host");
}

static void ring(int bell)
{
    uint64_t one = 1;
    ssize_t ignored = write(bell, &one, sizeof one);

    (void)ignored; /* a counter that is full rings already */
}

void mates_ring(const struct mates *mates, int index)
{
    ring(mates->peers[index].doorbell);
}

void mates_ring_all(const struct mates *mates)
{
    for (int i = 0; i < mates->count; i++)
        if (i != mates->self)
            mates_ring(mates, i);
}

void mates_ring_sleepers(struct mates *mates, bool (*spare)(const void *user, int index),
                         const void *user)
{
    int taken = 0, last = -1;
    bool at_once = false;

    if (mates->bell >= 0) {
        int asleep = 0;

        for (int i = 0; i < mates->count; i++)
            asleep += i != mates->self && mates_sleeps(mates, i) && !(spare && spare(user, i));
        at_once = asleep >= BELL_SLEEPERS;
    }
    for (int i = 0; i < mates->count; i++) {
        if (i == mates->self || !mates_sleeps(mates, i) || (spare && spare(user, i)))
            continue;
        if (!at_once)
            mates_ring_once(mates, i);
        else if (atomic_exchange(&mates->page->lines[i].sleeping, 0))
            taken++, last = i;
    }
    if (taken == 1)
        mates_ring(mates, last);
    else if (taken)
        ring(mates->bell);
}
