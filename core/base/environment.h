/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every variable of the environment that tutti reads, in one table: the core's, the options of tutti's own
 * plugins (plugins/NAME/about.h, compiled in), and those of other plugins once they are opened. From it come `tutti info --env`,
 * the warnings of unknown names, the check of values that are one of a few words, the comparison of
 * those that must be the same on all ranks, and the rows of docs/guide.md and tutti-env(7), which
 * scripts/generate-docs writes and a test compares. Another test finds a variable that the code
 * reads without a row, and a row that nothing reads.
 *
 * The table says what there is; each value is read where it is used.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include <tutti/plugin.h>
#include <tutti/status.h>

#include "base/text.h"

enum environment_agreement {
    ENV_MAY_DIFFER,
    ENV_TO_MEET, /* ranks with different values never meet, so nobody compares */
    ENV_COMPARED /* tutti_init() fails with both sides' values where they differ */
};

/*
 * X(NAME, VALUES, DEFAULT, AGREEMENT, MEANING)
 *
 * VALUES with " | " between words is a choice, matched without regard to case. Words in angle
 * brackets describe the value. environment_check() checks every value that it can; other values,
 * such as a directory, are checked where they are used. An empty DEFAULT is «nothing».
 */
#define ENVIRONMENT_OWN(X)                                                                         \
    X(TUTTI_AUTH, "auto | required", "auto", ENV_MAY_DIFFER,                                       \
      "`required`: a group forms only if all members have the same secret. `auto`: the same, "     \
      "unless the only secrets are the users' own files, they differ, and the store can be "       \
      "reached from other hosts; then the group is open, with a warning.")                         \
    X(TUTTI_BACKEND, "auto | <name> | local=<name>,remote=<name> | <rules>", "auto", ENV_COMPARED, \
      "The backend, if the options of tutti_init() name none. `tutti run --backend` sets "         \
      "it.")                                                                                       \
    X(TUTTI_BOOTSTRAP, "<name>", "", ENV_TO_MEET,                                                  \
      "The plugin that asks the launcher for this process's rank when RANK and WORLD_SIZE are "    \
      "not set. Not set: the backend's plugin, or the one that knows the launcher.")               \
    X(TUTTI_CHECKSUM, "0 | 1", "0", ENV_COMPARED,                                                  \
      "`1`: every message carries a checksum, and collectives go by messages; a bit that was "     \
      "altered on its way is an error.")                                                           \
    X(TUTTI_DEBUG, "OFF | WARN | INFO | DETAIL", "WARN", ENV_MAY_DIFFER,                           \
      "What libtutti prints on stderr. With DETAIL this rank also compares each collective with "  \
      "its neighbours before an engine (mpi, gloo) begins it.")                                    \
    X(TUTTI_DEVICE, "<device>", "", ENV_MAY_DIFFER,                                                \
      "The device of this rank's tensors that are not in host memory, such as `cuda:1`, if the "   \
      "options of tutti_init() name none. Not set: the device with the number of the local "       \
      "rank, modulo their number.")                                                                \
    X(TUTTI_DUMP_DIR, "<directory>", "", ENV_MAY_DIFFER,                                           \
      "A folder for dumps: each rank writes one on SIGUSR2 and when a group fails. Not set: no "   \
      "dumps. Set-id programs ignore it.")                                                         \
    X(TUTTI_HOST, "<words>", "", ENV_MAY_DIFFER,                                                   \
      "Ranks with different values never share memory, as if on different hosts. For tests.")      \
    X(TUTTI_PEER_READS, "0 | 1", "1", ENV_MAY_DIFFER,                                              \
      "Whether ranks of a host that outnumber its CPUs read each other's memory "                  \
      "(process_vm_readv) in long collectives that reduce nothing. `0` on one rank is enough.")    \
    X(TUTTI_PINNED_MIB, "<number>", "", ENV_MAY_DIFFER,                                            \
      "How many MiB of pinned memory calls may use at once for tensors of one device. A call "     \
      "that needs more waits "                                                                     \
      "until others give some back. Not set: a quarter of the host's memory.")                     \
    X(TUTTI_PLUGIN_PATH, "<directory>:<directory>…", "", ENV_MAY_DIFFER,                           \
      "Directories that are searched for plugins first. Set-id programs ignore it.")               \
    X(TUTTI_PLUGIN_TRUST, "any", "", ENV_MAY_DIFFER,                                               \
      "`any`: open plugins that other users can write to, too. Set-id programs ignore it.")        \
    X(TUTTI_REPRODUCIBLE, "0 | 1", "0", ENV_COMPARED,                                              \
      "`1`: every reduction takes the fixed order, so that its bits depend on the number of "      \
      "ranks alone.")                                                                              \
    X(TUTTI_RUN_ID, "<words>", "none", ENV_TO_MEET,                                                \
      "The job's name, part of all keys in the store; overrides TORCHELASTIC_RUN_ID. `tutti run` " \
      "sets it.")                                                                                  \
    X(TUTTI_RUN_SOCKET, "<words>", "", ENV_MAY_DIFFER,                                             \
      "Set by `tutti run`: an abstract Unix socket, the rank and a token. libtutti uses it to "    \
      "tell the launcher why this rank ends. Set-id programs ignore it.")                          \
    X(TUTTI_RUN_TERMINAL, "<anything>", "", ENV_MAY_DIFFER,                                        \
      "For programs. `tutti run` sets it to the number of columns of the terminal if the "         \
      "output of this rank is printed on one, so that a program can show a progress bar.")         \
    X(TUTTI_SECRET, "<secret>", "", ENV_TO_MEET,                                                   \
      "The job's secret: 32 bytes in hex or base64. A member without it, or with another one, is " \
      "refused. `tutti run` sets it. Set-id programs ignore it.")                                  \
    X(TUTTI_SECRET_FILE, "<file>", "", ENV_TO_MEET,                                                \
      "A file with the job's secret, which only this user may read; overrides TUTTI_SECRET. Not "  \
      "set, nor TUTTI_SECRET: the launcher's, or tutti/secret in XDG_CONFIG_HOME, or in .config "  \
      "of HOME, which is made. Set-id programs ignore it.")                                        \
    X(TUTTI_STALL_WARNING, "<seconds>", "30", ENV_MAY_DIFFER,                                      \
      "A call that waits this long prints one warning. `0`: never.")                               \
    X(TUTTI_STORE, "tcp://<host>:<port> | file:///<path>", "", ENV_TO_MEET,                        \
      "Where the ranks meet; overrides MASTER_ADDR. `tutti run` sets it. Set-id programs refuse "  \
      "a file.")                                                                                   \
    X(TUTTI_STORE_HOST, "0 | 1", "", ENV_MAY_DIFFER,                                               \
      "`1`: rank 0 serves the tcp store; `0`: another process serves it. Not set: rank 0 "         \
      "serves the store at MASTER_ADDR unless TORCHELASTIC_USE_AGENT_STORE is True, and "          \
      "does not serve the one at TUTTI_STORE.")                                                    \
    X(TUTTI_STORE_OPEN, "0 | 1", "0", ENV_MAY_DIFFER,                                              \
      "`1`: a tcp store that this process serves takes every client, also other users of its "     \
      "host and clients without the secret, and warns. Set-id programs ignore it.")                \
    X(TUTTI_TLS, "0 | 1 | where-possible", "0", ENV_COMPARED,                                      \
      "`1`: control connections and those of backends that can are encrypted, a secret is "        \
      "required, and a backend that cannot encrypt is refused between hosts. `where-possible`: "   \
      "such a backend is used, with a warning.")                                                   \
    X(TUTTI_TUNING, "<file> | none", "", ENV_MAY_DIFFER,                                           \
      "The tuning file that `tutti bench --tune` writes. Ranks compare its thresholds at init. "   \
      "Not set: tutti/tuning in XDG_CONFIG_HOME, or in .config of HOME, if it is there; `none`: "  \
      "no file. Set-id programs ignore it.")                                                       \
    X(TUTTI_WRAP, "<name>,<name>…", "", ENV_MAY_DIFFER,                                            \
      "Wrappers, the outermost first, if the options of tutti_init() name none. Set-id "           \
      "programs ignore it.")

