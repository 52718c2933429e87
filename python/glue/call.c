/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation with its arrays, from the call of Python to the moment when tutti no longer uses
 * them.
 *
 * Every operation is started with a work, also one that is waited for at once: the wait goes on in
 * slices, and between them signals of Python get their turn. So Ctrl-C leaves the wait, and the
 * operation goes on. Only a short call that is complete within microseconds has no work
 * (TUTTI_WAITS_NEXT).
 *
 * Arrays are given back when the work has ended well, or else when tutti says that it no longer
 * uses them. It says so on a thread of its own, which never waits for the GIL: it puts the call
 * into a list that the next function here empties, and asks Python's main thread to do the same. So
 * no thread of tutti can be caught by the end of the interpreter.
 */
#include "glue.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* How long a wait takes no notice of signals, in milliseconds. */
enum { SLICE_MS = 100 };

static const char *const capsule_name = "tutti call";

/* ---- the end of a call ---- */

static _Atomic(struct call *) returned; /* by tutti, to be freed under the GIL */

static void settle(struct call *call)
{
    PyObject *held = call->held;

    if (call->is_settled)
        return;
    call->is_settled = true;
    for (uint32_t i = 0; i < call->arrays_count; i++)
        array_release(&call->arrays[i]);
    call->held = NULL;
    Py_XDECREF(held);
}

static void destroy(struct call *call)
{
    settle(call);
    free(call->in.counts);
    free(call->in.offsets);
    free(call->out.counts);
    free(call->out.offsets);
    free(call);
}

static int empty_returned(void *unused)
{
    struct call *call = atomic_exchange(&returned, NULL);

    (void)unused;
    while (call) {
        struct call *next = call->next;

        destroy(call);
        call = next;
    }
    return 0;
}

static void look_at_returned(void)
{
    if (atomic_load_explicit(&returned, memory_order_relaxed))
        empty_returned(NULL);
}

/* On a thread of tutti, or on one that dispatches; without the GIL. */
static void give_back(void *user)
{
    struct call *call = user;

    call->next = atomic_load(&returned);
    while (!atomic_compare_exchange_weak(&returned, &call->next, call))
        ;
    if (Py_IsInitialized()) /* full: the next call empties the list */
        (void)Py_AddPendingCall(empty_returned, NULL);
}

/* Nobody waits for it any more; it may go on. */
static void give_up(struct call *call)
{
    tutti_work *work = call->work;
    /* A forked child has no work, and nothing there uses the memory. */
    const bool kept = work && !call->is_settled && !tutti_work_on_release(work, give_back, call);

    tutti_work_free(work);
    if (!kept)
        destroy(call);
}

static void destroy_capsule(PyObject *capsule)
{
    give_up(PyCapsule_GetPointer(capsule, capsule_name));
}

static PyObject *capsule_of(struct call *call)
{
    PyObject *capsule = PyCapsule_New(call, capsule_name, destroy_capsule);

    if (!capsule)
        give_up(call);
    return capsule;
}

static struct call *call_of(PyObject *capsule)
{
    return PyCapsule_GetPointer(capsule, capsule_name);
}

/* ---- the start of a call ---- */

static uint32_t arrays_of(PyObject *object)
{
    if (object == Py_None)
        return 0;
    if (is_sequence(object))
        return (uint32_t)PySequence_Size(object);
    return 1;
}

static struct call *call_new(uint32_t arrays)
{
    const size_t each = sizeof(struct array) + sizeof(const tutti_tensor *);
    struct call *call = malloc(sizeof *call + arrays * each);

    if (!call) {
        PyErr_NoMemory();
        return NULL;
    }
    memset(call, 0, sizeof *call);
    call->source = -1;
    return call;
}

/* Of Python's _all_counts(), which has checked their number. */
static bool take_counts(int64_t **counts, PyObject *sequence)
{
    Py_ssize_t n;

    if (sequence == Py_None)
        return true;
    n = PySequence_Size(sequence);
    if (n <= 0)
        return n == 0; /* not read on this member */
    *counts = malloc(sizeof **counts * (size_t)n);
    if (!*counts) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *item = PySequence_GetItem(sequence, i);

        (*counts)[i] = item ? PyLong_AsLongLong(item) : -1;
        Py_XDECREF(item);
        if (PyErr_Occurred())
            return false;
    }
    return true;
}

/* What array_describe() returns, of all arrays of one side. */
static int describe_side(struct call *call, struct side *side, PyObject *object, uint32_t n,
                         bool written, const tutti_tensor **tensors)
{
    side->is_list = is_sequence(object);
    side->arrays = &call->arrays[call->arrays_count];
    side->tensors = tensors;
    for (uint32_t i = 0; i < n; i++) {
        PyObject *item = side->is_list ? PySequence_GetItem(object, i) : object;
        const int found = item ? array_describe(&side->arrays[i], item, written) : ARRAY_REFUSED;

        if (side->is_list)
            Py_XDECREF(item);
        if (found)
            return found;
        tensors[i] = &side->arrays[i].tensor;
        side->count++;
        call->arrays_count++;
    }
    return ARRAY_OK;
}

