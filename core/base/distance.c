/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Typing errors in names: what an error message suggests instead of an unknown name.
 *
 * The distance needs three rows of the table, the third for swapped letters, and no allocation. Both
 * words are cut at DISTANCE_WORD_MAX, so text from outside costs a bounded time.
 */
#include "base/distance.h"

#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned word_distance(const char *a, const char *b)
{
    enum { MAX = DISTANCE_WORD_MAX };
    unsigned rows[3][MAX + 1], *before = rows[0], *above = rows[1], *row = rows[2];
    const size_t n = strnlen(a, MAX), m = strnlen(b, MAX);

    for (unsigned j = 0; j <= m; j++)
        above[j] = j;
    for (unsigned i = 1; i <= n; i++) {
        row[0] = i;
        for (unsigned j = 1; j <= m; j++) {
            const unsigned differs = a[i - 1] != b[j - 1];

            row[j] = least(least(above[j] + 1, row[j - 1] + 1), above[j - 1] + differs);
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                row[j] = least(row[j], before[j - 2] + 1);
        }
        unsigned *spare = before;
        before = above;
        above = row;
        row = spare;
    }
    return above[m];
}

bool word_is_near(const char *word, const char *candidate)
{
    enum { LETTERS_MIN = 3 };
    const bool swapped = word[0] && word[0] == candidate[1] && word[1] == candidate[0];

    return strlen(word) >= LETTERS_MIN && strlen(candidate) >= LETTERS_MIN &&
           (word[0] == candidate[0] || swapped) && word_distance(word, candidate) == 1;
}
