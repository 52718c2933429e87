/* SPDX-License-Identifier: Apache-2.0 */
#include "conformance/sequence.h"

#include <stdio.h>
#include <stdlib.h>

#include "conformance/random.h"
#include "unit/reduce_reference.h"

enum {
    RANDOM_BYTES_LOG2 = 18, /* with the half above it: up to 384 KiB */
    REGISTERED_BYTES_MAX = 512 * 1024
};

const char *const sequence_memories[MEMORIES] = {"host memory", "pinned memory", "managed memory",
                                                 "a device's memory"};

void sequence_open(struct sequence *sequence, uint64_t seed, enum mode mode, int members,
                   unsigned members_mask)
{
    uint64_t state = seed + (uint64_t)members;
    size_t kept = 0;

    *sequence = (struct sequence){.seed = seed, .members = members, .mode = mode};
    sequence->count = mode == MODE_PAIRS
                          ? space_cover(seed, members_mask, &sequence->rows)
                          : space_product(members, mode == MODE_SMALL, &sequence->rows);
    for (size_t i = 0; i < sequence->count; i++)
        if (sequence->rows[i].level[FACTOR_MEMBERS] + 1 == members)
            sequence->rows[kept++] = sequence->rows[i];
    sequence->count = kept;
    for (size_t i = kept; i > 1; i--) {
        const size_t j = random_next(&state) % i;
        const struct row row = sequence->rows[i - 1];

        sequence->rows[i - 1] = sequence->rows[j];
        sequence->rows[j] = row;
    }
}

void sequence_close(struct sequence *sequence)
{
    free(sequence->rows);
}

static enum values draw_values(const struct conformance_call *call, uint64_t *state)
{
    if (!space_reduces(call->operation) || space_is_own(call->op_level) || random_below(state, 2) ||
        !(reference_is_float(call->dtype) || reference_is_complex(call->dtype)))
        return VALUES_EXACT;
    return call->op == TUTTI_MIN || call->op == TUTTI_MAX ? VALUES_SPECIAL : VALUES_ROUGH;
}

/* As many small as large ones, at any number of elements. */
static uint64_t draw_count(uint64_t *state, size_t element)
{
    const unsigned bits = random_below(state, RANDOM_BYTES_LOG2 + 1);
    const uint64_t bytes = (UINT64_C(1) << bits) + random_below(state, (1U << bits) / 2 + 1);

    return bytes / element;
}

struct conformance_call sequence_call(const struct sequence *sequence, uint64_t number)
{
    uint64_t state = random_mix(sequence->seed ^ random_mix(number + 1) ^
                                (uint64_t)sequence->members << 56 ^ (uint64_t)sequence->mode << 48);
    const bool listed = number < sequence->count;
    struct conformance_call call = {.number = number,
                                    .row = listed ? sequence->rows[number]
                                                  : space_random(&state, sequence->members)};
    const uint8_t *level = call.row.level;

    call.operation = level[FACTOR_OPERATION];
    call.dtype = level[FACTOR_DTYPE] == LEVEL_NONE ? TUTTI_U8 : space_dtypes[level[FACTOR_DTYPE]];
    call.element = tutti_dtype_size(call.dtype);
    call.op_level = level[FACTOR_OP];
    call.op = space_is_premul(call.op_level)  ? TUTTI_SUM
              : call.op_level < OP_PREMUL_ONE ? (tutti_reduce_op)call.op_level
                                              : -1;
    call.ordered = space_reduces(call.operation) &&
                   (sequence->reproducible || level[FACTOR_ORDER] == ORDER_FIXED);
    call.uneven = level[FACTOR_FORM] == FORM_UNEVEN;
    call.members = sequence->members;
    call.root = space_root(&call.row);
    if (level[FACTOR_SIZE] != LEVEL_NONE) {
        call.count = space_count(level[FACTOR_SIZE], call.element);
        if (!listed && random_below(&state, 2)) {
            call.count = draw_count(&state, call.element);
            call.row.level[FACTOR_SIZE] = LEVEL_NONE;
        }
    }
    /* All blocks together are as long as a vector would be. */
    if (space_takes_blocks(call.operation) || space_gives_blocks(call.operation))
        call.count /= (uint64_t)call.members;
    call.values = draw_values(&call, &state);
    call.mixed = !listed && random_below(&state, 2);
    call.devices = sequence->devices;
    call.key = call.whole_key = random_next(&state);
    return call;
}

/* None, as many as others have on average, fewer, more. What changes places in place is as long both
 * ways. */
