/* SPDX-License-Identifier: Apache-2.0 */
#include "bench/plot.h"

#include <errno.h>
#include <glib/gstdio.h>
#include <math.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cli.h"

enum { PATIENCE_MS = 30000, LOOK_AGAIN_MS = 10 };

bool plot_is_possible(void)
{
    g_autofree char *program = g_find_program_in_path("gnuplot");

    if (!program)
        cli_say("bench", "--plot needs gnuplot, which is not in PATH (Debian: gnuplot-nox)");
    return program != NULL;
}

/* In gnuplot's single quotes only a single quote is special, and is doubled. */
static char *quoted(const char *text)
{
    g_autoptr(GString) words = g_string_new(text);

    g_string_replace(words, "'", "''", 0);
    return g_strdup_printf("'%s'", words->str);
}

static bool is_drawn(const struct bench_result *result)
{
    return result->bytes > 0 && result->p50_us > 0;
}

/* The operations in their order, each once; the strings are those of the results. */
static GPtrArray *curves_of(const GArray *results)
{
    GPtrArray *names = g_ptr_array_new();

    for (guint i = 0; i < results->len; i++) {
        const struct bench_result *result = &g_array_index(results, struct bench_result, i);

        if (is_drawn(result) && !g_ptr_array_find(names, result->operation, NULL))
            g_ptr_array_add(names, (gpointer)result->operation);
    }
    return names;
}

/* Columns: bytes, median, 95th percentile, bus bandwidth, and the median to compare with. */
static void write_data(GString *script, const GArray *results, const char *name, guint number)
{
    g_string_append_printf(script, "$curve%u << END\n", number);
    for (guint i = 0; i < results->len; i++) {
        const struct bench_result *result = &g_array_index(results, struct bench_result, i);

        if (is_drawn(result) && strcmp(result->operation, name) == 0)
            g_string_append_printf(script, "%lld %.6g %.6g %.6g %.6g\n", (long long)result->bytes,
                                   result->p50_us, result->p95_us, result->busbw,
                                   result->before_us > 0 ? result->before_us : NAN);
    }
    g_string_append(script, "END\n");
}

/* A curve for each operation; `style` is what follows the name of the data. */
static void write_curves(GString *script, const GPtrArray *names, const char *before,
                         const char *style, const char *title_end)
{
    for (guint i = 0; i < names->len; i++)
        g_string_append_printf(script, "%s$curve%u %s linetype %u title '%s%s' noenhanced",
                               i ? ", " : before, i, style, i + 1, (const char *)names->pdata[i],
                               title_end);
}

/* The sizes that were measured, as they are written on the command line, with some room beside them. */
static void write_tics(GString *script, const GArray *results)
{
    static const char *const units[] = {"", "K", "M", "G", "T"};
    const char *between = "set xtics (";
    gint64 least = G_MAXINT64, most = 1;

    for (guint i = 0; i < results->len; i++) {
        const struct bench_result *result = &g_array_index(results, struct bench_result, i);
        gint64 number = result->bytes;
        size_t unit = 0;

        if (!is_drawn(result))
            continue;
        least = MIN(least, result->bytes);
        most = MAX(most, result->bytes);
        for (; number % 1024 == 0 && unit + 1 < G_N_ELEMENTS(units); unit++)
            number /= 1024;
        g_string_append_printf(script, "%s'%lld%s' %lld", between, (long long)number, units[unit],
                               (long long)result->bytes);
        between = ", ";
    }
    g_string_append_printf(script, ")\nset xrange [%lld / 1.5 : %lld * 1.5]\n", (long long)least,
                           (long long)most);
}

static bool is_compared(const GArray *results)
{
    for (guint i = 0; i < results->len; i++)
        if (g_array_index(results, struct bench_result, i).before_us > 0)
            return true;
    return false;
}

static char *write_script(const struct bench_facts *facts, const GArray *results,
                          const GPtrArray *names, const char *path)
{
    GString *script = g_string_new("set terminal svg size 900,900 background rgb 'white'\n");
    g_autofree char *file = quoted(path);
    g_autofree char *title = g_strdup_printf("tutti %s, %d ranks over %s, %s", facts->version,
                                             facts->ranks, facts->backend, facts->cpu);
    g_autofree char *quoted_title = quoted(title);

    for (guint i = 0; i < names->len; i++)
        write_data(script, results, names->pdata[i], i);
    write_tics(script, results);
    g_string_append_printf(script,
                           "set output %s\nset datafile missing 'nan'\n"
                           "set multiplot layout 2,1 title %s noenhanced\n"
                           "set logscale x 2\nset xtics rotate by -45\nset rmargin 4\n"
                           "set grid\nset key left top\nset xlabel 'bytes'\n"
                           "set logscale y\nset ylabel 'time in us: median, to 95th percentile'\n",
                           file, quoted_title);
    write_curves(script, names, "plot ", "using 1:2:2:3 with yerrorlines pointtype 7 pointsize 0.5",
                 "");
    if (is_compared(results))
        write_curves(script, names, ", ", "using 1:5 with lines dashtype 2", ", before");
    g_string_append(script, "\nunset logscale y\nset yrange [0:*]\n"
                            "set ylabel 'bus bandwidth in GB/s'\n");
    write_curves(script, names, "plot ", "using 1:4 with linespoints pointtype 7 pointsize 0.5",
                 "");
    g_string_append(script, "\nunset multiplot\nunset output\n");
    return g_string_free(script, FALSE);
}

/* Waits for gnuplot, and ends it when it takes too long. False after having said what is wrong. */
static bool await(GPid child, const char *path)
{
    int status = 0;

    for (int ms = 0; ms < PATIENCE_MS; ms += LOOK_AGAIN_MS) {
        const pid_t ended = waitpid(child, &status, WNOHANG);

        if (ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0)
            return true;
        if (ended == child || (ended < 0 && errno != EINTR)) {
            cli_say("bench", "gnuplot did not draw %s; its words are above", path);
            return false;
        }
        g_usleep(LOOK_AGAIN_MS * 1000);
    }
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    cli_say("bench", "gnuplot had not drawn %s after %d s, so it was ended", path,
            PATIENCE_MS / 1000);
    return false;
}

static bool run_gnuplot(const char *script, const char *path)
{
    char program[] = "gnuplot";
    g_autofree char *file = NULL;
    g_autoptr(GError) error = NULL;
    const int fd = g_file_open_tmp("tutti-bench-XXXXXX", &file, &error);
    bool drawn = false;

    if (fd < 0 || !g_file_set_contents(file, script, -1, &error)) {
        cli_say("bench", "%s was not drawn: %s", path, error->message);
    } else {
        char *argv[] = {program, file, NULL};
        GPid child;

        if (g_spawn_async(NULL, argv, NULL, G_SPAWN_SEARCH_PATH | G_SPAWN_DO_NOT_REAP_CHILD, NULL,
                          NULL, &child, &error))
            drawn = await(child, path);
        else
            cli_say("bench", "%s was not drawn: %s", path, error->message);
    }
    if (fd >= 0) {
        close(fd);
        g_unlink(file);
    }
    return drawn;
}

bool plot_draw(const struct bench_facts *facts, const GArray *results, const char *path)
{
    g_autoptr(GPtrArray) names = curves_of(results);

    if (!names->len) {
        cli_say("bench", "%s was not drawn: no operation that was measured has a size", path);
        return false;
    }

    g_autofree char *script = write_script(facts, results, names, path);

    return run_gnuplot(script, path);
}
