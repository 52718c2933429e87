/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array of any library as a tutti_tensor: its own memory, with its own strides.
 *
 * Tried in this order: the table of C functions that the array's type publishes (torch), the buffer
 * protocol (NumPy, array.array, memoryview, MLX), __dlpack__. NumPy exports dtypes of ml_dtypes by
 * none of them; such an array is described as the integers that its view() has. What a type
 * publishes is looked up once.
 *
 * Arrays of MLX and JAX never change for their program, though MLX exports them as writable: a
 * write would show in every array that shares the memory. They are only inputs.
 */
#include "glue.h"

#include <stdlib.h>
#include <string.h>

/* ---- types ---- */

enum { KNOWN_TYPES = 64 };

struct known_type {
    PyObject *type; /* a reference, so that no other type gets its address */
    const void *table;
    bool immutable;
};

static bool is_immutable(PyObject *type)
{
    static const char *const libraries[] = {"mlx.", "jax.", "jaxlib."};
    bool found = false;
    PyObject *module = PyObject_GetAttrString(type, "__module__");
    PyObject *name = module ? PyUnicode_AsUTF8String(module) : NULL;

    for (size_t i = 0; name && i < sizeof libraries / sizeof *libraries; i++)
        found |= !strncmp(PyBytes_AsString(name), libraries[i], strlen(libraries[i]));
    PyErr_Clear(); /* a type without a module */
    Py_XDECREF(module);
    Py_XDECREF(name);
    return found;
}

/* Where the table is full, a type takes the place of another one. */
static struct known_type look_up(PyObject *type)
{
    static struct known_type known[KNOWN_TYPES];
    struct known_type *entry = &known[((uintptr_t)type >> 4) % KNOWN_TYPES];

    if (entry->type != type) {
        struct known_type now = {.type = type};
        PyObject *before;

        now.table = exchange_table(type);
        now.immutable = is_immutable(type);
        Py_INCREF(type);
        before = entry->type; /* after the calls of Python above, which may have come here, too */
        *entry = now;
        Py_XDECREF(before);
        return now;
    }
    return *entry;
}

/* ---- the buffer protocol ---- */

/* The dtype of a letter of the module struct, or of those that NumPy adds. 0: none that tutti has. */
static tutti_dtype dtype_of_letter(char letter, Py_ssize_t size)
{
    switch (letter) {
    case '?':
        return TUTTI_BOOL;
    case 'b':
    case 'h':
    case 'i':
    case 'l':
    case 'q':
    case 'n':
        return TUTTI_DTYPE(0, size * 8);
    case 'B':
    case 'H':
    case 'I':
    case 'L':
    case 'Q':
    case 'N':
    case 'c':
        return TUTTI_DTYPE(1, size * 8);
    case 'e':
    case 'f':
    case 'd':
        return TUTTI_DTYPE(2, size * 8);
    case 'F':
    case 'D':
        return TUTTI_DTYPE(5, size * 8);
    default:
        return 0;
    }
}

/* Whether a format begins with an order of bytes, and with the other one than this machine has. */
static bool has_order(char first, bool *ret_is_other)
{
    const bool big = first == '>' || first == '!';

    *ret_is_other = (big || first == '<') && big != (__BYTE_ORDER__ == __ORDER_BIG_ENDIAN__);
    return big || first == '<' || first == '=' || first == '@';
}

/* The dtype of a format; MLX has names besides letters. */
static tutti_dtype dtype_of_format(const char *format, Py_ssize_t size)
{
    tutti_dtype dtype = 0;
    bool is_other;

    if (!format)
        format = "B";
    if (size <= 0 || size > 16)
        return 0;
    if (has_order(*format, &is_other)) {
        if (is_other && size > 1)
            return 0;
        format++;
    }
    if (*format && !format[1])
        dtype = dtype_of_letter(*format, size);
    else if (!strcmp(format, "bfloat16"))
        dtype = TUTTI_BF16;
    else if (!strcmp(format, "Zf") || !strcmp(format, "Zd"))
        dtype = TUTTI_DTYPE(5, size * 8);
    return tutti_dtype_size(dtype) == (size_t)size ? dtype : 0;
}

static bool describe_layout(struct array *array, struct refusal *refusal)
{
    const Py_buffer *view = &array->view;
    tutti_tensor *tensor = &array->tensor;
    int64_t *shape = array->few, *strides;

    if (view->ndim > FEW_DIMENSIONS) {
        shape = array->many = malloc(2 * sizeof *shape * (size_t)view->ndim);
        if (!shape) {
            refusal_note(refusal, "buffer protocol", "there is no memory for its shape");
            return false;
        }
    }
    strides = shape + view->ndim;
    for (int i = 0; i < view->ndim; i++) {
        shape[i] = view->shape[i];
        strides[i] = view->strides[i] / view->itemsize;
        if (strides[i] * view->itemsize != view->strides[i] && shape[i] > 1) {
            refusal_note(refusal, "buffer protocol",
                         "its strides are not multiples of its element's size");
            return false;
        }
    }
    tensor->data = view->buf;
    tensor->ndim = view->ndim;
    tensor->shape = shape;
    tensor->strides = strides;
    tensor->device.type = TUTTI_DEVICE_CPU | (view->readonly ? TUTTI_DEVICE_READ_ONLY : 0);
    return true;
}

/* `dtype` 0: that of the buffer's format. */
static bool buffer_describe(struct array *array, PyObject *object, bool written, tutti_dtype dtype,
                            struct refusal *refusal)
{
    const int flags = PyBUF_STRIDES | PyBUF_FORMAT | (written ? PyBUF_WRITABLE : 0);

