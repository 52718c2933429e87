/* SPDX-License-Identifier: Apache-2.0 */
#include "schedule/windows.h"

struct windows windows_of(const struct mapped *mapped, const struct schedule *schedule)
{
    const uint32_t lap = mapped_lap_pages(schedule->local_size);

    if (schedule->swap_pages)
        return (struct windows){schedule->swap_pages, schedule->swap_pages, true};
    const bool two = mapped && schedule->local_size <= MAPPED_LOCAL_FEW &&
                     (schedule->pages <= mapped->few_pages || schedule->one_way);

    return (struct windows){two ? 2 * lap : lap, lap, false};
}

/* Whose window, and where in it. */
static const struct mapped_area *area_of(const struct mapped *mapped, const struct windows *windows,
                                         int owner, uint32_t page, uint64_t *ret_at)
{
    const uint64_t absolute = mapped->pages + page;
    const bool other = windows->swaps && absolute / windows->pages % 2;

    *ret_at = absolute % windows->pages * MAPPED_PAGE;
    return mapped->areas[other ? !owner : owner];
}

unsigned char *windows_in(const struct mapped *mapped, const struct windows *windows, int owner,
                          uint32_t page)
{
    uint64_t at;
    const struct mapped_area *area = area_of(mapped, windows, owner, page, &at);

    return (unsigned char *)area->in.bytes + at;
}

unsigned char *windows_out(const struct mapped *mapped, const struct windows *windows, int owner,
                           uint32_t page)
{
    uint64_t at;
    const struct mapped_area *area = area_of(mapped, windows, owner, page, &at);

    return (unsigned char *)area->out.bytes + at;
}

static uint64_t later(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) > 0 ? a : b;
}

static uint64_t earlier(uint64_t a, uint64_t b)
{
    return (int64_t)(a - b) > 0 ? b : a;
}

/* Operations that swapped after fewer pages than this one goes back have left something nearer than that. Asked with each
 * poll, for each local peer: more than two never swap. */
uint64_t windows_used_before(const struct mapped *mapped, const struct windows *windows,
                             int64_t value)
{
    uint64_t needed = mapped->pages + (uint64_t)value;
    const uint64_t end = needed + windows->back;

    if (value >= 0 || mapped->local_size != 2)
        return needed;
    for (int i = 0; i < MAPPED_SWAPS; i++) {
        const uint32_t pages = MAPPED_SWAP_PAGES_MIN << i;

        if (pages >= windows->back)
            break;
        needed = later(needed, earlier(mapped->swapped_until[i], end - pages));
    }
    return needed;
}

void windows_note(struct mapped *mapped, const struct windows *windows, uint32_t pages)
{
    for (int i = 0; windows->swaps && i < MAPPED_SWAPS; i++)
        if (windows->pages == (uint32_t)MAPPED_SWAP_PAGES_MIN << i)
            mapped->swapped_until[i] = mapped->pages + pages;
}
