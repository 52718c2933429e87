/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each member called, where members called different things under one number.
 *
 * Two members see a difference; the program's author needs to know what all others called. So the
 * member that fixes the verdict asks all others for their call of that number, and the message
 * names the sets of members with the same call. Members that have left told their last call with
 * their leave message. A member that is asked stays until the verdict has come, also one that
 * leaves. Nothing of this costs anything while members agree.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "control/inside.h"

enum {
    SETS_MAX = 4,   /* that are told in full */
    RANGES_MAX = 8, /* of one set */
    CALL_TEXT = 128
};

/* ---- calls in frames ---- */

/* The fields of a call, in their order in a frame. */
#define CALL_FIELDS(X)                                                                             \
    X(sequence)                                                                                    \
    X(signature)                                                                                   \
    X(fields.count)                                                                                \
    X(fields.dtype)                                                                                \
    X(fields.op)                                                                                   \
    X(fields.root)                                                                                 \
    X(fields.operation)                                                                            \
    X(fields.flags)                                                                                \
    X(fields.sizes)

void sides_write_call(struct writer *w, const struct announce *call)
{
#define WRITE(field) write_uint(w, (uint64_t)call->field, sizeof call->field);
    CALL_FIELDS(WRITE)
#undef WRITE
}

void sides_read_call(struct reader *r, struct announce *ret_call)
{
#define READ(field)                                                                                \
    ret_call->field = (__typeof__(ret_call->field))read_uint(r, sizeof ret_call->field);
    CALL_FIELDS(READ)
#undef READ
    if (ret_call->fields.operation >= OPERATION_COUNT)
        ret_call->fields.operation = OPERATION_NONE;
}

/* ---- gathering ---- */

/* A member that leaves a failed group tells the number of its last call alone: that is no side. */
static void note(struct control *control, int rank, const struct announce *call)
{
    if (call->sequence == control->difference.sequence &&
        call->fields.operation != OPERATION_NONE && !control->sides[rank].call.sequence)
        control->sides[rank].call = *call;
}

void sides_note_pair(struct control *control, const struct control_difference *difference)
{
    for (int i = 0; control->sides && difference->sequence && i < 2; i++)
        note(control, difference->rank[i], &difference->call[i]);
}

void sides_left(struct control *control, int rank)
{
    if (control->sides)
        note(control, rank, &control->members[rank].last);
}

void sides_answered(struct control *control, int rank, uint64_t called, const struct announce *call)
{
    if (!control->sides)
        return;
    control->sides[rank].answered = true;
    control->sides[rank].called = called;
    note(control, rank, call);
}

static void ask(struct control *control, int rank)
{
    uint8_t body[8];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u64(&w, control->difference.sequence);
    struct control_conn *conn =
        control->members[rank].left ? control_conn_to(control, rank) : control_dial(control, rank);
    if (conn)
        (void)control_conn_send(control, conn, FRAME_QUERY, body, w.size);
}

void sides_gather(struct control *control)
{
    const struct control_difference *difference = &control->difference;
    const struct announce *own = &control->members[control->rank].last;

    free(control->sides);
    control->sides = calloc((size_t)control->size, sizeof *control->sides);
    if (!control->sides)
        return;
    sides_note_pair(control, difference);
    for (int r = 0; r < control->size; r++) {
        const struct control_member *m = &control->members[r];

        if (m->left)
            note(control, r, &m->last);
        if (r != control->rank && !m->dead)
            ask(control, r);
    }
    if (control->leaving)
        sides_answered(control, control->rank, own->sequence, own);
    else
        liveness_asked(control, control->rank, difference->sequence);
}

/* A member that has left has told its last call, or does not know this one any more. */
static bool is_awaited(const struct control *control, int rank)
{
    return !member_is_gone(&control->members[rank]) && !control->sides[rank].answered;
}

bool sides_complete(const struct control *control)
{
    for (int r = 0; r < control->size; r++)
        if (is_awaited(control, r))
            return false;
    return true;
}

/* ---- telling ---- */

/* Members that made the same call. */
struct set {
    uint64_t signature;
    const struct call_fields *fields;
    int first, count;
};

