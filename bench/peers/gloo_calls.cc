/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo as torch calls it: a full mesh over TCP; options, and the buffer of a message, made for each call. */
#include "gloo_calls.h"

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include <gloo/allgather.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/config.h>
#include <gloo/gather.h>
#include <gloo/math.h>
#include <gloo/reduce.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/scatter.h>
#include <gloo/transport/tcp/device.h>

namespace
{

constexpr std::uint64_t slot = UINT64_C(1) << 40; /* beyond those of Gloo's own collectives */

std::shared_ptr<gloo::rendezvous::Context> context;

using reduction = void (*)(void *, const void *, const void *, std::size_t);
constexpr reduction sum = gloo::sum<float>, largest = gloo::max<double>;

std::size_t members()
{
    return static_cast<std::size_t>(context->size);
}

/* Gloo throws where a call fails; measure.h is C. */
template <typename Call> void run(Call &&call)
{
    try {
        call();
    } catch (const std::exception &what) {
        std::fprintf(stderr, "Gloo: %s\n", what.what());
        std::exit(1);
    }
}

void send(float *data, std::size_t count)
{
    auto buffer = context->createUnboundBuffer(data, count * sizeof *data);

    buffer->send(!context->rank, slot);
    buffer->waitSend();
}

void recv(float *data, std::size_t count)
{
    auto buffer = context->createUnboundBuffer(data, count * sizeof *data);

    buffer->recv(!context->rank, slot);
    buffer->waitRecv();
}

} // namespace

extern "C" int gloo_print_version(void)
{
    std::printf("Gloo %d.%d.%d\n", GLOO_VERSION_MAJOR, GLOO_VERSION_MINOR, GLOO_VERSION_PATCH);
    return 0;
}

extern "C" void gloo_open(int rank, int size, const char *folder)
{
    run([&] {
        gloo::rendezvous::FileStore store(folder);
        auto device = gloo::transport::tcp::CreateDevice("127.0.0.1");

        context = std::make_shared<gloo::rendezvous::Context>(rank, size);
        context->connectFullMesh(store, device);
    });
}

extern "C" void gloo_close(void)
{
    context.reset();
}

extern "C" void gloo_barrier(void)
{
    run([] {
        gloo::BarrierOptions options(context);
        gloo::barrier(options);
    });
}

extern "C" double gloo_max(double value)
{
    run([&] {
        gloo::AllreduceOptions options(context);

        options.setOutput(&value, 1);
        options.setReduceFunction(largest);
        gloo::allreduce(options);
    });
    return value;
}

extern "C" void gloo_all_reduce(float *in, float *, std::size_t count)
{
    run([=] {
        gloo::AllreduceOptions options(context);

        options.setOutput(in, count);
        options.setReduceFunction(sum);
        gloo::allreduce(options);
    });
}

extern "C" void gloo_broadcast(float *in, float *, std::size_t count)
{
    run([=] {
        gloo::BroadcastOptions options(context);

        options.setOutput(in, count);
        options.setRoot(0);
        gloo::broadcast(options);
    });
}

extern "C" void gloo_reduce(float *in, float *out, std::size_t count)
{
    run([=] {
        gloo::ReduceOptions options(context);

        options.setInput(in, count);
        options.setOutput(out, count);
        options.setRoot(0);
        options.setReduceFunction(sum);
        gloo::reduce(options);
    });
}

extern "C" void gloo_all_gather(float *in, float *out, std::size_t count)
{
    run([=] {
        gloo::AllgatherOptions options(context);

        options.setInput(in, count);
        options.setOutput(out, count * members());
        gloo::allgather(options);
    });
}

extern "C" void gloo_gather(float *in, float *out, std::size_t count)
{
    run([=] {
        gloo::GatherOptions options(context);

        options.setInput(in, count);
        if (context->rank == 0)
            options.setOutput(out, count * members());
        options.setRoot(0);
        gloo::gather(options);
    });
}

extern "C" void gloo_scatter(float *in, float *out, std::size_t count)
{
    run([=] {
        gloo::ScatterOptions options(context);
        std::vector<float *> blocks;

        for (std::size_t i = 0; i < members() && context->rank == 0; i++)
            blocks.push_back(in + i * count);
        options.setInputs(blocks, count);
        options.setOutput(out, count);
        options.setRoot(0);
        gloo::scatter(options);
    });
}

extern "C" void gloo_all_to_all(float *in, float *out, std::size_t count)
{
    run([=] {
        gloo::AlltoallOptions options(context);

        options.setInput(in, count * members());
        options.setOutput(out, count * members());
        gloo::alltoall(options);
    });
}

extern "C" void gloo_ping_pong(float *in, float *out, std::size_t count)
{
    run([=] {
        if (context->rank == 0) {
            send(in, count);
            recv(out, count);
        } else if (context->rank == 1) {
            recv(out, count);
            send(in, count);
        }
    });
}
