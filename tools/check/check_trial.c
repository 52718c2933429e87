/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a plugin needs to be tried (tutti_plugin.trial): variables, and a launcher whose job the processes
 * of a check have to be. A child reads it, since nothing of the plugin runs in this process. Each check
 * gets a job of its own: PMI proxies hand over their places in it (pmi_proxy.h).
 */
#include "check/check_trial.h"

#include <stdlib.h>
#include <string.h>

#include "mpi/mpirun.h"
#include "mpi/pmi_proxy.h"

enum { READ_S = 20, WORDS_BYTES = 1200 };

static const char launcher_is[] = "launcher=";

/* ---- in a child ------------------------------------------------------------------------------ */

/* The lines are the finding's words. */
static void read_trial(const struct check_member *member)
{
    const tutti_plugin *plugin = check_load(member->subject);
    g_autofree char *lines = NULL;

    if (plugin->magic != TUTTI_PLUGIN_MAGIC || !TUTTI_HAS(plugin, trial))
        return;
    lines = g_strjoinv("\n", (char **)(uintptr_t)plugin->trial);
    check_remarks("%s", lines);
}

void check_trial_enter(const struct check_job *job, int index)
{
    char *const *at = job->pmi_proxies ? pmi_proxy_environment(job->pmi_proxies, index) : NULL;

    for (; at && *at; at++) {
        g_auto(GStrv) pair = g_strsplit(*at, "=", 2);

        if (pair[0] && pair[1])
            g_setenv(pair[0], pair[1], TRUE);
    }
}

/* ---- in the parent --------------------------------------------------------------------------- */

void check_trial_read(struct check_subject *subject)
{
    struct check_finding finding = check_in_children(subject, read_trial, 1, READ_S);
    g_auto(GStrv) lines =
        g_strsplit(finding.result == CHECK_REMARK && finding.words ? finding.words : "", "\n", -1);

    for (char **line = lines; *line; line++) {
        g_auto(GStrv) pair = g_strsplit(*line, "=", 2);

        if (g_str_has_prefix(*line, launcher_is))
            subject->launcher = g_strdup(*line + strlen(launcher_is));
        else if (g_str_has_prefix(*line, "TUTTI_") && pair[1])
            g_setenv(pair[0], pair[1], FALSE);
    }
    g_free(finding.words);
}

bool check_trial_start(const struct check_subject *subject, int count, struct check_job *ret_job,
                       char **ret_words)
{
    g_autofree char *self = g_file_read_link("/proc/self/exe", NULL);
    char words[WORDS_BYTES] = "";

    *ret_job = (struct check_job){NULL};
    if (!subject->launcher)
        return true;
    const char *family = mpirun_family(subject->launcher, g_getenv("TUTTI_MPI"));
    const struct mpirun *mpirun =
        family && *family ? mpirun_find(family, words, sizeof words) : NULL;
    if (!mpirun || !self) {
        *ret_words =
            g_strdup_printf("it has to be started by the launcher \"%s\"%s%s", subject->launcher,
                            *words ? ": " : ", which is not here", words);
        return false;
    }
    const struct pmi_proxy_options wanted = {.family = family, .count = count, .tutti = self};

    ret_job->pmi_proxies = pmi_proxies_start(&wanted, words, sizeof words);
    if (!ret_job->pmi_proxies)
        *ret_words = g_strdup_printf("its launcher does not start: %s", words);
    return ret_job->pmi_proxies;
}

void check_trial_stop(struct check_job *job)
{
    pmi_proxies_stop(g_steal_pointer(&job->pmi_proxies));
}
