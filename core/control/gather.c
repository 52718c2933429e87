/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All-gathers of bytes among all members, for providers: tutti_host.gather_start.
 *
 * The bytes go up the tree and the whole comes down it. A member sends up what it has from all members below
 * it, in one frame, so that at most one frame of each gather waits for a reader. A gather is known by
 * the agreement's round, the provider's place in the group and its number there; each provider has one at
 * a time, so a member holds two of each provider at most: the one that it has not taken yet, and the next one,
 * which members below it have begun. Frames for others are dropped.
 *
 * Everything is under the control plane's lock. A gather that cannot be completed any more ends with the
 * verdict, or at its deadline.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/text.h"
#include "control/inside.h"

_Static_assert((int)GATHER_PLACES == (int)CONTROL_PROVIDERS, "each provider has a place");

enum {
    AHEAD = 2,        /* gathers of a provider that may be held */
    LEFT_MS = 1000,   /* after a member has left; the bytes of all may be on their way */
    UNPOLLED_MS = 25, /* then no other thread makes progress on the connections */
    HEADER = 4 + 4 + 8 + 4
};

struct gather {
    struct gather *next;
    uint32_t round, place;
    uint64_t number;
    uint32_t count; /* bytes of each member */
    char name[32];  /* the provider's, for messages */
    int64_t deadline_ns;
    int64_t left_ns; /* a member was seen to have left then; 0: none */
    bool started;    /* by this member */
    bool passed;     /* up the tree, or down it from the first member */
    bool complete;   /* `all` is */
    int differs;     /* a rank that gives another number of bytes; -1: none */
    uint32_t differs_count;
    int awaited;  /* members below, and this one, whose bytes are not here */
    uint8_t *has; /* [size] */
    uint8_t *all; /* [size * count], in the order of ranks */
};

/* Whether `rank` is `of` or below it in the tree. */
static bool is_below(int rank, int of)
{
    while (rank > of)
        rank = control_parent(rank);
    return rank == of;
}

static struct gather *find(const struct control *control, uint32_t round, uint32_t place,
                           uint64_t number)
{
    for (struct gather *g = control->gathers.first; g; g = g->next)
        if (g->round == round && g->place == place && g->number == number)
            return g;
    return NULL;
}

static void gather_free(struct gather *g)
{
    free(g->has);
    free(g->all);
    free(g);
}

static void forget(struct control *control, struct gather *g)
{
    struct gather **link = &control->gathers.first;

    while (*link != g)
        link = &(*link)->next;
    *link = g->next;
    gather_free(g);
}

static struct gather *add(struct control *control, uint32_t round, uint32_t place, uint64_t number,
                          uint32_t count)
{
    struct gather *g = calloc(1, sizeof *g);

    if (!g)
        return NULL;
    *g = (struct gather){
        .round = round, .place = place, .number = number, .count = count, .differs = -1};
    g->has = calloc((size_t)control->size, 1);
    g->all = calloc((size_t)control->size, count ? count : 1);
    if (!g->has || !g->all) {
        gather_free(g);
        return NULL;
    }
    for (int r = control->rank; r < control->size; r++)
        g->awaited += is_below(r, control->rank);
    g->next = control->gathers.first;
    control->gathers.first = g;
    return g;
}

static void take(struct gather *g, int rank, const uint8_t *bytes)
{
    if (g->has[rank])
        return;
    g->has[rank] = 1;
    g->awaited--;
    if (g->count)
        memcpy(g->all + (size_t)rank * g->count, bytes, g->count);
}

/* ---- frames ---- */

static void write_header(struct writer *w, const struct gather *g)
{
    write_u32(w, g->round);
    write_u32(w, g->place);
    write_u64(w, g->number);
    write_u32(w, g->count);
}

static void send_down(struct control *control, const struct gather *g)
{
    const size_t size = (size_t)control->size * g->count;
    const int64_t first = (int64_t)control->rank * CONTROL_TREE_DEGREE + 1;
    AUTOFREE uint8_t *body = malloc(HEADER + size);
    struct writer w = {.data = body, .capacity = HEADER + size};

    if (!body)
        return; /* the deadline tells */
    write_header(&w, g);
    write_bytes(&w, g->all, size);
    for (int64_t r = first; r < first + CONTROL_TREE_DEGREE && r < control->size; r++) {
        struct control_conn *conn = control_conn_to(control, (int)r);

        if (conn)
            (void)control_conn_send(control, conn, FRAME_GATHERED, body, w.size);
    }
}

