/* SPDX-License-Identifier: Apache-2.0 */
#include "driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEADLINE_S 60

struct driver cu;

/* ThreadSanitizer waits for a second at the end of each process. */
__attribute__((visibility("default"))) const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "atexit_sleep_ms=0";
}

static int failures;
static uint32_t *held; /* streams wait until it is `holds` */
static uint32_t holds;

bool driver_check(const char *file, int line, const char *condition, bool holds_true)
{
    if (!holds_true) {
        printf("# %s:%d: %s\n", file, line, condition);
        failures++;
    }
    return holds_true;
}

bool driver_expect(const char *file, int line, const char *call, CUresult got, CUresult wanted)
{
    const char *name = "?", *right = "?";

    if (got == wanted)
        return true;
    cu.cuGetErrorName(got, &name);
    cu.cuGetErrorName(wanted, &right);
    printf("# %s:%d: %s\n#   is %d (%s), not %d (%s)\n", file, line, call, (int)got, name,
           (int)wanted, right);
    failures++;
    return false;
}

static bool load(void)
{
    const char *path = getenv("TUTTI_CUDA");
    void *library = dlopen(path && *path ? path : STANDIN_LIBCUDA, RTLD_NOW | RTLD_LOCAL);
    bool whole = library != NULL;

    if (!library) {
        printf("Bail out! %s\n", dlerror());
        return false;
    }
#define LOAD(name, arguments)                                                                      \
    *(void **)&cu.name = dlsym(library, #name);                                                    \
    whole = cu.name && whole;
    DRIVER_FUNCTIONS(LOAD)
    MORE_FUNCTIONS(LOAD)
#undef LOAD
    *(void **)&cu.standin_cuda_lose = dlsym(library, "standin_cuda_lose");
    if (!whole)
        printf("Bail out! libcuda lacks a function: %s\n", dlerror());
    return whole;
}

void driver_begin(void)
{
    CUcontext context;

    if (!OK(cu.cuInit(0)) || !OK(cu.cuDevicePrimaryCtxRetain(&context, 0)) ||
        !OK(cu.cuCtxPushCurrent_v2(context)))
        _exit(1);
}

int driver_code(void)
{
    return failures ? 1 : 0;
}

/* In the child. Its stderr is looked through for `says`. */
static void run_child(const struct driver_case *it, int words)
{
    alarm(DEADLINE_S);
    if (it->says)
        dup2(words, STDERR_FILENO);
    if (!it->bare)
        driver_begin();
    it->run();
    fflush(stdout);
    _exit(driver_code());
}

static bool ended_as_wanted(const struct driver_case *it, int status, int words)
{
    char text[2048];
    ssize_t length = 0;

    if (it->says) {
        length = pread(words, text, sizeof text - 1, 0);
        text[length > 0 ? length : 0] = '\0';
        if (!strstr(text, it->says)) {
            printf("# stderr lacks «%s»: %s\n", it->says, text);
            return false;
        }
    }
    if (it->ends ? WIFSIGNALED(status) && WTERMSIG(status) == it->ends : status == 0)
        return true;
    if (WIFSIGNALED(status))
        printf("# ended by signal %d\n", WTERMSIG(status));
    else
        printf("# exit code %d\n", WEXITSTATUS(status));
    return false;
}

static bool run_case(const struct driver_case *it)
{
    char path[] = "/tmp/standin-XXXXXX";
    int words = mkstemp(path), status = 0;
    pid_t child;
    bool fine;

    unlink(path);
    fflush(stdout);
    child = fork();
    if (child == 0)
        run_child(it, words);
    while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    fine = child > 0 && ended_as_wanted(it, status, words);
    close(words);
    return fine;
}

static bool is_chosen(const char *name, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strstr(name, argv[i]))
            return true;
    return argc < 2;
}

int driver_run(const struct driver_case *cases, int count, int argc, char **argv)
{
    char seed[32];
    int wrong = 0, number = 0;

    snprintf(seed, sizeof seed, "%ld", (long)time(NULL) ^ getpid());
    setenv("STANDIN_CUDA_SEED", seed, 0);
    printf("# STANDIN_CUDA_SEED=%s\n", getenv("STANDIN_CUDA_SEED"));
    if (!load())
        return 1;
    for (int i = 0; i < count; i++) {
        bool fine;

        if (!is_chosen(cases[i].name, argc, argv))
            continue;
        fine = run_case(&cases[i]);
        wrong += !fine;
        printf("%s %d - %s\n", fine ? "ok" : "not ok", ++number, cases[i].name);
    }
    printf("1..%d\n", number);
    return wrong ? 1 : 0;
}

CUstream driver_stream(unsigned flags)
{
    CUstream stream = NULL;

    OK(cu.cuStreamCreate(&stream, flags));
    return stream;
}

CUevent driver_event(void)
{
    CUevent event = NULL;

    OK(cu.cuEventCreate(&event, 0));
    return event;
}

CUdeviceptr driver_memory(size_t bytes)
{
    CUdeviceptr memory = 0;

    OK(cu.cuMemAlloc_v2(&memory, bytes));
    return memory;
}

void *driver_pinned(size_t bytes)
{
    void *memory = NULL;

    if (!OK(cu.cuMemHostAlloc(&memory, bytes, 0)))
        _exit(1);
    memset(memory, 0, bytes);
    return memory;
}

CUdeviceptr at(const void *host)
{
    return (CUdeviceptr)(uintptr_t)host;
}

void driver_hold(CUstream stream)
{
    if (!held)
        held = driver_pinned(sizeof *held);
    OK(cu.cuStreamWaitValue32_v2(stream, at(held), holds + 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void driver_release(void)
{
    __atomic_store_n(held, ++holds, __ATOMIC_SEQ_CST);
}

static CUresult ask_until(CUevent event, int ms)
{
    CUresult result = cu.cuEventQuery(event);

    for (int i = 0; i < ms && result == CUDA_ERROR_NOT_READY; i++) {
        usleep(1000);
        result = cu.cuEventQuery(event);
    }
    return result;
}

bool driver_is_reached(CUevent event)
{
    return ask_until(event, 5000) == CUDA_SUCCESS;
}

bool driver_is_held(CUevent event)
{
    return ask_until(event, 30) == CUDA_ERROR_NOT_READY;
}

CUevent driver_mark(CUstream stream)
{
    CUevent event = driver_event();

    OK(cu.cuEventRecord(event, stream));
    return event;
}

CUevent driver_work(CUstream stream)
{
    OK(cu.cuMemsetD32Async(driver_memory(64), 1, 16, stream));
    return driver_mark(stream);
}

uint32_t driver_word(CUdeviceptr address)
{
    uint32_t word = 0;

    OK(cu.cuCtxSynchronize());
    OK(cu.cuMemcpyDtoH_v2(&word, address, sizeof word));
    return word;
}
