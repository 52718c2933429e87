/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin/backend.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "plugin/descriptor.h"
#include "plugin/plugin.h"

#define GRAMMAR                                                                                    \
    "write \"auto\", NAME or \"local=NAME,remote=NAME\", where NAME is a letter of a-z, then "     \
    "a-z 0-9 _ -, 31 at most"

static tutti_status bad(const char *source, const char *words, const char *why)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s=%.128s: %s; " GRAMMAR, source, words, why);
}

/* Copies the `length` bytes at `text` when they are a backend's name. */
static bool take_name(const char *text, size_t length, char ret_name[PLUGIN_NAME_MAX + 1])
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

static tutti_status parse_rule(const char *source, const char *words, const char *rule,
                               size_t length, struct backend_choice *choice)
{
    static const char local[] = "local=", remote[] = "remote=";
    const bool is_local = !strncmp(rule, local, strlen(local));

    if (!is_local && strncmp(rule, remote, strlen(remote)))
        return bad(source, words, "a rule begins with \"local=\" or \"remote=\"");

    const size_t key = strlen(is_local ? local : remote);
    char *name = is_local ? choice->local : choice->remote;
    if (*name)
        return bad(source, words, "the same rule twice");
    if (length < key || !take_name(rule + key, length - key, name))
        return bad(source, words, "no backend's name after the '='");
    return TUTTI_OK;
}

tutti_status backend_parse(const char *source, const char *words, struct backend_choice *ret_choice)
{
    struct backend_choice choice = {.is_auto = !strcmp(words, "auto")};

    if (!choice.is_auto && !strchr(words, '=')) {
        if (!take_name(words, strlen(words), choice.local))
            return bad(source, words, "not a backend's name");
        memcpy(choice.remote, choice.local, sizeof choice.remote);
    } else if (!choice.is_auto) {
        const char *rule = words;

        for (const char *end = rule; end; rule = end + 1) {
            end = strchr(rule, ',');
            tutti_status status =
                parse_rule(source, words, rule, end ? (size_t)(end - rule) : strlen(rule), &choice);
            if (status)
                return status;
            if (!end)
                break;
        }
        if (!*choice.local || !*choice.remote)
            return bad(source, words, "one of local= and remote= is missing");
    }
    *ret_choice = choice;
    return TUTTI_OK;
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

bool backend_is_engine(const char *name)
{
    const tutti_plugin *plugin;

    return !plugin_find(name, &plugin) && plugin_collectives(plugin) && !plugin_transport(plugin);
}

void backend_candidates(const struct backend_choice *choice, const char *ret_names[3])
{
    const bool engine = !choice->is_auto && !strcmp(choice->local, choice->remote) &&
                        backend_is_engine(choice->local);

    ret_names[0] = choice->is_auto || engine ? "shm" : choice->local;
    ret_names[1] = choice->is_auto || engine ? "tcp" : choice->remote;
    ret_names[2] = engine ? choice->local : "";
}
