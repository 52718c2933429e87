/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Gloo's function of this name, in its place.
 *
 * Gloo asks for the name of whoever has just connected, in its own thread, and throws where there is none: so a
 * member that dies at that moment, or a stranger that resets its connection, ended this process. Here such
 * a connection has no name, and Gloo finds out by reading that it has ended, as with any other.
 *
 * The dynamic linker looks in the plugin before it looks in the libraries that the plugin brings, so Gloo calls
 * this one; exports.map lets it out. Where it is not found first Gloo is as it was.
 */
#include <gloo/transport/tcp/address.h>

#include <netinet/in.h>
#include <sys/socket.h>

gloo::transport::tcp::Address gloo::transport::tcp::Address::fromPeerName(int fd)
{
    sockaddr_storage name{};
    socklen_t bytes = sizeof name;

    if (getpeername(fd, reinterpret_cast<sockaddr *>(&name), &bytes)) {
        name = {};
        name.ss_family = AF_INET; /* 0.0.0.0, which Gloo can write */
    }
    return Address(name);
}
