/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What TUTTI_BACKEND, or backend= of the options, asks for:
 *
 *     auto                       the best for each level, fallback allowed
 *     NAME                       this backend for everything
 *     local=NAME,remote=NAME     one inside each host, one between hosts (in either order)
 *
 * "cpu:" may stand before it. Behind it, or alone for auto, rules may follow, each after a ';': who
 * of the two carries which collectives, among all members. The first rule that fits is taken.
 *
 *     OPERATION=NAME             a collective's name, or * for all
 *     OPERATION:FROM-TO=NAME     of so many bytes, both included; FROM- has no end
 *
 * NAME is one of the group's two backends, or auto, as if there were no rule. With rules nothing
 * falls back.
 */
#ifndef TUTTI_PLUGIN_BACKEND_H
#define TUTTI_PLUGIN_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include <tutti/status.h>

#include "base/call.h"
#include "plugin/plugin.h"

enum { BACKEND_RULES_MAX = 16, BACKEND_WORDS_MAX = 320, BACKEND_RULE_WORDS_MAX = 80 };

/* Each level by its own, one of them among all members. */
enum backend_way { BACKEND_LEVELS, BACKEND_LOCAL, BACKEND_REMOTE };

struct backend_rule {
    uint8_t operation; /* OPERATION_NONE: all */
    enum backend_way way;
    bool sized; /* it is for calls of least .. most bytes, as all members know them */
    uint64_t least, most;
    char words[BACKEND_RULE_WORDS_MAX];
};

struct backend_choice {
    bool is_auto; /* the names are empty then */
    char local[PLUGIN_NAME_MAX + 1];
    char remote[PLUGIN_NAME_MAX + 1]; /* equal to `local` when one name was given */
    uint32_t rule_count;              /* there are two names when there are rules */
    struct backend_rule rules[BACKEND_RULES_MAX];
};

/* Parses `words`; `source` ("TUTTI_BACKEND") begins the error's words. Looks no plugin up. */
tutti_status backend_parse(const char *source, const char *words,
                           struct backend_choice *ret_choice);

/* `option` (backend= of the options), else TUTTI_BACKEND when it is set and not empty, else auto.
 */
tutti_status backend_resolve(const char *option, struct backend_choice *ret_choice);

/* ---- backend_rules.c ---- */

/* Adds the rules of `rules`, which is the end of `words`, to a choice that has its names. */
tutti_status backend_parse_rules(const char *source, const char *words, const char *rules,
                                 struct backend_choice *choice);
/* Whether a rule begins at `text`. */
bool backend_begins_rule(const char *text);
/* The rule for a call of `bytes` (of the vector, or of each block); NULL: none. A call with blocks of
 * different sizes has rules without sizes only. */
const struct backend_rule *backend_rule_of(const struct backend_choice *choice,
                                           const struct call_words *words, uint64_t bytes);
bool backend_has_way(const struct backend_choice *choice, enum backend_way way);
/* UNSUPPORTED when a rule cannot be kept by members on so many hosts. */
tutti_status backend_check_hosts(const struct backend_choice *choice, int hosts);

/* ---- backend.c ---- */

/* Whether the plugin, which is there, does whole operations and carries no messages: shm and tcp
 * do that for it. */
bool backend_is_engine(const char *name);

/* Whose plugins are needed: for messages inside hosts and between them, and such an engine; "" where
 * there is none. */
void backend_candidates(const struct backend_choice *choice, const char *ret_names[3]);

#endif
