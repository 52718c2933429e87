/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an algorithm.
 *
 * Where the backend has an engine that does the whole operation: the engine. Else, on one host with
 * mapped memory: the inline path, staging beyond. Several hosts of which one has mates with mapped
 * memory: the composition, where the operation has one and the model does not find messages
 * faster. Else: messages between all members. Inside each, the size decides by the thresholds that
 * the members agreed on. Of uneven blocks all members must know the sizes where they are handed on by
 * others: in all_gather and reduce_scatter they do, else such blocks go by messages, one by one. The
 * fixed order takes algorithms that reduce all members' operands at once.
 */
#include "dispatch/choose.h"

#include <tutti/tensor.h>

#include "dispatch/model.h"
#include "reduce/op.h"

const struct algorithm *const algorithms[ALGORITHMS] = {
    &all_reduce_inline_algorithm,
    &all_reduce_staged_algorithm,
    &all_reduce_staged_parts_algorithm,
    &all_reduce_composed_algorithm,
    &all_reduce_recursive_doubling_algorithm,
    &all_reduce_halving_doubling_algorithm,
    &all_reduce_ring_algorithm,
    &all_reduce_direct_algorithm,
    &all_reduce_alone_algorithm,
    &broadcast_inline_algorithm,
    &broadcast_mapped_algorithm,
    &broadcast_composed_algorithm,
    &broadcast_binomial_algorithm,
    &broadcast_scatter_all_gather_algorithm,
    &broadcast_alone_algorithm,
    &barrier_inline_algorithm,
    &barrier_composed_algorithm,
    &barrier_dissemination_algorithm,
    &barrier_alone_algorithm,
    &reduce_inline_algorithm,
    &reduce_staged_algorithm,
    &reduce_staged_parts_algorithm,
    &reduce_composed_algorithm,
    &reduce_binomial_algorithm,
    &reduce_parts_algorithm,
    &reduce_alone_algorithm,
    &all_gather_inline_algorithm,
    &all_gather_mapped_algorithm,
    &all_gather_composed_algorithm,
    &all_gather_bruck_algorithm,
    &all_gather_direct_algorithm,
    &all_gather_ring_algorithm,
    &all_gather_alone_algorithm,
    &gather_inline_algorithm,
    &gather_mapped_algorithm,
    &gather_composed_algorithm,
    &gather_binomial_algorithm,
    &gather_direct_algorithm,
    &gather_alone_algorithm,
    &scatter_inline_algorithm,
    &scatter_mapped_algorithm,
    &scatter_composed_algorithm,
    &scatter_binomial_algorithm,
    &scatter_direct_algorithm,
    &scatter_alone_algorithm,
    &reduce_scatter_inline_algorithm,
    &reduce_scatter_staged_algorithm,
    &reduce_scatter_composed_algorithm,
    &reduce_scatter_direct_algorithm,
    &reduce_scatter_alone_algorithm,
    &all_to_all_inline_algorithm,
    &all_to_all_mapped_algorithm,
    &all_to_all_composed_algorithm,
    &all_to_all_bruck_algorithm,
    &all_to_all_direct_algorithm,
    &all_to_all_alone_algorithm,
    &monitored_barrier_direct_algorithm,
    &monitored_barrier_alone_algorithm,
    &all_reduce_native_algorithm,
    &broadcast_native_algorithm,
    &barrier_native_algorithm,
    &reduce_native_algorithm,
    &all_gather_native_algorithm,
    &gather_native_algorithm,
    &scatter_native_algorithm,
    &reduce_scatter_native_algorithm,
    &all_to_all_native_algorithm,
};

/* ---- what the group can do ---- */

static bool mates_fit(const struct layout *layout)
{
    for (int host = 0; host < layout->hosts; host++)
        if (layout_mates(layout, host) > MAPPED_MATES_MAX)
            return false;
    return true;
}

static bool uses_memory(enum algorithm_kind kind)
{
    return kind == ALGORITHM_INLINE || kind == ALGORITHM_MAPPED || kind == ALGORITHM_COMPOSED;
}

