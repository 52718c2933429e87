/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A core for one transport: members as threads or as forked processes, host services, and waiting
 * as the core does it (a few turns of progress, then arm, then sleep on wait_fd and doorbell).
 *
 * Descriptors are passed over socket pairs that are there before the first fork. A check that fails
 * prints itself and ends the process; every wait has a deadline.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include <tutti/plugin.h>

enum { MEMBERS_MAX = 4, WAIT_MS = 60000, LABEL = 1000, LATER_BYTES = 64 };

struct member;

struct world { /* shared by all members, also over fork */
    int size;
    const tutti_transport_ops *ops;
    void (*body)(struct member *member);
    pthread_barrier_t barrier;
    uint8_t address[MEMBERS_MAX][1024];
    uint64_t address_bytes[MEMBERS_MAX];
    int socket[MEMBERS_MAX][MEMBERS_MAX]; /* [i][j]: i's end of the pair with j */
    int doorbell[MEMBERS_MAX];
    _Atomic int asleep[MEMBERS_MAX];
    _Atomic uint64_t word[4]; /* for the case at hand */
};

struct tutti_host_mates {
    struct world *world;
};

struct member {
    int rank;
    struct world *world;
    struct tutti_host_mates local;
    const tutti_transport_ops *ops;
    tutti_host host;
    uint8_t later[LATER_BYTES]; /* of a host that is newer than the plugin */
    tutti_endpoint *endpoint;
    tutti_peer *peer[MEMBERS_MAX];
    tutti_map *map;
    tutti_exchange *exchange; /* started and not complete */
    uint8_t *base[MEMBERS_MAX];
    uint64_t map_bytes;
    int allocations_left; /* until they fail; -1: they do not */
    int give_instead;     /* a descriptor passed for the plugin's own; -1: none */
    uint8_t token;        /* repeated 16 times; MACs follow from it */
    const char *bind_address;
    int times_lost[MEMBERS_MAX];
    char words[512];      /* of the last error */
    char lost_words[512]; /* of the last peer_lost */
    void *keys;           /* mock_tls.c */
};

/* mock_tls.c, where it is linked: connections are encrypted as the core does it. NULL: they are not. */
struct encryption {
    void (*begin)(struct member *member);
    void (*end)(struct member *member);
};
extern const struct encryption *mock_encryption;
/* For the options of an endpoint. */
static inline uint32_t mock_flags(void)
{
    return mock_encryption ? TUTTI_ENDPOINT_ENCRYPT : 0;
}

/* A request, and how often progress reported it. */
struct operation {
    tutti_request request;
    int reported;
    bool at_once;
};

#define check(condition, ...)                                                                      \
    do {                                                                                           \
        if (!(condition))                                                                          \
            check_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__);                         \
    } while (0)

_Noreturn void check_failed(const char *file, int line, const char *condition, const char *format,
                            ...) __attribute__((format(printf, 4, 5)));

int64_t now_ms(void);

/* Runs `body` in `size` members, each a thread, with endpoints open and peers connected, and for a
 * transport that maps, memory of `map_bytes` mapped. */
void run_threads(const tutti_transport_ops *ops, int size, void (*body)(struct member *member));
/* The same in forked processes; `killed` is the member that is expected to die of SIGKILL, or -1.
 */
void run_forked(const tutti_transport_ops *ops, int size, int killed,
                void (*body)(struct member *member));
/* The parts of these, for cases that do it their own way. */
struct world *world_new(const tutti_transport_ops *ops, int size);
void world_free(struct world *world);
void member_init(struct member *member, struct world *world, int rank);
void member_open(struct member *member);    /* endpoint and address */
void member_connect(struct member *member); /* all peers; every member has opened */
tutti_status member_map(struct member *member);
void member_close(struct member *member); /* also one that did not get far */

void all_meet(struct member *member); /* barrier */
void send_to(struct member *member, int to, const void *data, uint64_t bytes, uint32_t flags,
             struct operation *ret_operation);
void receive_from(struct member *member, int from, void *data, uint64_t capacity,
                  struct operation *ret_operation);
/* One turn of progress; counts reports. Returns how many there were. */
uint32_t turn(struct member *member);
/* Until it is complete; sleeps as the core does. Returns its status. */
tutti_status wait_for(struct member *member, struct operation *operation);
/* Until the next message of `from` is shown, or has to be received: what show returned; sleeps as the core
 * does. */
tutti_status wait_shown(struct member *member, int from, tutti_shown *ret_message);
void copy_shown(const tutti_shown *message, uint8_t *ret_data);
/* Turns of progress for so long. */
void progress_for(struct member *member, int64_t milliseconds);

/* Bytes that depend on sender, number and place. */
void fill_pattern(uint8_t *data, uint64_t bytes, int from, uint64_t number);
void check_pattern(const uint8_t *data, uint64_t bytes, int from, uint64_t number);
uint32_t random_next(uint64_t *state);

/* How many this process has. */
int open_descriptors(void);
/* The port in the packed address of a tcp endpoint. */
uint16_t tcp_port_of(const struct world *world, int rank);
