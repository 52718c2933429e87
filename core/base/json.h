/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON text, written in order into memory that grows. Allocation may fail: nothing more is added then, and
 * callers look once, at the end. Text from anywhere may be a value: what is not UTF-8 becomes U+FFFD.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buffer.h"

struct json { /* zeroed: empty */
    struct buffer out;
    bool follows; /* a value stands before: a comma comes first */
};

/* `name` is the member's in an object, NULL in an array and at the top; it needs no escapes. */
void json_begin_object(struct json *json, const char *name);
void json_end_object(struct json *json);
void json_begin_array(struct json *json, const char *name);
void json_end_array(struct json *json);
void json_int(struct json *json, const char *name, int64_t value);
void json_uint(struct json *json, const char *name, uint64_t value);
void json_bool(struct json *json, const char *name, bool value);
/* Writes seconds with three places after the point. */
void json_seconds(struct json *json, const char *name, int64_t nanoseconds);
/* NULL is null. */
void json_string(struct json *json, const char *name, const char *value);
/* 16 hexadecimal digits, as a string: readers keep 53 bits of a number only. */
void json_hex(struct json *json, const char *name, uint64_t value);

/* The text, terminated, malloc(3)ed and the caller's; NULL: there was no memory. */
char *json_take(struct json *json);
