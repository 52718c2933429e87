/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of the plugin ucx that need no UCX: lists of devices, addresses, and the environment that is lent. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "address.h"
#include "devices.h"
#include "environment.h"
#include "interface.h"
#include "loaded.h"

TestSuite(ucx_parts, .timeout = 20);

/* ---- devices --------------------------------------------------------------------------------- */

#define SOCKET(name)                                                                               \
    {                                                                                              \
        "tcp", name, UCT_DEVICE_TYPE_NET                                                           \
    }
#define FABRIC(transport, name)                                                                    \
    {                                                                                              \
        transport, name, UCT_DEVICE_TYPE_NET                                                       \
    }
#define MEMORY(transport)                                                                          \
    {                                                                                              \
        transport, "memory", UCT_DEVICE_TYPE_SHM                                                   \
    }

static struct ucx_device plain[] = {
    SOCKET("lo"), SOCKET("eth0"), MEMORY("posix"), {"self", "memory", UCT_DEVICE_TYPE_SELF}};
static struct ucx_device cluster[] = {MEMORY("sysv"),
                                      SOCKET("eth0"),
                                      SOCKET("ib0"),
                                      FABRIC("rc_mlx5", "mlx5_0:1"),
                                      FABRIC("ud_mlx5", "mlx5_0:1"),
                                      FABRIC("rc_mlx5", "mlx5_1:1")};
static const struct ucx_devices no_devices = {.list = NULL};
static const struct ucx_devices plain_devices = {.list = plain,
                                                 .count = sizeof plain / sizeof plain[0]};
static const struct ucx_devices cluster_devices = {.list = cluster,
                                                   .count = sizeof cluster / sizeof cluster[0]};

Test(ucx_parts, only_a_network_device_without_a_socket_is_a_fabric)
{
    cr_expect_not(devices_have_fabric(&no_devices));
    cr_expect_not(devices_have_fabric(&plain_devices));
    cr_expect(devices_have_fabric(&cluster_devices));
}

Test(ucx_parts, of_the_sockets_only_the_one_of_the_interface_is_used)
{
    char list[64];

    cr_assert(devices_of_interface(&plain_devices, "eth0", list, sizeof list));
    cr_expect_str_eq(list, "eth0");
    cr_assert(devices_of_interface(&cluster_devices, "ib0", list, sizeof list));
    cr_expect_str_eq(list, "ib0,mlx5_0:1,mlx5_1:1");
    cr_expect_not(devices_of_interface(&plain_devices, "br0", list, sizeof list));
    cr_expect_not(devices_of_interface(&no_devices, "eth0", list, sizeof list));
    cr_expect_not(devices_of_interface(&cluster_devices, "ib0", list, 12)); /* no room */
}

Test(ucx_parts, the_interface_of_an_address_is_found)
{
    char name[64];

    cr_assert(interface_find("127.0.0.1", name, sizeof name));
    cr_expect_str_eq(name, "lo");
    cr_expect_not(interface_find("203.0.113.77", name, sizeof name));
    cr_expect_not(interface_find("nonsense", name, sizeof name));
}

/* ---- addresses ------------------------------------------------------------------------------- */

static char said[WORDS_BYTES];

static tutti_status host_error(void *self, tutti_status status, int32_t system_errno,
                               const char *words)
{
    (void)self;
    (void)system_errno;
    snprintf(said, sizeof said, "%s", words);
    return status;
}

/* `self` is the group's key. */
static tutti_status host_mac(void *self, const void *data, uint64_t bytes, uint8_t ret_mac[32])
{
    const uint8_t *at = data;
    uint64_t sum = *(const uint64_t *)self;

    for (uint64_t i = 0; i < bytes; i++)
        sum = (sum ^ at[i]) * UINT64_C(1099511628211);
    memset(ret_mac, 1, 32);
    memcpy(ret_mac, &sum, sizeof sum);
    return TUTTI_OK;
}

