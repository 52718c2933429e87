/* SPDX-License-Identifier: Apache-2.0 */
/*
 * transport_driver PLUGIN_FILE [CASE]: runs one case, or all that fit the transport, against the
 * plugin in that file. Exit status 0: passed.
 */
#include "cases.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const struct {
    const char *name;
    const char *only; /* the transports that it is about; NULL: any */
    void (*run)(const tutti_transport_ops *ops);
} cases[] = {
    {"sizes", NULL, case_sizes},
    {"receives_late", NULL, case_receives_late},
    {"flood", NULL, case_flood},
    {"small_forked", NULL, case_small_forked},
    {"more", NULL, case_more},
    {"more_to_two", NULL, case_more_to_two},
    {"traffic", NULL, case_traffic},
    {"too_long", NULL, case_too_long},
    {"cancel_receive", "shm tcp ucx", case_cancel_receive},
    {"cancel_send", "shm tcp ucx", case_cancel_send},
    {"reports", NULL, case_reports},
    {"no_memory", "shm tcp", case_no_memory},
    {"disconnect", NULL, case_disconnect},
    {"arguments", NULL, case_arguments},
    {"killed", "shm tcp gloo", case_killed},
    {"short", "shm ucx", case_short},
    {"short_wakes", "shm ucx", case_short_wakes},
    {"pairs", "shm", case_pairs},
    {"hostile_pair", "shm", case_hostile_pair},
    {"steady", "shm tcp ucx", case_steady},
    {"map", "shm", case_map},
    {"map_outlives", "shm", case_map_outlives},
    {"slots", "shm", case_slots},
    {"bad_descriptors", "shm", case_bad_descriptors},
    {"hostile_ring", "shm", case_hostile_ring},
    {"dial_together", "tcp", case_dial_together},
    {"dial_before_connect", "tcp", case_dial_before_connect},
    {"close_delivers", "tcp gloo ucx", case_close_delivers},
    {"close_delivers_late", "tcp gloo ucx", case_close_delivers_late},
    {"leaves_with_the_message", "tcp gloo ucx", case_leaves_with_the_message},
    {"garbage", "tcp", case_garbage},
    {"forked_child", "tcp", case_forked_child},
    {"half_open", "tcp", case_half_open},
    {"wrong_token", "tcp", case_wrong_token},
    {"replayed", "tcp", case_replayed},
    {"mirrored", "tcp", case_mirrored},
    {"old_core", "tcp", case_old_core},
    {"refused", "tcp", case_refused},
    {"descriptors_gone", "tcp", case_descriptors_gone},
    {"ipv6", "tcp gloo", case_ipv6},
    {"killed_in_a_piece", "ucx", case_killed_in_a_piece},
    {"stopped_in_a_piece", "ucx", case_stopped_in_a_piece},
    {"receive_taken_back", "gloo", case_receive_taken_back},
    {"send_taken_back", "gloo", case_send_taken_back},
    {"leave_who_took_back", "gloo", case_leave_who_took_back},
    {"send_to_who_left", "gloo", case_send_to_who_left},
    {"reset_at_the_port", "gloo", case_reset_at_the_port},
    {"garbage_at_the_port", "gloo", case_garbage_at_the_port},
    {"outsider", "gloo", case_outsider},
};

static const tutti_provider *load(const char *file)
{
    void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    const tutti_plugin *plugin = library ? dlsym(library, TUTTI_PLUGIN_SYMBOL) : NULL;

    check(plugin, "%s", dlerror());
    check(plugin->magic == TUTTI_PLUGIN_MAGIC);
    check(plugin->abi_major == TUTTI_PLUGIN_ABI_MAJOR);
    for (uint32_t i = 0; i < plugin->provider_count; i++)
        if (plugin->providers[i]->kind == TUTTI_PROVIDER_TRANSPORT)
            return plugin->providers[i];
    check(!"a transport");
    return NULL;
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int ran = 0;

    check(argc == 2 || argc == 3, "usage: %s PLUGIN_FILE [CASE]", argv[0]);
    const tutti_provider *provider = load(argv[1]);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        if ((argc == 3 && strcmp(argv[2], cases[i].name) != 0) ||
            (cases[i].only && !strstr(cases[i].only, provider->name)))
            continue;
        int64_t start = now_ms();
        alarm(400);
        cases[i].run(provider->ops);
        printf("%s %s: %lld ms\n", provider->name, cases[i].name, (long long)(now_ms() - start));
        ran++;
    }
    check(ran > 0, "no such case for %s", provider->name);
    return 0;
}
