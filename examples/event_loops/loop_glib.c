/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop of GLib:
 *
 *     cc loop_glib.c job.c $(pkg-config --cflags --libs tutti glib-2.0) -o loop_glib
 *     tutti run -n 2 ./loop_glib
 */
#include <glib-unix.h>
#include <glib.h>

#include "job.h"

struct program {
    GMainLoop *loop;
    struct job job;
};

static gboolean on_tutti(gint fd, GIOCondition condition, gpointer user)
{
    struct program *program = user;

    (void)fd;
    (void)condition;
    if (!job_look(&program->job))
        return G_SOURCE_CONTINUE;
    g_main_loop_quit(program->loop);
    return G_SOURCE_REMOVE;
}

static gboolean on_tick(gpointer user)
{
    struct program *program = user;

    program->job.ticks++;
    return G_SOURCE_CONTINUE;
}

int main(void)
{
    struct program program = {.loop = g_main_loop_new(NULL, FALSE)};

    job_start(&program.job);
    g_unix_fd_add(program.job.fd, G_IO_IN, on_tutti, &program);
    guint tick = g_timeout_add(5, on_tick, &program);
    g_main_loop_run(program.loop);
    g_source_remove(tick);
    job_end(&program.job);
    g_main_loop_unref(program.loop);
    return 0;
}
