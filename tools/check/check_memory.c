/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose memory it is. A transport reads the memory of a send and writes that of a receive until the
 * request is complete or cancelled, and the host's until it has released it. Here nothing else is
 * there: sends come from pages that cannot be written, buffers end where a page ends, what was given
 * back is overwritten at once, and what was released is gone.
 */
#include "check/check_core.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
    PAGE = 4096,
    LONG = 300000,
    AT_ONCE = 6,
    LATE_US = 50000,
    VERY_LONG = 8 << 20,
    CANCELLED = 3,
    AFTERWARDS_MS = 150,
    GIVEN_BACK = 0xdd /* what memory holds that is the core's again */
};

/* Memory that ends where its pages end, with nothing before and behind them. */
struct pages {
    uint8_t *base, *data;
    uint64_t all;
};

static struct pages pages_new(uint64_t bytes)
{
    const uint64_t inside = (bytes + PAGE - 1) / PAGE * PAGE, all = inside + 2 * PAGE;
    uint8_t *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        check_fails("no memory to try it");
    mprotect(base, PAGE, PROT_NONE);
    mprotect(base + all - PAGE, PAGE, PROT_NONE);
    return (struct pages){base, base + all - PAGE - bytes, all};
}

static void pages_read_only(const struct pages *pages)
{
    mprotect(pages->base + PAGE, pages->all - 2 * PAGE, PROT_READ);
}

static void pages_free(const struct pages *pages)
{
    munmap(pages->base, pages->all);
}

static void expect_ok(struct core *core, struct transfer *transfer, const char *what,
                      uint64_t bytes)
{
    const tutti_status status = core_wait(core, transfer);

    if (status)
        check_fails("the %s of %llu bytes ends with %s", what, (unsigned long long)bytes,
                    core_says(core, status));
}

static void expect_contents(const uint8_t *data, uint64_t bytes, uint64_t number)
{
    const uint64_t place = core_differs(data, 0, bytes, number);

    if (place < bytes)
        check_fails("byte %llu of message %llu, %llu bytes, is not what was sent: corrupted; the "
                    "sender uses its memory again as soon as its send is complete",
                    (unsigned long long)place, (unsigned long long)number,
                    (unsigned long long)bytes);
}

/* Of memory that was overwritten when it was given back. */
static void expect_untouched(const uint8_t *data, uint64_t bytes, const char *when)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (data[i] != GIVEN_BACK)
            check_fails("byte %llu of %llu bytes of a receive was written %s",
                        (unsigned long long)i, (unsigned long long)bytes, when);
}

/* Moves the transport for a while, so that late effects show: of a cancel, or of a send that is
 * complete too early. */
static void turn_for_a_while(struct core *core, struct transfer *transfer)
{
    struct check_time time = check_time_of(AFTERWARDS_MS);

    while (check_time_is_left(&time)) {
        if (transfer && !transfer->cancelled && !core_is_over(core, transfer))
            core_turn(core, &transfer, 1);
        else if (TUTTI_HAS(core->ops, progress))
            core_turn(core, NULL, 0);
        g_usleep(1000);
    }
}

/* ---- sends and receives ---------------------------------------------------------------------- */

static void pass_fenced(struct core *core, bool sends, uint64_t bytes)
{
    const struct pages pages = pages_new(bytes);
    struct transfer transfer;

    if (sends) {
        core_fill(pages.data, bytes, bytes);
        pages_read_only(&pages);
        check_doing("sending %llu bytes from read-only memory that ends after them",
                    (unsigned long long)bytes);
        core_send(core, pages.data, bytes, 0, &transfer);
    } else {
        check_doing("receiving %llu bytes into memory that ends after them",
                    (unsigned long long)bytes);
        core_receive(core, pages.data, bytes, &transfer);
    }
    expect_ok(core, &transfer, sends ? "send" : "receive", bytes);
    expect_contents(pages.data, bytes, bytes);
    pages_free(&pages);
}

/* Each is overwritten as soon as it is complete, while the others are under way. */
static void send_and_overwrite(struct core *core, struct transfer *transfers)
{
    uint8_t *data[AT_ONCE];

    check_doing("sending from memory that is used again as soon as a send is complete");
    for (int i = 0; i < AT_ONCE; i++) {
        data[i] = core_buffer(LONG);
        core_fill(data[i], LONG, (uint64_t)i);
        core_send(core, data[i], LONG, 0, &transfers[i]);
        if (transfers[i].at_once)
            memset(data[i], GIVEN_BACK, LONG);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        expect_ok(core, &transfers[i], "send", LONG);
        memset(data[i], GIVEN_BACK, LONG);
    }
    turn_for_a_while(core, NULL);
    check_meet();
    for (int i = 0; i < AT_ONCE; i++)
        core_buffer_free(data[i]);
}

static void receive_and_overwrite(struct core *core, struct transfer *transfers)
{
    uint8_t *data[AT_ONCE];

    g_usleep(LATE_US);
    check_doing("receiving into memory that is used again as soon as a receive is complete");
    for (int i = 0; i < AT_ONCE; i++) {
        data[i] = core_buffer(LONG);
        core_receive(core, data[i], LONG, &transfers[i]);
    }
    for (int i = 0; i < AT_ONCE; i++) {
        expect_ok(core, &transfers[i], "receive", LONG);
        expect_contents(data[i], LONG, (uint64_t)i);
        memset(data[i], GIVEN_BACK, LONG);
    }
    check_meet();
    for (int i = 0; i < AT_ONCE; i++) {
        expect_untouched(data[i], LONG, "after it was complete");
        core_expect_intact(&transfers[i]);
        core_buffer_free(data[i]);
    }
}

