/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The test's side of the harness: starts the ranks of a program written with rank.h, follows what
 * they say, sends them signals, and collects how each ended. No launcher is involved: nobody but
 * the ranks themselves can tell the others that one is gone.
 *
 *     struct ranks *ranks =
 *         ranks_start(&(struct ranks_options){.program = "rank_fault",
 *                                             .case_name = "calls_for_ever",
 *                                             .size = 4,
 *                                             .backend = "shm"});
 *
 *     cr_assert_not_null(ranks);
 *     cr_assert(ranks_reach(ranks, RANKS_ALL, "running"));
 *     int64_t killed = ranks_signal(ranks, 2, SIGKILL);
 *     cr_assert(ranks_wait(ranks));
 *     for (each survivor r) {
 *         cr_expect(ranks_result(ranks, r)->passed);
 *         cr_expect_lt(ranks_point_ns(ranks, r, "returned") - killed, 1000000000);
 *     }
 *     cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
 *     ranks_free(ranks);
 *
 * A case that only has to pass is ranks_run(&(struct ranks_options){…}).
 *
 * Every wait ends at the run's deadline (`timeout_ms` after the start): all ranks are then killed,
 * and what they said is shown on stderr. Output is read while one of these functions waits. Ranks
 * die with the thread that started them. Not thread-safe; one process may have several runs.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANKS_ALL = -1, RANKS_MAX = 256 };

enum ranks_store {
    RANKS_STORE_TCP, /* served by the test's own process */
    RANKS_STORE_FILE
};

struct ranks_options {
    const char
        *program; /* "rank_fault": in the build's bin, or in $TUTTI_TEST_PROGRAMS; or a path */
    const char *case_name;
    int size;
    const char *backend; /* TUTTI_BACKEND; NULL: not set. ranks_run(): a list, "shm,tcp" */
    int timeout_ms;      /* of the whole run; 0: 60 s */
    enum ranks_store store;
    const char *const *env;     /* "NAME=VALUE" for all ranks, ended by NULL */
    const char *const *host_of; /* [size] TUTTI_HOST of each rank; NULL entries: not set */
    const char *const *netns; /* [size] network namespace of each rank (net.h); a tcp store is then
                                 served in that of rank 0, at `address` */
    const char *mpi;     /* "openmpi", "mpich": the ranks are a job of this MPI (ranks_lack()) */
    const char *address; /* where a tcp store is served; NULL: 127.0.0.1 */
    /* The program is a launcher, which is called so, up to NULL, and makes its own job: `size` is 1, there is
     * no case and no store, and the program gets no variable of a rank. */
    const char *const *arguments;
};

struct rank_result {
    bool ended;            /* by itself or by a signal, not at the deadline */
    int exit_code;         /* -1: did not exit */
    int signal;            /* that ended it, 0: none */
    bool passed;           /* exit code 0 and a verdict of "pass" */
    int64_t ended_ns;      /* CLOCK_MONOTONIC, when the test noticed */
    const char *out, *err; /* everything so far */
};

struct ranks;

/* Why there can be no job over "gloo", "ucc", "openmpi" or "mpich": it is not built, its launcher is not
 * installed, or the sanitizer of the ranks cannot look into it. NULL: there can. With
 * TUTTI_TEST_MPICH=abi whatever is tested over "mpich" is tested over MPICH's library for the standard ABI. */
const char *ranks_lack(const char *name);

/* The library that jobs over "ucc" open: the stand-in, or that of TUTTI_TEST_UCC. */
const char *ranks_ucc(void);
/* That of jobs over "ucx" is the process's, or that of TUTTI_TEST_UCX_LIBRARY. */

/* Whether the ranks are built with instruments, which make them ten times as slow: budgets of time
 * are those of a build without. */
bool ranks_have_instruments(void);

/* "LSAN_OPTIONS=…" for programs that use the MPI "openmpi" or "mpich": what that keeps until the process
 * ends is no leak of ours. Its libraries have no frame pointers, so stacks are taken the slow way; and
 * LeakSanitizer crashes where it follows the thread-local memory of those that it was not told of.
 * ranks_start() sets it for jobs of an MPI. */
const char *ranks_lsan_options(const char *mpi);

/* This process, and the ranks that it starts from here on, use so many CPUs at most. */
void ranks_limit_cpus(int most);

/* NULL, with a message on stderr: the ranks could not be started. */
struct ranks *ranks_start(const struct ranks_options *options);
/* Waits until `rank` (or RANKS_ALL) has come to rank_point(`name`). False: it ended before. */
bool ranks_reach(struct ranks *ranks, int rank, const char *name);
/* Waits until `rank` (or RANKS_ALL) has said the words on stderr, since ranks_mark_words() if that was
 * called. False: it ended before. */
bool ranks_await_words(struct ranks *ranks, int rank, const char *words);
void ranks_mark_words(struct ranks *ranks);
/* When it did so first, CLOCK_MONOTONIC; -1: not yet. */
int64_t ranks_point_ns(const struct ranks *ranks, int rank, const char *name);
/* What the machine withheld between two moments: its stalls (harness/stalls.h), and how long threads of all
 * ranks waited for a CPU, together, from the last point of each until `from_ns` to its first one from
 * `until_ns` on. A budget of time adds this. */
int64_t ranks_withheld_ms(const struct ranks *ranks, int64_t from_ns, int64_t until_ns);
/* Now is a point of all ranks for ranks_withheld_ms(); returns when it was. */
int64_t ranks_note_delays(struct ranks *ranks);
/* What it last told by rank_value(`name`). False: nothing. */
bool ranks_value(const struct ranks *ranks, int rank, const char *name, char *ret_words,
                 size_t size);
/* Says a word that the rank (or RANKS_ALL) awaits with rank_await(). */
void ranks_tell(struct ranks *ranks, int rank, const char *word);
/* Returns the time just before the signal went. */
int64_t ranks_signal(struct ranks *ranks, int rank, int signal);
/* The port of the tcp store, and the name of the run, which is in the keys of its groups. */
uint16_t ranks_store_port(const struct ranks *ranks);
const char *ranks_run_id(const struct ranks *ranks);
/* The rank's process. */
int ranks_pid(const struct ranks *ranks, int rank);
/* All processes of the run, those that ranks have started among them; returns how many there are. */
int ranks_processes(const struct ranks *ranks, int *ret_pids, int most);
/* Waits until `rank` (or RANKS_ALL) has ended. False: killed at the deadline. */
bool ranks_wait_rank(struct ranks *ranks, int rank);
bool ranks_wait(struct ranks *ranks);
const struct rank_result *ranks_result(const struct ranks *ranks, int rank);
/* Whether all passed; tells on stderr about those that did not. */
bool ranks_passed(const struct ranks *ranks);
/* How many processes of this run live on, and files, sockets and shared segments are left, named in
 * `ret_words`. Ranks that were killed have until the run's deadline to go, and what they started a
 * short while. */
int ranks_leftovers(const struct ranks *ranks, char *ret_words, size_t size);
/* Kills what lives, forked children included, and removes the run's folder. */
void ranks_free(struct ranks *ranks);

/* Runs a case that has to pass on all ranks, once per backend of the list; tells on stderr. */
bool ranks_run(const struct ranks_options *options);
