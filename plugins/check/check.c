/* SPDX-License-Identifier: Apache-2.0 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tutti/version.h>

enum { WARNINGS_MAX = 20 };

/* ---- what is done about a finding ---- */

/* `where` stands before a warning; the words of an error are put there by the core. */
static tutti_status tell(tutti_wrapper *w, enum check_level level, tutti_status status,
                         const char *where, const char *words)
{
    char line[CHECK_WORDS_MAX + 192];

    if (level == CHECK_FAIL)
        return w->host->error(w->host_self, status, 0, words);
    if (level == CHECK_WARN && w->warnings < WARNINGS_MAX) {
        snprintf(line, sizeof line, "%s%s", where, words);
        w->host->log(w->host_self, 1, line);
        if (++w->warnings == WARNINGS_MAX)
            w->host->log(w->host_self, 1, "further warnings are not shown");
    }
    return TUTTI_OK;
}

/* `what` is "input" or "result". */
static tutti_status look(tutti_wrapper *w, const tutti_call *call, const char *what,
                         const void *data, uint64_t bytes)
{
    struct check_found found = {0};
    char words[CHECK_WORDS_MAX], where[192];
    tutti_status status = TUTTI_OK;

    if (data && (w->nan || w->inf))
        found = check_values(call->dtype, data, bytes);
    if (!found.nans && !found.infs)
        return TUTTI_OK;
    snprintf(where, sizeof where, "#%" PRIu64 " %s of group %s: ", call->sequence, call->operation,
             call->group->name);
    if (found.nans) {
        snprintf(words, sizeof words, "the %s holds NaN at index %" PRIu64 ", %" PRIu64 " in all",
                 what, found.first_nan, found.nans);
        status = tell(w, w->nan, TUTTI_ERR_ABORTED, where, words);
    }
    if (!status && found.infs) {
        snprintf(words, sizeof words, "the %s holds Inf at index %" PRIu64 ", %" PRIu64 " in all",
                 what, found.first_inf, found.infs);
        status = tell(w, w->inf, TUTTI_ERR_ABORTED, where, words);
    }
    return status;
}

/* ---- calls ---- */

static tutti_status check_begin(tutti_wrapper *w, const tutti_call *call, int64_t *ret_hold_ns)
{
    (void)ret_hold_ns;
    return look(w, call, "input", call->in, call->in_bytes);
}

static tutti_status check_end(tutti_wrapper *w, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    (void)end_ns;
    if (status)
        return TUTTI_OK;
    if (call->flags & TUTTI_CALL_SAME_RESULT && call->out && w->checksum &&
        TUTTI_HAS(w->host, tell)) {
        struct check_result result = {.sequence = call->sequence,
                                      .hash = check_hash(call->out, call->out_bytes),
                                      .root = call->peer};

        snprintf(result.operation, sizeof result.operation, "%s", call->operation);
        w->host->tell(w->host_self, call->group, &result, sizeof result);
    }
    return look(w, call, "result", call->out, call->out_bytes);
}

static tutti_status check_hear(tutti_wrapper *w, const tutti_wrapped_group *group, int32_t rank,
                               const void *bytes, uint64_t count)
{
    struct check_result result;
    char words[CHECK_WORDS_MAX];

    if (count != sizeof result || !w->checksum)
        return TUTTI_OK;
    memcpy(&result, bytes, sizeof result);
    return check_note(w, group, rank, &result, words)
               ? TUTTI_OK
               : tell(w, w->checksum, TUTTI_ERR_INTERNAL, "", words);
}

static int32_t check_expected(tutti_wrapper *w, const tutti_wrapped_group *group)
{
    return check_expects(w, group);
}

/* ---- options ---- */

static bool take(const char *text, size_t length, const char *word)
{
    return length == strlen(word) && !strncmp(text, word, length);
}

/* "nan=fail,inf=warn,checksum=fail"; false: the place of what makes no sense. */
static bool parse(tutti_wrapper *w, const char *text, size_t *ret_at)
{
    static const char *const levels[] = {"off", "warn", "fail"};
    const struct {
        const char *name;
        enum check_level *level;
    } settings[] = {{"nan", &w->nan}, {"inf", &w->inf}, {"checksum", &w->checksum}};

    for (const char *at = text;; at++) {
        size_t name = strcspn(at, "=,"), length = strcspn(at, ",");
        bool known = false;

        for (size_t s = 0; s < sizeof settings / sizeof settings[0]; s++)
            for (int l = 0; l < 3 && name < length; l++)
                if (take(at, name, settings[s].name) &&
                    take(at + name + 1, length - name - 1, levels[l])) {
                    *settings[s].level = (enum check_level)l;
                    known = true;
                }
        if (!known) {
            *ret_at = (size_t)(at - text);
            return false;
        }
        at += length;
        if (!*at)
            return true;
    }
}

static tutti_status check_open(const tutti_host *host, void *host_self,
                               const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper)
{
    struct tutti_wrapper *w = host->allocate(host_self, sizeof *w);
    const char *text = host->config(host_self, "");
    char words[CHECK_WORDS_MAX];
    size_t at;

    (void)options;
    if (!w)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory");
    *w = (struct tutti_wrapper){.host = host,
                                .host_self = host_self,
                                .nan = CHECK_FAIL,
                                .inf = CHECK_WARN,
                                .checksum = CHECK_FAIL};
    if (!text || !*text || parse(w, text, &at)) {
        *ret_wrapper = w;
        return TUTTI_OK;
    }
    host->release(host_self, w);
    snprintf(words, sizeof words,
             "TUTTI_CHECK: byte %zu, \"%.64s\": write nan=, inf= or checksum= and off, warn or "
             "fail, with commas between",
             at, text + at);
    return host->error(host_self, TUTTI_ERR_INVALID_ARGUMENT, 0, words);
}

static void check_close(tutti_wrapper *w)
{
    w->host->release(w->host_self, w);
}

/* ---- what is exported ---- */

static const tutti_wrapper_ops check_ops = {
    .struct_size = sizeof(tutti_wrapper_ops),
    .open = check_open,
    .close = check_close,
    .begin = check_begin,
    .end = check_end,
    .hear = check_hear,
    .expects = check_expected,
    .leave = check_forget,
};

static const tutti_provider check_wrapper = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_WRAPPER,
                                             .name = "check",
                                             .ops = &check_ops};
static const tutti_provider *const providers[] = {&check_wrapper};

TUTTI_PLUGIN_EXPORT("check", TUTTI_VERSION ", values and results", "Apache-2.0", providers, 1);
