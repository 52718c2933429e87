/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every public function says of arguments that make no sense: its own name, and which one it is.
 * Functions come from the headers, so that none can be left out.
 */
#include <string.h>

#include <tutti/plugin.h>
#include <tutti/tutti.h>

#include "documents.h"

static GHashTable *seen;

static void expect(const char *function, tutti_status status, const char *part)
{
    g_autofree char *begin = g_strdup_printf("%s: ", function);
    const char *words = tutti_last_error();

    g_hash_table_add(seen, (gpointer)function);
    cr_expect(status == TUTTI_ERR_INVALID_ARGUMENT || status == TUTTI_ERR_UNSUPPORTED,
              "%s returned %s", function, tutti_status_name(status));
    cr_expect(g_str_has_prefix(words, begin) && strstr(words, part), "«%s» of %s, without «%s»",
              words, function, part);
    cr_expect_null(strstr(words + strlen(begin), "tutti_all_"), "named twice: %s", words);
}
#define bad(function, part, ...) expect(#function, function(__VA_ARGS__), part)

static tutti_group *world;
static tutti_store *store;
static float values[8];
static int64_t three = 3, two = 2;
static tutti_tensor odd, even, ints, none;

static tutti_tensor of(void *data, tutti_dtype dtype, int64_t *count)
{
    return (tutti_tensor){
        .data = data, .device = {TUTTI_DEVICE_CPU, 0}, .ndim = 1, .dtype = dtype, .shape = count};
}

static void start(void)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    seen = g_hash_table_new(g_str_hash, g_str_equal);
    cr_assert_eq(tutti_store_open_hash(&store), TUTTI_OK);
    options.store = store;
    options.world_size = 1;
    cr_assert_eq(tutti_init(&options, &world), TUTTI_OK, "%s", tutti_last_error());
    odd = of(values, TUTTI_F32, &three);
    even = of(values + 4, TUTTI_F32, &two);
    ints = of(values, TUTTI_I32, &two);
    none = of(NULL, TUTTI_F32, &two);
}

static void check_collectives(void)
{
    const tutti_tensor *in[] = {&odd}, *out[] = {&even};
    const int64_t counts[] = {9};
    tutti_options late = TUTTI_OPTIONS_INIT;

    late.timeout_ms = -1;
    bad(tutti_barrier, "the group", NULL, NULL, NULL);
    bad(tutti_barrier, "timeout_ms is -1", world, &late, NULL);
    bad(tutti_monitored_barrier, "timeout_ms is -1", world, &late, NULL);
    bad(tutti_broadcast, "root 3", world, &odd, 3, NULL, NULL);
    bad(tutti_broadcast, "the tensor is NULL", world, NULL, 0, NULL, NULL);
    bad(tutti_all_reduce, "the tensor's data is NULL", world, &none, TUTTI_SUM, NULL, NULL);
    bad(tutti_all_reduce, "does not take", world, &odd, TUTTI_BAND, NULL, NULL);
    bad(tutti_all_reduce, "12345", world, &odd, 12345, NULL, NULL);
    bad(tutti_all_reduce_into, "the tensor is NULL", world, NULL, NULL, TUTTI_SUM, NULL, NULL);
    bad(tutti_all_reduce_into, "the input is NULL", world, NULL, &odd, TUTTI_SUM, NULL, NULL);
    bad(tutti_all_reduce_into, "input and output", world, &odd, &even, TUTTI_SUM, NULL, NULL);
    bad(tutti_reduce, "root -1", world, &odd, TUTTI_SUM, -1, NULL, NULL);
    bad(tutti_reduce_into, "the output is NULL", world, &odd, NULL, TUTTI_SUM, 0, NULL, NULL);
    bad(tutti_reduce_scatter, "the output has 2", world, &odd, &even, TUTTI_SUM, NULL, NULL);
    bad(tutti_reduce_scatter_list, "list", world, NULL, &odd, TUTTI_SUM, NULL, NULL);
    bad(tutti_reduce_scatter_v, "counts", world, &odd, NULL, NULL, &even, TUTTI_SUM, NULL, NULL);
    bad(tutti_all_gather, "the input is f32", world, &even, &ints, NULL, NULL);
    bad(tutti_all_gather_list, "the input has 3", world, &odd, out, NULL, NULL);
    bad(tutti_all_gather_v, "9 elements at offset 0", world, &odd, &even, counts, NULL, NULL, NULL);
    bad(tutti_gather, "the output: ", world, &even, &none, 0, NULL, NULL);
    bad(tutti_gather_list, "the input has 3", world, &odd, out, 0, NULL, NULL);
    bad(tutti_gather_v, "counts", world, &odd, &even, NULL, NULL, 0, NULL, NULL);
    bad(tutti_scatter, "the input is NULL", world, NULL, &even, 0, NULL, NULL);
    bad(tutti_scatter_list, "the output has 2", world, in, &even, 0, NULL, NULL);
    bad(tutti_scatter_v, "counts", world, &odd, NULL, NULL, &even, 0, NULL, NULL);
    bad(tutti_all_to_all, "2", world, &odd, &even, NULL, NULL);
    bad(tutti_all_to_all_list, "list", world, in, NULL, NULL, NULL);
    bad(tutti_all_to_all_v, "counts", world, &odd, NULL, NULL, &even, NULL, NULL, NULL, NULL);
}

