/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/document.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Two runs of one program differ by up to this much without any cause in it. */
static const double noise = 0.05;

static const char schema[] = "tutti.bench/1";

static const struct field {
    const char *name;
    size_t at;
    enum bench_kind kind;
} fields[] = {
#define FIELD(name, member, kind) {name, offsetof(struct bench_result, member), kind},
    BENCH_FIELDS(FIELD)
#undef FIELD
};

static const char *text_of(const struct bench_result *result, const struct field *field)
{
    return *(const char *const *)(const void *)((const char *)result + field->at);
}

static gint64 number_of(const struct bench_result *result, const struct field *field)
{
    return *(const gint64 *)(const void *)((const char *)result + field->at);
}

static double real_of(const struct bench_result *result, const struct field *field)
{
    return *(const double *)(const void *)((const char *)result + field->at);
}

/* Whether the result has the field; otherwise it is null, or empty. */
static bool has(const struct bench_result *result, const struct field *field)
{
    switch (field->kind) {
    case BENCH_TEXT:
        return text_of(result, field) != NULL;
    case BENCH_REAL_OR_NONE:
        return real_of(result, field) > 0;
    case BENCH_COUNT_OR_NONE:
        return number_of(result, field) >= 0;
    default:
        return true;
    }
}

/* ---- JSON ---- */

/* Six digits: a time of 0.1 us has its picoseconds, and files can be read. */
static double rounded(double value)
{
    char text[32];

    g_ascii_formatd(text, sizeof text, "%.6g", value);
    return g_ascii_strtod(text, NULL);
}

static void build_field(JsonBuilder *builder, const struct bench_result *result,
                        const struct field *field)
{
    json_builder_set_member_name(builder, field->name);
    if (!has(result, field))
        json_builder_add_null_value(builder);
    else if (field->kind == BENCH_TEXT)
        json_builder_add_string_value(builder, text_of(result, field));
    else if (field->kind == BENCH_BOOL)
        json_builder_add_boolean_value(builder, number_of(result, field) != 0);
    else if (field->kind == BENCH_REAL || field->kind == BENCH_REAL_OR_NONE)
        json_builder_add_double_value(builder, rounded(real_of(result, field)));
    else
        json_builder_add_int_value(builder, number_of(result, field));
}

JsonBuilder *document_build(const struct bench_facts *facts, const GArray *results)
{
    JsonBuilder *builder = json_builder_new();

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", schema);
    cli_json_string(builder, "version", facts->version);
    cli_json_string(builder, "date", facts->date);
    cli_json_string(builder, "host", facts->host);
    cli_json_string(builder, "cpu", facts->cpu);
    cli_json_int(builder, "usable_cpus", facts->usable_cpus);
    cli_json_string(builder, "backend", facts->backend);
    cli_json_int(builder, "ranks", facts->ranks);
    cli_json_int(builder, "hosts", facts->hosts);
    json_builder_set_member_name(builder, "time_s");
    json_builder_add_double_value(builder, facts->time_s);
    cli_json_array(builder, "cells");
    for (guint i = 0; i < results->len; i++) {
        json_builder_begin_object(builder);
        for (size_t k = 0; k < G_N_ELEMENTS(fields); k++)
            build_field(builder, &g_array_index(results, struct bench_result, i), &fields[k]);
        json_builder_end_object(builder);
    }
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    return builder;
}

bool document_save(const struct bench_facts *facts, const GArray *results, const char *path)
{
    g_autoptr(JsonBuilder) builder = document_build(facts, results);
    g_autoptr(JsonNode) root = json_builder_get_root(builder);
    g_autofree char *json = json_to_string(root, TRUE);
    g_autofree char *text = g_strconcat(json, "\n", NULL);
    /* The file that a link leads to, so that the link is not replaced; free() is g_free(). */
    g_autofree char *target = realpath(path, NULL);
    g_autoptr(GError) error = NULL;

    if (g_file_set_contents(target ? target : path, text, -1, &error))
        return true;
    cli_say("bench", "the results could not be saved: %s", error->message);
    return false;
}

/* ---- CSV ---- */

void document_print_csv_head(void)
{
    for (size_t k = 0; k < G_N_ELEMENTS(fields); k++)
        printf("%s%s", k ? "," : "", fields[k].name);
    putchar('\n');
}

void document_print_csv(const struct bench_result *result)
{
    for (size_t k = 0; k < G_N_ELEMENTS(fields); k++) {
        const struct field *field = &fields[k];

        if (k)
            putchar(',');
        if (!has(result, field))
            continue;
        if (field->kind == BENCH_TEXT)
            fputs(text_of(result, field), stdout);
        else if (field->kind == BENCH_REAL || field->kind == BENCH_REAL_OR_NONE)
            printf("%.6g", real_of(result, field));
        else
            printf("%lld", (long long)number_of(result, field));
    }
    putchar('\n');
}

/* ---- saved files ---- */

struct bench_saved {
    JsonParser *parser;
    JsonObject *document;
    JsonArray *cells;
};

