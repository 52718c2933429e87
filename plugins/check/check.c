/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The operations of the wrapper `check`: what is looked at when a call begins and ends, and what becomes
 * of a finding. An error ends the call that it is returned from; a warning is logged, a bounded number of
 * times.
 */
#include "check.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <tutti/tensor.h>
#include <tutti/version.h>

#include "../about.h"
#include "about.h"

enum { WARNINGS_MAX = 20 };

/* ---- what is done about a finding ---- */

/* `where` stands before a warning; the core puts it before an error. */
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

/* One side of a call: one piece, or a block for each member. */
struct side {
    const char *what; /* for messages: "input" */
    const void *one;
    const void *const *blocks;
    const uint64_t *block_bytes;
    uint64_t bytes; /* of all */
    int32_t count;
};

static struct side input_of(const tutti_call *call)
{
    struct side side = {.what = "input", .one = call->in, .bytes = call->in_bytes, .count = 1};

    if (call->op == TUTTI_PREMUL_SUM) /* a factor of Inf makes a NaN of 0 */
        side.what = "product of the input and the factor";
    if (TUTTI_HAS(call, in_blocks)) {
        side.blocks = call->in_blocks;
        side.block_bytes = call->in_block_bytes;
        side.count = call->group->size;
    }
    return side;
}

static struct side result_of(const tutti_call *call)
{
    struct side side = {.what = "result", .one = call->out, .bytes = call->out_bytes, .count = 1};

    if (TUTTI_HAS(call, out_blocks)) {
        side.blocks = (const void *const *)call->out_blocks;
        side.block_bytes = call->out_block_bytes;
        side.count = call->group->size;
    }
    return side;
}

static const void *piece(const struct side *side, int32_t i, uint64_t *ret_bytes)
{
    *ret_bytes = side->block_bytes ? side->block_bytes[i] : side->bytes / (uint64_t)side->count;
    return side->blocks ? side->blocks[i] : side->one;
}

/* The findings of one kind in all pieces, and the place of the first. */
struct sum {
    uint64_t count, index;
    int32_t block;
};

static void add(struct sum *sum, uint64_t count, uint64_t index, int32_t block)
{
    if (count && !sum->count)
        *sum = (struct sum){.index = index, .block = block};
    sum->count += count;
}

static tutti_status tell_of(tutti_wrapper *w, const tutti_call *call, const struct side *side,
                            enum check_level level, const char *name, const struct sum *sum)
{
    char words[CHECK_WORDS_MAX], where[192], block[32] = "";

    if (!sum->count)
        return TUTTI_OK;
    if (side->blocks)
        snprintf(block, sizeof block, " of block %d", sum->block);
    snprintf(where, sizeof where, "#%" PRIu64 " %s of group %s: ", call->sequence, call->operation,
             call->group->name);
    snprintf(words, sizeof words, "the %s holds %s at index %" PRIu64 "%s, %" PRIu64 " in all",
             side->what, name, sum->index, block, sum->count);
    return tell(w, level, TUTTI_ERR_ABORTED, where, words);
}

static tutti_status look(tutti_wrapper *w, const tutti_call *call, const struct side *side)
{
    struct sum nans = {0}, infs = {0};

    if (!w->nan && !w->inf)
        return TUTTI_OK;
    for (int32_t i = 0; i < side->count; i++) {
        uint64_t bytes;
        const void *data = piece(side, i, &bytes);
        const struct check_found found = check_values(call->dtype, data, bytes);

        add(&nans, found.nans, found.first_nan, i);
        add(&infs, found.infs, found.first_inf, i);
    }
    tutti_status status = tell_of(w, call, side, w->nan, "NaN", &nans);
    return status ? status : tell_of(w, call, side, w->inf, "Inf", &infs);
}

static uint64_t hash_of(const struct side *side)
{
    struct check_hash hash = check_hash_begin();

    for (int32_t i = 0; i < side->count; i++) {
        uint64_t bytes;
        const void *data = piece(side, i, &bytes);

        check_hash_add(&hash, data, bytes);
    }
    return check_hash_end(&hash);
}

/* ---- calls ---- */

static tutti_status check_begin(tutti_wrapper *w, const tutti_call *call, int64_t *ret_hold_ns)
{
    const struct side input = input_of(call);

    (void)ret_hold_ns;
    return look(w, call, &input);
}

static tutti_status check_end(tutti_wrapper *w, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    const struct side side = result_of(call);

    (void)end_ns;
    if (status)
        return TUTTI_OK;
    if (call->flags & TUTTI_CALL_SAME_RESULT && side.bytes && w->checksum &&
        TUTTI_HAS(w->host, tell)) {
        struct check_result result = {
            .sequence = call->sequence, .hash = hash_of(&side), .root = call->peer};

        snprintf(result.operation, sizeof result.operation, "%s", call->operation);
        w->host->tell(w->host_self, call->group, &result, sizeof result);
    }
    return look(w, call, &side);
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

static const tutti_plugin_option options[] = {CHECK_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("check", TUTTI_VERSION ", values and results", "Apache-2.0", providers, 1,
                          NULL, NULL, options, NULL, NULL);
