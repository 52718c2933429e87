/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Conformance: starts rank_conformance once for each number of members at each place (a backend,
 * or a layout of hosts for the composition), and counts what was covered.
 *
 * Environment: TUTTI_CONFORMANCE_SECONDS for each of shm, tcp and composed (30; less leaves the
 * product of small sizes out), half of it for gloo and for ucx, and an eighth for the template, for a reproducible job and for one with checksums;
 * TUTTI_TEST_LONG=1 for tensors on GPUs over each backend; STANDIN_CUDA_SEED for other delays of the stand-in's streams;
 * TUTTI_CONFORMANCE_SEED; TUTTI_CONFORMANCE=full makes every combination with one special form at most (space.c), =table writes
 * served.tsv anew instead of testing; TUTTI_CONFORMANCE_ONLY=PLACE:MEMBERS makes one start of
 * ranks, and PLACE:MEMBERS:BATCH, as a failure tells it, one batch of its calls; TUTTI_TEST_PROGRAMS=FOLDER takes rank programs of another build.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "conformance/places.h"
#include "conformance/sequence.h"
#include "conformance/served.h"
#include "harness/launch.h"

enum {
    DEADLINE_MS = 300000,
    FULL_DEADLINE_MS = 3600000,
    SECONDS = 30,
    FOREIGN_SECONDS = 60,
    MPI_FEW = 4, /* members of a job of MPI in a short run */
    SEEDS_OF_DELAYS = 5
};

TestSuite(conformance, .timeout = 9 * 3600);

#define DIGITS "0123456789"

static const char *conformance_mode(void)
{
    const char *mode = getenv("TUTTI_CONFORMANCE");

    return mode ? mode : "";
}

static uint64_t conformance_seed(void)
{
    const char *seed = getenv("TUTTI_CONFORMANCE_SEED");

    return seed ? strtoull(seed, NULL, 10) : (uint64_t)time(NULL);
}

static int conformance_seconds(void)
{
    const char *seconds = getenv("TUTTI_CONFORMANCE_SECONDS");

    return seconds ? atoi(seconds) : SECONDS;
}

/* Of foreign engines a long run takes no larger sample than this. */
static int seconds_of(const struct place *place)
{
    const bool foreign = place->mpi || strstr(place->backend, "gloo") ||
                         strstr(place->backend, "ucx") || !strcmp(place->backend, "ucc");
    const int seconds = conformance_seconds();

    return foreign && seconds > FOREIGN_SECONDS ? FOREIGN_SECONDS : seconds;
}

/* Jobs of MPI with more members than cores take long. */
static int share_of(const struct place *place, int members)
{
    const bool is_long = getenv("TUTTI_TEST_LONG") || conformance_seconds() > SECONDS ||
                         !strcmp(conformance_mode(), "table");

    return place->mpi && members > MPI_FEW && !is_long ? 0 : place->share[members];
}

static unsigned mask_of(const struct place *place)
{
    unsigned mask = 0;

    for (int members = 1; members <= MEMBERS_MAX; members++)
        mask |= share_of(place, members) ? 1U << members : 0;
    return mask;
}

/* ---- one start of ranks ---------------------------------------------------------------------- */

struct start {
    const struct place *place;
    int members;
    uint64_t seed;
    enum mode mode;
    const char *test, *only; /* NULL: all batches */
};

enum { VARIABLES = 16, VARIABLE_MAX = 256 };

struct variables {
    char text[VARIABLES][VARIABLE_MAX];
    const char *list[VARIABLES + 1];
};

/* One of a few, by the number of members, for what the stand-in's streams do. */
static int seed_of_delays(const struct start *start)
{
    const char *seed = getenv("STANDIN_CUDA_SEED");

    return seed ? atoi(seed) : 1 + start->members % SEEDS_OF_DELAYS;
}

