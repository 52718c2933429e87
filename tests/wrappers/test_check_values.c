/* SPDX-License-Identifier: Apache-2.0 */
/* What the wrapper check finds in memory. */
#include <criterion/criterion.h>
#include <string.h>

#include <tutti/tensor.h>

#include "check.h"

TestSuite(check_values, .timeout = 10);

Test(check_values, each_floating_point_type_shows_its_nan_and_inf)
{
    static const struct {
        uint32_t dtype;
        unsigned bytes; /* of a number */
        unsigned parts;
        uint64_t one, nan, inf; /* inf 0: it has none */
    } cases[] = {
        {TUTTI_F16, 2, 1, 0x3c00, 0xfe01, 0x7c00},
        {TUTTI_BF16, 2, 1, 0x3f80, 0x7f81, 0xff80},
        {TUTTI_F32, 4, 1, 0x7f7fffff, 0x7f800001, 0xff800000},
        {TUTTI_F64, 8, 1, 0x3ff0000000000000, 0xfff8000000000000, 0x7ff0000000000000},
        {TUTTI_F8E4M3FN, 1, 1, 0x7e, 0xff, 0},
        {TUTTI_F8E5M2, 1, 1, 0x7b, 0x7d, 0xfc},
        {TUTTI_C64, 4, 2, 0x3f800000, 0x7fc00000, 0x7f800000},
        {TUTTI_C128, 8, 2, 0x3ff0000000000000, 0x7ff8000000000000, 0xfff0000000000000},
    };
    enum { COUNT = 10, ODD = 1 };
    unsigned char memory[COUNT * 16 + ODD], *data = memory + ODD;

    for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
        const unsigned bytes = cases[c].bytes, parts = cases[c].parts;
        const uint64_t size = (uint64_t)COUNT * bytes * parts;

        for (unsigned i = 0; i < COUNT * parts; i++)
            memcpy(data + i * bytes, &cases[c].one, bytes);
        struct check_found found = check_values(cases[c].dtype, data, size);
        cr_expect(!found.nans && !found.infs, "case %zu", c);

        memcpy(data + (3 * parts + parts - 1) * bytes, &cases[c].nan, bytes);
        memcpy(data + 7 * parts * bytes, &cases[c].nan, bytes);
        if (cases[c].inf)
            memcpy(data + 9 * parts * bytes, &cases[c].inf, bytes);
        found = check_values(cases[c].dtype, data, size);
        cr_expect(found.nans == 2 && found.first_nan == 3, "case %zu: %llu from %llu", c,
                  (unsigned long long)found.nans, (unsigned long long)found.first_nan);
        cr_expect_eq(found.infs, cases[c].inf ? 1 : 0);
        if (cases[c].inf)
            cr_expect_eq(found.first_inf, 9);
    }
    memset(data, 0xff, COUNT * 8);
    cr_expect_eq(check_values(TUTTI_I64, data, COUNT * 8).nans, 0);
    cr_expect_eq(check_values(TUTTI_F32, NULL, 0).nans, 0);
}

static uint64_t hash_of(const void *data, uint64_t bytes)
{
    struct check_hash hash = check_hash_begin();

    check_hash_add(&hash, data, bytes);
    return check_hash_end(&hash);
}

Test(check_values, every_bit_counts_in_the_hash_and_the_address_does_not)
{
    enum { MOST = 100 };
    unsigned char a[MOST], b[MOST + 1];

    for (int i = 0; i < MOST; i++)
        a[i] = (unsigned char)(7 * i);
    for (unsigned n = 1; n <= MOST; n++) {
        uint64_t hash = hash_of(a, n);

        memcpy(b + 1, a, n);
        cr_expect_eq(hash_of(b + 1, n), hash);
        cr_expect_neq(hash_of(a, n - 1), hash);
        for (unsigned bit = 0; bit < 8 * n; bit++) {
            b[1 + bit / 8] ^= (unsigned char)(1u << bit % 8);
            cr_expect_neq(hash_of(b + 1, n), hash, "bit %u of %u bytes", bit, n);
            b[1 + bit / 8] ^= (unsigned char)(1u << bit % 8);
        }
    }
}

Test(check_values, the_hash_is_the_same_in_how_many_pieces_ever_the_bytes_come)
{
    enum { MOST = 200 };
    unsigned char data[MOST];

    for (int i = 0; i < MOST; i++)
        data[i] = (unsigned char)(11 * i);
    for (unsigned first = 0; first <= MOST; first++) {
        for (unsigned step = 1; step < 40; step++) {
            struct check_hash hash = check_hash_begin();

            check_hash_add(&hash, data, first);
            for (unsigned at = first; at < MOST; at += step)
                check_hash_add(&hash, data + at, at + step < MOST ? step : MOST - at);
            cr_assert_eq(check_hash_end(&hash), hash_of(data, MOST), "%u, then by %u", first, step);
        }
    }
}
