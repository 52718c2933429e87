/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/settings.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "bench/operation.h"
#include "bench/plot.h"
#include "bench/tune.h"
#include "cli.h"

enum {
    FROM = 8,
    TO = 16 << 20,
    FACTOR = 8,
    FACTOR_MAX = 1 << 20,
    WINDOW = 64,
    WINDOW_MAX = 65536,
    TOUCHED_ABOVE = 512
};

static const double standard_time_s = 2, longest_time_s = 3600;

const char *const bench_memory_names[] = {[BENCH_MEMORY_ORDINARY] = "ordinary",
                                          [BENCH_MEMORY_ALLOCATED] = "allocated",
                                          [BENCH_MEMORY_REGISTERED] = "registered",
                                          NULL};

static const char all[] = "all";

/* ---- names ---- */

static const char *const dtypes[] = {
#define DTYPE(NAME, name, code, bits) name,
    TUTTI_DTYPE_LIST(DTYPE) TUTTI_MOVED_DTYPE_LIST(DTYPE)
#undef DTYPE
        NULL};

static const char *const ops[] = {
#define OP(NAME, name, number) name,
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
        NULL};

/* The place of `word` in `names`; -1 after having said that it is not there. */
static int place_of(const char *what, const char *word, const char *const *names)
{
    for (int i = 0; names[i]; i++)
        if (strcmp(names[i], word) == 0)
            return i;
    cli_unknown("bench", what, word, names);
    return -1;
}

static void add_operation(const struct bench_operation *operation, void *user)
{
    g_ptr_array_add(user, (gpointer)operation);
}

static bool parse_operation(const char *word, GPtrArray *operations)
{
    const struct bench_operation *operation = operation_find(word);
    g_autofree char *names = operation_names(" ");
    g_auto(GStrv) list = g_strsplit(names, " ", -1);

    if (operation) {
        add_operation(operation, operations);
        return true;
    }
    if (strcmp(word, all) == 0) {
        operation_each(add_operation, operations);
        return true;
    }
    if (strcmp(word, "send") == 0 || strcmp(word, "recv") == 0) {
        cli_usage("bench",
                  "a %s is half of a message; measure one of its patterns: ping_pong, both_ways or "
                  "burst",
                  word);
        return false;
    }
    place_of("operation", word, (const char *const *)list);
    return false;
}

static bool parse_operations(int argc, char **argv, struct bench_settings *settings)
{
    for (int i = 0; i < argc; i++)
        if (!parse_operation(argv[i], settings->operations))
            return false;
    return argc || parse_operation(settings->tune ? all : "all_reduce", settings->operations);
}

/* ---- sizes ---- */

static bool parse_size(const char *option, const char *text, uint64_t *ret_bytes)
{
    if (!text || (cli_parse_size(text, ret_bytes) && *ret_bytes > 0 && *ret_bytes < INT64_MAX / 2))
        return true;
    cli_usage("bench", "%s '%s' is not a size; write one such as 8, 4096, 64K or 1M", option, text);
    return false;
}

static bool parse_list(const char *list, GArray *sizes)
{
    g_auto(GStrv) words = g_strsplit(list, ",", -1);

    for (char **word = words; *word; word++) {
        uint64_t bytes;

        if (!parse_size("--sizes", *word, &bytes))
            return false;
        g_array_append_val(sizes, bytes);
    }
    return true;
}

static bool parse_range(const struct bench_given *given, GArray *sizes)
{
    uint64_t from = FROM, to = TO;
    int factor = FACTOR;

    if (!parse_size("--from", given->from, &from) || !parse_size("--to", given->to, &to))
        return false;
    if (given->factor && !cli_parse_int(given->factor, 2, FACTOR_MAX, &factor)) {
        cli_usage("bench", "--factor '%s': a number from 2 to %d", given->factor, FACTOR_MAX);
        return false;
    }
    if (given->from && !given->to)
        to = MAX(to, from);
    if (given->to && !given->from)
        from = MIN(from, to);
    if (from > to) {
        cli_usage("bench", "--from %s is more than --to %s", given->from, given->to);
        return false;
    }
    for (uint64_t bytes = from; bytes <= to; bytes *= (uint64_t)factor) {
        g_array_append_val(sizes, bytes);
        if (bytes > to / (uint64_t)factor)
            break;
    }
    return true;
}

static bool parse_sizes(const struct bench_given *given, GArray *sizes)
{
    if (!given->sizes)
        return parse_range(given, sizes);
    if (given->from || given->to || given->factor) {
        cli_usage("bench", "--sizes lists all sizes: leave out --from, --to and --factor");
        return false;
    }
    return *given->sizes ? parse_list(given->sizes, sizes)
                         : parse_size("--sizes", given->sizes, &(uint64_t){0});
}

/* ---- the rest ---- */

