/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Jobs under attack: as another user of their hosts, and from another host in their network. After each
 * attack the job makes a group and goes on to the right result, and the attacker has nothing.
 *
 * Each job is in network namespaces of its own, so nothing outside is touched. Namespaces and other users
 * need root.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "attack.h"
#include "fault/ports.h"
#include "harness/launch.h"
#include "harness/net.h"
#include "way.h"

enum { PHASES = 5, PHASES_MAX = 1000, TRIES = 1000, RECORDS = 16 };
enum { RANKS = WAY_RANKS, ATTACK_MS = 20000, FLOOD = 70, FLOOD_LONG = 5000 };

TestSuite(attack, .timeout = 180);

/* A job, and what its attackers know of it. */
struct field {
    const struct way *way;
    struct net *net;
    struct ranks *job;
    int phase;
    struct attack_scene scene;
    struct wire *earlier, *now;
};

/* A hello of control connections begins with it. */
static const uint8_t proof_magic[] = {0x63, 0x74, 0x74, 0x74};
static const uint8_t tls_magic[] = {0x16, 3, 1}; /* as a ClientHello */

static const char *attackers_host(const struct field *field)
{
    return net_name(field->net, field->way->hosts);
}

/* ---- the job -------------------------------------------------------------------------------------- */

/* Whether all ranks have made another group and worked in it. */
static bool reaches_next_phase(struct field *field)
{
    char words[32];

    snprintf(words, sizeof words, "phase %d is over", ++field->phase);
    return ranks_await_words(field->job, 0, words);
}

static bool goes_on(struct field *field)
{
    ranks_tell(field->job, 0, "n");
    return reaches_next_phase(field);
}

static void start_case(struct field *field, const char *name)
{
    field->phase = 0;
    field->job = way_start(field->way, field->net, name);
    cr_assert_not_null(field->job);
    cr_assert(reaches_next_phase(field), "the job does not begin");
    field->scene.process_count =
        ranks_processes(field->job, field->scene.processes, ATTACK_PROCESSES);
    cr_assert_geq(field->scene.process_count, RANKS);
}

static void start_job(struct field *field)
{
    start_case(field, "works_until_it_is_told_to_end");
}

static int count_of(const char *text, const char *word)
{
    int count = 0;

    for (; (text = strstr(text, word)); text++)
        count++;
    return count;
}

/* It ends as if nobody had attacked it. */
static void end_job(struct field *field)
{
    char words[2048];

    ranks_tell(field->job, 0, "e");
    cr_assert(ranks_wait(field->job));
    if (way_is_launched(field->way)) {
        const struct rank_result *launcher = ranks_result(field->job, 0);

        cr_expect_eq(launcher->exit_code, 0, "%s%s", launcher->out, launcher->err);
        cr_expect_eq(count_of(launcher->out, "@tutti verdict pass"), RANKS, "%s", launcher->out);
    } else {
        cr_expect(ranks_passed(field->job));
    }
    if (field->way->launcher != TORCHRUN) /* which leaves a folder for logs */
        cr_expect_eq(ranks_leftovers(field->job, words, sizeof words), 0, "%s", words);
    ranks_free(field->job);
    field->job = NULL;
}

/* ---- the attackers ---------------------------------------------------------------------------------- */

static void expect_nothing(const struct attack *attack, const char *what)
{
    const struct attack_result *result = attack_result(attack);

    cr_expect_gt(result->tried, 0, "%s: it has reached nothing", what);
    cr_expect_eq(result->gained, 0, "%s: %s", what, result->words);
    cr_log_info("%s: %d tries\n", what, result->tried);
}

/* One attack, during which the job works; then it has to go on. */
static void suffer(struct field *field, attack_fn act, const char *what)
{
    struct attack *attack = attack_start(act, &field->scene);

    cr_assert_not_null(attack);
    cr_expect(attack_wait(attack, ATTACK_MS), "%s: it did not come to its end", what);
    expect_nothing(attack, what);
    attack_free(attack);
    cr_assert(goes_on(field), "after: %s\n%s", what, ranks_result(field->job, 0)->err);
}

/* One that goes on while the job makes groups. */
static void suffer_all_along(struct field *field, attack_fn act, const char *what)
{
    struct attack *attack = attack_start(act, &field->scene);
    const int tries = field->scene.flood < TRIES ? TRIES : field->scene.flood;

    cr_assert_not_null(attack);
    for (int i = 0; i < PHASES_MAX && (i < PHASES || attack_result(attack)->tried < tries); i++)
        cr_assert(goes_on(field), "during: %s\n%s", what, ranks_result(field->job, 0)->err);
    attack_kill(attack);
    expect_nothing(attack, what);
    attack_free(attack);
    cr_assert(goes_on(field), "after: %s\n%s", what, ranks_result(field->job, 0)->err);
}

