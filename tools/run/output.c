/* SPDX-License-Identifier: Apache-2.0 */
#include "run/output.h"

#include <errno.h>
#include <fcntl.h>
#include <glib-unix.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"
#include "run/fold.h"

enum {
    LINE_MAX_BYTES = 64 << 10,
    READ_BYTES = 16 << 10,
    QUEUE_HIGH = 256 << 10, /* beyond, the ranks' pipes are left alone */
    QUEUE_LOW = 64 << 10,
    TAIL_BYTES = 32 << 10, /* kept of each rank's stderr for the report */
    HOLD_MS = 1500,        /* for others to print the same message, from the last that did */
    HOLD_MOST_MS = 10000   /* from the first */
};

/* A place that lines go to. */
struct sink {
    struct output *output;
    int fd;
    bool regular; /* a file: takes any amount at once */
    bool gone;    /* nobody reads it any more, */
    bool failed;  /* or nothing more can be written to it */
    bool color, terminal;
    bool redraw; /* a terminal's cursor is at the start of a line that a carriage return ended */
    GByteArray *queue; /* `written` bytes at its front are out already */
    size_t written;
    guint source;
};

/* One stream of one rank. */
struct stream {
    struct output *output;
    struct sink *sink; /* NULL: files only */
    int rank;
    int fd, log_fd;
    guint source;
    GString *partial; /* the line that has not ended yet */
    GString *tail;    /* NULL: not kept */
    char *prefix;
    struct fold_line *held; /* printed by the rank, and not yet by us */
};

struct output {
    struct output_options options;
    struct sink sinks[2];
    bool same_sink; /* stderr goes where stdout goes */
    bool paused, log_failed;
    unsigned long long bytes;
    struct stream *streams; /* 2 for each rank */
    struct fold *fold;
    guint hold_timer;
    gint64 held_us, held_last_us; /* since when a message is held, and the last of its ranks came */
};

static gboolean stream_readable(gint fd, GIOCondition condition, gpointer user);
static gboolean sink_writable(gint fd, GIOCondition condition, gpointer user);

static struct sink *sink_of(struct output *output, enum output_stream stream)
{
    return &output->sinks[output->same_sink ? OUTPUT_STDOUT : stream];
}

static size_t sink_waiting(const struct sink *sink)
{
    return sink->queue->len - sink->written;
}

static void stream_watch(struct stream *stream)
{
    if (stream->fd >= 0 && !stream->source)
        stream->source = g_unix_fd_add(stream->fd, G_IO_IN | G_IO_HUP, stream_readable, stream);
}

static void pause_streams(struct output *output, bool paused)
{
    if (output->paused == paused)
        return;
    output->paused = paused;
    for (int i = 0; i < 2 * output->options.ranks; i++) {
        struct stream *stream = &output->streams[i];

        if (!paused) {
            stream_watch(stream);
        } else if (stream->source) {
            g_source_remove(stream->source);
            stream->source = 0;
        }
    }
}

/* The size of a write(2) that cannot block after poll(2) allowed it: PIPE_BUF bytes, up to a line's
 * end if there is one, so that other writers of the same terminal or pipe do not come between. */
static size_t chunk_of(const struct sink *sink)
{
    const guint8 *start = sink->queue->data + sink->written;
    size_t size = sink_waiting(sink);

    if (sink->regular || size <= PIPE_BUF)
        return size;

    const guint8 *line_end = memrchr(start, '\n', PIPE_BUF);

    return line_end ? (size_t)(line_end - start) + 1 : PIPE_BUF;
}

static void sink_failed(struct sink *sink, int error)
{
    sink->gone = true;
    sink->failed = error != EPIPE;
    g_byte_array_set_size(sink->queue, 0);
    sink->written = 0;
    if (error != EPIPE && sink->fd != STDERR_FILENO)
        cli_say("run", "cannot write to stdout: %s; what the ranks print is lost from here on",
                strerror(error));
}

