/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rules of a choice of backends: which of the group's two carries a collective, by operation and
 * size. They are matched when a plan is made, by the words of the call alone, so that every member
 * finds the same one. The first that fits is taken.
 */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "plugin/backend.h"

/* Where in the text a fault is. */
struct text {
    const char *source, *words;
};

static tutti_status bad(const struct text *text, const char *at, const char *why)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "%s=%.128s: at byte %zu, «%.40s»: %s; a rule is OPERATION=NAME or "
                     "OPERATION:FROM-TO=NAME, such as all_reduce:0-4k=shm",
                     text->source, text->words, (size_t)(at - text->words) + 1, at, why);
}

static bool is_word(const char *at, size_t length, const char *word)
{
    return strlen(word) == length && !memcmp(at, word, length);
}

static bool take_operation(const char *at, size_t length, uint8_t *ret_operation)
{
    for (uint8_t i = OPERATION_NONE; i < OPERATION_COUNT; i++)
        if (is_word(at, length, i ? operation_name(i) : "*")) {
            *ret_operation = i;
            return true;
        }
    return false;
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
static tutti_status take_sizes(const struct text *text, const char **at, struct backend_rule *rule)
{
    const char *from = *at;

    if (!take_size(at, &rule->least) || **at != '-')
        return bad(text, from, "no sizes such as 0-4k or 64k- after the ':'");
    ++*at;
    if (**at != '=' && !take_size(at, &rule->most))
        return bad(text, *at, "no size after the '-'");
    rule->sized = true;
    return rule->least > rule->most ? bad(text, from, "it ends before it begins") : TUTTI_OK;
}

static tutti_status take_way(const struct text *text, const char *at, size_t length,
                             const struct backend_choice *choice, struct backend_rule *rule)
{
    char why[224];

    if (is_word(at, length, "auto"))
        rule->way = BACKEND_LEVELS;
    else if (is_word(at, length, choice->local))
        rule->way = BACKEND_LOCAL;
    else if (is_word(at, length, choice->remote))
        rule->way = BACKEND_REMOTE;
    else {
        snprintf(why, sizeof why,
                 "this group has %s, %s and auto to choose from; others are "
                 "brought in by beginning with local=NAME,remote=NAME;",
                 choice->local, choice->remote);
        return bad(text, at, why);
    }
    return TUTTI_OK;
}

static tutti_status take_rule(const struct text *text, const char *at, size_t length,
                              const struct backend_choice *choice, struct backend_rule *ret_rule)
{
    const char *begin = at;
    struct backend_rule rule = {.most = UINT64_MAX};
    const size_t name = strcspn(at, ":=;");
    tutti_status status = TUTTI_OK;

    if (length >= sizeof rule.words)
        return bad(text, at, "the rule is too long");
    memcpy(rule.words, at, length);
    if (!take_operation(at, name, &rule.operation))
        return bad(text, at, "no collective begins here, nor * for all of them");
    at += name;
    if (*at == ':') {
        at++;
        status = take_sizes(text, &at, &rule);
    }
    if (status)
        return status;
    if (*at != '=')
        return bad(text, at, "no '=' and backend follow");
    at++;
    status = take_way(text, at, length - (size_t)(at - begin), choice, &rule);
    if (!status)
        *ret_rule = rule;
    return status;
}

tutti_status backend_parse_rules(const char *source, const char *words, const char *rules,
                                 struct backend_choice *choice)
{
    const struct text text = {source, words};

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
                                           const struct call_words *words, uint64_t bytes)
{
    for (uint32_t i = 0; i < choice->rule_count; i++) {
        const struct backend_rule *rule = &choice->rules[i];

        if (rule->operation && rule->operation != words->operation)
            continue;
        if (!rule->sized ||
            (!(words->flags & CALL_UNEVEN) && bytes >= rule->least && bytes <= rule->most))
            return rule;
    }
    return NULL;
}

bool backend_has_way(const struct backend_choice *choice, enum backend_way way)
{
    for (uint32_t i = 0; i < choice->rule_count; i++)
        if (choice->rules[i].way == way)
            return true;
    return false;
}

tutti_status backend_check_hosts(const struct backend_choice *choice, int hosts)
{
    for (uint32_t i = 0; i < choice->rule_count && hosts > 1; i++)
        if (choice->rules[i].way == BACKEND_LOCAL)
            return error_set(TUTTI_ERR_UNSUPPORTED,
                             "the rule %s cannot be kept: %s is for members of one host, and they "
                             "are on %d; take auto, which has %s inside hosts and %s between them",
                             choice->rules[i].words, choice->local, hosts, choice->local,
                             choice->remote);
    return TUTTI_OK;
}
