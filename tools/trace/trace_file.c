/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH_MAX = 32 /* a dump needs seven */ };

/* Reads up to the end of the file, which may have been cut meanwhile; false with errno. */
static bool read_whole(int fd, char *ret_text, gsize capacity, gsize *ret_size)
{
    gsize size = 0;

    while (size < capacity) {
        ssize_t got = read(fd, ret_text + size, capacity - size);

        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return false;
        if (got == 0)
            break;
        size += (gsize)got;
    }
    ret_text[size] = 0;
    *ret_size = size;
    return true;
}

char *trace_file_read(const char *path, int max_mib, gsize *ret_size, char **ret_words)
{
    struct stat about;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* a pipe would wait for a writer */
    g_autofree char *text = NULL;

    if (fd < 0 || fstat(fd, &about) < 0) {
        *ret_words = g_strdup(strerror(errno));
    } else if (!S_ISREG(about.st_mode) || about.st_size > (off_t)max_mib << 20) {
        *ret_words = g_strdup_printf("it is not a file of at most %d MiB", max_mib);
    } else if (!(text = g_try_malloc((gsize)about.st_size + 1))) {
        *ret_words = g_strdup("there is no memory for it");
    } else if (!read_whole(fd, text, (gsize)about.st_size, ret_size)) {
        *ret_words = g_strdup(strerror(errno));
        g_clear_pointer(&text, g_free);
    }
    if (fd >= 0)
        close(fd);
    return g_steal_pointer(&text);
}

bool trace_file_nests_deep(const char *text, gsize size)
{
    bool inside = false; /* of a string */
    int depth = 0;

    for (gsize i = 0; i < size && depth <= DEPTH_MAX; i++) {
        if (inside && text[i] == '\\')
            i++;
        else if (text[i] == '"')
            inside = !inside;
        else if (!inside && (text[i] == '[' || text[i] == '{'))
            depth++;
        else if (!inside && (text[i] == ']' || text[i] == '}'))
            depth--;
    }
    return depth > DEPTH_MAX;
}
