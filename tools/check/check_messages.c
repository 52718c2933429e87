/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a transport promises, between two processes: messages whole, in order, none lost and none
 * twice, in both directions, whatever their sizes and whenever the receives come; an error for one
 * that is too long; and that the end of a process is noticed.
 *
 * Messages of `order` carry their number and length, and every receive has room for the longest, so
 * that what is wrong can be said in its own words and not as a difference of bytes.
 */
#include "check/check_core.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MAGIC UINT64_C(0x7475747469636865)
#define FACTOR UINT64_C(0x9e3779b97f4a7c15)

enum {
    NUMBERED = 96,
    LARGEST = 1 << 20,
    SMALL_MESSAGES = 12000,
    SMALL_THOROUGH = 300000,
    SMALL_AT_ONCE = 50,
    KEPT_MESSAGES = 2000,
    KEPT_BYTES = 8 /* a message that leaves so much has an allocation of its own */
};

struct numbered {
    uint64_t magic, number, bytes;
};

static const uint64_t sizes[] = {0,    1,    7,     8,     63,    64,     65,     1000,   4095,
                                 4096, 4097, 16384, 65535, 65536, 262145, 999999, LARGEST};
enum { SIZES = G_N_ELEMENTS(sizes) };

/* Compares one received message with the one that was sent. */
static void expect_arrived(struct core *core, struct transfer *transfer, const uint8_t *data,
                           uint64_t bytes, uint64_t number)
{
    tutti_status status = core_wait(core, transfer);

    if (status == TUTTI_ERR_NOT_READY)
        check_fails("message %llu of %llu bytes did not arrive within %d s: lost",
                    (unsigned long long)number, (unsigned long long)bytes, CORE_WAIT_MS / 1000);
    if (status)
        check_fails("the receive of message %llu, %llu bytes, ends with %s",
                    (unsigned long long)number, (unsigned long long)bytes, core_says(core, status));
    if (transfer->request.bytes != bytes)
        check_fails("message %llu was sent with %llu bytes and arrived with %llu: %s",
                    (unsigned long long)number, (unsigned long long)bytes,
                    (unsigned long long)transfer->request.bytes,
                    transfer->request.bytes < bytes ? "truncated" : "too long");
    uint64_t place = core_differs(data, 0, bytes, number);
    if (place < bytes)
        check_fails("byte %llu of message %llu, %llu bytes, is not what was sent: corrupted",
                    (unsigned long long)place, (unsigned long long)number,
                    (unsigned long long)bytes);
}

/* The sender's memory is unchanged. */
static void expect_unwritten(const uint8_t *data, uint64_t from, uint64_t bytes, uint64_t number)
{
    const uint64_t place = core_differs(data, from, bytes, number);

    if (place < bytes)
        check_fails("byte %llu of the memory of a send of %llu bytes is another after it: a "
                    "transport writes into the memory of receives alone",
                    (unsigned long long)place, (unsigned long long)bytes);
}

static void expect_sent(struct core *core, struct transfer *transfer, uint64_t bytes)
{
    tutti_status status = core_wait(core, transfer);

    if (status == TUTTI_ERR_NOT_READY)
        check_fails("the send of %llu bytes, which the other side receives, is not complete after "
                    "%d s: lost",
                    (unsigned long long)bytes, CORE_WAIT_MS / 1000);
    if (status)
        check_fails("the send of %llu bytes, which the other side receives, ends with %s",
                    (unsigned long long)bytes, tutti_status_name(status));
}

/* ---- one message at a time, of every size, to and fro ---------------------------------------- */

static void send_one(struct core *core, uint64_t bytes, uint64_t number)
{
    uint8_t *data = core_buffer(bytes);
    struct transfer transfer;

    check_doing("sending %llu bytes", (unsigned long long)bytes);
    core_fill(data, bytes, number);
    core_send(core, data, bytes, 0, &transfer);
    expect_sent(core, &transfer, bytes);
    expect_unwritten(data, 0, bytes, number);
    core_buffer_free(data);
}

