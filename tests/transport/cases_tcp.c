/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- the dialling side --------------------------------------------------------------------- */

/* Both dial at the same time: exactly one connection is left, and what was queued meanwhile comes
 * once and in order. */
static void dial_body(struct member *member)
{
    enum { MESSAGES = 20 };
    struct operation sends[MESSAGES], receives[MESSAGES];
    uint64_t out[MESSAGES], in[MESSAGES];
    int other = 1 - member->rank;

    all_meet(member);
    if (member->rank == 0)
        member->world->word[0] = (uint64_t)open_descriptors();
    all_meet(member);
    for (int i = 0; i < MESSAGES; i++) {
        out[i] = (uint64_t)i;
        receive_from(member, other, &in[i], sizeof in[i], &receives[i]);
        send_to(member, other, &out[i], sizeof out[i], 0, &sends[i]);
        if (i % 4 == 0)
            turn(member);
    }
    for (int i = 0; i < MESSAGES; i++) {
        check(wait_for(member, &receives[i]) == TUTTI_OK, "%s", member->lost_words);
        check(wait_for(member, &sends[i]) == TUTTI_OK);
        check(in[i] == (uint64_t)i);
    }
    progress_for(member, 1);
    all_meet(member);
    if (member->rank == 0)
        check(open_descriptors() == (int)member->world->word[0] + 2);
    check(member->times_lost[other] == 0, "%s", member->lost_words);
    all_meet(member);
}

void case_dial_together(const tutti_transport_ops *ops)
{
    for (int i = 0; i < 200; i++)
        run_threads(ops, 2, dial_body);
}

/* A message that was sent whole arrives although its sender closes at once, with something unread.
 */
static void close_body(struct member *member)
{
    enum { BYTES = 1 << 20 };
    struct operation operation;
    uint8_t *data = malloc(BYTES);

    if (member->rank == 0) {
        receive_word(member, 1, 1);
        send_word(member, 1, 2);
        all_meet(member);
        fill_pattern(data, BYTES, 0, 0);
        send_to(member, 1, data, BYTES, 0, &operation);
        check(wait_for(member, &operation) == TUTTI_OK);
    } else {
        send_word(member, 0, 1);
        receive_word(member, 0, 2);
        send_word(member, 0, 3); /* nobody receives it */
        all_meet(member);
        receive_from(member, 0, data, BYTES, &operation);
        check(wait_for(member, &operation) == TUTTI_OK, "%s", member->lost_words);
        check_pattern(data, BYTES, 0, 0);
    }
    free(data);
}

void case_close_delivers(const tutti_transport_ops *ops)
{
    for (int i = 0; i < 20; i++)
        run_threads(ops, 2, close_body);
}

/* Nor is it lost when the receiver looks only after its sender has closed and is gone. */
static void late_body(struct member *member)
{
    enum { LATE_MS = 1500 }; /* longer than any sender waits for its leave message */

    if (member->rank == 0) {
        send_word(member, 1, 4);
        send_word(member, 1, 5);
    } else {
        usleep(LATE_MS * 1000);
        receive_word(member, 0, 4);
        receive_word(member, 0, 5);
    }
}

void case_close_delivers_late(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, late_body);
}

/* The receiver leaves at once: what it has was sent, whatever its sender hears first. */
static void leave_body(struct member *member)
{
    if (member->rank == 0)
        send_word(member, 1, 8);
    else
        receive_word(member, 0, 8);
}

void case_leaves_with_the_message(const tutti_transport_ops *ops)
{
    for (int i = 0; i < 100; i++)
        run_threads(ops, 2, leave_body);
}

/* The other side's process names us to its core only later: nothing is lost meanwhile. */
void case_dial_before_connect(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member early, late;
    struct operation operation;
    uint64_t word = 9, read = 0;

    member_init(&early, world, 0);
    member_init(&late, world, 1);
    member_open(&early);
    member_open(&late);
    member_connect(&early);
    send_to(&early, 1, &word, sizeof word, 0, &operation);
    for (int i = 0; i < 50; i++) {
        turn(&early);
        turn(&late);
        usleep(1000);
    }
    check(operation.request.status == TUTTI_ERR_NOT_READY);
    member_connect(&late);
    check(wait_for(&early, &operation) == TUTTI_OK);
    receive_from(&late, 0, &read, sizeof read, &operation);
    check(wait_for(&late, &operation) == TUTTI_OK && read == 9);
    member_close(&early);
    member_close(&late);
    world_free(world);
}

