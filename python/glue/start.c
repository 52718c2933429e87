/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations, as the C API has them: one tensor a side, a list of tensors on a side, or one
 * with counts. All run without the GIL.
 */
#include "glue.h"

static const tutti_tensor *tensor_of(const struct side *side)
{
    return side->count ? &side->arrays->tensor : NULL;
}

static tutti_status start_plain(const struct request *r, struct call *call, tutti_work **work)
{
    const tutti_tensor *in = tensor_of(&call->in), *out = tensor_of(&call->out);

    switch (r->operation) {
    case OPERATION_ALL_REDUCE:
        return in ? tutti_all_reduce_into(r->group, in, out, r->op, r->options, work)
                  : tutti_all_reduce(r->group, out, r->op, r->options, work);
    case OPERATION_REDUCE:
        return in ? tutti_reduce_into(r->group, in, out, r->op, r->root, r->options, work)
                  : tutti_reduce(r->group, out, r->op, r->root, r->options, work);
    case OPERATION_BROADCAST:
        return tutti_broadcast(r->group, in ? in : out, r->root, r->options, work);
    case OPERATION_ALL_GATHER:
        return tutti_all_gather(r->group, in, out, r->options, work);
    case OPERATION_GATHER:
        return tutti_gather(r->group, in, out, r->root, r->options, work);
    case OPERATION_SCATTER:
        return tutti_scatter(r->group, in, out, r->root, r->options, work);
    case OPERATION_REDUCE_SCATTER:
        return tutti_reduce_scatter(r->group, in, out, r->op, r->options, work);
    case OPERATION_ALL_TO_ALL:
        return tutti_all_to_all(r->group, in, out, r->options, work);
    case OPERATION_BARRIER:
        return tutti_barrier(r->group, r->options, work);
    case OPERATION_MONITORED_BARRIER:
        return tutti_monitored_barrier(r->group, r->options, work);
    default:
        return TUTTI_ERR_INTERNAL;
    }
}

static tutti_status start_lists(const struct request *r, struct call *call, tutti_work **work)
{
    const tutti_tensor *in = tensor_of(&call->in), *out = tensor_of(&call->out);
    const tutti_tensor *const *ins = call->in.tensors, *const *outs = call->out.tensors;

    switch (r->operation) {
    case OPERATION_ALL_GATHER:
        return tutti_all_gather_list(r->group, in, outs, r->options, work);
    case OPERATION_GATHER:
        return tutti_gather_list(r->group, in, outs, r->root, r->options, work);
    case OPERATION_SCATTER:
        return tutti_scatter_list(r->group, ins, out, r->root, r->options, work);
    case OPERATION_REDUCE_SCATTER:
        return tutti_reduce_scatter_list(r->group, ins, out, r->op, r->options, work);
    case OPERATION_ALL_TO_ALL:
        return tutti_all_to_all_list(r->group, ins, outs, r->options, work);
    default:
        return TUTTI_ERR_INTERNAL;
    }
}

static tutti_status start_uneven(const struct request *r, struct call *call, tutti_work **work)
{
    const tutti_tensor *in = tensor_of(&call->in), *out = tensor_of(&call->out);
    const int64_t *in_counts = call->in.counts, *in_offsets = call->in.offsets;
    const int64_t *out_counts = call->out.counts, *out_offsets = call->out.offsets;

    switch (r->operation) {
    case OPERATION_ALL_GATHER:
        return tutti_all_gather_v(r->group, in, out, out_counts, out_offsets, r->options, work);
    case OPERATION_GATHER:
        return tutti_gather_v(r->group, in, out, out_counts, out_offsets, r->root, r->options,
                              work);
    case OPERATION_SCATTER:
        return tutti_scatter_v(r->group, in, in_counts, in_offsets, out, r->root, r->options, work);
    case OPERATION_REDUCE_SCATTER:
        return tutti_reduce_scatter_v(r->group, in, in_counts, in_offsets, out, r->op, r->options,
                                      work);
    case OPERATION_ALL_TO_ALL:
        return tutti_all_to_all_v(r->group, in, in_counts, in_offsets, out, out_counts, out_offsets,
                                  r->options, work);
    default:
        return TUTTI_ERR_INTERNAL;
    }
}

/* A message into a batch has no handle; its source and size are written when the batch is
 * complete. */
static tutti_status start_message(const struct request *r, struct call *call, tutti_work **work)
{
    const tutti_tensor *in = tensor_of(&call->in), *out = tensor_of(&call->out);

    switch (r->operation) {
    case OPERATION_SEND:
        return work ? tutti_isend(r->group, in, r->root, r->tag, r->options, work)
                    : tutti_send(r->group, in, r->root, r->tag, r->options);
    case OPERATION_RECV:
        return work ? tutti_irecv(r->group, out, r->root, r->tag, r->options, work)
                    : tutti_recv(r->group, out, r->root, r->tag, r->options, &call->source);
    default:
        return work ? tutti_irecv_up_to(r->group, out, r->root, r->tag, r->options, work)
                    : tutti_recv_up_to(r->group, out, r->root, r->tag, r->options, &call->source,
                                       &call->bytes);
    }
}

tutti_status start(const struct request *request, struct call *call, tutti_work **work)
{
    if (request->operation >= OPERATION_SEND)
        return start_message(request, call, work);
    if (call->uneven)
        return start_uneven(request, call, work);
    if (call->in.is_list || call->out.is_list)
        return start_lists(request, call, work);
    return start_plain(request, call, work);
}
