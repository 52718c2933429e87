/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Agreement of all members before a group is used.
 *
 *   1  Each publishes an offer in the store; rank 0, the leader, reads all and publishes one decision.
 *   2  Each finds its nonce in the decision (else it is stale), joins the control tree, proves its
 *      local peers and opens the transports; reports go up the tree.
 *   3  The roster comes down; each makes its ways to the others and maps memory; reports go up again.
 *   4  The round has one outcome key, written once by compare-and-set: commit or retry by the leader
 *      (a layout to correct, a candidate of `auto` that failed), abort by anyone whose deadline
 *      ends. The outcome comes down the tree; everybody believes what the key says.
 *
 * A member uses the store for its offer, for the decision and, when things go wrong, for the
 * outcome. There is no wait without the deadline of tutti_init(), and the one that ends first tells
 * all.
 */
#include "agreement/agree.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "agreement/agreement.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "control/inside.h"
#include "provider/endpoints.h"
#include "provider/native.h"
#include "provider/routes.h"

enum {
    POLL_MS = 20,
    ENGINE_POLL_MS = 1, /* an engine forms its team on a thread, which wakes nobody */
    ANSWER_MS = 100,
    OUTCOME_FLUSH_MS = 200, /* it is on its way down the tree */
    LEADER_FIRST_MS = 250,  /* the leader knows best which ranks are missing */
    ASK_BEFORE_MS = 1000,   /* the deadline: running members may lack a CPU for their answers */
    ASK_PART = 4            /* of the time that there is, at most */
};

void agree_key(const struct agreement *a, char ret_key[AGREE_KEY_MAX], const char *format, ...)
{
    va_list args;
    int n = snprintf(ret_key, AGREE_KEY_MAX, "%s/", a->group->key);

    va_start(args, format);
    (void)vsnprintf(ret_key + n, (size_t)(AGREE_KEY_MAX - n), format, args);
    va_end(args);
}

int64_t agree_left_ms(const struct agreement *a)
{
    int64_t left = (a->deadline_ns - clock_now_ns()) / CLOCK_NS_PER_MS;

    return left > 0 ? left : 0;
}

/* ---- the outcome ---- */

/*
 * The round's key. It holds the decision's salt, so that what an earlier attempt left in the store
 * is not believed; before there is a decision nothing can be committed.
 */
static void outcome_key(const struct agreement *a, char ret_key[AGREE_KEY_MAX])
{
    char salt[2 * CONTROL_SALT_BYTES + 1];

    for (int i = 0; i < CONTROL_SALT_BYTES; i++)
        snprintf(salt + 2 * i, 3, "%02x", a->decision.salt[i]);
    if (a->decision.kind == DECISION_GO)
        agree_key(a, ret_key, "outcome/%s/%u", salt, a->round);
    else
        agree_key(a, ret_key, "outcome/" AGREE_UNDECIDED "/%u", a->round);
}

/* What lies in the store as the outcome; one that no member of this group wrote ends the group. */
static void take_outcome(struct agreement *a, const char *key, tutti_store_value *value)
{
    tutti_status status = agree_unseal(a, key, value);

    if (!status && !outcome_decode(value->data, value->size, a->group->size, &a->outcome))
        status = error_set(TUTTI_ERR_STORE,
                           "group %s: the outcome in the store is damaged, or comes from another "
                           "job; give each job a store or a prefix of its own",
                           a->group->name);
    if (!status)
        return;
    a->outcome =
        (struct outcome){.kind = OUTCOME_ABORT, .round = a->round, .status = status, .culprit = -1};
    snprintf(a->outcome.message, sizeof a->outcome.message, "%.*s", TEXT_CUT(error_message(), 900));
}

tutti_status agree_settle(struct agreement *a, enum outcome_kind kind, tutti_status status,
                          int culprit, const char *message)
{
    struct outcome wanted = {.kind = kind, .round = a->round, .status = status, .culprit = culprit};
    uint8_t bytes[AGREE_MESSAGE_MAX + 64];
    struct writer w = {.data = bytes, .capacity = sizeof bytes};
    char key[AGREE_KEY_MAX];
    tutti_store_value value;

    snprintf(wanted.message, sizeof wanted.message, "%s", message);
    outcome_encode(&w, &wanted);
    outcome_key(a, key);
    tutti_status stored = agree_put(a, key, bytes, w.size, &value);
    if (stored && kind != OUTCOME_ABORT)
        return stored;
    if (stored) { /* this member's own reason is what is left, for itself and those below */
        a->outcome = wanted;
    } else {
        take_outcome(a, key, &value);
        tutti_store_value_free(&value);
    }
    agree_tell_outcome(a, &a->outcome);
    return TUTTI_OK;
}

