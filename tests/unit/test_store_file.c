/* SPDX-License-Identifier: Apache-2.0 */
/* The file store's file: torch's format, locks, and files that are not what they should be. */
#include <criterion/criterion.h>
#include <ctype.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/store.h>

#include "base/clock.h"

static char path[64], moved[80];

static void start(void)
{
    snprintf(path, sizeof path, "/tmp/tutti-test-file-%d", (int)getpid());
    snprintf(moved, sizeof moved, "%s-moved", path);
    unlink(path);
}

static void stop(void)
{
    unlink(path);
    unlink(moved);
}

/* No call here has to wait for anything, and none for so long as a slow machine may hold it back. */
enum { PATIENCE_MS = 20000, SOON_MS = 10000 };

TestSuite(store_file, .init = start, .fini = stop, .timeout = 60);

static tutti_store *open_store(int world_size)
{
    tutti_store *store;

    cr_assert_eq(tutti_store_open_file(path, world_size, PATIENCE_MS, &store), TUTTI_OK, "%s",
                 tutti_last_error());
    return store;
}

static tutti_status try_open(void)
{
    tutti_store *store;
    tutti_status status = tutti_store_open_file(path, 0, PATIENCE_MS, &store);

    if (!status)
        tutti_store_unref(store);
    return status;
}

static size_t read_file(char *data, size_t capacity)
{
    int fd = open(path, O_RDONLY);
    ssize_t size = read(fd, data, capacity);

    close(fd);
    cr_assert_geq(size, 0);
    return (size_t)size;
}

static void write_file(const void *data, size_t size, int flags)
{
    int fd = open(path, O_WRONLY | O_CREAT | flags, 0644);

    cr_assert_eq(write(fd, data, size), (ssize_t)size);
    close(fd);
}

/* The hex dump of torch's file, from `offset` lines after the one that begins with `marker`. */
static size_t read_dump(const char *marker, uint8_t *ret_bytes)
{
    char name[512], line[256];
    size_t size = 0;
    bool found = false;

    snprintf(name, sizeof name, "%s/tests/unit/data/tcpstore/filestore.txt", TUTTI_SOURCE_DIR);

    FILE *file = fopen(name, "r");

    cr_assert_not_null(file);
    while (fgets(line, sizeof line, file)) {
        if (line[0] == '#') {
            found = strncmp(line, marker, strlen(marker)) == 0;
            continue;
        }
        /* "00000010: 0031 0200 …  text": pairs of digits, a blank between every second and third */
        for (const char *at = line + 10; found && isxdigit(at[0]); at += at[2] == ' ' ? 3 : 2) {
            const char digits[] = {at[0], at[1], 0};

            ret_bytes[size++] = (uint8_t)strtoul(digits, NULL, 16);
        }
    }
    fclose(file);
    return size;
}

Test(store_file, the_file_is_byte_for_byte_what_torch_writes)
{
    uint8_t expected[512];
    char actual[512];
    tutti_store *store = open_store(2);
    tutti_store_value value;
    int64_t number;

    /* the operations in the capture's first line; a barrier is two keys */
    tutti_store_set(store, "k", "hello", 5, 0);
    tutti_store_add(store, "n", 3, 0, &number);
    tutti_store_add(store, "n", -1, 0, &number);
    tutti_store_delete(store, "k", 0, NULL);
    cr_assert_eq(tutti_store_compare_set(store, "c", "", 0, "v", 1, 0, &value), TUTTI_OK);
    tutti_store_value_free(&value);
    tutti_store_append(store, "c", "x", 1, 0);
    tutti_store_set(store, "a", "1", 1, 0);
    tutti_store_add(store, "b/num_members", 1, 0, &number);
    tutti_store_set(store, "b/last_member", "1", 1, 0);

    size_t size = read_dump("# torch", expected);

    cr_assert_eq(size, 0x92);
    cr_assert_eq(read_file(actual, sizeof actual), size);
    cr_assert(memcmp(actual, expected, size) == 0);
    tutti_store_unref(store);
    size = read_dump("# after", expected);
    cr_assert_eq(size, 0xb5);
    cr_assert_eq(read_file(actual, sizeof actual), size);
    cr_assert(memcmp(actual, expected, size) == 0);
}