static void make_variables(const struct start *start, struct variables *variables)
{
    const int ms = seconds_of(start->place) * 10 * share_of(start->place, start->members);
    char hosts[MEMBERS_MAX + 1] = "";
    int n = 0;

    for (int rank = 0; start->place->hosts[rank]; rank++)
        hosts[rank] = start->place->hosts[rank][0];
#define SAY(...) snprintf(variables->text[n++], VARIABLE_MAX, __VA_ARGS__)
    SAY("TUTTI_TEST_SEED=%" PRIu64, start->seed);
    SAY("TUTTI_TEST_MODE=%d", (int)start->mode);
    SAY("TUTTI_TEST_MASK=%u", mask_of(start->place));
    SAY("TUTTI_TEST_WHERE=%s", start->place->name);
    SAY("TUTTI_TEST_TABLE=%s", start->place->setting == with_checksums ? "" : CONFORMANCE_TABLE);
    SAY("TUTTI_TEST_HOSTS=%s", hosts);
    SAY("TUTTI_TEST_MS=%d", ms);
    SAY("TUTTI_PLUGIN_PATH=%s", CONFORMANCE_PLUGINS);
    if (start->place->devices) {
        SAY("TUTTI_TEST_AGAIN=STANDIN_CUDA_SEED=%d test_conformance --filter conformance/%s",
            seed_of_delays(start), start->test);
        SAY("STANDIN_CUDA_SEED=%d", seed_of_delays(start));
        SAY("STANDIN_CUDA_DEVICES=%d", start->place->devices == DEVICES_ALIKE ? MEMBERS_MAX : 2);
        SAY("TUTTI_TEST_DEVICES=%d", (int)start->place->devices);
        SAY("TUTTI_CUDA=%s", TUTTI_STANDIN_CUDA);
        SAY("TUTTI_NCCL=%s", TUTTI_STANDIN_NCCL);
    } else {
        SAY("TUTTI_TEST_AGAIN=test_conformance --filter conformance/%s", start->test);
    }
    if (start->place->setting)
        SAY("%s", start->place->setting);
    if (start->only)
        SAY("TUTTI_TEST_BATCH=%s", start->only);
#undef SAY
    for (int i = 0; i < n; i++)
        variables->list[i] = variables->text[i];
    variables->list[n] = NULL;
}

static struct ranks *start_ranks(const struct start *start, const char *case_name)
{
    static struct variables variables;

    make_variables(start, &variables);
    /* From three on they are crowded on every machine: see served.tsv. */
    ranks_limit_cpus(start->members > 2 ? start->members - 1 : INT_MAX);
    return ranks_start(&(struct ranks_options){
        .program = "rank_conformance",
        .case_name = case_name,
        .size = start->members,
        .backend = start->place->backend,
        .timeout_ms = start->mode == MODE_PAIRS ? DEADLINE_MS + 4000 * conformance_seconds()
                                                : FULL_DEADLINE_MS,
        .env = variables.list,
        .host_of = start->place->hosts[0] ? start->place->hosts : NULL,
        .mpi = start->place->mpi});
}

/* Returns how many calls were made, from that number on, -1: it failed. */
static int64_t run_ranks(const struct start *start, uint64_t *ret_first)
{
    struct ranks *ranks = start_ranks(start, "conformance");
    char calls[32] = "-1", first[32] = "0";

    cr_assert_not_null(ranks);
    if (!ranks_wait(ranks) || !ranks_passed(ranks) ||
        !ranks_value(ranks, 0, "calls", calls, sizeof calls))
        cr_expect(false, "%s, %d members, seed %" PRIu64, start->place->name, start->members,
                  start->seed);
    (void)ranks_value(ranks, 0, "first", first, sizeof first);
    ranks_free(ranks);
    *ret_first = strtoull(first, NULL, 10);
    return strtoll(calls, NULL, 10);
}

/* ---- a place, and all of a test -------------------------------------------------------------- */

