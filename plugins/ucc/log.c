/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's library libucs asks a stack of handlers what to do with a line, the last one first, and its own prints on stdout. UCC
 * logs through it, since 1.8 through a copy of its own. Our handler is pushed once, after each of them has pushed its
 * own, and stays, since to pop it could pop another's. Without a team lines go on to the next handler.
 */
#include "log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

/* ucs_log_level_t and ucs_log_func_rc_t. */
enum { LEVEL_WARN = 2, LEVEL_INFO = 4 };
enum { HANDLER_STOPS = 0, HANDLER_CONTINUES = 1 };
typedef int handler(const char *file, unsigned line, const char *function, int level,
                    const void *component, const char *format, va_list values);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct log_listener *listeners;

/* tutti_host.log has 1 for warnings, 2 for information, 3 for details. */
static int32_t level_for_host(int level)
{
    return level <= LEVEL_WARN ? 1 : level <= LEVEL_INFO ? 2 : 3;
}

/* Tabs and ends of lines become blanks. */
static void make_one_line(char *words)
{
    size_t used = strlen(words);

    while (used && words[used - 1] <= ' ')
        words[--used] = 0;
    for (char *at = words; *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
}

static int take_line(const char *file, unsigned line, const char *function, int level,
                     const void *component, const char *format, va_list values)
{
    char words[WORDS_BYTES];
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    va_copy(copy, values); /* the next handler needs them */
    (void)vsnprintf(words, sizeof words, format, copy);
    va_end(copy);
    make_one_line(words);
    pthread_mutex_lock(&lock);
    const struct log_listener *first = listeners;
    if (first)
        first->caller.host->log(first->caller.self, level_for_host(level), words);
    pthread_mutex_unlock(&lock);
    return first ? HANDLER_STOPS : HANDLER_CONTINUES;
}

static void push(const struct ucc_library *ucc, const char *name)
{
    void (*function)(handler *);
    void *address = dlsym(ucc->handle, name);

    if (!address)
        return;
    memcpy(&function, &address, sizeof function);
    function(take_line);
}

void log_push(const struct ucc_library *ucc)
{
    static bool is_pushed;

    if (is_pushed)
        return;
    push(ucc, "ucs_log_push_handler");
    push(ucc, "ucc_log_push_handler");
    is_pushed = true;
}

void log_join(struct log_listener *listener, const struct caller *caller)
{
    struct log_listener **end = &listeners;

    *listener = (struct log_listener){.caller = *caller};
    pthread_mutex_lock(&lock);
    while (*end)
        end = &(*end)->next;
    *end = listener;
    pthread_mutex_unlock(&lock);
}

void log_leave(struct log_listener *listener)
{
    pthread_mutex_lock(&lock);
    struct log_listener **link = &listeners;
    while (*link != listener)
        link = &(*link)->next;
    *link = listener->next;
    pthread_mutex_unlock(&lock);
}
