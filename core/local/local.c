/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that makes members local peers, as local.h says, and the end of the star of connections.
 * Each message is checked against what its sender may say at that time. A peer that says anything
 * else, or has not proven its key within 10 s, loses its connection (at most 64 may be so far). A member
 * that cannot be proven is reported as no local peer, and the leader of the agreement corrects the
 * layout. Everything runs in control_poll(), under the control lock.
 */
#include "local/local.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "base/error.h"
#include "control/inside.h"

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL, ACCEPT_AT_ONCE = 256, REDIAL_MS = 10 };

void local_fail(struct local_peers *local, const char *format, ...)
{
    va_list args;

    if (local->state == LOCAL_FAILED || local->broken)
        return;
    va_start(args, format);
    (void)vsnprintf(local->message, sizeof local->message, format, args);
    va_end(args);
    if (local->state == LOCAL_READY)
        local->broken = true;
    else
        local->state = LOCAL_FAILED;
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, LOCAL_NAME_MAX - 1);
    memcpy(ret_address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

tutti_status local_listen(char ret_name[LOCAL_NAME_MAX], int *ret_listener)
{
    uint64_t random[2];
    struct sockaddr_un address;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    snprintf(ret_name, LOCAL_NAME_MAX, "tutti-%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    socklen_t size = abstract_address(ret_name, &address);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, size) || listen(fd, SOMAXCONN)) {
        int error = errno;
        if (fd >= 0)
            close(fd);
        return error_set_errno(TUTTI_ERR_SYSTEM, error, "cannot listen for processes of this host");
    }
    *ret_listener = fd;
    return TUTTI_OK;
}

static int open_pidfd(void)
{
    return (int)syscall(SYS_pidfd_open, getpid(), 0);
}

static bool same_user(int fd)
{
    struct ucred cred;
    socklen_t size = sizeof cred;

    return !getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &cred, &size) && cred.uid == geteuid();
}

/* ---- the page ---- */

static tutti_status map_page(struct local_peers *local, int fd)
{
    void *page = mmap(NULL, local->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot map the shared page of this host");
    local->page = page;
    return TUTTI_OK;
}

static void init_own_line(struct local_peers *local)
{
    atomic_store(&local->page->lines[local->self].heavy_fence, fence_register());
}

static tutti_status make_page(struct local_peers *local, int fd)
{
    if (fd < 0 || ftruncate(fd, (off_t)local->page_bytes) || fcntl(fd, F_ADD_SEALS, SEALS))
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the shared page of this host");
    tutti_status status = map_page(local, fd);
    if (!status)
        status = local_bell_new(local);
    if (!status)
        init_own_line(local);
    return status;
}

static tutti_status page_differs(void)
{
    return error_set(TUTTI_ERR_MISMATCH,
                     "the shared page of this host differs from what its first member announced");
}

/* Takes the leader's page if it is what it must be. */
static tutti_status take_page(struct local_peers *local, int fd, uint64_t nonce)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);

    if (local->page || fstat(fd, &info) || (size_t)info.st_size != local->page_bytes || seals < 0 ||
        (seals & SEALS) != SEALS)
        return page_differs();
    tutti_status status = map_page(local, fd);
    if (status)
        return status;
    if (atomic_load(&local->page->lines[local->self].nonce) != nonce)
        return page_differs();
    init_own_line(local);
    return TUTTI_OK;
}

/* ---- messages of the proof ---- */

static tutti_status send_hello(struct local_peers *local)
{
    uint8_t body[LOCAL_MESSAGE_MAX], hello[PROOF_HELLO_BYTES];
    struct writer w = {.data = body, .capacity = sizeof body};
    tutti_status status = proof_hello(local->control->rank, local->peers[0].rank,
                                      &local->peers[0].link->proof, hello);

    write_u32(&w, LOCAL_HELLO);
    write_bytes(&w, hello, sizeof hello);
    return status ? status : local_send(local, 0, body, w.size, NULL, 0);
}

/* The leader has proven its key: this member proves its own, and gives its descriptors. */
static tutti_status send_answer(struct local_peers *local, const uint8_t answer[PROOF_ANSWER_BYTES])
{
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    int descriptors[2] = {local->peers[local->self].doorbell, open_pidfd()};

    write_u32(&w, LOCAL_ANSWER);
    write_bytes(&w, answer, PROOF_ANSWER_BYTES);
    tutti_status status =
        local_send(local, 0, body, w.size, descriptors, descriptors[1] >= 0 ? 2 : 1);
    if (descriptors[1] >= 0)
        close(descriptors[1]);
    return status;
}

