/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

static void add_words(struct json *json, const char *words)
{
    buffer_put(&json->out, words, strlen(words));
}

/* Everything before a value. */
static void lead(struct json *json, const char *name)
{
    if (json->follows)
        add_words(json, ",");
    json->follows = true;
    if (!name)
        return;
    add_words(json, "\"");
    add_words(json, name);
    add_words(json, "\":");
}

/* A value that needs no escapes. */
__attribute__((format(printf, 3, 4))) static void add_value(struct json *json, const char *name,
                                                            const char *format, ...)
{
    char text[40];
    va_list args;

    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lead(json, name);
    add_words(json, text);
}

static void begin(struct json *json, const char *name, const char *bracket)
{
    lead(json, name);
    add_words(json, bracket);
    json->follows = false;
}

static void end(struct json *json, const char *bracket)
{
    add_words(json, bracket);
    json->follows = true;
}

void json_begin_object(struct json *json, const char *name)
{
    /* one line each, for readers without a tool */
    begin(json, name, !name && json->out.size ? "\n{" : "{");
}

void json_end_object(struct json *json)
{
    end(json, "}");
}

void json_begin_array(struct json *json, const char *name)
{
    begin(json, name, "[");
}

void json_end_array(struct json *json)
{
    end(json, "]");
}

void json_int(struct json *json, const char *name, int64_t value)
{
    add_value(json, name, "%" PRId64, value);
}

void json_uint(struct json *json, const char *name, uint64_t value)
{
    add_value(json, name, "%" PRIu64, value);
}

void json_bool(struct json *json, const char *name, bool value)
{
    add_value(json, name, value ? "true" : "false");
}

void json_seconds(struct json *json, const char *name, int64_t nanoseconds)
{
    const int64_t ms = nanoseconds / 1000000;

    add_value(json, name, "%" PRId64 ".%03d", ms / 1000, abs((int)(ms % 1000)));
}

void json_hex(struct json *json, const char *name, uint64_t value)
{
    add_value(json, name, "\"%016" PRIx64 "\"", value);
}

void json_string(struct json *json, const char *name, const char *value)
{
    lead(json, name);
    if (!value) {
        add_words(json, "null");
        return;
    }
    add_words(json, "\"");
    for (const unsigned char *s = (const unsigned char *)value; *s;) {
        size_t length = text_character((const char *)s);

        if (*s == '"' || *s == '\\' || *s < ' ') {
            char text[8];

            snprintf(text, sizeof text, *s < ' ' ? "\\u%04x" : "\\%c", *s);
            add_words(json, text);
        } else if (length) {
            buffer_put(&json->out, s, length);
        } else {
            add_words(json, "\\ufffd");
        }
        s += length ? length : 1;
    }
    add_words(json, "\"");
}

char *json_take(struct json *json)
{
    char *text;

    buffer_put(&json->out, "", 1);
    if (json->out.failed)
        buffer_free(&json->out);
    text = (char *)json->out.data;
    *json = (struct json){0};
    return text;
}
