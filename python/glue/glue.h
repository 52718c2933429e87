/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of the Python package that is C: calls that take arrays. cffi makes the module and
 * carries every other call, but it passes no object to C. So these functions enter the module's
 * namespace as built-in functions (functions.c): they hold the GIL when they begin, and release it
 * around each call of tutti.
 *
 *   array.c      an array of any library as a tutti_tensor, without a copy
 *   exchange.c   the same by DLPack
 *   call.c       an operation with its arrays: started, waited for, given up
 *   request.c    what an operation takes: its numbers and lists
 *   start.c      the operations themselves
 *   reduction.c  reductions that are Python functions
 *   functions.c  the functions that Python sees
 *
 * Everything here is called with the GIL held, unless it says otherwise.
 */
#ifndef TUTTI_PYTHON_GLUE_H
#define TUTTI_PYTHON_GLUE_H

#include "buffer.h"

#include <stdbool.h>
#include <stdint.h>
#include <tutti/tutti.h>

/* ---- arrays ---- */

enum { FEW_DIMENSIONS = 6 };

/* One array of Python, described and kept. Zeroed: none. */
struct array {
    tutti_tensor tensor;
    PyObject *object;      /* keeps the memory; NULL: none */
    Py_buffer view;        /* by the buffer protocol; view.obj NULL: not */
    tutti_tensor *managed; /* by DLPack, else NULL */
    int64_t *many;         /* shape and strides that do not fit into `few`, else NULL */
    void *stream; /* of a device: what is done with the array comes behind what lies on it */
    int64_t few[2 * FEW_DIMENSIONS];
};

/* What array_describe() found. */
enum { ARRAY_OK = 0, ARRAY_REFUSED = -1, ARRAY_IMMUTABLE = 1, ARRAY_READ_ONLY = 2 };

/* The protocols that were tried for an array, and what each answered. */
struct refusal {
    size_t length;
    bool is_final; /* others would describe it, but wrongly */
    char words[2048];
};

/* Leaves the space for words as it is: clearing it would take a third of a short call. */
static inline void refusal_init(struct refusal *refusal)
{
    refusal->length = 0;
    refusal->is_final = false;
    refusal->words[0] = 0;
}

/* Describes `object`; `written`: the operation writes to it. ARRAY_REFUSED has set an
 * exception. ARRAY_IMMUTABLE: it is of a library whose arrays never change (MLX, JAX), and
 * would be written. ARRAY_READ_ONLY: it could only be read. These two set no exception. */
int array_describe(struct array *array, PyObject *object, bool written);

/* Gives the array back. */
void array_release(struct array *array);

/* Notes what `protocol` answered: the exception that is set, which it clears, or `words`. */
void refusal_note(struct refusal *refusal, const char *protocol, const char *words);

/* A type's table of C functions, or NULL. Kept for the life of the process. */
const void *exchange_table(PyObject *type);
/* By that table; true on success, else a note. */
bool exchange_describe(struct array *array, const void *table, PyObject *object,
                       struct refusal *refusal);
/* Whether a stream of CUDA orders what is done with the tensor. */
bool exchange_has_stream(const tutti_tensor *tensor);
/* By the method __dlpack__, with a version and without. */
bool dlpack_describe(struct array *array, PyObject *object, struct refusal *refusal);
/* capsule(buffer, dtype, shape): memory of a buffer as DLPack's "dltensor". */
PyObject *dlpack_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count);

/* ---- operations ---- */

enum {
    CALL_FIXED_ORDER = 1, /* TUTTI_FIXED_ORDER */
    CALL_ASYNC = 2,       /* returns a call that is waited for later */
    CALL_IN_BATCH = 4     /* the thread has a batch open on the group */
};

/* The operations, as Python numbers them (python/tutti/_native.py). */
enum operation {
    OPERATION_ALL_REDUCE,
    OPERATION_REDUCE,
    OPERATION_BROADCAST,
    OPERATION_ALL_GATHER,
    OPERATION_GATHER,
    OPERATION_SCATTER,
    OPERATION_REDUCE_SCATTER,
    OPERATION_ALL_TO_ALL,
    OPERATION_BARRIER,
    OPERATION_MONITORED_BARRIER,
    OPERATION_SEND,
    OPERATION_RECV,
    OPERATION_RECV_UP_TO,
    OPERATIONS
};

/* Arrays of one side: one, or one for each member. */
struct side {
    uint32_t count; /* 0: none */
    bool is_list;
    struct array *arrays;
    const tutti_tensor **tensors; /* of a list */
    int64_t *counts, *offsets;    /* or NULL */
};

/*
 * One operation with what it holds. Its capsule owns it. Once tutti has its tensors, they are given
 * back when the work has ended well and somebody looked, or else when tutti says that it no longer
 * uses them.
 */
struct call {
    tutti_work *work;  /* NULL: part of a batch, not started, or complete at once */
    struct call *next; /* in the list of those that tutti has given back */
    PyObject *held;    /* what else must live as long, or NULL */
    int32_t source;    /* of a receive in a batch */
    uint64_t bytes;    /* the same */
    struct side in, out;
    bool uneven;     /* blocks of different sizes */
    bool is_settled; /* its arrays were given back */
    uint32_t arrays_count;
    struct array arrays[];
};

/* What is asked for, beside the arrays. */
struct request {
    tutti_group *group;
    enum operation operation;
    tutti_reduce_op op;
    int32_t root; /* or peer */
    uint64_t tag;
    const tutti_options *options;
};

/* Whether an argument is one array for each member. */
static inline bool is_sequence(PyObject *object)
{
    return PyList_Check(object) || PyTuple_Check(object);
}

/* The arguments of call_run() beside the arrays. Short calls leave out what is zero. False: an
 * exception is set. */
bool request_take(struct request *r, tutti_options *options, PyObject *const *args,
                  Py_ssize_t count, uint32_t *ret_flags);
/* Whether in and out, which are args[2] and args[3] with `sizes` arrays, may be lists where they
 * are. False: an exception is set. */
bool request_check_lists(const struct request *r, PyObject *const *args, const uint32_t sizes[2],
                         bool uneven);
bool request_takes_no_array(enum operation operation);
/* Sets the error of an array that the operation would write and is read-only. ARRAY_REFUSED. */
int request_refuse_read_only(const struct request *r, PyObject *in, PyObject *out);

/* Starts the operation; `work` NULL: into the thread's batch. Without the GIL. */
tutti_status start(const struct request *request, struct call *call, tutti_work **work);

/* Raises the class of tutti.Error that belongs to a status of this thread's last call. Returns
 * NULL. */
PyObject *raise_status(tutti_status status);
/* The same for an array that was refused. */
void raise_refusal(PyObject *object, const struct refusal *refusal);
/* The same in other words. */
void raise_array_error(PyObject *object, const char *words);
/* The functions that Python sees; functions.c says what they take. */
PyObject *call_run(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *call_run_plan(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *call_end_batch(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *call_wait(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *call_work(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *call_received(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *measure(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *premul_create(PyObject *self, PyObject *const *args, Py_ssize_t count);
PyObject *reduction_create(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
