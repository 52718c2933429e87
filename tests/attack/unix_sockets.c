/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the Unix sockets of a host, whose names every user can list: that at which local peers meet,
 * which is there while a group forms, and that of `tutti run`, to which ranks say why they end. The kernel
 * says to both whose a connection or datagram is.
 */
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "attack.h"
#include "base/codec.h"
#include "base/exit_record.h"
#include "local/local.h"
#include "secret/proof.h"

enum { DATAGRAMS = 51, HELD = 200, ROUND_MS = 1, DATAGRAM = 2, PACKET = 5 };

struct name {
    int type;
    socklen_t size;
    struct sockaddr_un address;
};

/* The abstract names of this network namespace. */
static int list_names(struct name ret_names[ATTACK_NAMES])
{
    FILE *file = fopen("/proc/net/unix", "re");
    char line[512], text[128];
    int count = 0, type;

    while (file && fgets(line, sizeof line, file) && count < ATTACK_NAMES) {
        struct name *name = &ret_names[count];

        if (sscanf(line, "%*s %*s %*s %*s %x %*s %*s @%100s", (unsigned *)&type, text) != 2)
            continue;
        *name = (struct name){.type = type, .address.sun_family = AF_UNIX};
        memcpy(name->address.sun_path + 1, text, strlen(text));
        name->size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + strlen(text));
        count++;
    }
    if (file)
        fclose(file);
    return count;
}

/* A gain: bytes or descriptors have come. */
static void receive(int fd, struct attack_result *ret_result)
{
    char bytes[512], control[256];
    struct iovec part = {bytes, sizeof bytes};
    struct msghdr message = {.msg_iov = &part,
                             .msg_iovlen = 1,
                             .msg_control = control,
                             .msg_controllen = sizeof control};
    const ssize_t n = recvmsg(fd, &message, MSG_DONTWAIT);

    if (n > 0)
        attack_gain(ret_result, "%zd bytes%s came from a Unix socket", n,
                    message.msg_controllen ? " and descriptors" : "");
}

static int held[HELD]; /* connections to where local peers meet; 0: none */

static void hear_all(struct attack_result *ret_result)
{
    for (int i = 0; i < HELD; i++)
        if (held[i])
            receive(held[i], ret_result);
}

/* The hello of a local peer; the connections stay, as many as may be. */
static void join_local_peers(const struct name *name, struct attack_result *ret_result)
{
    uint8_t body[LOCAL_MESSAGE_MAX], hello[PROOF_HELLO_BYTES];
    struct writer w = {.data = body, .capacity = sizeof body};
    struct proof proof;
    const int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    int *place = &held[ret_result->tried % HELD];

    if (fd < 0 || connect(fd, (const struct sockaddr *)&name->address, name->size) ||
        proof_hello(1, 0, &proof, hello)) {
        close(fd);
        return;
    }
    if (*place)
        close(*place);
    *place = fd;
    ret_result->tried++;
    write_u32(&w, LOCAL_HELLO);
    write_bytes(&w, hello, sizeof hello);
    (void)!send(fd, body, w.size, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reports as ranks make them: that a rank has failed, and another one or itself is to blame. */
static void blame(const struct attack_scene *scene, const struct name *name,
                  struct attack_result *ret_result)
{
    const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    for (int i = 0; fd >= 0 && i < DATAGRAMS; i++) {
        uint8_t data[EXIT_RECORD_MAX];
        const struct exit_record record = {.kind = EXIT_RECORD_FAILED,
                                           .place = (uint32_t)(i % scene->ranks),
                                           .status = TUTTI_ERR_PEER_LOST,
                                           .rank = i % scene->ranks,
                                           .size = scene->ranks,
                                           .culprit =
                                               i / scene->ranks % 2 ? -1 : (i + 1) % scene->ranks,
                                           .message = "an attacker says so"};
        const size_t size = exit_record_encode(&record, data);

        if (sendto(fd, data, size, MSG_NOSIGNAL, (const struct sockaddr *)&name->address,
                   name->size) > 0)
            ret_result->tried++;
    }
    if (fd >= 0)
        close(fd);
}

void attack_unix_sockets(const struct attack_scene *scene, struct attack_result *ret_result)
{
    const struct timespec moment = {.tv_nsec = ROUND_MS * 1000000};

    for (;;) {
        struct name names[ATTACK_NAMES];
        const int count = list_names(names);

        for (int i = 0; i < count; i++) {
            if (names[i].type == DATAGRAM)
                blame(scene, &names[i], ret_result);
            else if (names[i].type == PACKET)
                join_local_peers(&names[i], ret_result);
        }
        nanosleep(&moment, NULL);
        hear_all(ret_result);
    }
}
