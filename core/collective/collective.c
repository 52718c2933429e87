/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One collective, from its arguments in their final form to the queue: sequence and signature, then
 * here and now or later.
 *
 * A small blocking call that nothing is queued before ends where it begins, under the progress lock that it
 * began with: in a group of one at once, on one host after a few spins for the others. It becomes a struct call
 * only if it does not end there, and continues in the queue like every other call then.
 */
#include <sched.h>

#include "base/error.h"
#include "base/without.h"
#include "collective/batch.h"
#include "progress/progress.h"
#include "provider/native.h"
#include "provider/wrap.h"
#include "reduce/op.h"

/* Gives a call its number and its place in the chain of signatures. Its fields are those of its plan, with more flags.
 * Kept, so that it can be compared. */
static inline const struct announce *next_announce(struct tutti_group *group,
                                                   const struct plan_entry *plan, uint8_t flags)
{
    const uint64_t sequence = ++group->calls.sequence;
    struct announce *announce =
        &group->comparing.calls[WITHOUT_MISMATCH ? 0 : sequence % GROUP_CALLS_KEPT];

    if (!WITHOUT_MISMATCH)
        group->calls.signature = call_chain(group->calls.signature, plan->digest + flags);
    announce->sequence = sequence;
    announce->signature = group->calls.signature;
    announce->fields = plan->fields;
    announce->fields.flags |= flags;
    return announce;
}

/* False: another member has called something else as this number already. */
static bool is_agreed(struct tutti_group *group, const struct announce *announce)
{
    return WITHOUT_MISMATCH || announce->sequence > group->comparing.last_future ||
           group_compare_futures(group, announce);
}

/* What a call is before it has a struct: announced, and perhaps shown to the others. */
struct beginning {
    const struct announce *announce; /* NULL: it has not begun */
    struct plan_entry *plan;         /* NULL: it is not known */
    uint64_t record;
    enum call_stage stage;
};

/* Records the call, and counts its bytes. */
static inline void note(struct tutti_group *group, const struct collective *c,
                        struct beginning *begun)
{
    begun->record = record_collective(group, begun->plan, begun->announce->sequence, c->bytes);
    group->calls.mapped_bytes += begun->plan->mapped_bytes;
}

static inline void take_tensors(struct call *call, const struct collective *c)
{
    call->in = c->in;
    call->out = c->out;
    call->bytes = c->bytes;
    call->registered = false;
}

/* Queues a call that has its plan and its tensors. Takes what `c` holds. */
static inline void enter(struct tutti_group *group, struct collective *c, struct call *call,
                         const struct beginning *begun)
{
    call->announce = *begun->announce;
    call->stage = begun->stage;
    call->memory = c->memory;
    call->packed = c->packed.first;
    call->stream = c->packed.stream;
    call->waited = c->waited || !call->state.work;
    call->captured = c->packed.is_captured;
    if (c->fields.flags & CALL_DIRECT && call->state.work)
        work_count_to_issue(call->state.work, 1);
    c->memory.first = NULL;
    c->packed.first = NULL;
    call->op = c->op;
    c->op = NULL;
    call->timeout_ms = c->timeout_ms;
    call->state.no_spin = group->needs.no_spin;
    call->kind = CALL_COLLECTIVE;
    call->peer = -1;
    call->plan->users++;
    call->record = begun->record;
    if (group->ways.wrappers && !wrappers_begin(group, call))
        call_fails(call);
    call_list_append(&group->calls.queue, call);
}

tutti_status collective_begin(struct tutti_group *group, struct collective *c, struct call *call)
{
    const struct call_sizes *sizes = c->fields.flags & CALL_UNEVEN ? &c->sizes : NULL;
    tutti_status status = call->plan ? TUTTI_OK : group_plan(group, &c->fields, sizes, &call->plan);

    if (status)
        return status;
    take_tensors(call, c);
    if (group->memories.made || registered_may_read(group, &c->fields, c->bytes)) {
        status = registered_refer(group, call);
        if (status)
            return status;
    }
    const uint8_t flags =
        (c->with_next ? CALL_WITH_NEXT : 0) | (c->packed.is_captured ? CALL_CAPTURED : 0);
    struct beginning begun = {.announce = next_announce(group, call->plan, flags),
                              .plan = call->plan};
    begun.stage = is_agreed(group, begun.announce) ? CALL_QUEUED : CALL_FAILING;
    note(group, c, &begun);
    enter(group, c, call, &begun);
    if (call->packed && !(c->fields.flags & CALL_DIRECT))
        record_staged(group, call);
    return TUTTI_OK;
}

