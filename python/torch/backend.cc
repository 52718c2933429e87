/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The backend "tutti" of torch.distributed, in C++.
 *
 * c10d's classes have no stable ABI, so this file is compiled where it runs, for the torch that is installed:
 * `python -m tutti.torch build`. Each method turns torch's lists of tensors into one call of tutti; group.hh
 * starts it, and work.hh is what torch gets.
 *
 * torch calls most methods without the GIL. Nothing here takes it, but for signals and callbacks.
 */
#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <pybind11/chrono.h>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/extension.h>

#include <tutti/tutti.h>

#include "barrier.hh"
#include "group.hh"
#include "tensors.hh"

namespace tutti_torch
{
namespace
{

using std::chrono::milliseconds;
using tensor_lists = std::vector<tensors>;
using work_base = c10::intrusive_ptr<c10d::Work>;

/* torch has lists of devices, of which there is one here. */
template <class list> auto &only(const char *operation, list &all)
{
    if (all.size() != 1)
        fail(TUTTI_ERR_INVALID_ARGUMENT,
             c10::str(operation, ": a list of ", all.size(), " entries: one is possible"));
    return all[0];
}

void check_count(const char *operation, const char *what, size_t count, size_t expected)
{
    if (count != expected)
        fail(TUTTI_ERR_INVALID_ARGUMENT,
             c10::str(operation, ": ", what, " has ", count, " tensors, and must have ", expected));
}

/* Elements for each member, from torch's sizes along dimension 0; without sizes, equal parts. */
std::vector<int64_t> counts_of(const char *what, const at::Tensor &tensor,
                               const std::vector<int64_t> &sizes, int members)
{
    const int64_t rows = tensor.dim() ? tensor.size(0) : 1;
    const int64_t row = rows ? tensor.numel() / rows : 0;
    std::vector<int64_t> counts;
    int64_t sum = 0;

    if (sizes.empty() && rows % members)
        fail(TUTTI_ERR_INVALID_ARGUMENT,
             c10::str("all_to_all_single: the ", what, " has ", rows, " rows, which ", members,
                      " members cannot divide equally: give sizes"));
    if (sizes.empty())
        return std::vector<int64_t>(static_cast<size_t>(members), rows / members * row);
    if (sizes.size() != static_cast<size_t>(members))
        fail(TUTTI_ERR_INVALID_ARGUMENT,
             c10::str("all_to_all_single: ", sizes.size(), " sizes of the ", what,
                      " in a group of ", members));
    for (const int64_t size : sizes) {
        counts.push_back(size * row);
        sum += size;
    }
    if (sum != rows)
        fail(TUTTI_ERR_INVALID_ARGUMENT,
             c10::str("all_to_all_single: the sizes of the ", what, " add up to ", sum,
                      ", and it has ", rows, " rows"));
    return counts;
}

class backend : public c10d::Backend
{
  public:
    backend(std::unique_ptr<group> members, c10::intrusive_ptr<Options> options)
        : Backend(tutti_group_rank(members->handle()), tutti_group_size(members->handle())),
          group_(std::move(members)), options_(std::move(options))
    {
    }

    const std::string getBackendName() const override
    {
        return "tutti";
    }
    c10::intrusive_ptr<Options> getBackendOptions() override
    {
        return options_;
    }
    bool supportsCoalescing() const override
    {
        return true;
    }
    bool supportsSplitting() const override
    {
        return true;
    }

    /* ---- reductions ---------------------------------------------------------------------------- */

    work_base allreduce(tensors &list, const c10d::AllreduceOptions &options) override
    {
        const at::Tensor &tensor = only("all_reduce", list);

        if (tensor.layout() == at::kSparse)
            return allreduce_sparse(list, options);
        return group_->start({c10d::OpType::ALLREDUCE, "tutti:all_reduce", options.timeout}, list,
                             {list}, [&](auto *members, auto *of_call, auto **ret_work) {
                                 const tutti_tensor data = describe_output(tensor);
                                 return tutti_all_reduce(members, &data,
                                                         reduction(options.reduceOp, tensor),
                                                         of_call, ret_work);
                             });
    }