static const tutti_host host = {.struct_size = sizeof host, .error = host_error, .mac = host_mac};
static uint64_t our_key = 5, other_key = 6;
static const struct caller we = {&host, &our_key}, others = {&host, &other_key};

static uint64_t write_address(const struct caller *writer, uint16_t minor, void *ret_bytes)
{
    struct ucx_address address = {
        .major = 1, .minor = minor, .process = 7, .endpoint = 9, .blob = "blob!", .blob_bytes = 5};
    uint64_t count = 0;

    address_of_this_host(&address);
    cr_assert_eq(address_write(writer, &address, ret_bytes, 1000, &count), TUTTI_OK);
    return count;
}

Test(ucx_parts, an_address_is_read_as_it_was_written)
{
    const struct ucx_address own = {.major = 1, .minor = 13};
    struct ucx_address here = {.major = 1}, read;
    uint8_t bytes[1000];
    const uint64_t count = write_address(&we, 13, bytes);

    cr_assert_eq(count, ADDRESS_HEAD_BYTES + 5 + ADDRESS_MAC_BYTES);
    cr_assert_eq(address_read(&we, &own, bytes, count, &read), TUTTI_OK);
    cr_expect_eq(read.process, 7);
    cr_expect_eq(read.endpoint, 9);
    cr_expect_eq(read.blob_bytes, 5);
    cr_expect_arr_eq(read.blob, "blob!", 5);
    address_of_this_host(&here);
    cr_expect(address_is_local(&here, &read));
    read.user++;
    cr_expect_not(address_is_local(&here, &read));
    memset(here.boot_id, 0, sizeof here.boot_id); /* of a host that does not tell */
    memset(read.boot_id, 0, sizeof read.boot_id);
    read.user--;
    cr_expect_not(address_is_local(&here, &read));
}

Test(ucx_parts, an_address_that_is_cut_altered_or_a_strangers_is_refused)
{
    const struct ucx_address own = {.major = 1, .minor = 13};
    struct ucx_address read;
    uint8_t bytes[1000], copy[1000];
    uint64_t count = write_address(&we, 13, bytes);

    for (uint64_t length = 0; length < count; length++)
        cr_expect_eq(address_read(&we, &own, bytes, length, &read), TUTTI_ERR_MISMATCH);
    for (uint64_t at = 0; at < count; at++) {
        memcpy(copy, bytes, count);
        copy[at] ^= 1;
        cr_expect_eq(address_read(&we, &own, copy, count, &read), TUTTI_ERR_MISMATCH, "byte %llu",
                     (unsigned long long)at);
    }
    count = write_address(&others, 13, bytes);
    cr_expect_eq(address_read(&we, &own, bytes, count, &read), TUTTI_ERR_MISMATCH);
    cr_expect_str_eq(said,
                     "no member of this group has written the UCX address that came for a member");
}

Test(ucx_parts, an_address_of_another_version_of_ucx_is_refused_in_words)
{
    const struct ucx_address own = {.major = 1, .minor = 13};
    struct ucx_address read;
    uint8_t bytes[1000];
    const uint64_t count = write_address(&we, 22, bytes);

    cr_expect_eq(address_read(&we, &own, bytes, count, &read), TUTTI_ERR_MISMATCH);
    cr_expect(strstr(said, "this member has UCX 1.13 and another one has UCX 1.22"), "%s", said);
}

Test(ucx_parts, an_address_without_room_is_not_written)
{
    static const uint8_t blob[ADDRESS_BLOB_MAX + 1];
    struct ucx_address address = {.major = 1, .blob = blob, .blob_bytes = 5};
    uint8_t bytes[200];
    uint64_t count;

    cr_expect_eq(address_write(&we, &address, bytes, ADDRESS_HEAD_BYTES + 5, &count),
                 TUTTI_ERR_INTERNAL);
    address.blob_bytes = sizeof blob;
    cr_expect_eq(address_write(&we, &address, bytes, sizeof bytes, &count), TUTTI_ERR_INTERNAL);
}

