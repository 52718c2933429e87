/* SPDX-License-Identifier: Apache-2.0 */
#include "base/thread.h"

#include <signal.h>

int thread_start(pthread_t *ret_thread, const char *name, void *(*run)(void *), void *argument)
{
    sigset_t all, before;

    sigfillset(&all);

    int error = pthread_sigmask(SIG_SETMASK, &all, &before);

    if (error)
        return error;
    error = pthread_create(ret_thread, NULL, run, argument);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!error)
        pthread_setname_np(*ret_thread, name);
    return error;
}
