/* SPDX-License-Identifier: Apache-2.0 */
/* The devices that the plugin ucc names to UCX, from folders like the kernel's. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ucc/ports.h"

TestSuite(ucc_ports, .timeout = 20);

static char folder[32];

/* Runs a command of the shell in the folder. */
static void in_folder(const char *command)
{
    char line[512];

    snprintf(line, sizeof line, "cd %s && %s", folder, command);
    cr_assert_eq(system(line), 0, "%s", line);
}

static void make_folder(void)
{
    strcpy(folder, "/tmp/tutti-ports-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    in_folder("rm -r \"$PWD\"");
}

/* What is added to "eth0"; the order of adapters is that of the folder. */
static const char *added(size_t capacity)
{
    static char list[256];

    snprintf(list, sizeof list, "eth0");
    ports_add_fabric(folder, list, capacity);
    return list;
}

Test(ucc_ports, active_ports_of_adapters_are_listed, .init = make_folder, .fini = remove_folder)
{
    cr_expect_str_eq(added(256), "eth0");
    in_folder("mkdir -p mlx5_0/ports/1 mlx5_0/ports/2 nothing && echo '4: ACTIVE' "
              ">mlx5_0/ports/1/state && "
              "echo '1: DOWN' >mlx5_0/ports/2/state");
    cr_expect_str_eq(added(256), "eth0,mlx5_0:1");
    in_folder("echo '4: ACTIVE' >mlx5_0/ports/2/state");
    const char *both = added(256);
    cr_expect(!strcmp(both, "eth0,mlx5_0:1,mlx5_0:2") || !strcmp(both, "eth0,mlx5_0:2,mlx5_0:1"),
              "%s", both);
}

Test(ucc_ports, a_list_has_whole_names_only, .init = make_folder, .fini = remove_folder)
{
    in_folder("mkdir -p mlx5_0/ports/1 && echo '4: ACTIVE' >mlx5_0/ports/1/state");
    cr_expect_str_eq(added(sizeof "eth0,mlx5_0:1"), "eth0,mlx5_0:1");
    cr_expect_str_eq(added(sizeof "eth0,mlx5_0:1" - 1), "eth0");
}

Test(ucc_ports, no_folder_has_no_ports)
{
    strcpy(folder, "/nowhere");
    cr_expect_str_eq(added(256), "eth0");
}

/* Some releases of UCX leave bridges out. */
Test(ucc_ports, a_bridge_is_no_interface_of_ucx, .init = make_folder, .fini = remove_folder)
{
    in_folder("mkdir -p eth0 br0/bridge");
    cr_expect(ports_have_interface(folder, "eth0"));
    cr_expect_not(ports_have_interface(folder, "br0"));
    cr_expect_not(ports_have_interface(folder, "eth1"));
}
