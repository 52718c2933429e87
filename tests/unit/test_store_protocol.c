/* SPDX-License-Identifier: Apache-2.0 */
/* What the store server answers, byte for byte, without sockets: sessions on a shared map. The
 * expected bytes are those of torch 2.15's server, but where a name says otherwise. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>

#include <tutti/status.h>

#include "store/store_session.h"
#include "store_talk.h"

enum { PEERS = 3 };

static struct store_map *map;
static struct store_session peers[PEERS];

static void start_with(size_t max_bytes)
{
    cr_assert_eq(store_map_new(max_bytes, &map), TUTTI_OK);
    for (int i = 0; i < PEERS; i++) {
        static const uint8_t hello[] = {0, 0xce, 0xf7, 0x85, 0x3c};

        store_session_init(&peers[i], map, true, NULL);
        cr_assert_eq(store_session_feed(&peers[i], hello, sizeof hello), TUTTI_OK);
    }
}

static void start(void)
{
    start_with(STORE_MAP_MAX_BYTES);
}

static void stop(void)
{
    for (int i = 0; i < PEERS; i++)
        store_session_free(&peers[i]);
    store_map_free(map);
}

TestSuite(store_protocol, .init = start, .fini = stop, .timeout = 30);

static void ask(int peer, int opcode, const char *fields, ...)
{
    struct buffer request = {0};
    va_list args;

    buffer_put_uint(&request, (uint8_t)opcode, 1);
    va_start(args, fields);
    talk_put(&request, fields, args);
    va_end(args);
    cr_assert_eq(store_session_feed(&peers[peer], request.data, request.size), TUTTI_OK, "%s",
                 tutti_last_error());
    buffer_free(&request);
}

/* The peer has been answered exactly this since it was last looked at. */
static void answered(int peer, const char *fields, ...)
{
    struct buffer expected = {0}, *out = &peers[peer].out;
    va_list args;

    va_start(args, fields);
    talk_put(&expected, fields, args);
    va_end(args);
    cr_assert_eq(out->size, expected.size, "%zu bytes instead of %zu", out->size, expected.size);
    cr_assert(!out->size || memcmp(out->data, expected.data, out->size) == 0);
    buffer_free(&expected);
    buffer_clear(out, 0);
}

static void breaks_off(int peer, struct buffer request)
{
    cr_assert_eq(store_session_feed(&peers[peer], request.data, request.size), TUTTI_ERR_STORE);
    buffer_free(&request);
}

Test(store_protocol, values_go_in_and_come_out)
{
    ask(0, STORE_PING, "4", 0x11223344u);
    answered(0, "4", 0x11223344u);
    ask(0, STORE_SET, "bb", "/k", "v1");
    ask(0, STORE_GET, "b", "/k");
    answered(0, "b", "v1");
    ask(0, STORE_GET, "b", "/missing");
    answered(0, "b", "");
    ask(1, STORE_APPEND, "bb", "/k", "XYZ");
    ask(1, STORE_APPEND, "bb", "/new", "q");
    ask(0, STORE_MULTI_GET, "nbbb", 3L, "/k", "/none", "/new");
    answered(0, "bbb", "v1XYZ", "", "q");
    ask(0, STORE_MULTI_SET, "nbbbb", 2L, "/a", "AA", "/b", "BB");
    ask(0, STORE_MULTI_GET, "nbb", 2L, "/b", "/a");
    answered(0, "bb", "BB", "AA");
    ask(0, STORE_MULTI_SET, "n", 0L);
    ask(0, STORE_MULTI_GET, "n", 0L);
    answered(0, "");
    ask(0, STORE_CHECK, "nbb", 2L, "/a", "/b");
    ask(0, STORE_CHECK, "nbb", 2L, "/a", "/missing");
    ask(0, STORE_CHECK, "n", 0L);
    answered(0, "111", 0, 1, 0);
    ask(0, STORE_GETNUMKEYS, "");
    ask(0, STORE_DELETE_KEY, "b", "/a");
    ask(0, STORE_DELETE_KEY, "b", "/a");
    ask(0, STORE_GETNUMKEYS, "");
    answered(0, "8888", 4L, 1L, 0L, 3L);
    ask(0, STORE_SET, "bb", "", "");
    ask(0, STORE_CHECK, "nb", 1L, "");
    answered(0, "1", 0);
}

