/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A store made from functions, for programs that already have a dictionary which all ranks can reach. Here
 * the ranks are two threads, and the dictionary is an array with a lock.
 *
 *     cc store_of_functions.c $(pkg-config --cflags --libs tutti) -pthread -o store_of_functions
 *     ./store_of_functions
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { RANKS = 2, ROWS = 64 };

struct row {
    char key[256];
    tutti_store_value value;
};

static struct dictionary {
    pthread_mutex_t lock;
    struct row rows[ROWS];
    int count;
} dictionary = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

static struct row *find(const char *key)
{
    for (int i = 0; i < dictionary.count; i++)
        if (strcmp(dictionary.rows[i].key, key) == 0)
            return &dictionary.rows[i];
    return NULL;
}

static tutti_status put(const char *key, const void *data, size_t size)
{
    struct row *row = find(key);
    tutti_store_value value;

    if (!row && (dictionary.count == ROWS || strlen(key) >= sizeof row->key))
        return TUTTI_ERR_NO_MEMORY;
    if (tutti_store_value_set(&value, data, size) != TUTTI_OK)
        return TUTTI_ERR_NO_MEMORY;
    if (row) {
        tutti_store_value_free(&row->value);
    } else {
        row = &dictionary.rows[dictionary.count++];
        strcpy(row->key, key);
    }
    row->value = value;
    return TUTTI_OK;
}

static tutti_status set(void *self, const char *key, const void *data, size_t size,
                        int64_t timeout_ms)
{
    (void)self, (void)timeout_ms;
    pthread_mutex_lock(&dictionary.lock);
    tutti_status status = put(key, data, size);
    pthread_mutex_unlock(&dictionary.lock);
    return status;
}

/* Does not wait for the key: tutti looks again. */
static tutti_status get(void *self, const char *key, int64_t timeout_ms,
                        tutti_store_value *ret_value)
{
    (void)self, (void)timeout_ms;
    pthread_mutex_lock(&dictionary.lock);
    const struct row *row = find(key);
    tutti_status status = row ? tutti_store_value_set(ret_value, row->value.data, row->value.size)
                              : TUTTI_ERR_NOT_READY;
    pthread_mutex_unlock(&dictionary.lock);
    return status;
}

static tutti_status compare_set(void *self, const char *key, const void *expected,
                                size_t expected_size, const void *desired, size_t desired_size,
                                int64_t timeout_ms, tutti_store_value *ret_value)
{
    tutti_status status = TUTTI_OK;

    (void)self, (void)timeout_ms;
    pthread_mutex_lock(&dictionary.lock);
    const struct row *row = find(key);
    if (row ? row->value.size == expected_size &&
                  (expected_size == 0 || memcmp(row->value.data, expected, expected_size) == 0)
            : expected_size == 0) {
        status = put(key, desired, desired_size);
        row = find(key);
    }
    if (status == TUTTI_OK) /* what is there now; where there is nothing, what was expected */
        status = tutti_store_value_set(ret_value, row ? row->value.data : expected,
                                       row ? row->value.size : expected_size);
    pthread_mutex_unlock(&dictionary.lock);
    return status;
}

static void *run(void *argument)
{
    const tutti_store_ops ops = {
        .struct_size = sizeof ops, .set = set, .get = get, .compare_set = compare_set};
    tutti_init_options options = TUTTI_INIT_OPTIONS_INIT;
    tutti_group *world;

    must(tutti_store_create(&ops, &dictionary, &options.store));
    must(tutti_context_create(&options.context));
    options.rank = *(const int *)argument;
    options.world_size = RANKS;
    must(tutti_init(&options, &world));
    must(tutti_barrier(world, NULL, NULL));
    printf("rank %d of %d\n", tutti_group_rank(world), tutti_group_size(world));
    must(tutti_group_destroy(world));
    must(tutti_context_destroy(options.context));
    tutti_store_unref(options.store);
    return NULL;
}

int main(void)
{
    int ranks[RANKS];
    pthread_t threads[RANKS];

    for (int r = 0; r < RANKS; r++) {
        ranks[r] = r;
        if (pthread_create(&threads[r], NULL, run, &ranks[r]) != 0)
            return 1;
    }
    for (int r = 0; r < RANKS; r++)
        pthread_join(threads[r], NULL);
    for (int i = 0; i < dictionary.count; i++)
        tutti_store_value_free(&dictionary.rows[i].value);
    return 0;
}
