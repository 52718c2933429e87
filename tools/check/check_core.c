/* SPDX-License-Identifier: Apache-2.0 */
#include "check/check_core.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "check/plain_host.h"

enum {
    ADDRESS_MAX = 64 << 10,
    PAUSE_US = 50,
    REPORTS = 4,
    FENCE = 4096, /* a page */
    CANARY_BYTES = 64,
    CANARY = 0xc9,
    PREPARED = 0xa5,
    TAKEN_BACK = 0x96
};

/* ---- host services --------------------------------------------------------------------------- */

static void host_log(void *self, int32_t level, const char *words)
{
    (void)self;
    fprintf(stderr, "log %d: %s\n", level, words);
}

/* Ends where a page ends; the page before it has its length, and nothing is behind it. */
static void *allocate_fenced(uint64_t bytes)
{
    const uint64_t room = (MAX(bytes, 1) + 15) / 16 * 16;
    const uint64_t all = (room + FENCE - 1) / FENCE * FENCE + 2 * FENCE;
    uint8_t *base = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (base == MAP_FAILED)
        return NULL;
    memcpy(base, &all, sizeof all);
    mprotect(base + all - FENCE, FENCE, PROT_NONE);
    return base + all - FENCE - room;
}

/* The addresses are not used again. */
static void release_fenced(void *memory)
{
    uint8_t *base = (uint8_t *)memory - (uintptr_t)memory % FENCE - FENCE;
    uint64_t all;

    memcpy(&all, base, sizeof all);
    mprotect(base, all, PROT_NONE);
}

/* All that the host has given out in this process; a plugin may ask from any thread. */
static GMutex given_lock;
static GHashTable *given;

static void remember_given(void *memory)
{
    g_mutex_lock(&given_lock);
    given = given ? given : g_hash_table_new(NULL, NULL);
    g_hash_table_add(given, memory);
    g_mutex_unlock(&given_lock);
}

static void expect_given(void *memory)
{
    g_mutex_lock(&given_lock);
    const bool was_given = given && g_hash_table_remove(given, memory);
    g_mutex_unlock(&given_lock);
    if (!was_given)
        check_fails(
            "it gives tutti_host.release() memory that is none of tutti_host.allocate(), or is "
            "released already");
}

static void *host_allocate(void *self, uint64_t bytes)
{
    struct core *core = self;
    void *memory = core->fenced ? allocate_fenced(bytes) : calloc(1, bytes ? bytes : 1);

    if (!memory)
        return NULL;
    remember_given(memory);
    core->pieces++;
    return memory;
}

static void host_release(void *self, void *memory)
{
    struct core *core = self;

    if (!memory)
        return;
    expect_given(memory);
    core->pieces--;
    if (core->fenced)
        release_fenced(memory);
    else
        plain_release(self, memory);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    struct core *core = self;

    snprintf(core->words, sizeof core->words, "%s%s%s", words ? words : "(no words)",
             system_errno ? ": " : "", system_errno ? strerror(system_errno) : "");
    return status;
}

static void host_peer_lost(void *self, uint64_t label, const char *words)
{
    struct core *core = self;

    if (label != CORE_LABEL + (uint64_t)(1 - core->index))
        check_fails("it calls peer_lost() with the label %llu, which is that of no peer",
                    (unsigned long long)label);
    core->times_lost++;
    host_log(self, 2, words ? words : "");
}

static tutti_status host_reduce_local(void *self, uint32_t dtype, int32_t op, void *dst,
                                      const void *a, const void *b, uint64_t count)
{
    (void)dtype;
    (void)op;
    (void)dst;
    (void)a;
    (void)b;
    (void)count;
    return host_error(self, TUTTI_ERR_UNSUPPORTED, 0, "nothing is reduced here");
}

static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    const struct core *core = self;

    plain_mac(core->token, data, bytes, ret_mac);
    return TUTTI_OK;
}

static const tutti_host services = {
    .struct_size = sizeof(tutti_host),
    .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
    .log = host_log,
    .now_ns = plain_now_ns,
    .allocate = host_allocate,
    .release = host_release,
    .config = plain_config,
    .error = host_error,
    .share_start = core_share_start,
    .share_test = core_share_test,
    .wake_mate = core_wake_mate,
    .peer_lost = host_peer_lost,
    .reduce_local = host_reduce_local,
    .mac = host_mac,
    .gather_start = core_gather_start,
    .gather_test = core_gather_test,
};