/* Whether TUTTI_CONFORMANCE_ONLY leaves this start in; its batch in `ret_only`. */
static bool is_wanted(const struct place *place, int members, const char **ret_only)
{
    const char *only = getenv("TUTTI_CONFORMANCE_ONLY");
    char begin[64];
    int n = snprintf(begin, sizeof begin, "%s:%d", place->name, members);

    *ret_only = NULL;
    if (!only)
        return share_of(place, members);
    if (!place->share[members] || strncmp(only, begin, (size_t)n))
        return false;
    if (only[n])
        *ret_only = only + n + 1;
    return !only[n] ||
           (only[n] == ':' && only[n + 1] && !only[n + 1 + (int)strspn(only + n + 1, DIGITS)]);
}

static bool has_wanted(const struct place *list)
{
    const char *batch;

    for (; list->name; list++)
        for (int members = 1; members <= MEMBERS_MAX; members++)
            if (is_wanted(list, members, &batch))
                return true;
    return false;
}

/* What a list has, as TUTTI_CONFORMANCE_ONLY takes it. */
static void name_starts(const struct place *list, char *ret_text, size_t capacity)
{
    size_t n = 0;

    *ret_text = 0;
    for (; list->name; list++)
        for (int members = 1; members <= MEMBERS_MAX && n < capacity; members++)
            if (list->share[members])
                n += (size_t)snprintf(ret_text + n, capacity - n, "%s%s:%d", n ? ", " : "",
                                      list->name, members);
}

/* A name that nothing has would pass without a call. */
static void refuse_unknown_start(const struct place *list)
{
    const char *only = getenv("TUTTI_CONFORMANCE_ONLY");
    bool is_elsewhere = has_wanted(reproducible) || has_wanted(checked) || has_wanted(encrypted);
    char starts[1024];

    if (!only || has_wanted(list))
        return;
    for (int i = 0; i < PLACES_COUNT; i++)
        is_elsewhere |= has_wanted(places[i]);
    for (int i = 0; i < ON_GPUS_COUNT; i++)
        is_elsewhere |= has_wanted(on_gpus[i]);
    name_starts(list, starts, sizeof starts);
    if (is_elsewhere)
        cr_skip_test("TUTTI_CONFORMANCE_ONLY=%s is another test's; this one has %s", only, starts);
    cr_assert(false,
              "TUTTI_CONFORMANCE_ONLY=%s names nothing that there is; it may be one of %s, and "
              "may have :BATCH, a number, behind it",
              only, starts);
}

/* What the ranks did is known from the seed and the numbers of the calls. */
static void add_to_coverage(struct coverage *coverage, const struct start *start, uint64_t first,
                            int64_t calls)
{
    struct sequence sequence;

    sequence_open(&sequence, start->seed, start->mode, start->members, mask_of(start->place));
    for (int64_t i = 0; i < calls; i++) {
        const struct conformance_call call = sequence_call(&sequence, first + (uint64_t)i);

        /* Members that differ in local facts, and sizes between, cover no cell. */
        if (!call.mixed)
            coverage_add(coverage, &call.row);
    }
    sequence_close(&sequence);
}

static void run_place(const struct place *place, const char *test, enum mode mode)
{
    struct start start = {.place = place, .seed = conformance_seed(), .mode = mode, .test = test};
    struct coverage *coverage = coverage_new(mask_of(place), mode == MODE_SMALL);
    size_t pairs, pairs_possible, rows, rows_possible;
    int64_t calls = 0;

    for (int members = 1; members <= MEMBERS_MAX; members++) {
        if (!is_wanted(place, members, &start.only))
            continue;
        start.members = members;
        uint64_t first;
        int64_t made = run_ranks(&start, &first);
        add_to_coverage(coverage, &start, first, made);
        calls += made;
    }
    coverage_pairs(coverage, &pairs, &pairs_possible);
    coverage_rows(coverage, &rows, &rows_possible);
    fprintf(stderr,
            "conformance %s, seed %" PRIu64 ": %" PRId64 " calls; of the pairs of values %zu of "
            "%zu are covered, of all combinations %zu of %zu\n",
            place->name, start.seed, calls, pairs, pairs_possible, rows, rows_possible);
    if (!getenv("TUTTI_CONFORMANCE_ONLY") && mode != MODE_FULL)
        cr_expect_eq(pairs, pairs_possible);
    coverage_free(coverage);
}

