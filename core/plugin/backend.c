/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tensor.h>

#include "base/error.h"
#include "base/text.h"
#include "plugin/descriptor.h"
#include "plugin/known.h"
#include "plugin/plugin.h"

#define GRAMMAR                                                                                    \
    "write \"auto\", NAME or \"local=NAME,remote=NAME\", where NAME is a letter of a-z, then "     \
    "a-z 0-9 _ -, 31 at most; then rules, such as \";all_reduce:0-4k=shm;all_reduce=tcp\"; or a "  \
    "way "                                                                                         \
    "for each kind of devices, \"cpu:auto,cuda:shm\""

static tutti_status bad(const char *source, const char *words, const char *why)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s=%.*s: %s; " GRAMMAR, source,
                     TEXT_CUT(words, 128), why);
}

bool backend_take_name(const char *text, size_t length, char ret_name[PLUGIN_NAME_MAX + 1])
{
    char name[PLUGIN_NAME_MAX + 1];

    if (length > PLUGIN_NAME_MAX)
        return false;
    memcpy(name, text, length);
    name[length] = 0;
    if (!descriptor_name_is_valid(name))
        return false;
    memcpy(ret_name, name, length + 1);
    return true;
}

static tutti_status parse_level(const char *source, const char *words, const char *rule,
                                size_t length, struct backend_choice *choice)
{
    static const char local[] = "local=", remote[] = "remote=";
    const bool is_local = !strncmp(rule, local, strlen(local));

    if (!is_local && strncmp(rule, remote, strlen(remote))) {
        char why[160];
        struct text text = text_in(why, sizeof why);

        text_add(&text, "expected local, remote, a collective's name or * before '='");
        backend_guess_operation(&text, rule, strcspn(rule, ":=,;"));
        return bad(source, words, why);
    }

    const size_t key = strlen(is_local ? local : remote);
    char *name = is_local ? choice->local : choice->remote;
    if (*name)
        return bad(source, words, "local= or remote= is given twice");
    if (length < key || !backend_take_name(rule + key, length - key, name))
        return bad(source, words, "no backend's name after the '='");
    return TUTTI_OK;
}

