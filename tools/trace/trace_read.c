/* SPDX-License-Identifier: Apache-2.0 */
#include "trace/trace_read.h"

#include <json-glib/json-glib.h>
#include <string.h>

#include "trace/trace_file.h"

enum {
    FILE_MAX_MIB = 256,
    TEXT_MAX = 2048,
    GROUPS_MAX = 65536,
    MEMBERS_MAX = 1 << 20,
    CALLS_MAX = 1 << 20
};

/* ---- fields: the first problem stays, and everything after it answers with zeros ---- */

struct reader {
    char *problem;
};

struct object {
    struct reader *reader;
    JsonObject *members; /* NULL after a problem */
    char *where;         /* "groups[0].members[2]" */
};

static void problem(struct reader *reader, const char *where, const char *name, const char *words)
{
    if (!reader->problem)
        reader->problem = g_strdup_printf("%s%s%s %s", where, *where ? "." : "", name, words);
}

static JsonNode *find(const struct object *object, const char *name, JsonNodeType type,
                      bool optional)
{
    JsonNode *node = object->members ? json_object_get_member(object->members, name) : NULL;

    if (node && json_node_get_node_type(node) == type)
        return node;
    if (node && optional && json_node_is_null(node))
        return NULL;
    if (node)
        problem(object->reader, object->where, name, "has another type");
    else if (object->members && !optional)
        problem(object->reader, object->where, name, "is missing");
    return NULL;
}

static gint64 integer(const struct object *object, const char *name, gint64 low, gint64 high)
{
    JsonNode *node = find(object, name, JSON_NODE_VALUE, false);

    if (!node)
        return low;
    if (json_node_get_value_type(node) != G_TYPE_INT64)
        problem(object->reader, object->where, name, "is not a whole number");
    else if (json_node_get_int(node) < low || json_node_get_int(node) > high)
        problem(object->reader, object->where, name, "is out of its range");
    else
        return json_node_get_int(node);
    return low;
}

static bool has(const struct object *object, const char *name)
{
    return object->members && json_object_has_member(object->members, name) &&
           !json_object_get_null_member(object->members, name);
}

static gint64 integer_or(const struct object *object, const char *name, gint64 low, gint64 high,
                         gint64 otherwise)
{
    return has(object, name) ? integer(object, name, low, high) : otherwise;
}

static double number_or(const struct object *object, const char *name, double otherwise)
{
    JsonNode *node = find(object, name, JSON_NODE_VALUE, true);

    if (!node)
        return otherwise;
    if (json_node_get_value_type(node) == G_TYPE_INT64)
        return (double)json_node_get_int(node);
    if (json_node_get_value_type(node) != G_TYPE_DOUBLE)
        problem(object->reader, object->where, name, "is not a number");
    return json_node_get_double(node);
}

static bool truth_or(const struct object *object, const char *name, bool otherwise)
{
    JsonNode *node = find(object, name, JSON_NODE_VALUE, true);

    if (!node)
        return otherwise;
    if (json_node_get_value_type(node) != G_TYPE_BOOLEAN)
        problem(object->reader, object->where, name, "is neither true nor false");
    return json_node_get_boolean(node);
}

/* A copy that a terminal can be shown. */
static char *string_or(const struct object *object, const char *name, const char *otherwise)
{
    JsonNode *node = find(object, name, JSON_NODE_VALUE, true);
    const char *text = node ? json_node_get_string(node) : NULL;

    if (node && !text)
        problem(object->reader, object->where, name, "is not text");
    if (!text)
        return g_strdup(otherwise);

    char *copy = g_strndup(text, TEXT_MAX);
    char *valid = g_utf8_make_valid(copy, -1); /* the cut may be inside a character */
    g_free(copy);
    for (char *c = valid; *c; c++)
        if (g_ascii_iscntrl(*c))
            *c = '?';
    return valid;
}

static char *string(const struct object *object, const char *name)
{
    if (!has(object, name) && object->members)
        problem(object->reader, object->where, name, "is missing");
    return string_or(object, name, "");
}

static guint64 hex(const struct object *object, const char *name)
{
    g_autofree char *text = string(object, name);
    char *end = text;
    guint64 value = g_ascii_strtoull(text, &end, 16);

    if (strlen(text) != 16 || *end)
        problem(object->reader, object->where, name, "is not 16 hexadecimal digits");
    return value;
}

