/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of an engine for devices that are recorded in a graph. A graph runs them later, without a call of tutti, so they
 * are complete once they are recorded: nothing is behind them that could be asked, and no deadline counts. What asks an
 * event of a captured stream would end the capture.
 *
 * A graph whose member has died would wait for ever. So from its first such call on the group counts as an unattended work
 * of the progress engine: the engine thread looks at the members and asks the engine what has failed, as if a call were
 * issued, until the group ends. A failure aborts the team, and every stream goes on.
 */
#include "base/error.h"
#include "progress/progress.h"

/* Where later work of the capture waits for it. */
static void note_stream(struct tutti_work *work, void *stream)
{
    work->is_on_streams |= work->is_captured && work->stream != stream;
    work->is_captured = work->is_on_stream = true;
    work->stream = stream;
}

void captured_add(struct tutti_group *group, struct call *call)
{
    struct tutti_work *work = call->state.work;

    if (work) {
        note_stream(work, call->stream);
        if (work->part_of)
            note_stream(work->part_of, call->stream);
        work_count_to_issue(work, -1);
    }
    if (group->calls.has_captured)
        return;
    group->calls.has_captured = true;
    engine_count_unattended(&group->context->engine, 1);
    engine_visit(&group->context->engine);
}

tutti_status captured_status(const struct call *call)
{
    char what[192];

    group_describe_call(call, what, sizeof what);
    return error_set(TUTTI_ERR_CAPTURED,
                     "%s was captured into a graph, which runs it: synchronize with the stream of "
                     "the graph, as this work cannot be waited for",
                     what);
}

void captured_drop(struct tutti_group *group)
{
    if (group->calls.has_captured)
        engine_count_unattended(&group->context->engine, -1);
    group->calls.has_captured = false;
}
