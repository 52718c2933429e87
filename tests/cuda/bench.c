/* SPDX-License-Identifier: Apache-2.0 */
#include "cuda/bench.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEADLINE_MS = 20000 };

static char words[2048];

static void host_log(void *self, int32_t level, const char *text)
{
    (void)self;
    fprintf(stderr, "log %d: %s\n", level, text);
}

static int64_t host_now(void *self)
{
    struct timespec now;

    (void)self;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static void *host_allocate(void *self, uint64_t bytes)
{
    (void)self;
    return calloc(1, bytes);
}

static void host_release(void *self, void *memory)
{
    (void)self;
    free(memory);
}

static const char *host_config(void *self, const char *key)
{
    (void)self;
    return *key ? NULL : getenv("TUTTI_CUDA");
}

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *text)
{
    (void)self;
    (void)system_errno;
    snprintf(words, sizeof words, "%s", text);
    return status;
}

static const tutti_host host = {.struct_size = sizeof host,
                                .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                .log = host_log,
                                .now_ns = host_now,
                                .allocate = host_allocate,
                                .release = host_release,
                                .config = host_config,
                                .error = host_error};

void bench_set(const char *name, const char *value)
{
    cr_assert_eq(setenv(name, value, 1), 0);
}

const tutti_device_ops *bench_table(void)
{
    void *library = dlopen(TUTTI_CUDA_PLUGIN, RTLD_NOW | RTLD_LOCAL);
    const tutti_plugin *plugin = library ? dlsym(library, TUTTI_PLUGIN_SYMBOL) : NULL;

    cr_assert_not_null(plugin, "%s", dlerror());
    cr_assert_eq(plugin->providers[0]->kind, TUTTI_PROVIDER_DEVICE);
    return plugin->providers[0]->ops;
}

tutti_status bench_open_driver(struct bench *ret_bench)
{
    setenv("TUTTI_CUDA", TUTTI_STANDIN_CUDA, 0);
    *ret_bench = (struct bench){.ops = bench_table()};
    return ret_bench->ops->open(&host, NULL, &ret_bench->driver);
}

struct bench bench_open(void)
{
    struct bench bench;

    cr_assert_eq(bench_open_driver(&bench), TUTTI_OK, "%s", words);
    cr_assert_eq(bench.ops->attach(bench.driver, 0, &bench.accelerator), TUTTI_OK, "%s", words);
    cr_assert_eq(bench.ops->stream_create(bench.accelerator, &bench.stream), TUTTI_OK, "%s", words);
    return bench;
}

void bench_close(struct bench *bench)
{
    bench->ops->stream_free(bench->accelerator, bench->stream);
    bench->ops->detach(bench->accelerator);
    bench->ops->close(bench->driver);
}

struct driver bench_driver(void)
{
    void *library = dlopen(TUTTI_STANDIN_CUDA, RTLD_NOW | RTLD_LOCAL);
    struct driver driver;

    cr_assert_not_null(library, "%s", dlerror());
#define FIND(name, arguments) *(void **)&driver.name = dlsym(library, #name);
    DRIVER_FUNCTIONS(FIND)
    MORE_FUNCTIONS(FIND)
#undef FIND
    cr_assert_eq(driver.cuInit(0), CUDA_SUCCESS);
    return driver;
}

const char *bench_words(void)
{
    return words;
}

void bench_expect_words(const char *first, ...)
{
    va_list list;

    va_start(list, first);
    for (const char *word = first; word; word = va_arg(list, const char *))
        cr_expect_not_null(strstr(words, word), "\"%s\" is not in: %s", word, words);
    va_end(list);
}

tutti_status bench_wait(const struct bench *bench, tutti_device_event *event)
{
    const int64_t deadline = host_now(NULL) + DEADLINE_MS * INT64_C(1000000);
    tutti_status status;

    do
        status = bench->ops->event_query(event);
    while (status == TUTTI_ERR_NOT_READY && host_now(NULL) < deadline);
    return status;
}

tutti_status bench_finish(const struct bench *bench, void *stream)
{
    tutti_device_event *event;
    tutti_status status = bench->ops->event_create(bench->accelerator, &event);

    if (status)
        return status;
    status = bench->ops->event_record(event, stream);
    if (!status)
        status = bench_wait(bench, event);
    bench->ops->event_free(event);
    return status;
}
