/* SPDX-License-Identifier: Apache-2.0 */
#include "memory/pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cgroup.h"
#include "base/cleanup.h"
#include "base/error.h"
#include "base/fork.h"
#include "base/log.h"

enum {
    SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL,
    FILL_BYTES = 64 << 20 /* taken before it is looked again how much there is */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pages *all;

uint64_t pages_unit(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

/* ---- shared pages ---- */

static void close_pages(struct pages *pages)
{
    if (pages->fd >= 0)
        fork_close_now(pages->fd);
    free(pages);
}

void pages_forget(void)
{
    pthread_mutex_init(&lock, NULL);
    all = NULL;
}

/* A request for more would not fail, but have the kernel end processes until there is room. */
static uint64_t available_bytes(void)
{
    struct cgroup_limits limits;
    uint64_t kib, bytes = UINT64_MAX;
    char line[128];
    FILE *file = fopen("/proc/meminfo", "re");

    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) == 1)
            bytes = kib * 1024;
    if (file)
        fclose(file);
    cgroup_limits_read(&limits);
    return limits.memory_bytes && limits.memory_bytes < bytes ? limits.memory_bytes : bytes;
}

static tutti_status cannot_make(uint64_t bytes, int reason)
{
    return error_set_errno(
        reason == ENOSPC || reason == ENOMEM || reason == EFBIG ? TUTTI_ERR_NO_MEMORY
                                                                : TUTTI_ERR_SYSTEM,
        reason, "cannot make %" PRIu64 " bytes of shared memory (a memfd)", bytes);
}

/* Takes the pages in steps: others on the host may take some at the same time. */
static tutti_status fill(int fd, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes; at += FILL_BYTES) {
        const uint64_t left = bytes - at, available = available_bytes();

        if (left > available)
            return error_set(TUTTI_ERR_NO_MEMORY,
                             "%" PRIu64 " more bytes of shared memory are needed, and %" PRIu64
                             " bytes are available",
                             left, available);
        if (fallocate(fd, 0, (off_t)at, (off_t)(left < FILL_BYTES ? left : FILL_BYTES)))
            return cannot_make(bytes, errno);
    }
    return TUTTI_OK;
}

/* A file of `bytes`, all of them in memory: a write to a page that the system cannot give would kill this
 * process, or a peer. */
static tutti_status make_file(uint64_t bytes, struct pages **ret_pages)
{
    struct pages *pages = calloc(1, sizeof *pages);

    if (!pages)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory to register memory");
    pages->bytes = bytes;
    pages->holders = 1;
    pages->fd = memfd_create("tutti-memory", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    if (pages->fd >= 0)
        fork_close_add(pages->fd);
    tutti_status status = pages->fd >= 0 && !ftruncate(pages->fd, (off_t)bytes)
                              ? fill(pages->fd, bytes)
                              : cannot_make(bytes, errno);
    if (!status && fcntl(pages->fd, F_ADD_SEALS, SEALS))
        status = cannot_make(bytes, errno);
    if (status)
        close_pages(pages);
    else
        *ret_pages = pages;
    return status;
}

/* False: see errno. */
static bool map_file(struct pages *pages)
{
    void *base = mmap(NULL, pages->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, pages->fd, 0);

    if (base == MAP_FAILED)
        return false;
    pages->base = base;
    return true;
}

static tutti_status cannot_map(const struct pages *pages)
{
    return error_set_errno(TUTTI_ERR_NO_MEMORY, errno,
                           "cannot map %" PRIu64 " bytes of shared memory", pages->bytes);
}

static void keep(struct pages *pages)
{
    pages->next = all;
    all = pages;
}

tutti_status pages_allocate(uint64_t bytes, struct pages **ret_pages)
{
    const uint64_t unit = pages_unit();
    struct pages *pages;

    if (bytes > INT64_MAX - unit)
        return error_set(TUTTI_ERR_NO_MEMORY, "%" PRIu64 " bytes are more than any file can have",
                         bytes);
    tutti_status status = make_file((bytes + unit - 1) / unit * unit, &pages);
    if (status)
        return status;
    if (!map_file(pages)) {
        status = cannot_map(pages);
        close_pages(pages);
        return status;
    }
    LOCK_SCOPE(&lock);
    keep(pages);
    *ret_pages = pages;
    return TUTTI_OK;
}

/* ---- what lies at an address ---- */

struct mapping {
    uintptr_t begin, end;
    char rights[5];
    unsigned major, minor;
    uint64_t inode;
    char name[32]; /* "": anonymous */
};

static bool parse_mapping(const char *line, struct mapping *ret_mapping)
{
    struct mapping m = {0};
    int name = 0;

    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %4s %*s %x:%x %" SCNu64 " %n", &m.begin, &m.end,
               m.rights, &m.major, &m.minor, &m.inode, &name) < 6)
        return false;
    snprintf(m.name, sizeof m.name, "%.*s", (int)strcspn(line + name, "\n"), line + name);
    *ret_mapping = m;
    return true;
}

