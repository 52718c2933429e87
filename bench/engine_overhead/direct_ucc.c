/* SPDX-License-Identifier: Apache-2.0 */
/* UCC as tutti's plugin calls it, from the library of TUTTI_UCC: a context and a team of their own, whose members
 * tell each other their addresses through tutti. UCC has no messages. */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "direct.h"
#include "ucc/ucc_api.h"

const char direct_backend[] = "ucc";

#define MEMBER(result, name, parameters) result(*name) parameters;
static struct {
    UCCI_FUNCTIONS(MEMBER)
} ucc;

static tutti_group *group;
static ucci_lib_h lib;
static ucci_context_h context;
static ucci_team_h team;

static void check(ucci_status status, const char *what)
{
    if (status >= 0)
        return;
    fprintf(stderr, "%s failed: %s\n", what, ucc.status_string(status));
    exit(1);
}

static void load(void)
{
    const char *path = getenv("TUTTI_UCC");
    void *handle = dlopen(path ? path : "libucc.so.1", RTLD_NOW | RTLD_LOCAL);

#define FIND(result, name, parameters)                                                             \
    {                                                                                              \
        void *address = handle ? dlsym(handle, "ucc_" #name) : NULL;                               \
                                                                                                   \
        if (!address) {                                                                            \
            fprintf(stderr, "no ucc_" #name "\n");                                                 \
            exit(1);                                                                               \
        }                                                                                          \
        memcpy(&ucc.name, &address, sizeof address);                                               \
    }
    UCCI_FUNCTIONS(FIND)
}

/* ---- what members tell each other ------------------------------------------------------------- */

static ucci_status gather(void *source, void *all, size_t bytes, void *info, void **request)
{
    int64_t shapes[2];
    const tutti_tensor in = tutti_tensor_1d(source, TUTTI_U8, &shapes[0], (int64_t)bytes);
    const tutti_tensor out =
        tutti_tensor_1d(all, TUTTI_U8, &shapes[1], (int64_t)bytes * tutti_group_size(group));

    *request = info;
    return tutti_all_gather(group, &in, &out, NULL, NULL) ? UCCI_ERR_NO_MESSAGE : UCCI_OK;
}

static ucci_status is_gathered(void *request)
{
    (void)request;
    return UCCI_OK;
}

static ucci_oob oob(void)
{
    return (ucci_oob){.allgather = gather,
                      .req_test = is_gathered,
                      .req_free = is_gathered,
                      .info = &group,
                      .members = (uint32_t)tutti_group_size(group),
                      .place = (uint32_t)tutti_group_rank(group)};
}

/* As the plugin has it. */
static void set_transports(void)
{
    tutti_group_info info = {.struct_size = sizeof info};

    if (!getenv("UCX_TLS") && !tutti_group_status(group, &info))
        setenv("UCC_UCX_TLS", info.hosts == 1 ? "^cma,tcp" : "^cma", 0);
}

static void begin(void)
{
    const ucci_lib_params params = {.mask = UCCI_LIB_FIELD_THREAD_MODE,
                                    .thread_mode = UCCI_THREAD_SINGLE};
    const ucci_context_params of_context = {.mask =
                                                UCCI_CONTEXT_FIELD_TYPE | UCCI_CONTEXT_FIELD_OOB,
                                            .type = UCCI_CONTEXT_SHARED,
                                            .oob = oob()};
    ucci_lib_config_h of_lib;
    ucci_context_config_h config;

    set_transports();
    check(ucc.lib_config_read(NULL, NULL, &of_lib), "ucc_lib_config_read");
    check(ucc.init_version(UCCI_MAJOR, 0, &params, of_lib, &lib), "ucc_init");
    ucc.lib_config_release(of_lib);
    check(ucc.context_config_read(lib, NULL, &config), "ucc_context_config_read");
    check(ucc.context_create(lib, &of_context, config, &context), "ucc_context_create");
    ucc.context_config_release(config);
}

/* ---- operations -------------------------------------------------------------------------------- */

static void run(ucci_coll_args *args)
{
    ucci_request *request;

    check(ucc.collective_init(args, &request, team), "ucc_collective_init");
    check(ucc.collective_post(request), "ucc_collective_post");
    while (request->status == UCCI_INPROGRESS)
        check(ucc.context_progress(context), "ucc_context_progress");
    check(request->status, "the operation");
    check(ucc.collective_finalize(request), "ucc_collective_finalize");
}

static void all_reduce(float *data, size_t count)
{
    ucci_coll_args args = {.mask = UCCI_ARGS_FIELD_FLAGS,
                           .coll_type = UCCI_ALLREDUCE,
                           .flags = UCCI_FLAG_IN_PLACE,
                           .op = UCCI_SUM};

    args.src.even = args.dst.even = (ucci_buffer){data, count, UCCI_FLOAT32, UCCI_MEMORY_HOST};
    run(&args);
}

static void broadcast(float *data, size_t count, int root)
{
    ucci_coll_args args = {.coll_type = UCCI_BCAST, .root = (uint64_t)root};

    args.src.even = (ucci_buffer){data, count * sizeof *data, UCCI_UINT8, UCCI_MEMORY_HOST};
    run(&args);
}

static const struct direct forms[] = {
    {"UCC", all_reduce, broadcast, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

const struct direct *direct_open(tutti_group *world)
{
    ucci_team_params params = {.mask = UCCI_TEAM_FIELD_EP | UCCI_TEAM_FIELD_EP_RANGE |
                                       UCCI_TEAM_FIELD_OOB,
                               .ep = (uint64_t)tutti_group_rank(world),
                               .ep_range = UCCI_EP_RANGE_CONTIG};
    ucci_status status;

    group = world;
    params.oob = oob();
    load();
    begin();
    check(ucc.team_create_post(&context, 1, &params, &team), "ucc_team_create_post");
    while ((status = ucc.team_create_test(team)) == UCCI_INPROGRESS)
        (void)ucc.context_progress(context);
    check(status, "ucc_team_create_test");
    return forms;
}

void direct_close(void)
{
    while (ucc.team_destroy(team) == UCCI_INPROGRESS)
        (void)ucc.context_progress(context);
    check(ucc.context_destroy(context), "ucc_context_destroy");
    check(ucc.finalize(lib), "ucc_finalize");
}
