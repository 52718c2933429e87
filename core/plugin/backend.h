/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TUTTI_BACKEND, or backend= of the options, asks for:
 *
 *     auto                       the best for each level, fallback allowed
 *     NAME                       this backend for everything
 *     local=NAME,remote=NAME     one inside each host, one between hosts (in either order)
 *
 * "cpu:" or a kind of devices ("cuda:") may stand before it, which is how all calls go then; "cpu:auto,cuda:tcp" is a
 * way for each: calls with tensors on devices go by the second. Behind `auto` or a pair of names, or alone for auto, rules may follow,
 * each after a ';': which backend carries which calls. The first rule that fits is taken.
 *
 *     OPERATION=NAME                      a collective's name, * for all of them, send or recv
 *     OPERATION:FROM-TO=NAME              of so many bytes, both included; FROM- has no end
 *     OPERATION:local=NAME,remote=NAME    inside hosts and between them; also behind FROM-TO
 *
 * A NAME alone carries the call among all members; `auto` is as if there were no rule. With rules
 * nothing falls back. A message goes one way whatever its size, so that messages keep their order: one
 * rule, for send and recv both.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "base/call.h"
#include "base/text.h"
#include "plugin/plugin.h"

enum {
    BACKEND_RULES_MAX = 16,
    BACKEND_WORDS_MAX = 320,
    BACKEND_RULE_WORDS_MAX = 128,
    BACKEND_MESSAGES = 255 /* the operation of a rule for send and recv */
};

/* Numbers of a choice's backends: the two levels, then those that only rules name. */
enum { BACKEND_LOCAL, BACKEND_REMOTE, BACKEND_MORE, BACKEND_NAMES_MAX = BACKEND_MORE + 2 };

/* The backends of a call inside hosts and between them, as numbers; the same twice among all
 * members. */
struct backend_way {
    uint8_t inside, between;
};

struct backend_rule {
    uint8_t operation; /* OPERATION_NONE: all collectives */
    struct backend_way way;
    bool on_device; /* it is for calls with tensors on devices */
    bool sized;     /* it is for calls of least .. most bytes, as all members know them */
    uint64_t least, most;
    char words[BACKEND_RULE_WORDS_MAX];
};

struct backend_choice {
    bool is_auto;        /* the names are empty then */
    bool device_is_auto; /* for tensors on devices nothing else was asked for */
    bool host_is_named;  /* the names were asked for as those for host memory, by "cpu:" */
    bool by_device; /* calls with tensors on devices go another way: fields have CALL_ON_DEVICE */
    int32_t device_type; /* the kind of devices that was named, TUTTI_DEVICE_…; 0: none */
    char device_engine[PLUGIN_NAME_MAX + 1]; /* that takes tensors where they are; "": none */
    char auto_engine[PLUGIN_NAME_MAX + 1];   /* which `auto` may take for that; "": none */
    char local[PLUGIN_NAME_MAX + 1];
    char remote[PLUGIN_NAME_MAX + 1];                                 /* may be equal to `local` */
    char more[BACKEND_NAMES_MAX - BACKEND_MORE][PLUGIN_NAME_MAX + 1]; /* "": there is none */
    uint32_t rule_count;                                              /* not of one name alone */
    struct backend_rule rules[BACKEND_RULES_MAX];
};

/* Parses `words`; `source` ("TUTTI_BACKEND") begins the error's message. Looks no plugin up. */
tutti_status backend_parse(const char *source, const char *words,
                           struct backend_choice *ret_choice);

/*
 * Looks whether the way of tensors on devices is the name of an engine for them. Such an engine has no messages: what it
 * leaves to the core goes as calls with tensors in host memory do, which is auto where nothing else is named.
 */
void backend_find_device_engine(struct backend_choice *choice);

/* Where the choice is auto and `device_type` is that of a device which this member has named: auto may take an engine for
 * such devices. 0: it may not. Takes none yet. */
void backend_consider_engine(struct backend_choice *choice, int32_t device_type);
/* The members have agreed on that, or on none. Nothing happens where none was considered. */
void backend_take_engine(struct backend_choice *choice, bool taken);

/* `option` (backend= of the options), else TUTTI_BACKEND if it is set and not empty, else auto. */
tutti_status backend_resolve(const char *option, struct backend_choice *ret_choice);

/* ---- backend_rules.c ---- */

/* Adds the rules of `rules`, which is the end of `words`, to a choice that has its names. */
tutti_status backend_parse_rules(const char *source, const char *words, const char *rules,
                                 struct backend_choice *choice);
/* A way without its rule: "auto", a name or "local=NAME,remote=NAME", in the `length` bytes at `way`. */
tutti_status backend_parse_way(const char *source, const char *words, const char *way,
                               size_t length, struct backend_choice *choice,
                               struct backend_way *ret_way);
/* Adds "; did you mean NAME?" when the `length` bytes at `at` may be meant for a collective. */
void backend_guess_operation(struct text *why, const char *at, size_t length);
/* Whether a rule begins at `text`. */
bool backend_begins_rule(const char *text);
/* The rule for a call of `bytes` (of the vector, or of each block); NULL: none. A call with blocks of
 * different sizes has rules without sizes only. */
const struct backend_rule *backend_rule_of(const struct backend_choice *choice,
                                           const struct call_fields *fields, uint64_t bytes);
/* The rule for send and recv; NULL: none. */
const struct backend_rule *backend_rule_of_messages(const struct backend_choice *choice);
/* The way of a rule, NULL: of calls without one, as members see it: without local peers, or without other
 * hosts, one of its two is not used. */
struct backend_way backend_way_in(const struct backend_rule *rule, int hosts, int size);
/* Whether calls of members on so many hosts go by that backend, by a rule or without one. */
bool backend_is_used(const struct backend_choice *choice, int number, int hosts, int size);
/* The same, of calls between hosts. */
bool backend_is_between(const struct backend_choice *choice, int number, int hosts, int size);
/* UNSUPPORTED when a rule cannot be kept by members on so many hosts; bit i of `host_only`: backend i
 * reaches members of one host only. */
tutti_status backend_check_hosts(const struct backend_choice *choice, int hosts, int size,
                                 uint32_t host_only);
/* The first backend that carries calls among all members and has an engine for them; -1: none. */
int backend_engine(const struct backend_choice *choice, int hosts, int size);

/* ---- backend.c ---- */

/* Copies the `length` bytes at `text` when they are a backend's name. */
bool backend_take_name(const char *text, size_t length, char ret_name[PLUGIN_NAME_MAX + 1]);

/* "" where there is none. */
const char *backend_name(const struct backend_choice *choice, int number);

/* Whose plugins are needed: the choice's names for messages, then an engine that has none, and last that of devices, or
 * which auto may take for these; "" where there is none. For `auto` BACKEND_MORE is one that it may use between hosts instead. */
void backend_candidates(const struct backend_choice *choice,
                        const char *ret_names[BACKEND_NAMES_MAX + 2]);
