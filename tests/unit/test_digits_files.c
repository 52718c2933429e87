/* SPDX-License-Identifier: Apache-2.0 */
/* The files that examples/train_digits writes. */
#include <criterion/criterion.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "plot.h"
#include "save.h"

static char folder[] = "/tmp/tutti-files-XXXXXX";

static void make_folder(void)
{
    cr_assert_not_null(mkdtemp(folder));
    cr_assert_eq(chdir(folder), 0);
}

static int count_files(void)
{
    DIR *dir = opendir(folder);
    int count = 0;

    cr_assert_not_null(dir);
    for (struct dirent *entry; (entry = readdir(dir));)
        count += entry->d_name[0] != '.';
    closedir(dir);
    return count;
}

static void remove_folder(void)
{
    DIR *dir = opendir(folder);

    for (struct dirent *entry; dir && (entry = readdir(dir));)
        unlink(entry->d_name);
    if (dir)
        closedir(dir);
    rmdir(folder);
}

TestSuite(digits_files, .init = make_folder, .fini = remove_folder, .timeout = 30);

Test(digits_files, weights_are_an_idx_file_of_floats)
{
    static const float weights[] = {1, -2.5f};
    struct failure why;
    unsigned char bytes[32];

    cr_assert(save_weights("w", weights, 2, &why), "%s", why.words);
    FILE *file = fopen("w", "rb");
    cr_assert_not_null(file);
    cr_assert_eq(fread(bytes, 1, sizeof bytes, file), 16);
    fclose(file);
    cr_assert_arr_eq(bytes, "\0\0\x0d\x01\0\0\0\x02\x3f\x80\0\0\xc0\x20\0\0", 16);
    cr_assert_eq(count_files(), 1, "the temporary file is still there");
}

Test(digits_files, a_full_disk_is_reported_and_leaves_the_old_file)
{
    static char big[1 << 20];
    struct failure why;
    struct stat status;

    cr_assert(save_bytes("w", "old", 3, &why), "%s", why.words);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){65536, 65536}), 0);
    cr_assert_not(save_bytes("w", big, sizeof big, &why));
    cr_assert_str_eq(why.words, "cannot write w: File too large");
    cr_assert_eq(stat("w", &status), 0);
    cr_assert_eq(status.st_size, 3);
    cr_assert_eq(count_files(), 1, "the temporary file is still there");
}

Test(digits_files, a_place_that_cannot_hold_the_file_is_known_before)
{
    struct failure why;

    cr_assert_not(save_possible("no/such/folder/w", &why));
    cr_expect_str_eq(why.words, "cannot write no/such/folder/w: No such file or directory");
    cr_assert_not(save_possible(folder, &why));
    cr_expect_not_null(strstr(why.words, "is not a regular file"), "%s", why.words);
    cr_assert_not(save_possible("/dev/null", &why));
    cr_expect_not_null(strstr(why.words, "is not a regular file"), "%s", why.words);
}

enum { PATIENCE_MS = 20000, SHORT_MS = 300 };

static const struct plot_point points[] = {{2.25, 0.5}, {0.5, 0.975}};

Test(digits_files, without_gnuplot_the_numbers_are_left)
{
    struct failure why;
    char text[256] = "";
    bool drawn = true;

    setenv("PATH", folder, 1);
    cr_assert(plot_draw("loss.svg", points, 2, PATIENCE_MS, &drawn, &why), "%s", why.words);
    cr_assert_not(drawn);
    FILE *file = fopen("loss.dat", "r");
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    cr_assert_str_eq(text, "# epoch  loss  held-out accuracy (%)\n1 2.25 50.0000\n2 0.5 97.5000\n");
}

Test(digits_files, a_name_with_quotes_and_spaces_is_drawn)
{
    struct failure why;
    bool drawn;
    char text[64] = "";

    cr_assert(plot_draw("it's \"my\" $loss.svg", points, 2, PATIENCE_MS, &drawn, &why), "%s",
              why.words);
    if (!drawn)
        cr_skip_test("gnuplot is not installed");
    FILE *file = fopen("it's \"my\" $loss.svg", "r");
    cr_assert_not_null(file);
    cr_assert_gt(fread(text, 1, sizeof text - 1, file), 0);
    fclose(file);
    cr_assert_not_null(strstr(text, "<?xml"));
}

Test(digits_files, a_gnuplot_that_does_not_end_is_ended_in_words)
{
    static const char script[] = "#!/bin/sh\nexec /bin/sleep 300\n";
    struct failure why;
    bool drawn;
    int fd = open("gnuplot", O_WRONLY | O_CREAT | O_CLOEXEC, 0755);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, script, sizeof script - 1), sizeof script - 1);
    close(fd);
    setenv("PATH", folder, 1);
    cr_assert_not(plot_draw("loss.svg", points, 2, SHORT_MS, &drawn, &why));
    cr_expect_str_eq(why.words, "gnuplot had not drawn loss.svg after 0.3 s, so it was ended; the "
                                "numbers are in loss.dat");
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1, "it is gone");
}
