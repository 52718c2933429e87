/* SPDX-License-Identifier: Apache-2.0 */
/* `explain`: the algorithm that a call would take is shown without a group. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/collective.h>
#include <tutti/info.h>
#include <tutti/tensor.h>

struct rows {
    int count, chosen;
    char algorithm[64], provider[64];
    int32_t steps;
};

static void take_row(const tutti_explain_row *row, void *user)
{
    struct rows *rows = user;

    cr_expect(row->reason && *row->reason);
    cr_expect_eq(row->chosen, rows->count == 0, "the chosen one comes first");
    if (row->chosen) {
        rows->chosen++;
        strcpy(rows->algorithm, row->algorithm);
        strcpy(rows->provider, row->provider);
        rows->steps = row->steps;
    }
    rows->count++;
}

Test(explain, the_plan_of_a_call_is_shown_without_a_group, .timeout = 60)
{
    const struct {
        tutti_explain_query query;
        const char *algorithm, *provider;
        bool has_steps;
    } rows[] = {
        {{.members = 4, .operation = "all_reduce", .bytes = 8}, "all_reduce_inline", "shm", false},
        {{.members = 4, .operation = "all_reduce", .backend = "tcp", .bytes = 1 << 20},
         "all_reduce_halving_doubling",
         "tcp",
         true},
        {{.members = 4, .operation = "broadcast", .layout = "3,1", .bytes = 1 << 20},
         "broadcast_composed",
         "shm+tcp",
         true},
        {{.members = 4, .operation = "barrier", .backend = "remote=tcp,local=shm", .layout = "2,2"},
         "barrier_composed",
         "shm+tcp",
         true},
        {{.members = 4,
          .operation = "all_reduce",
          .backend = "tcp",
          .bytes = 1 << 20,
          .flags = TUTTI_FIXED_ORDER},
         "all_reduce_direct",
         "tcp",
         true},
        {{.members = 65535, .operation = "all_reduce", .backend = "tcp", .bytes = 8},
         "all_reduce_recursive_doubling",
         "tcp",
         true},
    };

    unsetenv("TUTTI_BACKEND");
    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tutti_explain_query query = rows[i].query;
        struct rows got = {0};

        query.struct_size = sizeof query;
        cr_assert_eq(tutti_explain(&query, take_row, &got), TUTTI_OK, "%s", tutti_last_error());
        cr_expect_eq(got.chosen, 1);
        cr_expect_str_eq(got.algorithm, rows[i].algorithm);
        cr_expect_str_eq(got.provider, rows[i].provider);
        cr_expect_eq(got.steps > 0, rows[i].has_steps);
    }
}

Test(explain, a_query_that_makes_no_sense_is_refused_with_words, .timeout = 60)
{
    const struct {
        tutti_explain_query query;
        tutti_status status;
        const char *words;
    } rows[] = {
        {{.members = 2, .operation = "all_to_none"}, TUTTI_ERR_INVALID_ARGUMENT, "all_to_none"},
        {{.members = 2}, TUTTI_ERR_INVALID_ARGUMENT, "(null)"},
        {{.members = 0, .operation = "barrier"}, TUTTI_ERR_INVALID_ARGUMENT, "0 members"},
        {{.members = 65536, .operation = "barrier"}, TUTTI_ERR_INVALID_ARGUMENT, "65536"},
        {{.members = 4, .operation = "barrier", .layout = "2,1"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "2,1"},
        {{.members = 4, .operation = "barrier", .layout = "2,,2"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "2,,2"},
        {{.members = 4, .operation = "barrier", .layout = "5,-1"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "5,-1"},
        {{.members = 4, .operation = "barrier", .layout = "2,2,"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "2,2,"},
        {{.members = 4, .operation = "all_reduce", .bytes = 6},
         TUTTI_ERR_INVALID_ARGUMENT,
         "6 bytes"},
        {{.members = 4, .operation = "all_reduce", .bytes = UINT64_MAX - 3},
         TUTTI_ERR_INVALID_ARGUMENT,
         "64 GiB"},
        {{.members = 4, .operation = "all_reduce", .dtype = 77}, TUTTI_ERR_UNSUPPORTED, "0x4d"},
        {{.members = 4, .operation = "all_reduce", .op = 63}, TUTTI_ERR_UNSUPPORTED, "63"},
        {{.members = 4, .operation = "all_reduce", .flags = 2}, TUTTI_ERR_UNSUPPORTED, "flags 0x2"},
        {{.members = 4, .operation = "all_reduce", .op = TUTTI_BOR}, TUTTI_ERR_UNSUPPORTED, "bor"},
        {{.members = 4, .operation = "all_reduce", .backend = "local=,remote=tcp"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "name"},
        {{.members = 4, .operation = "all_reduce", .backend = "tpc"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "unknown backend \"tpc\": did you mean \"tcp\"?"},
        {{.members = 4, .operation = "all_reduce", .backend = "local=shm,remote=nccl"},
         TUTTI_ERR_UNSUPPORTED,
         "backend nccl offers no transport"},
        {{.members = 4, .operation = "all_reduce", .backend = "inner=shm"},
         TUTTI_ERR_INVALID_ARGUMENT,
         "inner=shm"},
        {{.members = 4, .operation = "barrier", .backend = "shm", .layout = "2,2"},
         TUTTI_ERR_UNSUPPORTED,
         "shm reaches members of one host only, and the members are on 2"},
    };

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tutti_explain_query query = rows[i].query;
        struct rows got = {0};

        query.struct_size = sizeof query;
        cr_expect_eq(tutti_explain(&query, take_row, &got), rows[i].status, "%s", rows[i].words);
        cr_expect_not_null(strstr(tutti_last_error(), rows[i].words), "'%s' lacks '%s'",
                           tutti_last_error(), rows[i].words);
        cr_expect_eq(got.count, 0);
    }
    cr_expect_eq(tutti_explain(NULL, take_row, NULL), TUTTI_ERR_INVALID_ARGUMENT);
}
