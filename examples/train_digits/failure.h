/* SPDX-License-Identifier: Apache-2.0 */
/* The message of a failure: set where it is found, printed once by main(). */
#ifndef TRAIN_DIGITS_FAILURE_H
#define TRAIN_DIGITS_FAILURE_H

struct failure {
    char words[1024];
};

/** Sets the message and returns false, so that `return failure_set(why, …)` reports and leaves. */
_Bool failure_set(struct failure *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