static void check_messages(void)
{
    tutti_p2p_op ops[] = {{.kind = TUTTI_P2P_SEND, .tensor = &odd, .peer = 7}};
    tutti_work *works[1] = {NULL};

    bad(tutti_send, "destination 7", world, &odd, 7, 0, NULL);
    bad(tutti_recv, "source 7", world, &odd, 7, 0, NULL, NULL);
    bad(tutti_recv_up_to, "tag", world, &odd, 0, UINT64_MAX, NULL, NULL, NULL);
    bad(tutti_isend, "ret_work", world, &odd, 0, 0, NULL, NULL);
    bad(tutti_irecv, "the tensor is NULL", world, NULL, 0, 0, NULL, works);
    bad(tutti_irecv_up_to, "source 7", world, &odd, 7, 0, NULL, works);
    bad(tutti_sendrecv, "overlap", world, &odd, 0, 0, &odd, 0, 0, NULL, NULL);
    bad(tutti_batch_isend_irecv, "operation 0 of 1: destination 7", world, ops, sizeof *ops, 1,
        NULL, works);
    bad(tutti_batch_begin, "the group", NULL);
    bad(tutti_batch_end, "no batch", world, NULL);
    cr_assert_eq(tutti_batch_begin(world), TUTTI_OK);
    bad(tutti_all_reduce, "pass NULL", world, &even, TUTTI_SUM, NULL, works);
    bad(tutti_all_reduce, "pass NULL", world, &even, TUTTI_SUM, NULL, works);
    cr_expect_eq(tutti_batch_end(world, NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect(g_str_has_prefix(tutti_last_error(), "tutti_all_reduce: in a batch"));
}

static void check_plans(void)
{
    tutti_plan *plan;

    bad(tutti_plan_create, "the group", NULL, &plan);
    bad(tutti_plan_create, "no batch", world, &plan);
    cr_assert_eq(tutti_batch_begin(world), TUTTI_OK);
    bad(tutti_plan_create, "ret_plan", world, NULL);
    bad(tutti_plan_run, "plan is NULL", NULL, NULL);
}

static void check_memory(void)
{
    tutti_memory *memory;

    bad(tutti_memory_allocate, "the group", NULL, 1, &memory);
    bad(tutti_memory_allocate, "bytes is 0", world, 0, &memory);
    bad(tutti_memory_allocate_on, "bytes is 0", world, (tutti_device){TUTTI_DEVICE_CPU, 0}, 0,
        &memory);
    bad(tutti_memory_register, "address is NULL", world, NULL, 1, &memory);
}

static void check_works(void)
{
    tutti_work *work = NULL;

    cr_assert_eq(tutti_all_reduce(world, &even, TUTTI_SUM, NULL, &work), TUTTI_OK);
    bad(tutti_work_wait, "work", NULL, 0);
    bad(tutti_work_wait, "time-out", work, -1);
    bad(tutti_work_test, "ret_done", work, NULL);
    bad(tutti_work_wait_all, "works", NULL, 1, 0, NULL);
    bad(tutti_work_wait_any, "ret_index", &work, 1, 0, NULL);
    bad(tutti_work_cancel, "work", NULL);
    bad(tutti_work_result, "ret_info", work, NULL);
    bad(tutti_work_then, "callback", work, NULL, NULL);
    bad(tutti_work_on_release, "function", work, NULL, NULL);
    bad(tutti_work_test_any, "ret_index", &work, 1, NULL);
    bad(tutti_work_watch, "work", NULL);
    bad(tutti_work_wait_stream, "work", NULL, NULL);
    tutti_work_free(work);
}

static void check_groups(void)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    int32_t ranks[] = {4}, translated;
    tutti_group *group;

    options.group_name = "";
    bad(tutti_init, "ret_world", NULL, NULL);
    bad(tutti_init, "must have 1 to 255 bytes", &options, &group);
    options = (tutti_init_options){0};
    bad(tutti_init, "struct_size", &options, &group);
    bad(tutti_group_set_timeout, "timeout_ms is -1", world, -1);
    bad(tutti_group_world_ranks, "ret_ranks", world, NULL);
    bad(tutti_group_new, "ranks[0] is 4", world, ranks, 1, NULL, &group);
    bad(tutti_group_split, "ret_group", world, 0, 0, NULL, NULL);
    bad(tutti_group_translate, "ranks[0] is 4", world, ranks, 1, world, &translated);
    bad(tutti_group_status, "ret_info", world, NULL);
    bad(tutti_group_traffic, "ret_traffic", world, NULL);
    bad(tutti_group_abort, "the group", NULL, "for no reason");
    bad(tutti_recorder_read, "ret_count", world, NULL, 0, 0, NULL);
    bad(tutti_recorder_dump, "TUTTI_DUMP_DIR", NULL);
    bad(tutti_context_create, "ret_context", NULL);
    bad(tutti_context_fd, "ret_fd", NULL, NULL);
}

static void nothing(void *dst, const void *a, const void *b, uint64_t count, tutti_dtype dtype,
                    void *user)
{
    (void)dst, (void)a, (void)b, (void)count, (void)dtype, (void)user;
}

static void check_stores(void)
{
    const char *const keys[] = {NULL};
    tutti_store_value value;
    tutti_store *other;
    tutti_store_server *server;
    int64_t number;
    int32_t flag;

    bad(tutti_store_open_hash, "ret_store must not be NULL", NULL);
    bad(tutti_store_open_file, "path", NULL, 1, 0, &other);
    bad(tutti_store_open_tcp, "host", NULL, 1, 0, &other);
    bad(tutti_store_open_tcp, "timeout_ms is -1", "here", 1, -1, &other);
    bad(tutti_store_create, "ops", NULL, NULL, &other);
    bad(tutti_store_create, "compare_set",
        &(tutti_store_ops){.struct_size = sizeof(tutti_store_ops)}, NULL, &other);
    bad(tutti_store_value_set, "value", NULL, "", 0);
    bad(tutti_store_open_prefix, "prefix", store, NULL, &other);
    bad(tutti_store_set, "the key", store, NULL, "x", 1, 0);
    bad(tutti_store_set, "the store", NULL, "k", "x", 1, 0);
    bad(tutti_store_get, "result", store, "k", 0, NULL);
    bad(tutti_store_add, "the key", store, NULL, 1, 0, &number);
    bad(tutti_store_compare_set, "value", store, "k", NULL, 3, "x", 1, 0, &value);
    bad(tutti_store_check, "result", store, NULL, 0, 0, NULL);
    bad(tutti_store_wait, "the key", store, keys, 1, 0);
    bad(tutti_store_multi_get, "keys", store, NULL, 1, 0, &value);
    bad(tutti_store_append, "value", store, "k", NULL, 3, 0);
    bad(tutti_store_delete, "the key", store, NULL, 0, &flag);
    bad(tutti_store_num_keys, "timeout_ms is -1", store, -1, &number);
    bad(tutti_store_server_start, "address", NULL, 0, &server);
}

static void check_the_rest(void)
{
    tutti_reduce_op op;

    bad(tutti_reduce_op_create, "name", NULL, nothing, 0, NULL, &op);
    bad(tutti_reduce_op_create, "flags", "mine", nothing, 64, NULL, &op);
    bad(tutti_reduce_op_premul, "the tensor", NULL, &op);
    bad(tutti_tensor_from_dlpack, "managed", NULL, NULL);
    bad(tutti_tensor_from_dlpack_versioned, "managed", NULL, NULL);
    bad(tutti_tensor_measure, "data is NULL", &none, NULL, NULL);
    bad(tutti_explain, "query", NULL, NULL, NULL);
    bad(tutti_info_list, "fn", NULL, NULL);
    bad(tutti_environment_list, "fn", NULL, NULL);
    bad(tutti_matrix_list, "fn", "shm", NULL, NULL);
    bad(tutti_plugins_list, "fn", NULL, NULL);
    bad(tutti_plugins_known, "fn", NULL, NULL);
    bad(tutti_plugin_files, "fn", NULL, NULL);
    bad(tutti_plugin_probe, "path", NULL, NULL, NULL);
    bad(tutti_plugin_register, "plugin", NULL);
}

/* Every function that may refuse its arguments is called above. */
static void check_headers(void)
{
    static const char *const takes_all[] = {"tutti_context_destroy", "tutti_dispatch",
                                            "tutti_group_destroy",
                                            "tutti_memory_free", /* NULL is allowed */
                                            "tutti_last_error_info" /* it is what would tell */};
    g_autofree char *folder = g_build_filename(TUTTI_SOURCE_DIR, "api/tutti", NULL);
    g_autoptr(GDir) dir = g_dir_open(folder, 0, NULL);
    const char *name;
    int count = 0;

    cr_assert_not_null(dir);
    for (size_t i = 0; i < G_N_ELEMENTS(takes_all); i++)
        g_hash_table_add(seen, (gpointer)takes_all[i]);
    while ((name = g_dir_read_name(dir))) {
        g_autofree char *path = g_build_filename("api/tutti", name, NULL);
        g_autofree char *text = document_read(path);
        g_autoptr(GPtrArray) functions =
            document_find(text, "^TUTTI_API tutti_status\\s+(tutti_\\w+)\\(");

        for (guint i = 0; i < functions->len; i++, count++)
            cr_expect(g_hash_table_contains(seen, functions->pdata[i]),
                      "%s is called with no bad arguments here", (char *)functions->pdata[i]);
    }
    cr_expect_gt(count, 80);
}

Test(arguments, every_function_names_itself_and_what_it_refuses, .timeout = 20)
{
    start();
    check_collectives();
    check_messages();
    check_plans();
    check_memory();
    check_works();
    check_groups();
    check_stores();
    check_the_rest();
    check_headers();
    cr_expect_eq(tutti_group_destroy(world), TUTTI_OK);
    tutti_store_unref(store);
    g_hash_table_unref(seen);
}
