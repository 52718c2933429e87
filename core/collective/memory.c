/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tutti_memory_allocate() and tutti_memory_register(); those of devices go on in memory_device.c.
 *
 * Each member makes its own pages. By an all_reduce all learn of all whether they have some, and how
 * much. Then local peers pass descriptors to each other and map them, and a second all_reduce tells whether
 * all could. So the memory is there on all members or on none.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/fork.h"
#include "collective/batch.h"
#include "collective/memory.h"
#include "device/device.h"
#include "group/group.h"

/* ---- agreeing ---- */

/* Brings together `words` numbers of each member in `table`, of which this one has written its own. */
static tutti_status tell_all(struct tutti_group *group, const char *function, uint64_t *table,
                             uint64_t words)
{
    const uint64_t count = words * (uint64_t)group->size;
    struct collective all = {.function = function,
                             .fields = {.count = count,
                                        .dtype = TUTTI_U64,
                                        .op = TUTTI_SUM,
                                        .root = -1,
                                        .operation = OPERATION_ALL_REDUCE,
                                        .flags = CALL_REGISTER},
                             .in.base = table,
                             .out.base = table,
                             .bytes = count * sizeof *table,
                             .timeout_ms = group->timeout_ms};

    return collective_run(
        group, &all,
        table ? TUTTI_OK : error_set(TUTTI_ERR_NO_MEMORY, "no memory to register memory"), NULL);
}

/* The failure of the first member that has one; `own` is this member's, whose words the thread has. */
static tutti_status judge(const struct tutti_group *group, const uint64_t *table, size_t words,
                          tutti_status own)
{
    if (own)
        return own;
    for (int r = 0; r < group->size; r++) {
        const tutti_status status = (tutti_status)table[(size_t)r * words];

        if (status)
            return error_set(status, "rank %d cannot take part: it got %s", r,
                             tutti_status_name(status));
    }
    return TUTTI_OK;
}

/* Members whose threads make memory in different orders would take one piece for another. */
static tutti_status same_number(const struct tutti_group *group, const struct piece *pieces)
{
    for (int r = 0; r < group->size; r++)
        if (pieces[r].number != pieces[group->rank].number)
            return error_set(TUTTI_ERR_MISMATCH,
                             "rank %d makes piece %" PRIu64 " of registered memory of this group "
                             "where this rank makes piece %" PRIu64
                             ": threads must make them in the same order on all members",
                             r, pieces[r].number, pieces[group->rank].number);
    return TUTTI_OK;
}

static tutti_status same_kind(const struct tutti_group *group, const struct piece *pieces)
{
    static const char *const kinds[] = {"host memory", "memory of its device",
                                        "memory of its device, not registered",
                                        "memory of its device, registered"};
    const uint64_t own = pieces[group->rank].kind;

    for (int r = 0; r < group->size; r++)
        if (pieces[r].kind != own)
            return error_set(TUTTI_ERR_MISMATCH,
                             "rank %d has %s where rank %d has %s: all members give the same kind",
                             r,
                             kinds[pieces[r].kind <= MEMORY_KNOWN_TO_ENGINE ? pieces[r].kind : 0],
                             group->rank, kinds[own]);
    return TUTTI_OK;
}

tutti_status memory_compare(const char *function, struct tutti_group *group,
                            const struct piece *own, struct piece *pieces)
{
    const tutti_status status = (tutti_status)own->status;
    const size_t words = sizeof *own / sizeof(uint64_t);
    struct kept_error kept;

    error_init(&kept);
    if (status)
        error_keep(&kept);
    if (pieces)
        pieces[group->rank] = *own;
    tutti_status told = tell_all(group, function, (uint64_t *)pieces, words);
    if (!told && status)
        error_give(status, &kept);
    error_forget(&kept);
    if (!told)
        told = judge(group, (const uint64_t *)pieces, words, status);
    if (!told)
        told = same_kind(group, pieces);
    return told ? told : same_number(group, pieces);
}

/* ---- mapping the local peers' ---- */

