/* SPDX-License-Identifier: Apache-2.0 */
#include "run/foreign.h"

#include <stdbool.h>
#include <string.h>

#define COUNT "did you mean -n?"
#define ENVIRONMENT "the ranks have the launcher's environment: VAR=VALUE tutti run …"
#define HOSTS                                                                                      \
    "tutti run starts ranks on this host only; docs/coming-from.md says how to start them on "     \
    "several"
#define STORE "the ranks meet in a store that tutti run serves, on a free port: leave it out"
#define RESTARTS "tutti run restarts nothing: leave it out, or start the job in a loop"
#define FILES "--log-dir DIR writes what the ranks print to files, and --tee prints it as well"
#define CPUS                                                                                       \
    "ranks are not bound to CPUs: tutti run … sh -c 'exec taskset -c $LOCAL_RANK ./program'"
#define NEEDLESS "tutti run does so in any case: leave it out"
#define MODULE "say tutti run -n 4 python3 -um MODULE"
#define MCA "set OMPI_MCA_NAME=VALUE in the environment"
#define LIMIT "timeout 60 tutti run … bounds the job, and tutti_init_options.timeout_ms each call"

static const struct {
    const char *name; /* without its dashes, and with '-' where it may be '_' */
    const char *advice;
} options[] = {
    {"np", COUNT},
    {"ntasks", COUNT},
    {"nprocs", COUNT},
    {"nproc", COUNT},
    {"x", ENVIRONMENT},
    {"env", ENVIRONMENT},
    {"genv", ENVIRONMENT},
    {"export", ENVIRONMENT},
    {"nnodes", HOSTS},
    {"nodes", HOSTS},
    {"node-rank", HOSTS},
    {"H", HOSTS},
    {"host", HOSTS},
    {"hosts", HOSTS},
    {"hostfile", HOSTS},
    {"machinefile", HOSTS},
    {"ppn", HOSTS},
    {"npernode", HOSTS},
    {"master-addr", STORE},
    {"master-port", STORE},
    {"local-addr", STORE},
    {"rdzv-backend", STORE},
    {"rdzv-endpoint", STORE},
    {"rdzv-id", STORE},
    {"rdzv-conf", STORE},
    {"max-restarts", RESTARTS},
    {"monitor-interval", RESTARTS},
    {"r", FILES},
    {"t", FILES},
    {"redirects", FILES},
    {"output-filename", FILES},
    {"bind-to", CPUS},
    {"map-by", CPUS},
    {"rank-by", CPUS},
    {"cpu-bind", CPUS},
    {"oversubscribe", NEEDLESS},
    {"allow-run-as-root", NEEDLESS},
    {"tag-output", NEEDLESS},
    {"l", NEEDLESS},
    {"label", NEEDLESS},
    {"m", MODULE},
    {"module", MODULE},
    {"mca", MCA},
    {"timeout", LIMIT},
};

static const char *advice_for(const char *option)
{
    const char *start = option + strspn(option, "-");
    g_autofree char *name = g_strdelimit(g_strndup(start, strcspn(start, "=")), "_", '-');

    for (size_t i = 0; i < G_N_ELEMENTS(options); i++)
        if (strcmp(options[i].name, name) == 0)
            return options[i].advice;
    return NULL;
}

/* The entry of "-n", "--name" or "--name=value", NULL: none. */
static const GOptionEntry *own_option(const GOptionEntry *entries, const char *option)
{
    const bool is_long = option[1] == '-';
    const size_t length = strcspn(option, "=");

    for (; entries->long_name; entries++)
        if (is_long ? strlen(entries->long_name) == length - 2 &&
                          strncmp(entries->long_name, option + 2, length - 2) == 0
                    : entries->short_name && entries->short_name == option[1])
            return entries;
    return NULL;
}

/* Whether the next word is the value of `option`. */
static bool wants_next(const GOptionEntry *entry, const char *option)
{
    return entry->arg != G_OPTION_ARG_NONE && !strchr(option, '=') &&
           (option[1] == '-' || !option[2]);
}

/* "-np" and the like, which GOption takes for -n with the value "p". */
static bool is_letters(const char *option)
{
    return option[1] == 'n' && g_ascii_isalpha(option[2]) && strcmp(option + 2, "auto") != 0 &&
           strcmp(option + 2, "cpu") != 0;
}

/* "--nnodes 1", as torchrun's users have it in their scripts. */
static bool is_one_node(const char *option, const char *next)
{
    const char *value = strchr(option, '=');

    value = value ? value + 1 : next;
    return value && (strcmp(value, "1") == 0 || strcmp(value, "1:1") == 0);
}

const char *foreign_option(const GOptionEntry *entries, char *const *argv, const char **ret_advice)
{
    for (char *const *arg = argv + 1; *arg && **arg == '-' && strcmp(*arg, "--") != 0; arg++) {
        const GOptionEntry *entry = own_option(entries, *arg);

        *ret_advice = NULL;
        if (is_letters(*arg) || !entry ||
            (strcmp(entry->long_name, "nnodes") == 0 && !is_one_node(*arg, arg[1])))
            *ret_advice = advice_for(*arg);
        if (is_letters(*arg) && !*ret_advice)
            *ret_advice = COUNT;
        if (*ret_advice)
            return *arg;
        if (entry && wants_next(entry, *arg) && arg[1])
            arg++;
    }
    return NULL;
}