Test(store_protocol, add_keeps_decimal_text)
{
    ask(0, STORE_ADD, "b8", "/n", 5L);
    ask(0, STORE_ADD, "b8", "/n", -7L);
    ask(0, STORE_GET, "b", "/n");
    ask(0, STORE_SET, "bb", "/t", "12abc");
    ask(0, STORE_ADD, "b8", "/t", 1L);
    ask(0, STORE_GET, "b", "/t");
    answered(0, "88b8b", 5L, -2L, "-2", 13L, "13");
    ask(0, STORE_SET, "bb", "/big", "9223372036854775807");
    ask(0, STORE_ADD, "b8", "/big", 1L);
    answered(0, "8", (long)INT64_MIN);
}

Test(store_protocol, compare_set_answers_as_torch_does)
{
    ask(0, STORE_COMPARE_SET, "bbb", "/cs", "", "new");
    ask(0, STORE_COMPARE_SET, "bbb", "/cs", "bad", "x");
    ask(0, STORE_COMPARE_SET, "bbb", "/cs", "new", "new2");
    ask(0, STORE_COMPARE_SET, "bbb", "/missing", "exp", "y");
    ask(0, STORE_CHECK, "nb", 1L, "/missing");
    answered(0, "bbbb1", "new", "new", "new2", "exp", 1);
}

Test(store_protocol, a_wait_is_answered_when_each_key_was_written_once)
{
    ask(1, STORE_WAIT, "nbb", 2L, "/w1", "/w2");
    ask(0, STORE_SET, "bb", "/w1", "");
    answered(1, "");
    ask(0, STORE_DELETE_KEY, "b", "/w1");
    ask(0, STORE_SET, "bb", "/w1", "");
    answered(1, "");
    ask(0, STORE_ADD, "b8", "/w2", 1L);
    answered(1, "1", 0);
    ask(0, STORE_SET, "bb", "/w2", "");
    answered(1, "");
    ask(1, STORE_WAIT, "nbb", 2L, "/w1", "/w2");
    ask(1, STORE_WAIT, "n", 0L);
    answered(1, "11", 0, 0);
    ask(1, STORE_WAIT, "nbb", 2L, "/dup", "/dup");
    ask(1, STORE_PING, "4", 5u);
    answered(1, "4", 5u);
    ask(0, STORE_APPEND, "bb", "/dup", "");
    answered(1, "1", 0);
}

Test(store_protocol, a_wait_can_be_cancelled_before_and_in_the_moment_that_the_key_arrives)
{
    ask(1, STORE_CANCEL_WAIT, "");
    answered(1, "1", 1);
    ask(1, STORE_WAIT, "nb", 1L, "/w");
    ask(1, STORE_CANCEL_WAIT, "");
    ask(0, STORE_SET, "bb", "/w", "");
    answered(1, "1", 1);
    ask(1, STORE_WAIT, "nb", 1L, "/race");
    ask(0, STORE_SET, "bb", "/race", "");
    ask(1, STORE_CANCEL_WAIT, "");
    answered(1, "11", 0, 1);
}

Test(store_protocol, compare_set_wakes_exactly_when_it_makes_the_key)
{
    ask(1, STORE_WAIT, "nb", 1L, "/cs");
    ask(0, STORE_COMPARE_SET, "bbb", "/cs", "exp", "x");
    answered(1, "");
    ask(0, STORE_COMPARE_SET, "bbb", "/cs", "", "x");
    answered(1, "1", 0);
}

Test(store_protocol, the_waits_of_a_closed_connection_are_dropped)
{
    ask(1, STORE_WAIT, "nbb", 2L, "/x", "/y");
    store_session_free(&peers[1]);
    ask(0, STORE_SET, "bb", "/x", "");
    ask(0, STORE_SET, "bb", "/y", "");
    store_session_init(&peers[1], map, true, NULL);
    answered(1, "");
}

