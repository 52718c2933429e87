/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What Python passes to an operation: the numbers beside the arrays, and which arrays it takes.
 *
 * What is not valid is refused here only where tutti would not see it: a number that fits into no
 * int32_t, a list of another length than the group's, an array that cannot be written.
 */
#include "glue.h"

#include <limits.h>
#include <stdio.h>

static const char *const operation_names[OPERATIONS] = {
    "all_reduce", "reduce",         "broadcast",  "all_gather", "gather",
    "scatter",    "reduce_scatter", "all_to_all", "barrier",    "monitored_barrier",
    "send",       "recv",           "recv"};

/* ---- lists ---- */

/* Whether the operation may take one array for each member, instead of one with all blocks. */
static bool takes_list(enum operation operation, bool is_out)
{
    switch (operation) {
    case OPERATION_ALL_GATHER:
    case OPERATION_GATHER:
        return is_out;
    case OPERATION_SCATTER:
    case OPERATION_REDUCE_SCATTER:
        return !is_out;
    default:
        return operation == OPERATION_ALL_TO_ALL;
    }
}

/* Whether this member's list is not read, so that it may be empty. */
static bool passes_nothing(const struct request *r)
{
    return (r->operation == OPERATION_GATHER || r->operation == OPERATION_SCATTER) &&
           r->root != tutti_group_rank(r->group);
}

/* False: an exception is set. tutti reads as many arrays of a list as the group has members. */
static bool check_list(const struct request *r, PyObject *object, uint32_t n, bool is_out,
                       bool uneven)
{
    const int32_t size = tutti_group_size(r->group);
    const char *const name = operation_names[r->operation];
    const char *const side = is_out ? "output" : "input";

    if (!is_sequence(object))
        return true;
    if (uneven || !takes_list(r->operation, is_out)) {
        PyErr_Format(PyExc_TypeError, "%s%s takes one array as its %s, not a list or tuple", name,
                     uneven ? " with counts" : "", side);
        return false;
    }
    if (n == (uint32_t)size || (n == 0 && passes_nothing(r)))
        return true;
    PyErr_Format(PyExc_ValueError,
                 "%s: the %s is a list of %u arrays, but must have one for each of the %d members",
                 name, side, n, (int)size);
    return false;
}

bool request_check_lists(const struct request *r, PyObject *const *args, const uint32_t sizes[2],
                         bool uneven)
{
    PyObject *const in = args[2], *const out = args[3];

    if (!check_list(r, in, sizes[0], false, uneven) || !check_list(r, out, sizes[1], true, uneven))
        return false;
    if (r->operation != OPERATION_ALL_TO_ALL || is_sequence(in) == is_sequence(out))
        return true;
    PyErr_SetString(PyExc_TypeError, "all_to_all takes lists as its input and its output, or "
                                     "neither");
    return false;
}

/* ---- arrays ---- */

bool request_takes_no_array(enum operation operation)
{
    return operation == OPERATION_BARRIER || operation == OPERATION_MONITORED_BARRIER;
}

int request_refuse_read_only(const struct request *r, PyObject *in, PyObject *out)
{
    const bool in_place = in == Py_None && r->operation <= OPERATION_REDUCE;
    char words[128];

    snprintf(words, sizeof words, "%s writes %s is read-only: pass %s",
             operation_names[r->operation], in_place ? "x, which" : "an array that",
             in_place ? "out=, or a copy of x" : "a writable one");
    raise_array_error(out, words);
    return ARRAY_REFUSED;
}

/* ---- numbers ---- */

static const char *name_of_root(enum operation operation)
{
    if (operation == OPERATION_SEND)
        return "destination";
    return operation == OPERATION_RECV || operation == OPERATION_RECV_UP_TO ? "source" : "root";
}

/* Puts the name, the value and what is allowed into the exception of a number. */
static void refuse_number(const struct request *r, const char *name, PyObject *given,
                          unsigned long long most)
{
    const char *const operation = operation_names[r->operation];
    const bool is_integer = PyErr_ExceptionMatches(PyExc_OverflowError);

    if (!is_integer && !PyErr_ExceptionMatches(PyExc_TypeError))
        return; /* raised by its own __index__() */
    PyErr_Clear();
    if (is_integer)
        PyErr_Format(PyExc_ValueError, "%s: %s %R is not valid: use 0 to %llu", operation, name,
                     given, most);
    else
        PyErr_Format(PyExc_TypeError, "%s: %s %R is not valid: use an integer", operation, name,
                     given);
}

static int32_t take_root(const struct request *r, PyObject *given)
{
    const long long value = PyLong_AsLongLong(given);

    if (!PyErr_Occurred() && (value < INT32_MIN || value > INT32_MAX))
        PyErr_SetNone(PyExc_OverflowError);
    if (PyErr_Occurred())
        refuse_number(r, name_of_root(r->operation), given,
                      (unsigned long long)tutti_group_size(r->group) - 1);
    return (int32_t)value;
}

static uint64_t take_tag(const struct request *r, PyObject *given)
{
    PyObject *number = PyNumber_Index(given);
    const unsigned long long tag = number ? PyLong_AsUnsignedLongLong(number) : 0;

    if (PyErr_Occurred())
        refuse_number(r, "tag", given, ULLONG_MAX);
    Py_XDECREF(number);
    return tag;
}

bool request_take(struct request *r, tutti_options *options, PyObject *const *args,
                  Py_ssize_t count, uint32_t *ret_flags)
{
    uint32_t flags = 0;

    *r = (struct request){.group = PyLong_AsVoidPtr(args[0]),
                          .operation = (enum operation)PyLong_AsLong(args[1]),
                          .op = (tutti_reduce_op)PyLong_AsLong(args[4]),
                          .options = options};
    if (count > 5) {
        r->root = take_root(r, args[5]);
        if (PyErr_Occurred())
            return false;
        r->tag = take_tag(r, args[6]);
        if (PyErr_Occurred())
            return false;
        options->timeout_ms = PyLong_AsLongLong(args[7]);
        flags = (uint32_t)PyLong_AsLong(args[8]);
    }
    if (flags & CALL_FIXED_ORDER)
        options->flags |= TUTTI_FIXED_ORDER;
    if (!(flags & CALL_ASYNC))
        options->flags |= TUTTI_WAITS_NEXT;
    *ret_flags = flags;
    return !PyErr_Occurred();
}
