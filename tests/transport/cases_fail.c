/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- longer than posted -------------------------------------------------------------------- */

static void too_long_body(struct member *member)
{
    static uint8_t data[2][500000];
    const uint64_t lengths[] = {9, 100, 70000, 500000};

    for (int i = 0; i < 4; i++) {
        struct operation operation;

        if (member->rank == 0) {
            send_to(member, 1, data[0], lengths[i], 0, &operation);
            check(wait_for(member, &operation) == TUTTI_OK);
        } else {
            memset(data[1], 0x11, sizeof data[1]);
            receive_from(member, 0, data[1], lengths[i] - 1, &operation);
            check(wait_for(member, &operation) == TUTTI_ERR_INTERNAL);
            check(strstr(member->words, "expected"), "%s", member->words);
            for (uint64_t j = 0; j < sizeof data[1]; j++)
                check(data[1][j] == 0x11, "the buffer was touched");
        }
        if (member->rank == 0) /* what follows is not affected */
            send_word(member, 1, lengths[i]);
        else
            receive_word(member, 0, lengths[i]);
    }
    all_meet(member);
}

void case_too_long(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, too_long_body);
}

/* ---- cancel -------------------------------------------------------------------------------- */

static void cancel_receive_body(struct member *member)
{
    struct operation operation, second;
    uint8_t *data = calloc(1, LARGE);
    uint64_t word = 0;

    if (member->rank == 0) {
        all_meet(member);
        send_word(member, 1, 1);
        memset(data, 1, LARGE);
        send_to(member, 1, data, LARGE, 0, &operation);
        turn(member);
        all_meet(member); /* a part of it is sent, and no more until the receive is taken back */
        all_meet(member);
        check(wait_for(member, &operation) == TUTTI_OK);
        send_word(member, 1, 2);
    } else {
        /* One that nothing has come for: the message goes to the next. */
        receive_from(member, 0, &word, sizeof word, &operation);
        receive_from(member, 0, &word, sizeof word, &second);
        member->ops->cancel(member->endpoint, &operation.request);
        all_meet(member);
        check(wait_for(member, &second) == TUTTI_OK && word == 1);

        /* One that is under way: its bytes are dropped, and not written any more. */
        receive_from(member, 0, data, LARGE, &operation);
        all_meet(member);
        int64_t deadline = now_ms() + WAIT_MS;
        while (data[0] == 0) {
            check(now_ms() < deadline);
            turn(member);
        }
        check(operation.request.status == TUTTI_ERR_NOT_READY);
        member->ops->cancel(member->endpoint, &operation.request);
        free(data); /* a sanitizer would see a write */
        data = NULL;
        all_meet(member);
        receive_word(member, 0, 2);
    }
    free(data);
    all_meet(member);
}

void case_cancel_receive(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, cancel_receive_body);
}

static void cancel_send_body(struct member *member)
{
    struct operation large, queued, refused;
    uint8_t *data = malloc(LARGE);
    uint64_t word = 5;

    if (member->rank == 0) {
        send_word(member, 1, 4); /* connected from here on */
        send_to(member, 1, data, LARGE, 0, &large);
        check(!large.at_once);
        send_to(member, 1, &word, sizeof word, 0, &queued);
        progress_for(member, 20);
        member->ops->cancel(member->endpoint, &queued.request); /* nothing of it was sent */
        member->ops->cancel(member->endpoint, &large.request);  /* half of it was */
        memset(&refused, 0, sizeof refused);
        check(member->ops->isend(member->endpoint, member->peer[1], 0, &word, sizeof word, 0,
                                 &refused.request) == TUTTI_ERR_ABORTED);
        check(strstr(member->words, "half-way"), "%s", member->words);
    } else {
        receive_word(member, 0, 4);
    }
    all_meet(member);
    if (member->rank == 1) {
        /* Half a message is never taken for a whole one, and nobody is called lost. */
        receive_from(member, 0, data, LARGE, &large);
        progress_for(member, 100);
        check(large.request.status == TUTTI_ERR_NOT_READY && member->times_lost[0] == 0);
        member->ops->cancel(member->endpoint, &large.request);
        send_word(member, 0, 6); /* the other direction goes on */
    } else {
        receive_word(member, 1, 6);
    }
    free(data);
    all_meet(member);
}

