/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Convolutions unfold the image into columns and become products of matrices, whose innermost loops
 * (add_scaled and dot) run over adjacent floats and vectorise without reordering sums: the same
 * program gives the same bits on every rank.
 */
#include "layers.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static void add_scaled(float *restrict to, float scale, const float *restrict from, size_t count)
{
    for (size_t i = 0; i < count; i++)
        to[i] += scale * from[i];
}

static float dot(const float *restrict a, const float *restrict b, size_t count)
{
    float lanes[8] = {0}, tail = 0;
    size_t i = 0;

    for (; i + 8 <= count; i += 8)
        for (size_t lane = 0; lane < 8; lane++)
            lanes[lane] += a[i + lane] * b[i + lane];
    for (; i < count; i++)
        tail += a[i] * b[i];
    return ((lanes[0] + lanes[4]) + (lanes[2] + lanes[6])) +
           ((lanes[1] + lanes[5]) + (lanes[3] + lanes[7])) + tail;
}

int convolution_out_side(const struct convolution *c)
{
    return c->in_side + 2 * c->padding - c->kernel + 1;
}

size_t convolution_fan_in(const struct convolution *c)
{
    return (size_t)c->in_channels * (size_t)c->kernel * (size_t)c->kernel;
}

static size_t out_area(const struct convolution *c)
{
    return (size_t)convolution_out_side(c) * (size_t)convolution_out_side(c);
}

size_t convolution_columns(const struct convolution *c)
{
    return convolution_fan_in(c) * out_area(c);
}

static bool inside(const struct convolution *c, int position)
{
    return position >= 0 && position < c->in_side;
}

/* Row (channel, ky, kx) of `columns` lists, for every place of the kernel, the input pixel that
 * lies under the kernel's element (ky, kx); 0 for pixels outside. */
static void unfold(const struct convolution *c, const float *in, float *columns)
{
    const int side = convolution_out_side(c), k = c->kernel;

    for (int row = 0; row < c->in_channels * k * k; row++) {
        const float *channel = in + (size_t)(row / (k * k)) * (size_t)(c->in_side * c->in_side);
        const int ky = row / k % k - c->padding, kx = row % k - c->padding;

        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++)
                *columns++ = inside(c, y + ky) && inside(c, x + kx)
                                 ? channel[(y + ky) * c->in_side + x + kx]
                                 : 0.0f;
    }
}

static void fold(const struct convolution *c, const float *columns, float *in)
{
    const int side = convolution_out_side(c), k = c->kernel;

    memset(in, 0, (size_t)(c->in_channels * c->in_side * c->in_side) * sizeof *in);
    for (int row = 0; row < c->in_channels * k * k; row++) {
        float *channel = in + (size_t)(row / (k * k)) * (size_t)(c->in_side * c->in_side);
        const int ky = row / k % k - c->padding, kx = row % k - c->padding;

        for (int y = 0; y < side; y++)
            for (int x = 0; x < side; x++, columns++)
                if (inside(c, y + ky) && inside(c, x + kx))
                    channel[(y + ky) * c->in_side + x + kx] += *columns;
    }
}

void convolution_forward(const struct convolution *c, const float *weights, const float *bias,
                         const float *in, float *columns, float *out)
{
    const size_t fan_in = convolution_fan_in(c), area = out_area(c);

    unfold(c, in, columns);
    for (size_t channel = 0; channel < (size_t)c->out_channels; channel++, out += area) {
        for (size_t i = 0; i < area; i++)
            out[i] = bias[channel];
        for (size_t j = 0; j < fan_in; j++)
            add_scaled(out, weights[channel * fan_in + j], columns + j * area, area);
    }
}

