/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The process that the user started. It does nothing but hold a pipe and pass signals on, so that
 * there is always somebody left to clean up:
 *
 *   guard (what the user sees and may kill) -> launcher -> ranks
 *
 * When the guard dies, whatever the signal, the launcher sees the pipe's end and kills every
 * process that the job has made. When the launcher dies, the kernel kills the ranks (parent-death
 * signal) and the guard kills what these had started. Both are subreapers: a process of the job
 * that loses its parent becomes their child, also after setsid() and a double fork. Only killing
 * both at the same moment can leave a rank's own children behind.
 *
 * The launcher has a session of its own: signals of the terminal reach the guard alone, once.
 */
#pragma once

#include <signal.h>
#include <stdbool.h>

/* Runs body(guard_fd, user) in a child; `guard_fd` becomes readable (end of file) when the guard
 * has died. Returns the child's exit code, 128+n when signal n ended it. Call it before any
 * thread exists. */
int guard_run(int (*body)(int guard_fd, void *user), void *user);

/* The signals that end a job, less those that were ignored when the process started (nohup). */
void guard_signals(sigset_t *ret_set);

/* Sends `sig` to each direct child of this process, less those that skip() says, and SIGCONT: one that is
 * stopped sees no other signal but SIGKILL. */
void guard_signal_children(int sig, bool (*skip)(int pid, void *user), void *user);
