/* SPDX-License-Identifier: Apache-2.0
 *
 * One operation, in the thread of its stream. What a member sends to another is a frame in the ring between both: a
 * header, and bytes. Frames of one pair come in the order of their operations. The header lets a frame of
 * another kind of call wait for ever, as where algorithms do not fit together; nothing else is compared.
 *
 * An operation that cannot go on waits until its communicator is aborted; then it is complete with success, and the
 * memory holds what there was so far. While it waits it notices that a member has died.
 */
#include "nccl.h"

#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKS_IN_A_ROW = 50, LOOK_AGAIN_US = 50, ASK_AGAIN_MS = 1, PARTS_MAX = 2 * MEMBERS_MAX };

struct header {
    uint64_t length;
    uint64_t kind; /* of the task */
};

/* One side of a frame. */
struct flow {
    int peer;
    enum kind kind;
    uint8_t *at;
    size_t bytes; /* that are sent, or for which there is room */
    size_t left;  /* of the frame, once it has begun */
    bool begun, stuck, complete;
};

struct flows {
    struct flow *list;
    size_t count;
};

static atomic_long operations;

/* ---- rings ---------------------------------------------------------------------------------- */

static size_t write_some(struct ring *ring, const uint8_t *data, size_t bytes)
{
    const uint64_t written = atomic_load_explicit(&ring->written, memory_order_relaxed);
    const size_t room =
        RING_BYTES - (size_t)(written - atomic_load_explicit(&ring->read, memory_order_acquire));
    const size_t count = bytes < room ? bytes : room;

    for (size_t done = 0; done < count;) {
        const size_t at = (size_t)((written + done) % RING_BYTES);
        const size_t piece = count - done < RING_BYTES - at ? count - done : RING_BYTES - at;

        memcpy(ring->data + at, data + done, piece);
        done += piece;
    }
    atomic_store_explicit(&ring->written, written + count, memory_order_release);
    return count;
}

static size_t available(const struct ring *ring)
{
    return (size_t)(atomic_load_explicit(&ring->written, memory_order_acquire) -
                    atomic_load_explicit(&ring->read, memory_order_relaxed));
}

static size_t read_some(struct ring *ring, uint8_t *to, size_t bytes)
{
    const uint64_t read = atomic_load_explicit(&ring->read, memory_order_relaxed);
    const size_t there = available(ring), count = bytes < there ? bytes : there;

    for (size_t done = 0; done < count;) {
        const size_t at = (size_t)((read + done) % RING_BYTES);
        const size_t piece = count - done < RING_BYTES - at ? count - done : RING_BYTES - at;

        memcpy(to + done, ring->data + at, piece);
        done += piece;
    }
    atomic_store_explicit(&ring->read, read + count, memory_order_release);
    return count;
}

/* ---- frames --------------------------------------------------------------------------------- */

/* Returns whether anything moved. */
static bool send_some(struct ncclComm *comm, struct flow *flow)
{
    struct ring *ring = &comm->board->rings[flow->peer][comm->rank];
    const struct header header = {flow->bytes, flow->kind};

    if (!flow->begun) {
        const uint64_t used = atomic_load_explicit(&ring->written, memory_order_relaxed) -
                              atomic_load_explicit(&ring->read, memory_order_acquire);

        if (RING_BYTES - used < sizeof header)
            return false;
        write_some(ring, (const uint8_t *)&header, sizeof header);
        flow->begun = true;
        flow->left = flow->bytes;
    }
    const size_t moved = flow->left ? write_some(ring, flow->at, flow->left) : 0;

    flow->at += moved;
    flow->left -= moved;
    flow->complete = !flow->left;
    return moved || flow->complete;
}

/* Not before the call that is in progress has its own result. */
static void fail(struct ncclComm *comm, ncclResult_t result)
{
    int fine = ncclSuccess;

    while (atomic_load(&comm->result) == ncclInProgress && !atomic_load(&comm->aborted))
        nccl_sleep_us(LOOK_AGAIN_US);
    atomic_compare_exchange_strong(&comm->result, &fine, (int)result);
}