static void send_up(struct control *control, const struct gather *g)
{
    const size_t most = (size_t)control->size * (4 + g->count);
    AUTOFREE uint8_t *body = malloc(HEADER + most);
    struct writer w = {.data = body, .capacity = HEADER + most};
    struct control_conn *conn = control_dial(control, control_parent(control->rank));

    if (!body || !conn)
        return; /* the deadline tells, or that the parent is lost */
    write_header(&w, g);
    for (int r = control->rank; r < control->size; r++) {
        if (!g->has[r])
            continue;
        write_u32(&w, (uint32_t)r);
        write_bytes(&w, g->all + (size_t)r * g->count, g->count);
    }
    (void)control_conn_send(control, conn, FRAME_GATHER, body, w.size);
}

/* What is here from all below goes on. */
static void pass(struct control *control, struct gather *g)
{
    if (g->awaited || g->passed || g->differs >= 0)
        return;
    g->passed = true;
    if (control->rank) {
        send_up(control, g);
        return;
    }
    g->complete = true;
    send_down(control, g);
}

/* The gather that a frame is for; NULL: none that may be held. */
static struct gather *of_frame(struct control *control, struct reader *r, bool adds,
                               uint32_t *ret_count)
{
    const uint32_t round = read_u32(r), place = read_u32(r);
    const uint64_t number = read_u64(r);
    const uint32_t count = *ret_count = read_u32(r);

    if (r->bad || place >= GATHER_PLACES || count > GATHER_BYTES_MAX)
        return NULL;
    struct gather *g = find(control, round, place, number);
    if (g || !adds)
        return g;
    const bool now = round == control->gathers.round;
    const uint64_t taken = now ? control->gathers.taken[place] : 0;
    if (number <= taken || number > taken + AHEAD || round < control->gathers.round ||
        round > control->gathers.round + 1)
        return NULL;
    return add(control, round, place, number, count);
}

void gather_on_bytes(struct control *control, struct control_conn *from, struct reader *r)
{
    uint32_t count;
    struct gather *g = of_frame(control, r, true, &count);

    if (!g || g->differs >= 0)
        return;
    if (count != g->count) {
        g->differs = from->rank;
        g->differs_count = count;
        return;
    }
    while (r->at < r->size) {
        const uint32_t rank = read_u32(r);
        const uint8_t *bytes = read_bytes(r, count);

        if (r->bad || rank >= (uint32_t)control->size || !is_below((int)rank, from->rank) ||
            from->rank <= control->rank)
            return;
        take(g, (int)rank, bytes);
    }
    pass(control, g);
}

void gather_on_whole(struct control *control, struct control_conn *from, struct reader *r)
{
    uint32_t count;
    struct gather *g = of_frame(control, r, false, &count);

    if (!g || !g->passed || g->complete || count != g->count ||
        from->rank != control_parent(control->rank))
        return;
    const uint8_t *all = read_bytes(r, (size_t)control->size * count);
    if (r->bad)
        return;
    if (count)
        memcpy(g->all, all, (size_t)control->size * count);
    g->complete = true;
    send_down(control, g);
}

/* ---- what providers call ---- */

void gathers_begin(struct control *control, uint32_t round)
{
    LOCK_SCOPE(&control->lock);
    if (control->gathers.round == round)
        return;
    control->gathers.round = round;
    memset(control->gathers.begun, 0, sizeof control->gathers.begun);
    memset(control->gathers.taken, 0, sizeof control->gathers.taken);
    for (struct gather *g = control->gathers.first, *next; g; g = next) {
        next = g->next;
        if (g->round < round)
            forget(control, g);
    }
}

void gathers_free(struct control *control)
{
    while (control->gathers.first)
        forget(control, control->gathers.first);
}

/* Keeps the message of the thread's error for the thread that reports it. */
static tutti_status failed(struct control *control, uint32_t place, tutti_status status)
{
    control->gathers.failure[place].status = status;
    snprintf(control->gathers.failure[place].message,
             sizeof control->gathers.failure[place].message, "%.*s",
             TEXT_CUT(error_message(), 400));
    return status;
}

static tutti_status start(struct control *control, uint32_t place, const char *name,
                          const void *bytes, uint32_t count, int64_t deadline_ns,
                          struct gather **ret_gather)
{
    const uint64_t number = control->gathers.taken[place] + 1;

    if (control->gathers.begun[place] == number)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s starts a gather while another is under way: call gather_test until "
                         "it returns something else than TUTTI_ERR_NOT_READY",
                         name);
    struct gather *g = find(control, control->gathers.round, place, number);
    if (!g)
        g = add(control, control->gathers.round, place, number, count);
    if (!g)
        return error_set(TUTTI_ERR_NO_MEMORY, "%s: no memory to gather %u bytes of %d members",
                         name, count, control->size);
    control->gathers.begun[place] = number;
    snprintf(g->name, sizeof g->name, "%s", name);
    g->started = true;
    g->deadline_ns = deadline_ns;
    if (g->count == count) {
        take(g, control->rank, bytes);
    } else {
        g->differs = control->rank;
        for (int r = control->rank; r < control->size; r++)
            g->differs = g->has[r] ? r : g->differs;
        g->differs_count = g->count;
        g->count = count;
    }
    pass(control, g);
    *ret_gather = g;
    return TUTTI_OK;
}

