/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop by epoll(7):
 *
 *     cc loop_epoll.c job.c $(pkg-config --cflags --libs tutti) -o loop_epoll
 *     tutti run -n 2 ./loop_epoll
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "job.h"

static void add(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    if (epoll < 0 || fd < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event)) {
        perror("epoll");
        exit(1);
    }
}

int main(void)
{
    const struct itimerspec every_5_ms = {{0, 5000000}, {0, 5000000}};
    int epoll = epoll_create1(EPOLL_CLOEXEC), timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    struct job job = {.ticks = 0};

    add(epoll, timer);
    timerfd_settime(timer, 0, &every_5_ms, NULL);
    job_start(&job);
    add(epoll, job.fd);
    for (bool done = false; !done;) {
        struct epoll_event event;
        uint64_t expired;

        if (epoll_wait(epoll, &event, 1, -1) != 1)
            continue;
        if (event.data.fd == job.fd)
            done = job_look(&job);
        else if (read(timer, &expired, sizeof expired) > 0)
            job.ticks++;
    }
    job_end(&job);
    close(timer);
    close(epoll);
    return 0;
}