/* ---- endpoint and peer ----------------------------------------------------------------------- */

const char *core_says(const struct core *core, tutti_status status)
{
    static char text[640];

    if (core->words[0])
        snprintf(text, sizeof text, "%s (%s)", tutti_status_name(status), core->words);
    else
        snprintf(text, sizeof text, "%s, without a message", tutti_status_name(status));
    return text;
}

static void open_endpoint(struct core *core, const tutti_transport_ops *ops, int index)
{
    tutti_endpoint_options options = {.struct_size = sizeof options,
                                      .rank = index,
                                      .bind_address = "127.0.0.1",
                                      .run_id = "check",
                                      .size = 2};
    const uint8_t token = core->token ? core->token : CORE_TOKEN;

    *core = (struct core){.ops = ops,
                          .host = services,
                          .index = index,
                          .token = token,
                          .fenced = core->fenced,
                          .local = {core}};
    memset(options.token, token, sizeof options.token);
    check_doing("opening an endpoint");
    check_enters("open");
    tutti_status status = ops->open(&core->host, core, &options, &core->endpoint);
    check_leaves();
    if (status)
        check_fails("open says %s", core_says(core, status));
}

void core_open_alone(struct core *core, const tutti_transport_ops *ops)
{
    open_endpoint(core, ops, 0);
}

static void give_address(struct core *core)
{
    static uint8_t address[ADDRESS_MAX];
    uint64_t bytes = 0;

    check_enters("address");
    tutti_status status = core->ops->address(core->endpoint, address, sizeof address, &bytes);
    check_leaves();
    if (status || bytes > sizeof address)
        check_fails("address says %s, %llu bytes", core_says(core, status),
                    (unsigned long long)bytes);
    check_give(address, bytes);
}

void core_open(struct core *core, const struct check_member *member)
{
    open_endpoint(core, check_transport(member->subject), member->index);
    give_address(core);
}

tutti_status core_connect(struct core *core, const void *address, uint64_t bytes)
{
    check_doing("connecting");
    check_enters("connect");
    tutti_status status = core->ops->connect(core->endpoint, address, bytes,
                                             CORE_LABEL + (uint64_t)(1 - core->index), &core->peer);
    check_leaves();
    return status;
}

/* The other's address is given. */
static void join(struct core *core)
{
    uint64_t bytes;

    check_meet();
    const uint8_t *address = check_take(1 - core->index, &bytes);
    tutti_status status = core_connect(core, address, bytes);
    if (status)
        check_fails("connect says %s", core_says(core, status));
    if (core_maps(core))
        core_map(core, CORE_MAP_BYTES, &core->memory);
}

void core_start(struct core *core, const struct check_member *member)
{
    core_open(core, member);
    join(core);
}

/* Both are open before either knows a peer. */
void core_start_two(struct core cores[2], const struct check_member *member)
{
    for (int i = 0; i < 2; i++) {
        cores[i].token = (uint8_t)(CORE_TOKEN + i);
        open_endpoint(&cores[i], check_transport(member->subject), member->index);
    }
    for (int i = 0; i < 2; i++) {
        give_address(&cores[i]);
        join(&cores[i]);
        check_meet(); /* nobody reads the address any more */
    }
}

bool core_maps(const struct core *core)
{
    return core->ops->capabilities & TUTTI_CAP_MAP;
}

void core_map(struct core *core, uint64_t bytes, struct core_memory *ret_memory)
{
    struct check_time time = check_time_of(CORE_WAIT_MS);
    tutti_peer *const peers[CORE_MEMBERS] = {core->index ? core->peer : NULL,
                                             core->index ? NULL : core->peer};
    struct core_memory memory = {.bytes = bytes};
    void *bases[CORE_MEMBERS] = {NULL};
    tutti_status status;

    check_doing("mapping %llu bytes of each process", (unsigned long long)bytes);
    check_enters("map_start");
    status = core->ops->map_start(core->endpoint, &core->local, peers, CORE_MEMBERS,
                                  (uint32_t)core->index, bytes, &memory.map);
    check_leaves();
    if (status)
        check_fails("map_start says %s", core_says(core, status));
    while ((status = core->ops->map_test(core->endpoint, memory.map, bases)) ==
           TUTTI_ERR_NOT_READY) {
        if (!check_time_is_left(&time))
            check_fails("map_test says TUTTI_ERR_NOT_READY for %d s, while the other side maps too",
                        CORE_WAIT_MS / 1000);
        g_usleep(PAUSE_US);
    }
    if (status)
        check_fails("map_test says %s", core_says(core, status));
    memcpy(memory.bases, bases, sizeof bases);
    *ret_memory = memory;
}

