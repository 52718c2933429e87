/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport for tutti in C++17: messages inside a host over Unix sockets. Each direction has its own
 * connection, which the sender dials. Beyond ../plugin-template, `progress` moves all peers in one call,
 * and the core sleeps on `wait_fd` until the kernel has events.
 *
 * No exception leaves this file, since the core is C. Functions that may throw (no descriptor, no memory)
 * return a status and run inside guarded(). Functions that move messages neither allocate nor throw.
 * Objects own descriptors and peers, so that a failure half-way leaks nothing.
 *
 * The epoll set is edge-triggered: `readable` and `writable` keep an event until it is used up. A message
 * without a receive therefore does not keep the process awake.
 */
#include "owned.hh"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <list>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

namespace
{

using identity = std::array<std::uint8_t, 16>;

/* The exception that guarded() turns into a status and a message. */
struct failure {
    tutti_status status;
    int error;
    const char *words;
};

struct hello {
    identity token, from;
};

constexpr std::size_t frame_bytes = sizeof(std::uint64_t);

/* What an event of the epoll set is about. */
struct source {
    enum class kind { listener, guest, in, out } kind;
    tutti_peer *peer; /* of in and out */
};

/* A connected process that has not sent its hello, or is not known yet. */
struct guest {
    source heard{source::kind::guest, nullptr};
    descriptor fd;
    std::int64_t deadline_ns = 0;
    identity from{};
    bool greeted = false;
};

constexpr std::size_t guests_max = 64;
constexpr std::int64_t guest_ns = 10'000'000'000; /* to say hello */

} // namespace

struct tutti_peer {
    tutti_endpoint &endpoint;
    std::uint64_t label;
    identity id;
    source in_heard{source::kind::in, this}, out_heard{source::kind::out, this};
    descriptor in{}, out{};
    bool readable = false, writable = false;
    bool deaf = false, lost = false; /* nothing can be sent to it; nor received from it */
    request_queue sends{}, receives{};
    std::uint64_t frame = 0, frame_done = 0;

    tutti_peer(tutti_endpoint &owner, std::uint64_t name, const identity &address)
        : endpoint(owner), label(name), id(address)
    {
    }
    void stop_sending(const char *words) noexcept;
    void lose(const char *words) noexcept;
    void move() noexcept;

  private:
    bool read_some(void *to, std::uint64_t bytes, std::uint64_t &ret_read) noexcept;
    bool receive_more() noexcept;
    bool send_more() noexcept;
};

struct tutti_endpoint {
    const tutti_host &host;
    void *self;
    identity token{}, id{};
    descriptor listener{}, events{};
    source listener_heard{source::kind::listener, nullptr};
    std::list<std::unique_ptr<tutti_peer>> peers{};
    std::list<guest> guests{};
    request_queue done{};                   /* complete, and not reported */
    const tutti_request *posting = nullptr; /* its completion is the caller's to see */

    tutti_endpoint(const tutti_host &services, void *host_self) : host(services), self(host_self)
    {
    }
    tutti_status fail(const failure &what) const noexcept
    {
        return host.error(self, what.status, what.error, what.words);
    }
    void complete(tutti_request &request, tutti_status status) noexcept
    {
        request.status = status;
        if (&request != posting)
            done.push(request);
    }
    void watch(int fd, source &heard, std::uint32_t what);
    void open();
    void dial(tutti_peer &peer);
    void listen_to_events();
    void admit(tutti_peer &peer) noexcept;

  private:
    void accept_guests();
    void hear_hellos() noexcept;
};

namespace
{

/* Runs what may throw, and answers as C does. */
template <typename Action> tutti_status guarded(tutti_endpoint &endpoint, Action action) noexcept
{
    try {
        action();
        return TUTTI_OK;
    } catch (const failure &what) {
        return endpoint.fail(what);
    } catch (const std::bad_alloc &) {
        return endpoint.fail({TUTTI_ERR_NO_MEMORY, 0, "out of memory"});
    } catch (...) {
        return endpoint.fail({TUTTI_ERR_INTERNAL, 0, "an unexpected exception"});
    }
}

std::pair<sockaddr_un, socklen_t> name_of(const identity &id)
{
    sockaddr_un name{};
    std::size_t used = 1; /* the NUL of an abstract name */

    name.sun_family = AF_UNIX;
    used += static_cast<std::size_t>(
        std::snprintf(name.sun_path + used, sizeof name.sun_path - used, "tutti-oneway-"));
    for (std::uint8_t byte : id)
        used += static_cast<std::size_t>(
            std::snprintf(name.sun_path + used, sizeof name.sun_path - used, "%02x", byte));
    return {name, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + used)};
}

