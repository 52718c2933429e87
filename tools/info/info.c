/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti info`: the rows of tutti_info_list() and the plugins, as text or as one JSON document. */
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include <tutti/info.h>
#include <tutti/status.h>
#include <tutti/version.h>

#include "cli.h"
#include "info/info_env.h"
#include "info/info_matrix.h"
#include "probe.h"
#include "verbs.h"
#include "wrap.h"

static const char summary[] =
    "Shows what this installation is and what it finds here: version and build, CPUs, plugins\n"
    "that are ready, those that are not with the reason and what to do, network interfaces with\n"
    "the address that would be chosen, limits, and the thresholds between algorithms. Each plugin\n"
    "is opened in a process of its own. With BACKEND, it shows the plugins of these names alone.";

static const char description[] = "Examples:\n"
                                  "  tutti info\n"
                                  "  tutti info ucx\n"
                                  "  tutti info --json\n"
                                  "  tutti info --env\n"
                                  "  tutti info --matrix shm tcp\n"
                                  "  TUTTI_PLUGIN_PATH=$PWD/mine tutti info\n";

/* ---- text ---- */

enum { NAME_WIDTH = 18, VALUES = NAME_WIDTH + 3 }; /* the column where values begin */

struct text {
    const char *section; /* the one whose rows are being printed */
};

static void print_row(const char *section, const char *name, const char *value, void *user)
{
    struct text *text = user;

    if (g_strcmp0(text->section, section) != 0)
        printf("\n%s\n", section);
    text->section = section;
    if (strlen(name) > NAME_WIDTH)
        printf("  %s\n%*s", name, VALUES, "");
    else
        printf("  %-*s ", NAME_WIDTH, name);
    wrap_print(VALUES, VALUES, value);
}

/* A plugin that was refused has not given each text. */
static const char *or_nothing(const char *text)
{
    return text ? text : "";
}

/* "options TUTTI_MINE_DEPTH (1 | 2; default 1)" */
static void print_options(const struct probed *plugin)
{
    g_autoptr(GString) line = g_string_new(NULL);
    const char *name, *values, *standard, *meaning;
    GVariantIter options;
    gboolean is_compared;

    if (!plugin->options)
        return;
    g_variant_iter_init(&options, plugin->options);
    while (g_variant_iter_next(&options, "(&s&s&s&sb)", &name, &values, &standard, &meaning,
                               &is_compared))
        g_string_append_printf(line, "%s%s (%s%s%s)", line->len ? ", " : "options ", name, values,
                               *standard ? "; default " : "", standard);
    if (line->len) {
        printf("%*s", VALUES, "");
        wrap_print(VALUES, VALUES, line->str);
    }
}

/* The driver and the devices, a line each. */
static void print_finds(const struct probed *plugin)
{
    g_auto(GStrv) lines = g_strsplit(or_nothing(plugin->finds), "\n", -1);

    for (int i = 0; lines[i]; i++) {
        printf("%*s", VALUES, "");
        wrap_print(VALUES, VALUES, lines[i]);
    }
}

static void print_plugin(const struct probed *plugin)
{
    g_autofree char *line =
        plugin->ready ? g_strdup_printf("ready, %s, version %s, ABI %u.%u, %s", plugin->provides,
                                        plugin->version, plugin->abi_major, plugin->abi_minor,
                                        plugin->license)
                      : g_strdup_printf("%s: %s", plugin->state, plugin->reason);

    printf("  %-*s ", NAME_WIDTH, plugin->name);
    wrap_print(VALUES, VALUES, line);
    if (*plugin->path)
        printf("%*s%s\n", VALUES, "", plugin->path);
    print_finds(plugin);
    print_options(plugin);
}

/* `only`: the plugins of these names alone; if there is none, everything. */
static int print_text(char *const *only)
{
    g_autoptr(GPtrArray) plugins = NULL;
    struct text text = {NULL};
    const int code = probe_plugins(only, &plugins);

    if (code)
        return code;
    printf("tutti %s\n", tutti_version());
    if (!*only && tutti_info_list(print_row, &text) != TUTTI_OK) {
        cli_say("info", "%s", cli_last_error());
        return EXIT_FAILED;
    }
    printf("\nplugins\n");
    for (guint i = 0; i < plugins->len; i++)
        print_plugin(plugins->pdata[i]);
    if (!plugins->len)
        printf("  none\n");
    return EXIT_OK;
}

/* ---- JSON ---- */

struct document {
    JsonBuilder *builder;
    const char *section;
};

/* An array for each section: names may repeat, and their order says something. */
static void build_row(const char *section, const char *name, const char *value, void *user)
{
    struct document *document = user;

    if (g_strcmp0(document->section, section) != 0) {
        if (document->section)
            json_builder_end_array(document->builder);
        cli_json_array(document->builder, section);
    }
    document->section = section;
    json_builder_begin_object(document->builder);
    cli_json_string(document->builder, "name", name);
    cli_json_string(document->builder, "value", value);
    json_builder_end_object(document->builder);
}

static void build_options(JsonBuilder *builder, const struct probed *plugin)
{
    const char *name, *values, *standard, *meaning;
    gboolean is_compared;
    GVariantIter options;

    cli_json_array(builder, "options");
    if (plugin->options) {
        g_variant_iter_init(&options, plugin->options);
        while (g_variant_iter_next(&options, "(&s&s&s&sb)", &name, &values, &standard, &meaning,
                                   &is_compared)) {
            json_builder_begin_object(builder);
            cli_json_string(builder, "name", name);
            cli_json_string(builder, "values", values);
            cli_json_string(builder, "default", standard);
            cli_json_string(builder, "meaning", meaning);
            cli_json_bool(builder, "compared", is_compared);
            json_builder_end_object(builder);
        }
    }
    json_builder_end_array(builder);
}

static void build_finds(JsonBuilder *builder, const struct probed *plugin)
{
    g_auto(GStrv) lines = g_strsplit(or_nothing(plugin->finds), "\n", -1);

    cli_json_array(builder, "finds");
    for (int i = 0; lines[i]; i++)
        json_builder_add_string_value(builder, lines[i]);
    json_builder_end_array(builder);
}

static void build_plugin(JsonBuilder *builder, const struct probed *plugin)
{
    json_builder_begin_object(builder);
    cli_json_string(builder, "name", plugin->name);
    cli_json_string(builder, "path", plugin->path);
    cli_json_bool(builder, "ready", plugin->ready);
    cli_json_string(builder, "state", plugin->state);
    cli_json_string(builder, "reason", or_nothing(plugin->reason));
    cli_json_string(builder, "provides", or_nothing(plugin->provides));
    cli_json_string(builder, "version", or_nothing(plugin->version));
    cli_json_string(builder, "license", or_nothing(plugin->license));
    cli_json_int(builder, "abi_major", plugin->abi_major);
    cli_json_int(builder, "abi_minor", plugin->abi_minor);
    build_options(builder, plugin);
    build_finds(builder, plugin);
    if (plugin->message_ps || plugin->further_ps || plugin->byte_ps) {
        json_builder_set_member_name(builder, "cost");
        json_builder_begin_object(builder);
        cli_json_int(builder, "message_ps", (gint64)plugin->message_ps);
        cli_json_int(builder, "further_ps", (gint64)plugin->further_ps);
        cli_json_int(builder, "byte_ps", (gint64)plugin->byte_ps);
        json_builder_end_object(builder);
    }
    json_builder_end_object(builder);
}

static int print_json(char *const *only)
{
    g_autoptr(GPtrArray) plugins = NULL;
    g_autoptr(JsonBuilder) builder = json_builder_new();
    struct document document = {builder, NULL};
    const int code = probe_plugins(only, &plugins);

    if (code)
        return code;
    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", "tutti.info/1");
    cli_json_string(builder, "version", tutti_version());
    if (!*only && tutti_info_list(build_row, &document) != TUTTI_OK) {
        cli_say("info", "%s", cli_last_error());
        return EXIT_FAILED;
    }
    if (document.section)
        json_builder_end_array(builder);
    cli_json_array(builder, "plugins");
    for (guint i = 0; i < plugins->len; i++)
        build_plugin(builder, plugins->pdata[i]);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
    return EXIT_OK;
}

int info_main(int argc, char **argv)
{
    gboolean json = FALSE, env = FALSE, matrix = FALSE, markdown = FALSE;
    const GOptionEntry entries[] = {
        {"env", 0, 0, G_OPTION_ARG_NONE, &env,
         "The variables of the environment instead: value, source, default, meaning", NULL},
        {"matrix", 0, 0, G_OPTION_ARG_NONE, &matrix,
         "What each BACKEND serves instead: operations, dtypes, reductions", NULL},
        {"markdown", 0, 0, G_OPTION_ARG_NONE, &markdown,
         "With --matrix: tables for a document, of any width", NULL},
        {"json", 0, 0, G_OPTION_ARG_NONE, &json, "Print one JSON document", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};

    if (!cli_parse("info", "[BACKEND…]", summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (matrix && !env)
        return info_matrix(argv, json ? MATRIX_JSON : markdown ? MATRIX_MARKDOWN : MATRIX_TEXT);
    if (matrix)
        return cli_usage("info", "one of --env and --matrix only");
    if (markdown)
        return cli_usage("info", "--markdown is a form of --matrix");
    if (!env)
        return json ? print_json(argv) : print_text(argv);
    if (argc > 0)
        return cli_usage("info", "unexpected argument '%s'", argv[0]);
    return json ? info_env_json() : info_env_text();
}
