/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Advancing a schedule step by step. A step that is not ready leaves everything as it was, except
 * for run.cursor, which keeps how far a step that waits for many has come.
 */
#include "schedule/runner.h"

#include <stdlib.h>
#include <string.h>

#include "reduce/reduce.h"
#include "schedule/copies.h"

enum { ALIGN = 64 };

/* ---- memory ---- */

/* The block, or a larger one, whose contents are not those of the smaller. */
static void *grow(void *block, uint64_t *capacity, uint64_t bytes, bool *enough)
{
    void *larger = NULL;

    if (bytes <= *capacity)
        return block;
    if (bytes <= SIZE_MAX - ALIGN) {
        bytes = (bytes + ALIGN - 1) / ALIGN * ALIGN;
        larger = aligned_alloc(ALIGN, (size_t)bytes);
    }
    if (!larger) {
        *enough = false;
        return block;
    }
    free(block);
    *capacity = bytes;
    return larger;
}

/* Whichever schedule is taken. */
static bool make_room(struct run *run, const struct run_call *call, const struct schedule *schedule)
{
    const uint64_t tickets = schedule->tickets;
    bool enough = true;

    if (tickets)
        run->ticket_stride = (call->wire->ticket_bytes + ALIGN - 1) / ALIGN * ALIGN;
    run->tickets = grow(run->tickets, &run->tickets_bytes, tickets * sizeof *run->tickets, &enough);
    run->ticket_memory =
        grow(run->ticket_memory, &run->ticket_memory_bytes, tickets * run->ticket_stride, &enough);
    run->scratch = grow(run->scratch, &run->scratch_bytes, schedule->scratch_bytes, &enough);
    run->vectors =
        grow(run->vectors, &run->vectors_bytes, schedule->vectors * sizeof *run->vectors, &enough);
    if (enough && tickets)
        memset(run->tickets, 0, tickets * sizeof *run->tickets);
    return enough;
}

struct trial run_trial(const struct mapped *mapped, const struct schedule *schedule,
                       uint64_t digest, bool crowded)
{
    struct trial trial = {.plan = digest / TRIAL_WAYS * TRIAL_WAYS};

    if (schedule->pages > 1) {
        trial.may = crowded ? TRIAL_WINDOWS : 0;
        if (copies_may_be_cached(mapped, schedule))
            trial.may |= TRIAL_OUTPUTS;
        trial.chosen = trial.way = copies_untried_way(mapped, schedule);
    }
    return trial;
}

tutti_status run_start(struct run *run, const struct run_call *call)
{
    if (!make_room(run, call, call->schedule) ||
        (call->registered && !make_room(run, call, call->registered)))
        return TUTTI_ERR_NO_MEMORY;
    run->call = *call;
    run->next = run->outstanding = run->cursor = 0;
    run->announced = !call->mapped;
    run->undecided = call->registered != NULL;
    run->windows = windows_of(call->mapped, call->schedule);
    run->exhausted = false;
    run->way = call->mapped ? copies_untried_way(call->mapped, call->schedule) : 0;
    run->began = run->waits_since = 0;
    if (call->trial && call->mapped) {
        run->way = trial_way(call->trial, call->mapped, call->schedule->decider);
        run->began = call->mapped->self == call->schedule->decider ? tutti_copy_ticks() : 0;
    }
    return TUTTI_OK;
}

void run_free(struct run *run)
{
    free(run->tickets);
    free(run->ticket_memory);
    free(run->scratch);
    free(run->vectors);
    *run = (struct run){0};
}

/* ---- places ---- */

static unsigned char *staged(const struct run *run, const struct place *place)
{
    const struct mapped *mapped = run->call.mapped;

    return place->offset +
           (place->kind == PLACE_STAGED_IN
                ? windows_in(mapped, &run->windows, place->local_peer, place->page)
                : windows_out(mapped, &run->windows, place->local_peer, place->page));
}

