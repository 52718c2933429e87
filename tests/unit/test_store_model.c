/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random operations of two members on one store against a model that a reader can check by eye.
 * TUTTI_TEST_SEED repeats a run.
 */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <tutti/store.h>

enum { KEYS = 6, VALUE_MAX = 4096, OPERATIONS = 3000 };

struct model_key {
    bool present;
    size_t size;
    char value[VALUE_MAX + 1];
};

static struct model_key model[KEYS];
static const char *const names[KEYS] = {"a", "b", "", "long/er key with blanks", "e", "\xff\x01"};
static uint64_t state;

static uint32_t random_below(uint32_t bound)
{
    state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)(state >> 33) % bound;
}

/* Mostly numbers, so that additions find some. */
static size_t random_value(char *value)
{
    size_t size = random_below(24) ? random_below(40) : random_below(1500);

    if (random_below(2))
        return (size_t)snprintf(value, VALUE_MAX, "%d", (int)random_below(2000) - 1000);
    for (size_t i = 0; i < size; i++)
        value[i] = (char)random_below(256);
    return size;
}

static void model_set(struct model_key *key, const char *value, size_t size)
{
    key->present = true;
    key->size = size;
    memcpy(key->value, value, size);
    key->value[size] = 0;
}

/* Whether torch would take the value for a number, and which. */
static bool model_number(const struct model_key *key, int64_t *ret_number)
{
    char *end;

    *ret_number = key->present ? strtoll(key->value, &end, 10) : 0;
    return !key->present || end != key->value;
}

static void check_equal(const tutti_store_value *value, const char *data, size_t size,
                        const char *what)
{
    cr_assert_eq(value->size, size, "%s: %zu bytes instead of %zu", what, value->size, size);
    cr_assert(memcmp(value->data, data, size) == 0, "%s", what);
}

static void step_compare_set(tutti_store *store, int k)
{
    struct model_key *key = &model[k];
    char expected[VALUE_MAX], desired[VALUE_MAX];
    size_t expected_size = random_value(expected), desired_size = random_value(desired);
    tutti_store_value value;

    if (random_below(2)) { /* the right one, or the one for a missing key */
        expected_size = key->present ? key->size : 0;
        memcpy(expected, key->value, expected_size);
    }
    cr_assert_eq(tutti_store_compare_set(store, names[k], expected, expected_size, desired,
                                         desired_size, 0, &value),
                 TUTTI_OK);

    bool equal = key->present
                     ? key->size == expected_size && !memcmp(key->value, expected, expected_size)
                     : expected_size == 0;

    if (equal)
        model_set(key, desired, desired_size);
    if (key->present)
        check_equal(&value, key->value, key->size, "compare_set");
    else
        check_equal(&value, expected, expected_size, "compare_set of a missing key");
    tutti_store_value_free(&value);
}

static void step_multi_get(tutti_store *store)
{
    const char *keys[KEYS];
    int which[KEYS], count = 0;
    tutti_store_value values[KEYS];

    for (int i = 0; i < KEYS; i++) {
        int k = (int)random_below(KEYS);

        if (model[k].present) {
            which[count] = k;
            keys[count++] = names[k];
        }
    }
    cr_assert_eq(tutti_store_wait(store, keys, (size_t)count, 1000), TUTTI_OK);
    cr_assert_eq(tutti_store_multi_get(store, keys, (size_t)count, 1000, values), TUTTI_OK);
    for (int i = 0; i < count; i++) {
        check_equal(&values[i], model[which[i]].value, model[which[i]].size, "multi_get");
        tutti_store_value_free(&values[i]);
    }
}

static void step_read(tutti_store *store, int k, int64_t other_keys)
{
    const char *const keys[] = {names[k], names[random_below(KEYS)]};
    tutti_store_value value;
    int64_t count, expected = other_keys;
    int32_t present, both = model[k].present;

    for (int i = 0; i < KEYS; i++) {
        expected += model[i].present;
        if (names[i] == keys[1])
            both &= model[i].present;
    }
    cr_assert_eq(tutti_store_check(store, keys, 2, 0, &present), TUTTI_OK);
    cr_assert_eq(present, both, "check");
    cr_assert_eq(tutti_store_num_keys(store, 0, &count), TUTTI_OK);
    cr_assert_eq(count, expected, "num_keys");
    if (model[k].present) {
        cr_assert_eq(tutti_store_get(store, names[k], 1000, &value), TUTTI_OK);
        check_equal(&value, model[k].value, model[k].size, "get");
        tutti_store_value_free(&value);
    } else if (random_below(8) == 0) {
        cr_assert_eq(tutti_store_get(store, names[k], 1, &value), TUTTI_ERR_TIMEOUT);
    }
}

