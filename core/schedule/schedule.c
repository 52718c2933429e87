/* SPDX-License-Identifier: Apache-2.0 */
/* The builder of schedules. Every array grows by doubling and is kept for the next schedule. */
#include "schedule/schedule.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE_BYTES = 1 << 20, SCRATCH_ALIGN = 64, FIRST_CAPACITY = 64 };

void schedule_free(struct schedule *sched)
{
    free(sched->steps);
    free(sched->free_tickets);
    free(sched->table);
    free(sched->reach);
    *sched = (struct schedule){0};
}

void schedule_begin(struct schedule *sched, const struct thresholds *thresholds, int rank, int size,
                    int local_size, int self, uint32_t element_bytes)
{
    free(sched->reach);
    *sched = (struct schedule){.thresholds = thresholds,
                               .rank = rank,
                               .size = size,
                               .local_size = local_size,
                               .self = self,
                               .element_bytes = element_bytes,
                               .steps = sched->steps,
                               .capacity = sched->capacity,
                               .free_tickets = sched->free_tickets,
                               .free_capacity = sched->free_capacity,
                               .table = sched->table,
                               .table_capacity = sched->table_capacity};
}

void schedule_view(struct schedule *sched, int rank, int size, const int *members)
{
    sched->rank = rank;
    sched->size = size;
    sched->members = members;
}

/* The items, with room for `needed`; without it the schedule has failed. */
static void *grow(struct schedule *sched, void *items, uint32_t *capacity, uint32_t needed,
                  size_t item_bytes)
{
    uint32_t wanted = *capacity ? *capacity : FIRST_CAPACITY;
    void *larger;

    if (needed <= *capacity)
        return items;
    while (wanted < needed && wanted <= UINT32_MAX / 2)
        wanted *= 2;
    larger = wanted < needed ? NULL : realloc(items, wanted * item_bytes);
    if (!larger) {
        sched->status = TUTTI_ERR_NO_MEMORY;
        return items;
    }
    *capacity = wanted;
    return larger;
}

int *schedule_table(struct schedule *sched, uint32_t count)
{
    sched->table = grow(sched, sched->table, &sched->table_capacity, count, sizeof *sched->table);
    return sched->table_capacity < count ? NULL : sched->table;
}

struct place schedule_scratch(struct schedule *sched, uint64_t bytes)
{
    struct place place = {.kind = PLACE_SCRATCH, .offset = sched->scratch_used};

    sched->scratch_used += (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    if (sched->scratch_used > sched->scratch_bytes)
        sched->scratch_bytes = sched->scratch_used;
    return place;
}

/* Chunks of the greatest length lie in the same places of half a window; shorter ones, which walk through
 * it, at odd distances: those that are a power of two apart alias on some CPUs. */
struct chunk schedule_chunks(struct schedule *sched, uint32_t count, uint64_t bytes)
{
    const uint32_t needed = (uint32_t)((bytes + MAPPED_PAGE - 1) / MAPPED_PAGE);
    const bool few = sched->local_size <= MAPPED_LOCAL_FEW;
    const uint32_t apart = needed < MAPPED_CHUNK_MAX / MAPPED_PAGE ? needed | 1 : needed;
    const struct chunk first = {sched->pages, few ? apart : MAPPED_CHUNK_PAGES};

