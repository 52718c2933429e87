/* SPDX-License-Identifier: Apache-2.0 */
/* The identity of this process from options and environment; each test brings its own
 * environment. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "bootstrap/bootstrap.h"
#include "bootstrap/identity.h"
#include "bootstrap/launcher.h"
#include "harness/port.h"

/* `user` is a list of "NAME=VALUE", each ended by NUL, and an empty one. */
static const char *variable_of_list(const char *name, void *user)
{
    const size_t n = strlen(name);

    for (const char *at = user; *at; at += strlen(at) + 1) {
        if (!strncmp(at, name, n) && at[n] == '=')
            return at + n + 1;
    }
    return NULL;
}

/* `environment` is "NAME=VALUE NAME=VALUE …". */
static tutti_status resolve(const char *environment, const tutti_init_options *options,
                            struct identity *ret_identity)
{
    const tutti_init_options none = TUTTI_INIT_OPTIONS_INIT;
    char list[1024] = "";

    cr_assert_lt(strlen(environment), sizeof list - 1);
    strcpy(list, environment);
    for (char *at = list; (at = strchr(at, ' ')); at++)
        *at = 0;
    return identity_resolve(options ? options : &none, variable_of_list, list, ret_identity);
}

#define MASTER "MASTER_ADDR=localhost MASTER_PORT=29500 "

Test(bootstrap, environments_of_launchers_are_understood, .timeout = 5)
{
    static const struct {
        const char *environment;
        int rank, size, restart;
        bool hosts;
        const char *run_id, *source;
    } cases[] = {
        {"RANK=0 WORLD_SIZE=4 " MASTER, 0, 4, 0, true, "none",
         "rank and size from RANK and WORLD_SIZE, store tcp://localhost:29500 (served here)"},
        {"RANK=3 WORLD_SIZE=4 " MASTER, 3, 4, 0, false, "none",
         "rank and size from RANK and WORLD_SIZE, store tcp://localhost:29500"},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RUN_ID=a/b%c "
         "TORCHELASTIC_RESTART_COUNT=3 " MASTER,
         0, 2, 3, false, "a%2Fb%25c", NULL},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=true " MASTER, 0, 2, 0, true, "none",
         NULL},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True TUTTI_STORE_HOST=1 " MASTER, 0, 2,
         0, true, "none", NULL},
        {"RANK=1 WORLD_SIZE=2 TUTTI_STORE_HOST=1 " MASTER, 1, 2, 0, false, "none", NULL},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE_HOST=0 " MASTER, 0, 2, 0, false, "none", NULL},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE=tcp://127.0.0.1:77 TUTTI_RUN_ID=mine "
         "TORCHELASTIC_RUN_ID=other " MASTER,
         0, 2, 0, false, "mine",
         "rank and size from RANK and WORLD_SIZE, store tcp://127.0.0.1:77"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE=file:///tmp/f", 0, 2, 0, false, "none",
         "rank and size from RANK and WORLD_SIZE, store file:///tmp/f"},
        {"RANK=0 WORLD_SIZE=1 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 " MASTER, 0, 1, 0, true, "none",
         NULL},
        {"RANK=1 WORLD_SIZE=2 SLURM_NTASKS=4 " MASTER, 1, 2, 0, false, "none", NULL},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct identity identity;

        cr_assert_eq(resolve(cases[i].environment, NULL, &identity), TUTTI_OK, "%s: %s",
                     cases[i].environment, tutti_last_error());
        cr_expect_eq(identity.rank, cases[i].rank);
        cr_expect_eq(identity.size, cases[i].size);
        cr_expect_eq(identity.restart, cases[i].restart);
        cr_expect_eq(identity.hosts, cases[i].hosts, "%s", cases[i].environment);
        cr_expect_str_eq(identity.run_id, cases[i].run_id);
        if (cases[i].source)
            cr_expect_str_eq(identity.source, cases[i].source);
    }
}

