/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that makes many groups over MPI at once: `own_groups-openmpi LEVEL[:late]`, as a job of three
 * processes.
 *
 * LEVEL  multiple, serialized: what MPI grants to tutti, which asks for multiple. Where it is serialized,
 *        members meet by messages before they go into MPI_Comm_create_group, and a group is refused where
 *        another one is made at the time.
 * late   process 1 is so late in MPI_Comm_create_group that the others give up
 *
 * Functions of MPI are replaced here. They count communicators, tell of two threads in MPI at once, and
 * make tags rare, so that groups which share one would soon meet each other. Numbers of the plugin's are
 * not used twice.
 */
#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { THREADS = 3, ROUNDS = 15, TAGS = 1 << 16, GIVES_UP_MS = 2500, FREED_S = 30 };

static int level, rank;
static atomic_int good, made, freed, inside, overlaps;
static atomic_bool is_late;          /* until it has given up */
static atomic_bool tag_in_use[TAGS]; /* by a communicator that this process makes */

_Noreturn static void fail(const char *what, const char *why)
{
    printf("own_groups: rank %d: %s: %s\n", rank, what, why);
    fflush(stdout);
    _exit(1);
}

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(#condition, tutti_last_error());                                                  \
    } while (0)

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* ---- what stands in front of MPI ----------------------------------------------------------- */

static void enter(void)
{
    if (atomic_fetch_add(&inside, 1) > 0)
        atomic_fetch_add(&overlaps, 1);
}

static int leave(int code)
{
    atomic_fetch_sub(&inside, 1);
    return code;
}

int MPI_Init_thread(int *argc, char ***argv, int wanted, int *granted)
{
    REQUIRE(wanted == MPI_THREAD_MULTIPLE);
    return PMPI_Init_thread(argc, argv, level, granted);
}

int MPI_Comm_get_attr(MPI_Comm comm, int key, void *ret_value, int *ret_there)
{
    static int bound = TAGS - 1;

    if (key != MPI_TAG_UB)
        return PMPI_Comm_get_attr(comm, key, ret_value, ret_there);
    *(int **)ret_value = &bound;
    *ret_there = 1;
    return MPI_SUCCESS;
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *ret_made)
{
    REQUIRE(tag >= 0 && tag < TAGS);
    REQUIRE(!atomic_exchange(&tag_in_use[tag], true));
    while (atomic_load(&is_late))
        sleep_ms(1);
    enter();
    int code = PMPI_Comm_create_group(comm, group, tag, ret_made);
    if (code == MPI_SUCCESS && *ret_made != MPI_COMM_NULL)
        atomic_fetch_add(&made, 1);
    atomic_store(&tag_in_use[tag], false);
    return leave(code);
}

int MPI_Comm_free(MPI_Comm *comm)
{
    enter();
    atomic_fetch_add(&freed, 1);
    return leave(PMPI_Comm_free(comm));
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    enter();
    return leave(PMPI_Test(request, done, status));
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    REQUIRE(tag >= 0 && tag < TAGS);
    enter();
    return leave(PMPI_Isend(data, count, type, to, tag, comm, request));
}

/* ---- groups -------------------------------------------------------------------------------- */

static float sum_over(tutti_group *group, float value)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(&value, TUTTI_F32, &shape, 1);

    REQUIRE(!tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, NULL));
    return value;
}

/* They have members in common, and different first ones. */
static const int32_t lists[THREADS][3] = {{0, 1, 2}, {2, 1, 0}, {1, 2, 0}};

struct maker {
    pthread_t id;
    tutti_group *world;
    int number;
    bool may_be_refused;
};

static void *make_groups(void *user)
{
    static const char *const names[THREADS] = {"up", "down", "turned"};
    const struct maker *maker = user;
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;

    options.name = names[maker->number];
    for (int round = 0; round < ROUNDS; round++) {
        tutti_group *group;
        tutti_status status =
            tutti_group_new(maker->world, lists[maker->number], 3, &options, &group);

        if (maker->may_be_refused && status == TUTTI_ERR_UNSUPPORTED) {
            REQUIRE(strstr(tutti_last_error(), "make groups one after another"));
            continue;
        }
        REQUIRE(!status);
        atomic_fetch_add(&good, 1);
        REQUIRE(lists[maker->number][tutti_group_rank(group)] == rank);
        REQUIRE(sum_over(group, (float)(rank + round)) == (float)(3 + 3 * round));
        REQUIRE(!tutti_group_destroy(group));
    }
    return NULL;
}

static void make_one_after_another(tutti_group *world)
{
    for (int i = 0; i < THREADS; i++)
        make_groups(&(struct maker){.world = world, .number = i});
    REQUIRE(atomic_load(&good) == THREADS * ROUNDS);
}

/* In another order on each process. */
static void make_many_at_once(tutti_group *world)
{
    struct maker makers[THREADS];
    const bool may_be_refused = level < MPI_THREAD_MULTIPLE;

    for (int i = 0; i < THREADS; i++) {
        makers[i] = (struct maker){
            .world = world, .number = (i + rank) % THREADS, .may_be_refused = may_be_refused};
        REQUIRE(!pthread_create(&makers[i].id, NULL, make_groups, &makers[i]));
    }
    for (int i = 0; i < THREADS; i++)
        REQUIRE(!pthread_join(makers[i].id, NULL));
    REQUIRE(may_be_refused || atomic_load(&good) == 2 * THREADS * ROUNDS);
    REQUIRE(atomic_load(&made) == 1 + atomic_load(&good));
    REQUIRE(atomic_load(&freed) == atomic_load(&good));
}

/* What nobody has waited for any more is made in the end, and freed. */
static void give_one_up(tutti_group *world)
{
    tutti_group_options options = TUTTI_GROUP_OPTIONS_INIT;
    tutti_group *group;

    options.timeout_ms = GIVES_UP_MS;
    atomic_store(&is_late, rank == 1);
    REQUIRE(tutti_group_new(world, lists[1], 3, &options, &group) == TUTTI_ERR_TIMEOUT);
    atomic_store(&is_late, false);
    for (int tries = 0; atomic_load(&freed) < 1; tries++) {
        REQUIRE(tries < FREED_S * 100);
        sleep_ms(10);
    }
    REQUIRE(atomic_load(&made) == 2);
    REQUIRE(!tutti_group_new(world, lists[1], 3, NULL, &group));
    REQUIRE(sum_over(group, 1) == 3);
    REQUIRE(!tutti_group_destroy(group));
    REQUIRE(atomic_load(&made) == 3 && atomic_load(&freed) == 2);
}

int main(int argc, char **argv)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    char granted[16] = "", how[16] = "";
    tutti_group *world;

    REQUIRE(argc == 2 && sscanf(argv[1], "%15[^:]:%15s", granted, how) >= 1);
    level = strcmp(granted, "multiple") ? MPI_THREAD_SERIALIZED : MPI_THREAD_MULTIPLE;
    options.backend = "mpi";
    REQUIRE(!tutti_init(&options, &world));
    rank = tutti_group_rank(world);
    REQUIRE(sum_over(world, 1) == 3);
    REQUIRE(atomic_load(&made) == 1);
    if (*how) {
        give_one_up(world);
    } else {
        make_one_after_another(world);
        make_many_at_once(world);
    }
    REQUIRE(sum_over(world, 1) == 3);
    REQUIRE(!tutti_group_destroy(world));
    REQUIRE(atomic_load(&made) == atomic_load(&freed));
    REQUIRE(level == MPI_THREAD_MULTIPLE || !atomic_load(&overlaps));
    printf("own_groups: rank %d of %d is done\n", rank, 3);
    return 0;
}
