/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCX as a program calls it: the tag interface of UCP, by the library that tutti's plugin has opened, with the same
 * TUTTI_UCX_... and a context of its own. UCX has no collectives. The second form has the generic datatype by
 * which the plugin sends long payloads, and says what that costs.
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ucp/api/ucp.h>

#include "direct.h"

const char direct_backend[] = "ucx";

enum { ADDRESS_MAX = 8192 };

#define UCX_FUNCTIONS(X)                                                                           \
    X(ucp_config_read)                                                                             \
    X(ucp_config_modify)                                                                           \
    X(ucp_config_release)                                                                          \
    X(ucp_init_version)                                                                            \
    X(ucp_cleanup)                                                                                 \
    X(ucp_worker_create)                                                                           \
    X(ucp_worker_get_address)                                                                      \
    X(ucp_worker_release_address)                                                                  \
    X(ucp_worker_progress)                                                                         \
    X(ucp_worker_destroy)                                                                          \
    X(ucp_ep_create)                                                                               \
    X(ucp_ep_close_nbx)                                                                            \
    X(ucp_dt_create_generic)                                                                       \
    X(ucp_dt_destroy)                                                                              \
    X(ucp_tag_send_nbx)                                                                            \
    X(ucp_tag_recv_nbx)                                                                            \
    X(ucp_request_check_status)                                                                    \
    X(ucp_request_free)                                                                            \
    X(ucs_status_string)

#define MEMBER(function) __typeof__(function) *function;
static struct {
    UCX_FUNCTIONS(MEMBER)
} ucx;

static tutti_group *group;
static ucp_context_h context;
static ucp_worker_h worker;
static ucp_ep_h ep; /* of ranks 0 and 1, to the other */
static ucp_datatype_t generic;

static void check(ucs_status_t status, const char *what)
{
    if (status == UCS_OK)
        return;
    fprintf(stderr, "%s failed: %s\n", what, ucx.ucs_status_string(status));
    exit(1);
}

/* tutti has opened it, under conditions that plugins/ucx/library.c states. */
static void load(void)
{
    void *handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);

#define FIND(function)                                                                             \
    {                                                                                              \
        void *address = handle ? dlsym(handle, #function) : NULL;                                  \
                                                                                                   \
        if (!address) {                                                                            \
            fprintf(stderr, "no " #function "\n");                                                 \
            exit(1);                                                                               \
        }                                                                                          \
        memcpy(&ucx.function, &address, sizeof address);                                           \
    }
    UCX_FUNCTIONS(FIND)
}

/* The plugin takes the interface of the route to the rendezvous, which is "lo" for the ranks of one host. */
static void set(ucp_config_t *config)
{
    static const char prefix[] = "TUTTI_UCX_";

    check(ucx.ucp_config_modify(config, "NET_DEVICES", "lo"), "NET_DEVICES=lo");
    for (char **at = environ; *at; at++) {
        char name[64];
        const char *value = strchr(*at, '=');

        if (!value || !value[1] || strncmp(*at, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(name, sizeof name, "%.*s", (int)(value - *at - (long)strlen(prefix)),
                 *at + strlen(prefix));
        check(ucx.ucp_config_modify(config, name, value + 1), *at);
    }
}

static void begin(void)
{
    const ucp_params_t params = {.field_mask = UCP_PARAM_FIELD_FEATURES,
                                 .features = UCP_FEATURE_TAG};
    const ucp_worker_params_t of_worker = {.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE,
                                           .thread_mode = UCS_THREAD_MODE_SINGLE};
    ucp_config_t *config;

    check(ucx.ucp_config_read(NULL, NULL, &config), "ucp_config_read");
    set(config);
    check(ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context),
          "ucp_init");
    ucx.ucp_config_release(config);
    check(ucx.ucp_worker_create(context, &of_worker, &worker), "ucp_worker_create");
}

/* Every member's address, in ADDRESS_MAX bytes each, for the caller to free. */
static uint8_t *gather_addresses(void)
{
    const size_t all_bytes = (size_t)tutti_group_size(group) * ADDRESS_MAX;
    uint8_t own[ADDRESS_MAX] = {0}, *all = malloc(all_bytes);
    int64_t shapes[2];
    ucp_address_t *address;
    size_t bytes;

    check(ucx.ucp_worker_get_address(worker, &address, &bytes), "ucp_worker_get_address");
    const tutti_tensor in = tutti_tensor_1d(own, TUTTI_U8, &shapes[0], ADDRESS_MAX);
    const tutti_tensor out = tutti_tensor_1d(all, TUTTI_U8, &shapes[1], (int64_t)all_bytes);
    if (!all || bytes > ADDRESS_MAX) {
        fprintf(stderr, "no memory for addresses of %zu bytes\n", bytes);
        exit(1);
    }
    memcpy(own, address, bytes);
    ucx.ucp_worker_release_address(worker, address);
    if (tutti_all_gather(group, &in, &out, NULL, NULL)) {
        fprintf(stderr, "%s\n", tutti_last_error());
        exit(1);
    }
    return all;
}

static void connect_pair(void)
{
    const int rank = tutti_group_rank(group);
    uint8_t *all = gather_addresses();
    const ucp_ep_params_t params = {.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS,
                                    .address = (ucp_address_t *)(all + (rank == 0) * ADDRESS_MAX)};

    if (rank < 2)
        check(ucx.ucp_ep_create(worker, &params, &ep), "ucp_ep_create");
    free(all);
}

/* ---- messages ---------------------------------------------------------------------------------- */

static void finish(ucs_status_ptr_t request, const char *what)
{
    ucs_status_t status = UCS_PTR_STATUS(request);

    if (UCS_PTR_IS_PTR(request)) {
        while ((status = ucx.ucp_request_check_status(request)) == UCS_INPROGRESS)
            ucx.ucp_worker_progress(worker);
        ucx.ucp_request_free(request);
    }
    check(status, what);
}

static void send_contiguous(const float *data, size_t count, int to)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};

    (void)to;
    finish(ucx.ucp_tag_send_nbx(ep, data, count * sizeof *data, 0, &param), "ucp_tag_send_nbx");
}

