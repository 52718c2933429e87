/* SPDX-License-Identifier: Apache-2.0 */
#include "broken.h"

#include <fenv.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "tcp.h"

#define OPENING                                                                                    \
    const tutti_host *host, void *self, const tutti_endpoint_options *options,                     \
        tutti_endpoint **ret_endpoint
#define THE_OPENING host, self, options, ret_endpoint

enum { SMALL = 64 };

/* ---- endpoints ----------------------------------------------------------------------------- */

static tutti_status open_leaks_memory(OPENING)
{
    (void)!host->allocate(self, SMALL);
    return sound->open(THE_OPENING);
}

static tutti_status open_leaks_descriptor(OPENING)
{
    (void)!dup(STDIN_FILENO);
    return sound->open(THE_OPENING);
}

static void *idle(void *unused)
{
    (void)unused;
    wait_for_ever();
}

static tutti_status open_leaves_a_thread(OPENING)
{
    pthread_t thread;

    if (!pthread_create(&thread, NULL, idle, NULL))
        pthread_detach(thread);
    return sound->open(THE_OPENING);
}

static pthread_t mover;
static _Atomic bool mover_ends;

static void *move_for_ever(void *endpoint)
{
    tutti_request *done[8];

    while (!mover_ends) {
        sound->progress(endpoint, done, 8);
        usleep(20);
    }
    return NULL;
}

static tutti_status open_moves_by_a_thread(OPENING)
{
    const tutti_status status = sound->open(THE_OPENING);

    mover_ends = status != TUTTI_OK;
    if (!status)
        pthread_create(&mover, NULL, move_for_ever, *ret_endpoint);
    return status;
}

static void close_ends_the_thread(tutti_endpoint *endpoint)
{
    mover_ends = true;
    pthread_join(mover, NULL);
    sound->close(endpoint);
}

static tutti_status open_crashes(OPENING)
{
    (void)host, (void)self, (void)options, (void)ret_endpoint;
    raise(SIGSEGV);
    return TUTTI_OK;
}

static tutti_status open_exits(OPENING)
{
    (void)host, (void)self, (void)options, (void)ret_endpoint;
    exit(0);
}

static tutti_status open_aborts(OPENING)
{
    (void)host, (void)self, (void)options, (void)ret_endpoint;
    abort();
}

static tutti_status open_takes_8_s(OPENING)
{
    sleep(8);
    return sound->open(THE_OPENING);
}

static tutti_status open_takes_200_ms(OPENING)
{
    usleep(200 * 1000);
    return sound->open(THE_OPENING);
}

static tutti_status open_releases_foreign_memory(OPENING)
{
    host->release(self, malloc(SMALL));
    return sound->open(THE_OPENING);
}

static tutti_status open_handles_signals(OPENING)
{
    signal(SIGUSR1, SIG_IGN);
    return sound->open(THE_OPENING);
}

static tutti_status open_changes_folder(OPENING)
{
    (void)!chdir("/");
    return sound->open(THE_OPENING);
}

static tutti_status open_changes_rounding(OPENING)
{
    fesetround(FE_UPWARD);
    return sound->open(THE_OPENING);
}

static tutti_status open_prints(OPENING)
{
    puts("hello");
    return sound->open(THE_OPENING);
}

static tutti_status mac_of_everybody(void *self, const void *data, uint64_t bytes,
                                     uint8_t ret_mac[32])
{
    (void)self;
    (void)data;
    (void)bytes;
    memset(ret_mac, 0, 32);
    return TUTTI_OK;
}

static tutti_status open_proves_nothing(OPENING)
{
    static tutti_host given;

    given = *host;
    given.mac = mac_of_everybody;
    return sound->open(&given, self, options, ret_endpoint);
}

static void close_uses_it_afterwards(tutti_endpoint *endpoint)
{
    sound->close(endpoint);
    (void)*(volatile uint32_t *)&endpoint->half_open;
}

static tutti_status connect_takes_a_cut_address(tutti_endpoint *endpoint, const void *address,
                                                uint64_t bytes, uint64_t label,
                                                tutti_peer **ret_peer)
{
    if (bytes == TCP_ADDRESS_BYTES)
        return sound->connect(endpoint, address, bytes, label, ret_peer);
    *ret_peer = NULL;
    return TUTTI_OK;
}

static void cancel_nothing(tutti_endpoint *endpoint, tutti_request *request)
{
    (void)endpoint;
    (void)request;
}

/* ---- sleeping ------------------------------------------------------------------------------ */

