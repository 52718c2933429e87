/* SPDX-License-Identifier: Apache-2.0 */
/* The plugins are those of plugins/variant.c, each wrong in the way that its name says. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tutti/info.h>
#include <tutti/plugin.h>

#include "base/distance.h"
#include "plugin/host.h"
#include "plugin/plugin.h"
#include "plugin/search.h"

#define PLUGINS TUTTI_BINARY_DIR "/tests/plugins"

static void use_test_plugins(void)
{
    setenv("TUTTI_PLUGIN_PATH", PLUGINS, 1);
    unsetenv("TUTTI_PLUGIN_TRUST");
    unsetenv("TUTTI_TEST_MARK");
}

TestSuite(plugin_loader, .init = use_test_plugins, .timeout = 10);

static void check_words(const char *words)
{
    cr_assert_not_null(strstr(tutti_last_error(), words), "\"%s\" lacks \"%s\"", tutti_last_error(),
                       words);
}

Test(plugin_loader, a_good_plugin_is_found_once_and_stays)
{
    const tutti_plugin *first, *second;

    cr_assert_eq(plugin_find("good", &first), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(plugin_find("good", &second), TUTTI_OK);
    cr_assert_eq(first, second);
    cr_assert_str_eq(first->name, "good");
    cr_assert_not_null(plugin_transport(first));
    cr_assert_null(plugin_provider(first, TUTTI_PROVIDER_DEVICE));
    cr_assert_eq(plugin_open(PLUGINS "/libtutti-good.so", &second), TUTTI_OK);
    cr_assert_eq(first, second);
}

Test(plugin_loader, each_broken_plugin_is_refused_in_words)
{
    static const struct {
        const char *name, *words;
        bool code_may_run;
    } cases[] = {
        {"notemajor", "built for plugin ABI 7, this libtutti speaks 0", false},
        {"nonote", "no ELF note of owner \"tutti\"", false},
        {"undefined", "tutti_function_that_nobody_has", false},
        {"magic", "its magic is 0x0000000000001234 instead of 0x6e696c7069747475", true},
        {"major", "built for plugin ABI 7, this libtutti speaks 0", true},
        {"short", "incomplete: 16 bytes", true},
        {"symbol", "does not export the symbol tutti_plugin_v0", true},
        {"renamed", "calls itself \"other\" and its file \"renamed\"", true},
        {"lacks", "lacks the required function isend", true},
        {"older", "lacks the required function close", true},
        {"nomap", "lacks one of map_start", true},
        {"nolanes", "0 lanes", true},
        {"halfpair", "has send_pair or take_pair but lacks the other", true},
        {"many", "1000000 providers", true},
        {"none", "0 providers", true},
        {"wraps", "wrapper wraps lacks the required function open", true},
    };

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        const tutti_plugin *plugin;

        unsetenv("TUTTI_TEST_MARK");
        cr_expect_eq(plugin_find(cases[i].name, &plugin), TUTTI_ERR_PLUGIN, "%s", cases[i].name);
        check_words(cases[i].words);
        check_words(PLUGINS "/libtutti-");
        cr_expect_eq(getenv("TUTTI_TEST_MARK") != NULL, cases[i].code_may_run, "%s", cases[i].name);
    }
}

Test(plugin_loader, an_unknown_name_is_answered_with_the_nearest_and_the_known_ones)
{
    const tutti_plugin *plugin;
    char known[512];

    cr_assert_eq(plugin_find("godo", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("unknown backend \"godo\": did you mean \"good\"? Known: ");
    check_words("others, not opened for this: good, goods, halfpair, lacks, magic,");
    check_words("searched for libtutti-godo.so in " PLUGINS ", ");
    cr_assert_eq(plugin_find("bogus", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("unknown backend \"bogus\"; known: ");
    cr_assert_eq(plugin_find("../evil", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("unknown backend \"../evil\"");
    cr_assert_eq(plugin_find("", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(plugin_find("gold", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    cr_expect_null(strstr(tutti_last_error(), "did you mean \"goods\""), "%s", tutti_last_error());

    plugin_known_names(known, sizeof known);
    cr_assert(!strncmp(known, "good, goods, halfpair, lacks", 28), "%s", known);
    setenv("TUTTI_PLUGIN_PATH", "/nonexistent::", 1);
    plugin_known_names(known, sizeof known);
    cr_assert_str_eq(known, "none");
}

Test(plugin_loader, a_file_must_be_called_as_a_plugin)
{
    static const char *const paths[] = {"/lib/libm.so",         PLUGINS "/libtutti-.so",
                                        "libtutti-X.so",        "libtutti-auto.so",
                                        "x/libtutti-good.so.1", ""};
    const tutti_plugin *plugin;

    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++) {
        cr_expect_eq(plugin_open(paths[i], &plugin), TUTTI_ERR_INVALID_ARGUMENT, "%s", paths[i]);
        check_words("libtutti-NAME.so");
    }
}

static void copy(const char *from, const char *to, long bytes)
{
    FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");

    cr_assert(in && out);
    for (int c; bytes-- > 0 && (c = getc(in)) != EOF;)
        putc(c, out);
    fclose(in);
    fclose(out);
}

static char directory[] = "/tmp/tutti-test-XXXXXX";

static void make_directory(void)
{
    use_test_plugins();
    umask(022);
    cr_assert_not_null(mkdtemp(directory));
    setenv("TUTTI_PLUGIN_PATH", directory, 1);
    cr_assert_eq(chdir(directory), 0);
}

static void remove_directory(void)
{
    cr_expect_eq(chdir("/"), 0);
    unlink("libtutti-good.so");
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", directory);
    cr_expect_eq(system(command), 0);
}

TestSuite(plugin_file, .init = make_directory, .fini = remove_directory, .timeout = 60);

Test(plugin_file, a_truncated_copy_is_refused_at_every_length)
{
    struct stat st;
    const tutti_plugin *plugin;

    cr_assert_eq(stat(PLUGINS "/libtutti-good.so", &st), 0);
    for (long bytes = 0; bytes < st.st_size; bytes += bytes < 1100 ? 7 : 977) {
        copy(PLUGINS "/libtutti-good.so", "libtutti-good.so", bytes);
        cr_assert_eq(plugin_find("good", &plugin), TUTTI_ERR_PLUGIN, "%ld bytes", bytes);
        if (bytes >= 64)
            check_words("truncated");
    }
    copy(PLUGINS "/libtutti-good.so", "libtutti-good.so", st.st_size);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_OK, "%s", tutti_last_error());
}

Test(plugin_file, one_that_others_can_write_is_denied_until_cured_or_overridden)
{
    char cure[128];
    const tutti_plugin *plugin;

    copy(PLUGINS "/libtutti-good.so", "libtutti-good.so", 1 << 24);
    cr_assert_eq(chmod("libtutti-good.so", 0666), 0);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_ERR_DENIED);
    snprintf(cure, sizeof cure, "mode 0666 lets everybody write it; chmod o-w %s/libtutti-good.so",
             directory);
    check_words(cure);
    cr_assert_null(getenv("TUTTI_TEST_MARK"));

    setenv("TUTTI_PLUGIN_TRUST", "yes", 1);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("TUTTI_PLUGIN_TRUST=yes: only \"any\" is known");
    setenv("TUTTI_PLUGIN_TRUST", "any", 1);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_OK);
    unsetenv("TUTTI_PLUGIN_TRUST");

    cr_assert_eq(chmod("libtutti-good.so", 0644), 0);
    cr_assert_eq(chmod(directory, 0777), 0);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_ERR_DENIED);
    check_words("mode 0777");
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_OK);
}

Test(plugin_file, a_link_is_judged_by_what_it_leads_to)
{
    const tutti_plugin *plugin;

    cr_assert_eq(symlink(PLUGINS "/libtutti-good.so", "libtutti-good.so"), 0);
    cr_assert_eq(plugin_find("good", &plugin), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(symlink(PLUGINS "/libtutti-good.so", "libtutti-alias.so"), 0);
    cr_assert_eq(plugin_find("alias", &plugin), TUTTI_ERR_PLUGIN);
    check_words("calls itself \"good\" and its file \"alias\"");
    cr_assert_eq(symlink("nowhere", "libtutti-dangling.so"), 0);
    cr_assert_eq(plugin_find("dangling", &plugin), TUTTI_ERR_PLUGIN);
    check_words("No such file");
    cr_assert_eq(mkfifo("libtutti-fifo.so", 0600), 0);
    cr_assert_eq(plugin_find("fifo", &plugin), TUTTI_ERR_PLUGIN);
    check_words("not a regular file");
}

/* Runs a copy of plugins/secure.c, which has the set-id bit when `mode` says so. */
static void run_secure(unsigned mode, const char *argument, char *ret_words, int size)
{
    char command[128];

    copy(TUTTI_BINARY_DIR "/tests/plugins/secure", "secure", 1 << 30);
    cr_assert_eq(chown("secure", 65534, (gid_t)-1), 0);
    cr_assert_eq(chmod("secure", mode), 0);
    snprintf(command, sizeof command, "%s/secure %s 2>/dev/null", directory, argument);
    FILE *pipe = popen(command, "r");
    cr_assert_not_null(pipe);
    cr_assert_not_null(fgets(ret_words, size, pipe));
    pclose(pipe);
}

