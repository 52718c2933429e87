/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Statuses of tutti as exceptions of torch, with tutti's words.
 *
 * Each class here is one that torch translates for Python: DistBackendError, DistNetworkError and
 * DistStoreError of torch.distributed, ValueError and NotImplementedError.
 */
#pragma once

#include <exception>
#include <string>

#include <c10/util/Exception.h>

#include <tutti/status.h>

namespace tutti_torch
{

template <class error_type> std::exception_ptr made(const std::string &words)
{
    return std::make_exception_ptr(error_type({"tutti", __FILE__, __LINE__}, words));
}

inline std::exception_ptr exception_of(tutti_status status, const std::string &words)
{
    switch (status) {
    case TUTTI_ERR_INVALID_ARGUMENT:
        return made<c10::ValueError>("tutti: " + words);
    case TUTTI_ERR_UNSUPPORTED:
        return made<c10::NotImplementedError>("tutti: " + words);
    case TUTTI_ERR_TIMEOUT:
        return made<c10::DistBackendError>("tutti: the timeout of the call passed: " + words);
    case TUTTI_ERR_PEER_LOST:
        return made<c10::DistNetworkError>("tutti: " + words);
    case TUTTI_ERR_STORE:
    case TUTTI_ERR_STALE:
        return made<c10::DistStoreError>("tutti: " + words);
    default:
        return made<c10::DistBackendError>("tutti: " + words);
    }
}

[[noreturn]] inline void fail(tutti_status status, const std::string &words)
{
    std::rethrow_exception(exception_of(status, words));
}

/* Throws for the status of the call that this thread has just made. */
inline void check(tutti_status status)
{
    if (status != TUTTI_OK)
        fail(status, tutti_last_error());
}

} // namespace tutti_torch
