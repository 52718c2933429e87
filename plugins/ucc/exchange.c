/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC calls req_test again and again and does not return until it says something else than INPROGRESS. So req_test
 * returns an error once the deadline has passed, the group has ended or the team was closed, and it sleeps: it
 * is called on a thread of the plugin alone. Other threads may use UCC meanwhile (engine_nap()).
 */
#include "exchange.h"

#include <stdlib.h>
#include <time.h>

#include "engine.h"

/* The core, which knows the members that do not answer, reports the deadline first. */
static const int64_t AFTER_DEADLINE_NS = 1000000000;

struct request {
    struct exchange *exchange;
    tutti_exchange *gather; /* NULL: it has ended */
    void *all;
    ucci_status status;
};

void exchange_begin(struct exchange *exchange, const struct caller *caller, int64_t deadline_ns,
                    struct listening *listening)
{
    *exchange =
        (struct exchange){.caller = *caller, .deadline_ns = deadline_ns, .listening = listening};
    pthread_mutex_init(&exchange->lock, NULL);
}

void exchange_end(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    exchange->is_over = true;
    pthread_mutex_unlock(&exchange->lock);
}

bool exchange_is_over(struct exchange *exchange)
{
    pthread_mutex_lock(&exchange->lock);
    const bool is_over = exchange->is_over;
    pthread_mutex_unlock(&exchange->lock);
    return is_over;
}

/* ---- descriptors ---- */

void exchange_watch(struct exchange *exchange)
{
    if (!exchange->watches)
        inherited_begin(&exchange->before);
    exchange->watches = true;
}

void exchange_unwatch(struct exchange *exchange)
{
    if (exchange->watches)
        inherited_end(&exchange->before, exchange->listening);
    exchange->watches = false;
}

/* ---- what UCC calls ---- */

/* Under the lock. */
static ucci_status fail_with(struct exchange *exchange, tutti_status status)
{
    exchange->status = status;
    return UCCI_ERR_NO_MESSAGE;
}

static ucci_status start(void *source, void *all, size_t bytes, void *info, void **ret_request)
{
    struct exchange *exchange = info;
    struct request *request = malloc(sizeof *request);
    tutti_status status = TUTTI_ERR_ABORTED;

    settings_take_back(); /* UCC has read the environment */
    if (!request)
        return UCCI_ERR_NO_MEMORY;
    exchange_unwatch(exchange);
    *request = (struct request){.exchange = exchange, .all = all, .status = UCCI_INPROGRESS};
    pthread_mutex_lock(&exchange->lock);
    if (!exchange->is_over)
        status = exchange->caller.host->gather_start(exchange->caller.self, source, bytes,
                                                     &request->gather);
    const ucci_status answer = status ? fail_with(exchange, status) : UCCI_OK;
    pthread_mutex_unlock(&exchange->lock);
    if (status) {
        free(request);
        exchange_watch(exchange);
    } else {
        *ret_request = request;
    }
    return answer;
}

/* Under the lock. */
static ucci_status look(struct exchange *exchange, struct request *request)
{
    const struct caller *c = &exchange->caller;

    if (exchange->is_over)
        return fail_with(exchange, TUTTI_ERR_ABORTED);
    const tutti_status status = c->host->gather_test(c->self, request->gather, request->all);
    if (status == TUTTI_ERR_NOT_READY) {
        exchange->is_late = c->host->now_ns(c->self) >= exchange->deadline_ns + AFTER_DEADLINE_NS;
        return exchange->is_late ? fail_with(exchange, TUTTI_ERR_TIMEOUT) : UCCI_INPROGRESS;
    }
    request->gather = NULL;
    return status ? fail_with(exchange, status) : UCCI_OK;
}

static ucci_status test(void *user)
{
    struct request *request = user;
    struct exchange *exchange = request->exchange;

    if (request->status != UCCI_INPROGRESS)
        return request->status;
    pthread_mutex_lock(&exchange->lock);
    request->status = look(exchange, request);
    pthread_mutex_unlock(&exchange->lock);
    if (request->status == UCCI_INPROGRESS)
        engine_nap();
    else
        exchange_watch(exchange);
    return request->status;
}

/* A gather that has not ended is the core's until the group ends. */
static ucci_status release(void *request)
{
    free(request);
    return UCCI_OK;
}

ucci_oob exchange_oob(struct exchange *exchange, uint32_t members, uint32_t place)
{
    return (ucci_oob){.allgather = start,
                      .req_test = test,
                      .req_free = release,
                      .info = exchange,
                      .members = members,
                      .place = place};
}
