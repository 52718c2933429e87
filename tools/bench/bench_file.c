/* SPDX-License-Identifier: Apache-2.0 */
/* The document of --json, --save and --against. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/utsname.h>

#include "bench/bench.h"
#include "cli.h"

static const char schema[] =
    "tutti.bench/1"; /* the number grows when a member changes its meaning */

static void add_double(JsonBuilder *builder, const char *name, double value)
{
    json_builder_set_member_name(builder, name);
    json_builder_add_double_value(builder, value);
}

static void add_cpu(const char *section, const char *name, const char *value, void *user)
{
    if (strcmp(section, "cpu") == 0)
        cli_json_string(user, name, value);
}

static void add_host(JsonBuilder *builder)
{
    struct utsname system;

    json_builder_set_member_name(builder, "host");
    json_builder_begin_object(builder);
    if (uname(&system) == 0) {
        cli_json_string(builder, "kernel", system.release);
        cli_json_string(builder, "machine", system.machine);
    }
    tutti_info_list(add_cpu, builder);
    json_builder_end_object(builder);
}

static void add_cell(JsonBuilder *builder, const struct bench_report *report,
                     const struct bench_cell *cell)
{
    const struct bench_plan *plan = report->rank->plan;
    const bool reduces = cell->operation->reduces;

    json_builder_begin_object(builder);
    cli_json_string(builder, "operation", cell->operation->name);
    cli_json_int(builder, "bytes", (gint64)cell->bytes);
    cli_json_int(builder, "count", (gint64)cell->count);
    cli_json_string(builder, "dtype", tutti_dtype_name(plan->dtype));
    cli_json_string(builder, "op", reduces ? tutti_reduce_op_name(plan->op) : "-");
    cli_json_string(builder, "memory", bench_memories[plan->memory]);
    cli_json_string(builder, "mode", bench_mode(plan, cell));
    cli_json_int(builder, "ranks", report->rank->size);
    cli_json_int(builder, "calls", cell->calls);
    cli_json_int(builder, "samples", cell->samples);
    cli_json_bool(builder, "settled", cell->settled);
    add_double(builder, "min_us", cell->min);
    add_double(builder, "p50_us", cell->p50);
    add_double(builder, "p25_us", cell->p25);
    add_double(builder, "p75_us", cell->p75);
    add_double(builder, "p95_us", cell->p95);
    add_double(builder, "p99_us", cell->p99);
    add_double(builder, "algorithm_gbs", cell->algorithm_gbs);
    add_double(builder, "bus_gbs", cell->bus_gbs);
    add_double(builder, "cpu_percent", cell->cpu_percent);
    cli_json_string(builder, "link", cell->link);
    add_double(builder, "link_ns", cell->link_ns);
    cli_json_int(builder, "wrong", (gint64)cell->wrong);
    cli_json_string(builder, "served", cell->served);
    json_builder_end_object(builder);
}

JsonNode *bench_report_json(const struct bench_report *report)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();
    g_autoptr(GDateTime) now = g_date_time_new_now_utc();
    g_autofree char *date = g_date_time_format_iso8601(now);

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", schema);
    cli_json_string(builder, "version", tutti_version());
    cli_json_string(builder, "date", date);
    cli_json_string(builder, "backend", tutti_group_backend(report->rank->world));
    add_host(builder);
    cli_json_array(builder, "cells");
    for (guint i = 0; i < report->cells->len; i++)
        add_cell(builder, report, &g_array_index(report->cells, struct bench_cell, i));
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    return json_builder_get_root(builder);
}

bool bench_report_save(const struct bench_report *report, const char *path)
{
    g_autoptr(JsonNode) root = bench_report_json(report);
    g_autofree char *text = json_to_string(root, TRUE);
    g_autofree char *whole = g_strconcat(text, "\n", NULL);
    g_autoptr(GError) error = NULL;

    if (g_file_set_contents(path, whole, -1, &error)) /* by a new file that takes its place */
        return true;
    cli_say("bench", "cannot write %s: %s", path, error->message);
    return false;
}

JsonNode *bench_report_load(const char *path)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(GError) error = NULL;

    if (!json_parser_load_from_file(parser, path, &error)) {
        cli_say("bench", "cannot read %s: %s", path, error->message);
        return NULL;
    }
    JsonNode *root = json_parser_get_root(parser);
    JsonObject *object = root && JSON_NODE_HOLDS_OBJECT(root) ? json_node_get_object(root) : NULL;
    JsonNode *cells = object ? json_object_get_member(object, "cells") : NULL;
    if (!cells || !JSON_NODE_HOLDS_ARRAY(cells) ||
        strcmp(json_object_get_string_member_with_default(object, "schema", ""), schema) != 0) {
        cli_say("bench", "%s is no document of 'tutti bench --save' of this version", path);
        return NULL;
    }
    return json_node_copy(root);
}
