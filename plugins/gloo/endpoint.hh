/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GLOO_ENDPOINT_HH
#define GLOO_ENDPOINT_HH

#include "doorbell.hh"
#include "frame.hh"
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

enum slot : std::uint64_t {
    SLOT_FRAMES,
    SLOT_DATA, /* of long messages, in pieces */
    SLOT_LAST, /* empty; a peer that has taken the leave message asks for it */
    SLOT_NOTHING_SENT,
    SLOT_NOTHING_RECEIVED
};

constexpr std::uint64_t piece_bytes = 4 << 20;

/* Frames that are asked for before they are sent: while one is served the next may arrive. */
constexpr std::size_t frames_asked = 2;

} // namespace tutti_gloo

/* The way to one member: a thread that sends and one that receives. What they share with the core's
 * thread is guarded by the endpoint's mutex. */
struct tutti_peer {
    tutti_peer(tutti_endpoint &owner, std::uint64_t core_label, tutti_gloo::route where);
    ~tutti_peer();
    tutti_peer(const tutti_peer &) = delete;
    tutti_peer &operator=(const tutti_peer &) = delete;

    enum direction { SENDS, RECEIVES };

    /* What was posted. */
    void send()
    {
        ways_[SENDS].changed.notify_one();
    }

    /* All with the mutex held. */
    void post_send(tutti_request &request); /* takes effect with send() at the latest */
    void post_receive(tutti_request &request);
    /* Afterwards nobody touches its memory. Where it was being moved the connection is of no use any
     * more. */
    void withdraw(tutti_request &request, std::unique_lock<std::mutex> &lock);
    void abandon(); /* drops what is queued and what is being moved */
    void leave();   /* drops what is queued, and sends a leave message */
    void stop();    /* ends both threads soon */
    /* Nobody waits for it any more: it has sent its leave message, or could not. */
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

    struct inbox {
        tutti_gloo::frame frame;
        std::unique_ptr<buffer> memory;
    };

    template <typename Task> void run(Task task) noexcept;
    void cut_if_withdrawn();
    void send_all();
    void send_frames();
    void await_receiver();
    void receive_all();
    bool fill_frame();
    void send_frame();
    void send_frame_and_long();
    void ask_for(inbox &in);
    void take_hello(const tutti_gloo::frame &first) const;
    bool is_due() const;
    void take_frame(const tutti_gloo::frame &from);
    void take_long(std::unique_lock<std::mutex> &lock);
    void take_pieces(std::uint64_t bytes, tutti_request *request);
    void serve();
    bool may_post(tutti_request &request);
    void finish(direction where, tutti_status result);
    void wait(buffer &one, direction where);
    void check_stop() const;
    void notify();
    void lose(const std::string &words);

    gloo::transport::Pair &pair_;
    bool connected_ = false, leaving_ = false, stopped_ = false, sender_done_ = false;
    bool withdrawn_ = false; /* something was, when it had been moved in part */

    /* Of the thread for each direction. */
    struct way {
        std::condition_variable changed{};
        tutti_gloo::request_queue queue{};
        tutti_gloo::request_queue moved{}; /* taken from the queue, and not finished */
        tutti_gloo::patience patience{};
    };
    std::array<way, 2> ways_{};

    tutti_gloo::frame out_{};
    std::array<inbox, tutti_gloo::frames_asked> in_{};
    tutti_gloo::frame_reader arrived_{}; /* what has come, and no receive was there for yet */
    char nothing_ = 0;
    std::unique_ptr<buffer> out_buffer_, send_watch_, receive_watch_, last_sent_, last_received_;
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
    void let_go(); /* sends what waits for more */
    void report(tutti_request &request);
    void tell_lost(); /* when all that is complete has been reported */

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
    tutti_peer *held = nullptr; /* to whom the core will send more at once; the core's thread's */
};

#endif
