/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The control plane's object: the tree, the state of each member (there, lost or gone), and where
 * frames go.
 *
 * Every member dials its parent, (rank - 1) / 16. A member whose parent is lost or has left dials
 * the lowest member that is not known to be dead or gone, so that the living stay connected.
 * Verdicts and leave messages are flooded over whatever connections there are; each member passes
 * each on once.
 */
#include "control/inside.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/codec.h"
#include "base/error.h"

enum { EVENTS_AT_ONCE = 32, LEAVE_FLUSH_MS = 200, UNREACHABLE_MS = 200, TELL_MS = 400 };

tutti_status control_open(int rank, int size, const char *name, const int32_t *world_ranks,
                          const char *bind_address, struct control **ret_control)
{
    struct control *control = calloc(1, sizeof *control);

    if (!control)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for group %s", name);
    key_hold();
    pthread_mutex_init(&control->lock, NULL);
    control->rank = rank;
    control->size = size;
    control->fixer = -1;
    atomic_init(&control->asked_by, -1);
    control->listener.watch.fd = -1;
    snprintf(control->name, sizeof control->name, "%s", name);
    control->members = calloc((size_t)size, sizeof *control->members);
    control->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    for (int r = 0; control->members && r < size; r++)
        control->members[r].world_rank = world_ranks ? world_ranks[r] : -1;

    tutti_status status = TUTTI_OK;
    if (!control->members)
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", size);
    else if (control->epoll_fd < 0)
        status = error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make an epoll descriptor");
    else
        status = control_listen(control, bind_address);
    if (status) {
        control_close(control);
        return status;
    }
    *ret_control = control;
    return TUTTI_OK;
}

void control_close(struct control *control)
{
    if (!control)
        return;
    for (struct control_conn *c = control->connections; c; c = c->next)
        control_conn_close(control, c);
    control_conn_reap(control);
    control_listen_close(control);
    if (control->epoll_fd >= 0)
        close(control->epoll_fd);
    for (int r = 0; control->members && r < control->size; r++)
        for (int p = 0; p < CONTROL_PROVIDERS; p++)
            free(control->members[r].provider_address[p]);
    free(control->members);
    free(control->timeouts);
    free(control->answers);
    free(control->sides);
    pthread_mutex_destroy(&control->lock);
    control_notes_free(control);
    gathers_free(control);
    tls_keys_free(control->keys);
    key_drop(control->key);
    key_drop(control->group_key);
    key_release();
    free(control);
}

int control_lowest_living(const struct control *control)
{
    for (int r = 0; r < control->size; r++) {
        const struct control_member *m = &control->members[r];

        if (r == control->rank || (!member_is_gone(m) && !m->passed_over && !m->unreachable_ns))
            return r;
    }
    return control->rank;
}

/* Keeps this member connected to the others: to its parent, else to the lowest living member. */
static void ensure_uplink(struct control *control)
{
    int parent = control_parent(control->rank);

    if (control->leaving)
        return;
    if (parent < 0 || member_is_gone(&control->members[parent]) ||
        control->members[parent].unreachable_ns)
        parent = control_lowest_living(control);
    if (parent != control->rank)
        (void)control_dial(control, parent);
}

static tutti_status make_tls_keys(struct control *control, const struct key *group_key)
{
    struct key key;
    tutti_status status = key_derive(group_key, "tls control", NULL, 0, &key);

    if (!status)
        status = tls_keys_new(&key, &control->keys);
    key_wipe(&key, sizeof key);
    return status;
}

/* What a start that failed has kept stays until control_close(). */
static tutti_status keep_keys(struct control *control, const struct key *group_key)
{
    struct key key;
    tutti_status status = control->group_key ? TUTTI_OK : key_keep(group_key, &control->group_key);

    if (!status && !control->key) {
        status = key_derive(group_key, "control", NULL, 0, &key);
        if (!status)
            status = key_keep(&key, &control->key);
        key_wipe(&key, sizeof key);
    }
    if (!status && control->encrypts && !control->keys)
        status = make_tls_keys(control, group_key);
    return status;
}

