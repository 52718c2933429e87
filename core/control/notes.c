/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes: what members tell the first one beside the verdict, up the tree. They are for tools that look
 * on (wrappers): nobody waits for one, and where somebody takes none in they are dropped, not kept.
 * They travel in front of their sender's leave message, on the same connections.
 */
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/codec.h"
#include "control/inside.h"

enum { NOTES_KEPT = 16384, OUT_MAX = 1 << 20 /* bytes that wait for a slow parent */ };

static void keep(struct control *control, int rank, const uint8_t *data, size_t size)
{
    if (!control->takes_notes || control->notes_count == NOTES_KEPT)
        return;
    struct control_note *note = malloc(sizeof *note + size);
    if (!note)
        return;
    note->next = NULL;
    note->rank = rank;
    note->size = size;
    memcpy(note->data, data, size);
    *(control->notes_last ? &control->notes_last->next : &control->notes) = note;
    control->notes_last = note;
    control->notes_count++;
}

/* To the parent, or for this member when it is the first. */
static void pass(struct control *control, int rank, const uint8_t *data, size_t size)
{
    uint8_t body[4 + CONTROL_NOTE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};

    if (control->rank == 0) {
        keep(control, rank, data, size);
        return;
    }
    struct control_conn *conn = control_conn_to(control, control_parent(control->rank));
    if (!conn || conn->out_size - conn->out_at > OUT_MAX)
        return;
    write_u32(&w, (uint32_t)rank);
    write_bytes(&w, data, size);
    (void)control_conn_send(control, conn, FRAME_NOTE, body, w.size);
}

void control_on_note(struct control *control, struct control_conn *from, struct reader *r)
{
    const uint32_t rank = read_u32(r);
    const size_t size = r->size - r->at;

    (void)from;
    if (!r->bad && rank < (uint32_t)control->size && size <= CONTROL_NOTE_MAX)
        pass(control, (int)rank, r->data + r->at, size);
}

void control_tell(struct control *control, const void *data, size_t size)
{
    if (size > CONTROL_NOTE_MAX)
        return;
    LOCK_SCOPE(&control->lock);
    pass(control, control->rank, data, size);
}

struct control_note *control_take_note(struct control *control)
{
    LOCK_SCOPE(&control->lock);
    struct control_note *note = control->notes;
    if (note) {
        control->notes = note->next;
        control->notes_count--;
        if (!control->notes)
            control->notes_last = NULL;
    }
    return note;
}

void control_notes_free(struct control *control)
{
    while (control->notes) {
        struct control_note *note = control->notes;

        control->notes = note->next;
        free(note);
    }
}
