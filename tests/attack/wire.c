/* SPDX-License-Identifier: Apache-2.0 */
#include "wire.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "harness/net.h"

enum { PACKET_MAX = 70000, BUFFER_BYTES = 32 << 20, AT_ONCE = 10000 };

/* ---- streams ---------------------------------------------------------------------------------- */

/* The newest one of these addresses: ports are used again. */
static struct wire_stream *find(struct wire *wire, const struct wire_stream *like)
{
    for (int i = wire->count - 1; i >= 0; i--) {
        struct wire_stream *at = &wire->streams[i];

        if (at->from == like->from && at->to == like->to && at->from_port == like->from_port &&
            at->to_port == like->to_port)
            return at;
    }
    return NULL;
}

/* Bytes that come out of order are not waited for: such a stream is cut there. Loopback shows each packet
 * twice. */
static void take(struct wire *wire, struct wire_stream *like, const struct tcphdr *tcp,
                 const uint8_t *data, uint32_t size)
{
    struct wire_stream *stream = find(wire, like);
    const uint32_t sequence = ntohl(tcp->seq);

    if (tcp->syn && (!stream || stream->next != sequence + 1)) {
        if (wire->count == WIRE_STREAMS)
            return;
        stream = &wire->streams[wire->count++];
        *stream = *like;
        stream->next = sequence + 1;
    }
    if (!stream || tcp->syn || sequence != stream->next)
        return;
    const uint32_t kept = size < WIRE_BYTES - stream->size ? size : WIRE_BYTES - stream->size;

    memcpy(stream->bytes + stream->size, data, kept);
    stream->size += kept;
    stream->next += size;
}

static void read_packet(struct wire *wire, const uint8_t *packet, size_t size)
{
    struct iphdr ip;
    struct tcphdr tcp;

    if (size < sizeof ip)
        return;
    memcpy(&ip, packet, sizeof ip);
    const size_t head = (size_t)ip.ihl * 4, whole = ntohs(ip.tot_len) ? ntohs(ip.tot_len) : size;

    if (ip.version != 4 || ip.protocol != IPPROTO_TCP || whole > size || head + sizeof tcp > whole)
        return;
    memcpy(&tcp, packet + head, sizeof tcp);
    const size_t body = head + (size_t)tcp.doff * 4;

    if (body > whole)
        return;
    struct wire_stream like = {
        .from = ip.saddr, .to = ip.daddr, .from_port = tcp.source, .to_port = tcp.dest};

    take(wire, &like, &tcp, packet + body, (uint32_t)(whole - body));
}

/* ---- the recorder ------------------------------------------------------------------------------ */

static _Noreturn void record(struct wire *wire, int fd, int told)
{
    static uint8_t packet[PACKET_MAX];
    struct pollfd in[] = {{.fd = fd, .events = POLLIN}, {.fd = told, .events = POLLIN}};

    for (;;) {
        ssize_t n;

        (void)poll(in, 2, -1);
        for (int i = 0; i < AT_ONCE && (n = recv(fd, packet, sizeof packet, MSG_DONTWAIT)) > 0; i++)
            read_packet(wire, packet, (size_t)n);
        if (in[1].revents)
            _exit(0);
    }
}

static int told[2] = {-1, -1}; /* the recorder ends when this end closes; one recorder at a time */

struct wire *wire_start(const char *netns, pid_t *ret_recorder)
{
    struct wire *wire =
        mmap(NULL, sizeof *wire, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    const int back = net_enter(netns), bytes = BUFFER_BYTES;
    const int fd = back < 0 ? -1 : socket(AF_PACKET, SOCK_DGRAM | SOCK_CLOEXEC, htons(ETH_P_IP));

    if (back >= 0)
        net_leave(back);
    if (wire == MAP_FAILED || fd < 0 || pipe2(told, O_CLOEXEC))
        return NULL;
    (void)setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof bytes);
    *ret_recorder = fork();
    if (*ret_recorder == 0) {
        close(told[1]);
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        record(wire, fd, told[0]);
    }
    close(told[0]);
    close(fd);
    return wire;
}

void wire_stop(pid_t recorder)
{
    close(told[1]);
    waitpid(recorder, NULL, 0);
}

void wire_free(struct wire *wire)
{
    munmap(wire, sizeof *wire);
}

bool wire_has(const struct wire *wire, const void *bytes, size_t size)
{
    for (int i = 0; i < wire->count; i++)
        if (memmem(wire->streams[i].bytes, wire->streams[i].size, bytes, size))
            return true;
    return false;
}

bool wire_begins(const struct wire *wire, const void *bytes, size_t size)
{
    for (int i = 0; i < wire->count; i++)
        if (wire->streams[i].size >= size && !memcmp(wire->streams[i].bytes, bytes, size))
            return true;
    return false;
}
