/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Clients of a tcp store that prove that they have its secret: the messages, and real connections from
 * another user and from another host, which is a network namespace.
 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <grp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/error.h"
#include "harness/net.h"
#include "store/store_proof.h"
#include "store/store_session.h"
#include "store_sockets.h"
#include "store_talk.h"

#define SECRET "11111111111111111111111111111111111111111111111111111111111111ab"
#define OTHER "22222222222222222222222222222222222222222222222222222222222222ab"

enum { STRANGER = 54321 };

static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};
static char home[] = "/tmp/tutti-proof-XXXXXX";

/* No secret but what a test sets. */
static void forget_secrets(void)
{
    unsetenv("TUTTI_SECRET_FILE");
    unsetenv("TUTTI_SECRET");
    unsetenv("TUTTI_AUTH");
    cr_assert_not_null(mkdtemp(home));
    setenv("XDG_CONFIG_HOME", home, 1);
}

static void remove_home(void)
{
    char path[96];

    snprintf(path, sizeof path, "%s/tutti/secret", home);
    unlink(path);
    snprintf(path, sizeof path, "%s/tutti", home);
    rmdir(path);
    rmdir(home);
}

TestSuite(store_proof, .init = forget_secrets, .fini = remove_home, .timeout = 60);

/* ---- messages ---- */

static struct secret *secret_of(const char *text)
{
    setenv("TUTTI_SECRET", text, 1);

    struct secret *secret = store_proof_secret(NULL);

    cr_assert_not_null(secret);
    cr_assert(secret->required);
    unsetenv("TUTTI_SECRET");
    return secret;
}

struct talks {
    struct store_map *map;
    struct store_session session;
    struct secret *secret;
    struct key key; /* the client's */
    struct proof proof;
};

static struct talks begin(const char *client)
{
    struct talks t = {.secret = secret_of(SECRET)};
    struct secret *own = secret_of(client);

    cr_assert_eq(key_derive(&own->key, "tutti store", NULL, 0, &t.key), TUTTI_OK);
    secret_unref(own);
    cr_assert_eq(store_map_new(1 << 20, &t.map), TUTTI_OK);
    return t;
}

static void connect_session(struct talks *t)
{
    store_session_init(&t->session, t->map, false, NULL);
    store_session_expect_proof(&t->session, t->secret, true);
    cr_assert_eq(store_session_feed(&t->session, hello, sizeof hello), TUTTI_OK);
}

static void end(struct talks *t)
{
    store_session_free(&t->session);
    store_map_free(t->map);
    secret_unref(t->secret);
}

static tutti_status feed(struct talks *t, struct buffer request)
{
    const tutti_status status = store_session_feed(&t->session, request.data, request.size);

    buffer_free(&request);
    return status;
}

static struct buffer proof_request(const void *message, size_t size)
{
    struct buffer request = talk("1b", STORE_COMPARE_SET, STORE_PROOF_KEY);

    buffer_put_bytes(&request, (struct slice){message, size});
    buffer_put_bytes(&request, (struct slice){NULL, 0});
    return request;
}

/* Says hello and reads the challenge. */
static void be_challenged(struct talks *t, uint8_t ret_challenge[PROOF_CHALLENGE_BYTES])
{
    uint8_t message[PROOF_HELLO_BYTES];

    cr_assert_eq(proof_hello(1, 0, &t->proof, message), TUTTI_OK);
    cr_assert_eq(feed(t, proof_request(message, sizeof message)), TUTTI_OK, "%s", error_message());
    cr_assert_eq(t->session.out.size, 8 + PROOF_CHALLENGE_BYTES + 1);
    cr_expect_eq(t->session.out.data[8 + PROOF_CHALLENGE_BYTES], 1, "the proof is required");
    memcpy(ret_challenge, t->session.out.data + 8, PROOF_CHALLENGE_BYTES);
    buffer_clear(&t->session.out, 0);
}

Test(store_proof, a_client_with_the_secret_is_served)
{
    struct talks t = begin(SECRET);
    uint8_t challenge[PROOF_CHALLENGE_BYTES], answer[PROOF_ANSWER_BYTES];

    connect_session(&t);
    be_challenged(&t, challenge);
    cr_expect_not(t.session.asked, "a hello is no request");
    cr_assert_eq(proof_answer(&t.proof, &t.key, challenge, answer), TUTTI_OK);
    cr_assert_eq(feed(&t, proof_request(answer, sizeof answer)), TUTTI_OK, "%s", error_message());
    cr_expect(t.session.known);
    cr_assert_eq(feed(&t, talk("1bb", STORE_SET, "/key", "value")), TUTTI_OK);
    end(&t);
}

Test(store_proof, a_client_with_another_secret_sees_it_and_is_not_served)
{
    struct talks t = begin(OTHER);
    uint8_t challenge[PROOF_CHALLENGE_BYTES], answer[PROOF_ANSWER_BYTES] = {0};

    connect_session(&t);
    be_challenged(&t, challenge);
    cr_expect_eq(proof_answer(&t.proof, &t.key, challenge, answer), TUTTI_ERR_DENIED);
    cr_expect_eq(feed(&t, proof_request(answer, sizeof answer)), TUTTI_ERR_DENIED);
    cr_expect_not(t.session.known);
    end(&t);
}

