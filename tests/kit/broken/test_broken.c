/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plugins with one defect each (broken.h, engine.c, device.c): `tutti check` names it, in the check where an author
 * looks for it. The default run tries that check alone; with TUTTI_TEST_WHOLE set, all checks are run.
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "cli/command.h"

enum { AT_ONCE = 2, ONE_S = 60, WHOLE_S = 180 };

TestSuite(broken, .timeout = 3600);

enum { FAILS, REMARKS };

#define TRANSPORT "broken/libtutti-broken.so"
#define ENGINE "broken/libtutti-unsound.so"
#define DEVICE "broken/device/libtutti-cuda.so"

static const struct broken {
    const char *name, *file, *check, *words;
    int how;
} plugins[] = {
    /* messages */
    {"reorders", TRANSPORT, "transport.order", "wrong order", FAILS},
    {"loses-some", TRANSPORT, "transport.order", "never arrived", FAILS},
    {"loses-few", TRANSPORT, "transport.flood", "lost", FAILS},
    {"loses-empty", TRANSPORT, "transport.sizes", "lost", FAILS},
    {"repeats", TRANSPORT, "transport.flood", "twice", FAILS},
    {"corrupts-1000th", TRANSPORT, "transport.flood", "corrupted", FAILS},
    {"corrupts-10000th", TRANSPORT, "transport.flood", "corrupted", FAILS},
    {"corrupts-long", TRANSPORT, "transport.sizes", "corrupted", FAILS},
    {"lengthens", TRANSPORT, "transport.sizes", "too long", FAILS},
    {"completes-early", TRANSPORT, "transport.memory", "corrupted", FAILS},
    {"truncates", TRANSPORT, "transport.order", "truncated", FAILS},
    {"counts-in-16-bits", TRANSPORT, "transport.sizes", "truncated", FAILS},
    {"status-of-its-own", TRANSPORT, "transport.sizes", "which is not a tutti_status", FAILS},
    {"busy-though-taken", TRANSPORT, "transport.flood", "twice", FAILS},
    {"isend-writes", TRANSPORT, "transport.memory", "read-only memory", FAILS},
    {"isend-writes", TRANSPORT, "transport.sizes", "of the memory of a send", FAILS},
    {"isend-writes-and-restores", TRANSPORT, "transport.memory", "read-only memory", FAILS},
    {"cancels-nothing", TRANSPORT, "transport.cancel", "after cancel", FAILS},
    {"shares-state", TRANSPORT, "transport.two_endpoints", "another endpoint", FAILS},
    {"claims-lanes", TRANSPORT, "transport.lanes", "lane", FAILS},
    {"template", "reach/libtutti-template.so", "transport.reach", "TUTTI_CAP_HOST_ONLY", FAILS},
    {"claims-map", TRANSPORT, "plugin.descriptor", "TUTTI_CAP_MAP needs map_start", FAILS},
    {"arm-lies", TRANSPORT, "transport.wakes", "was not woken", FAILS},
    {"proves-nothing", TRANSPORT, "transport.stranger", "another group", FAILS},
    {"takes-cut-address", TRANSPORT, "transport.bad_address", "connect takes the first 0", FAILS},
    {"peer-lost-untold", TRANSPORT, "transport.killed_peer", "was called 0 times", FAILS},
    {"peer-lost-twice", TRANSPORT, "transport.killed_peer", "was called 2 times", FAILS},
    {"peer-lost-label", TRANSPORT, "transport.killed_peer", "that of no peer", FAILS},
    {"peer-lost-keeps-descriptor", TRANSPORT, "transport.killed_peer", "1 descriptors more", FAILS},
    {"sends-to-the-lost", TRANSPORT, "transport.killed_peer", "isend() says TUTTI_ERR_SYSTEM",
     FAILS},
    {"dead-peer-unseen", TRANSPORT, "transport.killed_peer", "does not notice", REMARKS},
    {"moves-by-thread", TRANSPORT, "transport.order", "", FAILS},

    /* time */
    {"open-takes-200-ms", TRANSPORT, "transport.opens", "open and close take 2", REMARKS},
    {"never-armed", TRANSPORT, "transport.wakes", "never returned TUTTI_ARMED", REMARKS},
    {"open-takes-8-s", TRANSPORT, "transport.opens", "open() for 5 s", FAILS},
    {"isend-takes-2-s", TRANSPORT, "transport.sizes", "isend() for 1 s", FAILS},
    {"isend-takes-3-ms", TRANSPORT, "transport.latency", "ms at best", FAILS},
    {"isend-blocks", TRANSPORT, "transport.sizes", "it blocks", FAILS},
    {"progress-hangs", TRANSPORT, "transport.sizes", "it blocks", FAILS},

    /* what is kept */
    {"leaks-memory", TRANSPORT, "transport.gives_back", "are not released", FAILS},
    {"leaks-descriptor", TRANSPORT, "transport.gives_back", "descriptors more", FAILS},
    {"leaks-per-message", TRANSPORT, "transport.gives_back", "each message", FAILS},
    {"leaves-thread", TRANSPORT, "process.unchanged", "1 threads more", FAILS},
    {"releases-foreign", TRANSPORT, "transport.opens", "none of tutti_host.allocate()", FAILS},
    {"uses-after-close", TRANSPORT, "transport.host_memory", "that it has released", FAILS},

    /* the descriptor, the file */
    {"major", "broken/major/libtutti-broken.so", "plugin.*", "ABI 7", FAILS},
    {"minor", "broken/minor/libtutti-broken.so", "plugin.descriptor", "minor 99", REMARKS},
    {"export", "broken/export/libtutti-broken.so", "file.exports", "another_name", FAILS},
    {"size", TRANSPORT, "plugin.descriptor", "struct_size is 64", FAILS},
    {"kind", "broken/kind/libtutti-broken.so", "plugin.descriptor", "has the kind 7", FAILS},
    {"misses-function", TRANSPORT, "plugin.descriptor", "irecv is NULL", FAILS},

    /* the process */
    {"open-crashes", TRANSPORT, "transport.opens", "died of signal 11", FAILS},
    {"open-exits", TRANSPORT, "transport.opens", "does the plugin call exit", FAILS},
    {"open-aborts", TRANSPORT, "transport.opens", "died of signal 6", FAILS},
    {"isend-crashes", TRANSPORT, "transport.sizes", "died of signal 11", FAILS},
    {"isend-crashes-late", TRANSPORT, "transport.sizes", "died of signal 11", FAILS},
    {"isend-exits", TRANSPORT, "transport.sizes", "does the plugin call exit", FAILS},
    {"signals", TRANSPORT, "process.unchanged", "what happens on signal 10", FAILS},
    {"folder", TRANSPORT, "process.unchanged", "the working directory is /", FAILS},
    {"rounding", TRANSPORT, "process.unchanged", "floating-point environment", FAILS},
    {"prints", TRANSPORT, "process.unchanged", "it has printed 6 bytes", FAILS},
    {"constructor", TRANSPORT, "process.unchanged", "the umask is 000", FAILS},

    /* engines */
    {"max-sums", ENGINE, "ranks.types", "max (largest): element", FAILS},
    {"barrier-does-not-wait", ENGINE, "ranks.barrier", "left a barrier", FAILS},
    {"mixes-blocks", ENGINE, "ranks.blocks", "element", FAILS},
    {"changes-mind", ENGINE, "collectives.serves", "both yes and no to broadcast", FAILS},
    {"i16", ENGINE, "ranks.types", "all_reduce of 37 i16", FAILS},
    {"bf16", ENGINE, "ranks.types", "reduce of 37 bf16", FAILS},
    {"f64", ENGINE, "ranks.types", "all_reduce of 37 f64", FAILS},
    {"f64-reduce", ENGINE, "ranks.types", "reduce of 37 f64", FAILS},
    {"long-i16", ENGINE, "ranks.lengths", "i16, sum", FAILS},

    /* devices */
    {"says-nothing", DEVICE, "device.opens", "without a message", FAILS},
    {"claims-all-memory", DEVICE, "device.memory", "locate of memory of malloc", FAILS},
    {"copy-waits", DEVICE, "device.word", "copy() for 1 s", FAILS},
    {"events-pass-at-once", DEVICE, "device.word", "a stream goes on although", FAILS},
    {"pieces-are-the-first", DEVICE, "device.packing", "byte 101 of", FAILS},
    {"max-is-min", DEVICE, "device.reductions", "max of 293 bf16", FAILS},
    {"short-by-one", DEVICE, "device.factors", "a product with a factor of 293 u8", FAILS},
};

