/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport says of itself, and what the core relies on: that its functions return at once, that
 * endpoints know nothing of each other, that lanes are apart, that it reaches other hosts when it does
 * not deny it.
 */
#include "check/check_core.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* ---- opening --------------------------------------------------------------------------------- */

enum { OPENINGS = 6, OPENING_US = 100 * 1000 };

/* The first that runs a transport: when this fails, nothing else is worth trying. A function that blocks is
 * noticed by the parent. */
void check_opens(const struct check_member *member)
{
    struct core core = {0};
    const tutti_transport_ops *ops = check_transport(member->subject);

    gint64 least_us = G_MAXINT64;

    for (int i = 0; i < 2 || (i < OPENINGS && least_us > OPENING_US); i++) {
        const gint64 start = g_get_monotonic_time();

        core_open_alone(&core, ops);
        core_close(&core);
        least_us = MIN(least_us, g_get_monotonic_time() - start);
    }
    if (least_us > OPENING_US && !member->subject->launcher)
        check_remarks(
            "open and close take %d ms at best; they may take some milliseconds, since other "
            "groups of the process wait meanwhile",
            (int)(least_us / 1000));
}

/* ---- two endpoints --------------------------------------------------------------------------- */

enum { ROUNDS = 20, BYTES = 3000 };

static const char *const hint = "with two endpoints open in each process: does it keep state "
                                "outside of the endpoint, so that it "
                                "uses another endpoint's?";

static void expect_own(struct core *core, struct transfer *transfer, const uint8_t *data, int which,
                       int round)
{
    const uint64_t number = 2 * (uint64_t)round + (uint64_t)which;
    const tutti_status status = core_wait(core, transfer);

    if (status == TUTTI_ERR_NOT_READY)
        check_fails("a message of endpoint %d did not arrive within %d s, %s", which,
                    CORE_WAIT_MS / 1000, hint);
    if (status)
        check_fails("a receive of endpoint %d ends with %s, %s", which, tutti_status_name(status),
                    hint);
    if (core_differs(data, 0, BYTES, number) < BYTES)
        check_fails("endpoint %d received what was not sent to it, %s", which, hint);
}

/* One message over each, received in the other order than they were sent. */
static void pass_over(struct core cores[2], int first, int last, bool sends, int round)
{
    struct transfer transfers[2];
    uint8_t *data[2];

    check_doing("passing messages over two endpoints at once");
    for (int i = first; i <= last; i++) {
        data[i] = core_buffer(BYTES);
        if (!sends) {
            core_receive(&cores[i], data[i], BYTES, &transfers[i]);
            continue;
        }
        core_fill(data[i], BYTES, 2 * (uint64_t)round + (uint64_t)i);
        core_send(&cores[i], data[i], BYTES, 0, &transfers[i]);
    }
    for (int i = last; i >= first; i--) {
        if (!sends)
            expect_own(&cores[i], &transfers[i], data[i], i, round);
        else if (core_wait(&cores[i], &transfers[i]))
            check_fails("a send of endpoint %d ends with %s, %s", i,
                        tutti_status_name(transfers[i].request.status), hint);
        core_buffer_free(data[i]);
    }
}

void check_two_endpoints(const struct check_member *member)
{
    static struct core cores[2];

    core_start_two(cores, member);
    for (int round = 0; round < ROUNDS; round++)
        pass_over(cores, 0, 1, round % 2 == member->index, round);
    check_meet();
    core_close(&cores[0]);
    for (int round = 0; round < ROUNDS; round++) /* what is left goes on */
        pass_over(cores, 1, 1, round % 2 == member->index, round);
    check_meet();
    core_close(&cores[1]);
}

/* ---- lanes ----------------------------------------------------------------------------------- */

enum { LANES_MAX = 8, LANE_BYTES = 500 };

/* All receives are posted, the last lane's first; then the sends come from the first lane on. */
void check_lanes(const struct check_member *member)
{
    struct core core = {0};
    struct transfer transfers[LANES_MAX];
    uint8_t *data[LANES_MAX];

    core_start(&core, member);
    const int lanes = (int)MIN(core.ops->lanes, LANES_MAX);
    if (lanes < 2)
        check_skips("it has one lane");
    check_doing("receiving on %d lanes", lanes);
    for (int i = lanes - 1; i >= 0; i--) {
        data[i] = core_buffer(LANE_BYTES);
        core.lane = (uint32_t)i;
        if (member->index)
            core_receive(&core, data[i], LANE_BYTES, &transfers[i]);
    }
    check_meet();
    for (int i = 0; !member->index && i < lanes; i++) {
        core_fill(data[i], LANE_BYTES, (uint64_t)i);
        core.lane = (uint32_t)i;
        core_send(&core, data[i], LANE_BYTES, 0, &transfers[i]);
    }
    for (int i = 0; i < lanes; i++) {
        const tutti_status status = core_wait(&core, &transfers[i]);

        if (status)
            check_fails("a message on lane %d of %d ends with %s", i, lanes,
                        status == TUTTI_ERR_NOT_READY ? "nothing: lost"
                                                      : tutti_status_name(status));
        if (core_differs(data[i], 0, LANE_BYTES, (uint64_t)i) < LANE_BYTES)
            check_fails("what a receive on lane %d of %d got was not sent on that lane: lanes are "
                        "not kept apart",
                        i, lanes);
        core_buffer_free(data[i]);
    }
    check_meet();
    core_close(&core);
}