tutti_status control_start(struct control *control, const uint8_t salt[CONTROL_SALT_BYTES],
                           const struct key *group_key)
{
    LOCK_SCOPE(&control->lock);
    if (control->started)
        return TUTTI_OK;
    tutti_status status = keep_keys(control, group_key);
    if (status)
        return status;
    memcpy(control->salt, salt, CONTROL_SALT_BYTES);
    status = control_watch_add(control, &control->listener.watch, EPOLLIN);
    control->started = !status;
    ensure_uplink(control);
    return status;
}

void control_flood(struct control *control, const struct control_conn *except, enum frame_type type,
                   const void *body, size_t size)
{
    for (struct control_conn *c = control->connections; c; c = c->next)
        if (c != except && !c->closing)
            (void)control_conn_send(control, c, type, body, size);
}

tutti_status control_send_up(struct control *control, enum frame_type type, const void *body,
                             size_t size)
{
    int parent = control_parent(control->rank);

    if (parent < 0)
        return TUTTI_OK;
    LOCK_SCOPE(&control->lock);
    struct control_conn *conn = control_dial(control, parent);
    return conn ? control_conn_send(control, conn, type, body, size)
                : error_set(TUTTI_ERR_PEER_LOST, "no control connection to rank %d", parent);
}

void control_send_down(struct control *control, enum frame_type type, const void *body, size_t size)
{
    const int64_t first = (int64_t)control->rank * CONTROL_TREE_DEGREE + 1;

    LOCK_SCOPE(&control->lock);
    for (int64_t r = first; r < first + CONTROL_TREE_DEGREE && r < control->size; r++) {
        struct control_conn *conn = control_conn_to(control, (int)r);

        if (conn)
            (void)control_conn_send(control, conn, type, body, size);
    }
}

void control_describe(const struct control *control, int rank, char *ret_text, size_t capacity)
{
    const struct control_member *m = &control->members[rank];
    char world[32] = "";

    if (m->world_rank >= 0)
        snprintf(world, sizeof world, "world rank %d", m->world_rank);
    if (m->pid)
        snprintf(ret_text, capacity, "rank %d (%s%shost %s, pid %d)", rank, world,
                 *world ? ", " : "", m->host, m->pid);
    else if (*world)
        snprintf(ret_text, capacity, "rank %d (%s)", rank, world);
    else
        snprintf(ret_text, capacity, "rank %d", rank);
}

/* ---- members that end ---- */

void control_lost(struct control *control, int rank, const char *message)
{
    struct control_member *member = &control->members[rank];
    char who[CONTROL_HOST_MAX + 64], text[CONTROL_MESSAGE_MAX];

    if (member_is_gone(member))
        return;
    member->dead = true;
    member->dead_after = control->verdict.status != TUTTI_OK;
    if (control->leaving) /* it is no loss to this one, which waits for leave messages at most */
        return;
    control_describe(control, rank, who, sizeof who);
    snprintf(text, sizeof text, "%s was lost: %s", who, message);
    if (control->ready)
        verdict_propose(control, TUTTI_ERR_PEER_LOST, rank, text);
    else if (control->handlers && control->handlers->gone)
        control->handlers->gone(control->handler_user, rank, text);
    ensure_uplink(control);
}

void control_tell_lost(struct control *control)
{
    for (int r = 0; r < control->size; r++) {
        if (!control->members[r].dead)
            continue;
        control->members[r].dead = false;
        control_lost(control, r, "it ended while the group was made");
    }
}

void control_disconnected(struct control *control, int rank, const char *message)
{
    control_lost(control, rank, message);
    if (control->members[rank].left)
        ensure_uplink(control);
    if (control->fixer == rank && control->pass_over_at_ns)
        control->pass_over_at_ns =
            1; /* it was about to leave, and does not fix the verdict any more */
}