/* No algorithm emits a place of the input to write to. */
static void *memory_of(const struct run *run, const struct place *place)
{
    switch (place->kind) {
    case PLACE_IN:
        return place_in(&run->call.in, place);
    case PLACE_OUT:
        return place_in(&run->call.out, place);
    case PLACE_SCRATCH:
        return run->scratch + place->offset;
    case PLACE_PART:
        return mapped_round_part(run->call.mapped, run->call.mapped->self) + place->offset;
    case PLACE_RESULT:
        return mapped_round_result(run->call.mapped, run->call.mapped->rounds - 1) + place->offset;
    case PLACE_PEER_IN:
        return run->call.mapped->places[place->local_peer].in + place->offset;
    case PLACE_PEER_OUT:
        return run->call.mapped->places[place->local_peer].out + place->offset;
    default:
        return staged(run, place);
    }
}

/* ---- mapped memory ---- */

static void wake_all(const struct run *run)
{
    if (run->call.notify)
        run->call.notify(run->call.notify_user, false);
}

/* One of my counters has moved. */
static void wake_waiting(const struct run *run)
{
    if (run->call.notify)
        run->call.notify(run->call.notify_user, true);
}

static void publish(const struct run *run, int word, int64_t value)
{
    struct mapped *mapped = run->call.mapped;

    atomic_store_explicit(&mapped->areas[mapped->self]->words[word].value,
                          mapped->pages + (uint64_t)value, memory_order_release);
}

/* What the step waits for. */
static uint64_t awaited_value(const struct run *run, const struct step *step)
{
    const struct mapped *mapped = run->call.mapped;

    return step->word == WORD_IN_USED || step->word == WORD_OUT_USED
               ? windows_used_before(mapped, &run->windows, (int64_t)step->bytes)
               : mapped->pages + step->bytes;
}

/*
 * Signed: before the group's first pages an operation looks back to less than zero. A local peer that
 * has not come so far may be in a call of another kind, and never come: its line tells.
 */
static tutti_status await(const struct run *run, int local_peer, const struct step *step)
{
    struct mapped *mapped = run->call.mapped;
    uint64_t now = atomic_load_explicit(&mapped->areas[local_peer]->words[step->word].value,
                                        memory_order_acquire);
    tutti_status status;

    if ((int64_t)now >= (int64_t)awaited_value(run, step))
        return TUTTI_OK;
    status = mapped_meet(mapped, local_peer);
    return status ? status : TUTTI_ERR_NOT_READY;
}

static tutti_status await_all(struct run *run, const struct step *step)
{
    const struct mapped *mapped = run->call.mapped;

    for (; run->cursor < (uint32_t)mapped->local_size; run->cursor++) {
        tutti_status status = TUTTI_OK;

        if ((int)run->cursor != mapped->self)
            status = await(run, (int)run->cursor, step);
        if (status)
            return status;
    }
    return TUTTI_OK;
}

/* What has come of waiting at a step for `local_peer` (-1: all). */
static tutti_status waited(const struct run *run, const struct step *step, int local_peer,
                           tutti_status status)
{
    struct mapped *mapped = run->call.mapped;

    if (status == TUTTI_ERR_NOT_READY)
        mapped_waits(mapped, local_peer, step->word, awaited_value(run, step));
    else
        mapped_waits_no_more(mapped);
    return status;
}

static void reduce_local(struct run *run, const struct step *step)
{
    const struct mapped *mapped = run->call.mapped;

    for (int i = 0; i < mapped->local_size; i++)
        mapped->vectors[i] = i == mapped->self
                                 ? memory_of(run, &step->a)
                                 : windows_in(mapped, &run->windows, i, step->local.page) +
                                       (i < mapped->self ? step->local.before : step->local.after);
    kernels_many(&run->call.kernels, memory_of(run, &step->to), mapped->vectors, mapped->local_size,
                 step->bytes);
}