tutti_status agree_look_at_undecided(struct agreement *a)
{
    char key[AGREE_KEY_MAX];
    tutti_store_value value;
    struct outcome outcome;

    agree_key(a, key, "outcome/" AGREE_UNDECIDED "/%u", a->round);
    if (!agree_has(a, key) || agree_get(a, key, &value))
        return TUTTI_OK;
    const bool good = !agree_unseal(a, key, &value) &&
                      outcome_decode(value.data, value.size, a->group->size, &outcome);
    tutti_store_value_free(&value);
    return good && outcome.kind == OUTCOME_ABORT
               ? agree_settle(a, OUTCOME_ABORT, outcome.status, outcome.culprit, outcome.message)
               : TUTTI_OK;
}

tutti_status agree_give_up(struct agreement *a, tutti_status status, int culprit)
{
    char message[AGREE_MESSAGE_MAX];

    snprintf(message, sizeof message, "%.*s", TEXT_CUT(error_message(), 900));
    return agree_settle(a, OUTCOME_ABORT, status, culprit, message);
}

/* ---- waiting ---- */

/* After a long pause of the host every deadline looks expired. Peers that were asked still get
 * their time to answer, and the leader its time to report. */
static bool is_over(struct agreement *a)
{
    const int64_t now = clock_now_ns(), first = LEADER_FIRST_MS * CLOCK_NS_PER_MS;

    if (a->lead)
        return now >= a->deadline_ns && now >= a->asked_ns + ANSWER_MS * CLOCK_NS_PER_MS;
    if (now < a->deadline_ns - first)
        return false;
    if (!a->over_ns)
        a->over_ns = now;
    return now >= a->over_ns + first;
}

/* The leader's deadline is the first, so a member that hears nothing until its own deadline names
 * the leader. */
static tutti_status time_out(struct agreement *a, const char *what)
{
    char missing[512], leader[CONTROL_HOST_MAX + 64];
    int culprit = 0;

    if (a->lead) {
        culprit = lead_missing(a, missing, sizeof missing);
    } else {
        control_describe(a->group->control, 0, leader, sizeof leader);
        snprintf(missing, sizeof missing, "no answer from %s", leader);
    }

    error_set(TUTTI_ERR_TIMEOUT, "group %s: rank %d timed out waiting for %s: %s", a->group->name,
              a->group->rank, what, missing);
    return agree_give_up(a, TUTTI_ERR_TIMEOUT, culprit);
}

/* Answers a liveness query and looks at the parent group while this member waits. OK: go on, or
 * a->outcome tells. */
static tutti_status attend(struct agreement *a)
{
    struct control *control = a->group->control;

    tutti_status status = agree_probe_late(a);
    if (!agree_goes_on(a, status))
        return status;
    if (control_is_asked(control))
        control_answer(control, &(struct control_answer){.waits_for = -1}, NULL);
    status = agree_parent(a);
    return status ? agree_give_up(a, status, -1) : TUTTI_OK;
}

tutti_status agree_look(struct agreement *a)
{
    control_poll(a->group->control);
    tutti_status status = agree_take_notes(a);
    return agree_goes_on(a, status) ? attend(a) : status;
}

/*
 * Goes on until done() answers something else than NOT_READY, or the round has an outcome (OK, and
 * a->outcome tells), or the deadline ends (the same, after everybody was told).
 */
static tutti_status wait_for(struct agreement *a, tutti_status (*done)(struct tutti_group *),
                             const char *what)
{
    struct control *control = a->group->control;
    struct epoll_event event;

    for (;;) {
        control_poll(control);
        tutti_status status = agree_take_notes(a);
        if (!agree_goes_on(a, status))
            return status;
        status = done(a->group);
        if (status != TUTTI_ERR_NOT_READY)
            return status;
        status = attend(a);
        if (!agree_goes_on(a, status))
            return status;
        if (is_over(a))
            return time_out(a, what);
        const int left =
            clock_left_ms(a->deadline_ns, done == native_form_test ? ENGINE_POLL_MS : POLL_MS);
        (void)epoll_wait(control->epoll_fd, &event, 1, left ? left : 1);
    }
}

