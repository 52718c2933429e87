/* SPDX-License-Identifier: Apache-2.0 */
/* UCX's settings for UCC's contexts, where the user has not set them. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "../common/caller.h"

enum { SETTINGS_KEY_BYTES = 24 };

/* Of one context. */
struct settings {
    bool on_one_host; /* every member can map the memory of every other */
    bool is_further;  /* the process has one with more members: /dev/shm may have no room */
    char *devices; /* "UCC_UCX_NET_DEVICES=…", valid for ever; NULL: UCX chooses, or the user */
};

/* What processes of one host have in common if UCX can share memory between them; zeros: that is not known, or the
 * user chooses the transports. */
void settings_key(uint8_t ret_key[SETTINGS_KEY_BYTES]);
/* Whether keys of members of one host say that they share memory. */
bool settings_keys_fit(const uint8_t one[SETTINGS_KEY_BYTES],
                       const uint8_t other[SETTINGS_KEY_BYTES]);

/* For a context whose members share memory, or have routes to the rendezvous from `bind_address` ("": not known). */
struct settings settings_choose(const struct caller *caller, bool on_one_host,
                                const char *bind_address);
/* The environment has the settings until settings_take_back(), which may be called more often. Under the engine's
 * lock, both. */
void settings_lend(const struct settings *settings);
void settings_take_back(void);
