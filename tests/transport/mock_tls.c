/* SPDX-License-Identifier: Apache-2.0 */
/* The core's encrypted connections, for the driver that is linked with them. */
#include "mock.h"

#include <string.h>

#include "secret/tls.h"

static tutti_status open_channel(void *self, int32_t fd, int32_t listens,
                                 tutti_channel **ret_channel)
{
    struct member *member = self;
    struct tls_keys *keys = member->keys;
    struct key key;

    memset(key.bytes, member->token, sizeof key.bytes);
    if (!keys)
        check(tls_keys_new(&key, &keys) == TUTTI_OK);
    member->keys = keys;
    return listens ? tls_accept(keys, fd, (struct tls **)ret_channel)
                   : tls_dial(keys, fd, (struct tls **)ret_channel);
}

static void close_channel(tutti_channel *channel)
{
    tls_free((struct tls *)channel);
}

static int64_t send_by(tutti_channel *channel, const tutti_piece *pieces, uint32_t count)
{
    return tls_send((struct tls *)channel, pieces, count);
}

static int64_t receive_by(tutti_channel *channel, void *data, uint64_t bytes)
{
    return tls_recv((struct tls *)channel, data, bytes);
}

static int32_t has_unread(const tutti_channel *channel)
{
    return tls_has_unread((const struct tls *)channel);
}

static void begin(struct member *member)
{
    key_hold();
    member->host.channel_open = open_channel;
    member->host.channel_close = close_channel;
    member->host.channel_send = send_by;
    member->host.channel_recv = receive_by;
    member->host.channel_has_unread = has_unread;
}

static void end(struct member *member)
{
    tls_keys_free(member->keys);
    member->keys = NULL;
    key_release();
}

static const struct encryption encryption = {begin, end};

__attribute__((constructor)) static void encrypt(void)
{
    mock_encryption = &encryption;
}
