/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MPI's own collectives, on a communicator for each group.
 *
 * Operations take the non-blocking forms and are polled, so deadlines, deaths and aborts are the
 * core's as ever; a blocking form, which TUTTI_MPI_BLOCKING=1 asks for, can be neither left nor woken.
 * Making the communicator has no such form (MPI_Comm_create_group blocks until all members are in
 * it): form.c.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tensor.h>

#include "caller.h"
#include "engine_inside.h"
#include "errors.h"
#include "form.h"
#include "job.h"

enum { ADDRESS_BYTES = 8 }; /* place in the job, number of the meeting */

struct tutti_team {
    struct caller caller;
    const struct job *job;
    int rank, size;
    bool blocking;
    int number;            /* of the meeting; -1: none any more */
    struct form *form;     /* NULL: not begun */
    MPI_Comm comm;         /* MPI_COMM_NULL until it is made */
    MPI_Request request;   /* MPI_REQUEST_NULL: nothing is under way */
    int *counts, *offsets; /* [size] of the uneven blocks of the operation under way */
};

static tutti_status failure(tutti_team *team, const char *what, int code)
{
    char words[MPI_MAX_ERROR_STRING];

    return refuse(&team->caller, job_status(code), "%s failed: %.300s", what,
                  job_words(code, words));
}

/* ---- teams --------------------------------------------------------------------------------- */

static const char blocking_words[] = "TUTTI_MPI_BLOCKING=1: collectives are MPI's blocking calls, "
                                     "which neither deadlines nor aborts "
                                     "end, nor the death of a member";

static void team_close(tutti_team *team);
static void make_own_ops(void);

static tutti_status team_open(const tutti_host *host, void *host_self,
                              const tutti_team_options *options, tutti_team **ret_team)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    tutti_team *team = host->allocate(host_self, sizeof *team);

    if (!team)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    *team = (tutti_team){.caller = {.host = host, .host_self = host_self},
                         .rank = options->rank,
                         .size = options->size,
                         .blocking = job_blocks(host, host_self),
                         .number = -1,
                         .comm = MPI_COMM_NULL,
                         .request = MPI_REQUEST_NULL};
    tutti_status status = job_join(host, host_self, options->deadline_ns, &team->job);
    if (!status)
        status = job_take_meeting(host, host_self, &team->number);
    if (!status) {
        job_lock();
        pthread_once(&once, make_own_ops);
        job_unlock();
    }
    team->counts = host->allocate(host_self, (uint64_t)options->size * sizeof(int));
    team->offsets = host->allocate(host_self, (uint64_t)options->size * sizeof(int));
    if (!status && (!team->counts || !team->offsets))
        status = host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    if (status) {
        team_close(team);
        return status;
    }
    if (team->blocking && options->is_world && options->rank == 0)
        host->log(host_self, 1, blocking_words);
    *ret_team = team;
    return TUTTI_OK;
}

static void put(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> 8 * i);
}

static uint32_t get(const uint8_t *from)
{
    return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16 | (uint32_t)from[3] << 24;
}

static tutti_status team_address(tutti_team *team, void *ret_address, uint64_t capacity,
                                 uint64_t *ret_bytes)
{
    uint8_t *to = ret_address;

    if (capacity < ADDRESS_BYTES)
        return refuse(&team->caller, TUTTI_ERR_INTERNAL, "the address needs %d bytes",
                      ADDRESS_BYTES);
    put(to, (uint32_t)team->job->rank);
    put(to + 4, (uint32_t)team->number);
    *ret_bytes = ADDRESS_BYTES;
    return TUTTI_OK;
}

