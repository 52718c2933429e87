/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one call of a libc function fail, once: preloaded into a rank of the sweep.
 *
 *     NTH_FUNCTION=recv NTH_CALL=7 NTH_ERRNO=104 NTH_RANK=1
 *
 * Only calls made from libtutti*.so count, which the return address tells, so that neither libc nor a
 * library of somebody else's fails. NTH_TRACE=1 shows on stderr where the call was.
 *
 * All wrappers are alike: seven words are passed on, as many as any of these functions takes in registers
 * or as its first word on the stack, and a word is returned. That is how the ABIs of x86-64 and AArch64 pass
 * integers and pointers, variadic or not; no function here takes or returns anything else.
 *
 * Memory that libtutti has allocated and nobody has freed is counted too: nth_live().
 */
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <link.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sweep/nth_call.h"

enum { RANGES = 128, LIVE_MAX = 1 << 16, FRAMES = 16 };

#define NAME_OF(name, returns) NTH_##name,
enum nth_function { NTH_FUNCTIONS(NAME_OF) NTH_COUNT };
#undef NAME_OF

static const char *const names[] = {
#define NAME_OF(name, returns) #name,
    NTH_FUNCTIONS(NAME_OF)
#undef NAME_OF
};

static int wanted = -1, wanted_errno;
static long wanted_call;
static bool traces;
static _Atomic long calls[NTH_COUNT];
static _Atomic bool has_failed;

/* ---- who calls ---- */

struct range {
    uintptr_t begin, end;
    bool tutti;
};

static struct range ranges[RANGES];
static _Atomic int range_count;
static atomic_flag lock = ATOMIC_FLAG_INIT;

static void take(void)
{
    while (atomic_flag_test_and_set_explicit(&lock, memory_order_acquire))
        sched_yield();
}

static void release(void)
{
    atomic_flag_clear_explicit(&lock, memory_order_release);
}

struct look {
    uintptr_t address;
    struct range found;
};

static int look_at(struct dl_phdr_info *info, size_t size, void *user)
{
    struct look *look = user;
    const char *slash = strrchr(info->dlpi_name, '/');

    (void)size;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + p->p_vaddr, end = begin + p->p_memsz;

        if (p->p_type != PT_LOAD || look->address < begin || look->address >= end)
            continue;
        look->found = (struct range){begin, end, slash && !strncmp(slash, "/libtutti", 9)};
        return 1;
    }
    return 0;
}

/* The loader's lock is taken before ours, never after: it allocates under its own. */
static bool is_tutti(const void *caller)
{
    struct look look = {.address = (uintptr_t)caller};
    const int count = atomic_load_explicit(&range_count, memory_order_acquire);

    for (int i = 0; i < count; i++)
        if (look.address >= ranges[i].begin && look.address < ranges[i].end)
            return ranges[i].tutti;
    if (!dl_iterate_phdr(look_at, &look))
        return false;
    take();
    if (range_count < RANGES) {
        ranges[range_count] = look.found;
        atomic_fetch_add_explicit(&range_count, 1, memory_order_release);
    }
    release();
    return look.found.tutti;
}

/* ---- memory ---- */

static struct {
    uintptr_t pointer;
    const void *caller;
} live[LIVE_MAX];
static long live_count;

static size_t slot_of(uintptr_t pointer)
{
    return (pointer >> 4) * 0x9e3779b97f4a7c15u >> 48;
}

static void born(long pointer, const void *caller)
{
    if (!pointer || !is_tutti(caller))
        return;
    take();
    size_t at = slot_of((uintptr_t)pointer);
    for (size_t tries = 0; live[at].pointer > 1 && tries < LIVE_MAX; tries++)
        at = (at + 1) % LIVE_MAX;
    live[at].pointer = (uintptr_t)pointer;
    live[at].caller = caller;
    live_count++;
    release();
}

/* A slot that was used stays part of its chain: 1. */
static void died(long pointer)
{
    if (!pointer || !live_count)
        return;
    take();
    size_t at = slot_of((uintptr_t)pointer);
    for (size_t tries = 0; live[at].pointer && tries < LIVE_MAX;
         tries++, at = (at + 1) % LIVE_MAX) {
        if (live[at].pointer != (uintptr_t)pointer)
            continue;
        live[at].pointer = 1;
        live_count--;
        break;
    }
    release();
}

/* ---- failing ---- */

static void trace(void)
{
    void *frames[FRAMES];

    backtrace_symbols_fd(frames, backtrace(frames, FRAMES), STDERR_FILENO);
}

