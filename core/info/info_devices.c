/* SPDX-License-Identifier: Apache-2.0 */
/* What a plugin for devices finds. Nothing is attached: that would take seconds, and memory of each device. */
#include <tutti/plugin_device.h>

#include "base/error.h"
#include "base/text.h"
#include "info/info.h"
#include "plugin/host.h"
#include "plugin/plugin.h"

static void add_device(const tutti_device_ops *ops, tutti_driver *driver, int32_t number,
                       const char *name, struct text *lines)
{
    tutti_accelerator_info info = {.struct_size = sizeof info};
    char size[INFO_SIZE_TEXT];

    if (ops->device(driver, number, &info))
        text_add(lines, "\n%s:%d: %s", name, number, error_message());
    else
        text_add(lines, "\n%s:%d: %s, %s, %s%s%s", name, number, info.name,
                 info_size(info.bytes, size), info.uuid_text, *info.bus ? ", " : "", info.bus);
}

static void describe(const tutti_device_ops *ops, tutti_driver *driver, const char *name,
                     struct text *lines)
{
    tutti_driver_info info = {.struct_size = sizeof info};

    if (ops->describe(driver, &info)) {
        text_add(lines, "%s", error_message());
        return;
    }
    text_add(lines, "driver %s%s%s, %u device%s", info.name, *info.path ? ", " : "", info.path,
             info.device_count, info.device_count == 1 ? "" : "s");
    for (uint32_t i = 0; i < info.device_count; i++)
        add_device(ops, driver, (int32_t)i, name, lines);
}

bool info_devices(const tutti_plugin *plugin, char ret_lines[static INFO_DEVICES_TEXT])
{
    const tutti_device_ops *ops = plugin_ops(plugin, TUTTI_PROVIDER_DEVICE);
    struct text lines = text_in(ret_lines, INFO_DEVICES_TEXT);
    const uint64_t errors = error_number();
    tutti_driver *driver;

    if (!ops)
        return true;
    if (ops->open(&host_bare, host_self_of(plugin->name), &driver)) {
        if (!error_since(errors))
            error_set(TUTTI_ERR_PLUGIN, "%s does not find its driver and gave no reason",
                      plugin->name);
        return false;
    }
    describe(ops, driver, plugin->name, &lines);
    ops->close(driver);
    return true;
}
