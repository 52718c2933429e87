/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of tutti_info_list(): one file a section. Values are words for people; the names and the
 * bare numbers that tools may rely on are said in docs/man/tutti-info.1.scd.
 */
#pragma once

#include <stdbool.h>

#include <tutti/info.h>
#include <tutti/plugin.h>

struct info_rows {
    tutti_info_fn fn;
    void *user;
    const char *section;
};

/* Hands one row out. */
void info_row(const struct info_rows *rows, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

void info_net(const struct info_rows *rows);
void info_limits(const struct info_rows *rows);
void info_secret(const struct info_rows *rows);

/*
 * What the plugin finds, if it drives devices: the driver and each device, a line each. False, with a message: its
 * driver is not here, or of no use.
 */
enum { INFO_DEVICES_TEXT = 4096 };
bool info_devices(const tutti_plugin *plugin, char ret_lines[static INFO_DEVICES_TEXT]);

/* "512", "64.0 KiB", "2.0 GiB". */
enum { INFO_SIZE_TEXT = 24 };
const char *info_size(unsigned long long bytes, char text[static INFO_SIZE_TEXT]);
