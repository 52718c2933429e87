/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a choice of backends: which backend carries a call, by operation and size. They are
 * matched when a plan is made, by the fields of the call alone, so that every member finds the same
 * one.
 */
#include <stdio.h>
#include <string.h>

#include "base/distance.h"
#include "base/error.h"
#include "base/text.h"
#include "plugin/backend.h"

/* The text in which an error message gives the position. */
struct rules_source {
    const char *source, *words;
};

static tutti_status bad(const struct rules_source *text, const char *at, const char *why)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "%s=%.*s: at byte %zu, «%.*s»: %s; a rule is OPERATION=NAME, "
                     "OPERATION:FROM-TO=NAME or OPERATION:local=NAME,remote=NAME, such as "
                     "all_reduce:0-4k=shm",
                     text->source, TEXT_CUT(text->words, 128), (size_t)(at - text->words) + 1,
                     TEXT_CUT(at, 40), why);
}

static bool is_message(const char *at, size_t length)
{
    return text_is(at, length, "send") || text_is(at, length, "recv");
}

static bool take_operation(const char *at, size_t length, uint8_t *ret_operation)
{
    for (uint8_t i = OPERATION_NONE; i < OPERATION_COUNT; i++)
        if (text_is(at, length, i ? operation_name(i) : "*")) {
            *ret_operation = i;
            return true;
        }
    *ret_operation = BACKEND_MESSAGES;
    return is_message(at, length);
}

void backend_guess_operation(struct text *why, const char *at, size_t length)
{
    char word[DISTANCE_WORD_MAX + 1];

    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : 0), at);
    for (int i = OPERATION_NONE + 1; i < OPERATION_COUNT; i++)
        if (word_is_near(word, operation_name(i))) {
            text_add(why, "; did you mean %s?", operation_name(i));
            return;
        }
}

static tutti_status unknown_operation(const struct rules_source *text, const char *at,
                                      size_t length)
{
    char words[192];
    struct text why = text_in(words, sizeof words);

    text_add(&why, "no collective begins here, nor *, send or recv");
    backend_guess_operation(&why, at, length);
    return bad(text, at, words);
}

bool backend_begins_rule(const char *text)
{
    const size_t name = strcspn(text, ":=;");
    uint8_t operation;

    return text[name] && text[name] != ';' && take_operation(text, name, &operation);
}

/* "4096", "64k", "1M": less than 2^64, and *at is behind it. */
static bool take_size(const char **at, uint64_t *ret_bytes)
{
    static const char suffixes[] = "kmg";
    const char *digit = *at;
    uint64_t bytes = 0;

    for (; *digit >= '0' && *digit <= '9'; digit++) {
        if (bytes >> 30)
            return false;
        bytes = bytes * 10 + (uint64_t)(*digit - '0');
    }
    if (digit == *at)
        return false;
    const char *suffix = *digit ? strchr(suffixes, *digit | 0x20) : NULL;
    if (suffix) {
        bytes <<= 10 * (suffix - suffixes + 1);
        digit++;
    }
    *at = digit;
    *ret_bytes = bytes;
    return true;
}

/* "0-4k", "64k-": from and to, both included. */
static tutti_status take_sizes(const struct rules_source *text, const char **at,
                               struct backend_rule *rule)
{
    const char *from = *at;

    if (!take_size(at, &rule->least) || **at != '-')
        return bad(text, from, "no sizes such as 0-4k or 64k- after the ':'");
    ++*at;
    if (**at != '=' && **at != ':' && !take_size(at, &rule->most))
        return bad(text, *at, "no size after the '-'");
    rule->sized = true;
    return rule->least > rule->most ? bad(text, from, "it ends before it begins") : TUTTI_OK;
}

/* The number of a backend, which is a further one when it was not named before. */
static tutti_status take_number(const struct rules_source *text, const char *at, size_t length,
                                struct backend_choice *choice, uint8_t *ret_number)
{
    char name[PLUGIN_NAME_MAX + 1];
    uint8_t i = 0;

