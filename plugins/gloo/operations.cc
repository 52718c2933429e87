/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each whole operation by Gloo's function for it.
 *
 * Gloo is given bytes; only reductions know of elements, which they leave to the core's kernels. So every type
 * is served, and every reduction but the average, whose division comes last and is nobody's here.
 *
 * Where sizes are uneven and each member knows only its own part (all_to_all_v), they are exchanged first:
 * members that disagree would wait for each other, and nobody could say why.
 */
#include "operations.hh"

#include "failure.hh"

#include <tutti/reduce.h>

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/alltoallv.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>

#include <cstdint>
#include <numeric>
#include <vector>

namespace tutti_gloo
{
namespace
{

using context_pointer = std::shared_ptr<gloo::Context>;

/* Gloo takes what it reads as it takes what it writes. */
std::uint8_t *input(const tutti_collective &what)
{
    return static_cast<std::uint8_t *>(const_cast<void *>(what.in));
}

std::uint8_t *output(const tutti_collective &what)
{
    return static_cast<std::uint8_t *>(what.out);
}

/* Of this member's vector or even block. */
std::size_t own_bytes(const tutti_collective &what)
{
    return what.own_count * what.element_bytes;
}

std::size_t all_bytes(const tutti_collective &what)
{
    return own_bytes(what) * static_cast<std::size_t>(what.size);
}

template <typename Count>
std::vector<Count> bytes_of(const tutti_collective &what, const std::uint64_t *counts)
{
    std::vector<Count> bytes(static_cast<std::size_t>(what.size));

    for (std::size_t i = 0; i < bytes.size(); i++)
        bytes[i] = static_cast<Count>(counts[i] * what.element_bytes);
    return bytes;
}

/* Gloo takes an element's size from a type; here it is known only at run time. */
template <typename Options> class sized : public Options
{
  public:
    using Options::Options;
    void set_element(const tutti_collective &what);
};

template <> void sized<gloo::AllreduceOptions>::set_element(const tutti_collective &what)
{
    impl_.elements = what.own_count;
    impl_.elementSize = what.element_bytes;
}

template <> void sized<gloo::ReduceOptions>::set_element(const tutti_collective &what)
{
    elements = what.own_count;
    elementSize = what.element_bytes;
}

void all_reduce(const context_pointer &context, const tutti_collective &what,
                const reduction &reduce)
{
    sized<gloo::AllreduceOptions> options(context);

    if (what.in != what.out)
        options.setInput(input(what), own_bytes(what));
    options.setOutput(output(what), own_bytes(what));
    options.set_element(what);
    options.setReduceFunction(reduce);
    gloo::allreduce(options);
}

/* Gloo reduces into the output of every member; those that get nothing need one all the same. */
void reduce_to_root(const context_pointer &context, const tutti_collective &what,
                    const reduction &reduce)
{
    const std::unique_ptr<std::uint8_t[]> scratch(what.out ? nullptr
                                                           : new std::uint8_t[own_bytes(what)]);
    sized<gloo::ReduceOptions> options(context);

    if (what.in != what.out)
        options.setInput(input(what), own_bytes(what));
    options.setOutput(what.out ? output(what) : scratch.get(), own_bytes(what));
    options.set_element(what);
    options.setRoot(what.root);
    options.setReduceFunction(reduce);
    gloo::reduce(options);
}

void barrier(const context_pointer &context)
{
    gloo::BarrierOptions options(context);

    gloo::barrier(options);
}

void broadcast(const context_pointer &context, const tutti_collective &what)
{
    gloo::BroadcastOptions options(context);

    options.setOutput(output(what), own_bytes(what));
    options.setRoot(what.root);
    gloo::broadcast(options);
}

void all_gather(const context_pointer &context, const tutti_collective &what)
{
    gloo::AllgatherOptions options(context);
    std::uint8_t *const own =
        output(what) + static_cast<std::size_t>(context->rank) * own_bytes(what);

    if (input(what) != own)
        options.setInput(input(what), own_bytes(what));
    options.setOutput(output(what), all_bytes(what));
    gloo::allgather(options);
}

void all_gather_v(const context_pointer &context, const tutti_collective &what)
{
    gloo::AllgathervOptions options(context);
    std::vector<std::size_t> bytes = bytes_of<std::size_t>(what, what.out_counts);
    std::uint8_t *const own =
        std::accumulate(bytes.begin(), bytes.begin() + context->rank, output(what));

    if (input(what) != own)
        options.setInput(input(what), own_bytes(what));
    options.setOutput(output(what), std::move(bytes));
    gloo::allgatherv(options);
}

void gather(const context_pointer &context, const tutti_collective &what)
{
    gloo::GatherOptions options(context);

    options.setInput(input(what), own_bytes(what));
    if (what.out)
        options.setOutput(output(what), all_bytes(what));
    options.setRoot(what.root);
    gloo::gather(options);
}

void scatter(const context_pointer &context, const tutti_collective &what)
{
    gloo::ScatterOptions options(context);
    std::vector<std::uint8_t *> blocks;

    for (int i = 0; what.in && i < what.size; i++)
        blocks.push_back(input(what) + static_cast<std::size_t>(i) * own_bytes(what));
    options.setInputs(std::move(blocks), own_bytes(what));
    options.setOutput(output(what), own_bytes(what));
    options.setRoot(what.root);
    gloo::scatter(options);
}

void all_to_all(const context_pointer &context, const tutti_collective &what)
{
    gloo::AlltoallOptions options(context);

    options.setInput(input(what), all_bytes(what));
    options.setOutput(output(what), all_bytes(what));
    gloo::alltoall(options);
}

enum : std::uint32_t { TAG_SIZES = 1 };

void compare_sizes(int from, int to, std::int64_t sent, std::int64_t expected)
{
    if (sent != expected)
        throw failure{TUTTI_ERR_MISMATCH, 0,
                      "rank " + std::to_string(from) + " has a block of " + std::to_string(sent) +
                          " bytes for rank " + std::to_string(to) + ", which expects " +
                          std::to_string(expected)};
}

void all_to_all_v(const context_pointer &context, const tutti_collective &what)
{
    std::vector<std::int64_t> to = bytes_of<std::int64_t>(what, what.in_counts),
                              from = bytes_of<std::int64_t>(what, what.out_counts),
                              sent(from.size());
    gloo::AlltoallOptions sizes(context);
    gloo::AlltoallvOptions options(context);

    sizes.setInput(to.data(), to.size());
    sizes.setOutput(sent.data(), sent.size());
    sizes.setTag(TAG_SIZES);
    gloo::alltoall(sizes);
    for (int i = 0; i < what.size; i++)
        compare_sizes(i, context->rank, sent[static_cast<std::size_t>(i)],
                      from[static_cast<std::size_t>(i)]);
    options.setInput(input(what), std::move(to));
    options.setOutput(output(what), std::move(from));
    gloo::alltoallv(options);
}

} // namespace

bool has_operation(const tutti_collective &what)
{
    switch (what.operation) {
    case TUTTI_COLLECTIVE_ALL_REDUCE:
    case TUTTI_COLLECTIVE_REDUCE:
        return what.op != TUTTI_AVG;
    case TUTTI_COLLECTIVE_BROADCAST:
    case TUTTI_COLLECTIVE_BARRIER:
    case TUTTI_COLLECTIVE_ALL_GATHER:
    case TUTTI_COLLECTIVE_ALL_TO_ALL:
        return true;
    case TUTTI_COLLECTIVE_GATHER:
    case TUTTI_COLLECTIVE_SCATTER:
        return !(what.flags & TUTTI_COLLECTIVE_UNEVEN);
    default:
        return false;
    }
}

void run_operation(const context_pointer &context, const tutti_collective &what,
                   const reduction &reduce)
{
    const bool uneven = what.flags & TUTTI_COLLECTIVE_UNEVEN;

    switch (what.operation) {
    case TUTTI_COLLECTIVE_ALL_REDUCE:
        return all_reduce(context, what, reduce);
    case TUTTI_COLLECTIVE_REDUCE:
        return reduce_to_root(context, what, reduce);
    case TUTTI_COLLECTIVE_BROADCAST:
        return broadcast(context, what);
    case TUTTI_COLLECTIVE_BARRIER:
        return barrier(context);
    case TUTTI_COLLECTIVE_ALL_GATHER:
        return uneven ? all_gather_v(context, what) : all_gather(context, what);
    case TUTTI_COLLECTIVE_GATHER:
        return gather(context, what);
    case TUTTI_COLLECTIVE_SCATTER:
        return scatter(context, what);
    case TUTTI_COLLECTIVE_ALL_TO_ALL:
        return uneven ? all_to_all_v(context, what) : all_to_all(context, what);
    default:
        throw failure{TUTTI_ERR_UNSUPPORTED, 0, "Gloo has no such operation"};
    }
}

} // namespace tutti_gloo
