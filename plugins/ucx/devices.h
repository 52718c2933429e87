/* SPDX-License-Identifier: Apache-2.0 */
/* The devices of this host that UCX has transports for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "library.h"
#include "options.h"

struct ucx_device {
    char transport[UCT_TL_NAME_MAX + 1]; /* "tcp", "rc_mlx5" */
    char name[UCT_DEVICE_NAME_MAX + 1];  /* "eth0", "mlx5_0:1" */
    uct_device_type_t type;
};

struct ucx_devices {
    struct ucx_device *list;
    size_t count;
    bool small_parts; /* tcp sends parts of 8 KiB and takes 64 KiB, which is UCX's default */
};

/*
 * Asks UCX's transports, which opens what UCX would open for a context; with `options` it also tries each on
 * the transports' settings (options.h). A UCX without libuct's functions has no devices. Free it with
 * devices_free(). NO_MEMORY.
 */
tutti_status devices_find(const struct caller *caller, const struct ucx_library *library,
                          struct ucx_options *options, struct ucx_devices *ret_devices);
void devices_free(struct ucx_devices *devices);

/* Whether one of them reaches other hosts by something else than a plain socket. */
bool devices_have_fabric(const struct ucx_devices *devices);

/*
 * The value of UCX_NET_DEVICES with which UCX listens on no other network interface than `interface`: that
 * one, and the devices without sockets. False: `interface` is not among the devices, or there is no room.
 */
bool devices_of_interface(const struct ucx_devices *devices, const char *interface, char *ret_list,
                          size_t capacity);
