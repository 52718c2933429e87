/* SPDX-License-Identifier: Apache-2.0 */
#include "base/error.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/options.h"
#include "base/text.h"

struct thread_error {
    tutti_error_info info;
    char message[ERROR_MESSAGE_MAX];
    int32_t missing[ERROR_MISSING_MAX]; /* info.missing_count */
    bool named;                         /* the message begins with the public function's name */
    uint64_t number;                    /* among all threads' errors; 0: there was none */
};

_Atomic uint64_t error_numbers;
static _Thread_local struct thread_error last;

static void mark_cut(char *text, size_t capacity, int wanted)
{
    static const char dots[] = "…";

    if (wanted >= 0 && (size_t)wanted >= capacity)
        memcpy(text + text_cut(text, capacity - sizeof dots), dots, sizeof dots);
}

bool error_since(uint64_t number)
{
    return last.number > number;
}

tutti_status error_prefix(const char *format, ...)
{
    va_list args;
    char text[ERROR_MESSAGE_MAX], old[ERROR_MESSAGE_MAX];

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    memcpy(old, last.message, sizeof old);
    int wanted = snprintf(last.message, sizeof last.message, "%s: %s", text, old);
    mark_cut(last.message, sizeof last.message, wanted);
    text_make_printable(last.message);
    return last.info.status;
}

static bool is_about_arguments(tutti_status status)
{
    return status == TUTTI_ERR_INVALID_ARGUMENT || status == TUTTI_ERR_UNSUPPORTED ||
           status == TUTTI_ERR_NEWER_CALLER;
}

void error_name(const char *function)
{
    if (!last.named && is_about_arguments(last.info.status) && !strncmp(function, "tutti_", 6)) {
        error_prefix("%s", function);
        last.named = true;
    }
}

tutti_status error_set_in(const char *function, tutti_status status, const char *format, ...)
{
    va_list args;
    char text[ERROR_MESSAGE_MAX]; /* the arguments may point into the old message */

    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mark_cut(text, sizeof text, wanted);
    text_make_printable(text);
    last.info = (tutti_error_info){.struct_size = sizeof(tutti_error_info),
                                   .status = status,
                                   .rank = -1,
                                   .peer = -1,
                                   .operation = ""};
    last.named = false;
    last.number = atomic_fetch_add_explicit(&error_numbers, 1, memory_order_relaxed) + 1;
    memcpy(last.message, text, sizeof text);
    error_name(function);
    return status;
}

tutti_status error_set_errno(tutti_status status, int system_errno, const char *format, ...)
{
    va_list args;
    char text[ERROR_MESSAGE_MAX], words[128];

    va_start(args, format);
    int wanted = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    mark_cut(text, sizeof text, wanted);
    error_set_in("", status, "%s: %s", text, strerror_r(system_errno, words, sizeof words));
    last.info.system_errno = system_errno;
    return status;
}

void error_where(int rank, int peer, uint64_t sequence, const char *operation)
{
    if (rank >= 0)
        last.info.rank = rank;
    if (peer >= 0)
        last.info.peer = peer;
    if (sequence)
        last.info.sequence = sequence;
    if (operation)
        last.info.operation = operation;
}

void error_missing(const int32_t *ranks, int count)
{
    const int kept = count < ERROR_MISSING_MAX ? count : ERROR_MISSING_MAX;

    for (int i = 0; i < kept; i++)
        last.missing[i] = ranks[i];
    last.info.missing_count = (uint32_t)kept;
}

const char *error_message(void)
{
    return last.message;
}

tutti_status error_restore(tutti_status status, int peer, const char *message)
{
    error_set(status, "%s", message);
    error_where(-1, peer, 0, NULL);
    return status;
}

void error_keep(struct kept_error *ret_kept)
{
    error_forget(ret_kept);
    ret_kept->info = last.info;
    ret_kept->message = strdup(last.message);
    const size_t bytes = last.info.missing_count * sizeof *last.missing;
    ret_kept->missing = bytes ? malloc(bytes) : NULL;
    if (ret_kept->missing)
        memcpy(ret_kept->missing, last.missing, bytes);
}

tutti_status error_give(tutti_status status, const struct kept_error *kept)
{
    error_set(status, "%s", kept->message ? kept->message : tutti_status_string(status));
    last.info = kept->info;
    last.info.status = status;
    error_missing(kept->missing, kept->missing ? (int)kept->info.missing_count : 0);
    return status;
}

void error_free(struct kept_error *kept)
{
    free(kept->message);
    free(kept->missing);
    kept->message = NULL;
    kept->missing = NULL;
}

const char *tutti_last_error(void)
{
    return last.message;
}

tutti_status tutti_last_error_info(tutti_error_info *ret_info)
{
    if (!ret_info || ret_info->struct_size < sizeof(uint32_t))
        return TUTTI_ERR_INVALID_ARGUMENT;

    tutti_error_info info = last.info;

    info.message = last.message;
    info.missing = info.missing_count ? last.missing : NULL;
    if (!info.operation)
        info.operation = "";
    options_give(&info, sizeof info, ret_info);
    return TUTTI_OK;
}

const char *tutti_status_string(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
        return "success";
#define STATUS_WORDS(name, number, words)                                                          \
    case number:                                                                                   \
        return words;
        TUTTI_STATUS_LIST(STATUS_WORDS)
#undef STATUS_WORDS
    }
    return "unknown status";
}

const char *tutti_status_name(tutti_status status)
{
    switch (status) {
    case TUTTI_OK:
        return "TUTTI_OK";
#define STATUS_NAME(name, number, words)                                                           \
    case number:                                                                                   \
        return "TUTTI_" #name;
        TUTTI_STATUS_LIST(STATUS_NAME)
#undef STATUS_NAME
    }
    return "TUTTI_ERR_?";
}
