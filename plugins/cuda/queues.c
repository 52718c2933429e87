/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How many streams wait for words at once. The driver maps the streams of a context to CUDA_DEVICE_MAX_CONNECTIONS
 * hardware queues (8), and does not know that a stream waits for a word. With as many streams waiting as there are
 * queues no other stream's work runs, of any priority: neither does the copy that would open the word. So two queues
 * are left to others, and one stream more is refused: its caller waits on the host.
 *
 * An event behind the wait tells when it is over, since the word's memory may be gone by then.
 */
#include <stdlib.h>

#include "inside.h"

enum { CONNECTIONS_USUAL = 8, CONNECTIONS_MOST = 32, LEFT_TO_OTHERS = 2 };

_Static_assert(CONNECTIONS_MOST - LEFT_TO_OTHERS <= WAITING_STREAMS_MAX, "each has its entry");

uint32_t queues_for_waits(void)
{
    const char *variable = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    char *end = NULL;
    long connections = variable ? strtol(variable, &end, 10) : CONNECTIONS_USUAL;

    if (!variable || end == variable || connections < 1 || connections > CONNECTIONS_MOST)
        connections = CONNECTIONS_USUAL; /* as the driver has it */
    return connections > LEFT_TO_OTHERS ? (uint32_t)connections - LEFT_TO_OTHERS : 0;
}

static bool is_over(tutti_accelerator *accelerator, const struct waiting_stream *waiting)
{
    return !waiting->event || IN_CONTEXT(accelerator, cuEventQuery(waiting->event)) == CUDA_SUCCESS;
}

/* The entry of the stream, or one whose wait is over; NULL: as many wait as may. A handle that means another stream on
 * another thread is never known again. */
static struct waiting_stream *find(tutti_accelerator *accelerator, CUstream stream)
{
    struct waiting_stream *over = NULL;

    for (uint32_t i = 0; i < accelerator->waits_most; i++) {
        struct waiting_stream *waiting = &accelerator->waits[i];
        const bool is_free = is_over(accelerator, waiting);

        if (!is_free && waiting->stream == stream && stream != CU_STREAM_PER_THREAD)
            return waiting;
        if (is_free)
            over = waiting;
    }
    return over;
}

static CUresult wait_in(tutti_accelerator *accelerator, struct waiting_stream *waiting,
                        CUstream stream, CUdeviceptr word, uint32_t value)
{
    CUresult result = CUDA_SUCCESS;

    if (!waiting->event)
        result = IN_CONTEXT(accelerator, cuEventCreate(&waiting->event, CU_EVENT_DISABLE_TIMING));
    if (!result)
        result = IN_CONTEXT(accelerator,
                            cuStreamWaitValue32_v2(stream, word, value, CU_STREAM_WAIT_VALUE_GEQ));
    if (!result)
        result = IN_CONTEXT(accelerator, cuEventRecord(waiting->event, stream));
    waiting->stream = stream;
    return result;
}

tutti_status queues_wait_word(tutti_accelerator *accelerator, void *stream, uint32_t *word,
                              uint32_t value)
{
    CUresult result = CUDA_SUCCESS;

    pthread_mutex_lock(&accelerator->waits_lock);
    struct waiting_stream *waiting = find(accelerator, stream);
    if (waiting)
        result = wait_in(accelerator, waiting, stream, (CUdeviceptr)(uintptr_t)word, value);
    pthread_mutex_unlock(&accelerator->waits_lock);
    if (!waiting)
        return driver_refuses(
            accelerator->driver, TUTTI_ERR_UNSUPPORTED,
            "%u streams of %s wait for words already, and its hardware queues are shared with "
            "others: CUDA_DEVICE_MAX_CONNECTIONS, up to 32, makes more",
            accelerator->waits_most, accelerator->words);
    return result ? driver_fails(accelerator->driver, result, accelerator->words,
                                 "letting a stream wait for a word")
                  : TUTTI_OK;
}

void queues_free(tutti_accelerator *accelerator)
{
    for (uint32_t i = 0; i < accelerator->waits_most; i++)
        if (accelerator->waits[i].event)
            (void)IN_CONTEXT(accelerator, cuEventDestroy_v2(accelerator->waits[i].event));
    pthread_mutex_destroy(&accelerator->waits_lock);
}
