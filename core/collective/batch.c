/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Coalesced batches.
 *
 * Between begin and end the calls of the thread that began are checked and kept in their final form;
 * the end gives them their numbers and starts them under one hold of the progress lock, so that no other thread's
 * call comes between. That nothing is started before makes a batch with a refused call void as a whole:
 * a member that went on with the rest would leave the others waiting in the middle of it.
 *
 * Each call becomes a work without a handle, a part of the batch's own, which is complete when its
 * last part is.
 *
 * What the engine for devices launches as one is marked at the end of the batch (launches.c).
 *
 * The group lists its open batches under the engine's lock, as it does its works: each belongs to one thread,
 * by a number that no other thread ever gets. A thread that ends with a batch open leaves it in the list;
 * group_free() frees it, with a warning. A call without open batches reads one counter and takes no lock.
 */
#include <tutti/batch.h>

#include <stdlib.h>

#include "base/error.h"
#include "base/fork.h"
#include "collective/batch.h"
#include "progress/moved.h"
#include "progress/progress.h"
#include "reduce/op.h"

struct batch {
    struct open_batch open; /* first */
    struct kept_call *first, **last;
    tutti_status refused;
    struct kept_error error;
};

/* The work of a batch, which needs no group once it is started. */
struct whole {
    struct operation_state state;
    struct tutti_work work;
};

/* The number of the calling thread, from 1. */
static uint64_t this_thread(void)
{
    static _Atomic uint64_t threads;
    static _Thread_local uint64_t number;

    if (!number)
        number = atomic_fetch_add(&threads, 1) + 1;
    return number;
}

void kept_calls_free(struct kept_call *first)
{
    while (first) {
        struct kept_call *kept = first;

        first = kept->next;
        if (!kept->is_message) {
            chain_free(&kept->collective.memory);
            reduce_op_release(kept->collective.op);
        }
        struct packed *stand_ins = kept_stand_ins(kept)->first;

        packed_end(&stand_ins, false);
        free(kept);
    }
}

static void batch_free(struct open_batch *open)
{
    struct batch *batch = (struct batch *)open;

    kept_calls_free(batch->first);
    error_forget(&batch->error);
    free(batch);
}

struct batch *batch_find(struct tutti_group *group)
{
    const uint64_t thread = this_thread();
    struct open_batch *open;

    if (group->fork_generation != fork_current())
        return NULL;
    pthread_mutex_lock(&group->context->engine.lock);
    for (open = group->works.batches; open && open->thread != thread; open = open->next)
        ;
    pthread_mutex_unlock(&group->context->engine.lock);
    return (struct batch *)open;
}

tutti_status tutti_batch_begin(tutti_group *group)
{
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (batch_of(group))
        return error_set(
            TUTTI_ERR_BUSY,
            "tutti_batch_begin: a batch of this thread is open on the group: end it first");
    struct batch *batch = calloc(1, sizeof *batch);
    if (!batch)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a batch");
    batch->open = (struct open_batch){.thread = this_thread(), .free = batch_free};
    batch->last = &batch->first;
    pthread_mutex_lock(&group->context->engine.lock);
    batch->open.next = group->works.batches;
    group->works.batches = &batch->open;
    atomic_fetch_add(&group->works.open_batches, 1);
    pthread_mutex_unlock(&group->context->engine.lock);
    return TUTTI_OK;
}

static void take_out(struct tutti_group *group, struct batch *batch)
{
    pthread_mutex_lock(&group->context->engine.lock);
    for (struct open_batch **at = &group->works.batches; *at; at = &(*at)->next)
        if (*at == &batch->open) {
            *at = batch->open.next;
            break;
        }
    atomic_fetch_sub(&group->works.open_batches, 1);
    pthread_mutex_unlock(&group->context->engine.lock);
}

