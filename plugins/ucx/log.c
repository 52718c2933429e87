/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX prints on stdout, unless a handler takes its lines. Handlers are a stack of the process and may not be
 * there in some UCX (then UCX prints). Ours is pushed once and stays: to pop it could pop somebody
 * else's. While no endpoint is open, lines go on to the next handler.
 *
 * UCX may log from a thread of its own, so the list of endpoints has a lock, which is held while a line is
 * passed on. An endpoint that has left gets no line after log_leave() has returned.
 */
#include "log.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include <ucs/debug/log_def.h>

struct listener {
    struct caller caller;
    struct listener *next;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listener *listeners;
static __thread char *heard;

/* tutti_host.log has 1 for warnings, 2 for information, 3 for details. */
static int32_t level_of(ucs_log_level_t level)
{
    return level <= UCS_LOG_LEVEL_WARN ? 1 : level <= UCS_LOG_LEVEL_INFO ? 2 : 3;
}

static void hear(const char *words)
{
    const size_t used = strlen(heard);

    snprintf(heard + used, LOG_HEARD_BYTES - used, "%s%s", used ? "; " : "", words);
}

static ucs_log_func_rc_t pass_on(const char *file, unsigned line, const char *function,
                                 ucs_log_level_t level, const ucs_log_component_config_t *component,
                                 const char *message, va_list values)
{
    char words[WORDS_BYTES];
    ucs_log_func_rc_t answer = UCS_LOG_FUNC_RC_CONTINUE;
    va_list copy;

    (void)file;
    (void)line;
    (void)function;
    (void)component;
    va_copy(copy, values); /* the next handler needs them, too */
    vsnprintf(words, sizeof words, message, copy);
    va_end(copy);
    if (heard && level <= UCS_LOG_LEVEL_WARN) {
        hear(words);
        return UCS_LOG_FUNC_RC_STOP;
    }
    pthread_mutex_lock(&lock);
    if (listeners) {
        listeners->caller.host->log(listeners->caller.self, level_of(level), words);
        answer = UCS_LOG_FUNC_RC_STOP;
    }
    pthread_mutex_unlock(&lock);
    return answer;
}

static void push_once(const struct ucx_library *library)
{
    static bool is_pushed;
    void (*push)(ucs_log_func_t handler);
    void *address = is_pushed ? NULL : dlsym(library->handle, "ucs_log_push_handler");

    if (!address)
        return;
    memcpy(&push, &address, sizeof push);
    push(pass_on);
    is_pushed = true;
}

tutti_status log_join(const struct caller *caller, const struct ucx_library *library)
{
    struct listener *listener = malloc(sizeof *listener), **end = &listeners;

    if (!listener)
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for an endpoint");
    *listener = (struct listener){.caller = *caller};
    pthread_mutex_lock(&lock);
    while (*end)
        end = &(*end)->next;
    *end = listener;
    push_once(library);
    pthread_mutex_unlock(&lock);
    return TUTTI_OK;
}

void log_leave(const struct caller *caller)
{
    struct listener *gone = NULL;

    pthread_mutex_lock(&lock);
    for (struct listener **at = &listeners; *at && !gone; at = &(*at)->next)
        if ((*at)->caller.self == caller->self && (*at)->caller.host == caller->host) {
            gone = *at;
            *at = gone->next;
            break;
        }
    pthread_mutex_unlock(&lock);
    free(gone);
}

void log_listen(char words[LOG_HEARD_BYTES])
{
    if (words)
        *words = 0;
    heard = words;
}
