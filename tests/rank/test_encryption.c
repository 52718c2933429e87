/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_TLS: what somebody reads who listens on the network, and who is refused. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tutti/store.h>

#include "agreement/agree.h"
#include "harness/launch.h"
#include "harness/net.h"
#include "harness/sniff.h"
#include "known_bytes.h"

TestSuite(encryption, .timeout = 120);

enum { RANKS = 3, WINDOW = 16 };

static const char secret_text[] =
    "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";
static const char *const two_hosts[] = {"a", "b", "a"};

/* ---- what is on the wire --------------------------------------------------------------------- */

/* Whether a part of it, of WINDOW bytes, was in a packet. */
static bool saw_a_part(const struct sniff *sniff, const void *bytes, size_t count)
{
    for (size_t i = 0; i + WINDOW <= count; i++)
        if (sniff_saw(sniff, (const char *)bytes + i, WINDOW))
            return true;
    return false;
}

static void expect_hidden(const struct sniff *sniff, const struct key *key, const char *what)
{
    cr_expect_not(saw_a_part(sniff, key->bytes, sizeof key->bytes), "%s", what);
}

static void expect_hidden_from(const struct sniff *sniff, const struct key *from,
                               const char *purpose, const char *context)
{
    struct key key;

    cr_assert_eq(key_derive(from, purpose, context, strlen(context), &key), TUTTI_OK);
    expect_hidden(sniff, &key, purpose);
}

/* The group's decision, which the store shows to everybody who reaches it. */
static void read_decision(struct ranks *ranks, const char *netns, const char *address,
                          struct decision *ret_decision)
{
    const int back = net_enter(netns);
    char key[256];
    tutti_store *store;
    tutti_store_value value;

    cr_assert_geq(back, 0);
    snprintf(key, sizeof key, "tutti/%s/0/0/world/decision/1", ranks_run_id(ranks));
    cr_assert_eq(tutti_store_open_tcp(address, ranks_store_port(ranks), 10000, &store), TUTTI_OK,
                 "%s", tutti_last_error());
    net_leave(back);
    cr_assert_eq(tutti_store_get(store, key, 10000, &value), TUTTI_OK, "%s", tutti_last_error());
    cr_assert(decision_decode(value.data, value.size - SEAL_BYTES, RANKS, ret_decision));
    tutti_store_value_free(&value);
    tutti_store_unref(store);
}

/* The secret, and all keys that this group has from it. */
static void expect_no_keys(const struct sniff *sniff, const char *run_id,
                           const struct decision *decision)
{
    struct tutti_group *group = calloc(1, sizeof *group);
    struct agreement *a = calloc(1, sizeof *a);
    struct secret *secret;
    struct key key;
    char path[128];

    cr_assert(group && a);
    cr_expect_not(saw_a_part(sniff, secret_text, strlen(secret_text)));
    cr_assert(secret_parse(secret_text, strlen(secret_text), &key));
    expect_hidden(sniff, &key, "the secret");
    cr_assert_eq(secret_new(&secret), TUTTI_OK);
    cr_assert_eq(secret_take(secret, SECRET_FROM_VARIABLE, "", &key), TUTTI_OK);
    snprintf(path, sizeof path, "tutti/%s/0", run_id);
    cr_assert_eq(secret_begin_run(secret, path), TUTTI_OK);
    expect_hidden(sniff, &secret->run, "the key of the run");
    expect_hidden(sniff, &secret->record, "the key of its records");
    group->bootstrap.secret = secret;
    a->group = group;
    a->decision = *decision;
    cr_assert_eq(agree_group_key(a, &key), TUTTI_OK);
    expect_hidden(sniff, &key, "the key of the group");
    expect_hidden_from(sniff, &key, "control", "");
    expect_hidden_from(sniff, &key, "tls control", "");
    expect_hidden_from(sniff, &key, "local", "");
    expect_hidden_from(sniff, &key, "transport", "tcp");
    expect_hidden_from(sniff, &key, "tls", "tcp");
    secret_unref(secret);
    free(a);
    free(group);
}

/* A job in a network of its own, which is read. */
static void listen_to(const char *tls, bool shows_payload)
{
    char reason[256], secret[128], netns[96];
    struct decision decision = {0};
    struct net *net = net_create(1, reason, sizeof reason);

    if (!net)
        cr_skip_test("%s", reason);
    snprintf(secret, sizeof secret, "TUTTI_SECRET=%s", secret_text);
    snprintf(netns, sizeof netns, "%s", net_name(net, 0));
    struct sniff *sniff = sniff_start(netns, reason, sizeof reason);
    if (!sniff)
        cr_skip_test("%s", reason);
    struct ranks *ranks = ranks_start(&(struct ranks_options){
        .program = "rank_tls",
        .case_name = "known_bytes_are_sent",
        .size = RANKS,
        .backend = "tcp",
        .address = net_address(net, 0),
        .netns = (const char *[]){netns, netns, netns},
        .env = (const char *[]){tls, secret, NULL},
    });
    cr_assert_not_null(ranks);
    cr_assert(ranks_reach(ranks, RANKS_ALL, "open"));
    read_decision(ranks, netns, net_address(net, 0), &decision);
    ranks_tell(ranks, RANKS_ALL, "go");
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    cr_expect(sniff_stop(sniff), "packets were missed");
    cr_expect_gt(sniff_bytes(sniff), 1 << 20);
    cr_expect_eq(saw_a_part(sniff, known_bytes, KNOWN_BYTES), shows_payload);
    expect_no_keys(sniff, ranks_run_id(ranks), &decision);
    decision_free(&decision);
    ranks_free(ranks);
    sniff_free(sniff);
    net_destroy(net);
}

