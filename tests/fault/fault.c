/* SPDX-License-Identifier: Apache-2.0 */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tutti/store.h>

#include "harness/stalls.h"

enum { WORDS_MAX = 2048, VARIABLES_MAX = 16, OFFER_MS = 30000, LEAVE_MS = 2000 };

const struct fault_way fault_shm = {.name = "shm", .backend = "shm"};
const struct fault_way fault_tcp = {.name = "tcp", .backend = "tcp"};
const struct fault_way fault_gloo = {.name = "gloo", .backend = "gloo"};
const struct fault_way fault_ucx = {.name = "ucx", .backend = "ucx"};
const struct fault_way fault_ucc = {.name = "ucc", .backend = "ucc"};
const struct fault_way fault_gpus = {.name = "cuda:shm", .backend = "cuda:shm", .has_gpus = true};
const struct fault_way fault_openmpi = {.name = "openmpi", .backend = "mpi", .mpi = "openmpi"};
const struct fault_way fault_mpich = {.name = "mpich", .backend = "mpi", .mpi = "mpich"};
const struct fault_way fault_composed = {
    .name = "shm+tcp", .backend = "auto", .host_of = {"a", "a", "b", "b", "b", "c", "c", "c"}};

int64_t fault_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void fault_make_folder(const char *file, char ret_folder[static FAULT_FOLDER_MAX])
{
    char command[512];

    strcpy(ret_folder, "/tmp/tutti-lone-XXXXXX");
    cr_assert_not_null(mkdtemp(ret_folder));
    if (!file)
        return;
    snprintf(command, sizeof command, "cp -L " LIBRARIES "/%s %s", file, ret_folder);
    cr_assert_eq(system(command), 0);
}

void fault_remove_folder(const char *folder)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

struct ranks *fault_start(const struct fault_way *way, const char *program, const char *case_name,
                          int size, const char *const *env)
{
    const char *all[VARIABLES_MAX + 3] = {NULL};
    int count = 0;

    for (; env && env[count]; count++) {
        cr_assert_lt(count, VARIABLES_MAX);
        all[count] = env[count];
    }
    if (way->has_gpus) {
        all[count++] = "TUTTI_CUDA=" TUTTI_STANDIN_CUDA;
        all[count++] = "STANDIN_CUDA_DEVICES=8";
    }

    struct ranks *ranks =
        ranks_start(&(struct ranks_options){.program = program,
                                            .case_name = case_name,
                                            .size = size,
                                            .backend = way->backend,
                                            .env = all,
                                            .timeout_ms = (FAULT_TEST_S - 5) * 1000,
                                            .host_of = *way->host_of ? way->host_of : NULL,
                                            .mpi = way->mpi});

    cr_assert_not_null(ranks);
    stalls_watch();
    return ranks;
}

void fault_join_together(struct ranks *ranks)
{
    cr_assert(ranks_reach(ranks, RANKS_ALL, "here"));
    ranks_tell(ranks, RANKS_ALL, "join");
}

void fault_await_offer(struct ranks *ranks, int rank)
{
    char name[32];

    snprintf(name, sizeof name, "offer/%d", rank);
    fault_await_key(ranks, 0, name);
}

void fault_await_key(struct ranks *ranks, uint16_t port, const char *name)
{
    char key[128];
    const char *keys[1] = {key};
    tutti_store *store;

    snprintf(key, sizeof key, "tutti/%s/0/0/world/%s", ranks_run_id(ranks), name);
    tutti_status status =
        tutti_store_open_tcp("127.0.0.1", port ? port : ranks_store_port(ranks), OFFER_MS, &store);
    if (!status)
        status = tutti_store_wait(store, keys, 1, OFFER_MS);
    if (status) {
        char words[WORDS_MAX] = "nothing";

        ranks_signal(ranks, 0, SIGKILL);
        (void)ranks_wait_rank(ranks, 0);
        (void)ranks_value(ranks, 0, "words", words, sizeof words);
        cr_assert_fail("%s\nRank 0 said: %s", tutti_last_error(), words);
    }
    tutti_store_unref(store);
}

static void expect_same_words(const struct ranks *ranks, const struct fault_expected *expected)
{
    char words[WORDS_MAX] = "", status[64] = "", first[WORDS_MAX];
    int reference = -1;

    for (int r = 0; r < expected->size; r++) {
        if (expected->gone >> r & 1)
            continue;
        cr_expect(ranks_value(ranks, r, "status", status, sizeof status) &&
                      ranks_value(ranks, r, "words", words, sizeof words),
                  "rank %d did not return", r);
        cr_expect_str_eq(status, expected->status, "rank %d: %s, not %s: %s", r, status,
                         expected->status, words);
        for (size_t i = 0; i < sizeof expected->parts / sizeof *expected->parts; i++)
            if (expected->parts[i])
                cr_expect_not_null(strstr(words, expected->parts[i]), "rank %d: «%s» lacks «%s»", r,
                                   words, expected->parts[i]);
        if (reference < 0) {
            reference = r;
            memcpy(first, words, sizeof first);
        }
        cr_expect_str_eq(words, first, "rank %d: «%s»; rank %d: «%s»", reference, first, r, words);
    }
}