struct bench_saved *saved_open(const char *path)
{
    struct bench_saved *saved = g_new0(struct bench_saved, 1);
    g_autoptr(GError) error = NULL;

    saved->parser = json_parser_new();
    if (!json_parser_load_from_file(saved->parser, path, &error)) {
        cli_say("bench", "--against '%s' cannot be read: %s", path, error->message);
    } else {
        JsonNode *root = json_parser_get_root(saved->parser);
        JsonObject *document =
            root && JSON_NODE_HOLDS_OBJECT(root) ? json_node_get_object(root) : NULL;
        JsonNode *cells = document ? json_object_get_member(document, "cells") : NULL;

        if (document && cells && JSON_NODE_HOLDS_ARRAY(cells) &&
            g_strcmp0(json_object_get_string_member_with_default(document, "schema", NULL),
                      schema) == 0) {
            saved->document = document;
            saved->cells = json_node_get_array(cells);
            return saved;
        }
        cli_say("bench",
                "--against '%s' is not a file that `tutti bench --save` writes (\"schema\" "
                "\"%s\")",
                path, schema);
    }
    saved_free(saved);
    return NULL;
}

void saved_free(struct bench_saved *saved)
{
    if (saved)
        g_object_unref(saved->parser);
    g_free(saved);
}

static void add_difference(GString *words, const char *what, const char *before, const char *now)
{
    if (g_strcmp0(before, now) != 0)
        g_string_append_printf(words, "%s%s %s then, %s now", words->len ? "; " : "", what,
                               before ? before : "unknown", now);
}

char *saved_difference(const struct bench_saved *saved, const struct bench_facts *facts)
{
    g_autoptr(GString) words = g_string_new(NULL);
    const gint64 ranks = json_object_get_int_member_with_default(saved->document, "ranks", 0);
    g_autofree char *before = g_strdup_printf("%lld", (long long)ranks);
    g_autofree char *now = g_strdup_printf("%d", facts->ranks);

    add_difference(words, "ranks", before, now);
    add_difference(words, "backend",
                   json_object_get_string_member_with_default(saved->document, "backend", NULL),
                   facts->backend);
    add_difference(words, "CPU",
                   json_object_get_string_member_with_default(saved->document, "cpu", NULL),
                   facts->cpu);
    return words->len ? g_string_free(g_steal_pointer(&words), FALSE) : NULL;
}

static bool has_value(JsonObject *cell, const char *name)
{
    JsonNode *node = json_object_get_member(cell, name);

    return node && JSON_NODE_HOLDS_VALUE(node);
}

static const char *saved_text(JsonObject *cell, const char *name)
{
    return has_value(cell, name) ? json_object_get_string_member_with_default(cell, name, NULL)
                                 : NULL;
}

static double saved_real(JsonObject *cell, const char *name)
{
    return has_value(cell, name) ? json_object_get_double_member_with_default(cell, name, 0) : 0;
}

/* The fields by which a cell is found again. */
static bool is_same_cell(JsonObject *cell, const struct bench_result *result)
{
    static const char *const keys[] = {"operation", "bytes", "dtype", "op",
                                       "memory",    "mode",  "async", "window"};

    for (size_t k = 0; k < G_N_ELEMENTS(fields); k++) {
        const struct field *field = &fields[k];
        bool is_key = false;

        for (size_t i = 0; i < G_N_ELEMENTS(keys); i++)
            is_key = is_key || strcmp(keys[i], field->name) == 0;
        if (!is_key)
            continue;
        if (field->kind == BENCH_TEXT &&
            g_strcmp0(saved_text(cell, field->name), text_of(result, field)) != 0)
            return false;
        if (field->kind == BENCH_BOOL && json_object_get_boolean_member_with_default(
                                             cell, field->name, FALSE) != number_of(result, field))
            return false;
        if (field->kind == BENCH_NUMBER && json_object_get_int_member_with_default(
                                               cell, field->name, -1) != number_of(result, field))
            return false;
    }
    return true;
}

static enum bench_verdict judge(JsonObject *cell, const struct bench_result *result)
{
    const double low = saved_real(cell, "p50_low_us"), high = saved_real(cell, "p50_high_us");

    if (g_strcmp0(saved_text(cell, "link"), result->link) != 0)
        return BENCH_OTHER_LINK;
    if (result->low_us > high && result->ratio > 1 + noise)
        return BENCH_SLOWER;
    if (result->high_us < low && result->ratio < 1 - noise)
        return BENCH_FASTER;
    return BENCH_SAME;
}

void saved_compare(const struct bench_saved *saved, struct bench_result *result)
{
    for (guint i = 0; i < json_array_get_length(saved->cells); i++) {
        JsonNode *node = json_array_get_element(saved->cells, i);
        JsonObject *cell = JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
        const double before = cell ? saved_real(cell, "p50_us") : 0;

        if (!(before > 0) || !is_same_cell(cell, result))
            continue;
        result->before_us = before;
        result->ratio = result->p50_us / before;
        result->verdict = judge(cell, result);
        return;
    }
}
