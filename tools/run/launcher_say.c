/* SPDX-License-Identifier: Apache-2.0 */
/* The end of a job: the launcher's last report, and its exit code. */
#include <errno.h>
#include <string.h>

#include "cli.h"
#include "run/launcher_inside.h"
#include "run/program.h"

enum { TAIL_LINES = 20 };

/* Whether the rank that failed first has said everything itself. */
static bool has_said_why(const struct launcher *l)
{
    const struct rank *culprit = records_culprit(l->records, l->first);

    return l->options->is_verb && culprit->exited && WIFEXITED(culprit->wait_status) &&
           WEXITSTATUS(culprit->wait_status) != 0;
}

void launcher_say_outcome(struct launcher *l)
{
    g_autofree char *text = NULL;

    double seconds = (double)(g_get_monotonic_time() - l->began_us) / 1e6;

    if (l->gave_up)
        output_say(l->output, "tutti run: a process of the job survived SIGKILL and is left behind "
                              "(uninterruptible sleep, or another user's)\n");
    if (l->exec_errno) {
        g_autofree char *why = program_exec_error(l->options->program, l->exec_errno);

        text = g_strdup_printf("tutti run: program '%s' cannot be started: %s\n",
                               l->options->argv[0], why);
    } else if (l->first && !has_said_why(l)) {
        const struct rank *culprit = records_culprit(l->records, l->first);
        const GPtrArray *folded = output_folded(l->output);
        g_auto(GStrv) tail = output_tail(l->output, culprit->index, TAIL_LINES);
        struct report report = {
            .ranks = l->ranks,
            .count = l->started,
            .first = culprit,
            .exit_code = launcher_exit_code(l),
            .tail = tail,
            .folded = folded,
            .seconds = seconds,
            .killed_after_s = (double)(l->killing_us - l->ending_us) / 1e6,
            .before = l->oom_before,
            .log_dir = l->options->log_dir,
            .color = cli_color(STDERR_FILENO),
        };

        text = report_text(&report);
    } else if (l->stopped) {
        text = g_strdup_printf(
            "tutti run: the job was ended after %.1f s: rank %d (pid %d) stayed "
            "stopped (SIGSTOP) for %d s, and all others had ended; exit code %d\n",
            seconds, l->stopped->index, l->stopped->pid, l->stopped_s, launcher_exit_code(l));
    } else if (l->interrupted && l->interrupted != SIGPIPE) {
        text = g_strdup_printf("tutti run: ended by SIG%s after %.1f s\n",
                               sigabbrev_np(l->interrupted), seconds);
    }
    if (!l->first || l->exec_errno || has_said_why(l))
        output_print_held(l->output);
    if (text)
        output_say(l->output, text);
}

int launcher_exit_code(const struct launcher *l)
{
    if (l->exec_errno)
        return l->exec_errno == ENOENT ? EXIT_NOT_FOUND : EXIT_NOT_EXECUTABLE;
    if (l->first) {
        const struct rank *culprit = records_culprit(l->records, l->first);

        return report_exit_code((rank_failed(culprit) ? culprit : l->first)->wait_status);
    }
    if (l->stopped || output_failed(l->output))
        return EXIT_FAILED;
    return l->interrupted ? 128 + l->interrupted : EXIT_OK;
}
