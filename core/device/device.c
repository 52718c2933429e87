/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finding and opening devices. The word before the colon of "cuda:1" is the name of the plugin, which is
 * opened when a call, an option or a variable names such a device for the first time: programs that use host memory
 * alone never load a driver.
 *
 * Drivers and devices are kept in lists that only grow, under one mutex. It is held while a driver is opened,
 * which may take a second, so only threads that open devices take it; a group keeps the device that it uses.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/text.h"
#include "device/device_inside.h"
#include "plugin/host.h"
#include "plugin/known.h"
#include "plugin/plugin.h"

enum { DEVICES_MAX = 1024 };

/* One kind of devices, and what drives it. */
struct maker {
    struct maker *next;
    int32_t type;
    const char *name; /* "cuda" */
    const tutti_device_ops *ops;
    tutti_driver *driver;
    tutti_driver_info info;
    uint32_t fork_generation;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct maker *makers;
static struct device *devices;

int32_t device_type_of(int32_t type)
{
    return type == TUTTI_DEVICE_CUDA_MANAGED ? TUTTI_DEVICE_CUDA
           : known_device_name(type)         ? type
                                             : 0;
}

const tutti_device_ops *device_ops(const struct device *device)
{
    return device->maker->ops;
}

tutti_accelerator *device_accelerator(const struct device *device)
{
    return device->accelerator;
}

const uint8_t *device_uuid_bytes(const struct device *device)
{
    return device->info.uuid;
}

int32_t device_type(const struct device *device)
{
    return device->maker->type;
}

int32_t device_number(const struct device *device)
{
    return device->number;
}

const char *device_uuid(const struct device *device)
{
    return device->info.uuid_text;
}

const char *device_name(const struct device *device)
{
    return device->name;
}

tutti_status device_parse(const char *source, const char *words, struct device_choice *ret_choice)
{
    const size_t name = strcspn(words, ":");
    struct device_choice choice = {.type = known_device_type(words, name), .number = -1};
    int64_t number = -1;

    if (!choice.type)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s=%.*s: no device begins with that; write «cuda:1», or «cuda» for the "
                         "device with the number of the local rank",
                         source, TEXT_CUT(words, 64));
    if (words[name] && !text_number(words + name + 1, 0, DEVICES_MAX - 1, &number))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s=%.*s: a number from 0 to %d must follow the ':'", source,
                         TEXT_CUT(words, 64), DEVICES_MAX - 1);
    choice.number = (int32_t)number;
    *ret_choice = choice;
    return TUTTI_OK;
}

tutti_status device_resolve(const char *option, struct device_choice *ret_choice)
{
    const char *variable = getenv("TUTTI_DEVICE");

    if (option)
        return device_parse("device", option, ret_choice);
    if (variable && *variable)
        return device_parse("TUTTI_DEVICE", variable, ret_choice);
    *ret_choice = (struct device_choice){.number = -1};
    return TUTTI_OK;
}

/* ---- opening ---- */

/* A driver that has failed without words would leave its caller with those of another failure. */
static tutti_status say(tutti_status status, uint64_t errors, const char *name, const char *what)
{
    return !status || error_since(errors)
               ? status
               : error_set(status, "%s cannot %s, and does not say why", name, what);
}

static tutti_status find_maker(int32_t type, struct maker **ret_maker)
{
    const char *name = known_device_name(type);
    const tutti_plugin *plugin;

    for (struct maker *maker = makers; maker; maker = maker->next)
        if (maker->type == type) {
            *ret_maker = maker;
            return TUTTI_OK;
        }
    tutti_status status = plugin_find_device(name, &plugin);
    if (status)
        return status;
    if (!plugin_provider(plugin, TUTTI_PROVIDER_DEVICE))
        return error_set(TUTTI_ERR_PLUGIN, "plugin %s drives no devices", name);
    struct maker *maker = calloc(1, sizeof *maker);
    if (!maker)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to open the driver of %s", name);
    const uint64_t errors = error_number();
    maker->type = type;
    maker->name = name;
    maker->ops = plugin_ops(plugin, TUTTI_PROVIDER_DEVICE);
    maker->info.struct_size = sizeof maker->info;
    maker->fork_generation = fork_current();
    status = maker->ops->open(&host_bare, host_self_of(name), &maker->driver);
    if (!status)
        status = maker->ops->describe(maker->driver, &maker->info);
    if (status) {
        if (maker->driver)
            maker->ops->close(maker->driver);
        free(maker);
        return say(status, errors, name, "open its driver");
    }
    maker->next = makers;
    makers = maker;
    *ret_maker = maker;
    return TUTTI_OK;
}