/* ---- reach ----------------------------------------------------------------------------------- */

enum { DESCRIPTORS = 1024 };

struct ways {
    bool open[DESCRIPTORS];
    int local, others; /* sockets of this host alone; what may lead further */
};

/* Looks at the descriptors that were not open `before`. */
static struct ways look_at_ways(const struct ways *before)
{
    struct ways ways = {.local = 0};

    for (int fd = 0; fd < DESCRIPTORS; fd++) {
        char path[64], target[64] = "";
        int domain = AF_UNSPEC;
        socklen_t bytes = sizeof domain;

        g_snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
        ways.open[fd] = readlink(path, target, sizeof target - 1) > 0;
        if (!ways.open[fd] || (before && before->open[fd]))
            continue;
        if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &bytes) == 0)
            *(domain == AF_UNIX ? &ways.local : &ways.others) += 1;
        else
            ways.others += g_str_has_prefix(target, "/dev/");
    }
    return ways;
}

void check_reach(const struct check_member *member)
{
    static struct core cores[2];
    const tutti_transport_ops *ops = check_transport(member->subject);
    const struct ways before = look_at_ways(NULL);

    if (ops->capabilities & TUTTI_CAP_HOST_ONLY)
        check_skips("it says that it reaches processes of the same host only");
    core_start_two(cores, member);
    for (int round = 0; round < 2; round++)
        pass_over(cores, 0, 1, round == member->index, round);
    check_meet();
    const struct ways now = look_at_ways(&before);
    if (now.local && !now.others)
        check_fails(
            "messages pass over Unix sockets, which reach processes of the same host only; it "
            "must say so (TUTTI_CAP_HOST_ONLY), or the core takes it between hosts, too");
    for (int i = 0; i < 2; i++)
        core_close(&cores[i]);
}

/* ---- time ------------------------------------------------------------------------------------ */

enum { TURNS = 100, LOOK_US = 50, LATENCY_US = 2000, TIMES = 10 };

/* There and back over a pair of sockets, looked at as often as the transport is. */
static void pass_by_socket(int fd, bool first)
{
    char byte = 1;

    if (first && send(fd, &byte, 1, 0) != 1)
        check_fails("cannot be tried: %s", g_strerror(errno));
    while (recv(fd, &byte, 1, MSG_DONTWAIT) != 1) {
        if (errno != EAGAIN && errno != EINTR)
            check_fails("cannot be tried: %s", g_strerror(errno));
        g_usleep(LOOK_US);
    }
    if (!first && send(fd, &byte, 1, 0) != 1)
        check_fails("cannot be tried: %s", g_strerror(errno));
}

static void pass_by_transport(struct core *core, bool first)
{
    uint64_t word = 1;
    struct transfer transfer;

    for (int i = 0; i < 2; i++) {
        if (first == !i)
            core_send(core, &word, sizeof word, 0, &transfer);
        else
            core_receive(core, &word, sizeof word, &transfer);
        if (core_wait(core, &transfer))
            check_fails("a message of 8 bytes ends with %s",
                        tutti_status_name(transfer.request.status));
    }
}

/* The best of many turns: a busy machine makes some of them late, not all. */
void check_latency(const struct check_member *member)
{
    struct core core = {0};
    gint64 best = G_MAXINT64, best_socket = G_MAXINT64;

    core_start(&core, member);
    check_doing("passing 8 bytes to and fro");
    for (int i = 0; i < TURNS; i++) {
        const gint64 start = g_get_monotonic_time();

        pass_by_transport(&core, member->index == 0);
        const gint64 middle = g_get_monotonic_time();
        pass_by_socket(check_socket(1 - member->index), member->index == 0);
        best = MIN(best, (middle - start) / 2);
        best_socket = MIN(best_socket, (g_get_monotonic_time() - middle) / 2);
    }
    if (best > LATENCY_US + TIMES * best_socket)
        check_fails("a message of 8 bytes takes %.1f ms at best, and over a pair of sockets in the "
                    "same moment %.2f ms",
                    (double)best / 1000, (double)best_socket / 1000);
    check_meet();
    core_close(&core);
}