    work_base allreduce_coalesced(tensors &list,
                                  const c10d::AllreduceCoalescedOptions &options) override
    {
        return group_->start_each(
            {c10d::OpType::ALLREDUCE_COALESCED, "tutti:all_reduce", options.timeout}, list.size(),
            {}, {list}, [&](size_t i, auto *members, auto *of_call) {
                const tutti_tensor data = describe_output(list[i]);
                return tutti_all_reduce(members, &data, reduction(options.reduceOp, list[i]),
                                        of_call, nullptr);
            });
    }

    work_base allreduce_sparse(tensors &list, const c10d::AllreduceOptions &options) override
    {
        sum_sparse(only("all_reduce", list), options);
        const work_pointer done = group_->make_work(c10d::OpType::_ALLREDUCE_SPARSE,
                                                    "tutti:sparse_all_reduce", {}, {list});
        done->complete_at_once(group_->next_sequence(c10d::OpType::_ALLREDUCE_SPARSE));
        return done;
    }

    work_base reduce(tensors &list, const c10d::ReduceOptions &options) override
    {
        at::Tensor &tensor = only("reduce", list);
        const bool is_root = options.rootRank == rank_;
        const at::Tensor input = is_root ? tensor : as_input(tensor);

        return group_->start(
            {c10d::OpType::REDUCE, "tutti:reduce", options.timeout}, {input}, {list},
            [&](auto *members, auto *of_call, auto **ret_work) {
                const tutti_tensor data = is_root ? describe_output(tensor) : describe_input(input);
                return tutti_reduce(members, &data, reduction(options.reduceOp, tensor),
                                    root_of(options), of_call, ret_work);
            });
    }

    work_base reduce_scatter(tensors &outputs, tensor_lists &inputs,
                             const c10d::ReduceScatterOptions &options) override
    {
        tensors blocks = only("reduce_scatter", inputs);
        const at::Tensor &output = only("reduce_scatter", outputs);

        check_count("reduce_scatter", "the input list", blocks.size(), count());
        const auto ins = described_list::of_inputs(blocks);
        return group_->start(
            {c10d::OpType::REDUCE_SCATTER, "tutti:reduce_scatter", options.timeout}, blocks,
            {outputs}, [&](auto *members, auto *of_call, auto **ret_work) {
                const tutti_tensor out = describe_output(output);
                return tutti_reduce_scatter_list(members, ins.data(), &out,
                                                 reduction(options.reduceOp, output), of_call,
                                                 ret_work);
            });
    }