/* Whether the operation writes to its `out` on this member. */
static bool is_written(const struct request *r, bool in_place)
{
    const bool is_root = r->root == tutti_group_rank(r->group);

    if (r->operation == OPERATION_BROADCAST)
        return !is_root;
    return r->operation != OPERATION_REDUCE || !in_place || is_root;
}

/* The stream of the arrays that lie on devices, which must have the same one. False: an exception is set. */
static bool take_stream(const struct call *call, tutti_options *options)
{
    const struct array *first = NULL;

    for (uint32_t i = 0; i < call->arrays_count; i++) {
        const struct array *array = &call->arrays[i];

        if (!array->object || !exchange_has_stream(&array->tensor))
            continue;
        if (!first)
            first = array;
        if (array->stream != first->stream) {
            raise_array_error(array->object,
                              "another stream orders it than the other arrays of the call: make "
                              "their stream the current one of its library, too");
            return false;
        }
    }
    if (first)
        options->stream = first->stream;
    return true;
}

/* Fills a call; what array_describe() returns, but not ARRAY_READ_ONLY. */
static int describe_call(struct call *call, const struct request *r, PyObject *const *args,
                         Py_ssize_t count, const uint32_t sizes[2])
{
    const tutti_tensor **tensors = (const tutti_tensor **)&call->arrays[sizes[0] + sizes[1]];
    PyObject *const in = args[2], *const out = args[3];
    int found = ARRAY_REFUSED;

    if (request_check_lists(r, args, sizes, count > 10))
        found = describe_side(call, &call->in, in, sizes[0], false, tensors);
    if (!found)
        found = describe_side(call, &call->out, out, sizes[1], is_written(r, in == Py_None),
                              tensors + call->in.count);
    if (found == ARRAY_READ_ONLY)
        return request_refuse_read_only(r, in, out);
    if (found || count <= 9)
        return found;
    call->held = args[9];
    Py_INCREF(call->held);
    if (count <= 10)
        return ARRAY_OK;
    call->uneven = true;
    return take_counts(&call->in.counts, args[10]) && take_counts(&call->in.offsets, args[11]) &&
                   take_counts(&call->out.counts, args[12]) &&
                   take_counts(&call->out.offsets, args[13])
               ? ARRAY_OK
               : ARRAY_REFUSED;
}

/* Ends a call while an exception is set, which stays set. Returns NULL. */
static PyObject *end_failing(struct call *call)
{
    PyObject *type, *value, *trace;

    PyErr_Fetch(&type, &value, &trace);
    give_up(call);
    PyErr_Restore(type, value, trace);
    return NULL;
}

/* ---- waiting ---- */

static int64_t slice_of(int64_t left_ms)
{
    return left_ms && left_ms < SLICE_MS ? left_ms : SLICE_MS;
}

/* Goes on with a wait whose first slice is over, until the work ends or `left_ms` have passed (0:
 * as long as it takes). False: a signal's handler has raised. */
static bool wait_on(struct call *call, int64_t left_ms, tutti_status *status)
{
    while (*status == TUTTI_ERR_NOT_READY) {
        const int64_t slice = slice_of(left_ms);

        if (PyErr_CheckSignals())
            return false;
        Py_BEGIN_ALLOW_THREADS;
        *status = tutti_work_wait(call->work, slice);
        Py_END_ALLOW_THREADS;
        if (left_ms) {
            left_ms -= slice;
            if (!left_ms)
                break;
        }
    }
    return true;
}

/* The result of a call that was waited for: None, or the rank that a message came from. */
static PyObject *end_of_wait(struct call *call, const struct request *r)
{
    PyObject *result =
        r->operation == OPERATION_RECV || r->operation == OPERATION_RECV_UP_TO ? NULL : Py_None;

    if (result)
        Py_INCREF(result);
    else if (r->operation == OPERATION_RECV)
        result = PyLong_FromLong(tutti_work_source(call->work));
    else {
        tutti_work_info info = {.struct_size = sizeof info};

        tutti_work_result(call->work, &info);
        result = Py_BuildValue("iK", info.source, (unsigned long long)info.bytes);
    }
    settle(call);
    give_up(call);
    return result;
}

static PyObject *failed(struct call *call, tutti_status status)
{
    raise_status(status);
    return end_failing(call);
}

static PyObject *finish(struct call *call, const struct request *r, tutti_status status)
{
    if (call->work && !wait_on(call, 0, &status))
        return end_failing(call);
    return status ? failed(call, status) : end_of_wait(call, r);
}

/* ---- what Python calls ---- */

static PyObject *begin(struct call *call, const struct request *r, uint32_t flags)
{
    const bool waits = !(flags & (CALL_ASYNC | CALL_IN_BATCH));
    tutti_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = start(r, call, flags & CALL_IN_BATCH ? NULL : &call->work);
    if (waits && call->work)
        status = tutti_work_wait(call->work, SLICE_MS);
    Py_END_ALLOW_THREADS;
    if (waits && (call->work || !status))
        return finish(call, r, status);
    return status ? failed(call, status) : capsule_of(call);
}

