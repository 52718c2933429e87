/* SPDX-License-Identifier: Apache-2.0 */
/* How a member takes part in a round. The rules are in the header. */
#include "schedule/rounds.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "schedule/mapped.h"

/* A member looks so often for the end of a round before it compares the lines of all, which
 * takes as long as a switch. Rounds without a mismatch are over by then, unless a member is
 * late. */
enum { LOOKS = 16 };

_Static_assert(ROUND_CHUNK_MAX % ROUND_PIECE == 0, "pieces are whole");
/* Each member claims one piece at most that is not there. */
_Static_assert(ROUND_CHUNK_MAX / ROUND_PIECE + MAPPED_LOCAL_MAX < 1 << ROUND_CLAIMS_BITS,
               "claims of a round would be those of the next one");

static struct mapped_rounds *shared_of(const struct mapped *mapped)
{
    return &mapped->areas[0]->rounds;
}

/* For the words of local peers that wait for me: twice the round of my last part, and one more
 * while the round cannot end without me. */
static void tell(const struct mapped *mapped, bool needed)
{
    atomic_store_explicit(&mapped->areas[mapped->self]->in_round.value,
                          2 * (mapped->rounds + 1) + needed, memory_order_relaxed);
}

static void give(struct mapped *mapped)
{
    const uint64_t all = (mapped->rounds + 1) * (uint64_t)mapped->local_size;

    tell(mapped, true);
    mapped->has_given = true;
    mapped->looks = 0;
    mapped->is_last =
        atomic_fetch_add_explicit(&shared_of(mapped)->given, 1, memory_order_acq_rel) + 1 == all;
    if (!mapped->is_last)
        tell(mapped, false);
}

static bool is_done(const struct mapped *mapped)
{
    return atomic_load_explicit(&shared_of(mapped)->done, memory_order_acquire) > mapped->rounds;
}

/* The half of `done` that a futex compares. */
static uint32_t *futex_of(struct mapped_rounds *rounds)
{
    return (uint32_t *)&rounds->done + (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
}

/* A member that rests counts itself before the kernel compares `done`. */
static void wake(struct mapped_rounds *rounds)
{
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load_explicit(&rounds->resting, memory_order_relaxed))
        syscall(SYS_futex, futex_of(rounds), FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

static void end_round(struct mapped *mapped)
{
    mapped->finished = true;
    atomic_store_explicit(&shared_of(mapped)->done, mapped->rounds + 1, memory_order_release);
    wake(shared_of(mapped));
}

/* The claims of my round when none is made. */
static uint64_t first_claim(const struct mapped *mapped)
{
    return (mapped->rounds + 1) << ROUND_CLAIMS_BITS;
}

/* By the last member: all may reduce pieces, or it does all by itself. */
static tutti_status open_round(struct mapped *mapped, const struct round_work *work)
{
    struct mapped_rounds *rounds = shared_of(mapped);
    const tutti_status status = mapped_meet_all(mapped);

    if (status)
        return status;
    mapped->is_last = false;
    if (work->pieces > 1) {
        atomic_store_explicit(&rounds->reduced, 0, memory_order_relaxed);
        atomic_store_explicit(&rounds->claims, first_claim(mapped), memory_order_release);
        tell(mapped, false); /* the others may do all of it */
    } else {
        work->reduce(work->user, 0);
        end_round(mapped);
    }
    return TUTTI_OK;
}

/* Whether pieces of my round wait for somebody to reduce them. */
static bool has_pieces(const struct mapped *mapped, uint32_t pieces)
{
    const uint64_t claims = atomic_load_explicit(&shared_of(mapped)->claims, memory_order_relaxed);

    return claims - first_claim(mapped) < pieces;
}

/* Reduces pieces until all are claimed: so many at most, whatever local peers write. */
static void reduce_pieces(struct mapped *mapped, const struct round_work *work)
{
    struct mapped_rounds *rounds = shared_of(mapped);

    tell(mapped, true);
    for (uint32_t mine = 0; mine < work->pieces && has_pieces(mapped, work->pieces); mine++) {
        const uint64_t piece = atomic_fetch_add_explicit(&rounds->claims, 1, memory_order_acquire) -
                               first_claim(mapped);

        if (piece >= work->pieces)
            break;
        work->reduce(work->user, (uint32_t)piece);
        if (atomic_fetch_add_explicit(&rounds->reduced, 1, memory_order_acq_rel) + 1 ==
            work->pieces)
            end_round(mapped);
    }
    tell(mapped, false);
}

/* The last member has met every line, so all local peers are in this call. */
static void leave(struct mapped *mapped)
{
    mapped->rounds++;
    mapped->has_given = false;
    for (int i = 0; mapped->seen_all != mapped->announced && i < mapped->local_size; i++)
        mapped->seen[i] = mapped->announced;
    mapped->seen_all = mapped->announced;
}

tutti_status mapped_round(struct mapped *mapped, const struct round_work *work)
{
    tutti_status status = TUTTI_OK;

    mapped->finished = false;
    if (!mapped->has_given)
        give(mapped);
    if (mapped->is_last)
        status = open_round(mapped, work);
    if (status)
        return status;
    if (work->pieces > 1 && !is_done(mapped) && has_pieces(mapped, work->pieces))
        reduce_pieces(mapped, work);
    if (is_done(mapped)) {
        leave(mapped);
        return TUTTI_OK;
    }
    if (++mapped->looks > LOOKS)
        status = mapped_meet_all(mapped);
    return status ? status : TUTTI_ERR_NOT_READY;
}

bool mapped_round_is_given(const struct mapped *mapped, uint64_t *ret_round)
{
    *ret_round = mapped->rounds + 1;
    return mapped->has_given && !mapped->is_last;
}

bool mapped_round_rest(const struct mapped *mapped, uint64_t round, unsigned ms)
{
    struct mapped_rounds *rounds = shared_of(mapped);
    const struct timespec most = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};

    atomic_fetch_add_explicit(&rounds->resting, 1, memory_order_seq_cst);
    if (atomic_load_explicit(&rounds->done, memory_order_seq_cst) < round)
        syscall(SYS_futex, futex_of(rounds), FUTEX_WAIT, (uint32_t)(round - 1), &most, NULL, 0);
    atomic_fetch_sub_explicit(&rounds->resting, 1, memory_order_relaxed);
    return atomic_load_explicit(&rounds->done, memory_order_acquire) >= round;
}

int mapped_round_awaits(const struct mapped *mapped)
{
    const uint64_t given = 2 * (mapped->rounds + 1);
    int needed = (mapped->self + 1) % mapped->local_size;

    for (int i = 0; i < mapped->local_size; i++)
        if (!mapped_has_called(mapped, i))
            return i;
    for (int i = 0; i < mapped->local_size; i++) {
        const uint64_t told =
            atomic_load_explicit(&mapped->areas[i]->in_round.value, memory_order_relaxed);

        if (i == mapped->self)
            continue;
        if (told < given)
            return i;
        if (told > given)
            needed = i;
    }
    return needed;
}
