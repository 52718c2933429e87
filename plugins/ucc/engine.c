/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucc_context_destroy() closes connections together with all members, and ends the process or hangs where one of
 * them is dead. So contexts stay until the process ends, and worlds of the same members use one after the other. Failed
 * groups and worlds of other members make more of them, and a process makes ENGINE_CONTEXTS_MAX at most.
 *
 * After a failure UCC takes nothing back: an operation whose member is dead waits for ever, and goes on where the
 * member is only late. Its memory is the program's again once its group is closed, so then nobody may
 * move the context any more, which moves all of its operations. Other groups over it fail with words; later ones get
 * a context of their own.
 */
#include "engine.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../common/log.h"

enum { NAP_NS = 100000, DESTROY_TESTS = 1000, LEAVE_TESTS = 100 };

#define CONNECT_EARLY                                                                              \
    "33" /* teams of fewer members; a message to each costs more than the connections of a tree */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct engine_context *contexts;
static ucci_lib_h lib; /* NULL: not begun */
static int
    made; /* contexts, with those that could not be made: UCC keeps what it has opened for them */
static _Atomic pid_t maker; /* the process that has made some; 0: none */

void engine_lock(void)
{
    pthread_mutex_lock(&lock);
}

void engine_unlock(void)
{
    pthread_mutex_unlock(&lock);
}

void engine_nap(void)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    engine_unlock();
    nanosleep(&nap, NULL);
    engine_lock();
}

int engine_start_thread(void *(*run)(void *), void *user)
{
    sigset_t all, before;
    pthread_attr_t attributes;
    pthread_t thread;

    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&thread, &attributes, run, user);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attributes);
    return error;
}

/* ---- beginning ---- */

/* UCC logs through UCX, since 1.8 through functions of its own, which have their handler once the configuration is read. */
static const char *const log_functions[] = {"ucs_log_push_handler", "ucc_log_push_handler", NULL};

/* One thread at a time calls UCC, so it needs no locks of its own. */
static ucci_status begin(const struct ucc_library *ucc)
{
    const ucci_lib_params params = {.mask = UCCI_LIB_FIELD_THREAD_MODE,
                                    .thread_mode = UCCI_THREAD_SINGLE};
    ucci_lib_config_h config;
    ucci_status status = lib ? UCCI_OK : ucc->lib_config_read(NULL, NULL, &config);

    if (lib || status)
        return status;
    log_take_over(ucc->handle, log_functions);
    status = ucc->init_version(UCCI_MAJOR, 0, &params, config, &lib);
    ucc->lib_config_release(config);
    if (status)
        lib = NULL;
    return status;
}

/* While a connection is made, the death of its member ends a process: UCX 1.13 asserts that it does not happen. So
 * the teams of few members connect all of them at once. */
static void connect_early(const struct ucc_library *ucc, ucci_context_config_h config)
{
    if (ucc->context_config_modify && !getenv("UCC_TL_UCP_PRECONNECT"))
        (void)ucc->context_config_modify(config, "tl/ucp", "PRECONNECT", CONNECT_EARLY);
}

tutti_status engine_check_process(const struct caller *caller)
{
    const pid_t parent = atomic_load(&maker);

    if (!parent || parent == getpid())
        return TUTTI_OK;
    return fail(caller, TUTTI_ERR_UNSUPPORTED, 0,
                "this process was forked after its parent, process %d, had used UCC, which cannot "
                "be used in such a child: start it by exec, or use another backend",
                (int)parent);
}

ucci_status engine_make(struct engine_context *c, const char **ret_where)
{
    const ucci_context_params params = {
        .mask = UCCI_CONTEXT_FIELD_TYPE | UCCI_CONTEXT_FIELD_OOB,
        .type = UCCI_CONTEXT_SHARED,
        .oob = exchange_oob(&c->exchange, (uint32_t)c->size, (uint32_t)c->rank)};
    ucci_context_config_h config;
    ucci_status status = begin(c->ucc);

    *ret_where = "ucc_init";
    if (!status)
        status = c->ucc->context_config_read(lib, NULL, &config);
    if (status)
        return status;
    *ret_where = "ucc_context_create";
    connect_early(c->ucc, config);
    settings_lend(&c->settings);
    made++;
    atomic_store(&maker, getpid());
    status = c->ucc->context_create(lib, &params, config, &c->context);
    settings_take_back();
    c->ucc->context_config_release(config);
    if (status)
        c->context = NULL;
    return status;
}

