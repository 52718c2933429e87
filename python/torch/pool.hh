/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What this module leaves to torch's pool of threads: the end of tensors and of futures, which may need the GIL.
 *
 * Python ends a thread that asks for the GIL when the interpreter is gone, and C++ ends the process for that. So the
 * module waits at exit, without the GIL, until the pool has done all of it.
 */
#pragma once

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>

#include <ATen/Parallel.h>

namespace tutti_torch
{

class pool
{
  public:
    /* Calls the task on a thread of the pool, and deletes it there. */
    template <class task> static void run(std::unique_ptr<task> what)
    {
        task *const passed = what.release(); /* the pool copies what it is given */

        all().add(1);
        at::launch([passed] {
            {
                const std::unique_ptr<task> own(passed);
                (*own)();
            }
            all().add(-1);
        });
    }

    /* Waits until no task is left. A future's callback may be one that never returns. */
    static void wait(std::chrono::milliseconds at_most)
    {
        std::unique_lock<std::mutex> lock(all().mutex_);

        (void)all().changed_.wait_for(lock, at_most, [] { return all().left_ == 0; });
    }

  private:
    /* Never destroyed, as threads of the pool may outlive the destructors of this module. */
    static pool &all()
    {
        static pool *const one = new pool;

        return *one;
    }
    void add(int number)
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        left_ += number;
        changed_.notify_all();
    }

    std::mutex mutex_;
    std::condition_variable changed_;
    int left_ = 0;
};

} // namespace tutti_torch