/* How often a call is moved at once. A schedule is left to the general wait, which also progresses messages,
 * and so is what an engine's threads need the cores for. */
static unsigned spins_for(const struct tutti_group *group, enum algorithm_kind kind)
{
    const unsigned all = engine_spins(&group->context->engine);

    if (algorithm_by_engine(kind))
        return group->needs.no_spin ? 0 : all / WAITING_TESTS_IN_A_ROW;
    return kind == ALGORITHM_INLINE ? all : 0;
}

/* How often a call leaves the CPU to other ranks before the general wait, where ranks outnumber CPUs.
 * A turn of that wait also looks at every member's messages, which costs a tenth of a short call. Long
 * calls without rounds take up to three times as long if they yield here. */
static unsigned yields_for(const struct tutti_group *group, const struct algorithm *algorithm)
{
    const bool yields =
        algorithm->kind == ALGORITHM_INLINE || algorithm->flags & ALGORITHM_SHARES_CPUS;

    if (!yields || engine_spins(&group->context->engine))
        return 0;
    return group->ways.mapped.one_session || group->ways.mapped.local_size < WAITING_MANY
               ? WAITING_YIELDS_AT_ONCE
               : WAITING_YIELDS_OF_MANY;
}

/* No thread waits for the CPU with the progress lock. */
static void yield(struct progress_engine *engine)
{
    engine_release(engine);
    sched_yield();
    engine_take(engine);
}

/* Where the call waits for the end of a round: sleeps until then, for a doze at most. Returns whether the
 * round is done. */
static bool rest_in_round(struct tutti_group *group, const struct call *call)
{
    struct progress_engine *engine = &group->context->engine;
    uint64_t round;
    bool done;

    if (!(call->plan->plan.algorithm->flags & ALGORITHM_SHARES_CPUS) ||
        !mapped_round_is_given(&group->ways.mapped, &round))
        return false;
    engine_release(engine);
    done = mapped_round_rest(&group->ways.mapped, round, WAITING_DOZE_MS);
    engine_take(engine);
    return done;
}

/* Whether a spinning call ends that at turn `i`: another thread wants the lock, or the group failed. */
static inline __attribute__((always_inline)) bool is_interrupted(const struct tutti_group *group,
                                                                 unsigned i)
{
    return engine_is_wanted(&group->context->engine) ||
           (i % WAITING_VERDICT_EVERY == 0 && control_verdict_status(group->control));
}

/* Whether a peer is on the CPU of a spinning call, at turn `i`: the general wait leaves it to that peer. */
static inline bool shares_cpu(struct tutti_group *group, unsigned i)
{
    return i % WAITING_SHARES_EVERY == WAITING_SHARES_EVERY - 1 &&
           group->source.shares_cpu(&group->source, true);
}

/* Moves the call while the progress lock is held anyway; most small ones are complete afterwards.
 * Another thread that wants the lock ends it. */
static void spin(struct tutti_group *group, struct call *call)
{
    struct progress_engine *engine = &group->context->engine;
    /* NOLINTNEXTLINE: the call has begun, so it has a plan; group_refuse() never returns OK. */
    const struct algorithm *algorithm = call->plan->plan.algorithm;
    unsigned yields = 0, turns = 0;

    for (unsigned i = 0; group->calls.queue.first == call && !call_is_failing(call); i++) {
        tutti_status status = group_advance(group, call);

        if (!status) {
            group_complete(group, call, TUTTI_OK);
            return;
        }
        if (status != TUTTI_ERR_NOT_READY) {
            group_call_failed(group, call, status);
            return;
        }
        if (is_interrupted(group, i))
            return;
        if (i == 0) { /* an engine may have done the call before */
            yields = yields_for(group, algorithm);
            if (yields)
                (void)group->source.shares_cpu(&group->source, false);
            turns = yields + spins_for(group, algorithm->kind);
        }
        if (i >= turns) {
            if (staged_waits(call) || !rest_in_round(group, call))
                return;
            i = 0;
        } else if (yields)
            yield(engine);
        else if (shares_cpu(group, i))
            return;
        else if (!algorithm_by_engine(algorithm->kind)) /* whose tests take longer than the pause */
            engine_relax();
    }
}