const char *choose_obstacle(const struct group_facts *facts, enum algorithm_kind kind)
{
    const struct layout *layout = facts->layout;
    if (kind == ALGORITHM_ALONE)
        return layout->size == 1 ? NULL : "only for a group of one";
    if (layout->size == 1)
        return "the group has one member";
    if (kind == ALGORITHM_NATIVE)
        return facts->native ? NULL : "no backend of the group does whole operations";
    if (uses_memory(kind) && !facts->mapped)
        return "no provider maps memory between members";
    if (uses_memory(kind) && !mates_fit(layout))
        return "a host has more members than can share mapped memory";
    if (!uses_memory(kind) || kind == ALGORITHM_COMPOSED) {
        if (!facts->messages)
            return "no provider carries messages between all members";
    } else if (layout->hosts > 1) {
        return "members are on several hosts";
    }
    if (kind == ALGORITHM_COMPOSED && layout->hosts == 1)
        return "all members are on one host";
    if (kind == ALGORITHM_COMPOSED && layout->hosts == layout->size)
        return "no two members share a host";
    return NULL;
}

/* What an inline call shows in one line. */
static uint64_t payload_of(const struct layout *layout, uint8_t operation, uint64_t bytes)
{
    const bool blocks = operation_takes_blocks(operation);

    if (!operation_moves(operation))
        return 0;
    if (blocks && bytes > MAPPED_PAYLOAD_MAX)
        return bytes;
    return blocks ? bytes * (uint64_t)layout->size : bytes;
}

bool choose_reduces_in_turns(const struct algorithm *algorithm)
{
    return algorithm == &all_reduce_recursive_doubling_algorithm ||
           algorithm == &all_reduce_halving_doubling_algorithm ||
           algorithm == &all_reduce_ring_algorithm || algorithm == &reduce_binomial_algorithm ||
           (algorithm->kind == ALGORITHM_COMPOSED && operation_reduces(algorithm->operation));
}

/*
 * Whether no partial result may be rounded on its way: in the fixed order, and where the sum of an average
 * could leave the range of its dtype, so that the mean would lie outside its operands.
 */
static bool rounds_at_the_end(const struct call_words *words)
{
    return words->flags & CALL_ORDERED ||
           (words->op == TUTTI_AVG &&
            (words->dtype == TUTTI_F16 || words->dtype == TUTTI_F8E4M3FN ||
             words->dtype == TUTTI_F8E5M2));
}

static bool dtype_is_moved(uint32_t dtype)
{
    switch (dtype) {
#define CASE(NAME, name, code, bits) case TUTTI_##NAME:
        TUTTI_MOVED_DTYPE_LIST(CASE)
#undef CASE
        return true;
    default:
        return false;
    }
}

/* What every member answers alike: the words of the call, and what all know of the engine. */
static const char *native_objection(const struct group_facts *facts, const struct call_words *words)
{
    const struct native_facts *native = facts->native;
    const uint32_t element = words->dtype ? (uint32_t)tutti_dtype_size(words->dtype) : 1;
    const tutti_collective what = plan_describe(words, facts->layout->size, element);

    if (words->flags & CALL_ORDERED)
        return "engines have an order of their own, and the order is fixed";
    if (rounds_at_the_end(words))
        return "engines round on the way, where the sum may not fit";
    if (dtype_is_moved(words->dtype))
        return "engines do not know elements that are only moved";
    if (words->op >= REDUCE_OPS_MADE)
        return "engines do not know a reduction that was made at run time";
    if (operation_moves(words->operation) && !words->count && !(words->flags & CALL_UNEVEN))
        return "there is nothing to move";
    return native->ops->serves(native->host, native->host_self, &what) == 1
               ? NULL
               : "the engine leaves it to the core";
}

/* Whether blocks of several members travel in one message, so that each must know their sizes. */
static bool puts_together(const struct algorithm *algorithm)
{
    return algorithm == &gather_binomial_algorithm || algorithm == &scatter_binomial_algorithm ||
           algorithm == &all_gather_bruck_algorithm || algorithm == &all_to_all_bruck_algorithm;
}

