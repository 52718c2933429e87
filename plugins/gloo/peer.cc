/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two threads of a peer.
 *
 * Gloo can wait for a buffer, and cannot be asked whether one is done: a wait that runs out closes every
 * connection of the buffer's context. So two threads of ours wait for each peer, in buffers of a context that
 * has no connections (mesh.hh), and hand over what is complete; the core's threads never wait. Gloo has no probe
 * either, and a message that is longer than its receive ends the connection (an exception in Gloo's own thread): so
 * messages travel in frames of a fixed capacity (frame.hh), which tell the length of those that are longer.
 *
 * Each change of thread takes some 30 us, and more where there are fewer cores than threads. So what is to be sent
 * goes into one frame as far as it fits, a header with its payload; frames are asked for before they are sent;
 * and a receive that is posted after its message has come takes it at once, on the thread that posts it.
 *
 * When a connection ends, Gloo tells the buffers that are queued, and forgets the one that is being sent or
 * received. So each thread keeps a receive open that nobody serves, its watch, and looks at it now and then: to
 * abort a wait and then wait tells at once, by throwing or not, whether the connection has ended.
 *
 * A peer that has taken a leave message has taken all that came before it. It then asks only for
 * the last message, which ends the sender's wait. So a member that leaves has everything delivered.
 * It closes a socket that holds nothing unread and into which nobody writes any more: either would
 * reset the connection.
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
      send_watch_(owner.mesh.buffer(&nothing_, 0)), receive_watch_(owner.mesh.buffer(&nothing_, 0)),
      last_sent_(owner.mesh.buffer(&nothing_, 0)), last_received_(owner.mesh.buffer(&nothing_, 0))
{
    const signals_blocked blocked;

    for (inbox &in : in_)
        in.memory = owner.mesh.buffer(&in.frame, sizeof in.frame);
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

/* False: it is complete. Before the core has been told that the peer is lost it has not yet seen either what
 * arrived until then, which it would drop if posts were refused. */
bool tutti_peer::may_post(tutti_request &request)
{
    if (lost && told)
        throw failure{TUTTI_ERR_PEER_LOST, 0, lost_words};
    if (lost)
        endpoint.complete(request, TUTTI_ERR_PEER_LOST);
    else if (stopped_)
        throw failure{TUTTI_ERR_ABORTED, 0,
                      to.name + ": a message was withdrawn half-way, and none can follow it"};
    return !lost;
}

void tutti_peer::post_send(tutti_request &request)
{
    if (may_post(request))
        ways_[SENDS].queue.push(request);
}

void tutti_peer::post_receive(tutti_request &request)
{
    way &one = ways_[RECEIVES];

    if (!may_post(request))
        return;
    one.queue.push(request);
    serve();
    if (arrived_.is_through() || !arrived_.is_short())
        one.changed.notify_one();
}

void tutti_peer::withdraw(tutti_request &request, std::unique_lock<std::mutex> &lock)
{
    for (way &one : ways_) {
        if (one.queue.remove(request))
            return;
        if (!one.moved.contains(request))
            continue;
        withdrawn_ = true;
        stop();
        endpoint.left.wait(lock, [&] { return !one.moved.contains(request); });
        endpoint.done.remove(request); /* where the peer is lost, the thread has completed it */
        return;
    }
}

void tutti_peer::abandon()
{
    for (const way &one : ways_)
        withdrawn_ |= !one.moved.empty();
    stop();
}

void tutti_peer::leave()
{
    leaving_ = true;
    for (way &one : ways_)
        one.queue = request_queue();
    notify();
}

void tutti_peer::stop()
{
    stopped_ = true;
    for (way &one : ways_)
        one.patience.end();
    notify();
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
        lose("an unexpected exception");
    }
    cut_if_withdrawn();
}

/* Nobody takes what comes any more: Gloo's thread would turn without rest, and the other side wait for its
 * leave message to be taken. */
void tutti_peer::cut_if_withdrawn()
{
    {
        const std::lock_guard<std::mutex> lock(endpoint.mutex);
        if (!withdrawn_)
            return;
    }
    const ticks fast(endpoint.mesh.on());
    pair_.close();
}

/* What the other thread is moving may be complete already: the leaving peer may have it. So the
 * other thread finds out for itself that the connection has ended. */
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
    notify();
}