/* The ports of a host, as its users see them. */
static void list_ports(struct field *field, int host, struct attack_result *ret_result)
{
    struct attack_scene scene = {.netns = net_name(field->net, host)};
    struct attack *attack = attack_start(attack_list_ports, &scene);

    cr_assert_not_null(attack);
    cr_assert(attack_wait(attack, ATTACK_MS));
    *ret_result = *attack_result(attack);
    attack_free(attack);
}

static void suffer_from_connections(struct field *field)
{
    suffer(field, attack_read_all, "reads what each port offers");
    suffer(field, attack_use_store, "reads and changes the store");
    suffer(field, attack_flood, "floods each port");
    suffer(field, attack_forge, "forges proofs and frames");
    suffer(field, attack_replay, "replays what was recorded");
    suffer_all_along(field, attack_besiege, "holds many half-open connections");
}

/* Those ports of the hosts that `is_seen` takes. */
static void know_ports(struct field *field,
                       bool (*is_seen)(const struct field *field, struct attack_port port))
{
    static struct attack_result listed;
    struct attack_scene *scene = &field->scene;

    scene->port_count = 0;
    for (int host = 0; host < field->way->hosts; host++) {
        list_ports(field, host, &listed);
        for (int i = 0; i < listed.port_count && scene->port_count < ATTACK_PORTS; i++)
            if (is_seen(field, listed.ports[i]))
                scene->ports[scene->port_count++] = listed.ports[i];
    }
    cr_assert_gt(scene->port_count, 0);
}

/* Not those of Open MPI: its ranks listen on all addresses, and bytes at a port of mpirun make that crash. Nor the
 * store of torchrun, or that of this process in its place, which takes everybody. */
static bool is_ours(const struct field *field, struct attack_port port)
{
    uint16_t launchers[PORTS_MAX];
    const int back = net_enter(net_name(field->net, 0));
    const int count =
        ports_add(way_is_launched(field->way) ? ranks_pid(field->job, 0) : getpid(), launchers, 0);

    net_leave(back);
    for (int i = 0; i < count; i++)
        if (launchers[i] == port.port)
            return false;
    return port.address != htonl(INADDR_ANY);
}

static bool is_on_network(const struct field *field, struct attack_port port)
{
    (void)field;
    return port.address != htonl(INADDR_LOOPBACK);
}

/* Another user of the first host. */
static void suffer_from_user(struct field *field)
{
    field->scene.netns = net_name(field->net, 0);
    field->scene.port_count = 0;
    if (way_has_ports_of_others(field->way))
        know_ports(field, is_ours);
    suffer(field, attack_processes, "opens the processes");
    suffer_all_along(field, attack_unix_sockets, "speaks to Unix sockets");
    suffer_from_connections(field);
}

/* Somebody on another host, who knows the ports. */
static void suffer_from_network(struct field *field)
{
    field->scene.netns = attackers_host(field);
    know_ports(field, is_on_network);
    suffer_from_connections(field);
}

/* ---- the fields -------------------------------------------------------------------------------------- */

static void open_field(struct field *field, const struct way *way)
{
    char reason[256];

    if (attack_lack())
        cr_skip_test("%s", attack_lack());
    if (way_lack(way))
        cr_skip_test("%s", way_lack(way));
    *field = (struct field){.way = way, .net = net_create(way->hosts + 1, reason, sizeof reason)};
    if (!field->net)
        cr_skip_test("%s", reason);
    field->scene = (struct attack_scene){
        .netns = net_name(field->net, 0),
        .ranks = RANKS,
        .flood = getenv("TUTTI_TEST_LONG") ? FLOOD_LONG : FLOOD,
        .secret = way_secret(way),
        .encrypted = way->encrypted,
    };
}

static void close_field(struct field *field)
{
    wire_free(field->earlier);
    wire_free(field->now);
    net_destroy(field->net);
    way_end(field->way);
}

/* A job whose connections are recorded from the beginning. */
static struct wire *record_start(struct field *field)
{
    pid_t recorder;
    struct wire *wire = wire_start(net_name(field->net, 0), &recorder);

    cr_assert_not_null(wire, "the packet socket cannot be made");
    start_job(field);
    wire_stop(recorder);
    cr_assert(field->way->encrypted ? wire_begins(wire, tls_magic, sizeof tls_magic)
                                    : wire_has(wire, proof_magic, sizeof proof_magic),
              "no connection was recorded");
    cr_expect_not(wire_has(wire, way_secret_bytes, sizeof way_secret_bytes));
    cr_expect_not(wire_has(wire, WAY_SECRET, strlen(WAY_SECRET)));
    return wire;
}

