/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The error of this thread: what went wrong last, as text and as fields.
 *
 * The function that finds a failure calls error_set() once and returns the status. A caller that
 * passes the status on may put text in front with error_prefix(). Nothing here allocates: the text
 * is bounded and cut with "…" when it is longer.
 *
 * What is wrong with the caller's arguments is said after the name of the public function: at once
 * where that one finds it, and by error_named() where it returns what a check has found.
 */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <tutti/status.h>

enum { ERROR_MESSAGE_MAX = 2048, ERROR_MISSING_MAX = 256 };

/* Sets the thread's error and returns `status`, so that callers write `return error_set(…)`. */
tutti_status error_set_in(const char *function, tutti_status status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
#ifndef __clang_analyzer__
#define error_set(...) error_set_in(__func__, __VA_ARGS__)
#else /* which is to see that the status comes back */
#define error_set(status, ...) (error_set_in(__func__, status, __VA_ARGS__), status)
#endif

/* Puts the name of `function` before the error that is there, once: if it is a public function and the
 * error is about arguments. */
void error_name(const char *function);
static inline tutti_status error_of(const char *function, tutti_status status)
{
    if (status)
        error_name(function);
    return status;
}
#define error_named(status) error_of(__func__, (status))

/* As error_set(); appends the system's message for `system_errno`. */
tutti_status error_set_errno(tutti_status status, int system_errno, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Puts text before the message that is there; returns the status that is there. */
tutti_status error_prefix(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Adds fields to the error that error_set() has just set; -1, 0 and NULL leave a field as it is. */
void error_where(int rank, int peer, uint64_t sequence, const char *operation);

/* Adds the ranks that were waited for to the error that was just set; those beyond ERROR_MISSING_MAX are left
 * out. */
void error_missing(const int32_t *ranks, int count);

/*
 * Whether a plugin's function has said why it failed: error_since(), in the same thread, with what
 * error_number() was before it was called. That is one load, and not the thread's own count, which takes a
 * call: it is asked for before each message.
 */
extern _Atomic uint64_t error_numbers; /* of all threads' errors together */
static inline uint64_t error_number(void)
{
    return atomic_load_explicit(&error_numbers, memory_order_relaxed);
}
bool error_since(uint64_t number);

/* The thread's current message, never NULL. */
const char *error_message(void);

/* Makes the thread's error one with this message (a verdict's, an outcome's). */
tutti_status error_restore(tutti_status status, int peer, const char *message);

/* An error that is kept for another thread, or for later. Zeroed: none. */
struct kept_error {
    tutti_error_info info;
    char *message;    /* malloc; NULL when there was no memory for it */
    int32_t *missing; /* info.missing_count; malloc; NULL when there is none, or no memory */
};

/* None, where zeroing all of it would cost too much. */
static inline void error_init(struct kept_error *kept)
{
    kept->message = NULL;
    kept->missing = NULL;
}

/* Keeps a copy of the thread's error. */
void error_keep(struct kept_error *ret_kept);
/* Makes the thread's error the kept one, with `status`; returns it. */
tutti_status error_give(tutti_status status, const struct kept_error *kept);
void error_free(struct kept_error *kept);
static inline void error_forget(struct kept_error *kept)
{
    if (kept->message || kept->missing)
        error_free(kept);
}
