/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The proof that makes members host-mates, as mates.h says, and the end of the star of connections.
 * Each message is checked against what its sender may say at that time; whoever says anything else, or
 * no hello within 10 s, loses its connection (at most 64 may be without one), and whoever cannot be
 * proven is reported as no mate, which the leader of the agreement mends. Everything runs in
 * control_poll(), under the control lock.
 */
#include "control/mates.h"

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

enum { SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL };

void mates_fail(struct mates *mates, const char *format, ...)
{
    va_list args;

    if (mates->state == MATES_FAILED || mates->broken)
        return;
    va_start(args, format);
    (void)vsnprintf(mates->words, sizeof mates->words, format, args);
    va_end(args);
    if (mates->state == MATES_READY)
        mates->broken = true;
    else
        mates->state = MATES_FAILED;
}

static socklen_t abstract_address(const char *name, struct sockaddr_un *ret_address)
{
    *ret_address = (struct sockaddr_un){.sun_family = AF_UNIX};
    size_t length = strnlen(name, MATES_NAME_MAX - 1);
    memcpy(ret_address->sun_path + 1, name, length);
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);
}

tutti_status mates_listen(char ret_name[MATES_NAME_MAX], int *ret_listener)
{
    uint64_t random[2];
    struct sockaddr_un address;

    if (getrandom(random, sizeof random, 0) != sizeof random)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    snprintf(ret_name, MATES_NAME_MAX, "tutti-%016llx%016llx", (unsigned long long)random[0],
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

static tutti_status map_page(struct mates *mates, int fd)
{
    void *page = mmap(NULL, mates->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (page == MAP_FAILED)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot map the page of this host");
    mates->page = page;
    return TUTTI_OK;
}

static void init_own_line(struct mates *mates)
{
    atomic_store(&mates->page->lines[mates->self].heavy_fence, fence_register());
}

static tutti_status make_page(struct mates *mates, int *ret_fd)
{
    int fd = memfd_create("tutti-mates", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    tutti_status status = TUTTI_OK;

    if (fd < 0 || ftruncate(fd, (off_t)mates->page_bytes) || fcntl(fd, F_ADD_SEALS, SEALS))
        status = error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make the page of this host");
    if (!status)
        status = map_page(mates, fd);
    if (!status)
        status = mates_bell_new(mates);
    if (status) {
        if (fd >= 0)
            close(fd);
        return status;
    }
    init_own_line(mates);
    *ret_fd = fd;
    return TUTTI_OK;
}

/* Takes the leader's page if it is what it must be. */
static bool take_page(struct mates *mates, int fd, uint64_t nonce)
{
    struct stat info;
    int seals = fcntl(fd, F_GET_SEALS);

    if (mates->page || fstat(fd, &info) || (size_t)info.st_size != mates->page_bytes || seals < 0 ||
        (seals & SEALS) != SEALS || map_page(mates, fd))
        return false;
    if (atomic_load(&mates->page->lines[mates->self].nonce) != nonce)
        return false;
    init_own_line(mates);
    return true;
}

/* ---- messages of the proof ---- */

static tutti_status send_hello(struct mates *mates, int doorbell)
{
    uint8_t body[MATES_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    int descriptors[2] = {doorbell, open_pidfd()};

    write_u32(&w, MATES_HELLO);
    write_bytes(&w, mates->control->token, CONTROL_TOKEN_BYTES);
    write_u32(&w, (uint32_t)mates->control->rank);
    write_u32(&w, mates->round);
    tutti_status status =
        mates_send(mates, 0, body, w.size, descriptors, descriptors[1] >= 0 ? 2 : 1);
    if (descriptors[1] >= 0)
        close(descriptors[1]);
    return status;
}

static tutti_status send_page(struct mates *mates, int page_fd, int to)
{
    uint8_t body[MATES_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    uint64_t nonce;

    if (getrandom(&nonce, sizeof nonce, 0) != sizeof nonce)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "no random numbers");
    atomic_store(&mates->page->lines[to].nonce, nonce);
    write_u32(&w, MATES_PAGE);
    write_u64(&w, nonce);
    int page[2] = {page_fd, mates->bell};
    tutti_status status = mates_send(mates, to, body, w.size, page, mates->bell >= 0 ? 2 : 1);
    for (int i = 0; i < mates->count && !status; i++) {
        struct mates_peer *peer = &mates->peers[i];
        int descriptors[2] = {peer->doorbell, peer->death.fd};

        if (i == to)
            continue;
        w.size = 0;
        write_u32(&w, MATES_PEER);
        write_u32(&w, (uint32_t)i);
        status = mates_send(mates, to, body, w.size, descriptors, peer->death.fd >= 0 ? 2 : 1);
    }
    return status;
}

/* The leader's part, once every candidate has said hello. */
static void spread(struct mates *mates)
{
    int page_fd;

    for (int i = 0; i < mates->count; i++)
        if (mates->peers[i].doorbell < 0)
            return;
    tutti_status status = make_page(mates, &page_fd);
    if (!status) {
        for (int i = 1; i < mates->count && !status; i++)
            status = send_page(mates, page_fd, i);
        close(page_fd);
    }
    if (status == TUTTI_ERR_PEER_LOST)
        mates_suspect(mates);
    if (status)
        mates_fail(mates, "%s", error_message());
}

static void close_all(const int *descriptors, int count)
{
    for (int i = 0; i < count; i++)
        close(descriptors[i]);
}

static void take_descriptors(struct mates *mates, int index, const int *descriptors, int count)
{
    struct mates_peer *peer = &mates->peers[index];

    if (peer->known) { /* the same ones once more */
        close_all(descriptors, count);
        peer->process = peer->known;
        peer->known = NULL;
    } else {
        peer->process = mates_process_new(descriptors[0], count > 1 ? descriptors[1] : -1);
    }
    if (!peer->process) {
        close_all(descriptors, count);
        mates_fail(mates, "%s", error_message());
        return;
    }
    peer->doorbell = peer->process->doorbell;
    peer->death.fd = peer->process->pidfd;
    if (peer->death.fd >= 0)
        (void)control_watch_add(mates->control, &peer->death, EPOLLIN);
}

/* The leader's own, which it only passes on. */
static void close_own_pidfd(struct mates *mates)
{
    struct mates_peer *self = &mates->peers[mates->self];

    if (self->death.fd >= 0)
        close(self->death.fd);
    self->death.fd = -1;
}

/* A mate is ready once it has the page and everybody's descriptors; the leader once all have said
 * so. */
static void check_ready(struct mates *mates)
{
    if (mates->state != MATES_FORMING || !mates->page)
        return;
    for (int i = 0; i < mates->count; i++)
        if (mates->peers[i].doorbell < 0 || (!mates->self && i && !mates->peers[i].proven))
            return;
    for (int i = 0; i < mates->count; i++)
        mates->peers[i].light = fence_register() && atomic_load(&mates->page->lines[i].heavy_fence);
    mates->all_light = true;
    for (int i = 0; i < mates->count; i++)
        mates->all_light &= mates->peers[i].light;
    mates->state = MATES_READY;
    control_watch_remove(mates->control, &mates->listener.watch);
    close_own_pidfd(mates);
}

static bool on_hello(struct mates *mates, struct mates_link *link, struct reader *r,
                     const int *descriptors, int count)
{
    const uint8_t *token = read_bytes(r, CONTROL_TOKEN_BYTES);
    int rank = (int)read_u32(r);
    uint32_t round = read_u32(r);

    if (mates->self || r->bad || round != mates->round ||
        !control_same_token(token, mates->control->token) || !same_user(link->watch.fd))
        return false;
    for (int i = 1; i < mates->count; i++) {
        struct mates_peer *peer = &mates->peers[i];

        if (peer->rank != rank || peer->link)
            continue;
        link->index = i;
        peer->link = link;
        take_descriptors(mates, i, descriptors, count);
        spread(mates);
        return true;
    }
    return false;
}

static bool on_page(struct mates *mates, struct mates_link *link, struct reader *r,
                    const int *descriptors, int count)
{
    uint8_t body[MATES_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    uint64_t nonce = read_u64(r);

    if (!mates->self || r->bad || !take_page(mates, descriptors[0], nonce)) {
        mates_fail(mates, "the page of this host is not what its first member announced");
        return false;
    }
    close(descriptors[0]);
    if (count > 1)
        mates->bell = descriptors[1];
    write_u32(&w, MATES_PROVEN);
    write_u64(&w, atomic_load(&mates->page->lines[mates->self].nonce));
    if (mates_send(mates, link->index, body, w.size, NULL, 0))
        mates_fail(mates, "%s", error_message());
    check_ready(mates);
    return true;
}

static bool on_peer(struct mates *mates, struct reader *r, const int *descriptors, int count)
{
    uint32_t index = read_u32(r);

    if (!mates->self || r->bad || index >= (uint32_t)mates->count ||
        index == (uint32_t)mates->self || mates->peers[index].doorbell >= 0)
        return false;
    take_descriptors(mates, (int)index, descriptors, count);
    check_ready(mates);
    return true;
}

static bool on_proven(struct mates *mates, struct mates_link *link, struct reader *r)
{
    uint64_t nonce = read_u64(r);

    if (mates->self || r->bad || link->index < 0 || !mates->page ||
        nonce != atomic_load(&mates->page->lines[link->index].nonce))
        return false;
    mates->peers[link->index].proven = true;
    check_ready(mates);
    return true;
}

void mates_message(struct mates *mates, struct mates_link *link, const uint8_t *data, size_t size,
                   int *descriptors, int count)
{
    struct reader r = {.data = data, .size = size};
    uint32_t type = read_u32(&r);
    bool taken = false;

    if (type == MATES_HELLO && link->index < 0 && (count == 1 || count == 2))
        taken = on_hello(mates, link, &r, descriptors, count);
    else if (type == MATES_PAGE && link->index == 0 && (count == 1 || count == 2))
        taken = on_page(mates, link, &r, descriptors, count);
    else if (type == MATES_PEER && link->index == 0 && (count == 1 || count == 2))
        taken = on_peer(mates, &r, descriptors, count);
    else if (type == MATES_PROVEN)
        taken = on_proven(mates, link, &r);
    else if ((type == MATES_SHARE || type == MATES_SHARED) && link->index >= 0) {
        mates_share_message(mates, link, (enum mates_message)type, data, size, descriptors, count);
        return;
    }
    if (taken)
        return;
    close_all(descriptors, count);
    mates_link_close(link);
}

/* ---- beginning and end ---- */

static void on_connection(struct control *control, struct control_watch *watch, uint32_t events)
{
    struct mates *mates = ((struct mates_listener *)watch)->mates;

    (void)events;
    while (watch->fd >= 0) { /* closed since: the last mate has proven itself in the same look */
        if (mates_half_open(mates) >= CONTROL_HALF_OPEN_MAX) {
            /* the rest waits in the backlog until these have said hello */
            mates->listener.retry_ns = clock_deadline_ms(CONTROL_HALF_OPEN_RETRY_MS);
            control_watch_change(control, watch, 0);
            return;
        }
        int fd = accept4(watch->fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

        if (fd >= 0 && !same_user(fd)) {
            close(fd);
            continue;
        }
        if (fd >= 0) {
            if (!mates_link_new(mates, fd, -1))
                mates_fail(mates, "%s", error_message());
            continue;
        }
        if (errno != EINTR && errno != EAGAIN && errno != ECONNABORTED)
            mates_fail(mates, "cannot accept a process of this host: %s", strerror(errno));
        if (errno != EINTR)
            return;
    }
}

void mates_accept_again(struct mates *mates)
{
    if (!mates->listener.retry_ns || clock_now_ns() < mates->listener.retry_ns)
        return;
    mates->listener.retry_ns = 0;
    control_watch_change(mates->control, &mates->listener.watch, EPOLLIN);
}

static tutti_status join(struct mates *mates, const char *leader_name, int doorbell)
{
    struct sockaddr_un address;
    socklen_t size = abstract_address(leader_name, &address);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    if (fd < 0)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot make a Unix socket");
    if (connect(fd, (struct sockaddr *)&address, size)) {
        mates_fail(mates, "rank %d cannot be reached on this host: %s", mates->peers[0].rank,
                   strerror(errno));
        close(fd);
        return TUTTI_OK; /* not a mate: the layout is mended, nothing has failed */
    }
    if (!same_user(fd)) {
        mates_fail(mates, "rank %d on this host runs as another user", mates->peers[0].rank);
        close(fd);
        return TUTTI_OK;
    }
    mates->peers[0].link = mates_link_new(mates, fd, 0);
    if (!mates->peers[0].link)
        return TUTTI_ERR_NO_MEMORY;
    return send_hello(mates, doorbell);
}

tutti_status mates_new(struct control *control, uint32_t round, const int *ranks, int count,
                       struct mates_process *const *known, const char *leader_name, int *listener,
                       int doorbell, struct mates **ret_mates)
{
    struct mates *mates = calloc(1, sizeof *mates);
    tutti_status status = TUTTI_OK;

    if (!mates || !(mates->peers = calloc((size_t)count, sizeof *mates->peers))) {
        free(mates);
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d processes of this host", count);
    }
    mates->control = control;
    mates->count = count;
    mates->round = round;
    mates->listener.watch.fd = mates->bell = -1;
    mates->page_bytes = sizeof(struct mates_page) + (size_t)count * sizeof(struct mates_line);
    for (int i = 0; i < count; i++) {
        mates->peers[i].rank = ranks[i];
        mates->peers[i].doorbell = -1;
        mates->peers[i].known = known ? mates_process_hold(known[i]) : NULL;
        mates->peers[i].death = (struct control_watch){.fd = -1, .ready = mates_on_death};
        if (ranks[i] == control->rank)
            mates->self = i;
    }
    mates->peers[mates->self].doorbell = doorbell;

    pthread_mutex_lock(&control->lock);
    if (mates->self) {
        status = join(mates, leader_name, doorbell);
    } else {
        mates->listener.watch = (struct control_watch){.fd = *listener, .ready = on_connection};
        mates->listener.mates = mates;
        mates->peers[0].death.fd = open_pidfd();
        *listener = -1;
        status = control_watch_add(control, &mates->listener.watch, EPOLLIN);
    }
    control->mates = mates;
    pthread_mutex_unlock(&control->lock);
    if (status) {
        mates_free(mates);
        return status;
    }
    *ret_mates = mates;
    return TUTTI_OK;
}

void mates_free_closed_links(struct mates *mates)
{
    struct mates_link **at = &mates->links;

    while (*at) {
        struct mates_link *link = *at;

        if (!link->closing) {
            at = &link->next;
            continue;
        }
        *at = link->next;
        free(link);
    }
}

void mates_free(struct mates *mates)
{
    if (!mates)
        return;
    pthread_mutex_lock(&mates->control->lock);
    mates->control->mates = NULL;
    mates_share_free(mates);
    for (struct mates_link *link = mates->links; link; link = link->next)
        mates_link_close(link);
    mates_free_closed_links(mates);
    control_watch_remove(mates->control, &mates->listener.watch);
    close_own_pidfd(mates);
    for (int i = 0; i < mates->count; i++) {
        control_watch_forget(mates->control, &mates->peers[i].death);
        mates_process_drop(mates->peers[i].process);
        mates_process_drop(mates->peers[i].known);
    }
    if (mates->page)
        munmap(mates->page, mates->page_bytes);
    if (mates->bell >= 0)
        close(mates->bell);
    pthread_mutex_unlock(&mates->control->lock);
    free(mates->peers);
    free(mates);
}