bool same_user(int fd)
{
    ucred other{};
    socklen_t bytes = sizeof other;

    return getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &other, &bytes) == 0 && other.uid == geteuid();
}

descriptor stream_socket()
{
    descriptor fd(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));

    if (!fd)
        throw failure{TUTTI_ERR_SYSTEM, errno, "cannot make a socket"};
    return fd;
}

} // namespace

/* ---- a peer --------------------------------------------------------------------------------- */

/* What the peer sent before it closed its end may lie unread in the other connection. */
void tutti_peer::stop_sending(const char *words) noexcept
{
    out = descriptor();
    while (!sends.empty())
        endpoint.complete(sends.pop(), TUTTI_ERR_PEER_LOST);
    if (!std::exchange(deaf, true))
        endpoint.host.peer_lost(endpoint.self, label, words);
}

/* Nothing that it sent is unread. */
void tutti_peer::lose(const char *words) noexcept
{
    lost = true;
    in = descriptor();
    stop_sending(words);
    while (!receives.empty())
        endpoint.complete(receives.pop(), TUTTI_ERR_PEER_LOST);
}

/* False when nothing more can be read now. */
bool tutti_peer::read_some(void *to, std::uint64_t bytes, std::uint64_t &ret_read) noexcept
{
    const ssize_t n = recv(in.get(), to, bytes, 0);

    if (n > 0) {
        ret_read = static_cast<std::uint64_t>(n);
        return true;
    }
    if (n == 0)
        lose("it closed its connection");
    else if (errno == EAGAIN)
        readable = false;
    else if (errno != EINTR)
        lose(std::strerror(errno));
    return false;
}

bool tutti_peer::receive_more() noexcept
{
    state &s = of(receives.front());
    std::uint64_t n = 0;

    if (frame_done < frame_bytes) {
        const bool more = read_some(reinterpret_cast<std::uint8_t *>(&frame) + frame_done,
                                    frame_bytes - frame_done, n);
        frame_done += n;
        return more;
    }
    const bool fits = frame <= s.bytes;
    if (s.done < frame) { /* reads a message that is too long to its end, to find the next */
        std::array<std::uint8_t, 4096> past;
        const std::uint64_t left = frame - s.done;
        const bool more = fits ? read_some(s.data + s.done, left, n)
                               : read_some(past.data(), std::min(left, past.size() + 0UL), n);
        if (lost)
            return false;
        s.done += n;
        return more;
    }
    frame_done = 0;
    receives.front().bytes = frame;
    endpoint.complete(
        receives.pop(),
        fits ? TUTTI_OK
             : endpoint.fail({TUTTI_ERR_INTERNAL, 0, "a message is longer than its receive"}));
    return true;
}

bool tutti_peer::send_more() noexcept
{
    state &s = of(sends.front());
    const std::uint64_t framed = std::min(s.done, frame_bytes + 0UL);
    std::array<iovec, 2> pieces{
        iovec{reinterpret_cast<std::uint8_t *>(&s.frame) + framed, frame_bytes - framed},
        iovec{s.data + (s.done - framed), s.bytes - (s.done - framed)}};
    msghdr message{};

    message.msg_iov = pieces.data();
    message.msg_iovlen = pieces.size();
    const ssize_t n = sendmsg(out.get(), &message, MSG_NOSIGNAL);
    if (n < 0) {
        if (errno == EAGAIN)
            writable = false;
        else if (errno != EINTR)
            stop_sending(std::strerror(errno));
        return false;
    }
    s.done += static_cast<std::uint64_t>(n);
    if (s.done == frame_bytes + s.bytes)
        endpoint.complete(sends.pop(), TUTTI_OK);
    return true;
}

void tutti_peer::move() noexcept
{
    while (in && readable && !receives.empty() && receive_more())
        ;
    while (out && writable && !sends.empty() && send_more())
        ;
}

/* ---- an endpoint ---------------------------------------------------------------------------- */

void tutti_endpoint::watch(int fd, source &heard, std::uint32_t what)
{
    epoll_event event{};

    event.events = what | EPOLLET;
    event.data.ptr = &heard;
    if (epoll_ctl(events.get(), EPOLL_CTL_ADD, fd, &event) != 0)
        throw failure{TUTTI_ERR_SYSTEM, errno, "cannot watch a socket"};
}

void tutti_endpoint::open()
{
    if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
        throw failure{TUTTI_ERR_SYSTEM, errno, "cannot get random bytes"};
    const auto [name, bytes] = name_of(id);
    events = descriptor(epoll_create1(EPOLL_CLOEXEC));
    listener = stream_socket();
    if (!events || bind(listener.get(), reinterpret_cast<const sockaddr *>(&name), bytes) != 0 ||
        listen(listener.get(), SOMAXCONN) != 0)
        throw failure{TUTTI_ERR_SYSTEM, errno, "cannot listen on a Unix socket"};
    watch(listener.get(), listener_heard, EPOLLIN);
}

