/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapper `trace`: each rank writes its calls to a file that Perfetto and chrome://tracing open.
 *
 * A call is one complete event ("X") from the moment the program called until it was over, a rank is a
 * process, and a track of it is a lane: viewers want the events of a track to nest, and calls that
 * overlap do not, so each goes to the first lane that is free again. Calls are told when they end, in
 * that order, so a lane is free for a call when its last one had ended before this one began.
 *
 * Times are CLOCK_MONOTONIC of the host. The first events say which clock that is, and how far the wall
 * clock was from it, so that `tutti trace merge` can put the files of several hosts together.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "trace.h"

enum { LANES_MAX = 512 /* overlapping calls; more share the last */, KINDS = 2, KIND_LANES = 1000 };

static const char *const kind_names[KINDS] = {"collectives", "messages"};

struct tutti_wrapper {
    const tutti_host *host;
    void *host_self;
    int rank;
    int init; /* which of this process's, from 1 */
    int64_t lane_end_ns[KINDS][LANES_MAX];
    int lanes[KINDS];
    struct trace_file file;
};

/* ---- what a rank is ---- */

/* Equal on processes that read the same CLOCK_MONOTONIC: the kernel's boot, and the time namespace. */
static void describe_clock(char *ret_text, size_t capacity)
{
    char boot[64] = "?";
    struct stat space = {0};
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");

    if (file) {
        if (fgets(boot, sizeof boot, file))
            boot[strcspn(boot, "\n")] = 0;
        fclose(file);
    }
    (void)stat("/proc/self/ns/time", &space);
    snprintf(ret_text, capacity, "%s/%llu", boot, (unsigned long long)space.st_ino);
}

static int64_t wall_minus_monotonic(void)
{
    struct timespec wall, monotonic;

    clock_gettime(CLOCK_MONOTONIC, &monotonic);
    clock_gettime(CLOCK_REALTIME, &wall);
    return ((int64_t)wall.tv_sec - monotonic.tv_sec) * INT64_C(1000000000) + wall.tv_nsec -
           monotonic.tv_nsec;
}

static void put_metadata(struct trace_file *file, const char *name, int rank, int tid)
{
    trace_file_begin(file);
    trace_file_put(file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":0,\"args\":{",
                   name, rank, tid);
}

static void introduce(struct tutti_wrapper *w, const tutti_wrapper_options *options)
{
    struct trace_file *file = &w->file;
    char host[256] = "?", clock[128], name[320];

    (void)gethostname(host, sizeof host - 1);
    describe_clock(clock, sizeof clock);
    snprintf(name, sizeof name, "rank %d (host %s, pid %d)", w->rank, host, (int)getpid());
    put_metadata(file, "process_name", w->rank, 0);
    trace_file_put(file, "\"name\":");
    trace_file_put_string(file, name);
    trace_file_put(file, "}}");
    put_metadata(file, "process_sort_index", w->rank, 0);
    trace_file_put(file, "\"sort_index\":%d}}", w->rank);
    put_metadata(file, "tutti_rank", w->rank, 0);
    trace_file_put(
        file,
        "\"schema\":\"tutti.timeline/1\",\"rank\":%d,\"size\":%d,\"init\":%d,\"pid\":%d,\"host\":",
        w->rank, options->size, w->init, (int)getpid());
    trace_file_put_string(file, host);
    trace_file_put(file, ",\"run_id\":");
    trace_file_put_string(file, options->run_id ? options->run_id : "");
    trace_file_put(file, ",\"clock\":");
    trace_file_put_string(file, clock);
    trace_file_put(file, ",\"wall_minus_monotonic_ns\":%" PRId64 "}}", wall_minus_monotonic());
}

/* ---- where it writes ---- */

/* How often this process has had a file of that rank, this time included: a program may call
 * tutti_init() again, and its threads may be ranks. 0: no memory. */
static int times_opened(int rank)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static struct seen {
        struct seen *next;
        int rank, times;
    } * all;
    struct seen *seen;

    pthread_mutex_lock(&lock);
    for (seen = all; seen && seen->rank != rank; seen = seen->next)
        ;
    if (!seen && (seen = calloc(1, sizeof *seen))) {
        *seen = (struct seen){.next = all, .rank = rank};
        all = seen;
    }
    int times = seen ? ++seen->times : 0;
    pthread_mutex_unlock(&lock);
    return times;
}

static tutti_status open_file(struct tutti_wrapper *w)
{
    const char *directory = w->host->config(w->host_self, "dir");
    char path[sizeof w->file.path], again[16] = "";

    w->init = times_opened(w->rank);
    if (!directory || !*directory)
        directory = ".";
    if (w->init > 1)
        snprintf(again, sizeof again, ".%d", w->init);
    int n = snprintf(path, sizeof path, "%s/tutti-trace.%d%s.json", directory, w->rank, again);
    if (n < 0 || (size_t)n >= sizeof path)
        return w->host->error(w->host_self, TUTTI_ERR_INVALID_ARGUMENT, 0,
                              "the path in TUTTI_TRACE_DIR is too long");
    return trace_file_open(&w->file, w->host, w->host_self, path);
}

