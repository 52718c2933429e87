/* SPDX-License-Identifier: Apache-2.0 */
#include "harness/rank.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "harness/delay.h"

enum {
    LINE_MAX_BYTES = 4096, /* PIPE_BUF: longer writes may be torn apart */
    WORD_MAX = 64,
    AWAIT_MS = 60000
};

static bool searches_no_leaks;

void rank_search_no_leaks(void)
{
    searches_no_leaks = true;
}

#ifdef __SANITIZE_ADDRESS__
int __lsan_is_turned_off(void);

/* LeakSanitizer crashes now and then when it looks into the threads of a process with UCX («Tracer caught signal
 * 11»), which ends a rank that has passed. Called at the process's end. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void)
{
    const char *backend = getenv("TUTTI_BACKEND");

    return searches_no_leaks || (backend && strstr(backend, "ucx"));
}
#endif

static struct rank_case *cases;
static const char *running = "?";
static atomic_int checks, failures;

void rank_add(struct rank_case *one)
{
    one->next = cases;
    cases = one;
}

int64_t rank_now_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void rank_sleep_ms(int ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};

    while (nanosleep(&left, &left) && errno == EINTR)
        ;
}

tutti_status rank_end_works(tutti_work *const *works, int count, tutti_status status)
{
    for (int i = 0; i < count && works[i]; i++) {
        const tutti_status one = tutti_work_wait(works[i], 0);

        status = status ? status : one;
        tutti_work_free(works[i]);
    }
    return status;
}

/* Line breaks in the words become blanks; what is too long is cut. */
static void say(const char *kind, const char *words)
{
    char line[LINE_MAX_BYTES];
    int n = snprintf(line, sizeof line - 1, "@tutti %s %s", kind, words);

    if (n > (int)sizeof line - 2)
        n = (int)sizeof line - 2;
    for (int i = 0; i < n; i++) {
        if (line[i] == '\n' || line[i] == '\r')
            line[i] = ' ';
    }
    line[n++] = '\n';
    fflush(stdout);
    ssize_t ignored = write(STDOUT_FILENO, line, (size_t)n);
    (void)ignored;
}

void rank_point(const char *name)
{
    char words[2 * WORD_MAX];
    const int64_t now = rank_now_ns();

    snprintf(words, sizeof words, "%.*s %" PRId64 " %" PRId64, WORD_MAX, name, now, delay_ns());
    say("point", words);
}

void rank_value(const char *name, const char *format, ...)
{
    char words[LINE_MAX_BYTES];
    int n = snprintf(words, sizeof words, "%.*s ", WORD_MAX, name);
    va_list args;

    va_start(args, format);
    vsnprintf(words + n, sizeof words - (size_t)n, format, args);
    va_end(args);
    say("value", words);
}

bool rank_check(struct rank_place place, bool held, const char *format, ...)
{
    char words[LINE_MAX_BYTES];
    const char *slash = strrchr(place.file, '/');
    va_list args;

    atomic_fetch_add(&checks, 1);
    if (held)
        return true;
    atomic_fetch_add(&failures, 1);
    int n = snprintf(words, sizeof words, "%.200s:%d ", slash ? slash + 1 : place.file, place.line);
    va_start(args, format);
    vsnprintf(words + n, sizeof words - (size_t)n, format, args);
    va_end(args);
    say("fail", words);
    return false;
}

bool rank_check_eq(struct rank_place place, int64_t a, int64_t b, const char *a_words,
                   const char *b_words)
{
    return rank_check(place, a == b, "%s is %" PRId64 ", %s is %" PRId64, a_words, a, b_words, b);
}

bool rank_check_near(struct rank_place place, double a, double b, double tolerance,
                     const char *a_words, const char *b_words)
{
    return rank_check(place, fabs(a - b) <= tolerance, "%s is %.17g, %s is %.17g", a_words, a,
                      b_words, b);
}

bool rank_check_str_eq(struct rank_place place, const char *a, const char *b, const char *a_words)
{
    return rank_check(place, a && !strcmp(a, b), "%s is \"%s\", not \"%s\"", a_words,
                      a ? a : "NULL", b);
}

bool rank_check_contains(struct rank_place place, const char *text, const char *part)
{
    return rank_check(place, text && strstr(text, part), "\"%s\" lacks \"%s\"",
                      text ? text : "NULL", part);
}

bool rank_check_status(struct rank_place place, tutti_status status, tutti_status expected,
                       const char *words)
{
    return rank_check(place, status == expected, "%s is %s, not %s: %s", words,
                      tutti_status_name(status), tutti_status_name(expected), tutti_last_error());
}

/* Byte by byte, so that nothing behind the line is taken away, and half of one is kept for the next
 * call. False: the end, or the deadline. */
static bool read_line(char line[WORD_MAX], int64_t deadline_ns)
{
    static char kept[WORD_MAX];
    static size_t n;

    for (;;) {
        struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
        const int64_t left = (deadline_ns - rank_now_ns()) / 1000000;
        char byte;

        if (poll(&in, 1, left > 0 ? (int)left : 0) == 0)
            return false;
        ssize_t got = read(STDIN_FILENO, &byte, 1);
        if (got < 0 && (errno == EINTR || errno == EAGAIN))
            continue;
        if (got <= 0)
            return false;
        if (byte == '\n') {
            memcpy(line, kept, n);
            line[n] = 0;
            n = 0;
            return true;
        }
        if (n < WORD_MAX - 1)
            kept[n++] = byte;
    }
}

bool rank_heard(const char *word)
{
    char line[WORD_MAX];

    while (read_line(line, 0))
        if (!strcmp(line, word))
            return true;
    return false;
}

void rank_await(const char *word)
{
    const int64_t deadline_ns = rank_now_ns() + (int64_t)AWAIT_MS * 1000000;
    char line[WORD_MAX];

    do {
        if (!read_line(line, deadline_ns)) {
            rank_check(RANK_PLACE, false, "the word \"%s\" did not come", word);
            rank_end();
        }
    } while (strcmp(line, word));
}

void rank_end(void)
{
    char words[256];
    const int failed = atomic_load(&failures);

    snprintf(words, sizeof words, "%s %s %d %d", failed ? "fail" : "pass", running,
             atomic_load(&checks), failed);
    say("verdict", words);
    exit(failed ? 1 : 0);
}

static int number_from(const char *name)
{
    const char *value = getenv(name);

    return value ? atoi(value) : 0;
}

static int say_usage(const char *program)
{
    fprintf(stderr, "usage: %s CASE, with RANK and WORLD_SIZE set; cases:\n", program);
    for (const struct rank_case *one = cases; one; one = one->next)
        fprintf(stderr, "  %s\n", one->name);
    return 2;
}

int main(int argc, char **argv)
{
    for (const struct rank_case *one = cases; argc == 2 && one; one = one->next) {
        if (strcmp(one->name, argv[1]))
            continue;
        running = one->name;
        one->body(number_from("RANK"), number_from("WORLD_SIZE"));
        rank_end();
    }
    return say_usage(argv[0]);
}
