/* SPDX-License-Identifier: Apache-2.0 */
/* Connections of an attacker, many at once. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "attack.h"

enum { DIALOGS = 1024, DIALOG_BYTES = 1024, TLS_FLIGHT_BYTES = 512 };

struct dialog {
    int fd; /* -1: there is none, or the other side has closed it */
    struct attack_port to;
    size_t allowed;                   /* bytes that a stranger may get here */
    const struct wire_stream *stream; /* NULL: none is sent again */
    uint8_t got[DIALOG_BYTES];
    size_t size; /* of what the other side has said */
};

/* All of one attack at once. */
struct dialogs {
    int count;
    struct dialog each[DIALOGS];
};

/* The ports of the scene, or of this host. */
int dialog_ports(const struct attack_scene *scene, struct attack_port ret_ports[ATTACK_PORTS]);
/* In each dialog so many bytes more are no gain: the answer of a TLS listener to a ClientHello. */
void dialog_allow(size_t bytes);
/* A socket, or -1. */
int dialog_dial(struct attack_port to);
/* One more, which counts as tried, and in which `allowed` bytes are no gain. NULL: it cannot connect, or
 * there are too many. */
struct dialog *dialog_open(struct dialogs *dialogs, struct attack_port to, size_t allowed,
                           struct attack_result *result);
void dialog_say(const struct dialog *dialog, const void *bytes, size_t size);
/* Reads until each is closed or has `wanted` bytes, for `ms` at most. */
void dialogs_await(struct dialogs *dialogs, size_t wanted, int ms);
/* Ends them all. More bytes than allowed are a gain: `what` got them. */
void dialogs_end(struct dialogs *dialogs, const char *what, struct attack_result *result);
