/* SPDX-License-Identifier: Apache-2.0 */
/* The data of examples/train_digits: what is shipped, the split, folders that do not fit together.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "data.h"

#define SHIPPED TUTTI_SOURCE_DIR "/examples/train_digits/data"
#define FASHION "/usr/share/datasets/fashion-mnist"

static char folder[] = "/tmp/tutti-data-XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    static const char *const names[] = {"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
                                        "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte",
                                        "held-out"};
    char path[128];

    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        unlink(path);
    }
    rmdir(folder);
}

TestSuite(digits_data, .init = make_folder, .fini = remove_folder, .timeout = 60);

static const char *write_file(const char *name, const void *bytes, size_t size)
{
    static char path[128];

    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
    return path;
}

Test(digits_data, held_out_images_are_disjoint_from_those_trained_on)
{
    enum { IMAGES = 1797 };
    struct failure why;
    struct data data;
    char seen[IMAGES] = {0};
    uint32_t all[DATA_CLASSES] = {0}, held_out[DATA_CLASSES] = {0};

    cr_assert(data_open(SHIPPED, NULL, &data, &why), "%s", why.words);
    cr_assert_eq(data.count, IMAGES);
    cr_assert_eq(data.side, 8);
    for (uint32_t i = 0; i < data.train_count; i++)
        seen[data.train[i]]++;
    for (uint32_t i = 0; i < data.held_out_count; i++) {
        seen[data.held_out[i]]++;
        held_out[data.labels[data.held_out[i]]]++;
    }
    for (int i = 0; i < IMAGES; i++) {
        cr_expect_eq(seen[i], 1, "image %d is in %d of the two parts", i, seen[i]);
        all[data.labels[i]]++;
    }
    for (int digit = 0; digit < DATA_CLASSES; digit++)
        cr_expect_lt(fabs(held_out[digit] - all[digit] / 5.0), 1, "digit %d: %u of %u held out",
                     digit, held_out[digit], all[digit]);
    data_free(&data);
}

Test(digits_data, no_held_out_image_is_also_among_those_trained_on_under_another_index)
{
    struct failure why;
    struct data data;

    cr_assert(data_open(SHIPPED, NULL, &data, &why), "%s", why.words);
    for (uint32_t i = 0; i < data.held_out_count; i++)
        for (uint32_t j = 0; j < data.train_count; j++)
            cr_expect_neq(
                memcmp(data.pixels + data.held_out[i] * 64u, data.pixels + data.train[j] * 64u, 64),
                0, "held-out image %u equals image %u", data.held_out[i], data.train[j]);
    data_free(&data);
}

Test(digits_data, pixels_have_mean_0_and_deviation_1)
{
    struct failure why;
    struct data data;
    float image[64];
    double sum = 0, squares = 0;

    cr_assert(data_open(SHIPPED, NULL, &data, &why), "%s", why.words);
    for (uint32_t i = 0; i < data.train_count; i++) {
        data_image(&data, data.train[i], image);
        for (int j = 0; j < 64; j++) {
            sum += image[j];
            squares += image[j] * image[j];
        }
    }
    cr_assert_float_eq(sum / (64.0 * data.train_count), 0, 1e-4);
    cr_assert_float_eq(squares / (64.0 * data.train_count), 1, 1e-4);
    data_free(&data);
}

Test(digits_data, a_file_of_indices_that_makes_no_split_is_refused_in_words)
{
    static const struct {
        const char *text, *words;
    } cases[] = {
        {"", "holds no index"},
        {"# only words\n\n", "holds no index"},
        {"0\n1\n2\n3\n", "holds out all 4 images"},
        {"1\n4\n", ":2: not an index of 0..3"},
        {"-1\n", ":1: not an index"},
        {"+1\n", ":1: not an index"},
        {"1x\n", ":1: not an index"},
        {"1 2\n", ":1: not an index"},
        {"0x1\n", ":1: not an index"},
        {"99999999999999999999999\n", ":1: not an index"},
        {"2\n1\n", ":2: index 1 does not ascend from 2"},
        {"2\n2\n", ":2: index 2 does not ascend from 2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct failure why = {""};
        struct data data = {0};
        const char *path = write_file("held-out", cases[i].text, strlen(cases[i].text));

        cr_expect(!data_split(path, 4, &data, &why), "'%s' was taken", cases[i].text);
        cr_expect_not_null(strstr(why.words, cases[i].words), "'%s': '%s' does not say '%s'",
                           cases[i].text, why.words, cases[i].words);
        data_free(&data);
    }
}

Test(digits_data, an_overlong_line_is_refused)
{
    char text[1000];
    struct failure why = {""};
    struct data data = {0};

    memset(text, ' ', sizeof text);
    text[0] = '1';
    cr_assert_not(data_split(write_file("held-out", text, sizeof text), 4, &data, &why));
    cr_assert_not_null(strstr(why.words, ":1: the line is longer"), "%s", why.words);
    data_free(&data);
}

Test(digits_data, comments_and_blank_lines_are_skipped)
{
    static const char text[] = "# head\n\n 	\n1 # one\r\n3";
    struct failure why;
    struct data data = {0};

    cr_assert(data_split(write_file("held-out", text, sizeof text - 1), 5, &data, &why), "%s",
              why.words);
    cr_assert_eq(data.held_out_count, 2);
    cr_assert_arr_eq(data.held_out, ((uint32_t[]){1, 3}), 2 * sizeof(uint32_t));
    cr_assert_eq(data.train_count, 3);
    cr_assert_arr_eq(data.train, ((uint32_t[]){0, 2, 4}), 3 * sizeof(uint32_t));
    data_free(&data);
}

/* Files of MNIST's names; each image is `side` x `side` pixels of 7, each label is `label`. */
static void write_mnist(const char *part, unsigned char images, unsigned char labels,
                        unsigned char side, unsigned char label)
{
    unsigned char bytes[1024] = {0, 0, 8, 3, 0, 0, 0, images, 0, 0, 0, side, 0, 0, 0, side};
    char name[64];
    size_t size = (size_t)images * side * side;

    memset(bytes + 16, 7, size);
    snprintf(name, sizeof name, "%s-images-idx3-ubyte", part);
    write_file(name, bytes, 16 + size);
    memcpy(bytes, (unsigned char[]){0, 0, 8, 1, 0, 0, 0, labels}, 8);
    memset(bytes + 8, label, labels);
    snprintf(name, sizeof name, "%s-labels-idx1-ubyte", part);
    write_file(name, bytes, 8u + labels);
}

