/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The choice of an algorithm.
 *
 * Where the backend has an engine that does the whole operation: the engine. Else, on one host with
 * mapped memory: the inline path, staging beyond. Several hosts of which one has local peers with mapped
 * memory: the composition, where the operation has one and the model does not find messages
 * faster. Else: messages between all members. Inside each, the first row of algorithms.h that fits
 * the number of members and the size. Of uneven blocks all members must know the sizes where they
 * are handed on by others: in all_gather and reduce_scatter they do, else such blocks go by
 * messages, one by one. The fixed order takes algorithms that reduce all members' operands at once.
 * Algorithms in rounds are taken where the members of the host outnumber its CPUs. Where an engine takes tensors on
 * devices and does not reduce as the call wants, kernels of the device do, between operations of the engine, at any size.
 */
#include "dispatch/dispatch.h"

#include <tutti/tensor.h>

#include "reduce/op.h"

static bool uses_memory(enum algorithm_kind kind)
{
    return kind == ALGORITHM_INLINE || kind == ALGORITHM_MAPPED || kind == ALGORITHM_COMPOSED ||
           kind == ALGORITHM_REGISTERED;
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
    if (kind == ALGORITHM_KERNELS)
        return facts->native && facts->native->device_type
                   ? NULL
                   : "no engine of the group takes tensors on devices";
    if (uses_memory(kind) && !facts->mapped)
        return "no provider maps memory between members";
    if (uses_memory(kind) && layout_fullest(layout) > MAPPED_LOCAL_MAX)
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

/* The bytes that an inline call shows in one line. */
static uint64_t payload_of(const struct layout *layout, uint8_t operation, uint64_t bytes)
{
    const bool blocks = operation_takes_blocks(operation);

    if (!operation_moves(operation))
        return 0;
    if (blocks && bytes > MAPPED_PAYLOAD_MAX)
        return bytes;
    return blocks ? bytes * (uint64_t)layout->size : bytes;
}

/*
 * Whether no partial result may be rounded on its way: in the fixed order, and where the sum of an average
 * could leave the range of its dtype, so that the mean would lie outside its operands.
 */
static bool rounds_at_the_end(const struct call_fields *fields)
{
    return fields->flags & CALL_ORDERED ||
           (fields->op == TUTTI_AVG &&
            (fields->dtype == TUTTI_F16 || fields->dtype == TUTTI_F8E4M3FN ||
             fields->dtype == TUTTI_F8E5M2));
}

/* The reason why the engine does not take the call; NULL: none. All members find the same one, by
 * the call's fields and facts that all know. */
static const char *native_objection(const struct group_facts *facts,
                                    const struct call_fields *fields)
{
    const struct native_facts *native = facts->native;
    const uint32_t element = fields->dtype ? (uint32_t)tutti_dtype_size(fields->dtype) : 1;
    tutti_collective what = plan_describe(fields, facts->layout->size, element);

    what.device_type = native->device_type;
    if (native->device_type && !(fields->flags & CALL_DIRECT))
        return "the tensors of the call are not on the devices of the engine, or it leaves them to "
               "the core";
    if (fields->flags & CALL_ORDERED)
        return "engines use their own order, and the call asks for the fixed order";
    if (rounds_at_the_end(fields))
        return "engines round intermediate sums, which may overflow";
    if (fields->dtype && !tutti_reduce_op_meaning(TUTTI_SUM, fields->dtype))
        return "engines do not support elements that are only moved (TUTTI_BITS8 to TUTTI_BITS128)";
    if (fields->op >= REDUCE_OPS_MADE)
        return "engines do not support operations made by tutti_reduce_op_create()";
    if (operation_moves(fields->operation) && !fields->count && !(fields->flags & CALL_UNEVEN))
        return "there is nothing to move";
    return native->ops->serves(native->host, native->host_self, &what) == 1
               ? NULL
               : "the engine leaves it to the core";
}

/* Whether the engine carries another operation for such a call, with elements that are only moved. */
static bool moves_by(const struct native_facts *native, tutti_collective what, uint32_t operation,
                     uint32_t flags)
{
    what.operation = operation;
    what.flags = flags;
    what.op = -1;
    return native->ops->serves(native->host, native->host_self, &what) == 1;
}

/* The same for kernels of the device, between the engine's operations. */
static const char *kernels_objection(const struct group_facts *facts,
                                     const struct call_fields *fields)
{
    const struct native_facts *native = facts->native;
    const bool scatters = fields->operation == OPERATION_REDUCE_SCATTER;
    const uint32_t hands_out = fields->operation == OPERATION_REDUCE ? TUTTI_COLLECTIVE_GATHER
                                                                     : TUTTI_COLLECTIVE_ALL_GATHER;
    tutti_collective what =
        plan_describe(fields, facts->layout->size, (uint32_t)tutti_dtype_size(fields->dtype));

    what.device_type = native->device_type;
    if (!(fields->flags & CALL_DIRECT))
        return "the tensors of the call are not on the devices of the engine, or it leaves them to "
               "the core";
    if (fields->op > TUTTI_PREMUL_SUM || !tutti_reduce_op_meaning(fields->op, fields->dtype))
        return "devices have no kernel of the operation";
    if (!fields->count && !(fields->flags & CALL_UNEVEN))
        return "there is nothing to move";
    for (uint32_t flags = 0; flags <= TUTTI_COLLECTIVE_UNEVEN; flags += TUTTI_COLLECTIVE_UNEVEN)
        if (!moves_by(native, what, TUTTI_COLLECTIVE_ALL_TO_ALL, flags) ||
            (!scatters && !moves_by(native, what, hands_out, flags)))
            return "the engine does not move the elements";
    return NULL;
}

/* Whether blocks of one size and of several pass, of calls that differ from this one in nothing else. */
static bool passes(const struct group_facts *facts, const struct call_fields *fields,
                   const char *(*objection)(const struct group_facts *facts,
                                            const struct call_fields *fields))
{
    struct call_fields even = *fields, uneven;

    even.count = 1;
    even.flags = (uint8_t)((fields->flags | CALL_DIRECT) & ~CALL_UNEVEN);
    uneven = even;
    uneven.flags |= CALL_UNEVEN;
    return !objection(facts, &even) && !objection(facts, &uneven);
}

enum device_way choose_device_way(const struct group_facts *facts, const struct call_fields *fields)
{
    if (!facts->native || !facts->native->device_type)
        return DEVICE_WAY_STAGED;
    if (passes(facts, fields, native_objection))
        return DEVICE_WAY_NATIVE;
    return operation_reduces(fields->operation) && passes(facts, fields, kernels_objection)
               ? DEVICE_WAY_KERNELS
               : DEVICE_WAY_STAGED;
}

const char *choose_objection(const struct group_facts *facts, const struct algorithm *algorithm,
                             const struct call_fields *fields, uint64_t bytes)
{
    const char *why = choose_obstacle(facts, algorithm->kind);

    if (why)
        return why;
    if (algorithm->kind == ALGORITHM_NATIVE)
        return native_objection(facts, fields);
    if (algorithm->kind == ALGORITHM_KERNELS)
        return kernels_objection(facts, fields);
    if (fields->flags & CALL_UNEVEN && uses_memory(algorithm->kind)) {
        if (!operation_shares_sizes(fields->operation) && algorithm->kind != ALGORITHM_REGISTERED)
            return "only sender and receiver know how long a block is";
        if (algorithm->kind == ALGORITHM_INLINE || algorithm->kind == ALGORITHM_MAPPED)
            return "blocks of different sizes go by messages inside one host";
    }
    if (!facts->layout->thresholds->crowded && algorithm->flags & ALGORITHM_SHARES_CPUS)
        return "only where the ranks of the host outnumber its CPUs";
    if (fields->flags & CALL_UNEVEN && algorithm->flags & ALGORITHM_NEEDS_EQUAL_BLOCKS)
        return "blocks of different sizes go one by one";
    if (rounds_at_the_end(fields) && algorithm->flags & ALGORITHM_ROUNDS_ON_THE_WAY)
        return fields->flags & CALL_ORDERED
                   ? "rounds intermediate sums, and the call asks for the fixed order"
                   : "rounds intermediate sums, which may overflow";
    if (algorithm->kind == ALGORITHM_INLINE &&
        payload_of(facts->layout, fields->operation, bytes) >
            facts->layout->thresholds->bytes[thresholds_inline(
                facts->layout->thresholds, fields->operation, facts->layout->size)])
        return "too long for the announce line";
    return NULL;
}

/* The operation to plan for. If there is nothing to move, members on several hosts meet in a
 * barrier, except for a broadcast; so do those of an all_reduce over messages. */
static uint8_t operation_of(const struct call_fields *fields, enum algorithm_kind kind,
                            uint64_t bytes)
{
    const uint8_t operation = fields->operation;
    const bool meets = kind == ALGORITHM_COMPOSED
                           ? operation_reduces(operation) || operation_has_blocks(operation)
                           : kind == ALGORITHM_MESSAGES && operation == OPERATION_ALL_REDUCE;

    return meets && !bytes ? OPERATION_BARRIER : operation;
}

/* NULL: the operation has none of the kind for such a call. */
static const struct algorithm *way_of(const struct group_facts *facts,
                                      const struct call_fields *fields, enum algorithm_kind kind,
                                      uint64_t bytes)
{
    const uint32_t without = (facts->layout->thresholds->crowded ? 0 : ALGORITHM_SHARES_CPUS) |
                             (rounds_at_the_end(fields) ? ALGORITHM_ROUNDS_ON_THE_WAY : 0) |
                             (fields->flags & CALL_UNEVEN ? ALGORITHM_NEEDS_EQUAL_BLOCKS : 0);

    return algorithm_find(facts->layout->thresholds, operation_of(fields, kind, bytes), kind,
                          facts->layout->size, bytes, without);
}

const struct algorithm *choose_algorithm(const struct group_facts *facts,
                                         const struct call_fields *fields, uint64_t bytes)
{
    static const enum algorithm_kind in_order[] = {
        ALGORITHM_ALONE, ALGORITHM_NATIVE, ALGORITHM_INLINE, ALGORITHM_MAPPED, ALGORITHM_COMPOSED};
    const struct algorithm *messages = way_of(facts, fields, ALGORITHM_MESSAGES, bytes);
    const struct algorithm *native = way_of(facts, fields, ALGORITHM_NATIVE, bytes);
    const struct algorithm *fixed = facts->layout->thresholds->fixed[fields->operation];
    /* The fields of uneven blocks tell their sum; the model takes the mean. */
    const uint64_t moved =
        fields->flags & CALL_UNEVEN ? bytes / (uint64_t)facts->layout->size : bytes;

    /* Nothing else reaches the tensors: an engine that takes other counts alone fails the call. */
    if (fields->flags & CALL_DIRECT && native && (fields->count || fields->flags & CALL_UNEVEN))
        return choose_device_way(facts, fields) == DEVICE_WAY_KERNELS
                   ? way_of(facts, fields, ALGORITHM_KERNELS, bytes)
                   : native;
    if (fixed && fixed == way_of(facts, fields, fixed->kind, bytes) &&
        !choose_objection(facts, fixed, fields, bytes))
        return fixed;
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        const struct algorithm *way = way_of(facts, fields, in_order[i], bytes);

        if (way && !choose_objection(facts, way, fields, bytes) &&
            !(way->kind == ALGORITHM_COMPOSED && bytes &&
              model_finds_slower(facts, way, messages, moved)))
            return way;
    }
    return messages;
}

const struct algorithm *choose_registered(const struct group_facts *facts,
                                          const struct algorithm *algorithm,
                                          const struct call_fields *fields, uint64_t bytes)
{
    const bool uneven = fields->flags & CALL_UNEVEN;
    const struct algorithm *registered = way_of(facts, fields, ALGORITHM_REGISTERED, bytes);

    if (algorithm->kind != ALGORITHM_MAPPED && !(algorithm->kind == ALGORITHM_MESSAGES && uneven))
        return NULL;
    if (!bytes && (!uneven || operation_shares_sizes(fields->operation)))
        return NULL; /* nothing moves */
    return registered && !choose_objection(facts, registered, fields, bytes) ? registered : NULL;
}
