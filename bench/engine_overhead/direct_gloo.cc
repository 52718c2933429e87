/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo as torch calls it: a full mesh over TCP, options and unbound buffers made for each call. */
#include "direct.h"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/broadcast.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>

extern "C" const char direct_backend[] = "gloo";

namespace
{

constexpr std::size_t value_max = 16384;

std::shared_ptr<gloo::rendezvous::Context> context;
std::uint64_t slot;

[[noreturn]] void give_up(const char *why)
{
    std::fprintf(stderr, "Gloo: %s\n", why);
    std::exit(1);
}

/* Every member sets the keys PREFIX and its rank, in the same order: what they hold is gathered then. */
class gathering_store : public gloo::rendezvous::Store
{
  public:
    explicit gathering_store(tutti_group *world) : world_(world)
    {
    }

    void set(const std::string &key, const std::vector<char> &data) override
    {
        const auto size = static_cast<std::size_t>(tutti_group_size(world_));
        const std::uint64_t length = data.size();
        std::vector<char> own(value_max);
        auto &all = all_[prefix_of(key)];
        std::int64_t in_shape = 0, out_shape = 0;

        if (length + sizeof length > value_max)
            give_up("a member's addresses are too long");
        std::memcpy(own.data(), &length, sizeof length);
        std::copy(data.begin(), data.end(), own.begin() + sizeof length);
        all.resize(size * value_max);
        const auto in = tutti_tensor_1d(own.data(), TUTTI_U8, &in_shape, value_max);
        const auto out = tutti_tensor_1d(all.data(), TUTTI_U8, &out_shape,
                                         static_cast<std::int64_t>(all.size()));
        if (tutti_all_gather(world_, &in, &out, nullptr, nullptr))
            give_up(tutti_last_error());
    }

    std::vector<char> get(const std::string &key) override
    {
        const auto prefix = prefix_of(key);
        const char *of = all_.at(prefix).data() + std::stoul(key.substr(prefix.size())) * value_max;
        std::uint64_t length = 0;

        std::memcpy(&length, of, sizeof length);
        return std::vector<char>(of + sizeof length, of + sizeof length + length);
    }

    void wait(const std::vector<std::string> &) override
    {
    }

  private:
    static std::string prefix_of(const std::string &key)
    {
        return key.substr(0, key.find_last_not_of("0123456789") + 1);
    }

    tutti_group *world_;
    std::map<std::string, std::vector<char>> all_;
};

void all_reduce(float *data, std::size_t count)
{
    gloo::AllreduceOptions options(context);

    options.setOutput(data, count);
    options.setReduceFunction([](void *out, const void *a, const void *b, std::size_t n) {
        auto *sum = static_cast<float *>(out);
        const auto *left = static_cast<const float *>(a), *right = static_cast<const float *>(b);

        for (std::size_t i = 0; i < n; i++)
            sum[i] = left[i] + right[i];
    });
    gloo::allreduce(options);
}

void broadcast(float *data, std::size_t count, int root)
{
    gloo::BroadcastOptions options(context);

    options.setOutput(data, count);
    options.setRoot(root);
    gloo::broadcast(options);
}

void send(const float *data, std::size_t count, int to)
{
    auto buffer = context->createUnboundBuffer(const_cast<float *>(data), count * sizeof *data);

    buffer->send(to, slot);
    buffer->waitSend();
}

void recv(float *data, std::size_t count, int from)
{
    auto buffer = context->createUnboundBuffer(data, count * sizeof *data);

    buffer->recv(from, slot);
    buffer->waitRecv();
}

const direct forms[] = {{"blocking", all_reduce, broadcast, send, recv},
                        {nullptr, nullptr, nullptr, nullptr, nullptr}};

} // namespace

extern "C" const direct *direct_open(tutti_group *world)
{
    try {
        gathering_store store(world);
        std::shared_ptr<gloo::transport::Device> device =
            gloo::transport::tcp::CreateDevice("127.0.0.1");

        context = std::make_shared<gloo::rendezvous::Context>(tutti_group_rank(world),
                                                              tutti_group_size(world));
        context->connectFullMesh(store, device);
        slot = UINT64_C(1) << 40; /* beyond those of Gloo's own collectives */
        return forms;
    } catch (const std::exception &what) {
        give_up(what.what());
    }
}

extern "C" void direct_close(void)
{
    context.reset();
}