static tutti_status pick_number(const struct maker *maker, int32_t number, int local_rank,
                                int32_t *ret_number)
{
    const int32_t count = (int32_t)maker->info.device_count;

    if (!count)
        return error_set(TUTTI_ERR_UNSUPPORTED, "%s has no devices that this process may use",
                         maker->info.name ? maker->info.name : maker->name);
    if (number >= count)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "there is no %s:%d: this process sees %d device%s, from %s:0 on",
                         maker->name, number, count, count == 1 ? "" : "s", maker->name);
    *ret_number = number < 0 ? local_rank % count : number;
    return TUTTI_OK;
}

static tutti_status attach(const struct maker *maker, int32_t number, struct device **ret_device)
{
    AUTOFREE struct device *device = calloc(1, sizeof *device);

    if (!device)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to open %s:%d", maker->name, number);
    device->maker = maker;
    device->number = number;
    device->fork_generation = fork_current();
    device->last_pending = &device->pending;
    device->info.struct_size = sizeof device->info;
    snprintf(device->name, sizeof device->name, "%s:%d", maker->name, number);
    pthread_mutex_init(&device->lock, NULL);
    tutti_status status = pinned_most(&device->most_bytes);
    if (status)
        return status;
    const uint64_t errors = error_number();
    status = maker->ops->device(maker->driver, number, &device->info);
    if (!status)
        status = maker->ops->attach(maker->driver, number, &device->accelerator);
    if (!status)
        status = maker->ops->stream_create(device->accelerator, &device->out);
    if (status) {
        status = say(status, errors, device->name, "be opened");
        if (device->accelerator)
            maker->ops->detach(device->accelerator);
        return status;
    }
    *ret_device = TAKE(device);
    return TUTTI_OK;
}

/* The driver, and which of its devices is meant; with the lock held. */
static tutti_status find_device(int32_t type, int32_t number, int local_rank,
                                struct maker **ret_maker, int32_t *ret_number)
{
    tutti_status status = find_maker(type, ret_maker);

    if (status)
        return status;
    if ((*ret_maker)->fork_generation != fork_current())
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "%s was opened before this process was forked: its driver cannot be used "
                         "in a child; start the child by exec",
                         (*ret_maker)->name);
    return pick_number(*ret_maker, number, local_rank, ret_number);
}

tutti_status device_look_for(int32_t type, int32_t number)
{
    struct maker *maker;
    LOCK_SCOPE(&lock);

    return find_device(type, number, 0, &maker, &number);
}

tutti_status device_describe(int32_t type, int32_t number, int local_rank,
                             struct device_facts *ret_facts)
{
    tutti_accelerator_info info = {.struct_size = sizeof info};
    struct maker *maker;
    LOCK_SCOPE(&lock);

    tutti_status status = find_device(type, number, local_rank, &maker, &number);
    if (status)
        return status;
    const uint64_t errors = error_number();
    status = maker->ops->device(maker->driver, number, &info);
    if (status)
        return say(status, errors, maker->name, "describe a device");
    *ret_facts =
        (struct device_facts){.number = number, .count = (int32_t)maker->info.device_count};
    snprintf(ret_facts->uuid_text, sizeof ret_facts->uuid_text, "%s", info.uuid_text);
    return TUTTI_OK;
}

static bool knows(const struct maker *maker, const void *address)
{
    tutti_memory_place place = {.struct_size = sizeof place};

    return maker->fork_generation == fork_current() &&
           (maker->ops->locate(maker->driver, address, &place) ||
            place.kind != TUTTI_MEMORY_UNKNOWN);
}

const char *device_knowing(const void *address, uint64_t bytes)
{
    const void *last = (const void *)((uintptr_t)address + bytes - 1);
    LOCK_SCOPE(&lock);

    for (const struct maker *maker = makers; maker; maker = maker->next)
        if (knows(maker, address) || knows(maker, last))
            return maker->name;
    return NULL;
}

tutti_status device_open(int32_t type, int32_t number, int local_rank, struct device **ret_device)
{
    struct maker *maker = NULL;
    LOCK_SCOPE(&lock);

    tutti_status status = find_device(type, number, local_rank, &maker, &number);
    if (status)
        return status;
    for (struct device *device = devices; device; device = device->next)
        if (device->maker == maker && device->number == number) {
            *ret_device = device;
            return TUTTI_OK;
        }
    status = attach(maker, number, ret_device);
    if (status)
        return status;
    (*ret_device)->next = devices;
    devices = *ret_device;
    return TUTTI_OK;
}

