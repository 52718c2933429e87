/* SPDX-License-Identifier: Apache-2.0 */
/* Ownership: descriptors are closed by their object; requests lie in the core's memory and are only
 * queued here, without allocating. */
#ifndef ONEWAY_OWNED_HH
#define ONEWAY_OWNED_HH

#include <tutti/plugin.h>

#include <cstdint>
#include <type_traits>
#include <utility>

#include <unistd.h>

namespace
{

class descriptor
{
  public:
    descriptor() = default;
    explicit descriptor(int fd) : fd_(fd)
    {
    }
    descriptor(descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1))
    {
    }
    descriptor &operator=(descriptor &&other) noexcept
    {
        std::swap(fd_, other.fd_);
        return *this;
    }
    ~descriptor()
    {
        if (fd_ >= 0)
            close(fd_);
    }
    int get() const
    {
        return fd_;
    }
    explicit operator bool() const
    {
        return fd_ >= 0;
    }

  private:
    int fd_ = -1;
};

/* A request while it is not complete and reported; lies in the core's memory. */
struct state {
    tutti_request *next;
    std::uint8_t *data;
    std::uint64_t bytes, done, frame;
};
static_assert(sizeof(state) <= sizeof(tutti_request::opaque), "no room for our state");
static_assert(std::is_trivial_v<state>, "it lies in memory that nobody constructs");

state &of(tutti_request &request)
{
    return *reinterpret_cast<state *>(request.opaque);
}

/* First in, first out, through the requests themselves. */
class request_queue
{
  public:
    bool empty() const
    {
        return !first_;
    }
    tutti_request &front() const
    {
        return *first_;
    }
    void push(tutti_request &request)
    {
        of(request).next = nullptr;
        (first_ ? of(*last_).next : first_) = &request;
        last_ = &request;
    }
    tutti_request &pop()
    {
        tutti_request &request = *first_;

        first_ = of(request).next;
        return request;
    }
    void remove(tutti_request &request)
    {
        request_queue rest;

        while (!empty()) {
            tutti_request &one = pop();

            if (&one != &request)
                rest.push(one);
        }
        *this = rest;
    }

  private:
    tutti_request *first_ = nullptr, *last_ = nullptr;
};

} // namespace

#endif
