/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines of another name or major do not understand each other; before 1.0, and where an engine says so, a
 * minor is as good as a major.
 */
#include "agreement/agree_engines.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

static bool needs_minor(const struct engine_offer *engine)
{
    return !engine->major || engine->same_minor;
}

static bool understand(const struct engine_offer *one, const struct engine_offer *other)
{
    return !strcmp(one->name, other->name) && one->major == other->major &&
           (one->minor == other->minor || !(needs_minor(one) || needs_minor(other)));
}

int engines_find_other(const struct led_member *members, int size, int level)
{
    for (int r = 1; r < size; r++)
        if (!understand(&members[0].offer.engines[level], &members[r].offer.engines[level]))
            return r;
    return -1;
}

/* An engine that needs the same patch has its version in its name already. */
static void add_engine(struct text *words, int rank, const struct engine_offer *engine)
{
    char version[40];

    snprintf(version, sizeof version, " %u.%u.%u", engine->major, engine->minor, engine->patch);
    const size_t length = strlen(engine->name), tail = strlen(version);
    const bool is_in_name = length >= tail && !strcmp(engine->name + length - tail, version);
    text_add(words, "rank %d: %s%s; ", rank, engine->name, is_in_name ? "" : version);
}

void engines_tell(const struct led_member *members, int rank, int level,
                  char ret_words[ENGINES_WORDS_MAX])
{
    const struct engine_offer *first = &members[0].offer.engines[level];
    const struct engine_offer *other = &members[rank].offer.engines[level];
    struct text words = text_in(ret_words, ENGINES_WORDS_MAX);

    add_engine(&words, 0, first);
    add_engine(&words, rank, other);
    if (strcmp(first->name, other->name) != 0)
        text_add(&words, "the names must be equal");
    else
        text_add(&words, "the same name and major are needed%s",
                 first->same_minor || other->same_minor ? ", and the same minor"
                                                        : " (before 1.0 the same minor, too)");
}

static int lacking_fabric(const struct led_member *members, int size, int level)
{
    for (int r = 0; r < size; r++)
        if (!members[r].offer.engines[level].fabric)
            return r;
    return -1;
}

static bool has_any(const struct led_member *members, int size, int level)
{
    for (int r = 0; r < size; r++)
        if (members[r].offer.engines[level].fabric)
            return true;
    return false;
}

enum engines_fabric engines_find_fabric(const struct led_member *members, int size, int level,
                                        char ret_why[ENGINES_WORDS_MAX])
{
    const int lacking = lacking_fabric(members, size, level);
    const int other = engines_find_other(members, size, level);

    *ret_why = 0;
    if (!has_any(members, size, level))
        return FABRIC_NOWHERE;
    if (lacking >= 0) {
        const char *reason = members[lacking].offer.reasons[level];

        snprintf(ret_why, ENGINES_WORDS_MAX,
                 "rank %d has no device but sockets that reaches other hosts%s%.*s", lacking,
                 *reason ? ": " : "", TEXT_CUT(reason, 300));
        return FABRIC_ON_SOME;
    }
    if (other >= 0) {
        engines_tell(members, other, level, ret_why);
        return FABRIC_ON_SOME;
    }
    snprintf(ret_why, ENGINES_WORDS_MAX,
             "all members have %s %u.%u with devices that are no plain sockets",
             members[0].offer.engines[level].name, members[0].offer.engines[level].major,
             members[0].offer.engines[level].minor);
    return FABRIC_ON_ALL;
}
