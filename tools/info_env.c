/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti info --env`: the rows of tutti_environment_list(), as text or as one JSON document. */
#include "info_env.h"

#include <json-glib/json-glib.h>
#include <stdio.h>

#include <tutti/info.h>

#include "cli.h"

static void print_variable(const tutti_variable_info *variable, void *user)
{
    int *own = user;

    if (*own != variable->own)
        printf("\n");
    *own = variable->own;
    printf("%-28s %s", variable->name, *variable->value ? variable->value : "-");
    printf("  (%s", variable->source);
    if (g_strcmp0(variable->source, "default") != 0 && *variable->standard)
        printf("; default %s", variable->standard);
    printf(")\n    %s", *variable->meaning ? variable->meaning : variable->problem);
    if (*variable->meaning && *variable->problem)
        printf("\n    Refused: %s", variable->problem);
    printf("\n");
}

static void build(JsonBuilder *builder, const char *name, const char *value)
{
    json_builder_set_member_name(builder, name);
    json_builder_add_string_value(builder, value);
}

static void build_variable(const tutti_variable_info *variable, void *user)
{
    JsonBuilder *builder = user;

    json_builder_begin_object(builder);
    build(builder, "name", variable->name);
    build(builder, "value", variable->value);
    build(builder, "source", variable->source);
    build(builder, "default", variable->standard);
    build(builder, "values", variable->values);
    build(builder, "across_ranks", variable->across);
    build(builder, "meaning", variable->meaning);
    build(builder, "problem", variable->problem);
    json_builder_set_member_name(builder, "own");
    json_builder_add_boolean_value(builder, variable->own != 0);
    json_builder_end_object(builder);
}

int info_env_text(void)
{
    int own = 1;

    return tutti_environment_list(print_variable, &own) == TUTTI_OK ? EXIT_OK : EXIT_FAILED;
}

int info_env_json(void)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();

    json_builder_begin_object(builder);
    build(builder, "schema", "tutti.env/1");
    json_builder_set_member_name(builder, "variables");
    json_builder_begin_array(builder);
    if (tutti_environment_list(build_variable, builder) != TUTTI_OK)
        return EXIT_FAILED;
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
    return EXIT_OK;
}
