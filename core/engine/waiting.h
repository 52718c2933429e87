/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a thread waits: all numbers of it.
 *
 *      poll ── something moved ──> poll
 *        │ nothing did
 *        ▼
 *      spin ──> yield ──> doze ──> sleep ──> sleep ...        whatever moves leads back to poll
 *                 │  ▲      ▲                                 a completed operation ends all
 *                 ▼  │      │
 *                eager ─────┘
 *
 * poll   moves all sources once, under the progress lock, unless another thread holds it.
 * spin   polls with a pause between, SPINS times: a peer on another CPU answers within microseconds. Not
 *        where ranks outnumber the CPUs (oversubscribed), nor for a backend whose own threads need the CPU
 *        (no_spin).
 * yield  polls YIELDS times with sched_yield() between. After YIELDS_MIN times it also ends once YIELDS_NS have passed.
 *        With a peer on the thread's CPU it begins after SHARES_FIRST spins, and ends after YIELDS_TRIED yields if
 *        these have not switched.
 * eager  goes on so while bytes that move only when they are polled should still be under way.
 * doze   sleeps DOZE_MS at most behind a fence of this CPU alone.
 * sleep  sleeps SLEEP_MS at most behind a fence that reaches every CPU of a peer (membarrier).
 * nap    takes the place of doze and sleep beside a source that nothing wakes a sleeper for.
 *
 * The control plane and the deadlines are looked at before each rest, and every LOOK_EVERY polls.
 * Time limits of protocols (agreement, verdict, stores) stand with their protocols.
 */
#pragma once

enum {
    /* Longer than a hand-over between two CPUs (0.05 to 0.2 µs) and a step of a collective of some KiB,
     * shorter than a sleep and its wake, which cost 100 µs. */
    WAITING_SPINS = 2000,
    /* Some 40 µs where no other thread wants the CPU, longer than a message of 32 KiB takes over TCP: no CPU
     * goes idle meanwhile. More delay the rank that has the work. bench/README.md has figures. */
    WAITING_YIELDS = 40,
    /* Where four waiting threads share a CPU, 40 yields take half a millisecond. Meanwhile the CPU looks busy, and the
     * scheduler moves no thread there that has work to do. */
    WAITING_YIELDS_MIN = 10,
    WAITING_YIELDS_NS = 50000,
    /* Of a blocking call, inline or in rounds, before it rests in a round or goes to the general wait.
     * Many ranks of several sessions hold up each other with yields, which do not switch to the next rank. On 2 CPUs
     * 64 ranks in a session each reduce 8 bytes in 1,200 µs with 16 yields and in 360 with one; 64 ranks in one session
     * take 110 and 240. */
    WAITING_YIELDS_AT_ONCE = 16,
    WAITING_YIELDS_OF_MANY = 1,
    WAITING_MANY = 25, /* ranks of a host, of several sessions */
    /*
     * A peer on the CPU of a waiting thread does its work as soon as the thread leaves the CPU. So the thread looks
     * for such peers every so many spins. Between threads of different scheduling groups (sessions, control groups)
     * sched_yield() does not switch: then the first yields take no longer than system calls.
     */
    WAITING_SHARES_EVERY = 64,
    WAITING_SHARES_FIRST = 8,
    WAITING_YIELDS_TRIED = 4,
    WAITING_YIELD_ALONE_NS = 700,
    WAITING_LOOK_EVERY = 1024,
    /* Polls of a collective at once, under the lock that its caller holds anyway, between two looks at the
     * verdict. */
    WAITING_VERDICT_EVERY = 64,
    /* Tests of an engine's operation at once if each rank has a CPU: a test takes no longer than
     * the way to it. */
    WAITING_TESTS_IN_A_ROW = 8,
    /* A group in which this member has nothing under way is polled every so many turns: a program may have
     * a hundred groups and wait in one. */
    WAITING_IDLE_TURNS = 8,

    /* Eager: what bytes should take at 250 MB/s, which is slow, and a millisecond. A rest meanwhile costs
     * 100 µs. */
    WAITING_EAGER_NS = 1000000,
    WAITING_EAGER_NS_PER_BYTE = 4,
    WAITING_EAGER_BYTES_MAX = 1 << 28,

    WAITING_DOZE_MS = 1,
    WAITING_SLEEP_MS = 20,
    WAITING_NAP_NS = 100000, /* a round costs 3 µs: 3 % of a CPU */
    /*
     * Pauses of the engine thread while callers start works and move them themselves. Each costs a rank
     * that has no CPU to spare some 5 us.
     */
    WAITING_ATTEND_MIN_NS = 50000,
    WAITING_ATTEND_MAX_NS = 1000000,
    /* In works of one context, before those of another that are waited for, too, are looked at. */
    WAITING_SLICE_NS = 1000000,

    /* Spins for the progress lock, which a holder keeps for some 100 µs at most. After as many
     * yields the holder was preempted. */
    WAITING_LOCK_SPINS = 100,
    WAITING_LOCK_SLEEP_NS = 50000
};
