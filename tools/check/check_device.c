/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device provider: its driver and devices, memory, and what it has to refuse. Without a driver or a
 * device nothing of it can be tried.
 */
#include "check/check_device.h"

#include <stdio.h>
#include <string.h>

#include <tutti/tensor.h>

#include "check/plain_host.h"

enum { WORDS_MAX = 1024, MIB = 1 << 20, ROUNDS = 8, ALIGNMENT = 256 };

/* ---- the host -------------------------------------------------------------------------------- */

static __thread char words[WORDS_MAX]; /* of the last error() */

static void host_log(void *self, int32_t level, const char *text)
{
    (void)self;
    fprintf(stderr, "log %d: %s\n", level, text);
}

static void *host_allocate(void *self, uint64_t bytes)
{
    (void)self;
    return calloc(1, bytes);
}

static const char *host_config(void *self, const char *key)
{
    const struct check_subject *subject = self;
    g_autofree char *upper = g_ascii_strup(subject->name, -1);
    g_autofree char *suffix = g_ascii_strup(key, -1);
    g_autofree char *variable =
        g_strdelimit(g_strdup_printf("TUTTI_%s%s%s", upper, *key ? "_" : "", suffix), "-", '_');

    return g_getenv(variable);
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *text)
{
    (void)self;
    g_snprintf(words, sizeof words, "%s%s%s", text ? text : "", system_errno ? ": " : "",
               system_errno ? g_strerror(system_errno) : "");
    return status;
}

const tutti_host bench_host = {.struct_size = sizeof bench_host,
                               .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                               .log = host_log,
                               .now_ns = plain_now_ns,
                               .allocate = host_allocate,
                               .release = plain_release,
                               .config = host_config,
                               .error = host_error};

const char *bench_says(tutti_status status)
{
    static __thread char says[WORDS_MAX + 64];

    g_snprintf(says, sizeof says, "%s: %s", tutti_status_name(status),
               *words ? words : "(no message)");
    return says;
}

void bench_forget(void)
{
    *words = 0;
}

void bench_expect_words(const char *what, tutti_status status, tutti_status wanted)
{
    if (status != wanted)
        check_fails("%s returns %s instead of %s", what, bench_says(status),
                    tutti_status_name(wanted));
    if (!*words)
        check_fails("%s returns %s without a message; call tutti_host.error()", what,
                    tutti_status_name(status));
    bench_forget();
}

void bench_expect(tutti_status status, const char *what)
{
    if (status)
        check_fails("%s returns %s", what, bench_says(status));
}

/* ---- the bench ------------------------------------------------------------------------------- */

const tutti_device_ops *bench_ops(const struct check_subject *subject)
{
    const tutti_plugin *plugin = check_load(subject);

    for (uint32_t i = 0; i < plugin->provider_count; i++)
        if (plugin->providers[i]->kind == TUTTI_PROVIDER_DEVICE)
            return plugin->providers[i]->ops;
    check_skips("it drives no devices");
}

static uint32_t count_devices(const struct bench *bench)
{
    tutti_driver_info info = {.struct_size = sizeof info};

    bench_expect(bench->ops->describe(bench->driver, &info), "describe");
    return info.device_count;
}

static struct bench bench_driver(const struct check_subject *subject)
{
    struct bench bench = {.ops = bench_ops(subject)};
    const tutti_status status =
        bench.ops->open(&bench_host, (void *)(uintptr_t)subject, &bench.driver);

    if (status && !*words)
        check_fails("open returns %s without a message that says what is missing",
                    tutti_status_name(status));
    if (status)
        check_skips("its driver is not here: %s", words);
    if (!count_devices(&bench))
        check_skips("its driver finds no device");
    return bench;
}

struct bench bench_open(const struct check_subject *subject)
{
    struct bench bench = bench_driver(subject);

    check_doing("attaching device 0");
    bench_expect(bench.ops->attach(bench.driver, 0, &bench.accelerator), "attach");
    bench_expect(bench.ops->stream_create(bench.accelerator, &bench.stream), "stream_create");
    return bench;
}

void bench_close(struct bench *bench)
{
    bench->ops->stream_free(bench->accelerator, bench->stream);
    bench->ops->detach(bench->accelerator);
    bench->ops->close(bench->driver);
}

