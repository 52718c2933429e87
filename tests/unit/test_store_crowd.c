/* SPDX-License-Identifier: Apache-2.0 */
/* Clients that a store does not know take no more of its server's descriptors than they may. */
#include <criterion/criterion.h>
#include <grp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/store_crowd.h"
#include "store_sockets.h"
#include "store_talk.h"

enum { STRANGER = 54321, DESCRIPTORS = 200, LIMIT = DESCRIPTORS / 2, MANY = 150 };

TestSuite(store_crowd, .timeout = 60);

Test(store_crowd, the_largest_group_is_the_one_with_most_connections)
{
    struct store_crowd crowd;

    store_crowd_init(&crowd);
    cr_assert(crowd.limit > 8 && crowd.limit <= STORE_CROWD_MAX);
    for (int i = 0; i < 3; i++)
        store_crowd_enter(&crowd, 7);
    for (int i = 0; i < 4; i++)
        store_crowd_enter(&crowd, 200);
    cr_expect_eq(store_crowd_largest(&crowd), 200);
    for (int i = 0; i < 2; i++)
        store_crowd_leave(&crowd, 200);
    cr_expect_eq(store_crowd_largest(&crowd), 7);
    cr_expect_eq(crowd.count, 5);
    crowd.limit = 5;
    cr_expect(store_crowd_is_full(&crowd));
    store_crowd_leave(&crowd, 7);
    cr_expect_not(store_crowd_is_full(&crowd));
}

/* From an address of loopback, so that there are several. */
static int connect_from(const char *address, uint16_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET},
                       to = {.sin_family = AF_INET,
                             .sin_port = htons(port),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM, 0);

    inet_pton(AF_INET, address, &own.sin_addr);
    return bind(fd, (struct sockaddr *)&own, sizeof own) ||
                   connect(fd, (struct sockaddr *)&to, sizeof to)
               ? -1
               : fd;
}

/* Makes a request and reads the answer: the server has the connection among those that it keeps. */
static bool ping(int fd)
{
    struct buffer request = talk("14", STORE_PING, 7);
    uint8_t answer[4];
    const bool sent = send(fd, request.data, request.size, MSG_NOSIGNAL) == (ssize_t)request.size;

    buffer_free(&request);
    return sent && read_all(fd, answer, sizeof answer);
}

static int open_asked(const char *address, uint16_t port)
{
    static const uint8_t magic[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    const int fd = connect_from(address, port);

    return fd >= 0 && send(fd, magic, sizeof magic, MSG_NOSIGNAL) == sizeof magic && ping(fd) ? fd
                                                                                              : -1;
}

/* Another user: one host with one client, another one with far too many. */
static int crowd_in(uint16_t port)
{
    int fds[MANY], open = 0;
    const int alone = open_asked("127.0.0.9", port);

    for (int i = 0; i < MANY; i++) {
        fds[i] = open_asked("127.0.0.2", port);
        if (fds[i] < 0)
            return 1;
    }
    for (int i = 0; i < MANY; i++)
        open += !is_closed_within(fds[i], 0);
    if (open > LIMIT || open < LIMIT - 1)
        return 2;
    return ping(alone) && ping(fds[MANY - 1]) ? 0 : 3;
}

/* Stays until it is killed. */
static pid_t start_crowd(uint16_t port, int *ret_code)
{
    int ends[2], code = -1;

    cr_assert_eq(pipe(ends), 0);
    const pid_t child = fork();
    if (!child) {
        code = setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
                       setresuid(STRANGER, STRANGER, STRANGER)
                   ? 4
                   : crowd_in(port);
        (void)!write(ends[1], &code, sizeof code);
        pause();
        _exit(0);
    }
    cr_assert_eq(read(ends[0], &code, sizeof code), sizeof code);
    *ret_code = code;
    return child;
}

Test(store_crowd, unknown_clients_leave_descriptors_for_members)
{
    int code;

    if (geteuid())
        cr_skip_test("only root may start a process of another user");
    setenv("TUTTI_STORE_OPEN", "1", 1); /* others are served, and are not known */

    const struct child_server server = start_child_server(DESCRIPTORS);
    const pid_t crowd = start_crowd(server.port, &code);

    cr_expect_eq(code, 0);
    works(open_client(server.port));
    kill(crowd, SIGKILL);
    waitpid(crowd, NULL, 0);
    kill_child(server);
}