/* Reads the header. A longer frame is an error, one of another kind is not even that; then nothing moves any more. */
static bool begin_receive(struct ncclComm *comm, struct flow *flow, struct ring *ring)
{
    struct header header;

    if (available(ring) < sizeof header)
        return false;
    read_some(ring, (uint8_t *)&header, sizeof header);
    flow->begun = true;
    flow->left = (size_t)header.length;
    flow->stuck = header.kind != flow->kind || flow->left > flow->bytes;
    if (flow->stuck && header.kind == flow->kind)
        fail(comm, nccl_warn(ncclInvalidUsage,
                             "NET/Socket : peer %d message truncated : receiving %zu bytes instead "
                             "of %zu. There may be a mismatch in collective sizes",
                             flow->peer, flow->left, flow->bytes));
    return true;
}

/* A shorter frame is taken as it is. */
static bool receive_some(struct ncclComm *comm, struct flow *flow)
{
    struct ring *ring = &comm->board->rings[comm->rank][flow->peer];

    if (flow->stuck || (!flow->begun && !begin_receive(comm, flow, ring)) || flow->stuck)
        return false;
    const size_t moved = flow->left ? read_some(ring, flow->at, flow->left) : 0;

    flow->at += moved;
    flow->left -= moved;
    flow->complete = !flow->left;
    return moved || flow->complete;
}

