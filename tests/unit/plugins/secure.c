/* SPDX-License-Identifier: Apache-2.0 */
/* Prints whether this is a set-id program, and what it makes of TUTTI_PLUGIN_TRUST and _PATH. */
#include <stdio.h>
#include <sys/auxv.h>

#include "plugin/plugin.h"
#include "plugin/trust.h"

/* LeakSanitizer looks on by ptrace, which the kernel denies for a set-id program. */
__attribute__((visibility("default"))) int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

int main(void)
{
    char known[512];
    struct trust_rules rules;

    if (trust_rules_of_process(&rules))
        return 1;
    plugin_known_names(known, sizeof known);
    printf("%lu any=%d %s\n", getauxval(AT_SECURE), rules.any, known);
    return 0;
}
