/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host-mates while their group lives: byes and the verdict in the page that all of them map, and the
 * end of a mate's process.
 *
 * The page is writable for every mate, so what is read from it is checked as if it came over a
 * connection. Whoever publishes the verdict first fixes it for the host; a bye that is in the page is
 * taken before the death of its process, which then was a leaving.
 */
#include <string.h>

#include "base/text.h"
#include "control/mates.h"

static void note_bye(struct mates *mates, int index)
{
    struct control_member *member = &mates->control->members[mates->peers[index].rank];

    if (!mates->page || !atomic_load(&mates->page->lines[index].left) || member->left)
        return;
    const struct announce last = mates->page->lines[index].last;
    control_left(mates->control, mates->peers[index].rank, &last, NULL);
}

void mates_on_death(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct mates_peer *peer = (struct mates_peer *)watch;

    (void)events;
    note_bye(control->mates, (int)(peer - control->mates->peers));
    control_watch_forget(control, watch);
    control_disconnected(control, peer->rank, "its process ended without a bye");
}

bool mates_read_verdict(const struct mates *mates, struct control_verdict *ret_verdict)
{
    const struct mates_page *page = mates->page;

    if (mates->state != MATES_READY ||
        atomic_load_explicit(&page->verdict_state, memory_order_acquire) != 2)
        return false;
    ret_verdict->status = page->status;
    ret_verdict->culprit = page->culprit;
    memcpy(ret_verdict->words, page->words, sizeof ret_verdict->words);
    ret_verdict->words[sizeof ret_verdict->words - 1] = 0;
    text_make_printable(ret_verdict->words);
    return ret_verdict->status < 0 && ret_verdict->culprit >= -1 &&
           ret_verdict->culprit < mates->control->size;
}

static void adopt_from_page(struct mates *mates)
{
    struct control_verdict verdict;

    if (!mates->control->verdict.status && mates_read_verdict(mates, &verdict))
        verdict_adopt(mates->control, &verdict, NULL);
}

void mates_poll(struct mates *mates)
{
    mates_expire_half_open(mates);
    mates_free_closed_links(mates);
    mates_accept_again(mates);
    if (mates->state != MATES_READY)
        return;
    for (int i = 0; i < mates->count; i++)
        note_bye(mates, i);
    adopt_from_page(mates);
}

void mates_publish_verdict(struct mates *mates, struct control_verdict *verdict)
{
    uint32_t none = 0;
    struct mates_page *page = mates->page;

    if (mates->state != MATES_READY)
        return;
    if (atomic_compare_exchange_strong(&page->verdict_state, &none, 1)) {
        page->status = verdict->status;
        page->culprit = verdict->culprit;
        memcpy(page->words, verdict->words, sizeof page->words);
        atomic_store_explicit(&page->verdict_state, 2, memory_order_release);
    } else {
        (void)mates_read_verdict(mates, verdict);
    }
    mates_ring_all(mates);
}

void mates_say_bye(struct mates *mates, const struct announce *last)
{
    if (mates->state != MATES_READY)
        return;
    mates->page->lines[mates->self].last = *last;
    atomic_store(&mates->page->lines[mates->self].left, 1);
    mates_ring_all(mates);
}
