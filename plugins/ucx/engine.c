/* SPDX-License-Identifier: Apache-2.0 */
#include "engine.h"

#include "devices.h"
#include "library.h"

#include <dirent.h>
#include <string.h>

tutti_status ucx_engine(const tutti_host *host, void *host_self, tutti_engine_version *ret_version)
{
    const struct caller caller = {.host = host, .self = host_self};
    const struct ucx_library *library;
    tutti_status status = library_open(&caller, &library);

    if (status)
        return status;
    ret_version->major = library->major;
    ret_version->minor = library->minor;
    ret_version->patch = library->patch;
    if (ret_version->struct_size >= sizeof *ret_version) /* the core is of minor 8 or later */
        ret_version->flags = TUTTI_ENGINE_SAME_MINOR;
    snprintf(ret_version->name, sizeof ret_version->name, "UCX");
    return TUTTI_OK;
}

/* Whether the kernel knows a device that UCX reaches other hosts by. Every process of `auto` asks, and most
 * hosts have none: there UCX is not even opened. */
static bool kernel_has_fabric(void)
{
    static const char *const classes[] = {"/sys/class/infiniband", "/sys/class/infiniband_verbs"};
    bool found = false;

    for (size_t i = 0; i < sizeof classes / sizeof classes[0] && !found; i++) {
        DIR *folder = opendir(classes[i]);

        for (const struct dirent *entry; folder && !found && (entry = readdir(folder));)
            found = *entry->d_name != '.';
        if (folder)
            closedir(folder);
    }
    return found;
}

int32_t ucx_fabric(const tutti_host *host, void *host_self)
{
    const struct caller caller = {.host = host, .self = host_self};
    const struct ucx_library *library;
    struct ucx_devices devices;

    if (!kernel_has_fabric() || library_open(&caller, &library) ||
        devices_find(&caller, library, NULL, &devices))
        return 0;
    const bool found = devices_have_fabric(&devices);
    devices_free(&devices);
    return found;
}

void ucx_describe(const tutti_host *host, void *host_self, char *ret_words, uint64_t capacity)
{
    const struct caller caller = {.host = host, .self = host_self};
    const struct ucx_library *library;
    struct ucx_devices devices;

    if (library_open(&caller, &library) || devices_find(&caller, library, NULL, &devices))
        return;
    int used = snprintf(ret_words, capacity, "UCX %s, %s; ", library->version, library->path);
    for (size_t i = 0; i < devices.count && used > 0 && (uint64_t)used < capacity; i++) {
        const bool same = i && !strcmp(devices.list[i].transport, devices.list[i - 1].transport);

        used += snprintf(ret_words + used, capacity - (uint64_t)used, "%s%s%s%s",
                         same || !i ? "" : "; ", same ? ", " : devices.list[i].transport,
                         same ? "" : ": ", devices.list[i].name);
    }
    devices_free(&devices);
}