static tutti_status send_page(struct local_peers *local, int page_fd, int to)
{
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    uint64_t nonce;

    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    atomic_store(&local->page->lines[to].nonce, nonce);
    write_u32(&w, LOCAL_PAGE);
    write_u64(&w, nonce);
    int page[2] = {page_fd, local->bell};
    tutti_status status = local_send(local, to, body, w.size, page, local->bell >= 0 ? 2 : 1);
    for (int i = 0; i < local->count && !status; i++) {
        struct local_peer *peer = &local->peers[i];
        int descriptors[2] = {peer->doorbell, peer->death.fd};

        if (i == to)
            continue;
        w.size = 0;
        write_u32(&w, LOCAL_PEER);
        write_u32(&w, (uint32_t)i);
        status = local_send(local, to, body, w.size, descriptors, peer->death.fd >= 0 ? 2 : 1);
    }
    return status;
}

/* The leader's part, once every candidate has proven its key. */
static void spread(struct local_peers *local)
{
    for (int i = 0; i < local->count; i++)
        if (local->peers[i].doorbell < 0)
            return;
    int fd = memfd_create("tutti-local-page", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    tutti_status status = make_page(local, fd);
    for (int i = 1; i < local->count && !status; i++)
        status = send_page(local, fd, i);
    if (fd >= 0)
        close(fd);
    if (status == TUTTI_ERR_PEER_LOST)
        local_suspect(local);
    if (status)
        local_fail(local, "%s", error_message());
}

static void take_descriptors(struct local_peers *local, int index, const int *descriptors,
                             int count)
{
    struct local_peer *peer = &local->peers[index];

    if (peer->known) { /* the same ones once more */
        local_close_all(descriptors, count);
        peer->process = peer->known;
        peer->known = NULL;
    } else {
        peer->process = local_process_new(descriptors[0], count > 1 ? descriptors[1] : -1);
    }
    if (!peer->process) {
        local_close_all(descriptors, count);
        local_fail(local, "%s", error_message());
        return;
    }
    peer->doorbell = peer->process->doorbell;
    peer->death.fd = peer->process->pidfd;
    if (peer->death.fd >= 0)
        (void)control_watch_add(local->control, &peer->death, EPOLLIN);
}

/* The leader's own, which it only passes on. */
static void close_own_pidfd(struct local_peers *local)
{
    struct local_peer *self = &local->peers[local->self];

    if (self->death.fd >= 0)
        close(self->death.fd);
    self->death.fd = -1;
}

/* A local peer is ready once it has the page and everybody's descriptors; the leader once all have said
 * so. */
static void check_ready(struct local_peers *local)
{
    if (local->state != LOCAL_FORMING || !local->page)
        return;
    for (int i = 0; i < local->count; i++)
        if (local->peers[i].doorbell < 0 || (!local->self && i && !local->peers[i].proven))
            return;
    local->all_light = true;
    for (int i = 0; i < local->count; i++) {
        local->peers[i].light = fence_register() && atomic_load(&local->page->lines[i].heavy_fence);
        local->all_light &= local->peers[i].light;
    }
    local->state = LOCAL_READY;
    control_watch_remove(local->control, &local->listener.watch);
    close_own_pidfd(local);
}

static bool on_hello(struct local_peers *local, struct local_link *link, struct reader *r)
{
    uint8_t body[LOCAL_MESSAGE_MAX], challenge[PROOF_CHALLENGE_BYTES];
    struct writer w = {.data = body, .capacity = sizeof body};
    const struct control *control = local->control;
    const uint8_t *hello = read_bytes(r, PROOF_HELLO_BYTES);

    if (local->self || r->bad || link->challenged || !same_user(link->watch.fd) ||
        proof_challenge(control->rank, control->size, local->key, hello, &link->proof, challenge))
        return false;
    link->challenged = true;
    write_u32(&w, LOCAL_CHALLENGE);
    write_bytes(&w, challenge, sizeof challenge);
    return !local_link_send(link, body, w.size, NULL, 0);
}

static bool on_challenge(struct local_peers *local, struct local_link *link, struct reader *r)
{
    const uint8_t *challenge = read_bytes(r, PROOF_CHALLENGE_BYTES);
    uint8_t answer[PROOF_ANSWER_BYTES];

    if (!local->self || r->bad || link->challenged)
        return false;
    link->challenged = true;
    tutti_status status = proof_answer(&link->proof, local->key, challenge, answer);
    if (status == TUTTI_ERR_DENIED)
        local_fail(local,
                   "a process that is not a member of the group answers for rank %d on this "
                   "host",
                   local->peers[0].rank);
    else if (status || send_answer(local, answer))
        local_fail(local, "%s", error_message());
    return local->state != LOCAL_FAILED;
}

static bool is_answer(const struct local_peers *local, const struct local_link *link,
                      struct reader *r)
{
    const uint8_t *answer = read_bytes(r, PROOF_ANSWER_BYTES);

    return !local->self && !r->bad && link->challenged &&
           !proof_check(&link->proof, local->key, answer);
}

bool local_proves(const struct local_peers *local, const struct local_link *link,
                  const uint8_t *data, size_t size)
{
    struct reader r = {.data = data, .size = size};

    return read_u32(&r) == LOCAL_ANSWER && is_answer(local, link, &r);
}

static bool on_answer(struct local_peers *local, struct local_link *link, struct reader *r,
                      const int *descriptors, int count)
{
    if (!is_answer(local, link, r))
        return false;
    for (int i = 1; i < local->count; i++) {
        struct local_peer *peer = &local->peers[i];

        if (peer->rank != (int)link->proof.dialer || peer->link)
            continue;
        link->index = i;
        peer->link = link;
        take_descriptors(local, i, descriptors, count);
        spread(local);
        return true;
    }
    return false;
}

static bool on_page(struct local_peers *local, struct local_link *link, struct reader *r,
                    const int *descriptors, int count)
{
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    uint64_t nonce = read_u64(r);

    if (!local->self || r->bad ? page_differs() : take_page(local, descriptors[0], nonce)) {
        local_fail(local, "%s", error_message());
        return false;
    }
    close(descriptors[0]);
    if (count > 1)
        local->bell = descriptors[1];
    write_u32(&w, LOCAL_PROVEN);
    write_u64(&w, atomic_load(&local->page->lines[local->self].nonce));
    if (local_send(local, link->index, body, w.size, NULL, 0))
        local_fail(local, "%s", error_message());
    check_ready(local);
    return true;
}

static bool on_peer(struct local_peers *local, struct reader *r, const int *descriptors, int count)
{
    uint32_t index = read_u32(r);

    if (!local->self || r->bad || index >= (uint32_t)local->count ||
        index == (uint32_t)local->self || local->peers[index].doorbell >= 0)
        return false;
    take_descriptors(local, (int)index, descriptors, count);
    check_ready(local);
    return true;
}

static bool on_proven(struct local_peers *local, struct local_link *link, struct reader *r)
{
    uint64_t nonce = read_u64(r);

    if (local->self || r->bad || link->index < 0 || !local->page ||
        nonce != atomic_load(&local->page->lines[link->index].nonce))
        return false;
    local->peers[link->index].proven = true;
    check_ready(local);
    return true;
}

void local_message(struct local_peers *local, struct local_link *link, const uint8_t *data,
                   size_t size, int *descriptors, int count)
{
    struct reader r = {.data = data, .size = size};
    uint32_t type = read_u32(&r);
    bool taken = false;

    if (type == LOCAL_HELLO && link->index < 0 && count == 0)
        taken = on_hello(local, link, &r);
    else if (type == LOCAL_CHALLENGE && link->index == 0 && count == 0)
        taken = on_challenge(local, link, &r);
    else if (type == LOCAL_ANSWER && link->index < 0 && (count == 1 || count == 2))
        taken = on_answer(local, link, &r, descriptors, count);
    else if (type == LOCAL_PAGE && link->index == 0 && (count == 1 || count == 2))
        taken = on_page(local, link, &r, descriptors, count);
    else if (type == LOCAL_PEER && link->index == 0 && (count == 1 || count == 2))
        taken = on_peer(local, &r, descriptors, count);
    else if (type == LOCAL_PROVEN && count == 0)
        taken = on_proven(local, link, &r);
    else if ((type == LOCAL_SHARE || type == LOCAL_SHARED) && link->index >= 0) {
        local_share_message(local, link, (enum local_message)type, data, size, descriptors, count);
        return;
    }
    if (taken)
        return;
    local_close_all(descriptors, count);
    local_link_close(local, link);
}

/* ---- beginning and end ---- */

static void on_connection(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct local_peers *local = control->local;

    (void)events;
    /* It is closed once the last local peer has proven itself, which may be in this look. Others can dial
     * as fast as it accepts, so a look has an end. */
    for (int i = 0; i < ACCEPT_AT_ONCE && watch->fd >= 0; i++) {
        if (local_half_open(local) >= CONTROL_HALF_OPEN_MAX) {
            control_accept_later(control, &local->listener, CONTROL_HALF_OPEN_RETRY_MS);
            return;
        }
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0) {
            if (!same_user(fd))
                close(fd);
            else if (!local_link_new(local, fd, -1))
                local_fail(local, "%s", error_message());
            continue;
        }
        if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
            local_fail(local, "cannot accept a process of this host: %s", strerror(errno));
        if (errno != EINTR)
            return;
    }
}

