/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resources that end with the scope of the variable that owns them, for code that runs once a group
 * or once a failure. The path of a call has none of it: there each step ends what it began.
 *
 *     AUTOFREE char *text = strdup(word);
 *
 *     if (!text || check(text))
 *         return TUTTI_ERR_NO_MEMORY;
 *     *ret_text = TAKE(text);
 *     return TUTTI_OK;
 */
#pragma once

#include <pthread.h>
#include <stdlib.h>

/* Frees the pointer, which may be NULL, when the scope ends. */
#define AUTOFREE __attribute__((cleanup(cleanup_free)))
/* The pointer; the variable, which owns it no longer, becomes NULL. */
#define TAKE(pointer)                                                                              \
    __extension__({                                                                                \
        __typeof__(pointer) taken_ = (pointer);                                                    \
                                                                                                   \
        (pointer) = NULL;                                                                          \
        taken_;                                                                                    \
    })
/* Holds the mutex until the scope ends. One in a scope. */
#define LOCK_SCOPE(mutex)                                                                          \
    __attribute__((cleanup(cleanup_unlock), unused)) pthread_mutex_t *lock_scope_ =                \
        cleanup_lock(mutex)

static inline void cleanup_free(void *pointer)
{
    free(*(void **)pointer);
}

static inline pthread_mutex_t *cleanup_lock(pthread_mutex_t *mutex)
{
    pthread_mutex_lock(mutex);
    return mutex;
}

static inline void cleanup_unlock(pthread_mutex_t **mutex)
{
    pthread_mutex_unlock(*mutex);
}
