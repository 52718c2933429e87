/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program with an MPI of its own, which it initialises, uses and finalizes itself, and tutti
 * beside it: `own_mpi-openmpi LEVEL:WHO[:END]`, as a job of three processes.
 *
 * LEVEL  single, funneled, serialized, multiple: what the program asks MPI for
 * WHO    first: MPI is initialised before tutti_init(); second: between a world over tcp and one over
 *        MPI; tutti: by tutti_init()
 * END    kill: process 1 kills itself; the others leave by exit(), as MPI_Finalize() might wait for it;
 *        thread: process 0 calls tutti from a thread that may not; early: MPI is finalized before the
 *        world is left; differ: the members call different things
 *
 * Below MULTIPLE the program allows one thread at a time in MPI, and calls of tutti count as calls of
 * MPI: so it holds its lock around them, and waits by testing. The functions of MPI that tutti's
 * engine calls most are replaced here, which tells calls that come without the lock.
 */
#include <mpi.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/tutti.h>

enum { ROUNDS = 60, COUNT = 1000, TAG = 77, PROCESSES = 3 };

static int level, rank, size;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static _Thread_local bool holds;
static atomic_int intruders, seen;
static bool differs; /* from the others in its last calls */

_Noreturn static void fail(const char *what, const char *why)
{
    printf("own_mpi: rank %d: %s: %s\n", rank, what, why);
    fflush(stdout);
    _exit(1);
}

#define REQUIRE(condition)                                                                         \
    do {                                                                                           \
        if (!(condition))                                                                          \
            fail(#condition, "does not hold");                                                     \
    } while (0)

static void require_ok(tutti_status status, const char *what)
{
    if (status)
        fail(what, tutti_last_error());
}

static void enter(void)
{
    if (level < MPI_THREAD_MULTIPLE)
        pthread_mutex_lock(&lock);
    holds = true;
}

static void leave(void)
{
    holds = false;
    if (level < MPI_THREAD_MULTIPLE)
        pthread_mutex_unlock(&lock);
}

/* ---- what stands in front of MPI ----------------------------------------------------------- */

static void look(void)
{
    atomic_fetch_add(&seen, 1);
    if (!holds && level < MPI_THREAD_MULTIPLE)
        atomic_fetch_add(&intruders, 1);
}

int MPI_Isend(const void *data, int count, MPI_Datatype type, int to, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    look();
    return PMPI_Isend(data, count, type, to, tag, comm, request);
}

int MPI_Irecv(void *data, int count, MPI_Datatype type, int from, int tag, MPI_Comm comm,
              MPI_Request *request)
{
    look();
    return PMPI_Irecv(data, count, type, from, tag, comm, request);
}

int MPI_Iallreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op,
                   MPI_Comm comm, MPI_Request *request)
{
    look();
    return PMPI_Iallreduce(in, out, count, type, op, comm, request);
}

int MPI_Comm_create_group(MPI_Comm comm, MPI_Group group, int tag, MPI_Comm *made)
{
    look();
    return PMPI_Comm_create_group(comm, group, tag, made);
}

int MPI_Test(MPI_Request *request, int *done, MPI_Status *status)
{
    look();
    return PMPI_Test(request, done, status);
}

int MPI_Testsome(int count, MPI_Request requests[], int *found, int indices[],
                 MPI_Status statuses[])
{
    look();
    return PMPI_Testsome(count, requests, found, indices, statuses);
}

/* ---- the program's own messages ------------------------------------------------------------ */

