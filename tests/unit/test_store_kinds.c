/* SPDX-License-Identifier: Apache-2.0 */
/* What every kind of store has in common: each case runs over hash, file, tcp and prefix stores, and a program's own. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/clock.h"

struct kind {
    const char *name;
    tutti_store *store;
    tutti_store_server *server;
    char path[64];
};

/* ---- a program's own store, of a dictionary that it has ---- */

static tutti_status dictionary_set(void *self, const char *key, const void *data, size_t size,
                                   int64_t timeout_ms)
{
    return tutti_store_set(self, key, data, size, timeout_ms ? timeout_ms : 1);
}

static tutti_status dictionary_get(void *self, const char *key, int64_t timeout_ms,
                                   tutti_store_value *ret_value)
{
    tutti_store_value value;
    int32_t present;

    (void)timeout_ms;
    if (tutti_store_check(self, &key, 1, 1000, &present) || !present)
        return TUTTI_ERR_NOT_READY;
    if (tutti_store_get(self, key, 1000, &value))
        return TUTTI_ERR_INTERNAL;
    tutti_status status = tutti_store_value_set(ret_value, value.data, value.size);
    tutti_store_value_free(&value);
    return status;
}

static tutti_status dictionary_compare_set(void *self, const char *key, const void *expected,
                                           size_t expected_size, const void *desired,
                                           size_t desired_size, int64_t timeout_ms,
                                           tutti_store_value *ret_value)
{
    (void)timeout_ms;
    return tutti_store_compare_set(self, key, expected, expected_size, desired, desired_size, 1000,
                                   ret_value);
}

static tutti_status dictionary_add(void *self, const char *key, int64_t delta, int64_t timeout_ms,
                                   int64_t *ret_value)
{
    (void)timeout_ms;
    return tutti_store_add(self, key, delta, 1000, ret_value);
}

static tutti_status dictionary_append(void *self, const char *key, const void *data, size_t size,
                                      int64_t timeout_ms)
{
    (void)timeout_ms;
    return tutti_store_append(self, key, data, size, 1000);
}

static tutti_status dictionary_remove(void *self, const char *key, int64_t timeout_ms,
                                      int32_t *ret_existed)
{
    (void)timeout_ms;
    return tutti_store_delete(self, key, 1000, ret_existed);
}

static tutti_status dictionary_num_keys(void *self, int64_t timeout_ms, int64_t *ret_count)
{
    (void)timeout_ms;
    return tutti_store_num_keys(self, 1000, ret_count);
}

static void dictionary_close(void *self)
{
    tutti_store_unref(self);
}

static const tutti_store_ops dictionary = {
    .struct_size = sizeof dictionary,
    .set = dictionary_set,
    .get = dictionary_get,
    .compare_set = dictionary_compare_set,
    .add = dictionary_add,
    .append = dictionary_append,
    .remove = dictionary_remove,
    .num_keys = dictionary_num_keys,
    .close = dictionary_close,
};

static void open_kind(struct kind *kind, const char *name)
{
    *kind = (struct kind){.name = name};
    if (!strcmp(name, "file")) {
        snprintf(kind->path, sizeof kind->path, "/tmp/tutti-test-store-%d", (int)getpid());
        unlink(kind->path);
        cr_assert_eq(tutti_store_open_file(kind->path, 1, 1000, &kind->store), TUTTI_OK, "%s",
                     tutti_last_error());
    } else if (!strcmp(name, "tcp")) {
        cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &kind->server), TUTTI_OK);
        cr_assert_eq(tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(kind->server), 5000,
                                          &kind->store),
                     TUTTI_OK, "%s", tutti_last_error());
    } else {
        cr_assert_eq(tutti_store_open_hash(&kind->store), TUTTI_OK);
    }
    if (!strcmp(name, "own")) {
        cr_assert_eq(tutti_store_create(&dictionary, kind->store, &kind->store), TUTTI_OK, "%s",
                     tutti_last_error());
    }
    if (!strcmp(name, "prefix")) {
        tutti_store *inner = kind->store;

        cr_assert_eq(tutti_store_open_prefix(inner, "a/b", &kind->store), TUTTI_OK);
        tutti_store_unref(inner);
    }
}