Test(bootstrap, a_bad_environment_is_an_error_naming_variable_and_value, .timeout = 5)
{
    static const struct {
        const char *environment, *words;
    } cases[] = {
        {"", "cannot tell which rank this is: RANK and WORLD_SIZE are not set. Start it with: "
             "tutti run"},
        {MASTER, "RANK and WORLD_SIZE are not set"},
        {"RANK=0 " MASTER, "RANK is set and WORLD_SIZE is not"},
        {"WORLD_SIZE=2 " MASTER, "WORLD_SIZE is set and RANK is not; both are needed"},
        {"RANK= WORLD_SIZE=2 " MASTER, "WORLD_SIZE is set and RANK is empty; both are needed"},
        {"RANK=0x1 WORLD_SIZE=2 " MASTER, "RANK=0x1 is not a number from 0 to 65534"},
        {"RANK=+1 WORLD_SIZE=2 " MASTER, "RANK=+1 is not a number"},
        {"RANK=-1 WORLD_SIZE=2 " MASTER, "RANK=-1 is not a number"},
        {"RANK=0 WORLD_SIZE=0 " MASTER, "WORLD_SIZE=0 is not a number from 1 to 65535"},
        {"RANK=0 WORLD_SIZE=99999999999999999999 " MASTER,
         "WORLD_SIZE=99999999999999999999 is not"},
        {"RANK=2 WORLD_SIZE=2 " MASTER, "RANK=2 and WORLD_SIZE=2"},
        {"RANK=0 WORLD_SIZE=2", "no store: set MASTER_ADDR and MASTER_PORT, or TUTTI_STORE"},
        {"RANK=0 WORLD_SIZE=1 MASTER_PORT=1", "MASTER_PORT is set and MASTER_ADDR is not"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", "MASTER_ADDR is set and MASTER_PORT is not"},
        {"RANK=0 WORLD_SIZE=2 MASTER_PORT=1", "MASTER_PORT is set and MASTER_ADDR is not"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=65536",
         "MASTER_PORT=65536 is not a number"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=0.0.0.0 MASTER_PORT=1",
         "MASTER_ADDR=0.0.0.0: this address mean"},
        {"RANK=0 WORLD_SIZE=2 MASTER_ADDR=a/b MASTER_PORT=1", "MASTER_ADDR=a/b: a host is"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE=env://", "TUTTI_STORE=env://: write tcp://HOST:PORT"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE=tcp://h:1?rank=0", "TUTTI_STORE=tcp://h:1?rank=0: write"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_STORE_HOST=yes " MASTER,
         "TUTTI_STORE_HOST=yes is not a number"},
        {"RANK=0 WORLD_SIZE=2 TORCHELASTIC_RESTART_COUNT=x " MASTER,
         "TORCHELASTIC_RESTART_COUNT=x"},
        {"RANK=0 WORLD_SIZE=2 TUTTI_RUN_ID=\t " MASTER,
         "TUTTI_RUN_ID: the name of a run has printable"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct identity identity;

        cr_expect_eq(resolve(cases[i].environment, NULL, &identity), TUTTI_ERR_INVALID_ARGUMENT,
                     "%s", cases[i].environment);
        cr_expect_not_null(strstr(tutti_last_error(), cases[i].words), "%s: %s",
                           cases[i].environment, tutti_last_error());
    }
}

Test(bootstrap, no_launcher_leaves_a_process_silently_alone, .timeout = 5)
{
    static const char *const said[] = {"OMPI_COMM_WORLD_SIZE=4", "PMI_SIZE=2",      "PMIX_RANK=1",
                                       "SLURM_NTASKS=8",         "FLUX_JOB_SIZE=3", "PMIX_SIZE=2",
                                       "SLURM_NTASKS=many"};

    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        struct identity identity;
        char environment[256];

        cr_expect_eq(resolve(said[i], NULL, &identity), TUTTI_ERR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(tutti_last_error(), said[i]), "%s", tutti_last_error());
        snprintf(environment, sizeof environment, "RANK=0 WORLD_SIZE=1 %s " MASTER, said[i]);
        cr_expect_eq(resolve(environment, NULL, &identity), TUTTI_ERR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(tutti_last_error(), said[i]), "%s", tutti_last_error());

        tutti_init_options told = TUTTI_INIT_OPTIONS_INIT;
        told.world_size = 1;
        cr_expect_eq(resolve(environment, &told, &identity), TUTTI_OK, "%s", tutti_last_error());
        told.world_size = 0;
        told.init_url = "env://?rank=0&world_size=1";
        cr_expect_eq(resolve(environment, &told, &identity), TUTTI_OK, "%s", tutti_last_error());
    }
}

Test(bootstrap, options_come_before_the_environment_and_must_not_contradict_themselves,
     .timeout = 5)
{
    static const struct {
        int world_size, rank;
        const char *url, *words; /* words NULL: fine, and then rank 1 of 2 */
    } cases[] = {
        {2, 1, NULL, NULL},
        {2, 1, "tcp://localhost:29500?rank=1", NULL},
        {0, 0, "tcp://[::1]:1/?world_size=2&rank=1", NULL},
        {0, 0, "file:///tmp/f?rank=1&world_size=2", NULL},
        {0, 1, NULL, "rank is 1 without a world_size"},
        {-2, 0, NULL, "world_size is -2"},
        {70000, 0, NULL, "world_size is 70000"},
        {2, 2, NULL, "rank is 2 and world_size 2"},
        {2, -1, NULL, "rank is -1"},
        {2, 1, "env://?rank=0", "the options say rank 1 of 2, but init_url"},
        {0, 0, "env://?rank=0", "give both rank and world_size, or none"},
        {0, 0, "env://?rank=2&world_size=2", "init_url: rank is 2 and world_size 2"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct identity identity;
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        options.world_size = cases[i].world_size;
        options.rank = cases[i].rank;
        options.init_url = cases[i].url;
        tutti_status status = resolve("RANK=5 WORLD_SIZE=9 " MASTER, &options, &identity);
        cr_expect_eq(status, cases[i].words ? TUTTI_ERR_INVALID_ARGUMENT : TUTTI_OK, "case %zu: %s",
                     i, tutti_last_error());
        if (cases[i].words)
            cr_expect_not_null(strstr(tutti_last_error(), cases[i].words), "%s",
                               tutti_last_error());
        else
            cr_expect(identity.rank == 1 && identity.size == 2);
    }
}

Test(bootstrap, torchs_rule_names_the_server_of_a_url, .timeout = 5)
{
    static const struct {
        const char *url;
        bool hosts, may_be_client;
    } cases[] = {
        {"tcp://localhost:29500", false, false}, /* what the launcher serves */
        {"tcp://127.0.0.1:29500", true, true},   /* the same port by another name */
        {"tcp://localhost:29501", true, false},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct identity identity;
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

        options.init_url = cases[i].url;
        cr_assert_eq(resolve("RANK=0 WORLD_SIZE=2 TORCHELASTIC_USE_AGENT_STORE=True " MASTER,
                             &options, &identity),
                     TUTTI_OK);
        cr_expect_eq(identity.hosts, cases[i].hosts, "%s", cases[i].url);
        cr_expect_eq(identity.may_be_client, cases[i].may_be_client, "%s", cases[i].url);
    }
}

Test(bootstrap, bad_urls_are_errors_that_show_the_grammar, .timeout = 5)
{
    static const char *const urls[] = {
        "",
        "localhost:29500",
        "://",
        "t://",
        "http://h:1",
        "tcp://",
        "tcp://h",
        "tcp://h:",
        "tcp://:1",
        "tcp://h:0",
        "tcp://h:65536",
        "tcp://h:1x",
        "tcp://h:000000000000000000000001",
        "tcp://::1:80",
        "tcp://[::1]80",
        "tcp://[::1]:",
        "tcp://[::1:80",
        "tcp://[]:80",
        "tcp://h:1/path",
        "tcp://0.0.0.0:1",
        "tcp://[::]:1",
        "tcp://user@h:1",
        "tcp://h\n:1",
        "file://",
        "file:///",
        "file://relative",
        "env://host",
        "tcp://h:1?",
        "tcp://h:1?rank",
        "tcp://h:1?rank=",
        "tcp://h:1?rank=-1",
        "tcp://h:1?rank=1&rank=1",
        "tcp://h:1?world_size=0",
        "tcp://h:1?world_size=65536",
        "tcp://h:1?rank=0&",
        "tcp://h:1?timeout=3",
    };
    struct url url;

    for (size_t i = 0; i < sizeof urls / sizeof urls[0]; i++) {
        cr_expect_eq(url_parse("init_url", urls[i], &url), TUTTI_ERR_INVALID_ARGUMENT, "%s",
                     urls[i]);
        cr_expect_eq(strncmp(tutti_last_error(), "init_url=", 9), 0, "%s", tutti_last_error());
    }
}

Test(bootstrap, runs_have_bounded_printable_names, .timeout = 5)
{
    char name[200];
    struct identity identity;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    options.run_id = name;
    for (size_t n = 1; n < sizeof name; n++) {
        memset(name, n % 2 ? '/' : 'x', n);
        name[n] = 0;
        tutti_status status = resolve("RANK=0 WORLD_SIZE=1 " MASTER, &options, &identity);
        cr_expect_eq(status,
                     (n % 2 ? 3 * n : n) <= IDENTITY_RUN_ID_MAX - 2 ? TUTTI_OK
                                                                    : TUTTI_ERR_INVALID_ARGUMENT,
                     "%zu", n);
    }
}

Test(bootstrap, numbers_are_taken_whole_or_not_at_all, .timeout = 5)
{
    static const struct {
        const char *text;
        bool good;
        int64_t number;
    } cases[] = {
        {"0", true, 0},
        {"-0", true, 0},
        {"007", true, 7},
        {"9223372036854775807", true, INT64_MAX},
        {"-9223372036854775808", true, INT64_MIN},
        {"9223372036854775808", false, 0},
        {"-9223372036854775809", false, 0},
        {"", false, 0},
        {"-", false, 0},
        {"--1", false, 0},
        {" 1", false, 0},
        {"1 ", false, 0},
        {"1e3", false, 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        int64_t number = 0;

        cr_expect_eq(text_number(cases[i].text, INT64_MIN, INT64_MAX, &number), cases[i].good, "%s",
                     cases[i].text);
        cr_expect_eq(number, cases[i].number, "%s", cases[i].text);
    }
}

/* ---- with real stores ------------------------------------------------------------------------ */

static void check_meeting(struct bootstrap *first, struct bootstrap *second)
{
    tutti_store_value value;

    cr_assert_eq(tutti_store_set(first->store, "key", "v", 1, 5000), TUTTI_OK);
    cr_assert_eq(tutti_store_get(second->store, "key", 5000, &value), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect(value.size == 1 && *(char *)value.data == 'v');
    tutti_store_value_free(&value);
    bootstrap_release(second);
    bootstrap_release(first);
    cr_expect_null(first->store);
}

Test(bootstrap, ranks_meet_in_the_store_that_rank_0_serves, .timeout = 30)
{
    char url[64];
    struct bootstrap zero, one;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u?world_size=2&rank=0", port_reserve());
    options.init_url = url;
    options.run_id = "r";
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &zero), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect_not_null(zero.server);
    cr_expect_str_eq(zero.bind_address, "127.0.0.1");
    cr_expect_str_eq(zero.run_id, "r");
    url[strlen(url) - 1] = '1';
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &one), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect_null(one.server);
    check_meeting(&zero, &one);
}

Test(bootstrap, ranks_meet_in_a_file_or_a_given_store, .timeout = 30)
{
    char path[] = "/tmp/tutti-test-XXXXXX", url[64];
    struct bootstrap zero, one;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    cr_assert_not_null(mkdtemp(path));
    snprintf(url, sizeof url, "file://%s/store", path);
    options.world_size = 2;
    options.init_url = url;
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &zero), TUTTI_OK, "%s",
                 tutti_last_error());
    options.rank = 1;
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &one), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect_neq(*zero.bind_address, 0);
    check_meeting(&zero, &one);
    cr_expect_eq(rmdir(path), 0);

    options.init_url = NULL;
    cr_assert_eq(tutti_store_open_hash(&options.store), TUTTI_OK);
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &one), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect_str_eq(one.bind_address, "127.0.0.1");
    cr_expect_str_eq(one.source, "rank and size from the options, store of the options");
    bootstrap_release(&one);
    options.init_url = "env://";
    cr_expect_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(10000), &one),
                 TUTTI_ERR_INVALID_ARGUMENT);
    tutti_store_unref(options.store);
}

