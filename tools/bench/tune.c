/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/tune.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench/measure.h"
#include "bench/operation.h"
#include "bench/report.h"
#include "bench/stats.h"
#include "bench/tune_file.h"
#include "bench/tune_store.h"
#include "cli.h"

enum {
    TURNS = 5,
    STEPS = 6,         /* factors of two from the standard value, at most, up and down */
    LONGEST = 16 << 20 /* bytes; no size is above it */
};

static const double noise = 0.05;

/* What the threshold counts, with n ranks. */
enum unit {
    BYTES,       /* of the vector or block */
    OF_ALL,      /* of the vectors of all ranks together */
    OF_A_THIRD,  /* of the vector, times (3 / n)^3 */
    OF_AN_EIGHTH /* of the vector, times (8 / n)^2 */
};

struct subject {
    const char *threshold, *operation;
    enum unit unit;
    uint64_t most;                                    /* that it may be */
    bool from;                                        /* calls of just that size are long ones */
    enum { ANY_RANKS, TWO_RANKS, OTHER_RANKS } ranks; /* whose calls show it */
};

/* The largest value of a tuning file. */
#define ANY (UINT64_C(1) << 40)

/* Those between two algorithms; others cut long calls. */
static const struct subject subjects[] = {
    {"inline_max", "all_reduce", BYTES, 4096, false, OTHER_RANKS},
    {"inline_max", "broadcast", BYTES, 4096, false, TWO_RANKS},
    {"inline_exchange_max", "all_reduce", BYTES, 4096, false, TWO_RANKS},
    {"staged_one_phase_max", "all_reduce", OF_ALL, ANY, false, ANY_RANKS},
    {"rounds_max", "all_reduce", OF_AN_EIGHTH, ANY, false, ANY_RANKS},
    {"all_reduce_recursive_doubling_max", "all_reduce", BYTES, ANY, false, ANY_RANKS},
    {"all_reduce_ring_min", "all_reduce", OF_A_THIRD, ANY, false, ANY_RANKS},
    {"broadcast_scatter_all_gather_min", "broadcast", BYTES, ANY, true, ANY_RANKS},
    {"reduce_parts_min", "reduce", BYTES, ANY, true, ANY_RANKS},
    {"all_gather_ring_min", "all_gather", BYTES, ANY, true, ANY_RANKS},
    {"all_to_all_bruck_max", "all_to_all", BYTES, ANY, false, ANY_RANKS},
    {"reduce_scatter_halving_max", "reduce_scatter", BYTES, ANY, false, ANY_RANKS},
    {"gather_binomial_max", "gather", BYTES, ANY, false, ANY_RANKS},
    {"scatter_binomial_max", "scatter", BYTES, ANY, false, ANY_RANKS},
};

enum side { FOR_SHORT, FOR_LONG, SIDES };

enum winner { SHORT_WINS, LONG_WINS, NOBODY_WINS, ONE_ALGORITHM };

/* What calls of one size took. */
struct outcome {
    enum winner winner;
    uint64_t bytes;
    double us[SIDES];
    const char *algorithms[SIDES];
    const char *link; /* NULL: not known, or not the same in all turns */
};

struct tuning {
    const struct tune_job *job;
    struct tune_file *file;
    GPtrArray *unused; /* names of thresholds that decide about no call */
    bool is_crowded;   /* all ranks are on one host and outnumber its CPUs */
    struct tune_store store;

    /* of the threshold that is being measured */
    const struct subject *subject;
    const struct bench_operation *operation;
    uint64_t standard;  /* of these ranks */
    uint64_t uncrowded; /* where each rank has a CPU; not above it */
    tutti_context *contexts[SIDES];
    tutti_group *worlds[SIDES];
};

/* The file in memory; one in a process, like the variable that names it. */
static int memory_file = -1;

bool tune_knows(const char *operation)
{
    for (size_t i = 0; i < G_N_ELEMENTS(subjects); i++)
        if (strcmp(subjects[i].operation, operation) == 0)
            return true;
    return false;
}

