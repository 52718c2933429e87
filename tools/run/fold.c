/* SPDX-License-Identifier: Apache-2.0 */
#include "run/fold.h"

#include <string.h>

enum {
    MESSAGES_MAX = 64, /* a job has one or two */
    LINES_MAX = 256,   /* what comes beyond is printed as it is */
    MESSAGE_MIN = 16   /* a shorter one may be in any line */
};

struct fold {
    GPtrArray *messages, *lines;
};

static void line_free(gpointer data)
{
    struct fold_line *line = data;

    g_string_free(line->text, TRUE);
    g_array_unref(line->ranks);
    g_free(line);
}

struct fold *fold_new(void)
{
    struct fold *fold = g_new0(struct fold, 1);

    fold->messages = g_ptr_array_new_with_free_func(g_free);
    fold->lines = g_ptr_array_new_with_free_func(line_free);
    return fold;
}

void fold_free(struct fold *fold)
{
    g_ptr_array_unref(fold->messages);
    g_ptr_array_unref(fold->lines);
    g_free(fold);
}

void fold_message(struct fold *fold, const char *message)
{
    if (strlen(message) < MESSAGE_MIN || fold->messages->len >= MESSAGES_MAX)
        return;
    for (guint i = 0; i < fold->messages->len; i++)
        if (strcmp(fold->messages->pdata[i], message) == 0)
            return;
    g_ptr_array_add(fold->messages, g_strdup(message));
}

static bool holds_message(const struct fold *fold, const char *text, size_t length)
{
    for (guint i = 0; i < fold->messages->len; i++)
        if (memmem(text, length, fold->messages->pdata[i], strlen(fold->messages->pdata[i])))
            return true;
    return false;
}

static struct fold_line *find(struct fold *fold, const char *text, size_t length)
{
    for (guint i = 0; i < fold->lines->len; i++) {
        struct fold_line *line = fold->lines->pdata[i];

        if (line->text->len == length && memcmp(line->text->str, text, length) == 0)
            return line;
    }
    if (fold->lines->len >= LINES_MAX)
        return NULL;

    struct fold_line *line = g_new0(struct fold_line, 1);

    line->text = g_string_new_len(text, (gssize)length);
    line->ranks = g_array_new(FALSE, FALSE, sizeof(int));
    g_ptr_array_add(fold->lines, line);
    return line;
}

/* False: it is there already. */
static bool add_rank(GArray *ranks, int rank)
{
    guint at = ranks->len;

    while (at && g_array_index(ranks, int, at - 1) > rank)
        at--;
    if (at && g_array_index(ranks, int, at - 1) == rank)
        return false;
    g_array_insert_val(ranks, at, rank);
    return true;
}

struct fold_line *fold_take(struct fold *fold, int rank, const char *text, size_t size)
{
    const size_t length = size && text[size - 1] == '\n' ? size - 1 : size;

    if (!fold->messages->len || !holds_message(fold, text, length))
        return NULL;

    struct fold_line *line = find(fold, text, length);

    return line && add_rank(line->ranks, rank) ? line : NULL;
}

void fold_add_rank(const struct fold_line *line, int rank)
{
    add_rank(line->ranks, rank);
}

const GPtrArray *fold_lines(const struct fold *fold)
{
    return fold->lines;
}

static void append_range(GString *text, int from, int to)
{
    if (text->len)
        g_string_append_c(text, ',');
    if (from == to)
        g_string_append_printf(text, "%d", from);
    else
        g_string_append_printf(text, "%d%c%d", from, to == from + 1 ? ',' : '-', to);
}

char *fold_ranges(const GArray *ranks)
{
    GString *text = g_string_new(NULL);
    int from = 0, count = (int)ranks->len;

    for (int i = 1; i <= count; i++) {
        int before = g_array_index(ranks, int, i - 1);

        if (i < count && g_array_index(ranks, int, i) == before + 1)
            continue;
        append_range(text, g_array_index(ranks, int, from), before);
        from = i;
    }
    return g_string_free(text, FALSE);
}

char *fold_ranks(const GArray *ranks)
{
    char *ranges = fold_ranges(ranks);

    if (!strchr(ranges, '-'))
        return ranges;
    char *counted = g_strdup_printf("%s (%u)", ranges, ranks->len);
    g_free(ranges);
    return counted;
}

GString *fold_words(const struct fold_line *line)
{
    GString *words = g_string_new(NULL);
    g_autofree char *ranks = fold_ranks(line->ranks);

    g_string_printf(words, "tutti run: ranks %s: ", ranks);
    g_string_append_len(words, line->text->str, (gssize)line->text->len);
    g_string_append_c(words, '\n');
    return words;
}