/* The descriptors of all local peers. */
static tutti_status pass_around(struct tutti_group *group, int fd, int32_t *ret_descriptors)
{
    const int64_t until_ns = clock_deadline_ms(group->timeout_ms);
    tutti_exchange *exchange;
    tutti_status status = local_share_start(group->local, &fd, 1, &exchange);

    if (status)
        return status;
    while ((status = local_share_test(group->local, exchange, ret_descriptors)) ==
           TUTTI_ERR_NOT_READY) {
        if (group_ended(group))
            return group_verdict(group);
        if (clock_now_ns() > until_ns)
            return error_set(TUTTI_ERR_TIMEOUT,
                             "timed out waiting for the descriptors of the members on this host");
        engine_wait_ns(&group->context->engine, CLOCK_NS_PER_MS);
    }
    return status;
}

/* Pages between two parts, so that equal places of parts are no power of two apart: such addresses alias on
 * some CPUs. */
static uint64_t gap_before(int index)
{
    return (uint64_t)(2 * index + 1) * pages_unit();
}

static tutti_status reserve(struct tutti_memory *memory, const struct piece *pieces,
                            const struct local_peers *local)
{
    const size_t n = (size_t)local->count;

    memory->peer_bases = malloc(n * (sizeof *memory->peer_bases + sizeof *memory->peer_bytes));
    if (!memory->peer_bases)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to register memory");
    memory->peer_bytes = (uint64_t *)(memory->peer_bases + n);
    for (int i = 0; i < local->count; i++) {
        const uint64_t bytes = pieces[local->peers[i].rank].bytes;

        memory->peer_bytes[i] = i == local->self ? memory->bytes : bytes;
        if (bytes % pages_unit() ||
            __builtin_add_overflow(memory->region_bytes, gap_before(i), &memory->region_bytes) ||
            __builtin_add_overflow(memory->region_bytes, i == local->self ? 0 : bytes,
                                   &memory->region_bytes))
            return error_set(TUTTI_ERR_DENIED, "rank %d says that its memory has %" PRIu64 " bytes",
                             local->peers[i].rank, bytes);
    }
    void *region = mmap(NULL, memory->region_bytes, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (region == MAP_FAILED)
        return error_set(TUTTI_ERR_NO_MEMORY, "no address space for %" PRIu64 " bytes",
                         memory->region_bytes);
    memory->region = region;
    return TUTTI_OK;
}

static tutti_status map_parts(struct tutti_memory *memory, const struct piece *pieces,
                              const struct local_peers *local, const int32_t *descriptors)
{
    tutti_status status = reserve(memory, pieces, local);
    unsigned char *at = memory->region;

    for (int i = 0; i < local->count && !status; i++) {
        const int rank = local->peers[i].rank;

        at += gap_before(i);
        memory->peer_bases[i] = i == local->self ? memory->base : at;
        if (i == local->self)
            continue;
        status = pages_map(descriptors[i], pieces[rank].offset, pieces[rank].bytes, at);
        if (status)
            error_prefix("the memory of rank %d", rank);
        at += pieces[rank].bytes;
    }
    return status;
}

/* Local peers pass and map their memory. A group without mapped memory has nothing to do. */
static tutti_status share(struct tutti_group *group, struct tutti_memory *memory,
                          const struct piece *pieces)
{
    struct local_peers *local = group->local;

    if (!group->ways.has_mapped)
        return TUTTI_OK;
    AUTOFREE int32_t *descriptors = malloc((size_t)local->count * sizeof *descriptors);
    if (!descriptors)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d descriptors", local->count);
    tutti_status status = pass_around(group, memory->pages->fd, descriptors);
    if (status)
        return status;
    status = map_parts(memory, pieces, local, descriptors);
    for (int i = 0; i < local->count; i++)
        close(descriptors[i]);
    return status;
}

/* ---- making ---- */

/* Whether there are descriptors for what the local peers pass. To find out later would leave them waiting. */
static tutti_status can_be_passed(const struct tutti_group *group, int fd)
{
    const int count = group->local->count;
    AUTOFREE int *copies = calloc((size_t)count, sizeof *copies);
    int made = 0;

    if (!copies)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for %d descriptors", count);
    while (made < count && (copies[made] = fcntl(fd, F_DUPFD_CLOEXEC, 0)) >= 0)
        made++;
    const int reason = errno;
    for (int i = 0; i < made; i++)
        close(copies[i]);
    return made == count ? TUTTI_OK
                         : error_set_errno(TUTTI_ERR_SYSTEM, reason,
                                           "no descriptors for the memory of %d local peers (raise "
                                           "ulimit -n)",
                                           count - 1);
}

/* Pages of a driver stay where they are: its devices would go on with them, and the program with others. */
static tutti_status adopt(void *address, uint64_t bytes, struct pages **ret_pages)
{
    const char *driver = device_knowing(address, bytes);

    if (driver)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the driver of %s knows the memory: pages that are pinned for devices "
                         "cannot be registered, and memory of devices only where an engine moves "
                         "it (nccl)",
                         driver);
    return pages_adopt(address, bytes, ret_pages);
}

