/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What belongs to ucx alone: the memory of a message that is taken back is the caller's, whatever the other
 * process does then. UCX itself takes no send back, and no receive whose message has begun to come.
 */
#include "cases.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LONG_BYTES = 64 << 20, WATCH_MS = 2000, TAKEN = 0x5a };

static void set(uint8_t *data, uint8_t value)
{
    memset(data, value, LONG_BYTES);
}

/* Taken back and written by the caller, it stays as it is while the endpoint goes on. */
static void check_untouched(struct member *member, uint8_t *data)
{
    set(data, TAKEN);
    progress_for(member, WATCH_MS);
    for (size_t i = 0; i < LONG_BYTES; i++)
        check(data[i] == TAKEN, "byte %zu was written", i);
}

/* Both directions are under way, and the first bytes have come. */
static void begin_both(struct member *member, int other, uint8_t *in, uint8_t *out,
                       struct operation *receive, struct operation *send)
{
    const int64_t deadline = now_ms() + WAIT_MS;

    set(in, 0);
    set(out, 1);
    receive_from(member, other, in, LONG_BYTES, receive);
    send_to(member, other, out, LONG_BYTES, 0, send);
    while (!in[0]) {
        check(now_ms() < deadline);
        turn(member);
    }
}

static void end(struct member *member, uint8_t *in, uint8_t *out, struct operation *receive,
                struct operation *send)
{
    member->ops->cancel(member->endpoint, &receive->request);
    member->ops->cancel(member->endpoint, &send->request);
    check_untouched(member, in);
    free(out); /* a sanitizer would see a read */
    progress_for(member, 100);
    free(in);
}

static void killed_body(struct member *member)
{
    struct operation receive, send;
    uint8_t *in = malloc(LONG_BYTES), *out = malloc(LONG_BYTES);

    check(in && out);
    begin_both(member, 1 - member->rank, in, out, &receive, &send);
    if (member->rank == 1)
        kill(getpid(), SIGKILL);
    progress_for(member, 300);
    end(member, in, out, &receive, &send);
}

void case_killed_in_a_piece(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, 1, killed_body);
}

static void stopped_body(struct member *member)
{
    struct operation receive, send;
    uint8_t *in = malloc(LONG_BYTES), *out = malloc(LONG_BYTES);

    check(in && out);
    if (member->rank == 1)
        atomic_store(&member->world->word[0], (uint64_t)getpid());
    all_meet(member);
    begin_both(member, 1 - member->rank, in, out, &receive, &send);
    const pid_t other = (pid_t)atomic_load(&member->world->word[0]);
    if (member->rank ==
        0) { /* takes its memory back while the other is stopped, which then goes on */
        check(kill(other, SIGSTOP) == 0);
        progress_for(member, 100);
        member->ops->cancel(member->endpoint, &receive.request);
        member->ops->cancel(member->endpoint, &send.request);
        check(kill(other, SIGCONT) == 0);
        end(member, in, out, &receive, &send);
        atomic_store(&member->world->word[1], 1);
    } else { /* never takes what the other has taken back for a message; it may have been through before */
        const int64_t deadline = now_ms() + WAIT_MS;

        while (!atomic_load(&member->world->word[1])) {
            check(now_ms() < deadline);
            turn(member);
        }
        if (receive.request.status == TUTTI_OK)
            check(in[0] == 1 && memcmp(in, in + 1, LONG_BYTES - 1) == 0);
        else
            check(receive.request.status == TUTTI_ERR_NOT_READY);
        member->ops->cancel(member->endpoint, &receive.request);
        member->ops->cancel(member->endpoint, &send.request);
        free(in);
        free(out);
    }
    all_meet(member);
}

void case_stopped_in_a_piece(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, -1, stopped_body);
}