Test(store_protocol, queues_are_first_in_first_out_and_wake_one_waiter_a_push)
{
    ask(1, STORE_WAIT, "nb", 1L, "/q");
    ask(2, STORE_WAIT, "nb", 1L, "/q");
    ask(0, STORE_QUEUE_PUSH, "bb", "/q", "e1");
    answered(1, "1", 0);
    answered(2, "");
    ask(0, STORE_QUEUE_PUSH, "bb", "/q", "e2");
    answered(2, "1", 0);
    ask(0, STORE_GETNUMKEYS, "");
    ask(0, STORE_CHECK, "nb", 1L, "/q");
    ask(0, STORE_QUEUE_LEN, "b", "/q");
    ask(0, STORE_QUEUE_POP, "b", "/q");
    ask(0, STORE_QUEUE_POP, "b", "/q");
    ask(0, STORE_QUEUE_POP, "b", "/q");
    ask(0, STORE_QUEUE_LEN, "b", "/other");
    ask(0, STORE_CHECK, "nb", 1L, "/q");
    answered(0, "8188b8b881", 0L, 0, 2L, 2L, "e1", 1L, "e2", 0L, 0L, 1);
}

Test(store_protocol, a_barrier_opens_for_all_and_stays_open)
{
    ask(0, STORE_BARRIER, "b8", "/bar", 3L);
    ask(1, STORE_BARRIER, "b8", "/bar", 3L);
    answered(0, "");
    ask(2, STORE_BARRIER, "b8", "/bar", 3L);
    for (int i = 0; i < PEERS; i++)
        answered(i, "1", 0);
    ask(0, STORE_BARRIER, "b8", "/bar", 3L);
    ask(0, STORE_GET, "b", "/bar");
    answered(0, "1b", 0, "4");
    ask(0, STORE_BARRIER, "b8", "/second", 2L);
    ask(0, STORE_CANCEL_WAIT, "");
    ask(1, STORE_BARRIER, "b8", "/second", 2L);
    answered(0, "1", 1);
    answered(1, "1", 0);
    ask(0, STORE_BARRIER, "b8", "/third", 2L);
    ask(1, STORE_SET, "bb", "/third", "x");
    answered(0, "1", 0);
}

static int compare_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

Test(store_protocol, list_keys_names_every_key_once)
{
    char keys[200][8];
    struct store_request list;

    for (int i = 0; i < 200; i++) {
        char key[16];

        snprintf(key, sizeof key, "/%03d", i);
        ask(0, STORE_SET, "bb", key, "");
    }
    ask(0, STORE_QUEUE_PUSH, "bb", "/queue", "");
    ask(0, STORE_LIST_KEYS, "");
    list = (struct store_request){.fields = {.data = peers[0].out.data, .size = peers[0].out.size}};
    cr_assert_eq(read_u64(&list.fields), 200);
    for (int i = 0; i < 200; i++) {
        struct slice key = store_request_bytes(&list);

        cr_assert_eq(key.size, 4);
        snprintf(keys[i], sizeof keys[i], "%.4s", (const char *)key.data);
    }
    cr_assert_eq(list.fields.at, list.fields.size);
    qsort(keys, 200, sizeof keys[0], compare_text);
    for (int i = 0; i < 200; i++)
        cr_assert_eq(atoi(keys[i] + 1), i);
}

Test(store_protocol, what_breaks_the_protocol_ends_the_connection)
{
    static const char *const no_numbers[] = {"", "x1", "-"};

    breaks_off(0, talk("1", 19));
    stop(), start();
    breaks_off(0, talk("1", 255));
    stop(), start();
    breaks_off(0, talk("14", STORE_VALIDATE, STORE_WIRE_MAGIC));
    for (size_t i = 0; i < 3; i++) {
        stop(), start();
        ask(1, STORE_SET, "bb", "/t", no_numbers[i]);
        breaks_off(0, talk("1b8", STORE_ADD, "/t", 1L));
        breaks_off(1, talk("1b8", STORE_BARRIER, "/t", 1L));
        ask(2, STORE_GET, "b", "/t");
        answered(2, "b", no_numbers[i]);
    }
}

