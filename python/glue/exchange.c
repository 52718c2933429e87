/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arrays by DLPack: the table of C functions of a type (DLPack 1.3), which costs no call of Python,
 * and the method __dlpack__. libtutti imports both structs and calls their deleters; a capsule that
 * it has taken is renamed, as the protocol demands.
 *
 * An array on a GPU has a stream. The table exports without any order, and tells the library's current stream, on which
 * the operation is put. __dlpack__ is called without a stream, so the library orders its work before the legacy
 * default stream, which is that of an operation that is told none.
 *
 * The table does not say whether an array may be used: torch's exports a tensor that requires a
 * gradient, or whose numbers are still to be conjugated or negated, and its __dlpack__ looks for
 * some of that only. So exchange_describe() asks the tensor, and its refusal is final.
 */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

/* As dlpack.h 1.3 has it; a table of another major version has another layout behind its header. */
struct exchange_header {
    uint32_t major, minor;
    struct exchange_header *previous;
};

struct exchange {
    struct exchange_header header;
    int (*allocate)(void);
    int (*from_object)(void *object, struct DLManagedTensorVersioned **ret_managed);
    int (*to_object)(void);
    int (*view_of_object)(void);
    int (*current_stream)(int32_t device_type, int32_t device_id, void **ret_stream);
};

/* The start of both structs that __dlpack__ gives; the deleter's place differs. */
struct unversioned {
    tutti_tensor tensor;
    void *context;
    void (*deleter)(struct unversioned *self);
};

struct versioned {
    uint32_t major, minor;
    void *context;
    void (*deleter)(struct versioned *self);
};

const void *exchange_table(PyObject *type)
{
    PyObject *capsule = PyObject_GetAttrString(type, "__dlpack_c_exchange_api__");
    const struct exchange_header *header;

    if (!capsule) {
        PyErr_Clear();
        return NULL;
    }
    header = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
    PyErr_Clear(); /* something else of that name */
    Py_DECREF(capsule);
    while (header && header->major != 1)
        header = header->previous;
    return header;
}

/* Whether an attribute of the object is true; an object without it says no. */
static bool has(PyObject *object, const char *name, bool is_method)
{
    PyObject *answer =
        is_method ? PyObject_CallMethod(object, name, NULL) : PyObject_GetAttrString(object, name);
    const int true_or_not = answer ? PyObject_IsTrue(answer) : 0;

    PyErr_Clear();
    Py_XDECREF(answer);
    return true_or_not > 0;
}

static const char *obstacle_of(PyObject *object, tutti_dtype dtype)
{
    if (has(object, "requires_grad", false))
        return "it requires a gradient: pass x.detach()";
    if ((dtype & 0xff) == 5 && has(object, "is_conj", true))
        return "its conjugation is pending: pass x.resolve_conj()";
    if (has(object, "is_neg", true))
        return "its negation is pending: pass x.resolve_neg()";
    return NULL;
}

static bool take(struct array *array, tutti_tensor *managed)
{
    array->managed = managed;
    array->tensor = *managed;
    return true;
}

static void delete_versioned(struct DLManagedTensorVersioned *managed)
{
    struct versioned *self = (struct versioned *)managed;

    if (self->deleter)
        self->deleter(self);
}

bool exchange_has_stream(const tutti_tensor *tensor)
{
    const int32_t type = tensor->device.type & ~TUTTI_DEVICE_READ_ONLY;

    return type == TUTTI_DEVICE_CUDA || type == TUTTI_DEVICE_CUDA_MANAGED;
}

/* The stream of the library whose table it is. False: the library does not say. */
static bool take_stream(struct array *array, const struct exchange *exchange,
                        const tutti_device *device)
{
    return exchange->current_stream &&
           !exchange->current_stream(device->type & ~TUTTI_DEVICE_READ_ONLY, device->id,
                                     &array->stream);
}

bool exchange_describe(struct array *array, const void *table, PyObject *object,
                       struct refusal *refusal)
{
    static const char *const protocol = "__dlpack_c_exchange_api__";
    const struct exchange *exchange = table;
    struct DLManagedTensorVersioned *managed = NULL;
    tutti_tensor *tensor;
    const char *obstacle;

    if (exchange->from_object(object, &managed)) {
        refusal_note(refusal, protocol, NULL);
        return false;
    }
    if (tutti_tensor_from_dlpack_versioned(managed, &tensor)) {
        refusal_note(refusal, protocol, tutti_last_error());
        delete_versioned(managed);
        return false;
    }
    obstacle = obstacle_of(object, tensor->dtype);
    if (!obstacle && exchange_has_stream(tensor) &&
        !take_stream(array, exchange, &tensor->device)) {
        PyErr_Clear();
        refusal_note(refusal, protocol, "it does not tell its current stream");
        tutti_tensor_release(tensor);
        return false;
    }
    if (obstacle) {
        refusal_note(refusal, protocol, obstacle);
        refusal->is_final = true;
        tutti_tensor_release(tensor);
        return false;
    }
    return take(array, tensor);
}

