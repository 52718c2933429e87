/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two threads of a peer.
 *
 * Gloo can wait for a buffer, and cannot be asked whether one is done: a wait that runs out closes every
 * connection of the buffer's context. So two threads of ours wait for each peer, in buffers of a context that
 * has no connections (mesh.hh), and hand over what is complete; the core's threads never wait. Gloo has no probe
 * either, and a message that is longer than its receive ends the process (an exception in Gloo's own thread): so
 * each message begins with a frame of a fixed capacity that tells its length.
 *
 * When a connection ends, Gloo tells the buffers that are queued, and forgets the one that is being sent or
 * received. So each thread keeps a receive open that nobody serves, its watch, and looks at it now and then: to
 * abort a wait and then wait tells at once, by throwing or not, whether the connection has ended.
 *
 * The frame after a message is asked for when the message has been taken. So whoever has sent a bye has
 * everything delivered, and closes a socket in which nothing lies unread that would reset it.
 */
#include "endpoint.hh"

#include <gloo/common/error.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>

#include <pthread.h>

using namespace tutti_gloo;

namespace
{

constexpr std::chrono::milliseconds look_every{200}; /* at the connection, while waiting */

/* Ends a thread without a word. */
struct stopped {
};

/* Gloo begins with the place in its source. */
std::string words_of(const std::exception &what)
{
    const std::string words = what.what();
    const std::size_t place = words.find("] ");

    return words.compare(0, 1, "[") == 0 && place != std::string::npos ? words.substr(place + 2)
                                                                       : words;
}

} // namespace

/* The buffer that a thread waits in, as long as stop() has to know it. */
class tutti_peer::active
{
  public:
    active(tutti_peer &peer, buffer &one, bool receiving)
        : peer_(peer), place_(peer.waited_[receiving])
    {
        const std::lock_guard<std::mutex> lock(peer_.endpoint.mutex);

        peer_.check_stop();
        place_ = &one;
    }
    ~active()
    {
        const std::lock_guard<std::mutex> lock(peer_.endpoint.mutex);

        place_ = nullptr;
    }
    active(const active &) = delete;
    active &operator=(const active &) = delete;

  private:
    tutti_peer &peer_;
    buffer *&place_;
};

tutti_peer::tutti_peer(tutti_endpoint &owner, std::uint64_t core_label, way where)
    : endpoint(owner), label(core_label), to(std::move(where)), pair_(owner.mesh.pair(to.rank)),
      out_buffer_(owner.mesh.buffer(&out_, sizeof out_)),
      in_buffer_(owner.mesh.buffer(&in_, sizeof in_)), send_watch_(owner.mesh.buffer(&nothing_, 0)),
      receive_watch_(owner.mesh.buffer(&nothing_, 0))
{
    const signals_blocked blocked;

    sender_ = std::thread([this] { run([this] { send_all(); }); });
    try {
        receiver_ = std::thread([this] { run([this] { receive_all(); }); });
    } catch (...) {
        {
            const std::lock_guard<std::mutex> lock(endpoint.mutex);
            stop();
        }
        pair_.close();
        sender_.join();
        throw;
    }
}

tutti_peer::~tutti_peer()
{
    bool connected;

    {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);
        stop();
        connected = connected_;
    }
    if (!connected)
        pair_.close(); /* the sender waits for the connection */
    sender_.join();
    receiver_.join();
}

void tutti_peer::post(tutti_request &request, request_queue &queue)
{
    queue.push(request);
    changed_.notify_all();
}

void tutti_peer::leave()
{
    leaving_ = true;
    sends = receives = request_queue();
    changed_.notify_all();
}

void tutti_peer::stop()
{
    stopped_ = true;
    if (waited_[0])
        waited_[0]->abortWaitSend();
    if (waited_[1])
        waited_[1]->abortWaitRecv();
    changed_.notify_all();
}

/* ---- what both threads do -------------------------------------------------------------------- */

template <typename Task> void tutti_peer::run(Task task) noexcept
{
    pthread_setname_np(pthread_self(), "tutti-gloo");
    try {
        task();
    } catch (const stopped &) {
    } catch (const std::bad_alloc &) {
        lose("out of memory");
    } catch (const std::exception &what) {
        lose(to.name + ": " + words_of(what));
    } catch (...) {
        lose("an exception that nobody expected");
    }
}

void tutti_peer::lose(const std::string &words)
{
    const std::lock_guard<std::mutex> lock(endpoint.mutex);

    if (!stopped_ && !lost) {
        lost = true;
        lost_words = words;
        for (request_queue *queue : {&sends, &receives})
            while (!queue->empty())
                endpoint.complete(queue->pop(), TUTTI_ERR_PEER_LOST);
        endpoint.wake();
    }
    stop();
}

/* With the mutex held. */
void tutti_peer::check_stop() const
{
    if (stopped_)
        throw stopped();
}

/* Throws what ended the connection, if it has. */
void tutti_peer::check_pair(bool receiving)
{
    buffer &watch = receiving ? *receive_watch_ : *send_watch_;

    watch.abortWaitRecv();
    watch.waitRecv(nullptr, look_every);
}

