/* SPDX-License-Identifier: Apache-2.0 */
#include "way.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPENMPI_LAUNCHER "/usr/bin/mpirun.openmpi" /* as Debian calls it */

enum { DEADLINE_MS = 90000, WORDS_MAX = 16 };

const uint8_t way_secret_bytes[32] = {
    0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18, 0x29, 0x3a, 0x4b, 0x5c, 0x6d, 0x7e, 0x8f, 0x90,
    0xa1, 0xb2, 0xc3, 0xd4, 0xe5, 0xf6, 0x07, 0x18, 0x29, 0x3a, 0x4b, 0x5c, 0x6d, 0x7e, 0x8f, 0x91};

bool way_is_launched(const struct way *way)
{
    return way->launcher >= TUTTI_RUN;
}

bool way_has_ports_of_others(const struct way *way)
{
    return way->launcher != BY_HAND && way->launcher != TUTTI_RUN;
}

static bool has_own_secret(const struct way *way)
{
    return way->launcher == OPEN_STORE || way->launcher == TORCHRUN;
}

const uint8_t *way_secret(const struct way *way)
{
    return way->launcher == BY_HAND || has_own_secret(way) ? way_secret_bytes : NULL;
}

const char *way_lack(const struct way *way)
{
    const char *torchrun = getenv("TUTTI_TEST_TORCHRUN");

    if (way->launcher == TORCHRUN && (!torchrun || access(torchrun, X_OK)))
        return "TUTTI_TEST_TORCHRUN names no torchrun";
    if (way->launcher != MPIRUN)
        return NULL;
    if (ranks_lack("openmpi"))
        return ranks_lack("openmpi");
    return access(OPENMPI_LAUNCHER, X_OK) ? "there is no " OPENMPI_LAUNCHER : NULL;
}

static char home[] = "/tmp/test_attack_XXXXXX"; /* of the user's own secret */

/* WAY_SECRET is the user's own from here on. */
static void have_own_secret(void)
{
    char path[64];

    if (!strstr(home, "XXXXXX"))
        return;
    if (!mkdtemp(home))
        abort();
    snprintf(path, sizeof path, "%s/tutti", home);
    (void)mkdir(path, 0700);
    snprintf(path, sizeof path, "%s/tutti/secret", home);
    FILE *file = fopen(path, "w");

    if (!file || fchmod(fileno(file), 0600) || fputs(WAY_SECRET "\n", file) < 0 || fclose(file))
        abort();
    setenv("XDG_CONFIG_HOME", home, 1);
}

void way_end(const struct way *way)
{
    static const char *const parts[] = {"/tutti/secret", "/tutti", ""};
    char path[64];

    for (int i = 0; has_own_secret(way) && i < 3; i++) {
        snprintf(path, sizeof path, "%s%s", home, parts[i]);
        (void)remove(path);
    }
}

static struct ranks *start_by_hand(const struct way *way, const struct net *net,
                                   const char *case_name)
{
    static const char *const apart[] = {"a", "a", "b", "b"};
    const bool is_given = way->launcher == BY_HAND;
    const char *netns[WAY_RANKS];

    for (int r = 0; r < WAY_RANKS; r++)
        netns[r] = net_name(net, r * way->hosts / WAY_RANKS);
    if (is_given)
        setenv("TUTTI_SECRET", WAY_SECRET, 1); /* the harness serves the store */
    else
        setenv("TUTTI_STORE_OPEN", "1", 1);
    return ranks_start(&(struct ranks_options){
        .program = "rank_attacked",
        .case_name = case_name,
        .size = WAY_RANKS,
        .backend = way->backend,
        .timeout_ms = DEADLINE_MS,
        .netns = netns,
        .host_of = way->apart ? apart : NULL,
        .address = way->hosts > 1 ? net_address(net, 0) : NULL,
        .env = (const char *[]){way->encrypted ? "TUTTI_TLS=1" : "TUTTI_TLS=0",
                                is_given ? "TUTTI_SECRET=" WAY_SECRET : NULL, NULL},
    });
}

/* What starts the rank behind the launcher's options. */
static int add_rank(const struct way *way, const char *case_name, const char **ret_words)
{
    static char rank[512];
    const char *programs = getenv("TUTTI_TEST_PROGRAMS");
    int count = 0;

    snprintf(rank, sizeof rank, "%s/rank_attacked", programs ? programs : TUTTI_BINARY_DIR "/bin");
    if (way->apart) {
        ret_words[count++] = "sh";
        ret_words[count++] = "-c";
        ret_words[count++] =
            "TUTTI_HOST=h$((${RANK:-$OMPI_COMM_WORLD_RANK} / 2)) exec \"$0\" \"$@\"";
    }
    ret_words[count++] = rank;
    ret_words[count++] = case_name;
    return count;
}

static struct ranks *start_launched(const struct way *way, const struct net *net,
                                    const char *case_name)
{
    static const char *const run[] = {"run", "-n", "4", "--", NULL},
                             *const mpirun[] = {"--allow-run-as-root", "--oversubscribe", "-n", "4",
                                                NULL},
                             *const torchrun[] = {"--no-python", "--standalone", "--nproc-per-node",
                                                  "4", NULL};
    const char *const *options = way->launcher == TUTTI_RUN ? run
                                 : way->launcher == MPIRUN  ? mpirun
                                                            : torchrun;
    const char *words[WORDS_MAX];
    int count = 0;

    for (; *options; options++)
        words[count++] = *options;
    count += add_rank(way, case_name, words + count);
    words[count] = NULL;
    unsetenv("TUTTI_SECRET");
    if (way->launcher == MPIRUN)
        setenv("LSAN_OPTIONS", strchr(ranks_lsan_options("openmpi"), '=') + 1,
               1); /* of the ranks */
    return ranks_start(&(struct ranks_options){
        .program = way->launcher == TUTTI_RUN ? TUTTI_COMMAND
                   : way->launcher == MPIRUN  ? OPENMPI_LAUNCHER
                                              : getenv("TUTTI_TEST_TORCHRUN"),
        .arguments = words,
        .backend = way->backend,
        .env = (const char *[]){way->encrypted ? "TUTTI_TLS=1" : "TUTTI_TLS=0", NULL},
        .size = 1,
        .timeout_ms = DEADLINE_MS,
        .netns = (const char *[]){net_name(net, 0)},
    });
}

struct ranks *way_start(const struct way *way, const struct net *net, const char *case_name)
{
    if (has_own_secret(way))
        have_own_secret();
    return way_is_launched(way) ? start_launched(way, net, case_name)
                                : start_by_hand(way, net, case_name);
}
