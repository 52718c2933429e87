/* SPDX-License-Identifier: Apache-2.0 */
/* Announce lines: writing one's own, meeting those of the local peers. The rules are in the header. */
#include "schedule/mapped.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/without.h"
#include "reduce/reduce.h"
#include "schedule/mapped_memory.h"

enum { FLAG_BITS = 16, FLAG_REFERENCES = 1 };

_Static_assert(sizeof(struct mapped_references) <= MAPPED_LINE_PAYLOAD, "they fit in the line");

tutti_status mapped_init(struct mapped *mapped, int local_size, int self, void *const *areas,
                         const int *ranks)
{
    if (local_size < 1 || local_size > MAPPED_LOCAL_MAX || self < 0 || self >= local_size)
        return TUTTI_ERR_INVALID_ARGUMENT;

    const size_t n = (size_t)local_size;
    void *memory = calloc(n, sizeof *mapped->areas + sizeof *mapped->vectors +
                                 sizeof *mapped->seen + sizeof *mapped->places +
                                 sizeof *mapped->reads.processes + sizeof *mapped->ranks);
    if (!memory)
        return TUTTI_ERR_NO_MEMORY;
    *mapped = (struct mapped){.local_size = local_size, .self = self, .culprit = -1};
    mapped->few_pages = MAPPED_FEW_PAGES;
    mapped->uncached = UINT64_MAX;
    mapped->copy.window_bytes = MAPPED_WINDOW_PAGES * MAPPED_PAGE;
    mapped->copy_out.window_bytes = MAPPED_WINDOW_PAGES * MAPPED_PAGE;
    mapped->copy_few = mapped->copy_line =
        (tutti_copy){.wins_by = MAPPED_FEW_BYTES_WINS_BY, .judged_after = MAPPED_FEW_BYTES_SAMPLES};
    mapped->copy_few.window_bytes = MAPPED_WINDOW_PAGES * MAPPED_PAGE;
    mapped->copy_swapped = mapped->copy;
    mapped->copy_swapped_few = mapped->copy_few;
    mapped->copy_line.window_bytes = MAPPED_LINES * MAPPED_PAYLOAD_MAX;
    mapped->areas = memory;
    mapped->vectors = (const void **)(mapped->areas + n);
    mapped->seen = (uint64_t *)(mapped->vectors + n);
    mapped->places = (struct mapped_places *)(mapped->seen + n);
    mapped->reads.processes = (int *)(mapped->places + n);
    mapped->ranks = memcpy(mapped->reads.processes + n, ranks, n * sizeof *ranks);
    for (int i = 0; i < local_size; i++)
        mapped->areas[i] = areas[i];
    return TUTTI_OK;
}

void mapped_tell_l2(struct mapped *mapped, uint64_t bytes)
{
    atomic_store_explicit(&mapped->areas[mapped->self]->l2.value, bytes, memory_order_release);
}

void mapped_tell_session(struct mapped *mapped, uint64_t session)
{
    atomic_store_explicit(&mapped->areas[mapped->self]->session.value, session,
                          memory_order_release);
}

/* Sessions of two PID namespaces may have the same number: that costs time alone. */
static bool are_in_one_session(const struct mapped *mapped)
{
    const uint64_t first =
        atomic_load_explicit(&mapped->areas[0]->session.value, memory_order_acquire);
    bool one = true;

    for (int i = 1; one && i < mapped->local_size; i++)
        one = atomic_load_explicit(&mapped->areas[i]->session.value, memory_order_acquire) == first;
    return one;
}

void mapped_tell_l3(struct mapped *mapped, uint64_t bytes)
{
    mapped->uncached = bytes;
}

void mapped_fit_cpus(struct mapped *mapped, bool crowded)
{
    const uint64_t l2 = atomic_load_explicit(&mapped->areas[0]->l2.value, memory_order_acquire);

    mapped->copy.wins_by = mapped->copy_out.wins_by = mapped->copy_swapped.wins_by =
        crowded ? (uint16_t)TUTTI_COPY_WINS_BY : 0;
    mapped->one_session = are_in_one_session(mapped);
    mapped->few_pages = l2 && l2 < MAPPED_L2_MIN ? MAPPED_FEW_OF_SMALL : MAPPED_FEW_PAGES;
}

void mapped_free(struct mapped *mapped)
{
    free(mapped->areas); /* and the other arrays behind it */
    free(mapped->memories);
    *mapped = (struct mapped){.culprit = -1};
}

static tutti_status blame(struct mapped *mapped, tutti_status status, int index, uint64_t turn,
                          uint64_t signature)
{
    mapped->culprit = index;
    mapped->culprit_sequence = mapped->sequence + (turn - mapped->announced);
    mapped->culprit_signature = signature;
    return status;
}