    if (!backend_take_name(at, length, name))
        return bad(text, at, "no backend's name");
    while (i < BACKEND_NAMES_MAX && *backend_name(choice, i) &&
           strcmp(backend_name(choice, i), name))
        i++;
    if (i == BACKEND_NAMES_MAX)
        return bad(text, at, "a group has four backends at most");
    if (!*backend_name(choice, i))
        memcpy(choice->more[i - BACKEND_MORE], name, sizeof name);
    *ret_number = i;
    return TUTTI_OK;
}

/* "local=NAME,remote=NAME" */
static tutti_status take_pair(const struct rules_source *text, const char *at, size_t length,
                              struct backend_choice *choice, struct backend_way *ret_way)
{
    static const char local[] = "local=", remote[] = "remote=";
    const char *comma = memchr(at, ',', length), *end = at + length;

    if (length < strlen(local) || memcmp(at, local, strlen(local)) || !comma ||
        (size_t)(end - comma) <= strlen(remote) || memcmp(comma + 1, remote, strlen(remote)))
        return bad(text, at, "no local=NAME,remote=NAME");
    at += strlen(local);
    tutti_status status = take_number(text, at, (size_t)(comma - at), choice, &ret_way->inside);
    at = comma + 1 + strlen(remote);
    return status ? status : take_number(text, at, (size_t)(end - at), choice, &ret_way->between);
}

/* auto, or one backend for all. */
static tutti_status take_one(const struct rules_source *text, const char *at, size_t length,
                             struct backend_choice *choice, struct backend_way *ret_way)
{
    if (text_is(at, length, "auto")) {
        *ret_way = (struct backend_way){BACKEND_LOCAL, BACKEND_REMOTE};
        return TUTTI_OK;
    }
    tutti_status status = take_number(text, at, length, choice, &ret_way->inside);
    ret_way->between = ret_way->inside;
    return status;
}

/* Takes the part behind the operation and the sizes. */
static tutti_status take_way(const struct rules_source *text, const char *at, size_t length,
                             struct backend_choice *choice, struct backend_way *ret_way)
{
    const bool pair = length && *at == ':';

    if (!length || (!pair && *at != '='))
        return bad(text, at, "no '=' and backend follow");
    return pair ? take_pair(text, at + 1, length - 1, choice, ret_way)
                : take_one(text, at + 1, length - 1, choice, ret_way);
}

tutti_status backend_parse_way(const char *source, const char *words, const char *way,
                               size_t length, struct backend_choice *choice,
                               struct backend_way *ret_way)
{
    const struct rules_source text = {source, words};

    return memchr(way, '=', length) ? take_pair(&text, way, length, choice, ret_way)
                                    : take_one(&text, way, length, choice, ret_way);
}

/* Messages of all sizes go one way, as they are matched in the order sent. */
static tutti_status check_messages(const struct rules_source *text, const char *at,
                                   const struct backend_choice *choice,
                                   const struct backend_rule *rule)
{
    const struct backend_rule *before = backend_rule_of_messages(choice);

    if (rule->sized)
        return bad(text, at,
                   "messages keep their order whatever their size, so their rule has no sizes");
    if (before && memcmp(&before->way, &rule->way, sizeof rule->way))
        return bad(text, at,
                   "a message is sent and received by one backend, and a rule before says "
                   "another");
    return TUTTI_OK;
}

static tutti_status take_rule(const struct rules_source *text, const char *at, size_t length,
                              struct backend_choice *choice, struct backend_rule *ret_rule)
{
    const char *begin = at;
    struct backend_rule rule = {.most = UINT64_MAX};
    const size_t name = strcspn(at, ":=;");
    tutti_status status = TUTTI_OK;

    if (length >= sizeof rule.words)
        return bad(text, at, "the rule is too long");
    memcpy(rule.words, at, length);
    if (!take_operation(at, name, &rule.operation))
        return unknown_operation(text, at, name);
    at += name;
    if (*at == ':' && strncmp(at + 1, "local=", strlen("local="))) {
        at++;
        status = take_sizes(text, &at, &rule);
    }
    if (!status)
        status = take_way(text, at, length - (size_t)(at - begin), choice, &rule.way);
    if (!status && rule.operation == BACKEND_MESSAGES)
        status = check_messages(text, begin, choice, &rule);
    if (!status)
        *ret_rule = rule;
    return status;
}

