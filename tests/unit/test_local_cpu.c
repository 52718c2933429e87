/* SPDX-License-Identifier: Apache-2.0 */
/* Which local peers are on the CPU of a waiting thread. */
#include <criterion/criterion.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "local/local.h"

enum { MEMBERS = 3 };

/* Nobody has waited; then one has, on the CPU of this process; it sleeps; it is awake; it has left. */
Test(local_cpu, is_shared_with_a_local_peer_that_waited_there_and_is_awake, .timeout = 10)
{
    const size_t bytes = sizeof(struct local_page) + MEMBERS * sizeof(struct local_line);
    struct local_page *page = aligned_alloc(_Alignof(struct local_page), bytes);
    struct local_peers own = {.count = MEMBERS, .self = 0}, peer = {.count = MEMBERS, .self = 2};
    cpu_set_t one;

    cr_assert(page);
    own.page = peer.page = memset(page, 0, bytes);
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    cr_assert_eq(sched_setaffinity(0, sizeof one, &one), 0);

    cr_expect_not(local_shares_cpu(&own, true));
    cr_expect_not(local_shares_cpu(&peer, false));
    cr_expect(local_shares_cpu(&own, true));
    cr_expect_not(local_shares_cpu(&own, false));
    local_sleep(&peer);
    cr_expect_not(local_shares_cpu(&own, true));
    local_awake(&peer);
    cr_expect(local_shares_cpu(&own, true));
    atomic_store(&page->lines[peer.self].left, 1);
    cr_expect_not(local_shares_cpu(&own, true));
    free(page);
}