Test(store_file, a_file_that_torch_wrote_is_read_and_one_that_was_closed_is_stale)
{
    uint8_t bytes[512];
    tutti_store_value value;
    const char *key = "k";
    int32_t present;
    int64_t count;

    write_file(bytes, read_dump("# torch", bytes), O_TRUNC);

    tutti_store *store = open_store(0);

    cr_assert_eq(tutti_store_get(store, "c", 100, &value), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_str_eq(value.data, "vx");
    tutti_store_value_free(&value);
    cr_assert_eq(tutti_store_check(store, &key, 1, 100, &present), TUTTI_OK);
    cr_assert_eq(present, 0, "it was deleted");
    cr_assert_eq(tutti_store_num_keys(store, 100, &count), TUTTI_OK);
    cr_assert_eq(count, 6, "with refcount/, as torch counts");
    tutti_store_unref(store);
    cr_assert_eq(try_open(), TUTTI_ERR_STALE);
    cr_assert_not_null(strstr(tutti_last_error(), "earlier job"), "%s", tutti_last_error());
}

Test(store_file, only_the_last_member_of_the_world_removes_the_file)
{
    tutti_store *first = open_store(3), *second = open_store(3), *third = open_store(3);

    tutti_store_unref(first);
    tutti_store_unref(second);
    cr_assert_eq(access(path, F_OK), 0);
    tutti_store_unref(third);
    cr_assert_neq(access(path, F_OK), 0);
    tutti_store_unref(open_store(0));
    cr_assert_eq(access(path, F_OK), 0, "without a world size nobody does");
}

Test(store_file, a_record_cut_short_by_a_kill_is_skipped_and_overwritten)
{
    tutti_store *store = open_store(0), *other = open_store(0);
    tutti_store_value value;

    tutti_store_set(store, "k", "v", 1, 0);
    write_file("\2\0\0\0/z\x10\0\0\0half", 14, O_APPEND);
    cr_assert_eq(tutti_store_get(other, "k", 100, &value), TUTTI_OK);
    tutti_store_value_free(&value);
    cr_assert_eq(tutti_store_get(other, "z", 50, &value), TUTTI_ERR_TIMEOUT);
    tutti_store_set(store, "z", "whole", 5, 0);
    cr_assert_eq(tutti_store_get(other, "z", 100, &value), TUTTI_OK);
    cr_assert_str_eq(value.data, "whole");
    tutti_store_value_free(&value);
    tutti_store_unref(store);
    tutti_store_unref(other);
}

Test(store_file, what_is_no_store_file_is_refused_and_left_as_it_is)
{
    static const struct {
        const char *data;
        size_t size;
    } files[] = {
        {"#!/bin/sh\necho hello\n", 21},
        {"\5\0\0\0hello\1\0\0\0x", 14},             /* well formed, but another's */
        {"\11\0\0\0refc", 8},                       /* ends in its first record */
        {"\11\0\0\0refcount/\377\377\377\377", 17}, /* announces 4 GiB */
        {"\11\0\0\0refcount/\1\0\0\0x", 18},        /* a counter that is no number */
    };
    char now[64];

    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        write_file(files[i].data, files[i].size, O_TRUNC);
        cr_assert_eq(try_open(), TUTTI_ERR_STORE, "%zu: %s", i, tutti_last_error());
        cr_assert_not_null(strstr(tutti_last_error(), path), "%s", tutti_last_error());
        cr_assert_eq(read_file(now, sizeof now), files[i].size);
        cr_assert(memcmp(now, files[i].data, files[i].size) == 0);
    }
    unlink(path);
    cr_assert_eq(mkfifo(path, 0600), 0);
    cr_assert_eq(try_open(), TUTTI_ERR_STORE, "a pipe must not block");
    unlink(path);
    cr_assert_eq(mkdir(path, 0700), 0);
    cr_assert_eq(try_open(), TUTTI_ERR_STORE);
    rmdir(path);
}