    sched->pages += count * first.pages;
    return first;
}

/* A local peer's memory that a step works in, where it does more than copy from it. */
static void note_use(const struct schedule *sched, const struct place *place)
{
    if (place->kind == PLACE_PEER_IN || place->kind == PLACE_PEER_OUT)
        sched->reach[place->local_peer].in_place = true;
}

static void note_uses(const struct schedule *sched, const struct step *step)
{
    for (int i = 0; i < sched->local_size && step->kind == STEP_REDUCE_PEERS; i++)
        sched->reach[i].in_place = true;
    note_use(sched, &step->to);
    if (step->kind == STEP_REDUCE) {
        note_use(sched, &step->a);
        note_use(sched, &step->b);
    }
}

static void emit(struct schedule *sched, struct step step)
{
    if (sched->reach)
        note_uses(sched, &step);
    sched->steps = grow(sched, sched->steps, &sched->capacity, sched->count + 1, sizeof step);
    if (sched->count < sched->capacity)
        sched->steps[sched->count++] = step;
}

static uint32_t take_ticket(struct schedule *sched)
{
    if (sched->free_count)
        return sched->free_tickets[--sched->free_count];
    if (sched->tickets_used == sched->tickets)
        sched->tickets++;
    return sched->tickets_used++;
}

static uint32_t emit_message(struct schedule *sched, enum step_kind kind, int peer,
                             struct place place, uint64_t bytes)
{
    struct step step = {.kind = (uint8_t)kind, .bytes = bytes};

    step.peer = sched->members ? sched->members[peer] : peer;
    step.ticket = take_ticket(sched);
    if (kind == STEP_SEND) {
        step.a = place;
        sched->sent_bytes += bytes;
        sched->sent_messages++;
    } else {
        step.to = place;
    }
    emit(sched, step);
    return step.ticket;
}

uint32_t schedule_send(struct schedule *sched, int peer, struct place from, uint64_t bytes)
{
    return emit_message(sched, STEP_SEND, peer, from, bytes);
}

uint32_t schedule_recv(struct schedule *sched, int peer, struct place to, uint64_t bytes)
{
    return emit_message(sched, STEP_RECV, peer, to, bytes);
}

void schedule_fence(struct schedule *sched)
{
    if (sched->tickets_used)
        emit(sched, (struct step){.kind = STEP_FENCE});
    sched->tickets_used = sched->free_count = 0;
}

void schedule_fence_ticket(struct schedule *sched, uint32_t ticket)
{
    emit(sched, (struct step){.kind = STEP_FENCE_TICKET, .ticket = ticket});
    sched->free_tickets = grow(sched, sched->free_tickets, &sched->free_capacity,
                               sched->free_count + 1, sizeof *sched->free_tickets);
    if (sched->free_count < sched->free_capacity)
        sched->free_tickets[sched->free_count++] = ticket;
}

/* As many steps as `bytes` of local work have pieces; step.bytes counts `unit` bytes each. */
static void emit_pieces(struct schedule *sched, struct step step, uint64_t bytes, uint32_t unit)
{
    for (uint64_t done = 0, now; done < bytes; done += now) {
        now = bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
        step.bytes = now / unit;
        emit(sched, step);
        step.to.offset += now;
        step.a.offset += now;
        step.b.offset += now; /* of those that have it */
    }
}

static bool same_place(struct place a, struct place b)
{
    return a.kind == b.kind && a.local_peer == b.local_peer && a.page == b.page &&
           a.offset == b.offset;
}

static bool is_users(struct place place)
{
    return place.kind == PLACE_IN || place.kind == PLACE_OUT;
}

void schedule_copy(struct schedule *sched, struct place to, struct place from, uint64_t bytes)
{
    if (same_place(to, from))
        return;
    sched->user_bytes += bytes * ((uint64_t)is_users(to) + is_users(from));
    emit_pieces(sched, (struct step){.kind = STEP_COPY, .to = to, .a = from}, bytes, 1);
}

void schedule_reduce(struct schedule *sched, struct place to, struct place a, struct place b,
                     uint64_t bytes)
{
    emit_pieces(sched, (struct step){.kind = STEP_REDUCE, .to = to, .a = a, .b = b}, bytes,
                sched->element_bytes);
}

void schedule_reduce_local(struct schedule *sched, struct place to, struct place own,
                           struct chunk chunk, uint32_t before, uint32_t after, uint64_t bytes)
{
    if (bytes)
        emit(sched, (struct step){.kind = STEP_REDUCE_LOCAL,
                                  .bytes = bytes / sched->element_bytes,
                                  .to = to,
                                  .a = own,
                                  .local = {.page = chunk.page, .before = before, .after = after}});
}

void schedule_reduce_all(struct schedule *sched, struct place to, struct place own,
                         struct place scratch, uint32_t each, uint64_t bytes)
{
    if ((uint32_t)sched->size > sched->vectors)
        sched->vectors = (uint32_t)sched->size;
    if (bytes)
        emit(sched, (struct step){.kind = STEP_REDUCE_ALL,
                                  .bytes = bytes / sched->element_bytes,
                                  .to = to,
                                  .a = own,
                                  .all = {.offset = scratch.offset,
                                          .each = each,
                                          .members = (uint16_t)sched->size,
                                          .self = (uint16_t)sched->rank}});
}

/* How much of a local peer's input and output is used; NULL: no memory. */
static struct mapped_reach *reach_of(struct schedule *sched, int local_peer)
{
    const uint32_t members = (uint32_t)sched->local_size;