/* The new call; NULL: refused, and why. */
static struct kept_call *add(struct batch *batch, const char *function, bool wants,
                             tutti_status *status)
{
    if (!*status && wants)
        *status = error_of(function, error_set(TUTTI_ERR_INVALID_ARGUMENT,
                                               "in a batch a call has no work: pass NULL; "
                                               "tutti_batch_end() gives one work for all"));
    struct kept_call *kept = *status ? NULL : calloc(1, sizeof *kept);
    if (!*status && !kept)
        *status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for a call of a batch");
    if (*status && !batch->refused) {
        batch->refused = *status;
        error_keep(&batch->error);
    }
    if (*status)
        return NULL;
    *batch->last = kept;
    batch->last = &kept->next;
    return kept;
}

tutti_status batch_add_collective(struct batch *batch, struct collective *c, tutti_status status,
                                  bool wants)
{
    struct kept_call *kept = add(batch, c->function, wants, &status);

    if (kept) {
        kept->collective = *c;
        kept->collective.waited = false; /* the batch has a work of its own */
        kept->collective.packed.fields = NULL;
        c->memory.first = NULL;
        c->packed.first = NULL;
        c->op = NULL;
    }
    return status;
}

tutti_status batch_add_message(struct batch *batch, struct message *m, tutti_status status,
                               bool wants)
{
    struct kept_call *kept = add(batch, m->function, wants, &status);

    if (kept) {
        kept->is_message = true;
        kept->message = *m;
        m->packed.first = NULL;
    }
    return status;
}

static void release(struct tutti_work *work)
{
    atomic_fetch_sub(&work->engine->batches, 1);
    free((char *)work - offsetof(struct whole, work));
}

static tutti_status whole_new(struct progress_engine *engine, struct whole **ret_whole)
{
    struct whole *whole = calloc(1, sizeof *whole);

    if (!whole)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the work of a batch");
    whole->state = (struct operation_state){.status = TUTTI_ERR_NOT_READY, .work = &whole->work};
    whole->work = (struct tutti_work){.engine = engine,
                                      .state = &whole->state,
                                      .release = release,
                                      .references = 2,
                                      .fork_generation = fork_current(),
                                      .source = -1,
                                      .parts = 1}; /* the start itself */
    atomic_fetch_add(&engine->batches, 1);
    *ret_whole = whole;
    return TUTTI_OK;
}

/* NULL: there are messages alone. */
static const struct collective *first_collective(const struct kept_call *first)
{
    for (const struct kept_call *kept = first; kept; kept = kept->next)
        if (!kept->is_message)
            return &kept->collective;
    return NULL;
}

/* What was not started. */
static void give_back(struct kept_call *first)
{
    for (struct kept_call *kept = first; kept; kept = kept->next) {
        struct packed *renewed = kept->is_renewed ? kept_stand_ins(kept)->first : NULL;

        packed_end(&renewed, false);
        kept->is_renewed = false;
        if (kept->async)
            call_give_back(kept->async);
        kept->async = NULL;
    }
}

tutti_status kept_calls_again(struct tutti_group *group, struct kept_call *first)
{
    tutti_status status = TUTTI_OK;

    for (struct kept_call *kept = first; kept && !status; kept = kept->next) {
        status = call_again(group, kept_stand_ins(kept));
        kept->is_renewed = !status;
    }
    if (status)
        give_back(first);
    return status;
}

/* All memory first, so that hardly anything can fail between the first call and the last. Under the progress
 * lock. */
static tutti_status allocate(struct tutti_group *group, struct kept_call *first,
                             struct whole *whole)
{
    for (struct kept_call *kept = first; kept; kept = kept->next) {
        tutti_status status = call_allocate(group, &kept->async);

        if (status)
            return status;
        call_prepare(group, kept->async);
        kept->async->work.references = 1; /* nobody has a handle */
        kept->async->work.part_of = &whole->work;
    }
    return TUTTI_OK;
}

/* Under the progress lock. The group has ended, which the first collective would have met. */
static tutti_status refuse_all(struct tutti_group *group, const struct kept_call *first)
{
    const struct collective *collective = first_collective(first);

    return collective ? group_refuse(group, &collective->fields, collective->bytes)
                      : group_refuse_message(group);
}

