/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Local peers while their group lives: leave messages and the verdict in the page that all of them map, and the
 * end of a local peer's process.
 *
 * The page is writable for every local peer, so what is read from it is checked as if it came over a
 * connection. The member that publishes a verdict first fixes it for the host. A leave message in
 * the page is read before the death of its process is judged, so the process counts as left and not
 * as lost.
 */
#include <sched.h>
#include <string.h>

#include "base/text.h"
#include "control/inside.h"
#include "local/local.h"

/* The page's verdict, if there is one. */
static bool read_verdict(const struct local_peers *local, struct control_verdict *ret_verdict)
{
    const struct local_page *page = local->page;

    if (local->state != LOCAL_READY ||
        atomic_load_explicit(&page->verdict_state, memory_order_acquire) != 2)
        return false;
    ret_verdict->status = page->status;
    ret_verdict->culprit = page->culprit;
    memcpy(ret_verdict->message, page->message, sizeof ret_verdict->message);
    ret_verdict->message[sizeof ret_verdict->message - 1] = 0;
    text_make_printable(ret_verdict->message);
    return ret_verdict->status < 0 && ret_verdict->culprit >= -1 &&
           ret_verdict->culprit < local->control->size;
}

static void adopt_published(struct local_peers *local)
{
    struct control_verdict verdict;

    if (!local->control->verdict.status && read_verdict(local, &verdict))
        verdict_adopt(local->control, &verdict, NULL);
}

/* A local peer may have published a verdict before it left. Members that this one tells of the leave message must
 * know that verdict first. */
static void note_leave(struct local_peers *local, int index)
{
    struct control_member *member = &local->control->members[local->peers[index].rank];

    if (!local->page || !atomic_load(&local->page->lines[index].left) || member->left)
        return;
    const struct announce last = local->page->lines[index].last;
    adopt_published(local);
    control_left(local->control, local->peers[index].rank, &last, NULL);
}

void local_on_death(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct local_peer *peer = (struct local_peer *)watch;

    (void)events;
    note_leave(control->local, (int)(peer - control->local->peers));
    control_watch_forget(control, watch);
    control_disconnected(control, peer->rank, "its process ended before it left the group");
}

static void poll_local(struct local_peers *local)
{
    local_expire_half_open(local);
    local_free_closed_links(local);
    control_accept_again(local->control, &local->listener);
    local_join_again(local);
    if (local->state != LOCAL_READY)
        return;
    for (int i = 0; i < local->count; i++)
        note_leave(local, i);
    adopt_published(local);
}

static void publish_verdict(struct local_peers *local, struct control_verdict *verdict)
{
    uint32_t none = 0;
    struct local_page *page = local->page;

    if (local->state != LOCAL_READY)
        return;
    if (atomic_compare_exchange_strong(&page->verdict_state, &none, 1)) {
        page->status = verdict->status;
        page->culprit = verdict->culprit;
        memcpy(page->message, verdict->message, sizeof page->message);
        atomic_store_explicit(&page->verdict_state, 2, memory_order_release);
    } else {
        (void)read_verdict(local, verdict);
    }
    local_ring_all(local);
}

static void leave(struct local_peers *local, const struct announce *last)
{
    if (local->state != LOCAL_READY)
        return;
    local->page->lines[local->self].last = *last;
    atomic_store(&local->page->lines[local->self].left, 1);
    local_ring_all(local);
}

static bool are_all(const struct local_peers *local)
{
    return local->state == LOCAL_READY && local->count == local->control->size;
}

/* One that has left waits for nothing that we could do. */
static bool is_awake(const struct local_line *line)
{
    return !atomic_load_explicit(&line->sleeping, memory_order_relaxed) &&
           !atomic_load_explicit(&line->left, memory_order_relaxed);
}

bool local_shares_cpu(struct local_peers *local, bool asks)
{
    struct local_line *lines = local->page->lines, *own = &lines[local->self];
    const int cpu = sched_getcpu();

    if (cpu < 0)
        return false;
    const uint32_t told = (uint32_t)cpu + 1;
    if (atomic_load_explicit(&own->cpu, memory_order_relaxed) != told)
        atomic_store_explicit(&own->cpu, told, memory_order_relaxed);
    for (int i = 0; asks && i < local->count; i++)
        if (i != local->self && is_awake(&lines[i]) &&
            atomic_load_explicit(&lines[i].cpu, memory_order_relaxed) == told)
            return true;
    return false;
}

const struct control_local_ops local_page_ops = {
    .poll = poll_local,
    .leave = leave,
    .publish_verdict = publish_verdict,
    .are_all = are_all,
};
