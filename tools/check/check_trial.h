/* SPDX-License-Identifier: Apache-2.0 */
/* The needs of a plugin that is tried, and the way to give them to the processes of a check. */
#pragma once

#include "check/check.h"

/* The job of a launcher, of which the processes of one check are. */
struct check_job {
    struct pmi_proxies *pmi_proxies; /* NULL: none is needed */
};

/* Asks the plugin; sets the variables that it names and that are not set, and the subject's launcher. */
void check_trial_read(struct check_subject *subject);
/* False, with a message: the launcher that the plugin needs is not here. */
bool check_trial_start(const struct check_subject *subject, int count, struct check_job *ret_job,
                       char **ret_words);
/* In process `index` of the check, before the plugin is loaded. */
void check_trial_enter(const struct check_job *job, int index);
void check_trial_stop(struct check_job *job);
