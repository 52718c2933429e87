/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti check`: our own plugins and the template pass, and one that has a fault is told which. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "cli/command.h"

TestSuite(check, .timeout = 400);

enum { DEVICE_CHECKS = 9 }; /* device.* */

/* `untried`: how many checks its nature leaves untried, beside those of devices. */
static void expect_passes(const char *path, int untried)
{
    struct ran checked = ran("$TUTTI check %s", path);
    g_autofree char *end =
        g_strdup_printf(" 0 remarks, 0 failed, %d not tried\n", untried + DEVICE_CHECKS);

    cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, end), "%s", checked.out);
    ran_free(&checked);
}

Test(check, the_template_passes)
{
    /* mapped memory, sleeping, cancel, short messages, pairs, lanes, reach, collectives */
    expect_passes(TUTTI_KIT_PLUGINS "/libtutti-template.so", 8);
}

Test(check, the_plugins_of_this_build_pass)
{
    expect_passes(TUTTI_BUILD_PLUGINS "/libtutti-tcp.so",
                  5); /* mapped memory, short messages, pairs, lanes, collectives */
    expect_passes(TUTTI_BUILD_PLUGINS "/libtutti-shm.so",
                  4); /* strangers, lanes, reach, collectives */
}

/* Wrappers: ranks over tcp. fault says itself what it is tried with. */
Test(check, the_wrappers_of_this_build_pass)
{
    static const char *const names[] = {"trace", "check", "fault"};

    for (size_t i = 0; i < G_N_ELEMENTS(names); i++) {
        g_autofree char *path = g_strdup_printf(TUTTI_BUILD_PLUGINS "/libtutti-%s.so", names[i]);

        expect_passes(path, 23); /* transport.*, collectives.serves */
    }
}

/* Two checks, or with TUTTI_TEST_WHOLE all; by each MPI that is here. */
Test(check, mpi_is_tried_in_a_job_of_its_launcher)
{
    static const char *const families[] = {"openmpi", "mpich"};
    static const char *const only[] = {"--only transport.sizes", "--only ranks.broadcast"};
    const bool whole = g_getenv("TUTTI_TEST_WHOLE") != NULL;

    for (size_t i = 0; i < G_N_ELEMENTS(families); i++) {
        g_autofree char *launcher = g_strdup_printf("mpirun.%s", families[i]);
        g_autofree char *here = g_find_program_in_path(launcher);

        for (size_t k = 0; here && k < (whole ? 1 : G_N_ELEMENTS(only)); k++) {
            struct ran checked =
                ran("! test -e " TUTTI_BUILD_PLUGINS "/libtutti-mpi.so || "
                    "TUTTI_MPI=%s $TUTTI check %s " TUTTI_BUILD_PLUGINS "/libtutti-mpi.so",
                    families[i], whole ? "" : only[k]);

            cr_expect_eq(checked.code, 0, "%s: %s%s", families[i], checked.out, checked.err);
            cr_expect_null(strstr(checked.out, "has to be started"), "%s", checked.out);
            ran_free(&checked);
        }
    }
}

/* The limit holds for other users than root only. */
Test(check, processes_that_cannot_be_started_are_a_failure)
{
    struct ran checked =
        ran("user=; [ $(id -u) != 0 ] || user='setpriv --reuid=65534 --clear-groups'; "
            "$user test -x $TUTTI -a -r " TUTTI_KIT_PLUGINS "/libtutti-template.so || exit 77; "
            "$user prlimit --nproc=0 $TUTTI check --only transport.sizes " TUTTI_KIT_PLUGINS
            "/libtutti-template.so");

    if (checked.code == 77)
        cr_skip_test("another user cannot read the build");
    cr_expect_eq(checked.code, 1, "%d: %s%s", checked.code, checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, "process 0 of 2 cannot be started: "), "%s%s",
                       checked.out, checked.err);
    ran_free(&checked);
}

Test(check, what_needs_a_launcher_that_is_not_here_is_not_tried)
{
    struct ran checked =
        ran("! test -e " TUTTI_BUILD_PLUGINS "/libtutti-mpi.so || "
            "PATH=/nonexistent $TUTTI check --only 'transport.*' " TUTTI_BUILD_PLUGINS
            "/libtutti-mpi.so");

    cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
    if (*checked.out)
        cr_expect_not_null(strstr(checked.out, "it has to be started by the launcher \"mpi\""),
                           "%s", checked.out);
    ran_free(&checked);
}

/* Its ranks are served by it, and by shm and tcp. */
Test(check, an_engine_with_collectives_alone_passes)
{
    expect_passes(TUTTI_KIT_PLUGINS "/no-mistake/libtutti-engine.so", 22); /* transport.* */
}

Test(check, a_transport_with_gathers_passes)
{
    struct ran checked =
        ran("$TUTTI check --only 'transport.*' " TUTTI_KIT_PLUGINS "/gathers/libtutti-template.so");

    cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, " 0 remarks, 0 failed, "), "%s", checked.out);
    ran_free(&checked);
}

/* What `tutti check` has to say of a fault: in which check, and in these words. */
static const struct fault {
    const char *name, *check, *words;
} faults[] = {
    {"order", "transport.order", "wrong order"},
    {"truncates", "transport.order", "4096 bytes and arrived with 4088: truncated"},
    {"loses", "transport.order", "never arrived, though its send was reported complete: lost"},
    {"size", "plugin.descriptor", "transport template: struct_size is 64"},
    {"size", "plugin.accepted", "libtutti refuses it"},
    {"name", "plugin.accepted", "provider 0 has a name that is empty or has control characters"},
    {"name", "plugin.descriptor", "provider's name has the control character 0x0a"},
    {"capabilities", "plugin.descriptor", "capabilities has the bits 0x10000000000"},
    {"open", "transport.stranger", "a process of another group was received"},
    {"signals", "process.unchanged", "after loading it has changed what happens on signal 10"},
    {"umask", "process.unchanged", "the umask is 000"},
    {"folder", "process.unchanged", "the working directory is /"},
    {"locale", "process.unchanged", "the locale is C.UTF-8 instead of C"},
    {"environment", "process.unchanged", "the environment is another: MINE=1"},
    {"prints", "process.unchanged", "it has printed 6 bytes"},
    {"descriptor", "process.unchanged", "the process has 1 descriptors more"},
    {"crashes", "process.unchanged", "died of signal 6 (Aborted) while being loaded"},
    {"leaks", "transport.gives_back",
     "after messages and closing the process has 1 descriptors more"},
    {"hoards", "transport.gives_back",
     "1 pieces of memory that the host has allocated are not released"},
    {"exits", "transport.order", "ended the process with code 0 before the check was over"},
    {"exits", "ranks.barrier", "while making a group: does the plugin call exit()?"},
    {"exits-late", "process.unchanged", "with code 0 before the check was over, while closing"},
    {"more", "file.exports", "it exports more than tutti_plugin_v0: another_name"},
    {"more", "file.stack", "makes the stack of the whole process executable"},
    {"more", "file.calls", "it can call exit"},
    {"pieces", "plugin.descriptor", "piece_bytes is 4194304, and there is no cancel"},
    {"gathers-twice", "transport.sizes", "it starts a gather while another is under way"},
    {"gathers-unlike", "transport.sizes", "the members gather "},
    {"shortens", "transport.sizes", "4194304 bytes and arrived with 4194296: truncated"},
};

/* And of one in what shm does with mapped memory. */
static const struct fault map_faults[] = {
    {"deaf", "transport.wakes",
     "was not woken: a process that writes mapped memory calls wake_mate()"},
    {"private", "transport.map", "is not what process"},
    {"swaps", "transport.map", "is not what process"},
    {"keeps", "transport.map", "after mapping and closing the process has 2 descriptors more"},
    {"shows-twice", "transport.short", "where message 1 of"},
    {"takes-one", "transport.pairs", "is shown"},
};

/* And of an engine that only has collectives. */
static const struct fault engine_faults[] = {
    {"changes", "collectives.serves", "serves says both yes and no to broadcast of 1 bool"},
    {"sums", "ranks.types", "all_reduce of 37 u8, max (largest): element"},
    {"mixes", "ranks.blocks", "gather of blocks of 1 floats, root"},
    {"mixes", "ranks.uneven", "all_gather_v with blocks of 0 to 4 floats: element"},
};

static void expect_named(const struct fault *fault, const char *plugin)
{
    struct ran checked = ran("cd " TUTTI_KIT_PLUGINS "/%s && LC_ALL=C $TUTTI check --only %s "
                             "./libtutti-%s.so",
                             fault->name, fault->check, plugin);
    const bool remark = strcmp(fault->check, "file.calls") == 0;
    g_autofree char *again = g_strdup_printf("again: tutti check --only %s '%s/%s/libtutti-",
                                             fault->check, TUTTI_KIT_PLUGINS, fault->name);

    cr_expect_eq(checked.code, remark ? 0 : 1, "%s: %s%s", fault->name, checked.out, checked.err);
    cr_expect_not_null(strstr(checked.out, fault->words), "%s: %s", fault->name, checked.out);
    cr_expect(remark || strstr(checked.out, again), "%s: %s", fault->name, checked.out);
    ran_free(&checked);
}

Test(check, a_fault_is_named_with_the_command_that_shows_it_again)
{
    for (size_t i = 0; i < G_N_ELEMENTS(faults); i++)
        expect_named(&faults[i], "template");
    for (size_t i = 0; i < G_N_ELEMENTS(map_faults); i++)
        expect_named(&map_faults[i], "shm");
    for (size_t i = 0; i < G_N_ELEMENTS(engine_faults); i++)
        expect_named(&engine_faults[i], "engine");
}

Test(check, what_a_broken_plugin_cannot_show_is_not_tried)
{
    struct ran checked = ran("$TUTTI check " TUTTI_KIT_PLUGINS "/size/libtutti-template.so");

    cr_expect_eq(checked.code, 1);
    cr_expect_not_null(strstr(checked.out, "not tried transport.order"), "%s", checked.out);
    cr_expect_not_null(strstr(checked.out, "plugin.accepted has failed"), "%s", checked.out);
    ran_free(&checked);
    checked = ran("$TUTTI check " TUTTI_KIT_PLUGINS "/order/libtutti-template.so");
    cr_expect_eq(checked.code, 1);
    cr_expect_not_null(strstr(checked.out, "not tried ranks.barrier"), "%s", checked.out);
    ran_free(&checked);
}

Test(check, the_report_is_one_json_document)
{
    struct ran checked = ran("$TUTTI check --json --only '*.order' " TUTTI_KIT_PLUGINS
                             "/truncates/libtutti-template.so");
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_expect_eq(checked.code, 1);
    cr_assert(json_parser_load_from_data(parser, checked.out, -1, NULL), "%s", checked.out);
    JsonObject *report = json_node_get_object(json_parser_get_root(parser));
    JsonObject *plugin = json_object_get_object_member(report, "plugin");
    JsonObject *row =
        json_array_get_object_element(json_object_get_array_member(report, "checks"), 0);
    cr_expect_str_eq(json_object_get_string_member(plugin, "name"), "template");
    cr_expect_eq(strlen(json_object_get_string_member(plugin, "sha256")), 64);
    cr_expect_eq(json_object_get_int_member(report, "failed"), 1);
    cr_expect_str_eq(json_object_get_string_member(row, "name"), "transport.order");
    cr_expect_str_eq(json_object_get_string_member(row, "result"), "failed");
    cr_expect_not_null(strstr(json_object_get_string_member(row, "words"), "truncated"));
    ran_free(&checked);
}

Test(check, a_wrong_command_line_is_told_from_a_fault)
{
    static const struct {
        const char *words;
        int code;
        const char *says;
    } lines[] = {
        {"", 2, "no plugin given"},
        {"a b", 2, "one plugin at a time"},
        {"/no/such/file.so", 1, "No such file"},
        {"--only nothing " TUTTI_KIT_PLUGINS "/libtutti-template.so", 2, "no check is called"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(lines); i++) {
        struct ran checked = ran("LC_ALL=C $TUTTI check %s", lines[i].words);

        cr_expect_eq(checked.code, lines[i].code, "%s", lines[i].words);
        cr_expect_not_null(strstr(checked.err, lines[i].says), "%s: %s", lines[i].words,
                           checked.err);
        cr_expect_str_empty(checked.out, "%s: %s", lines[i].words, checked.out);
        ran_free(&checked);
    }
}

/* Neither waited for nor read into memory. */
Test(check, what_is_no_file_or_far_too_large_is_refused_at_once)
{
    static const struct {
        const char *make, *says;
    } files[] = {
        {"mkfifo libtutti-a.so", "libtutti-a.so: not a regular file"},
        {"ln -s /dev/zero libtutti-a.so", "libtutti-a.so: not a regular file"},
        {"mkdir libtutti-a.so", "libtutti-a.so: not a regular file"},
        {"truncate -s 20G libtutti-a.so", "libtutti-a.so: larger than 1024 MiB: not a plugin"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        struct ran checked = ran("folder=$(mktemp -d) && cd $folder && %s && "
                                 "timeout 10 $TUTTI check libtutti-a.so; code=$?; "
                                 "rm -r $folder; exit $code",
                                 files[i].make);

        cr_expect_eq(checked.code, 1, "%s: %d", files[i].make, checked.code);
        cr_expect_not_null(strstr(checked.err, files[i].says), "%s: %s", files[i].make,
                           checked.err);
        ran_free(&checked);
    }
}

Test(check, what_is_no_plugin_is_refused_and_not_run)
{
    static const struct {
        const char *text, *name, *says;
    } files[] = {
        {"int main;", "fox.c", "it does not begin as an ELF file; compile the plugin"},
        {"text", "libtutti-a.so", "it does not begin as an ELF file; compile the plugin"},
        {"", "libtutti-a.so", "the file is empty"},
    };

    for (size_t i = 0; i < G_N_ELEMENTS(files); i++) {
        struct ran checked = ran("folder=$(mktemp -d) && cd $folder && printf '%s' > %s && "
                                 "$TUTTI check %s; code=$?; rm -r $folder; exit $code",
                                 files[i].text, files[i].name, files[i].name);

        cr_expect_eq(checked.code, 1, "%s", checked.err);
        cr_expect_str_empty(checked.out, "%s", checked.out);
        cr_expect_not_null(strstr(checked.err, files[i].says), "%s", checked.err);
        ran_free(&checked);
    }
}
