/* SPDX-License-Identifier: Apache-2.0 */
/* The file store's file: whatever it holds, opening it ends, and what opens can be written to. */
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <tutti/store.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int fd = memfd_create("store", MFD_CLOEXEC);
    tutti_store *store;
    tutti_store_value value;
    char path[32];

    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    if (!tutti_store_open_file(path, 0, 1000, &store)) {
        if (tutti_store_set(store, "k", "v", 1, 1000) || tutti_store_get(store, "k", 1000, &value))
            abort();
        tutti_store_value_free(&value);
        tutti_store_unref(store);
    }
    close(fd);
    return 0;
}