/* The sets, by their lowest members; `ret_others`: how many members are in further ones. */
static int find_sets(const struct control *control, struct set sets[SETS_MAX], int *ret_others)
{
    int count = 0, s;

    *ret_others = 0;
    for (int r = 0; r < control->size; r++) {
        const struct announce *call = &control->sides[r].call;

        if (!call->sequence)
            continue;
        for (s = 0; s < count && sets[s].signature != call->signature;)
            s++;
        if (s == SETS_MAX) {
            ++*ret_others;
            continue;
        }
        if (s == count)
            sets[count++] = (struct set){call->signature, &call->fields, r, 0};
        sets[s].count++;
    }
    return count;
}

/* Which members a list names. */
struct selection {
    uint64_t signature; /* of their call */
    enum { SELECT_CALL, SELECT_SILENT, SELECT_BEHIND, SELECT_GONE } kind;
};

static bool is_selected(const struct control *control, const struct selection *of, int rank)
{
    const struct control_side *side = &control->sides[rank];

    if (of->kind == SELECT_CALL)
        return side->call.sequence && side->call.signature == of->signature;
    if (side->call.sequence)
        return false;
    if (member_is_gone(&control->members[rank]))
        return of->kind == SELECT_GONE;
    const bool behind = side->answered && side->called < control->difference.sequence;

    return of->kind == (behind ? SELECT_BEHIND : SELECT_SILENT);
}

static int count_selected(const struct control *control, const struct selection *of)
{
    int count = 0;

    for (int r = 0; r < control->size; r++)
        count += is_selected(control, of, r);
    return count;
}

/* "rank 2", "ranks 0, 1 and 3", "ranks 0-5 and 9", "ranks 0, 2, 4 and 17 more" */
static void add_ranks(struct text *text, const struct control *control, const struct selection *of)
{
    const int count = count_selected(control, of);
    int left = count, ranges = 0;

    text_add(text, "rank%s ", count == 1 ? "" : "s");
    for (int r = 0; r < control->size && left > 0; r++) {
        int last = r;

        if (!is_selected(control, of, r))
            continue;
        if (ranges == RANGES_MAX) {
            text_add(text, " and %d more", left);
            return;
        }
        while (last + 1 < control->size && is_selected(control, of, last + 1))
            last++;
        if (last == r + 1) /* two are no range */
            last = r;
        left -= last - r + 1;
        text_add(text, "%s%d", !ranges ? "" : left ? ", " : " and ", r);
        if (last > r)
            text_add(text, "-%d", last);
        ranges++;
        r = last;
    }
}

static void add_absent(struct text *text, const struct control *control)
{
    static const struct {
        struct selection of;
        const char *one, *several;
    } kinds[] = {
        {{0, SELECT_BEHIND}, "has not called it", "have not called it"},
        {{0, SELECT_SILENT}, "has not answered", "have not answered"},
        {{0, SELECT_GONE}, "is gone", "are gone"},
    };

    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const int count = count_selected(control, &kinds[i].of);

        if (!count)
            continue;
        text_add(text, "; ");
        add_ranks(text, control, &kinds[i].of);
        text_add(text, " %s", count == 1 ? kinds[i].one : kinds[i].several);
    }
}

/* The lowest member of the smallest set; of equal ones the last, as most programs mean what rank 0 does. */
static int culprit_of(const struct set *sets, int count)
{
    const struct set *smallest = &sets[0];

    for (int s = 1; s < count; s++)
        if (sets[s].count <= smallest->count)
            smallest = &sets[s];
    return smallest->first;
}

void sides_tell(const struct control *control, struct control_verdict *verdict)
{
    struct set sets[SETS_MAX];
    char call[CALL_TEXT];
    int others, count = control->sides ? find_sets(control, sets, &others) : 0;

    if (count < 2) /* of one side only the member that proposed knows something */
        return;
    struct text text = text_in(verdict->message, sizeof verdict->message);
    const bool same = !memcmp(sets[0].fields, sets[1].fields, sizeof *sets[0].fields);

    text_add(&text, "group %s: members called different things as #%llu", control->name,
             (unsigned long long)control->difference.sequence);
    for (int s = 0; s < count; s++) {
        const struct selection of = {sets[s].signature, SELECT_CALL};

        control->call_text(sets[s].fields, call, sizeof call);
        text_add(&text, "%s ", s ? ";" : ":");
        add_ranks(&text, control, &of);
        text_add(&text, ": %s", call);
    }
    if (others)
        text_add(&text, "; %d more called something else", others);
    add_absent(&text, control);
    if (same)
        text_add(&text, " (the same now, but not all calls before it were)");
    verdict->culprit = culprit_of(sets, count);
}
