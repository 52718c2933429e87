/* SPDX-License-Identifier: Apache-2.0 */
#include "group/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"
#include "group/native_memory.h"
#include "plugin/plugin.h"
#include "tensor/packed.h"

enum {
    ANNOUNCE_AFTER_NS = 1000000,
    /* Who asks its neighbours before it begins waits so long for their answers. One that has called and does
     * not ask itself may be where it does not hear: in a blocking call of the engine's, or out of tutti. */
    ANSWERS_WITHIN_NS = 200000000,
    LOST_WAITS_MS = 6000 /* for whom: a host that vanished is found after 5 s */
};

struct native {
    struct endpoint self; /* what the host services know: the group and the name */
    const tutti_collectives_ops *ops;
    tutti_team *team;
    struct native_facts facts;
    const void **addresses; /* while it forms */
    uint64_t *address_bytes;
    int *host_of;
    int32_t wait_fd; /* -1: none */

    tutti_request request;
    bool under_way; /* start has taken an operation that has no result yet */
    bool laid_out;  /* the call's memory is as engines want it */
    bool formed, aborted;
    int64_t asked_ns;              /* when it began to; 0: not in this call */
    bool asks;                     /* before each operation, whether the neighbours call the same */
    bool waits;                    /* test has said NOT_READY, in the call that is under way */
    bool late;                     /* a neighbour had not answered when native_look() looked last */
    int64_t since_ns;              /* when native_look() saw it first */
    tutti_status trouble;          /* what the engine failed with; the group will */
    int64_t trouble_ns;            /* since when */
    char words[CONTROL_WORDS_MAX]; /* the engine's */
    struct native_memory memory;
    /* Memory that the engine may write until the team is closed. */
    struct chain kept;
    struct packed *kept_packed;
    struct tutti_work *kept_work; /* of a failed operation that the engine cannot withdraw */
};

/* ---- opening and closing ---- */

static tutti_status failed(struct native *n, tutti_status status, const char *what)
{
    if (status && status != TUTTI_ERR_NOT_READY && n->self.status != status)
        error_set(status, "%s failed to %s, and does not say why", n->self.name, what);
    return status;
}

static tutti_status allocate(struct native *n, int size)
{
    n->addresses = calloc((size_t)size, sizeof *n->addresses);
    n->address_bytes = calloc((size_t)size, sizeof *n->address_bytes);
    n->host_of = calloc((size_t)size, sizeof *n->host_of);
    if (n->addresses && n->address_bytes && n->host_of)
        return TUTTI_OK;
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a team of %d members", size);
}

static tutti_status address_of(void *of, void *ret_address, uint64_t capacity, uint64_t *ret_bytes)
{
    struct native *n = of;

    return failed(n, n->ops->address(n->team, ret_address, capacity, ret_bytes), "say its address");
}

/* The endpoint of the same plugin, if the group has it. */
static tutti_endpoint *endpoint_of(const struct tutti_group *group, const char *name)
{
    for (int level = 0; level < TRANSPORTS; level++)
        if (group->endpoints[level].ops && !strcmp(group->endpoints[level].name, name))
            return group->endpoints[level].inmost;
    return NULL;
}

static tutti_status open_team(struct tutti_group *group, struct native *n, const int *host_of,
                              const uint8_t token[CONTROL_TOKEN_BYTES], int64_t deadline_ns)
{
    tutti_team_options options = {.struct_size = sizeof options,
                                  .rank = group->rank,
                                  .size = group->size,
                                  .is_world = group->lineage.is_world,
                                  .name = group->name,
                                  .run_id = group->bootstrap.run_id,
                                  .bind_address = group->bootstrap.bind_address,
                                  .world_ranks = group->lineage.world_ranks,
                                  .host_of = n->host_of,
                                  .endpoint = endpoint_of(group, n->self.name),
                                  .deadline_ns = deadline_ns};

    for (int r = 0; r < group->size; r++)
        n->host_of[r] = host_of[r];
    memcpy(options.token, token, sizeof options.token);
    return failed(n, n->ops->open(&endpoint_services, &n->self, &options, &n->team), "open a team");
}

