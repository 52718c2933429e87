/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ucc_context_create() returns when all members have called it, and a team advances only while it is asked, often.
 * So a thread does both, and the core looks whether it has ended. A member that never comes, a verdict and the
 * end of the group reach it as errors of the gathers that UCC asks for. If UCC waits for something else, the
 * thread is left behind, with the context.
 */
#include "form.h"

#include <errno.h>
#include <stdlib.h>

struct form {
    struct form *next;
    struct engine_context *context;
    struct exchange own;       /* of a team in a context that another group has made */
    struct exchange *exchange; /* that, or the context's */
    int rank, size;
    bool stopped;
    bool keeps;  /* UCC may come back to what it has made */
    bool ended;  /* atomic */
    int holders; /* the team, the thread; under the engine's lock */
    struct form_result result;
};

static struct form *kept; /* by UCC, for good; under the engine's lock */

static bool has_to_stop(const struct form *form)
{
    return __atomic_load_n(&form->stopped, __ATOMIC_ACQUIRE);
}

static ucci_status make_team(struct form *form, ucci_team_h *ret_team)
{
    struct engine_context *c = form->context;
    const ucci_team_params params = {
        .mask = UCCI_TEAM_FIELD_EP | UCCI_TEAM_FIELD_EP_RANGE | UCCI_TEAM_FIELD_OOB,
        .ep = (uint64_t)form->rank,
        .ep_range = UCCI_EP_RANGE_CONTIG,
        .oob = exchange_oob(form->exchange, (uint32_t)form->size, (uint32_t)form->rank)};
    ucci_status status = c->ucc->team_create_post(&c->context, 1, &params, ret_team);

    if (status < 0)
        return status;
    while ((status = c->ucc->team_create_test(*ret_team)) == UCCI_INPROGRESS &&
           !has_to_stop(form)) {
        c->ucc->context_progress(c->context);
        engine_nap();
    }
    return status == UCCI_INPROGRESS ? UCCI_ERR_TIMED_OUT : status;
}

static void make(struct form *form)
{
    struct form_result *result = &form->result;

    if (!form->context->context)
        result->code = engine_make(form->context, &result->where);
    if (result->code)
        return;
    result->where = "ucc_team_create";
    result->code = make_team(form, &result->team);
}

static void let_go(struct form *form)
{
    if (--form->holders)
        return;
    struct engine_context *context = form->context;

    if (form->keeps && form->result.team) {
        form->next = kept;
        kept = form;
    } else {
        free(form);
    }
    engine_drop(context);
}

static void *run(void *user)
{
    struct form *form = user;

    engine_lock();
    exchange_watch(form->exchange);
    make(form);
    exchange_unwatch(form->exchange);
    inherited_accepted(&form->context->listening);
    pthread_mutex_lock(&form->exchange->lock);
    form->result.gather = form->exchange->status;
    form->result.is_late = form->exchange->is_late;
    pthread_mutex_unlock(&form->exchange->lock);
    __atomic_store_n(&form->ended, true, __ATOMIC_RELEASE);
    let_go(form);
    engine_unlock();
    return NULL;
}

int form_begin(struct engine_context *context, const struct caller *caller, int rank, int size,
               int64_t deadline_ns, struct form **ret_form)
{
    struct form *form = calloc(1, sizeof *form);

    if (!form)
        return ENOMEM;
    form->context = context;
    form->rank = rank;
    form->size = size;
    form->exchange = context->context ? &form->own : &context->exchange;
    exchange_begin(form->exchange, caller, deadline_ns, &context->listening);
    form->holders = 2;
    const int error = engine_start_thread(run, form);
    if (error) {
        free(form);
        return error;
    }
    *ret_form = form;
    return 0;
}

bool form_has_ended(struct form *form, struct form_result *ret_result)
{
    if (!__atomic_load_n(&form->ended, __ATOMIC_ACQUIRE))
        return false;
    *ret_result = form->result;
    return true;
}

void form_stop(struct form *form)
{
    __atomic_store_n(&form->stopped, true, __ATOMIC_RELEASE);
    exchange_end(form->exchange);
}

void form_end(struct form *form, bool keeps)
{
    struct engine_context *context = form->context;

    form_stop(form);
    /* UCC frees no team that it has not made, nor one with an operation. */
    form->keeps = keeps || !form->ended || form->result.code;
    context->is_spoilt |= form->keeps;
    if (form->result.team && !form->keeps)
        engine_destroy_team(context, form->result.team);
    let_go(form);
}