/* For what this side sends. A full backlog is met again at the next send or turn. */
void tutti_endpoint::dial(tutti_peer &peer)
{
    const auto [name, bytes] = name_of(peer.id);
    const hello greeting{token, id};
    descriptor fd = stream_socket();

    if (connect(fd.get(), reinterpret_cast<const sockaddr *>(&name), bytes) != 0) {
        if (errno != EAGAIN && errno != EINTR)
            peer.stop_sending(std::strerror(errno));
        return;
    }
    if (!same_user(fd.get()) || send(fd.get(), &greeting, sizeof greeting, MSG_NOSIGNAL) !=
                                    static_cast<ssize_t>(sizeof greeting)) {
        peer.stop_sending("another process answered at its address");
        return;
    }
    watch(fd.get(), peer.out_heard, EPOLLOUT | EPOLLRDHUP);
    peer.out = std::move(fd);
    peer.writable = true;
}

void tutti_endpoint::accept_guests()
{
    const std::int64_t deadline = host.now_ns(self) + guest_ns;

    while (guests.size() < guests_max) {
        descriptor fd(accept4(listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));

        if (!fd)
            return;
        if (!same_user(fd.get()))
            continue;
        guests.emplace_back().fd = std::move(fd);
        guests.back().deadline_ns = deadline;
        watch(guests.back().fd.get(), guests.back().heard, EPOLLIN);
    }
}

/* A hello is read as a whole or not at all. */
void tutti_endpoint::hear_hellos() noexcept
{
    const std::int64_t now = host.now_ns(self);

    for (auto it = guests.begin(); it != guests.end();) {
        guest &one = *it++;
        hello greeting;

        if (one.greeted)
            continue;
        const ssize_t n = recv(one.fd.get(), &greeting, sizeof greeting, MSG_PEEK);
        const bool more =
            n < 0 ? errno == EAGAIN : n > 0 && n < static_cast<ssize_t>(sizeof greeting);
        if (more && now < one.deadline_ns)
            continue;
        if (more || n <= 0 || greeting.token != token ||
            recv(one.fd.get(), &greeting, sizeof greeting, 0) != n) {
            guests.erase(std::prev(it));
            continue;
        }
        one.from = greeting.from;
        one.greeted = true;
    }
    for (const auto &peer : peers)
        admit(*peer);
}

/* Its guest, if it has come, is heard as the peer from now on. */
void tutti_endpoint::admit(tutti_peer &peer) noexcept
{
    const auto it = std::find_if(guests.begin(), guests.end(), [&](const guest &one) {
        return one.greeted && one.from == peer.id;
    });
    epoll_event event{};

    if (it == guests.end() || peer.in || peer.lost)
        return;
    event.events = EPOLLIN | EPOLLRDHUP | EPOLLET;
    event.data.ptr = &peer.in_heard;
    epoll_ctl(events.get(), EPOLL_CTL_MOD, it->fd.get(), &event);
    peer.in = std::move(it->fd);
    peer.readable = true;
    guests.erase(it);
}

void tutti_endpoint::listen_to_events()
{
    std::array<epoll_event, 32> heard;
    const int n = epoll_wait(events.get(), heard.data(), static_cast<int>(heard.size()), 0);

    for (int i = 0; i < n; i++) {
        const source &what = *static_cast<source *>(heard[static_cast<std::size_t>(i)].data.ptr);

        if (what.kind == source::kind::in)
            what.peer->readable = true;
        else if (what.kind == source::kind::out)
            what.peer->writable = true;
    }
    for (bool full = n > 0 || !guests.empty(); full;) {
        accept_guests();
        full = guests.size() == guests_max;
        hear_hellos();
        full = full && guests.size() < guests_max; /* there is room for waiting guests */
    }
    for (const auto &peer : peers) {
        if (peer->deaf && !peer->in && !peer->lost)
            peer->lose(
                "it never connected"); /* all that had come until it closed was accepted above */
        if (!peer->out && !peer->sends.empty())
            dial(*peer);
        peer->move();
    }
}

/* ---- what the core calls -------------------------------------------------------------------- */

