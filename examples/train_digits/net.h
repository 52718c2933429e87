/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The classifier, of the kind of PyTorch's distributed tutorial: two convolutions, each followed by
 * a 2x2 max pool and relu, dropout of whole channels between them, two linear layers with dropout,
 * log softmax. At 28x28 it is the tutorial's own (5x5 kernels, 10 and 20 channels); at 8x8 the
 * kernels are 3x3.
 *
 * All weights lie in one array and all gradients in another of the same order, so that one
 * all_reduce averages them. Order: conv1, conv2, linear1, linear2, of each the weights, then the
 * bias.
 */
#ifndef TRAIN_DIGITS_NET_H
#define TRAIN_DIGITS_NET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"
#include "layers.h"

enum net_part { NET_CONV1, NET_CONV2, NET_LINEAR1, NET_LINEAR2, NET_PARTS };

struct net_part_place {
    size_t weights, bias, end; /* offsets into the arrays */
    size_t fan_in;
};

/* The settings for one size of images. */
struct net_profile {
    int side, kernel, padding, channels1, channels2, hidden;
    float dropout; /* share of what is dropped */
    float rate;    /* per image of the batch */
    float momentum;
    int epochs; /* unless the user says otherwise */
};

struct net {
    const struct net_profile *profile;
    struct convolution conv1, conv2;
    struct net_part_place part[NET_PARTS];
    size_t count; /* of weights */
    float *weights, *gradients, *velocity;
    struct net_activations *activations; /* of the image in work */
};

/** The profile for images of side x side pixels, NULL when there is none. */
const struct net_profile *net_profile_for(uint32_t side);

/** Weights are a function of the seed alone. net_free() frees. */
bool net_create(const struct net_profile *profile, uint64_t seed, struct net *ret_net,
                struct failure *why);
void net_free(struct net *net);

void net_clear_gradients(struct net *net);

/** Adds one image's gradients, on a grid on which such sums are exact and so the same in any order,
 * and returns its loss. `dropout` is the image's own stream. */
float net_learn(struct net *net, const float *image, uint8_t label, struct random dropout);

/** Returns the class that the net sees, and the loss for `label`. Nothing is dropped. */
uint8_t net_classify(struct net *net, const float *image, uint8_t label, float *ret_loss);

/** A step of stochastic gradient descent with momentum, along the mean gradient of `images` images.
 * The learning rate grows with the global batch (Goyal and others 2017). */
void net_step(struct net *net, uint32_t batch, uint32_t images);

#endif
