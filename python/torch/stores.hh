/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The store of torch as a store of tutti.
 *
 * A TCPStore is opened a second time, with a connection of tutti's own: tutti then publishes the address of
 * the route to it, and its requests do not queue behind torch's. Any other store, and a TCPStore whose host
 * only torch can resolve, is used through functions that call it. Both ways lead to the same keys, so members
 * need not take the same one.
 *
 * tutti calls the functions on threads that do not hold the GIL; a store written in Python takes it itself.
 */
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <tutti/store.h>

#include "errors.hh"

namespace tutti_torch
{

using store_pointer = c10::intrusive_ptr<c10d::Store>;

struct store_release {
    void operator()(tutti_store *store) const
    {
        tutti_store_unref(store);
    }
};
using tutti_store_pointer = std::unique_ptr<tutti_store, store_release>;

/* ---- functions that call a store of torch ------------------------------------------------------ */

/* The `self` of the functions; `words` are of the last exception, for the caller of tutti_init(). */
struct called_store {
    store_pointer store;
    std::shared_ptr<std::string> words;
};

inline std::vector<uint8_t> bytes_of(const void *data, size_t size)
{
    const auto *bytes = static_cast<const uint8_t *>(data);

    return size ? std::vector<uint8_t>(bytes, bytes + size) : std::vector<uint8_t>();
}

template <class function> tutti_status guarded(void *self, function call)
{
    const auto *called = static_cast<const called_store *>(self);

    try {
        return call(*called->store);
    } catch (const std::exception &error) {
        *called->words = error.what();
        return TUTTI_ERR_STORE;
    }
}

inline tutti_status store_set(void *self, const char *key, const void *data, size_t size, int64_t)
{
    return guarded(self, [&](c10d::Store &store) {
        store.set(key, bytes_of(data, size));
        return TUTTI_OK;
    });
}

/* The store's own get() waits for the key. */
inline tutti_status store_get(void *self, const char *key, int64_t, tutti_store_value *ret_value)
{
    return guarded(self, [&](c10d::Store &store) -> tutti_status {
        if (!store.check({key}))
            return TUTTI_ERR_NOT_READY;
        const std::vector<uint8_t> value = store.get(key);
        return tutti_store_value_set(ret_value, value.data(), value.size());
    });
}

inline tutti_status store_compare_set(void *self, const char *key, const void *expected,
                                      size_t expected_size, const void *desired,
                                      size_t desired_size, int64_t, tutti_store_value *ret_value)
{
    return guarded(self, [&](c10d::Store &store) {
        const std::vector<uint8_t> value = store.compareSet(key, bytes_of(expected, expected_size),
                                                            bytes_of(desired, desired_size));
        return tutti_store_value_set(ret_value, value.data(), value.size());
    });
}

inline tutti_status store_check(void *self, const char *const *keys, size_t count, int64_t,
                                int32_t *ret_present)
{
    return guarded(self, [&](c10d::Store &store) {
        *ret_present = store.check(std::vector<std::string>(keys, keys + count));
        return TUTTI_OK;
    });
}

/* Not every store can delete. A key that stays does no harm. */
inline tutti_status store_remove(void *self, const char *key, int64_t, int32_t *ret_existed)
{
    const tutti_status status = guarded(self, [&](c10d::Store &store) {
        *ret_existed = store.deleteKey(key);
        return TUTTI_OK;
    });

    if (status != TUTTI_OK)
        *ret_existed = 0;
    return TUTTI_OK;
}

inline void store_close(void *self)
{
    delete static_cast<called_store *>(self);
}

inline tutti_store_pointer open_called(const store_pointer &store,
                                       const std::shared_ptr<std::string> &words)
{
    tutti_store_ops ops = {};
    tutti_store *opened = nullptr;

    ops.struct_size = sizeof ops;
    ops.set = store_set;
    ops.get = store_get;
    ops.compare_set = store_compare_set;
    ops.check = store_check;
    ops.remove = store_remove;
    ops.close = store_close;
    auto self = std::make_unique<called_store>(called_store{store, words});
    check(tutti_store_create(&ops, self.get(), &opened));
    self.release();
    return tutti_store_pointer(opened);
}

/* ---- which store ------------------------------------------------------------------------------- */

/* The prefix of a PrefixStore, which only its heirs may read. */
struct prefix_reader : c10d::PrefixStore {
    static const std::string &prefix_of(const c10d::PrefixStore &store)
    {
        return store.*(&prefix_reader::prefix_);
    }
};

/* The store under all prefixes, and these as the beginning of keys, without the last '/'. */
inline store_pointer find_root(store_pointer store, std::string *ret_prefix)
{
    std::string prefix;

    while (auto *outer = dynamic_cast<c10d::PrefixStore *>(store.get())) {
        const std::string &own = prefix_reader::prefix_of(*outer);
        prefix = prefix.empty() ? own : own + "/" + prefix;
        store = outer->getUnderlyingStore();
    }
    *ret_prefix = prefix;
    return store;
}

/* What python/tutti/torch/_stores.py says of the store, for both forms of the backend. */
struct store_kind {
    bool of_job;     /* its root is the store of tutti_init(NULL) in this process's place */
    bool in_process; /* all members are threads of this process */
};

/* The store in which a group meets; `words` are of the last exception of torch's. */
struct meeting {
    tutti_store_pointer store;
    std::shared_ptr<std::string> words = std::make_shared<std::string>();
};

inline meeting find_meeting(const store_pointer &store, const store_kind &kind,
                            std::chrono::milliseconds timeout)
{
    constexpr std::chrono::milliseconds resolve_within{10000};
    meeting found;
    std::string prefix;
    const store_pointer root = find_root(store, &prefix);
    const auto *tcp = dynamic_cast<c10d::TCPStore *>(root.get());
    tutti_store *opened = nullptr, *prefixed = nullptr;

    if (!tcp || tutti_store_open_tcp(tcp->getHost().c_str(), tcp->getPort(),
                                     std::min(timeout, resolve_within).count(), &opened)) {
        found.store = open_called(kind.of_job ? root : store, found.words);
        return found;
    }
    found.store.reset(opened);
    if (kind.of_job || prefix.empty())
        return found;
    check(tutti_store_open_prefix(opened, prefix.c_str(), &prefixed));
    found.store.reset(prefixed); /* it holds the other one */
    return found;
}

} // namespace tutti_torch
