/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One question to the kernel for each connection: which socket has this connection's addresses the
 * other way round, and whose is it. NETLINK_SOCK_DIAG looks it up in its hash table, in 4 µs. Where
 * a sandbox refuses netlink, or the kernel has no inet_diag, /proc/net/tcp is read, which lists all
 * sockets.
 *
 * A socket belongs to the user that made it, and the kernel translates that into the user namespace
 * of the process that asks. A user that has no number there becomes the overflow uid (65534). If that
 * is this process's own user, its peers cannot be told apart from strangers, and are HIDDEN.
 *
 * A socket that was closed has no inode any more. Kernels before 6.17 say that root owns it. So the
 * number 0 counts only together with an inode, or else a stranger could send a request, close, and
 * pass for root.
 *
 * A peer of loopback, or one with the address that the connection ends at here, is local and must be
 * found. Any other peer that is not found is REMOTE.
 */
#include "store/store_peer.h"

#include <arpa/inet.h>
#include <errno.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ANSWER_BYTES = 4096,
    LOOPBACK_INDEX = 1, /* of the interface lo, in every network namespace */
    LINE_BYTES = 512,
    HEX_ENDPOINT = 41 /* "ADDRESS:PORT" of an IPv6 address in /proc/net/tcp6, and its NUL */
};

/* One end of a connection; an IPv4 address as ::ffff:a.b.c.d. */
struct endpoint {
    struct in6_addr address;
    in_port_t port; /* in the order of the network */
};

/* What the kernel says of a socket. */
struct owner {
    uid_t uid;
    unsigned long inode;
};

enum found { FOUND, ABSENT, REFUSED };

static bool end_of(int (*get)(int fd, struct sockaddr *address, socklen_t *size), int fd,
                   struct endpoint *ret_end)
{
    struct sockaddr_storage name = {0};
    const struct sockaddr_in *four = (const struct sockaddr_in *)&name;
    const struct sockaddr_in6 *six = (const struct sockaddr_in6 *)&name;
    socklen_t size = sizeof name;

    if (get(fd, (struct sockaddr *)&name, &size) != 0)
        return false;
    if (name.ss_family == AF_INET6) {
        *ret_end = (struct endpoint){six->sin6_addr, six->sin6_port};
        return true;
    }
    *ret_end = (struct endpoint){.port = four->sin_port};
    ret_end->address.s6_addr32[2] = htonl(0xffff);
    ret_end->address.s6_addr32[3] = four->sin_addr.s_addr;
    return name.ss_family == AF_INET;
}

static bool is_loopback(const struct endpoint *end)
{
    return IN6_IS_ADDR_LOOPBACK(&end->address) ||
           (IN6_IS_ADDR_V4MAPPED(&end->address) && end->address.s6_addr[12] == IN_LOOPBACKNET);
}

bool store_peer_is_loopback(int fd)
{
    struct endpoint own;

    return end_of(getsockname, fd, &own) && is_loopback(&own);
}

static bool is_local(const struct endpoint *peer, const struct endpoint *own)
{
    return is_loopback(peer) || IN6_ARE_ADDR_EQUAL(&peer->address, &own->address);
}

/* ---- by netlink ---- */

static void put_address(const struct endpoint *end, bool four, uint32_t ret_words[4])
{
    if (four)
        ret_words[0] = end->address.s6_addr32[3];
    else
        memcpy(ret_words, &end->address, sizeof end->address);
}

static bool is_address(const uint32_t words[4], bool four, const struct endpoint *end)
{
    const struct in6_addr *address = &end->address;

    return four ? words[0] == address->s6_addr32[3] : !memcmp(words, address, sizeof *address);
}

/* The lookup of a connection that is gone ends at a listener of the same port: that is not its peer. */
static bool is_the_one(const struct inet_diag_msg *answer, const struct endpoint *peer,
                       const struct endpoint *own)
{
    const bool four = answer->idiag_family == AF_INET;

    return answer->id.idiag_sport == peer->port && answer->id.idiag_dport == own->port &&
           is_address(answer->id.idiag_src, four, peer) &&
           is_address(answer->id.idiag_dst, four, own);
}