/* The plugin's words say more of a deadline, unless there is a member that does not answer. */
tutti_status agree_keep_waiting(struct tutti_group *group)
{
    struct agreement *a = group->agreement;
    char missing[512];

    if (!a)
        return TUTTI_OK;
    tutti_status status = agree_look(a);
    if (agree_goes_on(a, status) && a->lead && is_over(a)) {
        if (lead_missing(a, missing, sizeof missing) < 0)
            return TUTTI_ERR_TIMEOUT;
        status = time_out(a, "the other members to open their transports");
    }
    return status || !a->outcome.kind ? status : TUTTI_ERR_ABORTED;
}

/* ---- steps of a round ---- */

static tutti_status join_tree(struct agreement *a)
{
    struct control *control = a->group->control;

    pthread_mutex_lock(&control->lock);
    for (int i = 0; i < a->decision.interior; i++) {
        control->members[i].address = a->decision.addresses[i];
        control->members[i].address_size = address_bytes(&a->decision.addresses[i]);
    }
    control_tell_lost(control); /* in an earlier round, of which it may not have been the end */
    pthread_mutex_unlock(&control->lock);
    gathers_begin(control, a->round);
    struct key key;
    tutti_status status = agree_group_key(a, &key);
    if (!status)
        status = control_start(control, a->decision.salt, &key);
    key_wipe(&key, sizeof key);
    return status;
}

/* The member of this group as the group that it is made from knows it. */
static struct local_process *known_process(const struct agreement *a, int rank)
{
    return local_process_of(a->from->parent->local, agree_parent_rank(a, rank));
}

static tutti_status begin_local(struct agreement *a)
{
    struct tutti_group *group = a->group;
    const struct decision *d = &a->decision;
    size_t size = (size_t)group->size;
    int host = d->host_of[group->rank], count = 0;
    AUTOFREE int *ranks = calloc(size, sizeof *ranks);
    AUTOFREE struct local_process **known = calloc(size, sizeof *known);

    if (!ranks || !known)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d members", group->size);
    for (int r = 0; r < group->size; r++) {
        if (d->host_of[r] != host)
            continue;
        known[count] = a->from ? known_process(a, r) : NULL;
        ranks[count++] = r;
    }
    if (count == 1)
        return TUTTI_OK;
    int listener = ranks[0] == group->rank ? fcntl(a->listener, F_DUPFD_CLOEXEC, 0) : -1;
    tutti_status status = local_new(group->control, a->round, ranks, count, known, d->sockets[host],
                                    &listener, group->context->engine.doorbell, &group->local);
    if (listener >= 0)
        close(listener);
    return status;
}

static tutti_status local_done(struct tutti_group *group)
{
    return group->local && !local_settled(group->local) ? TUTTI_ERR_NOT_READY : TUTTI_OK;
}

