/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks over Gloo that look at what it holds in their own process. */
#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include "rank_tell.h"

enum { DESCRIPTORS_MAX = 1024, GROUPS = 3, TAG = 5 };

/* ---- what is left behind ------------------------------------------------------------------------ */

/* The core's own thread begins when it likes, and stays. */
static bool is_core(const char *task)
{
    char path[320], name[32] = "";

    snprintf(path, sizeof path, "/proc/self/task/%s/comm", task);
    FILE *file = fopen(path, "re");
    if (file && !fgets(name, sizeof name, file))
        *name = 0;
    if (file)
        fclose(file);
    return !strcmp(name, "tutti-engine\n");
}

static int entries_of(const char *folder, bool (*left_out)(const char *name))
{
    DIR *directory = opendir(folder);
    int count = 0;

    require(directory);
    for (struct dirent *entry; (entry = readdir(directory));)
        count += *entry->d_name != '.' && !(left_out && left_out(entry->d_name));
    closedir(directory);
    return count;
}

/* Sockets are descriptors, too. */
struct held {
    int descriptors, threads;
};

static struct held held_now(void)
{
    return (struct held){entries_of("/proc/self/fd", NULL), entries_of("/proc/self/task", is_core)};
}

static void check_held(struct held before, const char *after)
{
    const struct held now = held_now();

    rank_value(after, "%d descriptors, %d threads; %d and %d before", now.descriptors, now.threads,
               before.descriptors, before.threads);
    check_eq(now.descriptors, before.descriptors);
    check_eq(now.threads, before.threads);
}

static tutti_group *join(const char *backend)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world = NULL;

    options.backend = backend;
    require_ok(tutti_init(&options, &world));
    return world;
}

/* An operation of Gloo's own, one of the core's over its messages, and a message: all connections. */
static void use(tutti_group *group)
{
    const int rank = tutti_group_rank(group), size = tutti_group_size(group);
    int64_t one = 1;
    float x = 1, y = 0;
    tutti_tensor t = {.data = &x, .device = {TUTTI_DEVICE_CPU, 0}, .ndim = 1, .dtype = TUTTI_F32};
    tutti_tensor u = t;
    tutti_work *work = NULL;

    t.shape = u.shape = &one;
    u.data = &y;
    check_ok(tutti_all_reduce(group, &t, TUTTI_SUM, NULL, NULL));
    check_near(x, size, 0);
    check_ok(tutti_all_reduce(group, &t, TUTTI_AVG, NULL, NULL));
    check_near(x, size, 0);
    check_ok(tutti_irecv(group, &u, (rank + size - 1) % size, TAG, NULL, &work));
    check_ok(tutti_send(group, &t, (rank + 1) % size, TAG, NULL));
    check_ok(tutti_work_wait(work, 0));
    check_near(y, size, 0);
    tutti_work_free(work);
}

RANK_CASE(nothing_is_left_of_groups)
{
    tutti_group *world = join("tcp"), *group;

    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world)); /* what the process keeps is there now */
    const struct held without = held_now();

    world = join("gloo");
    use(world);
    const struct held with = held_now();
    check(with.threads > without.threads);
    for (int i = 0; i < GROUPS; i++) {
        require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
        use(group);
        check_ok(tutti_group_destroy(group));
        check_held(with, "after a group");
    }
    require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    use(group);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_abort(group, "to see what is left"));
    check_status(tutti_group_destroy(group), TUTTI_ERR_ABORTED);
    check_held(with, "after a group that failed");
    check_ok(tutti_barrier(world, NULL, NULL)); /* a rank that leaves takes its connections along */
    check_ok(tutti_group_destroy(world));
    check_held(without, "after the world");
}

/* ---- memory of what failed ----------------------------------------------------------------------- */

static void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    require(memory != MAP_FAILED);
    return memory;
}

/* An operation of Gloo's own, or messages in both directions, that is ended after `pause_ms`. True: it was
 * not complete. */