Test(plugin_file, a_set_id_program_does_not_believe_the_environment)
{
    char words[1024];

    if (geteuid())
        cr_skip_test("only root may give a program to another user");
    setenv("TUTTI_PLUGIN_PATH", PLUGINS, 1);
    setenv("TUTTI_PLUGIN_TRUST", "any", 1);
    run_secure(0755, "", words, sizeof words);
    cr_assert_eq(strncmp(words, "0 any=1 good, goods", 19), 0, "%s", words);
    run_secure(04755, "", words, sizeof words);
    if (words[0] == '0')
        cr_skip_test("set-id programs have no effect in %s", directory);
    cr_assert_eq(strncmp(words, "1 any=0 none", 12), 0, "%s", words);
}

Test(plugin_file, a_set_id_program_reads_no_tuning_file_of_its_caller)
{
    char words[1024];

    if (geteuid())
        cr_skip_test("only root may give a program to another user");
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    setenv("TUTTI_TUNING", "/proc/self/no-file", 1);
    run_secure(0755, "init", words, sizeof words);
    cr_expect_not_null(strstr(words, "the tuning file /proc/self/no-file cannot be read"), "%s",
                       words);
    run_secure(04755, "init", words, sizeof words);
    if (words[0] == '0')
        cr_skip_test("set-id programs have no effect in %s", directory);
    cr_expect_eq(strncmp(words, "1 TUTTI_OK", 10), 0, "%s", words);
}