/* Calls `fn` for each mapping in [begin, end) until it fails; INVALID_ARGUMENT when there are gaps. */
static tutti_status
each_mapping(uintptr_t begin, uintptr_t end,
             tutti_status (*fn)(const struct mapping *mapping, const void *user), const void *user)
{
    FILE *file = fopen("/proc/self/maps", "re");
    AUTOFREE char *line = NULL;
    size_t capacity = 0;
    struct mapping mapping;
    tutti_status status = TUTTI_OK;

    if (!file)
        return error_set_errno(TUTTI_ERR_SYSTEM, errno, "cannot read /proc/self/maps");
    while (!status && begin < end && getline(&line, &capacity, file) > 0) {
        if (!parse_mapping(line, &mapping) || mapping.end <= begin)
            continue;
        if (mapping.begin > begin)
            break;
        status = fn(&mapping, user);
        begin = mapping.end;
    }
    fclose(file);
    if (!status && begin < end)
        status = error_set(TUTTI_ERR_INVALID_ARGUMENT, "nothing is mapped at %#" PRIxPTR, begin);
    return status;
}

/* The heap's pages hold other data, too, which other threads may write while they are replaced. */
static tutti_status may_be_adopted(const struct mapping *mapping, const void *user)
{
    const bool named = *mapping->name && strncmp(mapping->name, "[anon:", 6) != 0;
    const uintptr_t stack = (uintptr_t)&named;

    (void)user;
    if (stack >= mapping->begin && stack < mapping->end)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the memory is on this thread's stack, whose pages hold other data, too");
    if (strcmp(mapping->name, "[heap]") == 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the memory is in the heap, whose pages hold other data, too: use "
                         "tutti_memory_allocate(), or memory of mmap(2), or a larger allocation, "
                         "which malloc(3) takes by mmap(2)");
    if (named || mapping->inode || mapping->rights[3] != 'p')
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the memory is not private memory of the program, but %s: use "
                         "tutti_memory_allocate(), or memory of malloc(3) or mmap(2)",
                         mapping->rights[3] != 'p' ? "a shared mapping" : mapping->name);
    if (strncmp(mapping->rights, "rw", 2) != 0)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "the memory may not be read and written (it has the rights %s)",
                         mapping->rights);
    return TUTTI_OK;
}

static tutti_status is_still(const struct mapping *mapping, const void *user)
{
    const struct stat *file = user;

    return mapping->inode == file->st_ino && mapping->major == major(file->st_dev) &&
                   mapping->minor == minor(file->st_dev)
               ? TUTTI_OK
               : TUTTI_ERR_INVALID_ARGUMENT;
}

/* ---- adopting ---- */

/* Copies what is at `to` and moves the new mapping there; `from` is a mapping of the same size. */
static tutti_status replace(void *to, void *from, uint64_t bytes)
{
    memcpy(from, to, bytes);
    if (mremap(from, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) != MAP_FAILED)
        return TUTTI_OK;
    const int reason = errno;
    munmap(from, bytes);
    return error_set_errno(TUTTI_ERR_SYSTEM, reason, "cannot replace the pages at %p", to);
}