void core_close(struct core *core)
{
    if (core->memory.map) {
        check_doing("unmapping memory");
        core->ops->map_close(core->endpoint, core->memory.map);
    }
    check_doing("closing the endpoint%s",
                core->fenced ? ", where memory that it has released is gone" : "");
    check_enters("close");
    core->ops->close(core->endpoint);
    check_leaves();
    check_doing("ending");
}

/* ---- requests -------------------------------------------------------------------------------- */

static void prepare(struct transfer *transfer)
{
    memset(transfer, PREPARED, sizeof *transfer); /* nothing may depend on what was there */
    transfer->reported = 0;
    transfer->at_once = transfer->cancelled = false;
    transfer->request.user = transfer;
}

tutti_status core_try_send(struct core *core, const void *data, uint64_t bytes, uint32_t flags,
                           struct transfer *ret_transfer)
{
    prepare(ret_transfer);
    check_enters("isend");
    tutti_status status = core->ops->isend(core->endpoint, core->peer, core->lane, data, bytes,
                                           flags, &ret_transfer->request);
    check_leaves();
    ret_transfer->at_once = !status && ret_transfer->request.status != TUTTI_ERR_NOT_READY;
    return status;
}

void core_send(struct core *core, const void *data, uint64_t bytes, uint32_t flags,
               struct transfer *ret_transfer)
{
    struct check_time time = check_time_of(CORE_WAIT_MS);
    tutti_status status;

    while ((status = core_try_send(core, data, bytes, flags, ret_transfer)) == TUTTI_ERR_BUSY) {
        if (!check_time_is_left(&time))
            check_fails("isend says TUTTI_ERR_BUSY for %d s, while the other side receives",
                        CORE_WAIT_MS / 1000);
        core_turn(core, NULL, 0);
        g_usleep(PAUSE_US);
    }
    if (status)
        check_fails("isend says %s", core_says(core, status));
}

tutti_status core_try_receive(struct core *core, void *data, uint64_t capacity,
                              struct transfer *ret_transfer)
{
    struct check_time time = check_time_of(CORE_WAIT_MS);
    tutti_status status;

    for (;;) {
        prepare(ret_transfer);
        check_enters("irecv");
        status = core->ops->irecv(core->endpoint, core->peer, core->lane, data, capacity,
                                  &ret_transfer->request);
        check_leaves();
        if (status != TUTTI_ERR_BUSY || !check_time_is_left(&time))
            break;
        core_turn(core, NULL, 0);
        g_usleep(PAUSE_US);
    }
    ret_transfer->at_once = !status && ret_transfer->request.status != TUTTI_ERR_NOT_READY;
    return status;
}

void core_receive(struct core *core, void *data, uint64_t capacity, struct transfer *ret_transfer)
{
    const tutti_status status = core_try_receive(core, data, capacity, ret_transfer);

    if (status == TUTTI_ERR_BUSY)
        check_fails("irecv says TUTTI_ERR_BUSY for %d s", CORE_WAIT_MS / 1000);
    if (status)
        check_fails("irecv says %s", core_says(core, status));
}

void core_turn(struct core *core, struct transfer *const *transfers, int count)
{
    tutti_request *done[REPORTS];

    if (!TUTTI_HAS(core->ops, progress)) {
        check_enters("test");
        for (int i = 0; i < count; i++)
            if (transfers[i]->request.status == TUTTI_ERR_NOT_READY)
                core->ops->test(core->endpoint, &transfers[i]->request);
        check_leaves();
        return;
    }
    check_enters("progress");
    uint32_t n = core->ops->progress(core->endpoint, done, REPORTS);
    check_leaves();
    if (n > REPORTS)
        check_fails("progress reports %u requests where %d have room", n, REPORTS);
    for (uint32_t i = 0; i < n; i++) {
        struct transfer *transfer = done[i]->user;

        if (transfer->cancelled)
            check_fails("progress reports a request after cancel() of it has returned");
        if (done[i]->status == TUTTI_ERR_NOT_READY)
            check_fails("progress reports a request that is not complete");
        if (transfer->at_once)
            check_fails("progress reports a request that was complete when it was posted");
        if (++transfer->reported > 1)
            check_fails("progress reports a request twice");
    }
}

