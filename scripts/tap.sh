# SPDX-License-Identifier: Apache-2.0
# shellcheck shell=bash
# A case of a check script, in TAP. Sourced by bash; the script sets `suite`, which begins the name of each case.

cases=0

# tell WORDS COMMAND...   One case; what the command said goes to stderr when it failed. Then it returns 1.
tell() {
    local words=$1 said

    shift
    cases=$((cases + 1))
    if said=$("$@" 2>&1); then
        echo "ok - ${suite:?}::$words"
    else
        printf '%s\n%s\n' "$words:" "$said" >&2
        echo "not ok - ${suite:?}::$words"
        return 1
    fi
}