Test(store_proof, nothing_is_served_before_the_proof)
{
    struct talks t = begin(SECRET);
    struct buffer requests[] = {talk("14", STORE_PING, 7),
                                talk("1", STORE_LIST_KEYS),
                                talk("1b", STORE_GET, "/key"),
                                talk("1bb", STORE_SET, "/key", "x"),
                                talk("1bbb", STORE_COMPARE_SET, "/key", "", "x"),
                                talk("1nb", STORE_WAIT, 1L, "/key")};

    for (size_t i = 0; i < sizeof requests / sizeof requests[0]; i++) {
        connect_session(&t);
        cr_expect_eq(feed(&t, requests[i]), TUTTI_ERR_DENIED, "%zu", i);
        cr_expect_eq(t.session.out.size, 0);
        cr_expect_not(t.session.asked);
        store_session_free(&t.session);
    }
    connect_session(&t);
    cr_expect_eq(feed(&t, talk("1bn", STORE_SET, "/key", 1000L)), TUTTI_ERR_STORE);
    cr_expect_not_null(strstr(error_message(), "more than 256 bytes"), "%s", error_message());
    cr_expect_eq(store_map_count(t.map), 0);
    end(&t);
}

Test(store_proof, what_was_recorded_is_of_no_use)
{
    struct talks t = begin(SECRET);
    uint8_t challenge[PROOF_CHALLENGE_BYTES], message[PROOF_HELLO_BYTES],
        answer[PROOF_ANSWER_BYTES];

    cr_assert_eq(proof_hello(1, 0, &t.proof, message), TUTTI_OK);
    for (int again = 0; again < 2; again++) {
        connect_session(&t);
        cr_assert_eq(feed(&t, proof_request(message, sizeof message)), TUTTI_OK);
        memcpy(challenge, t.session.out.data + 8, sizeof challenge);
        if (!again)
            cr_assert_eq(proof_answer(&t.proof, &t.key, challenge, answer), TUTTI_OK);
        cr_expect_eq(feed(&t, proof_request(answer, sizeof answer)),
                     again ? TUTTI_ERR_DENIED : TUTTI_OK);
        if (!again)
            store_session_free(&t.session);
    }
    end(&t);
}

/* ---- another user of this host ---- */

/* Opens the store as another user, with this secret; the exit code says what became of it. */
static int as_stranger(uint16_t port, const char *secret)
{
    const pid_t child = fork();
    int how;

    if (!child) {
        tutti_store *store;

        if (setgroups(0, NULL) || setresgid(STRANGER, STRANGER, STRANGER) ||
            setresuid(STRANGER, STRANGER, STRANGER))
            _exit(40);
        setenv("XDG_CONFIG_HOME", "/nowhere", 1);
        unsetenv("TUTTI_SECRET");
        if (secret)
            setenv("TUTTI_SECRET", secret, 1);
        if (!tutti_store_open_tcp("127.0.0.1", port, secret ? SOON_MS : 300, &store))
            _exit(tutti_store_set(store, "theirs", "x", 1, SOON_MS) ? 41 : 0);
        _exit(strstr(tutti_last_error(), "this one has another: TUTTI_SECRET;") ? 1
              : strstr(tutti_last_error(), "closed the connection")             ? 2
                                                                                : 42);
    }
    cr_assert_eq(waitpid(child, &how, 0), child);
    cr_assert(WIFEXITED(how));
    return WEXITSTATUS(how);
}

Test(store_proof, another_user_with_the_same_explicit_secret_comes_in)
{
    tutti_store_server *server;

    if (geteuid())
        cr_skip_test("only root may start a process of another user");
    setenv("TUTTI_SECRET", SECRET, 1);
    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);

    const uint16_t port = tutti_store_server_port(server);

    cr_expect_eq(as_stranger(port, SECRET), 0);
    cr_expect_eq(as_stranger(port, OTHER), 1);
    cr_expect_eq(as_stranger(port, NULL), 2);
    works(open_client(port));
    tutti_store_server_stop(server);
}

/* From here on, what is written to stderr is read from the result. */
static int listen_to_stderr(void)
{
    int ends[2];

    cr_assert_eq(pipe2(ends, O_CLOEXEC), 0);
    cr_assert_geq(dup2(ends[1], STDERR_FILENO), 0);
    close(ends[1]);
    return ends[0];
}

Test(store_proof, who_serves_the_store_hears_of_a_client_that_saw_another_secret_and_left)
{
    tutti_store_server *server;
    char said[1024] = "";
    struct pollfd pipe = {.events = POLLIN};

    if (geteuid())
        cr_skip_test("only root may start a process of another user");
    setenv("TUTTI_SECRET", SECRET, 1);
    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    pipe.fd = listen_to_stderr();
    cr_expect_eq(as_stranger(tutti_store_server_port(server), OTHER), 1);
    cr_assert_eq(poll(&pipe, 1, SOON_MS), 1);
    cr_assert_gt(read(pipe.fd, said, sizeof said - 1), 0);
    cr_expect_not_null(strstr(said, "refused a client at 127.0.0.1: it has not proven that it has "
                                    "this store's secret (TUTTI_SECRET)"),
                       "%s", said);
    tutti_store_server_stop(server);
}