/* A request belongs to a transport with `progress` until that has reported it. */
bool core_is_over(const struct core *core, const struct transfer *transfer)
{
    if (transfer->request.status == TUTTI_ERR_NOT_READY)
        return false;
    return transfer->at_once || transfer->reported || !TUTTI_HAS(core->ops, progress);
}

tutti_status core_wait(struct core *core, struct transfer *transfer)
{
    struct check_time time = check_time_of(CORE_WAIT_MS);

    while (!core_is_over(core, transfer) && check_time_is_left(&time)) {
        core_turn(core, &transfer, 1);
        if (!core_is_over(core, transfer))
            g_usleep(PAUSE_US);
    }
    if (!core_is_over(core, transfer) && transfer->request.status != TUTTI_ERR_NOT_READY)
        check_fails("a request is complete, and progress does not report it within %d s",
                    CORE_WAIT_MS / 1000);
    core_expect_intact(transfer);
    if (transfer->request.status > 0 || transfer->request.status < TUTTI_ERR_CORRUPT)
        check_fails("the status of a request is %d, which is not a tutti_status; isend and irecv "
                    "set it to TUTTI_ERR_NOT_READY when they take the request",
                    transfer->request.status);
    return transfer->request.status;
}

static void expect_filled(const void *data, size_t bytes, uint8_t with, const char *where)
{
    for (size_t i = 0; i < bytes; i++)
        if (((const uint8_t *)data)[i] != with)
            check_fails("it writes %s", where);
}

void core_expect_intact(const struct transfer *transfer)
{
    const tutti_request *request = &transfer->request;
    const char *beside = "into memory beside a request, which is not its own";

    expect_filled(transfer->before, sizeof transfer->before, PREPARED, beside);
    expect_filled(transfer->after, sizeof transfer->after, PREPARED, beside);
    if (request->user != transfer)
        check_fails("it writes into user of a request, which is the core's");
    if (!transfer->cancelled)
        return;
    expect_filled(&request->status, sizeof request->status, TAKEN_BACK,
                  "into a request after cancel() of it has returned");
    expect_filled(request->opaque, sizeof request->opaque, TAKEN_BACK,
                  "into a request after cancel() of it has returned");
}

void core_cancel(struct core *core, struct transfer *transfer)
{
    check_enters("cancel");
    core->ops->cancel(core->endpoint, &transfer->request);
    check_leaves();
    memset(&transfer->request, TAKEN_BACK, sizeof transfer->request);
    transfer->request.user = transfer;
    transfer->cancelled = true;
}

/* ---- memory of messages ---------------------------------------------------------------------- */

void *core_buffer(uint64_t bytes)
{
    uint8_t *base = calloc(1, bytes + 2 * CANARY_BYTES);

    if (!base)
        check_fails("no memory to try it");
    memset(base, CANARY, CANARY_BYTES);
    memcpy(base, &bytes, sizeof bytes);
    memset(base + CANARY_BYTES + bytes, CANARY, CANARY_BYTES);
    return base + CANARY_BYTES;
}

void core_buffer_free(void *buffer)
{
    uint8_t *base = (uint8_t *)buffer - CANARY_BYTES;
    uint64_t bytes;

    memcpy(&bytes, base, sizeof bytes);
    expect_filled(base + sizeof bytes, CANARY_BYTES - sizeof bytes, CANARY,
                  "before the beginning of the memory of a message");
    expect_filled(base + CANARY_BYTES + bytes, CANARY_BYTES, CANARY,
                  "after the end of the memory of a message");
    free(base);
}

/* ---- contents -------------------------------------------------------------------------------- */

static uint8_t byte_at(uint64_t place, uint64_t number)
{
    return (uint8_t)(place * 7 + (place >> 8) * 13 + (place >> 16) + number * 31);
}

void core_fill(uint8_t *data, uint64_t bytes, uint64_t number)
{
    for (uint64_t i = 0; i < bytes; i++)
        data[i] = byte_at(i, number);
}

uint64_t core_differs(const uint8_t *data, uint64_t from, uint64_t bytes, uint64_t number)
{
    uint64_t i = from;

    while (i < bytes && data[i] == byte_at(i, number))
        i++;
    return i;
}
