/* SPDX-License-Identifier: Apache-2.0 */
/* Where a secret comes from: variables, files that are refused, and the user's own file, made by many. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "mapping_flags.h"
#include "secret/seal.h"
#include "secret/secret.h"

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="

static char folder[64], path[128], own[128];

static void begin(void)
{
    strcpy(folder, "/tmp/tutti-secret-XXXXXX");
    cr_assert_not_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/given", folder);
    snprintf(own, sizeof own, "%s/tutti/secret", folder);
    unsetenv("TUTTI_SECRET");
    unsetenv("TUTTI_SECRET_FILE");
    setenv("XDG_CONFIG_HOME", folder, 1);
}

static void end(void)
{
    unlink(path);
    unlink(own);
    *strrchr(own, '/') = 0;
    rmdir(own);
    cr_expect_eq(rmdir(folder), 0, "something is left in %s", folder);
}

TestSuite(secret_file, .timeout = 60, .init = begin, .fini = end);

static void write_file(const void *data, size_t size, mode_t mode)
{
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

    cr_assert_geq(fd, 0);
    cr_assert_eq(write(fd, data, size), (ssize_t)size);
    cr_assert_eq(fchmod(fd, mode), 0);
    close(fd);
}

static struct secret *found(enum secret_source source)
{
    struct secret *secret;

    cr_assert_eq(secret_new(&secret), TUTTI_OK);
    cr_assert_eq(secret_find(secret, NULL, true), TUTTI_OK, "%s", error_message());
    cr_assert_eq(secret->source, source, "%s", secret_source_words(secret->source));
    return secret;
}

static void expect_counting_up(const struct secret *secret)
{
    for (int i = 0; i < KEY_BYTES; i++)
        cr_expect_eq(secret->key.bytes[i], i);
}

static void expect_refused(const char *words)
{
    struct secret *secret;

    cr_assert_eq(secret_new(&secret), TUTTI_OK);
    cr_expect_eq(secret_find(secret, NULL, true), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect(strstr(error_message(), words), "%s", error_message());
    cr_expect_null(strstr(error_message(), "0405060708"));
    secret_unref(secret);
}

/* ---- values ---- */

Test(secret_file, hex_base64_and_raw_bytes_are_the_same_secret)
{
    static const char *const texts[] = {HEX, "  " HEX "\n", BASE64, BASE64 "\r\n"};
    uint8_t raw[KEY_BYTES];

    setenv("TUTTI_SECRET_FILE", path, 1);
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        write_file(texts[i], strlen(texts[i]), 0600);
        struct secret *secret = found(SECRET_FROM_FILE);

        expect_counting_up(secret);
        secret_unref(secret);
    }
    for (int i = 0; i < KEY_BYTES; i++)
        raw[i] = (uint8_t)i;
    write_file(raw, sizeof raw, 0400);
    struct secret *secret = found(SECRET_FROM_FILE);
    expect_counting_up(secret);
    cr_expect_str_eq(secret->place, path);
    secret_unref(secret);
}

