/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <tutti/status.h>

#include "plugin/trust.h"

static char directory[PATH_MAX] = "/tmp/tutti-test-XXXXXX";
static char file[PATH_MAX + 16];
static struct trust_rules rules;

static void make_file(void)
{
    umask(022);
    cr_assert_not_null(mkdtemp(directory));
    cr_assert_not_null(realpath(directory, file));
    strcpy(directory, file);
    strcat(file, "/file.so");
    fclose(fopen(file, "w"));
    rules = (struct trust_rules){.user = geteuid(), .library_owner = geteuid()};
}

static void remove_file(void)
{
    unlink(file);
    rmdir(directory);
}

TestSuite(plugin_trust, .init = make_file, .fini = remove_file, .timeout = 10);

static void check_denied(const char *words)
{
    cr_assert_eq(trust_check(&rules, file), TUTTI_ERR_DENIED);
    cr_assert_not_null(strstr(tutti_last_error(), words), "%s", tutti_last_error());
}

Test(plugin_trust, a_private_file_under_a_sticky_directory_is_trusted)
{
    cr_assert_eq(trust_check(&rules, file), TUTTI_OK, "%s", tutti_last_error());
    cr_assert_eq(trust_check(&rules, "relative"), TUTTI_ERR_DENIED);
    cr_assert_eq(trust_check(&rules, "/nonexistent/file"), TUTTI_ERR_DENIED);
}

Test(plugin_trust, every_component_counts)
{
    char words[PATH_MAX + 64];

    snprintf(words, sizeof words, "mode 0757 lets everybody write it; chmod o-w %s", directory);
    cr_assert_eq(chmod(directory, 0757), 0);
    check_denied(words);
    rules.any = true;
    cr_assert_eq(trust_check(&rules, file), TUTTI_OK);
    rules.any = false;
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(chmod(file, 0646), 0);
    check_denied("mode 0646 lets everybody write it");
}

Test(plugin_trust, a_strangers_file_is_denied_and_the_library_owners_is_not)
{
    const uid_t stranger = 65534;

    if (geteuid())
        rules.user = rules.library_owner = stranger; /* the directory is a stranger's to them */
    else
        cr_assert_eq(chown(file, stranger, (gid_t)-1), 0);
    check_denied("who could replace the plugin; chown root");
    rules.library_owner = geteuid() ? geteuid() : stranger;
    cr_assert_eq(trust_check(&rules, file), TUTTI_OK, "%s", tutti_last_error());
}

Test(plugin_trust, what_leads_to_the_library_is_trusted_as_it_is)
{
    cr_assert_eq(chmod(directory, 0777), 0);
    snprintf(rules.library, sizeof rules.library, "%.200s/libtutti.so.0", directory);
    cr_assert_eq(trust_check(&rules, file), TUTTI_OK, "%s", tutti_last_error());
    snprintf(rules.library, sizeof rules.library, "%.200s-other/libtutti.so.0", directory);
    check_denied("mode 0777");
    /* The file itself is never excused. */
    cr_assert_eq(chmod(directory, 0755), 0);
    cr_assert_eq(chmod(file, 0666), 0);
    strcpy(rules.library, file);
    check_denied("mode 0666");
}

Test(plugin_trust, a_group_that_is_not_private_is_denied)
{
    const gid_t somebodys = 65534;

    if (geteuid())
        cr_skip_test("only root may give the file to another group");
    cr_assert_eq(chown(file, (uid_t)-1, somebodys), 0);
    cr_assert_eq(chmod(file, 0664), 0);
    check_denied("mode 0664 lets group 65534 write it; chmod g-w");
    cr_assert_eq(chown(file, (uid_t)-1, 0), 0);
    cr_assert_eq(trust_check(&rules, file), TUTTI_OK, "%s", tutti_last_error());
}

Test(plugin_trust, a_user_named_in_an_access_list_counts)
{
    /* As the kernel keeps it: version, then {tag, permissions, id} for owner, a stranger, group,
     * mask and others. */
    static const unsigned char list[] = {
        2, 0,   0,   0,   0x01, 0,    6,    0, 255, 255, 255, 255, 0x02, 0,    6,
        0, 254, 255, 0,   0,    0x04, 0,    4, 0,   255, 255, 255, 255,  0x10, 0,
        6, 0,   255, 255, 255,  255,  0x20, 0, 4,   0,   255, 255, 255,  255};

    if (setxattr(file, "system.posix_acl_access", list, sizeof list, 0))
        cr_skip_test("no access control lists in %s", directory);
    check_denied("mode 0664 lets group");
}

Test(plugin_trust, this_programs_own_path_is_known)
{
    struct stat own, named;

    cr_assert_eq(stat("/proc/self/exe", &own), 0);
    cr_assert_eq(stat(trust_library_path(), &named), 0);
    cr_assert_eq(own.st_ino, named.st_ino);
}
