/* SPDX-License-Identifier: Apache-2.0 */
/* What a stranger may send to the listener of the transport tcp: it becomes no peer, nothing is allocated for
 * it, and it hears a challenge at most. */
#include <string.h>
#include <sys/epoll.h>

#include "check/plain_host.h"
#include "guest.h"
#include "secret/key.h"
#include "tcp.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

extern const tutti_plugin tutti_plugin_v0;

static bool opened;
static struct guest_socket at;

static void host_log(void *self, int32_t level, const char *words)
{
    (void)self;
    (void)level;
    (void)words;
}

static void *host_allocate(void *self, uint64_t bytes)
{
    (void)self;
    if (opened)
        abort();
    return calloc(1, bytes);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    (void)self;
    (void)system_errno;
    (void)words;
    return status;
}

static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    static const struct key key = {{1, 2, 3}};

    (void)self;
    return key_hmac(key.bytes, sizeof key.bytes, &(struct key_part){data, bytes}, 1, ret_mac);
}

static tutti_endpoint *the_endpoint(void)
{
    static const tutti_host host = {.struct_size = sizeof host,
                                    .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                    .log = host_log,
                                    .now_ns = plain_now_ns,
                                    .allocate = host_allocate,
                                    .release = plain_release,
                                    .error = host_error,
                                    .mac = host_mac};
    const tutti_endpoint_options options = {.struct_size = sizeof options,
                                            .bind_address = "127.0.0.1"};
    const tutti_transport_ops *ops = tutti_plugin_v0.providers[0]->ops;
    static tutti_endpoint *endpoint;

    if (endpoint)
        return endpoint;
    key_hold();
    if (ops->open(&host, NULL, &options, &endpoint))
        abort();
    /* A descriptor of another file leaves the epoll set. */
    (void)tcp_watch(endpoint, &endpoint->listener, 0);
    at = guest_listen(endpoint->listener.fd, SOCK_STREAM);
    if (!tcp_watch(endpoint, &endpoint->listener, EPOLLIN))
        abort();
    opened = true;
    return endpoint;
}

static void turn(tutti_endpoint *endpoint)
{
    const tutti_transport_ops *ops = tutti_plugin_v0.providers[0]->ops;
    tutti_request *done[4];

    (void)ops->arm(endpoint); /* the next turn looks at the listener */
    if (ops->progress(endpoint, done, 4))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    tutti_endpoint *endpoint = the_endpoint();
    const int fd = guest_connect(&at, SOCK_STREAM);
    const uint8_t *piece;
    uint8_t hello[256];
    size_t bytes, heard = 0;

    while (guest_piece(&data, &size, &piece, &bytes)) {
        memcpy(hello, piece, bytes);
        if (bytes >= 32 && piece[0] == 't') /* the id, which is random */
            tcp_put(hello + 24, endpoint->address.id, 8);
        (void)!send(fd, hello, bytes, MSG_NOSIGNAL);
        turn(endpoint);
        heard += guest_heard(fd);
    }
    heard += guest_heard(fd);
    close(fd);
    for (int i = 0; endpoint->half_open && i < 3; i++)
        turn(endpoint);
    if (heard > TCP_CHALLENGE_BYTES || endpoint->half_open || endpoint->early || endpoint->peers)
        abort();
    return 0;
}