static enum found read_answer(struct store_peers *peers, const struct endpoint *peer,
                              const struct endpoint *own, struct owner *ret_owner)
{
    union {
        struct nlmsghdr header;
        uint8_t bytes[ANSWER_BYTES];
    } answer;

    for (;;) { /* the kernel has answered before the question was sent */
        const ssize_t n = recv(peers->netlink_fd, &answer, sizeof answer, MSG_DONTWAIT);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 || !NLMSG_OK(&answer.header, (size_t)n))
            return REFUSED;
        if (answer.header.nlmsg_seq != peers->sequence)
            continue;

        const void *data = NLMSG_DATA(&answer.header);
        const size_t size = NLMSG_PAYLOAD(&answer.header, 0);

        if (answer.header.nlmsg_type == NLMSG_ERROR && size >= sizeof(struct nlmsgerr))
            return ((const struct nlmsgerr *)data)->error == -ENOENT ? ABSENT : REFUSED;
        if (answer.header.nlmsg_type != SOCK_DIAG_BY_FAMILY || size < sizeof(struct inet_diag_msg))
            return REFUSED;

        const struct inet_diag_msg *message = data;

        if (!is_the_one(message, peer, own))
            return ABSENT;
        *ret_owner = (struct owner){message->idiag_uid, message->idiag_inode};
        return FOUND;
    }
}

static enum found ask_netlink(struct store_peers *peers, const struct endpoint *peer,
                              const struct endpoint *own, struct owner *ret_owner)
{
    const bool four = IN6_IS_ADDR_V4MAPPED(&peer->address);
    struct {
        struct nlmsghdr header;
        struct inet_diag_req_v2 body;
    } question = {
        .header = {.nlmsg_len = sizeof question,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST,
                   .nlmsg_seq = ++peers->sequence},
        .body = {.sdiag_family = four ? AF_INET : AF_INET6,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_states = ~0U,
                 .id = {.idiag_sport = peer->port,
                        .idiag_dport = own->port,
                        .idiag_if = LOOPBACK_INDEX, /* a peer that is bound to it is found, too */
                        .idiag_cookie = {INET_DIAG_NOCOOKIE, INET_DIAG_NOCOOKIE}}},
    };

    if (peers->netlink_fd < 0)
        return REFUSED;
    put_address(peer, four, question.body.id.idiag_src);
    put_address(own, four, question.body.id.idiag_dst);
    while (send(peers->netlink_fd, &question, sizeof question, MSG_DONTWAIT) < 0) {
        if (errno != EINTR)
            return REFUSED;
    }
    return read_answer(peers, peer, own, ret_owner);
}

/* ---- by /proc ---- */

static void write_hex(const struct endpoint *end, bool four, char ret_text[HEX_ENDPOINT])
{
    const uint32_t *words = end->address.s6_addr32;

    if (four)
        snprintf(ret_text, HEX_ENDPOINT, "%08X:%04X", words[3], ntohs(end->port));
    else
        snprintf(ret_text, HEX_ENDPOINT, "%08X%08X%08X%08X:%04X", words[0], words[1], words[2],
                 words[3], ntohs(end->port));
}

static enum found search_file(const char *path, bool four, const struct endpoint *peer,
                              const struct endpoint *own, struct owner *ret_owner)
{
    char source[HEX_ENDPOINT], target[HEX_ENDPOINT], line[LINE_BYTES];
    FILE *file = fopen(path, "re");
    enum found found = ABSENT;

    if (!file)
        return REFUSED;
    write_hex(peer, four, source);
    write_hex(own, four, target);
    while (found == ABSENT && fgets(line, sizeof line, file)) {
        char here[HEX_ENDPOINT], there[HEX_ENDPOINT];
        struct owner owner;

        if (sscanf(line, " %*u: %40s %40s %*x %*s %*s %*s %u %*u %lu", here, there, &owner.uid,
                   &owner.inode) == 4 &&
            !strcmp(here, source) && !strcmp(there, target)) {
            *ret_owner = owner;
            found = FOUND;
        }
    }
    (void)fclose(file);
    return found;
}

/* An IPv6 socket may have IPv4 addresses. */
static enum found search_lists(const struct endpoint *peer, const struct endpoint *own,
                               struct owner *ret_owner)
{
    enum found found = ABSENT;

