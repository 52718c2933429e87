/* SPDX-License-Identifier: Apache-2.0 */
/* How an exception becomes what C functions answer; none crosses to the core. */
#ifndef GLOO_FAILURE_HH
#define GLOO_FAILURE_HH

#include <tutti/plugin.h>

#include <exception>
#include <new>
#include <string>
#include <system_error>

namespace tutti_gloo
{

/* A status and its message. */
struct failure {
    tutti_status status;
    int error; /* errno; 0: none */
    std::string words;
};

/* The message of an exception of Gloo's, which begins with the place in its source. */
inline std::string words_of(const std::exception &what)
{
    const std::string words = what.what();
    const std::size_t place = words.find("] ");

    return words.compare(0, 1, "[") == 0 && place != std::string::npos ? words.substr(place + 2)
                                                                       : words;
}

/* What the exception under way means; in a handler only. */
inline failure failure_of_exception()
{
    try {
        throw;
    } catch (const failure &what) {
        return what;
    } catch (const std::bad_alloc &) {
        return {TUTTI_ERR_NO_MEMORY, 0, "out of memory"};
    } catch (const std::system_error &what) {
        return {TUTTI_ERR_SYSTEM, what.code().value(), "cannot start a thread"};
    } catch (const std::exception &what) {
        return {TUTTI_ERR_PLUGIN, 0, words_of(what)};
    } catch (...) {
        return {TUTTI_ERR_INTERNAL, 0, "an unexpected exception"};
    }
}

/* Runs what may throw, and answers as C does. */
template <typename Action>
tutti_status guarded(const tutti_host &host, void *self, Action action) noexcept
{
    try {
        action();
        return TUTTI_OK;
    } catch (...) {
        try {
            const failure what = failure_of_exception();

            return host.error(self, what.status, what.error, what.words.c_str());
        } catch (...) {
            return host.error(self, TUTTI_ERR_NO_MEMORY, 0, "out of memory");
        }
    }
}

} // namespace tutti_gloo

#endif