tutti_status native_open(struct tutti_group *group, const char *name, const int *host_of,
                         const uint8_t token[CONTROL_TOKEN_BYTES], int64_t deadline_ns)
{
    const tutti_plugin *plugin;
    tutti_status status = plugin_find(name, &plugin);

    if (status)
        return status;
    const tutti_collectives_ops *ops = plugin_collectives(plugin);
    if (!ops)
        return error_set(TUTTI_ERR_PLUGIN, "backend %s offers no collectives", name);
    status = endpoint_check_threads(name, ops->threads);
    if (status)
        return status;
    struct native *n = group->native = calloc(1, sizeof *n);
    if (!n)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a team");
    *n = (struct native){.ops = ops,
                         .self = {.group = group, .wait_fd = -1},
                         .wait_fd = -1,
                         .asks = log_enabled(LOG_DETAIL)};
    snprintf(n->self.name, sizeof n->self.name, "%s", name);
    n->facts = (struct native_facts){n->self.name, ops, &endpoint_services, &n->self};
    status = allocate(n, group->size);
    if (!status)
        status = open_team(group, n, host_of, token, deadline_ns);
    if (!status)
        context_plugin_started(plugin, TUTTI_PROVIDER_COLLECTIVES);
    group->callers_only |= ops->threads == TUTTI_THREADS_CALLERS_ONLY; /* known once it is open */
    group->control->compares =
        true; /* others may be done, and leave, before this member has formed the group */
    return status ? status : endpoint_take_address(group, NATIVE, n->self.name, address_of, n);
}

tutti_status native_form(struct tutti_group *group)
{
    struct native *n = group->native;

    if (!n)
        return TUTTI_OK;
    for (int r = 0; r < group->size; r++) {
        n->addresses[r] = group->control->members[r].provider_address[NATIVE];
        n->address_bytes[r] = group->control->members[r].provider_address_size[NATIVE];
    }
    return failed(n, n->ops->form(n->team, n->addresses, n->address_bytes), "form its team");
}

tutti_status native_form_test(struct tutti_group *group)
{
    struct native *n = group->native;

    if (!n)
        return TUTTI_OK;
    tutti_status status = failed(n, n->ops->form_test(n->team), "form its team");
    n->formed = !status;
    if (status || !TUTTI_HAS(n->ops, wait_fd) || !TUTTI_HAS(n->ops, arm))
        return status;
    status = failed(n, n->ops->wait_fd(n->team, &n->wait_fd), "give a descriptor to wait on");
    return status ? status : engine_watch_edge(&group->context->engine, n->wait_fd);
}

void native_close(struct tutti_group *group)
{
    struct native *n = group->native;

    if (!n)
        return;
    if (n->wait_fd >= 0)
        engine_unwatch(&group->context->engine, n->wait_fd);
    if (n->team && !n->aborted && (!n->formed || control_verdict_status(group->control)))
        (void)n->ops->abort(n->team);
    if (n->team)
        n->ops->close(n->team);
    chain_free(&n->kept);
    packed_end(&n->kept_packed, false);
    if (n->kept_work)
        work_let_go(n->kept_work);
    free(n->addresses);
    free(n->address_bytes);
    free(n->host_of);
    free(n);
    group->native = NULL;
}

/* ---- facts ---- */

const struct native_facts *native_facts(const struct tutti_group *group)
{
    return group->native ? &group->native->facts : NULL;
}

bool native_is_polled(const struct tutti_group *group)
{
    return group->native && group->native->wait_fd < 0;
}

bool native_needs_cores(const struct tutti_group *group)
{
    return group->native && !native_is_polled(group) && 2 * group->neighbours > cpu_usable();
}

static bool is_native(const struct call *call)
{
    return call && call->kind == CALL_COLLECTIVE && call->plan &&
           call->plan->plan.algorithm->kind == ALGORITHM_NATIVE;
}

bool native_may_sleep(const struct tutti_group *group)
{
    const struct native *n = group->native;

    if (!n || n->trouble || !is_native(group->queue.first) || group->queue.first->doomed)
        return true;
    if (n->asks && !n->laid_out) /* what it waits for comes by messages */
        return true;
    return n->under_way && n->wait_fd >= 0 && n->ops->arm(n->team) == TUTTI_ARMED;
}

/* ---- one operation ---- */

/* Over, well or badly: the next one begins anew. */
static void forget(struct native *n)
{
    n->under_way = n->laid_out = n->waits = n->late = false;
    n->since_ns = n->asked_ns = 0;
}

