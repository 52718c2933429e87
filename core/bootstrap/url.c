/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/url.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { NUMBER_TEXT_MAX = 20 };

/* A number of `length` bytes that something else follows. */
static bool take_number(const char *text, size_t length, int64_t min, int64_t max,
                        int64_t *ret_number)
{
    char digits[NUMBER_TEXT_MAX + 1];

    if (length > NUMBER_TEXT_MAX)
        return false;
    memcpy(digits, text, length);
    digits[length] = 0;
    return text_number(digits, min, max, ret_number);
}

tutti_status url_take_host(const char *source, const char *host, char ret_host[URL_HOST_MAX + 1])
{
    const size_t n = strlen(host);

    if (n == 0 || n > URL_HOST_MAX)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s=%.256s: a host name has 1 to %d characters", source, host,
                         URL_HOST_MAX);
    for (size_t i = 0; i < n; i++) {
        if (host[i] <= ' ' || host[i] > '~' || strchr("/[]?@", host[i]))
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "%s=%.256s: a host is a name or a numeric address", source, host);
    }
    if (!strcmp(host, "0.0.0.0") || !strcmp(host, "::"))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s=%s: this address means all interfaces of a host; give an address of "
                         "rank 0's host that the other ranks can reach",
                         source, host);
    memmove(ret_host, host, n + 1); /* it may be there already */
    return TUTTI_OK;
}

/* ---- the parts of a URL; each returns why it is none, or NULL ---- */

/* HOST:PORT of `length` bytes; one '/' after it is forgiven, as in torch. */
static const char *parse_tcp(const char *at, size_t length, struct url *url)
{
    const char *end = at + length, *colon, *last;
    int64_t port;

    if (length && end[-1] == '/')
        end--;
    if (at < end && *at == '[') {
        last = memchr(at, ']', (size_t)(end - at));
        at++;
        colon = last ? last + 1 : end;
    } else {
        last = colon = memchr(at, ':', (size_t)(end - at));
    }
    if (!last || !colon || colon >= end || *colon != ':')
        return "no HOST:PORT";
    if (!take_number(colon + 1, (size_t)(end - colon - 1), 1, UINT16_MAX, &port))
        return "the port is not a number from 1 to 65535";
    if (last - at > URL_HOST_MAX)
        return "the host is too long";
    memcpy(url->host, at, (size_t)(last - at));
    url->host[last - at] = 0;
    url->kind = URL_TCP;
    url->port = (uint16_t)port;
    return NULL;
}

static const char *parse_file(const char *at, size_t length, struct url *url)
{
    if (length < 2 || *at != '/')
        return "the path is not absolute; write three slashes, file:///PATH";
    if (length >= sizeof url->path)
        return "the path is too long";
    url->kind = URL_FILE;
    memcpy(url->path, at, length);
    url->path[length] = 0;
    return NULL;
}

/* One NAME=VALUE of the query. */
static const char *parse_parameter(const char *at, size_t length, struct url *url)
{
    const char *equal = memchr(at, '=', length);
    const size_t name = equal ? (size_t)(equal - at) + 1 : 0;
    int64_t number;

    if (text_is(at, name, "rank=")) {
        if (url->rank >= 0 ||
            !take_number(at + name, length - name, 0, URL_MEMBERS_MAX - 1, &number))
            return "rank is not one number from 0 to 65534";
        url->rank = (int)number;
    } else if (text_is(at, name, "world_size=")) {
        if (url->world_size || !take_number(at + name, length - name, 1, URL_MEMBERS_MAX, &number))
            return "world_size is not one number from 1 to 65535";
        url->world_size = (int)number;
    } else {
        return "only the parameters rank and world_size are known";
    }
    return NULL;
}

/* All before the query. */
static const char *parse_place(const char *text, struct url *url)
{
    const char *at = strstr(text, "://");

    if (!at)
        return "not a URL";
    at += 3;

    const size_t scheme = (size_t)(at - text), length = strcspn(at, "?");
    if (!strncmp(text, "tcp://", scheme))
        return parse_tcp(at, length, url);
    if (!strncmp(text, "file://", scheme))
        return parse_file(at, length, url);
    if (strncmp(text, "env://", scheme))
        return "the scheme is unknown";
    return length ? "env:// takes no host or path" : NULL;
}

tutti_status url_parse(const char *source, const char *text, struct url *ret_url)
{
    struct url url = {.kind = URL_ENVIRONMENT, .rank = -1};
    const char *why = parse_place(text, &url);

    if (!why && url.kind == URL_TCP && url_take_host(source, url.host, url.host))
        return TUTTI_ERR_INVALID_ARGUMENT;
    for (const char *at = text + strcspn(text, "?"); !why && *at; at += 1 + strcspn(at + 1, "&"))
        why = parse_parameter(at + 1, strcspn(at + 1, "&"), &url);
    if (why)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s=%.256s: %s; write env://, tcp://HOST:PORT or file:///PATH, each with "
                         "?rank=R&world_size=N where needed",
                         source, text, why);
    *ret_url = url;
    return TUTTI_OK;
}