/* Leaves the source by its return value only: the caller is that source. */
static gboolean sink_writable(gint fd, GIOCondition condition, gpointer user)
{
    struct sink *sink = user;
    struct output *output = sink->output;

    (void)condition;
    ssize_t put = write(fd, sink->queue->data + sink->written, chunk_of(sink));
    if (put < 0 && errno != EAGAIN && errno != EINTR)
        sink_failed(sink, errno);
    else if (put > 0)
        sink->written += (size_t)put;

    if (sink->written == sink->queue->len) {
        g_byte_array_set_size(sink->queue, 0);
        sink->written = 0;
        sink->source = 0;
    } else if (sink->written > QUEUE_HIGH) {
        g_byte_array_remove_range(sink->queue, 0, (guint)sink->written);
        sink->written = 0;
    }
    if (sink_waiting(&output->sinks[0]) < QUEUE_LOW && sink_waiting(&output->sinks[1]) < QUEUE_LOW)
        pause_streams(output, false);
    if (sink->source)
        return G_SOURCE_CONTINUE;
    output->options.changed(output->options.user);
    return G_SOURCE_REMOVE;
}

static void sink_add(struct sink *sink, const char *text, size_t size)
{
    if (sink->gone)
        return;
    g_byte_array_append(sink->queue, (const guint8 *)text, (guint)size);
    if (!sink->source)
        sink->source = g_unix_fd_add(sink->fd, G_IO_OUT, sink_writable, sink);
    if (sink_waiting(sink) > QUEUE_HIGH)
        pause_streams(sink->output, true);
}

static void stream_put(struct stream *stream, const char *line, size_t size)
{
    if (stream->sink->redraw)
        sink_add(stream->sink, "\033[K", 3);
    stream->sink->redraw = line[size - 1] == '\r';
    sink_add(stream->sink, stream->prefix, strlen(stream->prefix));
    sink_add(stream->sink, line, size);
}

/* The line that waits is printed, unless it was for another rank. */
static void stream_release(struct stream *stream)
{
    struct fold_line *line = g_steal_pointer(&stream->held);

    if (!line || line->told)
        return;
    line->told = 1;

    GString *text = g_string_new_len(line->text->str, (gssize)line->text->len);

    g_string_append_c(text, '\n');
    stream_put(stream, text->str, text->len);
    g_string_free(text, TRUE);
}

/* Prints the text of one rank alone on a line of its own. */
static void release_single(struct output *output)
{
    for (int i = 0; i < output->options.ranks; i++) {
        struct stream *stream = &output->streams[2 * i + OUTPUT_STDERR];

        if (stream->held && stream->held->ranks->len == 1)
            stream_release(stream);
        stream->held = NULL;
    }
}

void output_print_held(struct output *output)
{
    const GPtrArray *lines = fold_lines(output->fold);

    release_single(output);
    for (guint i = 0; i < lines->len && output->options.console; i++) {
        struct fold_line *line = lines->pdata[i];

        if (line->ranks->len == line->told)
            continue;

        GString *words = fold_words(line);

        sink_add(sink_of(output, OUTPUT_STDERR), words->str, words->len);
        g_string_free(words, TRUE);
        line->told = line->ranks->len;
    }
}

static gboolean hold_over(gpointer user)
{
    struct output *output = user;
    const gint64 now = g_get_monotonic_time();
    const gint64 until = MIN(output->held_last_us + HOLD_MS * G_TIME_SPAN_MILLISECOND,
                             output->held_us + HOLD_MOST_MS * G_TIME_SPAN_MILLISECOND);

    output->hold_timer = 0;
    if (now < until)
        output->hold_timer =
            g_timeout_add((guint)((until - now) / G_TIME_SPAN_MILLISECOND) + 1, hold_over, output);
    else
        output_print_held(output);
    return G_SOURCE_REMOVE;
}

