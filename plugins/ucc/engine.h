/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC of this process, and its contexts. All of UCC is under one lock: a thread that makes a context or team
 * gives it up in each pause (engine_nap()), so that operations of other groups go on.
 */
#pragma once

#include <stdbool.h>

#include "exchange.h"
#include "library.h"
#include "settings.h"

/* A context has some 5 MiB of shared memory and 10 descriptors, and a process may have 1024 of these. */
enum { ENGINE_TOKEN_BYTES = 16, ENGINE_CONTEXTS_MAX = 32, ENGINE_LOCAL_MAX = 4 };

/*
 * A context: the members of one world, and all groups of theirs. It is never destroyed, which UCC does together with
 * all members only; when its last group has ended well, the next world of the same members takes it over. Under
 * the lock, but for the members that never change.
 */
struct engine_context {
    struct engine_context *next;
    const struct ucc_library *ucc;
    struct exchange exchange;          /* of the group that made it */
    uint8_t token[ENGINE_TOKEN_BYTES]; /* that group's */
    char run_id[128];                  /* of the job whose groups use it */
    int32_t *local;                    /* [size] ranks in the world; NULL: not local */
    int rank, size;                    /* in it */
    struct settings settings;
    ucci_context_h context;     /* NULL: it is not made */
    struct listening listening; /* its ports */
    int users;                  /* teams, made or being made */
    bool is_spoilt;             /* a group over it has failed: no later one takes it */
    bool is_halted; /* UCC has an operation whose memory is the program's again: it is not moved */
};

void engine_lock(void);
void engine_unlock(void);
/* Lets other threads use UCC for some 100 µs. */
void engine_nap(void);

/* The context that a group may use, with a user more: a world's is idle, and of so many members; others are of their
 * world. NULL: there is none. Under the lock. */
struct engine_context *engine_find(const char *run_id, bool is_world, int rank, int size);
/* A new one, not made yet, with one user. NULL: no memory. Under the lock. */
struct engine_context *engine_add(const struct ucc_library *ucc, const char *run_id, int rank,
                                  int size, const uint8_t token[ENGINE_TOKEN_BYTES],
                                  const struct settings *settings);
/*
 * Local contexts: without UCX's tcp, for groups whose members share memory, in a world whose members do not all. A
 * group takes the one that was made for its members, or for more.
 */
struct engine_context *engine_find_local(const char *run_id, const int32_t *members, int size);
/* Whether the process may have one more. Under the lock, both. */
bool engine_may_add_local(void);
/* Makes a new context a local one. False: no memory. */
bool engine_set_local(struct engine_context *context, const int32_t *members);

/* UNSUPPORTED in a child that was forked when its parent had used UCC: what they share ends the parent. */
tutti_status engine_check_process(const struct caller *caller);
/* Whether the process has made so many contexts that it gets no further one. Under the lock. */
bool engine_is_full(void);
/* Makes UCC's context, which waits for all members. Only on a thread of the plugin, under the lock. */
ucci_status engine_make(struct engine_context *context, const char **ret_where);
/* Frees a team that all members have left in order. Under the lock. */
void engine_destroy_team(struct engine_context *context, ucci_team_h team);
/* A user less. Under the lock. */
void engine_drop(struct engine_context *context);

/* Starts a thread with all signals blocked. 0, or an errno. */
int engine_start_thread(void *(*run)(void *), void *user);
/* The process exits, after a clean end: sends what is left in UCC's buffers. */
void engine_leave(void);
