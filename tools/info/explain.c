/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti explain`: the rows of tutti_explain(), as text or as one JSON document. */
#include <json-glib/json-glib.h>
#include <stdio.h>
#include <string.h>

#include <tutti/collective.h>
#include <tutti/info.h>
#include <tutti/status.h>
#include <tutti/tensor.h>

#include "cli.h"
#include "probe.h"
#include "verbs.h"
#include "wrap.h"

static const char summary[] =
    "Shows which backend and which algorithm a call of OPERATION would use, and why the other\n"
    "candidates would not be used. Starts no rank. --json also prints the costs of the cost "
    "model.\n"
    "OPERATION is one of: ";

static const char description[] =
    "Sizes take the suffixes K, M and G (multiples of 1024).\n\n"
    "Examples:\n"
    "  tutti explain all_reduce --bytes 1M -n 4\n"
    "  tutti explain --json broadcast --bytes 64K --layout 4,4 --root 5\n"
    "  tutti explain send --bytes 8K --layout 2,2 --root 3\n"
    "  tutti explain all_reduce --bytes 4K -n 2 --backend tcp --dtype bf16 --op max\n"
    "  tutti explain all_reduce --bytes 1M -n 4 --fixed-order\n"
    "  tutti explain all_reduce --bytes 1M --device cuda --backend cpu:auto,cuda:tcp\n";

struct named {
    const char *name;
    int64_t value;
};

static const struct named dtypes[] = {
#define DTYPE(NAME, name, code, bits) {name, TUTTI_##NAME},
    TUTTI_DTYPE_LIST(DTYPE)
#undef DTYPE
        {NULL, 0}};

static const struct named ops[] = {
#define OP(NAME, name, number) {name, number},
    TUTTI_REDUCE_OP_LIST(OP)
#undef OP
        {NULL, 0}};

enum { OPERATIONS_MAX = 63, MEMBERS_MAX = 65535 };

/* The operations to ask about; the value is TUTTI_OPERATION_…. A message has a root here: its other
 * member. */
static const struct named *operations(void)
{
    static struct named table[OPERATIONS_MAX + 1];
    static char uneven[OPERATIONS_MAX][32];
    const int64_t message = TUTTI_OPERATION_MOVES | TUTTI_OPERATION_HAS_ROOT;
    int count = 0;

    if (table[0].name)
        return table;
    for (int32_t i = 1; tutti_operation_name(i) && count < OPERATIONS_MAX - 3; i++) {
        const char *name = tutti_operation_name(i);
        const int64_t traits = tutti_operation_traits(i);

        table[count++] = (struct named){name, traits};
        if (!(traits & TUTTI_OPERATION_HAS_BLOCKS))
            continue;
        g_snprintf(uneven[count], sizeof uneven[count], "%s_v", name);
        table[count] = (struct named){uneven[count], traits};
        count++;
    }
    table[count++] = (struct named){"send", message};
    table[count] = (struct named){"recv", message};
    return table;
}

char *explain_operations(const char *between)
{
    GString *names = g_string_new(NULL);

    for (const struct named *one = operations(); one->name; one++)
        g_string_append_printf(names, "%s%s", names->len ? between : "", one->name);
    return g_string_free(names, FALSE);
}

/* The fields that GOption fills in. */
struct given {
    gboolean json, fixed_order;
    char *bytes, *members, *backend, *layout, *dtype, *op, *root, *device;
};

/* The query as the user would say it. */
struct question {
    tutti_explain_query query;
    const char *dtype, *op;
    int64_t traits; /* TUTTI_OPERATION_… */
};

static bool find_named(const struct named *table, const char *what, const char *word,
                       int64_t *ret_value)
{
    const char *names[OPERATIONS_MAX + 1] = {NULL};

    for (size_t i = 0; table[i].name && i < G_N_ELEMENTS(names) - 1; i++) {
        names[i] = table[i].name;
        if (strcmp(word, table[i].name) == 0) {
            *ret_value = table[i].value;
            return true;
        }
    }
    cli_unknown("explain", what, word, names);
    return false;
}

static bool wants_fixed_order(const struct given *given)
{
    return given->fixed_order || g_strcmp0(g_getenv("TUTTI_REPRODUCIBLE"), "1") == 0;
}

/* The members that a layout places, 0 when it makes no sense: the library then says so. */
static int members_of(const char *layout)
{
    g_auto(GStrv) hosts = g_strsplit(layout, ",", -1);
    int sum = 0, count;

    for (char **host = hosts; *host; host++) {
        if (!cli_parse_int(*host, 1, MEMBERS_MAX - sum, &count))
            return 0;
        sum += count;
    }
    return sum;
}

static bool parse_members(const struct given *given, tutti_explain_query *query)
{
    if (given->members && !cli_parse_int(given->members, 1, MEMBERS_MAX, &query->members)) {
        cli_usage("explain", "-n '%s': the number of members is 1 to %d", given->members,
                  MEMBERS_MAX);
        return false;
    }
    if (!given->members && given->layout && members_of(given->layout))
        query->members = members_of(given->layout);
    return true;
}

static bool is_message(const char *operation)
{
    return strcmp(operation, "send") == 0 || strcmp(operation, "recv") == 0;
}

static bool parse_root(const struct given *given, int64_t traits, tutti_explain_query *query)
{
    if (given->root && !(traits & TUTTI_OPERATION_HAS_ROOT)) {
        cli_usage("explain", "%s has no root", query->operation);
        return false;
    }
    query->root = is_message(query->operation) && query->members > 1 ? 1 : 0;
    if (given->root && !cli_parse_int(given->root, 0, query->members - 1, &query->root)) {
        cli_usage("explain", "--root '%s': the ranks of %d members are 0 to %d", given->root,
                  query->members, query->members - 1);
        return false;
    }
    return true;
}

/* Refuses options that have no meaning for the operation. */
static bool fits(const struct given *given, const char *operation, int64_t traits)
{
    const bool moves = traits & TUTTI_OPERATION_MOVES, reduces = traits & TUTTI_OPERATION_REDUCES;

    if (!moves && (given->bytes || given->dtype || given->device))
        cli_usage("explain", "%s moves nothing, so it has no %s", operation,
                  given->bytes   ? "--bytes"
                  : given->dtype ? "--dtype"
                                 : "--device");
    else if (!reduces && (given->op || given->fixed_order))
        cli_usage("explain", "%s reduces nothing, so it has no %s", operation,
                  given->op ? "--op" : "--fixed-order");
    else if (moves && !given->bytes)
        cli_usage("explain", "%s needs --bytes SIZE", operation);
    else
        return true;
    return false;
}

static bool parse_question(const struct given *given, const char *operation,
                           struct question *ret_question)
{
    struct question question = {
        .query = {.struct_size = sizeof question.query,
                  .members = 2,
                  .operation = operation,
                  .backend = given->backend,
                  .layout = given->layout,
                  .device = given->device,
                  .flags = wants_fixed_order(given) ? TUTTI_FIXED_ORDER : 0},
        .dtype = given->dtype ? given->dtype : "f32",
        .op = given->op ? given->op : "sum"};
    int64_t dtype, op;

    if (!find_named(operations(), "operation", operation, &question.traits) ||
        !find_named(dtypes, "dtype", question.dtype, &dtype) ||
        !find_named(ops, "op", question.op, &op))
        return false;
    if (!fits(given, operation, question.traits) || !parse_members(given, &question.query) ||
        !parse_root(given, question.traits, &question.query))
        return false;
    if (given->bytes && !cli_parse_size(given->bytes, &question.query.bytes)) {
        cli_usage("explain", "--bytes '%s' is not a size; write one such as 4096, 64K, 1M or 2G",
                  given->bytes);
        return false;
    }
    question.query.dtype = (uint32_t)dtype;
    question.query.op = (int32_t)op;
    *ret_question = question;
    return true;
}

/* ---- text ---- */

/* Rows are kept until the widths of their columns are known. */
struct line {
    char *provider, *algorithm, *reason, *rule, *staging;
    int chosen, steps;
};

static void line_free(gpointer user)
{
    struct line *line = user;

    g_free(line->provider);
    g_free(line->algorithm);
    g_free(line->reason);
    g_free(line->rule);
    g_free(line->staging);
    g_free(line);
}

static void keep_row(const tutti_explain_row *row, void *user)
{
    struct line *line = g_new0(struct line, 1);

    *line = (struct line){.provider = g_strdup(row->provider),
                          .algorithm = g_strdup(row->algorithm),
                          .reason = g_strdup(row->reason),
                          .rule = g_strdup(row->rule),
                          .staging = g_strdup(row->staging),
                          .chosen = row->chosen,
                          .steps = row->steps};
    g_ptr_array_add(user, line);
}

enum { PROVIDERS = 8 }; /* the column where they begin */

static char *words_of(const struct line *line)
{
    return line->chosen && line->rule ? g_strdup_printf("%s; by rule %s", line->reason, line->rule)
                                      : g_strdup(line->reason);
}

/* "chosen  shm   all_reduce_staged_parts  72 steps" */
static char *beginning_of(const struct line *line, int provider, int algorithm)
{
    g_autofree char *steps = line->steps > 0 ? g_strdup_printf("%5d steps", line->steps) : NULL;

    return g_strdup_printf("%-*s%-*s  %-*s  %11s", PROVIDERS, line->chosen ? "chosen" : "",
                           provider, *line->provider ? line->provider : "-", algorithm,
                           line->algorithm, steps ? steps : "");
}

/* Reasons stand behind the rest where all of them have room there, else below it. The cost model's
 * estimates are left to JSON: they seldom decide, so they would confuse. */
static void print_lines(const GPtrArray *lines)
{
    int provider = 0, algorithm = 0, reason = 0;

    for (guint i = 0; i < lines->len; i++) {
        const struct line *line = lines->pdata[i];
        g_autofree char *words = words_of(line);

        provider = MAX(provider, (int)strlen(line->provider));
        algorithm = MAX(algorithm, (int)strlen(line->algorithm));
        reason = MAX(reason, wrap_width(words));
    }
    for (guint i = 0; i < lines->len; i++) {
        const struct line *line = lines->pdata[i];
        g_autofree char *words = words_of(line);
        g_autofree char *beginning = beginning_of(line, provider, algorithm);
        const int behind = (int)strlen(beginning) + 2, below = PROVIDERS + provider + 2;

        if (behind + reason <= wrap_columns()) {
            printf("%s  %s\n", beginning, words);
        } else {
            printf("%s\n%*s", g_strchomp(beginning), below, "");
            wrap_print(below, below, words);
        }
    }
}

/* "1.0 MiB"; GLib has a space in it that does not break, which no search finds. */
static char *size_of(uint64_t bytes)
{
    g_autofree char *size = g_format_size_full(bytes, G_FORMAT_SIZE_IEC_UNITS);
    g_auto(GStrv) parts = g_strsplit(size, "\u00a0", -1);

    return g_strjoinv(" ", parts);
}

static void print_question(const struct question *question)
{
    const tutti_explain_query *query = &question->query;

    printf("%s", query->operation);
    if (question->traits & TUTTI_OPERATION_MOVES) {
        g_autofree char *size = size_of(query->bytes);

        printf(" of %s of %s", size, question->dtype);
    }
    if (question->traits & TUTTI_OPERATION_REDUCES)
        printf(" (%s%s)", question->op, query->flags & TUTTI_FIXED_ORDER ? ", fixed order" : "");
    if (is_message(query->operation))
        printf(", member 0 %s %d", strcmp(query->operation, "send") == 0 ? "to" : "from",
               query->root);
    else if (question->traits & TUTTI_OPERATION_HAS_ROOT)
        printf(", root %d", query->root);
    printf(", %d member%s, layout %s", query->members, query->members == 1 ? "" : "s",
           query->layout ? query->layout : "one host");
    if (query->device)
        printf(", tensors on %s", query->device);
    putchar('\n');
}

/* The chosen one comes first. */
static void print_staging(const struct question *question, const GPtrArray *lines)
{
    const struct line *chosen = lines->len ? lines->pdata[0] : NULL;

    if (chosen && chosen->staging) {
        g_autofree char *words = g_strdup_printf(
            "Tensors on %s are copied to %s before the call, and results back behind it; %s "
            "carries that memory.",
            question->query.device, chosen->staging, chosen->provider);

        wrap_print(0, 0, words);
    }
}

/* ---- JSON ---- */

static void build_row(const tutti_explain_row *row, void *user)
{
    JsonBuilder *builder = user;

    json_builder_begin_object(builder);
    cli_json_string(builder, "provider", row->provider);
    cli_json_string(builder, "algorithm", row->algorithm);
    cli_json_bool(builder, "chosen", row->chosen != 0);
    json_builder_set_member_name(builder, "estimated_us");
    if (row->estimated_us > 0)
        json_builder_add_double_value(builder, row->estimated_us);
    else
        json_builder_add_null_value(builder);
    cli_json_int(builder, "steps", row->steps);
    cli_json_string(builder, "reason", row->reason);
    cli_json_string(builder, "rule", row->rule);
    cli_json_string(builder, "staging", row->staging);
    json_builder_end_object(builder);
}

static void build_question(JsonBuilder *builder, const struct question *question)
{
    const tutti_explain_query *query = &question->query;
    const bool reduces = question->traits & TUTTI_OPERATION_REDUCES;

    json_builder_begin_object(builder);
    cli_json_string(builder, "schema", "tutti.explain/1");
    cli_json_string(builder, "operation", query->operation);
    cli_json_int(builder, "bytes", (gint64)MIN(query->bytes, (uint64_t)G_MAXINT64));
    cli_json_int(builder, "members", query->members);
    cli_json_string(builder, "backend", query->backend);
    cli_json_string(builder, "layout", query->layout);
    cli_json_string(builder, "device", query->device);
    cli_json_string(builder, "dtype",
                    question->traits & TUTTI_OPERATION_MOVES ? question->dtype : NULL);
    cli_json_string(builder, "op", reduces ? question->op : NULL);
    cli_json_bool(builder, "fixed_order", reduces && query->flags & TUTTI_FIXED_ORDER);
    json_builder_set_member_name(builder, "root");
    if (question->traits & TUTTI_OPERATION_HAS_ROOT)
        json_builder_add_int_value(builder, query->root);
    else
        json_builder_add_null_value(builder);
    cli_json_array(builder, "candidates");
}

/* ---- the engine ---- */

/* Whether the engine of the chosen backend does the whole call. */
static void look_for_engine(const tutti_explain_row *row, void *user)
{
    bool *ret_found = user;

    *ret_found = *ret_found || (row->chosen && g_str_has_suffix(row->algorithm, "_native"));
}

static void write_engine(const tutti_explain_row *row, void *user)
{
    const int *fd = user;

    if (row->engine)
        probe_write(*fd, row->engine, strlen(row->engine));
}

static void ask_in_child(int fd, const void *user)
{
    tutti_explain_query query = *(const tutti_explain_query *)user;

    query.flags |= TUTTI_EXPLAIN_ENGINE;
    tutti_explain(&query, write_engine, &fd);
}

/* What the engine says of the call, in lines; none, if another does it or it has no words. */
static char **ask_engine(const struct question *question)
{
    char *why = NULL;
    bool found = false;

    if (tutti_explain(&question->query, look_for_engine, &found) != TUTTI_OK || !found)
        return g_new0(char *, 1);

    g_autoptr(GByteArray) bytes = probe_in_child(ask_in_child, &question->query, &why);
    g_autofree char *answer =
        why ? g_strdup_printf("the engine does not tell how it would do the call: %s", why)
            : g_strndup(bytes->len ? (const char *)bytes->data : "", bytes->len);
    g_autofree char *text = g_utf8_make_valid(answer, -1);

    g_free(why);
    return g_strsplit(text, "\n", -1);
}

/* ---- the call ---- */

static int explain_text(const struct question *question)
{
    g_autoptr(GPtrArray) lines = g_ptr_array_new_with_free_func(line_free);
    tutti_status status = tutti_explain(&question->query, keep_row, lines);

    if (status != TUTTI_OK)
        return cli_say_failure("explain", status);
    print_question(question);
    print_lines(lines);
    print_staging(question, lines);

    g_auto(GStrv) engine = ask_engine(question);

    for (char **line = engine; *line; line++) {
        printf("%*s", PROVIDERS, "");
        wrap_print(PROVIDERS, PROVIDERS, *line);
    }
    return EXIT_OK;
}

static int explain_json(const struct question *question)
{
    g_autoptr(JsonBuilder) builder = json_builder_new();
    tutti_status status;

    build_question(builder, question);
    status = tutti_explain(&question->query, build_row, builder);
    if (status != TUTTI_OK)
        return cli_say_failure("explain", status);
    json_builder_end_array(builder);

    g_auto(GStrv) engine = ask_engine(question);

    cli_json_array(builder, "engine");
    for (char **line = engine; *line; line++)
        json_builder_add_string_value(builder, *line);
    json_builder_end_array(builder);
    json_builder_end_object(builder);
    cli_print_json(builder);
    return EXIT_OK;
}

int explain_main(int argc, char **argv)
{
    struct given given = {0};
    struct question question;
    const GOptionEntry entries[] = {
        {"bytes", 'b', 0, G_OPTION_ARG_STRING, &given.bytes,
         "Size of the tensor, or of each block where there is one for every member", "SIZE"},
        {"members", 'n', 0, G_OPTION_ARG_STRING, &given.members,
         "Members of the group (default: those of the layout, else 2)", "N"},
        {"backend", 0, 0, G_OPTION_ARG_STRING, &given.backend,
         "Backend (default: TUTTI_BACKEND, else auto)", "NAME"},
        {"layout", 0, 0, G_OPTION_ARG_STRING, &given.layout,
         "Members on each host (default: all on one)", "N,N,…"},
        {"dtype", 0, 0, G_OPTION_ARG_STRING, &given.dtype,
         "Type of the elements, such as bf16 (default f32); `tutti info --matrix` lists them",
         "TYPE"},
        {"op", 0, 0, G_OPTION_ARG_STRING, &given.op,
         "Reduction, such as max (default sum); `tutti info --matrix` lists them", "OP"},
        {"fixed-order", 0, 0, G_OPTION_ARG_NONE, &given.fixed_order,
         "Reduce in the fixed order, as TUTTI_REPRODUCIBLE=1 does", NULL},
        {"root", 0, 0, G_OPTION_ARG_STRING, &given.root,
         "Root (default 0), or the member that member 0 sends to or receives from (default 1)",
         "R"},
        {"device", 0, 0, G_OPTION_ARG_STRING, &given.device,
         "Where the tensors lie: cuda, or cpu (the default)", "KIND"},
        {"json", 0, 0, G_OPTION_ARG_NONE, &given.json, "Print one JSON document", NULL},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    g_autofree char *names = explain_operations(", ");
    g_autofree char *whole_summary = g_strdup_printf("%s%s.", summary, names);
    int code = EXIT_USAGE;

    if (cli_parse("explain", "OPERATION", whole_summary, description, entries, false, &argc,
                  &argv)) {
        if (argc == 0) {
            cli_usage("explain", "no operation given");
        } else if (argc > 1) {
            cli_usage("explain", "one operation only, not '%s' as well", argv[1]);
        } else if (parse_question(&given, argv[0], &question)) {
            code = !probe_backend("explain", given.backend) ? EXIT_FAILED
                   : given.json                             ? explain_json(&question)
                                                            : explain_text(&question);
        }
    }
    g_free(given.bytes);
    g_free(given.members);
    g_free(given.backend);
    g_free(given.layout);
    g_free(given.dtype);
    g_free(given.op);
    g_free(given.root);
    g_free(given.device);
    return code;
}