bool tune_prepare(void)
{
    g_autofree char *path = NULL;

    memory_file = memfd_create("tutti-tuning", MFD_CLOEXEC);
    path = g_strdup_printf("/proc/self/fd/%d", memory_file);
    if (memory_file >= 0 && g_setenv("TUTTI_TUNING", path, TRUE))
        return true;
    cli_say("bench", "no file in memory for thresholds: %s", strerror(errno));
    return false;
}

/* ---- sizes ---- */

static double bytes_in_unit(const struct tuning *t)
{
    const double size = t->job->size, thirds = size / 3, eighths = size / 8;

    switch (t->subject->unit) {
    case OF_ALL:
        return 1 / size;
    case OF_A_THIRD:
        return thirds * thirds * thirds;
    case OF_AN_EIGHTH:
        return eighths * eighths;
    case BYTES:
        break;
    }
    return 1;
}

/* Of a call, so many factors of two away from the standard value; in whole elements. */
static uint64_t bytes_at(const struct tuning *t, int step)
{
    const uint64_t element = tutti_dtype_size(t->job->settings->dtype);
    const double bytes = ldexp((double)t->standard * bytes_in_unit(t), step);

    return MAX((uint64_t)bytes / element, 1) * element;
}

/* The threshold between the sizes of two steps. */
static uint64_t value_between(const struct tuning *t, int low, int high)
{
    const double value = (double)t->standard * exp2((low + high) / 2.0);

    return MIN((uint64_t)value, t->subject->most);
}

/* Below 0 if the standard value is above every size. */
static int highest_step(const struct tuning *t)
{
    const uint64_t most = MIN(t->subject->most, LONGEST);
    int step = 0;

    while (step < STEPS && t->standard << (step + 1) <= most)
        step++;
    while (step <= 0 && t->standard >> -step > most)
        step--;
    return step;
}

/* As far down as the value of ranks with a CPU each lies, too. */
static int lowest_step(const struct tuning *t)
{
    int step = -STEPS;

    while (t->standard >> -step > t->uncrowded)
        step--;
    return step;
}

/* ---- worlds ---- */

/* What tutti_init() and tutti_info_list() read from now on. */
static tutti_status write_memory(const char *text)
{
    const size_t length = strlen(text);

    if (ftruncate(memory_file, 0) == 0 && pwrite(memory_file, text, length, 0) == (ssize_t)length)
        return TUTTI_OK;
    return TUTTI_ERR_NO_MEMORY;
}

static tutti_status open_world(struct tuning *t, enum side side)
{
    const uint64_t value = side == FOR_LONG ? 0 : t->subject->most;
    g_autofree char *text = tune_file_lines(t->file, t->subject->threshold, value);
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_status status = write_memory(text);

    if (!status)
        status = tutti_context_create(&t->contexts[side]);
    options.backend = t->job->settings->backend;
    options.context = t->contexts[side];
    if (t->store.store) {
        options.store = t->store.store;
        options.rank = t->job->rank;
        options.world_size = t->job->size;
    }
    return status ? status : tutti_init(&options, &t->worlds[side]);
}

static tutti_status close_worlds(struct tuning *t)
{
    tutti_status status = TUTTI_OK;

    for (int side = 0; side < SIDES; side++) {
        if (t->worlds[side] && !status)
            status = tutti_group_destroy(t->worlds[side]);
        if (t->contexts[side] && !status)
            status = tutti_context_destroy(t->contexts[side]);
        t->worlds[side] = NULL;
        t->contexts[side] = NULL;
    }
    return status;
}

/* ---- one size ---- */

static struct bench_cell cell_of(const struct tuning *t, enum side side, uint64_t bytes)
{
    const struct tune_job *job = t->job;
    const struct bench_settings *settings = job->settings;

    return (struct bench_cell){
        .call = {.world = t->worlds[side],
                 .rank = job->rank,
                 .size = job->size,
                 .operation = t->operation,
                 .dtype = settings->dtype,
                 .op = job->op,
                 .count = (int64_t)(bytes / tutti_dtype_size(settings->dtype)),
                 .window = 1},
        .link = job->link,
        .touched = settings_touch(settings, bytes),
        .time_s = settings->time_s / SIDES / TURNS};
}

