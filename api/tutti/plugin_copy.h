/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies into memory that a local peer reads, by plain or by streaming stores. Optional: everything here is
 * inline and links nothing. The core uses it for its own mapped memory, the transport shm for its rings.
 *
 * A plain store to a line that a peer has read takes the line from the peer's cache. Between CPUs that
 * share a cache that is cheap, and the peer then reads the data from a cache. Between chiplets or sockets
 * it costs several times as much as a streaming store, which goes past the caches to memory. Which CPUs
 * the peers run on may change at any time, on virtual machines in particular. So the writer compares what
 * both kinds cost itself, and chooses again and again. The reader cannot tell the kinds apart.
 *
 * Of eight copies with at least TUTTI_COPY_LONG bytes, one is timed. While plain stores are slow, a
 * streaming copy is tried now and then. While streaming stores are used, lines are no longer in the peers'
 * caches, so a single plain copy would tell nothing. So plain stores are tried at growing intervals: first
 * they fill the window, then they are used until TUTTI_COPY_SAMPLES copies, or as many as the caller
 * wants, have been timed.
 *
 *     tutti_copy_turn turn = tutti_copy_begin(&copy, bytes);
 *
 *     tutti_copy_by(turn.streams, to, from, bytes);
 *     tutti_copy_end(&copy, turn, bytes);
 *
 * None of the functions locks. On CPUs other than x86-64 all stores are plain.
 */
