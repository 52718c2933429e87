/* SPDX-License-Identifier: Apache-2.0 */
/* The table of variables: unknown names, wrong values, and what members compare. */
#include <criterion/criterion.h>
#include <criterion/redirect.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/group.h>
#include <tutti/store.h>

#include "agreement/settings.h"
#include "base/environment.h"
#include "base/error.h"

/* The environment of the tests may have set some. */
static void forget_all(void)
{
    clearenv();
}

TestSuite(environment, .init = forget_all, .timeout = 10);

static void note(const char *name, const char *words, void *user)
{
    (void)name;
    strncat(user, words, 1000);
}

Test(environment, an_unknown_name_is_warned_of_with_the_nearest_one)
{
    static const struct {
        const char *name, *words; /* "": nothing is said */
    } cases[] = {
        {"TUTTI_BAKEND", "TUTTI_BAKEND is set, but nothing reads it; did you mean TUTTI_BACKEND?"},
        {"TUTTI_BACKENDS", "did you mean TUTTI_BACKEND?"},
        {"TUTTI_PLUGINS_PATH", "did you mean TUTTI_PLUGIN_PATH?"},
        {"TUTTI_ALGORITHM", "TUTTI_ALGORITHM is set, but nothing reads it; `tutti info --env`"},
        {"TUTTI_TCPX_PORT", "TUTTI_TCPX_PORT is set"},
        {"TUTTI_TCP_PORT", "TUTTI_TCP_PORT is set, but nothing reads it"},
        {"TUTTI_CHECK", ""},
        {"TUTTI_UCX_ANY_SETTING", ""}, /* the plugin asks UCX */
        {"TUTTI_UCX_", "TUTTI_UCX_ is set, but nothing reads it"},
        {"TUTTI_UCY_TLS", "TUTTI_UCY_TLS is set"},
        {"TUTTI_TRACE_DIRECTORY", "TUTTI_TRACE_DIRECTORY is set"},
        {"TUTTI_TRACE_DIRS", "did you mean TUTTI_TRACE_DIR?"},
        {"TUTTI_MY_WIRE_DEPTH", ""}, /* of plugin my-wire */
        {"TUTTI_TEST_ANYTHING", ""},
        {"TUTTI_X_TORCH_NAME", ""},
        {"TUTTI_CONFORMANCE_SECONDS", ""},
        {"TUTTI_ROOT", ""},
        {"TUTTI_DEBUG", ""},
        {"TUTTIX", ""},
        {"OTHER_TUTTI_BACKEND", ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char words[2048] = "";

        setenv(cases[i].name, "x", 1);
        environment_strangers("my-wire, shm, tcp", NULL, note, words);
        unsetenv(cases[i].name);
        cr_expect(*cases[i].words ? strstr(words, cases[i].words) != NULL : !*words, "%s: «%s»",
                  cases[i].name, words);
    }
}

Test(environment, a_name_of_a_plugin_that_was_opened_is_warned_of_unless_it_is_an_option)
{
    static const tutti_plugin_option options[] = {
        {.variable = "TUTTI_WIRE_MODE", .values = "fast | safe", .standard = "safe", .meaning = ""},
        {.variable = NULL}};
    char words[2048] = "";

    cr_assert_not(environment_has_new_names("wire"));
    cr_assert_eq(environment_learn("wire", options), TUTTI_OK);
    cr_assert(environment_has_new_names("wire"));
    cr_assert_not(environment_has_new_names("wire")); /* one warning is enough */
    setenv("TUTTI_WIRE_MODE", "safe", 1);
    setenv("TUTTI_WIRE_MOD", "safe", 1);
    setenv("TUTTI_WIRE_LESS_DEPTH", "1", 1); /* of plugin wire-less */
    setenv("TUTTI_BAKEND", "shm", 1);
    environment_strangers("wire, wire-less", "wire", note, words);
    cr_assert_str_eq(words,
                     "TUTTI_WIRE_MOD is set, but nothing reads it; did you mean TUTTI_WIRE_MODE? "
                     "`tutti info --env` lists what is read");
}

Test(environment, a_value_that_makes_no_sense_is_refused)
{
    static const struct {
        const char *name, *value, *words; /* "": it is good */
    } cases[] = {
        {"TUTTI_DEBUG", "INF",
         "TUTTI_DEBUG=INF is not valid: use OFF, WARN, INFO or DETAIL; did you "
         "mean INFO?"},
        {"TUTTI_DEBUG", "2", "TUTTI_DEBUG=2 is not valid: use OFF, WARN"},
        {"TUTTI_DEBUG", "detail", ""},
        {"TUTTI_DEBUG", "", ""},
        {"TUTTI_STORE_HOST", "yes", "TUTTI_STORE_HOST=yes is not valid: use 0 or 1"},
        {"TUTTI_PLUGIN_TRUST", "all", "TUTTI_PLUGIN_TRUST=all is not valid: use any"},
        {"TUTTI_HOST", "anything", ""},
        {"TUTTI_HOST", "two\nlines", "use UTF-8 without control characters"},
        {"TUTTI_RUN_ID", "\x7f", "use UTF-8 without control characters"},
        {"TUTTI_HOST", "Gruppe «ä»", ""},
        {"TUTTI_HOST", "\xc2\x9b[2J", "use UTF-8 without control characters"},
        {"TUTTI_RUN_ID", "Laufzeit-\xfc", "use UTF-8 without control characters, 125 bytes"},
        {"TUTTI_STALL_WARNING", "abc",
         "TUTTI_STALL_WARNING=abc is not valid: use a number of seconds, 0 to 1000000"},
        {"TUTTI_STALL_WARNING", "-1", "use a number of seconds"},
        {"TUTTI_STALL_WARNING", "1000001", "use a number of seconds"},
        {"TUTTI_STALL_WARNING", "0", ""},
        {"TUTTI_BOOTSTRAP", "MPI!", "TUTTI_BOOTSTRAP=MPI! is not valid: use the name of a plugin"},
        {"TUTTI_BOOTSTRAP", "mpi", ""},
        {"TUTTI_STORE", "127.0.0.1:29500",
         "is not valid: use tcp://<host>:<port> or file:///<path>"},
        {"TUTTI_STORE", "tcp://127.0.0.1:29500", ""},
        {"TUTTI_DUMP_DIR", "anywhere", ""},
        {"TORCHELASTIC_USE_AGENT_STORE", "1", ""}, /* other programs may write what they like */
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv(cases[i].name, cases[i].value, 1);
        const tutti_status status = environment_check(NULL);
        unsetenv(cases[i].name);

        cr_expect_eq(status, *cases[i].words ? TUTTI_ERR_INVALID_ARGUMENT : TUTTI_OK, "%s=%s: %d",
                     cases[i].name, cases[i].value, status);
        if (*cases[i].words)
            cr_expect_not_null(strstr(error_message(), cases[i].words), "«%s»", error_message());
    }
}

/* What has a grammar of its own, also where an option comes before it. */
Test(environment, settings_are_checked_when_a_world_is_made)
{
    static const struct {
        const char *name, *value, *words;
    } cases[] = {
        {"TUTTI_BACKEND", "local=shm", "one of local= and remote= is missing"},
        {"TUTTI_STORE", "tcp://nowhere", "TUTTI_STORE=tcp://nowhere: no HOST:PORT"},
        {"TUTTI_STALL_WARNING", "soon", "TUTTI_STALL_WARNING=soon"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
        tutti_group *world;

        options.backend = "auto";
        options.world_size = 1;
        options.init_url = "tcp://127.0.0.1:1";
        setenv(cases[i].name, cases[i].value, 1);
        cr_expect_eq(tutti_init(&options, &world), TUTTI_ERR_INVALID_ARGUMENT);
        cr_expect_not_null(strstr(tutti_last_error(), cases[i].words), "«%s»", tutti_last_error());
        unsetenv(cases[i].name);
    }
}

Test(environment, folders_that_are_not_there_are_warned_of)
{
    char said[2048] = "";

    setenv("TUTTI_PLUGIN_PATH", "/tmp:/nowhere/plugins", 1);
    setenv("TUTTI_DUMP_DIR", "/nowhere/dumps", 1);
    setenv("LOCAL_RANK", "first", 1);
    cr_redirect_stderr();
    cr_expect_eq(settings_check(NULL), TUTTI_OK);
    close(STDERR_FILENO);

    FILE *file = cr_get_redirected_stderr();
    cr_expect_gt(fread(said, 1, sizeof said - 1, file), 0);
    cr_expect_not_null(
        strstr(said, "TUTTI_PLUGIN_PATH: /nowhere/plugins is not a directory; it is skipped"));
    cr_expect_null(strstr(said, "/tmp is"));
    cr_expect_not_null(strstr(
        said, "TUTTI_DUMP_DIR=/nowhere/dumps: /nowhere is not a directory; create it first"));
    cr_expect_not_null(strstr(said, "LOCAL_RANK=first is not a rank"));
}

/* A user who forgets TUTTI_WRAP believes that faults were injected. */
Test(environment, options_of_a_wrapper_that_is_not_named_are_warned_of)
{
    static const struct {
        const char *name, *value, *option, *variable, *words; /* "": nothing is said */
    } cases[] = {
        {"TUTTI_FAULT", "drop", NULL, NULL,
         "TUTTI_FAULT is set, but TUTTI_WRAP does not name fault: nothing is injected"},
        {"TUTTI_FAULT", "drop", NULL, "faulty,trace", "TUTTI_WRAP does not name fault"},
        {"TUTTI_FAULT", "drop", "check", "fault",
         "TUTTI_FAULT is set, but tutti_init_options.wrap does not name fault"},
        {"TUTTI_FAULT", "drop", NULL, "trace,fault", ""},
        {"TUTTI_FAULT", "drop", "fault", NULL, ""},
        {"TUTTI_FAULT", "", NULL, NULL, ""},
        {"TUTTI_CHECK", "nan=off", NULL, "trace",
         "TUTTI_CHECK is set, but TUTTI_WRAP does not name check: nothing is looked at"},
        {"TUTTI_TRACE_DIR", "/tmp", NULL, "check",
         "TUTTI_TRACE_DIR is set, but TUTTI_WRAP does not name trace: nothing is written"},
        {"TUTTI_BOOTSTRAP", "zzz", NULL, NULL,
         "TUTTI_BOOTSTRAP=zzz: there is no plugin of this name; known: mpi, shm"},
        {"TUTTI_BOOTSTRAP", "shm", NULL, NULL, ""},
        {"TUTTI_BOOTSTRAP", "Foo!", NULL, NULL, ""}, /* it is refused, which is enough */
        {"TUTTI_BACKEND", "zzz", NULL, NULL, ""},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const struct environment_variable *row = environment_find(cases[i].name);
        char words[ENVIRONMENT_MESSAGE_MAX];

        unsetenv("TUTTI_WRAP");
        if (cases[i].variable)
            setenv("TUTTI_WRAP", cases[i].variable, 1);
        const struct environment_wrappers wrappers = environment_wrappers(cases[i].option);
        cr_assert_not_null(row);
        environment_idle(row, cases[i].value, &wrappers, "mpi, shm", words, sizeof words);
        cr_expect(*cases[i].words ? strstr(words, cases[i].words) != NULL : !*words,
                  "case %zu: «%s»", i, words);
    }
}

/* A world may know its ranks without the plugin that is named: it is made all the same. */
Test(environment, what_nobody_uses_is_said_when_a_world_is_made)
{
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    char said[4096] = "";
    tutti_store *store;
    tutti_group *world;

    cr_assert_eq(tutti_store_open_hash(&store), TUTTI_OK);
    options.world_size = 1;
    options.store = store;
    setenv("TUTTI_FAULT", "op=barier:drop", 1);
    setenv("TUTTI_TRACE_DIR", "/nowhere/traces", 1);
    setenv("TUTTI_BOOTSTRAP", "zzz", 1);
    cr_redirect_stderr();
    cr_assert_eq(tutti_init(&options, &world), TUTTI_OK, "%s", tutti_last_error());
    cr_expect_eq(tutti_group_destroy(world), TUTTI_OK);
    tutti_store_unref(store);
    close(STDERR_FILENO);

    FILE *file = cr_get_redirected_stderr();
    cr_expect_gt(fread(said, 1, sizeof said - 1, file), 0);
    cr_expect_not_null(strstr(said, "TUTTI_FAULT is set, but TUTTI_WRAP does not"), "%s", said);
    cr_expect_not_null(strstr(said, "TUTTI_TRACE_DIR is set, but TUTTI_WRAP does"), "%s", said);
    cr_expect_null(strstr(said, "/nowhere/traces"), "%s", said); /* trace would make its folder */
    cr_expect_not_null(strstr(said, "TUTTI_BOOTSTRAP=zzz: there is no plugin of this name"));
}

Test(environment, members_with_different_settings_hear_both_sides)
{
    static const struct {
        const char *first, *other, *words; /* "": they agree */
        bool partly;
    } cases[] = {
        {"version=1\nA=0\nB=x\n", "version=1\nA=0\nB=x\n", "", false},
        {"version=1\nA=0\nB=x\n", "version=1\nA=1\nB=x\n",
         "group g: members disagree about A: rank 0: «0»; rank 5: «1»", false},
        {"A=0\nB=x\n", "A=0\nB=xy\n", "disagree about B: rank 0: «x»; rank 5: «xy»", false},
        {"A=0\nB=x\n", "A=0\n", "different settings: rank 0: «B=x»; rank 5: «»", false},
        {"A=0\n", "A=0\nC=1\n", "different settings: rank 0: «»; rank 5: «C=1»", false},
        {"A=0\nB=x\n", "A=0\n", "", true},
        {"A=0\n", "A=0\nB=x\n", "", true},
        {"A=0\nB=x\n", "A=1\n", "disagree about A", true},
        {"", "\n", "", false},
        {"A", "A=", "different settings: rank 0: «A»; rank 5: «A=»", false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const tutti_status status =
            settings_compare("g", cases[i].first, 5, cases[i].other, cases[i].partly);

        cr_expect_eq(status, *cases[i].words ? TUTTI_ERR_MISMATCH : TUTTI_OK, "case %zu", i);
        if (*cases[i].words)
            cr_expect_not_null(strstr(error_message(), cases[i].words), "«%s»", error_message());
    }
}