static void await(MPI_Request *request)
{
    for (int done = 0; !done; sched_yield()) {
        enter();
        REQUIRE(MPI_Test(request, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS);
        leave();
    }
}

/* A number goes round to the right. */
static void pass_on(int round)
{
    MPI_Request requests[2];
    int out = round * size + rank, in = -1, left = (rank + size - 1) % size;

    enter();
    REQUIRE(!MPI_Irecv(&in, 1, MPI_INT, left, TAG, MPI_COMM_WORLD, &requests[0]));
    REQUIRE(!MPI_Isend(&out, 1, MPI_INT, (rank + 1) % size, TAG, MPI_COMM_WORLD, &requests[1]));
    leave();
    await(&requests[0]);
    await(&requests[1]);
    REQUIRE(in == round * size + left);
}

static void *pass_on_for_long(void *unused)
{
    for (int round = 0; round < ROUNDS; round++)
        pass_on(round);
    return unused;
}

/* ---- tutti beside it ----------------------------------------------------------------------- */

static void finish(tutti_work *work)
{
    for (int32_t done = 0; !done; sched_yield()) {
        enter();
        require_ok(tutti_work_test(work, &done), "a work");
        leave();
    }
    enter();
    tutti_work_free(work);
    leave();
}

static void reduce_once(tutti_group *group, int round)
{
    static float values[COUNT];
    const int members = tutti_group_size(group);
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F32, &shape, COUNT);
    tutti_work *work;

    for (int i = 0; i < COUNT; i++)
        values[i] = (float)(rank + round);
    enter();
    require_ok(tutti_all_reduce(group, &tensor, TUTTI_SUM, NULL, &work), "all_reduce");
    leave();
    if (round == 0) /* nobody waits: a thread of tutti's would go on with it now */
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    finish(work);
    for (int i = 0; i < COUNT; i++)
        REQUIRE(values[i] == (float)(members * (members - 1) / 2 + members * round));
}

static void exchange(tutti_group *group, int round)
{
    int32_t out = 10 * round + rank, in = -1;
    int64_t shape[2];
    tutti_tensor sent = tutti_tensor_1d(&out, TUTTI_I32, &shape[0], 1);
    tutti_tensor received = tutti_tensor_1d(&in, TUTTI_I32, &shape[1], 1);
    tutti_work *works[2];

    enter();
    require_ok(tutti_irecv(group, &received, TUTTI_ANY_SOURCE, round, NULL, &works[0]), "irecv");
    require_ok(tutti_isend(group, &sent, (rank + 1) % size, round, NULL, &works[1]), "isend");
    leave();
    finish(works[0]);
    finish(works[1]);
    REQUIRE(in == 10 * round + (rank + size - 1) % size);
}

static void work_with(tutti_group *world)
{
    for (int round = 0; round < ROUNDS; round++) {
        reduce_once(world, round);
        exchange(world, round);
        if (level < MPI_THREAD_SERIALIZED)
            pass_on(round);
    }
}

static tutti_group *open_world(const char *backend)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.backend = backend;
    enter();
    require_ok(tutti_init(&options, &world), "tutti_init");
    leave();
    REQUIRE(!strcmp(tutti_group_backend(world), backend));
    return world;
}

static void close_world(tutti_group *world)
{
    enter();
    (void)tutti_group_destroy(world); /* which says again what ended it */
    leave();
}

/* Below SERIALIZED another thread has no business in MPI. */
static void *come_from_another_thread(void *user)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;

    options.backend = "mpi";
    REQUIRE(tutti_init(&options, &world) != TUTTI_OK);
    REQUIRE(strstr(tutti_last_error(), "for its first thread alone"));
    return user;
}

static void in_a_thread(void *(*body)(void *))
{
    pthread_t thread;

    REQUIRE(!pthread_create(&thread, NULL, body, NULL));
    REQUIRE(!pthread_join(thread, NULL));
}

static void work_beside_a_thread(tutti_group *world)
{
    pthread_t other;

    REQUIRE(!pthread_create(&other, NULL, pass_on_for_long, NULL));
    work_with(world);
    REQUIRE(!pthread_join(other, NULL));
}

/* Processes that differ from process 0 get more from it than they ask for, and it gets nothing. */
static tutti_status call_in_vain(tutti_group *world)
{
    static float values[COUNT], others[COUNT];
    const int count = differs && rank == 0 ? COUNT - COUNT % PROCESSES : PROCESSES;
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F32, &shape, count), other = tensor;

    other.data = others;
    if (!differs)
        return tutti_all_reduce(world, &tensor, TUTTI_SUM, NULL, NULL);
    return rank == 0 ? tutti_all_to_all(world, &tensor, &other, NULL, NULL)
                     : tutti_broadcast(world, &tensor, 0, NULL, NULL);
}