/* The place in the group's table, and the pages of this member. To make them may take seconds, so it is not
 * done under the progress lock. */
static tutti_status begin(struct tutti_group *group, void *address, uint64_t bytes,
                          struct tutti_memory *memory)
{
    struct progress_engine *engine = &group->context->engine;
    const uint64_t unit = pages_unit();

    engine_take(engine);
    tutti_status status = memories_room(group);
    memory->number = ++group->memories.made;
    engine_release(engine);
    if (!status)
        status =
            address ? adopt(address, bytes, &memory->pages) : pages_allocate(bytes, &memory->pages);
    if (status)
        return status;
    memory->address = address ? address : memory->pages->base;
    memory->base = (unsigned char *)((uintptr_t)memory->address / unit * unit);
    memory->bytes =
        (((uintptr_t)memory->address + bytes + unit - 1) / unit * unit) - (uintptr_t)memory->base;
    memory->asked = bytes;
    return group->ways.has_mapped ? can_be_passed(group, memory->pages->fd) : TUTTI_OK;
}

static struct tutti_memory *sweep(struct tutti_group *group)
{
    engine_take(&group->context->engine);
    struct tutti_memory *swept = memories_sweep(group);
    engine_release(&group->context->engine);
    return swept;
}

/* `status`: what this member's own part came to. */
static tutti_status agree(const char *function, struct tutti_group *group,
                          struct tutti_memory *memory, tutti_status status)
{
    AUTOFREE struct piece *pieces = calloc((size_t)group->size, sizeof *pieces);
    AUTOFREE uint64_t *statuses = calloc((size_t)group->size, sizeof *statuses);
    const struct piece piece = {.status = (uint64_t)status,
                                .kind = MEMORY_OF_HOST,
                                .number = memory->number,
                                .offset =
                                    status ? 0 : (uint64_t)(memory->base - memory->pages->base),
                                .bytes = memory->bytes};
    struct kept_error own;

    const bool has_failed = status || !statuses;
    status = memory_compare(function, group, &piece, statuses ? pieces : NULL);
    if (status || has_failed) /* the first, if the second */
        return status;
    error_init(&own);
    status = share(group, memory, pieces);
    if (status)
        error_keep(&own);
    statuses[group->rank] = (uint64_t)status;
    const tutti_status told = tell_all(group, function, statuses, 1);
    if (!told && status)
        error_give(status, &own);
    error_forget(&own);
    return told ? told : judge(group, statuses, 1, status);
}

static tutti_status make_on_host(const char *function, struct tutti_group *group, void *address,
                                 uint64_t bytes, struct tutti_memory *memory)
{
    struct progress_engine *engine = &group->context->engine;
    tutti_status status = begin(group, address, bytes, memory);

    status = agree(function, group, memory, status);
    if (status)
        return status;
    engine_take(engine);
    memories_place(group, memory);
    engine_release(engine);
    return TUTTI_OK;
}