Test(bootstrap, a_world_of_one_needs_no_meeting_place, .timeout = 30)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    struct identity identity;
    tutti_group *world, *again;

    cr_assert_eq(resolve("RANK=0 WORLD_SIZE=1", NULL, &identity), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect(identity.alone);
    unsetenv("MASTER_ADDR");
    unsetenv("MASTER_PORT");
    unsetenv("TUTTI_STORE");
    options.world_size = 1;
    for (int lap = 0; lap < 2; lap++) {
        cr_assert_eq(tutti_init(&options, &world), TUTTI_OK, "%s", tutti_last_error());
        cr_expect_eq(tutti_group_new(world, NULL, 0, NULL, &again), TUTTI_OK, "%s",
                     tutti_last_error());
        cr_expect_eq(tutti_group_destroy(again), TUTTI_OK);
        cr_expect_eq(tutti_group_destroy(world), TUTTI_OK);
    }
}

Test(bootstrap, a_store_that_is_not_there_ends_at_the_deadline_and_is_named, .timeout = 30)
{
    char url[64], words[128];
    struct bootstrap one;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    const unsigned port = port_reserve();

    snprintf(url, sizeof url, "tcp://127.0.0.1:%u?world_size=2&rank=1", port);
    snprintf(words, sizeof words,
             "rank 0, which serves the store at 127.0.0.1:%u, was lost or never", port);
    options.init_url = url;
    int64_t begin = clock_now_ns();
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(300), &one),
                 TUTTI_ERR_PEER_LOST);
    cr_expect_lt(clock_now_ns() - begin, 5 * CLOCK_NS_PER_S);
    cr_assert_eq(strncmp(tutti_last_error(), words, strlen(words)), 0, "%s", tutti_last_error());
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_now_ns() - 1, &one), TUTTI_ERR_TIMEOUT);
}

