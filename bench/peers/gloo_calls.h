/* SPDX-License-Identifier: Apache-2.0 */
/* Gloo's calls with the arguments of measure.h; a failure of Gloo ends the program with its words. */
#pragma once

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

int gloo_print_version(void);
/* The members meet in a folder, which is empty before. */
void gloo_open(int rank, int size, const char *folder);
void gloo_close(void);

void gloo_barrier(void);
double gloo_max(double value);
void gloo_all_reduce(float *in, float *out, size_t count);
void gloo_broadcast(float *in, float *out, size_t count);
void gloo_reduce(float *in, float *out, size_t count);
void gloo_all_gather(float *in, float *out, size_t count);
void gloo_gather(float *in, float *out, size_t count);
void gloo_scatter(float *in, float *out, size_t count);
void gloo_all_to_all(float *in, float *out, size_t count);
void gloo_ping_pong(float *in, float *out, size_t count);

#ifdef __cplusplus
}
#endif
