/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a plugin's file may be opened: opening it runs its code with this process's rights, so
 * nobody else may be able to replace it.
 *
 * Every component of the real path, the file included, must be owned by root, the effective user or
 * the owner of libtutti's file, and must not be writable by others. Exceptions: a sticky directory
 * of root's; a private group (of the component's owner or the effective user, holding nobody else);
 * a directory that libtutti's own path passes through (a user that can change that can change
 * libtutti). TUTTI_PLUGIN_TRUST=any switches the check off; set-id programs ignore it.
 */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <sys/stat.h>

#include <tutti/status.h>

/* The facts that are believed without a check; a table row in tests. */
struct trust_rules {
    uid_t user;             /* the effective user */
    uid_t library_owner;    /* of libtutti's file */
    char library[PATH_MAX]; /* libtutti's real path, "" when unknown */
    bool any;               /* the override */
};

/* The rules of this process. INVALID_ARGUMENT: TUTTI_PLUGIN_TRUST has an unknown value. */
tutti_status trust_rules_of_process(struct trust_rules *ret_rules);

/* `path` is a real path. DENIED names the component, its owner and mode, and the cure. */
tutti_status trust_check(const struct trust_rules *rules, const char *path);

/* libtutti's own real path (of the program, when it is linked in); "" when that cannot be told. */
const char *trust_library_path(void);