static tutti_status join(struct local_peers *local)
{
    struct sockaddr_un address;
    socklen_t size = abstract_address(local->leader_name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    local->redial_ns = 0;
    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make a Unix socket");
    if (connect(fd, (struct sockaddr *)&address, size)) {
        /* Connections that the first member has not looked at fill its backlog. Anybody can make them. */
        if (errno == EAGAIN && clock_now_ns() < local->give_up_ns)
            local->redial_ns = clock_deadline_ms(REDIAL_MS);
        else
            local_fail(local, "rank %d cannot be reached on this host: %s", local->peers[0].rank,
                       strerror(errno));
    } else if (!same_user(fd)) {
        local_fail(local, "rank %d on this host runs as another user", local->peers[0].rank);
    }
    if (local->redial_ns || local->state == LOCAL_FAILED) {
        close(fd);
        return TUTTI_OK; /* not a local peer: the leader corrects the layout, nothing has failed */
    }
    local->peers[0].link = local_link_new(local, fd, 0);
    if (!local->peers[0].link)
        return TUTTI_ERR_NO_MEMORY;
    return send_hello(local);
}

void local_join_again(struct local_peers *local)
{
    if (local->redial_ns && local->state == LOCAL_FORMING && clock_now_ns() >= local->redial_ns &&
        join(local))
        local_fail(local, "%s", error_message());
}

/* Descriptors that were given in one round are not taken in another. */
static tutti_status derive_key(struct local_peers *local, uint32_t round)
{
    uint8_t context[4];
    struct key key;

    uint_to_bytes(context, round, sizeof context);
    tutti_status status =
        key_derive(local->control->group_key, "local", context, sizeof context, &key);
    if (!status)
        status = key_keep(&key, &local->key);
    key_wipe(&key, sizeof key);
    return status;
}

tutti_status local_new(struct control *control, uint32_t round, const int *ranks, int count,
                       struct local_process *const *known, const char *leader_name, int *listener,
                       int doorbell, struct local_peers **ret_local)
{
    struct local_peers *local = calloc(1, sizeof *local);
    tutti_status status = TUTTI_OK;

    if (!local || !(local->peers = calloc((size_t)count, sizeof *local->peers))) {
        free(local);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d processes of this host", count);
    }
    local->control = control;
    local->count = count;
    local->listener.watch.fd = local->bell = -1;
    local->page_bytes = sizeof(struct local_page) + (size_t)count * sizeof(struct local_line);
    for (int i = 0; i < count; i++) {
        local->peers[i].rank = ranks[i];
        local->peers[i].doorbell = -1;
        local->peers[i].known = known ? local_process_hold(known[i]) : NULL;
        local->peers[i].death = (struct control_watch){.fd = -1, .ready = local_on_death};
        if (ranks[i] == control->rank)
            local->self = i;
    }
    local->peers[local->self].doorbell = doorbell;

    pthread_mutex_lock(&control->lock);
    status = derive_key(local, round);
    if (!status && local->self) {
        snprintf(local->leader_name, sizeof local->leader_name, "%s", leader_name);
        local->give_up_ns = clock_deadline_ms(CONTROL_HELLO_SECONDS * 1000);
        status = join(local);
    } else if (!status) {
        local->listener.watch = (struct control_watch){.fd = *listener, .ready = on_connection};
        local->peers[0].death.fd = open_pidfd();
        *listener = -1;
        status = control_watch_add(control, &local->listener.watch, EPOLLIN);
    }
    control->local = local;
    control->local_ops = &local_page_ops;
    pthread_mutex_unlock(&control->lock);
    if (status) {
        local_free(local);
        return status;
    }
    *ret_local = local;
    return TUTTI_OK;
}

void local_free_closed_links(struct local_peers *local)
{
    struct local_link **at = &local->links;

    while (*at) {
        struct local_link *link = *at;

        if (!link->closing) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link);
    }
}

void local_free(struct local_peers *local)
{
    if (!local)
        return;
    pthread_mutex_lock(&local->control->lock);
    local->control->local = NULL;
    local_share_free(local);
    for (struct local_link *link = local->links; link; link = link->next)
        local_link_close(local, link);
    local_free_closed_links(local);
    control_watch_remove(local->control, &local->listener.watch);
    close_own_pidfd(local);
    for (int i = 0; i < local->count; i++) {
        control_watch_forget(local->control, &local->peers[i].death);
        local_process_drop(local->peers[i].process);
        local_process_drop(local->peers[i].known);
    }
    if (local->page)
        munmap(local->page, local->page_bytes);
    if (local->bell >= 0)
        close(local->bell);
    pthread_mutex_unlock(&local->control->lock);
    key_drop(local->key);
    free(local->peers);
    free(local);
}