    if (PyObject_GetBuffer(object, &array->view, flags)) {
        array->view.obj = NULL;
        refusal_note(refusal, "buffer protocol", NULL);
        return false;
    }
    if (!dtype)
        dtype = dtype_of_format(array->view.format, array->view.itemsize);
    if (!dtype) {
        char words[256];

        snprintf(words, sizeof words,
                 "elements of format '%.64s' (%lld bytes) are no dtype of tutti%s",
                 array->view.format, (long long)array->view.itemsize,
                 strchr(array->view.format, 'O') ? "" : " (x.view(\"u1\") moves their bytes)");
        refusal_note(refusal, "buffer protocol", words);
        return false;
    }
    array->tensor.dtype = dtype;
    return describe_layout(array, refusal);
}

/* ---- dtypes of ml_dtypes ---- */

static tutti_dtype dtype_of_extension(PyObject *object, const char **ret_integers)
{
    static const struct {
        const char *name, *integers;
        tutti_dtype dtype;
    } extensions[] = {
        {"bfloat16", "u2", TUTTI_BF16},
        {"float8_e4m3fn", "u1", TUTTI_F8E4M3FN},
        {"float8_e5m2", "u1", TUTTI_F8E5M2},
    };
    tutti_dtype dtype = 0;
    PyObject *described = PyObject_GetAttrString(object, "dtype");
    PyObject *name = described ? PyObject_GetAttrString(described, "name") : NULL;
    PyObject *bytes = name ? PyUnicode_AsUTF8String(name) : NULL;

    for (size_t i = 0; bytes && i < sizeof extensions / sizeof *extensions; i++) {
        if (!strcmp(PyBytes_AsString(bytes), extensions[i].name)) {
            dtype = extensions[i].dtype;
            *ret_integers = extensions[i].integers;
        }
    }
    PyErr_Clear();
    Py_XDECREF(described);
    Py_XDECREF(name);
    Py_XDECREF(bytes);
    return dtype;
}

static bool extension_describe(struct array *array, PyObject *object, bool written,
                               struct refusal *refusal)
{
    const char *integers = NULL;
    const tutti_dtype dtype = dtype_of_extension(object, &integers);
    PyObject *view;
    bool described;

    if (!dtype)
        return false;
    view = PyObject_CallMethod(object, "view", "s", integers);
    if (!view) {
        refusal_note(refusal, "view of its integers", NULL);
        return false;
    }
    described = buffer_describe(array, view, written, dtype, refusal);
    Py_DECREF(view); /* the buffer has a reference */
    return described;
}

/* ---- all of them ---- */

void refusal_note(struct refusal *refusal, const char *protocol, const char *words)
{
    PyObject *type = NULL, *value = NULL, *trace = NULL, *text = NULL, *bytes = NULL;
    int n;

    if (!words) {
        PyErr_Fetch(&type, &value, &trace);
        text = value ? PyObject_Str(value) : NULL;
        bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
        PyErr_Clear();
        words = bytes ? PyBytes_AsString(bytes) : "it failed without a reason";
    }
    /* The first line: others add traces of their C++. */
    n = snprintf(refusal->words + refusal->length, sizeof refusal->words - refusal->length,
                 "%s%s: %.*s", refusal->length ? "; " : "", protocol, (int)strcspn(words, "\n"),
                 words);
    if (n > 0)
        refusal->length += (size_t)n;
    if (refusal->length >= sizeof refusal->words)
        refusal->length = sizeof refusal->words - 1;
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    Py_XDECREF(text);
    Py_XDECREF(bytes);
}

void array_release(struct array *array)
{
    PyObject *object = array->object;

    if (array->view.obj)
        PyBuffer_Release(&array->view);
    tutti_tensor_release(array->managed);
    free(array->many);
    array->managed = NULL;
    array->many = NULL;
    array->object = NULL;
    Py_XDECREF(object);
}

/* What a failed attempt has left, before the next one. */
static bool attempt_failed(struct array *array)
{
    array_release(array);
    memset(array, 0, sizeof *array);
    return false;
}

static bool describe(struct array *array, PyObject *object, const struct known_type *known,
                     bool written, struct refusal *refusal)
{
    if (known->table && exchange_describe(array, known->table, object, refusal))
        return true;
    attempt_failed(array);
    if (refusal->is_final)
        return false;
    if (buffer_describe(array, object, written, 0, refusal))
        return true;
    attempt_failed(array);
    if (dlpack_describe(array, object, refusal)) {
        if (!written || !(array->tensor.device.type & TUTTI_DEVICE_READ_ONLY))
            return true;
        refusal_note(refusal, "__dlpack__", "it is read-only");
    }
    attempt_failed(array);
    return extension_describe(array, object, written, refusal) || attempt_failed(array);
}

static bool is_readable(PyObject *object, const struct known_type *known)
{
    struct array array;
    struct refusal refusal;
    bool readable;

    memset(&array, 0, sizeof array);
    refusal_init(&refusal);
    readable = describe(&array, object, known, false, &refusal);
    array_release(&array);
    return readable;
}

int array_describe(struct array *array, PyObject *object, bool written)
{
    /* A type outlives its objects. */
    const struct known_type known = look_up((PyObject *)Py_TYPE(object));
    struct refusal refusal;

    memset(array, 0, sizeof *array);
    refusal_init(&refusal);
    if (written && known.immutable)
        return ARRAY_IMMUTABLE;
    if (!describe(array, object, &known, written, &refusal)) {
        if (written && !refusal.is_final && is_readable(object, &known))
            return ARRAY_READ_ONLY;
        raise_refusal(object, &refusal);
        return ARRAY_REFUSED;
    }
    array->object = object;
    Py_INCREF(object);
    return ARRAY_OK;
}