/* Receives with more room than needed, so that the length of the message itself arrives. */
static void receive_one(struct core *core, uint64_t bytes, uint64_t number)
{
    uint8_t *data = core_buffer(bytes + 64);
    struct transfer transfer;

    check_doing("receiving %llu bytes", (unsigned long long)bytes);
    core_receive(core, data, bytes + number % 2 * 64, &transfer);
    expect_arrived(core, &transfer, data, bytes, number);
    core_buffer_free(data);
}

/* The last is a piece as long as the transport has asked for. */
void check_sizes(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    const tutti_transport_ops *ops = core.ops;
    const uint64_t piece = TUTTI_HAS(ops, piece_bytes) ? ops->piece_bytes : 0;
    for (uint64_t i = 0; i < 2 * (SIZES + (piece > LARGEST)); i++) {
        const uint64_t bytes = i / 2 < SIZES ? sizes[i / 2] : piece;

        if ((int)(i % 2) == member->index)
            send_one(&core, bytes, i);
        else
            receive_one(&core, bytes, i);
    }
    check_meet();
    core_close(&core);
}

/* ---- many in flight, numbered ---------------------------------------------------------------- */

static uint64_t numbered_bytes(uint64_t number)
{
    static const uint64_t some[] = {24, 4096, 100, 65536, 1000, 200000, 32, 24};

    return some[number % G_N_ELEMENTS(some)];
}

static void send_numbered(struct core *core)
{
    static struct transfer transfers[NUMBERED];
    static uint8_t *data[NUMBERED];

    check_doing("sending %d numbered messages", NUMBERED);
    for (uint64_t i = 0; i < NUMBERED; i++) {
        const struct numbered head = {MAGIC, i, numbered_bytes(i)};

        data[i] = core_buffer(head.bytes);
        core_fill(data[i], head.bytes, i);
        memcpy(data[i], &head, sizeof head);
        core_send(core, data[i], head.bytes, i % 3 ? 0 : TUTTI_SEND_MORE, &transfers[i]);
    }
    for (int i = 0; i < NUMBERED; i++) {
        expect_sent(core, &transfers[i], numbered_bytes((uint64_t)i));
        expect_unwritten(data[i], sizeof(struct numbered), numbered_bytes((uint64_t)i),
                         (uint64_t)i);
        core_buffer_free(data[i]);
    }
}

/* The number of what arrived; ends the check when it is no whole message. */
static uint64_t number_of(const struct transfer *transfer, const uint8_t *data, uint64_t due)
{
    struct numbered head;
    const uint64_t arrived = transfer->request.bytes;

    memcpy(&head, data, sizeof head);
    if (arrived < sizeof head || head.magic != MAGIC || head.number >= NUMBERED)
        check_fails(
            "where message %llu was due, %llu bytes arrived that do not begin a message: corrupted",
            (unsigned long long)due, (unsigned long long)arrived);
    if (arrived != head.bytes)
        check_fails("message %llu was sent with %llu bytes and arrived with %llu: %s",
                    (unsigned long long)head.number, (unsigned long long)head.bytes,
                    (unsigned long long)arrived, arrived < head.bytes ? "truncated" : "too long");
    uint64_t place = core_differs(data, sizeof head, head.bytes, head.number);
    if (place < head.bytes)
        check_fails("byte %llu of message %llu, %llu bytes, is not what was sent: corrupted",
                    (unsigned long long)place, (unsigned long long)head.number,
                    (unsigned long long)head.bytes);
    return head.number;
}

struct arrivals {
    int count[NUMBERED];
    int misplaced_due, misplaced_is; /* the first that came at another's place; -1: none */
    int total;
};

static void note_arrival(struct arrivals *arrivals, int due, int is)
{
    if (is != due && arrivals->misplaced_due < 0) {
        arrivals->misplaced_due = due;
        arrivals->misplaced_is = is;
    }
    arrivals->count[is]++;
    arrivals->total++;
}

