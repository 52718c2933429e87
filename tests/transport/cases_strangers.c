/* SPDX-License-Identifier: Apache-2.0 */
/* What a process that is no member can do to tcp, whose port it reaches. */
#include "cases.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int stranger(const struct world *world, int rank)
{
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(tcp_port_of(world, rank)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
    return fd;
}

/* Closed by the other side, which says so many bytes at most. */
static void check_ended(struct member *member, int fd, ssize_t most)
{
    int64_t deadline = now_ms() + WAIT_MS;
    char bytes[256];
    ssize_t got;

    while ((got = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT)) > 0 ||
           (got < 0 && errno == EAGAIN)) {
        check(now_ms() < deadline, "a stranger was not closed");
        check(got <= most);
        turn(member);
    }
    close(fd);
}

static void check_closed(struct member *member, int fd)
{
    check_ended(member, fd, 0);
}

static void garbage_body(struct member *member)
{
    if (member->rank == 0) {
        uint8_t bytes[300];
        uint64_t state = 7;

        for (int i = 0; i < 50; i++) {
            int fd = stranger(member->world, 0);

            for (size_t j = 0; j < sizeof bytes; j++)
                bytes[j] = (uint8_t)random_next(&state);
            if (i % 2)
                memcpy(bytes, "tutti-h\0\2\0\0\0\0\0\0\0", 16); /* as far as the ids */
            check(send(fd, bytes, (size_t)(i % 2 ? 64 : 1 + i * 5), MSG_NOSIGNAL) > 0);
            check_closed(member, fd);
        }
        int port_scan = stranger(member->world, 0);
        close(port_scan);
        send_word(member, 1, 1);
    } else {
        receive_word(member, 0, 1);
    }
    check(member->times_lost[1 - member->rank] == 0);
    all_meet(member);
}

void case_garbage(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, garbage_body);
}

/* A child that was forked meanwhile and lives on keeps copies of the sockets: what was closed here
 * is not heard of again. */
static void forked_child_body(struct member *member)
{
    if (member->rank == 0) {
        int early = stranger(member->world, 0);
        progress_for(member, 5); /* it is a guest now */
        pid_t child = fork();
        if (child == 0) {
            pause();
            _exit(0);
        }
        check(send(early, "what?", 5, MSG_NOSIGNAL) == 5);
        progress_for(member, 20); /* dismissed, though the child's copy keeps it open */
        send_word(member, 1, 1);
        check(send(early, "well?", 5, MSG_NOSIGNAL) == 5);
        progress_for(member, 20);
        check(member->ops->arm(member->endpoint) == TUTTI_ARMED);
        int32_t wait_fd;
        check(member->ops->wait_fd(member->endpoint, &wait_fd) == TUTTI_OK);
        struct pollfd event = {.fd = wait_fd, .events = POLLIN};
        check(poll(&event, 1, 0) == 0);
        kill(child, SIGKILL);
        check(waitpid(child, NULL, 0) == child);
        close(early);
    } else {
        receive_word(member, 0, 1);
    }
    all_meet(member);
}

void case_forked_child(const tutti_transport_ops *ops)
{
    run_forked(ops, 2, -1, forked_child_body);
}

enum { STRANGERS = 5000, BACKLOG = 2000, OPEN_FILES = 2 * STRANGERS };

/* Silent ones, first as many as the kernel keeps for a listener that does not look, then the others. Of a
 * listener that encrypts each 16th begins a handshake, of which no more comes. */
static void send_strangers(struct member *member, int fd[STRANGERS])
{
    for (int i = 0; i < STRANGERS; i++) {
        fd[i] = stranger(member->world, 0);
        if (i % 16)
            continue;
        if (mock_encryption)
            check(send(fd[i], "\x16\x03\x01\x02", 4, MSG_NOSIGNAL) == 4);
        if (i > BACKLOG)
            turn(member);
    }
}

/* 5,000 silent connections take the slots of one another, not that of a member: it does not have to wait
 * until they are too late. The endpoint does not spin meanwhile. */
static void half_open_body(struct member *member)
{
    static int fd[STRANGERS];

    if (member->rank == 0) {
        struct rlimit files;
        check(getrlimit(RLIMIT_NOFILE, &files) == 0);
        check(setrlimit(RLIMIT_NOFILE, &(struct rlimit){OPEN_FILES, files.rlim_max}) == 0,
              "the test needs %d open files (ulimit -Hn)", OPEN_FILES);
        int before = open_descriptors();
        send_strangers(member, fd);
        progress_for(member, 100);
        check(open_descriptors() == before + STRANGERS + 64);
        int64_t start_ms = now_ms();
        all_meet(member);
        struct rusage start, end;
        getrusage(RUSAGE_THREAD, &start);
        receive_word(member, 1, 1);
        getrusage(RUSAGE_THREAD, &end);
        check(now_ms() - start_ms < 8000, "it waited for the strangers");
        check(end.ru_utime.tv_sec + end.ru_stime.tv_sec <=
              start.ru_utime.tv_sec + start.ru_stime.tv_sec + 1);
        for (int i = 0; i < STRANGERS; i++)
            close(fd[i]);
        check(setrlimit(RLIMIT_NOFILE, &files) == 0);
    } else {
        all_meet(member);
        send_word(member, 0, 1);
    }
    all_meet(member);
}

void case_half_open(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, half_open_body);
}