static void stream_print(struct stream *stream, const char *line, size_t size)
{
    struct output *output = stream->output;
    struct stream *errors = &output->streams[2 * stream->rank + OUTPUT_STDERR];

    if (!stream->sink) { /* for the report alone */
        if (stream == errors)
            (void)fold_take(output->fold, stream->rank, line, size);
        return;
    }
    stream_release(errors);
    if (stream == errors)
        stream->held = fold_take(output->fold, stream->rank, line, size);
    if (!stream->held) {
        stream_put(stream, line, size);
        return;
    }
    output->held_last_us = g_get_monotonic_time();
    if (output->hold_timer)
        return;
    output->held_us = output->held_last_us;
    output->hold_timer = g_timeout_add(HOLD_MS, hold_over, output);
}

static void stream_flush(struct stream *stream)
{
    if (stream->partial->len && strcmp(stream->partial->str, "\r") != 0)
        stream_print(stream, stream->partial->str, stream->partial->len);
    g_string_truncate(stream->partial, 0);
}

/* The last byte of the line at the start of `text`, NULL when it is not there yet. On a terminal a
 * carriage return ends a line too, so that progress bars move and keep their prefix; not one that
 * may be the first half of "\r\n". */
static const char *line_end_in(const struct stream *stream, const char *text, size_t size)
{
    const char *newline = memchr(text, '\n', size);

    if (!stream->sink || !stream->sink->terminal)
        return newline;

    const char *end = newline ? newline : text + size;
    const char *back = memchr(text, '\r', (size_t)(end - text));

    return back && back + 1 < end ? back : newline;
}

/* Prints what is complete of what has come, and keeps the rest. */
static void stream_feed(struct stream *stream, const char *text, size_t size)
{
    const GString *partial = stream->partial;

    if (size && partial->len && partial->str[partial->len - 1] == '\r' && *text != '\n')
        stream_flush(stream); /* it was no "\r\n" */
    while (size) {
        const char *line_end = line_end_in(stream, text, size);
        size_t taken = line_end ? (size_t)(line_end - text) + 1 : size;

        if (line_end && !partial->len && taken > 1) { /* the usual case: not copied twice */
            stream_print(stream, text, taken);
        } else {
            g_string_append_len(stream->partial, text, (gssize)taken);
            if (!line_end && partial->len > LINE_MAX_BYTES)
                g_string_append_c(stream->partial, '\n');
            if (line_end || partial->len > LINE_MAX_BYTES)
                stream_flush(stream);
        }
        text += taken;
        size -= taken;
    }
}

static void stream_log(struct stream *stream, const char *text, size_t size)
{
    while (stream->log_fd >= 0 && size) {
        ssize_t put = write(stream->log_fd, text, size);

        if (put < 0 && errno == EINTR)
            continue;
        if (put < 0) {
            if (!stream->output->log_failed)
                cli_say("run",
                        "cannot write the log files of rank %d: %s; what follows is not logged",
                        stream->rank, strerror(errno));
            stream->output->log_failed = true;
            close(stream->log_fd);
            stream->log_fd = -1;
            return;
        }
        text += put;
        size -= (size_t)put;
    }
}

static void stream_keep_tail(struct stream *stream, const char *text, size_t size)
{
    if (!stream->tail)
        return;
    g_string_append_len(stream->tail, text, (gssize)size);
    if (stream->tail->len > 2 * TAIL_BYTES)
        g_string_erase(stream->tail, 0, (gssize)(stream->tail->len - TAIL_BYTES));
}

static void stream_end(struct stream *stream)
{
    if (stream->fd < 0)
        return;
    if (stream->partial->len && strcmp(stream->partial->str, "\r") != 0)
        g_string_append_c(stream->partial, '\n');
    stream_flush(stream);
    close(stream->fd);
    stream->fd = -1;
}