void *bench_allocate(const struct bench *bench, uint32_t kind, uint64_t bytes)
{
    void *memory = NULL;

    bench_expect(bench->ops->allocate(bench->accelerator, kind, bytes, &memory), "allocate");
    if (!memory || (uintptr_t)memory % ALIGNMENT)
        check_fails("allocate of %llu bytes gives %p; a multiple of %d is needed",
                    (unsigned long long)bytes, memory, ALIGNMENT);
    return memory;
}

void bench_release(const struct bench *bench, uint32_t kind, void *memory)
{
    bench->ops->release(bench->accelerator, kind, memory);
}

void bench_wait_event(const struct bench *bench, tutti_device_event *event)
{
    struct check_time time = check_time_of(BENCH_WAIT_MS);
    tutti_status status;

    do {
        check_enters("event_query");
        status = bench->ops->event_query(event);
        check_leaves();
        if (!check_time_is_left(&time))
            check_fails("an event has not passed after %d s", BENCH_WAIT_MS / 1000);
    } while (status == TUTTI_ERR_NOT_READY);
    bench_expect(status, "event_query");
}

void bench_wait(const struct bench *bench, void *stream)
{
    tutti_device_event *event;

    bench_expect(bench->ops->event_create(bench->accelerator, &event), "event_create");
    BENCH_NOW(event_record, event, stream);
    bench_wait_event(bench, event);
    bench->ops->event_free(event);
}

void bench_put(const struct bench *bench, void *device, const void *from, uint64_t bytes)
{
    void *pinned = bench_allocate(bench, TUTTI_MEMORY_PINNED, bytes);

    memcpy(pinned, from, bytes);
    BENCH_NOW(copy, bench->accelerator, bench->stream, device, pinned, bytes);
    bench_wait(bench, bench->stream);
    bench_release(bench, TUTTI_MEMORY_PINNED, pinned);
}

void bench_get(const struct bench *bench, const void *device, void *to, uint64_t bytes)
{
    void *pinned = bench_allocate(bench, TUTTI_MEMORY_PINNED, bytes);

    memset(pinned, 0xa5, bytes);
    BENCH_NOW(copy, bench->accelerator, bench->stream, pinned, device, bytes);
    bench_wait(bench, bench->stream);
    memcpy(to, pinned, bytes);
    bench_release(bench, TUTTI_MEMORY_PINNED, pinned);
}

/* ---- the driver and its devices -------------------------------------------------------------- */

static void expect_text(const char *what, const char *text, size_t bytes)
{
    if (!memchr(text, 0, bytes) || !*text || !g_utf8_validate(text, -1, NULL))
        check_fails("device: %s is empty, has no end, or is not UTF-8", what);
}

static void expect_device(const struct bench *bench, uint32_t number, GHashTable *uuids)
{
    tutti_accelerator_info info = {.struct_size = sizeof info};

    bench_expect(bench->ops->device(bench->driver, (int32_t)number, &info), "device");
    expect_text("name", info.name, sizeof info.name);
    expect_text("uuid_text", info.uuid_text, sizeof info.uuid_text);
    if (!info.bytes)
        check_fails("device %u has no memory", number);
    if (!g_hash_table_add(uuids, g_strdup(info.uuid_text)))
        check_fails("device %u has the UUID of another one, %s", number, info.uuid_text);
}

/* An older core knows less of a struct: what lies behind is its own. */
static void expect_sizes_are_kept(const struct bench *bench)
{
    struct {
        tutti_memory_place place;
        uint64_t behind;
    } guarded = {.place.struct_size = offsetof(tutti_memory_place, device), .behind = 7};

    guarded.place.device = 77;
    bench_expect(bench->ops->locate(bench->driver, &guarded, &guarded.place), "locate");
    if (guarded.place.device != 77 || guarded.behind != 7)
        check_fails("locate writes beyond struct_size of the struct that it fills in");
}

