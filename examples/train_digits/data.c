/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "idx.h"

#define DIGITS_IMAGES "digits-images-idx3-ubyte"
#define DIGITS_LABELS "digits-labels-idx1-ubyte"
#define DIGITS_HELD_OUT "heldout-indices.txt"

/* Writes folder/name, or folder/name.gz when only that is there, to ret_path. */
static bool find_file(const char *folder, const char *name, char ret_path[static PATH_MAX])
{
    static const char *const endings[] = {"", ".gz"};

    for (int i = 0; i < 2; i++) {
        int length = snprintf(ret_path, PATH_MAX, "%s/%s%s", folder, name, endings[i]);
        if (length < PATH_MAX && access(ret_path, F_OK) == 0)
            return true;
    }
    return false;
}

static bool check_pair(const struct idx *images, const struct idx *labels, const char *path,
                       struct failure *why)
{
    if (images->extent[1] != images->extent[2])
        return failure_set(why, "%s holds images of %u x %u pixels, which are not square", path,
                           images->extent[1], images->extent[2]);
    if (images->extent[0] != labels->extent[0])
        return failure_set(why, "%s holds %u images, but there are %u labels for them", path,
                           images->extent[0], labels->extent[0]);
    for (uint32_t i = 0; i < labels->extent[0]; i++)
        if (labels->bytes[i] >= DATA_CLASSES)
            return failure_set(why, "label %u that goes with %s is %u, not one of 0..%d", i, path,
                               labels->bytes[i], DATA_CLASSES - 1);
    return true;
}

/* Appends a pair of files' content to `data`. */
static bool append(struct data *data, const struct idx *images, const struct idx *labels,
                   const char *path, struct failure *why)
{
    const size_t area = (size_t)images->extent[1] * images->extent[2];
    const size_t total = (size_t)data->count + images->extent[0];

    if (data->count && data->side != images->extent[1])
        return failure_set(why, "%s holds images of %u x %u pixels, the others have %u x %u", path,
                           images->extent[1], images->extent[2], data->side, data->side);
    if (total * area > IDX_MAX_BYTES)
        return failure_set(why, "%s and the other images are more than %u MiB together", path,
                           (unsigned)(IDX_MAX_BYTES >> 20));

    uint8_t *pixels = realloc(data->pixels, total * area);
    if (pixels)
        data->pixels = pixels;
    uint8_t *all_labels = realloc(data->labels, total);
    if (all_labels)
        data->labels = all_labels;
    if (!pixels || !all_labels)
        return failure_set(why, "no memory for the %zu images of %s", total, path);

    memcpy(pixels + data->count * area, images->bytes, images->size);
    memcpy(all_labels + data->count, labels->bytes, labels->size);
    data->side = images->extent[1];
    data->count = (uint32_t)total;
    return true;
}

static bool read_pair(const char *folder, const char *images_name, const char *labels_name,
                      struct data *data, struct failure *why)
{
    char images_path[PATH_MAX], labels_path[PATH_MAX];
    struct idx images = {0}, labels = {0};

    if (!find_file(folder, images_name, images_path))
        return failure_set(why, "there is no %s or %s.gz in %s", images_name, images_name, folder);
    if (!find_file(folder, labels_name, labels_path))
        return failure_set(why, "there is no %s or %s.gz in %s", labels_name, labels_name, folder);

    bool ok = idx_read(images_path, 3, &images, why) && idx_read(labels_path, 1, &labels, why) &&
              check_pair(&images, &labels, images_path, why) &&
              append(data, &images, &labels, images_path, why);
    free(images.bytes);
    free(labels.bytes);
    return ok;
}

static bool open_mnist(const char *folder, struct data *data, struct failure *why)
{
    if (!read_pair(folder, "train-images-idx3-ubyte", "train-labels-idx1-ubyte", data, why))
        return false;
    const uint32_t train = data->count;
    if (!read_pair(folder, "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", data, why))
        return false;
    const uint32_t held_out = data->count - train;

    data->train = malloc(train * sizeof *data->train);
    data->held_out = malloc(held_out * sizeof *data->held_out);
    if (!data->train || !data->held_out)
        return failure_set(why, "no memory for the indices of %u images", data->count);
    for (uint32_t i = 0; i < train; i++)
        data->train[i] = i;
    for (uint32_t i = 0; i < held_out; i++)
        data->held_out[i] = train + i;
    data->train_count = train;
    data->held_out_count = held_out;
    return true;
}

