/* SPDX-License-Identifier: Apache-2.0 */
#include "provider/native.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "plugin/plugin.h"
#include "provider/channel.h"
#include "provider/endpoints.h"
#include "secret/tls.h"
#include "tensor/packed.h"

/* ---- opening and closing ---- */

tutti_status native_explain(struct native *n, tutti_status status, const char *what)
{
    if (n->user.status != status &&
        !gather_tell_failure(n->user.group->control, (uint32_t)n->user.place, status))
        error_set(status, "%s failed to %s and gave no reason", n->user.name, what);
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

    return native_failed(n, n->ops->address(n->team, ret_address, capacity, ret_bytes),
                         "say its address");
}

/* The endpoint of the same plugin, if the group has it. */
static tutti_endpoint *endpoint_of(const struct tutti_group *group, const char *name)
{
    for (int level = 0; level < TRANSPORTS; level++)
        if (group->ways.endpoints[level].ops &&
            !strcmp(group->ways.endpoints[level].user.name, name))
            return group->ways.endpoints[level].inmost;
    return NULL;
}

static tutti_status find_device(struct tutti_group *group, struct native *n, const int *host_of)
{
    int local = group->origin.local_rank, before = 0;

    for (int r = 0; r < group->rank; r++)
        before += host_of[r] == host_of[group->rank];
    local = local < 0 ? before : local; /* the world has no layout yet */
    n->facts.device_type = group->choice.device_type;
    return group_open_device(group, n->facts.device_type, local, &n->device);
}

static void tell_device(const struct native *n, tutti_team_options *options)
{
    options->device_type = device_type(n->device);
    options->device = device_number(n->device);
    options->device_ops = device_ops(n->device);
    options->accelerator = device_accelerator(n->device);
    memcpy(options->device_uuid, device_uuid_bytes(n->device), sizeof options->device_uuid);
}

static tutti_status open_team(struct tutti_group *group, struct native *n, const int *host_of,
                              int64_t deadline_ns)
{
    tutti_team_options options = {.struct_size = sizeof options,
                                  .rank = group->rank,
                                  .size = group->size,
                                  .is_world = group->origin.is_world,
                                  .name = group->name,
                                  .run_id = group->bootstrap.run_id,
                                  .bind_address = group->bootstrap.bind_address,
                                  .world_ranks = group->origin.world_ranks,
                                  .host_of = n->host_of,
                                  .endpoint = endpoint_of(group, n->user.name),
                                  .deadline_ns = deadline_ns};

    for (int r = 0; r < group->size; r++)
        n->host_of[r] = host_of[r];
    if (n->device)
        tell_device(n, &options);
    tutti_status status = host_token(&n->user, options.token);
    if (status)
        return status;
    return native_failed(n, n->ops->open(&endpoint_services, &n->user, &options, &n->team),
                         "open a team");
}

tutti_status native_open(struct tutti_group *group, int place, const char *name, const int *host_of,
                         int64_t deadline_ns)
{
    struct native **at = place == NATIVE ? &group->ways.native : &group->ways.device_native;
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
    struct native *n = *at = calloc(1, sizeof *n);
    if (!n)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a team");
    *n = (struct native){.ops = ops,
                         .user = {.rank = group->rank, .place = place, .group = group},
                         .wait_fd = -1,
                         .asks = log_enabled(LOG_DETAIL)};
    snprintf(n->user.name, sizeof n->user.name, "%s", name);
    n->facts = (struct native_facts){n->user.name, ops, &endpoint_services, &n->user, 0};
    status = allocate(n, group->size);
    if (!status && place == DEVICE_NATIVE)
        status = find_device(group, n, host_of);
    if (!status)
        status = open_team(group, n, host_of, deadline_ns);
    if (!status)
        plugin_started(plugin, TUTTI_PROVIDER_COLLECTIVES);
    group->needs.callers_only |=
        ops->threads == TUTTI_THREADS_CALLERS_ONLY; /* known once it is open */
    group->control->compares =
        true; /* others may be done, and leave, before this member has formed the group */
    return status ? status : endpoint_take_address(group, place, n->user.name, address_of, n);
}

