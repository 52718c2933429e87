/* SPDX-License-Identifier: Apache-2.0 */
#include "devices.h"

#include <stdlib.h>
#include <string.h>

static bool is_socket(const struct ucx_device *device)
{
    return !strcmp(device->transport, "tcp");
}

bool devices_have_fabric(const struct ucx_devices *devices)
{
    for (size_t i = 0; i < devices->count; i++)
        if (devices->list[i].type == UCT_DEVICE_TYPE_NET && !is_socket(&devices->list[i]))
            return true;
    return false;
}

static bool is_listed(const struct ucx_devices *devices, size_t before, const char *name)
{
    for (size_t i = 0; i < before; i++)
        if (!is_socket(&devices->list[i]) && !strcmp(devices->list[i].name, name))
            return true;
    return false;
}

bool devices_of_interface(const struct ucx_devices *devices, const char *interface, char *ret_list,
                          size_t capacity)
{
    int used = snprintf(ret_list, capacity, "%s", interface);
    bool found = false;

    for (size_t i = 0; i < devices->count; i++) {
        const struct ucx_device *device = &devices->list[i];

        found = found || (is_socket(device) && !strcmp(device->name, interface));
        if (device->type != UCT_DEVICE_TYPE_NET || is_socket(device) ||
            is_listed(devices, i, device->name) || used < 0 || (size_t)used >= capacity)
            continue;
        used += snprintf(ret_list + used, capacity - (size_t)used, ",%s", device->name);
    }
    return found && used > 0 && (size_t)used < capacity;
}

/* ---- asking UCX ---- */

struct search {
    const struct ucx_library *library;
    struct ucx_options *options; /* or NULL */
    struct ucx_devices *devices;
    bool no_memory;
};

static void add(struct search *search, const uct_tl_resource_desc_t *resources, unsigned count)
{
    struct ucx_devices *devices = search->devices;
    struct ucx_device *list =
        realloc(devices->list, (devices->count + count) * sizeof *devices->list);

    if (!list) {
        search->no_memory = true;
        return;
    }
    devices->list = list;
    for (unsigned i = 0; i < count; i++) {
        struct ucx_device *device = &list[devices->count++];

        *device = (struct ucx_device){.type = resources[i].dev_type};
        snprintf(device->transport, sizeof device->transport, "%.*s", UCT_TL_NAME_MAX,
                 resources[i].tl_name);
        snprintf(device->name, sizeof device->name, "%.*s", UCT_DEVICE_NAME_MAX,
                 resources[i].dev_name);
    }
}

static bool has(const struct ucx_library *library, void *config, const char *setting,
                const char *value)
{
    char words[32];

    return !library->uct_config_get(config, setting, words, sizeof words) && !strcmp(words, value);
}

static void look_at_settings(struct search *search, uct_md_h md, const char *transport)
{
    const struct ucx_library *library = search->library;
    uct_iface_config_t *config;

    if (library->uct_md_iface_config_read(md, transport, NULL, NULL, &config))
        return;
    if (search->options)
        options_try(search->options, library, config);
    if (!strcmp(transport, "tcp"))
        search->devices->small_parts =
            has(library, config, "TX_SEG_SIZE", "8K") && has(library, config, "RX_SEG_SIZE", "64K");
    library->uct_config_release(config);
}

static void look_at_domain(struct search *search, uct_component_h component, const char *name)
{
    const struct ucx_library *library = search->library;
    uct_tl_resource_desc_t *resources;
    uct_md_config_t *config;
    unsigned count;
    uct_md_h md;

    if (library->uct_md_config_read(component, NULL, NULL, &config))
        return;
    if (search->options)
        options_try(search->options, library, config);
    ucs_status_t status = library->uct_md_open(component, name, config, &md);
    library->uct_config_release(config);
    if (status)
        return;
    if (!library->uct_md_query_tl_resources(md, &resources, &count)) {
        for (unsigned i = 0; i < count; i++)
            if (!i || strcmp(resources[i].tl_name, resources[i - 1].tl_name) != 0)
                look_at_settings(search, md, resources[i].tl_name);
        if (count)
            add(search, resources, count);
        library->uct_release_tl_resource_list(resources);
    }
    library->uct_md_close(md);
}

static void look_at_component(struct search *search, uct_component_h component)
{
    uct_component_attr_t attributes = {.field_mask = UCT_COMPONENT_ATTR_FIELD_MD_RESOURCE_COUNT};

    if (search->library->uct_component_query(component, &attributes) ||
        !attributes.md_resource_count)
        return;
    attributes.md_resources = calloc(attributes.md_resource_count, sizeof *attributes.md_resources);
    if (!attributes.md_resources) {
        search->no_memory = true;
        return;
    }
    attributes.field_mask |= UCT_COMPONENT_ATTR_FIELD_MD_RESOURCES;
    if (!search->library->uct_component_query(component, &attributes))
        for (unsigned i = 0; i < attributes.md_resource_count; i++)
            look_at_domain(search, component, attributes.md_resources[i].md_name);
    free(attributes.md_resources);
}

tutti_status devices_find(const struct caller *caller, const struct ucx_library *library,
                          struct ucx_options *options, struct ucx_devices *ret_devices)
{
    struct ucx_devices devices = {.list = NULL};
    struct search search = {.library = library, .options = options, .devices = &devices};
    uct_component_h *components;
    unsigned count;

    if (!library->has_uct || library->uct_query_components(&components, &count)) {
        *ret_devices = devices;
        return TUTTI_OK;
    }
    for (unsigned i = 0; i < count; i++)
        look_at_component(&search, components[i]);
    library->uct_release_component_list(components);
    if (search.no_memory) {
        devices_free(&devices);
        return fail(caller, TUTTI_ERR_NO_MEMORY, 0, "no memory for the list of UCX's devices");
    }
    *ret_devices = devices;
    return TUTTI_OK;
}

void devices_free(struct ucx_devices *devices)
{
    free(devices->list);
    *devices = (struct ucx_devices){.list = NULL};
}
