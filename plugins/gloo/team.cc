/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A group's whole operations, on a thread of its own, since Gloo's functions block.
 *
 * The core hands over one operation at a time, and hears by the doorbell that it is complete. The thread waits
 * in Gloo without a time of its own: deadlines and dead members are the core's, whose abort throws it out of
 * whatever it waits for (context.hh). When it is out, nobody touches the operation's memory any more. Only then
 * are the connections cut, because others take their end for a sign that this member is gone: they must have
 * the verdict already.
 *
 * A connection that ends by itself is told to the core at once, with the member's rank, which Gloo's own words
 * lack.
 */
#include "team.hh"

#include "endpoint.hh"

#include <gloo/config.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include <pthread.h>

using namespace tutti_gloo;

namespace
{

/* The longest time that abort waits for the thread, with which every group of the process waits: it may
 * be in the middle of a reduction. */
constexpr std::chrono::milliseconds abort_within{200};

enum slot : std::uint64_t { SLOT_TOKEN, SLOT_NOTHING };

device device_for(const tutti_team_options &options)
{
    return options.endpoint ? options.endpoint->mesh.on()
                            : tutti_gloo::mesh::make_device(options.bind_address);
}

/* Of all that the members must have in common. */
std::uint64_t key_of(const tutti_collective &what)
{
    std::uint64_t key = what.sequence;

    for (const std::uint64_t part :
         {static_cast<std::uint64_t>(what.operation), static_cast<std::uint64_t>(what.flags),
          static_cast<std::uint64_t>(what.dtype), static_cast<std::uint64_t>(what.op),
          static_cast<std::uint64_t>(what.root), what.count})
        key = mixed(key, part);
    return key;
}

} // namespace

tutti_team::tutti_team(const tutti_host &services, void *host_self,
                       const tutti_team_options &options)
    : host(services), self(host_self), mesh(device_for(options), options.rank, options.size),
      address(mesh.address()), waiter_{mesh, waits_, [this](int rank) { look_at(watch_of(rank)); }}
{
    std::copy(std::begin(options.token), std::end(options.token), token_.begin());
}

tutti_team::~tutti_team()
{
    stop();
    if (thread_.joinable())
        thread_.join();
}

/* ---- on the core's thread -------------------------------------------------------------------- */

void tutti_team::form(const void *const *addresses, const std::uint64_t *bytes)
{
    const signals_blocked blocked;

    for (int r = 0; r < mesh.size(); r++)
        routes_.push_back(
            r == mesh.rank()
                ? route{}
                : mesh.route_to(static_cast<const std::uint8_t *>(addresses[r]), bytes[r]));
    for (int r = 0; r < mesh.size(); r++)
        if (r != mesh.rank() && routes_[static_cast<std::size_t>(r)].rank != r)
            throw failure{TUTTI_ERR_MISMATCH, 0,
                          "the address of rank " + std::to_string(r) + " says that it is rank " +
                              std::to_string(routes_[static_cast<std::size_t>(r)].rank)};
    for (int r = 0; r < mesh.size(); r++)
        watches_.push_back(mesh.buffer(&nothing_, 0));
    busy_ = true;
    try {
        thread_ = std::thread([this] { run(); });
    } catch (...) {
        busy_ = false;
        throw;
    }
}

tutti_status tutti_team::form_test()
{
    return bell.has_news() ? say(nullptr) : TUTTI_ERR_NOT_READY;
}

void tutti_team::start(const tutti_collective &what, tutti_request &request)
{
    const std::lock_guard<std::mutex> lock(mutex);

    request.status = TUTTI_ERR_NOT_READY;
    what_ = tutti_collective{};
    std::memcpy(&what_, &what, std::min<std::size_t>(sizeof what_, what.struct_size));
    busy_ = asked_ = true;
    changed_.notify_all();
}

tutti_status tutti_team::test(tutti_request &request)
{
    if (bell.has_news())
        say(&request);
    return request.status;
}

