/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Words that streams wait on. A stream waits until the word has reached a value, and each wait takes the next
 * value of its word. So an open word can serve again at once: streams that have not looked yet find a later
 * value, which opens them, too.
 */
#include <stdlib.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "device/device_inside.h"

enum { WORDS_AT_ONCE = 64, WORD_BYTES = 64 }; /* a line each */

static struct device_word *take_open(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    struct device_word *word = device->words;

    if (word) {
        device->words = word->next;
        device->words_taken++;
    }
    return word;
}

static void add_open(struct device *device, struct device_word *word)
{
    LOCK_SCOPE(&device->lock);
    word->next = device->words;
    device->words = word;
}

/* They are kept as long as the device. */
static tutti_status make(struct device *device)
{
    struct device_word *words = calloc(WORDS_AT_ONCE, sizeof *words);
    void *memory;

    if (!words)
        return error_set(TUTTI_ERR_NO_MEMORY, "no memory for words that streams wait on");
    tutti_status status = device_ops(device)->allocate(device->accelerator, TUTTI_MEMORY_PINNED,
                                                       WORDS_AT_ONCE * WORD_BYTES, &memory);
    if (status) {
        free(words);
        return status;
    }
    for (int i = 0; i < WORDS_AT_ONCE; i++) {
        words[i].device = device;
        words[i].at = (_Atomic uint32_t *)((char *)memory + (size_t)i * WORD_BYTES);
        atomic_store(words[i].at, 0);
        add_open(device, &words[i]);
    }
    return TUTTI_OK;
}

tutti_status device_word_take(struct device *device, struct device_word **ret_word)
{
    if (!TUTTI_HAS(device_ops(device), wait_word))
        return error_set(TUTTI_ERR_UNSUPPORTED, "streams of %s cannot wait for a word of the host",
                         device->name);
    struct device_word *word;
    tutti_status status = TUTTI_OK;

    while (!(word = take_open(device)) && !status)
        status = make(device);
    if (status)
        return status;
    word->value++;
    *ret_word = word;
    return TUTTI_OK;
}

tutti_status device_word_wait(const struct device_word *word, void *stream)
{
    struct device *device = word->device;

    return device_ops(device)->wait_word(device->accelerator, stream, (uint32_t *)word->at,
                                         word->value);
}

void device_word_open(struct device_word *word)
{
    struct device *device = word->device;
    LOCK_SCOPE(&device->lock);

    atomic_store_explicit(word->at, word->value, memory_order_release);
    device->words_taken--;
    word->next = device->words;
    device->words = word;
}

bool device_streams_wait(struct device *device)
{
    LOCK_SCOPE(&device->lock);
    return device->words_taken;
}