void case_cancel_send(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, cancel_send_body);
}

/* ---- complete, but not reported ------------------------------------------------------------ */

static void reports_body(struct member *member)
{
    struct operation operations[3];
    uint64_t words[3] = {1, 2, 3};

    if (member->rank == 0) {
        for (int i = 0; i < 3; i++)
            receive_from(member, 1, &words[i], sizeof words[i], &operations[i]);
        all_meet(member);
        int64_t deadline = now_ms() + WAIT_MS;
        while (member->ops->test(member->endpoint, &operations[0].request) == TUTTI_ERR_NOT_READY ||
               operations[2].request.status == TUTTI_ERR_NOT_READY)
            check(now_ms() < deadline);
        check(operations[1].request.status == TUTTI_OK);
        /* Reported by test, taken back, dropped with the peer: progress says none of them. */
        member->ops->cancel(member->endpoint, &operations[1].request);
        member->ops->disconnect(member->endpoint, member->peer[1]);
        check(turn(member) == 0);
    } else {
        all_meet(member);
        for (int i = 0; i < 3; i++)
            send_word(member, 0, words[i]);
    }
    all_meet(member);
}

void case_reports(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, reports_body);
}

/* ---- no memory ----------------------------------------------------------------------------- */

static tutti_status map_both(struct member *members)
{
    tutti_status status = TUTTI_OK;
    void *bases[2];

    if (!(members->ops->capabilities & TUTTI_CAP_MAP))
        return TUTTI_OK;
    for (int i = 1; i >= 0 && !status; i--)
        status = members[i].ops->map_start(members[i].endpoint, &members[i].local, members[i].peer,
                                           2, (uint32_t)i, 4096, &members[i].map);
    for (int i = 1; i >= 0 && !status; i--)
        status = members[i].ops->map_test(members[i].endpoint, members[i].map, bases);
    return status;
}

/* Everything that members[0] does, until something in it fails. */
static tutti_status live(struct member *members)
{
    struct member *first = &members[0], *second = &members[1];
    struct world *world = first->world;
    tutti_endpoint_options options = {.struct_size = sizeof options, .flags = mock_flags()};
    static struct operation send, receive; /* until the endpoints are closed */
    static uint64_t word = 1;

    tutti_status status = first->ops->open(&first->host, first, &options, &first->endpoint);
    if (status)
        return status;
    first->ops->address(first->endpoint, world->address[0], sizeof world->address[0],
                        &world->address_bytes[0]);
    first->token = second->token = 0;
    member_open(second);
    member_connect(second);
    status = first->ops->connect(first->endpoint, world->address[1], world->address_bytes[1],
                                 LABEL + 1, &first->peer[1]);
    status = status ? status : map_both(members);
    if (status)
        return status;
    receive_from(first, 1, &word, sizeof word, &receive);
    send_to(second, 0, &word, sizeof word, 0, &send);
    int64_t deadline = now_ms() + WAIT_MS;
    while (receive.request.status == TUTTI_ERR_NOT_READY && !second->times_lost[0]) {
        check(now_ms() < deadline);
        turn(first);
        turn(second);
    }
    return receive.request.status;
}

void case_no_memory(const tutti_transport_ops *ops)
{
    int failed = 0;

    for (int allocations = 0;; allocations++) {
        struct world *world = world_new(ops, 2);
        struct member members[2];

        member_init(&members[0], world, 0);
        member_init(&members[1], world, 1);
        members[0].allocations_left = allocations;
        tutti_status status = live(members);
        bool enough = members[0].allocations_left > 0;
        check(!enough || status == TUTTI_OK, "%s", members[0].words);
        failed += status != TUTTI_OK;
        member_close(&members[0]);
        member_close(&members[1]);
        world_free(world);
        if (enough)
            break;
    }
    check(failed >= 3);
}

/* ---- leaving ------------------------------------------------------------------------------- */