/* A lost message also shifts those behind it, so the losses are told first. */
static void judge_arrivals(const struct arrivals *arrivals)
{
    for (int i = 0; i < NUMBERED; i++)
        if (arrivals->count[i] > 1)
            check_fails("message %d of %d arrived %d times", i, NUMBERED, arrivals->count[i]);
    for (int i = 0; i < NUMBERED; i++)
        if (!arrivals->count[i])
            check_fails("message %d of %d never arrived, though its send was reported complete: "
                        "lost; %d others arrived",
                        i, NUMBERED, arrivals->total);
    if (arrivals->misplaced_due >= 0)
        check_fails(
            "message %d arrived where message %d was due: wrong order; messages of one lane "
            "arrive in the order of their sends",
            arrivals->misplaced_is, arrivals->misplaced_due);
}

static void receive_numbered(struct core *core)
{
    enum { POSTED = 8 };
    struct transfer transfers[POSTED];
    uint8_t *data[POSTED];
    struct arrivals arrivals = {.misplaced_due = -1};
    int started = 0;

    check_doing("receiving %d numbered messages", NUMBERED);
    for (int due = 0; due < NUMBERED; due++) {
        for (; started < NUMBERED && started < due + POSTED; started++) {
            uint8_t **at = &data[started % POSTED];

            *at = started < POSTED ? core_buffer(LARGEST) : *at;
            core_receive(core, *at, LARGEST, &transfers[started % POSTED]);
        }
        struct transfer *transfer = &transfers[due % POSTED];
        tutti_status status = core_wait(core, transfer);
        if (status == TUTTI_ERR_NOT_READY)
            break;
        if (status)
            check_fails("receive %d ends with %s", due, core_says(core, status));
        uint64_t number = number_of(transfer, data[due % POSTED], (uint64_t)due);
        note_arrival(&arrivals, due, (int)number);
    }
    judge_arrivals(&arrivals);
    for (int i = 0; i < POSTED; i++)
        core_buffer_free(data[i]);
}

void check_order(const struct check_member *member)
{
    struct core core = {0};

    core_start(&core, member);
    for (int sender = 0; sender < 2; sender++) {
        if (member->index == sender)
            send_numbered(&core);
        else
            receive_numbered(&core);
        check_meet();
    }
    core_close(&core);
}

/* ---- both directions at once, receives before and after the sends ----------------------------- */

struct both {
    struct transfer send[SIZES], receive[SIZES];
    uint8_t *out[SIZES], *in[SIZES];
};

static void start_receives(struct core *core, struct both *both)
{
    for (int i = 0; i < SIZES; i++) {
        both->in[i] = core_buffer(sizes[i]);
        core_receive(core, both->in[i], sizes[i], &both->receive[i]);
    }
}

static void exchange(const struct check_member *member, bool late)
{
    static struct both both;
    struct core core = {0};

    core_start(&core, member);
    check_doing("sending and receiving at once");
    if (!late)
        start_receives(&core, &both);
    for (int i = 0; i < SIZES; i++) {
        both.out[i] = core_buffer(sizes[i]);
        core_fill(both.out[i], sizes[i], (uint64_t)i);
        core_send(&core, both.out[i], sizes[i], 0, &both.send[i]);
    }
    for (int turns = 0; late && turns < 20; turns++) { /* both sides run into what is full */
        struct transfer *last = &both.send[SIZES - 1];

        core_turn(&core, &last, 1);
        g_usleep(1000);
    }
    if (late)
        start_receives(&core, &both);
    for (int i = 0; i < SIZES; i++)
        expect_arrived(&core, &both.receive[i], both.in[i], sizes[i], (uint64_t)i);
    for (int i = 0; i < SIZES; i++) {
        expect_sent(&core, &both.send[i], sizes[i]);
        expect_unwritten(both.out[i], 0, sizes[i], (uint64_t)i);
        core_buffer_free(both.in[i]);
        core_buffer_free(both.out[i]);
    }
    check_meet();
    core_close(&core);
}

void check_both_ways(const struct check_member *member)
{
    exchange(member, false);
}

void check_late_receives(const struct check_member *member)
{
    exchange(member, true);
}