/* Piece `piece` of the parts of all, which have so many elements. */
static void reduce_parts(const void *user, uint32_t piece)
{
    const struct run *run = user;
    const struct mapped *mapped = run->call.mapped;
    const struct kernels *kernels = &run->call.kernels;
    const uint64_t most = ROUND_PIECE / kernels->element_bytes;
    const uint64_t all = run->call.schedule->steps[run->next].bytes;
    const uint64_t left = all - piece * most, count = left < most ? left : most;
    const uint64_t offset = piece * (uint64_t)ROUND_PIECE;
    unsigned char *to = mapped_round_result(mapped, mapped->rounds) + offset;

    for (int i = 0; i < mapped->local_size; i++)
        mapped->vectors[i] = mapped_round_part(mapped, i) + offset;
    kernels_many(kernels, to, mapped->vectors, mapped->local_size, count);
    if (kernels->finish)
        kernels->finish(to, (size_t)count, kernels->members);
}

static tutti_status take_round(const struct run *run)
{
    struct mapped *mapped = run->call.mapped;
    const uint64_t bytes =
        run->call.schedule->steps[run->next].bytes * run->call.kernels.element_bytes;
    const struct round_work work = {reduce_parts, run,
                                    (uint32_t)((bytes + ROUND_PIECE - 1) / ROUND_PIECE)};
    const tutti_status status = mapped_round(mapped, &work);

    if (mapped->finished)
        wake_all(run);
    return status;
}

static void reduce_peers(const struct run *run, const struct step *step)
{
    const struct mapped *mapped = run->call.mapped;

    for (int i = 0; i < mapped->local_size; i++)
        mapped->vectors[i] = mapped->places[i].in + step->a.offset;
    kernels_many(&run->call.kernels, memory_of(run, &step->to), mapped->vectors, mapped->local_size,
                 step->bytes);
}

static void reduce_all(const struct run *run, const struct step *step)
{
    const int members = step->all.members, self = step->all.self;
    const unsigned char *slot = run->scratch + step->all.offset;

    for (int rank = 0; rank < members; rank++) {
        run->vectors[rank] = rank == self ? memory_of(run, &step->a) : slot;
        slot += rank == self ? 0 : step->all.each;
    }
    kernels_many(&run->call.kernels, memory_of(run, &step->to), run->vectors, members, step->bytes);
}

/* The next operation expects every counter at the end value of this one, whichever member used
 * it. */
static void finish_pages(struct run *run)
{
    struct mapped *mapped = run->call.mapped;
    const uint32_t pages = run->call.schedule->pages;

    if (!pages)
        return;
    for (int word = 0; word < WORD_COUNT; word++)
        publish(run, word, pages);
    windows_note(mapped, &run->windows, pages);
    mapped->pages += pages;
    wake_waiting(run);
}

/* ---- messages ---- */

static void *ticket_memory(const struct run *run, uint32_t ticket)
{
    return run->ticket_memory + ticket * run->ticket_stride;
}

static tutti_status start_message(struct run *run, const struct step *step)
{
    const struct wire *wire = run->call.wire;
    const bool sending = step->kind == STEP_SEND;
    void *memory = ticket_memory(run, step->ticket);
    tutti_status status = sending ? wire->send(run->call.wire_user, step->peer, memory,
                                               memory_of(run, &step->a), step->bytes)
                                  : wire->recv(run->call.wire_user, step->peer, memory,
                                               memory_of(run, &step->to), step->bytes);

    if (status == TUTTI_OK) {
        run->tickets[step->ticket] = (struct run_ticket){step->peer, true, sending};
        run->outstanding++;
    }
    return status;
}

static tutti_status finish_message(struct run *run, uint32_t ticket)
{
    tutti_status status;

    if (!run->tickets[ticket].outstanding)
        return TUTTI_OK;
    status = run->call.wire->test(run->call.wire_user, ticket_memory(run, ticket));
    if (status != TUTTI_ERR_NOT_READY) {
        run->tickets[ticket].outstanding = false;
        run->outstanding--;
    }
    return status;
}

static tutti_status fence(struct run *run)
{
    for (; run->outstanding && run->cursor < run->call.schedule->tickets; run->cursor++) {
        tutti_status status = finish_message(run, run->cursor);

        if (status)
            return status;
    }
    return TUTTI_OK;
}

/* ---- steps ---- */