Test(plugin_file, a_set_id_program_touches_no_file_that_its_caller_names)
{
    char words[1024], file[96], store[128];

    if (geteuid())
        cr_skip_test("only root may give a program to another user");
    snprintf(file, sizeof file, "%s/store", directory);
    snprintf(store, sizeof store, "file://%s", file);
    close(open(file, O_CREAT | O_WRONLY, 0666));
    cr_assert_eq(chmod(file, 0666), 0);
    setenv("RANK", "0", 1);
    setenv("WORLD_SIZE", "1", 1);
    setenv("TUTTI_STORE", store, 1);
    run_secure(04755, "init", words, sizeof words);
    if (words[0] == '0')
        cr_skip_test("set-id programs have no effect in %s", directory);
    cr_expect_not_null(strstr(words, "a set-id program takes no file from its caller's"), "%s",
                       words);
    cr_expect_eq(access(file, F_OK), 0, "the file was removed");
    run_secure(0755, "init", words, sizeof words);
    cr_expect_eq(strncmp(words, "0 TUTTI_OK", 10), 0, "%s", words);
    cr_expect_eq(access(file, F_OK), -1);
    unsetenv("TUTTI_STORE");
    setenv("TUTTI_WRAP", "nothing-of-the-sort", 1);
    run_secure(04755, "init", words, sizeof words);
    cr_expect_eq(strncmp(words, "1 TUTTI_OK", 10), 0, "%s", words);
    run_secure(0755, "init", words, sizeof words);
    cr_expect_not_null(strstr(words, "nothing-of-the-sort"), "%s", words);
}

