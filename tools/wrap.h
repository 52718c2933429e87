/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text that fits where it is read: 80 columns, or the terminal where that is wider. Where stdout is no
 * terminal, COLUMNS says how many there are.
 */
#pragma once

/* Columns of stdout, 80 at least where it is a terminal. */
int wrap_columns(void);

/* How many columns the UTF-8 text takes. */
int wrap_width(const char *text);

/* Prints the words of `text` on stdout behind `used` columns of the line, and a newline. Further lines
 * begin with `indent` spaces. A word that is longer than a line, such as a path, stands on its own. */
void wrap_print(int used, int indent, const char *text);
