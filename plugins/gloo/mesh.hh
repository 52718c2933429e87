/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo's side of an endpoint or a team: a pair for each other member, and how they reach each other. */
#ifndef GLOO_MESH_HH
#define GLOO_MESH_HH

#include "failure.hh"

#include <gloo/transport/context.h>
#include <gloo/transport/pair.h>
#include <gloo/transport/tcp/device.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti_gloo
{

/* While it lives, the calling thread and those that it starts take no signals. Threads that write to
 * sockets need this always: Gloo asks for SIGPIPE when a peer is gone. */
class signals_blocked
{
  public:
    signals_blocked();
    ~signals_blocked();
    signals_blocked(const signals_blocked &) = delete;
    signals_blocked &operator=(const signals_blocked &) = delete;

  private:
    alignas(8) unsigned char before_[128];
};

using device = std::shared_ptr<gloo::transport::tcp::Device>;

/* While it lives, the loop of a device's thread turns every 200 us, and not every 10 ms: a thread
 * that takes a socket from it waits for a turn. */
class ticks : public gloo::transport::tcp::Handler
{
  public:
    explicit ticks(const device &of);
    ~ticks() override;
    ticks(const ticks &) = delete;
    ticks &operator=(const ticks &) = delete;
    void handleEvents(int events) override;

  private:
    std::weak_ptr<gloo::transport::tcp::Device> device_;
    int timer_;
};

/* Where to dial a member. */
struct route {
    int rank;
    std::vector<char> address; /* as Gloo takes it */
    std::string name;          /* of the address, for words */
};

/* Copies an address out; how many bytes it has. */
std::uint64_t give_address(const std::vector<std::uint8_t> &address, void *ret_address,
                           std::uint64_t capacity);

class mesh
{
  public:
    mesh(device on, int rank, int size);
    ~mesh();
    mesh(const mesh &) = delete;
    mesh &operator=(const mesh &) = delete;

    /* One thread of Gloo's, which serves the meshes made on it. */
    static device make_device(const char *bind_address);
    const device &on() const
    {
        return device_;
    }
    int rank() const
    {
        return rank_;
    }
    int size() const
    {
        return size_;
    }

    /* One address for each member's pair, as they travel. */
    std::vector<std::uint8_t> address() const;
    /* What another member's address says to us; it comes from outside. */
    route route_to(const std::uint8_t *address, std::size_t bytes) const;

    std::unique_ptr<gloo::transport::Pair> &pair_pointer(int rank)
    {
        return pairs_->getPair(rank);
    }
    gloo::transport::Pair &pair(int rank)
    {
        return *pairs_->getPair(rank);
    }
    /* Ends all connections at once, and all waits for one. */
    void cut();
    /* A buffer whose wait may run out: Gloo then closes all pairs of the buffer's context, and this
     * one's context has none. Pairs do not ask whose a buffer is. */
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer(void *memory, std::size_t bytes)
    {
        return quiet_->createUnboundBuffer(memory, bytes);
    }

  private:
    int rank_, size_;
    device device_;
    std::shared_ptr<gloo::transport::Context> pairs_, quiet_;
};

} // namespace tutti_gloo

#endif
