/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layers of examples/train_digits: the gradients of each against finite differences. What a
 * layer puts out is weighted with fixed numbers and summed to a loss; its derivative along each
 * input and each weight is compared with what the backward function says.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "layers.h"

TestSuite(digits_layers, .timeout = 20);

#define MOST 2048
#define STEP 1e-2f
#define TOLERANCE 2e-3

/* A layer under test with all that it reads and all that it computes. */
struct bench {
    float in[MOST], weights[MOST], bias[MOST], out[MOST], columns[MOST];
    float d_in[MOST], d_weights[MOST], d_bias[MOST], d_out[MOST];
    uint32_t chosen[MOST];
    size_t ins, weight_count, biases, outs;
    void (*forward)(struct bench *b);
    const struct convolution *convolution;
};

static void fill(float *values, size_t count, uint64_t seed)
{
    struct random random = {seed};

    for (size_t i = 0; i < count; i++)
        values[i] = 2 * random_unit(&random) - 1;
}

static double loss_of(struct bench *b)
{
    double loss = 0;

    b->forward(b);
    for (size_t i = 0; i < b->outs; i++)
        loss += (double)b->d_out[i] * b->out[i];
    return loss;
}

static void check(struct bench *b, const char *what, float *values, const float *gradients,
                  size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const float kept = values[i];

        values[i] = kept + STEP;
        double above = loss_of(b);
        values[i] = kept - STEP;
        double below = loss_of(b);
        values[i] = kept;
        double slope = (above - below) / (2 * (double)STEP);
        cr_expect(fabs(slope - gradients[i]) < TOLERANCE * fmax(1, fabs(slope)),
                  "%s %zu: differences say %g, backward says %g", what, i, slope, gradients[i]);
    }
}

static void convolve(struct bench *b)
{
    convolution_forward(b->convolution, b->weights, b->bias, b->in, b->columns, b->out);
}

Test(digits_layers, gradients_of_convolution_match_finite_differences)
{
    static const struct convolution shapes[] = {
        {1, 8, 3, 1, 4}, {3, 4, 3, 1, 5}, {2, 9, 5, 0, 3}, {2, 5, 1, 0, 2}, {1, 3, 3, 0, 2}};

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        static struct bench b;
        const struct convolution *c = &shapes[i];
        const size_t side = (size_t)convolution_out_side(c);

        b = (struct bench){.ins = (size_t)(c->in_channels * c->in_side * c->in_side),
                           .weight_count = convolution_fan_in(c) * (size_t)c->out_channels,
                           .biases = (size_t)c->out_channels,
                           .outs = (size_t)c->out_channels * side * side,
                           .forward = convolve,
                           .convolution = c};
        fill(b.in, b.ins, 1);
        fill(b.weights, b.weight_count, 2);
        fill(b.bias, b.biases, 3);
        fill(b.d_out, b.outs, 4);
        convolve(&b);
        convolution_backward(c, b.weights, b.columns, b.d_out, b.d_weights, b.d_bias, b.d_in);
        check(&b, "input", b.in, b.d_in, b.ins);
        check(&b, "weight", b.weights, b.d_weights, b.weight_count);
        check(&b, "bias", b.bias, b.d_bias, b.biases);
    }
}

Test(digits_layers, a_convolution_is_the_sum_under_the_kernel)
{
    static const struct convolution same = {1, 3, 3, 1, 1};
    const float in[] = {1, 2, 3, 4, 5, 6, 7, 8, 9}, bias[] = {0.5f};
    const float weights[] = {0, 1, 0, 0, 0, 0, 0, 0, 10};
    float columns[81], out[9];

    convolution_forward(&same, weights, bias, in, columns, out);
    cr_assert_arr_eq(out, ((float[]){50.5f, 60.5f, 0.5f, 81.5f, 92.5f, 3.5f, 4.5f, 5.5f, 6.5f}),
                     sizeof out);
}

static void apply_linear(struct bench *b)
{
    linear_forward(b->ins, b->outs, b->weights, b->bias, b->in, b->out);
}

