/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GLOO_ENDPOINT_HH
#define GLOO_ENDPOINT_HH

#include "doorbell.hh"
#include "mesh.hh"
#include "patience.hh"
#include "requests.hh"

#include <gloo/transport/unbound_buffer.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace tutti_gloo
{

/* What the plugin exports for messages. */
extern const tutti_transport_ops transport_ops;

enum slot : std::uint64_t { SLOT_FRAMES, SLOT_DATA, SLOT_NOTHING_SENT, SLOT_NOTHING_RECEIVED };

/* A message of at most inline_max bytes travels in its frame; of a larger one the frame tells the
 * length, and the bytes follow in pieces. */
constexpr std::size_t inline_max = 16384;
constexpr std::uint64_t piece_bytes = 4 << 20;

struct frame {
    std::uint64_t bytes;
    std::array<std::uint8_t, inline_max> data;
};

/* Lengths that are none. */
constexpr std::uint64_t frame_hello = UINT64_MAX, frame_bye = UINT64_MAX - 1;

} // namespace tutti_gloo

/* The way to one member: a thread that sends and one that receives. What they share with the core's
 * thread is guarded by the endpoint's mutex. */
struct tutti_peer {
    tutti_peer(tutti_endpoint &owner, std::uint64_t core_label, tutti_gloo::route where);
    ~tutti_peer();
    tutti_peer(const tutti_peer &) = delete;
    tutti_peer &operator=(const tutti_peer &) = delete;

    enum direction { SENDS, RECEIVES };

    /* All with the mutex held. */
    void post(tutti_request &request, direction where);
    /* Afterwards nobody touches its memory. Where it was being moved the connection is of no use any
     * more. */
    void withdraw(tutti_request &request, std::unique_lock<std::mutex> &lock);
    void abandon(); /* drops what is queued and what is being moved */
    void leave();   /* drops what is queued, and says bye */
    void stop();    /* ends both threads soon */
    /* Nobody waits for it any more: it has said bye, or could not. */
    bool has_left() const
    {
        return sender_done_ || !connected_;
    }

    tutti_endpoint &endpoint;
    const std::uint64_t label;
    const tutti_gloo::route to;
    std::string lost_words{}; /* why, when `lost` */
    bool lost = false, told = false;

  private:
    using buffer = gloo::transport::UnboundBuffer;

    template <typename Task> void run(Task task) noexcept;
    void send_all();
    void receive_all();
    void send_frame(std::uint64_t bytes, const std::uint8_t *data, std::size_t count);
    void send_message(tutti_request &request);
    void receive_frame();
    void take_message();
    void take_pieces(std::uint64_t bytes, tutti_request *request);
    tutti_request *next(direction where);
    void finish(direction where, tutti_status result);
    void wait(buffer &one, direction where);
    void check_stop() const;
    void lose(const std::string &words);

    gloo::transport::Pair &pair_;
    std::condition_variable changed_{};
    bool connected_ = false, leaving_ = false, stopped_ = false, sender_done_ = false;
    bool withdrawn_ = false; /* something was, when it had been moved in part */

    /* Of the thread for each direction. */
    struct way {
        tutti_gloo::request_queue queue{};
        tutti_request *moved = nullptr; /* taken from the queue, and not finished */
        tutti_gloo::patience patience{};
    };
    std::array<way, 2> ways_{};

    tutti_gloo::frame out_, in_;
    char nothing_ = 0;
    std::unique_ptr<buffer> out_buffer_, in_buffer_, send_watch_, receive_watch_;
    std::thread sender_{}, receiver_{};
};

struct tutti_endpoint {
    tutti_endpoint(const tutti_host &services, void *host_self,
                   const tutti_endpoint_options &options);
    ~tutti_endpoint();
    tutti_endpoint(const tutti_endpoint &) = delete;
    tutti_endpoint &operator=(const tutti_endpoint &) = delete;

    tutti_status fail(tutti_status status, int error, const std::string &words) const noexcept
    {
        return host.error(self, status, error, words.c_str());
    }
    /* With the mutex held, from any thread. */
    void complete(tutti_request &request, tutti_status result);
    /* On the core's thread. */
    void report(tutti_request &request);
    void tell_lost();

    const tutti_host &host;
    void *const self;
    std::array<std::uint8_t, 16> token;
    tutti_gloo::mesh mesh;
    const std::vector<std::uint8_t> address;

    std::mutex mutex{};
    std::condition_variable left{}; /* a sender is done, or a request is not moved any more */
    tutti_gloo::request_queue done{};
    tutti_gloo::doorbell bell{}; /* something is in `done`, or somebody was lost */
    std::atomic<std::uint64_t> sent_bytes{0}, received_bytes{0}, sent{0}, received{0};
    std::vector<std::unique_ptr<tutti_peer>> peers{};
};

#endif
