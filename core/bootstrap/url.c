/* SPDX-License-Identifier: Apache-2.0 */
#include "bootstrap/url.h"

#include <stdbool.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"

enum { NUMBER_TEXT_MAX = 20 };

static tutti_status bad(const char *source, const char *text, const char *why)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "%s=%.256s: %s; write env://, tcp://HOST:PORT or file:///PATH, each with "
                     "?rank=R&world_size=N where needed",
                     source, text, why);
}

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
    memcpy(ret_host, host, n + 1);
    return TUTTI_OK;
}

/* HOST:PORT of `length` bytes; one '/' after it is forgiven, as in torch. */
static tutti_status parse_tcp(const char *source, const char *text, const char *at, size_t length,
                              struct url *url)
{
    char host[URL_HOST_MAX + 1];
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
        return bad(source, text, "no HOST:PORT");
    if (!take_number(colon + 1, (size_t)(end - colon - 1), 1, UINT16_MAX, &port))
        return bad(source, text, "the port is not a number from 1 to 65535");
    if (last - at > URL_HOST_MAX)
        return bad(source, text, "the host is too long");
    memcpy(host, at, (size_t)(last - at));
    host[last - at] = 0;
    url->kind = URL_TCP;
    url->port = (uint16_t)port;
    return url_take_host(source, host, url->host);
}

static tutti_status parse_file(const char *source, const char *text, const char *at, size_t length,
                               struct url *url)
{
    if (length < 2 || *at != '/')
        return bad(source, text, "the path is not absolute; write three slashes, file:///PATH");
    if (length >= sizeof url->path)
        return bad(source, text, "the path is too long");
    url->kind = URL_FILE;
    memcpy(url->path, at, length);
    url->path[length] = 0;
    return TUTTI_OK;
}

/* One NAME=VALUE of the query. */
static tutti_status parse_parameter(const char *source, const char *text, const char *at,
                                    size_t length, struct url *url)
{
    static const char rank[] = "rank=", world_size[] = "world_size=";
    int64_t number;

    if (length >= strlen(rank) && !strncmp(at, rank, strlen(rank))) {
        if (url->rank >= 0 ||
            !take_number(at + strlen(rank), length - strlen(rank), 0, URL_MEMBERS_MAX - 1, &number))
            return bad(source, text, "rank is not one number from 0 to 65534");
        url->rank = (int)number;
        return TUTTI_OK;
    }
    if (length >= strlen(world_size) && !strncmp(at, world_size, strlen(world_size))) {
        if (url->world_size || !take_number(at + strlen(world_size), length - strlen(world_size), 1,
                                            URL_MEMBERS_MAX, &number))
            return bad(source, text, "world_size is not one number from 1 to 65535");
        url->world_size = (int)number;
        return TUTTI_OK;
    }
    return bad(source, text, "only the parameters rank and world_size are known");
}

tutti_status url_parse(const char *source, const char *text, struct url *ret_url)
{
    struct url url = {.kind = URL_ENVIRONMENT, .rank = -1};
    const char *at = strstr(text, "://");
    tutti_status status = TUTTI_OK;

    if (!at)
        return bad(source, text, "not a URL");
    at += 3;

    const size_t scheme = (size_t)(at - text), length = strcspn(at, "?");
    if (!strncmp(text, "tcp://", scheme))
        status = parse_tcp(source, text, at, length, &url);
    else if (!strncmp(text, "file://", scheme))
        status = parse_file(source, text, at, length, &url);
    else if (strncmp(text, "env://", scheme))
        status = bad(source, text, "the scheme is unknown");
    else if (length)
        status = bad(source, text, "env:// takes no host or path");

    for (at += length; !status && *at; at += 1 + strcspn(at + 1, "&"))
        status = parse_parameter(source, text, at + 1, strcspn(at + 1, "&"), &url);
    if (!status)
        *ret_url = url;
    return status;
}