/* ---- another host ---- */

struct hosts {
    struct net *net;
    tutti_store_server *server;
    uint16_t port;
};

static struct hosts serve_on_another_host(void)
{
    char reason[256];
    struct hosts hosts = {.net = net_create(2, reason, sizeof reason)};

    if (!hosts.net)
        cr_skip_test("%s", reason);

    const int back = net_enter(net_name(hosts.net, 0));

    cr_assert_geq(back, 0);
    cr_assert_eq(tutti_store_server_start(net_address(hosts.net, 0), 0, &hosts.server), TUTTI_OK,
                 "%s", tutti_last_error());
    net_leave(back);
    hosts.port = tutti_store_server_port(hosts.server);
    return hosts;
}

static void end_hosts(struct hosts *hosts)
{
    tutti_store_server_stop(hosts->server);
    net_destroy(hosts->net);
}

/* A client on the other host; `secret` NULL: it has none. */
static tutti_status open_there(const struct hosts *hosts, const char *secret,
                               tutti_store **ret_store)
{
    const int back = net_enter(net_name(hosts->net, 1));

    cr_assert_geq(back, 0);
    unsetenv("TUTTI_SECRET");
    if (secret)
        setenv("TUTTI_SECRET", secret, 1);

    const tutti_status status =
        tutti_store_open_tcp(net_address(hosts->net, 0), hosts->port, 5000, ret_store);

    net_leave(back);
    return status;
}

/* Whether a client of torch, which cannot prove anything, has its ping answered. */
static bool serves_torch(const struct hosts *hosts)
{
    const int back = net_enter(net_name(hosts->net, 1));
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(hosts->port)};
    struct buffer ping = talk("14", STORE_PING, 7);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    uint8_t answer[4];

    cr_assert_geq(back, 0);
    inet_pton(AF_INET, net_address(hosts->net, 0), &address.sin_addr);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address, sizeof address), 0);
    net_leave(back);
    cr_assert_eq(send(fd, hello, sizeof hello, MSG_NOSIGNAL), sizeof hello);
    cr_assert_eq(send(fd, ping.data, ping.size, MSG_NOSIGNAL), (ssize_t)ping.size);

    const bool served = read_all(fd, answer, sizeof answer);

    buffer_free(&ping);
    close(fd);
    return served;
}

Test(store_proof, with_an_explicit_secret_other_hosts_must_have_it)
{
    tutti_store *store;

    setenv("TUTTI_SECRET", SECRET, 1);

    struct hosts hosts = serve_on_another_host();

    cr_assert_eq(open_there(&hosts, SECRET, &store), TUTTI_OK, "%s", tutti_last_error());
    works(store);
    tutti_store_unref(store);
    cr_expect_eq(open_there(&hosts, OTHER, &store), TUTTI_ERR_STORE);
    cr_expect_not_null(strstr(tutti_last_error(), "this one has another: TUTTI_SECRET;"), "%s",
                       tutti_last_error());
    cr_expect_eq(open_there(&hosts, NULL, &store), TUTTI_ERR_STORE);
    cr_expect_not_null(strstr(tutti_last_error(), "and this one has none;"), "%s",
                       tutti_last_error());
    cr_expect_not(serves_torch(&hosts));
    end_hosts(&hosts);
}

Test(store_proof, an_open_store_serves_clients_of_torch_on_other_hosts)
{
    tutti_store *store;

    setenv("TUTTI_SECRET", SECRET, 1);
    setenv("TUTTI_STORE_OPEN", "1", 1);

    struct hosts hosts = serve_on_another_host();

    cr_expect(serves_torch(&hosts));
    cr_assert_eq(open_there(&hosts, SECRET, &store), TUTTI_OK, "%s", tutti_last_error());
    works(store);
    tutti_store_unref(store);
    end_hosts(&hosts);
}

Test(store_proof, with_the_users_own_secret_other_hosts_come_in_unless_it_is_required)
{
    tutti_store *store;
    char folder[64], why[256], path[96];

    snprintf(folder, sizeof folder, "%s/tutti", home);
    snprintf(path, sizeof path, "%s/secret", folder);
    cr_assert(secret_make_file(path, false, why, sizeof why), "%s", why);
    for (int required = 0; required < 2; required++) {
        setenv("TUTTI_AUTH", required ? "required" : "auto", 1);
        unsetenv("TUTTI_SECRET");

        struct hosts hosts = serve_on_another_host();

        cr_expect_eq(serves_torch(&hosts), !required);
        cr_assert_eq(open_there(&hosts, NULL, &store), TUTTI_OK, "%s", tutti_last_error());
        works(store);
        tutti_store_unref(store);
        cr_expect_eq(open_there(&hosts, OTHER, &store), required ? TUTTI_ERR_STORE : TUTTI_OK);
        if (!required)
            tutti_store_unref(store);
        end_hosts(&hosts);
    }
}
