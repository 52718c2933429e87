/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In place of the header of this name, which Debian's package lacks and those of Gloo's pairs include. Looked for
 * last: a Gloo that is complete uses its own. Here is only what the layout of a pair needs, which is Gloo's.
 */
#ifndef GLOO_MISSING_MEMORY_H
#define GLOO_MISSING_MEMORY_H

#include <memory>

namespace gloo
{

template <typename T> class NonOwningPtr
{
    std::shared_ptr<T> pointer_;
};

template <typename T> class WeakNonOwningPtr
{
    std::weak_ptr<T> pointer_;
};

} // namespace gloo

#endif
