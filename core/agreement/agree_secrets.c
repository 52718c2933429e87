/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the members have a secret in common, as the leader finds from the seals of their offers.
 *
 * Nothing in a seal of another secret can be believed, but nothing there lets anybody in either: the worst
 * that it does is to end the group, or to open one whose leader would have opened it for any member. A member
 * that requires its secret refuses an open group by itself (agree_decision.c).
 */
#include <stdlib.h>
#include <string.h>

#include "agreement/agree_lead.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

/* Takes off all seals, and returns the first member with another secret than the leader's, -1: none. */
static tutti_status take_off(struct agreement *a, const char *const *keys,
                             tutti_store_value *offers, struct seal *seals, int *ret_other,
                             int *ret_culprit)
{
    *ret_other = -1;
    for (int r = 0; r < a->group->size; r++) {
        enum seal_state state;
        const tutti_status status = agree_look_at_seal(a, keys[r], &offers[r], &seals[r], &state);

        if (status) {
            *ret_culprit = r;
            return status;
        }
        if (state == SEAL_FOREIGN && *ret_other < 0)
            *ret_other = r;
    }
    return TUTTI_OK;
}

static bool is_required(const struct agreement *a, const struct seal *seals)
{
    bool required = a->group->bootstrap.secret->required;

    for (int r = 0; r < a->group->size; r++)
        required |= seals[r].required || seals[r].source == SECRET_UNUSABLE;
    return required;
}

static void warn_of_different(const struct agreement *a, const struct seal *seals, int other)
{
    char own[SECRET_ID_SHORT], others[SECRET_ID_SHORT];

    secret_id_text(seals[0].id, own);
    secret_id_text(seals[other].id, others);
    log_line(LOG_WARN, 0,
             "group %s is open, so anybody who reaches its ports can join or end it: rank 0 (%s, "
             "id %s) and "
             "rank %d (%s, id %s) have different secrets. Set TUTTI_SECRET to the same 64 hex "
             "digits on all "
             "ranks (openssl rand -hex 32), or copy the file %s to all hosts",
             a->group->name, secret_source_words(seals[0].source), own, other,
             secret_source_words(seals[other].source), others,
             seals[0].source == SECRET_OWN_FILE ? a->group->bootstrap.secret->place
                                                : "~/.config/tutti/secret");
}

static void warn_of_none(const struct agreement *a)
{
    if (!a->from)
        log_line(
            LOG_WARN, 0,
            "group %s is open, so anybody who reaches its ports can join or end it: no rank has a "
            "secret (rank 0: %.*s). Set TUTTI_SECRET to the same 64 hex digits on all ranks "
            "(openssl rand "
            "-hex 32)",
            a->group->name, TEXT_CUT(a->group->bootstrap.secret->place, 400));
}

tutti_status lead_compare_secrets(struct agreement *a, const char *const *keys,
                                  tutti_store_value *offers, int *ret_culprit)
{
    AUTOFREE struct seal *seals = calloc((size_t)a->group->size, sizeof *seals);
    int other;

    if (!seals)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d seals", a->group->size);
    tutti_status status = take_off(a, keys, offers, seals, &other, ret_culprit);
    if (status)
        return status;
    if (other < 0) {
        if (a->group->bootstrap.secret->source == SECRET_NONE)
            warn_of_none(a);
        return TUTTI_OK;
    }
    if (is_required(a, seals)) {
        *ret_culprit = other;
        return agree_secrets_error(a, &seals[0], other, &seals[other]);
    }
    warn_of_different(a, seals, other);
    return bootstrap_go_open(&a->group->bootstrap);
}
