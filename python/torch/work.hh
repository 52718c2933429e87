/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Works of tutti as works of torch.
 *
 * The thread that waits or asks drives the operation itself, so a call that is waited for at once costs no other
 * thread. Only a future needs one: it is completed by a thread of the module (pool.hh), since its callbacks may be
 * Python code, and tutti's own thread must not wait for the GIL.
 *
 * Invariant: tensors live until tutti no longer uses them, also if the program drops the work early.
 */
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/csrc/utils/pybind.h>

#include <tutti/group.h>
#include <tutti/work.h>

#include "errors.hh"
#include "pool.hh"

namespace tutti_torch
{

using tensors = std::vector<at::Tensor>;

/* Releases the GIL if this thread has it. */
class without_gil
{
  public:
    without_gil()
    {
        if (Py_IsInitialized() && PyGILState_Check())
            released_.emplace();
    }

  private:
    std::optional<pybind11::gil_scoped_release> released_;
};

/* Ctrl-C of the program's main thread. */
inline void check_signals()
{
    const pybind11::gil_scoped_acquire gil;

    if (PyErr_CheckSignals() != 0)
        throw pybind11::error_already_set();
}

/* The works of a group that may be incomplete, so that leaving the group does not wait for a message that
 * never comes. */
class open_works
{
  public:
    void add(tutti_work *work, bool is_message)
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        works_.emplace(work, is_message);
    }
    void remove(tutti_work *work)
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        works_.erase(work);
    }
    /* Withdraws messages that have not begun to move. */
    void cancel_messages()
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        for (const auto &[work, is_message] : works_)
            if (is_message)
                (void)tutti_work_cancel(work);
    }
    bool all_complete()
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        return std::all_of(works_.begin(), works_.end(), [](const auto &entry) {
            int32_t done = 0;
            (void)tutti_work_test(entry.first, &done);
            return done != 0;
        });
    }

  private:
    std::mutex mutex_;
    std::unordered_map<tutti_work *, bool> works_;
};

class work : public c10d::Work
{
  public:
    /* `inputs` are kept, and named to torch's profiler under `title`; `outputs` are the result. */
    work(int rank, c10d::OpType type, const char *title, tensors inputs,
         std::vector<tensors> outputs, std::shared_ptr<open_works> open)
        : Work(rank, type, title, inputs), inputs_(std::move(inputs)), outputs_(std::move(outputs)),
          open_(std::move(open))
    {
    }
    ~work() override
    {
        if (!handle_)
            return;
        open_->remove(handle_);
        if (!succeeded_.load())
            keep_until_released();
        tutti_work_free(handle_);
    }

    /* The operation has started. */
    void start(tutti_work *handle, uint64_t sequence)
    {
        handle_ = handle;
        sequence_ = sequence;
        open_->add(handle, c10d::isP2POp(opType_));
    }
    /* A call of the same batch, before start(). */
    void add_tensors(tensors inputs, std::vector<tensors> outputs)
    {
        for (tensors &list : outputs) {
            inputs.insert(inputs.end(), list.begin(), list.end());
            if (outputs_.empty())
                outputs_.emplace_back();
            outputs_[0].insert(outputs_[0].end(), list.begin(), list.end());
        }
        inputs_.insert(inputs_.end(), inputs.begin(), inputs.end());
    }
    /* The operation was done within the call. */
    void complete_at_once(uint64_t sequence)
    {
        sequence_ = sequence;
        settle(TUTTI_OK);
    }

    bool isCompleted() override
    {
        int32_t done = 0;

        if (is_settled())
            return true;
        check_started();
        const tutti_status status = tutti_work_test(handle_, &done);
        if (done)
            settle(status);
        return done != 0;
    }

    bool wait(std::chrono::milliseconds timeout) override
    {
        using clock = std::chrono::steady_clock;
        constexpr std::chrono::milliseconds look_every{100}; /* for Ctrl-C */
        constexpr std::chrono::milliseconds longest{std::chrono::hours{24 * 365}};
        const auto end = clock::now() + std::min(timeout, longest);
        const without_gil released;

        if (!handle_ && !is_settled())
            return true; /* in a batch that is still open: the wait for its end is the one that counts */
        while (!is_settled()) {
            auto slice = look_every;
            if (timeout > kNoTimeout)
                slice = std::min(slice,
                                 std::chrono::ceil<std::chrono::milliseconds>(end - clock::now()));
            if (slice.count() <= 0)
                fail(
                    TUTTI_ERR_TIMEOUT,
                    c10::str("wait(", timeout.count(),
                             " ms): Operation timed out! It goes on, and may be waited for again"));
            const tutti_status status = tutti_work_wait(handle_, slice.count());
            if (status != TUTTI_ERR_NOT_READY)
                settle(status);
            else
                check_signals();
        }
        rethrow();
        return true;
    }

