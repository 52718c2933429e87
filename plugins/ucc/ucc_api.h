/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What tutti uses of UCC's C interface, major 1: numbers, layouts and functions, under names of our own.
 *
 * The library is opened at run time, so every build has the plugin and none needs UCC's headers.
 * ucc_check.c compares this file with <ucc/api/ucc.h> where the compiler finds it. Structures have the
 * size of the newest release that was looked at (1.9): an older library reads less of them, and `mask` says
 * which members hold something. They begin zeroed, always.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* ---- numbers -------------------------------------------------------------------------------- */

enum { UCCI_MAJOR = 1 }; /* of the interface; minors only append */

/* ucc_status_t: 0 and above is no error. */
typedef int32_t ucci_status;
enum {
    UCCI_OK = 0,
    UCCI_INPROGRESS = 1,
    UCCI_INITIALIZED = 2, /* of a request: it has not been posted */
    UCCI_ERR_NOT_SUPPORTED = -1,
    UCCI_ERR_NOT_IMPLEMENTED = -2,
    UCCI_ERR_INVALID_PARAM = -3,
    UCCI_ERR_NO_MEMORY = -4,
    UCCI_ERR_NO_RESOURCE = -5,
    UCCI_ERR_NO_MESSAGE = -6, /* no closer word for it */
    UCCI_ERR_NOT_FOUND = -7,
    UCCI_ERR_TIMED_OUT = -8,
    UCCI_ERR_IO_ERROR = -9
};

/* ucc_coll_type_t */
enum {
    UCCI_ALLGATHER = 1 << 0,
    UCCI_ALLGATHERV = 1 << 1,
    UCCI_ALLREDUCE = 1 << 2,
    UCCI_ALLTOALL = 1 << 3,
    UCCI_ALLTOALLV = 1 << 4,
    UCCI_BARRIER = 1 << 5,
    UCCI_BCAST = 1 << 6,
    UCCI_FANIN = 1 << 7,
    UCCI_FANOUT = 1 << 8,
    UCCI_GATHER = 1 << 9,
    UCCI_GATHERV = 1 << 10,
    UCCI_REDUCE = 1 << 11,
    UCCI_REDUCE_SCATTER = 1 << 12,
    UCCI_REDUCE_SCATTERV = 1 << 13,
    UCCI_SCATTER = 1 << 14,
    UCCI_SCATTERV = 1 << 15
};

/* ucc_datatype_t: the number of a type that the library knows, three bits to the left. */
#define UCCI_DATATYPE(number) ((uint64_t)(number) << 3)
#define UCCI_INT8 UCCI_DATATYPE(0)
#define UCCI_INT16 UCCI_DATATYPE(1)
#define UCCI_INT32 UCCI_DATATYPE(2)
#define UCCI_INT64 UCCI_DATATYPE(3)
#define UCCI_INT128 UCCI_DATATYPE(4)
#define UCCI_UINT8 UCCI_DATATYPE(5)
#define UCCI_UINT16 UCCI_DATATYPE(6)
#define UCCI_UINT32 UCCI_DATATYPE(7)
#define UCCI_UINT64 UCCI_DATATYPE(8)
#define UCCI_UINT128 UCCI_DATATYPE(9)
#define UCCI_FLOAT16 UCCI_DATATYPE(10)
#define UCCI_FLOAT32 UCCI_DATATYPE(11)
#define UCCI_FLOAT64 UCCI_DATATYPE(12)
#define UCCI_BFLOAT16 UCCI_DATATYPE(13)
#define UCCI_FLOAT32_COMPLEX UCCI_DATATYPE(15)
#define UCCI_FLOAT64_COMPLEX UCCI_DATATYPE(16)

/* ucc_reduction_op_t */
enum {
    UCCI_SUM = 0,
    UCCI_PROD = 1,
    UCCI_MAX = 2,
    UCCI_MIN = 3,
    UCCI_LAND = 4,
    UCCI_LOR = 5,
    UCCI_LXOR = 6,
    UCCI_BAND = 7,
    UCCI_BOR = 8,
    UCCI_BXOR = 9,
    UCCI_AVG = 12
};

