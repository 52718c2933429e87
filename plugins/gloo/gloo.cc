/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gloo: messages over Gloo's unbound buffers, by its TCP transport.
 *
 * The operations of the plugin. Gloo is C++ that throws, waits and has threads; none of this reaches the core:
 * what throws ends in guarded() or in a thread of peer.cc, and what waits is done by these threads. The
 * functions that move messages hand requests over, and take back what is complete.
 *
 * The core sleeps on an eventfd, which is written only after arm() has asked for it.
 */
#include "endpoint.hh"

#include <gloo/config.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <system_error>

#include <cerrno>
#include <sys/eventfd.h>
#include <unistd.h>

using namespace tutti_gloo;

namespace
{

constexpr std::chrono::milliseconds close_within{1000};

/* Runs what may throw, and answers as C does. */
template <typename Action>
tutti_status guarded(const tutti_host &host, void *self, Action action) noexcept
{
    const auto fail = [&](tutti_status status, int error, const char *words) {
        return host.error(self, status, error, words);
    };

    try {
        action();
        return TUTTI_OK;
    } catch (const failure &what) {
        return fail(what.status, what.error, what.words.c_str());
    } catch (const std::bad_alloc &) {
        return fail(TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    } catch (const std::system_error &what) {
        return fail(TUTTI_ERR_SYSTEM, what.code().value(), "cannot start a thread");
    } catch (const std::exception &what) {
        return fail(TUTTI_ERR_PLUGIN, 0, what.what());
    } catch (...) {
        return fail(TUTTI_ERR_INTERNAL, 0, "an exception that nobody expected");
    }
}

} // namespace

/* ---- an endpoint ----------------------------------------------------------------------------- */

tutti_endpoint::tutti_endpoint(const tutti_host &services, void *host_self,
                               const tutti_endpoint_options &options)
    : host(services), self(host_self), token(),
      mesh(options.bind_address, options.rank, options.size), address(mesh.address())
{
    std::copy(std::begin(options.token), std::end(options.token), token.begin());
    peers.reserve(static_cast<std::size_t>(options.size));
    event = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0)
        throw failure{TUTTI_ERR_SYSTEM, errno, "cannot make an eventfd"};
}

/* What was sent still arrives: a bye comes behind it, and is given some time. */
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
    ::close(event);
}

void tutti_endpoint::complete(tutti_request &request, tutti_status result)
{
    of(request).result = result;
    done.push(request);
    wake();
}

void tutti_endpoint::wake()
{
    const std::uint64_t one = 1;

    news.store(true, std::memory_order_release);
    if (!armed)
        return;
    armed = false;
    /* It can only fail when it is readable already. */
    [[maybe_unused]] const ssize_t written = write(event, &one, sizeof one);
}

void tutti_endpoint::report(tutti_request &request)
{
    const request_state &s = of(request);

    request.bytes = s.bytes;
    request.status = s.result;
    if (s.result == TUTTI_ERR_INTERNAL)
        fail(TUTTI_ERR_INTERNAL, 0,
             "a message of " + std::to_string(s.bytes) + " bytes is longer than was expected");
}

void tutti_endpoint::tell_lost()
{
    for (const auto &peer : peers) {
        {
            const std::lock_guard<std::mutex> lock(mutex);

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
                          "needs a tutti that tells plugins how many members there are"};
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
    const std::vector<std::uint8_t> &bytes = endpoint->address;

    return guarded(endpoint->host, endpoint->self, [&] {
        if (capacity < bytes.size())
            throw failure{TUTTI_ERR_INTERNAL, 0,
                          "the address needs " + std::to_string(bytes.size()) + " bytes"};
        std::memcpy(ret_address, bytes.data(), bytes.size());
        *ret_bytes = bytes.size();
    });
}

tutti_status connect_peer(tutti_endpoint *endpoint, const void *from, std::uint64_t bytes,
                          std::uint64_t label, tutti_peer **ret_peer) noexcept
{
    return guarded(endpoint->host, endpoint->self, [&] {
        way to = endpoint->mesh.way_to(static_cast<const std::uint8_t *>(from), bytes);

        for (const auto &peer : endpoint->peers)
            if (peer->to.rank == to.rank)
                throw failure{TUTTI_ERR_INVALID_ARGUMENT, 0,
                              "rank " + std::to_string(to.rank) +
                                  " is a peer of this endpoint already"};
        endpoint->peers.push_back(std::make_unique<tutti_peer>(*endpoint, label, std::move(to)));
        *ret_peer = endpoint->peers.back().get();
    });
}

/* What isend and irecv have in common; `queue` is the peer's for the direction. */
tutti_status post(tutti_endpoint &endpoint, tutti_peer &peer, std::uint32_t lane, const void *data,
                  std::uint64_t bytes, tutti_request &request, request_queue &queue) noexcept
{
    return guarded(endpoint.host, endpoint.self, [&] {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);

        if (lane != 0)
            throw failure{TUTTI_ERR_INVALID_ARGUMENT, 0, "there is only lane 0"};
        if (peer.lost)
            throw failure{TUTTI_ERR_PEER_LOST, 0, peer.lost_words};
        request.status = TUTTI_ERR_NOT_READY;
        of(request) = {nullptr, static_cast<std::uint8_t *>(const_cast<void *>(data)), bytes,
                       TUTTI_ERR_NOT_READY};
        peer.post(request, queue);
    });
}