Test(store_file, a_file_that_is_removed_replaced_or_cut_under_us_is_an_error_at_once)
{
    tutti_store *store = open_store(0);
    tutti_store_value value;
    const int64_t start_ns = clock_now_ns();

    tutti_store_set(store, "k", "v", 1, 0);
    cr_assert_eq(truncate(path, 5), 0);
    cr_assert_eq(tutti_store_get(store, "k", PATIENCE_MS, &value), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "shrunk"));
    unlink(path);
    cr_assert_eq(tutti_store_get(store, "x", PATIENCE_MS, &value), TUTTI_ERR_STORE);
    cr_assert_not_null(strstr(tutti_last_error(), "No such file"));

    /* a directory entry that was free for a moment may get the same inode again: keep the old one
     */
    int kept = open("/dev/null", O_RDONLY);
    tutti_store *next = open_store(0), *watcher = open_store(0);

    cr_assert_eq(rename(path, moved), 0);
    write_file("", 0, 0);
    cr_assert_eq(tutti_store_set(watcher, "k", "v", 1, PATIENCE_MS), TUTTI_ERR_STALE);
    cr_assert_lt(clock_now_ns() - start_ns, SOON_MS * CLOCK_NS_PER_MS);
    close(kept);
    tutti_store_unref(store);
    tutti_store_unref(next);
    tutti_store_unref(watcher);
}

Test(store_file, a_lock_that_another_process_holds_ends_the_call_at_its_deadline)
{
    tutti_store *store = open_store(0);
    int fd = open(path, O_RDWR);
    int64_t count;

    cr_assert_eq(flock(fd, LOCK_EX), 0);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 60), TUTTI_ERR_TIMEOUT);
    cr_assert_not_null(strstr(tutti_last_error(), "locked"), "%s", tutti_last_error());
    cr_assert_eq(flock(fd, LOCK_SH), 0);
    cr_assert_eq(tutti_store_num_keys(store, PATIENCE_MS, &count), TUTTI_OK, "readers share");
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, 60), TUTTI_ERR_TIMEOUT);
    close(fd);
    cr_assert_eq(tutti_store_set(store, "k", "v", 1, PATIENCE_MS), TUTTI_OK);
    tutti_store_unref(store);
}

Test(store_file, no_addition_of_several_processes_is_lost)
{
    enum { PROCESSES = 4, ADDITIONS = 100 };
    tutti_store *store = open_store(0);
    int64_t sum;

    for (int i = 0; i < PROCESSES; i++) {
        if (!fork()) {
            tutti_store *own;

            if (tutti_store_open_file(path, 0, PATIENCE_MS, &own))
                _exit(1);
            for (int j = 0; j < ADDITIONS; j++) {
                if (tutti_store_add(own, "sum", i + 1, PATIENCE_MS, &sum))
                    _exit(2);
            }
            _exit(0); /* without closing: nobody may find the file stale */
        }
    }
    for (int i = 0; i < PROCESSES; i++) {
        int status;

        wait(&status);
        cr_assert_eq(status, 0);
    }
    cr_assert_eq(tutti_store_add(store, "sum", 0, PATIENCE_MS, &sum), TUTTI_OK);
    cr_assert_eq(sum, ADDITIONS * PROCESSES * (PROCESSES + 1) / 2);
    tutti_store_unref(store);
}

Test(store_file, a_full_disk_is_an_error_and_leaves_whole_records)
{
    tutti_store *store = open_store(0);
    struct stat before, after;
    static char value[100000];
    int64_t number;

    tutti_store_set(store, "k", "v", 1, 0);
    stat(path, &before);

    /* a limit on the size of files stands in for the disk; its signal is the program's own choice
     */
    pid_t child = fork();

    if (!child) {
        signal(SIGXFSZ, SIG_IGN);
        setrlimit(RLIMIT_FSIZE, &(struct rlimit){10000, 10000});

        tutti_store *own;

        _exit(tutti_store_open_file(path, 0, PATIENCE_MS, &own) == TUTTI_OK &&
                      tutti_store_set(own, "big", value, sizeof value, PATIENCE_MS) ==
                          TUTTI_ERR_STORE &&
                      strstr(tutti_last_error(), "write") &&
                      tutti_store_add(own, "n", 1, PATIENCE_MS, &number) == TUTTI_OK
                  ? 0
                  : 1);
    }

    int status;

    waitpid(child, &status, 0);
    cr_assert_eq(status, 0);
    stat(path, &after);
    cr_assert_lt(after.st_size, before.st_size + 100);
    cr_assert_eq(tutti_store_add(store, "n", 1, PATIENCE_MS, &number), TUTTI_OK);
    cr_assert_eq(number, 2);
    tutti_store_unref(store);
}