/*
 * run(group, operation, in, out, op[, root, tag, timeout_ms, flags[, held, in_counts, in_offsets,
 * out_counts, out_offsets]]): an operation, waited for unless the flags say otherwise. Returns what
 * end_of_wait() says, a capsule of a call that is under way, or NotImplemented for an array that
 * must not be written.
 *
 * `in` None: in place, or this member has no input. A list or tuple: one array for each member.
 */
PyObject *call_run(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    /* Measured once: what describes an array may run Python code that changes the list. */
    const uint32_t sizes[2] = {arrays_of(args[2]), arrays_of(args[3])};
    tutti_options options = TUTTI_OPTIONS_INIT;
    struct request r;
    struct call *call;
    uint32_t flags;
    int found;

    (void)self;
    if (!request_take(&r, &options, args, count, &flags))
        return NULL;
    if (args[2] == Py_None && args[3] == Py_None && !request_takes_no_array(r.operation)) {
        raise_array_error(Py_None, "the array is None");
        return NULL;
    }
    look_at_returned();
    call = call_new(sizes[0] + sizes[1]);
    if (!call)
        return NULL;
    found = describe_call(call, &r, args, count, sizes);
    if (!found && !take_stream(call, &options))
        found = ARRAY_REFUSED;
    if (found == ARRAY_IMMUTABLE) {
        destroy(call);
        Py_INCREF(Py_NotImplemented);
        return Py_NotImplemented;
    }
    return found ? end_failing(call) : begin(call, &r, flags);
}

/* A call of those that were recorded before: no arrays of its own, `held` keeps theirs. */
static struct call *call_of_others(PyObject *held)
{
    struct call *call = call_new(0);

    look_at_returned();
    if (call) {
        call->held = held;
        Py_INCREF(held);
    }
    return call;
}

static PyObject *begin_others(struct call *call, tutti_group *group, tutti_plan *plan,
                              uint32_t flags)
{
    const struct request r = {.operation = OPERATION_BARRIER}; /* no result of its own */
    tutti_status status;

    Py_BEGIN_ALLOW_THREADS;
    status = plan ? tutti_plan_run(plan, &call->work) : tutti_batch_end(group, &call->work);
    if (!status && !(flags & CALL_ASYNC))
        status = tutti_work_wait(call->work, SLICE_MS);
    if (status == TUTTI_ERR_CAPTURED) /* it is in the graph, as a blocking call is then */
        status = TUTTI_OK;
    Py_END_ALLOW_THREADS;
    if (!(flags & CALL_ASYNC) && call->work)
        return finish(call, &r, status);
    return status ? failed(call, status) : capsule_of(call);
}

/* end_batch(group, held, flags): ends the thread's batch, whose calls are in `held`. */
PyObject *call_end_batch(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    tutti_group *group = PyLong_AsVoidPtr(args[0]);
    struct call *call = call_of_others(args[1]);

    (void)self;
    (void)count;
    return call ? begin_others(call, group, NULL, (uint32_t)PyLong_AsLong(args[2])) : NULL;
}

/* run_plan(plan, held, flags): runs a plan, whose calls are in `held`. */
PyObject *call_run_plan(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    tutti_plan *plan = PyLong_AsVoidPtr(args[0]);
    struct call *call = call_of_others(args[1]);

    (void)self;
    (void)count;
    return call ? begin_others(call, NULL, plan, (uint32_t)PyLong_AsLong(args[2])) : NULL;
}

/* wait(call, timeout_ms): until it is complete, or for `timeout_ms` (0: as long as it takes).
 * Whether it is complete; raises its error. */
PyObject *call_wait(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct call *call = call_of(args[0]);
    const int64_t timeout_ms = PyLong_AsLongLong(args[1]);
    const int64_t slice = slice_of(timeout_ms);
    tutti_status status;

    (void)self;
    (void)count;
    if (PyErr_Occurred())
        return NULL;
    Py_BEGIN_ALLOW_THREADS;
    status = tutti_work_wait(call->work, slice);
    Py_END_ALLOW_THREADS;
    if ((!timeout_ms || slice < timeout_ms) &&
        !wait_on(call, timeout_ms ? timeout_ms - slice : 0, &status))
        return NULL;
    if (status == TUTTI_ERR_NOT_READY)
        Py_RETURN_FALSE;
    if (status)
        return raise_status(status);
    settle(call);
    Py_RETURN_TRUE;
}

/* work(call): the address of its tutti_work, for the functions that cffi calls; 0 of a call in a
 * batch. */
PyObject *call_work(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const struct call *call = call_of(args[0]);

    (void)self;
    (void)count;
    return call ? PyLong_FromVoidPtr(call->work) : NULL;
}

/* received(call): source and bytes of a receive in a batch that is complete. */
PyObject *call_received(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const struct call *call = call_of(args[0]);

    (void)self;
    (void)count;
    return call ? Py_BuildValue("iK", call->source, (unsigned long long)call->bytes) : NULL;
}
