/* SPDX-License-Identifier: Apache-2.0 */
/* The functions that Python sees, put into a namespace of the package, and the errors that they
 * raise. */
#include "functions.h"

#include <string.h>

#include "glue.h"

static PyObject *make_error, *make_refusal; /* Python's own, for the life of the process */

/* ---- errors ---- */

static PyObject *missing_of(const tutti_error_info *info)
{
    PyObject *missing = PyTuple_New((Py_ssize_t)info->missing_count);

    for (uint32_t i = 0; missing && i < info->missing_count; i++)
        PyTuple_SetItem(missing, i, PyLong_FromLong(info->missing[i]));
    return missing;
}

/* Sets the exception that a function of Python made. */
static void raise_made(PyObject *made)
{
    if (made)
        PyErr_SetObject((PyObject *)Py_TYPE(made), made);
    Py_XDECREF(made);
}

PyObject *raise_status(tutti_status status)
{
    tutti_error_info info = {.struct_size = sizeof info};
    PyObject *missing, *words;

    tutti_last_error_info(&info);
    missing = missing_of(&info);
    words = PyUnicode_DecodeUTF8(info.message, (Py_ssize_t)strlen(info.message), "replace");
    if (missing && words)
        raise_made(PyObject_CallFunction(make_error, "iOiiiKsO", status, words, info.system_errno,
                                         info.rank, info.peer, (unsigned long long)info.sequence,
                                         info.operation, missing));
    Py_XDECREF(missing);
    Py_XDECREF(words);
    return NULL;
}

void raise_refusal(PyObject *object, const struct refusal *refusal)
{
    raise_made(PyObject_CallFunction(make_refusal, "Oss", object, refusal->words, ""));
}

void raise_array_error(PyObject *object, const char *words)
{
    raise_made(PyObject_CallFunction(make_refusal, "Oss", object, "", words));
}

/* fail(status): raises the error of this thread's last call. */
static PyObject *fail(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    (void)self;
    (void)count;
    return raise_status((tutti_status)PyLong_AsLong(args[0]));
}

/* ---- the namespace ---- */

static const struct function {
    const char *name;
    fast_function function;
} functions[] = {
    {"run", call_run},
    {"run_plan", call_run_plan},
    {"end_batch", call_end_batch},
    {"wait", call_wait},
    {"work", call_work},
    {"received", call_received},
    {"measure", measure},
    {"reduction", reduction_create},
    {"premul", premul_create},
    {"capsule", dlpack_capsule},
    {"fail", fail},
};

enum { FUNCTIONS = sizeof functions / sizeof *functions };

int tutti_python_functions(uintptr_t namespace, uintptr_t error, uintptr_t refusal)
{
    static PyMethodDef methods[FUNCTIONS];
    const PyGILState_STATE gil = PyGILState_Ensure();
    int failed = 0;

    make_error = (PyObject *)error;
    make_refusal = (PyObject *)refusal;
    Py_INCREF(make_error);
    Py_INCREF(make_refusal);
    for (size_t i = 0; i < FUNCTIONS && !failed; i++) {
        PyObject *function;

        methods[i] =
            (PyMethodDef){functions[i].name, (PyCFunction)(void (*)(void))functions[i].function,
                          METH_FASTCALL, NULL};
        function = PyCFunction_NewEx(&methods[i], NULL, NULL);
        failed =
            !function || PyDict_SetItemString((PyObject *)namespace, functions[i].name, function);
        Py_XDECREF(function);
    }
    PyErr_Clear();
    PyGILState_Release(gil);
    return failed;
}