Test(plugin_file, a_set_id_program_takes_no_secret_of_its_caller)
{
    char words[1024], config[96];

    if (geteuid())
        cr_skip_test("only root may give a program to another user");
    setenv("TUTTI_SECRET_FILE", "/proc/self/no-file", 1);
    run_secure(0755, "secret", words, sizeof words);
    cr_expect_not_null(strstr(words, "TUTTI_SECRET_FILE: cannot open /proc/self/no-file"), "%s",
                       words);
    run_secure(04755, "secret", words, sizeof words);
    if (words[0] == '0')
        cr_skip_test("set-id programs have no effect in %s", directory);
    cr_expect_str_eq(words, "1 none\n");
    unsetenv("TUTTI_SECRET_FILE");
    setenv("TUTTI_SECRET", "short", 1);
    run_secure(04755, "secret", words, sizeof words);
    cr_expect_str_eq(words, "1 none\n");
    unsetenv("TUTTI_SECRET");
    snprintf(config, sizeof config, "%s/config", directory);
    setenv("XDG_CONFIG_HOME", config, 1);
    run_secure(04755, "secret", words, sizeof words);
    cr_expect_str_eq(words, "1 none\n");
    cr_expect_eq(access(config, F_OK), -1);
}

struct listing {
    int ready, refused, hidden;
    char words[4096];
};

static void note_row(const tutti_plugin_info *info, void *user)
{
    struct listing *listing = user;

    cr_expect_not_null(info->version);
    cr_expect_not_null(info->license);
    cr_expect_eq(!info->ready, *info->reason != 0);
    listing->ready += info->ready;
    listing->refused += !info->ready;
    listing->hidden += !strncmp(info->reason, "not used: ", 10);
    size_t n = strlen(listing->words);
    snprintf(listing->words + n, sizeof listing->words - n, "%s:%d:%u ", info->name, info->ready,
             info->abi_major);
}

