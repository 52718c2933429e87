/* SPDX-License-Identifier: Apache-2.0 */
/* One job, for the files of the launcher. */
#pragma once

#include <glib.h>
#include <signal.h>
#include <sys/resource.h>

#include <tutti/store.h>

#include "mpi/pmi_proxy.h"
#include "run/launcher.h"
#include "run/output.h"
#include "run/records.h"
#include "run/report.h"
#include "secret/seal.h"

enum phase { RUNNING, WAITING, ENDING, PRINTING };

struct launcher {
    const struct launch_options *options;
    tutti_store_server *store;
    struct pmi_proxies *pmi_proxies; /* NULL: none, or not needed any more */
    struct output *output;
    struct rank *ranks;
    char *run_id;          /* unique to this launch */
    struct secret *secret; /* of this launch */
    int started, exited;   /* ranks */
    int exits;             /* epoll over the pidfds */
    int exec_errors;       /* reading end: errno of children that could not exec */
    int guard;             /* readable when the guard has died */
    enum phase phase;
    struct records *records;  /* what ranks say of their end; NULL: they cannot */
    const struct rank *first; /* whose failure was seen first, NULL: nobody's */
    int interrupted;          /* the signal that ended the job, 0: none */
    int exec_errno;
    bool children_gone, killing, gave_up, reported, done;
    guint grace_timer, print_timer, stopped_timer;
    int stopped_s;              /* for how long all that are left have been stopped */
    const struct rank *stopped; /* the job was ended for it; NULL: it was not */
    GByteArray *ended;          /* entries to be written (base/ended.h) */
    guint quiet_timer;          /* for ranks that exited with 0 */
    bool orphans;               /* the job has processes that are no ranks, and have no parent */
    unsigned long long quiet_bytes;
    gint64 began_us, ending_us, killing_us;
    struct oom_count oom_before;
    sigset_t signals, mask_before;
    struct rlimit files_before;
};

/* ---- launcher.c ---- */

/* Ends the job, if it is not ending. */
void launcher_end(struct launcher *l);
/* Whether the process is a rank that runs, or the MPI's launcher; `user`: the launcher. */
bool launcher_is_spared(int pid, void *user);

/* ---- launcher_stopped.c ---- */

/* A rank has exited: watches whether those that are left are stopped. */
void launcher_watch_stopped(struct launcher *l);
/* Whether the rank, or the process that it is a wrapper around, is stopped (SIGSTOP). */
bool launcher_is_stopped(pid_t rank);

/* ---- launcher_tell.c ---- */

void launcher_tell_begin(struct launcher *l);
void launcher_tell_end(struct launcher *l);
/* A rank has exited; the others are told after launcher_tell_failures() at the latest, if it failed. */
void launcher_tell_exited(struct launcher *l, struct rank *rank);
void launcher_tell_failures(struct launcher *l);

/* ---- launcher_secret.c ---- */

/* False after having said why. */
bool launcher_make_secret(struct launcher *l);
/* What TUTTI_SECRET shall be, in `ret_text`, which the caller wipes; NULL: the ranks have a secret from the
 * user. */
const char *launcher_secret_text(const struct launcher *l, char ret_text[SECRET_TEXT]);
/* Seals an entry of ENDED_KEY. */
bool launcher_seal(const struct launcher *l, const void *entry, size_t bytes,
                   uint8_t ret_seal[SEAL_BYTES]);

/* ---- launcher_start.c ---- */

/* False after having said why. */
bool launcher_raise_file_limit(struct launcher *l);
/* Whether a rank could connect; otherwise all of them would try until their deadline. */
bool launcher_reaches_store(const struct launcher *l);
bool launcher_start_ranks(struct launcher *l);

/* ---- launcher_say.c ---- */

/* The last words of a job, when all that its ranks have printed is queued. */
void launcher_say_outcome(struct launcher *l);
/* The exit code of `tutti run`. */
int launcher_exit_code(const struct launcher *l);