/* These two with the mutex held. */
void tutti_peer::notify()
{
    for (way &one : ways_)
        one.changed.notify_one();
}

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

/* With what is being moved. */
void tutti_peer::finish(direction where, tutti_status result)
{
    const std::lock_guard<std::mutex> lock(endpoint.mutex);
    request_queue &moved = ways_[where].moved;

    while (!moved.empty()) {
        tutti_request &request = moved.pop();

        /* Else the core has forgotten it, or takes it back. */
        if (!leaving_ && !(stopped_ && !lost))
            endpoint.complete(request, result);
    }
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
        notify();
    }
    try {
        send_frames();
    } catch (const gloo::IoException &) {
        await_receiver();
        finish(SENDS, TUTTI_ERR_PEER_LOST);
        throw;
    } catch (...) {
        finish(SENDS, TUTTI_ERR_PEER_LOST);
        throw;
    }
}

void tutti_peer::send_frames()
{
    out_.add(frame_hello, nullptr);
    out_.add(endpoint.token.size(), endpoint.token.data());
    send_frame();
    while (fill_frame()) {
        send_frame_and_long();
        finish(SENDS, TUTTI_OK);
    }
    out_.add(frame_leave, nullptr);
    send_frame();
    pair_.send(last_sent_.get(), SLOT_LAST, 0, 0);
    wait(*last_sent_, SENDS);
}

/* The connection has ended, and what was sent here before that may wait for its receives. With the first request
 * that fails the core drops all of them, so what could not be sent fails after these: when the receiver
 * is through. */
void tutti_peer::await_receiver()
{
    std::unique_lock<std::mutex> lock(endpoint.mutex);

    ways_[SENDS].changed.wait(lock, [&] { return stopped_ || leaving_; });
}

/* With what waits to be sent, as much as there is room for. A long message is the last of its frame. False: there
 * will be none. */
bool tutti_peer::fill_frame()
{
    std::unique_lock<std::mutex> lock(endpoint.mutex);
    way &one = ways_[SENDS];

    one.changed.wait(lock, [&] { return stopped_ || leaving_ || !one.queue.empty(); });
    check_stop();
    for (bool is_last = false; !is_last && !one.queue.empty();) {
        const request_state &s = of(one.queue.first());

        if (!out_.add(s.bytes, s.data))
            break;
        is_last = s.bytes > short_max;
        endpoint.sent_bytes += sizeof s.bytes + s.bytes;
        endpoint.sent++;
        one.moved.push(one.queue.pop());
    }
    return !one.moved.empty();
}

void tutti_peer::send_frame()
{
    pair_.send(out_buffer_.get(), SLOT_FRAMES, 0, out_.bytes());
    wait(*out_buffer_, SENDS);
    out_.used = 0;
}

void tutti_peer::send_frame_and_long()
{
    const request_state &last = of(ways_[SENDS].moved.last());

    send_frame();
    if (last.bytes <= short_max)
        return;
    const std::unique_ptr<buffer> pieces = endpoint.mesh.buffer(last.data, last.bytes);

    for (std::uint64_t at = 0; at < last.bytes; at += piece_bytes) {
        pair_.send(pieces.get(), SLOT_DATA, at, std::min(piece_bytes, last.bytes - at));
        wait(*pieces, SENDS);
    }
}

/* ---- receiving ------------------------------------------------------------------------------- */