/* Whether it is an address of the peer's process, which is not mapped here. */
static bool is_own_memory(const struct run *run, const struct place *place)
{
    const struct mapped_places *places;

    if (place->kind != PLACE_PEER_IN && place->kind != PLACE_PEER_OUT)
        return false;
    places = &run->call.mapped->places[place->local_peer];
    return place->kind == PLACE_PEER_IN ? places->own_in : places->own_out;
}

/* Reductions; the bytes that passed through this core. */
static uint64_t compute(struct run *run, const struct step *step)
{
    const struct kernels *kernels = &run->call.kernels;
    const uint64_t bytes = step->bytes * kernels->element_bytes;

    switch ((enum step_kind)step->kind) {
    case STEP_REDUCE:
        kernels_reduce(kernels, memory_of(run, &step->to), memory_of(run, &step->a),
                       memory_of(run, &step->b), step->bytes);
        return bytes;
    case STEP_REDUCE_LOCAL:
        reduce_local(run, step);
        return bytes * (uint64_t)run->call.mapped->local_size;
    case STEP_REDUCE_PEERS:
        reduce_peers(run, step);
        return bytes * (uint64_t)run->call.mapped->local_size;
    case STEP_REDUCE_ALL:
        reduce_all(run, step);
        return bytes * step->all.members;
    case STEP_FINISH:
        kernels->finish(memory_of(run, &step->to), (size_t)step->bytes, kernels->members);
        return bytes;
    default:
        return 0;
    }
}

/* A trial is not about how late the others are. */
static tutti_status met(struct run *run, tutti_status status)
{
    if (!run->began)
        return status;
    if (status == TUTTI_ERR_NOT_READY && !run->waits_since)
        run->waits_since = tutti_copy_ticks();
    if (!status && run->waits_since) {
        run->began += tutti_copy_ticks() - run->waits_since;
        run->waits_since = 0;
    }
    return status;
}

/* One step; `worked` grows by what it computes. */
static tutti_status take(struct run *run, const struct step *step, uint64_t *worked)
{
    switch ((enum step_kind)step->kind) {
    case STEP_SEND:
    case STEP_RECV:
        return start_message(run, step);
    case STEP_FENCE:
        return fence(run);
    case STEP_FENCE_TICKET:
        return finish_message(run, step->ticket);
    case STEP_POST:
        publish(run, step->word, (int64_t)step->bytes);
        wake_waiting(run);
        return TUTTI_OK;
    case STEP_AWAIT:
        return waited(run, step, step->local_peer, await(run, step->local_peer, step));
    case STEP_AWAIT_ALL:
        return waited(run, step, -1, await_all(run, step));
    case STEP_ROUND:
        return take_round(run);
    case STEP_MEET:
        return met(run, mapped_meet(run->call.mapped, step->local_peer));
    case STEP_MEET_ALL:
        return met(run, mapped_meet_all(run->call.mapped));
    case STEP_COPY:
        *worked += step->bytes;
        if (is_own_memory(run, &step->a))
            return peer_reads_copy(run->call.mapped, step->a.local_peer, memory_of(run, &step->to),
                                   memory_of(run, &step->a), (size_t)step->bytes);
        copies_make(run->call.mapped, run->call.schedule, step, run->way, memory_of(run, &step->to),
                    memory_of(run, &step->a));
        return TUTTI_OK;
    default:
        *worked += compute(run, step);
        return TUTTI_OK;
    }
}

static tutti_status announce(struct run *run)
{
    const struct run_call *call = &run->call;
    tutti_status status =
        call->references
            ? mapped_announce_references(call->mapped, call->announce, call->references)
            : mapped_announce(call->mapped, call->announce, NULL, 0);

    if (status == TUTTI_OK) {
        run->announced = true;
        wake_all(run);
    }
    return status;
}

/* Whether local peer `index` counts where the lines decide. */
static bool decides(const struct run *run, int index)
{
    return run->call.decider < 0 || run->call.decider == index;
}

