/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti info --env`: the rows of tutti_environment_list(), as text or as one JSON document. */
#include "info/info_env.h"

#include <json-glib/json-glib.h>
#include <stdio.h>

#include <tutti/info.h>

#include "cli.h"
#include "wrap.h"

enum { VALUES = 29, MEANINGS = 4 }; /* the columns where they begin */

static void print_variable(const tutti_variable_info *variable, void *user)
{
    int *own = user;

    if (*own != variable->own)
        printf("\n");
    *own = variable->own;
    const bool with_default = g_strcmp0(variable->source, "default") != 0 && *variable->standard;
    g_autofree char *value =
        g_strdup_printf("%s (%s%s%s)", *variable->value ? variable->value : "-", variable->source,
                        with_default ? "; default " : "", with_default ? variable->standard : "");
    g_autofree char *problem = g_strconcat("Problem: ", variable->problem, NULL);

    printf("%-28s ", variable->name);
    wrap_print(VALUES, VALUES, value);
    printf("%*s", MEANINGS, "");
    wrap_print(MEANINGS, MEANINGS, *variable->meaning ? variable->meaning : variable->problem);
    if (!*variable->meaning || !*variable->problem)
        return;
    printf("%*s", MEANINGS, "");
    wrap_print(MEANINGS, MEANINGS, problem);
}

static void build_variable(const tutti_variable_info *variable, void *user)
{
    JsonBuilder *builder = user;

    json_builder_begin_object(builder);
    cli_json_string(builder, "name", variable->name);
    cli_json_string(builder, "value", variable->value);
    cli_json_string(builder, "source", variable->source);
    cli_json_string(builder, "default", variable->standard);
    cli_json_string(builder, "values", variable->values);
    cli_json_string(builder, "across_ranks", variable->across);
    cli_json_string(builder, "meaning", variable->meaning);
    cli_json_string(builder, "problem", variable->problem);
    cli_json_bool(builder, "own", variable->own != 0);
    json_builder_end_object(builder);
}

static int say_failure(void)
{
    cli_say("info", "%s", cli_last_error());
    return EXIT_FAILED;
}

int info_env_text(void)
{
    int own = 1;

    return tutti_environment_list(print_variable, &own) == TUTTI_OK ? EXIT_OK : say_failure();
}

int info_env_json(void)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", "tutti.env/1");
    cli_json_array(builder, "variables");
    if (tutti_environment_list(build_variable, builder) != TUTTI_OK)
        return say_failure();
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
    return EXIT_OK;
}
