/* SPDX-License-Identifier: Apache-2.0 */
#include "comm.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tutti/tutti.h>

#include "gpu.h"

/* The recorder keeps the latest calls only; it is read often enough to miss none. */
#define READ_EVERY 64
#define RECORDS 256
#define KINDS 32

/* A group of equal calls: what was called, and its backend. */
struct kind {
    tutti_record example;
    uint64_t calls;
};

struct comm_tally {
    tutti_record records[RECORDS];
    struct kind kinds[KINDS];
    size_t kind_count;
    uint64_t last_sequence, unread_calls, missed;
};

static bool tutti_words(struct failure *why, const char *doing, tutti_status status)
{
    return failure_set(why, "%s: %s (%s)", doing, tutti_last_error(), tutti_status_name(status));
}

static double now(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* tutti takes the same GPU, by the local rank or by the name that it is told. */
static bool open_gpu(struct comm *comm, const char *device, struct failure *why)
{
    tutti_group_info info = {.struct_size = sizeof info};
    tutti_status status = tutti_group_status(comm->world, &info);

    if (status != TUTTI_OK)
        return tutti_words(why, "cannot learn the local rank", status);
    return gpu_open(device, info.local_rank, &comm->gpu, why);
}

bool comm_open(struct comm *comm, const char *device, struct failure *why)
{
    const tutti_init_options options = {.struct_size = sizeof options, .device = device};
    tutti_group *world = NULL;

    *comm = (struct comm){.tally = calloc(1, sizeof *comm->tally)};
    if (!comm->tally)
        return failure_set(why, "no memory for the tally of calls");
    tutti_status status = tutti_init(&options, &world);
    if (status != TUTTI_OK) {
        free(comm->tally);
        return tutti_words(why, "cannot meet the other ranks", status);
    }
    comm->world = world;
    comm->rank = (uint32_t)tutti_group_rank(world);
    comm->size = (uint32_t)tutti_group_size(world);
    comm->backend = tutti_group_backend(world);
    if (!device || open_gpu(comm, device, why))
        return true;
    struct failure ignored;
    (void)comm_close(comm, &ignored);
    return false;
}

bool comm_close(struct comm *comm, struct failure *why)
{
    tutti_status status = tutti_group_destroy(comm->world);

    gpu_close(comm->gpu);
    free(comm->tally);
    comm->gpu = NULL;
    comm->world = NULL;
    comm->tally = NULL;
    return status == TUTTI_OK || tutti_words(why, "cannot leave in good order", status);
}

static bool same_kind(const tutti_record *a, const tutti_record *b)
{
    return a->bytes == b->bytes && a->dtype == b->dtype &&
           strcmp(a->operation, b->operation) == 0 && strcmp(a->provider, b->provider) == 0 &&
           strcmp(a->algorithm, b->algorithm) == 0;
}

static void tally_add(struct comm_tally *tally, const tutti_record *record)
{
    struct kind *kind = tally->kinds;

    while (kind < tally->kinds + tally->kind_count && !same_kind(&kind->example, record))
        kind++;
    if (kind == tally->kinds + KINDS) {
        tally->missed++;
        return;
    }
    if (kind == tally->kinds + tally->kind_count) {
        kind->example = *record;
        tally->kind_count++;
    }
    kind->calls++;
}

static bool tally_read(struct comm *comm, struct failure *why)
{
    struct comm_tally *tally = comm->tally;
    uint32_t count;
    tutti_status status =
        tutti_recorder_read(comm->world, tally->records, sizeof tally->records[0], RECORDS, &count);

    if (status != TUTTI_OK)
        return tutti_words(why, "cannot read the recorder", status);
    for (uint32_t i = 0; i < count; i++) {
        const tutti_record *record = &tally->records[i];

        if (record->sequence <= tally->last_sequence)
            continue;
        tally->missed += record->sequence - tally->last_sequence - 1;
        tally->last_sequence = record->sequence;
        tally_add(tally, record);
    }
    tally->unread_calls = 0;
    return true;
}

/* The end of each collective. */
static bool called(struct comm *comm, const char *doing, tutti_status status, struct failure *why)
{
    if (status != TUTTI_OK)
        return tutti_words(why, doing, status);
    return ++comm->tally->unread_calls < READ_EVERY || tally_read(comm, why);
}

bool comm_traffic(const struct comm *comm, struct comm_traffic *ret_traffic, struct failure *why)
{
    tutti_traffic traffic = {.struct_size = sizeof traffic};
    tutti_status status = tutti_group_traffic(comm->world, &traffic);

    if (status != TUTTI_OK)
        return tutti_words(why, "cannot count the traffic", status);
    *ret_traffic = (struct comm_traffic){traffic.sent_bytes, traffic.mapped_bytes};
    return true;
}

/* The tensor is on the GPU meanwhile. Copies and operation follow one another on the legacy stream. */
static bool sum_on_gpu(struct comm *comm, float *values, size_t count, tutti_status *ret_status,
                       struct failure *why)
{
    int64_t shape;
    void *place;

    if (!gpu_put(comm->gpu, values, count, &place, why))
        return false;
    tutti_tensor tensor = tutti_tensor_1d(place, TUTTI_F32, &shape, (int64_t)count);
    tensor.device = (tutti_device){TUTTI_DEVICE_CUDA, gpu_number(comm->gpu)};
    *ret_status = tutti_all_reduce(comm->world, &tensor, TUTTI_SUM, NULL, NULL);
    return *ret_status != TUTTI_OK || gpu_get(comm->gpu, values, count, why);
}

bool comm_sum_gradients(struct comm *comm, float *values, size_t count, struct failure *why)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F32, &shape, (int64_t)count);
    tutti_status status = TUTTI_OK;
    struct comm_traffic before = {0}, after = {0};

    if (!comm_traffic(comm, &before, why))
        return false;
    double start = now();
    if (!comm->gpu)
        status = tutti_all_reduce(comm->world, &tensor, TUTTI_SUM, NULL, NULL);
    else if (!sum_on_gpu(comm, values, count, &status, why))
        return false;
    comm->seconds += now() - start;
    if (!called(comm, "cannot sum the gradients", status, why) || !comm_traffic(comm, &after, why))
        return false;
    comm->gradient_calls++;
    comm->gradient_traffic.sent += after.sent - before.sent;
    comm->gradient_traffic.mapped += after.mapped - before.mapped;
    return true;
}

