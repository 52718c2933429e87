/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dump as text. It holds everything that the analysis needs, which has nothing else: the members,
 * how far this one came, what its unfinished calls wait for, and what it knows of others: members
 * that left, members that died, and the state in which the kernel has the processes of local peers
 * (a stopped process cannot say so itself).
 */
#define XXH_INLINE_ALL
#include <xxhash.h>

#include "diagnosis/dump.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/version.h>

#include "base/clock.h"
#include "base/json.h"
#include "device/device.h"
#include "group/groups.h"
#include "progress/progress.h"

enum { MISSING_MAX = 64 };

/* The process as a context knows it: by the first group that was made, or by the world that it joins. */
struct owner {
    const struct tutti_group *group; /* NULL: there is none */
    const struct joining *joining;   /* NULL: there is a group, or no tutti_init() under way */
    const char *run_id;
    int attempt, rank; /* rank -1: not known */
};

/* `busy`: without the progress lock, which guards all of it. */
static struct owner owner_of(const struct tutti_context *context, bool busy)
{
    const struct tutti_group *group = busy ? NULL : groups_first(context);
    const struct joining *joining = &context->joining;

    while (group && groups_next(group))
        group = groups_next(group);
    if (group)
        return (struct owner){group, NULL, group->bootstrap.run_id, group->bootstrap.restart,
                              group->rank};
    if (!busy && joining->size)
        return (struct owner){NULL, joining, joining->run_id, joining->restart, joining->rank};
    return (struct owner){.rank = -1};
}

static const char *own_host(const struct tutti_group *group, char *name, size_t capacity)
{
    if (group && group->control->members[group->rank].pid)
        return group->control->members[group->rank].host;
    if (gethostname(name, capacity))
        snprintf(name, capacity, "?");
    name[capacity - 1] = 0;
    return name;
}

/* The same on all members, and no other group's: a name is used again by the next job. */
static uint64_t identity_of(const struct tutti_group *group)
{
    const struct control *control = group->control;
    uint64_t id = XXH3_64bits(control->salt, sizeof control->salt);

    id = XXH3_64bits_withSeed(group->name, strlen(group->name), id);
    for (int r = 0; r < group->size; r++) {
        const struct control_member *m = &control->members[r];

        id = XXH3_64bits_withSeed(m->host, strlen(m->host), id);
        id = XXH3_64bits_withSeed(&m->pid, sizeof m->pid, id);
    }
    return id;
}

/* ---- members ---- */

static void write_members(struct json *json, const struct tutti_group *group)
{
    struct control *control = group->control;
    char host[CONTROL_HOST_MAX];

    json_begin_array(json, "members");
    pthread_mutex_lock(&control->lock);
    for (int r = 0; r < group->size; r++) {
        const struct control_member *m = &control->members[r];
        const char *process = local_process_state(group->local, r);
        bool self = r == group->rank;

        json_begin_object(json, NULL);
        json_string(json, "host", self ? own_host(group, host, sizeof host) : m->host);
        json_int(json, "pid", self ? getpid() : m->pid);
        json_int(json, "layout", group->layout.host_of[r]);
        json_int(json, "world_rank", group->origin.world_ranks ? group->origin.world_ranks[r] : r);
        if (m->left)
            json_uint(json, "left_after", m->last.sequence);
        if (m->dead)
            json_string(json, "lost", m->vanished ? "vanished" : "ended");
        if (m->dead && m->dead_after)
            json_bool(json, "lost_after_failure", true);
        if (process)
            json_string(json, "process", process);
        json_end_object(json);
    }
    pthread_mutex_unlock(&control->lock);
    json_end_array(json);
}

/* ---- calls ---- */

static void write_signature(struct json *json, const struct tutti_group *group, uint64_t sequence)
{
    const struct announce *kept = &group->comparing.calls[sequence % GROUP_CALLS_KEPT];

    if (kept->sequence == sequence)
        json_hex(json, "signature", kept->signature);
}