const char *choose_objection(const struct group_facts *facts, const struct algorithm *algorithm,
                             const struct call_words *words, uint64_t bytes)
{
    const char *why = choose_obstacle(facts, algorithm->kind);

    if (why)
        return why;
    if (algorithm->kind == ALGORITHM_NATIVE)
        return native_objection(facts, words);
    if (words->flags & CALL_UNEVEN && uses_memory(algorithm->kind)) {
        if (!operation_shares_sizes(words->operation))
            return "only sender and receiver know how long a block is";
        if (algorithm->kind != ALGORITHM_COMPOSED)
            return "blocks of different sizes go by messages inside one host";
    }
    if (words->flags & CALL_UNEVEN && puts_together(algorithm))
        return "blocks of different sizes go one by one";
    if (rounds_at_the_end(words) && choose_reduces_in_turns(algorithm))
        return words->flags & CALL_ORDERED ? "rounds on the way, and the order is fixed"
                                           : "rounds on the way, where the sum may not fit";
    if (algorithm->kind == ALGORITHM_INLINE &&
        payload_of(facts->layout, words->operation, bytes) > MAPPED_PAYLOAD_MAX)
        return "too long for the announce line";
    return NULL;
}

/* NULL: engines have nothing of the kind. */
static const struct algorithm *native_of(uint8_t operation)
{
    for (int i = 0; i < ALGORITHMS; i++)
        if (algorithms[i]->kind == ALGORITHM_NATIVE && algorithms[i]->operation == operation)
            return algorithms[i];
    return NULL;
}

/* ---- the choice ---- */

const struct thresholds *choose_thresholds(const struct group_facts *facts)
{
    return facts->thresholds ? facts->thresholds : &thresholds_default;
}

/* The ways of one operation; NULL: it has none of the kind. */
struct ways {
    const struct algorithm *inlined, *mapped, *composed, *messages, *alone;
};

/* Those that do not depend on the size. */
static const struct ways ways_at_any_size[OPERATION_COUNT] = {
    [OPERATION_ALL_REDUCE] = {.inlined = &all_reduce_inline_algorithm,
                              .composed = &all_reduce_composed_algorithm,
                              .alone = &all_reduce_alone_algorithm},
    [OPERATION_BROADCAST] = {.inlined = &broadcast_inline_algorithm,
                             .mapped = &broadcast_mapped_algorithm,
                             .composed = &broadcast_composed_algorithm,
                             .alone = &broadcast_alone_algorithm},
    [OPERATION_BARRIER] = {.inlined = &barrier_inline_algorithm,
                           .composed = &barrier_composed_algorithm,
                           .alone = &barrier_alone_algorithm},
    [OPERATION_MONITORED_BARRIER] = {.alone = &monitored_barrier_alone_algorithm},
    [OPERATION_REDUCE] = {.inlined = &reduce_inline_algorithm,
                          .composed = &reduce_composed_algorithm,
                          .alone = &reduce_alone_algorithm},
    [OPERATION_ALL_GATHER] = {.inlined = &all_gather_inline_algorithm,
                              .mapped = &all_gather_mapped_algorithm,
                              .composed = &all_gather_composed_algorithm,
                              .alone = &all_gather_alone_algorithm},
    [OPERATION_GATHER] = {.inlined = &gather_inline_algorithm,
                          .mapped = &gather_mapped_algorithm,
                          .composed = &gather_composed_algorithm,
                          .alone = &gather_alone_algorithm},
    [OPERATION_SCATTER] = {.inlined = &scatter_inline_algorithm,
                           .mapped = &scatter_mapped_algorithm,
                           .composed = &scatter_composed_algorithm,
                           .alone = &scatter_alone_algorithm},
    [OPERATION_REDUCE_SCATTER] = {.inlined = &reduce_scatter_inline_algorithm,
                                  .mapped = &reduce_scatter_staged_algorithm,
                                  .composed = &reduce_scatter_composed_algorithm,
                                  .alone = &reduce_scatter_alone_algorithm},
    [OPERATION_ALL_TO_ALL] = {.inlined = &all_to_all_inline_algorithm,
                              .mapped = &all_to_all_mapped_algorithm,
                              .composed = &all_to_all_composed_algorithm,
                              .alone = &all_to_all_alone_algorithm},
};

static const struct algorithm *all_reduce_mapped(const struct thresholds *t, int size,
                                                 uint64_t bytes)
{
    return bytes <= t->one_phase_max / (uint64_t)size ? &all_reduce_staged_algorithm
                                                      : &all_reduce_staged_parts_algorithm;
}

