/* SPDX-License-Identifier: Apache-2.0 */
#include "context.hh"

#include <deque>
#include <map>
#include <vector>

namespace tutti_gloo
{
namespace
{

[[noreturn]] void not_used()
{
    throw failure{
        TUTTI_ERR_INTERNAL, 0,
        "Gloo called a function that its collectives do not use; is this another version of Gloo?"};
}

/*
 * Gloo waits for as many completions as it has posted operations, and never cares which. Here it waits for the
 * oldest, so that it is known for whom; each member has a buffer of Gloo's for it, over the same memory.
 */
class called_back_buffer : public gloo::transport::UnboundBuffer
{
  public:
    called_back_buffer(waiter &with, void *memory, std::size_t bytes)
        : UnboundBuffer(memory, bytes), with_(with)
    {
    }
    /* The times are those of Gloo's options, and nobody's: deadlines are the core's. */
    bool waitRecv(int *, std::chrono::milliseconds) override
    {
        wait(receives_, true);
        return true;
    }
    bool waitSend(int *, std::chrono::milliseconds) override
    {
        wait(sends_, false);
        return true;
    }
    void abortWaitRecv() override
    {
        not_used();
    }
    void abortWaitSend() override
    {
        not_used();
    }
    void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override
    {
        const std::size_t count = counted(offset, bytes);

        with_.mesh.pair(to).send(&inner(to), key(slot, count), offset, count);
        sends_.push_back(to);
    }
    void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override
    {
        const std::size_t count = counted(offset, bytes);

        with_.mesh.pair(from).recv(&inner(from), key(slot, count), offset, count);
        receives_.push_back(from);
    }
    void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override
    {
        not_used();
    }

  private:
    std::size_t counted(std::size_t offset, std::size_t bytes) const
    {
        return bytes == kUnspecifiedByteCount ? size - offset : bytes;
    }
    std::uint64_t key(std::uint64_t slot, std::size_t bytes) const
    {
        return mixed(mixed(with_.call, slot), bytes);
    }
    gloo::transport::UnboundBuffer &inner(int other)
    {
        auto &one = inner_[other];

        if (!one)
            one = with_.mesh.buffer(ptr, size);
        return *one;
    }
    void wait(std::deque<int> &posted, bool receiving)
    {
        if (posted.empty())
            throw failure{TUTTI_ERR_INTERNAL, 0,
                          "Gloo waits for an operation that it has not started; is this another "
                          "version of Gloo?"};
        const int other = posted.front();

        with_.awaited.store(other, std::memory_order_relaxed);
        with_.waits.wait(inner(other), receiving, [&] { with_.look(other); });
        with_.awaited.store(-1, std::memory_order_relaxed);
        posted.pop_front();
    }

    waiter &with_;
    std::map<int, std::unique_ptr<gloo::transport::UnboundBuffer>> inner_{};
    std::deque<int> sends_{}, receives_{}; /* whom operations that nobody has waited for are with */
};

class called_back_transport : public gloo::transport::Context
{
  public:
    explicit called_back_transport(waiter &with)
        : gloo::transport::Context(with.mesh.rank(), with.mesh.size()), with_(with)
    {
    }
    std::unique_ptr<gloo::transport::Pair> &getPair(int other) override
    {
        return with_.mesh.pair_pointer(other);
    }
    std::unique_ptr<gloo::transport::Pair> &createPair(int) override
    {
        not_used();
    }
    std::unique_ptr<gloo::transport::UnboundBuffer> createUnboundBuffer(void *memory,
                                                                        std::size_t bytes) override
    {
        return std::make_unique<called_back_buffer>(with_, memory, bytes);
    }

  private:
    waiter &with_;
};

class called_back_context : public gloo::Context
{
  public:
    explicit called_back_context(waiter &with) : gloo::Context(with.mesh.rank(), with.mesh.size())
    {
        device_ = with.mesh.on();
        transportContext_ = std::make_shared<called_back_transport>(with);
    }
};

} // namespace

std::shared_ptr<gloo::Context> make_context(waiter &with)
{
    return std::make_shared<called_back_context>(with);
}

/* The finalizer of splitmix64. */
std::uint64_t mixed(std::uint64_t a, std::uint64_t b)
{
    std::uint64_t x = a ^ (b + 0x9e3779b97f4a7c15 + (a << 6) + (a >> 2));

    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
    x = (x ^ x >> 27) * 0x94d049bb133111eb;
    return x ^ x >> 31;
}

} // namespace tutti_gloo