namespace
{

tutti_status open_endpoint(const tutti_host *host, void *self,
                           const tutti_endpoint_options *options,
                           tutti_endpoint **ret_endpoint) noexcept
{
    std::unique_ptr<tutti_endpoint> endpoint(new (std::nothrow) tutti_endpoint(*host, self));

    if (!endpoint)
        return host->error(self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
    std::copy(std::begin(options->token), std::end(options->token), endpoint->token.begin());
    const tutti_status status = guarded(*endpoint, [&] { endpoint->open(); });
    if (status == TUTTI_OK)
        *ret_endpoint = endpoint.release();
    return status;
}

void close_endpoint(tutti_endpoint *endpoint) noexcept
{
    delete endpoint;
}

tutti_status address(tutti_endpoint *endpoint, void *ret_address, std::uint64_t capacity,
                     std::uint64_t *ret_bytes) noexcept
{
    if (capacity < endpoint->id.size())
        return endpoint->fail({TUTTI_ERR_INTERNAL, 0, "an address has 16 bytes"});
    std::memcpy(ret_address, endpoint->id.data(), endpoint->id.size());
    *ret_bytes = endpoint->id.size();
    return TUTTI_OK;
}

tutti_status connect_peer(tutti_endpoint *endpoint, const void *from, std::uint64_t bytes,
                          std::uint64_t label, tutti_peer **ret_peer) noexcept
{
    return guarded(*endpoint, [&] {
        identity id;

        if (bytes != id.size())
            throw failure{TUTTI_ERR_MISMATCH, 0, "the address of a peer has 16 bytes"};
        std::memcpy(id.data(), from, id.size());
        endpoint->peers.push_front(std::make_unique<tutti_peer>(*endpoint, label, id));
        *ret_peer = endpoint->peers.front().get();
        endpoint->admit(**ret_peer);
    });
}

/* What isend and irecv have in common; `queue` is the peer's for the direction. */
tutti_status post(tutti_endpoint &endpoint, tutti_peer &peer, std::uint32_t lane, const void *data,
                  std::uint64_t bytes, tutti_request &request, request_queue &queue) noexcept
{
    if (lane != 0)
        return endpoint.fail({TUTTI_ERR_INVALID_ARGUMENT, 0, "there is one lane, number 0"});
    if (&queue == &peer.sends ? peer.deaf : peer.lost)
        return endpoint.fail({TUTTI_ERR_PEER_LOST, 0, "the connection has ended"});
    request.status = TUTTI_ERR_NOT_READY;
    of(request) =
        state{nullptr, const_cast<std::uint8_t *>(static_cast<const std::uint8_t *>(data)), bytes,
              0, bytes};
    endpoint.posting = &request;
    queue.push(request);
    const tutti_status status = guarded(endpoint, [&] {
        if (&queue == &peer.sends && !peer.out)
            endpoint.dial(peer);
        peer.move();
    });
    endpoint.posting = nullptr;
    if (status != TUTTI_OK)
        queue.remove(request);
    return status;
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

std::uint32_t progress(tutti_endpoint *endpoint, tutti_request **ret_done,
                       std::uint32_t capacity) noexcept
{
    std::uint32_t count = 0;

    /* What fails here is found again, and told, by the next send. */
    guarded(*endpoint, [&] { endpoint->listen_to_events(); });
    while (count < capacity && !endpoint->done.empty())
        ret_done[count++] = &endpoint->done.pop();
    return count;
}

tutti_status test(tutti_endpoint *endpoint, tutti_request *request) noexcept
{
    guarded(*endpoint, [&] { endpoint->listen_to_events(); });
    if (request->status != TUTTI_ERR_NOT_READY)
        endpoint->done.remove(*request); /* it is reported now */
    return request->status;
}

tutti_status wait_fd(tutti_endpoint *endpoint, std::int32_t *ret_fd) noexcept
{
    *ret_fd = endpoint->events.get();
    return TUTTI_OK;
}

/* What is heard after the last turn makes the epoll set itself readable. */
std::int32_t arm(tutti_endpoint *endpoint) noexcept
{
    return endpoint->done.empty() ? TUTTI_ARMED : TUTTI_EVENTS_PENDING;
}

/* Members by name only since C++20, so they are set here, before anybody looks. */
constexpr tutti_transport_ops make_ops()
{
    tutti_transport_ops ops{};

    ops.struct_size = sizeof ops;
    ops.threads = TUTTI_THREADS_ONE_AT_A_TIME;
    ops.capabilities = TUTTI_CAP_HOST_ONLY;
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
    return ops;
}

constexpr tutti_transport_ops ops = make_ops();
constexpr tutti_provider transport = {sizeof(tutti_provider), TUTTI_PROVIDER_TRANSPORT, "oneway",
                                      &ops};
const tutti_provider *const providers[] = {&transport};

} // namespace

extern "C" {
TUTTI_PLUGIN_EXPORT("oneway", "1.0, Unix sockets in C++17", "Apache-2.0", providers, 1);
}
