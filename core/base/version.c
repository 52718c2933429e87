/* SPDX-License-Identifier: Apache-2.0 */
#include <tutti/version.h>

const char *tutti_version(void)
{
#ifdef TUTTI_WITHOUT
    return TUTTI_VERSION " without " TUTTI_WITHOUT;
#else
    return TUTTI_VERSION;
#endif
}