static bool fails(enum nth_function function, const void *caller)
{
    if (!is_tutti(caller))
        return false;
    if (atomic_fetch_add(&calls[function], 1) + 1 != wanted_call || (int)function != wanted)
        return false;
    atomic_store(&has_failed, true);
    if (traces)
        trace();
    errno = wanted_errno;
    return true;
}

__attribute__((constructor)) static void read_environment(void)
{
    const char *function = getenv("NTH_FUNCTION"), *call = getenv("NTH_CALL"),
               *number = getenv("NTH_ERRNO"), *rank = getenv("NTH_RANK"), *own = getenv("RANK");

    traces = getenv("NTH_TRACE");
    if (traces)
        (void)backtrace(&(void *){NULL}, 1); /* loads what it needs, now */
    if (!function || !call || !number || !rank || !own || strcmp(rank, own) != 0)
        return;
    wanted_call = strtol(call, NULL, 10);
    wanted_errno = (int)strtol(number, NULL, 10);
    for (int i = 0; i < NTH_COUNT; i++)
        if (!strcmp(names[i], function))
            wanted = i;
}

long nth_calls(int function)
{
    return atomic_load(&calls[function]);
}

bool nth_failed(void)
{
    return atomic_load(&has_failed);
}

long nth_live(void)
{
    for (size_t i = 0; traces && i < LIVE_MAX; i++)
        if (live[i].pointer > 1)
            backtrace_symbols_fd((void *[]){(void *)(uintptr_t)live[i].caller}, 1, STDERR_FILENO);
    return live_count;
}

/* ---- the functions ---- */

typedef long (*any_function)(long, long, long, long, long, long, long);

extern long libc_malloc(long) __asm__("__libc_malloc");
extern long libc_calloc(long, long) __asm__("__libc_calloc");
extern long libc_realloc(long, long) __asm__("__libc_realloc");
extern long libc_memalign(long, long) __asm__("__libc_memalign");
extern void libc_free(long) __asm__("__libc_free");

long nth_malloc(long) __asm__("malloc");
long nth_calloc(long, long) __asm__("calloc");
long nth_realloc(long, long) __asm__("realloc");
long nth_aligned_alloc(long, long) __asm__("aligned_alloc");
long nth_strdup(const char *) __asm__("strdup");
void nth_free(long) __asm__("free");

#define CALLER __builtin_extract_return_addr(__builtin_return_address(0))

/* dlsym() allocates, so the allocator has its real functions by name. */
long nth_malloc(long size)
{
    long pointer = fails(NTH_malloc, CALLER) ? 0 : libc_malloc(size);

    born(pointer, CALLER);
    return pointer;
}

long nth_calloc(long count, long size)
{
    long pointer = fails(NTH_calloc, CALLER) ? 0 : libc_calloc(count, size);

    born(pointer, CALLER);
    return pointer;
}

long nth_realloc(long old, long size)
{
    if (fails(NTH_realloc, CALLER))
        return 0;
    long pointer = libc_realloc(old, size);

    if (pointer)
        died(old);
    born(pointer, CALLER);
    return pointer;
}

long nth_aligned_alloc(long alignment, long size)
{
    long pointer = fails(NTH_aligned_alloc, CALLER) ? 0 : libc_memalign(alignment, size);

    born(pointer, CALLER);
    return pointer;
}

long nth_strdup(const char *text)
{
    const size_t size = strlen(text) + 1;
    long pointer = fails(NTH_strdup, CALLER) ? 0 : libc_malloc((long)size);

    if (pointer)
        memcpy((void *)(uintptr_t)pointer, text, size); /* NOLINT */
    born(pointer, CALLER);
    return pointer;
}

void nth_free(long pointer)
{
    died(pointer);
    libc_free(pointer);
}

#define WRAPPER(name, returns)                                                                     \
    long nth_##name(long, long, long, long, long, long, long) __asm__(#name);                      \
    long nth_##name(long a, long b, long c, long d, long e, long f, long g)                        \
    {                                                                                              \
        static _Atomic(any_function) real;                                                         \
                                                                                                   \
        if (fails(NTH_##name, CALLER))                                                             \
            return (returns);                                                                      \
        if (!real)                                                                                 \
            real = (any_function)(uintptr_t)dlsym(RTLD_NEXT, #name);                               \
        return real(a, b, c, d, e, f, g);                                                          \
    }
NTH_CALLS(WRAPPER)