/* ---- the environment ------------------------------------------------------------------------- */

Test(ucx_parts, the_environment_has_the_variables_for_a_moment_only)
{
    struct environment lent;
    char **before = environ;

    unsetenv("UCX_HANDLE_ERRORS");
    unsetenv("UCX_MEM_MMAP_HOOK_MODE");
    setenv("UCX_DEBUG_SIGNO", "15", 1); /* what the user has set stays */
    before = environ;
    cr_assert(environment_lend(&lent));
    cr_expect_str_eq(getenv("UCX_HANDLE_ERRORS"), "none");
    cr_expect_str_eq(getenv("UCX_MEM_MMAP_HOOK_MODE"), "none");
    cr_expect_str_eq(getenv("UCX_DEBUG_SIGNO"), "15");
    environment_take_back(&lent);
    cr_expect_eq(environ, before);
    cr_expect_null(getenv("UCX_HANDLE_ERRORS"));
}

Test(ucx_parts, what_others_do_to_the_environment_meanwhile_stays)
{
    struct environment lent;

    setenv("TUTTI_TEST_OLD", "1", 1);
    cr_assert(environment_lend(&lent));
    setenv("TUTTI_TEST_NEW", "1", 1);
    setenv("TUTTI_TEST_OLD", "2", 1);
    setenv("UCX_HANDLE_ERRORS", "bt", 1);
    environment_take_back(&lent);
    cr_expect_str_eq(getenv("TUTTI_TEST_NEW"), "1");
    cr_expect_str_eq(getenv("TUTTI_TEST_OLD"), "2");
    cr_expect_str_eq(getenv("UCX_HANDLE_ERRORS"), "bt");
    cr_expect_null(getenv("UCX_DEBUG_SIGNO"));
    cr_expect_null(getenv("UCX_MEM_MMAP_HOOK_MODE"));
    cr_assert(environment_lend(&lent));
    unsetenv("TUTTI_TEST_NEW");
    environment_take_back(&lent);
    cr_expect_null(getenv("TUTTI_TEST_NEW"));
    cr_expect_null(getenv("UCX_DEBUG_SIGNO"));
}

static void *read_for_ever(void *stop)
{
    while (!__atomic_load_n((bool *)stop, __ATOMIC_RELAXED)) {
        const char *value = getenv("TUTTI_TEST_LAST");

        if (!value || strcmp(value, "here") != 0)
            return stop;
    }
    return NULL;
}

/* Under AddressSanitizer this also shows that nothing a reader may be in is freed. */
Test(ucx_parts, threads_may_read_the_environment_meanwhile)
{
    bool stop = false;
    pthread_t reader;
    void *failed;

    setenv("TUTTI_TEST_LAST", "here", 1);
    cr_assert_eq(pthread_create(&reader, NULL, read_for_ever, &stop), 0);
    for (int i = 0; i < 1000; i++) {
        struct environment lent;

        if (environment_lend(&lent))
            environment_take_back(&lent);
    }
    __atomic_store_n(&stop, true, __ATOMIC_RELAXED);
    pthread_join(reader, &failed);
    cr_expect_null(failed);
}

Test(ucx_parts, a_loaded_library_is_found_by_its_name)
{
    struct loaded_copies copies;

    loaded_find("libpthreads", &copies);
    cr_expect_str_eq(copies.first, "");
    loaded_find("libc", &copies);
    cr_expect(strstr(copies.first, "/libc.so.6"), "%s", copies.first);
    cr_expect_str_eq(copies.second, "");
    cr_expect(loaded_is_same_file("/proc/self/exe", "/proc/self/exe"));
    cr_expect_not(loaded_is_same_file("/proc/self/exe", "/nonexistent"));
}
