/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group of tutti that a backend of torch owns: how it is made, how it is left, and its calls.
 *
 * A call between begin and end of a batch of this thread returns the batch's work. Everything else that torch
 * may do with a group goes through here, so that works, batches and the end of the group agree.
 */
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <torch/csrc/distributed/c10d/Types.hpp>

#include <tutti/batch.h>
#include <tutti/collective.h>
#include <tutti/group.h>

#include "pool.hh"
#include "stores.hh"
#include "work.hh"

namespace tutti_torch
{

/* What a call needs besides its tensors. */
struct call_kind {
    c10d::OpType type;
    const char *title; /* in torch's profiler */
    std::chrono::milliseconds timeout = c10d::kUnsetTimeout;
};

class group
{
  public:
    /* Takes `handle`, and the context if it is of this group alone. */
    group(tutti_group *handle, tutti_context *context)
        : handle_(handle), context_(context), open_(std::make_shared<open_works>())
    {
        const std::lock_guard<std::mutex> lock(all_mutex());
        all().insert(this);
    }
    group(const group &) = delete;
    group &operator=(const group &) = delete;
    ~group()
    {
        {
            const std::lock_guard<std::mutex> lock(all_mutex());
            all().erase(this);
        }
        leave();
    }

    /* Meets the other members in the store. */
    static std::unique_ptr<group> meet(const store_pointer &store, const store_kind &kind, int rank,
                                       int size, std::chrono::milliseconds timeout,
                                       const std::string &name)
    {
        const without_gil released;
        const meeting place = find_meeting(store, kind, timeout);
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
        tutti_context *context = nullptr;
        tutti_group *made = nullptr;

        if (kind.in_process)
            check(tutti_context_create(&context));
        options.rank = rank;
        options.world_size = size;
        options.store = place.store.get();
        options.timeout_ms = timeout.count();
        options.group_name = kind.of_job ? nullptr : name.c_str();
        options.context = context;
        const tutti_status status = tutti_init(&options, &made);
        if (status != TUTTI_OK) {
            std::string words = tutti_last_error();
            if (!place.words->empty())
                words += " (torch's store: " + *place.words + ")";
            (void)tutti_context_destroy(context);
            fail(status, words);
        }
        return std::make_unique<group>(made, context);
    }

    /* Throws where the group was left. */
    tutti_group *handle() const
    {
        tutti_group *handle = handle_.load();

        if (!handle)
            fail(TUTTI_ERR_INVALID_ARGUMENT, "the process group was shut down; make a new one with "
                                             "init_process_group() or new_group()");
        return handle;
    }
    const std::shared_ptr<open_works> &open() const
    {
        return open_;
    }

    /* Waits for collectives of this member, not for messages that never come. */
    void leave() noexcept
    {
        tutti_group *handle = handle_.exchange(nullptr);

        if (!handle)
            return;
        const without_gil released;
        forget_batch();
        open_->cancel_messages();
        const bool known = has_failed(handle);
        if (tutti_group_destroy(handle) == TUTTI_ERR_MISMATCH && !known) {
            TORCH_WARN("tutti: ", tutti_last_error());
        }
        /* Works that the program holds keep it. */
        (void)tutti_context_destroy(context_);
    }

    void abort(const std::string &reason)
    {
        if (tutti_group *handle = handle_.load()) {
            const without_gil released;
            check(tutti_group_abort(handle, reason.c_str()));
        }
    }

    /* At exit. With words the program has failed, and the other members get them. A group that still has works
     * in flight is not left: the others are told of a lost member, and this process does not hang. */
    static void leave_all(const std::string &reason)
    {
        constexpr std::chrono::seconds last_tasks_take{2};
        std::unique_lock<std::mutex> lock(all_mutex());

        for (group *one : all()) {
            tutti_group *handle = one->handle_.load();
            if (handle && !reason.empty())
                (void)tutti_group_abort(handle, reason.c_str());
            if (handle && one->open_->all_complete())
                one->leave();
        }
        lock.unlock(); /* a task may be the last that has a group */
        pool::wait(last_tasks_take);
    }

    /* ---- calls --------------------------------------------------------------------------------- */

    /* call(handle, options, ret_work) starts one operation. */
    template <class function>
    work_pointer start(const call_kind &kind, tensors inputs, std::vector<tensors> outputs,
                       function call)
    {
        tutti_group *target = handle();
        tutti_options options = TUTTI_OPTIONS_INIT;
        tutti_work *started = nullptr;

        if (kind.timeout.count() > 0)
            options.timeout_ms = kind.timeout.count();
        if (batch *own = find_batch()) {
            tutti_work **const none = nullptr; /* the batch has one for all */
            add_call(*own, [&] { return call(target, &options, none); });
            own->made->add_tensors(std::move(inputs), std::move(outputs));
            return own->made;
        }
        auto made = make_work(kind.type, kind.title, std::move(inputs), std::move(outputs));
        check(call(target, &options, &started));
        made->start(started, next_sequence(kind.type));
        return made;
    }