void convolution_backward(const struct convolution *c, const float *weights, float *columns,
                          const float *d_out, float *d_weights, float *d_bias, float *d_in)
{
    const size_t fan_in = convolution_fan_in(c), area = out_area(c);
    const size_t channels = (size_t)c->out_channels;

    for (size_t channel = 0; channel < channels; channel++) {
        for (size_t i = 0; i < area; i++)
            d_bias[channel] += d_out[channel * area + i];
        for (size_t j = 0; j < fan_in; j++)
            d_weights[channel * fan_in + j] +=
                dot(d_out + channel * area, columns + j * area, area);
    }
    if (!d_in)
        return;
    memset(columns, 0, fan_in * area * sizeof *columns);
    for (size_t j = 0; j < fan_in; j++)
        for (size_t channel = 0; channel < channels; channel++)
            add_scaled(columns + j * area, weights[channel * fan_in + j], d_out + channel * area,
                       area);
    fold(c, columns, d_in);
}

void max_pool_forward(int channels, int side, const float *in, float *out, uint32_t *chosen)
{
    const int half = side / 2;

    for (int channel = 0; channel < channels; channel++)
        for (int y = 0; y < half; y++)
            for (int x = 0; x < half; x++) {
                const int corner = (channel * side + 2 * y) * side + 2 * x;
                const int block[] = {corner, corner + 1, corner + side, corner + side + 1};
                int best = block[0];

                for (int i = 1; i < 4; i++)
                    if (in[block[i]] > in[best])
                        best = block[i];
                *out++ = in[best];
                *chosen++ = (uint32_t)best;
            }
}

void max_pool_backward(int channels, int side, const float *d_out, const uint32_t *chosen,
                       float *d_in)
{
    const int outputs = channels * (side / 2) * (side / 2);

    memset(d_in, 0, (size_t)(channels * side * side) * sizeof *d_in);
    for (int i = 0; i < outputs; i++)
        d_in[chosen[i]] += d_out[i];
}

void relu_forward(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = values[i] > 0 ? values[i] : 0;
}

void relu_backward(const float *values, float *gradients, size_t count)
{
    for (size_t i = 0; i < count; i++)
        gradients[i] = values[i] > 0 ? gradients[i] : 0;
}

void linear_forward(size_t inputs, size_t outputs, const float *weights, const float *bias,
                    const float *in, float *out)
{
    for (size_t i = 0; i < outputs; i++)
        out[i] = bias[i] + dot(weights + i * inputs, in, inputs);
}

void linear_backward(size_t inputs, size_t outputs, const float *weights, const float *in,
                     const float *d_out, float *d_weights, float *d_bias, float *d_in)
{
    memset(d_in, 0, inputs * sizeof *d_in);
    for (size_t i = 0; i < outputs; i++) {
        d_bias[i] += d_out[i];
        add_scaled(d_weights + i * inputs, d_out[i], in, inputs);
        add_scaled(d_in, d_out[i], weights + i * inputs, inputs);
    }
}

void dropout_mask(struct random *random, float share, size_t count, size_t run, float *mask)
{
    float kept = 0;

    for (size_t i = 0; i < count; i++) {
        if (i % run == 0)
            kept = random_unit(random) < share ? 0.0f : 1.0f / (1.0f - share);
        mask[i] = kept;
    }
}

void dropout_apply(const float *mask, float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] *= mask[i];
}

float log_softmax_loss(float *scores, size_t count, uint8_t label)
{
    float largest = scores[0], sum = 0;

    for (size_t i = 1; i < count; i++)
        largest = scores[i] > largest ? scores[i] : largest;
    for (size_t i = 0; i < count; i++)
        sum += expf(scores[i] - largest);
    for (size_t i = 0; i < count; i++)
        scores[i] -= largest + logf(sum);
    return -scores[label];
}

void log_softmax_loss_backward(const float *log_probabilities, size_t count, uint8_t label,
                               float *d_scores)
{
    for (size_t i = 0; i < count; i++)
        d_scores[i] = expf(log_probabilities[i]) - (i == label ? 1.0f : 0.0f);
}
