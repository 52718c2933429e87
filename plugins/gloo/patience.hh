/* SPDX-License-Identifier: Apache-2.0 */
/* The waits of one thread for Gloo's buffers, which any other thread can end. */
#ifndef GLOO_PATIENCE_HH
#define GLOO_PATIENCE_HH

#include <gloo/common/error.h>
#include <gloo/transport/unbound_buffer.h>

#include <chrono>
#include <exception>
#include <mutex>

namespace tutti_gloo
{

/* Ends a thread's work without a word. */
struct ended {
};

constexpr std::chrono::milliseconds look_every{200}; /* at the connection, while waiting */
constexpr std::chrono::milliseconds ask_once{1}; /* none is «no limit» in other places of Gloo */

class patience
{
  public:
    using buffer = gloo::transport::UnboundBuffer;

    /* Until what the buffer sends or receives is complete. Throws `ended`, and what `look` throws, which
     * is called now and then: Gloo does not tell a buffer whose bytes are just being moved that the
     * connection has ended. What came before its end is complete by then, so the buffer is asked once
     * more. The buffer is one of mesh::buffer(). */
    template <typename Look> void wait(buffer &one, bool receiving, Look look)
    {
        const place here(*this, one, receiving);
        std::exception_ptr lost; /* why nothing comes any more */

        while (!is_complete_within(lost ? ask_once : look_every, one, receiving)) {
            if (lost)
                std::rethrow_exception(lost);
            try {
                look();
            } catch (...) {
                lost = std::current_exception();
            }
        }
    }
    /* Ends every wait, of now and of later, by an exception. From any thread. */
    void end()
    {
        const std::lock_guard<std::mutex> lock(mutex_);

        ended_ = true;
        if (!waited_)
            return;
        if (receiving_)
            waited_->abortWaitRecv();
        else
            waited_->abortWaitSend();
    }

  private:
    /* False: the time has run out, or the connection ended. */
    static bool is_complete_within(std::chrono::milliseconds time, buffer &one, bool receiving)
    {
        try {
            if (receiving ? one.waitRecv(nullptr, time) : one.waitSend(nullptr, time))
                return true;
        } catch (const gloo::IoException &) {
            return false;
        }
        throw ended();
    }

    /* The buffer that the thread waits in, as long as end() has to know it. */
    class place
    {
      public:
        place(patience &owner, buffer &one, bool receiving) : owner_(owner)
        {
            const std::lock_guard<std::mutex> lock(owner_.mutex_);

            if (owner_.ended_)
                throw ended();
            owner_.waited_ = &one;
            owner_.receiving_ = receiving;
        }
        ~place()
        {
            const std::lock_guard<std::mutex> lock(owner_.mutex_);

            owner_.waited_ = nullptr;
        }
        place(const place &) = delete;
        place &operator=(const place &) = delete;

      private:
        patience &owner_;
    };

    std::mutex mutex_{};
    buffer *waited_ = nullptr;
    bool receiving_ = false, ended_ = false;
};

/* Throws what has ended a connection, if something has: `watch` receives on it what nobody ever sends. */
inline void look_at(gloo::transport::UnboundBuffer &watch)
{
    watch.abortWaitRecv();
    watch.waitRecv(nullptr, look_every);
}

} // namespace tutti_gloo

#endif