static void write_record(struct json *json, const struct tutti_group *group,
                         const tutti_record *record)
{
    static const char *const states[] = {"queued", "running", "done", "failed"};
    const bool message = record->flags & TUTTI_RECORD_MESSAGE;

    json_begin_object(json, NULL);
    json_uint(json, message ? "message" : "sequence", record->sequence);
    json_string(json, "operation", record->operation);
    if (record->flags & TUTTI_RECORD_UNEVEN)
        json_bool(json, "uneven", true);
    if (record->flags & TUTTI_RECORD_REFUSED)
        json_bool(json, "refused", true);
    if (record->flags & TUTTI_RECORD_STAGED)
        json_bool(json, "staged", true);
    json_uint(json, "count", record->count);
    json_uint(json, "bytes", record->bytes);
    if (record->dtype)
        json_string(json, "dtype", tutti_dtype_name(record->dtype));
    if (record->op >= 0)
        json_string(json, "op", tutti_reduce_op_name(record->op));
    if (message || record->peer >= 0)
        json_int(json, message ? "peer" : "root", record->peer);
    if (message)
        json_uint(json, "tag", record->tag);
    else
        write_signature(json, group, record->sequence);
    json_string(json, "provider", record->provider);
    json_string(json, "algorithm", record->algorithm);
    if (record->rule)
        json_string(json, "rule", record->rule);
    json_string(json, "state", states[record->state & 3]);
    json_end_object(json);
}

static void write_records(struct json *json, const struct tutti_group *group)
{
    uint64_t kept = group->recorder.count < GROUP_RECORDS ? group->recorder.count : GROUP_RECORDS;

    json_uint(json, "recorded", group->recorder.count);
    json_begin_array(json, "records");
    for (uint64_t i = group->recorder.count - kept; i < group->recorder.count; i++)
        write_record(json, group, &group->recorder.records[i % GROUP_RECORDS]);
    json_end_array(json);
}

static void write_wait(struct json *json, const struct tutti_group *group, const struct call *call)
{
    static const char *const kinds[] = {
        [WAITING_NOTHING] = "nothing", [WAITING_ROOM] = "room",       [WAITING_CALL] = "call",
        [WAITING_ANSWER] = "call",     [WAITING_MAPPED] = "progress", [WAITING_RECEIVE] = "message",
        [WAITING_SEND] = "taking"};
    const struct waiting waiting = group_waits_for(group, call);
    const bool held = call->kind == CALL_COLLECTIVE && group_holds(group, call);
    int missing[MISSING_MAX];
    int count = group_missing_local(group, call, -1, missing, MISSING_MAX);

    json_begin_object(json, "waits_for");
    json_string(json, "what",
                held                 ? "wrapper"
                : staged_waits(call) ? "stream"
                                     : kinds[waiting.kind]);
    json_int(json, "rank", waiting.rank);
    json_begin_array(json, "not_called");
    for (int i = 0; i < count; i++)
        json_int(json, NULL, missing[i]);
    json_end_array(json);
    json_end_object(json);
}

/* Whether a thread of the program waits for it: in a blocking call, or for its work or that of its batch. */
static const char *waited_message(const struct tutti_group *group, const struct call *call)
{
    static const char *const texts[] = {
        [ENGINE_NOT_WAITED] = "no", [ENGINE_WAITED_ANY] = "any", [ENGINE_WAITED] = "yes"};
    const struct progress_engine *engine = &group->context->engine;
    const struct tutti_work *work = call->state.work;
    enum engine_waited waited = work ? engine_waited(engine, &call->state) : ENGINE_WAITED;

    if (!waited && work->part_of)
        waited = engine_waited(engine, work->part_of->state);
    return texts[waited];
}

/* A call that nobody has looked at yet has no time: the clock is not read on its way. */
static void write_unfinished(struct json *json, const struct tutti_group *group, int64_t now,
                             const struct call *call)
{
    bool message = call->kind != CALL_COLLECTIVE;

    json_begin_object(json, NULL);
    if (record_is_gone(group, call->record))
        json_string(json, "record", NULL);
    else
        json_uint(json, "record", call->record);
    if (!message)
        json_uint(json, "sequence", call->announce.sequence);
    if (message) {
        json_string(json, "operation", call->kind == CALL_SEND ? "send" : "recv");
        json_int(json, "peer", call->peer);
        json_uint(json, "tag", call->tag);
        json_uint(json, "bytes", call->bytes);
        json_uint(json, "moved", call->message.moved);
    }
    if (call->deadline_ns)
        json_seconds(json, "seconds", now - call->since_ns);
    json_int(json, "timeout_ms", call->timeout_ms);
    json_string(json, "waited", waited_message(group, call));
    write_wait(json, group, call);
    json_end_object(json);
}

