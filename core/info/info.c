/* SPDX-License-Identifier: Apache-2.0 */
#include "info/info.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/version.h>

#include "base/cgroup.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/text.h"
#include "dispatch/tuning.h"
#include "plugin/search.h"
#include "reduce/reduce.h"

void info_row(const struct info_rows *rows, const char *name, const char *format, ...)
{
    char value[1024];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(value, sizeof value, format, args);
    va_end(args);
    rows->fn(rows->section, name, value, rows->user);
}

const char *info_size(unsigned long long bytes, char text[static INFO_SIZE_TEXT])
{
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    double value = (double)bytes;
    int unit = -1;

    for (; value >= 1024 && unit < 5; unit++)
        value /= 1024;
    if (unit < 0)
        snprintf(text, INFO_SIZE_TEXT, "%llu B", bytes);
    else
        snprintf(text, INFO_SIZE_TEXT, "%.1f %s", value, units[unit]);
    return text;
}

/* In the order in which they are searched. */
static void info_directories(const struct info_rows *rows)
{
    STRINGS_AUTO(directories);
    struct stat st;

    search_directories(&directories);
    for (size_t i = 0; i < directories.count; i++) {
        const char *path = directories.at[i];
        const bool is_there = !stat(path, &st) && S_ISDIR(st.st_mode);

        info_row(rows, "plugin directory", "%s%s", path, is_there ? "" : " (not there)");
    }
}

static void info_build(const struct info_rows *rows)
{
    const char *path = secure_getenv("TUTTI_PLUGIN_PATH");

    info_row(rows, "version", "%s", tutti_version());
    info_row(rows, "type", "%s", TUTTI_BUILD_TYPE);
    info_row(rows, "compiler", "%s", TUTTI_COMPILER);
    info_row(rows, "sanitizers", "%s", *TUTTI_SANITIZERS ? TUTTI_SANITIZERS : "none");
    info_directories(rows);
    if (path && *path)
        info_row(rows, "TUTTI_PLUGIN_PATH", "%s", path);
}

static void info_cpu(const struct info_rows *rows)
{
    struct cgroup_limits limits;

    cgroup_limits_read(&limits);
    info_row(rows, "online", "%ld", sysconf(_SC_NPROCESSORS_ONLN));
    info_row(rows, "affinity", "%d", cpu_affinity());
    if (limits.cpus > 0)
        info_row(rows, "quota", "%.2f CPUs, the cgroup's quota", limits.cpus);
    else
        info_row(rows, "quota", "none");
    info_row(rows, "kernels", "%s", reduce_isa());
    info_row(rows, "usable", "%d", cpu_usable());
}

/* The thresholds that the next tutti_init() would use. */
static void info_tuning(const struct info_rows *rows)
{
    struct thresholds thresholds;
    char path[TUNING_PATH_MAX];
    bool named;

    if (tuning_path(path, &named)) {
        info_row(rows, "file", "%s", path);
        info_row(rows, "found", "%s", access(path, F_OK) ? "no" : "yes");
    } else {
        info_row(rows, "file", "none");
    }
    if (tuning_read(&thresholds)) {
        info_row(rows, "problem", "%s", error_message());
        return;
    }
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++) {
        const struct threshold_row *row = &threshold_rows[i];
        char words[96];
        struct text text = text_in(words, sizeof words);

        text_add(&text, "%llu", (unsigned long long)thresholds.bytes[i]);
        if (thresholds.tuned[i])
            text_add(&text, ", default %llu", (unsigned long long)row->standard);
        if (row->crowded)
            text_add(&text, ", crowded %llu", (unsigned long long)row->crowded);
        info_row(rows, row->name, "%s; %s", words, row->meaning);
    }
    for (int i = 0; i < OPERATION_COUNT; i++)
        if (thresholds.fixed[i])
            info_row(rows, operation_name(i), "%s; for every size", thresholds.fixed[i]->name);
}

tutti_status tutti_info_list(tutti_info_fn fn, void *user)
{
    if (!fn)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "fn is NULL");
    info_build(&(struct info_rows){fn, user, "build"});
    info_cpu(&(struct info_rows){fn, user, "cpu"});
    info_net(&(struct info_rows){fn, user, "net"});
    info_limits(&(struct info_rows){fn, user, "limits"});
    info_secret(&(struct info_rows){fn, user, "secret"});
    info_tuning(&(struct info_rows){fn, user, "tuning"});
    return TUTTI_OK;
}
