/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transport with one defect, which the variable KIT_DEFECT names; without it, tcp. Each defect is a row of a
 * table: what it does in place of tcp's functions. tcp's files are untouched.
 *
 *   sound.c      tcp, and what is exported; what has to be wrong in the file is compiled in here
 *   messages.c   defects of messages
 *   endpoints.c  defects of endpoints, and of what they do to the process and the host
 */
#pragma once

#include <tutti/plugin.h>

#include <unistd.h>

/* What is not NULL or 0 takes the place of tcp's. */
struct defect {
    const char *name; /* NULL ends a table */
    tutti_transport_ops ops;
    void (*received)(tutti_request *request, uint8_t *data);
    void (*told_lost)(void *self, uint64_t label, const char *words);
};

extern const struct defect message_defects[], endpoint_defects[];
extern const tutti_transport_ops *const sound; /* tcp's */

/* messages.c: shows `look` each message that has arrived. */
void messages_look(tutti_transport_ops *ops, void (*look)(tutti_request *request, uint8_t *data));
/* endpoints.c: what is called in place of the host's peer_lost(). */
void endpoints_tell(void (*told_lost)(void *self, uint64_t label, const char *words));

static inline _Noreturn void wait_for_ever(void)
{
    for (;;)
        pause();
}