bool engine_is_full(void)
{
    return made >= ENGINE_CONTEXTS_MAX;
}

static bool fits(const struct engine_context *c, const char *run_id, bool is_world, int rank,
                 int size)
{
    if (!c->context || c->is_spoilt || c->local)
        return false;
    return is_world ? !c->users && c->rank == rank && c->size == size
                    : c->users && !strcmp(c->run_id, run_id);
}

struct engine_context *engine_find(const char *run_id, bool is_world, int rank, int size)
{
    for (struct engine_context *c = contexts; c; c = c->next) {
        if (!fits(c, run_id, is_world, rank, size))
            continue;
        c->users++;
        snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
        return c;
    }
    return NULL;
}

static bool is_member(const struct engine_context *c, int32_t rank)
{
    for (int i = 0; i < c->size; i++)
        if (c->local[i] == rank)
            return true;
    return false;
}

static bool has_all(const struct engine_context *c, const int32_t *members, int size)
{
    for (int i = 0; i < size; i++)
        if (!is_member(c, members[i]))
            return false;
    return true;
}

/* The ranks are those of the same run, perhaps of another world: the members compare what each has found. */
struct engine_context *engine_find_local(const char *run_id, const int32_t *members, int size)
{
    for (struct engine_context *c = contexts; c; c = c->next)
        if (c->local && c->context && !c->is_spoilt && !strcmp(c->run_id, run_id) &&
            has_all(c, members, size)) {
            c->users++;
            return c;
        }
    return NULL;
}

bool engine_may_add_local(void)
{
    int count = 0;

    for (const struct engine_context *c = contexts; c; c = c->next)
        count += c->local != NULL;
    return count < ENGINE_LOCAL_MAX && made < ENGINE_CONTEXTS_MAX / 2;
}

bool engine_set_local(struct engine_context *c, const int32_t *members)
{
    const size_t bytes = (size_t)c->size * sizeof *members;

    c->local = malloc(bytes);
    if (c->local)
        memcpy(c->local, members, bytes);
    return c->local != NULL;
}

struct engine_context *engine_add(const struct ucc_library *ucc, const char *run_id, int rank,
                                  int size, const uint8_t token[ENGINE_TOKEN_BYTES],
                                  const struct settings *settings)
{
    struct engine_context *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->ucc = ucc;
    c->rank = rank;
    c->size = size;
    c->users = 1;
    c->settings = *settings;
    memcpy(c->token, token, sizeof c->token);
    snprintf(c->run_id, sizeof c->run_id, "%s", run_id);
    c->next = contexts;
    contexts = c;
    return c;
}

/* ---- ending ---- */

void engine_destroy_team(struct engine_context *c, ucci_team_h team)
{
    ucci_status status = c->ucc->team_destroy(team);

    for (int i = 0; status == UCCI_INPROGRESS && i < DESTROY_TESTS; i++) {
        c->ucc->context_progress(c->context);
        status = c->ucc->team_destroy(team);
    }
    c->is_spoilt |= status != UCCI_OK;
}

/* One that was never made is of no use. */
void engine_drop(struct engine_context *c)
{
    struct engine_context **link = &contexts;

    if (--c->users)
        return;
    if (c->context)
        return;
    while (*link != c)
        link = &(*link)->next;
    *link = c->next;
    free(c->local);
    free(c);
}

void engine_leave(void)
{
    if (pthread_mutex_trylock(&lock))
        return;
    for (int i = 0; contexts && i < LEAVE_TESTS; i++) {
        for (struct engine_context *c = contexts; c; c = c->next)
            if (c->context && !c->is_spoilt)
                c->ucc->context_progress(c->context);
        engine_nap();
    }
    engine_unlock();
}
