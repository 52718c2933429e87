/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tutti check`: whether a plugin keeps the rules of its ABI and does what its kind promises.
 *
 *   check.c           the list of checks, the report
 *   check_file.c      what the file says before it is loaded
 *   check_plugin.c    what its descriptor says, and what loading and use change in a process
 *   check_core.c      a small core: host services, two members, requests
 *   check_local.c     the services of that core for local peers: descriptors and doorbells
 *   check_messages.c  what a transport does between two processes
 *   check_lost.c      a peer that is killed
 *   check_memory.c    whether a transport keeps to the memory that is its own for the moment
 *   check_traits.c    what it claims: two endpoints at once, lanes, reach, promptness
 *   check_short.c     messages without requests: shown, and in pairs
 *   check_sleep.c     memory that both map, and sleeping until something comes
 *   check_device.c    devices: the driver, memory
 *   check_device_work.c  work on their streams: copies, events, words, packing
 *   check_device_sums.c  their arithmetic
 *   check_engine.c    collectives of the plugin's own: what it says that it serves
 *   check_join.c      a group of several ranks over the plugin
 *   check_ranks.c     calls of the public API by those ranks
 *   check_types.c     their reductions of each type, and blocks of different sizes
 *   check_trial.c     what the plugin needs to be tried: variables, a launcher
 *   check_child.c     processes of their own for all that runs the plugin's code
 *
 * A check never runs the plugin in this process. It is a function that returns when all is well and
 * otherwise says what is wrong, in as many processes as it needs; a crash, a hang and an exit are
 * findings like others.
 */
#pragma once

#include <glib.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <tutti/plugin.h>

enum { CHECK_MEMBERS_MAX = 4 };

/* The plugin that is looked at. */
struct check_subject {
    char *path, *folder; /* real ones */
    char *name;          /* NAME of libtutti-NAME.so */
    char *launcher;      /* that its processes need; NULL: none */
    bool thorough;       /* more of what happens rarely */
};

enum check_result { CHECK_PASSED, CHECK_REMARK, CHECK_FAILED, CHECK_SKIPPED };

struct check_finding {
    enum check_result result;
    char *words; /* g_free() it; NULL: nothing to say */
    bool ended;  /* a process of the check died or hung: another check would only say so again */
};

/* ---- check_child.c --------------------------------------------------------------------------- */

/* One of the processes of a check. `folder` is empty and the check's own. */
struct check_member {
    const struct check_subject *subject;
    const char *folder;
    int index, count;
};

typedef void check_body(const struct check_member *member);

/*
 * Runs `body` in `count` processes. The first finding of any of them is the check's; the others are
 * ended then, and all are at the deadline.
 */
struct check_finding check_in_children(const struct check_subject *subject, check_body *body,
                                       int count, int deadline_s);

/*
 * Time to wait, as the waiting process lives through it: of what passes between two looks a tenth of a second
 * counts at most. A machine that stood still, or had no time for it, is not the plugin's fault.
 */
struct check_time {
    gint64 left_us, looked_us;
};

struct check_time check_time_of(int ms);
/* Whether some is left, now. */
bool check_time_is_left(struct check_time *time);
/* How long the first thread of a process has waited for a CPU, in ns; 0: not known. */
uint64_t check_waited_ns(pid_t pid);

/* Functions for the bodies of checks. Each ends the process. */
_Noreturn void check_fails(const char *format, ...) G_GNUC_PRINTF(1, 2);
_Noreturn void check_skips(const char *format, ...) G_GNUC_PRINTF(1, 2);
_Noreturn void check_remarks(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Notes the present step, for the message about a process that crashes or hangs. */
void check_doing(const char *format, ...) G_GNUC_PRINTF(1, 2);
/* Around each call of the plugin; one that blocks is noticed by the parent, which ends the check. */
void check_enters(const char *function);
void check_leaves(void);
/* Waits until every member of the check is here. */
void check_meet(void);
/* This process is going to die, and that is right. */
void check_dies(void);
/* This process has done its part of the check; one that ends earlier, with code 0 too, has failed. Said
 * for bodies that return. */
void check_over(void);
/* Gives bytes to the other members, 64 KiB at most, and takes those of `member` after check_meet(). */
void check_give(const void *bytes, uint64_t count);
const uint8_t *check_take(int member, uint64_t *ret_count);
/* What a member has given to gathers, of two kinds of endpoints, 0 and 1: the last two. */
enum { CHECK_GATHER_MAX = 64 << 10, CHECK_GATHERS_HELD = 2, CHECK_GATHER_WAYS = 2 };
struct check_gathers {
    _Atomic uint64_t begun; /* how many */
    uint64_t bytes[CHECK_GATHERS_HELD];
    uint8_t data[CHECK_GATHERS_HELD][CHECK_GATHER_MAX];
};
struct check_gathers *check_gathers_of(int member, int way);
/* The way of this process to another one of the check: whole messages, with descriptors. */
int check_socket(int member);
/* Says that this process is going to sleep, on the doorbell returned; and that it is awake again. */
int check_sleeps(void);
void check_awake(void);
/* Rings the doorbell of a member that said so. */
void check_ring(int member);

/* ---- check_file.c ---------------------------------------------------------------------------- */

struct check_finding check_file_name(const struct check_subject *subject);
struct check_finding check_file_exports(const struct check_subject *subject);
struct check_finding check_file_links(const struct check_subject *subject);
struct check_finding check_file_relocations(const struct check_subject *subject);
struct check_finding check_file_stack(const struct check_subject *subject);
struct check_finding check_file_calls(const struct check_subject *subject);

/* ---- check_plugin.c -------------------------------------------------------------------------- */

/* In a child: the plugin's descriptor, and its transport; ends the process when there is none. */
const tutti_plugin *check_load(const struct check_subject *subject);
const tutti_transport_ops *check_transport(const struct check_subject *subject);

/* Remembers the program's own state (signals, umask, folder, locale, environment and the like), and
 * ends the check if that has changed. */
void check_remember(void);
void check_same(const char *when);
/* How many entries a folder of /proc/self has, -1: it cannot be read. */
int check_count_in(const char *folder);

check_body check_core_accepts, check_descriptor, check_effects;

/* ---- check_messages.c ------------------------------------------------------------------------ */

check_body check_sizes, check_order, check_both_ways, check_late_receives, check_flood,
    check_too_long, check_bad_address, check_stranger, check_gives_back;

/* ---- check_lost.c ---------------------------------------------------------------------------- */

check_body check_killed_peer;

/* ---- check_memory.c -------------------------------------------------------------------------- */

check_body check_memory, check_cancel, check_host_memory;

/* ---- check_traits.c -------------------------------------------------------------------------- */

check_body check_opens, check_two_endpoints, check_lanes, check_reach, check_latency;

/* ---- check_short.c --------------------------------------------------------------------------- */

check_body check_short, check_pairs;

/* ---- check_sleep.c --------------------------------------------------------------------------- */

check_body check_map, check_wakes;

/* ---- check_engine.c -------------------------------------------------------------------------- */

check_body check_serves;

/* ---- check_device.c, check_device_work.c, check_device_sums.c -------------------------------- */

check_body check_device_opens, check_device_memory, check_device_copies, check_device_streams,
    check_device_word, check_device_packing, check_device_threads, check_device_reductions,
    check_device_factors;

/* ---- check_ranks.c --------------------------------------------------------------------------- */

check_body check_rank_all_reduce, check_rank_broadcast, check_rank_barrier, check_rank_blocks,
    check_rank_messages, check_rank_works, check_rank_groups, check_rank_killed;

/* ---- check_types.c --------------------------------------------------------------------------- */

check_body check_rank_types, check_rank_lengths, check_rank_uneven;