void control_unreachable(struct control *control, int rank, const char *message)
{
    struct control_member *member = &control->members[rank];

    if (member_is_gone(member))
        return;
    if (!member->unreachable_ns) {
        member->unreachable_ns = clock_now_ns();
        snprintf(member->unreachable, sizeof member->unreachable, "%s", message);
    }
    ensure_uplink(control);
}

/* Members whose leave message has not come after all. */
static void give_up_unreachable(struct control *control)
{
    for (int r = 0; r < control->size; r++) {
        struct control_member *m = &control->members[r];

        if (m->unreachable_ns && !member_is_gone(m) &&
            clock_now_ns() > m->unreachable_ns + UNREACHABLE_MS * CLOCK_NS_PER_MS)
            control_lost(control, r, m->unreachable);
    }
}

size_t control_write_leave(const struct control *control, int rank,
                           uint8_t body[CONTROL_LEAVE_BYTES])
{
    struct writer w = {.data = body, .capacity = CONTROL_LEAVE_BYTES};

    write_u32(&w, (uint32_t)rank);
    sides_write_call(&w, &control->members[rank].last);
    return w.size;
}

bool control_read_leave(const struct control *control, struct reader *r, int *ret_rank,
                        struct announce *ret_last)
{
    *ret_rank = (int)read_u32(r);
    sides_read_call(r, ret_last);
    return !r->bad && *ret_rank >= 0 && *ret_rank < control->size;
}

/* Members leave such a call without having met all others, which may have called something else. */
static bool needs_comparison(const struct control *control, const struct announce *last)
{
    return control->compares || operation_has_root(last->fields.operation);
}

/* Members that may not have answered this one's proof before it is gone get a farewell. */
static void say_farewell(struct control *control)
{
    for (struct control_conn *c = control->connections; c; c = c->next)
        if (!c->closing && c->stage != CONN_OPEN && c->stage != CONN_FAREWELL)
            control_dial_farewell(control, c->rank);
}

/* Nobody else would tell them that this member leaves. Answers are awaited where last calls are compared. */
static void dial_all(struct control *control, bool compares)
{
    for (int r = 0; r < control->size; r++) {
        if (r == control->rank || member_is_gone(&control->members[r]))
            continue;
        if (compares)
            (void)control_dial(control, r);
        else if (!control_conn_to(control, r))
            control_dial_farewell(control, r);
    }
}

/* Moves the plane until no connection is as `waits` says, or the time is over. */
static void await_connections(struct control *control, bool (*waits)(const struct control_conn *c),
                              int64_t ms)
{
    int64_t deadline = clock_deadline_ms(ms);

    for (;;) {
        bool any = false;

        pthread_mutex_lock(&control->lock);
        for (struct control_conn *c = control->connections; c; c = c->next)
            any |= waits(c);
        pthread_mutex_unlock(&control->lock);
        if (!any || clock_now_ns() > deadline)
            return;
        struct epoll_event event;
        (void)epoll_wait(control->epoll_fd, &event, 1, 5);
        control_poll(control);
    }
}

static bool is_dialed(const struct control_conn *c)
{
    return !c->closing && c->stage != CONN_OPEN && c->stage != CONN_FAREWELL;
}

/* A member that fixed the verdict for others has dialed them, and stays until they have answered: who heard that it
 * left before it heard why would fix another one. */
static void tell_verdict(struct control *control)
{
    if (control->has_fixed)
        await_connections(control, is_dialed, TELL_MS);
}