static enum winner judge(const double *ratios)
{
    double sorted[TURNS], low, high;

    memcpy(sorted, ratios, sizeof sorted);
    stats_sort(sorted, TURNS);
    const double middle = stats_median(sorted, TURNS, &low, &high);

    if (sorted[0] > 1 && middle > 1 + noise)
        return SHORT_WINS;
    if (sorted[TURNS - 1] < 1 && middle < 1 / (1 + noise))
        return LONG_WINS;
    return NOBODY_WINS;
}

static tutti_status take_turns(struct bench_cell cells[SIDES], struct outcome *outcome)
{
    double ratios[TURNS], us[SIDES][TURNS], low, high;
    bool changed = false;

    for (int turn = 0; turn < TURNS; turn++) {
        for (int side = 0; side < SIDES; side++) {
            struct bench_result result = {0};
            const tutti_status status = measure_cell(&cells[side], &result);

            if (status)
                return status;
            us[side][turn] = result.p50_us;
            changed = changed || (outcome->link && g_strcmp0(outcome->link, result.link) != 0);
            outcome->link = result.link;
        }
        ratios[turn] = us[FOR_LONG][turn] / us[FOR_SHORT][turn];
    }
    outcome->winner = changed ? NOBODY_WINS : judge(ratios);
    if (changed)
        outcome->link = NULL;
    for (int side = 0; side < SIDES; side++) {
        stats_sort(us[side], TURNS);
        outcome->us[side] = stats_median(us[side], TURNS, &low, &high);
    }
    return TUTTI_OK;
}

/* Whether the two worlds take different algorithms. */
static tutti_status find_algorithms(const struct tuning *t, struct bench_cell cells[SIDES],
                                    struct outcome *outcome, bool *ret_differ)
{
    const char *provider;
    tutti_status status = TUTTI_OK;
    double differ;

    for (int side = 0; side < SIDES && !status; side++)
        status = call_served(&cells[side].call, &provider, &outcome->algorithms[side]);
    differ = g_strcmp0(outcome->algorithms[FOR_SHORT], outcome->algorithms[FOR_LONG]) != 0;
    if (!status)
        status = measure_over_ranks(t->job->world, &differ, 1, TUTTI_MAX);
    *ret_differ = differ > 0;
    return status;
}

static tutti_status measure_open_size(const struct tuning *t, struct bench_cell cells[SIDES],
                                      struct outcome *outcome)
{
    bool differ;
    tutti_status status = find_algorithms(t, cells, outcome, &differ);

    if (!status && differ)
        status = take_turns(cells, outcome);
    return status;
}

static tutti_status measure_size(const struct tuning *t, uint64_t bytes, struct outcome *outcome)
{
    struct bench_cell cells[SIDES];
    double refused = 0;
    tutti_status status;

    *outcome = (struct outcome){.winner = ONE_ALGORITHM, .bytes = bytes};
    for (int side = 0; side < SIDES; side++) {
        cells[side] = cell_of(t, side, bytes);
        refused += !call_open(&cells[side].call);
    }
    status = measure_over_ranks(t->job->world, &refused, 1, TUTTI_MAX);
    if (!status)
        status = refused > 0 ? TUTTI_ERR_NO_MEMORY : measure_open_size(t, cells, outcome);
    for (int side = 0; side < SIDES; side++)
        call_close(&cells[side].call);
    return status;
}

/* ---- one threshold ---- */

/* What the operation's name says already is left out. */
static const char *way_of(const struct outcome *outcome, enum side side, const char *operation)
{
    const char *name = outcome->algorithms[side] ? outcome->algorithms[side] : "-";
    const size_t length = strlen(operation);

    return g_str_has_prefix(name, operation) && name[length] == '_' ? name + length + 1 : name;
}