/* ---- many small ones ------------------------------------------------------------------------- */

/* A number that no other small message has, even with some bits changed. */
static uint64_t small_word(uint64_t number)
{
    return number * FACTOR;
}

static void expect_word(uint64_t word, uint64_t due, uint64_t count)
{
    uint64_t is = 0;

    if (word == small_word(due))
        return;
    while (is < count && small_word(is) != word)
        is++;
    if (is == count)
        check_fails("small message %llu arrived as 0x%016llx instead of 0x%016llx, which was no "
                    "message: corrupted",
                    (unsigned long long)due, (unsigned long long)word,
                    (unsigned long long)small_word(due));
    check_fails("small message %llu arrived where %llu was due: %s", (unsigned long long)is,
                (unsigned long long)due,
                is > due ? "lost, or wrong order" : "wrong order, or twice");
}

static void expect_small(struct core *core, struct transfer *transfer, uint64_t number,
                         const char *what)
{
    tutti_status status = core_wait(core, transfer);

    if (status == TUTTI_ERR_NOT_READY)
        check_fails("small message %llu: its %s is not complete after %d s: lost",
                    (unsigned long long)number, what, CORE_WAIT_MS / 1000);
    if (status)
        check_fails("small message %llu: its %s ends with %s", (unsigned long long)number, what,
                    tutti_status_name(status));
}

void check_flood(const struct check_member *member)
{
    struct core core = {0};
    struct transfer transfers[SMALL_AT_ONCE];
    uint64_t words[SMALL_AT_ONCE];
    const uint64_t count = member->subject->thorough ? SMALL_THOROUGH : SMALL_MESSAGES;

    core_start(&core, member);
    check_doing("passing %llu small messages", (unsigned long long)count);
    for (uint64_t first = 0; first < count; first += SMALL_AT_ONCE) {
        for (uint64_t i = 0; i < SMALL_AT_ONCE; i++) {
            words[i] = member->index ? 0 : small_word(first + i);
            if (member->index)
                core_receive(&core, &words[i], sizeof words[i], &transfers[i]);
            else
                core_send(&core, &words[i], sizeof words[i],
                          i % 2 && i + 1 < SMALL_AT_ONCE ? TUTTI_SEND_MORE : 0, &transfers[i]);
        }
        for (uint64_t i = 0; i < SMALL_AT_ONCE; i++) {
            expect_small(&core, &transfers[i], first + i, member->index ? "receive" : "send");
            expect_word(words[i], first + i, count);
        }
    }
    check_meet();
    core_close(&core);
}

/* ---- what is wrong --------------------------------------------------------------------------- */

void check_too_long(const struct check_member *member)
{
    struct core core = {0};
    uint8_t data[600];
    struct transfer transfer;

    core_start(&core, member);
    if (member->index == 0) {
        send_one(&core, 500, 1);
    } else {
        check_doing("receiving 500 bytes where 100 have room");
        memset(data, 0xee, sizeof data);
        core_receive(&core, data, 100, &transfer);
        tutti_status status = core_wait(&core, &transfer);
        if (status != TUTTI_ERR_INTERNAL)
            check_fails("500 bytes that met a receive of 100 end it with %s; it must be "
                        "TUTTI_ERR_INTERNAL, never a truncated message",
                        tutti_status_name(status));
        for (int i = 100; i < (int)sizeof data; i++)
            if (data[i] != 0xee)
                check_fails("500 bytes that met a receive of 100 were written past its end");
    }
    check_meet();
    core_close(&core);
}

/* Addresses of peers come from outside. */
void check_bad_address(const struct check_member *member)
{
    struct core core = {0};
    uint64_t bytes;

    core_open(&core, member);
    check_meet();
    const uint8_t *address = check_take(1 - member->index, &bytes);
    check_doing("connecting to addresses that are cut off");
    for (uint64_t cut = 0; cut < MIN(bytes, 64); cut++)
        if (core_connect(&core, address, cut) == TUTTI_OK)
            check_fails("connect takes the first %llu bytes of an address of %llu",
                        (unsigned long long)cut, (unsigned long long)bytes);
    check_meet();
    core_close(&core);
}

