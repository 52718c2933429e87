/* SPDX-License-Identifier: Apache-2.0 */
#include "dispatch/tuning.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/distance.h"
#include "base/error.h"

enum { FILE_MAX = 16 * 1024 };

static const char variable[] = "TUTTI_TUNING";

/* A line of a file. */
struct place_in_file {
    const char *path;
    int line;
};

/* What the lines before have set. */
struct seen {
    bool thresholds[THRESHOLDS], operations[OPERATION_COUNT];
};

/* ---- the file ---- */

bool tuning_path(char ret_path[TUNING_PATH_MAX], bool *ret_named)
{
    const char *named = secure_getenv(variable), *config = secure_getenv("XDG_CONFIG_HOME"),
               *home = secure_getenv("HOME");
    int length = 0;

    *ret_named = named && *named;
    if (*ret_named)
        length = strcmp(named, "none") ? snprintf(ret_path, TUNING_PATH_MAX, "%s", named) : 0;
    else if (config && *config == '/')
        length = snprintf(ret_path, TUNING_PATH_MAX, "%s/tutti/tuning", config);
    else if (home && *home == '/')
        length = snprintf(ret_path, TUNING_PATH_MAX, "%s/.config/tutti/tuning", home);
    return length > 0 && length < TUNING_PATH_MAX;
}

/* Reads all of the file, but at most `size` - 1 bytes; false with errno. */
static bool read_whole(const char *path, char *ret_text, size_t size)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    struct stat info;
    size_t used = 0;
    ssize_t got = 1;

    if (fd < 0)
        return false;
    if (fstat(fd, &info) || !S_ISREG(info.st_mode)) {
        close(fd);
        errno = EINVAL;
        return false;
    }
    while (got > 0 && used < size - 1) {
        got = read(fd, ret_text + used, size - 1 - used);
        if (got < 0 && errno == EINTR)
            got = 1;
        else if (got > 0)
            used += (size_t)got;
    }
    ret_text[used] = 0;
    const int error = got < 0 ? errno : used == size - 1 ? EFBIG : 0;
    close(fd);
    errno = error;
    return !error;
}

/* ---- a line ---- */

static tutti_status bad(struct place_in_file where, const char *words)
{
    return error_set(TUTTI_ERR_INVALID_ARGUMENT,
                     "the tuning file %.*s, line %d: %s; with TUTTI_TUNING=none no file is read",
                     TEXT_CUT(where.path, 500), where.line, words);
}

/* `text` without blanks around it. */
static char *strip(char *text)
{
    char *end = text + strlen(text);

    while (end > text && isspace((unsigned char)end[-1]))
        *--end = 0;
    while (isspace((unsigned char)*text))
        text++;
    return text;
}

static enum threshold find(const char *name)
{
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++)
        if (!strcmp(name, threshold_rows[i].name))
            return (enum threshold)i;
    return THRESHOLD_NONE;
}

static tutti_status bad_name(struct place_in_file where, const char *name)
{
    char buffer[384];
    struct text words = text_in(buffer, sizeof buffer);

    text_add(&words, "there is no threshold «%.*s»", TEXT_CUT(name, 64));
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++)
        if (word_is_near(name, threshold_rows[i].name))
            text_add(&words, "; did you mean %s?", threshold_rows[i].name);
    text_add(&words, "; tutti-bench(1) lists them");
    text_make_printable(buffer);
    return bad(where, buffer);
}

/* "16384", "16K": false if it is no such number. */
static bool parse_bytes(const char *text, uint64_t *ret_bytes)
{
    static const char suffixes[] = "KMG";
    uint64_t bytes = 0;

    if (!isdigit((unsigned char)*text))
        return false;
    for (; isdigit((unsigned char)*text); text++)
        if (__builtin_mul_overflow(bytes, 10, &bytes) ||
            __builtin_add_overflow(bytes, (uint64_t)(*text - '0'), &bytes))
            return false;
    const char *suffix = *text ? strchr(suffixes, toupper((unsigned char)*text)) : NULL;
    if (suffix && __builtin_mul_overflow(bytes, UINT64_C(1024) << 10 * (suffix - suffixes), &bytes))
        return false;
    *ret_bytes = bytes;
    return !text[suffix ? 1 : 0];
}

static tutti_status take_value(struct place_in_file where, enum threshold threshold,
                               const char *value, struct thresholds *thresholds)
{
    const struct threshold_row *row = &threshold_rows[threshold];
    char words[320];
    uint64_t bytes;

    if (parse_bytes(value, &bytes) && bytes >= row->least && bytes <= row->most) {
        thresholds->bytes[threshold] = bytes;
        thresholds->tuned[threshold] = true;
        return TUTTI_OK;
    }
    snprintf(words, sizeof words,
             "%s = %.*s is not valid: use bytes from %llu to %llu, such as 4096 or 4K", row->name,
             TEXT_CUT(value, 64), (unsigned long long)row->least, (unsigned long long)row->most);
    text_make_printable(words);
    return bad(where, words);
}

/* Whether a file may name it: which one is best over messages depends on the network. */
static bool may_be_fixed(const struct algorithm *algorithm, enum operation operation)
{
    return algorithm->operation == operation &&
           (algorithm->kind == ALGORITHM_MESSAGES || algorithm->kind == ALGORITHM_COMPOSED);
}

