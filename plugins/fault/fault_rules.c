/* SPDX-License-Identifier: Apache-2.0 */
/*
 * TUTTI_FAULT as rules, and the chance by which they fall.
 *
 *     rules      = rule { ";" rule }
 *     rule       = "seed=" N | [ condition { "," condition } ":" ] action
 *     condition  = "rank=" N | "peer=" N | "op=" NAME | "seq=" N [ "-" [ N ] ]
 *     action     = "delay=" NUMBER ( "us" | "ms" | "s" ) | ( "drop" | "corrupt" | "close" | "kill" ) [ "=" CHANCE ]
 *
 * What makes no sense is refused with its place and what is written instead; nothing is guessed.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fault.h"

static const char *const action_names[] = {"delay", "drop", "corrupt", "close", "kill"};

enum { ACTIONS = sizeof action_names / sizeof action_names[0] };

/* As tutti_call.operation has them. */
static const char operations[] =
    "all_reduce, broadcast, barrier, reduce, all_gather, gather, scatter, reduce_scatter, "
    "all_to_all, monitored_barrier, send, recv";

struct parser {
    const char *text, *at, *end; /* of the rule */
    int32_t size;                /* of the world */
    struct fault_rules *rules;
    char *words;
};

static bool wrong(struct parser *p, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static bool wrong(struct parser *p, const char *at, const char *format, ...)
{
    char why[256];
    va_list arguments;

    va_start(arguments, format);
    vsnprintf(why, sizeof why, format, arguments);
    va_end(arguments);
    int length = (int)strcspn(at, ",:;");
    snprintf(p->words, FAULT_WORDS_MAX, "rule %u, byte %zu, \"%.*s\": %s", p->rules->count + 1,
             (size_t)(at - p->text), length < 64 ? length : 64, at, why);
    return false;
}

/* ---- numbers; without the locale's decimal point ---- */

/* A whole number at *at, which moves behind it. */
static bool take_number(const char **at, uint64_t *ret_number)
{
    uint64_t number = 0;
    const char *p = *at;

    for (; *p >= '0' && *p <= '9'; p++) {
        if (number > (UINT64_MAX - 9) / 10)
            return false;
        number = number * 10 + (uint64_t)(*p - '0');
    }
    if (p == *at)
        return false;
    *at = p;
    *ret_number = number;
    return true;
}

static bool take_decimal(const char **at, double *ret_value)
{
    uint64_t whole = 0;
    double unit = 1, value;
    const char *p = *at;

    if (*p != '.' && !take_number(&p, &whole))
        return false;
    value = (double)whole;
    if (*p == '.')
        for (p++; *p >= '0' && *p <= '9'; p++)
            value += (*p - '0') * (unit /= 10);
    *at = p;
    *ret_value = value;
    return true;
}

static bool take_word(const char **at, const char *word)
{
    size_t length = strlen(word);

    if (strncmp(*at, word, length))
        return false;
    *at += length;
    return true;
}

/* ---- conditions ---- */

static bool take_rank(struct parser *p, const char *value, int32_t *ret_rank)
{
    const char *at = value;
    uint64_t number;

    if (!take_number(&at, &number) || number > INT32_MAX || !strchr(",:", *at))
        return wrong(p, p->at, "a rank is a whole number");
    if (number >= (uint64_t)p->size)
        return wrong(p, p->at, "the last rank of this world is %d", p->size - 1);
    *ret_rank = (int32_t)number;
    p->at = at;
    return true;
}

static bool take_sequence(struct parser *p, const char *value, struct fault_rule *rule)
{
    const char *at = value;

    if (!take_number(&at, &rule->first))
        return wrong(p, p->at, "a sequence is N, N-M or N-, the first call being 1");
    rule->last = rule->first;
    if (*at == '-') {
        at++;
        if (!take_number(&at, &rule->last))
            rule->last = UINT64_MAX;
    }
    if (!rule->first || rule->last < rule->first || !strchr(",:", *at))
        return wrong(p, p->at, "a sequence is N, N-M or N-, the first call being 1");
    p->at = at;
    return true;
}

static bool is_operation(const char *word, size_t length)
{
    for (const char *at = operations; *at; at += strspn(at, ", ")) {
        const size_t n = strcspn(at, ",");

        if (n == length && !memcmp(at, word, n))
            return true;
        at += n;
    }
    return false;
}

static bool take_op(struct parser *p, const char *value, struct fault_rule *rule)
{
    size_t length = strspn(value, "abcdefghijklmnopqrstuvwxyz_");

    if (length >= sizeof rule->op || !strchr(",:", value[length]) || !is_operation(value, length))
        return wrong(p, p->at, "no such operation; there are %s", operations);
    memcpy(rule->op, value, length);
    rule->op[length] = 0;
    p->at = value + length;
    return true;
}

static bool take_condition(struct parser *p, struct fault_rule *rule)
{
    const char *at = p->at;

    if (take_word(&at, "rank="))
        return take_rank(p, at, &rule->rank);
    if (take_word(&at, "peer="))
        return take_rank(p, at, &rule->peer);
    if (take_word(&at, "seq="))
        return take_sequence(p, at, rule);
    if (take_word(&at, "op="))
        return take_op(p, at, rule);
    return wrong(p, p->at, "the conditions are rank=, peer=, op= and seq=");
}

static bool take_conditions(struct parser *p, struct fault_rule *rule)
{
    for (;;) {
        if (!take_condition(p, rule))
            return false;
        if (*p->at++ == ':')
            return true;
    }
}

/* ---- actions ---- */

static bool take_time(struct parser *p, const char *value, struct fault_rule *rule)
{
    static const struct {
        const char *word;
        double ns;
    } units[] = {{"us", 1e3}, {"ms", 1e6}, {"s", 1e9}};
    const char *at = value;
    double number;

    if (take_decimal(&at, &number))
        for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
            if (take_word(&at, units[i].word) && at == p->end && number * units[i].ns <= 3600e9) {
                rule->delay_ns = (int64_t)(number * units[i].ns);
                return true;
            }
    return wrong(p, p->at, "a delay is a number and us, ms or s, an hour at most");
}

static bool take_chance(struct parser *p, const char *value, struct fault_rule *rule)
{
    const char *at = value;

    if (!take_decimal(&at, &rule->chance) || at != p->end || rule->chance > 1)
        return wrong(p, p->at, "a chance is a number from 0 to 1");
    return true;
}

static bool take_action(struct parser *p, struct fault_rule *rule)
{
    for (int i = 0; i < ACTIONS; i++) {
        const char *at = p->at;

        if (!take_word(&at, action_names[i]) || (at != p->end && *at != '='))
            continue;
        rule->action = (enum fault_action)i;
        rule->of_messages = rule->peer != FAULT_ANY || i == FAULT_DROP || i == FAULT_CORRUPT;
        if (at == p->end && i == FAULT_DELAY)
            return wrong(p, p->at, "a delay needs a time, delay=50ms");
        if (at == p->end)
            return true;
        return i == FAULT_DELAY ? take_time(p, at + 1, rule) : take_chance(p, at + 1, rule);
    }
    return wrong(
        p, p->at,
        "a rule is CONDITIONS:ACTION, as in rank=1:delay=50ms; the actions are delay=TIME, "
        "drop, corrupt, close and kill, the last four with a chance if wanted: drop=0.01");
}

static bool take_rule(struct parser *p)
{
    struct fault_rule rule = {
        .rank = FAULT_ANY, .peer = FAULT_ANY, .chance = 1, .at = (uint32_t)(p->at - p->text)};
    const char *at = p->at;

    rule.length = (uint32_t)(p->end - p->at);
    if (take_word(&at, "seed="))
        return (take_number(&at, &p->rules->seed) && at == p->end) ||
               wrong(p, p->at, "a seed is a whole number");
    if (memchr(p->at, ':', (size_t)(p->end - p->at)) && !take_conditions(p, &rule))
        return false;
    if (!take_action(p, &rule))
        return false;
    if (p->rules->count == FAULT_RULES_MAX)
        return wrong(p, p->at, "there are %d rules already", FAULT_RULES_MAX);
    p->rules->rule[p->rules->count++] = rule;
    return true;
}

bool fault_rules_parse(const char *text, int32_t size, struct fault_rules *ret_rules,
                       char ret_words[FAULT_WORDS_MAX])
{
    struct parser p = {
        .text = text, .at = text, .size = size, .rules = ret_rules, .words = ret_words};

    *ret_rules = (struct fault_rules){.seed = 1};
    for (;;) {
        p.end = p.at + strcspn(p.at, ";");
        if (!take_rule(&p))
            return false;
        if (!*p.end)
            return true;
        p.at = p.end + 1;
    }
}

/* ---- chance ---- */

/* The finalizer of splitmix64. */
static uint64_t mix(uint64_t x)
{
    x += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

uint64_t fault_hash(const char *text)
{
    uint64_t hash = 0;

    while (*text)
        hash = mix(hash ^ (unsigned char)*text++);
    return hash;
}

uint64_t fault_number(const struct fault_rules *rules, unsigned rule, int rank, uint64_t place,
                      uint64_t number)
{
    uint64_t hash = mix(rules->seed);

    hash = mix(hash ^ rule);
    hash = mix(hash ^ (uint64_t)rank);
    hash = mix(hash ^ place);
    return mix(hash ^ number);
}

bool fault_falls(const struct fault_rules *rules, const struct fault_rule *rule, int rank,
                 uint64_t place, uint64_t number)
{
    uint64_t hash = fault_number(rules, (unsigned)(rule - rules->rule), rank, place, number);

    return (double)(hash >> 11) / (double)(UINT64_C(1) << 53) < rule->chance;
}
