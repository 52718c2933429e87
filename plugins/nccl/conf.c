/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When NCCL is first used it reads .nccl.conf in the user's home, or, from 2.23 on, the file that NCCL_CONF_FILE names, and
 * then /etc/nccl.conf. It adds each variable that the environment has not to the environment, so the first line of a
 * name counts. What is read here is the same, before NCCL does it.
 */
#include "conf.h"

#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Versions of NCCL from which on it reads NCCL_CONF_FILE; and $HOME, and lines that end as on Windows. */
enum { HAS_CONF_FILE = 22300, HAS_HOME = 23000, HOME_BYTES = 4096 };

/* "NAME=VALUE", cut at the '='. They stay until the process ends. */
struct line {
    struct line *next;
    char *value;
    char name[];
};

static struct line *lines;

static const struct line *find(const char *name)
{
    const struct line *line = lines;

    while (line && strcmp(line->name, name) != 0)
        line = line->next;
    return line;
}

/* A line up to one of the bytes `ends`. Neither a comment, nor words without '=', nor a name that a line before has. */
static void add(const char *words, const char *ends)
{
    const size_t bytes = strcspn(words, ends), name_bytes = strcspn(words, "=");
    struct line *line;

    if (*words == '#' || name_bytes >= bytes)
        return;
    line = calloc(1, sizeof *line + bytes + 1);
    if (!line)
        return;
    memcpy(line->name, words, bytes);
    line->name[name_bytes] = 0;
    line->value = line->name + name_bytes + 1;
    if (find(line->name)) {
        free(line);
        return;
    }
    line->next = lines;
    lines = line;
}

static void read_file(const char *path, int code)
{
    FILE *file = fopen(path, "re");
    char *words = NULL;
    size_t room = 0;

    if (!file)
        return;
    while (getline(&words, &room, file) > 0)
        add(words, code < HAS_HOME ? "\n" : "\r\n");
    free(words);
    fclose(file);
}

/* Of the user database; NULL: it is not known. */
static const char *home_of_user(char text[HOME_BYTES])
{
    struct passwd user, *found = NULL;

    return !getpwuid_r(getuid(), &user, text, HOME_BYTES, &found) && found ? user.pw_dir : NULL;
}

static void read_users_file(int code)
{
    char text[HOME_BYTES], path[HOME_BYTES + sizeof "/.nccl.conf"];
    const char *home = code < HAS_HOME ? home_of_user(text) : secure_getenv("HOME");

    if (!home)
        return;
    (void)snprintf(path, sizeof path, "%.4000s/.nccl.conf", home);
    read_file(path, code);
}

void conf_read(int code)
{
    const char *named = code < HAS_CONF_FILE ? NULL : secure_getenv("NCCL_CONF_FILE");

    if (named && *named)
        read_file(named, code);
    else
        read_users_file(code);
    read_file("/etc/nccl.conf", code);
}

const char *conf_value(const char *variable)
{
    const struct line *line = find(variable);

    return line ? line->value : NULL;
}
