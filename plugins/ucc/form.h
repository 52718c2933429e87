/* SPDX-License-Identifier: Apache-2.0 */
/* A team of UCC, made on a thread of the plugin. */
#pragma once

#include "engine.h"

struct form;

/* What the thread has come to. */
struct form_result {
    ucci_status code;
    const char *where;   /* the function of UCC */
    tutti_status gather; /* that a gather of the core has failed with; OK: none has */
    bool is_late;        /* the plugin's own deadline has passed */
    ucci_team_h team;    /* code OK: of the caller, who frees it with the form */
};

/* Begins to make a team, and the context before it unless it has been made. The form has a user of the
 * context. 0, or an errno. Under the engine's lock. */
int form_begin(struct engine_context *context, const struct caller *caller, int rank, int size,
               int64_t deadline_ns, struct form **ret_form);
/* Whether it has ended. */
bool form_has_ended(struct form *form, struct form_result *ret_result);
/* UCC gets an error when it asks for a gather, and no service of the core is used any more. */
void form_stop(struct form *form);
/* The team, if any, is not used any more, or for ever: `keeps` what UCC may come back to. Under the engine's lock. */
void form_end(struct form *form, bool keeps);
