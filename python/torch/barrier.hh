/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitored barrier of torch.
 *
 * By messages through rank 0, and not by tutti_monitored_barrier(): in torch a group goes on after a timeout. Each
 * barrier has a tag of its own, so that a member who comes late is not taken for one who has come to the next.
 */
#pragma once

#include <algorithm>
#include <chrono>
#include <string>

#include <tutti/group.h>
#include <tutti/p2p.h>

#include "errors.hh"

namespace tutti_torch
{

/* One byte. */
inline tutti_tensor token_of(uint8_t &byte, int64_t &shape)
{
    return tutti_tensor_1d(&byte, TUTTI_U8, &shape, 1);
}

inline void watch_barrier(tutti_group *members, std::chrono::milliseconds timeout, uint64_t tag,
                          bool wait_for_all)
{
    const auto end = std::chrono::steady_clock::now() + timeout;
    const int32_t size = tutti_group_size(members);
    tutti_options options = TUTTI_OPTIONS_INIT;
    tutti_status status = TUTTI_OK;
    std::string missing, reason;
    uint8_t byte = 0;
    int64_t shape = 0;
    const tutti_tensor data = token_of(byte, shape);

    if (timeout.count() == 0 && size > 1)
        fail(TUTTI_ERR_TIMEOUT, "[Rank 0]: Rank 0 timed out in monitoredBarrier after 0 ms");
    for (int rank = 1; rank < size && (wait_for_all || missing.empty()); rank++) {
        const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
            end - std::chrono::steady_clock::now());
        options.timeout_ms = std::max<int64_t>(left.count(), 1); /* takes what has arrived */
        const tutti_status of_rank = tutti_recv(members, &data, rank, tag, &options, nullptr);
        if (of_rank == TUTTI_OK)
            continue;
        if (missing.empty()) {
            status = of_rank;
            reason = tutti_last_error();
        }
        missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (status != TUTTI_OK)
        fail(status,
             c10::str("[Rank 0]: ", wait_for_all ? "Ranks " : "Rank ", missing,
                      " failed to pass monitoredBarrier in ", timeout.count(), " ms: ", reason));
    options.timeout_ms = timeout.count();
    for (int rank = 1; rank < size; rank++)
        check(tutti_send(members, &data, rank, tag, &options));
}

inline void pass_barrier(tutti_group *members, std::chrono::milliseconds timeout, uint64_t tag)
{
    tutti_options options = TUTTI_OPTIONS_INIT;
    uint8_t byte = 0;
    int64_t shape = 0;
    const tutti_tensor data = token_of(byte, shape);

    options.timeout_ms = std::max<int64_t>(timeout.count(), 1); /* 0 would be the group's */
    tutti_status status = tutti_send(members, &data, 0, tag, &options);
    if (status == TUTTI_OK)
        status = tutti_recv(members, &data, 0, tag, &options, nullptr);
    if (status != TUTTI_OK)
        fail(status, c10::str("Rank ", tutti_group_rank(members),
                              " successfully reached monitoredBarrier, but received "
                              "errors while waiting for rank 0. Please check rank 0 "
                              "logs for faulty rank. ",
                              tutti_last_error()));
}

} // namespace tutti_torch
