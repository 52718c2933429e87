/* SPDX-License-Identifier: Apache-2.0 */
/* `tutti secret`: where the secret of jobs is, its public id, and a new one. It never prints a secret. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "cli.h"
#include "secret/secret.h"
#include "verbs.h"

static const char summary[] =
    "Shows the secret by which the ranks that you start prove themselves to each other: where it\n"
    "is, and its public id. Ranks whose secrets have the same id have the same secret. The secret\n"
    "itself is not shown.\n\n"
    "Without TUTTI_SECRET_FILE and TUTTI_SECRET it is the file tutti/secret in XDG_CONFIG_HOME, "
    "or\n"
    "in .config of HOME. The first job that needs this file makes it. tutti run makes a secret of\n"
    "its own for each job.";

static const char description[] =
    "A file must be a regular one that belongs to you, with mode 0600 or stricter. It holds 32\n"
    "bytes, or these in hex or base64. Jobs that run keep the secret that they began with.\n\n"
    "Examples:\n"
    "  tutti secret\n"
    "  tutti secret --new\n"
    "  tutti secret --check /run/secrets/tutti\n";

static void print(const char *name, const char *value)
{
    printf("%-7s %s\n", name, value);
}

static void print_secret(const struct secret *secret)
{
    char id[SECRET_ID_SHORT];

    secret_id_text(secret->id, id);
    print("source", secret_source_words(secret->source));
    if (secret->source == SECRET_FROM_FILE || secret->source == SECRET_OWN_FILE)
        print("file", secret->place);
    print("id", id);
}

static int fail(void)
{
    cli_say("secret", "%s", error_message());
    return EXIT_FAILED;
}

/* Why the file cannot be made in the nearest directory that is there; NULL: it can. */
static char *obstacle_to(const char *path)
{
    g_autofree char *folder = g_path_get_dirname(path);

    while (!g_file_test(folder, G_FILE_TEST_EXISTS)) {
        char *above = g_path_get_dirname(folder);

        g_free(folder);
        folder = above;
    }
    if (g_file_test(folder, G_FILE_TEST_IS_DIR) && access(folder, W_OK | X_OK) == 0)
        return NULL;
    return g_strdup_printf("%s: %s", folder,
                           strerror(g_file_test(folder, G_FILE_TEST_IS_DIR) ? errno : ENOTDIR));
}

/* The file of the next job, which makes it. */
static int print_none(const struct secret *secret)
{
    char path[SECRET_PLACE_MAX], why[SECRET_PLACE_MAX];

    print("source", secret_source_words(SECRET_NONE));
    if (!secret_own_path(path, why, sizeof why)) {
        cli_say("secret", "%s", why);
        return EXIT_FAILED;
    }
    print("file", path);
    g_autofree char *obstacle = obstacle_to(path);
    if (obstacle) {
        cli_say("secret",
                "it cannot be made (%s), so jobs have no secret unless TUTTI_SECRET or "
                "TUTTI_SECRET_FILE gives one",
                obstacle);
        return EXIT_FAILED;
    }
    printf("        %s\n", secret->place);
    return EXIT_OK;
}

static int show(struct secret *secret)
{
    if (secret_find(secret, NULL, false))
        return fail();
    if (secret->source == SECRET_NONE)
        return print_none(secret);
    print_secret(secret);
    return EXIT_OK;
}

static int show_file(struct secret *secret, enum secret_source source, const char *path)
{
    struct key key;
    tutti_status status =
        secret_read_file(source == SECRET_OWN_FILE ? "--new" : "--check", path, &key);

    if (!status)
        status = secret_take(secret, source, path, &key);
    key_wipe(&key, sizeof key);
    if (status)
        return fail();
    print_secret(secret);
    return EXIT_OK;
}

static int make_new(struct secret *secret)
{
    char path[SECRET_PLACE_MAX], why[SECRET_PLACE_MAX];

    if (!secret_own_path(path, why, sizeof why) || !secret_make_file(path, true, why, sizeof why)) {
        cli_say("secret", "%s", why);
        return EXIT_FAILED;
    }
    if (g_getenv("TUTTI_SECRET_FILE") || g_getenv("TUTTI_SECRET"))
        cli_say("secret", "TUTTI_SECRET_FILE or TUTTI_SECRET is set, and comes before this file");
    return show_file(secret, SECRET_OWN_FILE, path);
}

int secret_main(int argc, char **argv)
{
    gboolean is_new = FALSE;
    g_autofree char *file = NULL;
    const GOptionEntry entries[] = {
        {"new", 0, 0, G_OPTION_ARG_NONE, &is_new,
         "Makes your file, or replaces the secret in it, and shows its id", NULL},
        {"check", 0, 0, G_OPTION_ARG_FILENAME, &file,
         "Shows the id of the secret in FILE, if TUTTI_SECRET_FILE may name it", "FILE"},
        {NULL, 0, 0, G_OPTION_ARG_NONE, NULL, NULL, NULL}};
    struct secret *secret;

    if (!cli_parse("secret", NULL, summary, description, entries, false, &argc, &argv))
        return EXIT_USAGE;
    if (argc > 0)
        return cli_usage("secret", "unexpected argument '%s'", argv[0]);
    if (is_new && file)
        return cli_usage("secret", "one of --new and --check only");
    if (secret_new(&secret))
        return fail();

    const int code = is_new ? make_new(secret)
                     : file ? show_file(secret, SECRET_FROM_FILE, file)
                            : show(secret);

    secret_unref(secret);
    return code;
}