Test(digits_layers, gradients_of_linear_match_finite_differences)
{
    static const size_t shapes[][2] = {{1, 1}, {7, 3}, {16, 10}, {29, 12}};

    for (size_t i = 0; i < sizeof shapes / sizeof shapes[0]; i++) {
        static struct bench b;

        b = (struct bench){.ins = shapes[i][0], .outs = shapes[i][1], .forward = apply_linear};
        fill(b.in, b.ins, 1);
        fill(b.weights, b.ins * b.outs, 2);
        fill(b.bias, b.outs, 3);
        fill(b.d_out, b.outs, 4);
        linear_backward(b.ins, b.outs, b.weights, b.in, b.d_out, b.d_weights, b.d_bias, b.d_in);
        check(&b, "input", b.in, b.d_in, b.ins);
        check(&b, "weight", b.weights, b.d_weights, b.ins * b.outs);
        check(&b, "bias", b.bias, b.d_bias, b.outs);
    }
}

/* Values that lie further apart than two steps and away from 0, so that no step changes which is
 * the largest or which are positive. */
static void fill_apart(float *values, size_t count)
{
    for (size_t i = 0; i < count; i++)
        values[i] = ((float)((i * 29) % count) - (float)count / 2 + 0.5f) * 0.1f;
}

enum { POOL_CHANNELS = 3 };

static void pool(struct bench *b)
{
    max_pool_forward(POOL_CHANNELS, b->ins == 3 * 25 ? 5 : 6, b->in, b->out, b->chosen);
}

Test(digits_layers, gradients_of_max_pool_match_finite_differences)
{
    for (int side = 5; side <= 6; side++) {
        static struct bench b;

        b = (struct bench){.ins = (size_t)(POOL_CHANNELS * side * side),
                           .outs = (size_t)(POOL_CHANNELS * (side / 2) * (side / 2)),
                           .forward = pool};
        fill_apart(b.in, b.ins);
        fill(b.d_out, b.outs, 4);
        pool(&b);
        max_pool_backward(POOL_CHANNELS, side, b.d_out, b.chosen, b.d_in);
        check(&b, "input", b.in, b.d_in, b.ins);
    }
}

static void rectify(struct bench *b)
{
    memcpy(b->out, b->in, b->ins * sizeof *b->in);
    relu_forward(b->out, b->outs);
}

Test(digits_layers, gradients_of_relu_match_finite_differences)
{
    static struct bench b;

    b = (struct bench){.ins = 64, .outs = 64, .forward = rectify};
    fill_apart(b.in, b.ins);
    fill(b.d_out, b.outs, 4);
    rectify(&b);
    memcpy(b.d_in, b.d_out, b.outs * sizeof *b.d_out);
    relu_backward(b.out, b.d_in, b.ins);
    check(&b, "input", b.in, b.d_in, b.ins);
}

static void score(struct bench *b)
{
    float scores[10];

    memcpy(scores, b->in, sizeof scores);
    b->out[0] = log_softmax_loss(scores, 10, 3);
}

Test(digits_layers, gradients_of_log_softmax_loss_match_finite_differences)
{
    static struct bench b;
    float scores[10];

    b = (struct bench){.ins = 10, .outs = 1, .forward = score, .d_out = {1}};
    fill(b.in, b.ins, 1);
    memcpy(scores, b.in, sizeof scores);
    log_softmax_loss(scores, 10, 3);
    log_softmax_loss_backward(scores, 10, 3, b.d_in);
    check(&b, "score", b.in, b.d_in, b.ins);
}

Test(digits_layers, log_softmax_takes_large_scores)
{
    float scores[] = {1000, 0, -1000};

    cr_assert_float_eq(log_softmax_loss(scores, 3, 0), 0, 1e-6);
    scores[0] = 1000, scores[1] = 0, scores[2] = -1000;
    cr_assert_float_eq(log_softmax_loss(scores, 3, 2), 2000, 1e-3);
}

Test(digits_layers, dropout_drops_its_share_in_runs_and_keeps_the_mean)
{
    enum { RUN = 16, COUNT = 1600 * RUN };
    static float mask[COUNT];
    struct random random = random_for(1, RANDOM_DROPOUT, 2, 3), same = random;
    double sum = 0;

    dropout_mask(&random, 0.25f, COUNT, RUN, mask);
    for (int i = 0; i < COUNT; i++) {
        cr_assert(mask[i] == 0.0f || mask[i] == 1 / 0.75f);
        cr_assert_eq(mask[i], mask[i - i % RUN], "a run was dropped in part");
        sum += mask[i];
    }
    cr_assert_float_eq(sum / COUNT, 1, 0.06);

    float again[RUN * 4];
    dropout_mask(&same, 0.25f, RUN * 4, RUN, again);
    cr_assert_arr_eq(mask, again, sizeof again);
}
