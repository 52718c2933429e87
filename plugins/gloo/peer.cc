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
#include <exception>
#include <new>

#include <pthread.h>

using namespace tutti_gloo;

tutti_peer::tutti_peer(tutti_endpoint &owner, std::uint64_t core_label, route where)
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
    bool soft;

    {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);
        stop();
        soft = connected_ && !withdrawn_;
    }
    if (!soft)
        pair_.close(); /* the sender waits for the connection, or half a message is on its way */
    sender_.join();
    receiver_.join();
}

void tutti_peer::post(tutti_request &request, direction where)
{
    if (lost)
        throw failure{TUTTI_ERR_PEER_LOST, 0, lost_words};
    if (stopped_)
        throw failure{TUTTI_ERR_ABORTED, 0,
                      to.name + ": a message was withdrawn half-way, and none can follow it"};
    ways_[where].queue.push(request);
    changed_.notify_all();
}

void tutti_peer::withdraw(tutti_request &request, std::unique_lock<std::mutex> &lock)
{
    for (way &one : ways_) {
        if (one.queue.remove(request))
            return;
        if (one.moved != &request)
            continue;
        withdrawn_ = true;
        stop();
        endpoint.left.wait(lock, [&] { return one.moved != &request; });
        endpoint.done.remove(request); /* where the peer is lost, the thread has completed it */
        return;
    }
}

void tutti_peer::abandon()
{
    for (const way &one : ways_)
        withdrawn_ |= one.moved != nullptr;
    stop();
}

void tutti_peer::leave()
{
    leaving_ = true;
    for (way &one : ways_)
        one.queue = request_queue();
    changed_.notify_all();
}

void tutti_peer::stop()
{
    stopped_ = true;
    for (way &one : ways_)
        one.patience.end();
    changed_.notify_all();
}

/* ---- what both threads do -------------------------------------------------------------------- */

template <typename Task> void tutti_peer::run(Task task) noexcept
{
    pthread_setname_np(pthread_self(), "tutti-gloo");
    try {
        task();
    } catch (const ended &) {
    } catch (const std::bad_alloc &) {
        lose("out of memory");
    } catch (const std::exception &what) {
        lose(to.name + ": " + words_of(what));
    } catch (...) {
        lose("an exception that nobody expected");
    }
}

/* What the other thread is moving may be complete already: whoever leaves may have it. So that one finds out
 * for itself that the connection has ended. */
void tutti_peer::lose(const std::string &words)
{
    const std::lock_guard<std::mutex> lock(endpoint.mutex);

    if (!stopped_ && !lost) {
        lost = true;
        lost_words = words;
        for (way &one : ways_)
            while (!one.queue.empty())
                endpoint.complete(one.queue.pop(), TUTTI_ERR_PEER_LOST);
        endpoint.bell.ring();
    }
    stopped_ = true;
    changed_.notify_all();
}

/* With the mutex held. */
void tutti_peer::check_stop() const
{
    if (stopped_)
        throw ended();
}

void tutti_peer::wait(buffer &one, direction where)
{
    ways_[where].patience.wait(one, where == RECEIVES, [&] {
        look_at(where == RECEIVES ? *receive_watch_ : *send_watch_);
    });
}

/* The next request to serve; NULL: there will be none. */
tutti_request *tutti_peer::next(direction where)
{
    std::unique_lock<std::mutex> lock(endpoint.mutex);
    way &one = ways_[where];

    changed_.wait(lock, [&] { return stopped_ || leaving_ || !one.queue.empty(); });
    check_stop();
    return one.moved = one.queue.empty() ? nullptr : &one.queue.pop();
}

void tutti_peer::finish(direction where, tutti_status result)
{
    const std::lock_guard<std::mutex> lock(endpoint.mutex);
    way &one = ways_[where];

    if (!leaving_ && !(stopped_ && !lost)) /* else the core has forgotten it, or takes it back */
        endpoint.complete(*one.moved, result);
    one.moved = nullptr;
    endpoint.left.notify_all();
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
    while (tutti_request *request = next(SENDS)) {
        try {
            send_message(*request);
        } catch (...) {
            finish(SENDS, TUTTI_ERR_PEER_LOST);
            throw;
        }
        finish(SENDS, TUTTI_OK);
    }
    send_frame(frame_bye, nullptr, 0);
}

void tutti_peer::send_frame(std::uint64_t bytes, const std::uint8_t *data, std::size_t count)
{
    out_.bytes = bytes;
    std::copy_n(data, count, out_.data.data());
    pair_.send(out_buffer_.get(), SLOT_FRAMES, 0, sizeof out_.bytes + count);
    wait(*out_buffer_, SENDS);
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
            wait(*pieces, SENDS);
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
    wait(*in_buffer_, RECEIVES);
}

/* What the frame announces goes to the next receive. When this side leaves, it is dropped. */
void tutti_peer::take_message()
{
    const std::uint64_t bytes = in_.bytes;
    tutti_request *request = next(RECEIVES);
    const bool fits = request && bytes <= of(*request).bytes;

    if (bytes <= inline_max) {
        if (fits)
            std::copy_n(in_.data.data(), bytes, of(*request).data);
    } else {
        try {
            take_pieces(bytes, fits ? request : nullptr);
        } catch (...) {
            if (request)
                finish(RECEIVES, TUTTI_ERR_PEER_LOST);
            throw;
        }
    }
    if (!request)
        return;
    endpoint.received_bytes += sizeof in_.bytes + bytes;
    endpoint.received++;
    of(*request).bytes = bytes;
    finish(RECEIVES, fits ? TUTTI_OK : TUTTI_ERR_INTERNAL);
}

void tutti_peer::take_pieces(std::uint64_t bytes, tutti_request *request)
{
    std::vector<std::uint8_t> past(request ? 0 : piece_bytes);
    const std::unique_ptr<buffer> pieces = request ? endpoint.mesh.buffer(of(*request).data, bytes)
                                                   : endpoint.mesh.buffer(past.data(), past.size());

    for (std::uint64_t at = 0; at < bytes; at += piece_bytes) {
        pair_.recv(pieces.get(), SLOT_DATA, request ? at : 0, std::min(piece_bytes, bytes - at));
        wait(*pieces, RECEIVES);
    }
}
