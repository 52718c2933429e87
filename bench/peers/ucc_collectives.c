/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The same measurements over UCC, for comparison; bench/compare starts it by `tutti run`, which gives each rank its
 * number. Nothing of libtutti is in it. UCC has no messages; a collective that its layers refuse counts as not
 * offered. The members meet in a file of BENCH_MEET that all of them map.
 */
#include <sched.h>

#include <ucc/api/ucc.h>

#include "../measure.h"

enum { MEET_ROUNDS = 32, MEET_BYTES = 65536 };

/* What a member gives in one exchange of its start. */
struct meet_slot {
    _Atomic int there;
    char data[MEET_BYTES];
};

/* An exchange under way. */
struct meeting {
    struct meet_slot *slots;
    void *all;
    size_t bytes;
};

static struct meet_slot *meet_slots;
static int meet_round;
static int self, members, yields;
static ucc_context_h context;
static ucc_team_h team;

static void check(ucc_status_t status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "UCC: %s: %s\n", what, ucc_status_string(status));
    exit(status == UCC_ERR_NOT_SUPPORTED ? MEASURE_NOT_OFFERED : 1);
}

static ucc_status_t meet(void *own, void *all, size_t bytes, void *info, void **ret_request)
{
    struct meeting *meeting = malloc(sizeof *meeting);

    (void)info;
    if (!meeting)
        return UCC_ERR_NO_MEMORY;
    if (bytes > MEET_BYTES || meet_round == MEET_ROUNDS) {
        free(meeting);
        return UCC_ERR_NO_RESOURCE;
    }
    meeting->slots = meet_slots + (size_t)meet_round++ * (size_t)members;
    meeting->all = all;
    meeting->bytes = bytes;
    memcpy(meeting->slots[self].data, own, bytes);
    atomic_store(&meeting->slots[self].there, 1);
    *ret_request = meeting;
    return UCC_OK;
}

static ucc_status_t meet_test(void *request)
{
    const struct meeting *meeting = request;

    for (int i = 0; i < members; i++) {
        if (!atomic_load(&meeting->slots[i].there)) {
            sched_yield();
            return UCC_INPROGRESS;
        }
        memcpy((char *)meeting->all + (size_t)i * meeting->bytes, meeting->slots[i].data,
               meeting->bytes);
    }
    return UCC_OK;
}

static ucc_status_t meet_free(void *request)
{
    free(request);
    return UCC_OK;
}

/* Every member makes the file as large; what nobody wrote takes no room. */
static int meet_open(const char *folder)
{
    const size_t bytes = (size_t)MEET_ROUNDS * (size_t)members * sizeof *meet_slots;
    char path[4096];

    snprintf(path, sizeof path, "%s/slots", folder);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, (off_t)bytes))
        return perror(path), 0;
    void *slots = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    if (slots == MAP_FAILED)
        return perror(path), 0;
    meet_slots = slots;
    return 1;
}

static void open_team(void)
{
    const ucc_oob_coll_t oob = {.allgather = meet,
                                .req_test = meet_test,
                                .req_free = meet_free,
                                .n_oob_eps = (uint32_t)members,
                                .oob_ep = (uint32_t)self};
    const ucc_lib_params_t lib_params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
                                         .thread_mode = UCC_THREAD_SINGLE};
    const ucc_context_params_t context_params = {.mask = UCC_CONTEXT_PARAM_FIELD_OOB, .oob = oob};
    const ucc_team_params_t team_params = {
        .mask = UCC_TEAM_PARAM_FIELD_EP | UCC_TEAM_PARAM_FIELD_EP_RANGE | UCC_TEAM_PARAM_FIELD_OOB,
        .ep = (uint64_t)self,
        .ep_range = UCC_COLLECTIVE_EP_RANGE_CONTIG,
        .oob = oob};
    ucc_lib_config_h lib_config;
    ucc_context_config_h context_config;
    ucc_lib_h lib;
    ucc_status_t status;

    check(ucc_lib_config_read(NULL, NULL, &lib_config), "ucc_lib_config_read");
    check(ucc_init(&lib_params, lib_config, &lib), "ucc_init");
    ucc_lib_config_release(lib_config);
    check(ucc_context_config_read(lib, NULL, &context_config), "ucc_context_config_read");
    check(ucc_context_create(lib, &context_params, context_config, &context), "ucc_context_create");
    ucc_context_config_release(context_config);
    check(ucc_team_create_post(&context, 1, &team_params, &team), "ucc_team_create_post");
    while ((status = ucc_team_create_test(team)) == UCC_INPROGRESS)
        ucc_context_progress(context);
    check(status, "ucc_team_create_test");
}

