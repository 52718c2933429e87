/* SPDX-License-Identifier: Apache-2.0 */
/* Keys and MACs: the vectors of the RFCs, and what tells keys and parts apart. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/provider.h>

#include <tutti/tutti.h>

#include "base/error.h"
#include "base/fork.h"
#include "mapping_flags.h"
#include "secret/key.h"

static size_t from_hex(const char *hex, uint8_t *ret)
{
    size_t n = 0;

    for (; hex[2 * n]; n++) {
        unsigned byte = 0;

        cr_assert_eq(sscanf(hex + 2 * n, "%2x", &byte), 1);
        ret[n] = (uint8_t)byte;
    }
    return n;
}

static void check_hmac(const void *key, size_t key_size, const void *data, size_t size,
                       const char *expected)
{
    uint8_t mac[KEY_MAC_BYTES], right[KEY_MAC_BYTES];
    const size_t checked = from_hex(expected, right);

    cr_assert_eq(key_hmac(key, key_size, &(struct key_part){data, size}, 1, mac), TUTTI_OK);
    cr_expect_arr_eq(mac, right, checked, "%s", expected);
}

Test(key, hmac_is_that_of_rfc_4231, .timeout = 10)
{
    uint8_t key[131], data[152];

    memset(key, 0x0b, 20);
    check_hmac(key, 20, "Hi There", 8,
               "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    check_hmac("Jefe", 4, "what do ya want for nothing?", 28,
               "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, 20);
    memset(data, 0xdd, 50);
    check_hmac(key, 20, data, 50,
               "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    from_hex("0102030405060708090a0b0c0d0e0f10111213141516171819", key);
    memset(data, 0xcd, 50);
    check_hmac(key, 25, data, 50,
               "82558a389a443c0ea4cc819899f2083a85f0faa3e578f8077a2e3ff46729665b");
    memset(key, 0x0c, 20);
    check_hmac(key, 20, "Test With Truncation", 20, "a3b6167473100ee06e0c796c2955552b");
    memset(key, 0xaa, sizeof key);
    check_hmac(key, sizeof key, "Test Using Larger Than Block-Size Key - Hash Key First", 54,
               "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
    memcpy(data,
           "This is a test using a larger than block-size key and a larger than block-size data. "
           "The key needs to be hashed before being used by the HMAC algorithm.",
           sizeof data);
    check_hmac(key, sizeof key, data, sizeof data,
               "9b09ffa71b942fcb27635fbcd5b0e944bfdc63644f0713938a7f51535c3a35e2");
}

Test(key, hkdf_is_that_of_rfc_5869, .timeout = 10)
{
    static const struct {
        const char *from, *salt, *info, *out;
    } cases[] = {
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "000102030405060708090a0b0c",
         "f0f1f2f3f4f5f6f7f8f9",
         "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865"},
        {"000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f20212223242526272829"
         "2a2b2c2d2e2f303132333435363738393a3b3c3d3e3f404142434445464748494a4b4c4d4e4f",
         "606162636465666768696a6b6c6d6e6f707172737475767778797a7b7c7d7e7f80818283848586878889"
         "8a8b8c8d8e8f909192939495969798999a9b9c9d9e9fa0a1a2a3a4a5a6a7a8a9aaabacadaeaf",
         "b0b1b2b3b4b5b6b7b8b9babbbcbdbebfc0c1c2c3c4c5c6c7c8c9cacbcccdcecfd0d1d2d3d4d5d6d7d8d9"
         "dadbdcdddedfe0e1e2e3e4e5e6e7e8e9eaebecedeeeff0f1f2f3f4f5f6f7f8f9fafbfcfdfeff",
         "b11e398dc80327a1c8e7f78c596a49344f012eda2d4efad8a050cc4c19afa97c59045a99cac7827271cb"
         "41c65e590e09da3275600c2f09b8367793a9aca3db71cc30c58179ec3e87c14c01d5c1f3434f1d87"},
        {"0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b0b", "", "",
         "8da4e775a563c18f715f802a063c5a31b8a11f5c5ee1879ec3454e5f3c738d2d9d201395faa4b61a96c8"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        uint8_t from[80], salt[80], info[80], right[82], out[82];
        const size_t from_size = from_hex(cases[i].from, from);
        const size_t salt_size = from_hex(cases[i].salt, salt);
        const size_t info_size = from_hex(cases[i].info, info);
        const size_t size = from_hex(cases[i].out, right);

        cr_assert_eq(key_hkdf(from, from_size, salt, salt_size, info, info_size, out, size),
                     TUTTI_OK, "%s", tutti_last_error());
        cr_expect_arr_eq(out, right, size, "case %zu", i);
    }
}

Test(key, another_purpose_or_context_makes_another_key, .timeout = 10)
{
    const struct key from = {{1, 2, 3}};
    struct key keys[6];

    cr_assert_eq(key_derive(&from, "control", NULL, 0, &keys[0]), TUTTI_OK);
    cr_assert_eq(key_derive(&from, "local", NULL, 0, &keys[1]), TUTTI_OK);
    cr_assert_eq(key_derive(&from, "transport", "tcp", 3, &keys[2]), TUTTI_OK);
    cr_assert_eq(key_derive(&from, "transport", "tcq", 3, &keys[3]), TUTTI_OK);
    cr_assert_eq(key_derive(&from, "transportt", "cp", 2, &keys[4]), TUTTI_OK);
    cr_assert_eq(key_derive(&keys[0], "control", NULL, 0, &keys[5]), TUTTI_OK);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++)
            cr_expect(!key_same(&keys[i], &keys[k], sizeof *keys), "%d, %d", i, k);

    struct key again = from;
    cr_assert_eq(key_derive(&again, "control", NULL, 0, &again), TUTTI_OK);
    cr_expect(key_same(&again, &keys[0], sizeof again));
}

Test(key, bytes_that_move_between_parts_make_another_mac, .timeout = 10)
{
    const struct key key = {{7}};
    uint8_t one[KEY_MAC_BYTES], other[KEY_MAC_BYTES];

    cr_assert_eq(key_mac(&key, (struct key_part[]){{"ab", 2}, {"c", 1}}, 2, one), TUTTI_OK);
    cr_assert_eq(key_mac(&key, (struct key_part[]){{"a", 1}, {"bc", 2}}, 2, other), TUTTI_OK);
    cr_expect(!key_same(one, other, sizeof one));
    cr_assert_eq(key_mac(&key, (struct key_part[]){{"ab", 2}, {"c", 1}, {"", 0}}, 3, other),
                 TUTTI_OK);
    cr_expect(!key_same(one, other, sizeof one));
}

Test(key, too_much_is_refused_in_words, .timeout = 10)
{
    const struct key key = {{7}};
    struct key_part parts[KEY_PARTS_MAX + 1] = {{"", 0}};
    uint8_t context[1024] = {0}, mac[KEY_MAC_BYTES];
    struct key other = key;

    cr_expect_eq(key_mac(&key, parts, KEY_PARTS_MAX + 1, mac), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect(strstr(tutti_last_error(), "17 parts; at most 16"), "%s", tutti_last_error());
    cr_expect_eq(key_derive(&key, "p", context, sizeof context, &other),
                 TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect(strstr(tutti_last_error(), "1024 bytes; at most 1015"), "%s", tutti_last_error());
    cr_expect(key_same(&key, &other, sizeof key));
}

Test(key, wiped_memory_is_zero_and_random_memory_is_not, .timeout = 10)
{
    uint8_t random[64], zero[64] = {0};

    cr_assert_eq(key_random(random, sizeof random), TUTTI_OK);
    cr_expect(!key_same(random, zero, sizeof zero));
    key_wipe(random, sizeof random);
    cr_expect(key_same(random, zero, sizeof zero));
}

static void *mac_often(void *user)
{
    uint8_t mac[KEY_MAC_BYTES];

    for (int i = 0; i < 50; i++)
        if (key_mac(user, &(struct key_part){"x", 1}, 1, mac))
            return user;
    return NULL;
}

static void join_all(pthread_t threads[4])
{
    for (int i = 0; i < 4; i++) {
        void *failed;

        cr_assert_eq(pthread_join(threads[i], &failed), 0);
        cr_expect_null(failed);
    }
}

/* AddressSanitizer of GCC 12 lets a child inherit its allocator's locks as other threads held them: there no
 * thread may allocate during a fork. */
