/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that tell which sockets UCC has in them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "harness/sockets.h"
#include "rank_tell.h"

static void sum_ranks(tutti_group *world)
{
    const int32_t size = tutti_group_size(world);
    int32_t sum = tutti_group_rank(world);
    int64_t shape;
    const tutti_tensor tensor = tutti_tensor_1d(&sum, TUTTI_I32, &shape, 1);

    check_ok(tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL));
    check_eq(sum, size * (size - 1) / 2);
}

/* The sockets that a world leaves, which may use UCC's context of an earlier one. UCC's stay, and tutti's do not. */
static void tell_of_a_world(const struct sockets *before)
{
    tutti_group *world = NULL;

    require_ok(tutti_init(NULL, &world));
    sum_ranks(world);
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
    const struct sockets after = sockets_all();
    rank_value("connected", "%d", after.connected - before->connected);
    rank_value("listening", "%d", after.listening - before->listening);
    rank_value("elsewhere", "%d", after.elsewhere - before->elsewhere);
}

/* The victim alone has the variable TUTTI_TEST_SET. */
RANK_CASE(sockets_of_a_world)
{
    const struct sockets before = sockets_all();
    const char *set = getenv("TUTTI_TEST_SET");

    if (rank == victim())
        require(!putenv(strdup(set)));
    tell_of_a_world(&before);
}

/* A second world, of two hosts. */
RANK_CASE(sockets_of_a_later_world_on_two_hosts)
{
    const struct sockets before = sockets_all();

    tell_of_a_world(&before);
    require(!setenv("TUTTI_HOST", rank % 2 ? "odd" : "even", 1));
    tell_of_a_world(&before);
}

/* As in containers that have one network: where the system allows that, "apart". */
RANK_CASE(sockets_of_a_world_without_common_memory)
{
    const struct sockets before = sockets_all();

    rank_value("apart", "%d", !unshare(CLONE_NEWIPC));
    tell_of_a_world(&before);
}

/* The programs are started before, during and after the world. */
RANK_CASE(programs_that_it_starts_have_no_descriptor_of_ucc)
{
    tutti_group *world = NULL;
    const int before = descriptors_of_a_child();

    require_ok(tutti_init(NULL, &world));
    sum_ranks(world);
    check_eq(descriptors_of_a_child(), before);
    check_ok(tutti_barrier(world, 0, 0));
    check_ok(tutti_group_destroy(world));
    check_eq(descriptors_of_a_child(), before);
}