static tutti_status start(struct tutti_group *group, struct kept_call *kept, bool again,
                          bool waited, uint64_t number)
{
    struct call *call = &kept->async->call;
    tutti_status status;

    kept->is_renewed = false; /* the call ends them */
    if (kept->is_message) {
        struct message m = kept->message;

        m.batch = number;
        kept->async->work.ret_source = kept->message.ret_source;
        kept->async->work.ret_bytes = kept->message.ret_bytes;
        if (!again)
            kept->message.packed.first = NULL;
        return message_post(group, &m, call);
    }
    if (again) {
        struct collective c = collective_again(&kept->collective);

        status = collective_begin(group, &c, call);
        chain_free(&c.memory); /* unless the call has taken them */
        packed_end(&c.packed.first, false);
        reduce_op_release(c.op);
    } else {
        status = collective_begin(group, &kept->collective, call);
    }
    call->waited = waited;
    return status;
}

/* Under the progress lock. What cannot be started fails the work, and nothing that comes after is started: the
 * others will miss the same call of this member. */
static void start_all(struct tutti_group *group, struct kept_call *first, bool again, bool waited,
                      struct whole *whole)
{
    const uint64_t number = moved_batch(group);

    for (struct kept_call *kept = first; kept; kept = kept->next) {
        tutti_status status = start(group, kept, again, waited, number);

        if (status) {
            work_part_failed(&whole->work, status);
            if (group_others_wait(group, status) && !kept->is_message)
                group_propose_own(group, status);
            break;
        }
        whole->work.parts++;
        kept->async = NULL; /* the group's */
    }
    (void)group->source.progress(&group->source);
    work_part_ended(&whole->work, TUTTI_OK);
}

tutti_status kept_calls_run(struct tutti_group *group, struct kept_call *first, bool again,
                            tutti_work **work)
{
    struct progress_engine *engine = &group->context->engine;
    struct whole *whole = NULL;

    tutti_status status = capture_check_all(first);
    if (!status)
        status = launches_mark(group, first);
    if (!status)
        status = whole_new(engine, &whole);
    if (!status) {
        engine_take(engine);
        engine_count_unattended(engine, 1);
        status = allocate(group, first, whole);
        if (!status && group_ended(group))
            status = refuse_all(group, first);
        else if (!status)
            start_all(group, first, again, !work, whole);
        give_back(first);
        if (status)
            engine_count_unattended(engine, -1);
        engine_release(engine);
    } else {
        give_back(first); /* the stand-ins of this run */
    }
    if (first_collective(first) && group_others_wait(group, status))
        status = group_end_by_own(group, status);
    if (status && whole)
        release(&whole->work);
    if (status)
        return status;
    if (work && capture_takes(first))
        capture_await(&whole->work);
    if (work) {
        *work = &whole->work;
        if (atomic_load(&engine->unattended))
            engine_visit(engine);
        return TUTTI_OK;
    }
    status = tutti_work_wait(&whole->work, 0);
    tutti_work_free(&whole->work);
    return status;
}

tutti_status batch_take(struct tutti_group *group, const char *function,
                        struct kept_call **ret_first)
{
    struct batch *batch = batch_of(group);

    if (!batch)
        return error_of(function, error_set(TUTTI_ERR_INVALID_ARGUMENT,
                                            "no batch of this thread is open on the group: "
                                            "tutti_batch_begin() first"));
    take_out(group, batch);
    tutti_status status = batch->refused ? error_give(batch->refused, &batch->error) : TUTTI_OK;
    if (!status) {
        *ret_first = batch->first;
        batch->first = NULL;
    }
    batch_free(&batch->open);
    return status;
}

tutti_status tutti_batch_end(tutti_group *group, tutti_work **work)
{
    struct kept_call *first;

    tutti_status status = group_check(group);
    if (!status)
        status = batch_take(group, __func__, &first);
    if (status)
        return status;
    status = kept_calls_run(group, first, false, work);
    kept_calls_free(first);
    return status;
}
