/* SPDX-License-Identifier: Apache-2.0 */
/* The faults that act at the begin of a call, and the calls in progress. */
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <tutti/version.h>

#include "../about.h"
#include "about.h"
#include "fault.h"

bool fault_names(const struct fault_rule *rule, const char *op, uint64_t sequence)
{
    return (!*rule->op || !strcmp(rule->op, op)) &&
           (!rule->last || (sequence >= rule->first && sequence <= rule->last));
}

bool fault_in_progress(const struct tutti_wrapper *w, const struct fault_rule *rule,
                       const void *group)
{
    bool seen_collective = false;

    if (!*rule->op && !rule->last)
        return true;
    for (unsigned i = 0; i < w->call_count; i++) {
        const struct fault_call *call = &w->calls[i];

        if (call->group != group || (!call->is_message && seen_collective))
            continue;
        seen_collective |= !call->is_message;
        if (fault_names(rule, call->op, call->sequence))
            return true;
    }
    return false;
}

void fault_met(struct tutti_wrapper *w, struct fault_rule *rule)
{
    char words[FAULT_WORDS_MAX];

    if (rule->met++)
        return;
    snprintf(words, sizeof words, "rule \"%.*s\" is met", (int)rule->length, w->text + rule->at);
    w->host->log(w->host_self, 2, words);
}

_Noreturn void fault_kill(void)
{
    kill(getpid(), SIGKILL);
    for (;;)
        pause();
}

/* ---- calls ---- */

static void remember(struct tutti_wrapper *w, const tutti_call *call)
{
    if (w->call_count == FAULT_CALLS_MAX)
        return;
    struct fault_call *seen = &w->calls[w->call_count++];

    *seen = (struct fault_call){.group = call->group->core,
                                .number = call->number,
                                .sequence = call->sequence,
                                .is_message = call->flags & TUTTI_CALL_MESSAGE};
    snprintf(seen->op, sizeof seen->op, "%s", call->operation);
}

/* A collective is held back by the core; of messages a send is, by the transport. */
static void delay(struct tutti_wrapper *w, const struct fault_rule *rule, const tutti_call *call,
                  int64_t *ret_hold_ns)
{
    if (call->flags & TUTTI_CALL_MESSAGE)
        fault_hold_ways(w, call->group->core, call->peer, call->begun_ns + rule->delay_ns);
    else
        *ret_hold_ns += rule->delay_ns;
}

static tutti_status fault_begin(tutti_wrapper *w, const tutti_call *call, int64_t *ret_hold_ns)
{
    const uint64_t place = fault_hash(call->group->name);

    remember(w, call);
    for (unsigned i = 0; i < w->rules.count; i++) {
        struct fault_rule *rule = &w->rules.rule[i];

        if (rule->of_messages || (rule->rank != FAULT_ANY && rule->rank != w->rank) ||
            !fault_names(rule, call->operation, call->sequence))
            continue;
        if (rule->action == FAULT_DELAY && call->flags & TUTTI_CALL_MESSAGE && !call->in)
            continue;
        fault_met(w, rule);
        if (!fault_falls(&w->rules, rule, w->rank, place ^ call->flags, call->sequence))
            continue;
        if (rule->action == FAULT_KILL)
            fault_kill();
        if (rule->action == FAULT_CLOSE)
            fault_close_ways(w, call->group->core, FAULT_ANY);
        if (rule->action == FAULT_DELAY)
            delay(w, rule, call, ret_hold_ns);
    }
    return TUTTI_OK;
}

static tutti_status fault_end(tutti_wrapper *w, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    (void)status;
    (void)end_ns;
    for (unsigned i = 0; i < w->call_count; i++)
        if (w->calls[i].number == call->number) {
            w->call_count--;
            memmove(&w->calls[i], &w->calls[i + 1], (w->call_count - i) * sizeof w->calls[0]);
            break;
        }
    return TUTTI_OK;
}

/* ---- opening and closing ---- */

static tutti_status fault_open(const tutti_host *host, void *host_self,
                               const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper)
{
    struct tutti_wrapper *w = host->allocate(host_self, sizeof *w);
    char why[FAULT_WORDS_MAX], words[FAULT_WORDS_MAX + 64];

    if (!w)
        return host->error(host_self, TUTTI_ERR_NO_MEMORY, 0, "no memory");
    w->host = host;
    w->host_self = host_self;
    w->rank = options->rank;
    w->text = host->config(host_self, "");
    bool given = w->text && *w->text;
    if (given && fault_rules_parse(w->text, options->size, &w->rules, why)) {
        *ret_wrapper = w;
        return TUTTI_OK;
    }
    if (given)
        snprintf(words, sizeof words, "TUTTI_FAULT: %s", why);
    else
        snprintf(words, sizeof words,
                 "TUTTI_FAULT is not set; give it rules, such as rank=1,op=barrier:delay=50ms");
    host->release(host_self, w);
    return host->error(host_self, TUTTI_ERR_INVALID_ARGUMENT, 0, words);
}

/* A rule that met nothing is likely a mistake, or is about messages where memory was mapped. */
static void fault_close(tutti_wrapper *w)
{
    for (unsigned i = 0; i < w->rules.count; i++) {
        const struct fault_rule *rule = &w->rules.rule[i];
        char words[FAULT_WORDS_MAX];

        if (rule->met || (rule->rank != FAULT_ANY && rule->rank != w->rank))
            continue;
        snprintf(words, sizeof words, "rule \"%.*s\" has met no %s", (int)rule->length,
                 w->text + rule->at,
                 rule->of_messages ? "message; collectives over mapped memory send none" : "call");
        w->host->log(w->host_self, 1, words);
    }
    w->host->release(w->host_self, w);
}

/* ---- what is exported ---- */

static const tutti_wrapper_ops fault_ops = {
    .struct_size = sizeof(tutti_wrapper_ops),
    .open = fault_open,
    .close = fault_close,
    .begin = fault_begin,
    .end = fault_end,
    .transport = fault_transport,
};

static const tutti_provider fault_wrapper = {.struct_size = sizeof(tutti_provider),
                                             .kind = TUTTI_PROVIDER_WRAPPER,
                                             .name = "fault",
                                             .ops = &fault_ops};
static const tutti_provider *const providers[] = {&fault_wrapper};

static const char *const trial[] = {"TUTTI_FAULT=rank=1,op=barrier:delay=1ms", NULL};

static const tutti_plugin_option options[] = {FAULT_OPTIONS(ABOUT_OPTION) ABOUT_OPTIONS_END};

TUTTI_PLUGIN_EXPORT_ABOUT("fault", TUTTI_VERSION ", faults by rule and seed", "Apache-2.0",
                          providers, 1, NULL, trial, options, NULL, NULL);