Test(bootstrap, a_port_that_is_taken_is_said_unless_a_launcher_may_have_it, .timeout = 30)
{
    char url[64], port_text[8];
    struct bootstrap zero;
    tutti_store_server *server;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    snprintf(port_text, sizeof port_text, "%u", tutti_store_server_port(server));
    snprintf(url, sizeof url, "tcp://127.0.0.1:%s?world_size=2&rank=0", port_text);
    options.init_url = url;
    cr_assert_neq(bootstrap_resolve(&options, NULL, clock_deadline_ms(5000), &zero), TUTTI_OK);
    cr_expect_not_null(strstr(tutti_last_error(), "TUTTI_STORE_HOST=0"), "%s", tutti_last_error());
    cr_expect_not_null(strstr(tutti_last_error(), "in use"), "%s", tutti_last_error());
    cr_expect_not_null(strstr(tutti_last_error(), "a second process with RANK=0"), "%s",
                       tutti_last_error());

    setenv("TORCHELASTIC_USE_AGENT_STORE", "True", 1);
    setenv("MASTER_ADDR", "localhost", 1);
    setenv("MASTER_PORT", port_text, 1);
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(5000), &zero), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_expect_null(zero.server);
    bootstrap_release(&zero);
    tutti_store_server_stop(server);
}

