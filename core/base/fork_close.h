/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Descriptors that a forked child must not keep. FD_CLOEXEC does not help a child that never calls
 * exec: its copy of a socket holds the connection open after the parent has died, so that the other
 * side waits for an end that does not come, and its copy of a listener holds the port. What is
 * registered here is closed in the child before fork() returns there.
 */
#ifndef TUTTI_BASE_FORK_CLOSE_H
#define TUTTI_BASE_FORK_CLOSE_H

/* Registers `fd`. Without memory for that it is closed by exec only. */
void fork_close_add(int fd);

/* close(2) of a descriptor that may be registered. */
void fork_close_now(int fd);

#endif
