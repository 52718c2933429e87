/* SPDX-License-Identifier: Apache-2.0 */
/* Which providers would carry which calls in a group that is never made, for tutti_explain() and
 * tutti_matrix_list(). */
#pragma once

#include "dispatch/dispatch.h"
#include "plugin/backend.h"
#include "plugin/plugin.h"

struct carrier {
    char name[PLUGIN_NAME_MAX + 1];
    uint64_t capabilities;               /* TUTTI_CAP_… of its transport */
    const tutti_cost *cost;              /* of its messages */
    const tutti_collectives_ops *engine; /* of whole operations; NULL: none */
};

struct carriers {
    /* The carriers by number. The two levels are the same if one name serves everything; a
     * further one that no rule names is "". */
    struct carrier each[BACKEND_NAMES_MAX];
    struct carrier alone;      /* an engine that carries no messages; "": none */
    struct carrier on_devices; /* one that takes tensors on devices where they lie; "": none */
};

/* Opens the plugins that are named, as tutti_init() would, and fails as it would. `auto` opens
 * none: what its two can do is known. */
tutti_status carriers_find(const struct backend_choice *choice, struct carriers *ret_carriers);

/* Of `auto` between hosts: the backend that needs a device on every member carries the messages if this host has
 * one, as if the others were like it. Returns whether, and the rule that decides, for a message. May load the library. */
enum { CARRIERS_WORDS_MAX = 256 };
bool carriers_take_fabric(struct carriers *carriers, char ret_rule[CARRIERS_WORDS_MAX]);

/* The facts for plans of a group with these carriers. If they do not reach all members,
 * `messages` is false. `ret_native` has to live as long. */
struct group_facts carriers_facts(const struct carriers *carriers, const struct layout *layout,
                                  struct native_facts *ret_native);

/* The same for calls that a rule of the choice takes, and with `rule` NULL for those that none takes. */
struct group_facts carriers_rule_facts(const struct carriers *carriers,
                                       const struct backend_choice *choice,
                                       const struct backend_rule *rule, const struct layout *layout,
                                       struct native_facts *ret_native);

/* UNSUPPORTED, as tutti_init() says it, where backends or rules do not reach members on so many
 * hosts. */
tutti_status carriers_check_hosts(const struct carriers *carriers,
                                  const struct backend_choice *choice, const struct layout *layout);
