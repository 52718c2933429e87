/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti check`: runs the checks of a plugin in their order and reports, as text or as JSON. What
 * would only tell of a fault that was found before is not tried. */
#include "check/check_trial.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <tutti/version.h>

#include "cli.h"
#include "probe.h"
#include "verbs.h"

static const char summary[] =
    "Checks a plugin for tutti: the rules of its file and descriptor, what it does to the "
    "process\nthat loads it, what its transport and its own collectives promise, and calls of the "
    "API by\nseveral ranks over it.\nThe plugin's code runs in separate processes. Publish the "
    "report with a release of the plugin.";

static const char description[] =
    "A remark is not a failure. Exit code: 0 if no check failed, 1 if one did, 2 for a "
    "wrong\ncommand line.\n\nExamples:\n  tutti check ./libtutti-mine.so\n  tutti check --json "
    "./libtutti-mine.so > report.json\n  tutti check --only 'transport.*' ./libtutti-mine.so\n  "
    "tutti check --thorough ./libtutti-mine.so\n";

enum { QUICK_S = 20, RANKS_S = 60, THOROUGH_TIMES = 10, RANKS = 4, FILE_MAX_MIB = 1024 };

static const struct check {
    const char *name; /* PART.NAME */
    const char *what;
    struct check_finding (*look)(const struct check_subject *subject); /* or */
    check_body *body;
    int members, deadline_s;
} checks[] = {
    {"file.name", "is called libtutti-NAME.so", check_file_name, NULL, 0, 0},
    {"file.exports", "exports tutti_plugin_v0 and nothing else", check_file_exports, NULL, 0, 0},
    {"file.links", "links nothing of tutti", check_file_links, NULL, 0, 0},
    {"file.relocations", "has no text relocations", check_file_relocations, NULL, 0, 0},
    {"file.stack", "needs no executable stack", check_file_stack, NULL, 0, 0},
    {"file.calls", "imports no function that ends or changes the process", check_file_calls, NULL,
     0, 0},
    {"plugin.accepted", "is accepted by libtutti: path, note, ABI, descriptor", NULL,
     check_core_accepts, 1, QUICK_S},
    {"plugin.descriptor", "has sizes, names and functions as its minor says", NULL,
     check_descriptor, 1, QUICK_S},
    {"transport.opens", "opens and closes an endpoint at once", NULL, check_opens, 1, QUICK_S},
    {"process.unchanged", "changes nothing of the process while loaded, used and unloaded", NULL,
     check_effects, 1, QUICK_S},
    {"transport.sizes", "delivers messages of every size, one at a time", NULL, check_sizes, 2,
     QUICK_S},
    {"transport.order", "delivers many in flight whole, each once, in their order", NULL,
     check_order, 2, QUICK_S},
    {"transport.both_ways", "sends and receives at once", NULL, check_both_ways, 2, QUICK_S},
    {"transport.late_receives", "waits for receives that come after the sends", NULL,
     check_late_receives, 2, QUICK_S},
    {"transport.latency", "takes no milliseconds for a small message", NULL, check_latency, 2,
     QUICK_S},
    {"transport.flood", "passes thousands of small messages", NULL, check_flood, 2, QUICK_S},
    {"transport.memory", "touches no memory but that of what is under way", NULL, check_memory, 2,
     QUICK_S},
    {"transport.host_memory", "uses nothing of the host's that it has released", NULL,
     check_host_memory, 2, QUICK_S},
    {"transport.cancel", "leaves the memory of what was cancelled alone", NULL, check_cancel, 2,
     QUICK_S},
    {"transport.two_endpoints", "keeps two endpoints of a process apart", NULL, check_two_endpoints,
     2, QUICK_S},
    {"transport.lanes", "keeps its lanes apart", NULL, check_lanes, 2, QUICK_S},
    {"transport.reach", "reaches the hosts that it says it reaches", NULL, check_reach, 2, QUICK_S},
    {"transport.short", "shows short messages whole, each once, in their order", NULL, check_short,
     2, QUICK_S},
    {"transport.pairs", "sends and takes two messages together, or neither", NULL, check_pairs, 2,
     QUICK_S},
    {"transport.too_long", "ends a receive with an error when the message is longer", NULL,
     check_too_long, 2, QUICK_S},
    {"transport.bad_address", "refuses addresses that are cut off", NULL, check_bad_address, 2,
     QUICK_S},
    {"transport.stranger", "takes no message of a process of another group", NULL, check_stranger,
     2, QUICK_S},
    {"transport.map", "maps memory that both processes write and read", NULL, check_map, 2,
     QUICK_S},
    {"transport.wakes", "wakes a sleeping process when something arrives", NULL, check_wakes, 2,
     QUICK_S},
    {"transport.killed_peer", "notices that a peer was killed", NULL, check_killed_peer, 2,
     QUICK_S},
    {"transport.gives_back", "gives back the descriptors and the memory of connections in close",
     NULL, check_gives_back, 2, QUICK_S},
    {"collectives.serves", "says the same of each call in every process, whenever it is asked",
     NULL, check_serves, 2, QUICK_S},
    {"device.opens", "opens its driver, and describes it and its devices", NULL, check_device_opens,
     1, RANKS_S},
    {"device.memory", "allocates memory, and tells whose an address is", NULL, check_device_memory,
     1, RANKS_S},
    {"device.copies", "copies to a device, on it, and back, in all sizes", NULL,
     check_device_copies, 1, RANKS_S},
    {"device.streams", "orders streams by events", NULL, check_device_streams, 1, RANKS_S},
    {"device.packing", "packs strided tensors and unpacks them, whole and in pieces", NULL,
     check_device_packing, 1, RANKS_S},
    {"device.reductions", "reduces every type, with the core's own results", NULL,
     check_device_reductions, 2, RANKS_S},
    {"device.factors", "multiplies every type by a factor", NULL, check_device_factors, 1, RANKS_S},
    {"device.word", "lets a stream wait for a word, and waits for nothing meanwhile", NULL,
     check_device_word, 1, RANKS_S},
    {"device.threads", "works for several threads at once", NULL, check_device_threads, 1, RANKS_S},
    {"ranks.barrier", "barriers of four ranks", NULL, check_rank_barrier, RANKS, RANKS_S},
    {"ranks.broadcast", "broadcasts from every root, in all sizes", NULL, check_rank_broadcast,
     RANKS, RANKS_S},
    {"ranks.all_reduce", "all_reduces in all sizes", NULL, check_rank_all_reduce, RANKS, RANKS_S},
    {"ranks.blocks", "reduce, gather, scatter, all_to_all and their forms, in all sizes", NULL,
     check_rank_blocks, RANKS, RANKS_S},
    {"ranks.types", "reductions of every type, each with the core's own result", NULL,
     check_rank_types, RANKS, RANKS_S},
    {"ranks.lengths", "reductions of all lengths around powers of two, of each type", NULL,
     check_rank_lengths, RANKS, RANKS_S},
    {"ranks.uneven", "blocks of different sizes and of none, from and to every root", NULL,
     check_rank_uneven, RANKS, RANKS_S},
    {"ranks.messages", "messages around a ring, and from any source", NULL, check_rank_messages,
     RANKS, RANKS_S},
    {"ranks.works", "many all_reduces in flight", NULL, check_rank_works, RANKS, RANKS_S},
    {"ranks.groups", "broadcasts in halves of the group", NULL, check_rank_groups, RANKS, RANKS_S},
    {"ranks.killed", "survivors of a killed rank return within two seconds", NULL,
     check_rank_killed, RANKS, RANKS_S},
};

static const char *const result_names[] = {
    [CHECK_PASSED] = "passed",
    [CHECK_REMARK] = "remark",
    [CHECK_FAILED] = "failed",
    [CHECK_SKIPPED] = "not tried",
};

struct row {
    const struct check *check;
    struct check_finding finding;
    double seconds;
};

struct report {
    struct check_subject subject;
    struct probed *about; /* what libtutti says of it */
    char *sha256;
    gsize bytes;
    struct row rows[G_N_ELEMENTS(checks)];
    int count, results[G_N_ELEMENTS(result_names)];
};

/* ---- running --------------------------------------------------------------------------------- */

static size_t part_length(const struct check *check)
{
    return strcspn(check->name, ".");
}

/* The check whose failure makes this one meaningless, NULL: none. What cannot be opened cannot be used; what has
 * ended or blocked a process would do so again; otherwise a failure of an earlier part does. A rule that a file or a process sees broken
 * says nothing about messages. */
static const char *spoiled_by(const struct report *report, const struct check *check)
{
    for (int i = 0; i < report->count; i++) {
        const struct check *other = report->rows[i].check;
        const bool decides = g_str_has_prefix(other->name, "plugin.") ||
                             g_str_has_prefix(other->name, "transport.") ||
                             g_str_has_prefix(other->name, "collectives.") ||
                             g_str_has_prefix(other->name, "device.");

        if (report->rows[i].finding.ended ||
            (other->body == check_opens && report->rows[i].finding.result == CHECK_FAILED))
            return other->name;
        if (decides && report->rows[i].finding.result == CHECK_FAILED &&
            (part_length(other) != part_length(check) ||
             strncmp(other->name, check->name, part_length(check)) != 0))
            return other->name;
    }
    return NULL;
}

static struct check_finding run(const struct report *report, const struct check *check)
{
    const char *spoiled = spoiled_by(report, check);
    const bool has_name = report->subject.name || check->look;

    if (spoiled)
        return (struct check_finding){CHECK_SKIPPED, g_strdup_printf("%s has failed", spoiled),
                                      false};
    if (!has_name)
        return (struct check_finding){
            CHECK_SKIPPED, g_strdup("file.name has failed: rename the file first"), false};
    if (check->look)
        return check->look(&report->subject);
    return check_in_children(&report->subject, check->body, check->members,
                             check->deadline_s * (report->subject.thorough ? THOROUGH_TIMES : 1));
}

static void run_all(struct report *report, const char *only,
                    void (*tell)(const struct row *row, const struct row *before))
{
    for (size_t i = 0; i < G_N_ELEMENTS(checks); i++) {
        struct row *row = &report->rows[report->count];
        const gint64 start = g_get_monotonic_time();

        if (only && !g_pattern_match_simple(only, checks[i].name))
            continue;
        row->check = &checks[i];
        row->finding = run(report, &checks[i]);
        row->seconds = (double)(g_get_monotonic_time() - start) / G_USEC_PER_SEC;
        report->count++;
        report->results[row->finding.result]++;
        if (tell)
            tell(row, report->count > 1 ? row - 1 : NULL);
    }
}

/* The command that runs a check again. */
static char *again(const struct report *report, const struct check *check)
{
    g_autofree char *path = g_shell_quote(report->subject.path);

    return g_strdup_printf("tutti check %s--only %s %s",
                           report->subject.thorough ? "--thorough " : "", check->name, path);
}

/* ---- text ------------------------------------------------------------------------------------ */

static char *system_words(void)
{
    struct utsname host;

    uname(&host);
    return g_strdup_printf("%s %s %s", host.sysname, host.release, host.machine);
}

static char *time_words(void)
{
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();

    return g_date_time_format(now, "%Y-%m-%dT%H:%M:%SZ");
}

static void print_head(const struct report *report)
{
    g_autofree char *host = system_words(), *when = time_words();
    const struct probed *about = report->about;

    printf("%s\n", report->subject.path);
    if (about->ready)
        printf("  %s, version %s, %s, ABI %u.%u\n", report->subject.name, about->version,
               about->license, about->abi_major, about->abi_minor);
    printf("  %zu bytes, sha256 %s\n", (size_t)report->bytes, report->sha256);
    printf("  tutti %s on %s, %s\n\n", tutti_version(), host, when);
}

/* Checks that one failure left untried have the same text, which is printed once. */
static void print_row(const struct row *row, const struct row *before)
{
    const struct check_finding *finding = &row->finding;
    const bool again = before && finding->result == CHECK_SKIPPED &&
                       before->finding.result == CHECK_SKIPPED &&
                       !g_strcmp0(finding->words, before->finding.words);

    printf("%-9s %-24s %s\n", result_names[finding->result], row->check->name, row->check->what);
    if (finding->words && !again)
        printf("%-9s   %s\n", "", finding->words);
    fflush(stdout);
}

static void print_end(const struct report *report)
{
    for (int i = 0; i < report->count; i++) {
        g_autofree char *command = again(report, report->rows[i].check);

        if (report->rows[i].finding.result == CHECK_FAILED)
            printf("\nagain: %s", command);
    }
    printf("\n%d checks: %d passed, %d remarks, %d failed, %d not tried\n", report->count,
           report->results[CHECK_PASSED], report->results[CHECK_REMARK],
           report->results[CHECK_FAILED], report->results[CHECK_SKIPPED]);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void build_string(JsonBuilder *builder, const char *name, const char *value)
{
    g_autofree char *valid = g_utf8_make_valid(value ? value : "", -1);

    json_builder_set_member_name(builder, name);
    json_builder_add_string_value(builder, valid);
}

static void build_number(JsonBuilder *builder, const char *name, gint64 value)
{
    json_builder_set_member_name(builder, name);
    json_builder_add_int_value(builder, value);
}

static void build_row(JsonBuilder *builder, const struct report *report, const struct row *row)
{
    g_autofree char *command = again(report, row->check);

    json_builder_begin_object(builder);
    build_string(builder, "name", row->check->name);
    build_string(builder, "what", row->check->what);
    build_string(builder, "result", result_names[row->finding.result]);
    build_string(builder, "words", row->finding.words);
    build_string(builder, "again", command);
    json_builder_set_member_name(builder, "seconds");
    json_builder_add_double_value(builder, row->seconds);
    json_builder_end_object(builder);
}

static void build_plugin(JsonBuilder *builder, const struct report *report)
{
    const struct probed *about = report->about;

    json_builder_set_member_name(builder, "plugin");
    json_builder_begin_object(builder);
    build_string(builder, "path", report->subject.path);
    build_string(builder, "name", report->subject.name);
    build_string(builder, "version", about->version);
    build_string(builder, "license", about->license);
    build_number(builder, "abi_major", about->abi_major);
    build_number(builder, "abi_minor", about->abi_minor);
    build_number(builder, "bytes", (gint64)report->bytes);
    build_string(builder, "sha256", report->sha256);
    json_builder_end_object(builder);
}

static void print_json(const struct report *report)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();
    g_autofree char *host = system_words(), *when = time_words();

    json_builder_begin_object(builder);
    build_string(builder, "schema", "tutti.check/1");
    build_string(builder, "tutti", tutti_version());
    build_string(builder, "system", host);
    build_string(builder, "time", when);
    build_plugin(builder, report);
    json_builder_set_member_name(builder, "checks");
    json_builder_begin_array(builder);
    for (int i = 0; i < report->count; i++)
        build_row(builder, report, &report->rows[i]);
    json_builder_end_array(builder);
    build_number(builder, "passed", report->results[CHECK_PASSED]);
    build_number(builder, "remarks", report->results[CHECK_REMARK]);
    build_number(builder, "failed", report->results[CHECK_FAILED]);
    build_number(builder, "not_tried", report->results[CHECK_SKIPPED]);
    json_builder_end_object(builder);
    cli_print_json(builder);
}

/* ---- the verb -------------------------------------------------------------------------------- */

static int list_checks(void)
{
    for (size_t i = 0; i < G_N_ELEMENTS(checks); i++)
        printf("%-24s %s\n", checks[i].name, checks[i].what);
    return EXIT_OK;
}

/* NAME of ".../libtutti-NAME.so", NULL: it is called otherwise. */
static char *name_of(const char *path)
{
    g_autofree char *file = g_path_get_basename(path);
    g_autoptr(GRegex) shape = g_regex_new("^libtutti-([a-z][a-z0-9_-]{0,30})\\.so$", 0, 0, NULL);
    g_autoptr(GMatchInfo) match = NULL;

    return g_regex_match(shape, file, 0, &match) ? g_match_info_fetch(match, 1) : NULL;
}

/* Maps a regular file of at most FILE_MAX_MIB; never waits for a writer when it is a FIFO. */
static GMappedFile *map_file(const char *real, char **ret_words)
{
    g_autoptr(GError) error = NULL;
    GMappedFile *file = NULL;
    struct stat about;
    int fd = open(real, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0 || fstat(fd, &about) < 0)
        *ret_words = g_strdup(g_strerror(errno));
    else if (!S_ISREG(about.st_mode))
        *ret_words = g_strdup("not a regular file");
    else if (about.st_size > (off_t)FILE_MAX_MIB << 20)
        *ret_words = g_strdup_printf("larger than %d MiB: not a plugin", FILE_MAX_MIB);
    else if (!(file = g_mapped_file_new_from_fd(fd, FALSE, &error)))
        *ret_words = g_strdup(error->message);
    if (fd >= 0)
        close(fd);
    return file;
}

/* NULL where the file may be an object; else what it is. A build that is incomplete is for the checks. */
static const char *no_object(GMappedFile *file)
{
    const gsize bytes = g_mapped_file_get_length(file);

    if (bytes >= SELFMAG && !memcmp(g_mapped_file_get_contents(file), ELFMAG, SELFMAG))
        return NULL;
    return bytes ? "not a shared object: it does not begin as an ELF file; compile the plugin, and "
                   "give the resulting libtutti-NAME.so"
                 : "not a shared object: the file is empty";
}

/* Refuses the command line when the file cannot be read or is no object; the rest is for the checks to tell. */
static bool find_subject(const char *path, struct report *report)
{
    g_autofree char *words = NULL;
    char *real = realpath(path, NULL);
    g_autoptr(GMappedFile) file = real ? map_file(real, &words) : NULL;
    const char *reason = file ? no_object(file) : words ? words : g_strerror(errno);

    if (reason) {
        cli_say("check", "%s: %s", path, reason);
        free(real);
        return false;
    }
    report->subject.path = g_strdup(real);
    report->subject.folder = g_path_get_dirname(real);
    report->subject.name = name_of(real);
    report->bytes = g_mapped_file_get_length(file);
    report->sha256 = g_compute_checksum_for_data(
        G_CHECKSUM_SHA256, (const guchar *)g_mapped_file_get_contents(file), report->bytes);
    report->about = probe_file(real);
    free(real);
    return true;
}

static void report_free(struct report *report)
{
    for (int i = 0; i < report->count; i++)
        g_free(report->rows[i].finding.words);
    probed_free(report->about);
    g_free(report->sha256);
    g_free(report->subject.path);
    g_free(report->subject.folder);
    g_free(report->subject.name);
    g_free(report->subject.launcher);
}

static bool is_called(const char *only)
{
    for (size_t i = 0; i < G_N_ELEMENTS(checks); i++)
        if (g_pattern_match_simple(only, checks[i].name))
            return true;
    return false;
}

static int check_plugin(const char *path, const char *only, bool thorough, bool json)
{
    struct report report = {.subject.thorough = thorough};

    if (only && !is_called(only))
        return cli_usage("check", "no check is called '%s'; see tutti check --list", only);
    if (!find_subject(path, &report))
        return EXIT_FAILED;
    if (!json)
        print_head(&report);
    if (report.about->ready)
        check_trial_read(&report.subject);
    run_all(&report, only, json ? NULL : print_row);
    const int failed = report.results[CHECK_FAILED];
    if (json)
        print_json(&report);
    else
        print_end(&report);
    report_free(&report);
    return failed ? EXIT_FAILED : EXIT_OK;
}

int check_main(int argc, char **argv)
{
    gboolean json = FALSE, list = FALSE, thorough = FALSE;
    g_autofree char *only = NULL;
    const GOptionEntry entries[] = {
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "One JSON document instead of text", NULL},
        {"only", 0, 0, G_OPTION_ARG_STRING, &only, "Only the checks with this name; * and ? match",
         "NAME"},
        {"thorough", 0, 0, G_OPTION_ARG_NONE, &thorough,
         "Many more messages and lengths: for what goes wrong rarely", NULL},
        {"list", 0, 0, G_OPTION_ARG_NONE, &list, "List the checks, and run none", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (!cli_parse("check", "PLUGIN.so", summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (list)
        return list_checks();
    if (argc != 1)
        return cli_usage("check", argc ? "one plugin at a time" : "no plugin given");
    return check_plugin(argv[0], only, thorough, json);
}