Test(encryption, nobody_reads_the_payload_or_a_key_on_the_network)
{
    listen_to("TUTTI_TLS=1", false);
}

/* So the test above would see it. */
Test(encryption, everybody_reads_the_payload_and_no_key_without_it)
{
    listen_to("TUTTI_TLS=0", true);
}

/* ---- who is refused -------------------------------------------------------------------------- */

static void run(const char *case_name, const char *backend, const char *tls,
                const char *const *hosts)
{
    char words[64];

    snprintf(words, sizeof words, "TUTTI_BACKEND=%s", backend);
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_tls",
        .case_name = case_name,
        .size = RANKS,
        .host_of = hosts,
        .env = (const char *[]){words, tls, "TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS "/far", NULL},
    }));
}

Test(encryption, long_messages_are_whole)
{
    run("long_messages_are_whole", "tcp", "TUTTI_TLS=1", NULL);
    run("long_messages_are_whole", "auto", "TUTTI_TLS=where-possible", two_hosts);
}

Test(encryption, ranks_that_disagree_are_refused)
{
    run("ranks_that_disagree_are_refused", "auto", "TUTTI_TLS=1", NULL);
}

Test(encryption, a_wrong_value_is_refused)
{
    run("a_wrong_value_is_refused", "auto", "TUTTI_TLS=1", NULL);
}

/* A library that is there and cannot be loaded: the loader does not look further. */
static void run_without_libssl(const char *more)
{
    char folder[] = "/tmp/test_encryption_XXXXXX", path[64], variable[64];

    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/libssl.so.3", folder);
    fclose(fopen(path, "w"));
    snprintf(variable, sizeof variable, "TUTTI_TEST_LIBRARIES=%s", folder);
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_tls",
        .case_name = "a_libssl_that_is_missing_is_told_to_all",
        .size = RANKS,
        .backend = "tcp,auto",
        .env = (const char *[]){"TUTTI_TLS=1", variable, more, NULL},
    }));
    remove(path);
    rmdir(folder);
}

Test(encryption, a_rank_without_libssl_is_named_on_all)
{
    run_without_libssl(NULL);
}

Test(encryption, ranks_without_libssl_are_told)
{
    run_without_libssl("TUTTI_TEST_ALL=1");
}

Test(encryption, an_open_group_is_refused)
{
    run("an_open_group_is_refused", "auto", "TUTTI_TLS=1", NULL);
}

/* ---- backends that cannot encrypt ------------------------------------------------------------ */

/* Runs the case, with the words that rank 0 has to say; NULL: those that it must not say. */
static void run_and_expect(const char *backend, const char *const *hosts, const char *case_name,
                           const char *encryption, const char *words)
{
    char variable[64];
    struct ranks *ranks;

    snprintf(variable, sizeof variable, "TUTTI_BACKEND=%s", backend);
    ranks = ranks_start(&(struct ranks_options){
        .program = "rank_tls",
        .case_name = case_name,
        .size = RANKS,
        .host_of = hosts,
        .env = (const char *[]){variable, "TUTTI_TLS=where-possible", encryption,
                                "TUTTI_PLUGIN_PATH=" TUTTI_KIT_PLUGINS "/far", NULL},
    });
    cr_assert_not_null(ranks);
    cr_expect(ranks_wait(ranks));
    cr_expect(ranks_passed(ranks));
    const char *told = strstr(ranks_result(ranks, 0)->err, words ? words : "does not encrypt");
    cr_expect_eq(told != NULL, words != NULL, "%s", ranks_result(ranks, 0)->err);
    ranks_free(ranks);
}

static void check_backend(const char *name)
{
    char composed[64], warning[128];

    run("a_backend_that_cannot_encrypt_is_refused", name, "TUTTI_TLS=1", two_hosts);
    snprintf(warning, sizeof warning,
             "backend %s does not encrypt what it sends between hosts; TUTTI_TLS=where-possible "
             "encrypts the rest",
             name);
    run_and_expect(name, two_hosts, "a_backend_that_cannot_encrypt_is_used",
                   "TUTTI_TEST_ENCRYPTION=1", warning);
    run_and_expect(name, NULL, "a_backend_that_cannot_encrypt_is_used", "TUTTI_TEST_ENCRYPTION=2",
                   NULL);
    snprintf(composed, sizeof composed, "local=%s,remote=tcp", name);
    run_and_expect(composed, two_hosts, "a_backend_that_cannot_encrypt_is_used",
                   "TUTTI_TEST_ENCRYPTION=2", NULL);
}

Test(encryption, a_plugin_that_does_not_know_of_it_is_refused_between_hosts)
{
    check_backend("template");
    run("a_backend_that_cannot_encrypt_is_refused", "auto;all_reduce=template", "TUTTI_TLS=1",
        two_hosts);
}

Test(encryption, gloo_is_refused_between_hosts)
{
    if (ranks_lack("gloo"))
        cr_skip_test("%s", ranks_lack("gloo"));
    check_backend("gloo");
}

Test(encryption, an_mpi_is_refused_between_hosts)
{
    if (ranks_lack("openmpi"))
        cr_skip_test("%s", ranks_lack("openmpi"));
    cr_expect(ranks_run(&(struct ranks_options){
        .program = "rank_tls",
        .case_name = "a_backend_that_cannot_encrypt_is_refused",
        .size = RANKS,
        .backend = "mpi",
        .host_of = two_hosts,
        .mpi = "openmpi",
        .env = (const char *[]){"TUTTI_TLS=1", NULL},
    }));
}

Test(encryption, an_open_group_is_encrypted_in_part)
{
    run_and_expect("tcp", NULL, "an_open_group_is_encrypted_in_part", "TUTTI_TEST_ENCRYPTION=1",
                   "everybody can compute the key of an open group");
}
