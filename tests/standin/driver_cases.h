/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases that hold for every driver.
 */
#ifndef STANDIN_DRIVER_CASES_H
#define STANDIN_DRIVER_CASES_H

#include "driver.h"

/* X(name, the case calls cuInit() by itself) */
#define DRIVER_CASES(X)                                                                            \
    X(nothing_works_before_the_driver_is_initialised, true)                                        \
    X(a_child_of_fork_has_no_driver, false)                                                        \
    X(devices_have_names_and_uuids, false)                                                         \
    X(errors_have_names_and_words, false)                                                          \
    X(addresses_of_functions_are_given_by_name, false)                                             \
    X(contexts_are_a_stack_of_each_thread, false)                                                  \
    X(events_belong_to_streams_of_their_context, false)                                            \
    X(an_event_that_was_never_recorded_is_complete, false)                                         \
    X(an_event_is_complete_when_its_stream_is_there, false)                                        \
    X(a_wait_takes_the_record_at_the_time_of_its_call, false)                                      \
    X(a_destroyed_stream_completes_its_work, false)                                                \
    X(the_legacy_stream_waits_for_blocking_streams, false)                                         \
    X(blocking_streams_wait_for_the_legacy_stream, false)                                          \
    X(the_legacy_stream_does_not_wait_for_non_blocking_ones, false)                                \
    X(each_thread_has_a_stream_of_its_own, false)                                                  \
    X(streams_wait_for_words_as_their_flags_say, false)                                            \
    X(words_are_in_device_pinned_and_registered_memory, false)                                     \
    X(host_functions_run_in_order_and_may_only_ask, false)                                         \
    X(host_functions_of_all_streams_run_one_by_one, false)                                         \
    X(a_waiting_stream_takes_a_bounded_number_of_commands, false)                                  \
    X(streams_that_wait_for_words_take_all_queues, true)                                           \
    X(some_calls_wait_for_all_streams_of_the_context, false)                                       \
    X(elapsed_time_needs_two_records_with_times, false)                                            \
    X(streams_say_their_flags_priority_and_context, false)                                         \
    X(the_driver_says_what_an_address_is, false)                                                   \
    X(the_driver_says_where_an_allocation_begins, false)                                           \
    X(allocations_are_aligned_and_refused_in_words, false)                                         \
    X(registered_memory_does_not_overlap, false)                                                   \
    X(copies_of_a_stream_are_in_order, false)                                                      \
    X(blocking_copies_take_pageable_memory, false)                                                 \
    X(copies_between_devices_are_in_stream_order, false)                                           \
    X(fills_reach_device_and_pinned_memory, false)                                                 \
    X(kernels_run_in_stream_order, false)                                                          \
    X(wrong_launches_and_modules_are_refused, false)                                               \
    X(a_captured_stream_replays, false)                                                            \
    X(a_graph_frees_what_it_was_given_at_its_end, false)                                           \
    X(a_capture_takes_in_streams_that_wait_for_it, false)                                          \
    X(a_capture_with_unjoined_work_fails, false)                                                   \
    X(the_legacy_stream_cannot_be_captured, false)                                                 \
    X(the_legacy_stream_is_refused_beside_a_blocking_capture, false)                               \
    X(asking_a_capturing_stream_invalidates_its_capture, false)                                    \
    X(unsafe_calls_invalidate_captures_unless_relaxed, false)                                      \
    X(captured_events_cannot_be_asked, false)                                                      \
    X(another_thread_ends_a_capture_without_a_graph, false)                                        \
    X(captures_end_where_they_began, false)                                                        \
    X(the_error_of_a_lost_device_stays, false)

#define DECLARE_CASE(name, bare) void name(void);
DRIVER_CASES(DECLARE_CASE)
#undef DECLARE_CASE

#endif