void control_leave(struct control *control, const struct announce *last)
{
    uint8_t body[CONTROL_LEAVE_BYTES];
    int parent = control_parent(control->rank);

    control_poll(control); /* a member that left before cannot pass anything on */
    tell_verdict(control);
    pthread_mutex_lock(&control->lock);
    control->leaving = true;
    control->members[control->rank].last = *last;
    if (parent >= 0 && member_is_gone(&control->members[parent]))
        dial_all(control, needs_comparison(control, last));
    say_farewell(control);
    control_flood(control, NULL, FRAME_LEAVE, body,
                  control_write_leave(control, control->rank, body));
    if (control->local)
        control->local_ops->leave(control->local, last);
    pthread_mutex_unlock(&control->lock);
    control_flush(control, LEAVE_FLUSH_MS);
}

static bool has_heard(struct control *control, int rank)
{
    const struct control_conn *conn = control_conn_to(control, rank);

    return rank == control->rank || member_is_gone(&control->members[rank]) ||
           control->members[rank].agrees || (conn && conn->heard);
}

void control_agrees(struct control *control, int rank)
{
    LOCK_SCOPE(&control->lock);
    control->members[rank].agrees = true;
}

bool control_leave_is_known(struct control *control)
{
    bool known = true;

    LOCK_SCOPE(&control->lock);
    for (struct control_conn *c = control->connections; c; c = c->next)
        known &= c->closing || has_heard(control, c->rank);
    const bool compares = needs_comparison(control, &control->members[control->rank].last) &&
                          !control->verdict.status;
    for (int r = 0; compares && known && r < control->size; r++)
        known &= has_heard(control, r);
    return known;
}

bool control_has_left(struct control *control, int rank, struct control_leave_state *ret)
{
    const struct control_member *member = &control->members[rank];

    LOCK_SCOPE(&control->lock);
    *ret = (struct control_leave_state){
        .last = member->last,
        .known = member->last.fields.operation != OPERATION_NONE || member->last.signature,
        .compared = member->compared,
    };
    return member->left;
}

void control_compared(struct control *control, int rank)
{
    struct control_member *member = &control->members[rank];

    LOCK_SCOPE(&control->lock);
    struct control_conn *conn = control_conn_to(control, rank);
    if (!member->compared && operation_has_root(member->last.fields.operation))
        atomic_fetch_sub(&control->uncompared, 1);
    member->compared = true;
    if (conn && !control->leaving && needs_comparison(control, &member->last))
        (void)control_conn_send(control, conn, FRAME_HEARD, NULL, 0);
}

bool control_has_proposed(struct control *control)
{
    LOCK_SCOPE(&control->lock);
    return (control->proposal.status || control->expects_verdict) && !control->verdict.status;
}

static bool has_output(const struct control_conn *c)
{
    return !c->closing && c->out_at < c->out_size &&
           (c->stage == CONN_OPEN || c->stage == CONN_FAREWELL);
}

void control_flush(struct control *control, int64_t ms)
{
    await_connections(control, has_output, ms);
}

void control_await_verdict(struct control *control, int64_t ms)
{
    int64_t deadline = clock_deadline_ms(ms);
    struct epoll_event event;

    while (!control_verdict_status(control) && clock_now_ns() < deadline) {
        (void)epoll_wait(control->epoll_fd, &event, 1, 5);
        control_poll(control);
    }
    control_flush(control, ms);
}

void control_left(struct control *control, int rank, const struct announce *last,
                  const struct control_conn *except)
{
    struct control_member *member = &control->members[rank];
    uint8_t body[CONTROL_LEAVE_BYTES];

    if (member->left || rank == control->rank)
        return;
    member->last = *last;
    if (last->fields.operation >= OPERATION_COUNT)
        member->last.fields.operation = OPERATION_NONE;
    if (operation_has_root(member->last.fields.operation))
        atomic_fetch_add(&control->uncompared, 1);
    member->left = true;
    sides_left(control, rank);
    control_flood(control, except, FRAME_LEAVE, body, control_write_leave(control, rank, body));
    if (!control->ready && control->handlers && control->handlers->gone) {
        char message[CONTROL_MESSAGE_MAX];

        snprintf(message, sizeof message, "rank %d left", rank);
        control->handlers->gone(control->handler_user, rank, message);
    }
    ensure_uplink(control);
}

