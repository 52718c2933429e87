/* SPDX-License-Identifier: Apache-2.0
 *
 * For tests that run over the stand-in and over a real driver. Each case is a child process, so that it begins
 * with a driver that was not used, and has a deadline. TUTTI_CUDA names the library; else it is the stand-in of
 * this build. Output is TAP.
 */
#ifndef STANDIN_DRIVER_H
#define STANDIN_DRIVER_H

#include "cuda_more.h"

#include <stdbool.h>
#include <stdint.h>

struct driver {
#define MEMBER(name, arguments) CUresult(*name) arguments;
    DRIVER_FUNCTIONS(MEMBER)
    MORE_FUNCTIONS(MEMBER)
#undef MEMBER
    void (*standin_cuda_lose)(CUdevice device, CUresult error); /* NULL: a real driver */
};
extern struct driver cu;

/* One call, its result and the one that is right. */
#define EXPECT(call, result) driver_expect(__FILE__, __LINE__, #call, (call), (result))
#define OK(call) EXPECT(call, CUDA_SUCCESS)
#define CHECK(condition) driver_check(__FILE__, __LINE__, #condition, (condition))

bool driver_expect(const char *file, int line, const char *call, CUresult got, CUresult wanted);
bool driver_check(const char *file, int line, const char *condition, bool holds);

/* A case. `prepare` NULL: device 0's primary context is current in `run`. Else it runs before cuInit(), which `run`
 * calls by itself. `ends`: the signal that ends the process in it. */
struct driver_case {
    const char *name;
    void (*run)(void);
    bool bare;
    int ends;
    const char *says; /* on stderr */
};
/* One that is called as its function. */
#define DRIVER_CASE(name, bare, ends, says)                                                        \
    {                                                                                              \
#name, name, bare, ends, says                                                              \
    }

/* Runs the cases whose names contain an argument; returns main()'s result. */
int driver_run(const struct driver_case *cases, int count, int argc, char **argv);

/* For processes that a case starts: 1 if something in this process was not as it should be. */
int driver_code(void);

void driver_begin(void); /* cuInit(), and device 0's primary context is current */

/* What is there until the process ends. */
CUstream driver_stream(unsigned flags);
CUevent driver_event(void);
CUdeviceptr driver_memory(size_t bytes);
void *driver_pinned(size_t bytes); /* zeroed */
CUdeviceptr at(const void *host);

/* Holds a stream until driver_release(), and each later one that is held. */
void driver_hold(CUstream stream);
void driver_release(void);

/* The event is complete within 5 s. */
bool driver_is_reached(CUevent event);
/* It stays incomplete for 30 ms. */
bool driver_is_held(CUevent event);
/* A record in `stream`, of a fresh event. */
CUevent driver_mark(CUstream stream);
/* A fill, so that the stream has work of the device, too, and a mark. */
CUevent driver_work(CUstream stream);
/* The value of a word of the device, after all that was submitted. */
uint32_t driver_word(CUdeviceptr address);

#endif
