/* SPDX-License-Identifier: Apache-2.0 */
/*
 * All calls of a store, in one process. The store is a hash store, which threads as ranks can share. A
 * file store and a tcp store have the same calls.
 *
 *     cc store_calls.c $(pkg-config --cflags --libs tutti) -o store_calls
 *     ./store_calls
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tutti/tutti.h>

enum { TIMEOUT_MS = 10000 };

static void must(tutti_status status)
{
    if (status == TUTTI_OK)
        return;
    fprintf(stderr, "%s\n", tutti_last_error());
    exit(1);
}

static void set(tutti_store *store, const char *key, const char *value)
{
    must(tutti_store_set(store, key, value, strlen(value), TIMEOUT_MS));
}

int main(void)
{
    static const char *const keys[] = {"color", "shape"};
    tutti_store *store, *other;
    tutti_store_value values[2], now;
    int64_t count;
    int32_t there, existed;

    must(tutti_store_open_hash(&store));
    other = tutti_store_ref(store); /* for another thread, say */

    set(store, "color", "red");
    must(tutti_store_append(store, "color", "dish", 4, TIMEOUT_MS));
    must(tutti_store_check(store, keys, 2, TIMEOUT_MS, &there));
    printf("both keys are there: %s\n", there ? "yes" : "no");
    set(other, "shape", "round");
    must(tutti_store_wait(store, keys, 2, TIMEOUT_MS));
    must(tutti_store_multi_get(store, keys, 2, TIMEOUT_MS, values));
    for (int i = 0; i < 2; i++) {
        printf("%s: %s\n", keys[i], (const char *)values[i].data);
        tutti_store_value_free(&values[i]);
    }

    /* Changes the value only if it is the expected one. */
    must(tutti_store_compare_set(store, "shape", "square", 6, "flat", 4, TIMEOUT_MS, &now));
    printf("shape: still %s\n", (const char *)now.data);
    tutti_store_value_free(&now);
    must(tutti_store_compare_set(store, "shape", "round", 5, "flat", 4, TIMEOUT_MS, &now));
    printf("shape: now %s\n", (const char *)now.data);
    tutti_store_value_free(&now);

    must(tutti_store_delete(store, "color", TIMEOUT_MS, &existed));
    must(tutti_store_num_keys(store, TIMEOUT_MS, &count));
    printf("%lld key is left\n", (long long)count);
    tutti_store_unref(other);
    tutti_store_unref(store);
    return 0;
}
