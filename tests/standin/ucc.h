/* SPDX-License-Identifier: Apache-2.0 */
/* The inside of the stand-in for UCC; ucc.c says what it is. */
#pragma once

#include "ucc/ucc_api.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/types.h>

/* What plugins look up; exported, since the tree hides symbols by default. */
#define EXPORTED(result, name, params)                                                             \
    __attribute__((visibility("default"))) result ucc_##name params;
UCCI_FUNCTIONS(EXPORTED)
UCCI_OPTIONAL_FUNCTIONS(EXPORTED)
#undef EXPORTED

/* Asked about each line before it is written: 0 keeps it from the others and from the file. */
typedef int log_handler(const char *file, unsigned line, const char *function, int level,
                        const void *component, const char *format, va_list values);
__attribute__((visibility("default"))) void ucc_log_push_handler(log_handler *handler);

enum {
    MEMBERS_MAX = 64,
    SOCKETS_MAX = 8,
    RING_BYTES = 64 << 10,
    FRAME_BYTES = 16 << 10,
    SPOILT_BYTES = 4 << 10
};

/* ---- faults (ucc.c) ------------------------------------------------------------------------- */

struct faults {
    bool f16_waits;
    int late_ms;
    uint32_t never;      /* UCCI_…, a bit of each operation that does not end; 0 for none */
    unsigned never_from; /* from this one of its kind on */
    char fails[16];      /* "context", "team", "post", "operation" or nothing */
    unsigned says;       /* lines at the creation of a context */
    bool third_round;    /* of a context's all-gathers */
    bool one_thread;     /* no more is granted */
    int only;            /* this member of the context alone; -1 for all */
};

/* Those of the process; member -1 gives what holds for all. */
const struct faults *faults_of(int member);

/* A line as UCC writes it, on stdout or where UCC_LOG_FILE says, if UCC_LOG_LEVEL shows the level. */
void ucc_say(const char *level, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* What is undefined in UCC: says so on stderr and ends the process. */
_Noreturn void misused(const char *format, ...) __attribute__((format(printf, 1, 2)));
uint64_t now_ns(void);

struct ucci_lib_config {
    int unused;
};
struct ucci_context_config {
    int unused;
};
struct ucci_lib {
    uint32_t threads;
};

/* ---- frames between the members of a context (ucc_ring.c) ----------------------------------- */

/* Bytes from one member to another. `written` and `read` count all bytes that there ever were. */
struct ring {
    _Alignas(64) _Atomic uint64_t written;
    _Alignas(64) _Atomic uint64_t read;
    _Alignas(64) uint8_t data[RING_BYTES];
};

struct frame {
    uint64_t team;
    uint32_t sequence; /* of the operation in the team */
    uint16_t phase;
    uint16_t bytes; /* which follow; the next of the bytes from this member in this phase */
};

/* The rings into one member, of which the last word of a process says where they are. */
struct address {
    pid_t pid;
    int fd;
    uint64_t bytes;
};

/* Makes the rings into this process: one for each member. False if there is no memory for it. */
bool rings_make(size_t members, struct ring **ret_rings, struct address *ret_address);
/* Maps those of another process; of one that has died, some that nobody reads. */
bool rings_map(const struct address *address, struct ring **ret_rings);
void rings_unmap(struct ring *rings, size_t members);
/* Writes one frame with up to `bytes` of `data`. Returns how many, 0 when there is no room. */
size_t ring_write(struct ring *ring, struct frame frame, const void *data, size_t bytes);
bool ring_peek(struct ring *ring, struct frame *ret_frame);
/* Takes the frame that ring_peek() told, and its bytes, of which the first `room` go to `to`. */
void ring_take(struct ring *ring, const struct frame *frame, void *to, size_t room);

/* ---- contexts and teams (ucc_context.c) ----------------------------------------------------- */

struct early { /* a frame of an operation that this process has not posted yet */
    struct early *next;
    size_t from;
    struct frame frame;
    uint8_t data[];
};

struct ucci_context {
    pthread_mutex_t lock; /* of all below, and of the teams */
    bool many_threads;
    ucci_oob oob; /* members 1 if there is none */
    const struct faults *faults;
    struct address *addresses;
    int fd;              /* of the rings into this process */
    struct ring **rings; /* by member: those into it */
    int sockets[SOCKETS_MAX];
    size_t socket_count;
    struct operation *first, *last;
    struct early *early, **early_end;
    uint32_t teams_made, teams_alive;
};

struct ucci_team {
    struct ucci_context *context;
    uint64_t id;
    uint32_t size, place;
    uint32_t *members; /* of the context */
    bool active;
    ucci_oob oob;
    struct introduction *introductions; /* of the members, while they are gathered */
    void *request;
    uint32_t sequence;
    unsigned kinds[16]; /* how many operations of each kind there were */
    unsigned pending;
};

/* Those of UCX's tcp, if the environment does not leave that out (ucc_sockets.c). Nothing is sent through them. */
void sockets_open(struct ucci_context *context);
/* Once the members know each other. */
void sockets_connect(struct ucci_context *context);
void sockets_close(struct ucci_context *context);

/* The context's lock. Two threads at once where that was not granted are a misuse. */
void context_enter(struct ucci_context *context);
void context_leave(struct ucci_context *context);

/* ---- operations (ucc_collective.c) ---------------------------------------------------------- */

/* What goes to or comes from one member in one phase. */
struct part {
    uint8_t *at;
    size_t bytes, done;
};

enum { PHASES = 2 };

struct operation {
    ucci_request request; /* first: what the caller has */
    struct operation *next;
    struct ucci_team *team;
    ucci_coll_args args;
    uint32_t sequence;
    bool empty;
    int phase;
    struct part *sends[PHASES], *receives[PHASES]; /* by place in the team */
    /* After phase 0, `into` becomes the reduction of the members' parts of `count` elements. */
    uint8_t *scratch;
    const uint8_t *own;
    uint8_t *into;
    size_t count;
    bool spoilt;  /* no such reduction: the result is wrong, or never there */
    bool endless; /* its status never changes */
    ucci_status end;
    uint64_t ready_ns; /* its status changes then; 0: it has not ended */
};

/* Looks for frames, sends what there is room for, and ends what is complete. */
void operations_advance(struct ucci_context *context);

void operation_free(struct operation *operation);

/* The plan of an operation: fills the parts and what is reduced (ucc_plan.c). */
ucci_status operation_plan(struct operation *operation);
/* Of the side that this member's buffer is on. */
uint64_t operation_datatype(const ucci_coll_args *args, size_t me);

/* ---- reductions (ucc_reduce.c) -------------------------------------------------------------- */

size_t datatype_bytes(uint64_t datatype);
bool reduces(uint64_t datatype, uint32_t op);
/* sources[0] op sources[1] op …, element by element, as the CPU's code in UCC. `into` may be a source. */
void reduce(uint64_t datatype, uint32_t op, void *into, const void *const *sources, size_t members,
            size_t count);
