/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the limited API of Python 3.9 leaves out and every CPython exports: the buffer protocol,
 * whose struct has not changed since 3.3 and which is part of the limited API from 3.11 on, and the
 * calling convention of functions with a vector of arguments, which is part of it from 3.10 on.
 */
#ifndef TUTTI_PYTHON_BUFFER_H
#define TUTTI_PYTHON_BUFFER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#if !defined(Py_LIMITED_API) || Py_LIMITED_API + 0 >= 0x030b0000
#error "compile this with Py_LIMITED_API=0x03090000"
#endif

typedef struct bufferinfo {
    void *buf;
    PyObject *obj;
    Py_ssize_t len;
    Py_ssize_t itemsize;
    int readonly;
    int ndim;
    char *format;
    Py_ssize_t *shape;
    Py_ssize_t *strides;
    Py_ssize_t *suboffsets;
    void *internal;
} Py_buffer;

enum { PyBUF_WRITABLE = 0x1, PyBUF_FORMAT = 0x4, PyBUF_STRIDES = 0x10 | 0x8 };

PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *ret_view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);

#ifndef METH_FASTCALL
#define METH_FASTCALL 0x0080
#endif
typedef PyObject *(*fast_function)(PyObject *self, PyObject *const *args, Py_ssize_t count);

#endif