static tutti_status wait_fd_is_another(tutti_endpoint *endpoint, int32_t *ret_fd)
{
    static int deaf = -1;

    (void)endpoint;
    if (deaf < 0)
        deaf = eventfd(0, EFD_CLOEXEC);
    *ret_fd = deaf;
    return TUTTI_OK;
}

static int32_t arm_never(tutti_endpoint *endpoint)
{
    (void)endpoint;
    return TUTTI_EVENTS_PENDING;
}

/* ---- the host ------------------------------------------------------------------------------ */

static tutti_host changed_host;
static void (*host_peer_lost)(void *self, uint64_t label, const char *words);

static void lost_is_not_told(void *self, uint64_t label, const char *words)
{
    (void)self;
    (void)label;
    (void)words;
}

static void lost_is_told_twice(void *self, uint64_t label, const char *words)
{
    host_peer_lost(self, label, words);
    host_peer_lost(self, label, words);
}

static void lost_has_another_label(void *self, uint64_t label, const char *words)
{
    host_peer_lost(self, label + 1000, words);
}

static void lost_keeps_a_descriptor(void *self, uint64_t label, const char *words)
{
    (void)!dup(STDIN_FILENO);
    host_peer_lost(self, label, words);
}

static tutti_status isend_fails_otherwise(tutti_endpoint *endpoint, tutti_peer *peer, uint32_t lane,
                                          const void *data, uint64_t bytes, uint32_t flags,
                                          tutti_request *request)
{
    const tutti_status status = sound->isend(endpoint, peer, lane, data, bytes, flags, request);

    return status == TUTTI_ERR_PEER_LOST ? TUTTI_ERR_SYSTEM : status;
}

static void (*told)(void *self, uint64_t label, const char *words);

static tutti_status open_changes_host(OPENING)
{
    changed_host = *host;
    host_peer_lost = host->peer_lost;
    changed_host.peer_lost = told;
    return sound->open(&changed_host, self, options, ret_endpoint);
}

void endpoints_tell(void (*told_lost)(void *self, uint64_t label, const char *words))
{
    told = told_lost;
}

/* ---- the defects --------------------------------------------------------------------------- */

const struct defect endpoint_defects[] = {
    {"leaks-memory", {.open = open_leaks_memory}, NULL, NULL},
    {"leaks-descriptor", {.open = open_leaks_descriptor}, NULL, NULL},
    {"leaves-thread", {.open = open_leaves_a_thread}, NULL, NULL},
    {"moves-by-thread",
     {.open = open_moves_by_a_thread, .close = close_ends_the_thread},
     NULL,
     NULL},
    {"size", {.struct_size = 64}, NULL, NULL},
    {"claims-map", {.capabilities = TUTTI_CAP_MAP}, NULL, NULL},
    {"arm-lies", {.wait_fd = wait_fd_is_another}, NULL, NULL},
    {"cancels-nothing", {.cancel = cancel_nothing}, NULL, NULL},
    {"open-crashes", {.open = open_crashes}, NULL, NULL},
    {"open-exits", {.open = open_exits}, NULL, NULL},
    {"open-aborts", {.open = open_aborts}, NULL, NULL},
    {"open-takes-200-ms", {.open = open_takes_200_ms}, NULL, NULL},
    {"releases-foreign", {.open = open_releases_foreign_memory}, NULL, NULL},
    {"never-armed", {.arm = arm_never}, NULL, NULL},
    {"open-takes-8-s", {.open = open_takes_8_s}, NULL, NULL},
    {"signals", {.open = open_handles_signals}, NULL, NULL},
    {"folder", {.open = open_changes_folder}, NULL, NULL},
    {"rounding", {.open = open_changes_rounding}, NULL, NULL},
    {"prints", {.open = open_prints}, NULL, NULL},
    {"proves-nothing", {.open = open_proves_nothing}, NULL, NULL},
    {"peer-lost-untold", {.open = open_changes_host}, NULL, lost_is_not_told},
    {"peer-lost-twice", {.open = open_changes_host}, NULL, lost_is_told_twice},
    {"peer-lost-keeps-descriptor", {.open = open_changes_host}, NULL, lost_keeps_a_descriptor},
    {"sends-to-the-lost", {.isend = isend_fails_otherwise}, NULL, NULL},
    {"peer-lost-label", {.open = open_changes_host}, NULL, lost_has_another_label},
    {"takes-cut-address", {.connect = connect_takes_a_cut_address}, NULL, NULL},
    {"uses-after-close", {.close = close_uses_it_afterwards}, NULL, NULL},
    {"constructor", {.lanes = 1}, NULL, NULL},
    {NULL, {.lanes = 1}, NULL, NULL},
};
