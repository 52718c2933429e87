/* SPDX-License-Identifier: Apache-2.0 */
#include "agreement/agree_wire.h"

#include <netinet/in.h>
#include <stdlib.h>

#include <tutti/version.h>

#include "base/error.h"

enum { FIRST_WITH_VERSION = 4 };
enum { SAME_MINOR = 1 << 0, FABRIC = 1 << 1 }; /* traits of an engine */

/* family 4 or 6, port, 16 bytes of address */
static void address_encode(struct writer *w, const struct sockaddr_storage *address)
{
    uint8_t bytes[16] = {0};
    uint16_t port = 0;

    if (address->ss_family == AF_INET) {
        const struct sockaddr_in *v4 = (const struct sockaddr_in *)address;

        memcpy(bytes, &v4->sin_addr, sizeof v4->sin_addr);
        port = ntohs(v4->sin_port);
    } else if (address->ss_family == AF_INET6) {
        const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)address;

        memcpy(bytes, &v6->sin6_addr, sizeof v6->sin6_addr);
        port = ntohs(v6->sin6_port);
    }
    write_u8(w, address->ss_family == AF_INET ? 4 : address->ss_family == AF_INET6 ? 6 : 0);
    write_u16(w, port);
    write_bytes(w, bytes, sizeof bytes);
}

static void address_decode(struct reader *r, struct sockaddr_storage *ret_address)
{
    uint8_t family = read_u8(r);
    uint16_t port = read_u16(r);
    const uint8_t *bytes = read_bytes(r, 16);

    memset(ret_address, 0, sizeof *ret_address);
    if (!bytes)
        return;
    if (family == 4) {
        struct sockaddr_in *v4 = (struct sockaddr_in *)ret_address;

        v4->sin_family = AF_INET;
        v4->sin_port = htons(port);
        memcpy(&v4->sin_addr, bytes, sizeof v4->sin_addr);
    } else if (family == 6) {
        struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)ret_address;

        v6->sin6_family = AF_INET6;
        v6->sin6_port = htons(port);
        memcpy(&v6->sin6_addr, bytes, sizeof v6->sin6_addr);
    } else {
        r->bad = true;
    }
}

socklen_t address_bytes(const struct sockaddr_storage *address)
{
    return address->ss_family == AF_INET    ? sizeof(struct sockaddr_in)
           : address->ss_family == AF_INET6 ? sizeof(struct sockaddr_in6)
                                            : 0;
}

static void device_encode(struct writer *w, const struct device_offer *device)
{
    write_u32(w, (uint32_t)device->type);
    if (!device->type)
        return;
    write_u32(w, (uint32_t)device->number);
    write_u32(w, device->count);
    write_u32(w, device->listed);
    for (uint32_t i = 0; i < device->listed; i++)
        write_string(w, device->uuids[i]);
}

static void device_decode(struct reader *r, struct device_offer *ret_device)
{
    *ret_device = (struct device_offer){.type = (int32_t)read_u32(r)};
    if (!ret_device->type)
        return;
    ret_device->number = (int32_t)read_u32(r);
    ret_device->count = read_u32(r);
    ret_device->listed = read_u32(r);
    if (!ret_device->count || ret_device->number < -1 || ret_device->count > INT32_MAX ||
        ret_device->number >= (int32_t)ret_device->count || !ret_device->listed ||
        ret_device->listed > AGREE_DEVICES_MAX || ret_device->listed > ret_device->count)
        r->bad = true;
    for (uint32_t i = 0; i < ret_device->listed && !r->bad; i++)
        read_string(r, ret_device->uuids[i], AGREE_UUID_MAX);
}