Test(plugin_file, the_list_has_every_file_with_its_reason)
{
    struct listing listing = {.ready = 0};
    char path[128];

    copy(PLUGINS "/libtutti-good.so", "libtutti-good.so", 1 << 24);
    copy(PLUGINS "/libtutti-good.so", "libtutti-half.so", 4000);
    snprintf(path, sizeof path, "%s:%s", directory, PLUGINS);
    setenv("TUTTI_PLUGIN_PATH", path, 1);
    cr_assert_eq(tutti_plugins_list(note_row, &listing), TUTTI_OK);
    cr_assert_eq(listing.ready, 2, "%s", listing.words);
    cr_assert_eq(listing.refused, 1 + 1 + 16);
    cr_assert_eq(listing.hidden, 1);
    cr_assert(!strncmp(listing.words, "good:1:0 half:0:0 good:0:0 goods:1:0 ", 37), "%s",
              listing.words);
    cr_assert_not_null(strstr(listing.words, "notemajor:0:7 "));
    cr_assert_eq(tutti_plugins_list(NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
}

Test(plugin_loader, a_registered_plugin_comes_before_files)
{
    const tutti_plugin *file, *found;
    struct listing listing = {.ready = 0};

    cr_assert_eq(plugin_find("good", &file), TUTTI_OK);
    tutti_plugin own = *file, other = *file;
    cr_assert_eq(tutti_plugin_register(&own), TUTTI_OK);
    cr_assert_eq(tutti_plugin_register(&own), TUTTI_OK);
    cr_assert_eq(plugin_find("good", &found), TUTTI_OK);
    cr_assert_eq(found, &own);
    cr_assert_eq(tutti_plugin_register(&other), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("another plugin is registered as \"good\"");
    other.magic = 0;
    cr_assert_eq(tutti_plugin_register(&other), TUTTI_ERR_PLUGIN);
    cr_assert_eq(tutti_plugin_register(NULL), TUTTI_ERR_INVALID_ARGUMENT);
    cr_assert_eq(tutti_plugins_list(note_row, &listing), TUTTI_OK);
    cr_assert(!strncmp(listing.words, "good:1:0 good:0:0 ", 18), "%s", listing.words);
}

Test(plugin_loader, a_provider_has_a_name_that_can_be_shown)
{
    static const char *const names[] = {"", "two\nlines", "\x7f", "\xc2\x9b[2J", "k\xfcrzer"};
    const tutti_plugin *file;

    cr_assert_eq(plugin_find("good", &file), TUTTI_OK);
    tutti_plugin own = *file;
    tutti_provider provider = *file->providers[0];

    own.providers = (const tutti_provider *const[]){&provider};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        provider.name = names[i];
        cr_expect_eq(tutti_plugin_register(&own), TUTTI_ERR_PLUGIN, "case %zu", i);
        check_words(
            "provider 0 has a name that is empty or has control characters or invalid UTF-8");
    }
    provider.name = "kürzer";
    cr_expect_eq(tutti_plugin_register(&own), TUTTI_OK, "%s", tutti_last_error());
}

Test(plugin_loader, a_known_plugin_that_is_not_here_is_told_with_what_to_do)
{
    static const struct {
        const char *name, *words;
    } cases[] = {
        {"gloo", "backend \"gloo\" is known to tutti, but not installed here: apt-get install"},
        {"mpi", "backend \"mpi\" is known to tutti, but not installed here: apt-get install"},
        {"tcp", "backend \"tcp\" is known to tutti, but not installed here: install tutti again"},
        {"ucx",
         "backend \"ucx\" is known to tutti, but not installed here: apt-get install libucx"},
        {"ucc", "backend \"ucc\" is known to tutti, but not installed here: install tutti again"},
        {"nccl", "backend \"nccl\" is known to tutti, but not installed here: install tutti again"},
    };
    const tutti_plugin *plugin;

    setenv("TUTTI_PLUGIN_PATH", "/nonexistent", 1);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        cr_expect_eq(plugin_find(cases[i].name, &plugin), TUTTI_ERR_INVALID_ARGUMENT, "%s",
                     cases[i].name);
        check_words(cases[i].words);
        cr_expect_null(strstr(tutti_last_error(), "did you mean"), "%s", tutti_last_error());
    }
    cr_expect_eq(plugin_find_wrapper("check", &plugin), TUTTI_ERR_INVALID_ARGUMENT);
    check_words("wrapper \"check\" is known to tutti, but not installed here");
}

static void count_known(const tutti_known_plugin *known, void *user)
{
    int *count = user;

    ++*count;
    cr_expect(*known->name && *known->provides && *known->purpose && *known->get, "%s",
              known->name);
}

Test(plugin_loader, known_plugins_are_listed_with_how_to_get_them)
{
    int count = 0;

    cr_expect_eq(tutti_plugins_known(count_known, &count), TUTTI_OK);
    cr_expect_eq(count, 11);
    cr_expect_eq(tutti_plugins_known(NULL, NULL), TUTTI_ERR_INVALID_ARGUMENT);
}

Test(plugin_loader, a_guess_is_one_change_away)
{
    static const struct {
        const char *word, *candidate;
        bool near;
    } cases[] = {{"tpc", "tcp", true},         {"ucx", "tcp", false},  {"trace", "grace", false},
                 {"hsm", "shm", true},         {"sh", "shm", false},   {"", "shm", false},
                 {"rnu", "run", true},         {"xun", "run", false},  {"jsn", "json", true},
                 {"mpi", "mpi", false},        {"gold", "good", true}, {"goad", "goods", false},
                 {"barriers", "barrier", true}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(word_is_near(cases[i].word, cases[i].candidate), cases[i].near, "%s %s",
                     cases[i].word, cases[i].candidate);
}

Test(plugin_loader, distance_counts_changes)
{
    static const struct {
        const char *a, *b;
        unsigned distance;
    } cases[] = {{"shm", "shm", 0},  {"shn", "shm", 1},   {"hsm", "shm", 1}, {"sh", "shm", 1},
                 {"tcpp", "tcp", 1}, {"gloo", "glob", 1}, {"", "tcp", 3},    {"tcp", "", 3}};

    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++)
        cr_expect_eq(word_distance(cases[i].a, cases[i].b), cases[i].distance, "%s %s: %u",
                     cases[i].a, cases[i].b, word_distance(cases[i].a, cases[i].b));
}

Test(plugin_loader, an_error_told_to_a_borrower_is_its_own)
{
    struct host_user user = {.name = "good"};

    host_borrow(&user);
    (void)host_error(&user, TUTTI_ERR_PLUGIN, 0, "of the borrower");
    check_words("of the borrower");
    cr_expect_eq(user.status, TUTTI_OK);
    host_borrow(NULL);
    (void)host_error(&user, TUTTI_ERR_SYSTEM, 0, "of another");
    cr_expect_eq(user.status, TUTTI_ERR_SYSTEM);
}
