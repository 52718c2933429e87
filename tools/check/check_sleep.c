/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that two processes map, and sleeping until something comes.
 *
 * A waiting thread says that it sleeps, asks arm(), and sleeps when that answers TUTTI_ARMED: on
 * the transport's descriptor, on a doorbell that wake_mate() rings, or on both. A transport that
 * forgets to wake still delivers everything to a polling thread, so sleep needs a check of its own.
 */
#include "check/check_core.h"

#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ---- mapped memory --------------------------------------------------------------------------- */

enum { ALIGNED = 4096 };

static void expect_bases(const struct core_memory *memory)
{
    static const uint8_t zero[ALIGNED];

    for (int i = 0; i < CORE_MEMBERS; i++) {
        const uint8_t *base = memory->bases[i];

        if (!base || (uintptr_t)base % ALIGNED)
            check_fails("map_test gives %p as the memory of local peer %d; it must be %d-aligned",
                        (const void *)base, i, ALIGNED);
        check_doing("reading %llu mapped bytes of local peer %d", (unsigned long long)memory->bytes,
                    i);
        for (uint64_t at = 0; at < memory->bytes; at += ALIGNED)
            if (memcmp(base + at, zero, MIN(memory->bytes - at, ALIGNED)) != 0)
                check_fails(
                    "the mapped memory of local peer %d is not zero at first, between bytes %llu "
                    "and %llu",
                    i, (unsigned long long)at,
                    (unsigned long long)MIN(memory->bytes, at + ALIGNED));
    }
}

/* Checks the half, first or second, that `writer` has written into the memory of `local_peer`. */
static void expect_written(const struct core_memory *memory, int self, int local_peer, int writer)
{
    const uint64_t half = memory->bytes / 2;
    const uint8_t *from = memory->bases[local_peer] + (writer == local_peer ? 0 : half);
    const uint64_t place = core_differs(from, 0, half, (uint64_t)writer + 1);

    if (place < half)
        check_fails("what process %d has written into the mapped memory of process %d at byte %llu "
                    "is not what process %d reads there",
                    writer, local_peer,
                    (unsigned long long)place + (writer == local_peer ? 0 : half), self);
}

/* Each writes the first half of its own memory and the second of the other's. */
static void write_and_read(const struct check_member *member, const struct core_memory *memory)
{
    const int self = member->index, other = 1 - self;
    const uint64_t half = memory->bytes / 2;

    expect_bases(memory);
    check_meet();
    check_doing("writing mapped memory");
    core_fill(memory->bases[self], half, (uint64_t)self + 1);
    core_fill(memory->bases[other] + half, half, (uint64_t)self + 1);
    check_meet();
    check_doing("reading mapped memory");
    for (int local_peer = 0; local_peer < CORE_MEMBERS; local_peer++)
        for (int writer = 0; writer < CORE_MEMBERS; writer++)
            expect_written(memory, self, local_peer, writer);
    check_meet();
}

void check_map(const struct check_member *member)
{
    struct core core = {0};
    struct core_memory second;
    const int descriptors = check_count_in("/proc/self/fd");

    core_start(&core, member);
    if (!core_maps(&core))
        check_skips("it maps no memory (TUTTI_CAP_MAP)");
    core_map(&core, (1 << 20) + 1000, &second); /* as a second group of the same members does */
    write_and_read(member, &second);
    write_and_read(member, &core.memory);
    check_doing("unmapping memory");
    core.ops->map_close(core.endpoint, second.map);
    check_meet();
    for (int writer = 0; writer < CORE_MEMBERS; writer++)
        expect_written(&core.memory, member->index, 1 - member->index, writer);
    check_meet();
    core_close(&core);
    const int left = check_count_in("/proc/self/fd") - descriptors;
    if (left)
        check_fails("after mapping and closing the process has %d descriptors more; those that "
                    "share_test() gives are the transport's",
                    left);
}

/* ---- sleeping -------------------------------------------------------------------------------- */

enum { ROUNDS = 8, SMALL = 64, LARGE = 1 << 20, LATE_US = 20000, LOOK_MS = 50, ASKED_LEAST = 100 };

static const char *what_wakes(const struct core *core)
{
    return TUTTI_HAS(core->ops, wait_fd)
               ? "the descriptor of wait_fd() must be readable then"
               : "a process that writes mapped memory calls wake_mate() afterwards";
}

static int arm_asked, arm_allowed; /* how often arm() was called, and said TUTTI_ARMED */

/* One sleep, as arm() allows it. False: nothing has woken it. */
static bool sleep_once(struct core *core)
{
    int32_t descriptor = -1;
    struct pollfd ways[2] = {{.fd = check_sleeps(), .events = POLLIN}, {.events = POLLIN}};
    struct check_time time = check_time_of(CORE_WAIT_MS);
    bool woken = true;

    check_enters("arm");
    const int32_t armed = core->ops->arm(core->endpoint);
    check_leaves();
    arm_asked++;
    arm_allowed += armed == TUTTI_ARMED;
    if (armed == TUTTI_ARMED) {
        if (TUTTI_HAS(core->ops, wait_fd) && core->ops->wait_fd(core->endpoint, &descriptor))
            check_fails("wait_fd fails: %s", core->words);
        ways[1].fd = descriptor;
        do {
            woken = poll(ways, 2, LOOK_MS) > 0;
        } while (!woken && check_time_is_left(&time));
    }
    check_awake();
    return woken;
}

static void sleep_until_over(struct core *core, struct transfer *transfer, const char *what)
{
    struct check_time time = check_time_of(2 * CORE_WAIT_MS);
    bool woken = true;

    for (;;) {
        core_turn(core, &transfer, 1);
        if (core_is_over(core, transfer))
            break;
        if (!woken && core_wait(core, transfer) != TUTTI_ERR_NOT_READY)
            break; /* it could have gone on */
        if (!woken || !check_time_is_left(&time))
            check_fails("%s does not end within %d s", what, CORE_WAIT_MS / 1000);
        woken = sleep_once(core);
    }
    if (!woken)
        check_fails("%s could go on, and this process, which slept as arm() had allowed, was not "
                    "woken: %s",
                    what, what_wakes(core));
    if (transfer->request.status)
        check_fails("%s ends with %s (%s)", what, tutti_status_name(transfer->request.status),
                    core->words);
}

/* One message; the side that comes first sleeps until the other has come. */
static void pass_one(struct core *core, bool sends, bool late, uint64_t bytes)
{
    uint8_t *data = core_buffer(bytes);
    struct transfer transfer;

    check_meet();
    if (late)
        g_usleep(LATE_US);
    check_doing("sleeping until %llu bytes %s", (unsigned long long)bytes,
                sends ? "are sent" : "come");
    if (sends)
        core_send(core, data, bytes, 0, &transfer);
    else
        core_receive(core, data, bytes, &transfer);
    if (!core_is_over(core, &transfer))
        sleep_until_over(core, &transfer, sends ? "a send" : "a receive");
    core_buffer_free(data);
}

void check_wakes(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    if (!TUTTI_HAS(core.ops, arm))
        check_skips("it has no arm(): the core polls it");
    for (int round = 0; round < ROUNDS; round++) {
        const bool sends = round % 2 == member->index, sender_late = round / 2 % 2 == 0;

        pass_one(&core, sends, sends == sender_late, sender_late ? SMALL : LARGE);
    }
    check_meet();
    core_close(&core);
    if (!arm_allowed && arm_asked >= ASKED_LEAST)
        check_remarks("arm() never returned TUTTI_ARMED, so the core cannot sleep: %d times it "
                      "returned TUTTI_EVENTS_PENDING",
                      arm_asked);
}
