/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A mesh is what Gloo calls a context: for each other member a pair, which listens on a port of its own
 * from the start. So a member's address is a list of ports, one for each member, and everybody picks the one
 * that is for him. Of two members the one with the greater address dials; Gloo decides that by itself. A
 * device, one thread with an epoll set, serves the meshes of a group.
 */
#include "mesh.hh"

#include <gloo/transport/tcp/address.h>
#include <gloo/transport/tcp/context.h>
#include <gloo/transport/tcp/pair.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <mutex>
#include <utility>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/timerfd.h>
#include <unistd.h>

namespace tutti_gloo
{
namespace
{

/* Both as they travel: bytes of a host's own order, which is checked. */
struct address_head {
    std::uint32_t magic;
    std::int32_t rank, size;
};
struct address_entry {
    std::uint16_t family, port; /* the port in network order, as in a sockaddr */
    std::uint8_t ip[16];
};
static_assert(sizeof(address_head) == 12 && sizeof(address_entry) == 20, "no padding travels");

constexpr std::uint32_t address_magic = 0x336f6c67; /* "glo3" */
constexpr std::size_t address_max = 65536;
constexpr long tick_ns = 200000;
constexpr int members_max =
    static_cast<int>((address_max - sizeof(address_head)) / sizeof(address_entry));

address_entry entry_of(const sockaddr_storage &from)
{
    address_entry entry{};

    entry.family = from.ss_family;
    if (from.ss_family == AF_INET) {
        const auto &in = reinterpret_cast<const sockaddr_in &>(from);
        entry.port = in.sin_port;
        std::memcpy(entry.ip, &in.sin_addr, sizeof in.sin_addr);
    } else {
        const auto &in6 = reinterpret_cast<const sockaddr_in6 &>(from);
        entry.port = in6.sin6_port;
        std::memcpy(entry.ip, &in6.sin6_addr, sizeof in6.sin6_addr);
    }
    return entry;
}

sockaddr_storage socket_address_of(const address_entry &entry)
{
    sockaddr_storage to{};

    to.ss_family = entry.family;
    if (entry.family == AF_INET) {
        auto &in = reinterpret_cast<sockaddr_in &>(to);
        in.sin_port = entry.port;
        std::memcpy(&in.sin_addr, entry.ip, sizeof in.sin_addr);
    } else {
        auto &in6 = reinterpret_cast<sockaddr_in6 &>(to);
        in6.sin6_port = entry.port;
        std::memcpy(&in6.sin6_addr, entry.ip, sizeof in6.sin6_addr);
    }
    return to;
}

const sockaddr_storage &socket_address_of(const gloo::transport::Address &address)
{
    return dynamic_cast<const gloo::transport::tcp::Address &>(address).getSockaddr();
}

/* Gloo's pair, but no exception leaves its handler of events. Without this a client that connects
 * and is gone already, or that does not speak Gloo's protocol, would end the process. Here only the
 * connection ends. */
class pair_that_fails_alone : public gloo::transport::tcp::Pair
{
  public:
    using Pair::Pair;
    void handleEvents(int events) override
    {
        /* As Gloo does it: the holder may wait for this thread, and events that are left come
         * again. */
        const std::unique_lock<std::mutex> lock(m_, std::try_to_lock);

        if (!lock || ex_ || state_ == CLOSED)
            return;
        try {
            handle(events);
        } catch (const std::exception &what) {
            /* A pair just accepted: Gloo's loop does not know it and would not close it. */
            if (state_ == LISTENING)
                ::close(std::exchange(fd_, -1));
            if (!ex_)
                signalException("Gloo cannot go on with it: " + words_of(what));
        }
    }

  private:
    void handle(int events)
    {
        if (state_ == LISTENING)
            handleListening();
        else if (state_ == CONNECTING)
            handleConnecting();
        else
            handleReadWrite(events);
    }
};

class context_of_such_pairs : public gloo::transport::tcp::Context
{
  public:
    using Context::Context;
    std::unique_ptr<gloo::transport::Pair> &createPair(int other) override
    {
        auto &one = pairs_[static_cast<std::size_t>(other)];

        one = std::make_unique<pair_that_fails_alone>(this, device_.get(), other, getTimeout());
        return one;
    }
};

std::string name_of(const address_entry &entry)
{
    std::array<char, INET6_ADDRSTRLEN> ip{};

    inet_ntop(entry.family, entry.ip, ip.data(), ip.size());
    return std::string(ip.data()) + " port " + std::to_string(ntohs(entry.port));
}

} // namespace

signals_blocked::signals_blocked()
{
    sigset_t all;

    static_assert(sizeof(sigset_t) <= sizeof before_, "no room for the mask");
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, reinterpret_cast<sigset_t *>(before_));
}

