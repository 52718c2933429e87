/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What peers send each other: messages one behind the other, each its length and, where it is short, its bytes.
 * Those of a long one follow the frame, which ends with it. Lengths are in a host's own order, as Gloo's are.
 */
#ifndef GLOO_FRAME_HH
#define GLOO_FRAME_HH

#include <gloo/common/error.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace tutti_gloo
{

constexpr std::uint64_t short_max = 16384;

/* Lengths that are none. */
constexpr std::uint64_t frame_hello = UINT64_MAX, frame_leave = UINT64_MAX - 1;

struct frame {
    std::uint64_t used = 0; /* of `data` */
    /* A short message of any length and the core's header before it, and somewhat more. */
    std::array<std::uint8_t, short_max + 1024> data;

    std::size_t bytes() const
    {
        return sizeof used + used;
    }
    /* False: there is no room. */
    bool add(std::uint64_t bytes, const std::uint8_t *from)
    {
        const std::uint64_t carried = bytes <= short_max ? bytes : 0;

        if (used + sizeof bytes + carried > data.size())
            return false;
        std::memcpy(&data[used], &bytes, sizeof bytes);
        if (carried)
            std::memcpy(&data[used + sizeof bytes], from, carried);
        used += sizeof bytes + carried;
        return true;
    }
};

/* Goes through the messages of a frame, which must stay until it is through. */
class frame_reader
{
  public:
    frame_reader() = default;
    /* It comes from outside: throws where it makes no sense. */
    explicit frame_reader(const frame &from) : at_(from.data.data()), left_(from.used)
    {
        frame_reader ahead;

        if (left_ > from.data.size())
            throw gloo::Exception("what arrives makes no sense");
        for (ahead = *this; !ahead.is_through(); ahead.next())
            if (ahead.left_ < sizeof(std::uint64_t) || ahead.left_ < ahead.taken())
                throw gloo::Exception("what arrives makes no sense");
    }
    bool is_through() const
    {
        return left_ == 0;
    }
    /* Of the message at hand. */
    std::uint64_t bytes() const
    {
        std::uint64_t value;

        std::memcpy(&value, at_, sizeof value);
        return value;
    }
    bool is_short() const
    {
        return bytes() <= short_max;
    }
    const std::uint8_t *data() const
    {
        return at_ + sizeof(std::uint64_t);
    }
    void next()
    {
        const std::uint64_t past = taken();

        at_ += past;
        left_ -= past;
    }

  private:
    std::uint64_t taken() const
    {
        return sizeof(std::uint64_t) + (is_short() ? bytes() : 0);
    }

    const std::uint8_t *at_ = nullptr;
    std::uint64_t left_ = 0;
};

} // namespace tutti_gloo

#endif