static void close_kind(struct kind *kind)
{
    tutti_store_unref(kind->store);
    tutti_store_server_stop(kind->server);
    if (kind->path[0])
        cr_expect_eq(access(kind->path, F_OK), -1, "the last member removes the file");
}

#define FOR_EACH_KIND(kind)                                                                        \
    for (const char *const *kind_name = kind_names; *kind_name; kind_name++)                       \
        for (struct kind kind = {0}; !kind.name && (open_kind(&kind, *kind_name), 1);              \
             close_kind(&kind))

static const char *const kind_names[] = {"hash", "file", "tcp", "prefix", "own", NULL};

static void check_value(struct kind *kind, const char *key, const void *data, size_t size)
{
    tutti_store_value value;

    cr_assert_eq(tutti_store_get(kind->store, key, 1000, &value), TUTTI_OK, "%s: %s", kind->name,
                 tutti_last_error());
    cr_assert_eq(value.size, size, "%s: %zu bytes", kind->name, value.size);
    cr_assert(memcmp(value.data, data, size) == 0, "%s", kind->name);
    cr_assert_eq(((char *)value.data)[size], 0, "a NUL follows");
    tutti_store_value_free(&value);
}

Test(store_kinds, values_are_raw_bytes_and_the_last_write_counts, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        cr_assert_eq(tutti_store_set(kind.store, "k", "a\0b", 3, 0), TUTTI_OK);
        check_value(&kind, "k", "a\0b", 3);
        cr_assert_eq(tutti_store_set(kind.store, "k", NULL, 0, 0), TUTTI_OK);
        check_value(&kind, "k", "", 0);
        cr_assert_eq(tutti_store_set(kind.store, "", "empty key", 9, 0), TUTTI_OK);
        check_value(&kind, "", "empty key", 9);
        cr_assert_eq(tutti_store_append(kind.store, "k", "xy", 2, 0), TUTTI_OK);
        cr_assert_eq(tutti_store_append(kind.store, "k", "z", 1, 0), TUTTI_OK);
        check_value(&kind, "k", "xyz", 3);
        cr_assert_eq(tutti_store_append(kind.store, "new", "n", 1, 0), TUTTI_OK);
        check_value(&kind, "new", "n", 1);
    }
}

Test(store_kinds, add_keeps_decimal_text_and_reads_what_looks_like_a_number, .timeout = 20)
{
    static const struct {
        const char *before;
        int64_t delta, after;
        const char *text;
    } cases[] = {
        {NULL, 3, 3, "3"},
        {"5", -7, -2, "-2"},
        {"12abc", 1, 13, "13"},
        {" +4", 0, 4, "4"},
        {"-0", 0, 0, "0"},
        {"9223372036854775807", 0, INT64_MAX, "9223372036854775807"},
        {NULL, INT64_MIN, INT64_MIN, "-9223372036854775808"},
    };

    FOR_EACH_KIND(kind)
    {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            int64_t value;
            char key[8];

            snprintf(key, sizeof key, "n%zu", i);
            if (cases[i].before)
                cr_assert_eq(
                    tutti_store_set(kind.store, key, cases[i].before, strlen(cases[i].before), 0),
                    TUTTI_OK);
            cr_assert_eq(tutti_store_add(kind.store, key, cases[i].delta, 0, &value), TUTTI_OK,
                         "%s: %s", kind.name, tutti_last_error());
            cr_assert_eq(value, cases[i].after, "%s: case %zu: %" PRId64, kind.name, i, value);
            check_value(&kind, key, cases[i].text, strlen(cases[i].text));
        }
    }
}

Test(store_kinds, add_to_what_is_no_number_is_an_error_with_words, .timeout = 20)
{
    static const char *const values[] = {"", "x1", "-", "99999999999999999999"};

    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        FOR_EACH_KIND(kind)
        {
            int64_t value = 77;

            cr_assert_eq(tutti_store_set(kind.store, "k", values[i], strlen(values[i]), 0),
                         TUTTI_OK);
            cr_assert_eq(tutti_store_add(kind.store, "k", 1, 0, &value), TUTTI_ERR_STORE);
            cr_assert_eq(value, 77, "outputs are untouched");
            cr_assert_not_null(strstr(tutti_last_error(), "number"), "%s: %s", kind.name,
                               tutti_last_error());
        }
    }
}

