/* SPDX-License-Identifier: Apache-2.0 */
/* Encrypted connections: both ends in this process, and somebody between them or in the place of one. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tutti/tutti.h>

#include "secret/tls.h"

enum {
    LARGE = 5 << 20,
    TURNS_MAX = 1 << 20,
    HELLO = 64,
    LENGTHS = 9 /* bytes of a record that say how long something is, or stand before that */
};

static const struct key key = {{1, 2, 3}}, other_key = {{3, 2, 1}};

/* Two ends of a connection, and the keys of each. */
struct ends {
    int fd[2];
    struct tls_keys *keys[2];
    struct tls *tls[2]; /* the dialer, the listener once it was called */
};

static void begin_with(struct ends *ends, const struct key *listener)
{
    *ends = (struct ends){.tls = {NULL}};
    key_hold();
    cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends->fd), 0);
    cr_assert_eq(tls_keys_new(&key, &ends->keys[0]), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(tls_keys_new(listener, &ends->keys[1]), TUTTI_OK);
    cr_assert_eq(tls_dial(ends->keys[0], ends->fd[0], &ends->tls[0]), TUTTI_OK);
}

static void end(struct ends *ends)
{
    for (int i = 0; i < 2; i++) {
        tls_free(ends->tls[i]);
        tls_keys_free(ends->keys[i]);
        close(ends->fd[i]);
    }
    key_release();
}

static ssize_t say(struct tls *tls, const void *data, size_t bytes)
{
    return tls_send(tls, &(tutti_piece){data, bytes}, 1);
}

/* The dialer says `hello` and the listener reads it, which is the handshake. */
static void meet(struct ends *ends)
{
    static const char hello[HELLO] = "hello";
    char read[HELLO];

    cr_assert_eq(say(ends->tls[0], hello, sizeof hello), -1);
    cr_assert_eq(errno, EINPROGRESS);
    cr_assert_eq(tls_accept(ends->keys[1], ends->fd[1], &ends->tls[1]), TUTTI_OK);
    cr_assert_eq(tls_recv(ends->tls[1], read, sizeof read), -1);
    cr_assert_eq(errno, EAGAIN);
    cr_assert_eq(say(ends->tls[0], hello, sizeof hello), sizeof hello);
    cr_assert_eq(tls_recv(ends->tls[1], read, sizeof read), sizeof read);
    cr_assert_arr_eq(read, hello, sizeof hello);
}

static void begin(struct ends *ends)
{
    begin_with(ends, &key);
    meet(ends);
}

static uint8_t *pattern(size_t bytes)
{
    uint8_t *data = malloc(bytes);

    for (size_t i = 0; data && i < bytes; i++)
        data[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + (i >> 16));
    cr_assert_not_null(data);
    return data;
}

/* Sends it in pieces as a transport does, and reads it in other ones, as far as each goes. */
static void move(struct ends *ends, const uint8_t *data, size_t bytes, size_t piece, size_t room)
{
    uint8_t *read = malloc(bytes);
    size_t sent = 0, got = 0;

    cr_assert_not_null(read);
    for (int i = 0; got < bytes; i++) {
        cr_assert_lt(i, TURNS_MAX);
        const size_t left = bytes - sent, first = left < piece ? left : piece;
        const size_t second = left - first < 8 * piece ? left - first : 8 * piece;
        const tutti_piece pieces[] = {
            {data + sent, first}, {data, 0}, {data + sent + first, second}};
        const ssize_t n = left ? tls_send(ends->tls[0], pieces, 3) : 0;
        cr_assert(n >= 0 || errno == EAGAIN);
        sent += n > 0 ? (size_t)n : 0;
        const ssize_t m =
            tls_recv(ends->tls[1], read + got, bytes - got < room ? bytes - got : room);
        cr_assert(m > 0 || (m < 0 && errno == EAGAIN));
        got += m > 0 ? (size_t)m : 0;
    }
    cr_expect_eq(sent, bytes);
    cr_expect_eq(memcmp(read, data, bytes), 0);
    free(read);
}

Test(tls, what_one_side_sends_the_other_reads, .timeout = 60)
{
    static const size_t pieces[] = {8, 512, 16384, 100000, LARGE};
    uint8_t *data = pattern(LARGE);
    struct ends ends;

    begin(&ends);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++)
        for (size_t bytes = 1; bytes <= LARGE; bytes = bytes * 19 + 3)
            move(&ends, data, bytes, pieces[i], i % 2 ? 1000 : 300000);
    free(data);
    end(&ends);
}

/* The reader takes what it was sent while its answer waits. */
Test(tls, a_socket_that_takes_little_loses_nothing, .timeout = 60)
{
    uint8_t *data = pattern(LARGE);
    int least = 1;
    struct ends ends;

    begin(&ends);
    cr_assert_eq(setsockopt(ends.fd[0], SOL_SOCKET, SO_SNDBUF, &least, sizeof least), 0);
    move(&ends, data, LARGE / 4, 1000, 700);
    free(data);
    end(&ends);
}

Test(tls, keys_are_renewed_on_the_way, .timeout = 60)
{
    uint8_t *data = pattern(LARGE);
    struct ends ends;

    begin_with(&ends, &key);
    tls_free(ends.tls[0]);
    tls_keys_renew_after(ends.keys[0], 3);
    cr_assert_eq(tls_dial(ends.keys[0], ends.fd[0], &ends.tls[0]), TUTTI_OK);
    meet(&ends);
    move(&ends, data, LARGE / 4, 5000, 100000);
    free(data);
    end(&ends);
}