/* Whether a call may be over before a struct call is made of it: nothing is before it, nothing watches it, and
 * it has only its tensors. */
static bool may_be_short(const struct tutti_group *group, const struct collective *c)
{
    return !group->calls.queue.first && !c->packed.first && !c->packed.is_direct && !c->op &&
           c->bytes <= RUN_BUDGET_BYTES && !(c->fields.flags & CALL_UNEVEN) &&
           !group->ways.wrappers && !group->memories.made && !group_ended(group);
}

/* Shows the line of the call, and spins until those of the others are there. False: they are not, or something is
 * wrong, which the same steps find again when the call is moved. */
static inline bool meets_now(struct tutti_group *group, const struct collective *c,
                             struct beginning *begun)
{
    const struct algorithm *algorithm = begun->plan->plan.algorithm;
    const unsigned spins = engine_spins(&group->context->engine);
    const struct inline_call in =
        group_inline_call(group, begun->announce, begun->plan, &c->in, &c->out, c->bytes);

    begun->stage = !is_agreed(group, begun->announce)         ? CALL_FAILING
                   : group_inline_post(group, algorithm, &in) ? CALL_QUEUED
                                                              : CALL_BEGUN;
    note(group, c, begun); /* while the line is on its way */
    if (begun->stage != CALL_BEGUN)
        return false;
    for (unsigned i = 0;; i++) {
        const tutti_status status = group_inline_poll(group, algorithm, &in);

        if (status != TUTTI_ERR_NOT_READY)
            return !status;
        if (i >= spins || is_interrupted(group, i) || shares_cpu(group, i))
            return false;
        engine_relax();
    }
}

/* Does a small call where it begins, if it can be, with its number, signature and record. False: it has
 * begun as far as *begun says, and a struct call goes on with it. Under the progress lock. */
static inline bool is_over_now(struct tutti_group *group, const struct collective *c,
                               struct beginning *begun)
{
    begun->announce = NULL;
    begun->plan = NULL;
    if (!may_be_short(group, c) || group_plan(group, &c->fields, NULL, &begun->plan))
        return false;

    const struct plan_entry *plan = begun->plan;
    const enum algorithm_kind kind = plan->plan.algorithm->kind;
    if (kind != ALGORITHM_ALONE && kind != ALGORITHM_INLINE)
        return false;
    begun->announce = next_announce(group, plan, 0);
    if (kind == ALGORITHM_ALONE) {
        begun->record = record_collective(group, plan, begun->announce->sequence, c->bytes);
        run_alone(&plan->schedule, &c->in, &c->out, &plan->kernels);
    } else if (!meets_now(group, c, begun)) {
        return false;
    }
    if (!WITHOUT_RECORDER)
        record_at(group, begun->record)->state = RECORD_DONE;
    atomic_store_explicit(&group->calls.completed, begun->announce->sequence, memory_order_relaxed);
    return true;
}

/* Goes on with a call that was not over at once, as the struct call that it becomes. Under the progress
 * lock. */
static tutti_status go_on(struct tutti_group *group, struct collective *c,
                          const struct beginning *begun, struct call *call)
{
    call->plan = begun->plan;
    if (!begun->announce) {
        if (group_ended(group))
            return group_refuse(group, &c->fields, c->bytes);
        return error_of(c->function, collective_begin(group, c, call));
    }
    take_tensors(call, c);
    enter(group, c, call, begun);
    return TUTTI_OK;
}

