/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libucp.so.0 of another version, for tests of what is refused before the first message. It has the
 * functions that the plugin looks for, and all but those that tell the version fail.
 */
#include "../../plugins/ucx/functions.h"

const char *ucp_get_version_string(void);
void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number);

const char *ucp_get_version_string(void)
{
    return "1.99.7";
}

void ucp_get_version(unsigned *major_version, unsigned *minor_version, unsigned *release_number)
{
    *major_version = 1;
    *minor_version = 99;
    *release_number = 7;
}

#define FAILS(function)                                                                            \
    int function(void);                                                                            \
    int function(void)                                                                             \
    {                                                                                              \
        return -1;                                                                                 \
    }
UCX_FUNCTIONS(FAILS)