static tutti_status form(struct tutti_group *group, struct native *n)
{
    if (!n)
        return TUTTI_OK;
    for (int r = 0; r < group->size; r++) {
        n->addresses[r] = group->control->members[r].provider_address[n->user.place];
        n->address_bytes[r] = group->control->members[r].provider_address_size[n->user.place];
    }
    return native_failed(n, n->ops->form(n->team, n->addresses, n->address_bytes), "form its team");
}

tutti_status native_form(struct tutti_group *group)
{
    tutti_status status = form(group, group->ways.native);

    return status ? status : form(group, group->ways.device_native);
}

static tutti_status form_test(struct tutti_group *group, struct native *n)
{
    if (!n || n->formed)
        return TUTTI_OK;
    tutti_status status = native_failed(n, n->ops->form_test(n->team), "form its team");
    n->formed = !status;
    if (status || n->device || !TUTTI_HAS(n->ops, wait_fd) || !TUTTI_HAS(n->ops, arm))
        return status;
    status =
        native_failed(n, n->ops->wait_fd(n->team, &n->wait_fd), "give a descriptor to wait on");
    return status ? status : engine_watch_edge(&group->context->engine, n->wait_fd);
}

tutti_status native_form_test(struct tutti_group *group)
{
    tutti_status status = form_test(group, group->ways.native);

    return status ? status : form_test(group, group->ways.device_native);
}

void native_abort_failed(struct tutti_group *group, struct native *n)
{
    if (n->owes_abort) {
        n->owes_abort = false;
        (void)n->ops->abort(n->team);
        return;
    }
    if (!n->team || n->aborted || (n->formed && !control_verdict_status(group->control)))
        return;
    n->aborted = true;
    (void)n->ops->abort(n->team);
}

static void close_one(struct tutti_group *group, struct native *n)
{
    if (!n)
        return;
    if (n->wait_fd >= 0)
        engine_unwatch(&group->context->engine, n->wait_fd);
    native_abort_failed(group, n);
    if (n->team)
        n->ops->close(n->team);
    chain_free(&n->kept);
    packed_end(&n->kept_packed, false);
    if (n->kept_work)
        work_let_go(n->kept_work);
    free(n->addresses);
    free(n->address_bytes);
    free(n->host_of);
    tls_keys_free(n->user.keys);
    free(n);
}

void native_close(struct tutti_group *group)
{
    channels_close(group);
    close_one(group, group->ways.device_native);
    close_one(group, group->ways.native);
    group->ways.native = group->ways.device_native = NULL;
}

/* ---- facts ---- */

const struct native_facts *native_facts(const struct tutti_group *group)
{
    return group->ways.native ? &group->ways.native->facts : NULL;
}

bool native_is_polled(const struct tutti_group *group)
{
    return group->ways.native && group->ways.native->wait_fd < 0;
}

bool native_needs_cores(const struct tutti_group *group)
{
    return group->ways.native && !native_is_polled(group) &&
           2 * group->needs.neighbours > group->needs.cpus;
}

/* ---- one operation ---- */

void native_forget(struct native *n)
{
    n->under_way = n->laid_out = n->waits = n->late = false;
    n->since_ns = n->asked_ns = 0;
}

bool native_may_join(const struct tutti_group *group, const struct call_fields *fields)
{
    const struct native *n = group->ways.device_native;

    return n && TUTTI_HAS(n->ops, start_batch) && fields->flags & CALL_DIRECT &&
           (fields->count || fields->flags & CALL_UNEVEN);
}

static tutti_status lay_out_one(struct tutti_group *group, struct native *n, struct call *call)
{
    const tutti_status status = native_memory_lay_out(group, call, &n->memory);

    if (n->device) {
        n->memory.what.device = device_number(n->device);
        n->memory.what.stream = call->stream;
        n->memory.what.flags |= call->captured ? TUTTI_COLLECTIVE_CAPTURED : 0;
    }
    return status;
}

static tutti_status lay_out_batch(struct tutti_group *group, struct native *n, struct call *first,
                                  uint32_t count)
{
    const size_t bytes = count * (sizeof *n->batch + sizeof **n->batch);
    const tutti_collective **list = chain_allocate(&first->memory, bytes);
    tutti_collective *each = (tutti_collective *)(list ? list + count : NULL);
    tutti_status status = TUTTI_OK;

    if (!each)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a batch of %u calls", count);
    for (struct call *call = first; call && !status; call = native_next(call)) {
        status = lay_out_one(group, n, call);
        *each = n->memory.what;
        list[n->batch_count++] = each++;
    }
    n->batch = list;
    return status;
}

