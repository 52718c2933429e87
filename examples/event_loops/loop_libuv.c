/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loop of libuv:
 *
 *     cc loop_libuv.c job.c $(pkg-config --cflags --libs tutti libuv) -o loop_libuv
 *     tutti run -n 2 ./loop_libuv
 */
#include <stdio.h>
#include <uv.h>

#include "job.h"

static void on_tutti(uv_poll_t *poll, int status, int events)
{
    struct job *job = poll->data;

    (void)events;
    if (status < 0)
        fprintf(stderr, "%s\n", uv_strerror(status));
    if (status < 0 || job_look(job))
        uv_stop(poll->loop);
}

static void on_tick(uv_timer_t *timer)
{
    struct job *job = timer->data;

    job->ticks++;
}

int main(void)
{
    uv_loop_t *loop = uv_default_loop();
    struct job job = {.ticks = 0};
    uv_poll_t poll = {.data = &job};
    uv_timer_t timer = {.data = &job};

    job_start(&job);
    uv_poll_init(loop, &poll, job.fd);
    uv_poll_start(&poll, UV_READABLE, on_tutti);
    uv_timer_init(loop, &timer);
    uv_timer_start(&timer, on_tick, 5, 5);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_close((uv_handle_t *)&poll, NULL); /* the descriptor stays tutti's */
    uv_close((uv_handle_t *)&timer, NULL);
    uv_run(loop, UV_RUN_DEFAULT);
    uv_loop_close(loop);
    job_end(&job);
    return 0;
}
