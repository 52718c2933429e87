/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads of this module, for what must not run on tutti's: the end of tensors and of futures, which may need the
 * GIL. A function that torch calls where a future completes may wait for another future. So a task never waits
 * for a thread: if none is idle, another one begins.
 *
 * Python ends a thread that asks for the GIL when the interpreter is gone, and C++ ends the process for that. So the
 * module waits at exit, without the GIL, until all tasks are done, those too that tutti's thread has yet to bring.
 */
#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include <c10/util/Exception.h>

namespace tutti_torch
{

class pool
{
  public:
    /* tutti will call what brings a task. */
    static void expect()
    {
        const std::lock_guard<std::mutex> lock(all().mutex_);

        all().left_++;
    }

    /* It will not: the task that was expected does not come. */
    static void forgo()
    {
        const std::lock_guard<std::mutex> lock(all().mutex_);

        all().left_--;
        all().changed_.notify_all();
    }

    /* Calls a task that was expected on a thread of the pool, and deletes it there. */
    template <class task> static void run(std::unique_ptr<task> what)
    {
        task *const passed = what.release(); /* a std::function is copied */

        all().add([passed] {
            const std::unique_ptr<task> own(passed);
            (*own)();
        });
    }

    /* Waits until no task is left. A future's callback may be one that never returns. */
    static void wait(std::chrono::milliseconds at_most)
    {
        std::unique_lock<std::mutex> lock(all().mutex_);

        (void)all().changed_.wait_for(lock, at_most, [] { return all().left_ == 0; });
    }

  private:
    /* Never destroyed, as its threads may outlive the destructors of this module. */
    static pool &all()
    {
        static pool *const one = new pool;

        return *one;
    }

    void add(std::function<void()> task)
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        tasks_.push_back(std::move(task));
        if (tasks_.size() > idle_)
            std::thread([this] { serve(); }).detach();
        else
            changed_.notify_all();
    }

    /* Until there has been nothing to do for a while. */
    void serve()
    {
        constexpr std::chrono::seconds idle_at_most{5};
        std::unique_lock<std::mutex> lock(mutex_);

        for (;;) {
            idle_++;
            const bool found =
                changed_.wait_for(lock, idle_at_most, [this] { return !tasks_.empty(); });
            idle_--;
            if (!found)
                return;

            const std::function<void()> task = std::move(tasks_.front());
            tasks_.pop_front();
            lock.unlock();
            call(task);
            lock.lock();
            left_--;
            changed_.notify_all();
        }
    }

    static void call(const std::function<void()> &task)
    {
        try {
            task();
        } catch (const std::exception &error) {
            TORCH_WARN("tutti: the end of a work failed: ", error.what());
        }
    }

    std::mutex mutex_;
    std::condition_variable changed_; /* a task has come, or one is done */
    std::deque<std::function<void()>> tasks_;
    std::size_t idle_ = 0; /* threads */
    int left_ = 0;         /* tasks that are expected, or not done */
};

} // namespace tutti_torch
