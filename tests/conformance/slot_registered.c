/* SPDX-License-Identifier: Apache-2.0 */
/* Which collectives work in registered memory: what every member's local facts say, as any member knows them. */
#include "conformance/slot.h"

/* Whether the tensors of all members that count are in such memory. An
 * all_to_all in place has a copy of its input. */
static bool all_are(const struct slot *slot)
{
    const struct conformance_call *call = &slot->call;
    const bool by_root =
        call->operation == OPERATION_BROADCAST || call->operation == OPERATION_SCATTER;

    for (int r = 0; r < run.size; r++) {
        const struct local_facts facts = sequence_local(call, r);

        if (by_root && r != call->root)
            continue;
        if (!facts.registered || (call->operation == OPERATION_ALL_TO_ALL && !facts.other_place))
            return false;
    }
    return true;
}

enum served_registered slot_registered(const struct slot *slot)
{
    const struct conformance_call *call = &slot->call;

    if (space_is_message(call->operation) || space_is_barrier(call->operation) || !call->count)
        return REGISTERED_NOT;
    /* Products are inputs of another place, and of uneven blocks some operations have none that all reach. */
    if (space_is_premul(call->op_level) || call->uneven)
        return REGISTERED_MAY;
    return all_are(slot) ? REGISTERED_MUST : REGISTERED_NOT;
}
