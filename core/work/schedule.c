/* SPDX-License-Identifier: Apache-2.0 */
/* The builder of schedules. Every array grows by doubling and is kept for the next schedule. */
#include "work/schedule.h"

#include <stdlib.h>

enum { PIECE_BYTES = 1 << 20, SCRATCH_ALIGN = 64, FIRST_CAPACITY = 64 };

void schedule_free(struct schedule *sched)
{
    free(sched->steps);
    free(sched->free_tickets);
    free(sched->table);
    *sched = (struct schedule){0};
}

void schedule_begin(struct schedule *sched, int rank, int size, int mates, int self,
                    uint32_t element_bytes)
{
    *sched = (struct schedule){.rank = rank,
                               .size = size,
                               .mates = mates,
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

/* Makes room for `needed` items; false, and the schedule has failed, when there is no memory. */
static bool grow(struct schedule *sched, void **items, uint32_t *capacity, uint32_t needed,
                 size_t item_bytes)
{
    uint32_t wanted = *capacity ? *capacity : FIRST_CAPACITY;
    void *larger;

    if (needed <= *capacity)
        return true;
    while (wanted < needed && wanted <= UINT32_MAX / 2)
        wanted *= 2;
    larger = wanted < needed ? NULL : realloc(*items, wanted * item_bytes);
    if (!larger) {
        sched->status = TUTTI_ERR_NO_MEMORY;
        return false;
    }
    *items = larger;
    *capacity = wanted;
    return true;
}

int *schedule_table(struct schedule *sched, uint32_t count)
{
    void *table = sched->table;

    if (!grow(sched, &table, &sched->table_capacity, count, sizeof *sched->table))
        return NULL;
    sched->table = table;
    return sched->table;
}

struct place schedule_scratch(struct schedule *sched, uint64_t bytes)
{
    struct place place = {.kind = PLACE_SCRATCH, .offset = sched->scratch_used};

    sched->scratch_used += (bytes + SCRATCH_ALIGN - 1) / SCRATCH_ALIGN * SCRATCH_ALIGN;
    if (sched->scratch_used > sched->scratch_bytes)
        sched->scratch_bytes = sched->scratch_used;
    return place;
}

void schedule_scratch_release(struct schedule *sched, uint64_t mark)
{
    sched->scratch_used = mark;
}

uint32_t schedule_chunks(struct schedule *sched, uint32_t count)
{
    uint32_t first = sched->chunks;

    sched->chunks += count;
    return first;
}

tutti_status schedule_status(const struct schedule *sched)
{
    return sched->status;
}

static void emit(struct schedule *sched, struct step step)
{
    void *steps = sched->steps;

    if (!grow(sched, &steps, &sched->capacity, sched->count + 1, sizeof step))
        return;
    sched->steps = steps;
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
    void *tickets = sched->free_tickets;

    emit(sched, (struct step){.kind = STEP_FENCE_TICKET, .ticket = ticket});
    if (!grow(sched, &tickets, &sched->free_capacity, sched->free_count + 1,
              sizeof *sched->free_tickets))
        return;
    sched->free_tickets = tickets;
    sched->free_tickets[sched->free_count++] = ticket;
}

static uint64_t piece(uint64_t bytes, uint64_t done)
{
    return bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
}

static bool same_place(struct place a, struct place b)
{
    return a.kind == b.kind && a.mate == b.mate && a.chunk == b.chunk && a.offset == b.offset;
}

void schedule_copy(struct schedule *sched, struct place to, struct place from, uint64_t bytes)
{
    if (same_place(to, from))
        return;
    for (uint64_t done = 0, now; done < bytes; done += now) {
        now = piece(bytes, done);
        emit(sched, (struct step){.kind = STEP_COPY,
                                  .bytes = now,
                                  .to = place_after(to, done),
                                  .a = place_after(from, done)});
    }
}

void schedule_reduce(struct schedule *sched, struct place to, struct place a, struct place b,
                     uint64_t bytes)
{
    for (uint64_t done = 0, now; done < bytes; done += now) {
        now = piece(bytes, done);
        emit(sched, (struct step){.kind = STEP_REDUCE,
                                  .bytes = now / sched->element_bytes,
                                  .to = place_after(to, done),
                                  .a = place_after(a, done),
                                  .b = place_after(b, done)});
    }
}

void schedule_reduce_mates(struct schedule *sched, struct place to, struct place own,
                           uint32_t chunk, uint32_t before, uint32_t after, uint64_t bytes)
{
    if (bytes)
        emit(sched, (struct step){.kind = STEP_REDUCE_MATES,
                                  .peer = (int32_t)before,
                                  .bytes = bytes / sched->element_bytes,
                                  .to = to,
                                  .a = own,
                                  .b = place_staged_in(sched->self, chunk, after)});
}

void schedule_reduce_all(struct schedule *sched, struct place to, struct place own,
                         struct place scratch, uint32_t each, uint64_t bytes)
{
    scratch.chunk = each;
    scratch.mate = (uint16_t)sched->size;
    if ((uint32_t)sched->size > sched->vectors)
        sched->vectors = (uint32_t)sched->size;
    if (bytes)
        emit(sched, (struct step){.kind = STEP_REDUCE_ALL,
                                  .peer = sched->rank,
                                  .bytes = bytes / sched->element_bytes,
                                  .to = to,
                                  .a = own,
                                  .b = scratch});
}

void schedule_finish(struct schedule *sched, struct place at, uint64_t bytes)
{
    for (uint64_t done = 0, now; done < bytes; done += now) {
        now = piece(bytes, done);
        emit(sched, (struct step){.kind = STEP_FINISH,
                                  .bytes = now / sched->element_bytes,
                                  .to = place_after(at, done)});
    }
}

void schedule_post(struct schedule *sched, enum mapped_word word, int64_t value)
{
    emit(sched, (struct step){.kind = STEP_POST, .word = (uint8_t)word, .bytes = (uint64_t)value});
}

void schedule_await(struct schedule *sched, int mate, enum mapped_word word, int64_t value)
{
    emit(sched,
         (struct step){
             .kind = STEP_AWAIT, .word = (uint8_t)word, .peer = mate, .bytes = (uint64_t)value});
}

void schedule_await_all(struct schedule *sched, enum mapped_word word, int64_t value)
{
    emit(sched,
         (struct step){.kind = STEP_AWAIT_ALL, .word = (uint8_t)word, .bytes = (uint64_t)value});
}

void schedule_meet(struct schedule *sched, int mate)
{
    emit(sched, (struct step){.kind = STEP_MEET, .peer = mate});
}

void schedule_meet_all(struct schedule *sched)
{
    emit(sched, (struct step){.kind = STEP_MEET_ALL});
}
