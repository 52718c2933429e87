/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each libc call of libtutti and its plugins fails once, in a job of its own: no rank crashes, no
 * rank waits for the deadline, each failure has a message, and nothing is left behind. A job
 * without a failure says first how often each function is called.
 *
 * By default a sample is made, a stride over all failures of a backend. TUTTI_TEST_SWEEP=N: N jobs for each
 * backend; `all`: every call up to CALLS_MAX of each function. TUTTI_TEST_SWEEP_ONLY=recv,1,7: the seventh recv()
 * of rank 1, with where that was and all that the ranks say; `recv`: all of that function.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "harness/launch.h"
#include "sweep/nth_call.h"

enum {
    RANKS = 3,
    CALLS_MAX = 400,
    JOBS_MAX = 40000,
    AT_ONCE = 3,
    SAMPLE = 60,    /* jobs for each backend */
    SLOW_MS = 2000, /* a call may take; the deadline is at 8 s */
    JOB_MS = 30000,
    WORDS = 1200
};

struct way {
    const char *name, *backend;
    int size;
    const char *host_of[RANKS];
};

static const struct way over_shm = {.name = "shm", .backend = "shm", .size = 2};
static const struct way over_tcp = {.name = "tcp", .backend = "tcp", .size = 2};
/* What `auto` means there. But a member that cannot find out its address is on a network to it, so it would open
 * the plugin ucx, too, and the process keeps each plugin that it has opened. */
static const struct way over_both = {.name = "composed",
                                     .backend = "local=shm,remote=tcp",
                                     .size = 3,
                                     .host_of = {"one", "one", "two"}};

#define NAME_OF(name, returns) #name,
static const char *const names[] = {NTH_FUNCTIONS(NAME_OF)};
#undef NAME_OF
enum { FUNCTIONS = sizeof names / sizeof names[0] };

/* What the kernel, or libc, says when that function fails. */
static int error_of(const char *function)
{
    static const struct {
        const char *function;
        int error;
    } errors[] = {
        {"accept4", EMFILE},         {"bind", EADDRINUSE},    {"connect", ECONNREFUSED},
        {"epoll_create1", EMFILE},   {"epoll_ctl", ENOSPC},   {"epoll_wait", EINTR},
        {"eventfd", EMFILE},         {"fcntl", EMFILE},       {"flock", ENOLCK},
        {"fopen", EMFILE},           {"ftruncate", ENOSPC},   {"getaddrinfo", EAI_MEMORY},
        {"getnameinfo", EAI_MEMORY}, {"getrandom", ENOSYS},   {"listen", EADDRINUSE},
        {"memfd_create", EMFILE},    {"open", EMFILE},        {"pthread_create", EAGAIN},
        {"pwrite", ENOSPC},          {"read", EIO},           {"pread", EIO},
        {"recv", ECONNRESET},        {"recvmsg", ECONNRESET}, {"readv", ECONNRESET},
        {"send", ECONNRESET},        {"sendmsg", ECONNRESET}, {"shutdown", ENOTCONN},
        {"socket", EMFILE},          {"syscall", EMFILE},     {"timerfd_create", EMFILE},
        {"write", EAGAIN},
    };

    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++)
        if (!strcmp(function, errors[i].function))
            return errors[i].error;
    return ENOMEM;
}

/* ---- one job ---- */

struct failure {
    int function, rank, call;
};

enum outcome { NOT_MADE, FINE, IN_WORDS, MUTE, CRASH, HANG, DEADLINE, LEFT, OUTCOMES };

static const char *const outcome_names[OUTCOMES] = {"not made", "fine", "in words", "no message",
                                                    "crash",    "hang", "deadline", "left behind"};

/* What a job without a failure leaves to the process, which stays until its end. */
struct usual {
    long calls[FUNCTIONS], live;
    int fds, threads;
};

static struct ranks *start(const struct way *way, const struct failure *failure)
{
    char function[64], call[32], number[32], rank[32];
    const char *env[] = {"LD_PRELOAD=" NTH_LIBRARY,
                         function,
                         call,
                         number,
                         rank,
                         getenv("TUTTI_TEST_SWEEP_ONLY") ? "NTH_TRACE=1" : NULL,
                         NULL};
    static const char *const counts[] = {"LD_PRELOAD=" NTH_LIBRARY, "NTH_TELL=1", NULL};

