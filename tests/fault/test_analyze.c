/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs that are stuck or have failed, and what `tutti trace analyze` says of them from their dumps
 * alone: the ranks that are late, different, stopped, dead, or cut off.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "dumps.h"
#include "harness/net.h"

enum { RANKS = 4, VICTIM = 2, FINE = 0, TROUBLE = 3 };
enum { LATE_MS = 1300 }; /* a rank that does not come for a second is called late */

/* A job whose dumps go to a folder of its own. */
struct job {
    struct dumps dumps;
    struct ranks *ranks;
};

static struct job job_of_victim(const struct fault_way *way, const char *program,
                                const char *case_name, const char *call, const char *victim)
{
    struct job job = {.dumps = dumps_new()};

    job.ranks =
        fault_start(way, program, case_name, RANKS,
                    (const char *[]){job.dumps.dump_dir, call, victim, "TUTTI_TEST_OTHER=barrier",
                                     "TUTTI_STALL_WARNING=1", NULL});
    return job;
}

static struct job job_start(const struct fault_way *way, const char *program, const char *case_name,
                            const char *call)
{
    return job_of_victim(way, program, case_name, call, "TUTTI_TEST_VICTIM=2");
}

static void ask_for_dumps(const struct job *job, int except)
{
    for (int r = 0; r < RANKS; r++)
        if (r != except)
            ranks_signal(job->ranks, r, SIGUSR2);
    cr_assert(dumps_await(&job->dumps, except < 0 ? RANKS : RANKS - 1));
}

/* A rank that is left dumps the loss of those that were ended before, so all are waited for
 * first. */
static void job_end(struct job *job)
{
    for (int r = 0; r < RANKS; r++)
        if (!ranks_result(job->ranks, r)->ended)
            ranks_signal(job->ranks, r, SIGKILL);
    (void)ranks_wait(job->ranks);
    ranks_free(job->ranks);
    dumps_remove(&job->dumps);
}

/* Until all but one have waited for a second in the call that `words` name, and have said so. An
 * earlier call of theirs may have been as slow, on a busy machine. */
static void await_stall(const struct job *job, int except, const char *words)
{
    for (int r = 0; r < RANKS; r++)
        cr_assert(r == except || ranks_await_words(job->ranks, r, words));
}

/* Lets all but the victim into their second call, and awaits that they wait in it. */
static void await_stall_of_second(const struct job *job)
{
    cr_assert(ranks_reach(job->ranks, RANKS_ALL, "open"));
    ranks_mark_words(job->ranks);
    for (int r = 0; r < RANKS; r++)
        if (r != VICTIM)
            ranks_tell(job->ranks, r, "go");
    await_stall(job, VICTIM, " has waited for ");
}

FAULT_TEST(analyze, a_rank_in_user_code_is_late)
{
    struct job few = job_start(way, "rank_fault", "one_computes", "TUTTI_TEST_CALL=small");
    struct job many = job_start(way, "rank_fault", "one_computes", "TUTTI_TEST_CALL=large");
    struct job message = job_start(way, "rank_fault", "one_computes", "TUTTI_TEST_CALL=message");

    await_stall_of_second(&few);
    await_stall_of_second(&many);
    await_stall_of_second(&message);
    ask_for_dumps(&few, -1);
    dumps_analyze(&few.dumps, TROUBLE,
                  (const char *[]){"ranks 0, 1 and 3 wait in #2 all_reduce 2 x f32, sum, for ",
                                   "  late: rank 2 (host ",
                                   "has not called #2 all_reduce 2 x f32, sum: it finished #1 and "
                                   "is outside of tutti",
                                   "verdict: late\n", NULL});
    ask_for_dumps(&many, -1);
    dumps_analyze(&many.dumps, TROUBLE,
                  (const char *[]){"  late: rank 2 (host ", "has not called #2 all_reduce",
                                   "verdict: late\n", NULL});
    ask_for_dumps(&message, -1);
    dumps_analyze(&message.dumps, TROUBLE,
                  (const char *[]){"  late: rank 2 (host ",
                                   "has not answered the recv of 8 bytes, tag 7, from rank 2 of "
                                   "rank 0 for ",
                                   "is outside of tutti", "verdict: late\n", NULL});
    job_end(&few);
    job_end(&many);
    job_end(&message);
}

