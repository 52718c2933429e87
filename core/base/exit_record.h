/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process tells `tutti run` of its end, so that the rank to blame does not depend on the order in
 * which ranks exit.
 *
 * `tutti run` has an abstract Unix datagram socket. TUTTI_RUN_SOCKET=NAME/PLACE/TOKEN names it, the rank's
 * place in the job, and what each datagram begins with: others see the name, but not the token. A process
 * sends one datagram when a group of it has failed (what the verdict
 * says), when it exits without tutti_group_destroy() though no group has failed (so nobody else is to
 * blame), and when it has a world again after a failure (the earlier record is void). The last one
 * counts. A record that cannot be sent is left out: then the order of the exits decides.
 *
 * What comes in may be anything: exit_record_decode() checks it all.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    EXIT_RECORD_MESSAGE_MAX = 1024,
    EXIT_RECORD_TOKEN = 32,                         /* characters */
    EXIT_RECORD_MAX = EXIT_RECORD_MESSAGE_MAX + 96, /* bytes of a datagram */
    EXIT_RECORD_NAME_MAX = 96                       /* of the socket */
};

enum exit_record_kind {
    EXIT_RECORD_NONE,    /* what was said before is void */
    EXIT_RECORD_FAILED,  /* a group has failed, or could not be made */
    EXIT_RECORD_LEAVING, /* exits now, without tutti_group_destroy(), and no group has failed */
    EXIT_RECORD_KINDS
};

struct exit_record {
    char token[EXIT_RECORD_TOKEN]; /* without a NUL */
    enum exit_record_kind kind;
    uint32_t place;      /* as TUTTI_RUN_SOCKET says */
    int32_t status;      /* FAILED: the verdict's */
    int32_t rank, size;  /* in the world; -1 and 0: not known */
    int32_t culprit;     /* the world rank that the verdict names, -1: none */
    int32_t culprit_pid; /* 0: not known */
    char message[EXIT_RECORD_MESSAGE_MAX];
};

/* Bytes in `ret_data`, 0: it does not fit. */
size_t exit_record_encode(const struct exit_record *record, uint8_t ret_data[EXIT_RECORD_MAX]);
/* False: it is no record. The message may hold anything but a NUL. */
bool exit_record_decode(const uint8_t *data, size_t size, struct exit_record *ret_record);
