/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank's own use of its GPU, by the driver API: memory, streams, and a stream that is held. The library is that of
 * TUTTI_CUDA, the stand-in of tests/standin, or libcuda.so.1.
 *
 * Each function ends the case when the driver says no.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include <tutti/tensor.h>

/* Number of devices; 0: none, or no driver. */
int gpu_count(void);
/* Makes the primary context of a device current for this thread. */
void gpu_use(int number);
/* The device that gpu_use() named. */
tutti_device gpu_device(void);

void *gpu_allocate(size_t bytes);
void gpu_free(void *memory);
void *gpu_allocate_managed(size_t bytes);
void *gpu_allocate_pinned(size_t bytes);
void gpu_free_pinned(void *memory);

/* Waits for all that is on the legacy stream. */
void gpu_write(void *to, const void *from, size_t bytes);
void gpu_read(void *to, const void *from, size_t bytes);

void *gpu_stream(void);
void gpu_stream_free(void *stream);
/* Waits for the stream, 60 s at most. */
void gpu_synchronize(void *stream);
/* Whether all that is on the stream is done. */
int gpu_is_idle(void *stream);
/* Copies on the stream; host memory must be pinned. */
void gpu_copy_on(void *stream, void *to, const void *from, size_t bytes);
/* What is put on the stream from here on waits until gpu_let_go(). */
struct gpu_hold;
struct gpu_hold *gpu_hold(void *stream);
void gpu_let_go(struct gpu_hold *hold);
/* Begins and ends a capture of the stream, in the mode that forbids most; what was recorded is dropped, or a graph. */
void gpu_capture(void *stream);
void gpu_capture_end(void *stream);
void *gpu_graph(void *stream);
void gpu_replay(void *graph, void *stream);
void gpu_graph_free(void *graph);
/* The current context of this thread. */
void *gpu_context(void);
/* Makes a context of the program's own the current one. */
void gpu_use_own_context(void);