    if (failure) {
        snprintf(function, sizeof function, "NTH_FUNCTION=%s", names[failure->function]);
        snprintf(call, sizeof call, "NTH_CALL=%d", failure->call);
        snprintf(number, sizeof number, "NTH_ERRNO=%d", error_of(names[failure->function]));
        snprintf(rank, sizeof rank, "NTH_RANK=%d", failure->rank);
    }
    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = "rank_sweep",
                                            .case_name = "each_kind_of_call",
                                            .size = way->size,
                                            .backend = way->backend,
                                            .timeout_ms = JOB_MS,
                                            .host_of = way->host_of[0] ? way->host_of : NULL,
                                            .env = failure ? env : counts});
    cr_assert_not_null(ranks);
    return ranks;
}

static long number_of(const struct ranks *ranks, int rank, const char *name)
{
    char words[WORDS];

    return ranks_value(ranks, rank, name, words, sizeof words) ? strtol(words, NULL, 10) : 0;
}

/* What rank `rank` of a failed job says, as a part of the job's outcome. */
static enum outcome judge_rank(const struct ranks *ranks, int rank, const struct usual *usual,
                               char *ret_why, size_t size)
{
    const struct rank_result *result = ranks_result(ranks, rank);
    char words[WORDS] = "", slowest[64] = "?", stage[64] = "", left[64] = "";
    int fds = 0, threads = 0;

    if (!result->ended || result->signal || result->exit_code) {
        snprintf(ret_why, size, "rank %d: signal %d, exit code %d", rank, result->signal,
                 result->exit_code);
        return result->ended ? CRASH : HANG;
    }
    ranks_value(ranks, rank, "slowest", slowest, sizeof slowest);
    if (strtol(slowest, NULL, 10) > SLOW_MS) {
        snprintf(ret_why, size, "rank %d: %s ms", rank, slowest);
        return DEADLINE;
    }
    const bool failed = ranks_value(ranks, rank, "stage", stage, sizeof stage);
    if (failed && (!ranks_value(ranks, rank, "words", words, sizeof words) || !*words)) {
        snprintf(ret_why, size, "rank %d: %s", rank, stage);
        return MUTE;
    }
    ranks_value(ranks, rank, "left", left, sizeof left);
    (void)sscanf(left, "%d %d", &fds, &threads);
    const long live = number_of(ranks, rank, "live");
    if (fds > usual->fds || threads > usual->threads || live > usual->live) {
        snprintf(ret_why, size, "rank %d: %s: %d descriptors, %d threads, %ld blocks of memory",
                 rank, stage, fds - usual->fds, threads - usual->threads, live - usual->live);
        return LEFT;
    }
    if (failed)
        snprintf(ret_why, size, "rank %d: %s: %.300s", rank, stage, words);
    return failed ? IN_WORDS : FINE;
}

static void show(const struct ranks *ranks, int size)
{
    for (int r = 0; r < size; r++)
        fprintf(stderr, "---- rank %d\n%s%s", r, ranks_result(ranks, r)->out,
                ranks_result(ranks, r)->err);
}

/* Waits for the job's end; the worst that any rank says. */
static enum outcome judge(struct ranks *ranks, const struct way *way, const struct usual *usual,
                          const struct failure *failure, char *ret_why, size_t size)
{
    enum outcome worst = FINE;
    char why[WORDS], left[WORDS];

    (void)ranks_wait(ranks);
    for (int r = 0; r < way->size; r++) {
        *why = 0;
        const enum outcome one = judge_rank(ranks, r, &usual[r], why, sizeof why);

        if (one <= worst)
            continue;
        worst = one;
        snprintf(ret_why, size, "%s", why);
    }
    if (worst == FINE && !number_of(ranks, failure->rank, "failed"))
        return NOT_MADE;
    if (worst < CRASH && ranks_leftovers(ranks, left, sizeof left)) {
        snprintf(ret_why, size, "%s", left);
        return LEFT;
    }
    return worst;
}

/* ---- all jobs of a backend ---- */

static void count_calls(const struct way *way, struct usual *ret_usual)
{
    struct ranks *ranks = start(way, NULL);
    char left[64] = "", name[64];

    cr_assert(ranks_wait(ranks) && ranks_passed(ranks), "a job without a failure fails");
    for (int r = 0; r < way->size; r++) {
        for (int f = 0; f < FUNCTIONS; f++) {
            snprintf(name, sizeof name, "calls_%s", names[f]);
            ret_usual[r].calls[f] = number_of(ranks, r, name);
        }
        ret_usual[r].live = number_of(ranks, r, "live");
        ranks_value(ranks, r, "left", left, sizeof left);
        (void)sscanf(left, "%d", &ret_usual[r].fds);
        /* The engine's thread starts only if a work does not end by itself: by chance not in this job. */
        ret_usual[r].threads = 1;
    }
    ranks_free(ranks);
}

static int list_failures(const struct way *way, const struct usual *usual,
                         struct failure *ret_failures)
{
    int count = 0;

