/* SPDX-License-Identifier: Apache-2.0
 *
 * Capture: the operations of a capturing stream become nodes of a graph, which a launch puts into a stream one
 * after the other. That is one of the orders that the graph allows, as nodes are in the order of their calls.
 *
 * A call that must not be made during a capture fails and invalidates the capture.
 */
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

struct node {
    run_function run; /* NULL: a join */
    number_function number;
    void *arguments;
    size_t size;
    int after[2]; /* earlier nodes, -1 for none */
    bool joined;
};

/* What a graph holds, and frees at its end. */
struct CUuserObject_st {
    void *of;
    void (*destroy)(void *of);
    unsigned references;
    struct CUuserObject_st *next; /* in one graph; an object of several is not known here */
};

/* Its users are its handle, those that were instantiated of it, and launches of these. */
struct CUgraph_st {
    struct node *nodes;
    int count;
    int users;
    struct CUuserObject_st *objects;
};

struct capture {
    struct CUgraph_st *graph;
    struct CUstream_st *origin;
    CUstreamCaptureMode mode;
    pthread_t thread;
    unsigned long long id;
    bool invalid;
    struct capture *next;
};

struct CUgraphExec_st {
    struct CUgraph_st *graph;
};

static struct capture *captures, *ended;
static unsigned long long last_id;
static _Thread_local CUstreamCaptureMode thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

static void release(struct CUgraph_st *graph)
{
    struct CUuserObject_st *object;

    if (--graph->users)
        return;
    while ((object = graph->objects)) {
        graph->objects = object->next;
        object->destroy(object->of);
        free(object);
    }
    for (int i = 0; i < graph->count; i++)
        free(graph->nodes[i].arguments);
    free(graph->nodes);
    free(graph);
}

static CUresult invalidate(struct capture *capture, CUresult result)
{
    capture->invalid = true;
    return result;
}

static int add(struct CUgraph_st *graph, struct node node)
{
    graph->nodes = realloc(graph->nodes, (size_t)(graph->count + 1) * sizeof node);
    graph->nodes[graph->count] = node;
    return graph->count++;
}

CUresult standin_capture_put(struct CUstream_st *stream, run_function run, number_function number,
                             const void *arguments, size_t size)
{
    struct node node = {run, number, NULL, size, {stream->captured, -1}, false};

    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    node.arguments = malloc(size ? size : 1);
    memcpy(node.arguments, arguments, size);
    stream->captured = add(stream->capture->graph, node);
    return CUDA_SUCCESS;
}

