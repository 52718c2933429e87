/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reductions of the program, and what Python asks about an array.
 *
 * tutti calls a reduction on any thread. Threads that hold the GIL never wait for tutti, so the
 * callback may wait for the GIL. What the program's function raises is kept in Python, for the
 * call that waits (python/tutti/_ops.py).
 */
#include "glue.h"

/* ---- reductions ---- */

static PyObject *memory(const void *data, uint64_t bytes, int flags)
{
    return PyMemoryView_FromMemory((char *)(uintptr_t)data, (Py_ssize_t)bytes, flags);
}

/* `user` is the Python function: call(dst, a, b, dtype), over memory that is valid during the
 * call. */
static void reduce(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                   void *user)
{
    enum { READ = 0x100, WRITE = 0x200 }; /* PyBUF_READ, PyBUF_WRITE */
    const uint64_t bytes = count * tutti_dtype_size(dtype);
    PyGILState_STATE gil;
    PyObject *to, *lower, *upper, *result = NULL;

    if (!Py_IsInitialized())
        return; /* the program has ended; nobody reads the result */
    gil = PyGILState_Ensure();
    to = memory(dst, bytes, WRITE);
    lower = memory(a, bytes, READ);
    upper = memory(b, bytes, READ);
    if (to && lower && upper)
        result = PyObject_CallFunction(user, "OOOI", to, lower, upper, (unsigned)dtype);
    if (!result)
        PyErr_WriteUnraisable(user); /* Python's function reports what it can */
    Py_XDECREF(to);
    Py_XDECREF(lower);
    Py_XDECREF(upper);
    Py_XDECREF(result);
    PyGILState_Release(gil);
}

/* reduction(name, commutative, function): its number. The caller keeps the function. */
PyObject *reduction_create(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    PyObject *name = PyUnicode_AsUTF8String(args[0]);
    const uint32_t flags = PyObject_IsTrue(args[1]) > 0 ? TUTTI_REDUCE_OP_COMMUTATIVE : 0;
    tutti_reduce_op op;
    tutti_status status;

    (void)self;
    (void)count;
    if (!name)
        return NULL;
    status = tutti_reduce_op_create(PyBytes_AsString(name), reduce, flags, args[2], &op);
    Py_DECREF(name);
    return status ? raise_status(status) : PyLong_FromLong(op);
}

/* premul(factor): its number; the factor is copied. */
PyObject *premul_create(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct array factor;
    tutti_reduce_op op;
    tutti_status status;

    (void)self;
    (void)count;
    if (array_describe(&factor, args[0], false))
        return NULL;
    status = tutti_reduce_op_premul(&factor.tensor, &op);
    array_release(&factor);
    return status ? raise_status(status) : PyLong_FromLong(op);
}

/* ---- arrays ---- */

/* measure(array): its dtype as a number, and its shape. */
PyObject *measure(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    struct array array;
    PyObject *shape, *result = NULL;

    (void)self;
    (void)count;
    if (array_describe(&array, args[0], false))
        return NULL;
    shape = PyTuple_New(array.tensor.ndim);
    for (Py_ssize_t i = 0; shape && i < array.tensor.ndim; i++)
        PyTuple_SetItem(shape, i, PyLong_FromLongLong(array.tensor.shape[i]));
    if (shape)
        result = Py_BuildValue("IN", (unsigned)array.tensor.dtype, shape);
    array_release(&array);
    return result;
}