/*
 * Whether local peer `index` has announced `turn`. A line is read only in the place of my own last call,
 * whose next owner, turn + 4, is written only once I have announced turn + 1. An older one
 * may be overwritten while it is looked at; that it was there is all that is known then, and the
 * chained signature brings the rest.
 */
static tutti_status look(struct mapped *mapped, int index, uint64_t turn)
{
    const struct mapped_line *line = mapped_line_of(mapped, index, turn);
    uint64_t found = atomic_load_explicit(&line->word, memory_order_acquire) >> FLAG_BITS;

    if (found < turn)
        return TUTTI_ERR_NOT_READY;
    if (turn == mapped->announced) {
        const uint64_t signature = line->signature;

        if (found > turn)
            return blame(mapped, TUTTI_ERR_INTERNAL, index, found, signature);
        if (!WITHOUT_MISMATCH && signature != mapped->signature)
            return blame(mapped, TUTTI_ERR_MISMATCH, index, turn, signature);
    }
    mapped->seen[index] = turn;
    return TUTTI_OK;
}

/* Looks at the newest line first: one sight then serves for several calls. */
static tutti_status find_room(struct mapped *mapped, uint64_t turn)
{
    const uint64_t oldest = turn - (MAPPED_LINES - 1);
    uint64_t lowest = turn;

    for (int i = 0; i < mapped->local_size; i++) {
        tutti_status status = TUTTI_OK;

        if (i == mapped->self)
            continue;
        for (uint64_t s = turn - 1; mapped->seen[i] < oldest; s--) {
            status = look(mapped, i, s);
            if (status != TUTTI_ERR_NOT_READY || s == oldest)
                break;
        }
        if (status == TUTTI_ERR_NOT_READY)
            mapped->culprit = i;
        if (status)
            return status;
        if (mapped->seen[i] < lowest)
            lowest = mapped->seen[i];
    }
    mapped->seen_all = lowest;
    return TUTTI_OK;
}

/* With glibc's memcpy() calls of 4 KiB take a tenth longer. */
void mapped_copy(tutti_copy *copy, void *to, const void *from, size_t bytes)
{
    const uint64_t begin = tutti_copy_is_timed(copy) ? tutti_copy_ticks() : 0;
    const tutti_copy_turn turn = tutti_copy_begin_at(copy, begin);

    if (turn.streams)
        tutti_copy_stream(to, from, bytes);
    else
        reduce_copy(to, from, bytes);
    tutti_copy_end(copy, turn, bytes);
}

static inline void copy_payload(tutti_copy *copy, unsigned char *to, const unsigned char *from,
                                size_t bytes)
{
    if (bytes >= MAPPED_FEW_BYTES)
        mapped_copy(copy, to, from, bytes);
    else
        tutti_copy_plain(to, from, bytes);
}

static tutti_status announce_line(struct mapped *mapped, const struct announce *announce,
                                  const void *payload, size_t bytes, uint64_t flags)
{
    const uint64_t turn = mapped->announced + 1;
    struct mapped_area *area = mapped->areas[mapped->self];
    struct mapped_line *line = &area->lines[turn % MAPPED_LINES];

    if (turn >= MAPPED_LINES && mapped->seen_all + MAPPED_LINES - 1 < turn) {
        tutti_status status = find_room(mapped, turn);

        if (status)
            return status;
    }
    if (!WITHOUT_MISMATCH)
        area->records[announce->sequence % MAPPED_RECORDS].announce = *announce;
    if (bytes)
        copy_payload(&mapped->copy_line, mapped_payload(line, bytes), payload, bytes);
    /* Together with the word: local peers that wait for it take the line back during the copy. */
    if (!WITHOUT_MISMATCH)
        line->signature = announce->signature;
    mapped->signature = announce->signature;
    mapped->announced = turn;
    mapped->sequence = announce->sequence;
    atomic_store_explicit(&line->word, turn << FLAG_BITS | flags, memory_order_release);
    return TUTTI_OK;
}

tutti_status mapped_announce(struct mapped *mapped, const struct announce *announce,
                             const void *payload, size_t bytes)
{
    return announce_line(mapped, announce, payload, bytes, 0);
}

tutti_status mapped_announce_references(struct mapped *mapped, const struct announce *announce,
                                        const struct mapped_references *references)
{
    return announce_line(mapped, announce, references, sizeof *references, FLAG_REFERENCES);
}

/* ---- registered memory ---- */

bool mapped_shows_references(const struct mapped *mapped, int index)
{
    const struct mapped_line *line = mapped_line(mapped, index);

    return atomic_load_explicit(&line->word, memory_order_relaxed) & FLAG_REFERENCES;
}

