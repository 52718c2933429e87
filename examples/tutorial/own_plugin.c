/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A plugin that is linked into the program: a wrapper that counts the program's collectives and their
 * bytes. Register a transport in the same way. Rank 0 prints the plugins.
 *
 *     cc own_plugin.c $(pkg-config --cflags --libs tutti) -o own_plugin
 *     tutti run -n 2 ./own_plugin
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/info.h>
#include <tutti/plugin.h>
#include <tutti/tutti.h>

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

/* ---- the plugin ---- */

struct tutti_wrapper {
    uint64_t calls, bytes;
};

static struct tutti_wrapper counted; /* one world, so one wrapper */

static tutti_status count_open(const tutti_host *host, void *host_self,
                               const tutti_wrapper_options *options, tutti_wrapper **ret_wrapper)
{
    (void)host;
    (void)host_self;
    (void)options;
    *ret_wrapper = &counted;
    return TUTTI_OK;
}

static void count_close(tutti_wrapper *wrapper)
{
    (void)wrapper;
}

static tutti_status count_end(tutti_wrapper *wrapper, const tutti_call *call, tutti_status status,
                              int64_t end_ns)
{
    (void)end_ns;
    if (status == TUTTI_OK && !(call->flags & TUTTI_CALL_MESSAGE)) {
        wrapper->calls++;
        wrapper->bytes += call->in_bytes;
    }
    return TUTTI_OK;
}

static const tutti_wrapper_ops count_ops = {
    .struct_size = sizeof count_ops, .open = count_open, .close = count_close, .end = count_end};
static const tutti_provider count_provider = {.struct_size = sizeof count_provider,
                                              .kind = TUTTI_PROVIDER_WRAPPER,
                                              .name = "counts collectives",
                                              .ops = &count_ops};
static const tutti_provider *const count_providers[] = {&count_provider};
static const tutti_plugin count_plugin = {.magic = TUTTI_PLUGIN_MAGIC,
                                          .struct_size = sizeof count_plugin,
                                          .abi_major = TUTTI_PLUGIN_ABI_MAJOR,
                                          .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                          .provider_count = 1,
                                          .name = "count",
                                          .version = "1",
                                          .license = "Apache-2.0",
                                          .providers = count_providers};

/* ---- the program ---- */

static void show(const tutti_plugin_info *plugin, void *user)
{
    (void)user;
    printf("%-6s %s\n", plugin->name, plugin->ready ? plugin->path : plugin->reason);
}

int main(void)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;
    float numbers[4] = {1, 2, 3, 4};
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(numbers, TUTTI_F32, &shape, 4);

    must(tutti_plugin_register(&count_plugin));
    options.wrap = "count";
    must(tutti_init(&options, &world));
    const int rank = tutti_group_rank(world);

    if (rank == 0)
        must(tutti_plugins_list(show, NULL));
    for (int i = 0; i < 3; i++)
        must(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    must(tutti_group_destroy(world));
    if (rank == 0)
        printf("%" PRIu64 " collectives of %" PRIu64 " bytes\n", counted.calls, counted.bytes);
    return 0;
}