    if (IN6_IS_ADDR_V4MAPPED(&peer->address))
        found = search_file("/proc/thread-self/net/tcp", true, peer, own, ret_owner);
    if (found != FOUND) {
        const enum found six =
            search_file("/proc/thread-self/net/tcp6", false, peer, own, ret_owner);

        if (six == FOUND || found == ABSENT)
            found = six;
    }
    return found;
}

/* The user and the inode of a line are read one after the other, in any order. A socket that still has its
 * inode afterwards had it when its user was read. */
static enum found search_proc(const struct endpoint *peer, const struct endpoint *own,
                              struct owner *ret_owner)
{
    struct owner again = {0};
    const enum found found = search_lists(peer, own, ret_owner);

    if (found == FOUND && !ret_owner->uid) {
        (void)search_lists(peer, own, &again);
        ret_owner->inode = again.inode;
    }
    return found;
}

/* ---- both ---- */

/* Whether this user namespace has no number for some users, and the one that stands for them is `uid`. */
static bool stands_for_others(uid_t uid)
{
    FILE *file = fopen("/proc/sys/kernel/overflowuid", "re");
    unsigned overflow = 65534, count;
    uint64_t known = 0;

    if (file) {
        if (fscanf(file, "%u", &overflow) != 1)
            overflow = 65534;
        (void)fclose(file);
    }
    if (uid != overflow)
        return false;
    file = fopen("/proc/self/uid_map", "re");
    if (!file)
        return true;
    while (fscanf(file, "%*u %*u %u", &count) == 1)
        known += count;
    (void)fclose(file);
    return known < UINT32_MAX;
}

/* Asks the kernel for the listener at an address. */
static enum found find_listener(struct store_peers *peers, const struct endpoint *at,
                                struct owner *ret_owner)
{
    const struct sockaddr_nl kernel = {.nl_family = AF_NETLINK};
    const struct endpoint none = {0};

    peers->netlink_fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
    if (peers->netlink_fd >= 0 &&
        connect(peers->netlink_fd, (const struct sockaddr *)&kernel, sizeof kernel) == 0)
        return ask_netlink(peers, at, &none, ret_owner);
    return REFUSED;
}

void store_peers_open(struct store_peers *peers, int listen_fd)
{
    struct endpoint own;
    struct owner owner;

    *peers = (struct store_peers){.netlink_fd = -1, .own = geteuid()};
    peers->stands_for_others = stands_for_others(peers->own);
    /* A kernel without inet_diag says the same as one that has no such socket: the listener is there. */
    if (!end_of(getsockname, listen_fd, &own) || find_listener(peers, &own, &owner) != FOUND)
        store_peers_close(peers);
}

bool store_peer_serves_another_user(int fd)
{
    struct store_peers peers = {.netlink_fd = -1};
    struct endpoint peer;
    struct owner owner;
    const bool is_another = end_of(getpeername, fd, &peer) &&
                            find_listener(&peers, &peer, &owner) == FOUND && owner.uid != geteuid();

    store_peers_close(&peers);
    return is_another;
}

void store_peers_close(struct store_peers *peers)
{
    if (peers->netlink_fd >= 0)
        close(peers->netlink_fd);
    peers->netlink_fd = -1;
}

enum store_peer store_peers_find(struct store_peers *peers, int fd, uid_t *ret_uid)
{
    struct endpoint peer, own;
    struct owner owner;

    if (!end_of(getpeername, fd, &peer) || !end_of(getsockname, fd, &own))
        return STORE_PEER_GONE;

    enum found found = ask_netlink(peers, &peer, &own, &owner);

    if (found == REFUSED)
        found = search_proc(&peer, &own, &owner);
    if (found != FOUND && !is_local(&peer, &own))
        return STORE_PEER_REMOTE;
    if (found == REFUSED)
        return STORE_PEER_HIDDEN;
    if (found == ABSENT || (!owner.uid && !owner.inode))
        return STORE_PEER_GONE;
    if (owner.uid == peers->own && peers->stands_for_others)
        return STORE_PEER_HIDDEN;
    *ret_uid = owner.uid;
    return owner.uid == peers->own ? STORE_PEER_OWN : STORE_PEER_OTHER;
}
