/* SPDX-License-Identifier: Apache-2.0 */
/* Cases that show what the harness makes of ranks that pass, fail, crash, hang or leave things. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/rank.h"

RANK_CASE(passes)
{
    check(rank < size);
    check_eq(size, 3);
    check_near(0.5, 0.51, 0.1);
    check_contains("words", "ord");
    check_str_eq("a", "a");
    check_ok(TUTTI_OK);
    rank_value("who", "rank %d of\n%d", rank, size);
}

RANK_CASE(fails_on_rank_1)
{
    check_eq(rank, rank == 1 ? 7 : rank);
    check_contains("the words", rank == 1 ? "others" : "the");
    check_status(TUTTI_ERR_TIMEOUT, rank == 1 ? TUTTI_OK : TUTTI_ERR_TIMEOUT);
    require(rank != 1);
    rank_point("beyond");
}

RANK_CASE(exits_without_a_verdict)
{
    exit(0);
}

RANK_CASE(is_killed_on_rank_1)
{
    rank_point("ready");
    if (rank == 1)
        rank_sleep_ms(60000);
}

RANK_CASE(awaits_a_word)
{
    rank_point("ready");
    rank_await("go");
    rank_point("gone");
}

RANK_CASE(says_much)
{
    for (int i = 0; i < 100000; i++)
        puts("some output that nobody reads until the end");
}

RANK_CASE(leaves_a_child_and_a_file)
{
    char path[256];

    snprintf(path, sizeof path, "%s/left", getenv("TMPDIR"));
    check(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600) >= 0);
    if (rank == 0 && fork() == 0) {
        rank_sleep_ms(60000);
        _exit(0);
    }
}

RANK_CASE(meets_in_the_store)
{
    const char *url = getenv("TUTTI_STORE");
    char host[64] = "";
    unsigned port = 0;
    tutti_store *store;
    int64_t sum;
    const char *all = "all";

    if (sscanf(url, "tcp://%63[^:]:%u", host, &port) == 2)
        require_ok(tutti_store_open_tcp(host, (uint16_t)port, 10000, &store));
    else
        require_ok(tutti_store_open_file(url + strlen("file://"), size, 10000, &store));
    check_ok(tutti_store_add(store, "count", 1, 10000, &sum));
    if (sum == size)
        check_ok(tutti_store_set(store, all, "", 0, 10000));
    check_ok(tutti_store_wait(store, &all, 1, 10000));
    check_str_eq(getenv("TUTTI_HOST"), rank == 0 ? "a" : "b");
    check_str_eq(getenv("TUTTI_EXTRA"), "extra");
    tutti_store_unref(store);
}

/* One datagram from rank 1 to rank 0; what it asks for between is up to the test. */
RANK_CASE(sends_a_datagram)
{
    struct sockaddr_in zero = {.sin_family = AF_INET, .sin_port = htons(7777)};
    struct timeval patience = {.tv_sec = 1};
    char byte;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);

    inet_pton(AF_INET, getenv("TUTTI_EXTRA"), &zero.sin_addr);
    if (rank == 0) {
        check(!bind(fd, (struct sockaddr *)&zero, sizeof zero));
        check(!setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience));
    }
    rank_point("ready");
    for (int round = 0; round < 3; round++) {
        char go[] = "go0", sent[] = "done0";

        go[2] = sent[4] = (char)('0' + round);
        rank_await(go);
        if (rank == 1)
            check(sendto(fd, "x", 1, 0, (struct sockaddr *)&zero, sizeof zero) == 1);
        else
            rank_value(sent, "%d", (int)recv(fd, &byte, 1, 0));
        rank_point(sent);
    }
    close(fd);
}