static bool parse_types(const struct bench_given *given, struct bench_settings *settings)
{
    const char *memory = given->memory ? given->memory : bench_memory_names[0];
    const int dtype = place_of("dtype", settings->dtype_name, dtypes);
    const int op = dtype < 0 ? -1 : place_of("op", settings->op_name, ops);
    const int kind = op < 0 ? -1 : place_of("memory", memory, bench_memory_names);

    if (kind < 0)
        return false;
    settings->dtype = tutti_dtype_parse(settings->dtype_name);
    settings->op = op;
    settings->memory = (enum bench_memory)kind;
    return true;
}

/* Of "all" those that reduce are left out if the op does not take the dtype. */
static bool fit_reductions(const struct bench_given *given, bool named,
                           struct bench_settings *settings)
{
    GPtrArray *operations = settings->operations;

    if (tutti_reduce_op_meaning(settings->op, settings->dtype))
        return true;
    for (guint i = operations->len; i > 0; i--) {
        const struct bench_operation *operation = operations->pdata[i - 1];

        if (!(operation->traits & TUTTI_OPERATION_REDUCES))
            continue;
        if (named || given->op) {
            cli_usage("bench",
                      "%s: the op %s does not take %s; `tutti info --matrix` lists what it "
                      "takes",
                      operation->name, settings->op_name, settings->dtype_name);
            return false;
        }
        g_ptr_array_remove_index(operations, i - 1);
    }
    return true;
}

static bool parse_number(const char *option, const char *text, double low, double high,
                         const char *what, double *ret_value)
{
    char *end;

    if (!text)
        return true;

    const double value = g_ascii_strtod(text, &end);

    if (end == text || *end || g_ascii_isspace(*text) || !(value >= low && value <= high)) {
        cli_usage("bench", "%s '%s': %s from %g to %g", option, text, what, low, high);
        return false;
    }
    *ret_value = value;
    return true;
}

static bool parse_rest(const struct bench_given *given, struct bench_settings *settings)
{
    if (given->root && !cli_parse_int(given->root, 0, G_MAXINT, &settings->root)) {
        cli_usage("bench", "--root '%s' is not a rank", given->root);
        return false;
    }
    if (given->window && !cli_parse_int(given->window, 1, WINDOW_MAX, &settings->window)) {
        cli_usage("bench", "--window '%s': a number of messages from 1 to %d", given->window,
                  WINDOW_MAX);
        return false;
    }
    if (given->touched && given->hot) {
        cli_usage("bench", "--touched and --hot exclude each other");
        return false;
    }
    if (given->json && given->csv) {
        cli_usage("bench", "--json and --csv exclude each other");
        return false;
    }
    if (given->fail_above && !given->against) {
        cli_usage("bench", "--fail-above needs --against FILE");
        return false;
    }
    return parse_number("--time", given->time, 0.001, longest_time_s, "a number of seconds",
                        &settings->time_s) &&
           parse_number("--fail-above", given->fail_above, 0, 1e6, "a percentage",
                        &settings->fail_above);
}

/* ---- tuning ---- */

static void take_tuning_file(const char *section, const char *name, const char *value, void *user)
{
    char **path = user;

    if (strcmp(section, "tuning") == 0 && strcmp(name, "file") == 0 && strcmp(value, "none") != 0)
        *path = g_strdup(value);
}

static bool parse_tune(const struct bench_given *given, struct bench_settings *settings)
{
    const struct {
        const char *name;
        bool is_given;
    } excluded[] = {
        {"--sizes", given->sizes},   {"--from", given->from},       {"--to", given->to},
        {"--factor", given->factor}, {"--memory", given->memory},   {"--root", given->root},
        {"--window", given->window}, {"--async", given->async},     {"--no-check", given->no_check},
        {"--json", given->json},     {"--csv", given->csv},         {"--plot", given->plot},
        {"--save", given->save},     {"--against", given->against},
    };

    if (!given->tune)
        return true;
    for (size_t i = 0; i < G_N_ELEMENTS(excluded); i++)
        if (excluded[i].is_given) {
            cli_usage("bench", "--tune chooses sizes and measures in its own way; leave out %s",
                      excluded[i].name);
            return false;
        }
    settings->tune = *given->tune ? g_strdup(given->tune) : NULL;
    settings->tune_is_found = !settings->tune;
    if (!settings->tune)
        tutti_info_list(take_tuning_file, &settings->tune);
    if (!settings->tune)
        cli_usage("bench", "--tune: neither TUTTI_TUNING nor HOME tells where tuning files are "
                           "looked for; name one: --tune=FILE");
    return settings->tune;
}

/* False: after --tune comes a file as a word of its own, which is an operation. */
static bool check_tune_word(int argc, char **argv, const struct bench_given *given)
{
    if (!given->tune || *given->tune || !argc || !strpbrk(argv[0], "./"))
        return true;
    cli_usage("bench", "unknown operation '%s'; for a file of that name: --tune=%s", argv[0],
              argv[0]);
    return false;
}

/* Those that were named must have a threshold. */
static bool fit_tuning(const struct bench_settings *settings, bool named)
{
    for (guint i = 0; settings->tune && named && i < settings->operations->len; i++) {
        const struct bench_operation *operation = settings->operations->pdata[i];

        if (tune_knows(operation->name))
            continue;
        cli_usage("bench", "no threshold decides about %s; leave it out", operation->name);
        return false;
    }
    return true;
}

