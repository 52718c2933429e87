/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/backend.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/text.h"
#include "plugin/descriptor.h"
#include "plugin/known.h"
#include "plugin/plugin.h"

#define GRAMMAR                                                                                    \
    "write \"auto\", NAME or \"local=NAME,remote=NAME\", where NAME is a letter of a-z, then "     \
    "a-z 0-9 _ -, 31 at most; then rules, such as \";all_reduce:0-4k=shm;all_reduce=tcp\""

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

/* Skips "cpu:"; no other device is served. */
static tutti_status skip_device(const char *source, const char *words, const char **at)
{
    const size_t name = strcspn(*at, ":;,=");
    const bool cpu = name == 3 && !memcmp(*at, "cpu", 3);

    if ((*at)[name] != ':' || !(*at)[name + 1])
        return TUTTI_OK;
    if (!cpu)
        return bad(source, words, "tensors are in host memory, so no device but cpu: may be named");
    *at += name + 1;
    return strchr(*at, ':') && !strchr(*at, ';')
               ? bad(source, words, "tensors are in host memory, so cpu: is the only device")
               : TUTTI_OK;
}

tutti_status backend_parse(const char *source, const char *words, struct backend_choice *ret_choice)
{
    struct backend_choice choice = {.is_auto = true};
    const char *base = words, *rules = words;
    tutti_status status = TUTTI_OK;

    if (strlen(words) >= BACKEND_WORDS_MAX)
        return bad(source, words, "too long");
    if (!backend_begins_rule(words)) {
        status = skip_device(source, words, &base);
        rules = base + strcspn(base, ";");
        if (!status)
            status = parse_base(source, words, base, (size_t)(rules - base), &choice);
        if (*rules == ';' && !*++rules && !status)
            status = bad(source, words, "no rule follows the ';'");
    }
    if (!status && *rules)
        status = prepare_for_rules(source, words, base, rules, &choice);
    if (!status)
        status = backend_parse_rules(source, words, rules, &choice);
    if (!status)
        *ret_choice = choice;
    return status;
}

tutti_status backend_resolve(const char *option, struct backend_choice *ret_choice)
{
    const char *variable = getenv("TUTTI_BACKEND");

    if (option)
        return backend_parse("backend", option, ret_choice);
    if (variable && *variable)
        return backend_parse("TUTTI_BACKEND", variable, ret_choice);
    return backend_parse("backend", "auto", ret_choice);
}

/* Whether the plugin, which is there, does whole operations and carries no messages: shm and tcp
 * do that for it. */
static bool is_engine(const char *name)
{
    const tutti_plugin *plugin;

    return !plugin_find(name, &plugin) && plugin_collectives(plugin) && !plugin_transport(plugin);
}

const char *backend_name(const struct backend_choice *choice, int number)
{
    return number == BACKEND_LOCAL    ? choice->local
           : number == BACKEND_REMOTE ? choice->remote
                                      : choice->more[number - BACKEND_MORE];
}

void backend_candidates(const struct backend_choice *choice,
                        const char *ret_names[BACKEND_NAMES_MAX + 1])
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
}