tutti_status backend_parse_rules(const char *source, const char *words, const char *rules,
                                 struct backend_choice *choice)
{
    const struct rules_source text = {source, words};

    while (*rules) {
        const size_t length = strcspn(rules, ";");

        if (choice->rule_count == BACKEND_RULES_MAX)
            return bad(&text, rules, "there are more than 16 rules");
        tutti_status status =
            take_rule(&text, rules, length, choice, &choice->rules[choice->rule_count]);
        if (status)
            return status;
        choice->rule_count++;
        rules += length + (rules[length] == ';');
    }
    return TUTTI_OK;
}

const struct backend_rule *backend_rule_of(const struct backend_choice *choice,
                                           const struct call_fields *fields, uint64_t bytes)
{
    for (uint32_t i = 0; i < choice->rule_count; i++) {
        const struct backend_rule *rule = &choice->rules[i];

        if ((rule->operation && rule->operation != fields->operation) ||
            (rule->on_device && !(fields->flags & CALL_ON_DEVICE)))
            continue;
        if (!rule->sized ||
            (!(fields->flags & CALL_UNEVEN) && bytes >= rule->least && bytes <= rule->most))
            return rule;
    }
    return NULL;
}

const struct backend_rule *backend_rule_of_messages(const struct backend_choice *choice)
{
    for (uint32_t i = 0; i < choice->rule_count; i++)
        if (choice->rules[i].operation == BACKEND_MESSAGES)
            return &choice->rules[i];
    return NULL;
}

struct backend_way backend_way_in(const struct backend_rule *rule, int hosts, int size)
{
    struct backend_way way = rule ? rule->way : (struct backend_way){BACKEND_LOCAL, BACKEND_REMOTE};

    if (hosts == 1)
        way.between = way.inside;
    else if (hosts == size)
        way.inside = way.between;
    return way;
}

/* The way of rule i; that of calls without a rule behind the last one. */
static struct backend_way nth_way(const struct backend_choice *choice, uint32_t i, int hosts,
                                  int size)
{
    return backend_way_in(i < choice->rule_count ? &choice->rules[i] : NULL, hosts, size);
}

bool backend_is_used(const struct backend_choice *choice, int number, int hosts, int size)
{
    for (uint32_t i = 0; i <= choice->rule_count; i++) {
        const struct backend_way way = nth_way(choice, i, hosts, size);

        if (way.inside == number || way.between == number)
            return true;
    }
    return false;
}

bool backend_is_between(const struct backend_choice *choice, int number, int hosts, int size)
{
    for (uint32_t i = 0; i <= choice->rule_count; i++)
        if (hosts > 1 && nth_way(choice, i, hosts, size).between == number)
            return true;
    return false;
}

tutti_status backend_check_hosts(const struct backend_choice *choice, int hosts, int size,
                                 uint32_t host_only)
{
    for (uint32_t i = 0; i < choice->rule_count && hosts > 1; i++) {
        const uint8_t between = nth_way(choice, i, hosts, size).between;

        if (host_only >> between & 1)
            return error_set(
                TUTTI_ERR_UNSUPPORTED,
                "the rule %s cannot be kept: %s reaches members of one host only, and the members "
                "are on %d hosts; use auto, which uses %s inside hosts and %s between them",
                choice->rules[i].words, backend_name(choice, between), hosts, choice->local,
                choice->remote);
    }
    return TUTTI_OK;
}

int backend_engine(const struct backend_choice *choice, int hosts, int size)
{
    for (uint32_t i = 0; i <= choice->rule_count; i++) {
        const struct backend_way way = nth_way(choice, i, hosts, size);
        const tutti_plugin *plugin;

        if (way.inside == way.between && !plugin_find(backend_name(choice, way.between), &plugin) &&
            plugin_collectives(plugin))
            return way.between;
    }
    return -1;
}
