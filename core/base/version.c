/* SPDX-License-Identifier: Apache-2.0 */
#include <tutti/version.h>

const char *tutti_version(void)
{
    return TUTTI_VERSION;
}
