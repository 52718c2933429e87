/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array of floats on an NVIDIA GPU, by CUDA's driver API: what a program needs that shows tutti a
 * tensor there. The driver's library is opened at run time, so the build needs nothing of CUDA's.
 */
#ifndef TRAIN_DIGITS_GPU_H
#define TRAIN_DIGITS_GPU_H

#include <stdbool.h>
#include <stddef.h>

#include "failure.h"

struct gpu;

/** Takes a GPU: "cuda:1", or "cuda" for the one with the number `local_rank` modulo their number, as
 * tutti_init() does. gpu_close() frees. */
bool gpu_open(const char *device, int local_rank, struct gpu **ret_gpu, struct failure *why);
void gpu_close(struct gpu *gpu);
int gpu_number(const struct gpu *gpu);

/** Copies `count` floats to the GPU, where they lie at the place that is returned: it is the same one in
 * each call with the same count. */
bool gpu_put(struct gpu *gpu, const float *values, size_t count, void **ret_place,
             struct failure *why);
/** Copies them back, after what lies on the legacy stream. */
bool gpu_get(struct gpu *gpu, float *ret_values, size_t count, struct failure *why);

#endif