FAULT_TEST(analyze, a_rank_that_calls_something_else_is_different)
{
    struct job job = job_start(way, "rank_mismatch", "one_calls_something_else",
                               "TUTTI_TEST_CALL=all_reduce 8 x f32, sum");

    cr_assert(ranks_wait(job.ranks));
    cr_assert(dumps_await(&job.dumps, RANKS));
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){"  different: as #2 ranks 0, 1 and 3 called all_reduce 8 x f32, "
                                   "sum; rank 2 called barrier",
                                   "the ranks say: TUTTI_ERR_MISMATCH", "verdict: different\n",
                                   NULL});
    job_end(&job);
}

FAULT_TEST(analyze, a_stopped_rank_is_told_from_the_dumps_of_the_others)
{
    struct job few = job_start(way, "rank_fault", "calls_for_ever", "TUTTI_TEST_CALL=small");
    struct job many = job_start(way, "rank_fault", "calls_for_ever", "TUTTI_TEST_CALL=large");
    struct job *jobs[] = {&few, &many};

    for (int i = 0; i < 2; i++) {
        cr_assert(ranks_reach(jobs[i]->ranks, RANKS_ALL, "running"));
        ranks_mark_words(jobs[i]->ranks);
        ranks_signal(jobs[i]->ranks, VICTIM, SIGSTOP);
    }
    for (int i = 0; i < 2; i++) {
        await_stall(jobs[i], VICTIM, " has waited for ");
        ask_for_dumps(jobs[i], VICTIM);
        dumps_analyze(&jobs[i]->dumps, TROUBLE,
                      (const char *[]){" in #", ", for ", "  stopped: rank 2 (host ",
                                       "is stopped by a signal", "  no dump of rank 2\n",
                                       "verdict: stopped\n", NULL});
        job_end(jobs[i]);
    }
}

/* One computes, one calls something else and one is stopped: each is named for what it does. */
FAULT_TEST(analyze, several_troubles_are_told_apart)
{
    struct job job = job_start(
        way, "rank_mismatch", "each_has_its_part",
        "TUTTI_TEST_PARTS=all_reduce 8 x f32, sum|compute|compute|all_reduce 8 x f32, sum");
    struct job other = job_start(way, "rank_mismatch", "each_has_its_part",
                                 "TUTTI_TEST_PARTS=all_reduce 8 x f32, sum|compute|barrier|"
                                 "all_reduce 8 x f32, sum");

    cr_assert(ranks_reach(job.ranks, RANKS_ALL, "open"));
    cr_assert(ranks_reach(other.ranks, RANKS_ALL, "open"));
    ranks_signal(job.ranks, VICTIM, SIGSTOP);
    cr_assert(dumps_await(&other.dumps, RANKS));
    dumps_analyze(
        &other.dumps, TROUBLE,
        (const char *[]){"  different: as #2 ranks 0 and 3 called all_reduce 8 x f32, sum; "
                         "rank 2 called barrier",
                         "verdict: different\n", NULL});
    for (int r = 0; r < RANKS; r += 3)
        cr_assert(ranks_await_words(job.ranks, r, "#2 all_reduce 8 x f32, sum has waited for "));
    ask_for_dumps(&job, VICTIM);
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){"  ranks 0 and 3 wait in #2 all_reduce 8 x f32, sum, for ",
                                   "  stopped: rank 2 (host ", "is stopped by a signal",
                                   "  late: rank 1 (host ",
                                   "has not called #2 all_reduce 8 x f32, sum: it finished #1 and "
                                   "is outside of tutti",
                                   "verdict: stopped\n", NULL});
    job_end(&job);
    job_end(&other);
}

/* Nobody met in a call, yet their next ones tell what each was about to do. */
Test(analyze, a_rank_that_differs_after_the_end_is_different, .timeout = FAULT_TEST_S)
{
    struct dumps dumps = dumps_new();
    struct ranks *ranks = fault_start(
        &fault_tcp, "rank_recorder", "calls_after_the_end", RANKS,
        (const char *[]){dumps.test_folder, "TUTTI_TEST_CALL=", "TUTTI_TEST_VICTIM=2", NULL});

    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    for (int r = 0; r < RANKS; r++)
        ranks_tell(ranks, r, "go");
    cr_assert(ranks_wait(ranks));
    cr_assert_eq(dumps_count(&dumps, ".json"), RANKS);
    dumps_analyze(&dumps, TROUBLE,
                  (const char *[]){"  different: as #2 ranks 0, 1 and 3 called all_reduce 2 x f32, "
                                   "sum; rank 2 called barrier",
                                   "  aborted: ", "verdict: different\n", NULL});
    fault_finish(ranks);
    dumps_remove(&dumps);
}

