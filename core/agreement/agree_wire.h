/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What members tell each other while a group forms: offers and decisions lie in the store, reports
 * go up the control tree, the roster and the outcome come down it. All of it comes from outside, so
 * every decoder checks each length and number before use and answers false for nonsense.
 *
 * Two things are the same in every protocol from 4 on, so that members of different ones can tell why
 * they do not meet: the begin of an offer, protocol and version, and of a decision, the protocol.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/codec.h"
#include "base/cpu.h"
#include "base/environment.h"
#include "control/control.h"
#include "local/local.h"
#include "plugin/backend.h"
#include "plugin/plugin.h"
#include "secret/secret.h"

enum {
    AGREE_PROTOCOL =
        22, /* raised with every change of what members of a group tell each other, here,
                           in the control plane, in shared memory or in our transports, and of what
                           all have to do alike: which algorithm a call takes, and its steps */
    AGREE_VERSION_MAX = 64,
    AGREE_MESSAGE_MAX = CONTROL_MESSAGE_MAX,
    AGREE_HOST_KEY_MAX = 256,
    AGREE_BACKEND_MAX = BACKEND_WORDS_MAX + 2 * PLUGIN_NAME_MAX,
    AGREE_ENGINE_MAX = 64,
    AGREE_DEVICES_MAX = 32, /* that an offer describes */
    AGREE_UUID_MAX = 64,
    AGREE_OFFER_MAX = 12288,
    DECISION_ABORT_MAX = AGREE_MESSAGE_MAX + 64
};

/* The engine that a backend drives, as this member found it. */
struct engine_offer {
    char name[AGREE_ENGINE_MAX]; /* "": it has none that it names */
    uint32_t major, minor, patch;
    bool same_minor; /* is needed */
    bool fabric;     /* asked of the candidate of `auto` alone: it has devices besides sockets */
};

/* The device of a member, if it has looked for one. Which one it is may depend on the layout, which only the leader
 * knows then: so all are described. */
struct device_offer {
    int32_t type;    /* TUTTI_DEVICE_…; 0: it has not looked */
    int32_t number;  /* -1: the local rank modulo `count` */
    uint32_t count;  /* that the member sees */
    uint32_t listed; /* below: the first ones, or the one with the number */
    char uuids[AGREE_DEVICES_MAX][AGREE_UUID_MAX];
};

/* Which tutti a member is of. */
struct offer_version {
    uint32_t protocol;
    char text[AGREE_VERSION_MAX]; /* "0.1.0"; "": its protocol does not tell */
};

/* One member's contribution to the decision. */
struct offer {
    uint64_t nonce;
    uint32_t size;                           /* of the world, as this member was told */
    char backend[AGREE_BACKEND_MAX];         /* as asked for */
    char settings[ENVIRONMENT_SETTINGS_MAX]; /* that must be the same on all */
    char host_key[AGREE_HOST_KEY_MAX];       /* members with the same key may be local peers */
    struct cpu_share cpus;                   /* those that it may use */
    char socket_name[LOCAL_NAME_MAX];        /* where its local peers would meet */
    struct sockaddr_storage address;         /* of its control listener */
    tutti_status refused;                    /* it cannot take part, for `refusal` */
    char refusal[AGREE_MESSAGE_MAX];
    char reasons[CONTROL_PROVIDERS]
                [AGREE_MESSAGE_MAX]; /* why a candidate is not there; "": it is */
    struct engine_offer engines[CONTROL_PROVIDERS];
    struct device_offer device;
};

enum outcome_kind { OUTCOME_NONE, OUTCOME_COMMIT, OUTCOME_RETRY, OUTCOME_ABORT };

struct outcome {
    enum outcome_kind kind;
    uint32_t round;
    tutti_status status;
    int culprit;
    char message[AGREE_MESSAGE_MAX];
};

enum decision_kind { DECISION_GO = 1, DECISION_ABORT = 2 };

/* The leader's decision for one round. The arrays belong to it; decision_free(). */
struct decision {
    enum decision_kind kind;
    struct outcome abort; /* ABORT: its status, culprit and message */

    bool open;                        /* the members have no secret in common */
    uint8_t salt[CONTROL_SALT_BYTES]; /* of the group's key; not secret */
    char provider[CONTROL_PROVIDERS][PLUGIN_NAME_MAX + 1]; /* "": level not used */
    int size, hosts;
    uint64_t *nonces;                   /* [size] of the offers */
    int *host_of;                       /* [size] 0 .. hosts-1 by lowest rank */
    int *cpu_sharers;                   /* [size] members on the same CPUs, with itself */
    char (*sockets)[LOCAL_NAME_MAX];    /* [hosts] of each host's first member */
    bool *crowded;                      /* [hosts] its members outnumber their CPUs */
    int interior;                       /* members with children in the tree */
    struct sockaddr_storage *addresses; /* [interior] */
};

enum report_phase { REPORT_OPENED = 1, REPORT_CONNECTED = 2 };

struct report {
    enum report_phase phase;
    uint32_t round;
    int rank;
    tutti_status status;
    bool not_local;   /* OPENED: could not be proven a local peer of its host */
    int failed_level; /* which provider did not open, -1: none */
    char message[AGREE_MESSAGE_MAX];
    char host[CONTROL_HOST_MAX];
    int32_t pid;
    struct sockaddr_storage address;
    const uint8_t *provider_address[CONTROL_PROVIDERS]; /* into the decoded bytes */
    size_t provider_address_size[CONTROL_PROVIDERS];
};

void offer_encode(struct writer *w, const struct offer *offer);
bool offer_decode(const void *data, size_t size, struct offer *ret_offer);
/* Reads the version from an offer of any protocol. False: it is no offer. */
bool offer_decode_version(const void *data, size_t size, struct offer_version *ret_version);

size_t decision_bytes(int size, int hosts);
void decision_encode(struct writer *w, const struct decision *decision);
/* One that ends the group; into DECISION_ABORT_MAX bytes. */
void decision_encode_abort(struct writer *w, const struct outcome *reason);
/* `size` is the world's, which the decision must agree with. */
bool decision_decode(const void *data, size_t bytes, int size, struct decision *ret_decision);
tutti_status decision_allocate(struct decision *decision, int size, int hosts);
void decision_free(struct decision *decision);

void report_encode(struct writer *w, const struct report *report);
/* Encodes it into memory for the caller to free(); `data` NULL: there is none. */
struct writer report_pack(const struct report *report);
bool report_decode(const void *data, size_t bytes, int size, struct report *ret_report);

void outcome_encode(struct writer *w, const struct outcome *outcome);
bool outcome_decode(const void *data, size_t bytes, int size, struct outcome *ret_outcome);

socklen_t address_bytes(const struct sockaddr_storage *address);