static gboolean stream_readable(gint fd, GIOCondition condition, gpointer user)
{
    struct stream *stream = user;
    char text[READ_BYTES];

    (void)condition;
    ssize_t got = read(fd, text, sizeof text);
    if (got < 0 && (errno == EINTR || errno == EAGAIN))
        return G_SOURCE_CONTINUE;
    if (got <= 0) {
        stream->source = 0;
        stream_end(stream);
        stream->output->options.changed(stream->output->options.user);
        return G_SOURCE_REMOVE;
    }
    stream->output->bytes += (unsigned long long)got;
    if (stream->tail)
        stream->output->options.printed(stream->output->options.user);
    stream_keep_tail(stream, text, (size_t)got);
    stream_log(stream, text, (size_t)got);
    stream_feed(stream, text, (size_t)got);
    return stream->source ? G_SOURCE_CONTINUE : G_SOURCE_REMOVE;
}

static char *prefix_of(const struct output_options *options, int rank, bool color)
{
    static const int colors[] = {36, 33, 32, 35, 34, 31};

    if (options->bare && rank == 0)
        return g_strdup("");
    if (!color)
        return g_strdup_printf("[%d] ", rank);
    return g_strdup_printf("\033[%dm[%d]\033[0m ", colors[rank % (int)G_N_ELEMENTS(colors)], rank);
}

/* False after having said why. */
static bool open_log(struct stream *stream, const char *log_dir, enum output_stream which)
{
    g_autofree char *folder = g_strdup_printf("%s/%d", log_dir, stream->rank);
    g_autofree char *path =
        g_build_filename(folder, which == OUTPUT_STDOUT ? "stdout.log" : "stderr.log", NULL);

    if (g_mkdir_with_parents(folder, 0777) < 0) {
        cli_say("run", "cannot make the log folder %s: %s", folder, strerror(errno));
        return false;
    }
    stream->log_fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (stream->log_fd < 0)
        cli_say("run", "cannot make the log file %s: %s", path, strerror(errno));
    return stream->log_fd >= 0;
}

static bool stream_open(struct output *output, int rank, enum output_stream which)
{
    struct stream *stream = &output->streams[2 * rank + (int)which];

    *stream = (struct stream){
        .output = output,
        .sink = output->options.console ? sink_of(output, which) : NULL,
        .rank = rank,
        .fd = -1,
        .log_fd = -1,
        .partial = g_string_new(NULL),
        .tail = which == OUTPUT_STDERR ? g_string_new(NULL) : NULL,
        .prefix = prefix_of(&output->options, rank, sink_of(output, which)->color),
    };
    return !output->options.log_dir || open_log(stream, output->options.log_dir, which);
}

static void sink_open(struct output *output, enum output_stream which, int fd)
{
    struct stat about;

    output->sinks[which] = (struct sink){
        .output = output,
        .fd = fd,
        .regular = fstat(fd, &about) == 0 && S_ISREG(about.st_mode),
        .color = cli_color(fd),
        .terminal = isatty(fd),
        .queue = g_byte_array_new(),
    };
}

struct output *output_new(const struct output_options *options)
{
    struct output *output = g_new0(struct output, 1);
    struct stat out, err;
    bool ok = true;

    output->options = *options;
    output->fold = fold_new();
    output->streams = g_new0(struct stream, 2 * (gsize)options->ranks);
    sink_open(output, OUTPUT_STDOUT, STDOUT_FILENO);
    sink_open(output, OUTPUT_STDERR, STDERR_FILENO);
    output->same_sink = fstat(STDOUT_FILENO, &out) == 0 && fstat(STDERR_FILENO, &err) == 0 &&
                        out.st_dev == err.st_dev && out.st_ino == err.st_ino;
    for (int rank = 0; rank < options->ranks && ok; rank++)
        ok = stream_open(output, rank, OUTPUT_STDOUT) && stream_open(output, rank, OUTPUT_STDERR);
    if (ok)
        return output;
    output_free(output);
    return NULL;
}

