/* SPDX-License-Identifier: Apache-2.0 */
/* barrier and monitored_barrier of the public API. */
#include "collective/call.h"

static tutti_status barrier(const char *function, tutti_group *group, enum operation operation,
                            const tutti_options *options, tutti_work **work)
{
    struct collective c = collective_of(function, operation, -1, -1);
    tutti_status status = collective_check(group, options, &c);

    return collective_run(group, &c, status, work);
}

tutti_status tutti_barrier(tutti_group *group, const tutti_options *options, tutti_work **work)
{
    return barrier(__func__, group, OPERATION_BARRIER, options, work);
}

tutti_status tutti_monitored_barrier(tutti_group *group, const tutti_options *options,
                                     tutti_work **work)
{
    return barrier(__func__, group, OPERATION_MONITORED_BARRIER, options, work);
}