Test(store_kinds, compare_set_stores_only_over_what_was_expected, .timeout = 20)
{
    static const struct {
        const char *before, *expected, *desired, *reply, *after; /* NULL: missing */
    } cases[] = {
        {NULL, "", "new", "new", "new"},     {NULL, "exp", "y", "exp", NULL},
        {"old", "old", "new", "new", "new"}, {"old", "bad", "x", "old", "old"},
        {"old", "", "x", "old", "old"},      {"", "", "x", "x", "x"},
    };

    FOR_EACH_KIND(kind)
    {
        for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
            tutti_store_value value;
            int32_t present;
            char room[8];
            const char *key = room;

            snprintf(room, sizeof room, "c%zu", i);
            if (cases[i].before)
                tutti_store_set(kind.store, key, cases[i].before, strlen(cases[i].before), 0);
            cr_assert_eq(tutti_store_compare_set(kind.store, key, cases[i].expected,
                                                 strlen(cases[i].expected), cases[i].desired,
                                                 strlen(cases[i].desired), 0, &value),
                         TUTTI_OK, "%s: %s", kind.name, tutti_last_error());
            cr_assert_str_eq(value.data, cases[i].reply, "%s: case %zu", kind.name, i);
            tutti_store_value_free(&value);
            cr_assert_eq(tutti_store_check(kind.store, &key, 1, 0, &present), TUTTI_OK);
            cr_assert_eq(present, cases[i].after != NULL);
            if (cases[i].after)
                check_value(&kind, key, cases[i].after, strlen(cases[i].after));
        }
    }
}

Test(store_kinds, deleted_keys_are_gone_and_counted_out, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        static const char *const keys[] = {"a", "b"};
        int64_t before, count;
        int32_t flag;

        cr_assert_eq(tutti_store_num_keys(kind.store, 0, &before), TUTTI_OK);
        tutti_store_set(kind.store, "a", "1", 1, 0);
        tutti_store_set(kind.store, "b", "2", 1, 0);
        cr_assert_eq(tutti_store_num_keys(kind.store, 0, &count), TUTTI_OK);
        cr_assert_eq(count, before + 2);
        cr_assert_eq(tutti_store_check(kind.store, keys, 2, 0, &flag), TUTTI_OK);
        cr_assert_eq(flag, 1);
        cr_assert_eq(tutti_store_delete(kind.store, "a", 0, &flag), TUTTI_OK);
        cr_assert_eq(flag, 1);
        cr_assert_eq(tutti_store_delete(kind.store, "a", 0, &flag), TUTTI_OK);
        cr_assert_eq(flag, 0);
        cr_assert_eq(tutti_store_delete(kind.store, "a", 0, NULL), TUTTI_OK);
        cr_assert_eq(tutti_store_check(kind.store, keys, 2, 0, &flag), TUTTI_OK);
        cr_assert_eq(flag, 0);
        cr_assert_eq(tutti_store_check(kind.store, NULL, 0, 0, &flag), TUTTI_OK);
        cr_assert_eq(flag, 1, "an empty list is present");
        cr_assert_eq(tutti_store_num_keys(kind.store, 0, &count), TUTTI_OK);
        cr_assert_eq(count, before + 1);
    }
}

Test(store_kinds, multi_get_returns_values_in_the_order_of_keys, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        static const char *const keys[] = {"b", "a", "b"};
        tutti_store_value values[3];

        tutti_store_set(kind.store, "a", "1", 1, 0);
        tutti_store_set(kind.store, "b", "22", 2, 0);
        cr_assert_eq(tutti_store_multi_get(kind.store, keys, 3, 0, values), TUTTI_OK);
        cr_assert_str_eq(values[0].data, "22");
        cr_assert_str_eq(values[1].data, "1");
        cr_assert_str_eq(values[2].data, "22");
        for (int i = 0; i < 3; i++)
            tutti_store_value_free(&values[i]);
    }
}

