/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the test's side share. */
#pragma once

#include <sys/types.h>

#include <tutti/store.h>

#include "harness/launch.h"
#include "mpi/mpirun.h"
#include "mpi/pmi_proxy.h"

enum { RANKS_FOLDER_MAX = 64, RANKS_MARK_MAX = 64 };

struct output { /* of one stream, NUL at its end */
    char *text;
    size_t size, room;
    int fd; /* -1: at its end */
};

struct process {
    pid_t pid; /* and its process group; reaped in ranks_free(), so that the number stays its own */
    int pidfd;
    int words_fd; /* a socket: its standard input */
    struct output out, err;
    size_t marked; /* bytes of err that ranks_await_words() passes over */
    struct rank_result result;
    bool killed;                   /* at the deadline */
    int64_t noted_ns, noted_delay; /* ranks_note_delays() */
};

struct ranks {
    int size;
    char what[128]; /* for messages: program, case, backend */
    int64_t deadline_ns;
    tutti_store_server *server;
    struct pmi_proxies *pmi_proxies; /* NULL: the ranks are no MPI job */
    char folder[RANKS_FOLDER_MAX];   /* TMPDIR and XDG_RUNTIME_DIR of the ranks */
    char mark[RANKS_MARK_MAX]; /* NAME=VALUE in the environment of every process of this run */
    struct process processes[];
};

int64_t ranks_now_ns(void);
