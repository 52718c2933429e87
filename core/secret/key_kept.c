/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where keys lie that live longer than a call: in pages that the kernel leaves out of core dumps and gives to
 * no forked child (MADV_DONTDUMP, MADV_WIPEONFORK). Each is wiped before it is returned.
 *
 * Kept keys share pages, since a process may have many groups. Which places are taken is noted outside of the
 * pages, so that a forked child, in which they are zeros, still knows it.
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "base/error.h"
#include "secret/key.h"

enum { PAGE_BYTES = 4096, PLACES = PAGE_BYTES / KEY_BYTES };

struct page {
    struct page *next;
    struct key *keys; /* [PLACES] */
    int count;
    bool taken[PLACES];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static struct page *pages;

void *key_pages_new(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (memory == MAP_FAILED)
        return NULL;
    /* Without them it is still wiped at its end. */
    (void)madvise(memory, bytes, MADV_DONTDUMP);
    (void)madvise(memory, bytes, MADV_WIPEONFORK);
    return memory;
}

void key_pages_free(void *memory, size_t bytes)
{
    key_wipe(memory, bytes);
    munmap(memory, bytes);
}

/* ---- single keys ---- */

static void lock(void)
{
    pthread_mutex_lock(&mutex);
}

static void unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

static void begin(void)
{
    pthread_atfork(lock, unlock, unlock);
}

static struct page *page_new(void)
{
    struct page *page = calloc(1, sizeof *page);

    if (!page || !(page->keys = key_pages_new(PAGE_BYTES))) {
        free(page);
        return NULL;
    }
    page->next = pages;
    pages = page;
    return page;
}

static struct key *take_place(void)
{
    struct page *page = pages;
    int place = 0;

    while (page && page->count == PLACES)
        page = page->next;
    if (!page && !(page = page_new()))
        return NULL;
    while (page->taken[place])
        place++;
    page->taken[place] = true;
    page->count++;
    return &page->keys[place];
}

tutti_status key_keep(const struct key *key, const struct key **ret_kept)
{
    pthread_once(&once, begin);
    lock();
    struct key *place = take_place();

    if (place) {
        *place = *key;
        *ret_kept = place;
    }
    unlock();
    return place ? TUTTI_OK : error_set(TUTTI_ERR_NO_MEMORY, "no memory for a key");
}

static bool is_in(const struct page *page, const struct key *key)
{
    return key >= page->keys && key < page->keys + PLACES;
}

void key_drop(const struct key *kept)
{
    struct page **at = &pages;

    if (!kept)
        return;
    lock();
    while (!is_in(*at, kept))
        at = &(*at)->next;

    struct page *page = *at;

    key_wipe(&page->keys[kept - page->keys], sizeof *kept);
    page->taken[kept - page->keys] = false;
    if (!--page->count) {
        *at = page->next;
        key_pages_free(page->keys, PAGE_BYTES);
        free(page);
    }
    unlock();
}