void tutti_peer::receive_all()
{
    {
        std::unique_lock<std::mutex> lock(endpoint.mutex);
        ways_[RECEIVES].changed.wait(lock, [&] { return stopped_ || connected_; });
        check_stop();
    }
    for (inbox &in : in_)
        ask_for(in);
    wait(*in_[0].memory, RECEIVES);
    take_hello(in_[0].frame);
    ask_for(in_[0]);
    for (std::size_t next = 1;; next = (next + 1) % in_.size()) {
        wait(*in_[next].memory, RECEIVES);
        take_frame(in_[next].frame);
        ask_for(in_[next]);
    }
}

/* Where the connection has ended nothing comes any more, but the other inbox may be full: the wait for one
 * that is not says why. */
void tutti_peer::ask_for(inbox &in)
{
    try {
        pair_.recv(in.memory.get(), SLOT_FRAMES, 0, sizeof in.frame);
    } catch (const gloo::IoException &) {
    }
}

void tutti_peer::take_hello(const frame &first) const
{
    frame_reader hello(first);

    if (!hello.is_through() && hello.bytes() == frame_hello) {
        hello.next();
        if (!hello.is_through() && hello.bytes() == endpoint.token.size() &&
            std::equal(endpoint.token.begin(), endpoint.token.end(), hello.data()))
            return;
    }
    throw gloo::Exception("the process that answered does not belong to the group");
}

/* Whether there is something to do that a thread which posts a receive cannot. With the mutex held. */
bool tutti_peer::is_due() const
{
    return stopped_ || leaving_ || arrived_.is_through() || arrived_.bytes() == frame_leave ||
           (!arrived_.is_short() && !ways_[RECEIVES].queue.empty());
}

/* Until all that is in it is taken. When this side leaves, it is dropped. */
void tutti_peer::take_frame(const frame &from)
{
    const frame_reader reader(from);
    std::unique_lock<std::mutex> lock(endpoint.mutex);

    arrived_ = reader;
    for (;;) {
        serve();
        ways_[RECEIVES].changed.wait(lock, [&] { return is_due(); });
        check_stop();
        if (arrived_.is_through())
            return;
        if (arrived_.bytes() == frame_leave) {
            pair_.recv(last_received_.get(), SLOT_LAST, 0, 0);
            throw gloo::Exception("it closed its connection");
        }
        if (arrived_.is_short())
            arrived_.next();
        else
            take_long(lock);
    }
}

/* Gives short messages that have come to the receives that are there. With the mutex held. */
void tutti_peer::serve()
{
    request_queue &queue = ways_[RECEIVES].queue;

    for (; !arrived_.is_through() && arrived_.is_short() && !queue.empty(); arrived_.next()) {
        tutti_request &request = queue.pop();
        request_state &s = of(request);
        const std::uint64_t bytes = arrived_.bytes();
        const bool fits = bytes <= s.bytes;

        if (fits)
            std::copy_n(arrived_.data(), bytes, s.data);
        s.bytes = bytes;
        endpoint.received_bytes += sizeof bytes + bytes;
        endpoint.received++;
        endpoint.complete(request, fits ? TUTTI_OK : TUTTI_ERR_INTERNAL);
    }
}

/* A message that comes in pieces, for the next receive. */
void tutti_peer::take_long(std::unique_lock<std::mutex> &lock)
{
    way &one = ways_[RECEIVES];
    const std::uint64_t bytes = arrived_.bytes();
    tutti_request *request = one.queue.empty() ? nullptr : &one.queue.pop();
    const bool fits = request && bytes <= of(*request).bytes;

    if (request)
        one.moved.push(*request);
    lock.unlock();
    try {
        take_pieces(bytes, fits ? request : nullptr);
    } catch (...) {
        finish(RECEIVES, TUTTI_ERR_PEER_LOST);
        throw;
    }
    if (request) {
        of(*request).bytes = bytes;
        endpoint.received_bytes += sizeof bytes + bytes;
        endpoint.received++;
    }
    finish(RECEIVES, fits ? TUTTI_OK : TUTTI_ERR_INTERNAL);
    lock.lock();
    arrived_.next();
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
