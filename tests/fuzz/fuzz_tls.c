/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a stranger may send in a TLS handshake, to a member that listens and to one that dials: it gets no
 * connection, whatever comes after, and hears no more than a hello and an alert.
 *
 * The first byte says what the member does, and whether the stranger's own bytes come first: those of a
 * process with another key, altered as the next bytes say. The other bytes are a row of pieces (guest.h).
 */
#include <string.h>

#include "guest.h"
#include "secret/tls.h"

enum {
    LISTENS = 1,
    GENUINE = 2,
    HELLO_MAX = 1024,
    EDITS_MAX = 8,
    HEARD_MAX = 1024 /* a hello, or a request for another one, and an alert */
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct tls_keys *the_keys(bool member)
{
    static const struct key key = {{1, 2, 3}}, other = {{3, 2, 1}};
    static struct tls_keys *members, *strangers;

    if (!members) {
        key_hold();
        if (tls_keys_new(&key, &members) || tls_keys_new(&other, &strangers))
            abort();
    }
    return member ? members : strangers;
}

static void pair(int ret_fd[2])
{
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ret_fd))
        abort();
}

/* Says and hears what it can; a member that has nobody but a stranger can say and hear nothing. */
static void go_on(struct tls *tls, bool member)
{
    uint8_t byte = 0;

    if (tls_send(tls, &(tutti_piece){&byte, 1}, 1) >= 0 && member)
        abort();
    if (tls_recv(tls, &byte, 1) > 0 && member)
        abort();
}

/* The hello of a process with another key. */
static size_t genuine_hello(uint8_t ret_hello[HELLO_MAX])
{
    struct tls *stranger;
    int fd[2];

    pair(fd);
    if (tls_dial(the_keys(false), fd[0], &stranger))
        abort();
    go_on(stranger, false);
    const ssize_t n = recv(fd[1], ret_hello, HELLO_MAX, MSG_DONTWAIT);
    tls_free(stranger);
    close(fd[0]);
    close(fd[1]);
    return n > 0 ? (size_t)n : 0;
}

static void alter(uint8_t *hello, size_t bytes, const uint8_t **data, size_t *size)
{
    for (int i = 0; bytes && i < EDITS_MAX && *size >= 3; i++, *data += 3, *size -= 3)
        hello[((size_t)(*data)[0] << 8 | (*data)[1]) % bytes] ^= (*data)[2];
}

/* The member's end; NULL: it listens, and no first byte of TLS has come. */
static struct tls *begin(bool listens, int fd)
{
    struct tls *tls = NULL;
    const tutti_status status =
        listens ? tls_accept(the_keys(true), fd, &tls) : tls_dial(the_keys(true), fd, &tls);

    if (status && status != TUTTI_ERR_NOT_READY && status != TUTTI_ERR_DENIED)
        abort();
    return tls;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const bool listens = size && *data & LISTENS, genuine = size && *data & GENUINE;
    struct tls *tls = NULL;
    uint8_t hello[HELLO_MAX];
    const uint8_t *piece = hello;
    size_t bytes = 0, heard = 0;
    int fd[2];

    data += size ? 1 : 0;
    size -= size ? 1 : 0;
    pair(fd);
    if (genuine) {
        bytes = genuine_hello(hello);
        alter(hello, bytes, &data, &size);
    }
    for (bool more = true; more; more = guest_piece(&data, &size, &piece, &bytes)) {
        (void)!send(fd[1], piece, bytes, MSG_NOSIGNAL);
        if (!tls)
            tls = begin(listens, fd[0]);
        if (tls)
            go_on(tls, true);
        heard += guest_heard(fd[1]);
    }
    if (heard > HEARD_MAX)
        abort();
    tls_free(tls);
    close(fd[0]);
    close(fd[1]);
    return 0;
}