Test(store_protocol, a_connection_without_the_magic_is_ended_at_its_first_bytes)
{
    static const uint8_t wrong_magic[] = {0, 0xce, 0xf7, 0x85, 0x3d};

    for (int opcode = 1; opcode < 256; opcode++) {
        struct store_session session;
        uint8_t byte = (uint8_t)opcode;

        store_session_init(&session, map, true, NULL);
        cr_assert_eq(store_session_feed(&session, &byte, 1), TUTTI_ERR_STORE);
        store_session_free(&session);
    }
    store_session_free(&peers[0]);
    store_session_init(&peers[0], map, true, NULL);
    for (int i = 0; i < 4; i++)
        cr_assert_eq(store_session_feed(&peers[0], &wrong_magic[i], 1), TUTTI_OK);
    cr_assert_eq(store_session_feed(&peers[0], &wrong_magic[4], 1), TUTTI_ERR_STORE);
    cr_assert_not(peers[0].wire.validated);
}

Test(store_protocol, limits_hold_from_the_length_on_and_not_one_below)
{
    char *text = calloc(1, TUTTI_STORE_MAX_VALUE + 1);

    memset(text, 'k', TUTTI_STORE_MAX_VALUE);
    text[TUTTI_STORE_MAX_KEY] = 0;
    ask(0, STORE_SET, "bb", text, "v");
    ask(0, STORE_GET, "b", text);
    answered(0, "b", "v");
    text[TUTTI_STORE_MAX_KEY] = 'k';
    ask(0, STORE_SET, "bb", "/v", text);
    ask(0, STORE_GET, "b", "/v");
    answered(0, "b", text);
    ask(1, STORE_APPEND, "bb", "/v", "");
    breaks_off(1, talk("1bb", STORE_APPEND, "/v", "x"));
    free(text);

    static const struct {
        int opcode;
        uint64_t at_limit;
    } counts[] = {
        {STORE_GET, TUTTI_STORE_MAX_KEY},        {STORE_QUEUE_PUSH, TUTTI_STORE_MAX_KEY},
        {STORE_CHECK, TUTTI_STORE_MAX_KEYS},     {STORE_WAIT, TUTTI_STORE_MAX_KEYS},
        {STORE_MULTI_GET, TUTTI_STORE_MAX_KEYS}, {STORE_MULTI_SET, TUTTI_STORE_MAX_KEYS},
    };
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        stop(), start();
        ask(0, counts[i].opcode, "n", (long)counts[i].at_limit);
        cr_assert_leq(peers[0].wire.in.capacity, 1024,
                      "nothing is set aside for what is announced");
        breaks_off(1, talk("1n", counts[i].opcode, (long)counts[i].at_limit + 1));
        breaks_off(2, talk("1n", counts[i].opcode, -1L));
    }
    stop(), start();
    ask(0, STORE_COMPARE_SET, "bn", "/k", (long)TUTTI_STORE_MAX_VALUE);
    breaks_off(1, talk("1bn", STORE_COMPARE_SET, "/k", (long)TUTTI_STORE_MAX_VALUE + 1));
    breaks_off(2, talk("1bbn", STORE_COMPARE_SET, "/k", "e", (long)TUTTI_STORE_MAX_VALUE + 1));
}

Test(store_protocol, lists_of_the_largest_count_work)
{
    struct buffer request = {0};

    buffer_put_uint(&request, STORE_WAIT, 1);
    buffer_put_uint(&request, TUTTI_STORE_MAX_KEYS, 8);
    for (uint32_t i = 0; i < TUTTI_STORE_MAX_KEYS; i++)
        buffer_put_bytes(&request, (struct slice){"/same", 5});
    cr_assert_eq(store_session_feed(&peers[0], request.data, request.size), TUTTI_OK);
    answered(0, "");
    ask(1, STORE_SET, "bb", "/same", "v");
    answered(0, "1", 0);
    request.data[0] = STORE_CHECK;
    cr_assert_eq(store_session_feed(&peers[0], request.data, request.size), TUTTI_OK);
    answered(0, "1", 0);
    request.data[0] = STORE_MULTI_GET;
    cr_assert_eq(store_session_feed(&peers[0], request.data, request.size), TUTTI_OK);
    cr_assert_eq(peers[0].out.size, 9 * TUTTI_STORE_MAX_KEYS);
    buffer_free(&request);
}

