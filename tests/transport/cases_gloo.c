/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Gloo does otherwise: a message that is taken back half-way takes its connection along, as a transport
 * may, and the process that comes to a port first takes the member's place.
 */
#include "cases.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/delay.h"

/* Nothing can follow, in either direction; then the peer is let go of. */
static void check_spoilt(struct member *member, int other)
{
    tutti_request refused = {0};
    uint64_t word = 0;

    check(member->ops->isend(member->endpoint, member->peer[other], 0, &word, sizeof word, 0,
                             &refused) == TUTTI_ERR_ABORTED);
    check(strstr(member->words, "half-way"), "%s", member->words);
    check(member->ops->irecv(member->endpoint, member->peer[other], 0, &word, sizeof word,
                             &refused) == TUTTI_ERR_ABORTED);
    member->ops->disconnect(member->endpoint, member->peer[other]);
}

/* What was under way may end before its connection is told to be lost. */
static void expect_loss(struct member *member, int other)
{
    while (member->times_lost[other] == 0)
        turn(member);
    check(member->times_lost[other] == 1);
}

/* Of a message that may fail when it is posted or later. */
static tutti_status outcome(struct member *member, struct operation *operation, tutti_status posted)
{
    operation->at_once = posted == TUTTI_OK && operation->request.status != TUTTI_ERR_NOT_READY;
    return posted == TUTTI_OK ? wait_for(member, operation) : posted;
}

static void receive_taken_back_body(struct member *member)
{
    struct operation operation = {0}, second;
    uint8_t *data = calloc(1, LARGE);
    uint64_t word = 0;
    tutti_status status;

    if (member->rank == 0) {
        all_meet(member);
        send_word(member, 1, 1);
        memset(data, 1, LARGE);
        do { /* until one is taken back before all of it has come */
            operation = (struct operation){.request.user = &operation};
            status = outcome(member, &operation,
                             member->ops->isend(member->endpoint, member->peer[1], 0, data, LARGE,
                                                0, &operation.request));
        } while (status == TUTTI_OK);
        check(status == TUTTI_ERR_PEER_LOST, "%s", member->words);
        expect_loss(member, 1);
    } else {
        /* One that nothing has come for: the message goes to the next. */
        receive_from(member, 0, &word, sizeof word, &operation);
        receive_from(member, 0, &word, sizeof word, &second);
        member->ops->cancel(member->endpoint, &operation.request);
        all_meet(member);
        check(wait_for(member, &second) == TUTTI_OK && word == 1);

        /* One that is under way is not written any more. */
        for (;;) { /* one that has come whole leaves the connection as it is */
            *data = 0;
            operation = (struct operation){.request.user = &operation};
            if (member->ops->irecv(member->endpoint, member->peer[0], 0, data, LARGE,
                                   &operation.request) != TUTTI_OK)
                break;
            while (*(volatile uint8_t *)data == 0)
                turn(member);
            member->ops->cancel(member->endpoint, &operation.request);
        }
        free(data); /* a sanitizer would see a write */
        data = NULL;
        check_spoilt(member, 0);
    }
    free(data);
    all_meet(member);
}

void case_receive_taken_back(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, receive_taken_back_body);
}

static void send_taken_back_body(struct member *member)
{
    struct operation large, queued;
    uint8_t *data = calloc(1, LARGE);
    uint64_t word = 5;

    if (member->rank == 0) {
        send_word(member, 1, 4); /* connected from here on */
        send_to(member, 1, data, LARGE, 0, &large);
        send_to(member, 1, &word, sizeof word, 0, &queued);
        progress_for(member, 20);
        member->ops->cancel(member->endpoint, &queued.request); /* nothing of it was sent */
        member->ops->cancel(member->endpoint, &large.request);  /* half of it was */
        free(data);                                             /* a sanitizer would see a read */
        data = NULL;
        check_spoilt(member, 1);
        all_meet(member);
    } else {
        /* Half a message is never taken for a whole one. */
        receive_word(member, 0, 4);
        all_meet(member);
        large = (struct operation){.request.user = &large};
        check(outcome(member, &large,
                      member->ops->irecv(member->endpoint, member->peer[0], 0, data, LARGE,
                                         &large.request)) == TUTTI_ERR_PEER_LOST);
        expect_loss(member, 0);
    }
    free(data);
    all_meet(member);
}

void case_send_taken_back(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, send_taken_back_body);
}

/* A member that takes a message back half-way and lives on keeps no other from leaving. */
static void leave_who_took_back_body(struct member *member)
{
    enum { PROMPT_MS = 900 }; /* without the cut it takes a second */
    struct operation operation;
    uint8_t *data = calloc(1, LARGE);

    if (member->rank == 0) {
        memset(data, 1, LARGE);
        send_to(member, 1, data, LARGE, 0, &operation);
        all_meet(member);
        const int64_t start = now_ms(), delay = delay_ns();
        member->ops->close(member->endpoint);
        member->endpoint = NULL;
        const int64_t took = now_ms() - start, withheld = (delay_ns() - delay) / 1000000;
        check(took < PROMPT_MS + withheld, "%d ms, of which its threads waited %d for a CPU",
              (int)took, (int)withheld);
    } else {
        receive_from(member, 0, data, LARGE, &operation);
        while (*(volatile uint8_t *)data == 0)
            turn(member);
        member->ops->cancel(member->endpoint, &operation.request);
        all_meet(member);
    }
    all_meet(member);
    free(data);
}