#define ENVIRONMENT_OF_OTHERS(X)                                                                   \
    X(RANK, "<number>", "", ENV_MAY_DIFFER, "This process's rank.")                                \
    X(WORLD_SIZE, "<number>", "", ENV_COMPARED, "How many ranks there are.")                       \
    X(LOCAL_RANK, "<number>", "", ENV_MAY_DIFFER,                                                  \
      "The rank of this process on its host. Only local rank 0 prints warnings about the "         \
      "environment.")                                                                              \
    X(MASTER_ADDR, "<host>", "", ENV_TO_MEET,                                                      \
      "The host of the tcp store. The route to it selects the address that this rank publishes.")  \
    X(MASTER_PORT, "<port>", "", ENV_TO_MEET, "The tcp store's port.")                             \
    X(TORCHELASTIC_USE_AGENT_STORE, "True | False", "", ENV_MAY_DIFFER,                            \
      "`True`: the launcher serves the store at MASTER_ADDR, not rank 0.")                         \
    X(TORCHELASTIC_RUN_ID, "<words>", "none", ENV_TO_MEET, "The job's name.")                      \
    X(TORCHELASTIC_RESTART_COUNT, "<number>", "0", ENV_TO_MEET,                                    \
      "The job's attempt. Attempts do not see each other's keys.")                                 \
    X(PMI_SIZE, "<number>", "", ENV_MAY_DIFFER, ENVIRONMENT_CONTRADICTS)                           \
    X(PMIX_SIZE, "<number>", "", ENV_MAY_DIFFER, ENVIRONMENT_CONTRADICTS)                          \
    X(SLURM_NTASKS, "<number>", "", ENV_MAY_DIFFER, ENVIRONMENT_CONTRADICTS)                       \
    X(FLUX_JOB_SIZE, "<number>", "", ENV_MAY_DIFFER, ENVIRONMENT_CONTRADICTS)                      \
    X(NO_COLOR, "<anything>", "", ENV_MAY_DIFFER,                                                  \
      "If set and not empty, the command `tutti` uses no colour.")                                 \
    X(CLICOLOR_FORCE, "<anything>", "", ENV_MAY_DIFFER,                                            \
      "If set, not empty and not 0, the command `tutti` uses colour also where the output "        \
      "is not a terminal, unless NO_COLOR is set.")                                                \
    X(TERM, "<words>", "", ENV_MAY_DIFFER,                                                         \
      "The command `tutti` uses colour on terminals only, and not on `dumb` ones.")