static tutti_status start(struct tutti_group *group, struct call *call)
{
    struct native *n = group->native;
    tutti_status status = TUTTI_OK;

    if (!n->laid_out) {
        n->waits = false;
        status = native_memory_lay_out(group, call, &n->memory);
        n->laid_out = !status;
    }
    if (status)
        return status;
    n->request = (tutti_request){.status = TUTTI_ERR_NOT_READY};
    status = n->ops->start(n->team, &n->memory.what, &n->request);
    if (status == TUTTI_ERR_BUSY) {
        n->waits = true;
        return TUTTI_ERR_NOT_READY;
    }
    n->under_way = !status;
    return failed(n, status, "start an operation");
}

static tutti_status test(struct tutti_group *group)
{
    struct native *n = group->native;
    tutti_status status;
    int left = engine_spins(&group->context->engine) ? NATIVE_TESTS_IN_A_ROW : 1;

    do
        status = n->ops->test(n->team, &n->request);
    while (status == TUTTI_ERR_NOT_READY && --left);
    return status;
}

/* A better cause may be found: the control plane knows who was lost, and an engine that complains of what it
 * received may have met a member that called something else. */
static void hold_back(struct native *n, tutti_status status)
{
    n->trouble = status;
    n->trouble_ns = clock_now_ns();
    n->waits = true;
    snprintf(n->words, sizeof n->words, "%.*s", TEXT_CUT(error_message(), 900));
}

/* With TUTTI_DEBUG=DETAIL, before each operation. All members are in the ring, so where each has asked its
 * neighbours all call the same; who has not answers once it has called. Where all ask, nothing comes from one
 * that has not compared, so who begins after a while gets nothing of another call's either. */
static bool neighbours_agree(struct tutti_group *group, const struct call *call)
{
    struct native *n = group->native;
    const uint64_t sequence = call->announce.sequence;
    const int64_t now_ns = clock_now_ns();
    int neighbours[2];

    n->asked_ns = n->asked_ns ? n->asked_ns : now_ns;
    native_neighbours(group, neighbours);
    for (int i = 0; i < 2; i++)
        announced_tell(group, neighbours[i], &call->announce);
    if (group->p2p)
        p2p_progress(group->p2p_engine);
    if (call->doomed)
        return false;
    return (announced_agrees(group, neighbours[0], sequence) &&
            announced_agrees(group, neighbours[1], sequence)) ||
           now_ns - n->asked_ns > ANSWERS_WITHIN_NS;
}

/* What calls are compared by before the engine begins one. */
static bool may_begin(struct tutti_group *group, const struct call *call)
{
    if (sampled_is_due(&group->sampled, call->announce.sequence) && !sampled_tell(group, call))
        return false;
    return !group->native->asks || group->native->laid_out || neighbours_agree(group, call);
}

tutti_status native_advance(struct tutti_group *group, struct call *call)
{
    struct native *n = group->native;
    tutti_status status = TUTTI_OK;

    if (n->trouble)
        return TUTTI_ERR_NOT_READY;
    if (!call->begun) {
        if (!may_begin(group, call)) {
            n->waits = true;
            return TUTTI_ERR_NOT_READY;
        }
        status = start(group, call);
        call->begun = !status;
        if (!status)
            status = n->request.status;
    } else {
        status = test(group);
    }
    if (status == TUTTI_ERR_NOT_READY) {
        n->waits = true;
        return status;
    }
    if (status) {
        hold_back(n, failed(n, status, "complete an operation"));
        return TUTTI_ERR_NOT_READY;
    }
    native_memory_give_back(&n->memory);
    forget(n);
    engine_calm(&group->context->engine);
    return TUTTI_OK;
}

void native_fail(struct tutti_group *group, struct call *call)
{
    struct native *n = group->native;
    char what[192];

    if (!n || n->aborted || !n->team)
        return;
    n->aborted = true;
    tutti_status status = n->ops->abort(n->team);
    if (n->under_way && status == TUTTI_ERR_NOT_READY && call) {
        group_describe_call(call, what, sizeof what);
        log_line(
            LOG_WARN, group->rank,
            "group %s: %s cannot withdraw %s: its tensors may still be written until the group "
            "is destroyed",
            group->name, n->self.name, what);
        n->kept = call->memory; /* stand-ins and tables live as long */
        call->memory.first = NULL;
        n->kept_packed = call->packed;
        call->packed = NULL;
        if (call->state.work) {
            n->kept_work = call->state.work->part_of ? call->state.work->part_of : call->state.work;
            work_hold(n->kept_work);
        }
    }
    forget(n);
}