void tutti_peer::wait(buffer &one, bool receiving)
{
    const active here(*this, one, receiving);

    for (;;) {
        try {
            if (receiving ? one.waitRecv(nullptr, look_every) : one.waitSend(nullptr, look_every))
                return;
            throw stopped();
        } catch (const gloo::IoException &) { /* the time has run out, or the connection ended */
            check_pair(receiving);
        }
    }
}

/* The next request to serve; NULL: there will be none. */
tutti_request *tutti_peer::next(request_queue &queue)
{
    std::unique_lock<std::mutex> lock(endpoint.mutex);

    changed_.wait(lock, [&] { return stopped_ || leaving_ || !queue.empty(); });
    check_stop();
    return queue.empty() ? nullptr : &queue.pop();
}

void tutti_peer::finish(tutti_request &request, tutti_status result)
{
    const std::lock_guard<std::mutex> lock(endpoint.mutex);

    if (!leaving_ && !(stopped_ && !lost)) /* else the core has forgotten it */
        endpoint.complete(request, result);
}

/* ---- sending --------------------------------------------------------------------------------- */

void tutti_peer::send_all()
{
    struct announce {
        tutti_peer &peer;
        ~announce()
        {
            const std::lock_guard<std::mutex> lock(peer.endpoint.mutex);
            peer.sender_done_ = true;
            peer.endpoint.left.notify_all();
        }
    } done{*this};

    pair_.connect(to.address); /* waits until the other side is there, or pair_.close() */
    {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);
        check_stop();
        pair_.recv(send_watch_.get(), SLOT_NOTHING_SENT, 0, 0);
        pair_.recv(receive_watch_.get(), SLOT_NOTHING_RECEIVED, 0, 0);
        connected_ = true;
        changed_.notify_all();
    }
    send_frame(frame_hello, endpoint.token.data(), endpoint.token.size());
    while (tutti_request *request = next(sends)) {
        try {
            send_message(*request);
        } catch (...) {
            finish(*request, TUTTI_ERR_PEER_LOST);
            throw;
        }
        finish(*request, TUTTI_OK);
    }
    send_frame(frame_bye, nullptr, 0);
}

void tutti_peer::send_frame(std::uint64_t bytes, const std::uint8_t *data, std::size_t count)
{
    out_.bytes = bytes;
    std::copy_n(data, count, out_.data.data());
    pair_.send(out_buffer_.get(), SLOT_FRAMES, 0, sizeof out_.bytes + count);
    wait(*out_buffer_, false);
}

void tutti_peer::send_message(tutti_request &request)
{
    const request_state &s = of(request);
    const bool is_inline = s.bytes <= inline_max;

    send_frame(s.bytes, s.data, is_inline ? s.bytes : 0);
    if (!is_inline) {
        const std::unique_ptr<buffer> pieces = endpoint.mesh.buffer(s.data, s.bytes);

        for (std::uint64_t at = 0; at < s.bytes; at += piece_bytes) {
            pair_.send(pieces.get(), SLOT_DATA, at, std::min(piece_bytes, s.bytes - at));
            wait(*pieces, false);
        }
    }
    endpoint.sent_bytes += sizeof out_.bytes + s.bytes;
    endpoint.sent++;
}

/* ---- receiving ------------------------------------------------------------------------------- */

void tutti_peer::receive_all()
{
    {
        std::unique_lock<std::mutex> lock(endpoint.mutex);
        changed_.wait(lock, [&] { return stopped_ || connected_; });
        check_stop();
    }
    receive_frame();
    if (in_.bytes != frame_hello ||
        !std::equal(endpoint.token.begin(), endpoint.token.end(), in_.data.begin()))
        throw gloo::Exception("who answers does not belong to the group");
    for (;;) {
        receive_frame();
        if (in_.bytes == frame_bye)
            throw gloo::Exception("it closed its connection");
        take_message();
    }
}

void tutti_peer::receive_frame()
{
    pair_.recv(in_buffer_.get(), SLOT_FRAMES, 0, sizeof in_);
    wait(*in_buffer_, true);
}

/* What the frame announces goes to the next receive. When this side leaves, it is dropped. */
void tutti_peer::take_message()
{
    const std::uint64_t bytes = in_.bytes;
    tutti_request *request = next(receives);
    const bool fits = request && bytes <= of(*request).bytes;

    if (bytes <= inline_max) {
        if (fits)
            std::copy_n(in_.data.data(), bytes, of(*request).data);
    } else {
        try {
            take_pieces(bytes, fits ? request : nullptr);
        } catch (...) {
            if (request)
                finish(*request, TUTTI_ERR_PEER_LOST);
            throw;
        }
    }
    if (!request)
        return;
    endpoint.received_bytes += sizeof in_.bytes + bytes;
    endpoint.received++;
    of(*request).bytes = bytes;
    finish(*request, fits ? TUTTI_OK : TUTTI_ERR_INTERNAL);
}

void tutti_peer::take_pieces(std::uint64_t bytes, tutti_request *request)
{
    std::vector<std::uint8_t> past(request ? 0 : piece_bytes);
    const std::unique_ptr<buffer> pieces = request ? endpoint.mesh.buffer(of(*request).data, bytes)
                                                   : endpoint.mesh.buffer(past.data(), past.size());

    for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
        pair_.recv(pieces.get(), SLOT_DATA, request ? at : 0, std::min(piece_bytes, bytes - at));
        wait(*pieces, true);
    }
}
