/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Deaths in an agreement that no connection tells of yet.
 *
 * While members wait for the decision they know nothing but the store. Those next to the leader in
 * the tree then hold a bare connection to its listener: when it ends, so has the leader, and they
 * publish that in place of the decision. It has to have been there first, because an address that
 * refuses may be of an earlier attempt.
 *
 * Afterwards everybody dials its parent. The leader dials members whose report is late: the host of
 * one that died between offer and dial refuses, and the member is lost. In the last second before
 * its deadline, or the last quarter of a short one, the leader asks them for an answer, and asks again
 * those that have not given one. A member that waits for others answers; a stopped one does not and is
 * named. One that is stopped after its answer is only among those that are missing.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "agreement/agree.h"
#include "base/clock.h"
#include "base/error.h"
#include "control/inside.h"

enum { LAUNCHER_MS = 300 }; /* for it to see an end of which a connection has told */

static void connect_to_leader(struct agreement *a)
{
    char key[AGREE_KEY_MAX];
    tutti_store_value value;
    struct offer offer;

    agree_key(a, key, "offer/%d", 0);
    if (!agree_has(a, key) || agree_get(a, key, &value))
        return;
    const bool good = !agree_unseal(a, key, &value) && offer_decode(value.data, value.size, &offer);
    tutti_store_value_free(&value);
    if (!good)
        return;
    a->leader_fd = socket(offer.address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (a->leader_fd >= 0 &&
        connect(a->leader_fd, (struct sockaddr *)&offer.address, address_bytes(&offer.address)) &&
        errno != EINPROGRESS)
        agree_probe_end(a);
}

/* Whether a connection that has ended had come about. Such a one ends in order or by a reset, also
 * before this member looked; one that never came about is refused or finds no way. */
static bool has_been_connected(int fd)
{
    int error = 0;
    socklen_t size = sizeof error;

    return !getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size) && (!error || error == ECONNRESET);
}

/* Whether the connection to the leader has ended after it had come about. */
static bool has_ended(struct agreement *a)
{
    struct pollfd fd = {.fd = a->leader_fd, .events = POLLIN | POLLOUT};

    if (a->leader_fd < 0) {
        connect_to_leader(a);
        return false;
    }
    if (poll(&fd, 1, 0) <= 0)
        return false;
    if (!(fd.revents & (POLLIN | POLLHUP | POLLERR))) {
        a->leader_seen = true;
        return false;
    }
    const bool was_there = a->leader_seen || has_been_connected(a->leader_fd);
    agree_probe_end(a);
    return was_there;
}

tutti_status agree_probe_leader(struct agreement *a, bool near_leader)
{
    const bool ended = near_leader && has_ended(a);
    char key[AGREE_KEY_MAX];
    int culprit = 0;
    tutti_status status = agree_ended_soon(a, ended ? LAUNCHER_MS : 0, &culprit);

    if (!status && !ended)
        return TUTTI_OK;
    if (!status)
        status =
            error_set(TUTTI_ERR_PEER_LOST,
                      "group %s: rank 0 was lost: it ended before it had decided", a->group->name);
    status = agree_give_up(a, status, culprit);
    if (status)
        return status;
    agree_key(a, key, "decision/%u", a->round);
    return agree_put_abort(a, key, &a->outcome);
}

void agree_probe_end(struct agreement *a)
{
    if (a->leader_fd >= 0)
        close(a->leader_fd);
    a->leader_fd = -1;
}

tutti_status agree_probe_late(struct agreement *a)
{
    struct control *control = a->group->control;
    const int64_t now = clock_now_ns();

    if (!a->lead)
        return TUTTI_OK;
    if (now >= a->ask_ns && !a->asked_ns) {
        a->asked_ns = now;
        a->probe_ns = now;
    }
    if (now < a->probe_ns)
        return TUTTI_OK;
    a->probe_ns = clock_deadline_ms(AGREE_LATE_MS);
    const tutti_status status = agree_look_at_undecided(a);
    if (!agree_goes_on(a, status))
        return status;
    pthread_mutex_lock(&control->lock);
    for (int r = 1; r < a->group->size; r++) {
        if (!lead_awaits(a, r))
            continue;
        (void)control_dial(control, r);
        /* Again, as another part of the round awaits others, and a connection may be a new one. */
        if (a->asked_ns && !liveness_has_answered(control, r))
            liveness_query(control, r);
    }
    pthread_mutex_unlock(&control->lock);
    return TUTTI_OK;
}