Test(store_protocol, one_reply_and_one_request_are_bounded_by_us)
{
    enum {
        GETS = STORE_SESSION_MAX_OUT / TUTTI_STORE_MAX_VALUE,
        SETS = STORE_WIRE_MAX_REQUEST / TUTTI_STORE_MAX_VALUE
    };
    static uint8_t value[TUTTI_STORE_MAX_VALUE];
    struct buffer request = talk("1b", STORE_SET, "/v");

    buffer_put_bytes(&request, (struct slice){value, sizeof value});
    cr_assert_eq(store_session_feed(&peers[0], request.data, request.size), TUTTI_OK);
    buffer_free(&request);

    request = talk("1n", STORE_MULTI_GET, (long)GETS);
    for (int i = 0; i < GETS; i++)
        buffer_put_bytes(&request, (struct slice){"/v", 2});
    breaks_off(0, request);

    ask(1, STORE_MULTI_SET, "n", (long)SETS);
    for (int i = 0; i < SETS; i++) {
        struct buffer pair = talk("b", "/v");

        buffer_put_bytes(&pair, (struct slice){value, sizeof value});
        cr_assert_eq(store_session_feed(&peers[1], pair.data, pair.size),
                     i < SETS - 1 ? TUTTI_OK : TUTTI_ERR_STORE);
        buffer_free(&pair);
    }
}

Test(store_protocol, a_full_store_refuses_and_takes_again_what_was_deleted)
{
    static char text[4001];
    int stored = 0;

    stop(), start_with(64 << 10);
    memset(text, 'v', sizeof text - 1);
    for (;; stored++) {
        char key[16];
        struct slice value = {text, sizeof text - 1};

        snprintf(key, sizeof key, "/%d", stored);
        if (store_map_set(map, (struct slice){key, strlen(key)}, value))
            break;
    }
    cr_assert(stored > 10 && stored < 17, "%d", stored);
    cr_assert_not_null(strstr(tutti_last_error(), "full"));
    breaks_off(0, talk("1bb", STORE_QUEUE_PUSH, "/q", text));
    ask(1, STORE_GETNUMKEYS, "");
    answered(1, "8", (long)stored);
    ask(1, STORE_DELETE_KEY, "b", "/0");
    ask(1, STORE_QUEUE_PUSH, "bb", "/q", text);
    ask(1, STORE_QUEUE_POP, "b", "/q");
    ask(1, STORE_SET, "bb", "/0", text);
    answered(1, "88b", 1L, 1L, text);

    struct buffer request = talk("1n", STORE_WAIT, 2000L);

    for (int i = 0; i < 2000; i++)
        buffer_put_bytes(&request, (struct slice){"/w", 2});
    breaks_off(1, request);
}

Test(store_protocol, a_peer_that_does_not_read_is_not_served_on)
{
    static char text[100001];

    memset(text, 'v', sizeof text - 1);
    ask(0, STORE_SET, "bb", "/v", text);
    for (int i = 0; i < 100; i++)
        ask(0, STORE_GET, "b", "/v");
    cr_assert(store_session_blocked(&peers[0]));
    cr_assert_lt(peers[0].out.size, STORE_SESSION_HIGH_WATER + 200000);

    size_t answers = 0;

    while (peers[0].out.size) {
        cr_assert_eq(peers[0].out.size % 100008, 0);
        answers += peers[0].out.size / 100008;
        buffer_clear(&peers[0].out, 0);
        cr_assert_eq(store_session_run(&peers[0]), TUTTI_OK);
    }
    cr_assert_eq(answers, 100);
}

/* ---- Captures of a real torch client ---- */

struct capture {
    struct buffer sent;     /* by the client, all of it */
    struct buffer expected; /* from the server, all of it */
};