    work_base _reduce_scatter_base(at::Tensor &output, at::Tensor &input,
                                   const c10d::ReduceScatterOptions &options) override
    {
        const at::Tensor blocks = as_input(input);

        return group_->start(
            {c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:reduce_scatter", options.timeout}, {blocks},
            {{output}}, [&](auto *members, auto *of_call, auto **ret_work) {
                return reduce_scatter_one(output, blocks, options, members, of_call, ret_work);
            });
    }

    work_base reduce_scatter_tensor_coalesced(tensors &outputs, tensors &inputs,
                                              const c10d::ReduceScatterOptions &options) override
    {
        tensors blocks = inputs;

        check_count("reduce_scatter", "the list of inputs", inputs.size(), outputs.size());
        for (at::Tensor &block : blocks)
            block = as_input(block);
        return group_->start_each(
            {c10d::OpType::_REDUCE_SCATTER_BASE, "tutti:reduce_scatter", options.timeout},
            outputs.size(), blocks, {outputs}, [&](size_t i, auto *members, auto *of_call) {
                return reduce_scatter_one(outputs[i], blocks[i], options, members, of_call,
                                          nullptr);
            });
    }

    /* ---- copies -------------------------------------------------------------------------------- */

    work_base broadcast(tensors &list, const c10d::BroadcastOptions &options) override
    {
        at::Tensor &tensor = only("broadcast", list);
        const bool is_root = options.rootRank == rank_;
        const at::Tensor input = is_root ? as_input(tensor) : tensor;

        return group_->start(
            {c10d::OpType::BROADCAST, "tutti:broadcast", options.timeout}, {input}, {list},
            [&](auto *members, auto *of_call, auto **ret_work) {
                const tutti_tensor data = is_root ? describe_input(input) : describe_output(tensor);
                return tutti_broadcast(members, &data, root_of(options), of_call, ret_work);
            });
    }

    /* The tensors of the list may differ in size. */
    work_base allgather(tensor_lists &outputs, tensors &inputs,
                        const c10d::AllgatherOptions &options) override
    {
        const tensors &blocks = only("all_gather", outputs);
        const at::Tensor input = as_input(only("all_gather", inputs));

        check_count("all_gather", "the output list", blocks.size(), count());
        const auto outs = described_list::of_outputs(blocks);
        return group_->start({c10d::OpType::ALLGATHER, "tutti:all_gather", options.timeout},
                             {input}, {blocks}, [&](auto *members, auto *of_call, auto **ret_work) {
                                 const tutti_tensor in = describe_input(input);
                                 return tutti_all_gather_list(members, &in, outs.data(), of_call,
                                                              ret_work);
                             });
    }

    work_base _allgather_base(at::Tensor &output, at::Tensor &input,
                              const c10d::AllgatherOptions &options) override
    {
        const at::Tensor block = as_input(input);

        return group_->start({c10d::OpType::_ALLGATHER_BASE, "tutti:all_gather", options.timeout},
                             {block}, {{output}},
                             [&](auto *members, auto *of_call, auto **ret_work) {
                                 return gather_one(output, block, members, of_call, ret_work);
                             });
    }

    /* outputs[rank][i] is what that rank has as inputs[i]. */
    work_base allgather_coalesced(tensor_lists &outputs, tensors &inputs,
                                  const c10d::AllgatherOptions &options) override
    {
        tensors blocks = inputs;

        check_count("all_gather_coalesced", "the list of output lists", outputs.size(), count());
        for (const tensors &of_rank : outputs)
            check_count("all_gather_coalesced", "an output list", of_rank.size(), inputs.size());
        for (at::Tensor &block : blocks)
            block = as_input(block);
        return group_->start_each(
            {c10d::OpType::ALLGATHER_COALESCED, "tutti:all_gather", options.timeout}, blocks.size(),
            blocks, outputs, [&](size_t i, auto *members, auto *of_call) {
                tensors column;
                for (const tensors &of_rank : outputs)
                    column.push_back(of_rank[i]);
                const auto outs = described_list::of_outputs(column);
                const tutti_tensor in = describe_input(blocks[i]);
                return tutti_all_gather_list(members, &in, outs.data(), of_call, nullptr);
            });
    }

    work_base allgather_into_tensor_coalesced(tensors &outputs, tensors &inputs,
                                              const c10d::AllgatherOptions &options) override
    {
        tensors blocks = inputs;

        check_count("all_gather", "the list of inputs", inputs.size(), outputs.size());
        for (at::Tensor &block : blocks)
            block = as_input(block);
        return group_->start_each(
            {c10d::OpType::_ALLGATHER_BASE, "tutti:all_gather", options.timeout}, outputs.size(),
            blocks, {outputs}, [&](size_t i, auto *members, auto *of_call) {
                return gather_one(outputs[i], blocks[i], members, of_call, nullptr);
            });
    }

    work_base gather(tensor_lists &outputs, tensors &inputs,
                     const c10d::GatherOptions &options) override
    {
        const bool is_root = options.rootRank == rank_;
        const tensors blocks = is_root ? only("gather", outputs) : tensors();
        const at::Tensor input = as_input(only("gather", inputs));

        if (is_root)
            check_count("gather", "the output list", blocks.size(), count());
        const auto outs = described_list::of_outputs(blocks);
        return group_->start({c10d::OpType::GATHER, "tutti:gather", options.timeout}, {input},
                             {blocks}, [&](auto *members, auto *of_call, auto **ret_work) {
                                 const tutti_tensor in = describe_input(input);
                                 return tutti_gather_list(members, &in,
                                                          is_root ? outs.data() : nullptr,
                                                          root_of(options), of_call, ret_work);
                             });
    }

    work_base scatter(tensors &outputs, tensor_lists &inputs,
                      const c10d::ScatterOptions &options) override
    {
        const bool is_root = options.rootRank == rank_;
        tensors blocks = is_root ? only("scatter", inputs) : tensors();
        const at::Tensor &output = only("scatter", outputs);

        if (is_root)
            check_count("scatter", "the input list", blocks.size(), count());
        const auto ins = described_list::of_inputs(blocks);
        return group_->start({c10d::OpType::SCATTER, "tutti:scatter", options.timeout}, blocks,
                             {outputs}, [&](auto *members, auto *of_call, auto **ret_work) {
                                 const tutti_tensor out = describe_output(output);
                                 return tutti_scatter_list(members, is_root ? ins.data() : nullptr,
                                                           &out, root_of(options), of_call,
                                                           ret_work);
                             });
    }

    work_base alltoall(tensors &outputs, tensors &inputs,
                       const c10d::AllToAllOptions &options) override
    {
        tensors blocks = inputs;

        check_count("all_to_all", "the input list", inputs.size(), count());
        check_count("all_to_all", "the output list", outputs.size(), count());
        const auto ins = described_list::of_inputs(blocks);
        const auto outs = described_list::of_outputs(outputs);
        return group_->start({c10d::OpType::ALLTOALL, "tutti:all_to_all", options.timeout}, blocks,
                             {outputs}, [&](auto *members, auto *of_call, auto **ret_work) {
                                 return tutti_all_to_all_list(members, ins.data(), outs.data(),
                                                              of_call, ret_work);
                             });
    }

    /* Always with counts: whether all are equal is not known of the other members. */
    work_base alltoall_base(at::Tensor &output, at::Tensor &input, std::vector<int64_t> &out_sizes,
                            std::vector<int64_t> &in_sizes,
                            const c10d::AllToAllOptions &options) override
    {
        const at::Tensor blocks = as_input(input);
        const auto in_counts = counts_of("input", input, in_sizes, size_);
        const auto out_counts = counts_of("output", output, out_sizes, size_);

        return group_->start(
            {c10d::OpType::ALLTOALL_BASE, "tutti:all_to_all", options.timeout}, {blocks},
            {{output}}, [&](auto *members, auto *of_call, auto **ret_work) {
                const tutti_tensor in = describe_input(blocks);
                const tutti_tensor out = describe_output(output);
                return tutti_all_to_all_v(members, &in, in_counts.data(), nullptr, &out,
                                          out_counts.data(), nullptr, of_call, ret_work);
            });
    }

    /* ---- messages ------------------------------------------------------------------------------ */

    work_base send(tensors &list, int destination, int tag) override
    {
        const at::Tensor input = as_input(only("send", list));

        return group_->start({c10d::OpType::SEND, "tutti:send"}, {input}, {},
                             [&](auto *members, auto *of_call, auto **ret_work) {
                                 const tutti_tensor data = describe_input(input);
                                 return tutti_isend(members, &data, destination, tag_of(tag),
                                                    of_call, ret_work);
                             });
    }

    work_base recv(tensors &list, int source, int tag) override
    {
        return receive({c10d::OpType::RECV, "tutti:recv"}, list, source, tag);
    }

    work_base recvAnysource(tensors &list, int tag) override
    {
        return receive({c10d::OpType::RECVANYSOURCE, "tutti:recvAnySource"}, list, TUTTI_ANY_SOURCE,
                       tag);
    }

    /* ---- barriers ------------------------------------------------------------------------------ */

    work_base barrier(const c10d::BarrierOptions &options) override
    {
        return group_->start({c10d::OpType::BARRIER, "tutti:barrier", options.timeout}, {}, {},
                             [](auto *members, auto *of_call, auto **ret_work) {
                                 return tutti_barrier(members, of_call, ret_work);
                             });
    }

    void monitoredBarrier(const c10d::BarrierOptions &options, bool wait_for_all) override
    {
        const milliseconds timeout{options.timeout == c10d::kUnsetTimeout
                                       ? tutti_group_timeout(group_->handle())
                                       : std::max<int64_t>(options.timeout.count(), 0)};
        const uint64_t tag = first_barrier_tag + barriers_++;

        if (rank_ == 0)
            watch_barrier(group_->handle(), timeout, tag, wait_for_all);
        else
            pass_barrier(group_->handle(), timeout, tag);
    }

    /* ---- the group ----------------------------------------------------------------------------- */

    void startCoalescing() override
    {
        group_->begin_batch(c10d::OpType::COALESCED, "tutti:coalesced");
    }
    work_base endCoalescing() override
    {
        return group_->end_batch();
    }

    c10::intrusive_ptr<Backend> split(const c10::intrusive_ptr<c10d::Store> &,
                                      const std::vector<int> &ranks,
                                      const c10::intrusive_ptr<Options> &options) override
    {
        const without_gil released;
        tutti_group_options of_group = TUTTI_GROUP_OPTIONS_INIT;
        tutti_group *made = nullptr;

        if (options && options->timeout.count() > 0)
            of_group.timeout_ms = options->timeout.count();
        check(tutti_group_new(group_->handle(), ranks.data(), static_cast<int32_t>(ranks.size()),
                              &of_group, &made));
        if (!made)
            return nullptr;
        return c10::make_intrusive<backend>(std::make_unique<group>(made, nullptr),
                                            options ? options
                                                    : c10::make_intrusive<Options>(*options_));
    }

    void setTimeout(milliseconds timeout) override
    {
        check(tutti_group_set_timeout(group_->handle(), timeout.count()));
        options_->timeout = timeout;
    }
    void abort() override
    {
        group_->abort("torch.distributed asked for it");
    }
    void shutdown() override
    {
        group_->leave();
    }
    /* Every member counts its collectives from 0. */
    void setSequenceNumberForGroup() override
    {
    }
    uint64_t getSequenceNumberForGroup() override
    {
        return group_->sequence();
    }

  private:
    static constexpr uint64_t first_barrier_tag = UINT64_C(1) << 40; /* torch's are ints */

    size_t count() const
    {
        return static_cast<size_t>(size_);
    }
    template <class options_type> static int32_t root_of(const options_type &options)
    {
        return static_cast<int32_t>(options.rootRank);
    }
    static uint64_t tag_of(int tag)
    {
        if (tag < 0)
            fail(TUTTI_ERR_INVALID_ARGUMENT, c10::str("tag ", tag, ": 0 and more are possible"));
        return static_cast<uint64_t>(tag);
    }

    static tutti_status gather_one(const at::Tensor &output, const at::Tensor &block,
                                   tutti_group *members, const tutti_options *of_call,
                                   tutti_work **ret_work)
    {
        const tutti_tensor in = describe_input(block), out = describe_output(output);

        return tutti_all_gather(members, &in, &out, of_call, ret_work);
    }

    static tutti_status reduce_scatter_one(const at::Tensor &output, const at::Tensor &blocks,
                                           const c10d::ReduceScatterOptions &options,
                                           tutti_group *members, const tutti_options *of_call,
                                           tutti_work **ret_work)
    {
        const tutti_tensor in = describe_input(blocks), out = describe_output(output);

        return tutti_reduce_scatter(members, &in, &out, reduction(options.reduceOp, blocks),
                                    of_call, ret_work);
    }

    work_base receive(const call_kind &kind, tensors &list, int32_t source, int tag)
    {
        const at::Tensor &output = only("recv", list);

        return group_->start(kind, {}, {list}, [&](auto *members, auto *of_call, auto **ret_work) {
            const tutti_tensor data = describe_output(output);
            return tutti_irecv(members, &data, source, tag_of(tag), of_call, ret_work);
        });
    }

    void sum_sparse(at::Tensor &tensor, const c10d::AllreduceOptions &options);
    tensors exchange(const at::Tensor &own, const std::vector<int64_t> &sizes, int64_t dimension,
                     const c10d::AllreduceOptions &options);

    std::unique_ptr<group> group_;
    c10::intrusive_ptr<Options> options_;
    std::atomic<uint64_t> barriers_{0};
};

/* ---- sparse all_reduce --------------------------------------------------------------------------- */

/* Every member's tensor, whose extent along `dimension` is sizes[rank]. */
tensors backend::exchange(const at::Tensor &own, const std::vector<int64_t> &sizes,
                          int64_t dimension, const c10d::AllreduceOptions &options)
{
    c10d::AllgatherOptions of_gather;
    tensor_lists outputs(1);
    tensors inputs{own};

    of_gather.timeout = options.timeout;
    for (const int64_t size : sizes) {
        std::vector<int64_t> shape = own.sizes().vec();
        shape[static_cast<size_t>(dimension)] = size;
        outputs[0].push_back(at::empty(shape, own.options()));
    }
    (void)allgather(outputs, inputs, of_gather)->wait(c10d::kUnsetTimeout);
    return outputs[0];
}

/* The sum of sparse COO tensors: every member gets all indices and values, and adds them. */
void backend::sum_sparse(at::Tensor &tensor, const c10d::AllreduceOptions &options)
{
    if (options.reduceOp.op_ != c10d::ReduceOp::SUM)
        fail(TUTTI_ERR_UNSUPPORTED, "all_reduce of a sparse tensor: SUM is possible");
    const at::Tensor own = tensor.coalesce();
    const at::Tensor indices = own.indices(), values = own.values();
    const at::Tensor count = at::tensor({indices.size(1)}, at::kLong);
    std::vector<int64_t> counts;

    for (const at::Tensor &of_rank :
         exchange(count, std::vector<int64_t>(this->count(), 1), 0, options))
        counts.push_back(of_rank.item<int64_t>());
    const tensors all_indices = exchange(indices, counts, 1, options);
    const tensors all_values = exchange(values, counts, 0, options);
    tensor.copy_(at::sparse_coo_tensor(at::cat(all_indices, 1), at::cat(all_values, 0),
                                       tensor.sizes(), tensor.options())
                     .coalesce());
}

/* ---- the module ---------------------------------------------------------------------------------- */

/* `meeting`: the Meeting of python/tutti/torch/_stores.py. */
c10::intrusive_ptr<c10d::Backend> create(const store_pointer &store,
                                         const pybind11::object &meeting, int rank, int size,
                                         milliseconds timeout, const std::string &name,
                                         const std::vector<uint64_t> &global_ranks)
{
    const store_kind kind{meeting.attr("of_job").cast<bool>(),
                          meeting.attr("in_process").cast<bool>()};
    auto options = c10::make_intrusive<c10d::Backend::Options>("tutti", timeout);

    options->group_name = name;
    options->global_ranks_in_group = global_ranks;
    return c10::make_intrusive<backend>(group::meet(store, kind, rank, size, timeout, name),
                                        options);
}

} // namespace
} // namespace tutti_torch

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module)
{
    const pybind11::call_guard<pybind11::gil_scoped_release> without_gil;

    module.def("create", &tutti_torch::create);
    module.def("leave_all", &tutti_torch::group::leave_all, without_gil);
    module.def("version", [] { return std::string(tutti_version()); });
}