tutti_status isend(tutti_endpoint *endpoint, tutti_peer *peer, std::uint32_t lane, const void *data,
                   std::uint64_t bytes, std::uint32_t, tutti_request *request) noexcept
{
    return post(*endpoint, *peer, lane, data, bytes, *request, peer->sends);
}

tutti_status irecv(tutti_endpoint *endpoint, tutti_peer *peer, std::uint32_t lane, void *data,
                   std::uint64_t capacity, tutti_request *request) noexcept
{
    return post(*endpoint, *peer, lane, data, capacity, *request, peer->receives);
}

/* Cheap when there is no news: the core asks often. */
std::uint32_t progress(tutti_endpoint *endpoint, tutti_request **ret_done,
                       std::uint32_t capacity) noexcept
{
    std::uint32_t count = 0;

    if (!endpoint->news.load(std::memory_order_acquire))
        return 0;
    {
        const std::lock_guard<std::mutex> lock(endpoint->mutex);

        while (count < capacity && !endpoint->done.empty())
            ret_done[count++] = &endpoint->done.pop();
        endpoint->news.store(!endpoint->done.empty(), std::memory_order_relaxed);
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
    if (!endpoint->news.load(std::memory_order_acquire))
        return request->status;
    guarded(endpoint->host, endpoint->self, [&] {
        bool found;
        {
            const std::lock_guard<std::mutex> lock(endpoint->mutex);
            found = endpoint->done.remove(*request);
            endpoint->news.store(!endpoint->done.empty(), std::memory_order_relaxed);
        }
        if (found)
            endpoint->report(*request);
        endpoint->tell_lost();
    });
    return request->status;
}

tutti_status wait_fd(tutti_endpoint *endpoint, std::int32_t *ret_fd) noexcept
{
    *ret_fd = endpoint->event;
    return TUTTI_OK;
}

std::int32_t arm(tutti_endpoint *endpoint) noexcept
{
    const std::lock_guard<std::mutex> lock(endpoint->mutex);
    std::uint64_t past;

    [[maybe_unused]] const ssize_t taken = read(endpoint->event, &past, sizeof past);
    endpoint->armed = !endpoint->news.load(std::memory_order_relaxed);
    return endpoint->armed ? TUTTI_ARMED : TUTTI_EVENTS_PENDING;
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
    ops.wait_fd = wait_fd;
    ops.arm = arm;
    ops.traffic = traffic;
    return ops;
}

constexpr tutti_transport_ops ops = make_ops();
constexpr tutti_provider transport = {sizeof(tutti_provider), TUTTI_PROVIDER_TRANSPORT, "gloo",
                                      &ops};
const tutti_provider *const providers[] = {&transport};

#define GLOO_TEXT_OF(number) #number
#define GLOO_TEXT(number) GLOO_TEXT_OF(number)

} // namespace

extern "C" {
TUTTI_PLUGIN_EXPORT("gloo",
                    "1.0, drives Gloo " GLOO_TEXT(GLOO_VERSION_MAJOR) "." GLOO_TEXT(
                        GLOO_VERSION_MINOR) "." GLOO_TEXT(GLOO_VERSION_PATCH) " over TCP",
                    "Apache-2.0", providers, 1);
}
