/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts: one engine each. A forked child forgets those that it inherited; an exit without
 * tutti_group_destroy() tells the other members, by way of all that the process has.
 */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "diagnosis/dump.h"
#include "group/exit_record.h"
#include "group/groups.h"
#include "lifecycle/lifecycle.h"
#include "plugin/plugin.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tutti_context *the_default;
static tutti_group *default_group;

enum { EXIT_WAITS_MS = 200 };

/* In the child of a fork: its first tutti_init() makes a context of its own. What the parent's hold
 * is left alone; base/fork.h has closed the descriptors that matter. */
static void forget_in_child(void)
{
    the_default = NULL;
    default_group = NULL;
    pthread_mutex_init(&lock, NULL);
    contexts_forget();
    dump_watch_forget();
}

static void propose_exit(struct tutti_group *group)
{
    char who[CONTROL_HOST_MAX + 64], message[CONTROL_MESSAGE_MAX];

    control_describe(group->control, group->rank, who, sizeof who);
    snprintf(message, sizeof message, "%s was lost: it exited without tutti_group_destroy()", who);
    control_propose(group->control, TUTTI_ERR_PEER_LOST, group->rank, message);
}

/* Whether the group has failed, or does now by what this member has proposed. */
static bool has_failed(struct tutti_group *group, int64_t until)
{
    if (!control_verdict_status(group->control) && control_has_proposed(group->control))
        control_await_verdict(group->control, clock_left_ms(until, EXIT_WAITS_MS));
    return control_verdict_status(group->control);
}

/* Before the others can hear of it: they may be gone before this process is. */
static void tell_launcher(const tutti_context *context, int64_t until)
{
    struct tutti_group *left = NULL;
    bool failed = false;

    for (struct tutti_group *group = groups_first(context); group; group = groups_next(group)) {
        if (group->size == 1)
            continue;
        if (has_failed(group, until)) {
            exit_record_failed(group);
            failed = true;
        } else {
            left = group;
        }
    }
    if (left && !failed)
        exit_record_leaving(left);
}

/* Threads of the program may still run, so what is walked is locked. */
static void leave_context(tutti_context *context, void *user)
{
    const int64_t until = *(const int64_t *)user;

    if (context->fork_generation != fork_current())
        return;
    (void)engine_stop(&context->engine, until);
    if (!engine_take_until(&context->engine, until))
        return;
    tell_launcher(context, until);
    for (struct tutti_group *group = groups_first(context); group; group = groups_next(group))
        if (group->size > 1)
            propose_exit(group);
    for (struct tutti_group *group = groups_first(context); group; group = groups_next(group))
        if (group->size > 1)
            control_await_verdict(group->control, clock_left_ms(until, EXIT_WAITS_MS));
    engine_release(&context->engine);
}

/*
 * exit(3) without tutti_group_destroy(): the others hear it at once, with a message. The whole ends after
 * EXIT_WAITS_MS; where that is too short, the others see the connections end.
 */
static void leave_at_exit(void)
{
    int64_t until = clock_deadline_ms(EXIT_WAITS_MS);

    contexts_each(leave_context, &until);
}

static void at_exit(void)
{
    dump_watch_stop();
    leave_at_exit();
    plugins_leave();
    dump_files_await();
}

static void watch_process(void)
{
    fork_watch(forget_in_child);
    atexit(at_exit);
}

tutti_status tutti_context_create(tutti_context **ret_context)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (!ret_context)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_context is NULL");
    pthread_once(&once, watch_process);
    tutti_context *context = calloc(1, sizeof *context);
    if (!context)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a context");
    tutti_status status = engine_init(&context->engine);
    if (status) {
        free(context);
        return status;
    }
    context->fork_generation = fork_current();
    contexts_add(context);
    *ret_context = context;
    return TUTTI_OK;
}

static tutti_status context_check(const tutti_context *context)
{
    if (context->fork_generation != fork_current())
        return error_set(TUTTI_ERR_FORKED, "the context belongs to the parent of this process");
    return TUTTI_OK;
}

static tutti_status find_default(tutti_context **ret_context)
{
    LOCK_SCOPE(&lock);
    if (!the_default) {
        tutti_status status = tutti_context_create(&the_default);
        if (status)
            return status;
        the_default->is_default = true;
    }
    *ret_context = the_default;
    return TUTTI_OK;
}

tutti_status context_find(tutti_context *given, tutti_context **ret_context)
{
    *ret_context = given;
    tutti_status status = given ? TUTTI_OK : find_default(ret_context);
    return status ? status : context_check(*ret_context);
}

void context_offer_default(struct tutti_group *world)
{
    LOCK_SCOPE(&lock);
    if (!default_group && world->context->is_default)
        default_group = world;
}

void context_drop_default(const struct tutti_group *group)
{
    LOCK_SCOPE(&lock);
    if (default_group == group)
        default_group = NULL;
}

tutti_group *tutti_default_group(void)
{
    LOCK_SCOPE(&lock);
    return default_group;
}

int32_t tutti_is_initialized(void)
{
    return tutti_default_group() != NULL;
}

tutti_status tutti_context_destroy(tutti_context *context)
{
    if (!context)
        return TUTTI_OK;
    tutti_status status = context_check(context);
    if (status)
        return status;
    if (context->is_default)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "the default context cannot be destroyed");
    if (atomic_load(&context->groups))
        return error_set(TUTTI_ERR_BUSY, "the context has %d groups; destroy them first",
                         atomic_load(&context->groups));
    const uint32_t works = work_memory_used(&context->engine);
    if (works)
        return error_set(TUTTI_ERR_BUSY, "the context has %u works that were not freed", works);
    contexts_remove(context);
    work_memory_trim(&context->engine);
    engine_fini(&context->engine);
    free(context);
    return TUTTI_OK;
}

tutti_status tutti_context_fd(tutti_context *context, int *ret_fd)
{
    if (!ret_fd)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "ret_fd is NULL");
    tutti_status status = context_find(context, &context);
    if (status)
        return status;
    struct progress_engine *engine = &context->engine;
    LOCK_SCOPE(&engine->lock);
    if (engine->event_fd < 0)
        engine->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (engine->event_fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the event descriptor");
    *ret_fd = engine->event_fd;
    return TUTTI_OK;
}

tutti_status tutti_dispatch(tutti_context *context)
{
    uint64_t count;

    tutti_status status = context_find(context, &context);
    if (status)
        return status;
    struct progress_engine *engine = &context->engine;
    int fd = atomic_load(&engine->event_fd);
    if (fd >= 0 && read(fd, &count, sizeof count) < 0)
        count = 0; /* nothing had completed */
    engine_help(engine);
    engine_run_callbacks(engine);
    return TUTTI_OK;
}