void offer_encode(struct writer *w, const struct offer *offer)
{
    write_u32(w, AGREE_PROTOCOL);
    write_string(w, tutti_version());
    write_u64(w, offer->nonce);
    write_u32(w, offer->size);
    write_string(w, offer->backend);
    write_string(w, offer->settings);
    write_string(w, offer->host_key);
    write_u64(w, offer->cpus.set);
    write_u32(w, offer->cpus.count);
    write_string(w, offer->socket_name);
    address_encode(w, &offer->address);
    write_u32(w, (uint32_t)offer->refused);
    write_string(w, offer->refusal);
    for (int level = 0; level < CONTROL_PROVIDERS; level++) {
        const struct engine_offer *engine = &offer->engines[level];

        write_string(w, offer->reasons[level]);
        write_string(w, engine->name);
        write_u32(w, engine->major);
        write_u32(w, engine->minor);
        write_u32(w, engine->patch);
        write_u32(w, (engine->same_minor ? SAME_MINOR : 0) | (engine->fabric ? FABRIC : 0));
    }
    device_encode(w, &offer->device);
}

bool offer_decode_version(const void *data, size_t size, struct offer_version *ret_version)
{
    struct reader r = {.data = data, .size = size};

    *ret_version = (struct offer_version){.protocol = read_u32(&r)};
    if (ret_version->protocol >= FIRST_WITH_VERSION)
        read_string(&r, ret_version->text, sizeof ret_version->text);
    return !r.bad && ret_version->protocol;
}

bool offer_decode(const void *data, size_t size, struct offer *ret_offer)
{
    struct reader r = {.data = data, .size = size};
    char version[AGREE_VERSION_MAX];

    if (read_u32(&r) != AGREE_PROTOCOL)
        return false;
    read_string(&r, version, sizeof version);
    ret_offer->nonce = read_u64(&r);
    ret_offer->size = read_u32(&r);
    read_string(&r, ret_offer->backend, sizeof ret_offer->backend);
    read_string(&r, ret_offer->settings, sizeof ret_offer->settings);
    read_string(&r, ret_offer->host_key, sizeof ret_offer->host_key);
    ret_offer->cpus.set = read_u64(&r);
    ret_offer->cpus.count = read_u32(&r);
    read_string(&r, ret_offer->socket_name, sizeof ret_offer->socket_name);
    address_decode(&r, &ret_offer->address);
    ret_offer->refused = (tutti_status)read_u32(&r);
    read_string(&r, ret_offer->refusal, sizeof ret_offer->refusal);
    for (int level = 0; level < CONTROL_PROVIDERS; level++) {
        struct engine_offer *engine = &ret_offer->engines[level];

        read_string(&r, ret_offer->reasons[level], sizeof ret_offer->reasons[level]);
        read_string(&r, engine->name, sizeof engine->name);
        engine->major = read_u32(&r);
        engine->minor = read_u32(&r);
        engine->patch = read_u32(&r);
        const uint32_t traits = read_u32(&r);
        engine->same_minor = traits & SAME_MINOR;
        engine->fabric = traits & FABRIC;
    }
    device_decode(&r, &ret_offer->device);
    return !r.bad && ret_offer->refused <= 0;
}

/* Ranks that have children in the control tree of `size` members: 0 .. n-1. */
static int decision_interior(int size)
{
    return (size + CONTROL_TREE_DEGREE - 2) / CONTROL_TREE_DEGREE;
}

size_t decision_bytes(int size, int hosts)
{
    return 256 + AGREE_MESSAGE_MAX + CONTROL_PROVIDERS * (PLUGIN_NAME_MAX + 4) + (size_t)size * 16 +
           (size_t)hosts * (LOCAL_NAME_MAX + 5) + (size_t)decision_interior(size) * 24;
}