/* The members' ranks in the job, which are as many different ones, and their numbers. */
static tutti_status take_members(tutti_team *team, const void *const *addresses,
                                 const uint64_t *bytes, int *ret_ranks, int *ret_numbers)
{
    for (int r = 0; r < team->size; r++) {
        const uint8_t *from = addresses[r];
        const bool known = bytes[r] == ADDRESS_BYTES;
        const uint32_t rank = known ? get(from) : 0, number = known ? get(from + 4) : 0;

        if (!known || rank >= (uint32_t)team->job->size || number >= (uint32_t)team->job->meetings)
            return refuse(
                &team->caller, TUTTI_ERR_MISMATCH,
                "rank %d is not a process of this MPI job; start all ranks with one mpirun or srun",
                r);
        for (int other = 0; other < r; other++)
            if (ret_ranks[other] == (int)rank)
                return refuse(&team->caller, TUTTI_ERR_MISMATCH,
                              "ranks %d and %d are both process %u of their MPI job; each needs a "
                              "process of its own, of one job",
                              other, r, rank);
        ret_ranks[r] = (int)rank;
        ret_numbers[r] = (int)number;
    }
    return TUTTI_OK;
}

static tutti_status team_form(tutti_team *team, const void *const *addresses, const uint64_t *bytes)
{
    tutti_status status = take_members(team, addresses, bytes, team->counts, team->offsets);

    if (status)
        return status;
    team->number = -1; /* the form's */
    return form_begin(&team->caller, team->job, team->counts, team->offsets, team->size, team->rank,
                      &team->form);
}

static tutti_status team_form_test(tutti_team *team)
{
    return form_test(&team->caller, team->form, &team->comm);
}

/* An operation of MPI cannot be taken back. */
static tutti_status team_abort(tutti_team *team)
{
    job_warn_of_finalize(&team->caller);
    return team->request == MPI_REQUEST_NULL ? TUTTI_OK : TUTTI_ERR_NOT_READY;
}

/* To free a communicator is of no use to others, and MPI may still work on one with an operation. */
static void team_close(tutti_team *team)
{
    int ended = 0;

    MPI_Finalized(&ended);
    job_lock();
    if (!ended && team->job && !job_is_foreign(team->job) && team->comm != MPI_COMM_NULL &&
        team->request == MPI_REQUEST_NULL)
        MPI_Comm_free(&team->comm);
    job_unlock();
    form_end(team->form);
    if (team->number >= 0)
        job_give_meeting(team->number);
    if (team->counts)
        team->caller.host->release(team->caller.host_self, team->counts);
    if (team->offsets)
        team->caller.host->release(team->caller.host_self, team->offsets);
    team->caller.host->release(team->caller.host_self, team);
}

/* ---- what is sent -------------------------------------------------------------------------- */