static void recv_contiguous(float *data, size_t count, int from)
{
    const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                       .memory_type = UCS_MEMORY_TYPE_HOST};

    (void)from;
    finish(ucx.ucp_tag_recv_nbx(worker, data, count * sizeof *data, 0, UINT64_MAX, &param),
           "ucp_tag_recv_nbx");
}

/* ---- messages of the generic datatype ---------------------------------------------------------- */

struct vector {
    uint8_t *data;
    size_t bytes;
};

static void *start_pack(void *user, const void *vector, size_t count)
{
    (void)user;
    (void)count;
    return (void *)(uintptr_t)vector;
}

static void *start_unpack(void *user, void *vector, size_t count)
{
    (void)user;
    (void)count;
    return vector;
}

static size_t packed_size(void *of)
{
    const struct vector *vector = of;

    return vector->bytes;
}

static size_t pack(void *of, size_t offset, void *to, size_t capacity)
{
    const struct vector *vector = of;
    const size_t left = vector->bytes - offset, bytes = left < capacity ? left : capacity;

    memcpy(to, vector->data + offset, bytes);
    return bytes;
}

static ucs_status_t unpack(void *of, size_t offset, const void *from, size_t bytes)
{
    const struct vector *vector = of;

    memcpy(vector->data + offset, from, bytes);
    return UCS_OK;
}

static void finish_vector(void *of)
{
    (void)of;
}

static const ucp_generic_dt_ops_t functions = {.start_pack = start_pack,
                                               .start_unpack = start_unpack,
                                               .packed_size = packed_size,
                                               .pack = pack,
                                               .unpack = unpack,
                                               .finish = finish_vector};

static ucp_request_param_t generic_param(void)
{
    return (ucp_request_param_t){.op_attr_mask =
                                     UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE,
                                 .datatype = generic,
                                 .memory_type = UCS_MEMORY_TYPE_HOST};
}

static void send_generic(const float *data, size_t count, int to)
{
    const struct vector vector = {(uint8_t *)(uintptr_t)data, count * sizeof *data};
    const ucp_request_param_t param = generic_param();

    (void)to;
    finish(ucx.ucp_tag_send_nbx(ep, &vector, 1, 0, &param), "ucp_tag_send_nbx");
}

static void recv_generic(float *data, size_t count, int from)
{
    struct vector vector = {(uint8_t *)data, count * sizeof *data};
    const ucp_request_param_t param = generic_param();

    (void)from;
    finish(ucx.ucp_tag_recv_nbx(worker, &vector, 1, 0, UINT64_MAX, &param), "ucp_tag_recv_nbx");
}

static const struct direct forms[] = {
    {"UCP", NULL, NULL, send_contiguous, recv_contiguous},
    {"UCP, generic", NULL, NULL, send_generic, recv_generic},
    {NULL, NULL, NULL, NULL, NULL},
};

/* ---- the whole --------------------------------------------------------------------------------- */

const struct direct *direct_open(tutti_group *world)
{
    group = world;
    load();
    begin();
    check(ucx.ucp_dt_create_generic(&functions, NULL, &generic), "ucp_dt_create_generic");
    connect_pair();
    return forms;
}

/* What is sent has been received by now. No member closes while another one still connects. */
void direct_close(void)
{
    const ucp_request_param_t param = {.op_attr_mask = 0};

    if (ep)
        finish(ucx.ucp_ep_close_nbx(ep, &param), "ucp_ep_close_nbx");
    if (tutti_barrier(group, NULL, NULL)) {
        fprintf(stderr, "%s\n", tutti_last_error());
        exit(1);
    }
    ucx.ucp_dt_destroy(generic);
    ucx.ucp_worker_destroy(worker);
    ucx.ucp_cleanup(context);
}