tutti_status decision_allocate(struct decision *decision, int size, int hosts)
{
    decision->size = size;
    decision->hosts = hosts;
    decision->interior = decision_interior(size);
    decision->nonces = calloc((size_t)size, sizeof *decision->nonces);
    decision->host_of = calloc((size_t)size, sizeof *decision->host_of);
    decision->cpu_sharers = calloc((size_t)size, sizeof *decision->cpu_sharers);
    decision->sockets = calloc((size_t)hosts, sizeof *decision->sockets);
    decision->crowded = calloc((size_t)hosts, sizeof *decision->crowded);
    decision->addresses = calloc((size_t)decision->interior + 1, sizeof *decision->addresses);
    if (decision->nonces && decision->host_of && decision->cpu_sharers && decision->sockets &&
        decision->crowded && decision->addresses)
        return TUTTI_OK;
    decision_free(decision);
    return error_set(TUTTI_ERR_NO_MEMORY, "no memory for a decision about %d members", size);
}

void decision_free(struct decision *decision)
{
    free(decision->nonces);
    free(decision->host_of);
    free(decision->cpu_sharers);
    free(decision->sockets);
    free(decision->crowded);
    free(decision->addresses);
    decision->nonces = NULL;
    decision->host_of = NULL;
    decision->cpu_sharers = NULL;
    decision->sockets = NULL;
    decision->crowded = NULL;
    decision->addresses = NULL;
}

static void reason_encode(struct writer *w, const struct outcome *outcome)
{
    write_u32(w, (uint32_t)outcome->status);
    write_u32(w, (uint32_t)outcome->culprit);
    write_string(w, outcome->message);
}

/* An abort must have an error for its status. */
static bool reason_decode(struct reader *r, int size, bool aborts, struct outcome *outcome)
{
    outcome->status = (tutti_status)read_u32(r);
    outcome->culprit = (int)read_u32(r);
    read_string(r, outcome->message, sizeof outcome->message);
    return !r->bad && !(aborts && outcome->status >= 0) && outcome->culprit >= -1 &&
           outcome->culprit < size;
}

void decision_encode_abort(struct writer *w, const struct outcome *reason)
{
    write_u32(w, AGREE_PROTOCOL);
    write_u8(w, DECISION_ABORT);
    reason_encode(w, reason);
}

void decision_encode(struct writer *w, const struct decision *d)
{
    write_u32(w, AGREE_PROTOCOL);
    write_u8(w, DECISION_GO);
    write_u8(w, d->open);
    write_bytes(w, d->salt, sizeof d->salt);
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        write_string(w, d->provider[level]);
    write_u32(w, (uint32_t)d->size);
    write_u32(w, (uint32_t)d->hosts);
    for (int r = 0; r < d->size; r++) {
        write_u64(w, d->nonces[r]);
        write_u32(w, (uint32_t)d->host_of[r]);
        write_u32(w, (uint32_t)d->cpu_sharers[r]);
    }
    for (int h = 0; h < d->hosts; h++) {
        write_string(w, d->sockets[h]);
        write_u8(w, d->crowded[h]);
    }
    for (int i = 0; i < d->interior; i++)
        address_encode(w, &d->addresses[i]);
}

bool decision_decode(const void *data, size_t bytes, int size, struct decision *d)
{
    struct reader r = {.data = data, .size = bytes};

    memset(d, 0, sizeof *d);
    const uint32_t protocol = read_u32(&r);
    d->kind = (enum decision_kind)read_u8(&r);
    if (d->kind == DECISION_ABORT)
        return reason_decode(&r, size, true, &d->abort);
    if (d->kind != DECISION_GO || protocol != AGREE_PROTOCOL)
        return false;
    d->open = read_u8(&r) != 0;
    const uint8_t *salt = read_bytes(&r, sizeof d->salt);
    if (salt)
        memcpy(d->salt, salt, sizeof d->salt);
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        read_string(&r, d->provider[level], sizeof d->provider[level]);
    uint32_t members = read_u32(&r), hosts = read_u32(&r);
    if (r.bad || members != (uint32_t)size || !hosts || hosts > members ||
        decision_allocate(d, size, (int)hosts))
        return false;
    bool good = true;
    for (int i = 0; i < size; i++) {
        d->nonces[i] = read_u64(&r);
        uint32_t host = read_u32(&r), sharers = read_u32(&r);
        good &= host < hosts && sharers >= 1 && sharers <= members;
        d->host_of[i] = (int)host;
        d->cpu_sharers[i] = (int)sharers;
    }
    for (int h = 0; h < d->hosts; h++) {
        read_string(&r, d->sockets[h], LOCAL_NAME_MAX);
        d->crowded[h] = read_u8(&r) != 0;
    }
    for (int i = 0; i < d->interior; i++)
        address_decode(&r, &d->addresses[i]);
    if (good && !r.bad)
        return true;
    decision_free(d);
    return false;
}