/* The type for elements that are only moved, by their size. */
static MPI_Datatype type_to_move(uint32_t element_bytes)
{
    switch (element_bytes) {
    case 1:
        return MPI_UINT8_T;
    case 2:
        return MPI_UINT16_T;
    case 4:
        return MPI_UINT32_T;
    case 8:
        return MPI_UINT64_T;
    case 16:
        return MPI_C_DOUBLE_COMPLEX;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/* Sums and products of signed integers wrap as those of unsigned ones do; only an order tells them
 * apart. */
static MPI_Datatype type_to_reduce(uint32_t dtype, int32_t op)
{
    bool ordered = op == TUTTI_MIN || op == TUTTI_MAX;

    switch (dtype) {
    case TUTTI_F32:
        return MPI_FLOAT;
    case TUTTI_F64:
        return MPI_DOUBLE;
    case TUTTI_I8:
        return ordered ? MPI_INT8_T : MPI_UINT8_T;
    case TUTTI_I16:
        return ordered ? MPI_INT16_T : MPI_UINT16_T;
    case TUTTI_I32:
        return ordered ? MPI_INT32_T : MPI_UINT32_T;
    case TUTTI_I64:
        return ordered ? MPI_INT64_T : MPI_UINT64_T;
    case TUTTI_U8:
        return MPI_UINT8_T;
    case TUTTI_U16:
        return MPI_UINT16_T;
    case TUTTI_U32:
        return MPI_UINT32_T;
    case TUTTI_U64:
        return MPI_UINT64_T;
    default:
        return MPI_DATATYPE_NULL;
    }
}

/*
 * Operations of our own where the libraries' do something else: MPI_MIN and MPI_MAX of unsigned
 * integers compare them as signed ones in MPICH 4.0 (all widths) and, for MPI_UNSIGNED_LONG, in Open
 * MPI 4.1; MPI_SUM of 8-bit integers saturates in Open MPI 4.1 where the CPU has AVX. A program's tensors
 * may lie anywhere.
 */
#define OWN_OP(name, type, value)                                                                  \
    static void name(void *in, void *in_out, int *count, MPI_Datatype *datatype)                   \
    {                                                                                              \
        typedef type anywhere __attribute__((aligned(1)));                                         \
        const anywhere *a = in;                                                                    \
        anywhere *b = in_out;                                                                      \
                                                                                                   \
        (void)datatype;                                                                            \
        for (int i = 0; i < *count; i++)                                                           \
            b[i] = (type)(value);                                                                  \
    }
OWN_OP(sum_8, uint8_t, a[i] + b[i])
OWN_OP(sum_16, uint16_t, a[i] + b[i])
OWN_OP(product_8, uint8_t, a[i] * b[i])
OWN_OP(product_16, uint16_t, (uint32_t)a[i] * b[i])
OWN_OP(min_u8, uint8_t, a[i] < b[i] ? a[i] : b[i])
OWN_OP(min_u16, uint16_t, a[i] < b[i] ? a[i] : b[i])
OWN_OP(min_u32, uint32_t, a[i] < b[i] ? a[i] : b[i])
OWN_OP(min_u64, uint64_t, a[i] < b[i] ? a[i] : b[i])
OWN_OP(max_u8, uint8_t, a[i] > b[i] ? a[i] : b[i])
OWN_OP(max_u16, uint16_t, a[i] > b[i] ? a[i] : b[i])
OWN_OP(max_u32, uint32_t, a[i] > b[i] ? a[i] : b[i])
OWN_OP(max_u64, uint64_t, a[i] > b[i] ? a[i] : b[i])

static struct {
    uint32_t dtype;
    int32_t op;
    MPI_User_function *function;
    MPI_Op made;
} own_ops[] = {
    {TUTTI_U8, TUTTI_SUM, sum_8, MPI_OP_NULL},
    {TUTTI_I8, TUTTI_SUM, sum_8, MPI_OP_NULL},
    {TUTTI_U16, TUTTI_SUM, sum_16, MPI_OP_NULL},
    {TUTTI_I16, TUTTI_SUM, sum_16, MPI_OP_NULL},
    {TUTTI_U8, TUTTI_PRODUCT, product_8, MPI_OP_NULL},
    {TUTTI_I8, TUTTI_PRODUCT, product_8, MPI_OP_NULL},
    {TUTTI_U16, TUTTI_PRODUCT, product_16, MPI_OP_NULL},
    {TUTTI_I16, TUTTI_PRODUCT, product_16, MPI_OP_NULL},
    {TUTTI_U8, TUTTI_MIN, min_u8, MPI_OP_NULL},
    {TUTTI_U16, TUTTI_MIN, min_u16, MPI_OP_NULL},
    {TUTTI_U32, TUTTI_MIN, min_u32, MPI_OP_NULL},
    {TUTTI_U64, TUTTI_MIN, min_u64, MPI_OP_NULL},
    {TUTTI_U8, TUTTI_MAX, max_u8, MPI_OP_NULL},
    {TUTTI_U16, TUTTI_MAX, max_u16, MPI_OP_NULL},
    {TUTTI_U32, TUTTI_MAX, max_u32, MPI_OP_NULL},
    {TUTTI_U64, TUTTI_MAX, max_u64, MPI_OP_NULL},
};
enum { OWN_OPS = sizeof own_ops / sizeof own_ops[0] };

/* They live as long as MPI. */
static void make_own_ops(void)
{
    for (int i = 0; i < OWN_OPS; i++)
        MPI_Op_create(own_ops[i].function, 1, &own_ops[i].made);
}

/* None is of floats, which most calls are: they are not looked for. */
static MPI_Op own_op_of(uint32_t dtype, int32_t op)
{
    if (dtype == TUTTI_F32 || dtype == TUTTI_F64)
        return MPI_OP_NULL;
    for (int i = 0; i < OWN_OPS; i++)
        if (own_ops[i].dtype == dtype && own_ops[i].op == op)
            return own_ops[i].made;
    return MPI_OP_NULL;
}

static MPI_Op op_of(uint32_t dtype, int32_t op)
{
    const MPI_Op own = own_op_of(dtype, op);

    if (own != MPI_OP_NULL)
        return own;
    switch (op) {
    case TUTTI_SUM:
        return MPI_SUM;
    case TUTTI_PRODUCT:
        return MPI_PROD;
    case TUTTI_MIN:
        return MPI_MIN;
    case TUTTI_MAX:
        return MPI_MAX;
    case TUTTI_BAND:
        return MPI_BAND;
    case TUTTI_BOR:
        return MPI_BOR;
    case TUTTI_BXOR:
        return MPI_BXOR;
    default:
        return MPI_OP_NULL;
    }
}

/* MPI keeps the arrays until the operation is complete. */
static void lay_out(tutti_team *team, const uint64_t *counts)
{
    uint64_t offset = 0;

    for (int r = 0; r < team->size; r++) {
        team->counts[r] = (int)counts[r];
        team->offsets[r] = (int)offset;
        offset += counts[r];
    }
}

/* ---- operations ---------------------------------------------------------------------------- */

/* The vector or block `own` of `blocks` lies where it belongs. */
static bool is_in_place(const tutti_team *team, const tutti_collective *what, const void *own,
                        const void *blocks)
{
    return (const uint8_t *)own ==
           (const uint8_t *)blocks + (uint64_t)team->rank * what->count * what->element_bytes;
}

/* MPI_IN_PLACE is for all members or for none where there is no root (Open MPI chooses its algorithm
 * by it), and some may call in place when others do not: so it is always used. */
static void bring_in_place(const tutti_collective *what, uint64_t offset)
{
    uint8_t *to = (uint8_t *)what->out + offset * what->element_bytes;

    if (what->in != to && what->own_count)
        memcpy(to, what->in, what->own_count * what->element_bytes);
}

/* The form that is polled, or the one that blocks, which is over when it returns. */
#define CALL(polled_form, blocking_form, ...)                                                      \
    (team->blocking ? blocking_form(__VA_ARGS__, team->comm)                                       \
                    : polled_form(__VA_ARGS__, team->comm, &team->request))

static int start_uneven(tutti_team *team, const tutti_collective *what, MPI_Datatype type)
{
    if (what->operation == TUTTI_COLLECTIVE_REDUCE_SCATTER) {
        lay_out(team, what->in_counts);
        return CALL(MPI_Ireduce_scatter, MPI_Reduce_scatter, what->in, what->out, team->counts,
                    type, op_of(what->dtype, what->op));
    }
    lay_out(team, what->out_counts);
    bring_in_place(what, (uint64_t)team->offsets[team->rank]);
    return CALL(MPI_Iallgatherv, MPI_Allgatherv, MPI_IN_PLACE, 0, type, what->out, team->counts,
                team->offsets, type);
}

/* MPI_Reduce of MPICH 4.0 reads from MPI_IN_PLACE for roots but 0; MPI_Ireduce does not. */
static int start_reduce(tutti_team *team, const tutti_collective *what, MPI_Datatype type)
{
    const bool in_place = team->rank == what->root && what->in == what->out;
    int code = MPI_Ireduce(in_place ? MPI_IN_PLACE : what->in, what->out, (int)what->count, type,
                           op_of(what->dtype, what->op), what->root, team->comm, &team->request);

    return team->blocking && code == MPI_SUCCESS ? MPI_Wait(&team->request, MPI_STATUS_IGNORE)
                                                 : code;
}

static int start_rooted(tutti_team *team, const tutti_collective *what, MPI_Datatype type)
{
    const int count = (int)what->count, root = what->root;
    const bool is_root = team->rank == root;
    const void *in = what->in;
    void *out = what->out;

    switch (what->operation) {
    case TUTTI_COLLECTIVE_BROADCAST:
        return CALL(MPI_Ibcast, MPI_Bcast, out, count, type, root);
    case TUTTI_COLLECTIVE_REDUCE:
        return start_reduce(team, what, type);
    case TUTTI_COLLECTIVE_GATHER:
        in = is_root && is_in_place(team, what, in, out) ? MPI_IN_PLACE : in;
        return CALL(MPI_Igather, MPI_Gather, in, count, type, out, count, type, root);
    default:
        out = is_root && is_in_place(team, what, out, in) ? MPI_IN_PLACE : out;
        return CALL(MPI_Iscatter, MPI_Scatter, in, count, type, out, count, type, root);
    }
}

static int start_even(tutti_team *team, const tutti_collective *what, MPI_Datatype type)
{
    const int count = (int)what->count;

    switch (what->operation) {
    case TUTTI_COLLECTIVE_BARRIER:
        return team->blocking ? MPI_Barrier(team->comm) : MPI_Ibarrier(team->comm, &team->request);
    case TUTTI_COLLECTIVE_ALL_REDUCE:
        bring_in_place(what, 0);
        return CALL(MPI_Iallreduce, MPI_Allreduce, MPI_IN_PLACE, what->out, count, type,
                    op_of(what->dtype, what->op));
    case TUTTI_COLLECTIVE_ALL_GATHER:
        bring_in_place(what, (uint64_t)team->rank * what->count);
        return CALL(MPI_Iallgather, MPI_Allgather, MPI_IN_PLACE, 0, type, what->out, count, type);
    case TUTTI_COLLECTIVE_REDUCE_SCATTER:
        return CALL(MPI_Ireduce_scatter_block, MPI_Reduce_scatter_block, what->in, what->out, count,
                    type, op_of(what->dtype, what->op));
    case TUTTI_COLLECTIVE_ALL_TO_ALL:
        return CALL(MPI_Ialltoall, MPI_Alltoall, what->in, count, type, what->out, count, type);
    default:
        return start_rooted(team, what, type);
    }
}

static tutti_status team_start(tutti_team *team, const tutti_collective *what,
                               tutti_request *request)
{
    MPI_Datatype type =
        what->op >= 0 ? type_to_reduce(what->dtype, what->op) : type_to_move(what->element_bytes);
    tutti_status status = job_check_call(&team->caller, team->job);

    if (status)
        return status;
    job_lock();
    int code = what->flags & TUTTI_COLLECTIVE_UNEVEN ? start_uneven(team, what, type)
                                                     : start_even(team, what, type);
    job_unlock();
    if (code != MPI_SUCCESS) {
        team->request = MPI_REQUEST_NULL;
        return failure(team, "starting the operation", code);
    }
    request->status = team->blocking ? TUTTI_OK : TUTTI_ERR_NOT_READY;
    return TUTTI_OK;
}

static tutti_status team_test(tutti_team *team, tutti_request *request)
{
    int done = 0;

    if (request->status != TUTTI_ERR_NOT_READY || job_is_barred(&team->caller, team->job))
        return request->status;
    job_lock();
    int code = team->job->programs_errors ? errors_test(&team->request, &done)
                                          : MPI_Test(&team->request, &done, MPI_STATUS_IGNORE);
    job_unlock();
    if (code != MPI_SUCCESS)
        request->status = failure(team, "the operation", code);
    else if (done)
        request->status = TUTTI_OK;
    return request->status;
}

const tutti_collectives_ops mpi_collectives_ops = {
    .struct_size = sizeof(tutti_collectives_ops),
    .open = team_open,
    .address = team_address,
    .form = team_form,
    .form_test = team_form_test,
    .start = team_start,
    .test = team_test,
    .abort = team_abort,
    .close = team_close,
};