static bool is_whole(void)
{
    return getenv("TUTTI_TEST_WHOLE") != NULL;
}

static pid_t start(const struct broken *broken, const char *output)
{
    g_autofree char *only =
        is_whole() ? g_strdup("") : g_strdup_printf("--only '%s' ", broken->check);
    g_autofree char *words =
        g_strdup_printf("check %s" TUTTI_KIT_PLUGINS "/%s", only, broken->file);

    g_setenv("KIT_DEFECT", broken->name, TRUE);
    g_setenv("TUTTI_CUDA", TUTTI_STANDIN_CUDA, TRUE);
    return command_start(words, output);
}

/* The check's own line and the next, which says why. */
static char *said_by(const char *report, const char *check)
{
    const bool any = strchr(check, '*') != NULL;
    g_autofree char *failed = g_strdup_printf("failed    %s", check);
    g_autofree char *remark = g_strdup_printf("remark    %s", check);
    const char *line = any ? report : strstr(report, failed);
    const char *end;

    line = line ? line : strstr(report, remark);
    if (!line || any)
        return g_strdup(line ? line : "");
    end = strchr(line, '\n');
    end = end ? strchr(end + 1, '\n') : NULL;
    return end ? g_strndup(line, (gsize)(end - line)) : g_strdup(line);
}