void output_free(struct output *output)
{
    for (int i = 0; i < 2 * output->options.ranks; i++) {
        struct stream *stream = &output->streams[i];

        if (!stream->partial)
            continue; /* never opened */
        if (stream->source)
            g_source_remove(stream->source);
        if (stream->fd >= 0)
            close(stream->fd);
        if (stream->log_fd >= 0)
            close(stream->log_fd);
        g_string_free(stream->partial, TRUE);
        if (stream->tail)
            g_string_free(stream->tail, TRUE);
        g_free(stream->prefix);
    }
    for (int i = 0; i < 2; i++) {
        if (output->sinks[i].source)
            g_source_remove(output->sinks[i].source);
        g_byte_array_unref(output->sinks[i].queue);
    }
    if (output->hold_timer)
        g_source_remove(output->hold_timer);
    fold_free(output->fold);
    g_free(output->streams);
    g_free(output);
}

void output_attach(struct output *output, int rank, enum output_stream stream, int fd)
{
    struct stream *attached = &output->streams[2 * rank + (int)stream];

    attached->fd = fd;
    if (!output->paused)
        stream_watch(attached);
}

bool output_ended(const struct output *output)
{
    for (int i = 0; i < 2 * output->options.ranks; i++)
        if (output->streams[i].fd >= 0)
            return false;
    return true;
}

bool output_drained(const struct output *output)
{
    return !sink_waiting(&output->sinks[0]) && !sink_waiting(&output->sinks[1]);
}

bool output_reader_gone(const struct output *output)
{
    return output->sinks[0].gone || output->sinks[1].gone;
}

bool output_failed(const struct output *output)
{
    return output->sinks[0].failed || output->sinks[1].failed;
}

unsigned long long output_bytes(const struct output *output)
{
    return output->bytes;
}

void output_close_streams(struct output *output)
{
    for (int i = 0; i < 2 * output->options.ranks; i++) {
        struct stream *stream = &output->streams[i];

        if (stream->source)
            g_source_remove(stream->source);
        stream->source = 0;
        stream_end(stream);
    }
}

void output_say(struct output *output, const char *text)
{
    sink_add(sink_of(output, OUTPUT_STDERR), text, strlen(text));
}

void output_fold(struct output *output, const char *message)
{
    fold_message(output->fold, message);
}

const GPtrArray *output_folded(struct output *output)
{
    release_single(output);
    return fold_lines(output->fold);
}

/* A NUL ends no line. */
static char *without_nuls(const char *text, size_t size)
{
    char *kept = g_malloc(size + 1);
    size_t length = 0;

    for (size_t i = 0; i < size; i++)
        if (text[i])
            kept[length++] = text[i];
    kept[length] = 0;
    return kept;
}

/* The line as a terminal would show it in the end: the text after the last carriage return, no
 * control characters, valid UTF-8, bounded. */
char *output_readable(const char *line, size_t size, size_t most)
{
    g_autofree char *trimmed = g_strchomp(without_nuls(line, size));
    const char *shown = strrchr(trimmed, '\r');
    GString *out = g_string_new(NULL);

    for (shown = shown ? shown + 1 : trimmed; *shown && out->len < most; shown++)
        if (*shown == '\t' || !g_ascii_iscntrl(*shown))
            g_string_append_c(out, *shown);
    if (*shown)
        g_string_append(out, " …");

    char *valid = g_utf8_make_valid(out->str, (gssize)out->len);

    g_string_free(out, TRUE);
    return valid;
}

char **output_tail(const struct output *output, int rank, int lines)
{
    const GString *tail = output->streams[2 * rank + OUTPUT_STDERR].tail;
    g_autofree char *text = g_strchomp(without_nuls(tail->str, tail->len));
    g_auto(GStrv) all = g_strsplit(text, "\n", -1);
    int count = (int)g_strv_length(all), first = MAX(count - lines, 0);
    g_autoptr(GPtrArray) last = g_ptr_array_new();

    for (int i = first; i < count; i++)
        g_ptr_array_add(last, output_readable(all[i], strlen(all[i]), OUTPUT_TAIL_LINE_BYTES));
    g_ptr_array_add(last, NULL);
    return (char **)g_ptr_array_free(g_steal_pointer(&last), FALSE);
}
