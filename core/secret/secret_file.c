/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Secrets in files: how one is read, and how the user's own is made.
 *
 * A file counts only if nobody but its owner, who has to be this user, can have read or written it.
 * It holds 32 bytes, or these as text.
 *
 * The user's own file is written under another name first, and gets its own by link(), which fails
 * where there is one. So it is whole from its first moment, and of many processes that make it at the
 * same time one wins and the others read what the winner wrote.
 */
#include "secret/secret.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/text.h"

enum {
    FILE_BYTES_MAX = 256, /* of text, with blanks */
    PASSWD_ROOM = 4096,
    HEX = 2 * KEY_BYTES,
    BASE64 = 43, /* characters without '=' */
    OTHERS = S_IRWXG | S_IRWXO
};

/* ---- text ---- */

static int hex_digit(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

static int base64_digit(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '+'             ? 62
           : c == '/'             ? 63
                                  : -1;
}

static bool parse_hex(const char *text, struct key *key)
{
    for (int i = 0; i < KEY_BYTES; i++) {
        const int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

        if (high < 0 || low < 0)
            return false;
        key->bytes[i] = (uint8_t)(high << 4 | low);
    }
    return true;
}

static bool parse_base64(const char *text, struct key *key)
{
    unsigned bits = 0, value = 0;
    size_t n = 0;

    for (int i = 0; i < BASE64; i++) {
        const int digit = base64_digit(text[i]);

        if (digit < 0)
            return false;
        value = value << 6 | (unsigned)digit;
        bits += 6;
        if (bits < 8)
            continue;
        bits -= 8;
        key->bytes[n++] = (uint8_t)(value >> bits);
        value &= (1U << bits) - 1;
    }
    return !value; /* 43 characters are 258 bits: the last two are zeros */
}

bool secret_parse(const char *text, size_t length, struct key *ret_key)
{
    static const char blanks[] = " \t\r\n";
    struct key key;
    bool good = false;

    while (length && memchr(blanks, text[length - 1], sizeof blanks - 1))
        length--;
    while (length && memchr(blanks, *text, sizeof blanks - 1)) {
        text++;
        length--;
    }
    if (length == HEX)
        good = parse_hex(text, &key);
    else if (length == BASE64 || (length == BASE64 + 1 && text[BASE64] == '='))
        good = parse_base64(text, &key);
    if (good)
        *ret_key = key;
    key_wipe(&key, sizeof key);
    return good;
}

/* ---- reading ---- */

/* INVALID_ARGUMENT: others may know what is in the file, or it is no file. */
static tutti_status judge(const char *name, const char *path, int fd)
{
    struct stat info;

    if (fstat(fd, &info))
        return error_set_errno(TUTTI_ERR_INVALID_ARGUMENT, errno, "%s: %s", name, path);
    if (!S_ISREG(info.st_mode))
        return error_set(TUTTI_ERR_INVALID_ARGUMENT, "%s: %s is not a regular file", name, path);
    if (info.st_uid != geteuid())
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "%s: %s belongs to user %u, and this process to user %u: only the user's own "
            "file is read; copy it, or chown it",
            name, path, (unsigned)info.st_uid, (unsigned)geteuid());
    if (info.st_mode & OTHERS)
        return error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "%s: %s has mode %04o, so others may know it: use chmod 600, and a new secret "
            "if somebody may have read it",
            name, path, (unsigned)(info.st_mode & 07777));
    return TUTTI_OK;
}

static ssize_t read_all(int fd, char *data, size_t size)
{
    size_t used = 0;

    while (used < size) {
        const ssize_t n = read(fd, data + used, size - used);

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return -1;
        if (!n)
            break;
        used += (size_t)n;
    }
    return (ssize_t)used;
}

static tutti_status read_from(const char *name, const char *path, int fd, struct key *ret_key)
{
    char data[FILE_BYTES_MAX];
    tutti_status status = judge(name, path, fd);

    if (status)
        return status;
    const ssize_t size = read_all(fd, data, sizeof data);
    if (size < 0)
        status =
            error_set_errno(TUTTI_ERR_INVALID_ARGUMENT, errno, "%s: cannot read %s", name, path);
    else if (size == KEY_BYTES)
        memcpy(ret_key->bytes, data, KEY_BYTES);
    else if (!secret_parse(data, (size_t)size, ret_key))
        status = error_set(
            TUTTI_ERR_INVALID_ARGUMENT,
            "%s: %s has %s%zd bytes that are no secret: it must hold 32 bytes, or these in "
            "hex (64 digits) or base64; make one with: openssl rand -hex 32",
            name, path, size == sizeof data ? "at least " : "", size);
    key_wipe(data, sizeof data);
    return status;
}