/* A member that leaves itself does not answer: its own leave message is on the way. */
static void on_leave(struct control *control, struct control_conn *from, struct reader *r)
{
    struct announce last;
    int rank;

    if (!control_read_leave(control, r, &rank, &last))
        return;
    control_left(control, rank, &last, from);
    if (rank != from->rank || control->leaving)
        return;
    /* Else control_compared() answers. */
    if (!needs_comparison(control, &last) || control->members[rank].compared)
        (void)control_conn_send(control, from, FRAME_HEARD, NULL, 0);
}

static void on_heard(struct control *control, struct control_conn *from, struct reader *r)
{
    (void)r;
    from->heard = control->leaving;
}

int control_left_before(struct control *control, uint64_t sequence, char *ret_message,
                        size_t capacity)
{
    LOCK_SCOPE(&control->lock);
    for (int r = 0; r < control->size; r++) {
        const struct control_member *m = &control->members[r];

        if (m->left && m->last.sequence < sequence) {
            snprintf(ret_message, capacity, "rank %d left after #%llu", r,
                     (unsigned long long)m->last.sequence);
            return r;
        }
    }
    return -1;
}

/* ---- what the plane does when it is looked at ---- */

void control_poll(struct control *control)
{
    struct epoll_event events[EVENTS_AT_ONCE];
    int n;

    pthread_mutex_lock(&control->lock);
    do {
        n = epoll_wait(control->epoll_fd, events, EVENTS_AT_ONCE, 0);
        for (int i = 0; i < n; i++) {
            struct control_watch *watch = events[i].data.ptr;

            watch->ready(control, watch, events[i].events);
        }
        control_listen_expire(control);
        control_conn_reap(control);
    } while (n == EVENTS_AT_ONCE);

    control_accept_again(control, &control->listener);
    control_dial_again(control);
    if (control->local)
        control->local_ops->poll(control->local);
    give_up_unreachable(control);
    verdict_timers(control);
    pthread_mutex_unlock(&control->lock);
    atomic_store(&control->gathers.polled_ns, clock_now_ns());
}

/* ---- frames ---- */

void control_connected(struct control *control, struct control_conn *conn)
{
    uint8_t body[CONTROL_LEAVE_BYTES];

    control->members[conn->rank].unreachable_ns = 0;
    if (control->handlers && control_parent(conn->rank) == control->rank)
        control->handlers->joined(control->handler_user, conn);
    for (int r = 0; r < control->size; r++)
        if (control->members[r].left || (r == control->rank && control->leaving))
            (void)control_conn_send(control, conn, FRAME_LEAVE, body,
                                    control_write_leave(control, r, body));
    verdict_greet(control, conn);
}

void control_frame(struct control *control, struct control_conn *from, enum frame_type type,
                   const uint8_t *body, size_t size)
{
    static void (*const takers[FRAME_TYPES])(struct control *, struct control_conn *,
                                             struct reader *) = {
        [FRAME_PROPOSE] = verdict_on_propose,
        [FRAME_VERDICT] = verdict_on_verdict,
        [FRAME_LEAVE] = on_leave,
        [FRAME_NOTE] = control_on_note,
        [FRAME_QUERY] = liveness_on_query,
        [FRAME_HERE] = liveness_on_answer,
        [FRAME_HEARD] = on_heard,
        [FRAME_GATHER] = gather_on_bytes,
        [FRAME_GATHERED] = gather_on_whole,
    };
    const struct control_handlers *h = control->handlers;
    struct reader r = {.data = body, .size = size};

    if (takers[type])
        takers[type](control, from, &r);
    else if (type != FRAME_WELCOME && h && h->frame) /* the agreement's */
        h->frame(control->handler_user, type, body, size);
}
