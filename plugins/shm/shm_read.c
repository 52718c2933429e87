/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a piece is read: as one part, or as two or four, a line of each in turns.
 *
 * A CPU fetches the lines of a page ahead, and begins anew with each page. To read several pages at once keeps more lines
 * on their way from the peer's cache. From a slot four parts take a sixth less time than one where that cache is far. Where
 * it is near, two take a twentieth less, and four take more. Which it is may change at any time, so pieces are timed now
 * and then. Lines are read whole; where a load takes the ends of two lines, nothing is gained.
 */
#include "shm.h"

enum {
    PARTS_FROM = 2 << 10,  /* bytes that are worth it */
    FOUR_FROM = 12 << 10,  /* … for four parts, if that is faster */
    PART_MAX = 4 << 10,    /* bytes: a page */
    TIMED_EVERY = 4,       /* pieces of FOUR_FROM bytes and more */
    COST_BYTES = 16 << 10, /* costs are ticks for so many bytes, so that a mean is exact enough */
    COST_MAX = 1 << 20,
    COST_WEIGHT = 32 /* a sample is one of so many parts of the mean */
};

#if defined(__x86_64__)
/* Copies `parts` parts of whole lines, which follow each other; the count is a constant where this is inlined. */
__attribute__((target("avx"), always_inline)) static inline void
copy_parts(uint8_t *to, const uint8_t *from, uint64_t part, unsigned parts)
{
    for (uint64_t line = 0; line < part; line += SHM_LINE)
        for (unsigned i = 0; i < parts; i++) {
            const __m256i *source = (const __m256i *)(const void *)(from + i * part + line);
            __m256i *target = (__m256i *)(void *)(to + i * part + line);
            const __m256i low = _mm256_loadu_si256(source), high = _mm256_loadu_si256(source + 1);

            _mm256_storeu_si256(target, low);
            _mm256_storeu_si256(target + 1, high);
        }
}

/* How many bytes it has copied: the rest is too short for parts. */
__attribute__((target("avx"))) static uint64_t copy_in_parts(uint8_t *to, const uint8_t *from,
                                                             uint64_t bytes, unsigned parts)
{
    uint64_t done = 0;

    while (bytes - done >= PARTS_FROM) {
        const uint64_t even = (bytes - done) / parts & ~(uint64_t)(SHM_LINE - 1);
        const uint64_t part = even < PART_MAX ? even : PART_MAX;

        if (parts == 4)
            copy_parts(to + done, from + done, part, 4);
        else
            copy_parts(to + done, from + done, part, 2);
        done += parts * part;
    }
    return done;
}

#endif

void shm_read(unsigned parts, uint8_t *to, const uint8_t *from, uint64_t bytes)
{
    uint64_t done = 0;

#if defined(__x86_64__)
    if (parts > 1 && __builtin_cpu_supports("avx"))
        done = copy_in_parts(to, from, bytes, parts);
#else
    (void)parts;
#endif
    tutti_copy_plain(to + done, from + done, bytes - done);
}

/* A mean of late. A sample counts for twice the mean at most, as the copy may have been interrupted; and the mean is at
 * most twice a sample, as the first copies find pages without memory. */
static uint32_t cost_after(uint32_t known, uint64_t sample)
{
    const uint32_t now = sample < COST_MAX ? (uint32_t)sample : COST_MAX;

    if (!known)
        return now;
    const uint32_t mean = known < 2 * now ? known : 2 * now;
    return mean - mean / COST_WEIGHT + (now < 2 * mean ? now : 2 * mean) / COST_WEIGHT;
}

/* Near, both cost the same within some percent when they are timed, but four parts make the copies behind them slower. */
static bool four_win(const struct shm_reads *reads)
{
    return reads->four && reads->four + reads->four / 16 < reads->two;
}

void shm_read_slot(struct shm_reads *reads, uint8_t *to, const uint8_t *slot, uint64_t bytes)
{
    if (bytes < FOUR_FROM) {
        shm_read(2, to, slot, bytes);
        return;
    }
    if (++reads->count % TIMED_EVERY) {
        shm_read(four_win(reads) ? 4 : 2, to, slot, bytes);
        return;
    }
    const bool four = reads->count / TIMED_EVERY % 2;
    uint32_t *cost = four ? &reads->four : &reads->two;
    const uint64_t begin = tutti_copy_ticks();

    shm_read(four ? 4 : 2, to, slot, bytes);
    const uint64_t end = tutti_copy_ticks();
    if (end > begin) /* the clocks of two sockets may differ */
        *cost = cost_after(*cost, (end - begin) * COST_BYTES / bytes);
}