/* Whole elements, at least one; sizes that thereby become equal are measured once. */
static void round_sizes(struct bench_settings *settings)
{
    const uint64_t element = tutti_dtype_size(settings->dtype);
    GArray *sizes = settings->sizes;
    guint kept = 0;

    for (guint i = 0; i < sizes->len; i++) {
        const uint64_t bytes = MAX(g_array_index(sizes, uint64_t, i) / element, 1) * element;

        if (!kept || g_array_index(sizes, uint64_t, kept - 1) != bytes)
            g_array_index(sizes, uint64_t, kept++) = bytes;
    }
    g_array_set_size(sizes, kept);
}

bool settings_parse(const struct bench_given *given, int argc, char **argv,
                    struct bench_settings *ret_settings)
{
    struct bench_settings *settings = ret_settings;

    *settings = (struct bench_settings){
        .operations = g_ptr_array_new(),
        .sizes = g_array_new(FALSE, FALSE, sizeof(uint64_t)),
        .backend = given->backend,
        .dtype_name = given->dtype ? given->dtype : "f32",
        .op_name = given->op ? given->op : "sum",
        .touch = given->touched ? BENCH_TOUCH_ALWAYS
                 : given->hot   ? BENCH_TOUCH_NEVER
                                : BENCH_TOUCH_LONG,
        .format = given->json  ? BENCH_JSON
                  : given->csv ? BENCH_CSV
                               : BENCH_TABLE,
        .async = given->async,
        .check = !given->no_check,
        .root = -1,
        .window = WINDOW,
        .time_s = standard_time_s,
        .fail_above = -1,
        .plot = given->plot,
        .save = given->save,
        .against = given->against,
    };
    const bool named = argc != 1 || strcmp(argv[0], all) != 0;

    if (!check_tune_word(argc, argv, given) || !parse_tune(given, settings) ||
        !parse_operations(argc, argv, settings) || !parse_sizes(given, settings->sizes) ||
        !parse_types(given, settings) ||
        !fit_reductions(given, named && !(settings->tune && !argc), settings) ||
        !fit_tuning(settings, named && argc) || !parse_rest(given, settings))
        return false;
    round_sizes(settings);
    return true;
}

void settings_clear(struct bench_settings *settings)
{
    g_clear_pointer(&settings->operations, g_ptr_array_unref);
    g_clear_pointer(&settings->sizes, g_array_unref);
    g_clear_pointer(&settings->tune, g_free);
}

bool settings_touch(const struct bench_settings *settings, uint64_t bytes)
{
    return settings->touch == BENCH_TOUCH_ALWAYS ||
           (settings->touch == BENCH_TOUCH_LONG && bytes > TOUCHED_ABOVE);
}

/* ---- what they need ---- */

/* A result is written beside `path` and renamed: a device there would be replaced, as root even /dev/null. */
static bool can_write(const char *option, const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);
    const bool is_there =
        g_file_test(path, G_FILE_TEST_EXISTS) || g_file_test(path, G_FILE_TEST_IS_SYMLINK);

    if (!path[0] || (is_there && !g_file_test(path, G_FILE_TEST_IS_REGULAR)))
        cli_say("bench", "%s '%s' is not a regular file", option, path);
    else if (access(folder, W_OK | X_OK) < 0)
        cli_say("bench", "%s '%s': files cannot be made in %s: %s", option, path, folder,
                strerror(errno));
    else
        return true;
    return false;
}

/* The folder of the user's own file is made. */
static bool can_tune(const struct bench_settings *settings)
{
    g_autofree char *folder = g_path_get_dirname(settings->tune);

    if (settings->tune_is_found && g_mkdir_with_parents(folder, 0700) < 0) {
        cli_say("bench", "--tune: the folder %s cannot be made: %s", folder, strerror(errno));
        return false;
    }
    return can_write("--tune", settings->tune);
}

bool settings_check_files(const struct bench_settings *settings)
{
    if (settings->tune)
        return can_tune(settings);
    if (settings->save && !can_write("--save", settings->save))
        return false;
    return !settings->plot || (can_write("--plot", settings->plot) && plot_is_possible());
}

bool settings_fit(const struct bench_settings *settings, int ranks)
{
    if (settings->tune && ranks < 2) {
        cli_usage("bench", "--tune needs two ranks or more");
        return false;
    }
    for (guint i = 0; i < settings->operations->len; i++) {
        const struct bench_operation *operation = settings->operations->pdata[i];

        if (operation->is_message && ranks < 2) {
            cli_usage("bench", "%s needs two ranks", operation->name);
            return false;
        }
        if (operation->is_message && settings->root == 0) {
            cli_usage("bench",
                      "--root 0: the messages of %s go between rank 0 and another rank, 1 "
                      "to %d",
                      operation->name, ranks - 1);
            return false;
        }
    }
    if (settings->root >= ranks) {
        cli_usage("bench", "--root %d: the ranks of %d are 0 to %d", settings->root, ranks,
                  ranks - 1);
        return false;
    }
    return true;
}