/* The schedule that works in registered memory. Only references that decide are taken. */
static tutti_status take_registered(struct run *run)
{
    const struct schedule *schedule = run->call.registered;
    struct mapped *mapped = run->call.mapped;

    for (int i = 0; i < mapped->local_size && schedule->reach; i++) {
        const bool own = i == mapped->self;
        tutti_status status = TUTTI_OK;

        if (decides(run, i))
            status =
                mapped_resolve(mapped, i, own ? run->call.references : NULL, &schedule->reach[i]);
        if (status)
            return status;
    }
    run->call.schedule = schedule;
    run->windows = windows_of(run->call.mapped, schedule);
    run->way = copies_untried_way(run->call.mapped, schedule);
    return TUTTI_OK;
}

/* Looks at the lines that decide which schedule is taken. The first that shows no references settles it. */
static tutti_status decide(struct run *run)
{
    struct mapped *mapped = run->call.mapped;
    bool all = true;
    tutti_status status = TUTTI_OK;

    for (; all && run->cursor < (uint32_t)mapped->local_size; run->cursor++) {
        const int peer = (int)run->cursor;

        if (!decides(run, peer))
            continue;
        status = mapped_meet(mapped, peer);
        if (status == TUTTI_ERR_NOT_READY)
            mapped->culprit = peer;
        if (status)
            return status;
        all = mapped_shows_references(mapped, peer);
    }
    if (all)
        status = take_registered(run);
    if (status)
        return status;
    run->undecided = false;
    run->cursor = 0;
    return TUTTI_OK;
}

tutti_status run_advance(struct run *run)
{
    const struct schedule *schedule;
    uint64_t worked = 0;

    run->exhausted = false;
    if (!run->announced) {
        tutti_status status = announce(run);

        if (status)
            return status;
    }
    if (run->undecided) {
        tutti_status status = decide(run);

        if (status)
            return status;
    }
    schedule = run->call.schedule;
    while (run->next < schedule->count) {
        tutti_status status;

        if (worked >= RUN_BUDGET_BYTES) {
            run->exhausted = true;
            return TUTTI_ERR_NOT_READY;
        }
        status = run->call.reach ? run_reach(run, &schedule->steps[run->next]) : TUTTI_OK;
        if (!status)
            status = take(run, &schedule->steps[run->next], &worked);
        if (status)
            return status;
        run->next++;
        run->cursor = 0;
    }
    finish_pages(run);
    if (run->began)
        trial_took(run->call.trial, tutti_copy_ticks() - run->began,
                   schedule->pages * (uint64_t)MAPPED_PAGE);
    return TUTTI_OK;
}

void run_alone(const struct schedule *schedule, const struct blocks *in, const struct blocks *out,
               const struct kernels *kernels)
{
    for (uint32_t i = 0; i < schedule->count; i++) {
        const struct step *step = &schedule->steps[i];
        void *to = place_in(out, &step->to);

        if (step->kind == STEP_COPY) {
            const void *from = place_in(in, &step->a);

            if (from != to) /* in place, as most calls are */
                reduce_copy(to, from, (size_t)step->bytes);
        } else
            kernels->finish(to, (size_t)step->bytes, kernels->members);
    }
}

/* ---- messages that have not come ---- */

int run_awaited(const struct run *run, int but, int *ret_ranks, int capacity)
{
    int count = 0;

    for (uint32_t i = 0; i < run->call.schedule->tickets && count < capacity; i++) {
        const struct run_ticket *ticket = &run->tickets[i];

        /* A fence stops at the first that is missing: those behind it may be here. */
        if (ticket->outstanding && !ticket->sending && ticket->peer != but &&
            run->call.wire->test(run->call.wire_user, ticket_memory(run, i)) == TUTTI_ERR_NOT_READY)
            ret_ranks[count++] = ticket->peer;
    }
    return count;
}

void run_abandon(struct run *run)
{
    for (uint32_t i = 0; run->outstanding && i < run->call.schedule->tickets; i++) {
        if (!run->tickets[i].outstanding)
            continue;
        run->call.wire->cancel(run->call.wire_user, ticket_memory(run, i));
        run->tickets[i].outstanding = false;
        run->outstanding--;
    }
}