    if (!sched->reach) {
        sched->reach = grow(sched, NULL, &sched->reach_capacity, members, sizeof *sched->reach);
        if (!sched->reach)
            return NULL;
        memset(sched->reach, 0, members * sizeof *sched->reach);
    }
    return &sched->reach[local_peer];
}

static void extend(uint64_t *reach, uint64_t end)
{
    if (end > *reach)
        *reach = end;
}

struct place schedule_peer_in(struct schedule *sched, int local_peer, uint64_t offset,
                              uint64_t bytes)
{
    struct mapped_reach *reach = reach_of(sched, local_peer);

    if (reach)
        extend(&reach->in, offset + bytes);
    return (struct place){
        .kind = PLACE_PEER_IN, .local_peer = (uint16_t)local_peer, .offset = offset};
}

struct place schedule_peer_out(struct schedule *sched, int local_peer, uint64_t offset,
                               uint64_t bytes)
{
    struct mapped_reach *reach = reach_of(sched, local_peer);

    if (reach)
        extend(&reach->out, offset + bytes);
    return (struct place){
        .kind = PLACE_PEER_OUT, .local_peer = (uint16_t)local_peer, .offset = offset};
}

void schedule_reduce_peers(struct schedule *sched, struct place to, uint64_t offset, uint64_t bytes)
{
    if (!bytes)
        return;
    for (int i = 0; i < sched->local_size; i++)
        schedule_peer_in(sched, i, offset, bytes);
    emit(sched, (struct step){.kind = STEP_REDUCE_PEERS,
                              .bytes = bytes / sched->element_bytes,
                              .to = to,
                              .a = {.kind = PLACE_PEER_IN, .offset = offset}});
}

void schedule_finish(struct schedule *sched, struct place at, uint64_t bytes)
{
    emit_pieces(sched, (struct step){.kind = STEP_FINISH, .to = at, .a = at}, bytes,
                sched->element_bytes);
}

void schedule_post(struct schedule *sched, enum mapped_word word, int64_t value)
{
    emit(sched, (struct step){.kind = STEP_POST, .word = (uint8_t)word, .bytes = (uint64_t)value});
}

void schedule_await(struct schedule *sched, int local_peer, enum mapped_word word, int64_t value)
{
    emit(sched, (struct step){.kind = STEP_AWAIT,
                              .word = (uint8_t)word,
                              .local_peer = local_peer,
                              .bytes = (uint64_t)value});
}

void schedule_await_all(struct schedule *sched, enum mapped_word word, int64_t value)
{
    emit(sched,
         (struct step){.kind = STEP_AWAIT_ALL, .word = (uint8_t)word, .bytes = (uint64_t)value});
}

void schedule_round(struct schedule *sched, uint64_t bytes)
{
    emit(sched, (struct step){.kind = STEP_ROUND, .bytes = bytes / sched->element_bytes});
}

void schedule_meet(struct schedule *sched, int local_peer)
{
    emit(sched, (struct step){.kind = STEP_MEET, .local_peer = local_peer});
}

void schedule_meet_all(struct schedule *sched)
{
    emit(sched, (struct step){.kind = STEP_MEET_ALL});
}
