/* SPDX-License-Identifier: Apache-2.0 */
/* The IDX reader of examples/train_digits against files that are not what they should be. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "idx.h"

static char path[] = "/tmp/tutti-idx-XXXXXX";

static void make_file(void)
{
    int fd = mkstemp(path);

    cr_assert_geq(fd, 0);
    close(fd);
}

static void remove_file(void)
{
    unlink(path);
}

TestSuite(digits_idx, .init = make_file, .fini = remove_file, .timeout = 10);

static void write_file(const void *bytes, size_t size)
{
    FILE *file = fopen(path, "wb");

    cr_assert_not_null(file);
    cr_assert_eq(fwrite(bytes, 1, size, file), size);
    cr_assert_eq(fclose(file), 0);
}

static void write_compressed(const void *bytes, unsigned size)
{
    gzFile file = gzopen(path, "wb");

    cr_assert_not_null(file);
    cr_assert_eq(gzwrite(file, bytes, size), (int)size);
    cr_assert_eq(gzclose(file), Z_OK);
}

/* Two images of 2 x 3 pixels. */
#define HEADER "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\x03"
#define PIXELS "abcdefghijkl"
static const char whole[] = HEADER PIXELS;
#define WHOLE (sizeof whole - 1)

static void check_whole(void)
{
    struct failure why;
    struct idx idx;

    cr_assert(idx_read(path, 3, &idx, &why), "%s", why.words);
    cr_assert_eq(idx.extent[0], 2);
    cr_assert_eq(idx.extent[1], 2);
    cr_assert_eq(idx.extent[2], 3);
    cr_assert_eq(idx.size, 12);
    cr_assert_arr_eq(idx.bytes, PIXELS, 12);
    free(idx.bytes);
}

Test(digits_idx, a_plain_file_is_read)
{
    write_file(whole, WHOLE);
    check_whole();
}

Test(digits_idx, a_compressed_file_is_read)
{
    write_compressed(whole, WHOLE);
    check_whole();
}

static void check_refused(int dimensions, const char *words, const char *name)
{
    struct failure why = {""};
    struct idx idx = {.bytes = NULL};

    cr_expect(!idx_read(path, dimensions, &idx, &why), "%s was read", name);
    cr_expect_not_null(strstr(why.words, words), "%s: '%s' does not say '%s'", name, why.words,
                       words);
    cr_expect_null(idx.bytes, "%s: the output was touched", name);
}

Test(digits_idx, a_malformed_file_is_refused_in_words)
{
    static const struct {
        const char *name, *bytes;
        size_t size;
        const char *words;
    } cases[] = {
#define CASE(name, bytes, words) {name, bytes, sizeof(bytes) - 1, words}
        CASE("empty", "", "cut short: its header should have 16 bytes, there are 0"),
        CASE("half a header", "\0\0\x08\x03\0\0", "its header should have 16 bytes, there are 6"),
        CASE("text", "<html>, and a bit more", "begins with 3c68746d, not with 00000803"),
        CASE("floats", "\0\0\x0d\x03\0\0\0\x01\0\0\0\x01\0\0\0\x01x", "begins with 00000d03"),
        CASE("labels", "\0\0\x08\x01\0\0\0\x02xxxxxxxxxx", "begins with 00000801"),
        CASE("no images", "\0\0\x08\x03\0\0\0\0\0\0\0\x02\0\0\0\x02", "its dimension 0 is 0"),
        CASE("no columns", "\0\0\x08\x03\0\0\0\x02\0\0\0\x02\0\0\0\0", "its dimension 2 is 0"),
        CASE("largest extents", "\0\0\x08\x03\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
             "claims more than 1024 MiB"),
        CASE("a product of 2^64", "\0\0\x08\x03\0\x40\0\0\0\x20\0\0\0\x20\0\0",
             "claims more than 1024 MiB"),
        CASE("a product of 2^32 + 2^30", "\0\0\x08\x03\0\x05\0\0\0\0\x40\0\0\0\x01\0",
             "claims more than 1024 MiB"),
        CASE("one byte too few", HEADER "abcdefghijk",
             "its content should have 12 bytes, there are 11"),
        CASE("one byte too many", HEADER "abcdefghijklm", "goes on after the last element"),
#undef CASE
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        write_file(cases[i].bytes, cases[i].size);
        check_refused(3, cases[i].words, cases[i].name);
        if (cases[i].size > 0) {
            write_compressed(cases[i].bytes, (unsigned)cases[i].size);
            check_refused(3, cases[i].words, cases[i].name);
        }
    }
}

Test(digits_idx, a_damaged_compressed_file_is_refused)
{
    unsigned char bytes[256];

    write_compressed(whole, WHOLE);
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file);
    size_t size = fread(bytes, 1, sizeof bytes, file);
    fclose(file);

    for (size_t cut = 1; cut <= 12; cut++) {
        write_file(bytes, size - cut);
        check_refused(3, path, "cut compressed file");
    }
    bytes[size - 6] ^= 1; /* in the checksum */
    write_file(bytes, size);
    check_refused(3, "cannot read", "wrong checksum");
}

Test(digits_idx, what_is_not_a_file_is_refused)
{
    struct failure why;
    struct idx idx;

    cr_assert_not(idx_read("/no/such/file", 3, &idx, &why));
    cr_assert_str_eq(why.words, "cannot open /no/such/file: No such file or directory");
    cr_assert_not(idx_read("/tmp", 1, &idx, &why));
    cr_assert_str_eq(why.words, "cannot read /tmp: Is a directory");
}