    /* Several operations as one: call(i, handle, options) makes the i-th. */
    template <class function>
    work_pointer start_each(const call_kind &kind, size_t count, tensors inputs,
                            std::vector<tensors> outputs, function call)
    {
        tutti_options options = TUTTI_OPTIONS_INIT;
        const bool nested = find_batch() != nullptr;

        if (kind.timeout.count() > 0)
            options.timeout_ms = kind.timeout.count();
        if (!nested)
            begin_batch(kind.type, kind.title);
        batch &own = *find_batch();
        const work_pointer made = own.made;
        try {
            for (size_t i = 0; i < count; i++)
                add_call(own, [&] { return call(i, handle(), &options); });
        } catch (...) {
            if (!nested)
                drop_batch();
            throw;
        }
        made->add_tensors(std::move(inputs), std::move(outputs));
        return nested ? made : end_batch();
    }

    work_pointer make_work(c10d::OpType type, const char *title, tensors inputs,
                           std::vector<tensors> outputs) const
    {
        return c10::make_intrusive<work>(tutti_group_rank(handle()), type, title, std::move(inputs),
                                         std::move(outputs), open_);
    }

    uint64_t sequence() const
    {
        return sequence_.load();
    }
    uint64_t next_sequence(c10d::OpType type)
    {
        return c10d::isP2POp(type) ? sequence_.load() : ++sequence_;
    }

    /* ---- batches ------------------------------------------------------------------------------- */

    void begin_batch(c10d::OpType type, const char *title)
    {
        const batch *left = find_batch();

        if (left && !left->failure)
            fail(TUTTI_ERR_BUSY, "this thread has begun to coalesce calls already; end it first");
        if (left) /* torch does not end what has failed */
            drop_batch();
        check(tutti_batch_begin(handle()));
        batches().push_back({this, make_work(type, title, {}, {})});
    }

    work_pointer end_batch()
    {
        const batch *own = find_batch();
        tutti_work *started = nullptr;

        if (!own)
            fail(TUTTI_ERR_INVALID_ARGUMENT, "this thread has not begun to coalesce calls");
        const work_pointer made = own->made;
        if (const std::exception_ptr failure = own->failure) {
            drop_batch();
            std::rethrow_exception(failure);
        }
        forget_batch();
        check(tutti_batch_end(handle(), &started));
        made->start(started, next_sequence(c10d::OpType::COALESCED));
        return made;
    }

  private:
    /* Whether the program has got the group's error. */
    static bool has_failed(tutti_group *handle)
    {
        tutti_group_info info = {};

        info.struct_size = sizeof info;
        return tutti_group_status(handle, &info) == TUTTI_OK && info.state == TUTTI_GROUP_FAILED;
    }

    /* One that this thread has begun. */
    struct batch {
        group *owner;
        work_pointer made;
        std::exception_ptr failure = nullptr; /* of a call that cannot be made: none will be */
    };

    static std::vector<batch> &batches()
    {
        static thread_local std::vector<batch> open;

        return open;
    }
    batch *find_batch()
    {
        for (batch &one : batches())
            if (one.owner == this)
                return &one;
        return nullptr;
    }
    void forget_batch()
    {
        auto &open = batches();

        open.erase(std::remove_if(open.begin(), open.end(),
                                  [this](const batch &one) { return one.owner == this; }),
                   open.end());
    }
    /* Ends one of which nothing may start. A call that is not valid keeps tutti from starting the others. */
    void drop_batch()
    {
        tutti_work *started = nullptr;

        forget_batch();
        (void)tutti_broadcast(handle(), nullptr, 0, nullptr, nullptr);
        (void)tutti_batch_end(handle(), &started);
    }
    template <class function> static void add_call(batch &own, function call)
    {
        try {
            check(call());
        } catch (...) {
            if (!own.failure)
                own.failure = std::current_exception();
            throw;
        }
    }

    /* Those that are not destroyed yet. */
    static std::set<group *> &all()
    {
        static auto *groups = new std::set<group *>; /* outlives static objects */

        return *groups;
    }
    static std::mutex &all_mutex()
    {
        static auto *mutex = new std::mutex;

        return *mutex;
    }

    std::atomic<tutti_group *> handle_;
    tutti_context *context_;
    std::shared_ptr<open_works> open_;
    std::atomic<uint64_t> sequence_{0};
};

} // namespace tutti_torch