FAULT_TEST(analyze, a_rank_that_died_is_dead)
{
    struct job job = job_start(way, "rank_fault", "calls_for_ever", "TUTTI_TEST_CALL=small");

    cr_assert(ranks_reach(job.ranks, RANKS_ALL, "running"));
    ask_for_dumps(&job, -1);
    ranks_signal(job.ranks, VICTIM, SIGKILL);
    cr_assert(ranks_wait(job.ranks));
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){"  dead: rank 2 (host ", "ended without leaving the group",
                                   "the ranks say: TUTTI_ERR_PEER_LOST", "verdict: dead\n", NULL});
    job_end(&job);
}

FAULT_TEST(analyze, ranks_that_wait_in_a_circle_are_stuck)
{
    struct job job = job_start(way, "rank_recorder", "sends_in_a_circle", "TUTTI_TEST_CALL=");

    await_stall(&job, -1, "send of 4194304 bytes, tag 7 has waited for ");
    ask_for_dumps(&job, -1);
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){"  stuck: they wait for each other",
                                   "; rank 0 in send of 4194304 bytes, tag 7, to rank 1",
                                   "; rank 3 in send of 4194304 bytes, tag 7, to rank 0",
                                   "verdict: stuck\n", NULL});
    job_end(&job);
}

FAULT_TEST(analyze, a_circle_over_a_message_and_a_barrier_is_stuck)
{
    struct job job = job_start(way, "rank_recorder", "waits_for_another_tag", "TUTTI_TEST_CALL=");

    cr_assert(ranks_await_words(job.ranks, 0, "recv of 4 bytes, tag 5 has waited for "));
    await_stall(&job, 0, "#2 barrier has waited for ");
    ask_for_dumps(&job, -1);
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){
                      "ranks 1-3 wait in #2 barrier, for ",
                      "  stuck: they wait for each other; rank 0 in recv of 4 bytes, tag 5, from "
                      "rank 2; rank 2 in #2 barrier, which rank 0 has not called; rank 2 has sent "
                      "rank 0 tag 6, for which there is no receive yet\nverdict: stuck\n",
                      NULL});
    job_end(&job);
}

FAULT_TEST(analyze, a_rank_that_computes_with_a_receive_in_flight_is_late)
{
    struct job job =
        job_start(way, "rank_recorder", "computes_with_a_receive_in_flight", "TUTTI_TEST_CALL=");

    cr_assert(ranks_reach(job.ranks, RANKS_ALL, "open"));
    await_stall(&job, VICTIM, "#2 barrier has waited for ");
    ask_for_dumps(&job, -1);
    dumps_analyze(&job.dumps, TROUBLE,
                  (const char *[]){"  late: rank 2 (host ",
                                   "has not called #2 barrier: it waits in no call, with recv of "
                                   "4 bytes, tag 5, from rank 0 in flight\nverdict: late\n",
                                   NULL});
    job_end(&job);
}

/* Its file is left out, as if nobody had fetched it from where it lies. */
FAULT_TEST(analyze, a_rank_that_is_only_not_collected_is_not_stopped)
{
    struct job job = job_start(way, "rank_fault", "one_computes", "TUTTI_TEST_CALL=small");

    await_stall_of_second(&job);
    ask_for_dumps(&job, VICTIM);
    dumps_analyze(
        &job.dumps, TROUBLE,
        (const char *[]){"  missing: rank 2 (host ",
                         "has not called #2 all_reduce 2 x f32, sum, and there is no dump "
                         "of it, though its process is not stopped (",
                         "or its file was not collected or never written\n",
                         "  no dump of rank 2\n", "verdict: missing\n", NULL});
    job_end(&job);
}

