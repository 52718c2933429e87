/* SPDX-License-Identifier: Apache-2.0 */
#include "context.hh"

#include <vector>

namespace tutti_gloo
{
namespace
{

class called_back_buffer : public gloo::transport::UnboundBuffer
{
  public:
    called_back_buffer(waiter &with, void *memory, std::size_t bytes)
        : UnboundBuffer(memory, bytes), with_(with), inner_(with.mesh.buffer(memory, bytes))
    {
    }
    /* The times are those of Gloo's options, and nobody's: deadlines are the core's. */
    bool waitRecv(int *, std::chrono::milliseconds) override
    {
        with_.waits.wait(*inner_, true, with_.look);
        return true;
    }
    bool waitSend(int *, std::chrono::milliseconds) override
    {
        with_.waits.wait(*inner_, false, with_.look);
        return true;
    }
    void abortWaitRecv() override
    {
        inner_->abortWaitRecv();
    }
    void abortWaitSend() override
    {
        inner_->abortWaitSend();
    }
    void send(int to, std::uint64_t slot, std::size_t offset, std::size_t bytes) override
    {
        const std::size_t count = counted(offset, bytes);

        with_.mesh.pair(to).send(inner_.get(), key(slot, count), offset, count);
    }
    void recv(int from, std::uint64_t slot, std::size_t offset, std::size_t bytes) override
    {
        const std::size_t count = counted(offset, bytes);

        with_.mesh.pair(from).recv(inner_.get(), key(slot, count), offset, count);
    }
    void recv(std::vector<int>, std::uint64_t, std::size_t, std::size_t) override
    {
        throw failure{TUTTI_ERR_INTERNAL, 0, "Gloo's collectives never receive from anybody"};
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

    waiter &with_;
    std::unique_ptr<gloo::transport::UnboundBuffer> inner_;
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
        throw failure{TUTTI_ERR_INTERNAL, 0, "the pairs are there already"};
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