Test(store_kinds, a_wait_ends_at_its_deadline_with_the_keys_in_words, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        static const char *const keys[] = {"here",   "never1", "never2",
                                           "never3", "never4", "never5"};
        tutti_store_value value = {NULL, 9};
        const int64_t start = clock_now_ns();

        tutti_store_set(kind.store, "here", "", 0, 0);
        cr_assert_eq(tutti_store_wait(kind.store, keys, 6, 120), TUTTI_ERR_TIMEOUT);

        const int64_t took_ms = (clock_now_ns() - start) / CLOCK_NS_PER_MS;

        cr_assert(took_ms >= 119 && took_ms < 10000, "%s: %" PRId64, kind.name, took_ms);
        cr_assert_not_null(strstr(tutti_last_error(), "120 ms"), "%s", tutti_last_error());
        cr_assert_not_null(strstr(tutti_last_error(), "never3\" and 2 more"), "%s",
                           tutti_last_error());
        cr_assert_eq(tutti_store_get(kind.store, "never1", 20, &value), TUTTI_ERR_TIMEOUT);
        cr_assert_eq(value.size, 9, "outputs are untouched");
        cr_assert_eq(tutti_store_multi_get(kind.store, keys, 2, 20, &value), TUTTI_ERR_TIMEOUT);
        tutti_store_set(kind.store, "never1", "x", 1, 0);
        check_value(&kind, "never1", "x", 1);
    }
}

static void *set_later(void *argument)
{
    usleep(50 * 1000);
    cr_assert_eq(tutti_store_set(argument, "late", "v", 1, 0), TUTTI_OK);
    return NULL;
}

/* A second handle on the same store: by the path or port, or the same one where threads share it.
 */
static tutti_store *second_handle(struct kind *kind)
{
    tutti_store *store;

    if (kind->path[0])
        cr_assert_eq(tutti_store_open_file(kind->path, 2, 1000, &store), TUTTI_OK);
    else if (kind->server)
        cr_assert_eq(
            tutti_store_open_tcp("localhost", tutti_store_server_port(kind->server), 5000, &store),
            TUTTI_OK);
    else
        store = tutti_store_ref(kind->store);
    return store;
}

Test(store_kinds, a_wait_sees_what_another_member_writes, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        tutti_store *other = second_handle(&kind);
        pthread_t thread;

        cr_assert_eq(pthread_create(&thread, NULL, set_later, other), 0);
        check_value(&kind, "late", "v", 1);
        pthread_join(thread, NULL);
        tutti_store_unref(other);
    }
}

Test(store_kinds, what_cannot_be_is_refused_before_anything_happens, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        static char big_key[TUTTI_STORE_MAX_KEY + 2];
        static const char *no_keys[] = {NULL};
        void *big = calloc(1, TUTTI_STORE_MAX_VALUE + 1);
        tutti_store_value value;
        int32_t flag;
        int64_t number;

        memset(big_key, 'k', sizeof big_key - 1);
        cr_assert_eq(tutti_store_set(kind.store, big_key, "", 0, 0), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_set(kind.store, NULL, "", 0, 0), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_set(kind.store, "k", NULL, 1, 0), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_set(kind.store, "k", "", 0, -1), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_set(kind.store, "k", big, TUTTI_STORE_MAX_VALUE + 1, 0),
                     TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_append(kind.store, "k", big, TUTTI_STORE_MAX_VALUE + 1, 0),
                     TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_get(kind.store, "k", 0, NULL), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_compare_set(kind.store, "k", NULL, 0, big,
                                             TUTTI_STORE_MAX_VALUE + 1, 0, &value),
                     TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_wait(kind.store, NULL, 1, 0), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_wait(kind.store, no_keys, 1, 0), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_check(kind.store, no_keys, TUTTI_STORE_MAX_KEYS + 1, 0, &flag),
                     TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_eq(tutti_store_num_keys(NULL, 0, &number), TUTTI_ERR_INVALID_ARGUMENT);
        cr_assert_not_null(strstr(tutti_last_error(), "NULL"));

        /* the largest of everything goes through */
        big_key[TUTTI_STORE_MAX_KEY - 1 - (strcmp(kind.name, "prefix") ? 0 : strlen("a/b/"))] = 0;
        cr_assert_eq(tutti_store_set(kind.store, big_key, big, TUTTI_STORE_MAX_VALUE, 0), TUTTI_OK,
                     "%s: %s", kind.name, tutti_last_error());
        check_value(&kind, big_key, big, TUTTI_STORE_MAX_VALUE);
        cr_assert_eq(tutti_store_append(kind.store, "k", big, 10, 0), TUTTI_OK);
        free(big);
    }
}