Test(digits_data, t10k_is_held_out)
{
    struct failure why;
    struct data data;

    write_mnist("train", 3, 3, 8, 9);
    write_mnist("t10k", 2, 2, 8, 4);
    cr_assert(data_open(folder, NULL, &data, &why), "%s", why.words);
    cr_assert_eq(data.count, 5);
    cr_assert_arr_eq(data.labels, "\x09\x09\x09\x04\x04", 5);
    cr_assert_eq(data.train_count, 3);
    cr_assert_eq(data.held_out_count, 2);
    cr_assert_arr_eq(data.held_out, ((uint32_t[]){3, 4}), 2 * sizeof(uint32_t));
    cr_assert_float_eq(data.deviation, 1, 0, "images of one colour are not divided by 0");
    data_free(&data);
    cr_assert_not(data_open(folder, "held-out", &data, &why));
    cr_assert_not_null(strstr(why.words, "--heldout does not go with"), "%s", why.words);
}

Test(digits_data, files_that_do_not_fit_together_are_refused_in_words)
{
    struct failure why;
    struct data data;

    cr_assert_not(data_open(folder, NULL, &data, &why));
    cr_expect_not_null(strstr(why.words, "holds neither"), "%s", why.words);
    write_mnist("train", 3, 2, 8, 0);
    cr_assert_not(data_open(folder, NULL, &data, &why));
    cr_expect_not_null(strstr(why.words, "holds 3 images, but there are 2 labels"), "%s",
                       why.words);
    write_mnist("train", 3, 3, 8, 10);
    cr_assert_not(data_open(folder, NULL, &data, &why));
    cr_expect_not_null(strstr(why.words, "label 0 that goes with"), "%s", why.words);
    write_mnist("train", 3, 3, 8, 0);
    cr_assert_not(data_open(folder, NULL, &data, &why));
    cr_expect_not_null(strstr(why.words, "there is no t10k-images-idx3-ubyte"), "%s", why.words);
    write_mnist("t10k", 2, 2, 9, 0);
    cr_assert_not(data_open(folder, NULL, &data, &why));
    cr_expect_not_null(strstr(why.words, "9 x 9 pixels, the others have 8 x 8"), "%s", why.words);
}

Test(digits_data, fingerprint_changes_with_pixels_labels_and_split)
{
    struct failure why;
    struct data data;

    cr_assert(data_open(SHIPPED, NULL, &data, &why), "%s", why.words);
    const uint64_t before = data_fingerprint(&data);
    data.pixels[5000]++;
    const uint64_t pixel = data_fingerprint(&data);
    data.pixels[5000]--;
    data.labels[0]++;
    const uint64_t label = data_fingerprint(&data);
    data.labels[0]--;
    data.held_out[0]++;
    const uint64_t split = data_fingerprint(&data);
    data.held_out[0]--;

    cr_expect(before != pixel && before != label && before != split);
    cr_expect_eq(before, data_fingerprint(&data));
    data_free(&data);
}

Test(digits_data, fashion_mnist_of_debian_is_read_compressed)
{
    struct failure why;
    struct data data;

    if (access(FASHION, F_OK) != 0)
        cr_skip_test("the package dataset-fashion-mnist is not installed");
    cr_assert(data_open(FASHION, NULL, &data, &why), "%s", why.words);
    cr_assert_eq(data.side, 28);
    cr_assert_eq(data.train_count, 60000);
    cr_assert_eq(data.held_out_count, 10000);
    data_free(&data);
}