/* A stranger that has the address, and neither the group's token nor its key. */
void check_stranger(const struct check_member *member)
{
    struct core core = {.token = member->index ? 0x11 : CORE_TOKEN};
    uint8_t data[64] = {0};
    struct transfer transfer;

    if (check_transport(member->subject)->capabilities & TUTTI_CAP_MAP)
        check_skips("its peers are on the same host, and the core has verified them");
    core_start(&core, member);
    check_doing("talking to a process of another group");
    if (member->index) {
        /* It may be refused at once, later, or never hear of it. */
        if (core_try_send(&core, data, sizeof data, 0, &transfer) == TUTTI_OK)
            core_wait(&core, &transfer);
    } else {
        if (core_try_receive(&core, data, sizeof data, &transfer) == TUTTI_OK &&
            core_wait(&core, &transfer) == TUTTI_OK)
            check_fails("a message of a process of another group was received");
    }
    check_meet();
    core_close(&core);
}

/* Bytes that malloc() has given out, 0: not known. */
static int64_t allocated(void)
{
    const struct mallinfo2 about = mallinfo2();

    return (int64_t)(about.uordblks + about.hblkhd);
}

static void pass_small(struct core *core, const struct check_member *member, int count)
{
    uint64_t word = 0;
    struct transfer transfer;

    for (int i = 0; i < count; i++) {
        if (i % 2 == member->index)
            core_send(core, &word, sizeof word, 0, &transfer);
        else
            core_receive(core, &word, sizeof word, &transfer);
        expect_small(core, &transfer, (uint64_t)i, i % 2 == member->index ? "send" : "receive");
    }
}

/* The first messages may make what the others use again. */
static void expect_nothing_kept(struct core *core, const struct check_member *member)
{
    check_doing("passing messages that leave nothing behind");
    pass_small(core, member, KEPT_MESSAGES / 4);
    const int64_t before = allocated(), pieces = core->pieces;
    pass_small(core, member, KEPT_MESSAGES);
    const int64_t kept = allocated() - before;
    if (kept >= KEPT_MESSAGES / 2 * KEPT_BYTES)
        check_fails("after %d messages there are %lld bytes of memory more: %lld for each message "
                    "of one direction are never freed",
                    KEPT_MESSAGES, (long long)kept, (long long)kept * 2 / KEPT_MESSAGES);
    if (core->pieces - pieces >= KEPT_MESSAGES / 2)
        check_fails(
            "after %d messages there are %lld pieces of the host's memory more: each message "
            "leaves one",
            KEPT_MESSAGES, (long long)(core->pieces - pieces));
}

static void pass_large(struct core *core, const struct check_member *member)
{
    for (uint64_t i = 0; i < 4; i++) {
        if ((int)(i % 2) == member->index)
            send_one(core, LARGEST, i);
        else
            receive_one(core, LARGEST, i);
    }
}

/* Checks that a connection gives back its descriptors and memory, and so does each message. An
 * engine that a launcher starts lives as long as the process: the resources of its first use are
 * its own. */
void check_gives_back(const struct check_member *member)
{
    static struct core first, core;

    check_transport(member->subject); /* loaded from here on */
    if (member->subject->launcher) {
        core_start(&first, member);
        pass_large(&first, member);
        check_meet();
        core_close(&first);
        check_meet();
    }
    const int descriptors = check_count_in("/proc/self/fd");
    core_start(&core, member);
    pass_large(&core, member);
    expect_nothing_kept(&core, member);
    check_meet();
    core_close(&core);
    const int left = check_count_in("/proc/self/fd") - descriptors;
    if (left > 0)
        check_fails("after messages and closing the process has %d descriptors more; close gives "
                    "back those of each connection, too",
                    left);
    if (core.pieces > 0)
        check_fails("after messages and closing %lld pieces of memory that the host has allocated "
                    "are not released",
                    (long long)core.pieces);
}