static tutti_status roster_done(struct tutti_group *group)
{
    return group->agreement->have_roster ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

static tutti_status outcome_done(struct tutti_group *group)
{
    return group->agreement->outcome.kind ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

/* Everything up to the first report; what fails here goes into the report. */
static void open_all(struct agreement *a, struct report *report)
{
    tutti_status status = begin_local(a);
    int failed_level = -1;

    a->group->encryption = agree_encryption(a, &a->decision);
    for (int level = 0; level < PROVIDERS && !status; level++) {
        const char *name = a->decision.provider[level];

        if (!*name)
            continue;
        status = level >= NATIVE
                     ? native_open(a->group, level, name, a->decision.host_of, a->deadline_ns)
                     : endpoint_open(a->group, level, name);
        if (status)
            failed_level = level;
    }
    if (!status)
        status = wait_for(a, local_done, "the other processes of its host");
    agree_fill_report(a, REPORT_OPENED, status, report);
    report->failed_level = failed_level;
    if (!status && a->group->local && a->group->local->state == LOCAL_FAILED) {
        report->not_local = true;
        snprintf(report->message, sizeof report->message, "%.*s",
                 TEXT_CUT(a->group->local->message, 200));
    }
}

/* One round; OK: a->outcome tells. */
static tutti_status play_round(struct agreement *a)
{
    struct report report;

    tutti_status status = a->lead ? lead_decide(a) : TUTTI_OK;
    if (agree_goes_on(a, status))
        status = agree_read_decision(a);
    if (!agree_goes_on(a, status))
        return status;
    backend_take_engine(&a->group->choice, *a->decision.provider[DEVICE_NATIVE]);
    status = join_tree(a);
    if (status)
        return agree_give_up(a, status, a->group->rank);
    open_all(a, &report);
    if (a->outcome.kind)
        return TUTTI_OK;
    status = agree_send_report(a, &report);
    if (agree_goes_on(a, status))
        status = wait_for(a, roster_done, "the other members to open their transports");
    if (!agree_goes_on(a, status))
        return status;

    status = endpoints_connect(a->group, a->decision.host_of);
    if (!status)
        status = wait_for(a, endpoints_map_test, "the memory of its host");
    if (agree_goes_on(a, status))
        status = native_form(a->group);
    if (agree_goes_on(a, status))
        status = wait_for(a, native_form_test, "the engine to join all members");
    if (status == TUTTI_ERR_PEER_LOST && !a->outcome.kind)
        status = agree_await_name_of_lost(a, status);
    if (a->outcome.kind)
        return TUTTI_OK;
    if (!status)
        status = endpoints_start_messages(a->group, a->decision.host_of);
    agree_fill_report(a, REPORT_CONNECTED, status, &report);
    status = agree_send_report(a, &report);
    if (agree_goes_on(a, status))
        status = wait_for(a, outcome_done, "the other members to connect");
    return status;
}

static void undo_round(struct agreement *a)
{
    struct tutti_group *group = a->group;

    routes_stop(group);
    if (group->ways.has_mapped)
        mapped_free(&group->ways.mapped);
    group->ways.has_mapped = false;
    endpoints_close(group);
    local_free(group->local);
    group->local = NULL;
    a->have_roster = false;
    a->outcome.kind = OUTCOME_NONE;
}

/* Tells the others a failure that only this member knows. Returns `status`, with its message. */
static tutti_status tell_own_failure(struct agreement *a, tutti_status status)
{
    struct kept_error kept = {0};

    if (status == TUTTI_ERR_STALE || a->outcome.kind)
        return status;
    error_keep(&kept);
    (void)agree_give_up(a, status, a->group->rank);
    error_give(status, &kept);
    error_forget(&kept);
    return status;
}

static tutti_status play(struct agreement *a)
{
    for (a->round = 1; a->round <= AGREE_ROUNDS_MAX; a->round++) {
        tutti_status status = play_round(a);

        if (status)
            return tell_own_failure(a, status);
        if (a->outcome.kind == OUTCOME_COMMIT)
            return TUTTI_OK;
        if (a->outcome.kind == OUTCOME_ABORT) {
            error_restore(a->outcome.status, a->outcome.culprit, a->outcome.message);
            error_where(a->group->rank, -1, 0, "init");
            return a->outcome.status;
        }
        log_line(LOG_DETAIL, a->group->rank, "group %s: another round: %s", a->group->name,
                 a->outcome.message);
        undo_round(a);
    }
    return error_set(TUTTI_ERR_INTERNAL, "no agreement after %d rounds", AGREE_ROUNDS_MAX);
}

/* "shm+tcp": an engine without messages first, then the backend that carries them. */
static void name_backend(struct agreement *a)
{
    struct tutti_group *group = a->group;
    const char *engine = a->decision.provider[NATIVE];
    bool carries = !*engine;
    struct text backend = text_in(group->backend, sizeof group->backend);

    for (int level = 0; level < TRANSPORTS; level++)
        carries |= !strcmp(a->decision.provider[level], engine);
    for (int i = carries ? 0 : -1; i < TRANSPORTS; i++) {
        const char *name = i < 0 ? engine : a->decision.provider[i];

        if (!*name)
            continue;
        text_add(&backend, "%s%s", backend.used ? "+" : "", name);
    }
    if (group->ways.device_native)
        text_add(&backend, "+%s", a->decision.provider[DEVICE_NATIVE]);
}

static int64_t ask_at(int64_t deadline_ns)
{
    const int64_t part = (deadline_ns - clock_now_ns()) / ASK_PART;
    const int64_t most = ASK_BEFORE_MS * CLOCK_NS_PER_MS;

    return deadline_ns - (part < most ? part : most);
}

/* From here on the control plane's frames come to the agreement. */
static void agreement_begin(struct agreement *a, struct tutti_group *group, tutti_store *store)
{
    struct control *control = group->control;

    *a = (struct agreement){.group = group,
                            .choice = &group->choice,
                            .store = tutti_store_ref(store),
                            .from = group->forming,
                            .deadline_ns = group->bootstrap.deadline_ns +
                                           (group->rank ? LEADER_FIRST_MS * CLOCK_NS_PER_MS : 0),
                            .listener = -1,
                            .leader_fd = -1,
                            .store_try_ms = AGREE_FIRST_TRY_MS,
                            .stall_ns = clock_deadline_ms(AGREE_STALL_MS)};
    a->notes_tail = &a->notes;
    a->ask_ns = ask_at(a->deadline_ns);
    agree_ended_begin(a);
    pthread_mutex_lock(&control->lock);
    control->handlers = &agree_handlers;
    control->handler_user = a;
    pthread_mutex_unlock(&control->lock);
}

/* Frames are the control plane's own again; what it has heard of the lost meanwhile is told, if the
 * group has come to be. */
static void release_control(struct agreement *a, tutti_status status)
{
    struct control *control = a->group->control;

    agree_stall_end(a);
    pthread_mutex_lock(&control->lock);
    control->handlers = NULL;
    control->ready = !status;
    if (!status)
        control_tell_lost(control);
    pthread_mutex_unlock(&control->lock);
}

/* Takes back the parts that the group has of a failed agreement; `status` and its message stay. */
static void undo(struct agreement *a, tutti_status status)
{
    struct kept_error kept = {0};

    error_keep(&kept);
    control_flush(a->group->control, OUTCOME_FLUSH_MS);
    undo_round(a);
    error_give(status, &kept);
    error_forget(&kept);
}

static void agreement_end(struct agreement *a)
{
    if (a->lead)
        lead_end(a);
    agree_drop_notes(a);
    if (a->listener >= 0)
        close(a->listener);
    decision_free(&a->decision);
    tutti_store_unref(a->store);
}

/*
 * Members with the same affinity mask share its CPUs. Local peers with other masks may be bound to CPUs of
 * their own, as one that binds its ranks does, so they count only together, against all CPUs of the host.
 */
static void count_neighbours(const struct agreement *a)
{
    struct tutti_group *group = a->group;
    const struct decision *decision = &a->decision;
    const int on_host = group->local ? group->local->count : 1;
    struct group_needs *needs = &group->needs;

    needs->neighbours = decision->cpu_sharers[group->rank];
    needs->cpus = (int)a->own.cpus.count;
    needs->crowded = decision->crowded[decision->host_of[group->rank]];
    if (on_host <= needs->neighbours || needs->neighbours > needs->cpus)
        return;
    const int cpus = a->own.cpus.set ? cpu_usable_by_all() : needs->cpus;
    if (on_host > cpus) {
        needs->neighbours = on_host;
        needs->cpus = cpus;
    }
}

static tutti_status agree_with(struct agreement *a, const char *choice_words)
{
    struct tutti_group *group = a->group;
    tutti_status status;

    do {
        status = a->from ? TUTTI_OK : group_name_key(group);
        if (!status)
            status = agree_offer(a, choice_words);
        if (!status && !group->rank)
            status = lead_begin(a);
        group->offered = !status;
        if (!status)
            status = play(a);
    } while (agree_store_reopened(a, status));
    status = agree_parent_knows(a, agree_server_lost(a, status));
    release_control(a, status);
    if (!status)
        status = layout_init(&group->layout, group->size, group->rank, a->decision.host_of);
    if (!status)
        count_neighbours(a);
    if (status)
        undo(a, status);
    else
        name_backend(a);
    return status;
}

tutti_status agree(struct tutti_group *group, tutti_store *store, const char *choice_words)
{
    AUTOFREE struct agreement *a = calloc(1, sizeof *a);

    if (!a)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for the agreement");
    agreement_begin(a, group, store);
    group->agreement = a;
    tutti_status status = agree_with(a, choice_words);
    group->agreement = NULL;
    agreement_end(a);
    return status;
}
