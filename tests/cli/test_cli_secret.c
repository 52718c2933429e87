/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti secret`, and the secret that `tutti run` makes for a job. */
#include <criterion/criterion.h>
#include <glib.h>
#include <string.h>

#include "command.h"

#define HEX "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
#define BASE64 "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
#define BARE "env -u TUTTI_SECRET -u TUTTI_SECRET_FILE XDG_CONFIG_HOME=%s "

Test(secret, tells_where_the_users_file_is_makes_it_and_replaces_it, .timeout = 30)
{
    char *folder = folder_new();
    struct ran none = ran(BARE "$TUTTI secret", folder),
               made = ran(BARE "$TUTTI secret --new", folder),
               same = ran(BARE "$TUTTI secret", folder),
               other = ran(BARE "$TUTTI secret --new", folder),
               mode = ran("stat -c '%%a %%s' %s/tutti %s/tutti/secret; ls -A %s/tutti", folder,
                          folder, folder);

    cr_expect_eq(none.code, 0);
    CONTAINS(none.out, "it is made when it is first needed");
    cr_expect_eq(made.code, 0);
    CONTAINS(made.out, "source  the user's own file\nfile    ");
    CONTAINS(made.out, "/tutti/secret\nid      ");
    cr_expect_str_eq(made.out, same.out);
    cr_expect_str_neq(other.out, same.out);
    cr_expect(g_str_has_prefix(mode.out, "700 "), "%s", mode.out);
    cr_expect(g_str_has_suffix(mode.out, "\n600 65\nsecret\n"), "%s", mode.out);
    ran_free(&none);
    ran_free(&made);
    ran_free(&same);
    ran_free(&other);
    ran_free(&mode);
    folder_remove(folder);
}

Test(secret, that_cannot_be_made_is_not_promised, .timeout = 30)
{
    char *folder = folder_new();
    struct ran r = ran("touch %s/file; env -u TUTTI_SECRET -u TUTTI_SECRET_FILE "
                       "XDG_CONFIG_HOME=%s/file/sub $TUTTI secret",
                       folder, folder);

    cr_expect_eq(r.code, 1, "%s", r.out);
    CONTAINS(r.out, "source  none\n");
    CONTAINS(r.err, "tutti secret: it cannot be made (");
    CONTAINS(r.err, "/file: Not a directory), so jobs have no secret unless TUTTI_SECRET");
    ran_free(&r);
    folder_remove(folder);
}

Test(secret, checks_a_file_as_a_job_would, .timeout = 30)
{
    char *folder = folder_new();
    struct ran good = ran("printf %s >%s/s && chmod 600 %s/s && $TUTTI secret --check %s/s", BASE64,
                          folder, folder, folder),
               variable = ran("TUTTI_SECRET=" HEX " $TUTTI secret | grep ^id"),
               open_ = ran("chmod 644 %s/s && $TUTTI secret --check %s/s", folder, folder),
               absent = ran("$TUTTI secret --check %s/no", folder);
    g_autofree char *id = g_strstrip(g_strdup(variable.out));

    cr_expect_eq(good.code, 0, "%s", good.err);
    CONTAINS(good.out, "source  TUTTI_SECRET_FILE\n");
    CONTAINS(good.out, id);
    cr_expect_eq(open_.code, 1);
    CONTAINS(open_.err, "tutti secret: --check: ");
    CONTAINS(open_.err, "has mode 0644, so others may know it: use chmod 600");
    cr_expect_eq(absent.code, 1);
    CONTAINS(absent.err, "cannot open ");
    ran_free(&good);
    ran_free(&variable);
    ran_free(&open_);
    ran_free(&absent);
    folder_remove(folder);
}

Test(secret, is_not_in_what_the_command_prints, .timeout = 30)
{
    static const char *const commands[] = {"secret", "info", "info --env", "info --env --json",
                                           "info --json"};

    for (size_t i = 0; i < G_N_ELEMENTS(commands); i++) {
        struct ran r = ran("TUTTI_SECRET=" HEX " TUTTI_SECRETS=" HEX " $TUTTI %s", commands[i]);

        cr_expect_eq(r.code, 0);
        cr_expect_null(strstr(r.out, "0405060708"), "%s", r.out);
        cr_expect_null(strstr(r.err, "0405060708"), "%s", r.err);
        ran_free(&r);
    }
}

Test(secret, is_made_by_run_for_each_job_and_the_same_for_its_ranks, .timeout = 30)
{
    char *folder = folder_new();
    struct ran first =
                   ran(BARE "$TUTTI run -n 2 -- sh -c 'echo $TUTTI_SECRET' | sort -u -k2", folder),
               second = ran(BARE "$TUTTI run -n 1 -- sh -c 'echo $TUTTI_SECRET'", folder),
               made = ran("ls -A %s", folder);

    cr_expect_eq(strlen(first.out), strlen("[0] \n") + 64, "%s", first.out);
    cr_expect_eq(strlen(second.out), strlen("[0] \n") + 64, "%s", second.out);
    cr_expect_neq(strcmp(first.out + 4, second.out + 4), 0);
    cr_expect_str_empty(made.out); /* the user's own was not needed */
    ran_free(&first);
    ran_free(&second);
    ran_free(&made);
    folder_remove(folder);
}

Test(secret, of_the_user_comes_before_that_of_run, .timeout = 30)
{
    struct ran given = ran("TUTTI_SECRET=" HEX " $TUTTI run -n 1 -- sh -c 'echo $TUTTI_SECRET'"),
               bad = ran("TUTTI_SECRET=short $TUTTI run -n 1 -- echo started");

    cr_expect_str_eq(given.out, "[0] " HEX "\n");
    cr_expect_eq(bad.code, 1);
    CONTAINS(bad.err, "tutti run: TUTTI_SECRET has 5 characters");
    cr_expect_null(strstr(bad.out, "started"));
    ran_free(&given);
    ran_free(&bad);
}

Test(secret, nobody_but_run_tells_ranks_of_others_that_ended, .timeout = 60)
{
    struct ran r = ran("$TUTTI run -n 3 %s/rank_secret an_end_told_by_a_stranger_is_named_on_all",
                       TUTTI_TEST_PROGRAMS);

    cr_expect_eq(r.code, 0, "%s%s", r.out, r.err);
    ran_free(&r);
}

Test(secret, encrypts_what_is_said_to_be_encrypted, .timeout = 30)
{
    struct ran shm = ran("TUTTI_DEBUG=INFO TUTTI_TLS=1 $TUTTI run -n 2 --backend shm %s/hello",
                         TUTTI_TEST_PROGRAMS),
               tcp = ran("TUTTI_DEBUG=INFO TUTTI_TLS=1 $TUTTI run -n 2 --backend tcp %s/hello",
                         TUTTI_TEST_PROGRAMS);

    CONTAINS(shm.err, ", connections encrypted)");
    CONTAINS(tcp.err, ", connections encrypted)");
    ran_free(&shm);
    ran_free(&tcp);
}