Test(secret_file, a_variable_of_another_form_is_refused_in_words)
{
    static const struct {
        const char *value, *words;
    } cases[] = {
        {"", "TUTTI_SECRET is set and empty"},
        {"secret", "TUTTI_SECRET has 6 characters that are not 32 bytes in hex (64 digits)"},
        {HEX "00", "TUTTI_SECRET has 66 characters"},
        {"x" HEX, "TUTTI_SECRET has 65 characters"},
        {"00", "TUTTI_SECRET has 2 characters"},
        {"0000000000000000000000000000000000000000000000000000000000000000", "32 zero bytes"},
        {"AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh9=", "TUTTI_SECRET has 44 characters"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        setenv("TUTTI_SECRET", cases[i].value, 1);
        expect_refused(cases[i].words);
    }
}

Test(secret_file, the_file_comes_before_the_variable_and_both_before_the_users)
{
    static const struct key handed = {.bytes = {9}};
    struct secret *secret;

    cr_assert_eq(secret_new(&secret), TUTTI_OK);
    cr_assert_eq(secret_find(secret, &handed, true), TUTTI_OK);
    cr_expect_eq(secret->source, SECRET_FROM_LAUNCHER);
    secret_unref(secret);
    setenv("TUTTI_SECRET", HEX, 1);
    secret_unref(found(SECRET_FROM_VARIABLE));
    write_file(BASE64, strlen(BASE64), 0600);
    setenv("TUTTI_SECRET_FILE", path, 1);
    secret_unref(found(SECRET_FROM_FILE));
    write_file("short", 5, 0600);
    expect_refused("given has 5 bytes that are no secret");
    cr_expect_eq(access(own, F_OK), -1);
}

/* ---- files ---- */

Test(secret_file, files_that_others_may_know_are_refused_in_words)
{
    char words[160];

    setenv("TUTTI_SECRET_FILE", path, 1);
    snprintf(words, sizeof words, "TUTTI_SECRET_FILE: cannot open %s", path);
    expect_refused(words);
    write_file(HEX, strlen(HEX), 0640);
    expect_refused("has mode 0640, so others may know it: use chmod 600");
    write_file(HEX, strlen(HEX), 0604);
    expect_refused("has mode 0604, so others may know it");
    write_file("", 0, 0600);
    expect_refused("has 0 bytes that are no secret");
    setenv("TUTTI_SECRET_FILE", folder, 1);
    expect_refused("is not a regular file");
    setenv("TUTTI_SECRET_FILE", "/dev/zero", 1);
    expect_refused("is not a regular file");
    setenv("TUTTI_SECRET_FILE", "", 1);
    expect_refused("TUTTI_SECRET_FILE is set and empty");
}

Test(secret_file, a_file_of_another_user_is_refused_in_words)
{
    if (geteuid())
        cr_skip_test("only root can give a file away");
    write_file(HEX, strlen(HEX), 0600);
    cr_assert_eq(chown(path, 12345, (gid_t)-1), 0);
    setenv("TUTTI_SECRET_FILE", path, 1);
    expect_refused("belongs to user 12345, and this process to user 0");
}

Test(secret_file, a_fifo_without_a_writer_does_not_wait)
{
    cr_assert_eq(mkfifo(path, 0600), 0);
    setenv("TUTTI_SECRET_FILE", path, 1);
    expect_refused("is not a regular file");
}

/* ---- the user's own ---- */

enum { MAKERS = 64 };

/* Each of the processes finds a secret; the pipe holds them back until all are there. */
static void find_in_child(int go, int tell)
{
    struct secret *secret;
    char byte;

    if (read(go, &byte, 1) < 0 || secret_new(&secret) || secret_find(secret, NULL, true) ||
        secret->source != SECRET_OWN_FILE || write(tell, secret->id, SECRET_ID_BYTES) < 0)
        _exit(1);
    _exit(0);
}

Test(secret_file, processes_that_make_it_at_once_get_the_same)
{
    uint8_t first[SECRET_ID_BYTES], other[SECRET_ID_BYTES];
    int go[2], told[2], status;
    struct stat info;

    cr_assert_eq(pipe2(go, O_CLOEXEC), 0);
    cr_assert_eq(pipe2(told, O_CLOEXEC), 0);
    for (int i = 0; i < MAKERS; i++) {
        const pid_t pid = fork();

        cr_assert_geq(pid, 0);
        if (!pid) {
            close(go[1]);
            find_in_child(go[0], told[1]);
        }
    }
    close(go[1]);
    cr_assert_eq(read(told[0], first, sizeof first), (ssize_t)sizeof first);
    for (int i = 1; i < MAKERS; i++) {
        cr_assert_eq(read(told[0], other, sizeof other), (ssize_t)sizeof other);
        cr_expect_arr_eq(other, first, sizeof first);
    }
    while (wait(&status) > 0)
        cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
    cr_assert_eq(stat(own, &info), 0);
    cr_expect_eq(info.st_mode & 07777, 0600);
    *strrchr(own, '/') = 0;
    cr_assert_eq(stat(own, &info), 0);
    cr_expect_eq(info.st_mode & 07777, 0700);
    own[strlen(own)] = '/';
}

Test(secret_file, a_users_file_that_is_damaged_is_an_error_and_not_replaced)
{
    secret_unref(found(SECRET_OWN_FILE));
    cr_assert_eq(truncate(own, 7), 0);
    expect_refused("the user's own secret: ");
    cr_assert_eq(chmod(own, 0644), 0);
    expect_refused("has mode 0644");
}

Test(secret_file, a_home_that_cannot_be_written_gives_no_secret)
{
    setenv("XDG_CONFIG_HOME", "/proc/tutti", 1);
    struct secret *secret = found(SECRET_NONE);

    cr_expect(strstr(secret->place, "cannot make the directory /proc/tutti"), "%s", secret->place);
    for (int i = 0; i < KEY_BYTES; i++)
        cr_expect_eq(secret->key.bytes[i], 0);
    secret_unref(secret);
}

/* ---- memory ---- */

Test(secret_file, a_secret_is_in_no_core_dump_and_no_forked_child)
{
    setenv("TUTTI_SECRET", HEX, 1);
    struct secret *secret = found(SECRET_FROM_VARIABLE);
    char flags[256];
    int status;

    flags_of(secret, flags);
    cr_expect(strstr(flags, " dd"), "%s", flags); /* MADV_DONTDUMP */
    const pid_t pid = fork();
    cr_assert_geq(pid, 0);
    if (!pid) {
        static const struct key zeros;

        _exit(memcmp(&secret->key, &zeros, sizeof zeros) ? 1 : 0);
    }
    cr_assert_eq(waitpid(pid, &status, 0), pid);
    cr_expect(WIFEXITED(status) && !WEXITSTATUS(status));
    secret_unref(secret);
}

/* ---- seals ---- */

static enum seal_state state_of(const struct secret *secret, const char *name, const uint8_t *value,
                                size_t bytes)
{
    enum seal_state state = SEAL_MISSING;
    struct seal seal;

    cr_assert_eq(seal_check(secret, &secret->record, name, value, bytes, &seal, &state), TUTTI_OK);
    return state;
}

Test(secret_file, a_seal_holds_for_one_record_in_one_place_of_one_run)
{
    static const char body[] = "body";
    uint8_t value[sizeof body + SEAL_BYTES];
    struct secret *secret = NULL;
    struct seal seal;
    enum seal_state state;

    setenv("TUTTI_SECRET", HEX, 1);
    secret = found(SECRET_FROM_VARIABLE);
    secret->required = true;
    cr_assert_eq(secret_begin_run(secret, "tutti/a/0"), TUTTI_OK);
    memcpy(value, body, sizeof body);
    cr_assert_eq(seal_make(secret, &secret->record, "key", body, sizeof body, value + sizeof body),
                 TUTTI_OK);
    cr_expect_eq(state_of(secret, "key", value, sizeof value), SEAL_GOOD);
    cr_assert_eq(seal_check(secret, &secret->record, "key", value, sizeof value, &seal, &state),
                 TUTTI_OK);
    cr_expect_eq(seal.source, SECRET_FROM_VARIABLE);
    cr_expect(seal.required);
    cr_expect_eq(state_of(secret, "kez", value, sizeof value), SEAL_WRONG);
    cr_expect_eq(state_of(secret, "key", value, sizeof value - 1), SEAL_MISSING);
    cr_expect_eq(state_of(secret, "key", value, 3), SEAL_MISSING);
    for (size_t i = 0; i < sizeof value; i++) {
        value[i] ^= 1;
        cr_expect_neq(state_of(secret, "key", value, sizeof value), SEAL_GOOD,
                      "byte %zu may change", i);
        value[i] ^= 1;
    }
    cr_assert_eq(secret_begin_run(secret, "tutti/a/1"), TUTTI_OK);
    cr_expect_eq(state_of(secret, "key", value, sizeof value), SEAL_WRONG);
    cr_assert_eq(secret_take_open(secret, SECRET_NONE, ""), TUTTI_OK);
    cr_expect_eq(state_of(secret, "key", value, sizeof value), SEAL_FOREIGN);
    secret_unref(secret);
}
