/* SPDX-License-Identifier: Apache-2.0 */
/* A host that has no port left for a listener. As root, else skipped. */
#include <criterion/criterion.h>
#include <stdio.h>

#include <tutti/tutti.h>

#include "control/inside.h"
#include "harness/net.h"

Test(ports, a_host_without_a_free_port_says_so, .timeout = 30)
{
    char reason[256];
    struct net *net = net_create(1, reason, sizeof reason);
    struct control *first, *second;

    if (!net)
        cr_skip_test("%s", reason);
    const int back = net_enter(net_name(net, 0));
    FILE *range = fopen("/proc/sys/net/ipv4/ip_local_port_range", "w");

    if (back < 0 || !range || fputs("40000 40000", range) < 0 || fclose(range))
        cr_skip_test("the range of ports cannot be set here");
    cr_assert_eq(control_open(0, 2, "world", NULL, "127.0.0.1", &first), TUTTI_OK);
    cr_expect_eq(control_open(0, 2, "world", NULL, "127.0.0.1", &second), TUTTI_ERR_SYSTEM);
    cr_expect_not_null(strstr(tutti_last_error(), "cannot listen on 127.0.0.1: no port of "
                                                  "net.ipv4.ip_local_port_range is free there"),
                       "%s", tutti_last_error());
    control_close(first);
    net_leave(back);
    net_destroy(net);
}
