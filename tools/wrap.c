/* SPDX-License-Identifier: Apache-2.0 */
#include "wrap.h"

#include <glib.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "cli.h"

enum { COLUMNS_USUAL = 80, COLUMNS_MIN = 20, COLUMNS_MAX = 10000 };

int wrap_columns(void)
{
    const char *variable = getenv("COLUMNS");
    struct winsize size;
    int columns = COLUMNS_USUAL;

    if (isatty(STDOUT_FILENO))
        return ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 ? MAX(columns, size.ws_col) : columns;
    if (variable)
        cli_parse_int(variable, COLUMNS_MIN, COLUMNS_MAX, &columns);
    return columns;
}

int wrap_width(const char *text)
{
    return g_utf8_validate(text, -1, NULL) ? (int)g_utf8_strlen(text, -1) : (int)strlen(text);
}

void wrap_print(int used, int indent, const char *text)
{
    g_auto(GStrv) words = g_strsplit(text, " ", -1);
    const int columns = wrap_columns();
    int at = used;
    bool begins = true; /* of a line: no space before the next word */

    for (char **word = words; *word; word++) {
        const int width = wrap_width(*word);

        if (!**word)
            continue;
        if (at > indent && at + !begins + width > columns) {
            printf("\n%*s", indent, "");
            at = indent;
            begins = true;
        }
        printf("%s%s", begins ? "" : " ", *word);
        at += width + !begins;
        begins = false;
    }
    putchar('\n');
}
