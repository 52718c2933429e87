/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an agreement hears over the control tree. The tree calls back under its lock, so a frame or
 * the end of a member is only noted there. The thread that waits in agree.c works on it: reports go
 * on up (the leader's stay), roster and outcome go on down.
 */
#include "agreement/agree.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "control/inside.h"

static void note(struct agreement *a, enum frame_type type, int rank, const void *data, size_t size)
{
    struct agree_note *n = malloc(sizeof *n + size + 1);

    if (!n) {
        a->note_lost = true;
        return;
    }
    *n = (struct agree_note){.type = type, .rank = rank, .size = size};
    memcpy(n->data, data, size);
    n->data[size] = 0;
    *a->notes_tail = n;
    a->notes_tail = &n->next;
}

static void on_frame(void *user, enum frame_type type, const uint8_t *body, size_t size)
{
    note(user, type, -1, body, size);
}

static void on_gone(void *user, int rank, const char *message)
{
    note(user, FRAME_LEAVE, rank, message, strlen(message));
}

/* A round may be over before all have connected: a late member hears of each round. */
static void on_joined(void *user, struct control_conn *conn)
{
    const struct agreement *a = user;
    uint8_t bytes[AGREE_MESSAGE_MAX + 64];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};

    for (int round = 1; round <= AGREE_ROUNDS_MAX; round++) {
        if (!a->told[round].kind)
            continue;
        w.size = 0;
        outcome_encode(&w, &a->told[round]);
        (void)control_conn_send(a->group->control, conn, FRAME_OUTCOME, w.data, w.size);
    }
}

void agree_tell_outcome(struct agreement *a, const struct outcome *outcome)
{
    struct control *control = a->group->control;
    uint8_t bytes[AGREE_MESSAGE_MAX + 64];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};

    if (outcome->round < 1 || outcome->round > AGREE_ROUNDS_MAX)
        return;
    pthread_mutex_lock(&control->lock);
    bool told = a->told[outcome->round].kind != OUTCOME_NONE;
    a->told[outcome->round] = *outcome;
    pthread_mutex_unlock(&control->lock);
    if (told)
        return;
    outcome_encode(&w, outcome);
    control_send_down(control, FRAME_OUTCOME, w.data, w.size);
}

const struct control_handlers agree_handlers = {on_frame, on_gone, on_joined};

/* Copies the provider addresses of a member, which lie in the frame. */
static tutti_status take_addresses(struct control_member *m, const struct report *entry)
{
    for (int level = 0; level < PROVIDERS; level++) {
        const size_t bytes = entry->provider_address_size[level];
        uint8_t *copy = malloc(bytes + 1);

        if (!copy)
            return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the roster");
        if (bytes)
            memcpy(copy, entry->provider_address[level], bytes);
        free(m->provider_address[level]);
        m->provider_address[level] = copy;
        m->provider_address_size[level] = (uint32_t)bytes;
    }
    return TUTTI_OK;
}

static tutti_status take_roster(struct agreement *a, const struct agree_note *n)
{
    struct control *control = a->group->control;
    struct reader r = {.data = n->data, .size = n->size};
    tutti_status status = TUTTI_OK;

    if (read_u32(&r) != a->round)
        return TUTTI_OK; /* of a round that is over */
    control_send_down(control, FRAME_ROSTER, n->data, n->size);
    pthread_mutex_lock(&control->lock);
    for (int i = 0; i < a->group->size && !status; i++) {
        struct report entry;
        size_t size;
        const uint8_t *blob = read_blob(&r, &size);

        if (!blob || !report_decode(blob, size, a->group->size, &entry) || entry.rank != i) {
            status = error_set(TUTTI_ERR_INTERNAL, "the roster is damaged");
            break;
        }
        struct control_member *m = &control->members[i];
        m->address = entry.address;
        m->address_size = address_bytes(&entry.address);
        m->pid = entry.pid;
        memcpy(m->host, entry.host, sizeof m->host);
        if (i != a->group->rank)
            status = take_addresses(m, &entry);
    }
    pthread_mutex_unlock(&control->lock);
    a->have_roster = !status;
    return status;
}

