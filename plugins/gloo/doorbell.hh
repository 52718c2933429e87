/* SPDX-License-Identifier: Apache-2.0 */
/* How a thread of the plugin tells the core that there is news. */
#ifndef GLOO_DOORBELL_HH
#define GLOO_DOORBELL_HH

#include "failure.hh"

#include <atomic>
#include <cerrno>
#include <cstdint>

#include <sys/eventfd.h>
#include <unistd.h>

namespace tutti_gloo
{

/* A flag that is cheap to look at, and a descriptor to sleep on, written only after arm() has asked for
 * it. ring(), settle() and arm() are called with the mutex of what the news is about held. */
class doorbell
{
  public:
    doorbell() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (event_ < 0)
            throw failure{TUTTI_ERR_SYSTEM, errno, "cannot make an eventfd"};
    }
    ~doorbell()
    {
        ::close(event_);
    }
    doorbell(const doorbell &) = delete;
    doorbell &operator=(const doorbell &) = delete;

    int descriptor() const
    {
        return event_;
    }
    bool has_news() const
    {
        return news_.load(std::memory_order_acquire);
    }
    void ring()
    {
        const std::uint64_t one = 1;

        news_.store(true, std::memory_order_release);
        if (!armed_)
            return;
        armed_ = false;
        /* It can only fail when it is readable already. */
        [[maybe_unused]] const ssize_t written = write(event_, &one, sizeof one);
    }
    /* The news has been taken; `more`: not all of it. */
    void settle(bool more)
    {
        news_.store(more, std::memory_order_relaxed);
    }
    std::int32_t arm()
    {
        std::uint64_t past;

        [[maybe_unused]] const ssize_t taken = read(event_, &past, sizeof past);
        armed_ = !has_news();
        return armed_ ? TUTTI_ARMED : TUTTI_EVENTS_PENDING;
    }

  private:
    int event_;
    bool armed_ = false;
    std::atomic<bool> news_{false};
};

} // namespace tutti_gloo

#endif
