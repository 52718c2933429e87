/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX's library libucs asks a stack of handlers what to do with a line, the last one first; its own prints on stdout. UCC
 * logs through it, since 1.8 through a stack of its own. Handlers may not be there in some UCX (then UCX prints).
 * Ours is pushed once and stays: to pop it could pop somebody else's. While nobody has joined, lines go on to the
 * next handler.
 */
#include "log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "listeners.h"

typedef int handler(const char *file, unsigned line, const char *function, int level,
                    const void *component, const char *format, va_list values);

static __thread char *heard;

/* tutti_host.log has 1 for warnings, 2 for information, 3 for details. */
static int32_t level_for_host(int level)
{
    return level <= LOG_LEVEL_WARN ? 1 : level <= LOG_LEVEL_INFO ? 2 : 3;
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

static void hear(const char *words)
{
    const size_t used = strlen(heard);

    snprintf(heard + used, LOG_HEARD_BYTES - used, "%s%s", used ? "; " : "", words);
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
    va_copy(copy, values); /* the next handler needs them, too */
    (void)vsnprintf(words, sizeof words, format, copy);
    va_end(copy);
    make_one_line(words);
    if (heard && level <= LOG_LEVEL_WARN) {
        hear(words);
        return LOG_STOP;
    }
    return listeners_tell(level_for_host(level), words) ? LOG_STOP : LOG_CONTINUE;
}

static void push_to(void *library, const char *push_function)
{
    void (*push)(handler *);
    void *address = dlsym(library, push_function);

    if (!address)
        return;
    memcpy(&push, &address, sizeof push);
    push(take_line);
}

void log_take_over(void *library, const char *const *push_functions)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    static bool is_done;

    pthread_mutex_lock(&lock);
    for (; !is_done && *push_functions; push_functions++)
        push_to(library, *push_functions);
    is_done = true;
    pthread_mutex_unlock(&lock);
}

void log_listen(char words[LOG_HEARD_BYTES])
{
    if (words)
        *words = 0;
    heard = words;
}
