/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The wrapper `fault`: delays, drops, corrupts, closes and kills, by rule.
 *
 * TUTTI_FAULT is a list of rules between semicolons, each «conditions : action»:
 *
 *     rank=2,op=all_reduce,seq=3-5:delay=50ms;peer=1:drop=0.01;seed=7
 *
 * What a rule does to a message or call depends on the seed, the rule, the rank and the number of the
 * message on its way or of the call in its group, on nothing else: the same program with the same
 * seed meets the same faults, however its threads and messages interleave.
 *
 * Rules with a peer, and drop and corrupt always, act on messages of a transport; the others act where a
 * call begins. Collectives over mapped memory send no messages, so only the latter reach them.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

enum { FAULT_RULES_MAX = 32, FAULT_WORDS_MAX = 512, FAULT_ANY = -1 };

enum fault_action { FAULT_DELAY, FAULT_DROP, FAULT_CORRUPT, FAULT_CLOSE, FAULT_KILL };

struct fault_rule {
    enum fault_action action;
    bool of_messages;
    int32_t rank, peer;   /* in the world; FAULT_ANY */
    char op[32];          /* "": any */
    uint64_t first, last; /* sequence; last 0: any */
    double chance;        /* 0 to 1 */
    int64_t delay_ns;
    uint64_t met;        /* how often its conditions held here */
    uint32_t at, length; /* where it stands in the text */
};

struct fault_rules {
    struct fault_rule rule[FAULT_RULES_MAX];
    unsigned count;
    uint64_t seed;
};

/* Parses `text` for a world of `size`; false: what is wrong and where, in `ret_words`. */
bool fault_rules_parse(const char *text, int32_t size, struct fault_rules *ret_rules,
                       char ret_words[FAULT_WORDS_MAX]);
/* A number that looks random and depends on nothing but what names an event: the `number`th at a place. */
uint64_t fault_number(const struct fault_rules *rules, unsigned rule, int rank, uint64_t place,
                      uint64_t number);
/* Whether the rule's chance falls on this event. */
bool fault_falls(const struct fault_rules *rules, const struct fault_rule *rule, int rank,
                 uint64_t place, uint64_t number);
/* A number that names a text. */
uint64_t fault_hash(const char *text);

/* ---- calls in progress, for rules of messages that name a call ---- */

struct fault_call {
    const void *group; /* tutti_wrapped_group.core */
    uint64_t number, sequence;
    bool is_message;
    char op[32];
};

enum { FAULT_CALLS_MAX = 4096 /* further ones are not looked at */ };

struct tutti_wrapper {
    const tutti_host *host;
    void *host_self;
    int rank; /* in the world */
    const char *text;
    struct fault_rules rules;
    struct fault_call calls[FAULT_CALLS_MAX]; /* in the order of their beginning */
    unsigned call_count;
    struct tutti_endpoint *endpoints; /* linked; changes under `lock` */
};

/* Whether the rule's op and sequence hold for a call. */
bool fault_names(const struct fault_rule *rule, const char *op, uint64_t sequence);
/* Whether they hold for what a group does now: its oldest collective, or any of its messages. */
bool fault_in_progress(const struct tutti_wrapper *wrapper, const struct fault_rule *rule,
                       const void *group);
/* Notes that a rule's conditions held; says so the first time. */
void fault_met(struct tutti_wrapper *wrapper, struct fault_rule *rule);
_Noreturn void fault_kill(void);

/* ---- fault_transport.c ---- */

tutti_status fault_transport(tutti_wrapper *wrapper, const tutti_wrapped_group *group,
                             const char *name, const tutti_transport_ops *inner,
                             tutti_endpoint *inner_endpoint, const tutti_transport_ops **ret_ops,
                             tutti_endpoint **ret_endpoint);
/* Closes the ways of a group to `peer` (in the world; FAULT_ANY: all). */
void fault_close_ways(tutti_wrapper *wrapper, const void *group, int32_t peer);
/* Holds back what the group sends to `peer` (in the group) until then. */
void fault_hold_ways(tutti_wrapper *wrapper, const void *group, int32_t peer, int64_t until_ns);