void check_device_opens(const struct check_member *member)
{
    g_autoptr(GHashTable) uuids = g_hash_table_new_full(g_str_hash, g_str_equal, g_free, NULL);
    struct bench bench = bench_driver(member->subject);
    const uint32_t count = count_devices(&bench);
    tutti_accelerator_info info = {.struct_size = sizeof info};
    tutti_accelerator *none;

    check_doing("being asked for its devices");
    if (bench.ops->device_type <= 1)
        check_fails("device_type is %d, which is DLPack's number for host memory or none",
                    bench.ops->device_type);
    for (uint32_t i = 0; i < count; i++)
        expect_device(&bench, i, uuids);
    expect_sizes_are_kept(&bench);
    bench_forget();
    bench_expect_words("device with a number that does not exist",
                       bench.ops->device(bench.driver, (int32_t)count, &info),
                       TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("device -1", bench.ops->device(bench.driver, -1, &info),
                       TUTTI_ERR_INVALID_ARGUMENT);
    bench_expect_words("attach of a number that does not exist",
                       bench.ops->attach(bench.driver, (int32_t)count, &none),
                       TUTTI_ERR_INVALID_ARGUMENT);
    bench.ops->close(bench.driver);
    bench = bench_open(member->subject); /* again */
    bench_close(&bench);
}

/* ---- memory ---------------------------------------------------------------------------------- */

static void expect_place(const struct bench *bench, const char *what, const void *address,
                         uint32_t kind, int32_t device)
{
    tutti_memory_place place = {.struct_size = sizeof place};

    check_enters("locate");
    const tutti_status status = bench->ops->locate(bench->driver, address, &place);
    check_leaves();
    bench_expect(status, "locate");
    if (place.kind != kind || place.device != device)
        check_fails("locate of %s says kind %u of device %d instead of kind %u of device %d", what,
                    place.kind, place.device, kind, device);
}

static void try_memory(const struct bench *bench, uint64_t bytes)
{
    char *device = bench_allocate(bench, TUTTI_MEMORY_DEVICE, bytes);
    char *pinned = bench_allocate(bench, TUTTI_MEMORY_PINNED, bytes);

    memset(pinned, 1, bytes); /* the host may touch it */
    expect_place(bench, "device memory", device, TUTTI_MEMORY_DEVICE, 0);
    expect_place(bench, "the last byte of device memory", device + bytes - 1, TUTTI_MEMORY_DEVICE,
                 0);
    expect_place(bench, "pinned memory", pinned, TUTTI_MEMORY_PINNED, -1);
    expect_place(bench, "the last byte of pinned memory", pinned + bytes - 1, TUTTI_MEMORY_PINNED,
                 -1);
    bench_release(bench, TUTTI_MEMORY_DEVICE, device);
    bench_release(bench, TUTTI_MEMORY_PINNED, pinned);
}

static void try_managed(const struct bench *bench)
{
    tutti_accelerator_info info = {.struct_size = sizeof info};
    void *memory;

    bench_expect(bench->ops->device(bench->driver, 0, &info), "device");
    if (!(info.flags & TUTTI_ACCELERATOR_HAS_MANAGED))
        return;
    memory = bench_allocate(bench, TUTTI_MEMORY_MANAGED, MIB);
    expect_place(bench, "managed memory", memory, TUTTI_MEMORY_MANAGED, 0);
    memset(memory, 1, MIB);
    bench_release(bench, TUTTI_MEMORY_MANAGED, memory);
}

void check_device_memory(const struct check_member *member)
{
    static const uint64_t sizes[] = {1, 100, 4096, MIB, 5 * MIB + 3};
    struct bench bench = bench_open(member->subject);
    g_autofree char *heap = g_malloc(MIB);
    void *memory;
    int local = 0;

    check_doing("allocating and locating memory");
    for (int round = 0; round < ROUNDS; round++)
        for (size_t i = 0; i < G_N_ELEMENTS(sizes); i++)
            try_memory(&bench, sizes[i]);
    try_managed(&bench);
    expect_place(&bench, "memory of malloc", heap, TUTTI_MEMORY_UNKNOWN, -1);
    expect_place(&bench, "the stack", &local, TUTTI_MEMORY_UNKNOWN, -1);
    expect_place(&bench, "the address 0", NULL, TUTTI_MEMORY_UNKNOWN, -1);
    bench_release(&bench, TUTTI_MEMORY_DEVICE, NULL);
    bench_release(&bench, TUTTI_MEMORY_PINNED, NULL);
    bench_forget();
    bench_expect_words(
        "allocate of more than there is",
        bench.ops->allocate(bench.accelerator, TUTTI_MEMORY_DEVICE, UINT64_C(1) << 50, &memory),
        TUTTI_ERR_NO_MEMORY);
    bench_expect_words("allocate of kind 99",
                       bench.ops->allocate(bench.accelerator, 99, 1, &memory),
                       TUTTI_ERR_INVALID_ARGUMENT);
    try_memory(&bench, MIB);
    bench_close(&bench);
}
