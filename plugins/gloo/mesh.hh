/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo's side of an endpoint: its thread, a pair for each other member, and how they reach each other. */
#ifndef GLOO_MESH_HH
#define GLOO_MESH_HH

#include <tutti/plugin.h>

#include <gloo/transport/context.h>
#include <gloo/transport/device.h>
#include <gloo/transport/pair.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace tutti_gloo
{

/* What guarded() turns into a status and the words for it. */
struct failure {
    tutti_status status;
    int error;
    std::string words;
};

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

/* Where to dial a member. */
struct way {
    int rank;
    std::vector<char> address; /* as Gloo takes it */
    std::string name;          /* of the address, for words */
};

class mesh
{
  public:
    mesh(const char *bind_address, int rank, int size);

    /* One address for each member's pair, as they travel. */
    std::vector<std::uint8_t> address() const;
    /* What another member's address says to us; it comes from outside. */
    way way_to(const std::uint8_t *address, std::size_t bytes) const;

    gloo::transport::Pair &pair(int rank)
    {
        return *pairs_->getPair(rank);
    }
    /* A buffer whose wait may run out: Gloo then closes all pairs of the buffer's context, and this
     * one's context has none. Pairs do not ask whose a buffer is. */
    std::unique_ptr<gloo::transport::UnboundBuffer> buffer(void *memory, std::size_t bytes)
    {
        return quiet_->createUnboundBuffer(memory, bytes);
    }

  private:
    int rank_, size_;
    std::shared_ptr<gloo::transport::Device> device_;
    std::shared_ptr<gloo::transport::Context> pairs_, quiet_;
};

} // namespace tutti_gloo

#endif