/* An operation that an engine did itself is recorded as one algorithm, "all_reduce_native". */
bool comm_engine_of_gradients(struct comm *comm, size_t count, const char **ret_engine,
                              struct failure *why)
{
    const struct comm_tally *tally = comm->tally;

    *ret_engine = NULL;
    if (!tally_read(comm, why))
        return false;
    for (size_t i = 0; i < tally->kind_count; i++) {
        const tutti_record *r = &tally->kinds[i].example;

        if (r->dtype == TUTTI_F32 && r->count == count && strstr(r->algorithm, "_native"))
            *ret_engine = r->provider;
    }
    return true;
}

bool comm_sum(struct comm *comm, double *values, size_t count, struct failure *why)
{
    int64_t shape;
    tutti_tensor tensor = tutti_tensor_1d(values, TUTTI_F64, &shape, (int64_t)count);
    tutti_status status = tutti_all_reduce(comm->world, &tensor, TUTTI_SUM, NULL, NULL);

    return called(comm, "cannot sum over the ranks", status, why);
}

bool comm_same_as_rank_0(struct comm *comm, const uint64_t *values, size_t count, bool *ret_same,
                         struct failure *why)
{
    const size_t size = count * sizeof *values;
    int64_t shape;
    uint8_t *theirs = malloc(size);

    if (!theirs)
        return failure_set(why, "no memory for rank 0's settings");
    memcpy(theirs, values, size);
    tutti_tensor tensor = tutti_tensor_1d(theirs, TUTTI_U8, &shape, (int64_t)size);
    tutti_status status = tutti_broadcast(comm->world, &tensor, 0, NULL, NULL);
    bool ok = called(comm, "cannot compare settings with rank 0", status, why);

    if (ok)
        *ret_same = memcmp(theirs, values, size) == 0;
    free(theirs);
    return ok;
}

bool comm_barrier(struct comm *comm, struct failure *why)
{
    return called(comm, "cannot wait for the other ranks", tutti_barrier(comm->world, NULL, NULL),
                  why);
}

bool comm_print_carriers(struct comm *comm, FILE *to, struct failure *why)
{
    struct comm_tally *tally = comm->tally;

    if (!tally_read(comm, why))
        return false;
    fprintf(to, "carried by:\n  %-10s %16s  %-10s %-20s %8s\n", "operation", "tensor", "provider",
            "algorithm", "calls");
    for (size_t i = 0; i < tally->kind_count; i++) {
        const struct kind *kind = &tally->kinds[i];
        const tutti_record *r = &kind->example;
        char tensor[48] = "-";

        if (r->dtype)
            snprintf(tensor, sizeof tensor, "%" PRIu64 " x %s", r->count,
                     tutti_dtype_name(r->dtype));
        fprintf(to, "  %-10s %16s  %-10s %-20s %8" PRIu64 "\n", r->operation, tensor, r->provider,
                r->algorithm, kind->calls);
    }
    if (tally->missed)
        fprintf(to, "  and %" PRIu64 " calls that the recorder no longer held\n", tally->missed);
    return true;
}