void case_leave_who_took_back(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, leave_who_took_back_body);
}

/* What a member sent before it left is received, also by a peer that learns of the leave by sending
 * to it. */
static void send_to_who_left_body(struct member *member)
{
    enum { FAILED_MS = 300 };
    struct operation sent;
    uint64_t word = 6;

    if (member->rank == 0) {
        send_word(member, 1, 4);
        send_word(member, 1, 5);
        member->ops->close(member->endpoint);
        member->endpoint = NULL;
        atomic_store(&member->world->word[0], 1);
    } else {
        while (!atomic_load(&member->world->word[0])) /* which is outside of its endpoint */
            usleep(1000);
        send_to(member, 0, &word, sizeof word, 0, &sent);
        progress_for(member, FAILED_MS);
        receive_word(member, 0, 4);
        receive_word(member, 0, 5);
        check(wait_for(member, &sent) == TUTTI_ERR_PEER_LOST);
        expect_loss(member, 0);
    }
}

void case_send_to_who_left(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, send_to_who_left_body);
}

/* The port on which an endpoint waits for the other: addresses are 12 bytes, and 20 for each member. */
static uint16_t port_of(const struct world *world, int rank)
{
    const uint8_t *port = &world->address[rank][12 + 20 * (1 - rank) + 2];

    return (uint16_t)(port[0] << 8 | port[1]);
}

/* By a child, while this process is stopped: it finds a connection that came and was reset. */
static void connect_and_reset(uint16_t port)
{
    const struct linger at_once = {.l_onoff = 1};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const pid_t parent = getpid(), child = fork();
    int result;

    if (child == 0) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

        kill(parent, SIGSTOP);
        bool done = connect(fd, (const struct sockaddr *)&to, sizeof to) == 0 &&
                    setsockopt(fd, SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once) == 0 &&
                    close(fd) == 0;
        kill(parent, SIGCONT);
        _exit(done ? 0 : 1);
    }
    check(waitpid(child, &result, 0) == child && WIFEXITED(result) && WEXITSTATUS(result) == 0);
}

/* Each is told once that the other is lost, and nothing can be posted to it any more. */
static void check_both_lost(struct member members[2])
{
    const int64_t deadline = now_ms() + WAIT_MS;
    tutti_request refused = {0};
    uint64_t word;

    while (!members[0].times_lost[1] || !members[1].times_lost[0]) {
        check(now_ms() < deadline);
        progress_for(&members[0], 1);
        progress_for(&members[1], 1);
    }
    for (int i = 0; i < 2; i++) {
        check(members[i].ops->irecv(members[i].endpoint, members[i].peer[1 - i], 0, &word,
                                    sizeof word, &refused) == TUTTI_ERR_PEER_LOST);
        check(members[i].times_lost[1 - i] == 1);
    }
}

/* Of a message for which nobody has asked, as Gloo writes it: bytes, what, slot, and three more. */
static void connect_and_send_garbage(uint16_t port)
{
    enum { SEND_UNBOUND_BUFFER = 1 };
    const uint64_t preamble[6] = {sizeof preamble + 8, SEND_UNBOUND_BUFFER, 4711, 0, 8, 0};
    const struct sockaddr_in to = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(connect(fd, (const struct sockaddr *)&to, sizeof to) == 0);
    check(send(fd, preamble, sizeof preamble, MSG_NOSIGNAL) == sizeof preamble);
    check(close(fd) == 0);
}

/* Somebody comes to each port before the member does. */
static void stranger_comes_first(const tutti_transport_ops *ops, void (*come)(uint16_t port))
{
    struct world *world = world_new(ops, 2);
    struct member members[2];

    for (int i = 0; i < 2; i++) {
        member_init(&members[i], world, i);
        member_open(&members[i]);
    }
    for (int i = 0; i < 2; i++)
        come(port_of(world, i));
    for (int i = 0; i < 2; i++)
        member_connect(&members[i]);
    check_both_lost(members);
    for (int i = 0; i < 2; i++)
        member_close(&members[i]);
    world_free(world);
}

/* It is gone when Gloo looks. */
void case_reset_at_the_port(const tutti_transport_ops *ops)
{
    stranger_comes_first(ops, connect_and_reset);
}

void case_garbage_at_the_port(const tutti_transport_ops *ops)
{
    stranger_comes_first(ops, connect_and_send_garbage);
}

/* A process that does not know the token gets nothing, and the message tells it from the member. */
void case_outsider(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member members[2];

    for (int i = 0; i < 2; i++) {
        member_init(&members[i], world, i);
        members[i].token = (uint8_t)(0x5a + i);
        member_open(&members[i]);
    }
    for (int i = 0; i < 2; i++)
        member_connect(&members[i]);
    check_both_lost(members);
    check(strstr(members[0].lost_words, "does not belong to the group") ||
              strstr(members[1].lost_words, "does not belong to the group"),
          "%s; %s", members[0].lost_words, members[1].lost_words);
    for (int i = 0; i < 2; i++)
        member_close(&members[i]);
    world_free(world);
}
