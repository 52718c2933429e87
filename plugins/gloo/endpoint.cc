/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Messages over Gloo's unbound buffers.
 *
 * Gloo is C++ that throws, waits and has threads; none of this reaches the core: what throws ends in
 * guarded() or in a thread of peer.cc, and what waits is done by these threads. The functions that move
 * messages hand requests over, and take back what is complete.
 */
#include "endpoint.hh"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

using namespace tutti_gloo;

namespace
{

constexpr std::chrono::milliseconds close_within{3000};

} // namespace

/* ---- an endpoint ----------------------------------------------------------------------------- */

tutti_endpoint::tutti_endpoint(const tutti_host &services, void *host_self,
                               const tutti_endpoint_options &options)
    : host(services), self(host_self), token(),
      mesh(tutti_gloo::mesh::make_device(options.bind_address), options.rank, options.size),
      address(mesh.address())
{
    std::copy(std::begin(options.token), std::end(options.token), token.begin());
    peers.reserve(static_cast<std::size_t>(options.size));
}

/* What was sent still arrives: a leave message comes behind it, and is given some time. */
tutti_endpoint::~tutti_endpoint()
{
    {
        std::unique_lock<std::mutex> lock(mutex);

        for (const auto &peer : peers)
            peer->leave();
        left.wait_for(lock, close_within, [&] {
            return std::all_of(peers.begin(), peers.end(),
                               [](const auto &peer) { return peer->has_left(); });
        });
        for (const auto &peer : peers)
            peer->stop();
    }
    peers.clear();
}

void tutti_endpoint::let_go()
{
    if (held)
        std::exchange(held, nullptr)->send();
}

void tutti_endpoint::complete(tutti_request &request, tutti_status result)
{
    of(request).result = result;
    done.push(request);
    bell.ring();
}

void tutti_endpoint::report(tutti_request &request)
{
    const request_state &s = of(request);

    show(request);
    if (s.result == TUTTI_ERR_INTERNAL)
        fail(TUTTI_ERR_INTERNAL, 0,
             "a message of " + std::to_string(s.bytes) + " bytes is longer than was expected");
}

void tutti_endpoint::tell_lost()
{
    for (const auto &peer : peers) {
        {
            const std::lock_guard<std::mutex> lock(mutex);

            if (!done.empty())
                return;
            if (!peer->lost || peer->told)
                continue;
            peer->told = true;
        }
        host.peer_lost(self, peer->label, peer->lost_words.c_str());
    }
}

/* ---- what the core calls --------------------------------------------------------------------- */

namespace
{

tutti_status open_endpoint(const tutti_host *host, void *self,
                           const tutti_endpoint_options *options,
                           tutti_endpoint **ret_endpoint) noexcept
{
    return guarded(*host, self, [&] {
        if (!TUTTI_HAS(options, size))
            throw failure{TUTTI_ERR_UNSUPPORTED, 0,
                          "needs a newer tutti, which tells plugins the number of members"};
        *ret_endpoint = new tutti_endpoint(*host, self, *options);
    });
}

void close_endpoint(tutti_endpoint *endpoint) noexcept
{
    delete endpoint;
}

tutti_status address(tutti_endpoint *endpoint, void *ret_address, std::uint64_t capacity,
                     std::uint64_t *ret_bytes) noexcept
{
    return guarded(endpoint->host, endpoint->self,
                   [&] { *ret_bytes = give_address(endpoint->address, ret_address, capacity); });
}

tutti_status connect_peer(tutti_endpoint *endpoint, const void *from, std::uint64_t bytes,
                          std::uint64_t label, tutti_peer **ret_peer) noexcept
{
    return guarded(endpoint->host, endpoint->self, [&] {
        route to = endpoint->mesh.route_to(static_cast<const std::uint8_t *>(from), bytes);

        for (const auto &peer : endpoint->peers)
            if (peer->to.rank == to.rank)
                throw failure{TUTTI_ERR_INVALID_ARGUMENT, 0,
                              "rank " + std::to_string(to.rank) +
                                  " is a peer of this endpoint already"};
        endpoint->peers.push_back(std::make_unique<tutti_peer>(*endpoint, label, std::move(to)));
        *ret_peer = endpoint->peers.back().get();
    });
}

/* What isend and irecv have in common. */
template <typename Action>
tutti_status post(tutti_endpoint &endpoint, tutti_peer &peer, std::uint32_t lane, const void *data,
                  std::uint64_t bytes, tutti_request &request, Action action) noexcept
{
    return guarded(endpoint.host, endpoint.self, [&] {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);

        if (lane != 0)
            throw failure{TUTTI_ERR_INVALID_ARGUMENT, 0, "there is only lane 0"};
        request.status = TUTTI_ERR_NOT_READY;
        of(request) = {nullptr, &peer, static_cast<std::uint8_t *>(const_cast<void *>(data)), bytes,
                       TUTTI_ERR_NOT_READY};
        action();
    });
}