static tutti_status adopt_new(uintptr_t begin, uintptr_t end, struct pages **ret_pages)
{
    struct pages *pages;

    tutti_status status = each_mapping(begin, end, may_be_adopted, NULL);
    if (!status)
        status = make_file(end - begin, &pages);
    if (status)
        return status;
    status =
        map_file(pages) ? replace((void *)begin, pages->base, pages->bytes) : cannot_map(pages);
    if (status) {
        close_pages(pages);
        return status;
    }
    pages->base = (unsigned char *)begin;
    pages->adopted = true;
    keep(pages);
    *ret_pages = pages;
    return TUTTI_OK;
}

tutti_status pages_adopt(void *address, uint64_t bytes, struct pages **ret_pages)
{
    const uintptr_t unit = (uintptr_t)pages_unit(), first = (uintptr_t)address;

    if (first > UINTPTR_MAX - unit || bytes > UINTPTR_MAX - first - unit)
        return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                         "%" PRIu64 " bytes from %p on go beyond the end of the address space",
                         bytes, address);
    const uintptr_t begin = first / unit * unit;
    const uintptr_t end = (first + (uintptr_t)bytes + unit - 1) / unit * unit;

    LOCK_SCOPE(&lock);
    for (struct pages *pages = all; pages; pages = pages->next) {
        const uintptr_t base = (uintptr_t)pages->base;

        if (end <= base || begin >= base + pages->bytes)
            continue;
        if (begin < base || end > base + pages->bytes)
            return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                             "a part of the memory is registered already (%" PRIu64
                             " bytes from %p on): register all of it at once",
                             pages->bytes, (void *)pages->base);
        pages->holders++;
        *ret_pages = pages;
        return TUTTI_OK;
    }
    return adopt_new(begin, end, ret_pages);
}

/* Where the program has unmapped or replaced the pages since, they are left alone. Without memory for private
 * ones they stay shared. */
static void restore(const struct pages *pages)
{
    const uintptr_t begin = (uintptr_t)pages->base;
    struct stat file;

    if (fstat(pages->fd, &file) || each_mapping(begin, begin + pages->bytes, is_still, &file)) {
        log_line(LOG_WARN, -1,
                 "memory at %p was unmapped while it was registered: free a registration before "
                 "the memory",
                 (void *)pages->base);
        return;
    }
    void *private =
        mmap(NULL, pages->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (private == MAP_FAILED || replace(pages->base, private, pages->bytes))
        log_line(LOG_WARN, -1,
                 "memory at %p stays shared with the members of the group: there is no memory for "
                 "a private copy",
                 (void *)pages->base);
}

void pages_drop(struct pages *pages)
{
    struct pages **link = &all;
    LOCK_SCOPE(&lock);

    if (--pages->holders)
        return;
    while (*link != pages)
        link = &(*link)->next;
    *link = pages->next;
    if (pages->adopted)
        restore(pages);
    else
        munmap(pages->base, pages->bytes);
    close_pages(pages);
}

/* ---- a peer's ---- */

tutti_status pages_map(int fd, uint64_t offset, uint64_t bytes, void *at)
{
    struct stat file;
    const int seals = fcntl(fd, F_GET_SEALS);

    if (seals < 0 || (seals & SEALS) != SEALS || fstat(fd, &file) || !S_ISREG(file.st_mode))
        return error_set(TUTTI_ERR_DENIED, "it passed something that is not a sealed memory file");
    if (file.st_size < 0 || offset % pages_unit() || offset > (uint64_t)file.st_size ||
        bytes > (uint64_t)file.st_size - offset)
        return error_set(TUTTI_ERR_DENIED,
                         "it passed a memory file of %lld bytes for %" PRIu64 " bytes from %" PRIu64
                         " on",
                         (long long)file.st_size, bytes, offset);
    if (mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, (off_t)offset) ==
        MAP_FAILED)
        return error_set_errno(TUTTI_ERR_NO_MEMORY, errno, "cannot map it");
    return TUTTI_OK;
}
