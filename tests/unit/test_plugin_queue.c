/* SPDX-License-Identifier: Apache-2.0 */
/* Queues of requests in the memory of the requests, as transports have them. */
#include <criterion/criterion.h>

#include <tutti/plugin_queue.h>

enum { REQUESTS = 5 };

static tutti_request requests[REQUESTS];

static void push_all(tutti_request_queue *queue)
{
    for (int i = 0; i < REQUESTS; i++) {
        requests[i] = (tutti_request){.status = TUTTI_ERR_NOT_READY};
        tutti_queue_push(queue, &requests[i]);
    }
}

static void expect_order(const tutti_request_queue *queue, const int *order, int count)
{
    tutti_request *request = queue->first;

    for (int i = 0; i < count; i++, request = tutti_queue_place(request)->next)
        cr_assert_eq(request, &requests[order[i]], "place %d", i);
    cr_expect_null(request);
    cr_expect_eq(queue->last, count ? &requests[order[count - 1]] : NULL);
}

Test(plugin_queue, requests_leave_from_every_place_and_once)
{
    tutti_request_queue queue = {0};

    push_all(&queue);
    tutti_queue_remove(&requests[2]);
    tutti_queue_remove(&requests[2]);
    expect_order(&queue, (const int[]){0, 1, 3, 4}, 4);
    tutti_queue_remove(&requests[0]);
    tutti_queue_remove(&requests[4]);
    expect_order(&queue, (const int[]){1, 3}, 2);
    tutti_queue_clear(&queue);
    expect_order(&queue, NULL, 0);
}

Test(plugin_queue, complete_requests_are_reported_once_and_in_order)
{
    tutti_request_queue sends = {0}, done = {0};
    tutti_request *reported[2];

    push_all(&sends);
    for (int i = 0; i < 4; i++)
        tutti_queue_finish(&done, sends.first, TUTTI_OK, 7);
    expect_order(&sends, (const int[]){4}, 1);
    cr_expect_eq(requests[0].bytes, 7);
    cr_expect_eq(tutti_queue_posted(&requests[1]), TUTTI_OK);
    tutti_queue_posted(&requests[4]); /* not complete */
    expect_order(&sends, (const int[]){4}, 1);
    cr_expect_eq(tutti_queue_report(&done, reported, 2), 2);
    cr_expect_eq(reported[0], &requests[0]);
    cr_expect_eq(reported[1], &requests[2]);
    cr_expect_eq(tutti_queue_report(&done, reported, 2), 1);
    cr_expect_eq(reported[0], &requests[3]);
    cr_expect_eq(tutti_queue_report(&done, reported, 2), 0);
}

Test(plugin_queue, what_a_peer_has_complete_leaves_with_it)
{
    tutti_request_queue done = {0};
    tutti_peer *const peer = (tutti_peer *)(void *)&done;

    push_all(&done);
    tutti_queue_place(&requests[1])->peer = peer;
    tutti_queue_place(&requests[4])->peer = peer;
    tutti_queue_remove_peer(&done, peer);
    expect_order(&done, (const int[]){0, 2, 3}, 3);
}