enum { /* without the providers' addresses, with the listener's */
       REPORT_BYTES_MAX = 1 + 3 * 4 + 2 + 4 + AGREE_MESSAGE_MAX + 4 + CONTROL_HOST_MAX + 4 + 19 +
                          CONTROL_PROVIDERS * 4
};
_Static_assert(4 + REPORT_BYTES_MAX + CONTROL_PROVIDERS * CONTROL_PROVIDER_ADDRESS_MAX <=
                   CONTROL_MEMBER_MAX,
               "a roster of the longest reports travels");

void report_encode(struct writer *w, const struct report *report)
{
    write_u8(w, (uint8_t)report->phase);
    write_u32(w, report->round);
    write_u32(w, (uint32_t)report->rank);
    write_u32(w, (uint32_t)report->status);
    write_u8(w, report->not_local);
    write_u8(w, (uint8_t)(report->failed_level + 1));
    write_string(w, report->message);
    write_string(w, report->host);
    write_u32(w, (uint32_t)report->pid);
    address_encode(w, &report->address);
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        write_blob(w, report->provider_address[level], report->provider_address_size[level]);
}

struct writer report_pack(const struct report *report)
{
    struct writer w = {.capacity = REPORT_BYTES_MAX};

    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        w.capacity += report->provider_address_size[level];
    w.data = malloc(w.capacity);
    if (w.data)
        report_encode(&w, report);
    return w;
}

static bool addresses_fit(const struct report *report)
{
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        if (report->provider_address_size[level] > CONTROL_PROVIDER_ADDRESS_MAX)
            return false;
    return true;
}

bool report_decode(const void *data, size_t bytes, int size, struct report *ret_report)
{
    struct reader r = {.data = data, .size = bytes};

    ret_report->phase = (enum report_phase)read_u8(&r);
    ret_report->round = read_u32(&r);
    ret_report->rank = (int)read_u32(&r);
    ret_report->status = (tutti_status)read_u32(&r);
    ret_report->not_local = read_u8(&r) != 0;
    ret_report->failed_level = (int)read_u8(&r) - 1;
    read_string(&r, ret_report->message, sizeof ret_report->message);
    read_string(&r, ret_report->host, sizeof ret_report->host);
    ret_report->pid = (int32_t)read_u32(&r);
    address_decode(&r, &ret_report->address);
    for (int level = 0; level < CONTROL_PROVIDERS; level++)
        ret_report->provider_address[level] =
            read_blob(&r, &ret_report->provider_address_size[level]);
    return !r.bad && ret_report->rank >= 0 && ret_report->rank < size && ret_report->status <= 0 &&
           ret_report->failed_level < CONTROL_PROVIDERS && addresses_fit(ret_report);
}

void outcome_encode(struct writer *w, const struct outcome *outcome)
{
    write_u8(w, (uint8_t)outcome->kind);
    write_u32(w, outcome->round);
    reason_encode(w, outcome);
}

bool outcome_decode(const void *data, size_t bytes, int size, struct outcome *ret_outcome)
{
    struct reader r = {.data = data, .size = bytes};

    ret_outcome->kind = (enum outcome_kind)read_u8(&r);
    ret_outcome->round = read_u32(&r);
    return reason_decode(&r, size, ret_outcome->kind == OUTCOME_ABORT, ret_outcome) &&
           ret_outcome->kind >= OUTCOME_COMMIT && ret_outcome->kind <= OUTCOME_ABORT;
}