Test(bootstrap, rank_0_is_named_when_it_ends_with_the_store_of_a_launchers_job, .timeout = 30)
{
    struct launcher launcher = {.host = "127.0.0.1", .source = "rank and size from mpi"};
    struct bootstrap one;
    tutti_store_server *server;
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    launcher.port = tutti_store_server_port(server);
    cr_assert_eq(tutti_store_open_tcp(launcher.host, launcher.port, 5000, &launcher.store),
                 TUTTI_OK);
    options.rank = 1;
    options.world_size = 2;
    options.store = launcher.store;
    cr_assert_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(5000), &one), TUTTI_OK, "%s",
                 tutti_last_error());
    cr_assert_eq(bootstrap_adopt(&one, &launcher), TUTTI_OK);
    cr_expect_not(bootstrap_lost_rank_0(&one));
    tutti_store_server_stop(server);
    cr_expect(bootstrap_lost_rank_0(&one));
    cr_expect_not_null(strstr(tutti_last_error(), "rank 0, which serves the store at 127.0.0.1:"),
                       "%s", tutti_last_error());
    bootstrap_release(&one);
    launcher_release(&launcher);
}

Test(bootstrap, rubbish_in_the_options_is_refused_first, .timeout = 5)
{
    struct bootstrap bootstrap;
    tutti_init_options options = {.struct_size = 0};

    cr_expect_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(1000), &bootstrap),
                 TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_not_null(strstr(tutti_last_error(), "tutti_init_options: struct_size is 0"));
    options = (tutti_init_options){.struct_size = sizeof options, .reserved = 1};
    cr_expect_eq(bootstrap_resolve(&options, NULL, clock_deadline_ms(1000), &bootstrap),
                 TUTTI_ERR_INVALID_ARGUMENT);
}
