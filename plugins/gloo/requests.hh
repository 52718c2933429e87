/* SPDX-License-Identifier: Apache-2.0 */
/* Requests lie in the core's memory; they are only linked here, without allocating. */
#ifndef GLOO_REQUESTS_HH
#define GLOO_REQUESTS_HH

#include <tutti/plugin.h>

#include <cstdint>
#include <type_traits>

namespace tutti_gloo
{

/* What `opaque` holds until the request is reported. The core reads request.status when it likes, so what
 * became of it stays here until the core calls. */
struct request_state {
    tutti_request *next;
    tutti_peer *peer;
    std::uint8_t *data;
    std::uint64_t bytes; /* given; later, of a receive: received */
    tutti_status result;
};
static_assert(sizeof(request_state) <= sizeof(tutti_request::opaque), "no room for our state");
static_assert(std::is_trivial_v<request_state>, "it lies in memory that nobody constructs");

inline request_state &of(tutti_request &request)
{
    return *reinterpret_cast<request_state *>(request.opaque);
}

/* Lets the core see what became of it. */
inline void show(tutti_request &request)
{
    request.bytes = of(request).bytes;
    request.status = of(request).result;
}

/* First in, first out. */
class request_queue
{
  public:
    bool empty() const
    {
        return !first_;
    }
    tutti_request &first() const
    {
        return *first_;
    }
    tutti_request &last() const
    {
        return *last_;
    }
    bool contains(const tutti_request &request) const
    {
        const tutti_request *one = first_;

        while (one && one != &request)
            one = of(const_cast<tutti_request &>(*one)).next;
        return one != nullptr;
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
    template <typename Action> void each(Action action)
    {
        for (tutti_request *one = first_; one; one = of(*one).next)
            action(*one);
    }
    /* Those that `leaves` says true of; whether there were any. */
    template <typename Predicate> bool remove_if(Predicate leaves)
    {
        request_queue rest;
        bool found = false;

        while (!empty()) {
            tutti_request &one = pop();

            if (leaves(one))
                found = true;
            else
                rest.push(one);
        }
        *this = rest;
        return found;
    }
    bool remove(const tutti_request &request)
    {
        return remove_if([&](const tutti_request &one) { return &one == &request; });
    }

  private:
    tutti_request *first_ = nullptr, *last_ = nullptr;
};

} // namespace tutti_gloo

#endif