/* address NULL: allocates, on the device `where`; where NULL: on the host. */
static tutti_status make(const char *function, struct tutti_group *group, const tutti_device *where,
                         void *address, uint64_t bytes, tutti_memory **ret_memory)
{
    struct tutti_memory *memory = calloc(1, sizeof *memory);
    tutti_status status;

    if (!memory) {
        status = error_set(TUTTI_ERR_NO_MEMORY, "no memory to register memory");
        return group_others_wait(group, status) ? group_end_by_own(group, status) : status;
    }
    memories_end(sweep(group));
    *memory = (struct tutti_memory){.group = group, .fork_generation = fork_current()};
    if (where || (address && memory_is_on_device(group, address, bytes))) {
        status = memory_make_on_device(function, group, where, address, bytes, memory);
    } else {
        status = make_on_host(function, group, address, bytes, memory);
        if (status)
            memories_end(memory);
    }
    if (!status)
        *ret_memory = memory;
    return status;
}

static tutti_status check(const struct tutti_group *group, uint64_t bytes,
                          tutti_memory *const *ret_memory)
{
    tutti_status status = group_check(group);

    if (status)
        return status;
    if (batch_of((struct tutti_group *)group))
        return error_set(TUTTI_ERR_BUSY,
                         "a batch of this thread is open on the group: end it first");
    if (!bytes || !ret_memory)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s",
                         bytes ? "ret_memory is NULL" : "bytes is 0; it must be more");
    return TUTTI_OK;
}

tutti_status tutti_memory_allocate(tutti_group *group, uint64_t bytes, tutti_memory **ret_memory)
{
    tutti_status status = check(group, bytes, ret_memory);

    if (!status)
        status = make(__func__, group, NULL, NULL, bytes, ret_memory);
    return error_named(status);
}

tutti_status tutti_memory_allocate_on(tutti_group *group, tutti_device device, uint64_t bytes,
                                      tutti_memory **ret_memory)
{
    const bool on_host = device.type == TUTTI_DEVICE_CPU;
    tutti_status status = check(group, bytes, ret_memory);

    if (!status)
        status = make(__func__, group, on_host ? NULL : &device, NULL, bytes, ret_memory);
    return error_named(status);
}

tutti_status tutti_memory_register(tutti_group *group, void *address, uint64_t bytes,
                                   tutti_memory **ret_memory)
{
    tutti_status status = check(group, bytes, ret_memory);

    if (!status && !address)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "address is NULL");
    if (!status)
        status = make(__func__, group, NULL, address, bytes, ret_memory);
    return error_named(status);
}

/* ---- the handle ---- */

void *tutti_memory_address(const tutti_memory *memory)
{
    return memory ? memory->address : NULL;
}

uint64_t tutti_memory_bytes(const tutti_memory *memory)
{
    return memory ? memory->asked : 0;
}

int32_t tutti_memory_peers(const tutti_memory *memory)
{
    if (!memory || (!memory->region && !memory->of_engine))
        return 0;
    return (memory->region ? memory->group->ways.mapped.local_size : memory->group->size) - 1;
}

tutti_status tutti_memory_free(tutti_memory *memory)
{
    if (!memory)
        return TUTTI_OK;
    struct tutti_group *group = memory->group;
    struct progress_engine *engine = &group->context->engine;

    if (memory->fork_generation != fork_current())
        return error_set(
            TUTTI_ERR_FORKED,
            "the memory belongs to the parent of this process; only the parent can free it");
    if (memory->device)
        return memory_free_on_device(memory);
    engine_take(engine);
    const int users = memory->users;
    struct pages *pages = users ? NULL : memories_withdraw(group, memory);
    struct tutti_memory *swept = users ? NULL : memories_sweep(group);
    engine_release(engine);
    if (users)
        return error_set(TUTTI_ERR_BUSY,
                         "the memory is in use by calls that are not complete (%d): wait "
                         "for them first",
                         users);
    pages_drop(pages);
    memories_end(swept);
    return TUTTI_OK;
}
