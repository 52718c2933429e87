/* SPDX-License-Identifier: Apache-2.0 */
/* A peer that is killed: how its requests end, what the core is told, and what stays open afterwards. */
#include "check/check_core.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

enum { FIRST_BYTES = 64, ROOM = 1 << 20 };

/* A program that reads a peer's mapped memory does not know yet that the peer is dead. */
static void expect_readable(const struct core *core)
{
    const volatile uint8_t *base = core->memory.bases[1 - core->index];
    uint8_t sum = 0;

    check_doing("reading the mapped memory of a peer that was killed");
    for (uint64_t i = 0; i < core->memory.bytes; i++)
        sum |= base[i];
    if (sum)
        check_fails("the mapped memory of a peer that was killed is not what it was");
}

static void expect_ok(const struct core *core, tutti_status status, const char *what)
{
    if (status)
        check_fails("the %s of %d bytes before the peer is killed ends with %s", what, FIRST_BYTES,
                    core_says(core, status));
}

static _Noreturn void be_killed(struct core *core, uint8_t *data)
{
    struct transfer transfer;

    core_send(core, data, FIRST_BYTES, 0, &transfer);
    expect_ok(core, core_wait(core, &transfer), "send");
    core_receive(core, data, ROOM, &transfer);
    check_dies();
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* Expects that a request posted after the transport has reported the peer's end is refused, or
 * taken and ended. */
static void expect_lost(const struct core *core, const char *function, tutti_status posted,
                        const struct transfer *transfer)
{
    const tutti_status status = posted ? posted : transfer->request.status;

    if (status != TUTTI_ERR_PEER_LOST)
        check_fails("the peer is lost, and %s() %s %s; it must be TUTTI_ERR_PEER_LOST", function,
                    posted ? "says" : "ends with", core_says(core, status));
}

static void post_to_the_lost(struct core *core, uint8_t *data)
{
    struct transfer transfer;
    tutti_status status;

    check_doing("receiving from a peer that is lost");
    status = core_try_receive(core, data, ROOM, &transfer);
    if (!status)
        core_wait(core, &transfer);
    expect_lost(core, "irecv", status, &transfer);
    check_doing("sending to a peer that is lost");
    status = core_try_send(core, data, FIRST_BYTES, 0, &transfer);
    if (!status)
        core_wait(core, &transfer);
    expect_lost(core, "isend", status, &transfer);
}

/* False: the core has to notice it. */
static bool notices(struct core *core, uint8_t *data)
{
    struct transfer transfer;

    core_receive(core, data, FIRST_BYTES, &transfer);
    expect_ok(core, core_wait(core, &transfer), "receive");
    check_doing("waiting for a peer that was killed");
    core_receive(core, data, ROOM, &transfer);
    const tutti_status status = core_wait(core, &transfer);
    if (status == TUTTI_ERR_NOT_READY && core_maps(core)) {
        core_cancel(core, &transfer);
        expect_readable(core);
        return false;
    }
    if (status == TUTTI_ERR_NOT_READY)
        check_remarks("it does not notice within %d s that a peer was killed; the core does",
                      CORE_WAIT_MS / 1000);
    if (status != TUTTI_ERR_PEER_LOST)
        check_fails("the peer was killed, and a receive from it ends with %s; it must be "
                    "TUTTI_ERR_PEER_LOST",
                    core_says(core, status));
    return true;
}

/* An engine that a launcher starts keeps what is its own for the whole process. */
static void expect_given_back(const struct core *core, const struct check_member *member,
                              int descriptors)
{
    const int left = check_count_in("/proc/self/fd") - descriptors;

    if (member->subject->launcher)
        return;
    if (left > 0)
        check_fails("after a peer was lost and the endpoint closed, the process has %d descriptors "
                    "more; close gives back those of lost connections, too",
                    left);
    if (core->pieces > 0)
        check_fails("after a peer was lost and the endpoint closed, %lld pieces of memory that the "
                    "host has allocated are not released",
                    (long long)core->pieces);
}

void check_killed_peer(const struct check_member *member)
{
    static struct core core;
    uint8_t *data = core_buffer(ROOM);

    check_transport(member->subject); /* loaded from here on */
    const int descriptors = check_count_in("/proc/self/fd");
    core_start(&core, member);
    if (member->index == 1)
        be_killed(&core, data);
    if (notices(&core, data)) {
        post_to_the_lost(&core, data);
        if (core.times_lost != 1)
            check_fails("the peer was killed, and peer_lost() was called %d times; once is right",
                        core.times_lost);
    }
    core_close(&core);
    expect_given_back(&core, member, descriptors);
}