/* Whether a call has not spun yet: it has only begun now, there was no room to show it, or ranks outnumber
 * CPUs. */
static bool may_spin(const struct tutti_group *group, const struct beginning *begun)
{
    return !begun->announce || begun->stage == CALL_QUEUED ||
           yields_for(group, begun->plan->plan.algorithm);
}

/* Goes on as go_on() says, and waits for the call. Releases the progress lock. */
static tutti_status continue_blocking(struct tutti_group *group, struct collective *c,
                                      const struct beginning *begun)
{
    struct call call;

    call_init(&call, group, NULL);
    const tutti_status status = go_on(group, c, begun, &call);
    if (!status && may_spin(group, begun))
        spin(group, &call);
    engine_release(&group->context->engine);
    return status ? status : call_wait(&call);
}

static tutti_status run_blocking(struct tutti_group *group, struct collective *c)
{
    struct progress_engine *engine = &group->context->engine;
    struct beginning begun;

    engine_take(engine);
    if (!is_over_now(group, c, &begun))
        return continue_blocking(group, c, &begun);
    engine_release(engine);
    return TUTTI_OK;
}

static tutti_status run_async(struct tutti_group *group, struct collective *c,
                              tutti_work **ret_work)
{
    struct progress_engine *engine = &group->context->engine;
    struct beginning begun = {.announce = NULL};
    struct async_call *async;

    engine_take(engine);
    tutti_status status = call_allocate(group, &async); /* before the others see the call */
    if (status) {
        engine_release(engine);
        return status;
    }
    if (c->waited && is_over_now(group, c, &begun)) {
        work_memory_untake(&async->work);
        engine_release(engine);
        *ret_work = NULL;
        return TUTTI_OK;
    }
    call_prepare(group, async);
    status = go_on(group, c, &begun, &async->call);
    if (!status && c->waited && may_spin(group, &begun))
        spin(group, &async->call);
    status = call_started(async, status, true, c->waited || c->packed.is_captured, ret_work);
    if (!status && c->packed.is_captured && !c->waited)
        capture_await(*ret_work);
    return status;
}

/* Frees what the call has not taken. */
static tutti_status end(struct tutti_group *group, struct collective *c, tutti_status status)
{
    /* The others are in a call that this member has no memory to begin. They hear it at once: its number is
     * not taken here, so a later call of the same kind would meet theirs, and nobody would notice. */
    if (status && call_others_wait(group, status))
        status = group_end_by_own(group, error_prefix("%s", call_name(&c->fields)));
    chain_free(&c->memory);
    packed_end(&c->packed.first, false);
    reduce_op_release(c->op);
    return status;
}

/* Whether end() has nothing to do. */
static inline bool is_plain(const struct collective *c)
{
    return !c->memory.first && !c->packed.first && !c->op;
}

tutti_status collective_run(struct tutti_group *group, struct collective *c, tutti_status status,
                            tutti_work **work)
{
    struct batch *batch = batch_of(group);

    if (!status && (c->packed.first || c->packed.stream || c->packed.is_direct))
        status = call_check_stand_ins(group, &c->packed, c->timeout_ms, &c->fields);
    if (!status && c->packed.is_direct)
        status = call_check_direct(group, c);
    status = error_of(c->function, status);
    if (batch)
        status = batch_add_collective(batch, c, status, work != NULL);
    else if (!status)
        status = work ? run_async(group, c, work) : run_blocking(group, c);
    return status || !is_plain(c) ? end(group, c, status) : TUTTI_OK;
}

tutti_status collective_repeat(struct tutti_group *group, const struct collective *kept,
                               tutti_work **work)
{
    struct collective c;

    if (work) {
        c = collective_again(kept);
        return collective_run(group, &c, TUTTI_OK, work);
    }

    struct progress_engine *engine = &group->context->engine;
    struct beginning begun;

    engine_take(engine);
    if (is_over_now(group, kept, &begun)) {
        engine_release(engine);
        return TUTTI_OK;
    }
    c = collective_again(kept);
    return end(group, &c, continue_blocking(group, &c, &begun));
}