static void print_outcome(const struct tuning *t, const struct outcome *outcome)
{
    static const char *const words[] = {"first wins", "second wins", "no winner"};
    const char *operation = t->operation->name;

    if (t->job->rank || outcome->winner == ONE_ALGORITHM)
        return;
    printf("%10llu  %10.4g %-18s  %10.4g %-18s  %-4s %s\n", (unsigned long long)outcome->bytes,
           outcome->us[FOR_SHORT], way_of(outcome, FOR_SHORT, operation), outcome->us[FOR_LONG],
           way_of(outcome, FOR_LONG, operation), outcome->link ? outcome->link : "-",
           words[outcome->winner]);
    fflush(stdout);
}

/* How much faster a call gets than with the standard value; 1: that has chosen right. */
static double gain_of(const struct tuning *t, int step, const struct outcome *outcome)
{
    const bool is_long = step > 0 || (step == 0 && t->subject->from);
    const double *us = outcome->us;

    if (outcome->winner == SHORT_WINS && is_long)
        return us[FOR_LONG] / us[FOR_SHORT];
    if (outcome->winner == LONG_WINS && !is_long)
        return us[FOR_SHORT] / us[FOR_LONG];
    return 1;
}

struct found {
    int low, high; /* the steps that the threshold lies between */
    bool measured; /* two algorithms were compared at some size */
    double gain;
    struct outcome best; /* where the gain is largest */
};

/* Where nobody wins, the standard value is right: the search goes on away from there. */
static void narrow(struct found *found, int step, enum winner winner)
{
    if (winner == SHORT_WINS || winner == ONE_ALGORITHM || (winner == NOBODY_WINS && step < 0))
        found->low = step;
    else
        found->high = step;
    found->measured = found->measured || winner != ONE_ALGORITHM;
}

static tutti_status search(const struct tuning *t, struct found *ret_found)
{
    struct found *found = ret_found;
    struct outcome outcome = {0};
    int step = MIN(0, highest_step(t));

    *found = (struct found){.low = lowest_step(t) - 1, .high = highest_step(t) + 1, .gain = 1};
    while (step < found->high && found->high - found->low > 1) {
        const tutti_status status = measure_size(t, bytes_at(t, step), &outcome);

        if (status)
            return status;
        print_outcome(t, &outcome);
        const double gain = gain_of(t, step, &outcome);

        if (gain > found->gain) {
            found->gain = gain;
            found->best = outcome;
        }
        if (step == 0 && outcome.winner == NOBODY_WINS) {
            found->measured = true;
            break;
        }
        narrow(found, step, outcome.winner);
        step = found->measured ? (found->low + found->high) / 2 : step + 1;
    }
    return TUTTI_OK;
}

static void keep(struct tuning *t)
{
    static const char why[] = "no size shows a better one";
    const char *name = t->subject->threshold;

    tune_file_keep(t->file, name, t->standard, why);
    if (t->job->rank == 0)
        printf("# %s = %llu is kept: %s\n", name, (unsigned long long)t->standard, why);
}

static void change(struct tuning *t, const struct found *found)
{
    const char *name = t->subject->threshold;
    const struct outcome *best = &found->best;
    const enum side fast = best->winner == SHORT_WINS ? FOR_SHORT : FOR_LONG;
    const uint64_t value = value_between(t, found->low, found->high);
    g_autofree char *why =
        g_strdup_printf("%s of %llu bytes takes %.4g us instead of %.4g us%s%s", t->operation->name,
                        (unsigned long long)best->bytes, best->us[fast], best->us[!fast],
                        best->link ? ", link " : "", best->link ? best->link : "");

    tune_file_set(t->file, name, t->standard, value, why);
    if (t->job->rank == 0)
        printf("# %s = %llu instead of %llu: %s\n", name, (unsigned long long)value,
               (unsigned long long)t->standard, why);
}

static void conclude(struct tuning *t, const struct found *found)
{
    if (!found->measured)
        g_ptr_array_add(t->unused, (gpointer)t->subject->threshold);
    else if (found->gain > 1)
        change(t, found);
    else
        keep(t);
}

