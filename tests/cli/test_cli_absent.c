/* SPDX-License-Identifier: Apache-2.0 */
/* What the command says of backends that are not here. */
#include <criterion/criterion.h>
#include <json-glib/json-glib.h>
#include <string.h>

#include "command.h"

/* The state of the plugin of that name in the output of `tutti info --json`; "": it is not listed. */
static char *state_of(const char *json, const char *name)
{
    g_autoptr(JsonParser) parser = json_parser_new();

    cr_assert(json_parser_load_from_data(parser, json, -1, NULL), "%s", json);
    JsonArray *plugins =
        json_object_get_array_member(json_node_get_object(json_parser_get_root(parser)), "plugins");

    for (guint i = 0; i < json_array_get_length(plugins); i++) {
        JsonObject *plugin = json_array_get_object_element(plugins, i);

        if (strcmp(json_object_get_string_member(plugin, "name"), name) == 0)
            return g_strdup(json_object_get_string_member(plugin, "state"));
    }
    return g_strdup("");
}

static void check_state(const char *json, const char *name, const char *state)
{
    g_autofree char *is = state_of(json, name);

    cr_expect_str_eq(is, state, "%s: %s", name, is);
}

/* An installation with the library, shm and tcp alone: what LD_LIBRARY_PATH is set to. */
static char *bare_installation(const char *folder)
{
    struct ran r = ran("mkdir -p %s/lib/tutti/0 && cp %s %s/lib/libtutti.so.0 && "
                       "cp %s/libtutti-shm.so %s/libtutti-tcp.so %s/lib/tutti/0/",
                       folder, TUTTI_LIBRARY, folder, TUTTI_PLUGINS, TUTTI_PLUGINS, folder);

    cr_assert_eq(r.code, 0, "%s", r.err);
    ran_free(&r);
    return g_strdup_printf("LD_LIBRARY_PATH=%s/lib", folder);
}

Test(absent, info_lists_what_was_not_built, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *bare = bare_installation(folder);
    struct ran text = ran("%s $TUTTI info", bare), json = ran("%s $TUTTI info --json", bare);

    cr_assert_eq(text.code, 0, "%s", text.err);
    CONTAINS(text.out, "  shm                ready, transport");
    CONTAINS(text.out, "  gloo               not built: Gloo's messages and collectives; apt-get");
    CONTAINS(text.out, "  nccl               not built: NCCL between NVIDIA GPUs; install");
    check_state(json.out, "shm", "ready");
    check_state(json.out, "tcp", "ready");
    check_state(json.out, "gloo", "not built");
    check_state(json.out, "mpi", "not built");
    check_state(json.out, "trace", "not built");
    check_state(json.out, "ucx", "not built");
    check_state(json.out, "ucc", "not built");
    check_state(json.out, "cuda", "not built");
    check_state(json.out, "nccl", "not built");
    folder_remove(folder);
    ran_free(&text);
    ran_free(&json);
}

Test(absent, a_backend_that_was_not_built_is_told_with_what_to_do_everywhere, .timeout = 60)
{
    static const char *const commands[] = {"explain barrier --backend gloo",
                                           "explain barrier --backend 'auto;barrier=gloo'",
                                           "info --matrix gloo"};
    char *folder = folder_new();
    g_autofree char *bare = bare_installation(folder);

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        struct ran r = ran("%s $TUTTI %s", bare, commands[i]);

        cr_expect_eq(r.code, 2, "%s: %d", commands[i], r.code);
        CONTAINS(r.err, "\"gloo\" is known to tutti, but not installed here: apt-get install");
        cr_expect_null(strstr(r.err, "did you mean"), "%s", r.err);
        ran_free(&r);
    }
    folder_remove(folder);
}

Test(absent, every_rank_is_told_what_to_do_for_a_backend_that_is_absent, .timeout = 60)
{
    char *folder = folder_new();
    g_autofree char *bare = bare_installation(folder);
    struct ran r = ran("%s $TUTTI run -n 3 --backend gloo %s/hello", bare, TUTTI_TEST_PROGRAMS);

    cr_expect_neq(r.code, 0);
    CONTAINS(r.err, "ranks 0-2 (3): "); /* all said the same, which is shown once */
    CONTAINS(r.err, "backend \"gloo\" is known to tutti, but not installed here: apt-get install");
    cr_expect_null(strstr(r.err, "did you mean"), "%s", r.err);
    folder_remove(folder);
    ran_free(&r);
}

Test(absent, a_gpu_without_its_plugin_is_refused_with_what_to_do, .timeout = 60)
{
    static const char *const asks[] = {"TUTTI_DEVICE=cuda", "TUTTI_BACKEND=cuda:shm"};
    char *folder = folder_new();
    g_autofree char *bare = bare_installation(folder);

    for (size_t i = 0; i < G_N_ELEMENTS(asks); i++) {
        struct ran r =
            ran("%s %s RANK=0 WORLD_SIZE=1 %s/hello", bare, asks[i], TUTTI_TEST_PROGRAMS);

        cr_expect_neq(r.code, 0, "%s", asks[i]);
        CONTAINS(r.err, "device \"cuda\" is known to tutti, but not installed here: install tutti");
        CONTAINS(r.err, "searched for libtutti-cuda.so in ");
        ran_free(&r);
    }
    folder_remove(folder);
}

/* The plugin without the engines beside it is as on a host without any MPI that it was built for. */
Test(absent, mpi_without_any_mpi_is_not_ready, .timeout = 60)
{
    static const char *const commands[] = {"explain barrier --backend mpi", "info --matrix mpi",
                                           "explain barrier --backend 'local=shm,remote=mpi'"};
    char *folder = folder_new();
    struct ran copied = ran("cp %s/libtutti-mpi.so %s", TUTTI_PLUGINS, folder);
    struct ran json = ran("TUTTI_PLUGIN_PATH=%s $TUTTI info --json", folder);

    cr_assert_eq(copied.code, 0);
    check_state(json.out, "mpi", "library missing");
    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        struct ran r = ran("TUTTI_PLUGIN_PATH=%s $TUTTI %s", folder, commands[i]);

        cr_expect_eq(r.code, 1, "%s: %d", commands[i], r.code);
        CONTAINS(r.err, "no MPI that this plugin was built for is installed: apt-get install");
        ran_free(&r);
    }
    folder_remove(folder);
    ran_free(&copied);
    ran_free(&json);
}

Test(absent, a_library_that_a_plugin_needs_is_named_with_its_package, .timeout = 60)
{
    struct ran json = ran("TUTTI_PLUGIN_PATH=%s $TUTTI info --json", TUTTI_LACKS_LIBRARY);
    struct ran explain =
        ran("TUTTI_PLUGIN_PATH=%s $TUTTI explain barrier --backend gloo", TUTTI_LACKS_LIBRARY);

    check_state(json.out, "gloo", "library missing");
    CONTAINS(json.out, "libnot-here.so.9");
    cr_expect_eq(explain.code, 1);
    CONTAINS(explain.err, "a library that it needs is not installed: libnot-here.so.9: cannot");
    CONTAINS(explain.err, "apt-get install libgloo0");
    ran_free(&json);
    ran_free(&explain);
}
