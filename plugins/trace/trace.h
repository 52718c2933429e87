/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The file of one rank: JSON values appended to an array, in the Trace Event Format's array form,
 * whose closing bracket may be missing. What is written stays in a buffer until it is full, a little
 * time has passed, or somebody flushes, so that a killed process leaves all but its last moments.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

enum { TRACE_BUFFER = 1 << 16 };

struct trace_file {
    const tutti_host *host;
    void *host_self;
    int fd;
    bool broken; /* a write failed: it was said, and nothing more is written */
    bool any;    /* an event was begun */
    int64_t flushed_ns;
    uint32_t used;
    char path[512];
    char buffer[TRACE_BUFFER];
};

/* Creates `path`, or empties it. */
tutti_status trace_file_open(struct trace_file *file, const tutti_host *host, void *host_self,
                             const char *path);
/* The next event begins; everything until the next one belongs to it. */
void trace_file_begin(struct trace_file *file);
void trace_file_put(struct trace_file *file, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A string in quotes. */
void trace_file_put_string(struct trace_file *file, const char *text);
/* Nanoseconds as the microseconds of the format. */
void trace_file_put_time(struct trace_file *file, int64_t ns);
/* Writes what is in the buffer when `now_ns` is late enough. */
void trace_file_tick(struct trace_file *file, int64_t now_ns);
void trace_file_flush(struct trace_file *file);
void trace_file_close(struct trace_file *file);
