/* SPDX-License-Identifier: Apache-2.0 */
/* Which stores the members of a host take, by what whole calls cost: schedule/trial.h. */
#include <criterion/criterion.h>
#include <sys/mman.h>

#include "schedule/mapped.h"
#include "schedule/trial.h"

enum { PLAN = 0x1234, OTHER_PLAN = PLAN + TRIAL_WAYS * MAPPED_TRIALS };

/* A machine on which a call takes so many ticks once its windows are as its stores leave them. */
struct costs {
    uint64_t of[TRIAL_WAYS];
};

static const struct costs near = {{50, 64, 50, 64}}, far = {{530, 115, 530, 115}},
                          alike = {{100, 95, 93, 90}};

/* Where outputs are not kept, and where windows and outputs stream, or one of the two. */
static const struct costs outputs = {{400, 500, 300, 350}}, both = {{400, 300, 500, 200}};

struct host {
    struct mapped_area *area;
    struct mapped first, second;
    struct trial trial, copy; /* of the two members */
    uint64_t bytes;           /* of the windows, that a call uses */
    uint64_t since;           /* the way has changed: bytes of the windows */
    uint8_t way;
};

static void host_open(struct host *host, uint64_t bytes)
{
    *host = (struct host){
        .trial = {.plan = PLAN, .may = TRIAL_WINDOWS}, .copy.plan = PLAN, .bytes = bytes};
    host->area =
        mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(host->area, MAP_FAILED);
    host->first.areas = host->second.areas = &host->area;
    host->second.self = 1;
}

static void host_close(struct host *host)
{
    munmap(host->area, MAPPED_BYTES);
}

/* One call; returns its way. `late`: ticks that it waited for a peer. */
static uint8_t call(struct host *host, struct costs costs, uint64_t late)
{
    const uint8_t way = trial_way(&host->trial, &host->first, 0);
    const uint64_t ticks = costs.of[way];

    cr_assert_eq(trial_way(&host->copy, &host->second, 0), way);
    if (way != host->way)
        host->since = 0;
    host->way = way;
    /* Windows that the other stores have left are expensive for both. */
    trial_took(&host->trial, (host->since < 2 * 1024 * 1024 ? 10 * ticks : ticks) + late,
               host->bytes);
    host->since += host->bytes;
    return way;
}

static unsigned count(struct host *host, struct costs costs, unsigned calls, uint8_t way)
{
    unsigned found = 0;

    for (unsigned i = 0; i < calls; i++)
        found += call(host, costs, i % 4 ? 1000 : 0) == way;
    return found;
}

static unsigned count_streaming(struct host *host, struct costs costs, unsigned calls)
{
    return count(host, costs, calls, TRIAL_WINDOWS);
}

/* Blocks of calls that use 256 KiB of the windows have 20. */
Test(trial, the_faster_way_is_taken_and_the_other_tried_rarely)
{
    const uint64_t sizes[] = {8 * 1024, 256 * 1024, 16 * 1024 * 1024};

    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct host host;

        host_open(&host, sizes[i]);
        count_streaming(&host, near, 300000);
        cr_expect_leq(count_streaming(&host, near, 100000), 100000 / 50, "%zu", i);
        host_close(&host);
        host_open(&host, sizes[i]);
        count_streaming(&host, far, 300000);
        cr_expect_geq(count_streaming(&host, far, 100000), 100000 - 100000 / 50, "%zu", i);
        host_close(&host);
    }
}

Test(trial, it_starts_plain_and_finds_the_faster_way_within_four_blocks)
{
    struct host host;

    host_open(&host, 256 * 1024);
    cr_expect_not(call(&host, far, 0));
    count_streaming(&host, far, 4 * 20);
    cr_expect(call(&host, far, 0));
    host_close(&host);
}

/* A hypervisor moves one of the CPUs. */
Test(trial, it_follows_when_the_costs_change)
{
    struct host host;

    host_open(&host, 256 * 1024);
    for (int i = 0; i < 3; i++) {
        count_streaming(&host, near, 3 * 128 * 20);
        cr_expect_leq(count_streaming(&host, near, 128 * 20), 2 * 20);
        count_streaming(&host, far, 3 * 128 * 20);
        cr_expect_geq(count_streaming(&host, far, 128 * 20), 126 * 20);
    }
    host_close(&host);
}

Test(trial, a_small_difference_changes_nothing)
{
    struct host host;

    host_open(&host, 256 * 1024);
    count_streaming(&host, alike, 100000);
    cr_expect_not(host.trial.chosen);
    host_close(&host);
}

/* What another plan, or a peer that writes nonsense, has left in the word is no way of this plan. */
Test(trial, the_others_follow_the_member_that_decides_in_the_calls_of_its_plan_alone)
{
    struct host host;
    const struct trial other = {.plan = OTHER_PLAN, .way = TRIAL_OUTPUTS};

    host_open(&host, 256 * 1024);
    host.trial.way = TRIAL_OUTPUTS;
    cr_expect_eq(trial_way(&host.trial, &host.first, 0), TRIAL_OUTPUTS);
    cr_expect_eq(trial_way(&host.copy, &host.second, 0), TRIAL_OUTPUTS);
    cr_expect_eq(trial_way(&other, &host.first, 0), TRIAL_OUTPUTS);
    cr_expect_eq(trial_way(&host.copy, &host.second, 0), 0);
    host.area->trials[PLAN / TRIAL_WAYS % MAPPED_TRIALS] = UINT64_MAX;
    cr_expect_eq(trial_way(&host.copy, &host.second, 0), 0);
    host.copy.way = TRIAL_OUTPUTS; /* as its calls began */
    cr_expect_eq(trial_way(&host.copy, &host.second, 0), TRIAL_OUTPUTS);
    host_close(&host);
}

Test(trial, any_member_may_decide)
{
    struct host host;
    struct mapped_area *areas[2];

    host_open(&host, 256 * 1024);
    areas[0] = host.area;
    areas[1] = mmap(NULL, MAPPED_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(areas[1], MAP_FAILED);
    host.first.areas = host.second.areas = areas;
    host.copy.way = TRIAL_WINDOWS;
    cr_expect_eq(trial_way(&host.copy, &host.second, 1), TRIAL_WINDOWS);
    cr_expect_eq(trial_way(&host.trial, &host.first, 1), TRIAL_WINDOWS);
    munmap(areas[1], MAPPED_BYTES);
    host_close(&host);
}

Test(trial, kinds_of_stores_are_tried_by_themselves)
{
    const struct {
        const struct costs *costs;
        uint8_t may, best;
    } cases[] = {{&outputs, TRIAL_OUTPUTS, TRIAL_OUTPUTS},
                 {&outputs, TRIAL_WINDOWS | TRIAL_OUTPUTS, TRIAL_OUTPUTS},
                 {&outputs, TRIAL_WINDOWS, 0},
                 {&both, TRIAL_WINDOWS | TRIAL_OUTPUTS, TRIAL_WINDOWS | TRIAL_OUTPUTS},
                 {&both, TRIAL_OUTPUTS, 0},
                 {&near, TRIAL_WINDOWS | TRIAL_OUTPUTS, 0}};

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct host host;

        host_open(&host, 1024 * 1024);
        host.trial.may = cases[i].may;
        count(&host, *cases[i].costs, 10000, 0);
        cr_expect_geq(count(&host, *cases[i].costs, 10000, cases[i].best), 10000 - 10000 / 25,
                      "%zu", i);
        host_close(&host);
    }
}