void agree_fill_report(const struct agreement *a, enum report_phase phase, tutti_status status,
                       struct report *report)
{
    const struct tutti_group *group = a->group;
    const struct control_member *me = &group->control->members[group->rank];

    *report = (struct report){.phase = phase,
                              .round = a->round,
                              .rank = group->rank,
                              .status = status,
                              .failed_level = -1,
                              .pid = (int32_t)getpid(),
                              .address = group->control->address};
    if (status)
        snprintf(report->message, sizeof report->message, "%.*s", TEXT_CUT(error_message(), 900));
    if (gethostname(report->host, sizeof report->host - 1))
        snprintf(report->host, sizeof report->host, "?");
    for (int level = 0; level < PROVIDERS && phase == REPORT_OPENED; level++) {
        report->provider_address[level] = me->provider_address[level];
        report->provider_address_size[level] = me->provider_address_size[level];
    }
}

tutti_status agree_send_report(struct agreement *a, const struct report *report)
{
    if (a->lead)
        return lead_report(a, report);
    const struct writer w = report_pack(report);
    AUTOFREE uint8_t *data = w.data;

    return data ? control_send_up(a->group->control, FRAME_REPORT, data, w.size)
                : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a report");
}

static tutti_status take_gone(struct agreement *a, const struct agree_note *n)
{
    struct report report;

    if (n->rank == control_parent(a->group->rank)) {
        error_set(TUTTI_ERR_PEER_LOST, "group %s: %s", a->group->name, (const char *)n->data);
        return agree_give_up(a, TUTTI_ERR_PEER_LOST, n->rank);
    }
    /* In the name of a member that cannot report any more. */
    agree_fill_report(a, a->have_roster ? REPORT_CONNECTED : REPORT_OPENED, TUTTI_ERR_PEER_LOST,
                      &report);
    report.rank = n->rank;
    snprintf(report.message, sizeof report.message, "%s", (const char *)n->data);
    return agree_send_report(a, &report);
}

static tutti_status take_note(struct agreement *a, const struct agree_note *n)
{
    struct control *control = a->group->control;
    struct report report;

    switch (n->type) {
    case FRAME_REPORT:
        if (!a->lead)
            return control_send_up(control, FRAME_REPORT, n->data, n->size);
        if (!report_decode(n->data, n->size, a->group->size, &report))
            return error_set(TUTTI_ERR_INTERNAL, "a report is damaged");
        return lead_report(a, &report);
    case FRAME_ROSTER:
        return take_roster(a, n);
    case FRAME_OUTCOME: {
        struct outcome outcome;

        if (!outcome_decode(n->data, n->size, a->group->size, &outcome))
            return error_set(TUTTI_ERR_INTERNAL, "the outcome is damaged");
        agree_tell_outcome(a, &outcome);
        if (outcome.round == a->round)
            a->outcome = outcome;
        return TUTTI_OK;
    }
    case FRAME_LEAVE:
        return take_gone(a, n);
    default:
        return TUTTI_OK;
    }
}

tutti_status agree_take_notes(struct agreement *a)
{
    struct control *control = a->group->control;
    tutti_status status = TUTTI_OK;

    for (;;) {
        pthread_mutex_lock(&control->lock);
        struct agree_note *n = a->outcome.kind ? NULL : a->notes; /* then it is the next round's */
        if (n) {
            a->notes = n->next;
            if (!a->notes)
                a->notes_tail = &a->notes;
        }
        const bool lost = a->note_lost;
        pthread_mutex_unlock(&control->lock);
        if (lost && agree_goes_on(a, status))
            status = error_set(TUTTI_ERR_NO_MEMORY,
                               "group %s: rank %d has no memory for a message of the agreement",
                               a->group->name, a->group->rank);
        if (!n)
            return status;
        if (!status)
            status = take_note(a, n);
        free(n);
    }
}

void agree_drop_notes(struct agreement *a)
{
    while (a->notes) {
        struct agree_note *n = a->notes;

        a->notes = n->next;
        free(n);
    }
}
