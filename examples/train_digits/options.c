/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdlib.h>

#define MOST_EPOCHS 100000
#define MOST_BATCH 10000000

enum { EPOCHS = 1, BATCH, DATA, SEED, SAVE_WEIGHTS, HELD_OUT, PLOT, SHARES, DEVICE, QUIET, HELP };

static const struct option long_options[] = {
    {"epochs", required_argument, NULL, EPOCHS},
    {"batch", required_argument, NULL, BATCH},
    {"data", required_argument, NULL, DATA},
    {"seed", required_argument, NULL, SEED},
    {"save-weights", required_argument, NULL, SAVE_WEIGHTS},
    {"heldout", required_argument, NULL, HELD_OUT},
    {"plot", required_argument, NULL, PLOT},
    {"shares", required_argument, NULL, SHARES},
    {"device", required_argument, NULL, DEVICE},
    {"quiet", no_argument, NULL, QUIET},
    {"help", no_argument, NULL, HELP},
    {0},
};

static bool parse_number(const char *name, const char *text, uint64_t least, uint64_t most,
                         uint64_t *ret_number, struct failure *why)
{
    char *end;

    errno = 0;
    /* strtoull() takes signs and leading space; a number here begins with a digit. */
    unsigned long long number = text[0] >= '0' && text[0] <= '9' ? strtoull(text, &end, 10) : 0;
    if (text[0] < '0' || text[0] > '9' || *end)
        return failure_set(why, "--%s takes a whole number, not '%s'", name, text);
    if (errno || number < least || number > most)
        return failure_set(why, "--%s %s is not within %" PRIu64 " .. %" PRIu64, name, text, least,
                           most);
    *ret_number = number;
    return true;
}

static bool take_option(int option, const char *value, struct options *options, struct failure *why)
{
    uint64_t number = 0;
    bool ok = true;

    switch (option) {
    case EPOCHS:
        ok = parse_number("epochs", value, 1, MOST_EPOCHS, &number, why);
        options->epochs = (uint32_t)number;
        break;
    case BATCH:
        ok = parse_number("batch", value, 1, MOST_BATCH, &number, why);
        options->batch = (uint32_t)number;
        break;
    case SEED:
        ok = parse_number("seed", value, 0, UINT64_MAX, &options->seed, why);
        break;
    case DATA:
        options->data = value;
        break;
    case HELD_OUT:
        options->held_out = value;
        break;
    case SAVE_WEIGHTS:
        options->save_weights = value;
        break;
    case PLOT:
        options->plot = value;
        break;
    case SHARES:
        options->shares = value;
        break;
    case DEVICE:
        options->device = value;
        break;
    case QUIET:
        options->quiet = true;
        break;
    case HELP:
        options->help = true;
        break;
    }
    return ok;
}

bool options_parse(int argc, char **argv, struct options *ret_options, struct failure *why)
{
    struct options options = {.batch = 32, .seed = 1};
    int option;

    opterr = 0;
    optind = 1;
    while ((option = getopt_long(argc, argv, ":", long_options, NULL)) != -1) {
        if (option == ':')
            return failure_set(why, "%s needs a value; see --help", argv[optind - 1]);
        if (option == '?')
            return failure_set(why, "%s is not an option, or not a unique one; see --help",
                               argv[optind - 1]);
        if (!take_option(option, optarg, &options, why))
            return false;
    }
    if (optind < argc)
        return failure_set(why, "'%s' is not an option; see --help", argv[optind]);
    *ret_options = options;
    return true;
}

void options_print_help(FILE *to)
{
    fputs("Usage: train_digits [OPTION]...\n"
          "Trains a classifier of handwritten digits on all ranks together.\n"
          "\n"
          "  --epochs N           how often each image is used (15 at 8x8, 5 at 28x28)\n"
          "  --batch N            images of one step, over all ranks (32)\n"
          "  --seed S             of weights, order and dropout (1)\n"
          "  --data DIR           images in the IDX files of MNIST, plain or .gz\n"
          "                       (the 8x8 digits that come with this program)\n"
          "  --heldout FILE       indices of the images to hold out, one a line\n"
          "  --save-weights FILE  write the trained weights, as an IDX file of f32\n"
          "  --plot FILE.svg      draw loss and accuracy over the epochs, with gnuplot\n"
          "  --shares PREFIX      write to PREFIX.RANK which images each rank trained on\n"
          "  --device cuda        sum gradients that lie on an NVIDIA GPU; cuda:1 for its second "
          "one\n"
          "  --quiet              print only the last line and what went wrong\n"
          "  --help               print this\n"
          "\n"
          "Examples:\n"
          "  tutti run -n 4 train_digits                      four on this host\n"
          "  TUTTI_BACKEND=tcp tutti run -n 4 train_digits    the same over TCP\n"
          "  tutti run -n 4 train_digits --device cuda        gradients on GPUs\n"
          "  tutti run -n 2 train_digits --data /usr/share/datasets/fashion-mnist --epochs 2\n",
          to);
}
