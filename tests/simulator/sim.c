/* SPDX-License-Identifier: Apache-2.0 */
#include "sim.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "plugin/about.h"
#include "reduce/reduce.h"

void sim_fail(const char *format, ...)
{
    va_list args;

    va_start(args, format);
    fputs("simulator: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(1);
}

static void *must(void *memory)
{
    if (!memory)
        sim_fail("no memory");
    return memory;
}

/* splitmix64 */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

uint64_t sim_random(struct sim_world *world)
{
    world->random += UINT64_C(0x9e3779b97f4a7c15);
    return mix(world->random);
}

/* The numbers of a member's input and output as registered memory, which a world on one host has. */
enum { MEMORY_IN = 1, MEMORY_OUT };
/* So that long vectors have many pieces, up to as many as an algorithm makes at most. */
enum { PIECE_BYTES = 16 << 10 };

/* ---- the world ------------------------------------------------------------------------------- */

static void open_member(struct sim_world *world, int rank, const int *host_of)
{
    struct sim_member *member = &world->members[rank];
    void *areas[SIM_MEMBERS_MAX];
    const int *ranks;
    int members;

    *member = (struct sim_member){.world = world, .rank = rank, .weight = 1};
    if (layout_init(&member->layout, world->size, rank, host_of))
        sim_fail("no memory");
    member->thresholds = thresholds_standard;
    member->thresholds.bytes[THRESHOLD_MESSAGE_PIECE] = PIECE_BYTES;
    member->thresholds.bytes[THRESHOLD_PACED_MIN] = PIECE_BYTES;
    member->thresholds.tuned[THRESHOLD_MESSAGE_PIECE] = true;
    member->thresholds.tuned[THRESHOLD_PACED_MIN] = true;
    thresholds_fit(&member->thresholds, member->layout.hosts == 1 && world->size % 2 == 0);
    member->layout.thresholds = &member->thresholds;
    member->facts = (struct group_facts){.layout = &member->layout,
                                         .mapped = world->mapped,
                                         .messages = true,
                                         .local_name = "shm",
                                         .remote_name = "tcp",
                                         .remote_cost = plugin_usual_cost(0)};
    if (!world->mapped)
        return;
    members = layout_host_size(&member->layout, member->layout.host);
    ranks = layout_ranks(&member->layout, member->layout.host);
    for (int i = 0; i < members; i++)
        areas[i] = (unsigned char *)world->memory + (uint64_t)ranks[i] * MAPPED_BYTES;
    if (mapped_init(&member->mapped, members, member->layout.local, areas, ranks))
        sim_fail("no memory");
    member->mapped.memories = must(calloc(MAPPED_MEMORIES, sizeof *member->mapped.memories));
    for (uint32_t i = 0; i < 2; i++)
        member->mapped.memories[MEMORY_IN + i] =
            (struct mapped_memory){MEMORY_IN + i, world->bases[i], world->bytes[i]};
}

static void open_members(struct sim_world *world, const int *host_of)
{
    const size_t pairs = (size_t)world->size * (size_t)world->size;

    world->channels = must(calloc(pairs, sizeof *world->channels));
    for (int rank = 0; rank < world->size; rank++)
        open_member(world, rank, host_of);
}

void sim_open(struct sim_world *world, int size, const int *host_of, bool mapped, uint64_t seed)
{
    *world = (struct sim_world){.size = size, .random = seed, .mapped = mapped};
    world->memory_bytes = (uint64_t)size * MAPPED_BYTES;
    world->memory = mmap(NULL, world->memory_bytes, PROT_READ | PROT_WRITE,
                         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (world->memory == MAP_FAILED)
        sim_fail("no memory");
    open_members(world, host_of);
}

void sim_share(struct sim_world *world, const struct sim_world *with, uint64_t seed)
{
    *world = (struct sim_world){
        .size = with->size, .random = seed, .mapped = with->mapped, .memory = with->memory};
    open_members(world, with->members[0].layout.host_of);
}

void sim_close(struct sim_world *world)
{
    for (int rank = 0; rank < world->size; rank++) {
        struct sim_member *member = &world->members[rank];

        run_free(&member->run);
        schedule_free(&member->schedule);
        schedule_free(&member->ordinary);
        mapped_free(&member->mapped);
        layout_free(&member->layout);
        free(member->in);
        free(member->out);
    }
    if (world->memory_bytes)
        munmap(world->memory, world->memory_bytes);
    free(world->channels);
}

/* ---- data ---------------------------------------------------------------------------------- */

/* Values repeat, so that long vectors are made and compared with a few long copies. */
enum { PERIOD = 7, UNTOUCHED = 0xa5 };

static int value_of(int rank, uint64_t i, uint64_t number)
{
    return (int)(((uint64_t)rank * 5 + i + number * 3) % PERIOD) + 1;
}

static void put(void *buffer, tutti_dtype dtype, uint64_t i, double v)
{
    if (dtype == TUTTI_U8)
        ((uint8_t *)buffer)[i] = (uint8_t)v;
    else if (dtype == TUTTI_I32)
        ((int32_t *)buffer)[i] = (int32_t)v;
    else if (dtype == TUTTI_F32)
        ((float *)buffer)[i] = (float)v;
    else if (dtype == TUTTI_F64)
        ((double *)buffer)[i] = v;
    else
        sim_fail("no data for dtype %s", tutti_dtype_name(dtype));
}

/* Any bits that are a finite number of moderate size, zeros of both signs among them. */
static void fill_random(struct sim_world *world, void *buffer, uint64_t bytes, tutti_dtype dtype)
{
    const bool narrow = dtype == TUTTI_F16;
    const uint32_t mantissa = dtype == TUTTI_F32 ? 23 : narrow ? 10 : 7;
    const uint32_t width = dtype == TUTTI_F32 ? 4 : 2, bias = narrow ? 15 : 127;

    for (uint64_t at = 0; at < bytes; at += width) {
        const uint64_t r = sim_random(world);
        uint32_t bits = (uint32_t)(r & ((1u << mantissa) - 1)) |
                        (bias - 3 + (uint32_t)(r >> 32) % 6) << mantissa;

        if (r >> 60 == 0)
            bits = 0;
        bits |= (uint32_t)(r >> 40 & 1) << (8 * width - 1);
        memcpy((unsigned char *)buffer + at, &bits, width); /* little endian */
    }
}

/* Elements of a member's input and output. */
static uint64_t count_in(const struct sim_world *world, const struct sim_op *op)
{
    return operation_takes_blocks(op->operation) ? op->count * (uint64_t)world->size : op->count;
}

static uint64_t count_out(const struct sim_world *world, const struct sim_op *op)
{
    return operation_gives_blocks(op->operation) ? op->count * (uint64_t)world->size : op->count;
}

uint64_t sim_block(const struct sim_op *op, int from, int to)
{
    const bool pairs = op->operation == OPERATION_ALL_TO_ALL;
    const int block = operation_gives_blocks(op->operation) ? from : to;
    const uint64_t r =
        mix(op->count << 12 ^ (uint64_t)(pairs ? from * SIM_MEMBERS_MAX + to : block));

    if (!op->uneven || r % 4 == 1)
        return op->count;
    return r % 4 ? (r >> 2) % (op->count + 1) : 0;
}

/* What a member knows of the sizes, as the public calls tell it. */
static const struct call_sizes *sizes_of(struct sim_member *member)
{
    const struct sim_op *op = &member->op;
    const uint64_t width = tutti_dtype_size(op->dtype);
    const bool knows = !operation_has_root(op->operation) || member->rank == op->root;
    const bool in = operation_takes_blocks(op->operation) && knows;
    const bool out = operation_gives_blocks(op->operation) && knows;

    if (!op->uneven)
        return NULL;
    for (int i = 0; i < member->world->size; i++) {
        member->in_sizes[i] = sim_block(op, member->rank, i) * width;
        member->out_sizes[i] = sim_block(op, i, member->rank) * width;
    }
    member->sizes = (struct call_sizes){.in = in ? member->in_sizes : NULL,
                                        .out = out ? member->out_sizes : NULL,
                                        .own = sim_block(op, member->rank, member->rank) * width};
    return &member->sizes;
}

/* Elements in the fields of a call: of uneven blocks the sum, where all know it. */
static uint64_t count_told(const struct sim_world *world, const struct sim_op *op)
{
    uint64_t sum = 0;

    if (!op->uneven)
        return op->count;
    for (int i = 0; i < world->size && operation_shares_sizes(op->operation); i++)
        sum += sim_block(op, i, i);
    return sum;
}

static bool in_place(const struct sim_op *op)
{
    return op->in_place && !operation_takes_blocks(op->operation) &&
           !operation_gives_blocks(op->operation);
}

/* Small whole numbers: exact in every dtype and order for SUM, MIN and MAX. */
static void fill(struct sim_member *member, const struct sim_op *op, uint64_t number)
{
    const uint64_t width = tutti_dtype_size(op->dtype);
    const uint64_t count = count_in(member->world, op), bytes = count * width;
    uint64_t done = PERIOD * width;

    if (op->random) {
        fill_random(member->world, member->in, bytes, op->dtype);
        return;
    }
    for (uint64_t i = 0; i < count && i < PERIOD; i++)
        put(member->in, op->dtype, i, value_of(member->rank, i, number));
    for (; done < bytes; done *= 2)
        memcpy((unsigned char *)member->in + done, member->in,
               bytes - done < done ? bytes - done : done);
}

static double reduced(const struct sim_world *world, const struct sim_op *op, uint64_t i,
                      uint64_t number)
{
    double result = value_of(0, i, number);

    for (int rank = 1; rank < world->size; rank++) {
        const double v = value_of(rank, i, number);

        if (op->op == TUTTI_SUM || op->op == TUTTI_AVG)
            result += v;
        else if (op->op == TUTTI_MIN)
            result = v < result ? v : result;
        else
            result = v > result ? v : result;
    }
    if (op->dtype == TUTTI_U8)
        result = (uint8_t)result;
    if (op->op == TUTTI_AVG)
        result /= world->size; /* put() rounds or truncates */
    return result;
}

/* What the reference expects of element i of a member's output: reduced in rank order, serially. */
static double expected(const struct sim_world *world, const struct sim_op *op, int rank, uint64_t i,
                       uint64_t number)
{
    const uint64_t mine = (uint64_t)rank * op->count;
    const int block = operation_gives_blocks(op->operation) && op->count ? (int)(i / op->count) : 0;

    switch (op->operation) {
    case OPERATION_BROADCAST:
        return value_of(op->root, i, number);
    case OPERATION_SCATTER:
        return value_of(op->root, mine + i, number);
    case OPERATION_GATHER:
    case OPERATION_ALL_GATHER:
        return value_of(block, i % op->count, number);
    case OPERATION_ALL_TO_ALL:
        return value_of(block, mine + i % op->count, number);
    case OPERATION_REDUCE_SCATTER:
        return reduced(world, op, mine + i, number);
    default:
        return reduced(world, op, i, number);
    }
}

static const void *result_of(const struct sim_member *member)
{
    return in_place(&member->op) ? member->in : member->out;
}

/* Every block repeats by itself. */
static void check_block(const struct sim_world *world, int rank, const struct sim_op *op,
                        uint64_t first, uint64_t number)
{
    const uint64_t width = tutti_dtype_size(op->dtype), period = PERIOD * width;
    const int from =
        operation_gives_blocks(op->operation) && op->count ? (int)(first / op->count) : op->root;
    const uint64_t count = sim_block(op, from, rank), bytes = count * width;
    const unsigned char *got =
        (const unsigned char *)result_of(&world->members[rank]) + first * width;
    double storage[PERIOD];
    unsigned char *want = (unsigned char *)storage;

    for (uint64_t i = bytes; i < op->count * width; i++)
        if (got[i] != UNTOUCHED)
            sim_fail("%s: rank %d finds something behind its block of %lu bytes",
                     world->members[rank].algorithm->name, rank, (unsigned long)bytes);
    for (uint64_t i = 0; i < PERIOD && i < count; i++)
        put(want, op->dtype, i, expected(world, op, rank, first + i, number));
    if (!memcmp(got, want, bytes < period ? bytes : period) &&
        (bytes <= period || !memcmp(got + period, got, bytes - period)))
        return;
    for (uint64_t i = 0; i < count; i++)
        if (memcmp(got + i * width, want + i % PERIOD * width, width))
            sim_fail("%s, %d members, %lu x %s %s: rank %d is wrong from element %lu on",
                     world->members[rank].algorithm->name, world->size, (unsigned long)op->count,
                     tutti_dtype_name(op->dtype), tutti_reduce_op_name(op->op), rank,
                     (unsigned long)(first + i));
}

void sim_check(struct sim_world *world, int rank, const struct sim_op *op, uint64_t number)
{
    const bool root_only = op->operation == OPERATION_REDUCE || op->operation == OPERATION_GATHER;

    if (!operation_moves(op->operation) || (root_only && rank != op->root))
        return;
    for (uint64_t first = 0; first < count_out(world, op); first += op->count)
        check_block(world, rank, op, first, number);
}

void sim_check_bits(struct sim_world *world)
{
    const struct sim_op *op = &world->members[0].op;

    for (int rank = 1; rank < world->size; rank++)
        if (memcmp(result_of(&world->members[rank]), result_of(&world->members[0]),
                   op->count * tutti_dtype_size(op->dtype)))
            sim_fail("%s, %d members, %lu x %s %s: ranks 0 and %d have different bits",
                     world->members[0].algorithm->name, world->size, (unsigned long)op->count,
                     tutti_dtype_name(op->dtype), tutti_reduce_op_name(op->op), rank);
}

static void give_buffers(struct sim_member *member, uint64_t bytes)
{
    struct sim_world *world = member->world;

    if (bytes < member->capacity)
        return;
    free(member->in);
    free(member->out);
    member->capacity = bytes + 4096;
    member->in = must(malloc(member->capacity));
    member->out = must(malloc(member->capacity));
    world->bases[0][member->rank] = member->in;
    world->bases[1][member->rank] = member->out;
    world->bytes[0][member->rank] = world->bytes[1][member->rank] = member->capacity;
}

/* ---- calls --------------------------------------------------------------------------------- */

/* Between any two steps a member may lose the processor: a message to nobody that is refused or
 * completes late. */
static void add_pauses(struct sim_member *member, struct schedule *sched)
{
    const uint32_t pause = sched->tickets, step_count = sched->count;
    const uint64_t every = 1 + sim_below(member->world, 12);
    struct step *steps = must(malloc((step_count * 3 + 1) * sizeof *steps));
    uint32_t count = 0;

    for (uint32_t i = 0; i < step_count; i++) {
        if (sim_below(member->world, every) == 0) {
            steps[count++] = (struct step){.kind = STEP_SEND, .peer = SIM_NOBODY, .ticket = pause};
            steps[count++] = (struct step){.kind = STEP_FENCE_TICKET, .ticket = pause};
        }
        steps[count++] = sched->steps[i];
    }
    free(sched->steps);
    sched->steps = steps;
    sched->count = count;
    sched->capacity = step_count * 3 + 1;
    sched->tickets++;
}

static void emit(struct sim_member *member, const struct algorithm *algorithm,
                 struct schedule *sched)
{
    const struct plan plan = {.algorithm = algorithm};

    if (plan_emit(&plan, &member->facts, &member->announce.fields, member->kernels.element_bytes,
                  sizes_of(member), member->kernels.finish != NULL, sched))
        sim_fail("no schedule: %s", tutti_last_error());
    member->sent_bytes = sched->sent_bytes;
    add_pauses(member, sched);
}

/* What a registered algorithm stands in for. */
static const struct algorithm *ordinary_of(const struct sim_op *op, int size, uint64_t bytes)
{
    return algorithm_find(&thresholds_standard, op->operation,
                          op->uneven ? ALGORITHM_MESSAGES : ALGORITHM_MAPPED, size, bytes,
                          op->uneven ? ALGORITHM_NEEDS_EQUAL_BLOCKS : 0);
}

static void choose(struct sim_member *member, const struct sim_op *op, uint32_t element_bytes)
{
    struct plan plan = {.algorithm = op->algorithm};

    if (!op->algorithm &&
        plan_choose(&member->facts, &member->announce.fields, element_bytes, &plan))
        sim_fail("no plan: %s", tutti_last_error());
    member->algorithm = plan.algorithm;
    if (plan.algorithm->kind == ALGORITHM_REGISTERED)
        emit(member, ordinary_of(op, member->world->size, op->count * element_bytes),
             &member->ordinary);
    if (plan.algorithm->emit)
        emit(member, plan.algorithm, &member->schedule);
}

static struct mapped_reference reference_to(const struct sim_member *member,
                                            const struct blocks *where, bool has_blocks)
{
    return (struct mapped_reference){.memory = where->base == member->in ? MEMORY_IN : MEMORY_OUT,
                                     .shape = has_blocks ? SHAPE_ROW : SHAPE_VECTOR,
                                     .stride = where->stride};
}

/* The member's line shows where its tensors are, unless they are elsewhere. Where the root's line decides, the
 * others have nothing to show. */
static void offer_registered(struct sim_member *member, struct run_call *call)
{
    const struct sim_op *op = &member->op;
    const bool by_root = op->operation == OPERATION_BROADCAST || op->operation == OPERATION_SCATTER;
    const bool shows = op->elsewhere != member->rank + 1;

    member->references = (struct mapped_references){
        reference_to(member, &call->in, operation_takes_blocks(op->operation)),
        reference_to(member, &call->out, operation_gives_blocks(op->operation))};
    call->decider = by_root ? op->root : -1;
    call->schedule = &member->ordinary;
    if (shows || (by_root && member->rank != op->root))
        call->registered = &member->schedule;
    if (shows && (!by_root || member->rank == op->root))
        call->references = &member->references;
}

static void begin_schedule(struct sim_member *member)
{
    struct run_call call = {.schedule = &member->schedule,
                            .announce = &member->announce,
                            .wire = &sim_wire,
                            .wire_user = member,
                            .in = member->call.in,
                            .out = member->call.out,
                            .kernels = member->kernels};

    if (member->mapped.local_size > 1)
        call.mapped = &member->mapped;
    if (member->algorithm->kind == ALGORITHM_REGISTERED)
        offer_registered(member, &call);
    if (run_start(&member->run, &call))
        sim_fail("no memory");
}

static int root_of(const struct sim_member *member, const struct sim_op *op)
{
    return member->algorithm->kind == ALGORITHM_INLINE ? member->layout.local_of[op->root]
                                                       : op->root;
}

void sim_call(struct sim_member *member, const struct sim_op *op, uint64_t number)
{
    const uint32_t element_bytes = (uint32_t)tutti_dtype_size(op->dtype);
    const bool rooted = operation_has_root(op->operation);
    const uint64_t blocks_bytes = op->count * element_bytes * (uint64_t)member->world->size;

    member->op = *op;
    give_buffers(member,
                 operation_takes_blocks(op->operation) || operation_gives_blocks(op->operation)
                     ? blocks_bytes
                     : op->count * element_bytes);
    fill(member, op, number);
    memset(member->out, UNTOUCHED, count_out(member->world, op) * element_bytes);
    if (op->operation == OPERATION_BROADCAST && !op->in_place && member->rank == op->root)
        memcpy(member->out, member->in, op->count * element_bytes);

    member->announce.fields =
        (struct call_fields){.count = count_told(member->world, op),
                             .dtype = op->dtype,
                             .op = operation_reduces(op->operation) ? op->op : -1,
                             .root = rooted ? op->root : -1,
                             .operation = (uint8_t)op->operation,
                             .flags = op->uneven ? CALL_UNEVEN : 0};
    member->sequence++;
    member->signature =
        mix(member->signature ^
            mix(op->count ^ (uint64_t)op->dtype << 40 ^ (uint64_t)(op->op + 1) << 32 ^
                (uint64_t)op->operation << 56 ^ (uint64_t)(rooted ? op->root + 1 : 0) << 48));
    member->kernels =
        (struct kernels){.element_bytes = element_bytes, .members = (uint32_t)member->world->size};
    if (operation_reduces(op->operation)) {
        member->kernels.reduce = reduce_kernel(op->dtype, op->op);
        member->kernels.many = reduce_many(op->dtype, op->op);
        member->kernels.finish = reduce_finish(op->dtype, op->op, member->kernels.members);
    }
    member->announce.sequence = member->sequence;
    member->announce.signature = member->signature;
    choose(member, op, element_bytes);
    member->call = (struct inline_call){
        .announce = &member->announce,
        .in = {member->in, op->count * element_bytes, NULL},
        .out = {in_place(op) ? member->in : member->out, op->count * element_bytes, NULL},
        .bytes = op->count * element_bytes,
        .count = op->count,
        .root = root_of(member, op),
        .kernels = &member->kernels};
    member->running = true;
    member->posted = false;
    if (member->algorithm->emit)
        begin_schedule(member);
}

static tutti_status advance_inline(struct sim_member *member)
{
    tutti_status status = TUTTI_OK;

    if (!member->posted)
        status = member->algorithm->post(&member->mapped, &member->call);
    if (status == TUTTI_OK && !member->posted) {
        member->posted = true;
        member->world->activity++;
        if (sim_below(member->world, 2))
            return TUTTI_ERR_NOT_READY;
    }
    return status ? status : member->algorithm->poll(&member->mapped, &member->call);
}

tutti_status sim_advance(struct sim_member *member)
{
    const uint32_t before = member->run.next;
    const bool announced = member->run.announced;
    tutti_status status;

    sim_progress(member->world);
    status = member->algorithm->emit ? run_advance(&member->run) : advance_inline(member);

    if (status == TUTTI_ERR_NOT_READY && member->run.next == before &&
        member->run.announced == announced)
        return status;
    member->world->activity++;
    if (status == TUTTI_ERR_NOT_READY)
        return status;
    member->running = false;
    if (status && member->algorithm->emit)
        run_abandon(&member->run);
    return status;
}