static void disconnect_body(struct member *member)
{
    static struct operation outstanding; /* until the endpoint is closed */
    struct operation operations[3];
    uint8_t *data = malloc(LARGE);
    uint64_t word = 0;

    if (member->rank == 0) {
        receive_from(member, 1, &word, sizeof word, &operations[0]);
        receive_from(member, 2, &word, sizeof word, &operations[1]);
        send_to(member, 1, data, LARGE, 0, &operations[2]);
        member->ops->disconnect(member->endpoint, member->peer[1]);
        free(data); /* dropped: not touched any more */
        data = NULL;
        check(wait_for(member, &operations[1]) == TUTTI_OK && word == 2);
    } else if (member->rank == 2) {
        send_word(member, 0, 2);
    }
    free(data);
    if (member->rank == 0)
        receive_from(member, 2, NULL, 0, &outstanding);
    all_meet(member);
}

void case_disconnect(const tutti_transport_ops *ops)
{
    run_threads(ops, 3, disconnect_body);
}

static void arguments_body(struct member *member)
{
    uint8_t address[1024];
    tutti_peer *peer;
    tutti_request request = {0};
    int other = 1 - member->rank;

    if (member->rank == 0) {
        memcpy(address, member->world->address[1], sizeof address);
        for (uint64_t bytes = 0; bytes < member->world->address_bytes[1]; bytes++)
            check(member->ops->connect(member->endpoint, address, bytes, LABEL, &peer) ==
                  TUTTI_ERR_MISMATCH);
        address[0] ^= 1;
        check(member->ops->connect(member->endpoint, address, member->world->address_bytes[1],
                                   LABEL, &peer) == TUTTI_ERR_MISMATCH);
    }
    if (TUTTI_HAS(member->ops, wait_fd)) { /* one connection a pair: one peer an endpoint */
        struct world *world = member->world;

        for (int i = 0; i < 2; i++)
            check(member->ops->connect(member->endpoint, world->address[i], world->address_bytes[i],
                                       LABEL, &peer) == TUTTI_ERR_INVALID_ARGUMENT);
    }
    check(member->ops->isend(member->endpoint, member->peer[other], member->ops->lanes, &request, 8,
                             0, &request) == TUTTI_ERR_INVALID_ARGUMENT);
    check(member->ops->irecv(member->endpoint, member->peer[other], member->ops->lanes, &request, 8,
                             &request) == TUTTI_ERR_INVALID_ARGUMENT);
    all_meet(member);
}

void case_arguments(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, arguments_body);
}

/* ---- a process that is killed -------------------------------------------------------------- */

static void killed_body(struct member *member)
{
    bool maps = member->ops->capabilities & TUTTI_CAP_MAP;
    struct operation receive, send;
    uint8_t *data = calloc(1, LARGE);

    if (member->rank == 1) {
        send_word(member, 0, 3);
        while (!atomic_load(&member->world->word[0]))
            turn(member);
        send_to(member, 0, data, LARGE, 0, &send); /* dies in the middle of a message */
        atomic_store(&member->world->word[1], 1);
        kill(getpid(), SIGKILL);
    }
    receive_word(member, 1, 3);
    receive_from(member, 1, data, LARGE, &receive);
    send_to(member, 1, data, LARGE, 0, &send);
    atomic_store(&member->world->word[0], 1);
    const int64_t written_ms = now_ms() + WAIT_MS; /* all of it would be, were it read meanwhile */
    while (!atomic_load(&member->world->word[1])) {
        check(now_ms() < written_ms);
        usleep(1000);
    }
    if (maps) {
        progress_for(member, 300); /* it just stops; the core tells */
        check(receive.request.status == TUTTI_ERR_NOT_READY);
        member->ops->cancel(member->endpoint, &receive.request);
        member->ops->cancel(member->endpoint, &send.request);
        check(member->times_lost[1] == 0);
    } else {
        int64_t start = now_ms();
        check(wait_for(member, &receive) == TUTTI_ERR_PEER_LOST);
        check(wait_for(member, &send) == TUTTI_ERR_PEER_LOST);
        check(now_ms() - start < WAIT_MS / 2); /* by itself, no deadline of ours has ended it */
        check(member->times_lost[1] == 1 && strstr(member->lost_words, "127.0.0.1"), "%s",
              member->lost_words);
        tutti_request late = {0};
        check(member->ops->isend(member->endpoint, member->peer[1], 0, data, 8, 0, &late) ==
              TUTTI_ERR_PEER_LOST);
        check(member->ops->irecv(member->endpoint, member->peer[1], 0, data, 8, &late) ==
              TUTTI_ERR_PEER_LOST);
    }
    free(data);
}

void case_killed(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, 1, killed_body);
}
