/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The training of examples/train_digits as `tutti run` starts it, on every backend: what it learns,
 * that the number of ranks does not change it, the share of each rank, and what was sent.
 */
#include <criterion/criterion.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* AddressSanitizer makes a training some ten times slower, and looks for other faults than a wrong sum. */
#ifdef __SANITIZE_ADDRESS__
#define EPOCHS 1
#define FEWEST_RANKS 4
#else
#define EPOCHS 3
#define FEWEST_RANKS 1
#endif
#define TEXT_OF(number) #number
#define FOR_EPOCHS(number) "--epochs " TEXT_OF(number)
#define IMAGES 1797
#define TRAINED_ON 1438
#define BATCH 32
#define MOST_WEIGHTS 100000
#define OUTPUT_BYTES 65536

static char folder[] = "/tmp/tutti-train-XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
    setenv("TUTTI_PLUGIN_PATH", TUTTI_PLUGINS, 1);
}

static void remove_folder(void)
{
    char command[64];

    snprintf(command, sizeof command, "rm -r %s", folder);
    cr_expect_eq(system(command), 0);
}

TestSuite(train_digits, .init = make_folder, .fini = remove_folder, .timeout = 400);

/* Runs a shell command and returns its exit code; `output` receives both of its streams. */
static int run(char output[static OUTPUT_BYTES], const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static int run(char output[static OUTPUT_BYTES], const char *format, ...)
{
    char command[1024];
    va_list arguments;

    va_start(arguments, format);
    int length = vsnprintf(command, sizeof command - 6, format, arguments);
    va_end(arguments);
    cr_assert_lt(length, (int)sizeof command - 6);
    strcat(command, " 2>&1");

    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    output[fread(output, 1, OUTPUT_BYTES - 1, pipe)] = 0;
    int status = pclose(pipe);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void train(char output[static OUTPUT_BYTES], const char *backend, int ranks,
                  const char *arguments)
{
    int code = run(output, "TUTTI_BACKEND=%s %s run -n %d %s %s", backend, TUTTI_COMMAND, ranks,
                   TRAIN_DIGITS, arguments);

    cr_assert_eq(code, 0, "%d ranks over %s ended with %d:\n%s", ranks, backend, code, output);
}

static const char *const backends[] = {
    "shm",
    "tcp",
    "auto",
#ifdef TRAIN_OVER_GLOO
    "gloo",
#endif
};
#define BACKENDS (sizeof backends / sizeof backends[0])

static size_t read_weights(const char *path, float *ret_weights)
{
    unsigned char header[8], bytes[4];
    FILE *file = fopen(path, "rb");
    size_t count = 0;

    cr_assert_not_null(file, "%s is missing", path);
    cr_assert_eq(fread(header, 1, 8, file), 8);
    for (; fread(bytes, 1, 4, file) == 4; count++) {
        unsigned bits = (unsigned)bytes[0] << 24 | (unsigned)bytes[1] << 16 |
                        (unsigned)bytes[2] << 8 | bytes[3];

        cr_assert_lt(count, MOST_WEIGHTS);
        memcpy(&ret_weights[count], &bits, 4);
    }
    fclose(file);
    cr_assert_gt(count, 0);
    return count;
}

/* Gradients are summed exactly, so that nothing but an error can make a difference. */
static void check_same(const char *a_path, const char *b_path, const char *what)
{
    static float a[MOST_WEIGHTS], b[MOST_WEIGHTS];
    size_t count = read_weights(a_path, a), different = 0;
    double apart = 0, largest = 0;

    cr_assert_eq(read_weights(b_path, b), count);
    for (size_t i = 0; i < count; i++) {
        cr_assert(isfinite(a[i]) && isfinite(b[i]));
        different += a[i] != b[i];
        apart = fmax(apart, fabs((double)a[i] - b[i]));
        largest = fmax(largest, fabs((double)a[i]));
    }
    cr_expect_eq(different, 0, "%s: %zu of %zu weights differ, by up to %g of the largest", what,
                 different, count, apart / largest);
}

/* A line that wraps is not drawn over by the next one. */
Test(train_digits, the_progress_bar_fits_a_narrow_terminal)
{
    static char output[OUTPUT_BYTES];
    const int code = run(output,
                         "script -qec 'stty cols 50; %s run -n 2 --backend tcp %s --epochs 2' "
                         "/dev/null </dev/null | tr '\\r' '\\n' | sed 's/\\x1b\\[[0-9;]*[mK]//g' | "
                         "grep -E '\\] [0-9]+/[0-9]+ steps$'",
                         TUTTI_COMMAND, TRAIN_DIGITS);

    cr_assert_eq(code, 0, "no bar was drawn: %d, %s", code, output);
    for (char *line = strtok(output, "\n"); line; line = strtok(NULL, "\n"))
        cr_expect_leq(strlen(line), 50, "%s", line);
}

Test(train_digits, one_two_and_four_ranks_reach_the_same_weights)
{
    static char output[OUTPUT_BYTES];

    train(output, "auto", 1, FOR_EPOCHS(EPOCHS) " --save-weights w1");
    for (size_t i = 0; i < BACKENDS; i++)
        for (int ranks = FEWEST_RANKS; ranks <= 4; ranks *= 2) {
            char what[32];

            snprintf(what, sizeof what, "%d ranks over %s", ranks, backends[i]);
            train(output, backends[i], ranks, FOR_EPOCHS(EPOCHS) " --save-weights w");
            check_same("w1", "w", what);
        }
}

/* That of the stand-in: rank 1 has the second one. */
Test(train_digits, gradients_on_gpus_give_the_same_weights)
{
    static char output[OUTPUT_BYTES];

    train(output, "shm", 2, FOR_EPOCHS(EPOCHS) " --save-weights w1");
    setenv("TUTTI_CUDA", TUTTI_STANDIN_CUDA, 1);
    setenv("STANDIN_CUDA_DEVICES", "2", 1);
    train(output, "cuda:shm", 2, FOR_EPOCHS(EPOCHS) " --device cuda --save-weights w");
    cr_expect_not_null(strstr(output, ", gradients on GPUs\n"), "%s", output);
    check_same("w1", "w", "2 ranks with GPUs");
    train(output, "tcp", 2, FOR_EPOCHS(EPOCHS) " --device cuda:1 --save-weights w");
    check_same("w1", "w", "2 ranks with one GPU");
}

Test(train_digits, a_gpu_that_is_not_there_is_told_in_words)
{
    static char output[OUTPUT_BYTES];
    int code = run(output,
                   "(TUTTI_CUDA=%s %s run -n 2 %s --device cuda:7; "
                   "TUTTI_CUDA=/nowhere/libcuda.so.1 %s run -n 2 %s --device cuda)",
                   TUTTI_STANDIN_CUDA, TUTTI_COMMAND, TRAIN_DIGITS, TUTTI_COMMAND, TRAIN_DIGITS);

    cr_expect_neq(code, 0);
    cr_expect_not_null(strstr(output, "there is no cuda:7"), "%s", output);
    cr_expect_not_null(strstr(output, "/nowhere/libcuda.so.1"), "%s", output);
}

Test(train_digits, five_ranks_whose_shares_are_uneven_reach_the_same_weights)
{
    static char output[OUTPUT_BYTES];

    train(output, "auto", 1, FOR_EPOCHS(EPOCHS) " --batch 33 --save-weights w1");
    train(output, "auto", 5, FOR_EPOCHS(EPOCHS) " --batch 33 --save-weights w5");
    check_same("w1", "w5", "5 ranks");
}

/* Which step of which epoch an image was trained in, -1: in none. */
struct schedule {
    int step[EPOCHS][IMAGES];
};

static void read_shares(int ranks, struct schedule *ret_schedule)
{
    unsigned epoch, step, image;
    char path[32];

    memset(ret_schedule, -1, sizeof *ret_schedule);
    for (int rank = 0; rank < ranks; rank++) {
        int lines = 0;

        snprintf(path, sizeof path, "s%d.%d", ranks, rank);
        FILE *file = fopen(path, "r");
        cr_assert_not_null(file, "%s is missing", path);
        for (; fscanf(file, "%u %u %u", &epoch, &step, &image) == 3; lines++) {
            cr_assert(epoch < EPOCHS && image < IMAGES);
            cr_expect_eq(ret_schedule->step[epoch][image], -1, "image %u twice in epoch %u", image,
                         epoch);
            ret_schedule->step[epoch][image] = (int)step;
        }
        fclose(file);
        cr_expect_leq(abs(lines - EPOCHS * TRAINED_ON / ranks), EPOCHS * (TRAINED_ON / BATCH + 1),
                      "%s: %d images are no fair share", path, lines);
    }
}

Test(train_digits, shares_are_disjoint_and_complete_whatever_the_number_of_ranks)
{
    static struct schedule alone, together;
    static char output[OUTPUT_BYTES];
    int trained = 0;

    train(output, "auto", 1, FOR_EPOCHS(EPOCHS) " --shares s1");
    read_shares(1, &alone);
    for (int image = 0; image < IMAGES; image++)
        trained += alone.step[0][image] >= 0;
    cr_assert_eq(trained, TRAINED_ON);
    for (int ranks = 2; ranks <= 4; ranks += 2) {
        train(output, "auto", ranks,
              ranks == 2 ? FOR_EPOCHS(EPOCHS) " --shares s2" : FOR_EPOCHS(EPOCHS) " --shares s4");
        read_shares(ranks, &together);
        cr_expect_eq(memcmp(&alone, &together, sizeof alone), 0, "%d ranks", ranks);
    }
}

/* What all ranks together have to move for one all_reduce of `bytes`, by the algorithm in the
 * gradients' row of the table of carriers. */
static double formula(const char *output, int ranks, double bytes)
{
    char row[128] = "";
    const char *gradients = strstr(output, "x f32");

    cr_assert_not_null(gradients, "%s", output);
    sscanf(gradients, "%127[^\n]", row);
    if (strstr(row, "recursive_doubling"))
        return ranks * log2(ranks) * bytes;
    if (strstr(row, "halving_doubling") || strstr(row, "ring"))
        return 2 * (ranks - 1) * bytes;
    cr_assert_not_null(strstr(row, "staged"), "no formula for the algorithm in: %s", row);
    return ranks * bytes;
}

static void check_traffic(const char *output, const char *backend, int ranks)
{
    const char *line = strstr(output, "gradients: ");
    double bytes, connections, mapped;
    int told_ranks, steps;

    cr_assert_not_null(line, "%s", output);
    cr_assert_eq(sscanf(line,
                        "gradients: %lf bytes on each of %d ranks, %d steps; bytes a step, all "
                        "ranks: %lf over connections, %lf into mapped memory",
                        &bytes, &told_ranks, &steps, &connections, &mapped),
                 5, "%s", output);
    cr_expect_eq(told_ranks, ranks);
    cr_expect_eq(steps, EPOCHS * (TRAINED_ON / BATCH + 1));

    const double expected = formula(output, ranks, bytes);
    const double moved = strcmp(backend, "tcp") == 0 ? connections : mapped;
    const double other = strcmp(backend, "tcp") == 0 ? mapped : connections;
    cr_expect(moved >= expected && moved < 1.02 * expected,
              "%d ranks over %s moved %.0f bytes a step, the algorithm needs %.0f", ranks, backend,
              moved, expected);
    cr_expect_lt(other, 0.02 * expected, "%d ranks over %s moved %.0f bytes a step elsewhere",
                 ranks, backend, other);
}

Test(train_digits, bytes_moved_a_step_match_the_models_size_and_the_algorithm)
{
    static char output[OUTPUT_BYTES];

    for (size_t i = 0; i < 2; i++)
        for (int ranks = 2; ranks <= 4; ranks++) {
            train(output, backends[i], ranks, FOR_EPOCHS(EPOCHS));
            check_traffic(output, backends[i], ranks);
        }
}

#ifdef TRAIN_OVER_GLOO
/* Neither a figure of what tutti itself sent besides. */
Test(train_digits, bytes_that_an_engine_moves_are_said_to_be_unknown)
{
    static char output[OUTPUT_BYTES];

    train(output, "gloo", 2, "--epochs 1");
    cr_expect_not_null(strstr(output, "; carried by gloo itself, which does not tell bytes\n"),
                       "%s", output);
    cr_expect_null(strstr(output, "over connections"), "%s", output);
}
#endif

Test(train_digits, the_recorder_says_what_carried_each_operation)
{
    static char output[OUTPUT_BYTES], wanted[64];

    for (size_t i = 0; i < 2; i++) {
        train(output, backends[i], 2, FOR_EPOCHS(EPOCHS));
        const char *carried = strstr(output, "carried by:");
        cr_assert_not_null(carried);
        cr_expect_not_null(strstr(carried, "13706 x f32"), "%s", carried);
        cr_expect_not_null(strstr(carried, "broadcast"), "%s", carried);
        cr_expect_not_null(strstr(carried, "barrier"), "%s", carried);
        cr_expect_null(strstr(carried, "no longer held"), "%s", carried);
        snprintf(wanted, sizeof wanted, "  %s  ", backends[i]);
        cr_expect_not_null(strstr(carried, wanted), "%s", carried);
        snprintf(wanted, sizeof wanted, "  %s  ", backends[1 - i]);
        cr_expect_null(strstr(carried, wanted), "%s", carried);
    }
}

/* On every backend: scripts/check-demo. */
Test(train_digits, four_ranks_read_95_of_100_held_out_digits)
{
    static char output[OUTPUT_BYTES];
    double accuracy = 0;

#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("the whole training takes long under AddressSanitizer");
#endif
    train(output, "auto", 4, "");
    const char *line = strstr(output, "held-out accuracy ");
    cr_assert_not_null(line, "%s", output);
    cr_assert_eq(sscanf(line, "held-out accuracy %lf", &accuracy), 1);
    cr_expect_geq(accuracy, 95, "%.2f %%", accuracy);
}

Test(train_digits, an_unknown_backend_fails_with_the_known_names)
{
    static char output[OUTPUT_BYTES];
    int code = run(output, "TUTTI_BACKEND=bogus %s run -n 2 %s", TUTTI_COMMAND, TRAIN_DIGITS);

    cr_expect_neq(code, 0);
    cr_expect_not_null(strstr(output, "bogus"), "%s", output);
    cr_expect(strstr(output, "shm") && strstr(output, "tcp"), "%s", output);
}

Test(train_digits, ranks_started_with_different_seeds_refuse_to_train)
{
    static char output[OUTPUT_BYTES];
    int code =
        run(output, "%s run -n 3 -- sh -c 'exec %s --seed $RANK'", TUTTI_COMMAND, TRAIN_DIGITS);

    cr_expect_eq(code, 1);
    cr_expect_not_null(strstr(output, "rank 0"), "%s", output);
    cr_expect_not_null(strstr(output, "epochs, batch, seed or images"), "%s", output);
}

Test(train_digits, without_a_launcher_the_words_say_how_to_start)
{
    static char output[OUTPUT_BYTES];
    int code = run(output, "env -u RANK -u WORLD_SIZE %s", TRAIN_DIGITS);

    cr_expect_eq(code, 1);
    cr_expect_not_null(strstr(output, "tutti run -n 4"), "%s", output);
}