static void run_places(const struct place *list, const char *test)
{
    const enum mode mode = !strcmp(conformance_mode(), "full") ? MODE_FULL : MODE_PAIRS;

    if (!strcmp(conformance_mode(), "table"))
        cr_skip_test("the table is written");
    refuse_unknown_start(list);
    for (; list->name; list++)
        run_place(list, test, mode);
}

Test(conformance, calls_over_shm_give_what_a_serial_program_does)
{
    run_places(shm, "calls_over_shm*");
}

Test(conformance, calls_over_tcp_give_what_a_serial_program_does)
{
    run_places(tcp, "calls_over_tcp*");
}

Test(conformance, composed_calls_give_what_a_serial_program_does)
{
    run_places(composed, "composed*");
}

static void run_engine(const char *engine, const struct place *list, const char *test)
{
    if (ranks_lack(engine))
        cr_skip_test("%s", ranks_lack(engine));
    run_places(list, test);
}

Test(conformance, calls_over_gloo_give_what_a_serial_program_does)
{
    run_engine("gloo", gloo, "calls_over_gloo*");
}

Test(conformance, calls_over_ucx_give_what_a_serial_program_does)
{
    run_engine("ucx", ucx, "calls_over_ucx*");
}

Test(conformance, calls_over_ucc_give_what_a_serial_program_does)
{
    run_engine("ucc", ucc, "calls_over_ucc*");
}

Test(conformance, calls_over_the_plugin_template_give_what_a_serial_program_does)
{
    run_places(template, "calls_over_the_plugin_template*");
}

Test(conformance, calls_in_a_reproducible_job_give_what_the_tree_over_the_ranks_does)
{
    run_places(reproducible, "calls_in_a_reproducible_job*");
}

Test(conformance, calls_with_checksums_give_what_a_serial_program_does)
{
    run_places(checked, "calls_with_checksums*");
}

Test(conformance, encrypted_calls_give_what_a_serial_program_does)
{
    run_places(encrypted, "encrypted_calls*");
}

Test(conformance, calls_over_openmpi_give_what_a_serial_program_does)
{
    run_engine("openmpi", openmpi, "calls_over_openmpi*");
}

Test(conformance, calls_over_mpich_give_what_a_serial_program_does)
{
    run_engine("mpich", mpich, "calls_over_mpich*");
}

/* ---- tensors on GPUs ------------------------------------------------------------------------- */

static void run_on_gpus(const char *engine, const struct place *list, const char *test)
{
    if (!getenv("TUTTI_TEST_LONG") && !getenv("TUTTI_CONFORMANCE_ONLY"))
        cr_skip_test("only with TUTTI_TEST_LONG=1");
    if (engine && ranks_lack(engine))
        cr_skip_test("%s", ranks_lack(engine));
    run_places(list, test);
}

Test(conformance, calls_with_gpu_tensors_give_what_a_serial_program_does)
{
    run_places(gpus, "calls_with_gpu_tensors_give*");
}

/* Part of every run. */
Test(conformance, calls_over_nccl_give_what_a_serial_program_does)
{
    run_places(nccl, "calls_over_nccl*");
}