tutti_status isend(tutti_endpoint *endpoint, tutti_peer *peer, std::uint32_t lane, const void *data,
                   std::uint64_t bytes, std::uint32_t flags, tutti_request *request) noexcept
{
    return post(*endpoint, *peer, lane, data, bytes, *request, [&] {
        if (endpoint->held != peer)
            endpoint->let_go(); /* only one peer's next message is waited for */
        peer->post_send(*request);
        endpoint->held = peer;
        if (!(flags & TUTTI_SEND_MORE))
            endpoint->let_go();
    });
}

tutti_status irecv(tutti_endpoint *endpoint, tutti_peer *peer, std::uint32_t lane, void *data,
                   std::uint64_t capacity, tutti_request *request) noexcept
{
    return post(*endpoint, *peer, lane, data, capacity, *request,
                [&] { peer->post_receive(*request); });
}

void cancel(tutti_endpoint *endpoint, tutti_request *request) noexcept
{
    std::unique_lock<std::mutex> lock(endpoint->mutex);

    if (!endpoint->done.remove(*request))
        of(*request).peer->withdraw(*request, lock);
}

void disconnect(tutti_endpoint *endpoint, tutti_peer *peer) noexcept
{
    {
        const std::lock_guard<std::mutex> lock(endpoint->mutex);

        endpoint->let_go();
        peer->abandon();
    }
    /* Joins its threads, which may complete requests until then. */
    endpoint->peers.erase(std::find_if(endpoint->peers.begin(), endpoint->peers.end(),
                                       [&](const auto &one) { return one.get() == peer; }));
    const std::lock_guard<std::mutex> lock(endpoint->mutex);
    endpoint->done.remove_if([&](tutti_request &one) { return of(one).peer == peer; });
}

/* Cheap when there is no news: the core asks often. */
std::uint32_t progress(tutti_endpoint *endpoint, tutti_request **ret_done,
                       std::uint32_t capacity) noexcept
{
    std::uint32_t count = 0;

    endpoint->let_go();
    if (!endpoint->bell.has_news())
        return 0;
    {
        const std::lock_guard<std::mutex> lock(endpoint->mutex);

        while (count < capacity && !endpoint->done.empty())
            ret_done[count++] = &endpoint->done.pop();
        endpoint->bell.settle(!endpoint->done.empty());
    }
    guarded(endpoint->host, endpoint->self, [&] {
        for (std::uint32_t i = 0; i < count; i++)
            endpoint->report(*ret_done[i]);
        endpoint->tell_lost();
    });
    return count;
}

tutti_status test(tutti_endpoint *endpoint, tutti_request *request) noexcept
{
    endpoint->let_go();
    if (!endpoint->bell.has_news())
        return request->status;
    guarded(endpoint->host, endpoint->self, [&] {
        bool found;
        {
            const std::lock_guard<std::mutex> lock(endpoint->mutex);
            endpoint->done.each(show); /* the others, too: progress will only say which they are */
            found = endpoint->done.remove(*request);
            endpoint->bell.settle(!endpoint->done.empty());
        }
        if (found)
            endpoint->report(*request);
        endpoint->tell_lost();
    });
    return request->status;
}

tutti_status wait_fd(tutti_endpoint *endpoint, std::int32_t *ret_fd) noexcept
{
    *ret_fd = endpoint->bell.descriptor();
    return TUTTI_OK;
}

std::int32_t arm(tutti_endpoint *endpoint) noexcept
{
    const std::lock_guard<std::mutex> lock(endpoint->mutex);

    endpoint->let_go();
    return endpoint->bell.arm();
}

void traffic(tutti_endpoint *endpoint, std::uint64_t ret_counters[5]) noexcept
{
    ret_counters[0] = endpoint->sent_bytes;
    ret_counters[1] = endpoint->received_bytes;
    ret_counters[2] = endpoint->sent;
    ret_counters[3] = endpoint->received;
    ret_counters[4] = 0; /* nothing is mapped */
}

/* Members by name only since C++20, so they are set here, before anybody looks. */
constexpr tutti_transport_ops make_ops()
{
    tutti_transport_ops ops{};

    ops.struct_size = sizeof ops;
    ops.threads = TUTTI_THREADS_ONE_AT_A_TIME;
    ops.lanes = 1;
    ops.open = open_endpoint;
    ops.address = address;
    ops.connect = connect_peer;
    ops.isend = isend;
    ops.irecv = irecv;
    ops.test = test;
    ops.close = close_endpoint;
    ops.progress = progress;
    ops.cancel = cancel;
    ops.wait_fd = wait_fd;
    ops.arm = arm;
    ops.disconnect = disconnect;
    ops.traffic = traffic;
    ops.piece_bytes = 16 << 20;
    return ops;
}

} // namespace

extern const tutti_transport_ops tutti_gloo::transport_ops = make_ops();
