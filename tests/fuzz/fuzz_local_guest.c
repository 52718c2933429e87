/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger of the same user may send to the socket at which local peers meet, with and without a
 * descriptor: it becomes no local peer, gets no descriptor, and none of its own is kept. The first byte of a
 * piece says whether a descriptor comes with it.
 */
#include <string.h>
#include <sys/eventfd.h>

#include "control/inside.h"
#include "guest.h"
#include "local/local.h"

enum { MEMBERS = 3 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct guest_socket at;

/* The leader, which waits for two others. */
static struct local_peers *the_leader(void)
{
    static const uint8_t salt[CONTROL_SALT_BYTES] = "one salt of all";
    static const struct key key = {{1, 2, 3}};
    static const int ranks[MEMBERS] = {0, 1, 2};
    static struct control *control;
    static struct local_peers *local;
    char name[LOCAL_NAME_MAX];
    int listener;

    if (local)
        return local;
    if (control_open(0, MEMBERS, "world", NULL, "127.0.0.1", &control) ||
        control_start(control, salt, &key) || local_listen(name, &listener))
        abort();
    at = guest_listen(listener, SOCK_SEQPACKET);
    if (local_new(control, 1, ranks, MEMBERS, NULL, name, &listener, eventfd(0, EFD_CLOEXEC),
                  &local))
        abort();
    return local;
}

static void say(int fd, const uint8_t *data, size_t size, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    struct iovec part = {(void *)(uintptr_t)data, size};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};

    if (descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof descriptor);
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    (void)!sendmsg(fd, &message, MSG_NOSIGNAL);
}

/* Reads what the leader has said, with room for descriptors, of which none may come. */
static void hear(int fd)
{
    uint8_t bytes[256];
    char control[256];
    struct iovec part = {bytes, sizeof bytes};

    for (;;) {
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof control};
        const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);

        if (n <= 0)
            return;
        if (n != 4 + PROOF_CHALLENGE_BYTES || message.msg_controllen)
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct local_peers *local = the_leader();
    const int fd = guest_connect(&at, SOCK_SEQPACKET);
    const uint8_t *piece;
    size_t bytes;
    int ends[2];
    char byte;

    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK))
        abort();
    while (guest_piece(&data, &size, &piece, &bytes)) {
        if (!bytes)
            break;
        say(fd, piece + 1, bytes - 1, piece[0] % 2 ? ends[1] : -1);
        control_poll(local->control);
        hear(fd);
    }
    close(fd);
    close(ends[1]);
    for (int i = 0; i < 3; i++)
        control_poll(local->control);
    if (local->state != LOCAL_FORMING || local->links || local->peers[1].link ||
        local->peers[2].link || read(ends[0], &byte, 1) != 0)
        abort();
    close(ends[0]);
    return 0;
}