static struct object object_at(struct reader *reader, JsonNode *node, char *where)
{
    struct object object = {.reader = reader, .where = where};

    if (node && JSON_NODE_HOLDS_OBJECT(node))
        object.members = json_node_get_object(node);
    else if (node)
        problem(reader, where, "it", "is not an object");
    return object;
}

/* Calls fn for each element of an array of at most `max` objects; stops at a problem. */
static void each(const struct object *object, const char *name, guint max,
                 void (*fn)(const struct object *element, guint index, void *user), void *user)
{
    JsonNode *node = find(object, name, JSON_NODE_ARRAY, false);
    JsonArray *array = node ? json_node_get_array(node) : NULL;
    guint count = array ? json_array_get_length(array) : 0;

    if (count > max)
        problem(object->reader, object->where, name, "has too many elements");
    for (guint i = 0; i < count && !object->reader->problem; i++) {
        g_autofree char *where =
            g_strdup_printf("%s%s%s[%u]", object->where, *object->where ? "." : "", name, i);
        struct object element = object_at(object->reader, json_array_get_element(array, i), where);

        if (element.members)
            fn(&element, i, user);
    }
}

/* ---- what a dump is made of ---- */

static void call_free(gpointer user)
{
    struct trace_call *call = user;

    g_free(call->operation);
    g_free(call->waits_what);
    g_array_unref(call->not_called);
    g_free(call);
}

static void record_free(gpointer user)
{
    struct trace_record *record = user;

    g_free(record->call);
    g_free(record->state);
    g_free(record);
}

static void group_free(gpointer user)
{
    struct trace_group *group = user;

    for (int r = 0; group->members && r < group->size; r++) {
        g_free(group->members[r].host);
        g_free(group->members[r].process);
    }
    g_free(group->members);
    g_free(group->name);
    g_free(group->backend);
    g_free(group->verdict);
    g_free(group->verdict_words);
    g_ptr_array_unref(group->unfinished);
    g_ptr_array_unref(group->records);
    g_hash_table_unref(group->by_number);
    g_free(group);
}

void trace_dump_free(struct trace_dump *dump)
{
    if (!dump)
        return;
    g_free(dump->path);
    g_free(dump->cause);
    g_free(dump->run);
    g_free(dump->host);
    g_free(dump->joining);
    g_ptr_array_unref(dump->groups);
    g_free(dump);
}

static void read_member(const struct object *object, guint index, void *user)
{
    struct trace_group *group = user;
    struct trace_member *member = &group->members[index];
    g_autofree char *lost = string_or(object, "lost", "");

    member->host = string(object, "host");
    member->process = string_or(object, "process", NULL);
    member->pid = (int)integer(object, "pid", 0, G_MAXINT);
    member->layout = (int)integer(object, "layout", 0, MEMBERS_MAX);
    member->world_rank = (int)integer(object, "world_rank", 0, MEMBERS_MAX);
    member->left_after = integer_or(object, "left_after", 0, G_MAXINT64, -1);
    member->lost = !*lost                          ? TRACE_NOT_LOST
                   : strcmp(lost, "vanished") == 0 ? TRACE_VANISHED
                                                   : TRACE_ENDED;
    member->lost_after_failure = truth_or(object, "lost_after_failure", false);
}

static void read_not_called(const struct object *waits, struct trace_call *call, int size)
{
    JsonNode *node = find(waits, "not_called", JSON_NODE_ARRAY, false);
    JsonArray *array = node ? json_node_get_array(node) : NULL;
    guint count = array ? json_array_get_length(array) : 0;

    for (guint i = 0; i < count && i < (guint)size; i++) {
        JsonNode *element = json_array_get_element(array, i);
        gint64 rank = JSON_NODE_HOLDS_VALUE(element) ? json_node_get_int(element) : -1;
        int value = (int)rank;

        if (rank < 0 || rank >= size) {
            problem(waits->reader, waits->where, "not_called", "holds no rank of the group");
            return;
        }
        g_array_append_val(call->not_called, value);
    }
}