static int hex_digit(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Lines are "seconds C> hex" and "seconds S> hex", with a comment behind. */
static struct capture read_capture(const char *name)
{
    struct capture capture = {0};
    char path[512], line[8192];

    snprintf(path, sizeof path, "%s/tests/unit/data/tcpstore/%s", TUTTI_SOURCE_DIR, name);

    FILE *file = fopen(path, "r");

    cr_assert_not_null(file, "%s", path);
    while (fgets(line, sizeof line, file)) {
        const char *at = strchr(line, '>');

        if (line[0] == '#' || !at)
            continue;

        struct buffer *side = at[-1] == 'C' ? &capture.sent : &capture.expected;

        for (at += 2; hex_digit(at[0]) >= 0 && hex_digit(at[1]) >= 0; at += 2)
            buffer_put_uint(side, (uint8_t)(16 * hex_digit(at[0]) + hex_digit(at[1])), 1);
    }
    fclose(file);
    return capture;
}

/* Replies of LIST_KEYS come in any order: sorts the keys of the one at `at`. Returns its size. */
static size_t sort_list(uint8_t *at, const uint8_t *end)
{
    struct store_request list = {.fields = {.data = at, .size = (size_t)(end - at)}};
    uint64_t count = read_u64(&list.fields);
    char keys[16][64];
    struct buffer sorted = {0};

    cr_assert_leq(count, 16);
    for (uint64_t i = 0; i < count; i++) {
        struct slice key = store_request_bytes(&list);

        snprintf(keys[i], sizeof keys[i], "%.*s", (int)key.size, (const char *)key.data);
    }
    qsort(keys, count, sizeof keys[0], compare_text);
    for (uint64_t i = 0; i < count; i++)
        buffer_put_bytes(&sorted, (struct slice){keys[i], strlen(keys[i])});
    if (sorted.size)
        memcpy(at + 8, sorted.data, sorted.size);
    buffer_free(&sorted);
    return 8 + sorted.size;
}

/* Offsets of the two LIST_KEYS replies in client-all-operations.txt. */
static void sort_lists(struct buffer *replies, const size_t *offsets, size_t count)
{
    for (size_t i = 0; i < count; i++)
        sort_list(replies->data + offsets[i], replies->data + replies->size);
}

static size_t find(const struct buffer *in, const char *what, size_t size, size_t from)
{
    const uint8_t *at = memmem(in->data + from, in->size - from, what, size);

    cr_assert_not_null(at);
    return (size_t)(at - in->data);
}

Test(store_protocol, a_real_clients_bytes_get_the_real_servers_answers_in_any_fragmentation)
{
    static const size_t pieces[] = {SIZE_MAX, 1, 2, 3, 7, 64};
    struct capture capture = read_capture("client-all-operations.txt");
    size_t lists[2];

    /* each reply of LIST_KEYS begins with its count; they are the only ones with 5 and 8 keys */
    lists[0] = find(&capture.expected, "\5\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0/b", 18, 0);
    lists[1] = find(&capture.expected, "\10\0\0\0\0\0\0\0\16\0\0\0\0\0\0\0/", 17, lists[0]);
    sort_lists(&capture.expected, lists, 2);
    for (size_t i = 0; i < sizeof pieces / sizeof pieces[0]; i++) {
        stop(), start();
        store_session_free(&peers[0]);
        store_session_init(&peers[0], map, true, NULL);
        for (size_t at = 0, size; at < capture.sent.size; at += size) {
            size = capture.sent.size - at < pieces[i] ? capture.sent.size - at : pieces[i];
            cr_assert_eq(store_session_feed(&peers[0], capture.sent.data + at, size), TUTTI_OK);
        }
        cr_assert_eq(peers[0].out.size, capture.expected.size);
        sort_lists(&peers[0].out, lists, 2);
        cr_assert(memcmp(peers[0].out.data, capture.expected.data, capture.expected.size) == 0);
    }
    buffer_free(&capture.sent);
    buffer_free(&capture.expected);
}

Test(store_protocol, bytes_of_torch_jobs_are_understood)
{
    static const char *const names[] = {"client-clone.txt", "torchrun-rank0-gloo.txt",
                                        "torchrun-rank1-gloo.txt"};

    for (size_t i = 0; i < 3; i++) {
        struct capture capture = read_capture(names[i]);
        struct store_wire wire = {0};
        struct store_request request;
        bool whole = true;
        int requests = 0;

        cr_assert_eq(store_wire_feed(&wire, capture.sent.data, capture.sent.size), TUTTI_OK);
        while (whole) {
            cr_assert_eq(store_wire_next(&wire, &request, &whole), TUTTI_OK, "%s",
                         tutti_last_error());
            requests += whole;
        }
        cr_assert_eq(wire.in.size, wire.start, "%s: a rest", names[i]);
        cr_assert(requests > 2);
        buffer_free(&wire.in);
        buffer_free(&capture.sent);
        buffer_free(&capture.expected);
    }
}