/* ---- the system says no -------------------------------------------------------------------- */

void case_refused(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member alone, gone;
    struct operation operation;
    uint64_t word = 1;

    member_init(&alone, world, 0);
    member_init(&gone, world, 1);
    member_open(&alone);
    member_open(&gone);
    gone.ops->close(gone.endpoint);
    member_connect(&alone);
    send_to(&alone, 1, &word, sizeof word, 0, &operation);
    check(wait_for(&alone, &operation) == TUTTI_ERR_PEER_LOST);
    turn(&alone);
    check(alone.times_lost[1] == 1);
    char address[32];
    snprintf(address, sizeof address, "127.0.0.1:%u", tcp_port_of(world, 1));
    check(strstr(alone.lost_words, address) && strstr(alone.lost_words, "refused"), "%s",
          alone.lost_words);
    member_close(&alone);

    member_init(&gone, world, 1);
    tutti_endpoint_options options = {.struct_size = sizeof options, .bind_address = "0.0.0.0"};
    check(ops->open(&gone.host, &gone, &options, &gone.endpoint) == TUTTI_ERR_INVALID_ARGUMENT);
    options.bind_address = "192.0.2.1"; /* nobody's */
    check(ops->open(&gone.host, &gone, &options, &gone.endpoint) == TUTTI_ERR_SYSTEM);
    check(strstr(gone.words, "192.0.2.1"), "%s", gone.words);
    world_free(world);
}

static int use_up_descriptors(int *fds, int capacity)
{
    int count = 0;

    while (count < capacity && (fds[count] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0)
        count++;
    check(errno == EMFILE);
    return count;
}

/* Without descriptors a dial fails in words, and one that comes in waits until there are some. */
void case_descriptors_gone(const tutti_transport_ops *ops)
{
    struct rlimit limit = {100, 100};
    struct world *world = world_new(ops, 2);
    struct member first, second;
    struct operation send, receive;
    tutti_request refused = {0};
    uint64_t word = 4, read = 0;
    int fds[100];

    check(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    member_init(&first, world, 0);
    member_init(&second, world, 1);
    member_open(&first);
    member_open(&second);
    member_connect(&first);
    member_connect(&second);
    int count = use_up_descriptors(fds, 100);
    check(ops->isend(first.endpoint, first.peer[1], 0, &word, 8, 0, &refused) == TUTTI_ERR_SYSTEM);
    check(strstr(first.words, "ulimit"), "%s", first.words);

    close(fds[--count]); /* one for the dial, none for the accept */
    send_to(&first, 1, &word, sizeof word, 0, &send);
    uint32_t turns = 0;
    int32_t wait_fd;
    check(ops->wait_fd(second.endpoint, &wait_fd) == TUTTI_OK);
    for (int64_t end = now_ms() + 500; now_ms() < end; turns++) {
        struct pollfd event = {.fd = wait_fd, .events = POLLIN};

        turn(&second);
        if (ops->arm(second.endpoint) == TUTTI_ARMED)
            poll(&event, 1, 50);
    }
    check(turns < 100, "%u turns: busy", turns);
    while (count > 0)
        close(fds[--count]);
    receive_from(&second, 0, &read, sizeof read, &receive);
    for (int64_t end = now_ms() + WAIT_MS; !receive.reported && now_ms() < end;) {
        turn(&first);
        turn(&second);
    }
    check(send.request.status == TUTTI_OK && receive.request.status == TUTTI_OK && read == 4);
    member_close(&first);
    member_close(&second);
    world_free(world);
}

void case_ipv6(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member members[2];
    struct operation operation[2];
    uint64_t word = 4, read = 0;
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};

    bool there = probe >= 0 && bind(probe, (struct sockaddr *)&loopback, sizeof loopback) == 0;
    close(probe);
    for (int i = 0; there && i < 2; i++) {
        member_init(&members[i], world, i);
        members[i].bind_address = "::1";
        member_open(&members[i]);
    }
    if (there) {
        member_connect(&members[0]);
        member_connect(&members[1]);
        send_to(&members[0], 1, &word, sizeof word, 0, &operation[0]);
        receive_from(&members[1], 0, &read, sizeof read, &operation[1]);
        for (int64_t end = now_ms() + WAIT_MS; !operation[1].reported && now_ms() < end;) {
            turn(&members[0]);
            turn(&members[1]);
        }
        check(read == 4);
        member_close(&members[0]);
        member_close(&members[1]);
    } else {
        printf("no IPv6 here\n");
    }
    world_free(world);
}