CUresult standin_capture_record(struct CUstream_st *stream, struct CUevent_st *event)
{
    if (stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    event->capture = stream->capture;
    event->captured = stream->captured;
    return CUDA_SUCCESS;
}

static bool goes_on(const struct capture *capture)
{
    const struct capture *c = captures;

    while (c && c != capture)
        c = c->next;
    return c != NULL;
}

CUresult standin_capture_wait(struct CUstream_st *stream, struct CUevent_st *event)
{
    struct capture *capture = event->capture;

    if (stream->capture && stream->capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (!capture || !goes_on(capture)) { /* waits for work that is no part of the capture */
        CUresult wrong = capture ? CUDA_ERROR_INVALID_VALUE : CUDA_ERROR_STREAM_CAPTURE_ISOLATION;

        if (!capture && !event->at.stream)
            return CUDA_SUCCESS;
        return stream->capture ? invalidate(stream->capture, wrong) : wrong;
    }
    if (capture->invalid)
        return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    if (stream->legacy)
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (stream->capture && stream->capture != capture) {
        invalidate(stream->capture, CUDA_SUCCESS);
        return invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    }
    if (!stream->capture) {
        stream->capture = capture;
        stream->captured = event->captured;
        return CUDA_SUCCESS;
    }
    stream->captured =
        add(capture->graph, (struct node){.after = {stream->captured, event->captured}});
    return CUDA_SUCCESS;
}

CUresult standin_refuse_captured(struct CUstream_st *stream)
{
    CUresult result = standin_refuse_implicit(stream);

    if (result || !stream->capture)
        return result;
    return invalidate(stream->capture, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
}

CUresult standin_refuse_captured_event(struct CUevent_st *event)
{
    CUresult result = standin_refuse_unsafe();

    if (result || !event->capture)
        return result;
    if (!goes_on(event->capture) || event->capture->invalid)
        return CUDA_ERROR_INVALID_VALUE;
    return invalidate(event->capture, CUDA_ERROR_CAPTURED_EVENT);
}

CUresult standin_refuse_in_context(struct CUctx_st *context)
{
    CUresult result = CUDA_SUCCESS;

    for (struct capture *c = captures; c; c = c->next)
        if (c->origin->context == context)
            result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    return result;
}

CUresult standin_refuse_unsafe(void)
{
    CUresult result = CUDA_SUCCESS;

    if (thread_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
        return result;
    for (struct capture *c = captures; c; c = c->next) {
        bool mine = pthread_equal(c->thread, pthread_self()) != 0;

        if (c->mode == CU_STREAM_CAPTURE_MODE_RELAXED ||
            (!mine && (c->mode != CU_STREAM_CAPTURE_MODE_GLOBAL ||
                       thread_mode != CU_STREAM_CAPTURE_MODE_GLOBAL)))
            continue;
        result = invalidate(c, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    }
    return result;
}

CUresult standin_refuse_implicit(struct CUstream_st *stream)
{
    CUresult result = CUDA_SUCCESS;

    if (!stream->legacy)
        return result;
    for (struct CUstream_st *s = standin_all_streams(); s; s = s->next)
        if (s->context == stream->context && s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
            result = invalidate(s->capture, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    return result;
}

EXPORT CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode)
{
    CUstreamCaptureMode before = thread_mode;
    CUresult result = standin_initialised();

    if (result)
        return result;
    if (!mode)
        return CUDA_ERROR_INVALID_VALUE;
    thread_mode = *mode;
    *mode = before;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream handle, CUstreamCaptureMode mode)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct capture *capture;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = standin_refuse_implicit(stream);
    if (result)
        return standin_leave(result);
    if (mode > CU_STREAM_CAPTURE_MODE_RELAXED)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    if (stream->legacy)
        return standin_leave(CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
    if (stream->capture)
        return standin_leave(CUDA_ERROR_ILLEGAL_STATE);
    capture = calloc(1, sizeof *capture);
    *capture = (struct capture){.origin = stream,
                                .mode = mode,
                                .thread = pthread_self(),
                                .id = ++last_id,
                                .next = captures};
    capture->graph = calloc(1, sizeof *capture->graph);
    capture->graph->users = 1;
    captures = capture;
    stream->capture = capture;
    stream->captured = -1;
    return standin_leave(CUDA_SUCCESS);
}

/* Whether the legacy stream is in use by the capture of another, which looking at it leaves as it is. */
static CUresult look_at_implicit(const struct CUstream_st *stream)
{
    for (struct CUstream_st *s = standin_all_streams(); stream->legacy && s; s = s->next)
        if (s->context == stream->context && s->capture && !(s->flags & CU_STREAM_NON_BLOCKING))
            return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    return CUDA_SUCCESS;
}

EXPORT CUresult cuStreamIsCapturing(CUstream handle, CUstreamCaptureStatus *ret_status)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = look_at_implicit(stream);
    if (result == CUDA_SUCCESS)
        *ret_status = !stream->capture           ? CU_STREAM_CAPTURE_STATUS_NONE
                      : stream->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                                 : CU_STREAM_CAPTURE_STATUS_ACTIVE;
    return standin_leave(result);
}

/* The other outputs are given as empty. */
EXPORT CUresult cuStreamGetCaptureInfo_v2(CUstream handle, CUstreamCaptureStatus *ret_status,
                                          uint64_t *ret_id, CUgraph *ret_graph,
                                          const void **ret_nodes, size_t *ret_count)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = cuStreamIsCapturing(handle, ret_status);

    if (result == CUDA_SUCCESS)
        result = standin_enter(__func__, &context);
    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    if (ret_id && stream->capture)
        *ret_id = stream->capture->id;
    if (ret_graph && stream->capture)
        *ret_graph = stream->capture->graph;
    if (ret_nodes)
        *ret_nodes = NULL;
    if (ret_count)
        *ret_count = 0;
    return standin_leave(CUDA_SUCCESS);
}

/* All nodes lead to the last one of the stream that began. */
static bool is_joined(struct CUgraph_st *graph, int last)
{
    for (int i = 0; i < graph->count; i++)
        graph->nodes[i].joined = i == last;
    for (int i = graph->count; i-- > 0;)
        for (int k = 0; k < 2 && graph->nodes[i].joined; k++)
            if (graph->nodes[i].after[k] >= 0)
                graph->nodes[graph->nodes[i].after[k]].joined = true;
    for (int i = 0; i < graph->count; i++)
        if (!graph->nodes[i].joined)
            return false;
    return true;
}

/* It is kept, since events may still name it. */
static void end(struct capture *capture)
{
    struct capture **at = &captures;

    while (*at != capture)
        at = &(*at)->next;
    *at = capture->next;
    capture->next = ended;
    capture->graph = NULL;
    ended = capture;
    for (struct CUstream_st *s = standin_all_streams(); s; s = s->next)
        if (s->capture == capture)
            s->capture = NULL;
}

EXPORT CUresult cuStreamEndCapture(CUstream handle, CUgraph *ret_graph)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    struct capture *capture;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    capture = stream->capture;
    *ret_graph = NULL;
    if (!capture)
        return standin_leave(CUDA_ERROR_ILLEGAL_STATE);
    if (capture->origin != stream)
        return standin_leave(invalidate(capture, CUDA_ERROR_STREAM_CAPTURE_UNMATCHED));
    if (capture->mode != CU_STREAM_CAPTURE_MODE_RELAXED &&
        !pthread_equal(capture->thread, pthread_self()))
        result = CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
    else if (capture->invalid)
        result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    else if (!is_joined(capture->graph, stream->captured))
        result = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
    else
        *ret_graph = capture->graph;
    if (result)
        release(capture->graph);
    end(capture);
    return standin_leave(result);
}

void standin_capture_drop(struct CUstream_st *stream)
{
    struct capture *capture = stream->capture;

    stream->capture = NULL;
    if (!capture || capture->origin != stream)
        return;
    release(capture->graph);
    end(capture);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *ret_exec, CUgraph graph,
                                            unsigned long long flags)
{
    struct CUctx_st *context;
    CUresult result = standin_enter(__func__, &context);

    (void)flags;
    if (result)
        return result;
    if (!graph)
        return standin_leave(CUDA_ERROR_INVALID_VALUE);
    *ret_exec = malloc(sizeof **ret_exec);
    (*ret_exec)->graph = graph;
    graph->users++;
    return standin_leave(CUDA_SUCCESS);
}

static CUresult end_launch(const void *arguments)
{
    pthread_mutex_lock(&standin_lock);
    release(*(struct CUgraph_st *const *)arguments);
    pthread_mutex_unlock(&standin_lock);
    return CUDA_SUCCESS;
}

/* What the graph holds is needed until the launch is over. */
static CUresult hold(struct CUgraph_st *graph, struct CUstream_st *stream)
{
    if (!graph->objects)
        return CUDA_SUCCESS;
    graph->users++;
    return standin_put(stream, end_launch, &graph, sizeof graph, NULL);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec exec, CUstream handle)
{
    struct CUctx_st *context;
    struct CUstream_st *stream;
    CUresult result = standin_enter(__func__, &context);

    if (result)
        return result;
    stream = standin_stream(__func__, handle, context);
    result = standin_refuse_captured(stream);
    for (int i = 0; i < exec->graph->count && result == CUDA_SUCCESS; i++) {
        const struct node *node = &exec->graph->nodes[i];

        if (node->run)
            result =
                standin_put_numbered(stream, node->run, node->number, node->arguments, node->size);
    }
    if (result == CUDA_SUCCESS)
        result = hold(exec->graph, stream);
    return standin_leave(result);
}

EXPORT CUresult cuUserObjectCreate(CUuserObject *ret_object, void *of, void (*destroy)(void *),
                                   unsigned references, unsigned flags)
{
    if (!ret_object || !destroy || !references || flags != USER_OBJECT_NO_DESTRUCTOR_SYNC)
        return CUDA_ERROR_INVALID_VALUE;
    *ret_object = malloc(sizeof **ret_object);
    **ret_object = (struct CUuserObject_st){.of = of, .destroy = destroy, .references = references};
    return CUDA_SUCCESS;
}

/* The caller's reference becomes the graph's. That is all that this stand-in has. */
EXPORT CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                        unsigned flags)
{
    if (!graph || !object || count != 1 || object->references != 1)
        return CUDA_ERROR_INVALID_VALUE;
    if (flags != GRAPH_USER_OBJECT_MOVE)
        standin_die(__func__, "only a caller that gives its reference away is known here");
    pthread_mutex_lock(&standin_lock);
    object->next = graph->objects;
    graph->objects = object;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphGetNodes(CUgraph graph, void **ret_nodes, size_t *count)
{
    size_t found = 0;

    if (!graph || !count || ret_nodes)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    for (int i = 0; i < graph->count; i++)
        found += graph->nodes[i].run != NULL;
    *count = found;
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphDestroy(CUgraph graph)
{
    if (!graph)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    release(graph);
    return standin_leave(CUDA_SUCCESS);
}

EXPORT CUresult cuGraphExecDestroy(CUgraphExec exec)
{
    if (!exec)
        return CUDA_ERROR_INVALID_VALUE;
    pthread_mutex_lock(&standin_lock);
    release(exec->graph);
    free(exec);
    return standin_leave(CUDA_SUCCESS);
}
