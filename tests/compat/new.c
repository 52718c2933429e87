/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin template as one of a much later minor may be: each struct has members that this core does not
 * know, there is a capability and a kind of provider that it has never heard of, and what was reserved
 * means something. A core that knew it by more than its size and its known members would fall.
 */
#include "template_alone.h"

#include <stdlib.h>

enum { LATER_MINOR = 99, LATER_KIND = 77, LATER_MEMBERS = 4 };

static void of_later(void)
{
    abort();
}

static const struct {
    tutti_transport_ops known;
    void (*unknown[LATER_MEMBERS])(void);
} later = {.known = {.struct_size = sizeof later,
                     .threads = TUTTI_THREADS_ONE_AT_A_TIME,
                     .capabilities = TUTTI_CAP_HOST_ONLY | UINT64_C(1) << 40,
                     .lanes = 1,
                     .reserved = 7,
                     .open = open_endpoint,
                     .address = write_address,
                     .connect = connect_peer,
                     .isend = start_send,
                     .irecv = start_receive,
                     .test = test_request,
                     .close = close_endpoint},
           .unknown = {of_later, of_later, of_later, of_later}};

struct provider_of_later {
    tutti_provider known;
    void (*unknown)(void);
};

static const struct provider_of_later later_kind = {.known = {.struct_size = sizeof later_kind,
                                                              .kind = LATER_KIND,
                                                              .name = "something-new",
                                                              .ops = &later},
                                                    .unknown = of_later};
static const struct provider_of_later later_transport = {
    .known = {.struct_size = sizeof later_transport,
              .kind = TUTTI_PROVIDER_TRANSPORT,
              .name = "template",
              .ops = &later},
    .unknown = of_later};
static const tutti_provider *const later_providers[] = {&later_kind.known, &later_transport.known};

__attribute__((section(".note.tutti"), used, aligned(4))) static const tutti_plugin_note note = {
    6, 8, 1, "tutti", {TUTTI_PLUGIN_ABI_MAJOR, LATER_MINOR}};

struct plugin_of_later {
    tutti_plugin known;
    void (*unknown[LATER_MEMBERS])(void);
};

TUTTI_API extern const struct plugin_of_later tutti_plugin_v0;
const struct plugin_of_later tutti_plugin_v0 = {
    .known = {.magic = TUTTI_PLUGIN_MAGIC,
              .struct_size = sizeof tutti_plugin_v0,
              .abi_major = TUTTI_PLUGIN_ABI_MAJOR,
              .abi_minor = LATER_MINOR,
              .provider_count = 2,
              .name = "template",
              .version = "of minor 99",
              .license = "Apache-2.0",
              .providers = later_providers},
    .unknown = {of_later, of_later, of_later, of_later}};
