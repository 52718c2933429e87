/* SPDX-License-Identifier: Apache-2.0 */
#include "nccl_ranks.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_S 60

struct nccl nccl;
int rank, size;
ncclComm_t comm;

static struct shared {
    ncclUniqueId id;
    _Atomic bool has_id;
    _Atomic int words[RANKS_MAX];
    _Atomic int meetings[RANKS_MAX];
} * shared;

bool nccl_expect(const char *file, int line, const char *call, ncclResult_t got,
                 ncclResult_t wanted)
{
    if (got == wanted)
        return true;
    printf("# rank %d: %s: is %d (%s), not %d\n", rank, call, (int)got, nccl.ncclGetLastError(NULL),
           (int)wanted);
    return driver_check(file, line, call, false);
}

static void *open_library(void)
{
    const char *path = getenv("TUTTI_NCCL");

    return dlopen(path && *path ? path : STANDIN_LIBNCCL, RTLD_NOW | RTLD_LOCAL);
}

bool ranks_have_library(void)
{
    void *library = open_library();

    if (library)
        dlclose(library);
    return library != NULL;
}

static void load(void)
{
    void *library = open_library();

    if (!library) {
        printf("# %s\n", dlerror());
        exit(1);
    }
#define LOAD(result, name, arguments) *(void **)&nccl.name = dlsym(library, #name);
    NCCL_FUNCTIONS(LOAD)
    NCCL_MEMORY_FUNCTIONS(LOAD)
    NCCL_NEW_FUNCTIONS(LOAD)
#undef LOAD
}

static void share(void)
{
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED)
        exit(1);
}

void ranks_alone(void)
{
    size = 1;
    share();
    driver_begin();
    load();
}

static void run_rank(void (*run)(void))
{
    char host[16];

    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(DEADLINE_S);
    snprintf(host, sizeof host, "%d", rank);
    setenv("NCCL_HOSTID", host, 0);
    setenv("RANK", host, 1);
    driver_begin();
    load();
    run();
    fflush(stdout);
    _exit(driver_code());
}

void ranks_run(int count, void (*run)(void))
{
    pid_t pids[RANKS_MAX];

    size = count;
    share();
    fflush(stdout);
    for (rank = 0; rank < size; rank++) {
        pids[rank] = fork();
        if (pids[rank] == 0)
            run_rank(run);
    }
    for (int r = 0; r < size; r++) {
        int status = -1;

        waitpid(pids[r], &status, 0);
        if (!CHECK(status == 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)))
            printf("# rank %d: status %#x\n", r, (unsigned)status);
    }
    munmap(shared, sizeof *shared);
}

void ranks_tell(int value)
{
    atomic_store(&shared->words[rank], value);
}

bool ranks_heard(int from, int value, int ms)
{
    for (int i = 0; i < ms && atomic_load(&shared->words[from]) < value; i++)
        usleep(1000);
    return atomic_load(&shared->words[from]) >= value;
}

void ranks_meet(void)
{
    const int meeting = atomic_fetch_add(&shared->meetings[rank], 1) + 1;

    for (int r = 0, ms = 0; r < size; ms++) {
        if (atomic_load(&shared->meetings[r]) >= meeting) {
            r++;
            continue;
        }
        if (!CHECK(ms < 30000))
            _exit(1);
        usleep(1000);
    }
}

ncclUniqueId ranks_id(void)
{
    if (rank == 0 && !atomic_load(&shared->has_id)) {
        FINE(nccl.ncclGetUniqueId(&shared->id));
        atomic_store(&shared->has_id, true);
    }
    for (int ms = 0; !atomic_load(&shared->has_id) && CHECK(ms < 30000); ms++)
        usleep(1000);
    return shared->id;
}

void ranks_renew_id(void)
{
    ranks_meet();
    if (rank == 0)
        atomic_store(&shared->has_id, false);
    ranks_meet();
}

ncclResult_t ranks_join(bool blocking)
{
    ncclConfig_t config = NCCL_CONFIG(blocking);

    return nccl.ncclCommInitRankConfig(&comm, size, ranks_id(), rank, &config);
}

ncclResult_t ranks_result(ncclComm_t of, int ms)
{
    ncclResult_t result = ncclInProgress;

    for (int i = 0; i < ms && result == ncclInProgress; i++) {
        FINE(nccl.ncclCommGetAsyncError(of, &result));
        if (result == ncclInProgress)
            usleep(1000);
    }
    return result;
}

void ranks_make(void)
{
    if (!FINE(ranks_join(true)))
        _exit(1);
}

void ranks_end(void)
{
    OK(cu.cuCtxSynchronize());
    FINE(nccl.ncclCommFinalize(comm));
    GIVES(ranks_result(comm, 10000), ncclSuccess);
    FINE(nccl.ncclCommDestroy(comm));
}

double ranks_now_ms(void)
{
    struct timespec now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

float *ranks_memory(size_t count, float value)
{
    CUdeviceptr memory = driver_memory(count * sizeof value);
    unsigned bits;

    memcpy(&bits, &value, sizeof bits);
    OK(cu.cuMemsetD32_v2(memory, bits, count));
    OK(cu.cuCtxSynchronize());
    return (float *)(uintptr_t)memory;
}

float ranks_float(const float *memory, size_t at_element)
{
    const uint32_t bits = driver_word(at(memory + at_element));
    float value;

    memcpy(&value, &bits, sizeof value);
    return value;
}