static void judge(const struct broken *broken, int code, const char *report)
{
    g_autofree char *said = said_by(report, broken->check);
    const int right = broken->how == FAILS ? 1 : 0;

    cr_expect_eq(code, right, "%s: exit code %d: %s", broken->name, code, report);
    cr_expect(*said && strstr(said, broken->words), "%s: \"%s\" is not in: %s", broken->name,
              broken->words, report);
}

Test(broken, each_plugin_fails_in_the_right_check_with_the_right_words)
{
    struct {
        const struct broken *broken; /* NULL: free */
        pid_t pid;
    } running[AT_ONCE] = {{NULL, 0}};
    char *folder = folder_new();
    size_t next = 0, judged = 0;

    while (judged < G_N_ELEMENTS(plugins)) {
        for (int i = 0; i < AT_ONCE; i++) {
            if (running[i].broken) {
                const struct broken *broken = running[i].broken;
                const int code = command_wait(running[i].pid, is_whole() ? WHOLE_S : ONE_S);
                g_autofree char *report = folder_read(folder, broken->name);

                judge(broken, code, report);
                running[i].broken = NULL;
                judged++;
            }
            if (next < G_N_ELEMENTS(plugins)) {
                g_autofree char *output = g_build_filename(folder, plugins[next].name, NULL);

                running[i].broken = &plugins[next];
                running[i].pid = start(&plugins[next++], output);
            }
        }
    }
    folder_remove(folder);
}

/* Not once for each check that opens an endpoint. */
Test(broken, what_ends_or_blocks_every_process_is_told_once)
{
    static const char *const defects[][2] = {{"open-crashes", "died of signal 11"},
                                             {"open-takes-8-s", "it blocks"},
                                             {"isend-blocks", "it blocks"}};

    for (size_t i = 0; i < G_N_ELEMENTS(defects); i++) {
        g_setenv("KIT_DEFECT", defects[i][0], TRUE);
        struct ran checked = ran("$TUTTI check " TUTTI_KIT_PLUGINS "/" TRANSPORT);
        const char *told = strstr(checked.out, defects[i][1]);

        cr_expect_eq(checked.code, 1, "%s", checked.out);
        cr_assert_not_null(told, "%s", checked.out);
        cr_expect_null(strstr(told + 1, defects[i][1]), "%s", checked.out);
        cr_expect_lt(checked.seconds, 40, "%s: %g s", defects[i][0], checked.seconds);
        ran_free(&checked);
    }
}

Test(broken, without_their_defects_they_pass)
{
    static const char *const sound[] = {TRANSPORT, ENGINE, DEVICE};

    g_unsetenv("KIT_DEFECT");
    g_setenv("TUTTI_CUDA", TUTTI_STANDIN_CUDA, TRUE);
    for (size_t i = 0; i < G_N_ELEMENTS(sound); i++) {
        struct ran checked = ran("$TUTTI check " TUTTI_KIT_PLUGINS "/%s", sound[i]);

        cr_expect_eq(checked.code, 0, "%s%s", checked.out, checked.err);
        cr_expect_not_null(strstr(checked.out, " 0 failed"), "%s", checked.out);
        ran_free(&checked);
    }
}