/* What became of it. */
tutti_status tutti_team::say(tutti_request *request)
{
    failure result{};
    std::vector<int> lost;

    {
        const std::lock_guard<std::mutex> lock(mutex);

        if (!finished_)
            return TUTTI_ERR_NOT_READY;
        finished_ = false;
        std::swap(result, result_);
        std::swap(lost, lost_);
        bell.settle(false);
    }
    if (request)
        request->status = result.status;
    for (const int rank : lost)
        host.peer_lost(self, static_cast<std::uint64_t>(rank), result.words.c_str());
    if (result.status)
        host.error(self, result.status, result.error, result.words.c_str());
    return result.status;
}

void tutti_team::stop()
{
    bool joins;

    waits_.end();
    {
        const std::lock_guard<std::mutex> lock(mutex);

        stopped_ = true;
        joins = busy_ && !formed_;
        changed_.notify_all();
    }
    if (joins)
        mesh.cut(); /* it may wait for a connection */
}

tutti_status tutti_team::abort()
{
    {
        const std::lock_guard<std::mutex> lock(mutex);
        ended_ = true;
    }
    stop();
    std::unique_lock<std::mutex> lock(mutex);
    return changed_.wait_for(lock, abort_within, [this] { return !busy_; }) ? TUTTI_OK
                                                                            : TUTTI_ERR_NOT_READY;
}

/* ---- the thread ------------------------------------------------------------------------------ */

void tutti_team::run() noexcept
{
    pthread_setname_np(pthread_self(), "tutti-gloo");
    try {
        join_members();
        {
            const std::lock_guard<std::mutex> lock(mutex);
            formed_ = true;
        }
        done({TUTTI_OK, 0, {}});
        work();
    } catch (const ended &) {
        done({TUTTI_ERR_ABORTED, 0, "has ended"}); /* short: allocates nothing */
    } catch (const gloo::IoException &what) {
        try {
            note_lost({TUTTI_ERR_PEER_LOST, 0, words_of(what)});
        } catch (...) {
            done({TUTTI_ERR_PEER_LOST, 0, {}});
        }
    } catch (...) {
        try {
            done(failure_of_exception());
        } catch (...) {
            done({TUTTI_ERR_NO_MEMORY, 0, {}});
        }
    }
    std::unique_lock<std::mutex> lock(mutex);
    changed_.wait(lock, [this] { return stopped_; });
    if (!ended_)
        return;
    lock.unlock();
    try {
        mesh.cut();
    } catch (const std::exception &) {
    }
}

/* Both sides of each connection dial or wait in the order of ranks, so nobody waits in a circle. */
void tutti_team::join_members()
{
    const ticks fast(mesh.on());

    for (int r = 0; r < mesh.size(); r++) {
        if (r == mesh.rank())
            continue;
        mesh.pair(r).connect(routes_[static_cast<std::size_t>(r)].address);
        mesh.pair(r).recv(&watch_of(r), SLOT_NOTHING, 0, 0);
    }
    for (int r = 0; r < mesh.size(); r++)
        if (r != mesh.rank())
            meet(r);
}

/* A stranger that came to the port first does not know the token. */
void tutti_team::meet(int other)
{
    std::array<std::uint8_t, 16> theirs{};
    const std::unique_ptr<buffer> out = mesh.buffer(token_.data(), token_.size()),
                                  in = mesh.buffer(theirs.data(), theirs.size());

    mesh.pair(other).recv(in.get(), SLOT_TOKEN, 0, theirs.size());
    mesh.pair(other).send(out.get(), SLOT_TOKEN, 0, token_.size());
    waits_.wait(*in, true, [&] { look_at(watch_of(other)); });
    waits_.wait(*out, false, [&] { look_at(watch_of(other)); });
    if (theirs != token_)
        throw failure{TUTTI_ERR_DENIED, 0,
                      routes_[static_cast<std::size_t>(other)].name +
                          ": the process that answered does not belong to the group"};
}

void tutti_team::work()
{
    const std::shared_ptr<gloo::Context> context = make_context(waiter_);

    while (next()) {
        const tutti_collective what = what_;

        waiter_.call = key_of(what);
        run_operation(context, what,
                      [&](void *out, const void *a, const void *b, std::size_t count) {
                          const tutti_status status =
                              host.reduce_local(self, what.dtype, what.op, out, a, b, count);

                          if (status)
                              throw failure{status, 0, "the core does not reduce this"};
                      });
        done({TUTTI_OK, 0, {}});
    }
}