    void synchronize() override
    {
        (void)wait(kNoTimeout);
    }

    /* A message that has not begun to move. */
    void abort() override
    {
        check_started();
        check(tutti_work_cancel(handle_));
    }

    int sourceRank() const override
    {
        if (!is_settled())
            fail(TUTTI_ERR_NOT_READY, "the source of a receive is known when it is complete: call "
                                      "wait() first");
        return handle_ ? tutti_work_source(handle_) : -1;
    }

    std::vector<at::Tensor> result() override
    {
        TORCH_CHECK(isCompleted(), "tutti: result() of a work that is not complete: call wait() "
                                   "first");
        TORCH_CHECK(outputs_.size() <= 1, "tutti: this work has a list of lists of tensors: use "
                                          "get_future().value()");
        return outputs_.empty() ? tensors() : outputs_[0];
    }

    uint64_t getSequencenumber() const override
    {
        return sequence_;
    }

    c10::intrusive_ptr<c10::ivalue::Future> getFuture() override
    {
        const bool completed = isCompleted();
        const std::lock_guard<std::mutex> lock(future_mutex_);

        if (future_)
            return future_;
        const c10::TypePtr list = c10::ListType::create(c10::TensorType::get());
        const auto made = c10::make_intrusive<c10::ivalue::Future>(
            outputs_.size() > 1 ? c10::ListType::create(list) : list);
        auto pending = std::make_unique<pending_future>(pending_future{made, outputs_, nullptr});
        if (completed) {
            pending->error = exception();
            (*pending)();
        } else {
            pool::expect();
            const tutti_status status = tutti_work_then(handle_, complete_future, pending.get());
            if (status != TUTTI_OK)
                pool::forgo();
            check(status);
            pending.release();
        }
        future_ = made;
        return future_;
    }

  private:
    /* A future whose operation is in flight. */
    struct pending_future {
        c10::intrusive_ptr<c10::ivalue::Future> future;
        std::vector<tensors> outputs;
        std::exception_ptr error;

        void operator()() const
        {
            if (error)
                future->setError(error);
            else if (outputs.size() > 1)
                future->markCompleted(c10::IValue(outputs));
            else
                future->markCompleted(c10::IValue(outputs.empty() ? tensors() : outputs[0]));
        }
    };

    /* On tutti's thread, or in one that calls tutti_dispatch(). */
    static void complete_future(tutti_work *handle, tutti_status status, void *user)
    {
        std::unique_ptr<pending_future> pending(static_cast<pending_future *>(user));

        if (status)
            pending->error = exception_of(status, tutti_work_error(handle));
        pool::run(std::move(pending));
    }

    struct kept_tensors {
        std::vector<tensors> lists;

        void operator()() const
        {
        }
    };

    bool is_settled() const
    {
        return settled_.load(std::memory_order_acquire);
    }

    void check_started() const
    {
        if (!handle_)
            fail(TUTTI_ERR_NOT_READY, "this call is one of a batch, which starts when its block "
                                      "of coalesced calls ends");
    }

    /* Notes the outcome, once. */
    void settle(tutti_status status)
    {
        std::call_once(once_, [&] {
            succeeded_.store(status == TUTTI_OK);
            finish(status ? exception_of(status, tutti_work_error(handle_)) : nullptr);
            settled_.store(true, std::memory_order_release);
        });
    }

    void rethrow() const
    {
        if (const std::exception_ptr error = exception())
            std::rethrow_exception(error);
    }

    /* tutti may use the tensors after this work is gone. Their end may need the GIL. */
    void keep_until_released()
    {
        auto *kept = new kept_tensors{std::move(outputs_)};

        kept->lists.push_back(std::move(inputs_));
        pool::expect();
        const tutti_status status = tutti_work_on_release(
            handle_,
            [](void *user) {
                pool::run(std::unique_ptr<kept_tensors>(static_cast<kept_tensors *>(user)));
            },
            kept);
        if (status != TUTTI_OK) {
            pool::forgo();
            TORCH_WARN_ONCE("tutti: tensors of a work are never freed: ", tutti_last_error());
        }
    }

    tensors inputs_;
    std::vector<tensors> outputs_;
    std::shared_ptr<open_works> open_;
    tutti_work *handle_ = nullptr;
    uint64_t sequence_ = 0;
    std::once_flag once_;
    std::atomic<bool> settled_{false}, succeeded_{false};
    std::mutex future_mutex_;
    c10::intrusive_ptr<c10::ivalue::Future> future_;
};

using work_pointer = c10::intrusive_ptr<work>;

} // namespace tutti_torch