static void note_unused(struct tuning *t)
{
    g_autoptr(GString) words = g_string_new("no call of these ranks depends on: ");

    for (guint i = 0; i < t->unused->len; i++)
        g_string_append_printf(words, "%s%s", i ? ", " : "", (const char *)t->unused->pdata[i]);
    if (!t->unused->len)
        return;
    tune_file_note(t->file, words->str);
    if (t->job->rank == 0)
        printf("# %s\n", words->str);
}

/* "32768; …", or "32768, crowded 8388608; …". */
static void take_standard(const char *section, const char *name, const char *value, void *user)
{
    static const char crowded[] = ", crowded ";
    struct tuning *t = user;
    char *end;

    if (strcmp(section, "tuning") != 0 || strcmp(name, t->subject->threshold) != 0)
        return;
    t->standard = t->uncrowded = g_ascii_strtoull(value, &end, 10);
    if (t->is_crowded && g_str_has_prefix(end, crowded))
        t->standard = g_ascii_strtoull(end + strlen(crowded), NULL, 10);
}

/* Ranks may differ in what they see of the CPUs, and must not differ in the sizes that they measure. */
static tutti_status find_crowded(struct tuning *t)
{
    double crowded = t->job->facts->hosts == 1 && t->job->size > t->job->facts->usable_cpus;
    const tutti_status status = measure_over_ranks(t->job->world, &crowded, 1, TUTTI_MAX);

    t->is_crowded = crowded > 0;
    return status;
}

static tutti_status tune(struct tuning *t)
{
    struct found found;
    tutti_status status = TUTTI_OK;

    for (int side = 0; side < SIDES && !status; side++)
        status = open_world(t, side);
    if (!status)
        status = search(t, &found);
    if (!status)
        status = close_worlds(t);
    if (!status)
        conclude(t, &found);
    return status;
}

static bool is_wanted(const struct tuning *t)
{
    if (t->subject->ranks && (t->job->size == 2) != (t->subject->ranks == TWO_RANKS))
        return false;
    return g_ptr_array_find(t->job->settings->operations, t->operation, NULL);
}

static tutti_status tune_all(struct tuning *t)
{
    tutti_status status = TUTTI_OK;

    for (size_t i = 0; i < G_N_ELEMENTS(subjects) && !status; i++) {
        t->subject = &subjects[i];
        t->operation = operation_find(subjects[i].operation);
        if (!is_wanted(t))
            continue;
        t->standard = t->uncrowded = 0;
        status = write_memory("");
        if (!status)
            status = tutti_info_list(take_standard, t);
        if (!status)
            status = tune(t);
    }
    note_unused(t);
    return status;
}

static void print_head(const struct tune_job *job)
{
    g_autofree char *origin = report_origin(job->facts);

    printf("# %s\n", origin);
    printf("# Each row compares the algorithm for shorter calls with the one for longer calls;\n"
           "# times in us. A winner is faster in each of %d turns, and by more than %g %%.\n",
           TURNS, 100 * noise);
    fflush(stdout);
}

int tune_run(const struct tune_job *job)
{
    struct tuning t = {.job = job, .file = tune_file_new(), .unused = g_ptr_array_new()};
    tutti_status status;
    int code = EXIT_OK;

    if (job->rank == 0)
        print_head(job);
    status = tune_store_open(job, &t.store);
    if (!status)
        status = find_crowded(&t);
    if (!status)
        status = tune_all(&t);
    if (status) {
        cli_say("bench", "rank %d of %d: %s: %s", job->rank, job->size,
                t.subject ? t.subject->threshold : "store",
                status == TUTTI_ERR_NO_MEMORY ? "no memory" : cli_last_error());
        code = EXIT_FAILED;
    } else if (job->rank == 0 && !tune_file_write(t.file, job->settings, job->facts)) {
        code = EXIT_FAILED;
    }
    tune_store_close(&t.store);
    tune_file_free(t.file);
    g_ptr_array_unref(t.unused);
    return code;
}