bool fault_within(const struct ranks *ranks, int rank, int64_t from_ns, int budget_ms)
{
    const int64_t at = ranks_point_ns(ranks, rank, "returned");
    const int64_t withheld = ranks_withheld_ms(ranks, from_ns, at);
    const double ms = (double)(at - from_ns) / 1e6;

    fprintf(stderr, "%s: rank %d returned after %.1f ms, of which the machine withheld %lld\n",
            criterion_current_test ? criterion_current_test->name : "?", rank, ms,
            (long long)withheld);
    return at >= 0 && (ranks_have_instruments() || ms <= (double)(budget_ms + withheld));
}

/* The words are the same on all, so those of `rank`, which returned last, are looked at. */
static void expect_parts_in_time(const struct ranks *ranks, const struct fault_expected *expected,
                                 int rank)
{
    char words[WORDS_MAX] = "";

    cr_assert(rank >= 0 && ranks_value(ranks, rank, "words", words, sizeof words));
    const int64_t withheld =
        ranks_withheld_ms(ranks, expected->in_time_ns, ranks_point_ns(ranks, rank, "returned"));
    fprintf(stderr, "%s: the machine withheld %lld ms\n",
            criterion_current_test ? criterion_current_test->name : "?", (long long)withheld);
    for (size_t i = 0; i < sizeof expected->parts_in_time / sizeof *expected->parts_in_time; i++)
        if (expected->parts_in_time[i] && withheld < expected->in_time_ms)
            cr_expect_not_null(strstr(words, expected->parts_in_time[i]), "«%s» lacks «%s»", words,
                               expected->parts_in_time[i]);
}

void fault_expect(struct ranks *ranks, const struct fault_expected *expected)
{
    int last = -1;
    int64_t last_ns = -1;

    for (int r = 0; r < expected->size; r++) {
        if (expected->gone >> r & 1)
            continue;
        cr_assert(ranks_wait_rank(ranks, r), "rank %d did not end", r);
        cr_expect(ranks_result(ranks, r)->passed, "rank %d failed:\n%s%s", r,
                  ranks_result(ranks, r)->out, ranks_result(ranks, r)->err);
        int64_t at = ranks_point_ns(ranks, r, "returned");
        cr_expect(at >= 0, "rank %d did not return", r);
        if (at > last_ns) {
            last = r;
            last_ns = at;
        }
    }
    expect_same_words(ranks, expected);
    if (*expected->parts_in_time)
        expect_parts_in_time(ranks, expected, last);
    if (expected->budget_ms && last >= 0)
        cr_expect(fault_within(ranks, last, expected->from_ns, expected->budget_ms),
                  "the last survivor, rank %d, returned after more than %d ms", last,
                  expected->budget_ms);
}

void fault_finish(struct ranks *ranks)
{
    char words[WORDS_MAX];

    cr_expect_eq(ranks_leftovers(ranks, words, sizeof words), 0, "%s", words);
    ranks_free(ranks);
}

void fault_expect_of_stopped(struct ranks *ranks, int victim, const struct fault_expected *expected)
{
    struct fault_expected of_all = *expected;

    ranks_signal(ranks, victim, SIGCONT);
    of_all.gone = 0;
    of_all.budget_ms = of_all.in_time_ms = 0;
    fault_expect(ranks, &of_all);
    fault_finish(ranks);
}

/* No member stays for the lost one, not even the member that serves the store. */
static void expect_soon_left(const struct ranks *ranks, int size)
{
    for (int r = 0; r < size; r++) {
        const int64_t returned = ranks_point_ns(ranks, r, "returned");
        const int64_t left = ranks_point_ns(ranks, r, "left");

        if (returned >= 0 && left >= 0 && !ranks_have_instruments())
            cr_expect_lt((left - returned) / 1000000,
                         LEAVE_MS + ranks_withheld_ms(ranks, returned, left),
                         "rank %d took too long to leave", r);
    }
}

void fault_expect_lost(struct ranks *ranks, int size, int victim, int64_t from_ns)
{
    char who[32];

    snprintf(who, sizeof who, "rank %d (", victim);
    fault_expect(ranks, &(struct fault_expected){.size = size,
                                                 .gone = 1u << victim,
                                                 .status = "TUTTI_ERR_PEER_LOST",
                                                 .parts = {"group world", who, "was lost"},
                                                 .from_ns = from_ns,
                                                 .budget_ms = FAULT_BUDGET_MS});
    expect_soon_left(ranks, size);
    fault_finish(ranks);
}
