/* SPDX-License-Identifier: Apache-2.0 */
#include "ports.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

bool ports_have_interface(const char *folder, const char *interface)
{
    char path[PATH_MAX], bridge[PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", folder, interface);
    snprintf(bridge, sizeof bridge, "%s/%s/bridge", folder, interface);
    return !access(path, F_OK) && access(bridge, F_OK) != 0;
}

/* The kernel writes "4: ACTIVE". */
static bool is_active(DIR *ports, const char *port)
{
    char name[NAME_MAX + sizeof "/state"], words[32] = "";

    snprintf(name, sizeof name, "%s/state", port);
    const int fd = openat(dirfd(ports), name, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return false;
    const ssize_t bytes = read(fd, words, sizeof words - 1);
    close(fd);
    return bytes > 0 && strstr(words, ": ACTIVE");
}

static DIR *open_ports(DIR *adapters, const char *adapter)
{
    char name[NAME_MAX + sizeof "/ports"];

    snprintf(name, sizeof name, "%s/ports", adapter);
    const int fd = openat(dirfd(adapters), name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *ports = fd < 0 ? NULL : fdopendir(fd);
    if (fd >= 0 && !ports)
        close(fd);
    return ports;
}

static void add_adapter(DIR *adapters, const char *adapter, char *list, size_t capacity)
{
    DIR *ports = open_ports(adapters, adapter);

    for (const struct dirent *port; ports && (port = readdir(ports));) {
        const size_t used = strlen(list);

        if (*port->d_name != '.' && is_active(ports, port->d_name) &&
            used + strlen(adapter) + strlen(port->d_name) + sizeof ",:" <= capacity)
            snprintf(list + used, capacity - used, ",%s:%s", adapter, port->d_name);
    }
    if (ports)
        closedir(ports);
}

void ports_add_fabric(const char *folder, char *list, size_t capacity)
{
    DIR *all = opendir(folder);

    for (const struct dirent *adapter; all && (adapter = readdir(all));)
        if (*adapter->d_name != '.')
            add_adapter(all, adapter->d_name, list, capacity);
    if (all)
        closedir(all);
}
