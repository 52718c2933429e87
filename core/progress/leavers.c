/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Members that leave or are lost: what the end of a connection means.
 *
 * The end of a connection may overtake the leave message of a member that left in order, so it is
 * believed only a little later. A connection that the network does not answer is believed after
 * another second, in which the control plane finds out whether the whole host has vanished; then the
 * connection is named, not a member, because both its ends may be alive. Time in which this process got no
 * processor does not count: members that pass the leave message on often got none, either. All of this runs under
 * the progress lock.
 */
#include <tutti/p2p.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "group/group.h"
#include "progress/progress.h"
#include "provider/routes.h"

enum {
    SUSPICION_MS = 100,
    LINK_MS = 1000,
    LOOK_MS = 25, /* as much between two looks counts; a process that waits looks every 20 ms */
    SUSPICION_MAX = 300 /* bytes of text that others wrote */
};

/* Notes that a connection has ended; leavers_judge() decides. Without memory the message is dropped. */
void group_suspect(struct tutti_group *group, int rank, const char *provider, const char *message,
                   bool link)
{
    struct member *member = &group->ways.members[rank];
    char said[SUSPICION_MAX];

    if (!member->suspected_ns)
        member->suspected_ns = clock_now_ns();
    member->link_lost |= link;
    group->ways.any_suspect = true;
    if (!message || !*message || member->suspicion)
        return;
    snprintf(said, sizeof said, "%s: %s", provider, message);
    member->suspicion = strdup(said);
}

/* Ends the messages to and from a member that left in order. */
static void end_messages_with(struct tutti_group *group, int rank)
{
    char unclaimed[GROUP_UNCLAIMED_MAX];

    for (struct call *call = group->calls.messages.first, *next; call; call = next) {
        next = call->next;
        if (!call_is_failing(call) || call->peer != rank)
            continue;
        group_describe_unclaimed(group, call, rank, unclaimed);
        error_set(TUTTI_ERR_PEER_LOST, "group %s: rank %d left the group %s with tag %" PRIu64 "%s",
                  group->name, rank,
                  call->kind == CALL_SEND ? "before it received the message"
                                          : "and sent no more messages",
                  call->tag, unclaimed);
        error_where(group->rank, rank, 0, NULL);
        group_complete(group, call, TUTTI_ERR_PEER_LOST);
    }
}

/* It left after its part, yet ours needs something of it that has not arrived and never will. */
static void propose_cut_off(struct tutti_group *group, int rank)
{
    char what[192], message[CONTROL_MESSAGE_MAX];

    group_describe_call(group->calls.queue.first, what, sizeof what);
    snprintf(message, sizeof message, "rank %d left before rank %d had all that it sent for %s",
             rank, group->rank, what);
    control_propose(group->control, TUTTI_ERR_PEER_LOST, rank, message);
}

bool group_is_last(const struct tutti_group *group)
{
    for (int r = 0; r < group->size; r++)
        if (r != group->rank && !group->ways.members[r].gone)
            return false;
    return group->size > 1;
}

/* No rank is left that could send to a receive from any source but this rank itself: a thread that
 * waits in the call does not, one that has only started it may. */
static void end_any_source(struct tutti_group *group)
{
    if (!group_is_last(group))
        return;
    for (struct call *call = group->calls.messages.first, *next; call; call = next) {
        next = call->next;
        if (call->kind != CALL_RECV || call->peer != TUTTI_ANY_SOURCE || call->state.work ||
            p2p_cancel(&call->message))
            continue;
        error_set(TUTTI_ERR_PEER_LOST,
                  "group %s: a receive from any source, tag %llu: every other member left",
                  group->name, (unsigned long long)call->tag);
        group_complete(group, call, TUTTI_ERR_PEER_LOST);
    }
}

/* Whether nothing has arrived of a member since it was looked at. A process that got no processor for a while
 * finds the time over and everything still unread: it looks before it judges. */
static bool is_silent(struct tutti_group *group, int rank, int64_t now)
{
    struct member *member = &group->ways.members[rank];

    if (now <= member->suspected_ns + SUSPICION_MS * CLOCK_NS_PER_MS)
        return false;
    p2p_hear(group->ways.p2p_engine);
    const uint64_t arrived = routes_arrived(group, rank);
    const bool silent = arrived == member->arrived;
    if (!silent)
        member->suspected_ns = now;
    member->arrived = arrived;
    return silent;
}

/* The paths to members that left in order are ended, once what they had sent must have arrived. */
void leavers_look(struct tutti_group *group, int64_t now)
{
    for (int r = 0; r < group->size; r++) {
        struct member *member = &group->ways.members[r];

        if (!group->control->members[r].left || member->gone || r == group->rank)
            continue;
        if (!member->suspected_ns) {
            member->suspected_ns = now;
            member->arrived = routes_arrived(group, r);
            group->ways.any_suspect = true;
        } else if (is_silent(group, r, now)) {
            member->gone = true;
            routes_end(group, r);
        }
    }
    if (group->calls.messages.first && group->ways.any_suspect)
        end_any_source(group);
}

static int64_t patience_ms(const struct member *member)
{
    return member->link_lost ? LINK_MS : SUSPICION_MS;
}

static void propose_lost(struct tutti_group *group, int rank)
{
    struct control *control = group->control;
    const struct member *member = &group->ways.members[rank];
    const char *said = member->suspicion;
    char who[CONTROL_HOST_MAX + 64], own[CONTROL_HOST_MAX + 64], message[CONTROL_MESSAGE_MAX];

    control_describe(control, rank, who, sizeof who);
    control_describe(control, group->rank, own, sizeof own);
    if (member->link_lost)
        snprintf(
            message, sizeof message,
            "the connection between %s and %s was lost, and both may be alive%s%s%s; check the "
            "link, firewalls and routes between their hosts",
            own, who, said ? " (" : "", said ? said : "", said ? ")" : "");
    else
        snprintf(message, sizeof message,
                 "%s was lost: its connection ended before it left the group%s%s%s", who,
                 said ? " (" : "", said ? said : "", said ? ")" : "");
    control_propose(control, TUTTI_ERR_PEER_LOST, member->link_lost ? -1 : rank, message);
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void leavers_judge(struct tutti_group *group, int64_t now)
{
    struct control *control = group->control;

    if (!group->ways.any_suspect)
        return;
    const int64_t passed = least(now - group->ways.judged_ns, LOOK_MS * CLOCK_NS_PER_MS);
    group->ways.judged_ns = now;
    for (int r = 0; r < group->size; r++) {
        struct member *member = &group->ways.members[r];

        if (!member->suspected_ns)
            continue;
        member->doubted_ns += least(passed, now - member->suspected_ns);
        if (control->members[r].left) {
            end_messages_with(group, r);
            if (group->calls.queue.first && call_is_failing(group->calls.queue.first))
                propose_cut_off(group, r);
        } else if (member->doubted_ns > patience_ms(member) * CLOCK_NS_PER_MS) {
            propose_lost(group, r);
        }
    }
}
