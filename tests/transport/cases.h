/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "mock.h"

enum { LARGE = 16 << 20 }; /* more than any socket buffers or ring take */

/* cases.c: what every transport does */
void send_word(struct member *member, int to, uint64_t word);
void receive_word(struct member *member, int from, uint64_t expected);
void case_sizes(const tutti_transport_ops *ops);
void case_receives_late(const tutti_transport_ops *ops);
void case_flood(const tutti_transport_ops *ops);
void case_small_forked(const tutti_transport_ops *ops);
void case_more(const tutti_transport_ops *ops);
void case_more_to_two(const tutti_transport_ops *ops);
void case_traffic(const tutti_transport_ops *ops);

/* cases_fail.c: what every transport does when something is wrong */
void case_too_long(const tutti_transport_ops *ops);
void case_cancel_receive(const tutti_transport_ops *ops);
void case_cancel_send(const tutti_transport_ops *ops);
void case_reports(const tutti_transport_ops *ops);
void case_no_memory(const tutti_transport_ops *ops);
void case_disconnect(const tutti_transport_ops *ops);
void case_arguments(const tutti_transport_ops *ops);
void case_killed(const tutti_transport_ops *ops);

/* cases_short.c */
void case_short(const tutti_transport_ops *ops);
void case_short_wakes(const tutti_transport_ops *ops);
void case_pairs(const tutti_transport_ops *ops);
void case_hostile_pair(const tutti_transport_ops *ops);

/* cases_shm.c */
void case_map(const tutti_transport_ops *ops);
void case_map_outlives(const tutti_transport_ops *ops);
void case_slots(const tutti_transport_ops *ops);
void case_bad_descriptors(const tutti_transport_ops *ops);
void case_hostile_ring(const tutti_transport_ops *ops);

/* cases_tcp.c */
void case_dial_together(const tutti_transport_ops *ops);
void case_dial_before_connect(const tutti_transport_ops *ops);
void case_close_delivers(const tutti_transport_ops *ops);
void case_close_delivers_late(const tutti_transport_ops *ops);
void case_leaves_with_the_message(const tutti_transport_ops *ops);
void case_garbage(const tutti_transport_ops *ops);
void case_forked_child(const tutti_transport_ops *ops);
void case_half_open(const tutti_transport_ops *ops);
void case_replayed(const tutti_transport_ops *ops);
void case_mirrored(const tutti_transport_ops *ops);
void case_old_core(const tutti_transport_ops *ops);
void case_wrong_token(const tutti_transport_ops *ops);
void case_refused(const tutti_transport_ops *ops);
void case_descriptors_gone(const tutti_transport_ops *ops);
void case_ipv6(const tutti_transport_ops *ops);

/* cases_gloo.c */
void case_receive_taken_back(const tutti_transport_ops *ops);
void case_send_taken_back(const tutti_transport_ops *ops);
void case_leave_who_took_back(const tutti_transport_ops *ops);
void case_send_to_who_left(const tutti_transport_ops *ops);
void case_reset_at_the_port(const tutti_transport_ops *ops);
void case_garbage_at_the_port(const tutti_transport_ops *ops);
void case_outsider(const tutti_transport_ops *ops);

/* cases_steady.c */
void case_steady(const tutti_transport_ops *ops);

/* cases_ucx.c */
void case_killed_in_a_piece(const tutti_transport_ops *ops);
void case_stopped_in_a_piece(const tutti_transport_ops *ops);
