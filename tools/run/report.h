/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The last thing that a failed job prints: one block that says which rank was first, how, what it
 * said on stderr, and what became of the others. Which one that is, records_culprit() decides by what
 * the ranks said of their end, and the order in which they exited; a rank that stopped because of another
 * one comes after it. A rank that the launcher ended is told from one that ended by itself.
 */
#pragma once

#include <glib.h>
#include <stdbool.h>
#include <sys/types.h>

#include "run/launcher.h"

/* The kernel's counts at the begin of the job, to tell an out-of-memory kill from others. */
struct oom_count {
    long long in_cgroup; /* of the control group that the launcher is in, -1: not known */
    long long on_host;
};

void oom_count_read(struct oom_count *ret_count);

struct report {
    const struct rank *ranks;
    int count;
    const struct rank *first; /* the one to blame */
    int exit_code;            /* of the job */
    char *const *tail;        /* the last lines of its stderr */
    const GPtrArray *folded;  /* struct fold_line *: what several ranks printed alike */
    double seconds;           /* from start to end */
    double killed_after_s;    /* from SIGTERM to SIGKILL, if that was sent */
    struct oom_count before;  /* when the job began */
    const char *log_dir;      /* NULL: none */
    bool color;
};

/* The block as text, each line with its newline; freed with g_free(). */
char *report_text(const struct report *report);

/* The exit code that stands for how a process ended: its own, or 128+signal. */
int report_exit_code(int wait_status);
