/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reading what the wrapper `trace` wrote. A rank that was killed leaves a file that ends anywhere, and a
 * file may be damaged: an event that cannot be written as JSON again is left out and counted.
 */
#include <math.h>
#include <string.h>

#include "trace/trace_file.h"
#include "trace/trace_merge.h"

enum {
    RANKS_MAX = 1 << 20,
    FILE_MAX_MIB = 1024 /* some four million calls */
};

static const char schema[] = "tutti.timeline/1";

JsonObject *event_at(JsonNode *root, guint index)
{
    JsonNode *node = json_array_get_element(json_node_get_array(root), index);

    return JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

static JsonNode *value_of(JsonObject *event, const char *member)
{
    JsonNode *node = event ? json_object_get_member(event, member) : NULL;

    return node && JSON_NODE_HOLDS_VALUE(node) ? node : NULL;
}

const char *event_text(JsonObject *event, const char *member)
{
    JsonNode *node = value_of(event, member);

    return node && json_node_get_value_type(node) == G_TYPE_STRING ? json_node_get_string(node)
                                                                   : "";
}

double event_number(JsonObject *event, const char *member, double otherwise)
{
    JsonNode *node = value_of(event, member);
    double value = node && json_node_get_value_type(node) != G_TYPE_STRING
                       ? json_node_get_double(node)
                       : otherwise;

    return isfinite(value) ? value : otherwise;
}

JsonObject *event_arguments(JsonObject *event)
{
    JsonNode *node = json_object_get_member(event, "args");

    return node && JSON_NODE_HOLDS_OBJECT(node) ? json_node_get_object(node) : NULL;
}

/* Parses the text; a last event that is not whole is left out. */
static JsonNode *parse(char *text, gsize size, bool *ret_cut, GError **error)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    char *last;

    *ret_cut = false;
    if (json_parser_load_from_data(parser, text, (gssize)size, error))
        return json_parser_steal_root(parser);
    if (size < 2 || text[0] != '[' || !(last = g_strrstr_len(text, (gssize)size, ",\n")))
        return NULL;
    *last = ']';
    if (!json_parser_load_from_data(parser, text, last + 1 - text, NULL))
        return NULL;
    g_clear_error(error);
    *ret_cut = true;
    return json_parser_steal_root(parser);
}

static bool is_sound_text(const char *text)
{
    bool sound = g_utf8_validate(text, -1, NULL);

    for (; sound && *text; text++)
        sound = !g_ascii_iscntrl(*text) || g_ascii_isspace(*text);
    return sound;
}

/* Whether it can be written as JSON again. The parser takes text and numbers that JSON has not, and its
 * generator writes them as they are. Its depth is bounded: trace_file_nests_deep(). */
static bool is_sound(JsonNode *node)
{
    JsonArray *array = JSON_NODE_HOLDS_ARRAY(node) ? json_node_get_array(node) : NULL;
    JsonObjectIter members;
    const char *name;
    bool sound = true;

    if (JSON_NODE_HOLDS_VALUE(node))
        return json_node_get_value_type(node) == G_TYPE_STRING
                   ? is_sound_text(json_node_get_string(node))
                   : isfinite(json_node_get_double(node));
    for (guint i = 0; array && sound && i < json_array_get_length(array); i++)
        sound = is_sound(json_array_get_element(array, i));
    if (!JSON_NODE_HOLDS_OBJECT(node))
        return sound;
    json_object_iter_init(&members, json_node_get_object(node));
    while (sound && json_object_iter_next(&members, &name, &node))
        sound = is_sound_text(name) && is_sound(node);
    return sound;
}

/* Leaves out what a damaged file has in place of events. */
static void drop_damaged(struct timeline *t)
{
    JsonArray *events = json_node_get_array(t->root), *sound = json_array_new();

    for (guint i = 0; i < json_array_get_length(events); i++) {
        JsonNode *event = json_array_get_element(events, i);

        if (JSON_NODE_HOLDS_OBJECT(event) && is_sound(event))
            json_array_add_element(sound, json_node_ref(event));
        else
            t->damaged++;
    }
    json_node_take_array(t->root, sound);
}

/* Finds the event by which the rank names itself; counts the others. */
static void look_through(struct timeline *t)
{
    guint count = json_array_get_length(json_node_get_array(t->root));

    for (guint i = 0; i < count; i++) {
        JsonObject *event = event_at(t->root, i);

        if (!event)
            continue;
        if (!strcmp(event_text(event, "name"), "tutti_rank") && !t->about)
            t->about = event_arguments(event);
        t->calls += !strcmp(event_text(event, "ph"), "X");
    }
}

/* NULL: it says all that is needed. */
static const char *introduce(struct timeline *t)
{
    if (!t->about || strcmp(event_text(t->about, "schema"), schema))
        return "it was not written by the wrapper trace, or by another version of it";
    double rank = event_number(t->about, "rank", -1), size = event_number(t->about, "size", 0);
    double init = event_number(t->about, "init", 1);

    if (!(size >= 1 && size <= RANKS_MAX && rank >= 0 && rank < size && init >= 1 && init < 1000))
        return "its rank and size are not valid";
    t->rank = (int)rank;
    t->size = (int)size;
    t->init = (int)init;
    t->host = event_text(t->about, "host");
    t->run = event_text(t->about, "run_id");
    t->clock_name = event_text(t->about, "clock");
    return NULL;
}

void timeline_free(struct timeline *t)
{
    if (t->root)
        json_node_unref(t->root);
    g_free(t->path);
    g_free(t);
}

struct timeline *timeline_read(const char *path, char **ret_words)
{
    g_autoptr(GError) error = NULL;
    gsize size;
    g_autofree char *text = trace_file_read(path, FILE_MAX_MIB, &size, ret_words);

    if (!text)
        return NULL;
    struct timeline *t = g_new0(struct timeline, 1);
    const char *words = NULL;

    t->path = g_strdup(path);
    t->root = trace_file_nests_deep(text, size) ? NULL : parse(text, size, &t->cut, &error);
    if (!t->root) {
        words = error ? error->message : "it is not JSON that tutti writes";
    } else if (!JSON_NODE_HOLDS_ARRAY(t->root)) {
        words = "it is not an array of events";
    } else {
        drop_damaged(t);
        look_through(t);
        words = introduce(t);
    }
    if (!words)
        return t;
    *ret_words = g_strdup(words);
    timeline_free(t);
    return NULL;
}