/* Says how it ends. */
static void *reduce_in_vain(void *world)
{
    tutti_status status = TUTTI_OK;

    enter();
    for (int i = 0; i < 2 && !status; i++)
        status = call_in_vain(world);
    printf("own_mpi: rank %d: %s: %s\n", rank, tutti_status_name(status), tutti_last_error());
    leave();
    return world;
}

/* What ends the world: the others hear it, too. */
static void end(tutti_group *world, const char *how)
{
    pthread_t other;

    enter();
    REQUIRE(!MPI_Barrier(MPI_COMM_WORLD)); /* the end is for nobody's work before */
    leave();
    if (!strcmp(how, "kill") && rank == 1)
        raise(SIGKILL);
    if (!strcmp(how, "early"))
        MPI_Finalize();
    differs = !strcmp(how, "differ");
    if (!strcmp(how, "thread") && rank == 0) {
        REQUIRE(!pthread_create(&other, NULL, reduce_in_vain, world));
        REQUIRE(!pthread_join(other, NULL));
    } else {
        reduce_in_vain(world);
    }
}

/* ---- the order of things ------------------------------------------------------------------- */

static int level_of(const char *name)
{
    static const char *const words[] = {"single", "funneled", "serialized", "multiple"};
    static const int levels[] = {MPI_THREAD_SINGLE, MPI_THREAD_FUNNELED, MPI_THREAD_SERIALIZED,
                                 MPI_THREAD_MULTIPLE};

    for (int i = 0; i < 4; i++)
        if (!strcmp(words[i], name))
            return levels[i];
    fail(name, "is no level");
}

static void start_mpi(int wanted)
{
    enter();
    if (wanted == MPI_THREAD_SINGLE)
        REQUIRE(!MPI_Init(NULL, NULL));
    else
        REQUIRE(!MPI_Init_thread(NULL, NULL, wanted, &level));
    MPI_Query_thread(&level);
    leave();
    REQUIRE(level == wanted);
}

/* What stands for the launcher in the first world, which has nothing to do with MPI. */
static void name_ourselves(void)
{
    const char *of_openmpi = getenv("OMPI_COMM_WORLD_RANK"), *of_mpich = getenv("PMI_RANK");
    char words[16];

    snprintf(words, sizeof words, "%d", PROCESSES);
    setenv("RANK", of_openmpi ? of_openmpi : of_mpich ? of_mpich : "0", 1);
    setenv("WORLD_SIZE", words, 1);
}

static void find_place(void)
{
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &size);
}

int main(int argc, char **argv)
{
    char asked[16] = "", who[16] = "", how[16] = "";
    tutti_group *over_tcp = NULL, *world;
    int there = 0, ended = 0;

    REQUIRE(argc == 2 && sscanf(argv[1], "%15[^:]:%15[^:]:%15s", asked, who, how) >= 2);
    const bool is_first = !strcmp(who, "first"), is_second = !strcmp(who, "second");
    level = level_of(asked);
    if (is_second) {
        name_ourselves();
        over_tcp = open_world("tcp");
    }
    if (is_first || is_second)
        start_mpi(level);
    if (is_first && level == MPI_THREAD_FUNNELED)
        in_a_thread(come_from_another_thread);
    world = open_world("mpi");
    MPI_Initialized(&there);
    MPI_Query_thread(&level);
    REQUIRE(there && level == level_of(asked));
    find_place();
    if (level < MPI_THREAD_SERIALIZED)
        work_with(world);
    else
        work_beside_a_thread(world);
    if (over_tcp)
        reduce_once(over_tcp, 0);
    REQUIRE(atomic_load(&seen) > ROUNDS && atomic_load(&intruders) == 0);
    if (*how)
        end(world, how);
    close_world(world);
    if (over_tcp)
        close_world(over_tcp);
    MPI_Finalized(&ended);
    REQUIRE(ended == !strcmp(how, "early"));
    if ((is_first || is_second) && !*how)
        MPI_Finalize();
    printf("own_mpi: rank %d of %d is done\n", rank, size);
    return 0;
}