tutti_status gather_start(struct control *control, uint32_t place, const char *name,
                          const void *bytes, uint64_t count, int64_t deadline_ns,
                          struct gather **ret_gather)
{
    LOCK_SCOPE(&control->lock);
    tutti_status status =
        count > GATHER_BYTES_MAX
            ? error_set(TUTTI_ERR_INVALID_ARGUMENT,
                        "%s gathers %llu bytes of each member: at most %d are allowed", name,
                        (unsigned long long)count, GATHER_BYTES_MAX)
            : start(control, place, name, bytes, (uint32_t)count, deadline_ns, ret_gather);
    return status ? failed(control, place, status) : TUTTI_OK;
}

/* The members next to this one in the tree whose bytes are not here. */
static void write_missing(const struct control *control, const struct gather *g, char *ret_text,
                          size_t capacity)
{
    struct text text = text_in(ret_text, capacity);
    char who[CONTROL_HOST_MAX + 64];
    int missing = 0;

    for (int r = control->rank + 1; g->awaited && r < control->size; r++) {
        if (g->has[r] || control_parent(r) != control->rank)
            continue;
        control_describe(control, r, who, sizeof who);
        text_add(&text, "%s%s", missing++ ? ", " : "", who);
    }
    if (missing)
        return;
    control_describe(control, control->rank ? control_parent(control->rank) : 0, who, sizeof who);
    text_add(&text, "%s", who);
}

static tutti_status time_out(struct control *control, const struct gather *g)
{
    char missing[256];

    write_missing(control, g, missing, sizeof missing);
    return error_set(TUTTI_ERR_TIMEOUT,
                     "%s: rank %d timed out gathering %u bytes of all members: no answer from %s",
                     g->name, control->rank, g->count, missing);
}

/* A member that has left gives no bytes any more, if it has not given them. */
static tutti_status look_at_leavers(struct control *control, struct gather *g)
{
    int left = -1;

    for (int r = 0; left < 0 && r < control->size; r++)
        left = control->members[r].left ? r : -1;
    if (left < 0)
        return TUTTI_ERR_NOT_READY;
    if (!g->left_ns)
        g->left_ns = clock_now_ns();
    if (clock_now_ns() < g->left_ns + LEFT_MS * CLOCK_NS_PER_MS)
        return TUTTI_ERR_NOT_READY;
    return error_set(TUTTI_ERR_PEER_LOST,
                     "%s: rank %d has left the group, and gives no bytes for a gather any more",
                     g->name, left);
}

static tutti_status look(struct control *control, struct gather *g)
{
    if (g->complete)
        return TUTTI_OK;
    if (g->differs >= 0)
        return error_set(TUTTI_ERR_MISMATCH,
                         "%s: rank %d gathers %u bytes where rank %d gathers %u: a plugin starts "
                         "its gathers in the same order, with the same number of bytes, on all "
                         "members",
                         g->name, g->differs, g->differs_count, control->rank, g->count);
    if (clock_now_ns() >= g->deadline_ns)
        return time_out(control, g);
    return look_at_leavers(control, g);
}

tutti_status gather_test(struct control *control, struct gather *gather, void *ret_all)
{
    if (clock_now_ns() >= atomic_load(&control->gathers.polled_ns) + UNPOLLED_MS * CLOCK_NS_PER_MS)
        control_poll(control);
    const tutti_status verdict =
        control_verdict_status(control) ? control_verdict_error(control) : TUTTI_OK;
    LOCK_SCOPE(&control->lock);
    const tutti_status status = verdict ? verdict : look(control, gather);
    const uint32_t place = gather->place;

    if (status == TUTTI_ERR_NOT_READY)
        return status;
    if (!status && gather->count)
        memcpy(ret_all, gather->all, (size_t)control->size * gather->count);
    control->gathers.taken[place] = gather->number;
    forget(control, gather);
    return status ? failed(control, place, status) : TUTTI_OK;
}

bool gather_tell_failure(struct control *control, uint32_t place, tutti_status status)
{
    LOCK_SCOPE(&control->lock);
    const struct gather_failure *failure = &control->gathers.failure[place];

    if (failure->status != status)
        return false;
    error_set(status, "%s", failure->message);
    return true;
}