static void nothing_listens(struct field *field)
{
    static struct attack_result listed;

    for (int host = 0; host < field->way->hosts; host++) {
        list_ports(field, host, &listed);
        cr_expect_eq(listed.port_count, 0, "%d ports are open when the job has ended",
                     listed.port_count);
    }
}

static void attack_job(const struct way *way)
{
    struct field field;

    open_field(&field, way);
    field.earlier = record_start(&field);
    end_job(&field);
    field.now = record_start(&field);
    field.scene.records[0] = field.earlier;
    field.scene.records[1] = field.now;
    suffer_from_user(&field);
    if (way->hosts > 1)
        suffer_from_network(&field);
    end_job(&field);
    nothing_listens(&field);
    close_field(&field);
}

Test(attack, a_job_by_hand_over_tcp_goes_on)
{
    attack_job(&(struct way){.backend = "tcp", .hosts = 1});
}

Test(attack, a_job_by_hand_over_shm_goes_on)
{
    attack_job(&(struct way){.backend = "shm", .hosts = 1});
}

Test(attack, a_job_on_two_hosts_goes_on)
{
    attack_job(&(struct way){.backend = "auto", .hosts = 2});
}

Test(attack, an_encrypted_job_on_two_hosts_goes_on)
{
    attack_job(&(struct way){.backend = "auto", .hosts = 2, .encrypted = true});
}

Test(attack, an_encrypted_job_of_tutti_run_over_tcp_goes_on)
{
    attack_job(
        &(struct way){.launcher = TUTTI_RUN, .backend = "tcp", .hosts = 1, .encrypted = true});
}

Test(attack, a_job_of_tutti_run_over_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = TUTTI_RUN, .backend = "tcp", .hosts = 1});
}

Test(attack, a_job_of_tutti_run_over_shm_goes_on)
{
    attack_job(&(struct way){.launcher = TUTTI_RUN, .backend = "shm", .hosts = 1});
}

Test(attack, a_job_of_tutti_run_over_shm_and_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = TUTTI_RUN, .backend = "auto", .hosts = 1, .apart = true});
}

/* The sockets of Open MPI are its own affair: tutti has no say in what comes to them. */
Test(attack, a_job_of_mpirun_over_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = MPIRUN, .backend = "tcp", .hosts = 1});
}

Test(attack, a_job_of_mpirun_over_shm_and_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = MPIRUN, .backend = "auto", .hosts = 1, .apart = true});
}

/* As under torchrun, without it: ranks have the user's own secret, and the store asks nobody who he is. */
Test(attack, a_job_with_the_users_own_secret_and_an_open_store_goes_on)
{
    attack_job(&(struct way){.launcher = OPEN_STORE, .backend = "auto", .hosts = 1, .apart = true});
}

Test(attack, a_job_of_torchrun_over_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = TORCHRUN, .backend = "tcp", .hosts = 1});
}

Test(attack, a_job_of_torchrun_over_shm_and_tcp_goes_on)
{
    attack_job(&(struct way){.launcher = TORCHRUN, .backend = "auto", .hosts = 1, .apart = true});
}

/* ---- before the first member, and in the place of one ------------------------------------------------ */

static void begin_besieged(const struct way *way)
{
    struct field field;

    open_field(&field, way);
    struct attack *ports = attack_start(attack_besiege, &field.scene),
                  *sockets = attack_start(attack_unix_sockets, &field.scene);

    cr_assert(ports && sockets);
    start_job(&field);
    for (int i = 0; i < PHASES; i++)
        cr_assert(goes_on(&field));
    attack_kill(ports);
    attack_kill(sockets);
    expect_nothing(ports, "connects first, to each port");
    cr_expect_eq(attack_result(sockets)->gained, 0, "%s", attack_result(sockets)->words);
    attack_free(ports);
    attack_free(sockets);
    end_job(&field);
    net_destroy(field.net);
}

Test(attack, a_job_over_tcp_that_is_besieged_from_the_start_begins)
{
    begin_besieged(&(struct way){.backend = "tcp", .hosts = 1});
}

Test(attack, a_job_over_shm_that_is_besieged_from_the_start_begins)
{
    begin_besieged(&(struct way){.launcher = TUTTI_RUN, .backend = "shm", .hosts = 1});
}

