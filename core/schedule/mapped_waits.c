/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/mapped_waits.h"

enum {
    AWAITS = 1,
    AWAITS_ALL = 2,
    AWAITS_WORD_SHIFT = 4,
    AWAITS_PEER_SHIFT = 8,
    AWAITS_SHIFT = 32,
    AWAITS_WORDS = 1 << (AWAITS_PEER_SHIFT - AWAITS_WORD_SHIFT),
    AWAITS_PEERS = 1 << (AWAITS_SHIFT - AWAITS_PEER_SHIFT)
};

_Static_assert((int)WORD_COUNT <= (int)AWAITS_WORDS, "must fit");
_Static_assert((int)MAPPED_LOCAL_MAX <= (int)AWAITS_PEERS, "must fit");

/* In one word, so that it is read whole: of the value its lower half. */
void mapped_waits(struct mapped *mapped, int index, enum mapped_word word, uint64_t value)
{
    const uint64_t whose = index < 0 ? AWAITS_ALL : (uint64_t)(unsigned)index << AWAITS_PEER_SHIFT;

    mapped->waits = true;
    atomic_store_explicit(&mapped->areas[mapped->self]->awaits.value,
                          AWAITS | whose | (uint64_t)word << AWAITS_WORD_SHIFT |
                              value << AWAITS_SHIFT,
                          memory_order_relaxed);
}

static bool is_behind(const struct mapped *mapped, int index, unsigned word, uint32_t value)
{
    const uint64_t now =
        atomic_load_explicit(&mapped->areas[index]->words[word].value, memory_order_relaxed);

    return (int32_t)((uint32_t)now - value) < 0;
}

bool mapped_still_waits(const struct mapped *mapped, int index)
{
    /* My own counter is out before I look at the others'; and this was written before its owner slept. */
    atomic_thread_fence(memory_order_seq_cst);
    const uint64_t awaits =
        atomic_load_explicit(&mapped->areas[index]->awaits.value, memory_order_relaxed);
    const unsigned word = awaits >> AWAITS_WORD_SHIFT & (AWAITS_WORDS - 1),
                   peer = awaits >> AWAITS_PEER_SHIFT & (AWAITS_PEERS - 1);
    const uint32_t value = (uint32_t)(awaits >> AWAITS_SHIFT);

    if (!(awaits & AWAITS) || word >= WORD_COUNT)
        return false;
    if (!(awaits & AWAITS_ALL))
        return peer < (unsigned)mapped->local_size && is_behind(mapped, (int)peer, word, value);
    for (int i = 0; i < mapped->local_size; i++)
        if (i != index && is_behind(mapped, i, word, value))
            return true;
    return false;
}