static void write_group(struct json *json, struct tutti_group *group, int64_t now)
{
    tutti_status verdict = control_verdict_status(group->control);

    if (group->calls.queue.first)
        record_state(group, group->calls.queue.first->record, RECORD_RUNNING);
    json_begin_object(json, NULL);
    json_string(json, "name", group->name);
    json_hex(json, "id", identity_of(group));
    json_int(json, "rank", group->rank);
    json_int(json, "size", group->size);
    json_string(json, "backend", group->backend);
    const struct device *device = atomic_load(&group->device);
    if (device) {
        json_string(json, "device", device_name(device));
        json_string(json, "device_uuid", device_uuid(device));
    }
    write_members(json, group);
    json_string(json, "state", verdict ? "failed" : "ready");
    if (verdict) {
        json_begin_object(json, "verdict");
        json_string(json, "status", tutti_status_name(verdict));
        json_int(json, "culprit", group->control->verdict.culprit);
        json_string(json, "words", group->control->verdict.message);
        json_end_object(json);
    }
    json_uint(json, "started", group->calls.sequence);
    json_uint(json, "completed", atomic_load(&group->calls.completed));
    json_begin_array(json, "unfinished");
    for (const struct call *c = group->calls.queue.first; c; c = c->next)
        write_unfinished(json, group, now, c);
    for (const struct call *c = group->calls.messages.first; c; c = c->next)
        write_unfinished(json, group, now, c);
    json_end_array(json);
    write_records(json, group);
    json_end_object(json);
}

/* ---- the document ---- */

static int64_t wall_ns(void)
{
    struct timespec t;

    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * CLOCK_NS_PER_S + t.tv_nsec;
}

static void write_joining(struct json *json, const struct joining *joining, int64_t now)
{
    json_begin_object(json, "joining");
    json_string(json, "name", joining->name);
    json_int(json, "size", joining->size);
    json_seconds(json, "seconds", now - joining->since_ns);
    json_end_object(json);
}

char *dump_text(const struct tutti_context *context, bool busy, const char *cause)
{
    const struct owner owner = owner_of(context, busy);
    const int64_t now = clock_now_ns();
    char host[CONTROL_HOST_MAX];
    struct json json = {0};

    json_begin_object(&json, NULL);
    json_string(&json, "schema", "tutti.trace/1");
    json_string(&json, "library", TUTTI_VERSION);
    json_string(&json, "cause", cause);
    json_string(&json, "run", owner.run_id);
    json_int(&json, "attempt", owner.attempt);
    json_int(&json, "rank", owner.rank);
    json_string(&json, "host", own_host(owner.group, host, sizeof host));
    json_int(&json, "pid", getpid());
    json_uint(&json, "context", context->number);
    json_int(&json, "wall_ns", wall_ns());
    json_int(&json, "monotonic_ns", now);
    if (owner.joining)
        write_joining(&json, owner.joining, now);
    if (busy)
        json_bool(&json, "busy", true);
    json_begin_array(&json, "groups");
    for (struct tutti_group *g = busy ? NULL : groups_first(context); g; g = groups_next(g))
        write_group(&json, g, now);
    json_end_array(&json);
    json_end_object(&json);
    return json_take(&json);
}

void dump_name(const struct tutti_context *context, bool busy, char *ret_name, size_t capacity)
{
    const struct owner owner = owner_of(context, busy);
    char host[CONTROL_HOST_MAX], rank[16] = "none", number[16] = "";

    const char *name = own_host(owner.group, host, sizeof host);
    if (name != host)
        snprintf(host, sizeof host, "%s", name);
    for (char *c = host; *c; c++)
        if (!isalnum((unsigned char)*c) && *c != '-')
            *c = '_';
    if (owner.rank >= 0)
        snprintf(rank, sizeof rank, "%d", owner.rank);
    if (context->number)
        snprintf(number, sizeof number, ".%u", context->number);
    snprintf(ret_name, capacity, "tutti.%s.%s.%d%s.json", rank, host, getpid(), number);
}