#ifdef __SANITIZE_ADDRESS__
enum { FORKS_BESIDE_THREADS = false };
#else
enum { FORKS_BESIDE_THREADS = true };
#endif

/* The first call makes what OpenSSL needs, the last one frees it, from whichever thread. */
Test(key, macs_are_the_same_in_all_threads_and_after_a_fork, .timeout = 30)
{
    struct key key = {{9}};
    uint8_t here[KEY_MAC_BYTES], there[KEY_MAC_BYTES];
    pthread_t threads[4];
    int ends[2];

    for (int i = 0; i < 4; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, mac_often, &key), 0);
    key_hold();
    cr_assert_eq(key_mac(&key, &(struct key_part){"x", 1}, 1, here), TUTTI_OK);
    fork_watch(NULL);
    cr_assert_eq(pipe(ends), 0);
    if (!FORKS_BESIDE_THREADS)
        join_all(threads);
    pid_t child = fork();
    if (!child) {
        tutti_status status = key_mac(&key, &(struct key_part){"x", 1}, 1, there);

        if (status || write(ends[1], there, sizeof there) != sizeof there)
            _exit(1);
        _exit(0);
    }
    cr_assert_eq(read(ends[0], there, sizeof there), sizeof there);
    cr_expect(key_same(here, there, sizeof here));
    int code = -1;
    cr_expect_eq(waitpid(child, &code, 0), child);
    cr_expect_eq(code, 0);
    if (FORKS_BESIDE_THREADS)
        join_all(threads);
    key_release();
}

