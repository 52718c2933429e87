/* SPDX-License-Identifier: Apache-2.0 */
/* The net of examples/train_digits as a whole. */
#include <criterion/criterion.h>
#include <math.h>
#include <string.h>

#include "net.h"

TestSuite(digits_net, .timeout = 300);

static struct net create(uint32_t side, uint64_t seed)
{
    struct failure why;
    struct net net;

    cr_assert(net_create(net_profile_for(side), seed, &net, &why), "%s", why.words);
    return net;
}

static void draw_image(float *image, uint64_t seed)
{
    struct random random = {seed};

    for (int i = 0; i < 28 * 28; i++)
        image[i] = 4 * random_unit(&random) - 2;
}

/* A step that crosses a kink of relu or max pool gives a slope between the two sides', so a few
 * weights may differ (none does when the same code runs in f64 with steps of 1e-6). */
Test(digits_net, gradients_match_finite_differences_with_the_same_dropout)
{
    static const uint32_t sides[] = {8, 28};

    for (int i = 0; i < 2; i++) {
        const struct random dropout = random_for(1, RANDOM_DROPOUT, 0, 7);
        struct net net = create(sides[i], 1), probe = create(sides[i], 1);
        float image[28 * 28];
        int checked = 0, wrong = 0;

        draw_image(image, 1);
        net_learn(&net, image, 3, dropout);
        for (size_t at = 0; at < net.count; at += 37, checked++) {
            const float kept = probe.weights[at], step = 1e-3f;

            probe.weights[at] = kept + step;
            double above = net_learn(&probe, image, 3, dropout);
            probe.weights[at] = kept - step;
            double below = net_learn(&probe, image, 3, dropout);
            probe.weights[at] = kept;
            double slope = (above - below) / (2 * (double)step);
            wrong += fabs(slope - net.gradients[at]) > 1e-3 + 0.02 * fabs(slope);
        }
        cr_expect(wrong * 20 <= checked, "side %u: %d of %d slopes differ", sides[i], wrong,
                  checked);
        net_free(&net);
        net_free(&probe);
    }
}

Test(digits_net, the_parts_fill_the_arrays_and_each_gets_gradients)
{
    struct net net = create(8, 1);
    float image[28 * 28];
    size_t end = 0;

    for (uint64_t i = 0; i < 200; i++) {
        draw_image(image, i);
        net_learn(&net, image, (uint8_t)(i % 10), random_for(1, RANDOM_DROPOUT, 0, i));
    }
    for (int i = 0; i < NET_PARTS; i++) {
        size_t moved = 0;

        cr_assert_eq(net.part[i].weights, end);
        end = net.part[i].end;
        for (size_t at = net.part[i].weights; at < end; at++)
            moved += net.gradients[at] != 0;
        cr_expect_gt(moved * 2, end - net.part[i].weights, "part %d", i);
    }
    cr_assert_eq(end, net.count);
    net_free(&net);
}

Test(digits_net, weights_are_a_function_of_the_seed)
{
    struct net a = create(8, 5), b = create(8, 5), c = create(8, 6);

    cr_assert_arr_eq(a.weights, b.weights, a.count * sizeof *a.weights);
    cr_assert_neq(memcmp(a.weights, c.weights, a.count * sizeof *a.weights), 0);
    net_free(&a);
    net_free(&b);
    net_free(&c);
}

Test(digits_net, what_an_image_adds_does_not_depend_on_what_was_learnt_before)
{
    struct net fresh = create(8, 5), used = create(8, 5);
    float first[28 * 28], second[28 * 28];

    draw_image(first, 1);
    draw_image(second, 2);
    net_learn(&used, first, 1, random_for(1, RANDOM_DROPOUT, 0, 1));
    net_clear_gradients(&used);
    net_learn(&used, second, 2, random_for(1, RANDOM_DROPOUT, 0, 2));
    net_learn(&fresh, second, 2, random_for(1, RANDOM_DROPOUT, 0, 2));
    cr_assert_arr_eq(fresh.gradients, used.gradients, fresh.count * sizeof(float));
    net_free(&fresh);
    net_free(&used);
}

Test(digits_net, an_image_is_learnt_by_heart)
{
    struct net net = create(8, 1);
    float image[28 * 28], loss = 0;

    draw_image(image, 1);
    for (uint64_t i = 0; i < 200; i++) {
        net_clear_gradients(&net);
        net_learn(&net, image, 6, random_for(1, RANDOM_DROPOUT, i, 0));
        net_step(&net, 32, 1);
    }
    cr_assert_eq(net_classify(&net, image, 6, &loss), 6);
    cr_assert_lt(loss, 0.01);
    net_free(&net);
}

Test(digits_net, there_is_no_net_for_other_sizes)
{
    cr_assert_null(net_profile_for(0));
    cr_assert_null(net_profile_for(32));
}