#define ON_GPUS_OVER(name, engine)                                                                 \
    Test(conformance, calls_with_gpu_tensors_over_##name##_are_right)                              \
    {                                                                                              \
        run_on_gpus(engine, gpus_##name, "calls_with_gpu_tensors_over_" #name "*");                \
    }

ON_GPUS_OVER(nccl, NULL)
ON_GPUS_OVER(shm, NULL)
ON_GPUS_OVER(tcp, NULL)
ON_GPUS_OVER(gloo, "gloo")
ON_GPUS_OVER(openmpi, "openmpi")
ON_GPUS_OVER(mpich, "mpich")

Test(conformance, combinations_up_to_64_elements_are_right_over_shm)
{
    struct place list[] = {shm[0], {0}}, *const place = &list[0];

    if (*conformance_mode())
        cr_skip_test("all combinations of all sizes are made, or none");
    if (conformance_seconds() < SECONDS && !getenv("TUTTI_CONFORMANCE_ONLY"))
        cr_skip_test("the runs are to be shorter than %d s", SECONDS);
#ifdef __SANITIZE_ADDRESS__
    /* Four times slower, and many members are slow already. */
    if (conformance_seconds() <= SECONDS)
        memset(place->share + 5, 0, (MEMBERS_MAX - 4) * sizeof place->share[0]);
#endif
    refuse_unknown_start(list);
    run_place(place, "combinations*", MODE_SMALL);
}

/* ---- one case again -------------------------------------------------------------------------- */

/* This program as it is called to make a start again, not as Criterion calls it for a test. */
static FILE *call_again(const char *only)
{
    char self[PATH_MAX] = "", command[PATH_MAX + 256];

    cr_assert_gt(readlink("/proc/self/exe", self, sizeof self - 1), 0);
    snprintf(command, sizeof command,
             "unset BXFI_MAP; TUTTI_CONFORMANCE= TUTTI_CONFORMANCE_ONLY='%s' timeout 60 '%s' "
             "--filter 'conformance/calls_over_shm*' 2>&1",
             only, self);
    return popen(command, "re");
}

Test(conformance, a_start_that_there_is_not_fails_in_words)
{
    static const char *const names[] = {"smh:2", "shm", "shm:9", "shm:2:", "shm:2:x", "shm:2 "};

    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char text[8192] = "";
        FILE *said = call_again(names[i]);

        cr_assert_not_null(said);
        cr_expect_gt(fread(text, 1, sizeof text - 1, said), 0);
        cr_expect_neq(pclose(said), 0, "«%s» passes", names[i]);
        cr_expect_not_null(
            strstr(text, "names nothing that there is; it may be one of shm:1, shm:2"), "«%s»: %s",
            names[i], text);
    }
}

/* ---- the table ------------------------------------------------------------------------------- */

/* What a rank told as rows. */
static void copy_rows(FILE *file, const char *line)
{
    static const char mark[] = "served\t";
    const size_t length = sizeof mark - 1;

    while (line && *line) {
        const char *end = strchr(line, '\n');

        if (end && !strncmp(line, mark, length))
            fwrite(line + length, 1, (size_t)(end + 1 - line) - length, file);
        line = end ? end + 1 : NULL;
    }
}

static void write_rows(FILE *file, const struct place *place, int members)
{
    const struct start start = {.place = place, .members = members, .test = "table"};
    struct ranks *ranks = start_ranks(&start, "served");

    cr_assert_not_null(ranks);
    cr_assert(ranks_wait(ranks) && ranks_passed(ranks));
    for (int rank = 0; rank < members; rank++)
        copy_rows(file, ranks_result(ranks, rank)->out);
    ranks_free(ranks);
}

Test(conformance, the_table_can_be_written_anew)
{
    FILE *file;

    if (strcmp(conformance_mode(), "table") != 0)
        cr_skip_test("only with TUTTI_CONFORMANCE=table");
    file = fopen(CONFORMANCE_TABLE, "we");
    cr_assert_not_null(file);
    fputs(served_head, file);
    for (int i = 0; i < PLACES_COUNT; i++)
        for (const struct place *place = places[i]; place->name; place++)
            for (int members = 1; members <= MEMBERS_MAX; members++)
                if (share_of(place, members))
                    write_rows(file, place, members);
    cr_assert(!ferror(file) && !fclose(file));
}
