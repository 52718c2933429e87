/* SPDX-License-Identifier: Apache-2.0 */
#include "loaded.h"

#include <limits.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct search {
    const char *name;
    struct loaded_copies *copies;
};

static bool is_copy(const char *path, const char *wanted)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const size_t length = strlen(wanted);

    return !strncmp(name, wanted, length) && (name[length] == '-' || name[length] == '.') &&
           strstr(name + length, ".so");
}

static int look_at(struct dl_phdr_info *object, size_t bytes, void *user)
{
    const struct search *search = user;
    struct loaded_copies *copies = search->copies;
    char *to = *copies->first ? copies->second : copies->first;

    (void)bytes;
    if (object->dlpi_name && is_copy(object->dlpi_name, search->name) && !*copies->second)
        snprintf(to, LOADED_PATH_BYTES, "%s", object->dlpi_name);
    return 0;
}

void loaded_find(const char *name, struct loaded_copies *ret_copies)
{
    struct search search = {.name = name, .copies = ret_copies};

    *ret_copies->first = *ret_copies->second = 0;
    dl_iterate_phdr(look_at, &search);
}

bool loaded_is_same_file(const char *a, const char *b)
{
    char first[PATH_MAX], second[PATH_MAX];

    return realpath(a, first) && realpath(b, second) && !strcmp(first, second);
}