/* Yields where ranks outnumber CPUs, as every program that drives UCC there has to. */
static void finish(ucc_coll_args_t *args, const char *what)
{
    ucc_coll_req_h request;
    ucc_status_t status;

    check(ucc_collective_init(args, &request, team), what);
    check(ucc_collective_post(request), what);
    while ((status = ucc_collective_test(request)) == UCC_INPROGRESS) {
        ucc_context_progress(context);
        if (yields)
            sched_yield();
    }
    check(status, what);
    ucc_collective_finalize(request);
}

static ucc_coll_buffer_info_t side(void *data, size_t count, ucc_datatype_t type)
{
    return (ucc_coll_buffer_info_t){
        .buffer = data, .count = count, .datatype = type, .mem_type = UCC_MEMORY_TYPE_HOST};
}

/* Of floats, from one buffer to another. */
static void call(ucc_coll_type_t type, const char *what, float *in, size_t in_count, float *out,
                 size_t out_count)
{
    ucc_coll_args_t args = {.coll_type = type,
                            .src.info = side(in, in_count, UCC_DT_FLOAT32),
                            .dst.info = side(out, out_count, UCC_DT_FLOAT32),
                            .op = UCC_OP_SUM};

    finish(&args, what);
}

static void all_reduce(float *in, float *out, size_t count)
{
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .dst.info = side(in, count, UCC_DT_FLOAT32),
                            .op = UCC_OP_SUM};

    (void)out;
    finish(&args, "all_reduce");
}

static void broadcast(float *in, float *out, size_t count)
{
    (void)out;
    call(UCC_COLL_TYPE_BCAST, "broadcast", in, count, NULL, 0);
}

static void reduce(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_REDUCE, "reduce", in, count, out, count);
}

static void all_gather(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_ALLGATHER, "all_gather", in, count, out, count * (size_t)members);
}

static void reduce_scatter(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_REDUCE_SCATTER, "reduce_scatter", in, count * (size_t)members, out, count);
}

static void gather(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_GATHER, "gather", in, count, out, count * (size_t)members);
}

static void scatter(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_SCATTER, "scatter", in, count * (size_t)members, out, count);
}

static void all_to_all(float *in, float *out, size_t count)
{
    call(UCC_COLL_TYPE_ALLTOALL, "all_to_all", in, count * (size_t)members, out,
         count * (size_t)members);
}

static void barrier(void)
{
    call(UCC_COLL_TYPE_BARRIER, "barrier", NULL, 0, NULL, 0);
}

static double max(double value)
{
    ucc_coll_args_t args = {.mask = UCC_COLL_ARGS_FIELD_FLAGS,
                            .flags = UCC_COLL_ARGS_FLAG_IN_PLACE,
                            .coll_type = UCC_COLL_TYPE_ALLREDUCE,
                            .dst.info = side(&value, 1, UCC_DT_FLOAT64),
                            .op = UCC_OP_MAX};

    finish(&args, "all_reduce");
    return value;
}

int main(int argc, char **argv)
{
    const char *rank = getenv("RANK"), *size = getenv("WORLD_SIZE"), *folder = getenv("BENCH_MEET");

    if (argc == 2 && !strcmp(argv[1], "version"))
        return printf("UCC %s\n", ucc_get_version_string()) < 0;
    if (!rank || !size || !folder) {
        fprintf(stderr, "%s: set RANK, WORLD_SIZE and BENCH_MEET, an empty folder\n", argv[0]);
        return 2;
    }
    self = atoi(rank);
    members = atoi(size);
    yields = members > sysconf(_SC_NPROCESSORS_ONLN);
    if (!meet_open(folder))
        return 1;
    open_team();
    const struct subject subject = {.name = "ucc",
                                    .rank = self,
                                    .size = members,
                                    .barrier = barrier,
                                    .max = max,
                                    .run = {[MEASURE_all_reduce] = all_reduce,
                                            [MEASURE_broadcast] = broadcast,
                                            [MEASURE_reduce] = reduce,
                                            [MEASURE_all_gather] = all_gather,
                                            [MEASURE_reduce_scatter] = reduce_scatter,
                                            [MEASURE_gather] = gather,
                                            [MEASURE_scatter] = scatter,
                                            [MEASURE_all_to_all] = all_to_all}};

    return measure_main(&subject, argc, argv);
}
