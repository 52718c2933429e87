/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The engine of tests/native, which has collectives alone, with one defect, which the variable KIT_DEFECT
 * names; without it, a sound engine. Its file is untouched: what it answers and what it computes is
 * changed here.
 */
#define FAKE_NAME "unsound"
#define FAKE_SOLO

#include <tutti/plugin_engine.h>

#pragma push_macro("TUTTI_PLUGIN_EXPORT_LEAVE")
#undef TUTTI_PLUGIN_EXPORT_LEAVE
#define TUTTI_PLUGIN_EXPORT_LEAVE(name, version, license, list, count, leave)                      \
    __attribute__((unused)) static const tutti_provider *const *const fake_not_exported = list
#include "native/fake.c"
#pragma pop_macro("TUTTI_PLUGIN_EXPORT_LEAVE")

#include <tutti/tensor.h>

enum { LONG = 1000 };

/* Which results are wrong. */
static const struct defect {
    const char *name;
    uint32_t dtype, operation;
    uint64_t above; /* elements */
} defects[] = {
    {"i16", TUTTI_I16, TUTTI_COLLECTIVE_ALL_REDUCE, 0},
    {"bf16", TUTTI_BF16, TUTTI_COLLECTIVE_REDUCE, 0},
    {"f64", TUTTI_F64, TUTTI_COLLECTIVE_ALL_REDUCE, 0},
    {"f64-reduce", TUTTI_F64, TUTTI_COLLECTIVE_REDUCE, 0},
    {"long-i16", TUTTI_I16, TUTTI_COLLECTIVE_ALL_REDUCE, LONG},
};

static bool is_defect(const char *name)
{
    const char *chosen = getenv("KIT_DEFECT");

    return chosen && !strcmp(chosen, name);
}

static int32_t broken_serves(const tutti_host *host, void *self, const tutti_collective *what)
{
    static unsigned asked;

    if (is_defect("changes-mind") && what->operation == TUTTI_COLLECTIVE_BROADCAST)
        return ++asked % 2;
    if (is_defect("max-sums") && what->op == MAX && what->count * what->element_bytes < LONG)
        return 1;
    return fake_serves(host, self, what);
}

static void spoil(const tutti_collective *what)
{
    uint8_t *out = what->out;
    const uint64_t bytes = what->own_count * what->element_bytes;

    for (size_t i = 0; i < sizeof defects / sizeof *defects; i++)
        if (is_defect(defects[i].name) && what->dtype == defects[i].dtype &&
            what->operation == defects[i].operation && what->count > defects[i].above)
            out[bytes - 1] ^= 1;
    if (!is_defect("mixes-blocks") || !has_blocks_out(what->operation) || what->out_counts)
        return;
    for (uint64_t i = 0; i < bytes; i++) { /* the first two blocks change places */
        const uint8_t first = out[i];

        out[i] = out[bytes + i];
        out[bytes + i] = first;
    }
}

static tutti_status broken_start(tutti_team *team, const tutti_collective *what,
                                 tutti_request *request)
{
    if (!is_defect("barrier-does-not-wait") || what->operation != TUTTI_COLLECTIVE_BARRIER)
        return fake_start(team, what, request);
    request->status = TUTTI_OK;
    return TUTTI_OK;
}

static tutti_status broken_test(tutti_team *team, tutti_request *request)
{
    const bool complete = request->status != TUTTI_ERR_NOT_READY;
    const tutti_status status = fake_test(team, request);

    if (!complete && status == TUTTI_OK && team->what.out && team->what.own_count)
        spoil(&team->what);
    return status;
}

static const tutti_collectives_ops broken_ops = {
    .struct_size = sizeof(tutti_collectives_ops),
    .threads = FAKE_THREADS,
    .serves = broken_serves,
    .open = fake_open,
    .address = fake_address,
    .form = fake_form,
    .form_test = fake_form_test,
    .start = broken_start,
    .test = broken_test,
    .abort = fake_abort,
    .close = fake_close,
    .engine = fake_engine,
};
static const tutti_provider broken_collectives = {.struct_size = sizeof(tutti_provider),
                                                  .kind = TUTTI_PROVIDER_COLLECTIVES,
                                                  .name = "unsound",
                                                  .ops = &broken_ops};
static const tutti_provider *const broken_providers[] = {&broken_collectives};

TUTTI_PLUGIN_EXPORT_LEAVE("unsound", "1.0, with a defect", "Apache-2.0", broken_providers, 1,
                          fake_leave);
