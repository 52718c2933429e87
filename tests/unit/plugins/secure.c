/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints whether this is a set-id program, and what it makes of TUTTI_PLUGIN_TRUST and _PATH; with the
 * argument "init", what tutti_init() does, and the message of its failure; with "secret", where its secret
 * is from.
 */
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

#include <tutti/tutti.h>

#include "plugin/plugin.h"
#include "plugin/trust.h"
#include "secret/secret.h"

/* LeakSanitizer looks on by ptrace, which the kernel denies for a set-id program. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static void print_init(void)
{
    tutti_group *world = NULL;
    const tutti_status status = tutti_init(NULL, &world);

    printf("%lu %s %s\n", getauxval(AT_SECURE), tutti_status_name(status),
           status ? tutti_last_error() : "");
    if (world)
        (void)tutti_group_destroy(world);
}

static void print_secret(void)
{
    struct secret *secret;

    if (secret_new(&secret))
        return;
    const tutti_status status = secret_find(secret, NULL, true);
    printf("%lu %s\n", getauxval(AT_SECURE),
           status ? tutti_last_error() : secret_source_words(secret->source));
    secret_unref(secret);
}

int main(int argc, char **argv)
{
    char known[512];
    struct trust_rules rules;

    if (argc > 1) {
        if (strcmp(argv[1], "secret") != 0)
            print_init();
        else
            print_secret();
        return 0;
    }
    if (trust_rules_of_process(&rules))
        return 1;
    plugin_known_names(known, sizeof known);
    printf("%lu any=%d %s\n", getauxval(AT_SECURE), rules.any, known);
    return 0;
}
