/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When NCCL is first used it reads ~/.nccl.conf, or the file that NCCL_CONF_FILE names, and then /etc/nccl.conf. It
 * adds each variable that the environment has not to the environment, so the first line of a name counts. What is read
 * here is the same, before NCCL does it.
 */
#include "conf.h"

#include <pthread.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { HOME_BYTES = 4096 };

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

/* Neither a comment, nor words without '=', nor a name that a line before has. */
static void add(const char *words)
{
    const size_t bytes = strcspn(words, "\n"), name_bytes = strcspn(words, "=\n");
    struct line *line;

    if (*words == '#' || words[name_bytes] != '=')
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

static void read_file(const char *path)
{
    FILE *file = fopen(path, "re");
    char *words = NULL;
    size_t room = 0;

    if (!file)
        return;
    while (getline(&words, &room, file) > 0)
        add(words);
    free(words);
    fclose(file);
}

/* NCCL takes the home of the user, not HOME. */
static void read_users_file(void)
{
    char text[HOME_BYTES], path[HOME_BYTES + sizeof "/.nccl.conf"];
    struct passwd user, *found = NULL;

    if (getpwuid_r(getuid(), &user, text, sizeof text, &found) || !found)
        return;
    (void)snprintf(path, sizeof path, "%s/.nccl.conf", user.pw_dir);
    read_file(path);
}

static void read_files(void)
{
    const char *named = secure_getenv("NCCL_CONF_FILE");

    if (named && *named)
        read_file(named);
    else
        read_users_file();
    read_file("/etc/nccl.conf");
}

const char *conf_value(const char *variable)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    const struct line *line;

    pthread_once(&once, read_files);
    line = find(variable);
    return line ? line->value : NULL;
}