uint64_t sequence_block(const struct conformance_call *call, int from, int to)
{
    const bool all_to_all = call->operation == OPERATION_ALL_TO_ALL;
    const bool same_ways = call->mixed || call->row.level[FACTOR_PLACE] == PLACE_SAME;
    uint64_t state = call->whole_key;

    if (!call->uneven)
        return call->count;
    if (all_to_all && same_ways && from > to)
        return sequence_block(call, to, from);
    if (space_gives_blocks(call->operation))
        state = random_mix(state + (uint64_t)from + 1);
    if (space_takes_blocks(call->operation))
        state = random_mix(state + (uint64_t)to + 1);
    const uint64_t part = random_next(&state) % (call->count + 1);
    const uint64_t counts[] = {0, call->count, part, call->count + part};

    return counts[random_below(&state, 4)];
}

bool sequence_is_on_devices(const struct conformance_call *call)
{
    return call->devices == DEVICES_ALIKE &&
           (random_mix(call->key ^ UINT64_C(0x616c696b65)) & 3) != 0;
}

/* Of all members' tensors, of nobody's, or of those that each chooses. Where there are devices, more often of
 * nobody's. */
static bool draw_registered(const struct conformance_call *call, int rank)
{
    uint64_t whole = random_mix(call->key ^ UINT64_C(0x6d656d6f7279)),
             state = whole + (uint64_t)rank + 1;

    if (call->count * call->element > REGISTERED_BYTES_MAX || (call->devices && whole & 1) ||
        sequence_is_on_devices(call))
        return false;
    switch (whole >> 62) {
    case 0:
        return false;
    case 1:
        return random_below(&state, 2);
    default:
        return true;
    }
}

/* A call orders all that it uses by one stream, and streams order nothing in host memory. So what messages use, and
 * what a member gives that has only one tensor which counts, is of one kind. */
static void draw_memory(const struct conformance_call *call, int rank, struct local_facts *facts)
{
    static const enum memory memories[] = {MEMORY_HOST,    MEMORY_HOST,   MEMORY_PINNED,
                                           MEMORY_MANAGED, MEMORY_DEVICE, MEMORY_DEVICE,
                                           MEMORY_DEVICE,  MEMORY_DEVICE};
    uint64_t state = random_mix(call->key ^ UINT64_C(0x646576696365)) + (uint64_t)rank + 1;
    /* Of these the first ones are the host's, the last ones a device's. */
    const unsigned first = sequence_is_on_devices(call) ? 3 : 0;
    const unsigned count = call->devices == DEVICES_ANY ? 8 : first ? 5 : 3;
    const bool is_one =
        space_is_message(call->operation) || (call->root >= 0 && call->root != rank);

    facts->in = memories[first + random_below(&state, count)];
    facts->out = is_one ? facts->in : memories[first + random_below(&state, count)];
}

struct local_facts sequence_local(const struct conformance_call *call, int rank)
{
    uint64_t state = random_mix(call->key + (uint64_t)rank + 1), of_all = random_mix(call->key);
    struct local_facts facts = {.way = call->row.level[FACTOR_WAY],
                                .other_place = call->row.level[FACTOR_PLACE] == PLACE_OTHER,
                                .by_offset = random_below(&state, 2),
                                .list = random_below(&state, 2),
                                .gaps = call->uneven && random_below(&state, 2)};
    unsigned align = call->row.level[FACTOR_ALIGN];

    if (call->mixed) {
        /* An engine that takes tensors on devices wants the same batches on all members. */
        facts.way = random_below(call->devices == DEVICES_ALIKE ? &of_all : &state, WAYS);
        facts.other_place = random_below(&state, 2);
        align = align == LEVEL_NONE ? align : random_below(&state, space_levels(FACTOR_ALIGN));
    }
    facts.offset = space_offset(align, call->element);
    facts.registered = draw_registered(call, rank);
    if (call->devices && !facts.registered)
        draw_memory(call, rank, &facts);
    return facts;
}

void sequence_words(const struct conformance_call *call, char *ret_words, size_t size)
{
    static const char *const values[] = {"exact", "rough", "special"};
    static const char *const ways[] = {"blocking", "asynchronous", "in a batch"};
    static const char *const made[] = {"premul_sum", "premul_sum by element", "own op",
                                       "own op that does not commute"};
    const uint8_t *level = call->row.level;

    snprintf(
        ret_words, size, "#%llu %s%s %llu x %s %s%s, %d members, root %d, %s%s, %s, %s values",
        (unsigned long long)call->number, space_operations[call->operation],
        call->uneven ? "_v" : "", (unsigned long long)call->count, tutti_dtype_name(call->dtype),
        call->op_level == LEVEL_NONE      ? "-"
        : call->op_level >= OP_PREMUL_ONE ? made[call->op_level - OP_PREMUL_ONE]
                                          : tutti_reduce_op_name(call->op),
        call->ordered ? " in the fixed order" : "", call->members, call->root,
        ways[level[FACTOR_WAY]], level[FACTOR_PLACE] == PLACE_OTHER ? ", from another place" : "",
        call->mixed ? "local facts mixed" : "the same everywhere", values[call->values]);
}