Test(tls, bytes_that_were_read_ahead_are_told_of, .timeout = 10)
{
    struct ends ends;
    char byte;

    begin(&ends);
    cr_assert_eq(say(ends.tls[0], "ab", 2), 2);
    cr_assert_eq(tls_recv(ends.tls[1], &byte, 1), 1);
    cr_expect(tls_has_unread(ends.tls[1]));
    cr_assert_eq(tls_recv(ends.tls[1], &byte, 1), 1);
    cr_expect_not(tls_has_unread(ends.tls[1]));
    cr_expect_eq(byte, 'b');
    end(&ends);
}

static void expect_failed(struct tls *tls)
{
    char byte;

    for (int i = 0; i < 2; i++) {
        cr_expect_eq(tls_recv(tls, &byte, 1), -1);
        cr_expect_eq(errno, EBADMSG, "%s", strerror(errno));
    }
}

Test(tls, another_key_is_found_out_by_both, .timeout = 10)
{
    char read[HELLO];
    struct ends ends;

    begin_with(&ends, &other_key);
    cr_assert_eq(say(ends.tls[0], read, sizeof read), -1);
    cr_assert_eq(tls_accept(ends.keys[1], ends.fd[1], &ends.tls[1]), TUTTI_OK);
    expect_failed(ends.tls[1]);
    cr_expect_eq(say(ends.tls[0], read, sizeof read), -1);
    cr_expect_eq(errno, EBADMSG);
    end(&ends);
}

Test(tls, an_altered_byte_is_found, .timeout = 10)
{
    uint8_t bytes[256];
    struct ends ends;

    begin(&ends);
    cr_assert_eq(say(ends.tls[0], "word", 4), 4);
    const ssize_t n = recv(ends.fd[1], bytes, sizeof bytes, 0);
    cr_assert_gt(n, 4 + 5);
    bytes[n - 1] ^= 1;
    cr_assert_eq(send(ends.fd[0], bytes, (size_t)n, 0), n);
    expect_failed(ends.tls[1]);
    end(&ends);
}

Test(tls, nothing_is_allocated_for_other_bytes, .timeout = 10)
{
    static const uint8_t wrong[] = {0, 'G', 0x15, 0x17, 0x80};

    for (size_t i = 0; i <= sizeof wrong; i++) {
        struct ends ends;

        begin_with(&ends, &key);
        cr_expect_eq(tls_accept(ends.keys[1], ends.fd[1], &ends.tls[1]), TUTTI_ERR_NOT_READY);
        if (i < sizeof wrong)
            cr_assert_eq(send(ends.fd[0], &wrong[i], 1, 0), 1);
        else
            shutdown(ends.fd[0], SHUT_WR);
        cr_expect_eq(tls_accept(ends.keys[1], ends.fd[1], &ends.tls[1]), TUTTI_ERR_DENIED);
        cr_expect_null(ends.tls[1]);
        end(&ends);
    }
}

/* Each beginning of a ClientHello, and one whose bytes are altered, each in turn. */
Test(tls, a_handshake_that_is_not_whole_or_not_right_gets_no_further, .timeout = 60)
{
    uint8_t hello[1024], byte;
    struct ends ends;

    begin_with(&ends, &key);
    cr_assert_eq(say(ends.tls[0], "x", 1), -1);
    const ssize_t n = recv(ends.fd[1], hello, sizeof hello, 0);
    cr_assert_gt(n, 100);
    end(&ends);
    for (ssize_t i = 1; i < 2 * n; i++) {
        const bool whole = i >= n;

        begin_with(&ends, &key);
        hello[i % n] ^= whole ? 0x40 : 0;
        cr_assert_eq(send(ends.fd[0], hello, (size_t)(whole ? n : i), 0), whole ? n : i);
        hello[i % n] ^= whole ? 0x40 : 0;
        if (!tls_accept(ends.keys[1], ends.fd[1], &ends.tls[1])) {
            cr_expect_eq(tls_recv(ends.tls[1], &byte, 1), -1);
            cr_expect(errno == EBADMSG || (errno == EAGAIN && !whole) ||
                          (errno == EAGAIN && i - n < LENGTHS),
                      "byte %zd: %s", i, strerror(errno));
            shutdown(ends.fd[0], SHUT_WR);
            cr_expect_leq(tls_recv(ends.tls[1], &byte, 1), 0);
        }
        end(&ends);
    }
}

/* OpenSSL applies it to each connection of libssl. */
Test(tls, what_the_configuration_of_openssl_says_of_tls_does_not_hold, .timeout = 10)
{
    static const char content[] =
        "openssl_conf = init\n[init]\nssl_conf = ssl\n[ssl]\nsystem_default = all\n[all]\n"
        "MaxProtocol = TLSv1.2\nCiphersuites = TLS_AES_256_GCM_SHA384\nGroups = P-521\n";
    char path[] = "/tmp/test_tls_XXXXXX";
    const int fd = mkstemp(path);
    struct ends ends;

    cr_assert_eq(write(fd, content, sizeof content - 1), sizeof content - 1);
    close(fd);
    setenv("OPENSSL_CONF", path, 1);
    begin(&ends);
    end(&ends);
    unlink(path);
}

Test(tls, the_end_of_a_connection_is_told_behind_what_came, .timeout = 10)
{
    struct ends ends;
    char word[8];

    begin(&ends);
    cr_assert_eq(say(ends.tls[0], "last", 4), 4);
    shutdown(ends.fd[0], SHUT_WR);
    cr_expect_eq(tls_recv(ends.tls[1], word, sizeof word), 4);
    cr_expect_eq(tls_recv(ends.tls[1], word, sizeof word), 0);
    cr_expect_eq(tls_recv(ends.tls[1], word, sizeof word), 0);
    cr_expect_eq(say(ends.tls[0], "more", 4), -1);
    cr_expect_eq(errno, EPIPE);
    end(&ends);
}