static enum operation find_operation(const char *name)
{
    for (int i = OPERATION_NONE + 1; i < OPERATION_COUNT; i++)
        if (!strcmp(name, operation_name(i)))
            return (enum operation)i;
    return OPERATION_NONE;
}

static tutti_status take_algorithm(struct place_in_file where, enum operation operation,
                                   const char *name, struct thresholds *thresholds)
{
    char buffer[384];
    struct text words = text_in(buffer, sizeof buffer);

    text_add(&words, "%s = %.*s is not valid: use", operation_name((int)operation),
             TEXT_CUT(name, 64));
    for (int i = 0; i < ALGORITHMS; i++) {
        const struct algorithm *algorithm = algorithm_table[i];

        if (!may_be_fixed(algorithm, operation))
            continue;
        if (!strcmp(name, algorithm->name)) {
            thresholds->fixed[operation] = algorithm;
            return TUTTI_OK;
        }
        text_add(&words, " %s", algorithm->name);
    }
    text_make_printable(buffer);
    return bad(where, buffer);
}

static tutti_status take_line(struct place_in_file where, char *line, struct seen *seen,
                              struct thresholds *thresholds)
{
    line[strcspn(line, "#")] = 0;
    line = strip(line);
    if (!*line)
        return TUTTI_OK;
    char *equal = strchr(line, '=');
    if (!equal)
        return bad(where, "a line must be `name = value`, such as inline_max = 4096");
    *equal = 0;
    const char *name = strip(line), *value = strip(equal + 1);
    const enum threshold threshold = find(name);
    const enum operation operation = find_operation(name);
    if (!threshold && !operation)
        return bad_name(where, name);
    bool *was_seen = threshold ? &seen->thresholds[threshold] : &seen->operations[operation];
    if (*was_seen)
        return bad(where, threshold ? "the same threshold is set twice; keep one of the lines"
                                    : "the same operation is set twice; keep one of the lines");
    *was_seen = true;
    return threshold ? take_value(where, threshold, value, thresholds)
                     : take_algorithm(where, operation, value, thresholds);
}

static tutti_status take_text(const char *path, char *text, struct thresholds *thresholds)
{
    struct place_in_file where = {.path = path};
    struct seen seen = {0};
    tutti_status status = TUTTI_OK;

    for (char *line = text, *next; line && !status; line = next) {
        next = strchr(line, '\n');
        if (next)
            *next++ = 0;
        where.line++;
        status = take_line(where, line, &seen, thresholds);
    }
    return status;
}

/* A folder that this user may not look into belongs to another user, whose HOME was kept. */
static bool is_absent(int error)
{
    return error == ENOENT || error == ENOTDIR || error == EACCES;
}

tutti_status tuning_read(struct thresholds *ret_thresholds)
{
    struct thresholds thresholds = thresholds_standard;
    char path[TUNING_PATH_MAX], text[FILE_MAX];
    bool named;
    tutti_status status = TUTTI_OK;

    if (tuning_path(path, &named)) {
        if (read_whole(path, text, sizeof text))
            status = take_text(path, text, &thresholds);
        else if (named || !is_absent(errno))
            status =
                errno == EINVAL || errno == EFBIG
                    ? error_set(TUTTI_ERR_INVALID_ARGUMENT,
                                "the tuning file %.*s is not a regular file of less than 16 KiB; "
                                "`tutti bench --tune` writes one, and with TUTTI_TUNING=none none "
                                "is read",
                                TEXT_CUT(path, 500))
                    : error_set_errno(TUTTI_ERR_SYSTEM, errno,
                                      "the tuning file %.*s cannot be read; let TUTTI_TUNING name "
                                      "a file that is there on every host, or set it to none",
                                      TEXT_CUT(path, 500));
    }
    if (!status)
        *ret_thresholds = thresholds;
    return status;
}

/* ---- words ---- */

void tuning_settings(const struct thresholds *thresholds, struct text *settings)
{
    for (int i = THRESHOLD_NONE + 1; i < THRESHOLDS; i++) {
        /* What a file sets is not fitted to the group later, even if it is the standard value. */
        const bool stays = thresholds->tuned[i] && threshold_rows[i].crowded;

        text_add(settings, "%s (%s)=%llu%s\n", threshold_rows[i].name, variable,
                 (unsigned long long)thresholds->bytes[i], stays ? " from a file" : "");
    }
    text_add(settings, "algorithms (%s)=", variable);
    for (int i = 0; i < OPERATION_COUNT; i++)
        if (thresholds->fixed[i])
            text_add(settings, "%s ", thresholds->fixed[i]->name);
    text_add(settings, "\n");
}

void tuning_words(const struct thresholds *thresholds, const struct algorithm *algorithm,
                  int members, struct text *words)
{
    const enum threshold most = algorithm->kind == ALGORITHM_INLINE
                                    ? thresholds_inline(thresholds, algorithm->operation, members)
                                    : algorithm->most;
    const enum threshold threshold = most ? most : algorithm->least;

    if (threshold && !thresholds->fixed[algorithm->operation])
        text_add(words, "%s %s = %llu%s", most ? "up to" : "from", threshold_rows[threshold].name,
                 (unsigned long long)thresholds->bytes[threshold],
                 thresholds->tuned[threshold] ? " as tuned" : "");
}