static bool end_half_way(tutti_group *world, bool messages, int pause_ms)
{
    enum { COUNT = 8 << 20 };
    const int rank = tutti_group_rank(world), size = tutti_group_size(world);
    float *out = map(COUNT * sizeof *out), *in = map(COUNT * sizeof *in);
    tutti_work *works[2] = {NULL, NULL};
    tutti_group *group;
    int64_t count;
    const tutti_tensor t = tutti_tensor_1d(out, TUTTI_F32, &count, COUNT);
    const tutti_tensor u = tutti_tensor_1d(in, TUTTI_F32, &count, COUNT);

    require_ok(tutti_group_new(world, NULL, 0, NULL, &group));
    tutti_status status =
        tutti_barrier(group, NULL, NULL); /* a late rank hears of the abort here */
    if (!status && messages) {
        status = tutti_irecv(group, &u, (rank + size - 1) % size, TAG, NULL, &works[0]);
        status = status ? status : tutti_isend(group, &t, (rank + 1) % size, TAG, NULL, &works[1]);
    } else if (!status) {
        status = tutti_all_reduce(group, &t, TUTTI_SUM, NULL, &works[0]);
    }
    rank_sleep_ms(pause_ms);
    if (rank == 0)
        check_ok(tutti_group_abort(group, "half-way"));
    status = rank_end_works(works, 2, status);
    check(!status || status == TUTTI_ERR_ABORTED);
    /* A thread that still read or wrote it would fail, or crash. */
    munmap(out, COUNT * sizeof *out);
    munmap(in, COUNT * sizeof *in);
    rank_value(messages ? "messages" : "all_reduce", "%d ms: %s", pause_ms,
               tutti_status_name(status));
    tutti_group_destroy(group); /* a rank that was done may leave before it hears of the abort */
    return status;
}

RANK_CASE(memory_is_the_programs_again_after_an_abort)
{
    tutti_group *world = join(NULL);
    int ended[2] = {0};

    for (int pause_ms = 0; pause_ms < 24; pause_ms += 3)
        for (int messages = 0; messages < 2; messages++)
            ended[messages] += end_half_way(world, messages, pause_ms);
    check(ended[0] && ended[1]);
    check_ok(tutti_barrier(world, NULL, NULL));
    check_ok(tutti_group_destroy(world));
}

/* ---- its connections end, and nobody dies -------------------------------------------------------- */

static int port_of(int fd, int (*which)(int, struct sockaddr *restrict, socklen_t *restrict))
{
    struct sockaddr_in address;
    socklen_t bytes = sizeof address;

    if (which(fd, (struct sockaddr *)&address, &bytes) || address.sin_family != AF_INET)
        return -1;
    return ntohs(address.sin_port);
}

/* Gloo's alone: the control connections are kept alive, and the store is known by its port. */
static int cut_connections(void)
{
    const int store = number_of("MASTER_PORT", -1);
    int cut = 0;

    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++) {
        int kept_alive = 1;
        socklen_t bytes = sizeof kept_alive;
        const int peer = port_of(fd, getpeername);

        if (peer < 0 || peer == store ||
            getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &kept_alive, &bytes) || kept_alive)
            continue;
        check(shutdown(fd, SHUT_RDWR) == 0);
        cut++;
    }
    return cut;
}

RANK_CASE(one_cuts_its_connections)
{
    tutti_group *world = join(NULL);
    int64_t one = 1;
    float x = 1;
    tutti_tensor t = {
        .data = &x, .device = {TUTTI_DEVICE_CPU, 0}, .ndim = 1, .dtype = TUTTI_F32, .shape = &one};
    tutti_status status = TUTTI_OK;

    check_ok(tutti_barrier(world, NULL, NULL));
    rank_point("open");
    rank_await("go");
    if (rank == victim())
        check(cut_connections() >= size - 1);
    rank_point("going");
    while (!status)
        status = tutti_all_reduce(world, &t, TUTTI_SUM, NULL, NULL);
    tell(status);
    check_status(tutti_group_destroy(world), status);
}