/* The root of two reads the other's vector once in either way. */
static const struct algorithm *reduce_mapped(const struct thresholds *t, int size, uint64_t bytes)
{
    return size <= 2 || bytes <= t->one_phase_max / (uint64_t)size ? &reduce_staged_algorithm
                                                                   : &reduce_staged_parts_algorithm;
}

static const struct algorithm *all_reduce_messages(const struct thresholds *t, int size,
                                                   uint64_t bytes, bool ordered)
{
    if (!bytes)
        return &barrier_dissemination_algorithm;
    return ordered ? &all_reduce_direct_algorithm : all_reduce_by_messages(t, size, bytes);
}

static const struct algorithm *messages_of(const struct thresholds *t, int size,
                                           const struct call_words *words, uint64_t bytes)
{
    const bool ordered = rounds_at_the_end(words), uneven = words->flags & CALL_UNEVEN;

    switch (words->operation) {
    case OPERATION_ALL_REDUCE:
        return all_reduce_messages(t, size, bytes, ordered);
    case OPERATION_BROADCAST:
        return broadcast_by_messages(t, size, bytes);
    case OPERATION_BARRIER:
        return &barrier_dissemination_algorithm;
    case OPERATION_MONITORED_BARRIER:
        return &monitored_barrier_direct_algorithm;
    case OPERATION_REDUCE:
        return ordered ? &reduce_parts_algorithm : reduce_by_messages(t, size, bytes);
    case OPERATION_ALL_GATHER:
        return uneven && bytes < t->direct_below ? &all_gather_direct_algorithm
                                                 : all_gather_by_messages(t, size, bytes);
    case OPERATION_GATHER:
        return uneven ? &gather_direct_algorithm : gather_by_messages(t, size, bytes);
    case OPERATION_SCATTER:
        return uneven ? &scatter_direct_algorithm : scatter_by_messages(t, size, bytes);
    case OPERATION_REDUCE_SCATTER:
        return &reduce_scatter_direct_algorithm;
    case OPERATION_ALL_TO_ALL:
        return uneven ? &all_to_all_direct_algorithm : all_to_all_by_messages(t, size, bytes);
    default:
        return NULL;
    }
}

/* Members on several hosts meet also where there is nothing to move. */
static const struct algorithm *composed_of(uint8_t operation, uint64_t bytes)
{
    const struct algorithm *composed = ways_at_any_size[operation].composed;

    return bytes || !composed || operation == OPERATION_BROADCAST ? composed
                                                                  : &barrier_composed_algorithm;
}

static struct ways ways_of(const struct thresholds *t, int size, const struct call_words *words,
                           uint64_t bytes)
{
    if (words->operation >= OPERATION_COUNT)
        return (struct ways){0};

    struct ways ways = ways_at_any_size[words->operation];

    ways.composed = composed_of(words->operation, bytes);
    ways.messages = messages_of(t, size, words, bytes);
    if (words->operation == OPERATION_ALL_REDUCE)
        ways.mapped = all_reduce_mapped(t, size, bytes);
    if (words->operation == OPERATION_REDUCE)
        ways.mapped = reduce_mapped(t, size, bytes);
    return ways;
}

const struct algorithm *choose_algorithm(const struct group_facts *facts,
                                         const struct call_words *words, uint64_t bytes)
{
    const struct thresholds *t = choose_thresholds(facts);
    const int size = facts->layout->size;
    const struct ways ways = ways_of(t, size, words, bytes);
    /* The words of uneven blocks tell their sum; the model takes the mean. */
    const uint64_t moved = words->flags & CALL_UNEVEN ? bytes / (uint64_t)size : bytes;
    const struct algorithm *in_order[] = {ways.alone, native_of(words->operation), ways.inlined,
                                          ways.mapped, ways.composed};

    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        const bool longer = in_order[i] && in_order[i]->kind == ALGORITHM_INLINE &&
                            payload_of(facts->layout, words->operation, bytes) > t->inline_max;

        if (in_order[i] && !longer && !choose_objection(facts, in_order[i], words, bytes) &&
            !(in_order[i]->kind == ALGORITHM_COMPOSED && bytes &&
              model_finds_slower(facts, in_order[i], ways.messages, moved)))
            return in_order[i];
    }
    return ways.messages;
}