/* Rank 0 serves the store, so without it the others do not even reach that. */
Test(analyze, a_rank_that_does_not_come_into_init_is_late, .timeout = FAULT_TEST_S)
{
    static const struct {
        int victim;
        const char *env, *waiting, *late;
    } cases[] = {
        {2, "TUTTI_TEST_VICTIM=2", "ranks 0, 1 and 3 wait in tutti_init(), for ",
         "  late: rank 2 has not called tutti_init(), or does not answer"},
        {0, "TUTTI_TEST_VICTIM=0", "ranks 1-3 wait in tutti_init(), for ",
         "  late: rank 0 has not called tutti_init(), or does not answer"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct job job = job_of_victim(&fault_tcp, "rank_fault", "one_never_joins",
                                       "TUTTI_TEST_CALL=", cases[i].env);

        for (int r = 0; r < RANKS; r++)
            if (r != cases[i].victim)
                fault_await_offer(job.ranks, r);
        usleep(LATE_MS * 1000);
        ask_for_dumps(&job, cases[i].victim);
        dumps_analyze(&job.dumps, TROUBLE,
                      (const char *[]){"group world: 4 members, being made\n", cases[i].waiting,
                                       cases[i].late, "verdict: late\n", NULL});
        job_end(&job);
    }
}

/* Two hosts of two ranks each. */
struct hosts {
    struct net *net;
    struct job job;
};

static struct hosts hosts_start(const char *backend, const char *program, const char *case_name,
                                const char *env)
{
    char reason[256];
    struct hosts h = {.net = net_create(2, reason, sizeof reason)};

    if (!h.net)
        cr_skip_test("%s", reason);
    h.job.dumps = dumps_new();
    h.job.ranks = ranks_start(&(struct ranks_options){
        .program = program,
        .case_name = case_name,
        .size = RANKS,
        .backend = backend,
        .env = (const char *[]){h.job.dumps.dump_dir, env, "TUTTI_STALL_WARNING=1", NULL},
        .timeout_ms = (FAULT_TEST_S - 5) * 1000,
        .address = net_address(h.net, 0),
        .netns = (const char *[]){net_name(h.net, 0), net_name(h.net, 0), net_name(h.net, 1),
                                  net_name(h.net, 1)}});
    cr_assert_not_null(h.job.ranks);
    return h;
}

static void hosts_end(struct hosts *h)
{
    job_end(&h->job);
    net_destroy(h->net);
}

/* Asked while nobody knows yet, and once both sides have given up. */
static void cut(const char *backend, const char *call)
{
    struct hosts h = hosts_start(backend, "rank_fault", "calls_for_ever", call);

    cr_assert(ranks_reach(h.job.ranks, RANKS_ALL, "running"));
    ranks_mark_words(h.job.ranks);
    cr_assert(net_cut(h.net, 1));
    await_stall(&h.job, -1, " has waited for ");
    ask_for_dumps(&h.job, -1);
    dumps_analyze(&h.job.dumps, TROUBLE,
                  (const char *[]){"  cut: all have called #",
                                   "and nothing comes through between hosts", "verdict: cut\n",
                                   NULL});
    cr_assert(ranks_wait(h.job.ranks));
    dumps_analyze(&h.job.dumps, TROUBLE,
                  (const char *[]){"  cut: ranks ", "ranks 0 and 1", "ranks 2 and 3",
                                   "lost each other", "verdict: cut\n", NULL});
    hosts_end(&h);
}

Test(analyze, a_cut_link_is_told_from_dead_hosts_over_tcp, .timeout = FAULT_TEST_S)
{
    cut("tcp", "TUTTI_TEST_CALL=large");
}

Test(analyze, a_cut_link_is_told_from_dead_hosts_composed, .timeout = FAULT_TEST_S)
{
    cut("auto", "TUTTI_TEST_CALL=small");
}

/* On one side of the cut a rank computes, on the other one is stopped. */
Test(analyze, a_cut_link_does_not_hide_what_else_is_wrong, .timeout = FAULT_TEST_S)
{
    struct hosts h = hosts_start("tcp", "rank_mismatch", "each_has_its_part",
                                 "TUTTI_TEST_PARTS=sums|compute|sums|sums");

    cr_assert(ranks_reach(h.job.ranks, RANKS_ALL, "open"));
    cr_assert(net_cut(h.net, 1));
    ranks_signal(h.job.ranks, VICTIM, SIGSTOP);
    cr_assert(ranks_reach(h.job.ranks, 0, "returned") && ranks_reach(h.job.ranks, 3, "returned"));
    cr_assert(dumps_await(&h.job.dumps, RANKS - 1));
    dumps_analyze(&h.job.dumps, TROUBLE,
                  (const char *[]){"  cut: rank 3 and ranks 0 and 1 lost each other, and lived",
                                   "  stopped: rank 2 (host ", "is stopped by a signal",
                                   "  late: rank 1 (host ", "  no dump of rank 2\n",
                                   "verdict: cut\n", NULL});
    hosts_end(&h);
}

Test(analyze, nothing_is_found_where_nothing_is_wrong, .timeout = FAULT_TEST_S)
{
    struct job job =
        job_start(&fault_composed, "rank_fault", "calls_for_ever", "TUTTI_TEST_CALL=small");

    cr_assert(ranks_reach(job.ranks, RANKS_ALL, "running"));
    ask_for_dumps(&job, -1);
    dumps_analyze(&job.dumps, FINE,
                  (const char *[]){"group world: 4 members, shm+tcp\n", "verdict: fine\n", NULL});
    job_end(&job);
}