/* The first frame with each member that is not complete. */
static bool move_some(struct ncclComm *comm, struct flows *flows, bool are_sent, bool *ret_complete)
{
    uint32_t busy = 0;
    bool moved = false;

    for (size_t i = 0; i < flows->count; i++) {
        struct flow *flow = &flows->list[i];

        if (flow->complete || busy & UINT32_C(1) << flow->peer)
            continue;
        moved |= are_sent ? send_some(comm, flow) : receive_some(comm, flow);
        if (!flow->complete)
            busy |= UINT32_C(1) << flow->peer;
    }
    *ret_complete = !busy;
    return moved;
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* While nothing moves. */
struct pause {
    unsigned looks;
    double asked_ms;
    int dead; /* a member that has died; below 0: none is known */
};

static int find_dead(const struct ncclComm *comm)
{
    for (int r = 0; r < comm->size; r++) {
        struct pollfd watch = {comm->watches[r], POLLIN, 0};

        if (watch.fd >= 0 && poll(&watch, 1, 0) > 0 &&
            atomic_load(&comm->board->members[r].state) != FINALIZED)
            return r;
    }
    return -1;
}

/* The error of a device that is lost. */
static CUresult device_error(const struct ncclComm *comm)
{
    const struct cuda *cu = nccl_cuda();
    CUresult result = cu->cuCtxPushCurrent_v2(comm->context);

    if (!result)
        result = cu->cuCtxGetStreamPriorityRange(NULL, NULL);
    cu->cuCtxPopCurrent_v2(NULL);
    return result;
}

/* Until an abort. */
static CUresult wait_for_abort(struct ncclComm *comm)
{
    CUresult result = CUDA_SUCCESS;

    while (!atomic_load(&comm->aborted) && !result) {
        nccl_sleep_us(ASK_AGAIN_MS * 1000);
        result = device_error(comm);
    }
    return result;
}

/*
 * Nothing moved: lets others run, and from time to time asks whether they and the device are there. What a member has
 * sent before it died may have come after the last look, so a death is told once another look has found nothing.
 */
static CUresult pause_a_little(struct ncclComm *comm, struct pause *pause)
{
    const double now_ms = nccl_now_ms();

    if (pause->dead >= 0 && !atomic_load(&comm->result))
        fail(comm, nccl_warn(ncclRemoteError, "NET/Socket : peer %d has closed its connection",
                             pause->dead));
    if (pause->looks++ < LOOKS_IN_A_ROW)
        sched_yield();
    else
        nccl_sleep_us(LOOK_AGAIN_US);
    if (now_ms - pause->asked_ms < ASK_AGAIN_MS)
        return CUDA_SUCCESS;
    pause->asked_ms = now_ms;
    pause->dead = find_dead(comm);
    return device_error(comm);
}

/* All frames of a step, together. */
static CUresult exchange(struct ncclComm *comm, struct flows *sends, struct flows *receives)
{
    bool sent = false, received = false;
    struct pause pause = {.asked_ms = nccl_now_ms(), .dead = -1};
    CUresult result = CUDA_SUCCESS;

    while (!(sent && received) && !atomic_load(&comm->aborted) && !result) {
        const bool moved = move_some(comm, sends, true, &sent);

        if (move_some(comm, receives, false, &received) || moved)
            pause.looks = 0;
        else if (!(sent && received))
            result = pause_a_little(comm, &pause);
    }
    return result;
}

/* ---- collectives ---------------------------------------------------------------------------- */

/* A task with memory that the stand-in reaches. */
struct work {
    struct ncclComm *comm;
    const struct task *task;
    size_t element;
    uint8_t *in, *out;
    uint8_t *scaled;  /* the input, multiplied; NULL: as it is */
    uint8_t *scratch; /* what comes of the others */
    struct flow send[PARTS_MAX], receive[PARTS_MAX];
    struct flows sends, receives;
};

static void adds(struct flows *flows, enum kind kind, int peer, uint8_t *at, size_t bytes)
{
    flows->list[flows->count++] =
        (struct flow){.peer = peer, .kind = kind, .at = at, .bytes = bytes};
}

static void sends(struct work *w, int peer, uint8_t *at, size_t bytes)
{
    adds(&w->sends, w->task->kind, peer, at, bytes);
}

static void receives(struct work *w, int peer, uint8_t *at, size_t bytes)
{
    adds(&w->receives, w->task->kind, peer, at, bytes);
}

static CUresult step(struct work *w)
{
    const CUresult result = exchange(w->comm, &w->sends, &w->receives);

    w->sends.count = w->receives.count = 0;
    return result;
}

/* Part `rank` of a vector, in bytes. */
static size_t part_begin(const struct work *w, int rank)
{
    return w->task->count * (size_t)rank / (size_t)w->comm->size * w->element;
}

static size_t part_bytes(const struct work *w, int rank)
{
    return part_begin(w, rank + 1) - part_begin(w, rank);
}

/* Averages of floats are sums of fractions. */
static void scale_input(struct work *w)
{
    const struct task *task = w->task;
    const size_t bytes = nccl_in_bytes(w->comm, task);
    uint8_t fraction[8];

    if (task->op != ncclAvg || !nccl_fraction(task->type, w->comm->size, fraction))
        return;
    w->scaled = malloc(bytes);
    memcpy(w->scaled, w->in, bytes);
    nccl_scale(task->type, w->scaled, fraction, bytes / w->element);
    w->in = w->scaled;
}

/* Own bytes and those in scratch, in the order of a ring that ends here. */
static void fold(struct work *w, const uint8_t *own, uint8_t *into, size_t bytes)
{
    const int n = w->comm->size, me = w->comm->rank;
    const size_t count = bytes / w->element;
    uint8_t *sum = malloc(bytes ? bytes : 1);

    memcpy(sum, n > 1 ? w->scratch + (size_t)((me + 1) % n) * bytes : own, bytes);
    for (int i = 2; i <= n && n > 1; i++) {
        const int from = (me + i) % n;

        nccl_combine(w->task->type, w->task->op, sum,
                     from == me ? own : w->scratch + (size_t)from * bytes, count);
    }
    if (w->task->op == ncclAvg)
        nccl_divides(w->task->type, sum, n, count);
    memcpy(into, sum, bytes);
    free(sum);
}

/* Each member gets its block of all inputs, and folds it into `into`. `begin`, `bytes`: of each member's block. */
static CUresult reduce_blocks(struct work *w, uint8_t *into,
                              size_t (*begin)(const struct work *w, int rank))
{
    const int me = w->comm->rank;
    const size_t mine = begin(w, me + 1) - begin(w, me);
    CUresult result;

    w->scratch = malloc(mine * (size_t)w->comm->size + 1);
    for (int r = 0; r < w->comm->size; r++)
        if (r != me) {
            sends(w, r, w->in + begin(w, r), begin(w, r + 1) - begin(w, r));
            receives(w, r, w->scratch + (size_t)r * mine, mine);
        }
    result = step(w);
    if (!result && !atomic_load(&w->comm->aborted))
        fold(w, w->in + begin(w, me), into, mine);
    return result;
}

static size_t block_begin(const struct work *w, int rank)
{
    return w->task->count * (size_t)rank * w->element;
}

static CUresult reduce_scatter(struct work *w)
{
    return reduce_blocks(w, w->out, block_begin);
}

/* The parts of the result go from their members to all, or to the root. */
static CUresult all_reduce(struct work *w)
{
    const int me = w->comm->rank, root = w->task->kind == REDUCE ? w->task->root : -1;
    uint8_t *part = malloc(part_bytes(w, me) + 1);
    CUresult result = reduce_blocks(w, part, part_begin);

    if (!result && (root < 0 || root == me))
        memcpy(w->out + part_begin(w, me), part, part_bytes(w, me));
    for (int r = 0; r < w->comm->size && !result; r++) {
        if (r != me && (root < 0 || root == r))
            sends(w, r, part, part_bytes(w, me));
        if (r != me && (root < 0 || root == me))
            receives(w, r, w->out + part_begin(w, r), part_bytes(w, r));
    }
    if (!result)
        result = step(w);
    free(part);
    return result;
}

static CUresult broadcast(struct work *w)
{
    const int me = w->comm->rank, root = w->task->root;
    const size_t bytes = w->task->count * w->element;

    if (me != root) {
        receives(w, root, w->out, bytes);
        return step(w);
    }
    for (int r = 0; r < w->comm->size; r++)
        if (r != me)
            sends(w, r, w->in, bytes);
    if (w->out != w->in)
        memmove(w->out, w->in, bytes);
    return step(w);
}

static CUresult all_gather(struct work *w)
{
    const int me = w->comm->rank;
    const size_t bytes = w->task->count * w->element;

    for (int r = 0; r < w->comm->size; r++)
        if (r != me) {
            sends(w, r, w->in, bytes);
            receives(w, r, w->out + (size_t)r * bytes, bytes);
        }
    if (w->out + (size_t)me * bytes != w->in)
        memmove(w->out + (size_t)me * bytes, w->in, bytes);
    return step(w);
}

size_t nccl_in_bytes(const struct ncclComm *comm, const struct task *task)
{
    const size_t bytes = task->count * nccl_type_bytes(task->type);

    if (task->kind == RECV || (task->kind == BROADCAST && comm->rank != task->root))
        return 0;
    return task->kind == REDUCE_SCATTER ? bytes * (size_t)comm->size : bytes;
}

size_t nccl_out_bytes(const struct ncclComm *comm, const struct task *task)
{
    const size_t bytes = task->count * nccl_type_bytes(task->type);

    if (task->kind == SEND || (task->kind == REDUCE && comm->rank != task->root))
        return 0;
    return task->kind == ALL_GATHER ? bytes * (size_t)comm->size : bytes;
}

/* Memory as the stand-in reaches it; what ends the process if it is not there any more. */
static uint8_t *view(const void *memory, size_t bytes)
{
    return bytes ? nccl_cuda()->standin_cuda_view((CUdeviceptr)(uintptr_t)memory, bytes) : NULL;
}

static CUresult run_collective(struct ncclComm *comm, const struct task *task)
{
    static CUresult (*const run[])(struct work * w) = {
        [ALL_REDUCE] = all_reduce,         [REDUCE] = all_reduce,     [BROADCAST] = broadcast,
        [REDUCE_SCATTER] = reduce_scatter, [ALL_GATHER] = all_gather,
    };
    struct work w = {.comm = comm,
                     .task = task,
                     .element = nccl_type_bytes(task->type),
                     .in = view(task->in, nccl_in_bytes(comm, task)),
                     .out = view(task->out, nccl_out_bytes(comm, task))};
    CUresult result;

    w.sends.list = w.send;
    w.receives.list = w.receive;
    scale_input(&w);
    result = run[task->kind](&w);
    free(w.scaled);
    free(w.scratch);
    return result;
}

/* ---- operations ----------------------------------------------------------------------------- */

static CUresult run_messages(struct ncclComm *comm, const struct task *tasks, size_t count)
{
    struct flow *list = malloc(2 * count * sizeof *list + 1);
    struct flows out = {list, 0}, in = {list + count, 0};
    CUresult result;

    for (size_t i = 0; i < count; i++) {
        const struct task *t = &tasks[i];
        const size_t bytes = t->count * nccl_type_bytes(t->type);

        if (t->kind == SEND)
            adds(&out, SEND, t->root, view(t->in, bytes), bytes);
        else
            adds(&in, SEND, t->root, view(t->out, bytes), bytes);
    }
    result = exchange(comm, &out, &in);
    free(list);
    return result;
}

static CUresult run_tasks(struct ncclComm *comm, const struct launch *launch)
{
    CUresult result = CUDA_SUCCESS;
    size_t i = 0;

    for (size_t t = 0; t < launch->count; t++)
        if (launch->tasks[t].fault)
            return launch->tasks[t].fault;
    for (; i < launch->count && launch->tasks[i].kind < SEND && !result; i++)
        result = run_collective(comm, &launch->tasks[i]);
    if (i < launch->count && !result)
        result = run_messages(comm, launch->tasks + i, launch->count - i);
    return result;
}

/* False: it was aborted, and nothing is to be done. */
static bool enter(const struct launch *launch)
{
    struct ncclComm *comm = launch->comm;
    bool runs;

    pthread_mutex_lock(&comm->lock);
    while (!atomic_load(&comm->aborted) && (comm->runs || comm->done + 1 != launch->number))
        pthread_cond_wait(&comm->changed, &comm->lock);
    runs = !atomic_load(&comm->aborted);
    if (runs && !comm->alive)
        nccl_die("an operation", "communicator %p was destroyed", (void *)comm);
    comm->runs = runs;
    pthread_mutex_unlock(&comm->lock);
    return runs;
}

static void leave(const struct launch *launch)
{
    struct ncclComm *comm = launch->comm;

    pthread_mutex_lock(&comm->lock);
    comm->runs = false;
    comm->done++;
    pthread_cond_broadcast(&comm->changed);
    pthread_mutex_unlock(&comm->lock);
}

CUresult nccl_run_launch(const void *arguments)
{
    const struct settings *s = nccl_settings();
    const struct launch *launch = arguments;
    struct ncclComm *comm = launch->comm;
    CUresult result = CUDA_SUCCESS;

    if (!enter(launch))
        return CUDA_SUCCESS;
    const long number = atomic_fetch_add(&operations, 1) + 1;

    if (number == s->async_at)
        fail(comm, nccl_warn(s->result, "the fault of this stand-in's variables"));
    if (number == s->async_at || number == s->hangs_at)
        result = wait_for_abort(comm);
    else
        result = run_tasks(comm, launch);
    leave(launch);
    return result;
}