#ifndef TUTTI_PLUGIN_COPY_H
#define TUTTI_PLUGIN_COPY_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#ifdef __cplusplus
extern "C" {
#endif

/** What copies into one memory have cost. All zero but what is the caller's: nothing is known yet. */
typedef struct tutti_copy {
    uint64_t window_bytes; /* the caller's to set: of the memory that is filled again and again */
    uint64_t plain_bytes;  /* copied since plain stores were chosen */
    uint64_t retry_at;     /* when plain stores are tried again; in ticks */
    uint64_t retry_after;  /* how long that was put off; in ticks */
    uint32_t count;        /* of copies that were long enough */
    uint32_t samples;      /* of plain stores since they were chosen */
    uint32_t plain;        /* ticks that 1024 bytes take, about the least of late; 0: not known */
    uint32_t streaming;    /* the same */
    uint32_t streams;      /* whether streaming stores are chosen */
    uint16_t wins_by; /* the caller's to set: times that streaming stores must be faster; 0: half as
                              fast again */
    uint16_t judged_after; /* the caller's to set: samples before plain stores are judged; 0:
                              TUTTI_COPY_SAMPLES */
} tutti_copy;

/** How one copy is made. */
typedef struct tutti_copy_turn {
    uint64_t begin;   /* in ticks; 0: it is not timed */
    uint32_t streams; /* whether by streaming stores */
} tutti_copy_turn;

enum {
    TUTTI_COPY_LINE = 64,       /* bytes that streaming stores write at once */
    TUTTI_COPY_VECTOR = 32,     /* bytes that one plain store writes, where the CPU has AVX */
    TUTTI_COPY_SHORT = 64,      /* bytes; longer copies are a call */
    TUTTI_COPY_LOOP = 2048,     /* bytes; longer plain copies are a loop, see tutti_copy_plain() */
    TUTTI_COPY_LONG = 8 * 1024, /* bytes; shorter copies are plain */
    TUTTI_COPY_TIMED_EVERY = 8,
    TUTTI_COPY_TRIED_EVERY = 32, /* timed copies, while plain stores are slow */
    TUTTI_COPY_SAMPLES = 4,      /* before plain stores are judged: one may have been interrupted */
    TUTTI_COPY_GROWTH = 32,      /* a cost grows by one of so many parts with a sample */
    TUTTI_COPY_WINS_BY = 4,      /* times, where local peers outnumber the CPUs; see below */
    /* Ticks for 1024 bytes: 20 GB/s at 2.5 GHz. Streaming stores take 92 at best, so they cannot win
     * against plain stores that are as fast as this, and are not tried. */
    TUTTI_COPY_FAST = 128,
    /* Ticks: 13 ms and 0.2 s at 2.5 GHz. Trying plain stores that take 700 ticks for 1024 bytes, with a
     * window of 2 MiB, costs 1.0 ms in copies of 64 KiB and 2.4 ms in copies of 256 KiB. */
    TUTTI_COPY_RETRY_MIN = 1 << 25,
    TUTTI_COPY_RETRY_MAX = 1 << 29
};

/** The CPU's time stamp. */
static inline uint64_t tutti_copy_ticks(void)
{
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#else
    return 0;
#endif
}

/*
 * What 1024 bytes cost the writer, in ns, on two CPUs:
 *
 *                               plain        streaming
 *     one cache    EPYC 9004    25 to 65     36 to 60
 *                  EPYC 7003    34 to 45     70 to 100
 *     two caches   EPYC 9004    215 to 400   37 to 55
 *                  EPYC 7003    100 to 200   75 to 100
 *
 * With one cache the reader pays some 56 ns more after streaming stores. With two it pays no more, so streaming
 * stores win as soon as they are clearly faster: by half. With four ranks on each CPU plain stores
 * cost up to three times as much as streaming ones although they are better; callers set `wins_by` to
 * TUTTI_COPY_WINS_BY there.
 *
 * A streaming copy of few KiB is over when most of it still is on its way to memory, and the reader waits for
 * that: 12 KiB seem to take 40 ticks for 1 KiB, and plain stores up to 130. So plain stores stay up to half as much again
 * as TUTTI_COPY_FAST.
 */
static inline int tutti_copy_streaming_wins(const tutti_copy *copy)
{
    const uint64_t least = copy->wins_by ? (uint64_t)copy->streaming * copy->wins_by
                                         : copy->streaming + (uint64_t)copy->streaming / 2;
    const uint64_t believed = TUTTI_COPY_FAST + TUTTI_COPY_FAST / 2;

    return copy->streaming && copy->plain > least && copy->plain > believed;
}

/** How the next copy, a timed one that begins at `now`, is made. */
static inline uint32_t tutti_copy_choose(tutti_copy *copy, uint64_t now)
{
    const int tries =
        !copy->streaming || copy->count / TUTTI_COPY_TIMED_EVERY % TUTTI_COPY_TRIED_EVERY == 0;

    if (copy->streams && now >= copy->retry_at) {
        copy->streams = 0;
        copy->plain = 0;
        copy->samples = 0;
        copy->plain_bytes = 0;
    }
    return copy->streams || (tries && copy->plain > TUTTI_COPY_FAST);
}

/* The cost after a sample: that sample, but at most a little more than what was known. So the least of the
 * last samples counts. A copy that was interrupted may have taken milliseconds, and where a peer reads or
 * looks for what is just written, plain stores take three times as long for some dozens of copies. */
static inline uint32_t tutti_copy_cost(uint32_t known, uint64_t sample)
{
    const uint64_t most = known ? (uint64_t)known + known / TUTTI_COPY_GROWTH + 1 : UINT32_MAX / 8;

    return (uint32_t)(sample < most ? sample : most);
}

/** A timed copy of `bytes` took `ticks`, until `now`. */
static inline void tutti_copy_took(tutti_copy *copy, uint32_t streams, size_t bytes, uint64_t ticks,
                                   uint64_t now)
{
    const uint32_t enough = copy->judged_after ? copy->judged_after : (uint32_t)TUTTI_COPY_SAMPLES;
    const uint64_t sample = ticks / (bytes / 1024);

    if (streams)
        copy->streaming = tutti_copy_cost(copy->streaming, sample);
    else if (copy->plain_bytes >= copy->window_bytes) {
        copy->plain = tutti_copy_cost(copy->plain, sample);
        copy->samples++;
    }
    if (copy->streams || copy->samples < enough)
        return;
    if (!tutti_copy_streaming_wins(copy)) {
        copy->retry_after = 0;
        return;
    }
    copy->streams = 1;
    copy->retry_after = copy->retry_after ? 2 * copy->retry_after : (uint64_t)TUTTI_COPY_RETRY_MIN;
    if (copy->retry_after > (uint64_t)TUTTI_COPY_RETRY_MAX)
        copy->retry_after = TUTTI_COPY_RETRY_MAX;
    copy->retry_at = now + copy->retry_after;
}

/** Counts a long copy: whether it is timed. */
static inline int tutti_copy_is_timed(tutti_copy *copy)
{
    return ++copy->count % TUTTI_COPY_TIMED_EVERY == 0;
}

/** tutti_copy_begin() of a long copy that begins at `now`; 0: it is not timed. */
static inline tutti_copy_turn tutti_copy_begin_at(tutti_copy *copy, uint64_t now)
{
    tutti_copy_turn turn = {now, copy->streams};

    if (now)
        turn.streams = tutti_copy_choose(copy, now);
    return turn;
}

/** tutti_copy_end() of a copy that ends at `now`, which is read only if it is timed. */
static inline void tutti_copy_end_at(tutti_copy *copy, tutti_copy_turn turn, size_t bytes,
                                     uint64_t now)
{
    if (!turn.streams && copy->plain_bytes < copy->window_bytes)
        copy->plain_bytes += bytes;
    if (turn.begin && now > turn.begin) /* the clocks of two sockets may differ */
        tutti_copy_took(copy, turn.streams, bytes, now - turn.begin, now);
}

/** Before a copy of `bytes`: how it is to be made. */
static inline tutti_copy_turn tutti_copy_begin(tutti_copy *copy, size_t bytes)
{
    tutti_copy_turn turn = {0, 0};

#if defined(__x86_64__)
    if (bytes >= TUTTI_COPY_LONG)
        turn = tutti_copy_begin_at(copy, tutti_copy_is_timed(copy) ? tutti_copy_ticks() : 0);
#else
    (void)copy;
    (void)bytes;
#endif
    return turn;
}

/** After it. */
static inline void tutti_copy_end(tutti_copy *copy, tutti_copy_turn turn, size_t bytes)
{
    tutti_copy_end_at(copy, turn, bytes, turn.begin ? tutti_copy_ticks() : 0);
}

#if defined(__x86_64__) && defined(__GNUC__)
/** Copies whole lines by stores of 32 bytes, on 32 bytes but for the first. At least a line; the rest is left. */
__attribute__((target("avx"))) static inline size_t tutti_copy_lines(void *to, const void *from,
                                                                     size_t bytes)
{
    const size_t lead = TUTTI_COPY_VECTOR - (uintptr_t)to % TUTTI_COPY_VECTOR;
    unsigned char *at = (unsigned char *)to + lead;
    const unsigned char *source = (const unsigned char *)from + lead;
    size_t left = bytes - lead;

    _mm256_storeu_si256((__m256i *)to, _mm256_loadu_si256((const __m256i *)from));
    for (; left >= TUTTI_COPY_LINE; left -= TUTTI_COPY_LINE) {
        const __m256i low = _mm256_loadu_si256((const __m256i *)(const void *)source);
        const __m256i high = _mm256_loadu_si256((const __m256i *)(const void *)source + 1);

        _mm256_store_si256((__m256i *)(void *)at, low);
        _mm256_store_si256((__m256i *)(void *)at + 1, high);
        at += TUTTI_COPY_LINE;
        source += TUTTI_COPY_LINE;
    }
    return bytes - left;
}
#endif

/** Copies the first and the last `piece` bytes, which share some if there are less than two pieces. A constant of 32 at
 * most, so that nothing is called. */
static inline void tutti_copy_ends(void *to, const void *from, size_t bytes, size_t piece)
{
    unsigned char first[32], last[32];

    memcpy(first, from, piece);
    memcpy(last, (const unsigned char *)from + (bytes - piece), piece);
    memcpy(to, first, piece);
    memcpy((unsigned char *)to + (bytes - piece), last, piece);
}

/** Copies at most TUTTI_COPY_SHORT bytes as memcpy() does, without a call: most messages are a few words. */
static inline void tutti_copy_short(void *to, const void *from, size_t bytes)
{
    if (bytes >= 32)
        tutti_copy_ends(to, from, bytes, 32);
    else if (bytes >= 16)
        tutti_copy_ends(to, from, bytes, 16);
    else if (bytes >= 8)
        tutti_copy_ends(to, from, bytes, 8);
    else if (bytes >= 4)
        tutti_copy_ends(to, from, bytes, 4);
    else if (bytes >= 2)
        tutti_copy_ends(to, from, bytes, 2);
    else if (bytes)
        tutti_copy_ends(to, from, bytes, 1);
}

/**
 * Copies as memcpy() does. From some 2 KiB on that is `rep movsb` in glibc, which takes a tenth longer than a loop
 * where a peer has the lines in its cache, and thirty times as long on AMD's Zen 3 and Zen 4 if the target is 1 to 31
 * bytes behind the source, modulo a page (glibc's bug 30994). So these copies are a loop where the CPU has AVX.
 */
static inline void tutti_copy_plain(void *to, const void *from, size_t bytes)
{
    size_t done = 0;

    if (bytes <= TUTTI_COPY_SHORT) {
        tutti_copy_short(to, from, bytes); /* the addresses may be NULL if there are none */
        return;
    }
#if defined(__x86_64__) && defined(__GNUC__)
    if (bytes >= TUTTI_COPY_LOOP && __builtin_cpu_supports("avx"))
        done = tutti_copy_lines(to, from, bytes);
#endif
    memcpy((unsigned char *)to + done, (const unsigned char *)from + done, bytes - done);
}

#if defined(__x86_64__) && defined(__GNUC__)
/** Whole lines to a target on a line, two stores each. */
__attribute__((target("avx"))) static inline void
tutti_copy_stream_lines(void *to, const void *from, size_t bytes)
{
    size_t at;

    for (at = 0; at < bytes; at += TUTTI_COPY_LINE) {
        const __m256i *source = (const __m256i *)(const void *)((const unsigned char *)from + at);
        __m256i *target = (__m256i *)(void *)((unsigned char *)to + at);
        const __m256i low = _mm256_loadu_si256(source), high = _mm256_loadu_si256(source + 1);

        _mm256_stream_si256(target, low);
        _mm256_stream_si256(target + 1, high);
    }
}
#endif

#if defined(__x86_64__)
/** The same where the CPU has no AVX. Four stores a line: if other CPUs use the memory much, lines leave the CPU half
 * full, and 1 KiB takes 60 ns instead of 37 (EPYC 9004). */
static inline void tutti_copy_stream_quarters(void *to, const void *from, size_t bytes)
{
    size_t at;

    for (at = 0; at < bytes; at += sizeof(__m128i))
        _mm_stream_si128(
            (__m128i *)(void *)((unsigned char *)to + at),
            _mm_loadu_si128((const __m128i *)(const void *)((const unsigned char *)from + at)));
}
#endif

/** Copies by streaming stores; nothing overlaps. A release store behind it publishes the copy. */
static inline void tutti_copy_stream(void *to, const void *from, size_t bytes)
{
#if defined(__x86_64__)
    const size_t lead = (size_t)(-(uintptr_t)to % TUTTI_COPY_LINE);
    unsigned char *at = (unsigned char *)to;
    const unsigned char *source = (const unsigned char *)from;
    size_t lines;

    if (bytes < lead + TUTTI_COPY_LINE) {
        memcpy(to, from, bytes);
        return;
    }
    lines = (bytes - lead) / TUTTI_COPY_LINE * TUTTI_COPY_LINE;
    memcpy(at, source, lead);
    at += lead;
    source += lead;
#if defined(__GNUC__)
    if (__builtin_cpu_supports("avx"))
        tutti_copy_stream_lines(at, source, lines);
    else
#endif
        tutti_copy_stream_quarters(at, source, lines);
    memcpy(at + lines, source + lines, bytes - lead - lines);
    _mm_sfence(); /* streaming stores are not ordered otherwise */
#else
    memcpy(to, from, bytes);
#endif
}

/** Copies by streaming or by plain stores. */
static inline void tutti_copy_by(uint32_t streams, void *to, const void *from, size_t bytes)
{
    if (streams)
        tutti_copy_stream(to, from, bytes);
    else
        tutti_copy_plain(to, from, bytes);
}

#ifdef __cplusplus
}
#endif

#endif