/* More than one page has room for, kept and dropped in another order. */
Test(key, kept_keys_are_in_no_core_dump_and_are_wiped, .timeout = 30)
{
    enum { KEYS = 300 };
    static const struct key zeros;
    const struct key *kept[KEYS];
    char flags[256];

    for (int i = 0; i < KEYS; i++) {
        const struct key key = {{1, (uint8_t)i, (uint8_t)(i >> 8)}};

        cr_assert_eq(key_keep(&key, &kept[i]), TUTTI_OK);
    }
    for (int i = 0; i < KEYS; i++) {
        cr_expect_eq(kept[i]->bytes[1] + 256 * kept[i]->bytes[2], i);
        if (i % 100 == 0) {
            flags_of(kept[i], flags);
            cr_expect(strstr(flags, " dd") && strstr(flags, " wf"), "key %d: %s", i, flags);
        }
    }
    for (int i = 1; i < KEYS; i += 2) { /* their pages stay for the others */
        key_drop(kept[i]);
        cr_expect(key_same(kept[i], &zeros, sizeof zeros), "key %d", i);
    }
    for (int i = 0; i < KEYS; i += 2) {
        cr_expect_eq(kept[i]->bytes[0], 1);
        key_drop(kept[i]);
    }
    key_drop(NULL);
}

Test(key, kept_keys_are_in_no_forked_child, .timeout = 30)
{
    static const struct key key = {{1, 2, 3}}, zeros;
    const struct key *kept, *own;
    int code = -1;

    cr_assert_eq(key_keep(&key, &kept), TUTTI_OK);
    const pid_t child = fork();
    cr_assert_geq(child, 0);
    if (!child) {
        const bool gone = key_same(kept, &zeros, sizeof zeros);
        const bool keeps = !key_keep(&key, &own) && own != kept && key_same(own, &key, sizeof key);

        _exit(gone && keeps ? 0 : 1);
    }
    cr_assert_eq(waitpid(child, &code, 0), child);
    cr_expect_eq(code, 0);
    key_drop(kept);
}

/* ---- OpenSSL of the program ---- */

/* Calls OpenSSL as a program does whose configuration activates the provider `legacy`, behind tutti. */
Test(key, the_program_keeps_its_configuration_of_openssl, .timeout = 30)
{
    static const char content[] = "openssl_conf = init\n[init]\nproviders = all\n"
                                  "[all]\ndefault = on\nlegacy = on\n[on]\nactivate = 1\n";
    char path[] = "/tmp/test_key_XXXXXX";
    const int fd = mkstemp(path);
    const struct key key = {{9}};
    uint8_t mac[KEY_MAC_BYTES];

    cr_assert_eq(write(fd, content, sizeof content - 1), sizeof content - 1);
    close(fd);
    setenv("OPENSSL_CONF", path, 1);
    key_hold();
    cr_assert_eq(key_mac(&key, &(struct key_part){"x", 1}, 1, mac), TUTTI_OK);
    cr_expect_not(OSSL_PROVIDER_available(key_openssl(), "legacy"), "tutti reads it, too");
    EVP_MD *md4 = EVP_MD_fetch(NULL, "MD4", NULL);
    cr_expect_not_null(md4, "the configuration was not read");
    EVP_MD_free(md4);
    key_release();
    unlink(path);
}