static void read_call(const struct object *object, guint index, void *user)
{
    struct trace_group *group = user;
    struct trace_call *call = g_new0(struct trace_call, 1);
    g_autofree char *waited = string_or(object, "waited", "");

    (void)index;
    call->not_called = g_array_new(FALSE, FALSE, sizeof(int));
    g_ptr_array_add(group->unfinished, call);
    call->message = !has(object, "sequence");
    call->sequence = (guint64)integer_or(object, "sequence", 1, G_MAXINT64, 0);
    call->operation = string_or(object, "operation", "");
    call->peer = (int)integer_or(object, "peer", -1, group->size - 1, -1);
    call->tag = (guint64)integer_or(object, "tag", 0, G_MAXINT64, 0);
    call->bytes = (guint64)integer_or(object, "bytes", 0, G_MAXINT64, 0);
    call->moved = (guint64)integer_or(object, "moved", 0, G_MAXINT64, 0);
    call->seconds = number_or(object, "seconds", -1);
    call->waited = strcmp(waited, "yes") == 0;
    call->unwaited = strcmp(waited, "no") == 0;

    JsonNode *node = find(object, "waits_for", JSON_NODE_OBJECT, false);
    g_autofree char *where = g_strdup_printf("%s.waits_for", object->where);
    struct object waits = object_at(object->reader, node, where);

    call->waits_rank = (int)integer(&waits, "rank", -1, group->size - 1);
    call->waits_what = string(&waits, "what");
    read_not_called(&waits, call, group->size);
}

/* As the library's own words of errors have it. */
static char *call_words(const struct object *object)
{
    g_autofree char *operation = string(object, "operation");
    g_autofree char *dtype = string_or(object, "dtype", NULL), *op = string_or(object, "op", NULL);
    gint64 count = integer(object, "count", 0, G_MAXINT64);
    gint64 root = integer_or(object, "root", 0, MEMBERS_MAX, -1);
    const bool uneven = truth_or(object, "uneven", false);
    GString *words = g_string_new(operation);

    if (uneven)
        g_string_append(words, "_v");
    if (dtype && (count || !uneven))
        g_string_append_printf(words, " %" G_GINT64_FORMAT " x", count);
    if (dtype)
        g_string_append_printf(words, " %s", dtype);
    if (op)
        g_string_append_printf(words, ", %s", op);
    if (root >= 0)
        g_string_append_printf(words, ", root %" G_GINT64_FORMAT, root);
    return g_string_free(words, FALSE);
}

static void read_record(const struct object *object, guint index, void *user)
{
    struct trace_group *group = user;
    struct trace_record *record = g_new0(struct trace_record, 1);

    (void)index;
    g_ptr_array_add(group->records, record);
    record->message = has(object, "message");
    record->sequence =
        (guint64)integer(object, record->message ? "message" : "sequence", 1, G_MAXINT64);
    record->call = call_words(object);
    record->all_for_all =
        !record->message && !has(object, "root") && !truth_or(object, "uneven", false);
    record->is_send = record->message && strcmp(record->call, "send") == 0;
    record->peer = (int)integer_or(object, "peer", -1, group->size - 1, -1);
    record->tag = (guint64)integer_or(object, "tag", 0, G_MAXINT64, 0);
    record->state = string(object, "state");
    record->refused = truth_or(object, "refused", false);
    record->has_signature = has(object, "signature");
    if (record->has_signature)
        record->signature = hex(object, "signature");
    if (!record->message)
        g_hash_table_insert(group->by_number, &record->sequence, record);
}

static void read_verdict(const struct object *object, struct trace_group *group)
{
    g_autofree char *where = g_strdup_printf("%s.verdict", object->where);
    struct object verdict =
        object_at(object->reader, find(object, "verdict", JSON_NODE_OBJECT, true), where);

    if (!verdict.members)
        return;
    group->verdict = string(&verdict, "status");
    group->verdict_words = string(&verdict, "words");
    group->culprit = (int)integer(&verdict, "culprit", -1, group->size - 1);
}