void case_wrong_token(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member inside, outside;
    struct operation operation;
    uint64_t word = 1;

    member_init(&inside, world, 0);
    member_init(&outside, world, 1);
    outside.token = 0x5b;
    member_open(&inside);
    member_open(&outside);
    member_connect(&inside);
    member_connect(&outside);
    send_to(&outside, 0, &word, sizeof word, 0, &operation);
    for (int i = 0; i < 5000 && !operation.reported; i++) {
        turn(&inside);
        turn(&outside);
    }
    check(operation.request.status == TUTTI_ERR_PEER_LOST);
    check(outside.times_lost[0] == 1 && strstr(outside.lost_words, "not part of this job"), "%s",
          outside.lost_words);
    check(inside.times_lost[1] == 0);
    member_close(&inside);
    member_close(&outside);
    world_free(world);
}

/* A socket whose port takes the place of that in member 0's address. */
static int listen_instead(struct world *world)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t bytes = sizeof own;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    check(fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 8) == 0 &&
          getsockname(fd, (struct sockaddr *)&own, &bytes) == 0);
    world->address[0][10] = (uint8_t)ntohs(own.sin_port);
    world->address[0][11] = (uint8_t)(ntohs(own.sin_port) >> 8);
    return fd;
}

/* Passes on what has come from one socket to the other, and appends it to `said` unless that is NULL. */
static void pass_on(int from, int to, uint8_t *said, size_t *bytes)
{
    uint8_t data[512];
    ssize_t got = recv(from, data, sizeof data, MSG_DONTWAIT);

    if (got <= 0)
        return;
    check(send(to, data, (size_t)got, MSG_NOSIGNAL) == got);
    if (said) {
        memcpy(said + *bytes, data, (size_t)got);
        *bytes += (size_t)got;
    }
}

enum { FLIGHT_BYTES = 512 }; /* of a TLS listener, at most; or its alert */

/* Every byte of a member's connection, recorded and sent again: in any cut, to the same endpoint and to one
 * of another job. */
void case_replayed(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 3);
    struct member first, second, later;
    struct operation sent, received, nothing;
    uint64_t word = 1, read = 0, never = 0;
    uint8_t said[4096];
    size_t bytes = 0;

    member_init(&first, world, 0);
    member_init(&second, world, 1);
    member_open(&first);
    member_open(&second);
    int to = stranger(world, 0), real_port = tcp_port_of(world, 0);
    check(ops->connect(first.endpoint, world->address[1], world->address_bytes[1], LABEL + 1,
                       &first.peer[1]) == TUTTI_OK);
    int listener = listen_instead(world);
    check(ops->connect(second.endpoint, world->address[0], world->address_bytes[0], LABEL,
                       &second.peer[0]) == TUTTI_OK);
    send_to(&second, 0, &word, sizeof word, 0, &sent);
    receive_from(&first, 1, &read, sizeof read, &received);
    int from = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int64_t deadline = now_ms() + WAIT_MS; !received.reported;) {
        check(now_ms() < deadline);
        turn(&first);
        turn(&second);
        pass_on(from, to, said, &bytes);
        pass_on(to, from, NULL, NULL);
    }
    check(received.request.status == TUTTI_OK && read == word && bytes > 96);

    world->address[0][10] = (uint8_t)real_port;
    world->address[0][11] = (uint8_t)(real_port >> 8);
    receive_from(&first, 1, &never, sizeof never, &nothing);
    for (size_t cut = 1; cut <= bytes; cut += cut < 8 ? 1 : 7) {
        int fd = stranger(world, 0);
        check(send(fd, said, cut, MSG_NOSIGNAL) == (ssize_t)cut && shutdown(fd, SHUT_WR) == 0);
        check_ended(&first, fd, mock_encryption ? FLIGHT_BYTES : 64);
    }
    check(!nothing.reported && first.times_lost[1] == 0);

    member_init(&later, world, 0);
    member_open(&later);
    int fd = stranger(world, 0);
    check(send(fd, said, bytes, MSG_NOSIGNAL) == (ssize_t)bytes);
    check_ended(&later, fd, mock_encryption ? FLIGHT_BYTES : 0);
    member_close(&later);
    ops->cancel(first.endpoint, &nothing.request);
    close(from);
    close(to);
    close(listener);
    member_close(&first);
    member_close(&second);
    world_free(world);
}

/* A process that has a member's port sends the dialer its own words back. */
void case_mirrored(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 2);
    struct member first, second;
    struct operation operation;
    uint64_t word = 1;

    member_init(&first, world, 0);
    member_init(&second, world, 1);
    member_open(&first);
    member_open(&second);
    int listener = listen_instead(world);
    member_connect(&second);
    send_to(&second, 0, &word, sizeof word, 0, &operation);
    int mirror = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    for (int64_t deadline = now_ms() + WAIT_MS; !operation.reported;) {
        check(now_ms() < deadline);
        turn(&second);
        pass_on(mirror, mirror, NULL, NULL);
    }
    check(operation.request.status == TUTTI_ERR_PEER_LOST);
    check(strstr(second.lost_words, "not part of this job"), "%s", second.lost_words);
    close(mirror);
    close(listener);
    member_close(&first);
    member_close(&second);
    world_free(world);
}

/* A core that gives no MACs: nobody can be told from a stranger. */
void case_old_core(const tutti_transport_ops *ops)
{
    struct world *world = world_new(ops, 1);
    struct member member;
    tutti_endpoint_options options = {.struct_size = sizeof options};

    member_init(&member, world, 0);
    member.host.struct_size = offsetof(tutti_host, mac);
    check(ops->open(&member.host, &member, &options, &member.endpoint) == TUTTI_ERR_UNSUPPORTED);
    check(strstr(member.words, "plugin ABI 0.6"), "%s", member.words);
    world_free(world);
}