#define ENVIRONMENT_CONTRADICTS "Only a cross-check: a value above 1 with a world of 1 is an error."

struct environment_variable {
    const char *name, *values, *standard, *meaning;
    enum environment_agreement agreement;
    bool own;           /* of tutti or of a plugin; otherwise launchers and others set it */
    const char *plugin; /* whose option it is; NULL: no plugin's */
    const char
        *idle; /* of a wrapper's option: what follows where nothing names the wrapper; or NULL */
};

/* Row number `i`: tutti's own and its plugins' by name, then those of other plugins that were opened, then
 * those of others; NULL: there is none. */
const struct environment_variable *environment_row(size_t i);
/* The row of that name, or NULL. */
const struct environment_variable *environment_find(const char *name);
/* The row for all names that begin with its own up to '<', such as TUTTI_UCX_<SETTING>; or NULL. */
const struct environment_variable *environment_find_family(const char *name);

/* A plugin was opened: its options are rows from now on, unless there are rows of these names. `options`
 * lasts as long as the process. NO_MEMORY. */
tutti_status environment_learn(const char *plugin, const tutti_plugin_option *options);

/* INVALID_ARGUMENT with the message of the first of tutti's own variables whose value makes no sense; with
 * `plugin` (or NULL) only of that plugin's options. Empty counts as not set. */