enum { UCCI_MEMORY_HOST = 0, UCCI_MEMORY_CUDA = 1 };                         /* ucc_memory_type_t */
enum { UCCI_THREAD_SINGLE = 0, UCCI_THREAD_FUNNELED, UCCI_THREAD_MULTIPLE }; /* ucc_thread_mode_t */
enum { UCCI_CONTEXT_EXCLUSIVE = 0, UCCI_CONTEXT_SHARED = 1 }; /* ucc_context_type_t */
enum { UCCI_EP_RANGE_CONTIG = 0 };                            /* ucc_ep_range_type_t */
enum { UCCI_EP_MAP_FULL = 1, UCCI_EP_MAP_STRIDED, UCCI_EP_MAP_ARRAY, UCCI_EP_MAP_CB };

/* Bits of ucci_coll_args.flags: ucc_coll_args_flags_t. */
enum {
    UCCI_FLAG_IN_PLACE = 1 << 0,
    UCCI_FLAG_COUNT_64BIT = 1 << 2,
    UCCI_FLAG_DISPLACEMENTS_64BIT = 1 << 3,
    UCCI_FLAG_CONTIG_SRC_BUFFER = 1 << 4,
    UCCI_FLAG_CONTIG_DST_BUFFER = 1 << 5
};

/* Bits of the masks: which members of a structure hold something. */
enum {
    UCCI_LIB_FIELD_THREAD_MODE = 1 << 0, /* ucci_lib_params and ucci_lib_attr */
    UCCI_CONTEXT_FIELD_TYPE = 1 << 0,    /* ucci_context_params */
    UCCI_CONTEXT_FIELD_OOB = 1 << 2,
    UCCI_CONTEXT_FIELD_ID = 1 << 3,
    UCCI_CONTEXT_ATTR_ADDRESS = 1 << 2, /* ucci_context_attr */
    UCCI_CONTEXT_ATTR_ADDRESS_LEN = 1 << 3,
    UCCI_TEAM_FIELD_EP = 1 << 2, /* ucci_team_params */
    UCCI_TEAM_FIELD_EP_RANGE = 1 << 4,
    UCCI_TEAM_FIELD_SIZE = 1 << 5,
    UCCI_TEAM_FIELD_OOB = 1 << 7,
    UCCI_TEAM_FIELD_EP_MAP = 1 << 10,
    UCCI_TEAM_FIELD_ID = 1 << 11,
    UCCI_ARGS_FIELD_FLAGS = 1 << 0 /* ucci_coll_args */
};

/* ---- layouts -------------------------------------------------------------------------------- */

typedef struct ucci_lib *ucci_lib_h; /* the library's own, all of these */
typedef struct ucci_lib_config *ucci_lib_config_h;
typedef struct ucci_context *ucci_context_h;
typedef struct ucci_context_config *ucci_context_config_h;
typedef struct ucci_team *ucci_team_h;

/* An operation. The library shows its status here, and has no function to ask for it. */
typedef struct ucci_request {
    ucci_status status;
} ucci_request;

typedef struct ucci_lib_params {
    uint64_t mask;
    uint32_t thread_mode;
    uint64_t coll_types;
    uint64_t reduction_types;
    uint32_t sync_type;
} ucci_lib_params;

typedef ucci_lib_params ucci_lib_attr; /* the same members, filled by the library */

/* All-gathers that the caller does for the library, from inside its functions that make contexts and teams; an error
 * of req_test ends what the library was doing. */
typedef struct ucci_oob {
    ucci_status (*allgather)(void *source, void *ret_all, size_t bytes, void *info,
                             void **ret_request);
    ucci_status (*req_test)(void *request);
    ucci_status (*req_free)(void *request);
    void *info;
    uint32_t members; /* how many take part */
    uint32_t place;   /* of this process among them: where its bytes go in ret_all */
} ucci_oob;

typedef struct ucci_memory_map {
    void *segments;
    uint64_t count;
} ucci_memory_map;

typedef struct ucci_context_params {
    uint64_t mask;
    uint32_t type;
    uint32_t sync_type;
    ucci_oob oob;
    uint64_t id;
    ucci_memory_map memory;
} ucci_context_params;

typedef struct ucci_context_attr {
    uint64_t mask;
    uint32_t type;
    uint32_t sync_type;
    void *address;
    size_t address_len;
    uint64_t work_buffer_size;
} ucci_context_attr;

/* Which member of the context each member of a team is. */
typedef struct ucci_ep_map {
    uint32_t type; /* UCCI_EP_MAP_… */
    uint64_t count;
    union {
        struct {
            uint64_t start;
            int64_t stride;
        } strided;
        struct {
            void *map;
            size_t element_bytes;
        } array;
        struct {
            uint64_t (*function)(uint64_t ep, void *self);
            void *self;
        } callback;
    } by;
} ucci_ep_map;