void check_memory(const struct check_member *member)
{
    static const uint64_t sizes[] = {1, 64, 1000, 4096, 65536, LONG};
    static struct transfer transfers[AT_ONCE];
    struct core core = {0};

    core_start(&core, member);
    for (size_t i = 0; i < 2 * G_N_ELEMENTS(sizes); i++)
        pass_fenced(&core, (int)(i % 2) == member->index, sizes[i / 2]);
    if (member->index)
        receive_and_overwrite(&core, transfers);
    else
        send_and_overwrite(&core, transfers);
    core_close(&core);
}

/* ---- cancel ---------------------------------------------------------------------------------- */

/* Nothing else is asked of a transport after it: the peer's stream may be unusable. */
static void cancel_receives(struct core *core, bool cancels)
{
    static struct transfer transfers[CANCELLED];
    uint8_t *data[CANCELLED];

    for (int i = 0; i < CANCELLED; i++) {
        data[i] = core_buffer(LONG);
        memset(data[i], GIVEN_BACK, LONG);
        if (cancels)
            core_receive(core, data[i], LONG, &transfers[i]);
    }
    check_doing("cancelling receives");
    for (int i = 0; cancels && i < CANCELLED; i++)
        core_cancel(core, &transfers[i]);
    check_meet();
    check_doing(
        cancels
            ? "going on after cancel() of its receives, when their requests are the core's again"
            : "sending to a process that has cancelled its receives");
    for (int i = 0; !cancels && i < CANCELLED; i++)
        core_send(core, data[i], 100, 0, &transfers[i]);
    turn_for_a_while(core, cancels ? NULL : &transfers[CANCELLED - 1]);
    check_meet();
    for (int i = 0; cancels && i < CANCELLED; i++) {
        core_expect_intact(&transfers[i]);
        expect_untouched(data[i], LONG, "after cancel() of it has returned");
    }
}

/* Cancels a message that is half-way. */
static void cancel_half_way(struct core *core, bool cancels)
{
    static struct transfer transfer;
    uint8_t *data = core_buffer(VERY_LONG);

    check_doing("cancelling a receive that is half-way");
    core_fill(data, VERY_LONG, 1);
    if (cancels) {
        core_receive(core, data, VERY_LONG, &transfer);
        check_meet();
        for (int i = 0; i < 3 && !core_is_over(core, &transfer); i++, g_usleep(1000))
            core_turn(core, &(struct transfer *){&transfer}, 1);
        const bool over = core_is_over(core, &transfer);
        if (!over)
            core_cancel(core, &transfer);
        memset(data, GIVEN_BACK, VERY_LONG);
        turn_for_a_while(core, NULL);
        if (!over)
            core_expect_intact(&transfer);
        expect_untouched(data, VERY_LONG,
                         over ? "after it was complete" : "after cancel() of it has returned");
    } else {
        check_meet();
        core_send(core, data, VERY_LONG, 0, &transfer);
        turn_for_a_while(core, &transfer);
    }
    check_meet();
}

/* A send that the other side receives is taken back, and its memory is another's. That side may get nothing, or all
 * of it as it was, but not what the memory holds now. */
static void cancel_a_send(struct core *core, bool cancels)
{
    static struct transfer transfer;
    uint8_t *data = core_buffer(VERY_LONG);

    check_doing("cancelling a send that is half-way");
    core_fill(data, VERY_LONG, 2);
    if (!cancels) {
        memset(data, 0, VERY_LONG);
        core_receive(core, data, VERY_LONG, &transfer);
    }
    check_meet();
    if (cancels) {
        core_send(core, data, VERY_LONG, 0, &transfer);
        if (!core_is_over(core, &transfer))
            core_cancel(core, &transfer);
        memset(data, GIVEN_BACK, VERY_LONG);
    }
    turn_for_a_while(core, &transfer);
    if (transfer.cancelled)
        core_expect_intact(&transfer);
    if (!cancels && transfer.request.status == TUTTI_OK &&
        core_differs(data, 0, VERY_LONG, 2) < VERY_LONG)
        check_fails(
            "memory of a send was read after cancel() of it has returned: what it holds since "
            "has arrived");
    check_meet();
}

void check_cancel(const struct check_member *member)
{
    static void (*const tries[])(struct core * core,
                                 bool cancels) = {cancel_receives, cancel_half_way, cancel_a_send};
    static struct core cores[G_N_ELEMENTS(tries)];

    for (size_t i = 0; i < G_N_ELEMENTS(tries); i++) {
        core_start(&cores[i], member);
        if (!TUTTI_HAS(cores[i].ops, cancel))
            check_skips("it has no cancel(): the core gives it copies");
        for (int k = 0; k < 2; k++) /* both are connected */
            pass_fenced(&cores[i], k == member->index, 100);
        tries[i](&cores[i], member->index == 1);
        core_close(&cores[i]);
        check_meet();
    }
}

/* ---- the host's ------------------------------------------------------------------------------ */

void check_host_memory(const struct check_member *member)
{
    static const uint64_t sizes[] = {0, 8, 1000, 70000, 1 << 20};
    const uint64_t all = (sizeof(struct core) + PAGE - 1) / PAGE * PAGE;
    struct core *core = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (core == MAP_FAILED)
        check_fails("no memory to try it");
    core->fenced = true;
    core_start(core, member);
    for (size_t i = 0; i < 2 * G_N_ELEMENTS(sizes); i++)
        pass_fenced(core, (int)(i % 2) == member->index, sizes[i / 2]);
    check_meet();
    core_close(core);
    check_doing("going on after the endpoint was closed, and the host's services are gone");
    mprotect(core, all, PROT_NONE);
    g_usleep(LATE_US);
}
