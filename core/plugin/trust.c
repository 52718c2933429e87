/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/trust.h"

#include <dlfcn.h>
#include <errno.h>
#include <grp.h>
#include <link.h>
#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/error.h"

enum { ACCOUNT_BYTES = 4096 }; /* for getpwuid_r; a larger entry counts as unknown */

static char library_path[PATH_MAX];

static void find_library(void)
{
    Dl_info info;
    struct link_map *map = NULL;
    char real[PATH_MAX];

    /* The program's own name in the link map is empty; dli_fname may be relative to anything. */
    if (!dladdr1(library_path, &info, (void **)&map, RTLD_DL_LINKMAP) || !map)
        return;
    if (realpath(map->l_name && *map->l_name ? map->l_name : "/proc/self/exe", real))
        memcpy(library_path, real, strlen(real) + 1);
}

const char *trust_library_path(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, find_library);
    return library_path;
}

tutti_status trust_rules_of_process(struct trust_rules *ret_rules)
{
    const char *override = secure_getenv("TUTTI_PLUGIN_TRUST");
    struct stat st;

    if (override && *override && strcmp(override, "any"))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "TUTTI_PLUGIN_TRUST=%s: only \"any\" is known, which opens plugins that "
                         "any user can write; unset it otherwise",
                         override);

    struct trust_rules rules = {.user = geteuid(), .any = override && *override};
    strcpy(rules.library, trust_library_path());
    rules.library_owner = rules.library[0] && !stat(rules.library, &st) ? st.st_uid : rules.user;
    *ret_rules = rules;
    return TUTTI_OK;
}

static void owner_name(uid_t uid, char *ret_name, size_t size)
{
    struct passwd entry, *found = NULL;
    char buffer[ACCOUNT_BYTES];

    if (!getpwuid_r(uid, &entry, buffer, sizeof buffer, &found) && found)
        snprintf(ret_name, size, "%s", entry.pw_name);
    else
        snprintf(ret_name, size, "user %u", (unsigned)uid);
}

/*
 * A group of the owner alone: their primary group, called like them, with no other member listed.
 * The name matters, since users that have a shared group as their primary one are listed nowhere.
 */
static bool is_private_group(gid_t gid, uid_t owner)
{
    struct passwd user, *user_found = NULL;
    struct group group, *group_found = NULL;
    char user_buffer[ACCOUNT_BYTES], group_buffer[ACCOUNT_BYTES];

    if (getpwuid_r(owner, &user, user_buffer, sizeof user_buffer, &user_found) || !user_found ||
        user.pw_gid != gid)
        return false;
    if (getgrgid_r(gid, &group, group_buffer, sizeof group_buffer, &group_found) || !group_found ||
        strcmp(group.gr_name, user.pw_name))
        return false;
    for (char **member = group.gr_mem; *member; member++) {
        if (strcmp(*member, user.pw_name))
            return false;
    }
    return true;
}

/* Whether the file has an access control list: the group's bits are then its mask, and stand for
 * users that it names. */
static bool has_access_list(const char *path)
{
    return lgetxattr(path, "system.posix_acl_access", NULL, 0) > 0;
}

static tutti_status check_component(const struct trust_rules *rules, const char *path)
{
    struct stat st;
    char owner[64];

    if (lstat(path, &st))
        return error_set_errno(TUTTI_ERR_DENIED, errno, "cannot look at %s", path);
    owner_name(st.st_uid, owner, sizeof owner);

    const unsigned mode = st.st_mode & 07777;
    if (st.st_uid != 0 && st.st_uid != rules->user && st.st_uid != rules->library_owner)
        return error_set(TUTTI_ERR_DENIED,
                         "%s is not trusted: it belongs to %s (mode %04o), who could replace the "
                         "plugin; chown root %s, or move the plugin elsewhere",
                         path, owner, mode, path);
    if (S_ISDIR(st.st_mode) && (mode & S_ISVTX) && st.st_uid == 0)
        return TUTTI_OK;
    if (mode & S_IWOTH)
        return error_set(
            TUTTI_ERR_DENIED,
            "%s is not trusted: owner %s, mode %04o lets everybody write it; chmod o-w "
            "%s",
            path, owner, mode, path);
    if ((mode & S_IWGRP) && (has_access_list(path) || !(is_private_group(st.st_gid, st.st_uid) ||
                                                        is_private_group(st.st_gid, rules->user))))
        return error_set(
            TUTTI_ERR_DENIED,
            "%s is not trusted: owner %s, mode %04o lets group %u write it; chmod g-w %s", path,
            owner, mode, (unsigned)st.st_gid, path);
    return TUTTI_OK;
}

/* Whether `directory` ("/" or without a slash at its end) is above libtutti's own file. */
static bool leads_to_library(const struct trust_rules *rules, const char *directory)
{
    size_t n = strlen(directory);

    if (n == 1)
        return rules->library[0] == '/';
    return !strncmp(rules->library, directory, n) && rules->library[n] == '/';
}

tutti_status trust_check(const struct trust_rules *rules, const char *path)
{
    char component[PATH_MAX];
    size_t length = strlen(path);

    if (rules->any)
        return TUTTI_OK;
    if (path[0] != '/' || length >= sizeof component)
        return error_set(TUTTI_ERR_DENIED, "%s is not trusted: not an absolute path", path);

    for (size_t end = 1; end <= length; end++) {
        if (end > 1 && end < length && path[end] != '/')
            continue;
        memcpy(component, path, end);
        component[end] = 0;
        if (end < length && leads_to_library(rules, component))
            continue;

        tutti_status status = check_component(rules, component);
        if (status)
            return status;
    }
    return TUTTI_OK;
}
