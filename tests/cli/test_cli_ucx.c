/* SPDX-License-Identifier: Apache-2.0 */
/* What UCX's log says of the settings that it has from tutti. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

#define SIZE "TX_SEG_SIZE=64k"

static void need_ucx(void)
{
    if (access(TUTTI_PLUGINS "/libtutti-ucx.so", R_OK))
        cr_skip_test("the plugin ucx is not part of this build");
}

TestSuite(cli_ucx, .init = need_ucx, .timeout = 60);

static struct ran hello(const char *variables)
{
    struct ran it = ran("TUTTI_DEBUG=DETAIL UCX_LOG_LEVEL=debug %s $TUTTI run -n 2 --backend ucx "
                        "'%s/hello' 2>&1 | grep -e 'warning: ucx' -e 'apply UCT' -e 'over ucx'",
                        variables, TUTTI_TEST_PROGRAMS);

    cr_expect_eq(it.code, 0, "%s", variables);
    return it;
}

Test(cli_ucx, sockets_send_in_parts_of_64_kib)
{
    struct ran it = hello("TUTTI_UCX_TLS=tcp");

    CONTAINS(it.out, "apply UCT configuration ");
    CONTAINS(it.out, SIZE);
    ran_free(&it);
}

Test(cli_ucx, sizes_of_parts_that_a_user_has_set_stay)
{
    static const char *const set[] = {"TUTTI_UCX_TLS=tcp UCX_TCP_TX_SEG_SIZE=8k",
                                      "TUTTI_UCX_TLS=tcp UCX_TCP_RX_SEG_SIZE=16k"};

    for (size_t i = 0; i < sizeof set / sizeof set[0]; i++) {
        struct ran it = hello(set[i]);

        LACKS(it.out, SIZE);
        ran_free(&it);
    }
}

Test(cli_ucx, without_sockets_nothing_is_said_of_their_parts)
{
    struct ran it = hello("TUTTI_UCX_TLS=posix");

    LACKS(it.out, SIZE);
    ran_free(&it);
}