static tutti_status lay_out(struct tutti_group *group, struct native *n, struct call *first)
{
    uint32_t count = 0;

    n->waits = false;
    n->batch_count = 0;
    for (const struct call *call = first; call; call = native_next(call))
        count++;
    tutti_status status =
        count == 1 ? lay_out_one(group, n, first) : lay_out_batch(group, n, first, count);
    n->kernels.step = n->kernels.steps = 0;
    n->kernels.has_copied = false;
    if (!status && first->plan->plan.algorithm->kind == ALGORITHM_KERNELS)
        status = native_kernels_begin(n, first);
    n->laid_out = !status;
    return status;
}

static tutti_status started(struct native *n, tutti_status status)
{
    if (status == TUTTI_ERR_BUSY) {
        n->waits = true;
        return TUTTI_ERR_NOT_READY;
    }
    n->under_way = !status;
    return native_failed(n, status, "start an operation");
}

tutti_status native_start_one(struct native *n, const tutti_collective *what)
{
    n->request = (tutti_request){.status = TUTTI_ERR_NOT_READY};
    return started(n, n->ops->start(n->team, what, &n->request));
}

tutti_status native_start(struct tutti_group *group, struct call *call)
{
    struct native *n = native_of(group, call);
    tutti_status status = n->laid_out ? TUTTI_OK : lay_out(group, n, call);

    if (status)
        return status;
    if (n->kernels.steps) {
        n->request.status = TUTTI_OK; /* native_kernels_go_on() starts them */
        return TUTTI_OK;
    }
    if (!n->batch_count)
        return native_start_one(n, &n->memory.what);
    n->request = (tutti_request){.status = TUTTI_ERR_NOT_READY};
    return started(n, n->ops->start_batch(n->team, n->batch, n->batch_count, &n->request));
}

tutti_status native_test(struct tutti_group *group, struct native *n)
{
    tutti_status status;
    int left = engine_spins(&group->context->engine) ? WAITING_TESTS_IN_A_ROW : 1;

    do
        status = n->ops->test(n->team, &n->request);
    while (status == TUTTI_ERR_NOT_READY && --left);
    return status;
}

tutti_status native_lend(struct tutti_group *group, struct native *n)
{
    struct progress_engine *engine = &group->context->engine;
    const int64_t until_ns = clock_deadline_ms(group->timeout_ms);

    for (;;) {
        engine_take(engine);
        const bool is_free = !n->under_way && !n->lent;
        n->lent |= is_free;
        engine_release(engine);
        if (is_free) {
            host_borrow(&n->user);
            return TUTTI_OK;
        }
        if (clock_now_ns() > until_ns)
            return error_set(TUTTI_ERR_TIMEOUT,
                             "timed out after %lld ms waiting for %s, which begins an operation",
                             (long long)group->timeout_ms, n->user.name);
        engine_wait_ns(engine, CLOCK_NS_PER_MS / 10);
    }
}

void native_return(struct tutti_group *group, struct native *n)
{
    struct progress_engine *engine = &group->context->engine;

    host_borrow(NULL);
    engine_take(engine);
    n->lent = false;
    if (n->owes_abort)
        native_abort_failed(group, n);
    engine_visit(engine);
    engine_release(engine);
}

tutti_status native_withdraw(struct native *n, struct call *call)
{
    n->aborted = true;
    if (n->lent) { /* nothing is under way */
        n->owes_abort = true;
        native_forget(n);
        return TUTTI_OK;
    }
    const tutti_status status = n->ops->abort(n->team);
    const bool keeps = n->under_way && status == TUTTI_ERR_NOT_READY && call;
    native_forget(n);
    if (!keeps)
        return TUTTI_OK;
    n->kept = call->memory; /* stand-ins and tables live as long */
    call->memory.first = NULL;
    struct packed **last = &n->kept_packed;
    for (struct call *each = call; each; each = native_next(each)) {
        packed_give_up(each->packed);
        *last = each->packed;
        each->packed = NULL;
        while (*last)
            last = &(*last)->next;
    }
    if (call->state.work) {
        n->kept_work = call->state.work->part_of ? call->state.work->part_of : call->state.work;
        work_hold(n->kept_work);
    }
    return TUTTI_ERR_NOT_READY;
}
