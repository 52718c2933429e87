/* SPDX-License-Identifier: Apache-2.0 */
#include "dumps.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATH_BYTES = 400 };

struct dumps dumps_new(void)
{
    struct dumps f = {.path = "/tmp/tutti-dumps-XXXXXX",
                      .until_ns = fault_now_ns() + (FAULT_TEST_S - 5) * 1000000000LL};

    cr_assert_not_null(mkdtemp(f.path));
    snprintf(f.dump_dir, sizeof f.dump_dir, "TUTTI_DUMP_DIR=%s", f.path);
    snprintf(f.test_folder, sizeof f.test_folder, "TUTTI_TEST_FOLDER=%s", f.path);
    return f;
}

int dumps_count(const struct dumps *f, const char *end)
{
    DIR *dir = opendir(f->path);
    int count = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        size_t length = strlen(e->d_name);

        count += length > strlen(end) && !strcmp(e->d_name + length - strlen(end), end);
    }
    if (dir)
        closedir(dir);
    return count;
}

bool dumps_await(const struct dumps *f, int count)
{
    while (dumps_count(f, ".json") < count && fault_now_ns() < f->until_ns)
        usleep(5000);
    return dumps_count(f, ".json") == count;
}

void dumps_remove(struct dumps *f)
{
    char path[PATH_BYTES];
    DIR *dir = opendir(f->path);

    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        if (e->d_name[0] != '.' || e->d_name[1] == 't')
            unlink(path);
    }
    if (dir)
        closedir(dir);
    cr_expect_eq(rmdir(f->path), 0, "something else is left in %s", f->path);
}

void dumps_expect(const struct dumps *f, const char *words)
{
    char path[PATH_BYTES], text[65536];
    DIR *dir = opendir(f->path);
    int looked_at = 0;

    for (struct dirent *e; dir && (e = readdir(dir));) {
        snprintf(path, sizeof path, "%s/%s", f->path, e->d_name);
        FILE *file = strstr(e->d_name, ".json") ? fopen(path, "re") : NULL;
        if (!file)
            continue;
        text[fread(text, 1, sizeof text - 1, file)] = 0;
        fclose(file);
        looked_at++;
        cr_expect_not_null(strstr(text, words), "%s lacks «%s»: %s", e->d_name, words, text);
    }
    if (dir)
        closedir(dir);
    cr_expect_gt(looked_at, 0, "there is no dump in %s", f->path);
}

int dumps_verdict(const struct dumps *f, char *ret_words, size_t capacity)
{
    char command[PATH_BYTES];

    snprintf(command, sizeof command, "%s trace analyze %s 2>&1", TUTTI_COMMAND, f->path);
    FILE *answer = popen(command, "r");
    cr_assert_not_null(answer);
    ret_words[fread(ret_words, 1, capacity - 1, answer)] = 0;
    int how = pclose(answer);
    return WIFEXITED(how) ? WEXITSTATUS(how) : -1;
}

void dumps_analyze(const struct dumps *f, int code, const char *const *parts)
{
    char words[16384];
    const int exit_code = dumps_verdict(f, words, sizeof words);

    cr_expect_eq(exit_code, code, "exit %d: %s", exit_code, words);
    for (; *parts; parts++)
        cr_expect_not_null(strstr(words, *parts), "no «%s» in:\n%s", *parts, words);
}
