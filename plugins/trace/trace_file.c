/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of one rank's events, a JSON array. Events gather in a buffer that is written when it is full, with
 * the first event FLUSH_MS after the last write, and after a failed call. So a call rarely pays for a write(2).
 *
 * A killed rank leaves the array open; `tutti trace` reads such a file as far as it goes. A write that fails
 * ends the file with one warning and never fails the traced call.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trace.h"

enum { FLUSH_MS = 100, PIECE_MAX = 1024 };

/* The folder of the file, as dumps make theirs; whether it is there now shows when it is opened. */
static void make_folder_of(const char *path)
{
    char folder[512];
    const char *end = strrchr(path, '/');

    if (!end || (size_t)(end - path) >= sizeof folder)
        return;
    snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path);
    if (*folder)
        (void)mkdir(folder, 0777);
}

tutti_status trace_file_open(struct trace_file *file, const tutti_host *host, void *host_self,
                             const char *path)
{
    char words[640];

    *file = (struct trace_file){.host = host, .host_self = host_self, .flushed_ns = INT64_MIN};
    snprintf(file->path, sizeof file->path, "%s", path);
    make_folder_of(path);
    file->fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (file->fd >= 0) {
        trace_file_put(file, "[");
        return TUTTI_OK;
    }
    int error = errno;
    snprintf(words, sizeof words, "cannot write %s (TUTTI_TRACE_DIR)", path);
    return host->error(host_self, TUTTI_ERR_SYSTEM, error, words);
}

void trace_file_flush(struct trace_file *file)
{
    uint32_t at = 0;

    while (at < file->used && !file->broken) {
        ssize_t n = write(file->fd, file->buffer + at, file->used - at);

        if (n > 0) {
            at += (uint32_t)n;
        } else if (errno != EINTR) {
            char words[640];

            file->broken = true;
            snprintf(words, sizeof words, "%s ends here: %s", file->path, strerror(errno));
            file->host->log(file->host_self, 1, words);
        }
    }
    file->used = 0;
}

void trace_file_tick(struct trace_file *file, int64_t now_ns)
{
    if (file->flushed_ns != INT64_MIN && now_ns < file->flushed_ns + FLUSH_MS * INT64_C(1000000))
        return;
    file->flushed_ns = now_ns;
    trace_file_flush(file);
}

void trace_file_begin(struct trace_file *file)
{
    trace_file_put(file, file->any ? ",\n" : "\n");
    file->any = true;
}

static void put(struct trace_file *file, const char *bytes, size_t count)
{
    if (file->used + count > sizeof file->buffer)
        trace_file_flush(file);
    memcpy(file->buffer + file->used, bytes, count);
    file->used += (uint32_t)count;
}

void trace_file_put(struct trace_file *file, const char *format, ...)
{
    char piece[PIECE_MAX];
    va_list arguments;

    va_start(arguments, format);
    int n = vsnprintf(piece, sizeof piece, format, arguments);
    va_end(arguments);
    if (n > 0 && (size_t)n < sizeof piece)
        put(file, piece, (size_t)n);
}

void trace_file_put_string(struct trace_file *file, const char *text)
{
    put(file, "\"", 1);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;

        if (c == '"' || c == '\\')
            trace_file_put(file, "\\%c", c);
        else if (c < ' ')
            trace_file_put(file, "\\u%04x", c);
        else
            put(file, text, 1);
    }
    put(file, "\"", 1);
}

void trace_file_put_time(struct trace_file *file, int64_t ns)
{
    trace_file_put(file, "%" PRId64 ".%03d", ns / 1000, (int)(ns % 1000));
}

void trace_file_close(struct trace_file *file)
{
    trace_file_put(file, "\n]\n");
    trace_file_flush(file);
    close(file->fd);
}