/* ---- __dlpack__ ---- */

/* Takes what the capsule holds, which is still its own if that fails. */
static bool import_capsule(struct array *array, PyObject *capsule, const char *protocol,
                           struct refusal *refusal)
{
    tutti_tensor *tensor;
    tutti_status status;
    const char *used;

    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        used = "used_dltensor_versioned";
        status = tutti_tensor_from_dlpack_versioned(
            PyCapsule_GetPointer(capsule, "dltensor_versioned"), &tensor);
    } else if (PyCapsule_IsValid(capsule, "dltensor")) {
        used = "used_dltensor";
        status = tutti_tensor_from_dlpack(PyCapsule_GetPointer(capsule, "dltensor"), &tensor);
    } else {
        refusal_note(refusal, protocol, "it did not return a capsule of DLPack");
        return false;
    }
    if (status) {
        refusal_note(refusal, protocol, tutti_last_error());
        return false;
    }
    PyCapsule_SetName(capsule, used);
    return take(array, tensor);
}

static bool call_dlpack(struct array *array, PyObject *method, PyObject *keywords,
                        const char *protocol, struct refusal *refusal)
{
    PyObject *none = PyTuple_New(0);
    PyObject *capsule = none ? PyObject_Call(method, none, keywords) : NULL;
    bool taken = false;

    if (capsule)
        taken = import_capsule(array, capsule, protocol, refusal);
    else
        refusal_note(refusal, protocol, NULL);
    Py_XDECREF(none);
    Py_XDECREF(capsule);
    return taken;
}

bool dlpack_describe(struct array *array, PyObject *object, struct refusal *refusal)
{
    PyObject *method = PyObject_GetAttrString(object, "__dlpack__");
    PyObject *keywords;
    bool described = false;

    if (!method) {
        refusal_note(refusal, "__dlpack__", NULL);
        return false;
    }
    keywords = Py_BuildValue("{s:(ii)}", "max_version", 1, 1);
    if (keywords)
        described = call_dlpack(array, method, keywords, "__dlpack__(max_version=(1, 1))", refusal);
    else
        refusal_note(refusal, "__dlpack__", NULL);
    if (!described)
        described = call_dlpack(array, method, NULL, "__dlpack__()", refusal);
    Py_XDECREF(keywords);
    Py_DECREF(method);
    return described;
}

/* ---- capsules of our own ---- */

/* The memory of a buffer, as others import it. */
struct exported {
    struct unversioned managed; /* first: this is what the capsule holds */
    Py_buffer view;
    int64_t shape[];
};

/* Called by the importer, on any thread. */
static void delete_exported(struct unversioned *self)
{
    struct exported *exported = (struct exported *)self;
    const PyGILState_STATE gil = PyGILState_Ensure();

    PyBuffer_Release(&exported->view);
    PyGILState_Release(gil);
    free(exported);
}

static void destroy_capsule(PyObject *capsule)
{
    if (PyCapsule_IsValid(capsule, "dltensor"))
        delete_exported(PyCapsule_GetPointer(capsule, "dltensor"));
}

PyObject *dlpack_capsule(PyObject *self, PyObject *const *args, Py_ssize_t count)
{
    const tutti_dtype dtype = (tutti_dtype)PyLong_AsUnsignedLong(args[1]);
    const Py_ssize_t ndim = PyTuple_Size(args[2]);
    struct exported *exported;
    tutti_tensor *tensor;
    PyObject *capsule;

    (void)self;
    (void)count;
    if (PyErr_Occurred())
        return NULL;
    exported = calloc(1, sizeof *exported + sizeof *exported->shape * (size_t)ndim);
    if (!exported)
        return PyErr_NoMemory();
    if (PyObject_GetBuffer(args[0], &exported->view, PyBUF_WRITABLE)) {
        free(exported);
        return NULL;
    }
    for (Py_ssize_t i = 0; i < ndim; i++)
        exported->shape[i] = PyLong_AsLongLong(PyTuple_GetItem(args[2], i));
    tensor = &exported->managed.tensor;
    tensor->data = exported->view.buf;
    tensor->device.type = TUTTI_DEVICE_CPU;
    tensor->ndim = (int32_t)ndim;
    tensor->dtype = dtype;
    tensor->shape = exported->shape;
    exported->managed.deleter = delete_exported;
    capsule = PyErr_Occurred() ? NULL : PyCapsule_New(exported, "dltensor", destroy_capsule);
    if (!capsule)
        delete_exported(&exported->managed);
    return capsule;
}