static bool open_digits(const char *folder, const char *held_out_file, struct data *data,
                        struct failure *why)
{
    char path[PATH_MAX];

    if (!read_pair(folder, DIGITS_IMAGES, DIGITS_LABELS, data, why))
        return false;
    if (!held_out_file) {
        if (snprintf(path, sizeof path, "%s/" DIGITS_HELD_OUT, folder) >= (int)sizeof path)
            return failure_set(why, "the path of %s in %s is too long", DIGITS_HELD_OUT, folder);
        held_out_file = path;
    }
    return data_split(held_out_file, data->count, data, why);
}

/* Writes PREFIX/share/… for a program in PREFIX/libexec/tutti, when the digits are there. */
static bool find_installed(char ret_folder[static PATH_MAX])
{
    char path[PATH_MAX];
    ssize_t length = readlink("/proc/self/exe", ret_folder, PATH_MAX - 1);

    if (length <= 0)
        return false;
    ret_folder[length] = 0;
    char *slash = strrchr(ret_folder, '/');
    if (!slash)
        return false;
    *slash = 0;
    size_t used = strlen(ret_folder);
    int added = snprintf(ret_folder + used, PATH_MAX - used, "/%s", TRAIN_DIGITS_SHARE);
    return added < (int)(PATH_MAX - used) && find_file(ret_folder, DIGITS_IMAGES, path);
}

/* In integers, so that every rank and every machine gets the same two numbers. */
static void measure(struct data *data)
{
    const size_t area = (size_t)data->side * data->side;
    uint64_t sum = 0, squares = 0;

    for (uint32_t i = 0; i < data->train_count; i++) {
        const uint8_t *pixels = data->pixels + data->train[i] * area;
        for (size_t j = 0; j < area; j++) {
            sum += pixels[j];
            squares += (uint64_t)pixels[j] * pixels[j];
        }
    }
    double count = (double)data->train_count * (double)area;
    double mean = (double)sum / count;
    double variance = (double)squares / count - mean * mean;

    data->mean = (float)mean;
    data->deviation = variance > 0 ? (float)sqrt(variance) : 1.0f;
}

bool data_open(const char *folder, const char *held_out_file, struct data *ret_data,
               struct failure *why)
{
    char installed[PATH_MAX], path[PATH_MAX];
    struct data data = {0};
    bool ok;

    if (!folder)
        folder = find_installed(installed) ? installed : TRAIN_DIGITS_SOURCE;
    if (find_file(folder, DIGITS_IMAGES, path))
        ok = open_digits(folder, held_out_file, &data, why);
    else if (!find_file(folder, "train-images-idx3-ubyte", path))
        ok = failure_set(why,
                         "%s holds neither %s nor train-images-idx3-ubyte (each also with .gz); "
                         "--data DIR says where the images are",
                         folder, DIGITS_IMAGES);
    else if (held_out_file)
        ok = failure_set(why, "--heldout does not go with %s, which brings its own held-out images",
                         folder);
    else
        ok = open_mnist(folder, &data, why);

    if (!ok) {
        data_free(&data);
        return false;
    }
    measure(&data);
    *ret_data = data;
    return true;
}

void data_free(struct data *data)
{
    free(data->pixels);
    free(data->labels);
    free(data->train);
    free(data->held_out);
    *data = (struct data){0};
}

void data_image(const struct data *data, uint32_t index, float *ret_pixels)
{
    const size_t area = (size_t)data->side * data->side;
    const uint8_t *pixels = data->pixels + index * area;

    for (size_t i = 0; i < area; i++)
        ret_pixels[i] = ((float)pixels[i] - data->mean) / data->deviation;
}

/* FNV-1a: ranks are compared to catch a mistake, not an attack. */
static uint64_t fingerprint_add(uint64_t hash, const void *data, size_t size)
{
    const uint8_t *bytes = data;

    for (size_t i = 0; i < size; i++)
        hash = (hash ^ bytes[i]) * UINT64_C(0x100000001b3);
    return hash;
}

uint64_t data_fingerprint(const struct data *data)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);

    hash = fingerprint_add(hash, &data->side, sizeof data->side);
    hash = fingerprint_add(hash, data->pixels, (size_t)data->count * data->side * data->side);
    hash = fingerprint_add(hash, data->labels, data->count);
    return fingerprint_add(hash, data->held_out, data->held_out_count * sizeof *data->held_out);
}
