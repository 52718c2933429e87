/* SPDX-License-Identifier: Apache-2.0 */
#include "plot.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "save.h"

#define LINE_BYTES 64
#define NO_SUCH_PROGRAM 127
#define LOOK_AGAIN_MS 10
#define GONE_MS 1000 /* for a process that SIGKILL has been sent to */

extern char **environ;

static bool name_data(const char *path, char ret_name[static PATH_MAX], struct failure *why)
{
    size_t stem = strlen(path);

    if (stem > 4 && strcmp(path + stem - 4, ".svg") == 0)
        stem -= 4;
    if (snprintf(ret_name, PATH_MAX, "%.*s.dat", (int)stem, path) >= PATH_MAX)
        return failure_set(why, "cannot draw %.64s...: %s", path, strerror(ENAMETOOLONG));
    return true;
}

static bool write_data(const char *path, const struct plot_point *points, uint32_t count,
                       struct failure *why)
{
    const size_t room = LINE_BYTES * ((size_t)count + 1);
    char *text = malloc(room);

    if (!text)
        return failure_set(why, "no memory to write %s", path);
    int used = snprintf(text, room, "# epoch  loss  held-out accuracy (%%)\n");
    for (uint32_t i = 0; i < count; i++)
        used += snprintf(text + used, room - (size_t)used, "%u %.6g %.4f\n", i + 1, points[i].loss,
                         100 * points[i].accuracy);
    bool ok = save_bytes(path, text, (size_t)used, why);
    free(text);
    return ok;
}

/* In gnuplot's single quotes only a single quote is special, and is doubled. */
static void quote(const char *text, char ret_quoted[static 2 * PATH_MAX])
{
    char *to = ret_quoted;

    *to++ = '\'';
    for (; *text; text++) {
        if (*text == '\'')
            *to++ = '\'';
        *to++ = *text;
    }
    *to++ = '\'';
    *to = 0;
}

static bool write_script(const char *svg, const char *data, char *ret_script, size_t room)
{
    static char quoted_svg[2 * PATH_MAX + 3], quoted_data[2 * PATH_MAX + 3];

    quote(svg, quoted_svg);
    quote(data, quoted_data);
    return snprintf(ret_script, room,
                    "set terminal svg size 720,420 background rgb 'white'; set output %s; "
                    "set xlabel 'epoch'; set ylabel 'training loss'; set yrange [0:*]; "
                    "set y2label 'held-out accuracy, %%'; set y2range [*:100]; set y2tics; "
                    "set ytics nomirror; set grid; set key center right; "
                    "plot %s using 1:2 with linespoints title 'loss', "
                    "'' using 1:3 axes x1y2 with linespoints title 'accuracy'",
                    quoted_svg, quoted_data) < (int)room;
}

/* Waits until the child has ended, at most `ms`: its number, 0 when it is still there, -1 with errno. */
static pid_t await(pid_t child, int ms, int *ret_status)
{
    const struct timespec pause = {.tv_nsec = LOOK_AGAIN_MS * 1000000L};
    pid_t ended;

    for (;;) {
        while ((ended = waitpid(child, ret_status, WNOHANG)) < 0 && errno == EINTR)
            continue;
        if (ended || ms <= 0)
            return ended;
        nanosleep(&pause, NULL);
        ms -= LOOK_AGAIN_MS;
    }
}

bool plot_draw(const char *path, const struct plot_point *points, uint32_t count, int patience_ms,
               bool *ret_drawn, struct failure *why)
{
    static char script[4 * PATH_MAX + 1024];
    char data[PATH_MAX];
    pid_t child, ended;
    int status;

    if (!save_possible(path, why) || !name_data(path, data, why) ||
        !write_data(data, points, count, why))
        return false;
    if (!write_script(path, data, script, sizeof script))
        return failure_set(why, "cannot draw %.64s...: %s", path, strerror(ENAMETOOLONG));

    char *arguments[] = {"gnuplot", "-e", script, NULL};
    int error = posix_spawnp(&child, "gnuplot", NULL, NULL, arguments, environ);
    if (error == ENOENT) {
        *ret_drawn = false;
        return true;
    }
    if (error)
        return failure_set(why, "cannot start gnuplot: %s", strerror(error));
    ended = await(child, patience_ms, &status);
    if (ended < 0)
        return failure_set(why, "cannot wait for gnuplot: %s", strerror(errno));
    if (!ended) {
        kill(child, SIGKILL);
        (void)await(child, GONE_MS, &status);
        return failure_set(
            why,
            "gnuplot had not drawn %s after %.3g s, so it was ended; the numbers are "
            "in %s",
            path, patience_ms / 1e3, data);
    }
    *ret_drawn = WIFEXITED(status) && WEXITSTATUS(status) != NO_SUCH_PROGRAM;
    if (!WIFEXITED(status) || (*ret_drawn && WEXITSTATUS(status) != 0))
        return failure_set(why,
                           "gnuplot did not draw %s; its words are above, the numbers are in "
                           "%s",
                           path, data);
    return true;
}