typedef struct ucci_team_params {
    uint64_t mask;
    uint64_t flags;
    uint32_t ordering;
    uint64_t outstanding;
    uint64_t ep; /* this process's place in the team */
    uint64_t *ep_list;
    uint32_t ep_range;
    uint64_t size;
    uint32_t sync_type;
    ucci_oob oob;
    void *connections[5]; /* ucc_team_p2p_conn_t, not used */
    ucci_memory_map memory;
    ucci_ep_map ep_map;
    uint64_t id;
} ucci_team_params;

typedef struct ucci_buffer {
    void *buffer;
    uint64_t count; /* elements */
    uint64_t datatype;
    uint32_t memory; /* UCCI_MEMORY_… */
} ucci_buffer;

/* One block for each member. The arrays hold uint32_t unless the flags say 64 bits. */
typedef struct ucci_buffer_v {
    void *buffer;
    uint64_t *counts;
    uint64_t *displacements;
    uint64_t datatype;
    uint32_t memory;
} ucci_buffer_v;

typedef union ucci_side {
    ucci_buffer even;
    ucci_buffer_v uneven;
} ucci_side;

typedef struct ucci_coll_args {
    uint64_t mask;
    uint32_t coll_type;
    ucci_side src;
    ucci_side dst;
    uint32_t op;
    uint64_t flags;
    uint64_t root;
    uint32_t error_type;
    uint16_t tag;
    void *global_work_buffer;
    struct {
        void (*function)(void *self, ucci_status status);
        void *self;
    } callback;
    double timeout;
    struct {
        uint64_t start;
        int64_t stride;
        uint64_t size;
    } active_set;
    void *src_memory; /* both since 1.5 or so: an older library does not look at them */
    void *dst_memory;
} ucci_coll_args;

/* ---- functions ------------------------------------------------------------------------------ */

/* X(result, name without ucc_, parameters): all that the plugin looks up. */
#define UCCI_FUNCTIONS(X)                                                                          \
    X(void, get_version, (unsigned *major, unsigned *minor, unsigned *release))                    \
    X(const char *, get_version_string, (void))                                                    \
    X(const char *, status_string, (ucci_status status))                                           \
    X(ucci_status, lib_config_read,                                                                \
      (const char *prefix, const char *file, ucci_lib_config_h *ret_config))                       \
    X(ucci_status, lib_config_modify,                                                              \
      (ucci_lib_config_h config, const char *name, const char *value))                             \
    X(void, lib_config_release, (ucci_lib_config_h config))                                        \
    X(ucci_status, init_version,                                                                   \
      (unsigned major, unsigned minor, const ucci_lib_params *params, ucci_lib_config_h config,    \
       ucci_lib_h *ret_lib))                                                                       \
    X(ucci_status, lib_get_attr, (ucci_lib_h lib, ucci_lib_attr * ret_attr))                       \
    X(ucci_status, finalize, (ucci_lib_h lib))                                                     \
    X(ucci_status, context_config_read,                                                            \
      (ucci_lib_h lib, const char *file, ucci_context_config_h *ret_config))                       \
    X(void, context_config_release, (ucci_context_config_h config))                                \
    X(ucci_status, context_create,                                                                 \
      (ucci_lib_h lib, const ucci_context_params *params, ucci_context_config_h config,            \
       ucci_context_h *ret_context))                                                               \
    X(ucci_status, context_progress, (ucci_context_h context))                                     \
    X(ucci_status, context_destroy, (ucci_context_h context))                                      \
    X(ucci_status, team_create_post,                                                               \
      (ucci_context_h * contexts, uint32_t count, const ucci_team_params *params,                  \
       ucci_team_h *ret_team))                                                                     \
    X(ucci_status, team_create_test, (ucci_team_h team))                                           \
    X(ucci_status, team_destroy, (ucci_team_h team))                                               \
    X(ucci_status, collective_init,                                                                \
      (ucci_coll_args * args, ucci_request * *ret_request, ucci_team_h team))                      \
    X(ucci_status, collective_post, (ucci_request * request))                                      \
    X(ucci_status, collective_finalize, (ucci_request * request))
#define UCCI_OPTIONAL_FUNCTIONS(X)                                                                 \
    X(ucci_status, context_config_modify,                                                          \
      (ucci_context_config_h config, const char *component, const char *name, const char *value))