tutti_status secret_read_file(const char *name, const char *path, struct key *ret_key)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);

    if (fd < 0)
        return error_set_errno(TUTTI_ERR_INVALID_ARGUMENT, errno, "%s: cannot open %s", name, path);
    const tutti_status status = read_from(name, path, fd, ret_key);
    close(fd);
    return status;
}

/* ---- the user's own ---- */

/* Whether the directory is there and this user's; sudo may leave another user's HOME. */
static bool is_own(const char *path)
{
    struct stat info;

    return !stat(path, &info) && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

/* HOME, or what the system says of the user. */
static bool find_home(char *ret_home, size_t capacity)
{
    const char *home = getenv("HOME");
    struct passwd entry, *found = NULL;
    char room[PASSWD_ROOM];

    if (home && *home == '/' && is_own(home))
        return (size_t)snprintf(ret_home, capacity, "%s", home) < capacity;
    return !getpwuid_r(geteuid(), &entry, room, sizeof room, &found) && found &&
           is_own(found->pw_dir) &&
           (size_t)snprintf(ret_home, capacity, "%s", found->pw_dir) < capacity;
}

bool secret_own_path(char ret_path[SECRET_PLACE_MAX], char *ret_why, size_t capacity)
{
    const char *config = getenv("XDG_CONFIG_HOME");
    char home[SECRET_PLACE_MAX];
    int n;

    if (config && *config == '/' && (is_own(config) || access(config, F_OK))) {
        n = snprintf(ret_path, SECRET_PLACE_MAX, "%s/tutti/secret", config);
    } else if (find_home(home, sizeof home)) {
        n = snprintf(ret_path, SECRET_PLACE_MAX, "%s/.config/tutti/secret", home);
    } else {
        snprintf(ret_why, capacity, "user %u has no home directory of its own",
                 (unsigned)geteuid());
        return false;
    }
    if (n < SECRET_PLACE_MAX)
        return true;
    snprintf(ret_why, capacity, "the path of the user's configuration is too long");
    return false;
}

static bool say(const char *what, const char *path, char *ret_why, size_t capacity)
{
    snprintf(ret_why, capacity, "cannot %s %.*s: %s", what, TEXT_CUT(path, 800), strerror(errno));
    return false;
}

/* Makes what is missing of the directories on the way to the file, for this user alone. */
static bool make_directories(const char *path, char *ret_why, size_t capacity)
{
    char part[SECRET_PLACE_MAX];

    for (const char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        snprintf(part, sizeof part, "%.*s", (int)(slash - path), path);
        if (mkdir(part, S_IRWXU) && errno != EEXIST && access(part, F_OK))
            return say("make the directory", part, ret_why, capacity);
    }
    return true;
}

/* A new secret as text in a new file. False with errno; what was made is removed. */
static bool write_new(const char *path)
{
    char text[SECRET_TEXT];
    struct key key;
    const int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, S_IRUSR | S_IWUSR);

    if (fd < 0)
        return false;
    bool good = !key_random(&key, sizeof key);
    if (good) {
        secret_to_text(&key, text);
        text[SECRET_TEXT - 1] = '\n';
        good = write(fd, text, SECRET_TEXT) == SECRET_TEXT && !fsync(fd);
    }
    const int error = good ? 0 : errno;
    key_wipe(&key, sizeof key);
    key_wipe(text, sizeof text);
    close(fd);
    if (!good)
        unlink(path);
    errno = error;
    return good;
}

static void sync_directory(const char *directory)
{
    const int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    if (fd < 0)
        return;
    (void)fsync(
        fd); /* without it a crash of the host may lose the file, and the next job makes one */
    close(fd);
}

/* The name of a file that nobody else writes. */
static bool name_temporary(const char *directory, char *ret_path, size_t capacity)
{
    uint64_t number;

    return !key_random(&number, sizeof number) &&
           (size_t)snprintf(ret_path, capacity, "%s/.secret-%016llx", directory,
                            (unsigned long long)number) < capacity;
}

bool secret_make_file(const char *path, bool replaces, char *ret_why, size_t capacity)
{
    char directory[SECRET_PLACE_MAX], temporary[SECRET_PLACE_MAX + 32];
    const char *slash = strrchr(path, '/');

    snprintf(directory, sizeof directory, "%.*s", slash ? (int)(slash - path) : 1,
             slash ? path : ".");
    if (!make_directories(path, ret_why, capacity))
        return false;
    if (!name_temporary(directory, temporary, sizeof temporary))
        return say("name a file in", directory, ret_why, capacity);
    if (!write_new(temporary))
        return say("write to", directory, ret_why, capacity);
    const bool made =
        replaces ? !rename(temporary, path) : !link(temporary, path) || errno == EEXIST;
    const int error = errno;
    (void)unlink(temporary);
    sync_directory(directory);
    errno = error;
    return made || say("make", path, ret_why, capacity);
}