signals_blocked::~signals_blocked()
{
    pthread_sigmask(SIG_SETMASK, reinterpret_cast<sigset_t *>(before_), nullptr);
}

ticks::ticks(const device &of) : device_(of), timer_(timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC))
{
    const itimerspec every{{0, tick_ns}, {0, tick_ns}};

    if (timer_ < 0)
        return; /* slower, but right */
    timerfd_settime(timer_, 0, &every, nullptr);
    try {
        of->registerDescriptor(timer_, EPOLLIN, this);
    } catch (const std::exception &) {
        ::close(timer_);
        timer_ = -1;
    }
}

/* A device that is gone has no thread that could still call. */
ticks::~ticks()
{
    const device left = device_.lock();

    if (timer_ < 0)
        return;
    if (left)
        left->unregisterDescriptor(timer_, this);
    ::close(timer_);
}

void ticks::handleEvents(int)
{
    std::uint64_t past;

    [[maybe_unused]] const ssize_t taken = read(timer_, &past, sizeof past);
}

device mesh::make_device(const char *bind_address)
{
    const signals_blocked blocked; /* inherited by Gloo's thread */

    return std::dynamic_pointer_cast<gloo::transport::tcp::Device>(
        gloo::transport::tcp::CreateDevice(bind_address ? bind_address : "127.0.0.1"));
}

mesh::mesh(device on, int rank, int size) : rank_(rank), size_(size), device_(std::move(on))
{
    if (size > members_max)
        throw failure{TUTTI_ERR_UNSUPPORTED, 0,
                      "at most " + std::to_string(members_max) +
                          " members, each with a port of its own"};
    quiet_ = device_->createContext(0, 1);
    pairs_ = std::make_shared<context_of_such_pairs>(device_, rank, size);
    pairs_->setTimeout(std::chrono::milliseconds::zero()); /* none: deadlines are the core's */
    for (int i = 0; i < size; i++)
        if (i != rank)
            pairs_->createPair(i);
}

mesh::~mesh()
{
    const ticks fast(device_);

    pairs_.reset();
    quiet_.reset();
    device_.reset();
}

void mesh::cut()
{
    const ticks fast(device_);

    for (int i = 0; i < size_; i++)
        if (i != rank_)
            pair(i).close();
}

std::vector<std::uint8_t> mesh::address() const
{
    const address_head head{address_magic, rank_, size_};
    std::vector<std::uint8_t> bytes(sizeof head +
                                    static_cast<std::size_t>(size_) * sizeof(address_entry));

    std::memcpy(bytes.data(), &head, sizeof head);
    for (int i = 0; i < size_; i++) {
        const address_entry entry =
            i == rank_ ? address_entry{}
                       : entry_of(socket_address_of(pairs_->getPair(i)->address()));
        std::memcpy(&bytes[sizeof head + static_cast<std::size_t>(i) * sizeof entry], &entry,
                    sizeof entry);
    }
    return bytes;
}

std::uint64_t give_address(const std::vector<std::uint8_t> &address, void *ret_address,
                           std::uint64_t capacity)
{
    if (capacity < address.size())
        throw failure{TUTTI_ERR_INTERNAL, 0,
                      "the address needs " + std::to_string(address.size()) + " bytes"};
    std::memcpy(ret_address, address.data(), address.size());
    return address.size();
}

route mesh::route_to(const std::uint8_t *address, std::size_t bytes) const
{
    const failure other_kind{TUTTI_ERR_MISMATCH, 0,
                             "the peer's address is of another kind or version"};
    address_head head;
    address_entry entry;

    if (bytes < sizeof head)
        throw other_kind;
    std::memcpy(&head, address, sizeof head);
    if (head.magic != address_magic || head.size != size_ || head.rank < 0 || head.rank >= size_ ||
        bytes != sizeof head + static_cast<std::size_t>(size_) * sizeof entry)
        throw other_kind;
    if (head.rank == rank_)
        throw failure{TUTTI_ERR_INVALID_ARGUMENT, 0, "the address is this endpoint's own"};
    std::memcpy(&entry, address + sizeof head + static_cast<std::size_t>(rank_) * sizeof entry,
                sizeof entry);
    if ((entry.family != AF_INET && entry.family != AF_INET6) || entry.port == 0)
        throw other_kind;
    return {head.rank, gloo::transport::tcp::Address(socket_address_of(entry)).bytes(),
            name_of(entry)};
}

} // namespace tutti_gloo
