/* SPDX-License-Identifier: Apache-2.0 */
#include "mock.h"

#include "check/plain_host.h"
#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

const struct encryption *mock_encryption;

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...)
{
    va_list args;

    fprintf(stderr, "%s:%d: failed: %s ", file, line, condition);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    _exit(1);
}

int64_t now_ms(void)
{
    return plain_now_ns(NULL) / 1000000;
}

uint32_t random_next(uint64_t *state)
{
    *state = *state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(*state >> 33);
}

static uint8_t pattern(uint64_t i, int from, uint64_t number)
{
    return (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16) + number * 31 + (uint64_t)from * 101);
}

void fill_pattern(uint8_t *data, uint64_t bytes, int from, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = pattern(i, from, number);
}

void check_pattern(const uint8_t *data, uint64_t bytes, int from, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        check(data[i] == pattern(i, from, number), "byte %llu of %llu of message %llu from %d",
              (unsigned long long)i, (unsigned long long)bytes, (unsigned long long)number, from);
}

/* ---- host services ------------------------------------------------------------------------- */

static void host_log(void *self, int32_t level, const char *words)
{
    (void)self;
    if (getenv("TRANSPORT_DRIVER_LOG"))
        fprintf(stderr, "log %d: %s\n", level, words);
}

static void *host_allocate(void *self, uint64_t bytes)
{
    struct member *member = self;

    if (member->allocations_left == 0)
        return NULL;
    if (member->allocations_left > 0)
        member->allocations_left--;
    return calloc(1, bytes);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    struct member *member = self;

    snprintf(member->words, sizeof member->words, "%s%s%s", words, system_errno ? ": " : "",
             system_errno ? strerror(system_errno) : "");
    return status;
}

static void host_wake_mate(void *self, tutti_host_mates *local, uint32_t index)
{
    uint64_t one = 1;

    (void)self;
    atomic_thread_fence(memory_order_seq_cst);
    if (atomic_load(&local->world->asleep[index]))
        check(write(local->world->doorbell[index], &one, sizeof one) == sizeof one);
}

static void host_peer_lost(void *self, uint64_t label, const char *words)
{
    struct member *member = self;

    check(label >= LABEL && label < LABEL + MEMBERS_MAX);
    member->times_lost[label - LABEL]++;
    snprintf(member->lost_words, sizeof member->lost_words, "%s", words);
}

struct tutti_exchange {
    uint32_t have;
    int32_t fd[MEMBERS_MAX];
};

static void send_descriptor(int socket, int fd)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    char byte = 0;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);

    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof fd);
    memcpy(CMSG_DATA(header), &fd, sizeof fd);
    check(sendmsg(socket, &message, 0) == 1);
}

static int receive_descriptor(int socket)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control;
    char byte;
    int fd;
    struct iovec piece = {&byte, 1};
    struct msghdr message = {.msg_iov = &piece,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};

    if (recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC) != 1)
        return -1;
    memcpy(&fd, CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof fd);
    return fd;
}

static tutti_status host_share_start(void *self, tutti_host_mates *local,
                                     const int32_t *descriptors, uint32_t count,
                                     tutti_exchange **ret_exchange)
{
    struct member *member = self;
    int fd = member->give_instead >= 0 ? member->give_instead : descriptors[0];

    check(count == 1);
    for (int i = 0; i < local->world->size; i++)
        if (i != member->rank)
            send_descriptor(local->world->socket[member->rank][i], fd);
    member->exchange = calloc(1, sizeof *member->exchange);
    memset(member->exchange->fd, 0xff, sizeof member->exchange->fd);
    member->exchange->fd[member->rank] = dup(descriptors[0]);
    *ret_exchange = member->exchange;
    return TUTTI_OK;
}