static void step(tutti_store *store, int64_t other_keys)
{
    int k = (int)random_below(KEYS);
    struct model_key *key = &model[k];
    char value[VALUE_MAX];
    size_t size = random_value(value);
    int64_t number, sum, delta = (int64_t)random_below(100) - 50;
    int32_t existed;

    switch (random_below(8)) {
    case 0:
        cr_assert_eq(tutti_store_set(store, names[k], value, size, 0), TUTTI_OK);
        model_set(key, value, size);
        break;
    case 1:
        if (!model_number(key, &number))
            break; /* the server would end the connection */
        cr_assert_eq(tutti_store_add(store, names[k], delta, 0, &sum), TUTTI_OK);
        cr_assert_eq(sum, number + delta, "add");
        model_set(key, value, (size_t)snprintf(value, sizeof value, "%" PRId64, sum));
        break;
    case 2:
        step_compare_set(store, k);
        break;
    case 3:
        if ((key->present ? key->size : 0) + size > VALUE_MAX)
            break;
        cr_assert_eq(tutti_store_append(store, names[k], value, size, 0), TUTTI_OK);
        if (!key->present)
            key->size = 0;
        memcpy(key->value + key->size, value, size);
        key->size += size;
        key->value[key->size] = 0;
        key->present = true;
        break;
    case 4:
        cr_assert_eq(tutti_store_delete(store, names[k], 0, &existed), TUTTI_OK);
        cr_assert_eq(existed, key->present, "delete");
        key->present = false;
        break;
    case 5:
        step_multi_get(store);
        break;
    default:
        step_read(store, k, other_keys);
        break;
    }
}

static void run(tutti_store *first, tutti_store *second)
{
    const char *chosen = getenv("TUTTI_TEST_SEED");
    uint64_t seed =
        chosen ? strtoull(chosen, NULL, 10) : (uint64_t)time(NULL) * 1000 + (uint64_t)getpid();
    int64_t other_keys;

    fprintf(stderr, "store model: TUTTI_TEST_SEED=%" PRIu64 "\n", seed);
    state = seed;
    memset(model, 0, sizeof model);
    cr_assert_eq(tutti_store_num_keys(first, 0, &other_keys), TUTTI_OK);
    for (int i = 0; i < OPERATIONS; i++)
        step(random_below(2) ? first : second, other_keys);
    tutti_store_unref(first);
    tutti_store_unref(second);
}

Test(store_model, two_tcp_clients, .timeout = 60)
{
    tutti_store *first, *second;
    tutti_store_server *server;

    cr_assert_eq(tutti_store_server_start("127.0.0.1", 0, &server), TUTTI_OK);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(server), 5000, &first),
                 TUTTI_OK);
    cr_assert_eq(tutti_store_open_tcp("127.0.0.1", tutti_store_server_port(server), 5000, &second),
                 TUTTI_OK);
    run(first, second);
    tutti_store_server_stop(server);
}

Test(store_model, two_members_of_a_file, .timeout = 60)
{
    tutti_store *first, *second;
    char path[64];

    snprintf(path, sizeof path, "/tmp/tutti-test-model-%d", (int)getpid());
    unlink(path);
    cr_assert_eq(tutti_store_open_file(path, 2, 1000, &first), TUTTI_OK);
    cr_assert_eq(tutti_store_open_file(path, 2, 1000, &second), TUTTI_OK);
    run(first, second);
    cr_assert_neq(access(path, F_OK), 0);
}

Test(store_model, a_hash_store, .timeout = 60)
{
    tutti_store *store;

    cr_assert_eq(tutti_store_open_hash(&store), TUTTI_OK);
    run(store, tutti_store_ref(store));
}
