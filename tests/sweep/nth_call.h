/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The libc functions that libtutti and its plugins call and that can fail, with what a failed call returns;
 * `wanted_errno` is the error. What the kernel never fails in practice (clock_gettime, sched_yield) and what
 * only speaks of the machine for the user's eyes is not here.
 */
#pragma once

#include <stdbool.h>

#define NTH_MEMORY(X) X(malloc, 0) X(calloc, 0) X(realloc, 0) X(aligned_alloc, 0) X(strdup, 0)

/* clang-format off */
#define NTH_CALLS(X)                                                                               \
    X(accept4, -1) X(bind, -1) X(connect, -1) X(dlopen, 0) X(epoll_create1, -1) X(epoll_ctl, -1)   \
    X(epoll_wait, -1) X(eventfd, -1) X(fcntl, -1) X(flock, -1) X(fopen, 0) X(fstat, -1)            \
    X(ftruncate, -1) X(getaddrinfo, wanted_errno) X(gethostname, -1) X(getifaddrs, -1)             \
    X(getnameinfo, wanted_errno) X(getpeername, -1) X(getrandom, -1) X(getsockname, -1)            \
    X(getsockopt, -1) X(ioctl, -1) X(listen, -1) X(lstat, -1) X(memfd_create, -1) X(mkdir, -1)     \
    X(mmap, -1) X(open, -1) X(poll, -1) X(ppoll, -1) X(pread, -1)                                  \
    X(pthread_cond_init, wanted_errno) X(pthread_create, wanted_errno)                             \
    X(pthread_mutex_init, wanted_errno) X(pwrite, -1) X(read, -1) X(readv, -1) X(realpath, 0)      \
    X(recv, -1) X(recvmsg, -1) X(sched_getaffinity, -1) X(send, -1) X(sendmsg, -1)                 \
    X(setsockopt, -1) X(shutdown, -1) X(socket, -1) X(stat, -1) X(statvfs, -1) X(syscall, -1)      \
    X(timerfd_create, -1) X(timerfd_settime, -1) X(write, -1)
/* clang-format on */

#define NTH_FUNCTIONS(X) NTH_MEMORY(X) NTH_CALLS(X)

/* Calls of libtutti so far of the function of that number, in the order above. */
long nth_calls(int function);
/* Whether the call that shall fail was made. */
bool nth_failed(void);
/* Blocks of memory that libtutti has. */
long nth_live(void);