static tutti_status host_share_test(void *self, tutti_exchange *exchange, int32_t *ret_descriptors)
{
    struct member *member = self;

    for (int i = 0; i < member->world->size; i++)
        if (exchange->fd[i] < 0)
            exchange->fd[i] = receive_descriptor(member->world->socket[member->rank][i]);
    for (int i = 0; i < member->world->size; i++)
        if (exchange->fd[i] < 0)
            return TUTTI_ERR_NOT_READY;
    memcpy(ret_descriptors, exchange->fd, (size_t)member->world->size * sizeof(int32_t));
    member->exchange = NULL;
    free(exchange);
    return TUTTI_OK;
}

/* ---- members ------------------------------------------------------------------------------- */

struct world *world_new(const tutti_transport_ops *ops, int size)
{
    pthread_barrierattr_t shared;
    struct world *world =
        mmap(NULL, sizeof *world, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

    check(world != MAP_FAILED);
    world->ops = ops;
    world->size = size;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    check(pthread_barrier_init(&world->barrier, &shared, (unsigned)size) == 0);
    for (int i = 0; i < size; i++) {
        world->doorbell[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
        for (int j = 0; j < i; j++) {
            int pair[2];

            check(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0);
            world->socket[i][j] = pair[0];
            world->socket[j][i] = pair[1];
        }
    }
    return world;
}

void world_free(struct world *world)
{
    for (int i = 0; i < world->size; i++) {
        close(world->doorbell[i]);
        for (int j = 0; j < world->size; j++)
            if (j != i)
                close(world->socket[i][j]);
    }
    pthread_barrier_destroy(&world->barrier);
    munmap(world, sizeof *world);
}

static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    const struct member *member = self;

    plain_mac(member->token, data, bytes, ret_mac);
    return TUTTI_OK;
}

/* $TRANSPORT_DRIVER_HOST: "old", as the first minor had it, or "new", with members that nobody knows. */
static void set_age(tutti_host *host)
{
    const char *age = getenv("TRANSPORT_DRIVER_HOST");

    if (age && strcmp(age, "old") == 0) {
        host->struct_size = offsetof(tutti_host, reduce_local) + sizeof host->reduce_local;
        host->abi_minor = 1;
    } else if (age && strcmp(age, "new") == 0) {
        host->struct_size += LATER_BYTES;
        host->abi_minor += 97;
    }
}

void member_init(struct member *member, struct world *world, int rank)
{
    *member = (struct member){.rank = rank,
                              .world = world,
                              .local = {world},
                              .ops = world->ops,
                              .allocations_left = -1,
                              .give_instead = -1};
    member->map_bytes = 10000;
    member->token = 0x5a;
    member->host = (tutti_host){.struct_size = sizeof(tutti_host),
                                .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                .log = host_log,
                                .now_ns = plain_now_ns,
                                .allocate = host_allocate,
                                .release = plain_release,
                                .config = plain_config,
                                .error = host_error,
                                .share_start = host_share_start,
                                .share_test = host_share_test,
                                .wake_mate = host_wake_mate,
                                .peer_lost = host_peer_lost,
                                .mac = host_mac};
    if (mock_encryption)
        mock_encryption->begin(member);
    set_age(&member->host);
}

void member_open(struct member *member)
{
    tutti_endpoint_options options = {.struct_size = sizeof options,
                                      .rank = member->rank,
                                      .bind_address = member->bind_address,
                                      .run_id = "test",
                                      .size = member->world->size,
                                      .flags = mock_flags()};
    struct world *world = member->world;
    int rank = member->rank;

    memset(options.token, member->token, sizeof options.token);
    check(member->ops->open(&member->host, member, &options, &member->endpoint) == TUTTI_OK, "%s",
          member->words);
    check(member->ops->address(member->endpoint, world->address[rank], 3, NULL) ==
          TUTTI_ERR_INTERNAL);
    check(member->ops->address(member->endpoint, world->address[rank], sizeof world->address[rank],
                               &world->address_bytes[rank]) == TUTTI_OK);
}

void member_connect(struct member *member)
{
    struct world *world = member->world;

    for (int i = 0; i < world->size; i++)
        if (i != member->rank)
            check(member->ops->connect(member->endpoint, world->address[i], world->address_bytes[i],
                                       (uint64_t)(LABEL + i), &member->peer[i]) == TUTTI_OK,
                  "%s", member->words);
}

tutti_status member_map(struct member *member)
{
    int64_t deadline = now_ms() + WAIT_MS;
    void *bases[MEMBERS_MAX];
    tutti_status status;

    if (!(member->ops->capabilities & TUTTI_CAP_MAP))
        return TUTTI_OK;
    status = member->ops->map_start(member->endpoint, &member->local, member->peer,
                                    (uint32_t)member->world->size, (uint32_t)member->rank,
                                    member->map_bytes, &member->map);
    check(status == TUTTI_OK, "%s", member->words);
    while ((status = member->ops->map_test(member->endpoint, member->map, bases)) ==
           TUTTI_ERR_NOT_READY) {
        check(now_ms() < deadline);
        sched_yield();
    }
    if (status == TUTTI_OK)
        memcpy(member->base, bases, sizeof bases);
    return status;
}

void member_close(struct member *member)
{
    if (member->map)
        member->ops->map_close(member->endpoint, member->map);
    if (member->endpoint)
        member->ops->close(member->endpoint);
    for (int i = 0; member->exchange && i < MEMBERS_MAX; i++)
        if (member->exchange->fd[i] >= 0)
            close(member->exchange->fd[i]);
    free(member->exchange);
    if (mock_encryption)
        mock_encryption->end(member);
}

void all_meet(struct member *member)
{
    pthread_barrier_wait(&member->world->barrier);
}

static void run_member(struct member *member)
{
    member_open(member);
    all_meet(member);
    member_connect(member);
    check(member_map(member) == TUTTI_OK, "%s", member->words);
    member->world->body(member);
    member_close(member);
}

static void *run_thread(void *member)
{
    run_member(member);
    return NULL;
}

void run_threads(const tutti_transport_ops *ops, int size, void (*body)(struct member *member))
{
    struct world *world = world_new(ops, size);
    struct member members[MEMBERS_MAX];
    pthread_t threads[MEMBERS_MAX];

    world->body = body;
    for (int i = 0; i < size; i++) {
        member_init(&members[i], world, i);
        check(pthread_create(&threads[i], NULL, run_thread, &members[i]) == 0);
    }
    for (int i = 0; i < size; i++)
        check(pthread_join(threads[i], NULL) == 0);
    world_free(world);
}

void run_forked(const tutti_transport_ops *ops, int size, int killed,
                void (*body)(struct member *member))
{
    struct world *world = world_new(ops, size);
    pid_t children[MEMBERS_MAX];

    world->body = body;
    for (int i = 0; i < size; i++) {
        children[i] = fork();
        if (children[i] == 0) {
            struct member member;

            alarm(300); /* also without the parent */
            member_init(&member, world, i);
            run_member(&member);
            _exit(0);
        }
    }
    for (int i = 0; i < size; i++) {
        int result;

        check(waitpid(children[i], &result, 0) == children[i]);
        if (i == killed)
            check(WIFSIGNALED(result) && WTERMSIG(result) == SIGKILL);
        else
            check(WIFEXITED(result) && WEXITSTATUS(result) == 0, "member %d: %x", i, result);
    }
    world_free(world);
}

/* ---- operations ---------------------------------------------------------------------------- */

static void posted(struct member *member, struct operation *operation, tutti_status status)
{
    check(status == TUTTI_OK, "%s", member->words);
    operation->at_once = operation->request.status != TUTTI_ERR_NOT_READY;
}

static void prepare(struct operation *operation)
{
    memset(operation, 0xa5, sizeof *operation); /* nothing may depend on what was there */
    operation->reported = 0;
    operation->request.user = operation;
}

void send_to(struct member *member, int to, const void *data, uint64_t bytes, uint32_t flags,
             struct operation *ret_operation)
{
    int64_t deadline = now_ms() + WAIT_MS;
    tutti_status status;