/* ---- announcements ---- */

/* Asks all members whether they have called the same; false: somebody has not answered. */
static bool all_agree(struct tutti_group *group, const struct announce *call)
{
    bool agree = true;

    for (int r = 0; r < group->size; r++) {
        announced_tell(group, r, call);
        agree &= r == group->rank || announced_agrees(group, r, call->sequence);
    }
    return agree;
}

/* The engine has failed, and no better cause was found in time, or all have called the same. */
static void look_at_trouble(struct tutti_group *group, int64_t now_ns)
{
    struct native *n = group->native;
    const bool lost = n->trouble == TUTTI_ERR_PEER_LOST;
    char words[CONTROL_WORDS_MAX], what[192];
    struct call *call = group->queue.first;

    if (!n->trouble || call->doomed)
        return;
    if ((lost || !all_agree(group, &call->announce)) &&
        now_ns < n->trouble_ns + LOST_WAITS_MS * CLOCK_NS_PER_MS)
        return;
    if (lost) {
        group_describe_call(call, what, sizeof what);
        snprintf(words, sizeof words,
                 "rank %d: a member was lost during %s, yet all members answer (%.*s)", group->rank,
                 what, TEXT_CUT(n->words, 600));
    } else {
        snprintf(words, sizeof words, "rank %d: %.*s", group->rank, TEXT_CUT(n->words, 900));
    }
    call->doomed = true;
    control_propose(group->control, n->trouble, group->rank, words);
}

void native_neighbours(const struct tutti_group *group, int ret_ranks[2])
{
    ret_ranks[0] = (group->rank + 1) % group->size;
    ret_ranks[1] = (group->rank + group->size - 1) % group->size;
}

/* A neighbour that has not announced the call under way, though it was asked; -1: all have, or it is not
 * known. */
static int missing(const struct tutti_group *group, const struct call *call)
{
    int neighbours[2];

    native_neighbours(group, neighbours);
    for (int i = 0; i < 2; i++)
        if (announced_is_missing(group, neighbours[i], call->announce.sequence))
            return neighbours[i];
    return -1;
}

/* When it begins to wait, and again when who was late has come. */
static void be_eager(struct tutti_group *group, const struct call *call, int64_t now_ns)
{
    struct native *n = group->native;
    const int operation = call->announce.words.operation;
    const bool blocks = operation_takes_blocks(operation) || operation_gives_blocks(operation);
    const bool was_late = n->late;

    n->late = missing(group, call) >= 0;
    if (n->wait_fd >= 0 || (n->since_ns && !(was_late && !n->late)))
        return;
    engine_be_eager(&group->context->engine, now_ns,
                    call->bytes * (blocks ? (uint64_t)group->size : 1));
}

void native_look(struct tutti_group *group, int64_t now_ns)
{
    struct native *n = group->native;
    const struct call *call = group->queue.first;
    int neighbours[2];

    if (!n || !is_native(call) || !n->waits)
        return;
    look_at_trouble(group, now_ns);
    be_eager(group, call, now_ns);
    if (!n->since_ns) {
        n->since_ns = now_ns;
        return;
    }
    if (now_ns - n->since_ns < ANNOUNCE_AFTER_NS)
        return;
    native_neighbours(group, neighbours);
    for (int i = 0; i < 2; i++)
        announced_tell(group, neighbours[i], &call->announce);
}

struct waiting native_waiting(const struct tutti_group *group, const struct call *call)
{
    const struct native *n = group->native;
    const int neighbour = missing(group, call);

    if (neighbour >= 0)
        return (struct waiting){.kind = WAITING_ANSWER, .rank = neighbour};
    int rank = n->under_way && TUTTI_HAS(n->ops, waits_for) ? n->ops->waits_for(n->team) : -1;
    if (rank < 0 || rank >= group->size || rank == group->rank)
        return (struct waiting){.kind = WAITING_ANSWER, .rank = -1};
    return (struct waiting){.kind = WAITING_RECEIVE, .rank = rank};
}