static void read_group(const struct object *object, guint index, void *user)
{
    struct trace_dump *dump = user;
    struct trace_group *group = g_new0(struct trace_group, 1);

    (void)index;
    group->dump = dump;
    group->unfinished = g_ptr_array_new_with_free_func(call_free);
    group->records = g_ptr_array_new_with_free_func(record_free);
    group->by_number = g_hash_table_new(g_int64_hash, g_int64_equal);
    group->culprit = -1;
    g_ptr_array_add(dump->groups, group);
    group->name = string(object, "name");
    group->backend = string(object, "backend");
    group->id = hex(object, "id");
    group->size = (int)integer(object, "size", 1, MEMBERS_MAX);
    group->rank = (int)integer(object, "rank", 0, group->size - 1);

    /* The size is only a number; the members are there or not. */
    JsonNode *members = find(object, "members", JSON_NODE_ARRAY, false);
    if (members && (int)json_array_get_length(json_node_get_array(members)) != group->size)
        problem(object->reader, object->where, "members", "are not as many as size says");
    if (object->reader->problem)
        return;
    group->members = g_new0(struct trace_member, group->size);
    each(object, "members", MEMBERS_MAX, read_member, group);
    read_verdict(object, group);
    group->started = (guint64)integer(object, "started", 0, G_MAXINT64);
    group->completed = (guint64)integer(object, "completed", 0, G_MAXINT64);
    each(object, "unfinished", CALLS_MAX, read_call, group);
    each(object, "records", CALLS_MAX, read_record, group);
    group->has_all_records =
        integer_or(object, "recorded", 0, G_MAXINT64, 0) <= (gint64)group->records->len;
}

static void read_joining(const struct object *object, struct trace_dump *dump)
{
    char where[] = "joining";
    struct object joining =
        object_at(object->reader, find(object, where, JSON_NODE_OBJECT, true), where);

    if (!joining.members)
        return;
    dump->joining = string(&joining, "name");
    dump->joining_size = (int)integer(&joining, "size", 1, MEMBERS_MAX);
    dump->joining_s = number_or(&joining, "seconds", 0);
    if (dump->rank < 0 || dump->rank >= dump->joining_size)
        problem(object->reader, where, "size", "has no room for the rank");
}

static struct trace_dump *read_dump(const char *path, JsonNode *root, char **ret_words)
{
    struct reader reader = {NULL};
    char top[] = "";
    struct object object = object_at(&reader, root, top);
    g_autofree char *schema = string(&object, "schema");
    struct trace_dump *dump = g_new0(struct trace_dump, 1);

    dump->path = g_strdup(path);
    dump->groups = g_ptr_array_new_with_free_func(group_free);
    if (!reader.problem && strcmp(schema, "tutti.trace/1") != 0)
        reader.problem = g_strdup_printf("schema is '%.40s', not tutti.trace/1", schema);
    dump->cause = string(&object, "cause");
    dump->run = string_or(&object, "run", NULL);
    dump->host = string(&object, "host");
    dump->attempt = (int)integer(&object, "attempt", 0, G_MAXINT);
    dump->rank = (int)integer(&object, "rank", -1, MEMBERS_MAX);
    dump->pid = (int)integer(&object, "pid", 0, G_MAXINT);
    dump->context = (int)integer(&object, "context", 0, G_MAXINT);
    dump->wall_ns = integer(&object, "wall_ns", 0, G_MAXINT64);
    dump->busy = truth_or(&object, "busy", false);
    if (!reader.problem)
        read_joining(&object, dump);
    if (!reader.problem)
        each(&object, "groups", GROUPS_MAX, read_group, dump);
    if (!reader.problem)
        return dump;
    *ret_words = reader.problem;
    trace_dump_free(dump);
    return NULL;
}

/* ---- files ---- */

struct trace_dump *trace_read_text(const char *path, const char *text, gsize size, char **ret_words)
{
    g_autoptr(JsonParser) parser = json_parser_new();
    g_autoptr(GError) error = NULL;

    if (!g_utf8_validate(text, (gssize)size, NULL) || trace_file_nests_deep(text, size)) {
        *ret_words = g_strdup("it is not JSON that tutti writes");
        return NULL;
    }
    if (!json_parser_load_from_data(parser, text, (gssize)size, &error)) {
        *ret_words = g_strdup_printf("it is cut short, or not JSON: %s", error->message);
        return NULL;
    }

    JsonNode *root = json_parser_get_root(parser);

    if (!root) {
        *ret_words = g_strdup("it is empty");
        return NULL;
    }
    return read_dump(path, root, ret_words);
}

struct trace_dump *trace_read_file(const char *path, char **ret_words)
{
    gsize size;
    g_autofree char *text = trace_file_read(path, FILE_MAX_MIB, &size, ret_words);

    return text ? trace_read_text(path, text, size, ret_words) : NULL;
}

const struct trace_record *trace_record_of(const struct trace_group *group, guint64 sequence)
{
    gint64 key = (gint64)sequence;

    return g_hash_table_lookup(group->by_number, &key);
}