/* Parses the part before the rules: the first `length` bytes at `base`. */
static tutti_status parse_base(const char *source, const char *words, const char *base,
                               size_t length, struct backend_choice *choice)
{
    choice->is_auto = length == strlen("auto") && !memcmp(base, "auto", length);
    if (choice->is_auto)
        return TUTTI_OK;
    if (!memchr(base, '=', length)) {
        const bool capitals = strcspn(base, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") < length;

        if (!backend_take_name(base, length, choice->local))
            return bad(source, words,
                       capitals ? "not a backend's name: names have no capitals"
                                : "not a backend's name");
        memcpy(choice->remote, choice->local, sizeof choice->remote);
        return TUTTI_OK;
    }
    for (size_t at = 0, end; at <= length; at = end + 1) {
        const char *comma = memchr(base + at, ',', length - at);

        end = comma ? (size_t)(comma - base) : length;
        tutti_status status = parse_level(source, words, base + at, end - at, choice);
        if (status)
            return status;
    }
    return *choice->local && *choice->remote
               ? TUTTI_OK
               : bad(source, words, "one of local= and remote= is missing");
}

/* Rules begin from a pair of names, which may be equal, and what they say is kept: nothing falls back. */
static tutti_status prepare_for_rules(const char *source, const char *words, const char *base,
                                      const char *rules, struct backend_choice *choice)
{
    if (choice->is_auto) {
        choice->is_auto = false;
        snprintf(choice->local, sizeof choice->local, "%s", known_auto_local);
        snprintf(choice->remote, sizeof choice->remote, "%s", known_auto_remote);
        return TUTTI_OK;
    }
    return rules == base || memchr(base, ',', (size_t)(rules - base))
               ? TUTTI_OK
               : bad(source, words,
                     "auto or local=NAME,remote=NAME must come before rules; the names may be "
                     "equal");
}

/* ---- kinds of devices ---- */

/* The part of the words that is for one kind of devices. */
struct device_part {
    int32_t type;            /* TUTTI_DEVICE_…; 0: no kind is named */
    const char *words, *way; /* "cuda:NAME", "NAME" */
    size_t length;           /* of the way */
};

static int32_t type_of(const char *name, size_t length)
{
    return text_is(name, length, "cpu") ? TUTTI_DEVICE_CPU : known_device_type(name, length);
}

/* Where ",cuda:" or the like begins, or the end. */
static const char *next_device(const char *at, const char *end)
{
    for (const char *comma = at; (comma = memchr(comma, ',', (size_t)(end - comma))); comma++)
        if (comma[1 + strcspn(comma + 1, ":;,=")] == ':')
            return comma;
    return end;
}

/* The part at `*at`, and moves behind it. */
static tutti_status take_device(const char *source, const char *words, const char **at,
                                const char *end, struct device_part *ret_part)
{
    const size_t name = strcspn(*at, ":;,=");
    struct device_part part = {.words = *at, .way = *at};
    const char *to = next_device(*at, end);

    if ((*at)[name] == ':' && (*at)[name + 1] && *at + name < end) {
        part.type = type_of(*at, name);
        part.way += name + 1;
        if (!part.type)
            return bad(source, words, "not a kind of devices before the ':', such as cpu or cuda");
    }
    part.length = (size_t)(to - part.way);
    if (memchr(part.way, ':', part.length) && part.type)
        return bad(source, words,
                   "a kind of devices is followed by its backend, and a ',' before the next kind");
    *at = to + (to < end);
    *ret_part = part;
    return to + 1 == end ? bad(source, words, "nothing follows the last ','") : TUTTI_OK;
}

/* The way of calls with tensors on devices becomes a rule for those calls, which comes first. */
static tutti_status add_device_rule(const char *source, const char *words,
                                    const struct device_part *part, struct backend_choice *choice)
{
    struct backend_rule *rule = &choice->rules[choice->rule_count];
    const size_t length = part->length + (size_t)(part->way - part->words);

    if (length >= sizeof rule->words)
        return bad(source, words, "too long");
    char pair[2 * PLUGIN_NAME_MAX + 20];
    const char *way = part->way;
    size_t way_length = part->length;
    if (choice->device_is_auto) {
        way_length = (size_t)snprintf(pair, sizeof pair, "local=%s,remote=%s", known_auto_local,
                                      known_auto_remote);
        way = pair;
    }
    *rule = (struct backend_rule){.most = UINT64_MAX, .on_device = true};
    memcpy(rule->words, part->words, length);
    tutti_status status = backend_parse_way(source, words, way, way_length, choice, &rule->way);
    choice->rule_count += !status;
    return status;
}

/* Both kinds, in any order, by different ways. */
static tutti_status parse_devices(const char *source, const char *words,
                                  const struct device_part parts[2], struct backend_choice *choice)
{
    const int cpu = parts[1].type == TUTTI_DEVICE_CPU;
    const struct device_part *host = &parts[cpu], *device = &parts[!cpu];

    if (host->type != TUTTI_DEVICE_CPU || !device->type || device->type == TUTTI_DEVICE_CPU)
        return bad(source, words,
                   "two kinds of devices are named, and they must be cpu and another");
    choice->device_type = device->type;
    choice->device_is_auto = text_is(device->way, device->length, "auto");
    choice->host_is_named = true;
    tutti_status status = parse_base(source, words, host->way, host->length, choice);
    if (status || (host->length == device->length && !memcmp(host->way, device->way, host->length)))
        return status;
    if (choice->is_auto)
        (void)prepare_for_rules(source, words, words, words, choice);
    choice->by_device = true;
    return add_device_rule(source, words, device, choice);
}

/* Parses the part before the rules, of which there may be none. */
static tutti_status parse_parts(const char *source, const char *words, const char *end,
                                struct backend_choice *choice)
{
    struct device_part parts[2];
    const char *at = words;

    tutti_status status = take_device(source, words, &at, end, &parts[0]);
    if (!status && at < end)
        status = take_device(source, words, &at, end, &parts[1]);
    else if (!status) {
        choice->host_is_named = parts[0].type == TUTTI_DEVICE_CPU;
        choice->device_type = choice->host_is_named ? 0 : parts[0].type;
        status = parse_base(source, words, parts[0].way, parts[0].length, choice);
        choice->device_is_auto = choice->is_auto;
        return status;
    }
    if (!status && at < end)
        status = bad(source, words, "cpu and one kind of devices may be named, each once");
    if (!status && *end)
        status = bad(source, words,
                     "rules are for a group whose tensors all go one way: give it once, "
                     "without a kind of devices");
    return status ? status : parse_devices(source, words, parts, choice);
}

tutti_status backend_parse(const char *source, const char *words, struct backend_choice *ret_choice)
{
    struct backend_choice choice = {.is_auto = true, .device_is_auto = true};
    const char *rules = words;
    tutti_status status = TUTTI_OK;

    if (strlen(words) >= BACKEND_WORDS_MAX)
        return bad(source, words, "too long");
    if (!backend_begins_rule(words)) {
        rules = words + strcspn(words, ";");
        status = parse_parts(source, words, rules, &choice);
        if (*rules == ';' && !*++rules && !status)
            status = bad(source, words, "no rule follows the ';'");
    }
    if (!status && *rules)
        status = prepare_for_rules(source, words, words, rules, &choice);
    if (!status)
        status = backend_parse_rules(source, words, rules, &choice);
    if (!status)
        *ret_choice = choice;
    return status;
}

/* The type of devices whose memory the plugin, which is there, takes for whole operations; 0: none. What has messages
 * is not opened for that. */
static int32_t type_of_engine(const char *name)
{
    const tutti_known_plugin *known = known_plugin(name);
    const tutti_plugin *plugin;

    if (known && strstr(known->provides, "transport"))
        return 0;
    const tutti_collectives_ops *ops =
        plugin_find(name, &plugin) ? NULL : plugin_collectives(plugin);

    for (int32_t type = 1; ops && type < 64; type++)
        if (known_device_name(type) && ops->device_types >> type & 1)
            return type;
    return 0;
}

/* The one name that is the way of tensors on devices; "": it is none. */
static const char *name_for_devices(const struct backend_choice *choice)
{
    const struct backend_way way = choice->rules[0].way;

    if (choice->by_device) /* by the only rule */
        return way.inside == way.between ? backend_name(choice, way.inside) : "";
    return !choice->is_auto && !choice->rule_count && !strcmp(choice->local, choice->remote)
               ? choice->local
               : "";
}

/* One rule, so that calls with tensors on devices have a route of their own, which leads as that of the others does. */
static void add_rule_for_devices(struct backend_choice *choice)
{
    struct backend_rule *rule = &choice->rules[0];

    *rule = (struct backend_rule){
        .most = UINT64_MAX, .on_device = true, .way = {BACKEND_LOCAL, BACKEND_REMOTE}};
    snprintf(rule->words, sizeof rule->words, "%s:%s", known_device_name(choice->device_type),
             choice->device_engine);
    choice->rule_count = 1;
    choice->by_device = true;
}

void backend_consider_engine(struct backend_choice *choice, int32_t device_type)
{
    backend_take_engine(choice, false);
    *choice->auto_engine = 0;
    if (!choice->is_auto || !choice->device_is_auto || choice->rule_count ||
        (choice->device_type && choice->device_type != device_type))
        return;
    snprintf(choice->auto_engine, sizeof choice->auto_engine, "%s", known_auto_engine(device_type));
    choice->device_type = *choice->auto_engine ? device_type : choice->device_type;
}

void backend_take_engine(struct backend_choice *choice, bool taken)
{
    if (!*choice->auto_engine)
        return;
    choice->device_is_auto = !taken;
    choice->by_device = taken;
    choice->rule_count = 0;
    *choice->device_engine = 0;
    if (taken) {
        memcpy(choice->device_engine, choice->auto_engine, sizeof choice->device_engine);
        add_rule_for_devices(choice);
    }
}

void backend_find_device_engine(struct backend_choice *choice)
{
    const char *name = name_for_devices(choice);
    const int32_t type = *name ? type_of_engine(name) : 0;

    if (!type || (choice->device_type && choice->device_type != type))
        return;
    snprintf(choice->device_engine, sizeof choice->device_engine, "%s", name);
    choice->device_type = type;
    choice->device_is_auto = false;
    if (!choice->by_device) {
        snprintf(choice->local, sizeof choice->local, "%s", known_auto_local);
        snprintf(choice->remote, sizeof choice->remote, "%s", known_auto_remote);
        add_rule_for_devices(choice);
    }
    memset(choice->more, 0, sizeof choice->more);
    choice->rules[0].way = (struct backend_way){BACKEND_LOCAL, BACKEND_REMOTE};
}

/* Whether the plugin, which is there, does whole operations and carries no messages: shm and tcp
 * do that for it. */
static bool is_engine(const char *name)
{
    const tutti_plugin *plugin;

    return !plugin_find(name, &plugin) && plugin_collectives(plugin) && !plugin_transport(plugin);
}

/* Refuses, for host memory, a backend that moves none. Beside another way for devices the one for host memory has to
 * carry messages, too. */
static tutti_status check_host_way(const char *source, const char *words,
                                   const struct backend_choice *choice)
{
    for (int i = BACKEND_LOCAL; i <= BACKEND_REMOTE && choice->host_is_named; i++) {
        const char *name = backend_name(choice, i);
        const int32_t type = *name ? type_of_engine(name) : 0;

        if (type)
            return error_set(TUTTI_ERR_UNSUPPORTED,
                             "%s=%.*s: backend %s moves no host memory, only that of devices: use "
                             "cpu:auto,%s:%s",
                             source, TEXT_CUT(words, 128), name, known_device_name(type), name);
        if (choice->by_device && *name && is_engine(name))
            return error_set(TUTTI_ERR_UNSUPPORTED,
                             "%s=%.*s: backend %s carries no messages, so it cannot be the one for "
                             "host memory beside another for devices: use cpu:auto or cpu:NAME",
                             source, TEXT_CUT(words, 128), name);
    }
    return TUTTI_OK;
}

tutti_status backend_resolve(const char *option, struct backend_choice *ret_choice)
{
    const char *variable = getenv("TUTTI_BACKEND");
    const bool uses_variable = !option && variable && *variable;
    const char *source = uses_variable ? "TUTTI_BACKEND" : "backend";
    const char *words = uses_variable ? variable : option ? option : "auto";
    tutti_status status = backend_parse(source, words, ret_choice);

    if (!status)
        status = check_host_way(source, words, ret_choice);
    if (!status)
        backend_find_device_engine(ret_choice);
    return status;
}

const char *backend_name(const struct backend_choice *choice, int number)
{
    return number == BACKEND_LOCAL    ? choice->local
           : number == BACKEND_REMOTE ? choice->remote
                                      : choice->more[number - BACKEND_MORE];
}

void backend_candidates(const struct backend_choice *choice,
                        const char *ret_names[BACKEND_NAMES_MAX + 2])
{
    const bool engine = !choice->is_auto && !choice->rule_count &&
                        !strcmp(choice->local, choice->remote) && is_engine(choice->local);

    for (int i = 0; i < BACKEND_NAMES_MAX; i++)
        ret_names[i] = backend_name(choice, i);
    if (choice->is_auto || engine) {
        ret_names[BACKEND_LOCAL] = known_auto_local;
        ret_names[BACKEND_REMOTE] = known_auto_remote;
    }
    if (choice->is_auto)
        ret_names[BACKEND_MORE] = known_auto_fabric;
    ret_names[BACKEND_NAMES_MAX] = engine ? choice->local : "";
    ret_names[BACKEND_NAMES_MAX + 1] =
        *choice->device_engine ? choice->device_engine : choice->auto_engine;
}
