/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugins that tutti knows by name, whether they are here or not: what each is for, what it needs and
 * how to get it. This table is the only such list: errors, tutti_plugins_known() and `tutti info` read it.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tutti/info.h>

/* The backends of `auto`: between the members of one host, and between hosts. */
extern const char known_auto_local[], known_auto_remote[];
/* The one between hosts whose members all have a device for it: tutti_transport_ops.fabric. */
extern const char known_auto_fabric[];
/* The engine of `auto` for tensors on devices of the type, where each member has named one of its own; "": none. */
const char *known_auto_engine(int32_t device_type);

/* NULL: a name that tutti does not know. */
const tutti_known_plugin *known_plugin(const char *name);

/* The plugin that drives devices of a type, which is also the word for them: "cuda" for TUTTI_DEVICE_CUDA. NULL: none
 * is known. */
const char *known_device_name(int32_t type);
/* The type of the devices called so; 0: none are. */
int32_t known_device_type(const char *name, size_t length);
