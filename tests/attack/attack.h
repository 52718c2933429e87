/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attackers of a job: processes that are no member of it, as another user on one of its hosts, or on a host
 * of their own in its network. Each has nothing but what such a process finds out by itself, what somebody
 * recorded on the network, and public facts: the formats of all messages, ranks, process numbers.
 *
 * An attack says how much it has tried, since one that reaches nothing shows nothing, and in words what it
 * has gained. Both lie in memory that it shares with the test, also when it is killed.
 */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "wire.h"

enum {
    ATTACK_UID = 54321, /* a user that has no entry anywhere */
    ATTACK_PORTS = 64,
    ATTACK_NAMES = 64,
    ATTACK_PROCESSES = 32,
    ATTACK_RANKS = 64,
    ATTACK_RECORDS = 2
};

/* A listening socket. */
struct attack_port {
    uint32_t address; /* in the order of the network */
    uint16_t port;
};

/* What an attacker knows. */
struct attack_scene {
    const char *netns; /* where it is; NULL: where the test is */
    int ranks;
    struct attack_port ports[ATTACK_PORTS]; /* none: it lists those of its host itself */
    int port_count;
    pid_t processes[ATTACK_PROCESSES]; /* of the job */
    int process_count;
    const struct wire *records[ATTACK_RECORDS]; /* of an earlier job and of this one; NULL: none */
    int flood;                                  /* half-open connections to each port */
    bool encrypted;        /* listeners answer a ClientHello that was recorded */
    int spared;            /* records that attack_rewrite_records() leaves alone */
    const uint8_t *secret; /* 32 bytes that it must not find; NULL: not known */
};

struct attack_result {
    int tried, gained;
    char words[2048];
    struct attack_port ports[ATTACK_PORTS]; /* of attack_list_ports() */
    int port_count;
};

typedef void (*attack_fn)(const struct attack_scene *scene, struct attack_result *ret_result);

/* Why there can be no attackers here; NULL: there can. */
const char *attack_lack(void);

struct attack;
/* Starts the attack in a process of its own that is another user. NULL: it cannot. */
struct attack *attack_start(attack_fn attack, const struct attack_scene *scene);
/* What it has come to until now; it goes on. */
const struct attack_result *attack_result(const struct attack *attack);
/* Waits until it has ended by itself, for `ms` at most, and ends it. False: it crashed, or was not done. */
bool attack_wait(struct attack *attack, int ms);
void attack_kill(struct attack *attack);
void attack_free(struct attack *attack);

/* ---- connections.c, records.c, processes.c, unix_sockets.c: what they do ---- */

/* Lists the listening ports of the host, as any user can. */
void attack_list_ports(const struct attack_scene *scene, struct attack_result *ret_result);
/* Connects to every port, and reads what is offered. */
void attack_read_all(const struct attack_scene *scene, struct attack_result *ret_result);
/* Every request of the store's protocol, at every port: reads, writes, deletes. */
void attack_use_store(const struct attack_scene *scene, struct attack_result *ret_result);
/* Many connections with many bytes that are no message of anybody. */
void attack_flood(const struct attack_scene *scene, struct attack_result *ret_result);
/* Proofs that are made up, reflected or of another connection, with every control frame behind them; and
 * frames and farewells without any. */
void attack_forge(const struct attack_scene *scene, struct attack_result *ret_result);
/* Every recorded stream at every port, whole, by messages, and in another order. */
void attack_replay(const struct attack_scene *scene, struct attack_result *ret_result);
/* Silent connections and halves of hellos that stay, to every port there is and every one that comes, until
 * it is killed. */
void attack_besiege(const struct attack_scene *scene, struct attack_result *ret_result);
/* Changes each record of the job's store as soon as it is there, until it is killed. It is to be
 * started before the job. */
void attack_rewrite_records(const struct attack_scene *scene, struct attack_result *ret_result);
/* Opens all that /proc has of the job's processes, and takes their descriptors and memory. */
void attack_processes(const struct attack_scene *scene, struct attack_result *ret_result);
/* Every Unix socket of the host: messages of local peers and reports to `tutti run`. */
void attack_unix_sockets(const struct attack_scene *scene, struct attack_result *ret_result);

/* Notes a gain. */
void attack_gain(struct attack_result *result, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