    for (int f = 0; f < FUNCTIONS; f++)
        for (int r = 0; r < way->size; r++)
            for (int n = 1; n <= usual[r].calls[f] && n <= CALLS_MAX && count < JOBS_MAX; n++)
                ret_failures[count++] = (struct failure){f, r, n};
    return count;
}

/* Whether the failure of that place in the list is one of the sample. */
static bool is_sampled(int at, int count)
{
    const char *wanted = getenv("TUTTI_TEST_SWEEP");
    const long jobs = !wanted                  ? SAMPLE
                      : !strcmp(wanted, "all") ? JOBS_MAX
                                               : strtol(wanted, NULL, 10);

    return jobs >= count || (at * jobs) / count != ((at + 1) * jobs) / count;
}

struct job {
    struct ranks *ranks;
    struct failure failure;
};

static int finish(struct job *job, const struct way *way, const struct usual *usual,
                  int table[FUNCTIONS][OUTCOMES])
{
    const struct failure *failure = &job->failure;
    char why[WORDS] = "";
    enum outcome outcome = judge(job->ranks, way, usual, failure, why, sizeof why);

    if (outcome == DEADLINE) { /* or the machine was busy: once more, to be sure */
        ranks_free(job->ranks);
        job->ranks = start(way, failure);
        outcome = judge(job->ranks, way, usual, failure, why, sizeof why);
    }
    table[failure->function][outcome]++;
    if (getenv("TUTTI_TEST_SWEEP_ONLY") || outcome == HANG)
        show(job->ranks, way->size);
    if (outcome > IN_WORDS)
        fprintf(stderr, "%s: %s,%d,%d: %s: %s\n", way->name, names[failure->function],
                failure->rank, failure->call, outcome_names[outcome], why);
    ranks_free(job->ranks);
    job->ranks = NULL;
    return outcome > IN_WORDS;
}

static void print_table(const struct way *way, const struct usual *usual,
                        int table[FUNCTIONS][OUTCOMES])
{
    fprintf(stderr, "%-18s %6s", way->name, "calls");
    for (int o = NOT_MADE; o < OUTCOMES; o++)
        fprintf(stderr, " %11s", outcome_names[o]);
    fprintf(stderr, "\n");
    for (int f = 0; f < FUNCTIONS; f++) {
        long calls = 0;

        for (int r = 0; r < way->size; r++)
            calls += usual[r].calls[f];
        if (!calls)
            continue;
        fprintf(stderr, "%-18s %6ld", names[f], calls);
        for (int o = NOT_MADE; o < OUTCOMES; o++)
            fprintf(stderr, " %11d", table[f][o]);
        fprintf(stderr, "\n");
    }
}

static bool is_only(const struct failure *failure)
{
    const char *only = getenv("TUTTI_TEST_SWEEP_ONLY");
    char words[96];

    snprintf(words, sizeof words, "%s,%d,%d", names[failure->function], failure->rank,
             failure->call);
    return !only || !strcmp(words, only) || !strcmp(names[failure->function], only);
}

static void sweep(const struct way *way)
{
    static struct failure failures[JOBS_MAX];
    static int table[FUNCTIONS][OUTCOMES];
    struct usual usual[RANKS] = {{{0}, 0, 0, 0}};
    struct job jobs[AT_ONCE] = {{NULL, {0, 0, 0}}};
    int next = 0, bad = 0;

    if (ranks_have_instruments())
        cr_skip_test("a sanitizer has an allocator of its own");
    count_calls(way, usual);
    const int count = list_failures(way, usual, failures);
    for (int at = 0; at < count; at++) {
        if (!is_only(&failures[at]) || (!getenv("TUTTI_TEST_SWEEP_ONLY") && !is_sampled(at, count)))
            continue;
        struct job *job = &jobs[next++ % AT_ONCE];

        if (job->ranks)
            bad += finish(job, way, usual, table);
        *job = (struct job){start(way, &failures[at]), failures[at]};
    }
    for (int i = 0; i < AT_ONCE; i++)
        if (jobs[(next + i) % AT_ONCE].ranks)
            bad += finish(&jobs[(next + i) % AT_ONCE], way, usual, table);
    print_table(way, usual, table);
    cr_expect_eq(bad, 0, "%d failures of library calls over %s did not end well", bad, way->name);
}

Test(library_calls, one_that_fails_over_shm_ends_in_words)
{
    sweep(&over_shm);
}

Test(library_calls, one_that_fails_over_tcp_ends_in_words)
{
    sweep(&over_tcp);
}

Test(library_calls, one_that_fails_on_two_hosts_ends_in_words)
{
    sweep(&over_both);
}