/* Gloo says which address, if that; the watches know whose connection it was. */
void tutti_team::note_lost(const failure &what)
{
    std::vector<int> lost;

    for (int r = 0; r < mesh.size(); r++) {
        try {
            look_at(watch_of(r));
        } catch (const std::exception &) {
            lost.push_back(r);
        }
    }
    {
        const std::lock_guard<std::mutex> lock(mutex);
        lost_ = std::move(lost);
    }
    done(what);
}

/* False: there will be none. */
bool tutti_team::next()
{
    std::unique_lock<std::mutex> lock(mutex);

    changed_.wait(lock, [this] { return stopped_ || asked_; });
    if (stopped_)
        busy_ = false;
    changed_.notify_all();
    return std::exchange(asked_, false) && !stopped_;
}

void tutti_team::done(const failure &what)
{
    const std::lock_guard<std::mutex> lock(mutex);

    busy_ = false;
    finished_ = true;
    result_ = what;
    bell.ring();
    changed_.notify_all();
}

/* ---- what the core calls --------------------------------------------------------------------- */

namespace
{

std::int32_t serves(const tutti_host *, void *, const tutti_collective *what) noexcept
{
    return has_operation(*what);
}

/* The one that this was compiled for: Gloo does not say it at run time. */
tutti_status engine(const tutti_host *, void *, tutti_engine_version *ret_version) noexcept
{
    static constexpr char name[] = "Gloo";

    static_assert(sizeof name <= sizeof ret_version->name, "no room for the name");
    std::memcpy(ret_version->name, name, sizeof name);
    ret_version->major = GLOO_VERSION_MAJOR;
    ret_version->minor = GLOO_VERSION_MINOR;
    ret_version->patch = GLOO_VERSION_PATCH;
    return TUTTI_OK;
}

tutti_status open_team(const tutti_host *host, void *self, const tutti_team_options *options,
                       tutti_team **ret_team) noexcept
{
    return guarded(*host, self, [&] { *ret_team = new tutti_team(*host, self, *options); });
}

void close_team(tutti_team *team) noexcept
{
    delete team;
}

tutti_status address(tutti_team *team, void *ret_address, std::uint64_t capacity,
                     std::uint64_t *ret_bytes) noexcept
{
    return guarded(team->host, team->self,
                   [&] { *ret_bytes = give_address(team->address, ret_address, capacity); });
}

tutti_status form(tutti_team *team, const void *const *addresses,
                  const std::uint64_t *bytes) noexcept
{
    return guarded(team->host, team->self, [&] { team->form(addresses, bytes); });
}

tutti_status form_test(tutti_team *team) noexcept
{
    return team->form_test();
}

tutti_status start(tutti_team *team, const tutti_collective *what, tutti_request *request) noexcept
{
    return guarded(team->host, team->self, [&] { team->start(*what, *request); });
}

tutti_status test(tutti_team *team, tutti_request *request) noexcept
{
    return team->test(*request);
}

tutti_status abort_team(tutti_team *team) noexcept
{
    return team->abort();
}

tutti_status wait_fd(tutti_team *team, std::int32_t *ret_fd) noexcept
{
    *ret_fd = team->bell.descriptor();
    return TUTTI_OK;
}

std::int32_t arm(tutti_team *team) noexcept
{
    const std::lock_guard<std::mutex> lock(team->mutex);

    return team->bell.arm();
}

std::int32_t waits_for(tutti_team *team) noexcept
{
    return team->waits_for();
}

/* Members by name only since C++20, so they are set here, before anybody looks. */
constexpr tutti_collectives_ops make_ops()
{
    tutti_collectives_ops ops{};

    ops.struct_size = sizeof ops;
    ops.threads = TUTTI_THREADS_ONE_AT_A_TIME;
    ops.serves = serves;
    ops.open = open_team;
    ops.address = address;
    ops.form = form;
    ops.form_test = form_test;
    ops.start = start;
    ops.test = test;
    ops.abort = abort_team;
    ops.close = close_team;
    ops.engine = engine;
    ops.wait_fd = wait_fd;
    ops.arm = arm;
    ops.waits_for = waits_for;
    return ops;
}

} // namespace

extern const tutti_collectives_ops tutti_gloo::collectives_ops = make_ops();