static tutti_status look_at_stream(struct device *device, void *stream, uint32_t *ret_flags)
{
    const uint64_t errors = error_number();

    *ret_flags = 0;
    return say(device_ops(device)->stream_check(device->accelerator, stream, ret_flags), errors,
               device->name, "use the stream");
}

tutti_status device_check_stream(struct device *device, void *stream)
{
    uint32_t flags;
    const tutti_status status = look_at_stream(device, stream, &flags);

    if (status || !(flags & TUTTI_STREAM_CAPTURING))
        return status;
    return error_set(TUTTI_ERR_UNSUPPORTED,
                     "the stream is being captured into a graph, which takes only collectives that "
                     "an engine does on %s (nccl), and waits for these: call it outside of the "
                     "capture",
                     device->name);
}

tutti_status device_check_recording(struct device *device, void *stream, bool *ret_captured)
{
    uint32_t flags;
    const tutti_status status = look_at_stream(device, stream, &flags);

    if (status)
        return status;
    *ret_captured = flags & TUTTI_STREAM_RECORDS;
    if (flags & TUTTI_STREAM_OF_THREAD)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "options.stream is the default stream of each thread, which means another "
                         "stream to the thread that begins the call: make a stream of your own");
    if (flags & TUTTI_STREAM_CAPTURING && !*ret_captured)
        return error_set(TUTTI_ERR_UNSUPPORTED,
                         "work on this stream is not recorded into a graph: its capture has failed "
                         "before, or it is the default stream, and another one is captured; begin "
                         "the capture again, on a stream of your own");
    return TUTTI_OK;
}

/* Also how many bytes of the same allocation begin there, as far as the driver tells. */
static tutti_status check_byte(struct device *device, const void *at, const char *what,
                               uint64_t *ret_bytes)
{
    static const char *const kinds[] = {"no memory that its driver knows", "pinned host memory"};
    tutti_memory_place place = {.struct_size = sizeof place};
    const uint64_t errors = error_number();
    tutti_status status = device_ops(device)->locate(device->maker->driver, at, &place);

    if (status)
        return say(status, errors, device->name, "tell where a tensor lies");
    *ret_bytes = place.bytes;
    if (place.kind == TUTTI_MEMORY_MANAGED)
        return TUTTI_OK;
    if (place.kind != TUTTI_MEMORY_DEVICE)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s says that it lies on %s, but %p is %s",
                         what, device->name, at, kinds[place.kind == TUTTI_MEMORY_PINNED]);
    if (place.device != device->number)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%s says that it lies on %s, but %p is memory of %s:%d", what,
                         device->name, at, device->maker->name, place.device);
    return TUTTI_OK;
}

tutti_status device_check_place(struct device *device, const tutti_tensor *tensor,
                                const struct tensor_size *size, const char *what)
{
    const char *first = (const char *)tensor->data + tensor->byte_offset;
    uint64_t bytes;

    if (!size->bytes)
        return TUTTI_OK;
    tutti_status status = check_byte(device, first, what, &bytes);
    if (!status && size->contiguous && bytes < size->bytes)
        status = check_byte(device, first + size->bytes - 1, what, &bytes);
    return status;
}

static tutti_status check_own_byte(struct device *device, const void *at)
{
    static const char *const kinds[] = {
        "no memory that the driver knows", NULL,
        "host memory that is pinned for devices, and cannot be registered",
        "managed memory, and cannot be registered"};
    tutti_memory_place place = {.struct_size = sizeof place};
    const uint64_t errors = error_number();
    const tutti_status status = device_ops(device)->locate(device->maker->driver, at, &place);

    if (status)
        return say(status, errors, device->name, "tell where memory lies");
    if (place.kind != TUTTI_MEMORY_DEVICE)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%p is %s: give memory of %s", at,
                         kinds[place.kind <= TUTTI_MEMORY_MANAGED ? place.kind : 0], device->name);
    if (place.device != device->number)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%p is memory of %s:%d, and the group uses %s on this rank", at,
                         device->maker->name, place.device, device->name);
    return TUTTI_OK;
}

tutti_status device_check_range(struct device *device, const void *at, uint64_t bytes)
{
    const tutti_status status = check_own_byte(device, at);

    return status ? status : check_own_byte(device, (const char *)at + bytes - 1);
}
