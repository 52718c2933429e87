/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti run`: what comes out of what ranks print. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command.h"

Test(run_output, loses_no_line_of_a_fast_writer_with_a_slow_reader, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 4 -- seq 1 100000 | (sleep 0.5; awk '"
                       "$2 != ++n[$1] { print \"out of order:\", $0; exit 1 }"
                       "END { print n[\"[0]\"], n[\"[1]\"], n[\"[2]\"], n[\"[3]\"] }')");

    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "100000 100000 100000 100000\n");
    ran_free(&r);
}

Test(run_output, holds_the_ranks_back_instead_of_keeping_what_nobody_reads, .timeout = 30)
{
    /* 200 MB wanted; the launcher may hold a few pipes' worth of it. */
    struct ran r = ran("$TUTTI run -n 2 -- sh -c 'yes | head -c 200000000' | ("
                       "until p=$(pgrep -o -f \"$TUTTI run -n 2 -- sh -c yes\") &&"
                       " pgrep -P $p >/dev/null; do sleep 0.05; done; sleep 1;"
                       "ps -o rss= --ppid $p | sort -n | tail -1; head -c 100 >/dev/null)");

    cr_assert_eq(r.code, 0);
    cr_assert_gt(atoi(r.out), 0);
    cr_assert_lt(atoi(r.out), 40000, "the launcher holds %s kB", r.out);
    ran_free(&r);
}

Test(run_output, prints_long_lines_in_pieces_and_an_unfinished_one_at_the_end, .timeout = 30)
{
    struct ran r = ran("$TUTTI run -n 1 -- sh -c 'head -c 300000 /dev/zero | tr \"\\0\" x' |"
                       "awk '{ total += length($2); if (length($0) > 90000) exit 1 }"
                       "END { print (NR > 1), total }'");

    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "1 300000\n");
    ran_free(&r);
}

Test(run_output, ends_when_its_reader_has_gone, .timeout = 20)
{
    struct ran r = ran("{ $TUTTI run -n 2 -- yes; echo $? >&2; } | head -1");

    cr_assert_str_eq(r.out + 3, " y\n");
    cr_assert_str_eq(r.err, "141\n");
    ran_free(&r);
}

Test(run_output, writes_log_files_and_prints_as_well_with_tee, .timeout = 20)
{
    char *folder = folder_new();
    struct ran r =
        ran("$TUTTI run -n 2 --log-dir '%s/a' -- sh -c 'echo out; echo err >&2' &&"
            "cat %s/a/tutti-*/attempt_0/1/stdout.log %s/a/tutti-*/attempt_0/1/stderr.log",
            folder, folder, folder);

    cr_assert_eq(r.code, 0);
    cr_assert_str_eq(r.out, "out\nerr\n");
    LACKS(r.err, "[0]");
    CONTAINS(r.err, folder);
    ran_free(&r);

    r = ran("$TUTTI run -n 2 --log-dir '%s/b' --tee -- sh -c 'echo out; echo err >&2' &&"
            "cat %s/b/tutti-*/attempt_0/1/stdout.log",
            folder, folder);
    cr_assert_eq(r.code, 0);
    CONTAINS(r.out, "[1] out\n");
    CONTAINS(r.out, "\nout\n");
    CONTAINS(r.err, "[1] err\n");
    folder_remove(folder);
    ran_free(&r);
}

Test(run_output, colours_on_a_terminal_only_and_not_with_no_color, .timeout = 30)
{
    /* script(1) runs its command on a terminal of its own. */
    static const char on_terminal[] =
        "TERM=xterm %s script -qec \"$TUTTI run -n 1 -- echo words\" /dev/null </dev/null";
    struct ran with = ran(on_terminal, ""), without = ran(on_terminal, "NO_COLOR=1");
    struct ran piped = ran("TERM=xterm $TUTTI run -n 1 -- echo words");
    struct ran always = ran("NO_COLOR=1 $TUTTI run --color=always -n 1 -- echo words");
    struct ran forced = ran("CLICOLOR_FORCE=1 $TUTTI run -n 1 -- echo words");
    struct ran off = ran("CLICOLOR_FORCE=1 NO_COLOR=1 $TUTTI run -n 1 -- echo words");
    struct ran zero = ran("CLICOLOR_FORCE=0 $TUTTI run -n 1 -- echo words");
    struct ran never = ran("TERM=xterm script -qec \"$TUTTI run --color never -n 1 -- echo words\" "
                           "/dev/null </dev/null");

    CONTAINS(with.out, "\033[36m[0]\033[0m words");
    CONTAINS(without.out, "[0] words");
    LACKS(without.out, "\033");
    cr_assert_str_eq(piped.out, "[0] words\n");
    cr_assert_str_eq(always.out, "\033[36m[0]\033[0m words\n");
    cr_assert_str_eq(never.out, "[0] words\r\n");
    cr_assert_str_eq(forced.out, "\033[36m[0]\033[0m words\n");
    cr_assert_str_eq(off.out, "[0] words\n");
    cr_assert_str_eq(zero.out, "[0] words\n");
    ran_free(&forced);
    ran_free(&off);
    ran_free(&zero);
    ran_free(&always);
    ran_free(&never);
    ran_free(&with);
    ran_free(&without);
    ran_free(&piped);
}

Test(run_output, progress_bars_move_on_a_terminal, .timeout = 30)
{
    struct ran r =
        ran("NO_COLOR=1 script -qec \"$TUTTI run -n 1 -- printf '\\\\r10%%%%\\\\r20%%%%\\\\nend'\""
            " /dev/null </dev/null");

    cr_assert_str_eq(r.out, "[0] 10%\r\033[K[0] 20%\r\n[0] end\r\n");
    ran_free(&r);
}