/* The survivors keep their listeners until they leave the group. */
Test(attack, nobody_takes_the_place_of_a_rank_that_was_killed)
{
    const struct way way = {.backend = "tcp", .hosts = 1};
    struct field field;
    pid_t recorder;

    open_field(&field, &way);
    struct wire *wire = wire_start(net_name(field.net, 0), &recorder);

    cr_assert_not_null(wire);
    field.job = way_start(&way, field.net, "survivors_stay_after_a_rank_was_killed");
    cr_assert_not_null(field.job);
    cr_assert(ranks_reach(field.job, RANKS_ALL, "working"));
    wire_stop(recorder);
    field.scene.records[0] = wire;
    ranks_signal(field.job, RANKS - 1, SIGKILL);
    for (int r = 0; r < RANKS - 1; r++)
        cr_assert(ranks_reach(field.job, r, "lost"));

    static const attack_fn attacks[] = {attack_forge, attack_replay};

    for (int i = 0; i < 2; i++) {
        struct attack *attack = attack_start(attacks[i], &field.scene);

        cr_assert_not_null(attack);
        cr_expect(attack_wait(attack, ATTACK_MS));
        expect_nothing(attack, i ? "replays the killed rank" : "forges the killed rank");
        attack_free(attack);
    }
    ranks_tell(field.job, 0, "e");
    cr_expect(ranks_wait(field.job));
    for (int r = 0; r < RANKS - 1; r++)
        cr_expect(ranks_result(field.job, r)->passed, "%s", ranks_result(field.job, r)->out);
    ranks_free(field.job);
    wire_free(wire);
    net_destroy(field.net);
}

Test(attack, a_rank_is_blamed_by_no_stranger)
{
    const struct way way = {.launcher = TUTTI_RUN, .backend = "shm", .hosts = 1};
    struct field field;

    open_field(&field, &way);
    start_case(&field, "a_rank_exits_when_told");
    struct attack *attack = attack_start(attack_unix_sockets, &field.scene);

    cr_assert_not_null(attack);
    for (int ms = 0; ms < ATTACK_MS && attack_result(attack)->tried < TRIES; ms++)
        usleep(1000);
    cr_assert_geq(attack_result(attack)->tried, TRIES, "%d tries", attack_result(attack)->tried);
    ranks_tell(field.job, 0, "e");
    cr_assert(ranks_wait(field.job));

    const struct rank_result *launcher = ranks_result(field.job, 0);

    cr_expect_eq(launcher->exit_code, 3);
    cr_expect(strstr(launcher->err, "rank 2 "), "%s", launcher->err);
    cr_expect_null(strstr(launcher->err, "an attacker says so"), "%s", launcher->err);
    cr_log_info("%s", launcher->err);
    attack_kill(attack);
    expect_nothing(attack, "blames ranks");
    attack_free(attack);
    ranks_free(field.job);
    net_destroy(field.net);
}

/* ---- who can write the store ---------------------------------------------------------------------------- */

/* Whether all ranks were well, or one at least says that somebody writes to the store: what it tells the
 * others by the store may be changed, too. */
static bool is_told(const struct field *field, const char *what)
{
    bool failed = false;

    for (int r = 0; r < RANKS; r++) {
        char words[2048];

        if (!ranks_value(field->job, r, what, words, sizeof words))
            continue; /* it did not come so far */
        if (strstr(words, "in the store"))
            return true;
        failed |= strncmp(words, "TUTTI_OK", 8) != 0;
    }
    return !failed;
}

/* As torchrun's own store, which takes everybody. */
Test(attack, records_that_anybody_can_write_make_no_wrong_result)
{
    const struct way way = {.backend = "auto", .hosts = 1};
    struct field field;
    int changed = 0;

    open_field(&field, &way);
    setenv("TUTTI_STORE_OPEN", "1", 1);
    for (int spared = 0; spared < RECORDS; spared++) {
        field.scene.spared = spared;
        struct attack *attack = attack_start(attack_rewrite_records, &field.scene);

        cr_assert_not_null(attack);
        field.job = way_start(&way, field.net, "begins_or_names_the_record");
        cr_assert_not_null(field.job);
        cr_expect(ranks_wait(field.job));
        cr_expect(ranks_passed(field.job));
        cr_expect(is_told(&field, "init") && is_told(&field, "group"), "%s%s",
                  ranks_result(field.job, 0)->out, ranks_result(field.job, 1)->out);
        attack_kill(attack);
        changed += attack_result(attack)->tried > 0;
        attack_free(attack);
        ranks_free(field.job);
    }
    cr_expect_gt(changed, RECORDS / 4, "%d of %d jobs had a record changed", changed, RECORDS);
    net_destroy(field.net);
}