static tutti_status trace_open(const tutti_host *host, void *host_self,
                               const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper)
{
    struct tutti_wrapper *w = host->allocate(host_self, sizeof *w);

    if (!w)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory");
    w->host = host;
    w->host_self = host_self;
    w->rank = options->rank;
    tutti_status status = open_file(w);
    if (status) {
        host->release(host_self, w);
        return status;
    }
    introduce(w, options);
    trace_file_flush(&w->file);
    *ret_wrapper = w;
    return TUTTI_OK;
}

static void trace_close(tutti_wrapper *w)
{
    trace_file_close(&w->file);
    w->host->release(w->host_self, w);
}

/* ---- calls ---- */

static const char *status_name(tutti_status status)
{
    switch (status) {
#define NAME(name, number, words)                                                                  \
    case TUTTI_##name:                                                                             \
        return "TUTTI_" #name;
        TUTTI_STATUS_LIST(NAME)
#undef NAME
    }
    return status ? "TUTTI_ERR_?" : "TUTTI_OK";
}

/* The lane of a call, as the number of its track. */
static int take_lane(struct tutti_wrapper *w, int kind, int64_t begun_ns, int64_t end_ns)
{
    int lane = 0;

    while (lane < w->lanes[kind] && w->lane_end_ns[kind][lane] > begun_ns)
        lane++;
    if (lane == LANES_MAX)
        lane--;
    int track = kind * KIND_LANES + lane + 1;
    if (lane == w->lanes[kind]) {
        w->lanes[kind]++;
        put_metadata(&w->file, "thread_name", w->rank, track);
        trace_file_put(&w->file, "\"name\":\"%s", kind_names[kind]);
        if (lane)
            trace_file_put(&w->file, " %d", lane + 1);
        trace_file_put(&w->file, "\"}}");
        put_metadata(&w->file, "thread_sort_index", w->rank, track);
        trace_file_put(&w->file, "\"sort_index\":%d}}", track);
    }
    w->lane_end_ns[kind][lane] = end_ns;
    return track;
}

static void put_arguments(struct trace_file *file, const tutti_call *call, tutti_status status)
{
    uint64_t bytes = call->out_bytes ? call->out_bytes : call->in_bytes;

    trace_file_put(file, "\"group\":");
    trace_file_put_string(file, call->group->name);
    trace_file_put(file, ",\"rank\":%d,\"size\":%d,\"sequence\":%" PRIu64 ",\"bytes\":%" PRIu64,
                   call->group->rank, call->group->size, call->sequence, bytes);
    if (call->dtype)
        trace_file_put(file, ",\"count\":%" PRIu64 ",\"dtype\":\"%s\"", call->count,
                       call->dtype_name);
    if (call->op >= 0)
        trace_file_put(file, ",\"op\":\"%s\"", call->op_name);
    if (call->flags & TUTTI_CALL_MESSAGE)
        trace_file_put(file, ",\"peer\":%d,\"tag\":%" PRIu64, call->peer, call->tag);
    else if (call->peer >= 0)
        trace_file_put(file, ",\"root\":%d", call->peer);
    if (call->flags & TUTTI_CALL_STAGED)
        trace_file_put(file, ",\"staged\":true");
    trace_file_put(file, ",\"provider\":\"%s\",\"algorithm\":\"%s\",\"status\":\"%s\"",
                   call->provider, call->algorithm, status_name(status));
}

static tutti_status trace_end(tutti_wrapper *w, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    struct trace_file *file = &w->file;
    int kind = call->flags & TUTTI_CALL_MESSAGE ? 1 : 0;
    int track = take_lane(w, kind, call->begun_ns, end_ns);

    trace_file_begin(file);
    trace_file_put(file,
                   "{\"ph\":\"X\",\"cat\":\"%s\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":",
                   kind_names[kind], call->operation, w->rank, track);
    trace_file_put_time(file, call->begun_ns);
    trace_file_put(file, ",\"dur\":");
    trace_file_put_time(file, end_ns - call->begun_ns);
    trace_file_put(file, ",\"args\":{");
    put_arguments(file, call, status);
    trace_file_put(file, "}}");
    if (status)
        trace_file_flush(file);
    else
        trace_file_tick(file, end_ns);
    return TUTTI_OK;
}

/* ---- what is exported ---- */

static const tutti_wrapper_ops trace_ops = {
    .struct_size = sizeof(tutti_wrapper_ops),
    .open = trace_open,
    .close = trace_close,
    .end = trace_end,
};

static const tutti_provider trace_wrapper = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_WRAPPER,
                                             .name = "trace",
                                             .ops = &trace_ops};
static const tutti_provider *const providers[] = {&trace_wrapper};

static const tutti_plugin_option options[] = {TRACE_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("trace", TUTTI_VERSION ", Trace Event Format", "Apache-2.0", providers, 1,
                          NULL, NULL, options, NULL, NULL);
