/* SPDX-License-Identifier: Apache-2.0 */
/* A dump of the recorder from anywhere: it is refused in words, or can be judged and told. */
#include <sanitizer/lsan_interface.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "trace/trace_verdict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void tell(struct trace_verdict *verdict)
{
    for (guint i = 0; i < verdict->findings->len; i++) {
        const struct trace_finding *finding = verdict->findings->pdata[i];
        g_autofree char *ranks = trace_ranks_words(finding->ranks);
        g_autofree char *call = trace_call_words(verdict, finding->sequence);

        if (!*ranks || *call != '#' || !g_utf8_validate(finding->words, -1, NULL))
            abort();
    }
    trace_verdict_free(verdict);
}

/* As if each group with the identity of the first had come in a dump of its own: of several ranks,
 * waits go in circles. */
static void judge(const GPtrArray *all, guint first, const GPtrArray *dumps)
{
    g_autoptr(GPtrArray) groups = g_ptr_array_new();
    const struct trace_group *one = all->pdata[first];

    for (guint i = first; i < all->len; i++) {
        struct trace_group *group = all->pdata[i];

        if (group->id == one->id && group->size == one->size)
            g_ptr_array_add(groups, group);
    }
    tell(trace_judge(groups, dumps));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *words = NULL;

    /* json-glib loses what it had read when it meets wrong syntax (1.6). */
    __lsan_disable();
    struct trace_dump *dump = trace_read_text("fuzz", (const char *)data, size, &words);
    __lsan_enable();
    g_autoptr(GPtrArray) dumps = g_ptr_array_new();

    if (!dump != (words != NULL))
        abort();
    if (dump) {
        g_ptr_array_add(dumps, dump);
        for (guint i = 0; i < dump->groups->len; i++)
            judge(dump->groups, i, dumps);
        if (dump->joining)
            tell(trace_judge_joining(dump, dumps));
    }
    trace_dump_free(dump);
    g_free(words);
    return 0;
}