Test(store_kinds, handles_are_refused_in_a_forked_child_and_live_on_in_the_parent, .timeout = 20)
{
    FOR_EACH_KIND(kind)
    {
        int status;

        tutti_store_set(kind.store, "k", "v", 1, 0);

        pid_t child = fork();

        if (!child) {
            tutti_store_value value;
            tutti_store *view;
            bool right = tutti_store_get(kind.store, "k", 100, &value) == TUTTI_ERR_FORKED &&
                         strstr(tutti_last_error(), "fork") &&
                         tutti_store_open_prefix(kind.store, "p", &view) == TUTTI_ERR_FORKED;

            tutti_store_unref(kind.store);
            tutti_store_server_stop(kind.server);
            _exit(right ? 0 : 1);
        }
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert_eq(status, 0, "%s", kind.name);
        check_value(&kind, "k", "v", 1);
    }
}

Test(store_kinds, prefixes_nest_with_the_inner_one_first, .timeout = 20)
{
    tutti_store *hash, *inner, *outer;
    tutti_store_value value;

    cr_assert_eq(tutti_store_open_hash(&hash), TUTTI_OK);
    cr_assert_eq(tutti_store_open_prefix(hash, "inner", &inner), TUTTI_OK);
    cr_assert_eq(tutti_store_open_prefix(inner, "outer", &outer), TUTTI_OK);
    cr_assert_eq(tutti_store_set(outer, "z", "1", 1, 0), TUTTI_OK);
    cr_assert_eq(tutti_store_get(hash, "inner/outer/z", 10, &value), TUTTI_OK);
    tutti_store_value_free(&value);
    cr_assert_eq(tutti_store_get(outer, "q", 10, &value), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "/inner/outer/q"));
    tutti_store_unref(hash);
    tutti_store_unref(inner);
    tutti_store_unref(outer);
}

static tutti_status refuse_set(void *self, const char *key, const void *data, size_t size,
                               int64_t timeout_ms)
{
    (void)self, (void)key, (void)data, (void)size, (void)timeout_ms;
    return TUTTI_ERR_DENIED;
}

Test(store_kinds, what_a_store_of_ones_own_lacks_or_refuses_is_said, .timeout = 30)
{
    tutti_store_ops ops = {.struct_size = sizeof ops,
                           .set = refuse_set,
                           .get = dictionary_get,
                           .compare_set = dictionary_compare_set};
    tutti_store *inner, *store;
    tutti_store_value value;
    int64_t sum;

    cr_assert_eq(tutti_store_open_hash(&inner), TUTTI_OK);
    cr_assert_eq(tutti_store_create(&ops, inner, &store), TUTTI_OK, "%s", tutti_last_error());
    cr_expect_eq(tutti_store_set(store, "k", "v", 1, 1000), TUTTI_ERR_STORE);
    cr_expect_not_null(strstr(tutti_last_error(), "set of the key \"k\" returned TUTTI_ERR_DENIED"),
                       "%s", tutti_last_error());
    cr_expect_eq(tutti_store_get(store, "k", 50, &value), TUTTI_ERR_TIMEOUT);
    cr_expect_not_null(strstr(tutti_last_error(), "\"/k\" in the program's own store"), "%s",
                       tutti_last_error());
    cr_expect_eq(tutti_store_add(store, "k", 1, 1000, &sum), TUTTI_ERR_UNSUPPORTED);
    cr_expect_not_null(strstr(tutti_last_error(), "has no function \"add\""), "%s",
                       tutti_last_error());
    tutti_store_unref(store);
    tutti_store_unref(inner); /* there was no close() */
    ops.get = NULL;
    cr_expect_eq(tutti_store_create(&ops, NULL, &store), TUTTI_ERR_INVALID_ARGUMENT);
    ops.struct_size = 0;
    cr_expect_eq(tutti_store_create(&ops, NULL, &store), TUTTI_ERR_INVALID_ARGUMENT);
}