tutti_status mapped_place(const struct mapped *mapped, int index, uint32_t number, uint64_t offset,
                          uint64_t bytes, unsigned char **ret_place)
{
    const struct mapped_memory *memory =
        mapped->memories ? &mapped->memories[number % MAPPED_MEMORIES] : NULL;

    if (!memory || !number || memory->number != number)
        return TUTTI_ERR_NOT_READY;
    if (offset > memory->bytes[index] || bytes > memory->bytes[index] - offset)
        return TUTTI_ERR_INTERNAL;
    *ret_place = memory->bases[index] + offset;
    return TUTTI_OK;
}

/* INTERNAL, without words: it is not inside the memory of that number, or an address that may not be shown. */
static tutti_status resolve(struct mapped *mapped, int index,
                            const struct mapped_reference *reference, uint64_t reach, bool in_place,
                            unsigned char **ret_place, bool *ret_own)
{
    uint64_t offset = reference->offset, skipped = 0;

    *ret_place = NULL;
    *ret_own = reference->memory == MAPPED_OWN_MEMORY;
    if (reference->shape == SHAPE_TABLE) {
        const struct mapped_block block = mapped->areas[index]->blocks[mapped->self];

        offset = block.offset;
        if (index != mapped->self && block.bytes != reach)
            return error_set(TUTTI_ERR_MISMATCH,
                             "the block of rank %d for this rank has %llu bytes, and this rank "
                             "expects %llu",
                             mapped->ranks[index], (unsigned long long)block.bytes,
                             (unsigned long long)reach);
    } else if (reference->shape == SHAPE_ROW &&
               __builtin_mul_overflow((uint64_t)mapped->self, reference->stride, &skipped)) {
        return TUTTI_ERR_INTERNAL;
    }
    if (!reach)
        return TUTTI_OK;
    if (__builtin_add_overflow(offset, skipped, &offset))
        return TUTTI_ERR_INTERNAL;
    if (*ret_own) {
        *ret_place = (unsigned char *)(uintptr_t)offset; /* NOLINT: of the peer's process */
        return !in_place && peer_reads_work(mapped) ? TUTTI_OK : TUTTI_ERR_INTERNAL;
    }
    return mapped_place(mapped, index, reference->memory, offset, reach, ret_place)
               ? TUTTI_ERR_INTERNAL
               : TUTTI_OK;
}

tutti_status mapped_resolve(struct mapped *mapped, int index, const struct mapped_references *shown,
                            const struct mapped_reach *reach)
{
    const struct mapped_line *line = mapped_line(mapped, index);
    struct mapped_places *places = &mapped->places[index];
    struct mapped_references references;

    if (shown)
        references = *shown;
    else
        memcpy(&references, line->payload, sizeof references);
    tutti_status status = resolve(mapped, index, &references.in, reach->in, reach->in_place,
                                  &places->in, &places->own_in);
    if (!status)
        status = resolve(mapped, index, &references.out, reach->out, reach->in_place, &places->out,
                         &places->own_out);
    return status == TUTTI_ERR_INTERNAL
               ? blame(mapped, status, index, mapped->announced, line->signature)
               : status;
}

/* ---- meeting ---- */

tutti_status mapped_meet(struct mapped *mapped, int index)
{
    if (index == mapped->self || mapped->seen[index] == mapped->announced)
        return TUTTI_OK;
    return look(mapped, index, mapped->announced);
}

tutti_status mapped_meet_all(struct mapped *mapped)
{
    for (int i = 0; i < mapped->local_size; i++) {
        tutti_status status = mapped_meet(mapped, i);

        if (status == TUTTI_ERR_NOT_READY)
            mapped->culprit = i;
        if (status)
            return status;
    }
    mapped->seen_all = mapped->announced;
    return TUTTI_OK;
}

/* Whether the line of `turn` is there, or of a later one in its place. */
static bool has_announced(const struct mapped *mapped, int index, uint64_t turn)
{
    const struct mapped_line *line = mapped_line_of(mapped, index, turn);

    return atomic_load_explicit(&line->word, memory_order_acquire) >> FLAG_BITS >= turn;
}

bool mapped_has_called(const struct mapped *mapped, int index)
{
    return index == mapped->self || has_announced(mapped, index, mapped->announced);
}

bool mapped_has_passed(const struct mapped *mapped, int index)
{
    return has_announced(mapped, index, mapped->announced + 1);
}

bool mapped_record(const struct mapped *mapped, int index, uint64_t sequence,
                   struct announce *ret_announce)
{
    *ret_announce = mapped->areas[index]->records[sequence % MAPPED_RECORDS].announce;
    return sequence && ret_announce->sequence == sequence;
}