tutti_status environment_check(const char *plugin);

/* The same for one row and a value: "" or what is wrong, with the nearest value. */
void environment_problem(const struct environment_variable *row, const char *value,
                         char *ret_message, size_t size);

/* Which wrappers a program has: names with commas between, and what named them. */
struct environment_wrappers {
    const char *names, *source;
};

/* The wrappers that `option`, tutti_init_options.wrap, or else TUTTI_WRAP names. */
struct environment_wrappers environment_wrappers(const char *option);

/* The same for a value that is not refused and yet of no effect: "" or the message of a warning. It is an
 * option of a wrapper that is not named, or names a plugin that is not among `plugins` ("shm, tcp"). */
void environment_idle(const struct environment_variable *row, const char *value,
                      const struct environment_wrappers *wrappers, const char *plugins,
                      char *ret_message, size_t size);

/*
 * Calls fn for each variable whose name begins with TUTTI_ and is in no row, with the words of a
 * warning. Left alone: TUTTI_TEST_… and TUTTI_CONFORMANCE…, for tests; TUTTI_ROOT, TUTTI_DIR and
 * TUTTI_HOME, by which modules and builds point at an installation; and TUTTI_NAME_…, an option of
 * plugin NAME, for each name that `plugins` ("shm, tcp") lists, unless all options of that plugin are
 * known: of tutti's own, and of one that was opened and lists some. With `only`, a plugin or NULL, only
 * its TUTTI_NAME_….
 */
void environment_strangers(const char *plugins, const char *only,
                           void (*fn)(const char *name, const char *words, void *user), void *user);
/* Whether the plugin lists options and the environment has not been looked through for strangers since it was
 * opened; the caller does so then. */
bool environment_has_new_names(const char *plugin);
/* Ranks of one host have one environment from their launcher: its first one warns for all. */
bool environment_warns_here(void);

/* Whether it is TUTTI_NAME of the plugin with a name of `length`, or begins with that and '_'; a '-' in a name
 * is '_'. */
bool environment_is_option_of(const char *plugin, size_t length, const char *variable);

/* TUTTI_REPRODUCIBLE=1: every reduction takes the fixed order. */
bool environment_is_reproducible(void);
/* TUTTI_PEER_READS=0: ranks of a host do not read each other's memory. */
bool environment_lets_peers_read(void);
/* TUTTI_CHECKSUM=1: a checksum behind every message. */
bool environment_has_checksums(void);
/* TUTTI_TLS. */
enum environment_tls { ENVIRONMENT_PLAIN, ENVIRONMENT_TLS_WHERE_POSSIBLE, ENVIRONMENT_TLS };
enum environment_tls environment_encrypts(void);
/* TUTTI_AUTH=required, or TUTTI_TLS=1: no group without a secret. */
bool environment_requires_secret(void);

enum {
    ENVIRONMENT_SETTINGS_MAX = 2048,
    ENVIRONMENT_MESSAGE_MAX = 384,
    ENVIRONMENT_VALUE_MAX = 125, /* bytes of "<words>" */
    ENVIRONMENT_SECONDS_MAX = 1000000
};

/* "NAME=VALUE\n" of each of tutti's own that is compared, TUTTI_BACKEND aside, which the options can
 * replace; as the table spells it, with defaults where nothing is set. */
void environment_settings(char ret_settings[ENVIRONMENT_SETTINGS_MAX]);
/* Adds the same for the options of a plugin that is not tutti's own. */
void environment_settings_of(const char *plugin, struct text *settings);