    prepare(ret_operation);
    while ((status = member->ops->isend(member->endpoint, member->peer[to], 0, data, bytes, flags,
                                        &ret_operation->request)) == TUTTI_ERR_BUSY) {
        check(now_ms() < deadline);
        turn(member);
    }
    posted(member, ret_operation, status);
}

void receive_from(struct member *member, int from, void *data, uint64_t capacity,
                  struct operation *ret_operation)
{
    prepare(ret_operation);
    posted(member, ret_operation,
           member->ops->irecv(member->endpoint, member->peer[from], 0, data, capacity,
                              &ret_operation->request));
}

uint32_t turn(struct member *member)
{
    tutti_request *done[3]; /* few, so that reports are also left for the next turn */
    uint32_t count = member->ops->progress(member->endpoint, done, 3);

    for (uint32_t i = 0; i < count; i++) {
        struct operation *operation = done[i]->user;

        check(done[i]->status != TUTTI_ERR_NOT_READY);
        check(!operation->at_once, "reported although it was complete at once");
        check(++operation->reported == 1, "reported twice");
    }
    return count;
}

static void sleep_until_event(struct member *member)
{
    struct world *world = member->world;
    int rank = member->rank, wait_fd = -1;
    uint64_t rings;

    atomic_store(&world->asleep[rank], 1);
    if (member->ops->arm(member->endpoint) == TUTTI_ARMED) {
        if (TUTTI_HAS(member->ops, wait_fd))
            check(member->ops->wait_fd(member->endpoint, &wait_fd) == TUTTI_OK);
        struct pollfd fds[2] = {{.fd = world->doorbell[rank], .events = POLLIN},
                                {.fd = wait_fd, .events = POLLIN}};
        check(poll(fds, 2, WAIT_MS) > 0, "nothing woke member %d", rank);
    }
    atomic_store(&world->asleep[rank], 0);
    if (read(world->doorbell[rank], &rings, sizeof rings) < 0)
        check(errno == EAGAIN);
}

tutti_status wait_for(struct member *member, struct operation *operation)
{
    int64_t deadline = now_ms() + WAIT_MS;

    for (int turns = 0; !operation->at_once && !operation->reported; turns++) {
        if (turn(member) > 0)
            continue;
        check(now_ms() < deadline, "no progress in member %d", member->rank);
        if (turns < 20)
            sched_yield();
        else
            sleep_until_event(member);
    }
    return operation->request.status;
}

tutti_status wait_shown(struct member *member, int from, tutti_shown *ret_message)
{
    int64_t deadline = now_ms() + WAIT_MS;
    tutti_status status;

    for (int turns = 0; (status = member->ops->show(member->endpoint, member->peer[from], 0,
                                                    ret_message)) == TUTTI_ERR_NOT_READY;
         turns++) {
        check(now_ms() < deadline, "nothing is shown to member %d", member->rank);
        turn(member);
        if (turns < 20)
            sched_yield();
        else
            sleep_until_event(member);
    }
    return status;
}

void copy_shown(const tutti_shown *message, uint8_t *ret_data)
{
    if (message->bytes)
        memcpy(ret_data, message->data, message->bytes);
    if (message->rest_bytes)
        memcpy(ret_data + message->bytes, message->rest, message->rest_bytes);
}

void progress_for(struct member *member, int64_t milliseconds)
{
    int64_t end = now_ms() + milliseconds;

    for (int64_t turns = 0; now_ms() < end || turns < milliseconds; turns++) {
        turn(member);
        usleep(200);
    }
}

int open_descriptors(void)
{
    DIR *folder = opendir("/proc/self/fd");
    int count = 0;

    check(folder);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count;
}

uint16_t tcp_port_of(const struct world *world, int rank)
{
    return (uint16_t)(world->address[rank][10] | world->address[rank][11] << 8);
}
