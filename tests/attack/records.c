/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attacker that can write the store of a job, as where it is open to all: it lists the keys again and
 * again, and changes each record that it has not changed yet. The first ones it leaves alone, as many as the
 * scene says, since members end at the first one that they do not believe: so each record has its turn.
 */
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "dialog.h"
#include "unit/store_talk.h"

enum { KEYS = 512, KEY_BYTES_MAX = 256, VALUE_BYTES_MAX = 1 << 16, PATIENCE_S = 2 };

enum change { FLIP_A_BIT, CUT_IT_SHORT, PUT_ANOTHER_IN, EMPTY_IT, CHANGES };

struct value {
    uint64_t size;
    uint8_t data[VALUE_BYTES_MAX];
};

static char keys[KEYS][KEY_BYTES_MAX]; /* that were changed */
static int changed;

static bool read_whole(int fd, void *data, size_t size)
{
    for (size_t got = 0; got < size;) {
        const ssize_t n = recv(fd, (char *)data + got, size - got, 0);

        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

static bool read_value(int fd, struct value *ret_value)
{
    return read_whole(fd, &ret_value->size, sizeof ret_value->size) &&
           ret_value->size <= sizeof ret_value->data &&
           read_whole(fd, ret_value->data, ret_value->size);
}

static void say(int fd, struct buffer request)
{
    (void)!send(fd, request.data, request.size, MSG_NOSIGNAL);
    buffer_free(&request);
}

/* The store listens before ranks do: it is the first port that there is. */
static int dial_store(const struct attack_scene *scene)
{
    struct attack_port ports[ATTACK_PORTS];
    static const uint8_t magic[] = {0, 0xce, 0xf7, 0x85, 0x3c};
    const struct timeval patience = {.tv_sec = PATIENCE_S};

    while (!dialog_ports(scene, ports))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);

    const int fd = dialog_dial(ports[0]);

    (void)setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    (void)!send(fd, magic, sizeof magic, MSG_NOSIGNAL);
    return fd;
}

static bool is_changed(const char *key)
{
    for (int i = 0; i < changed; i++)
        if (!strcmp(keys[i], key))
            return true;
    return false;
}

/* Writes something else under the key; `last` is a record that was there under another one. */
static void change_key(int fd, const char *key, enum change how, struct value *last)
{
    static struct value value;
    struct buffer set = talk("1b", STORE_SET, key);

    say(fd, talk("1b", STORE_GET, key));
    if (!read_value(fd, &value) || !value.size) {
        buffer_free(&set);
        return;
    }
    const struct value *written = how == PUT_ANOTHER_IN && last->size ? last : &value;
    const uint64_t size = how == EMPTY_IT       ? 0
                          : how == CUT_IT_SHORT ? written->size / 2
                                                : written->size;

    if (how == FLIP_A_BIT)
        value.data[value.size / 3] ^= 1;
    buffer_put_bytes(&set, (struct slice){written->data, size});
    say(fd, set);
    *last = value;
}

void attack_rewrite_records(const struct attack_scene *scene, struct attack_result *ret_result)
{
    static struct value key, last;
    static char found[KEYS][KEY_BYTES_MAX];
    const int fd = dial_store(scene);

    for (;;) {
        uint64_t count = 0;

        say(fd, talk("1", STORE_LIST_KEYS));
        if (!read_whole(fd, &count, sizeof count) || count > KEYS)
            return;
        for (uint64_t i = 0; i < count; i++) {
            if (!read_value(fd, &key) || key.size >= KEY_BYTES_MAX)
                return;
            memcpy(found[i], key.data, key.size);
            found[i][key.size] = 0;
        }
        for (uint64_t i = 0; i < count && changed < KEYS; i++) {
            if (is_changed(found[i]))
                continue;
            strcpy(keys[changed++], found[i]);
            if (changed <= scene->spared)
                continue;
            change_key(fd, found[i], (enum change)(changed % CHANGES), &last);
            ret_result->tried++;
        }
    }
}
