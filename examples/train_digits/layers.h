/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers, one image at a time, in f32. Images are channel by channel, row by row. Backward
 * functions take the gradient of the loss with respect to their output and add to the gradients of
 * their weights, so that a batch is summed by calling them one image after the other; gradients
 * with respect to inputs are written, not added.
 */
#ifndef TRAIN_DIGITS_LAYERS_H
#define TRAIN_DIGITS_LAYERS_H

#include <stddef.h>
#include <stdint.h>

#include "random.h"

/* A convolution of square images with a square kernel, stride 1, zeros around. */
struct convolution {
    int in_channels, in_side, kernel, padding, out_channels;
};

int convolution_out_side(const struct convolution *c);
/** Weights of one output channel: in_channels * kernel * kernel. */
size_t convolution_fan_in(const struct convolution *c);
/** Floats in `columns`: fan_in rows, one column for each output pixel. */
size_t convolution_columns(const struct convolution *c);

/** weights: out_channels rows of fan_in; bias: out_channels. `columns` is kept for backward. */
void convolution_forward(const struct convolution *c, const float *weights, const float *bias,
                         const float *in, float *columns, float *out);
/** `d_in` may be NULL; otherwise `columns` is overwritten to compute it. */
void convolution_backward(const struct convolution *c, const float *weights, float *columns,
                          const float *d_out, float *d_weights, float *d_bias, float *d_in);

/** Largest of each 2x2 block; an odd last row or column is left out. `chosen` receives, for each
 * output pixel, the input pixel that it came from. */
void max_pool_forward(int channels, int side, const float *in, float *out, uint32_t *chosen);
void max_pool_backward(int channels, int side, const float *d_out, const uint32_t *chosen,
                       float *d_in);

void relu_forward(float *values, size_t count);
/** `values` is what relu_forward() left. */
void relu_backward(const float *values, float *gradients, size_t count);

/** out = weights * in + bias; weights: outputs rows of inputs. */
void linear_forward(size_t inputs, size_t outputs, const float *weights, const float *bias,
                    const float *in, float *out);
void linear_backward(size_t inputs, size_t outputs, const float *weights, const float *in,
                     const float *d_out, float *d_weights, float *d_bias, float *d_in);

/** Fills `mask` with 0 (with probability `share`) and 1/(1-share), one number for each run of
 * `run` values: 1 drops values, the pixels of a channel drop whole channels. */
void dropout_mask(struct random *random, float share, size_t count, size_t run, float *mask);
/** Multiplies; the same for values on the way forward and gradients on the way back. */
void dropout_apply(const float *mask, float *values, size_t count);

/** Negative log likelihood of `label` under the softmax of `scores`, in place: leaves the log
 * probabilities there. */
float log_softmax_loss(float *scores, size_t count, uint8_t label);
void log_softmax_loss_backward(const float *log_probabilities, size_t count, uint8_t label,
                               float *d_scores);

#endif
