/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GLOO_TEAM_HH
#define GLOO_TEAM_HH

#include "context.hh"
#include "doorbell.hh"
#include "operations.hh"

#include <tutti/plugin_engine.h>

#include <array>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti_gloo
{

/* What the plugin exports for whole operations. */
extern const tutti_collectives_ops collectives_ops;

} // namespace tutti_gloo

/* A group, and the thread that is in Gloo for it. */
struct tutti_team {
    tutti_team(const tutti_host &services, void *host_self, const tutti_team_options &options);
    ~tutti_team();
    tutti_team(const tutti_team &) = delete;
    tutti_team &operator=(const tutti_team &) = delete;

    /* All on the core's thread. */
    void form(const void *const *addresses, const std::uint64_t *bytes);
    tutti_status form_test();
    void start(const tutti_collective &what, tutti_request &request);
    tutti_status test(tutti_request &request);
    tutti_status abort();
    int waits_for() const
    {
        return waiter_.awaited.load(std::memory_order_relaxed);
    }

    const tutti_host &host;
    void *const self;
    tutti_gloo::mesh mesh;
    const std::vector<std::uint8_t> address;
    tutti_gloo::doorbell bell{}; /* the thread has done what it was asked for */
    std::mutex mutex{};

  private:
    using buffer = gloo::transport::UnboundBuffer;

    void run() noexcept;
    void join_members();
    void meet(int other);
    void work();
    void note_lost(const tutti_gloo::failure &what);
    buffer &watch_of(int rank) const
    {
        return *watches_[static_cast<std::size_t>(rank)];
    }
    bool next();
    void done(const tutti_gloo::failure &what);
    tutti_status say(tutti_request *request);
    void stop();

    std::array<std::uint8_t, 16> token_{};
    std::vector<tutti_gloo::route> routes_{};
    std::thread thread_{};
    std::condition_variable changed_{};

    /* Guarded by the mutex. */
    bool busy_ = false;     /* the thread is in Gloo: it joins the members, or makes an operation */
    bool asked_ = false;    /* for the operation that is next */
    bool formed_ = false;   /* operations may be started */
    bool stopped_ = false;  /* the thread is to end */
    bool ended_ = false;    /* the group, by abort */
    bool finished_ = false; /* what was asked for, with `result_` */
    tutti_gloo::failure result_{TUTTI_OK, 0, {}};
    std::vector<int> lost_{}; /* members whose connection ended; not told yet */
    tutti_collective what_{};

    /* The thread's. */
    tutti_gloo::patience waits_{};
    tutti_gloo::waiter waiter_;
    std::vector<std::unique_ptr<buffer>> watches_{}; /* [size] see look_at() */
    char nothing_ = 0;
};

#endif
