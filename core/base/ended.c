/* SPDX-License-Identifier: Apache-2.0 */
#include "base/ended.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "base/codec.h"

size_t ended_encode(const struct ended *ended, uint8_t ret_data[ENDED_MAX])
{
    struct writer w = {.data = ret_data, .capacity = ENDED_MAX};

    write_u32(&w, ended->place);
    write_u32(&w, ended->size);
    write_u32(&w, (uint32_t)ended->pid);
    write_u32(&w, (uint32_t)ended->signal);
    write_u32(&w, (uint32_t)ended->code);
    write_string(&w, ended->host);
    return w.bad ? 0 : w.size;
}

bool ended_next(const void *data, size_t size, size_t *at, struct ended *ret_ended)
{
    struct reader r = {.data = data, .size = size, .at = *at};
    struct ended ended;

    if (*at >= size)
        return false;
    ended.place = read_u32(&r);
    ended.size = read_u32(&r);
    ended.pid = (int32_t)read_u32(&r);
    ended.signal = (int32_t)read_u32(&r);
    ended.code = (int32_t)read_u32(&r);
    read_string(&r, ended.host, sizeof ended.host);
    if (r.bad || ended.place >= ended.size || ended.size > INT32_MAX || ended.pid <= 0 ||
        ended.signal < 0 || ended.signal >= NSIG || ended.code < 0 || ended.code > UINT8_MAX)
        return false;
    *at = r.at;
    *ret_ended = ended;
    return true;
}

void ended_where(const struct ended *ended, char *ret_words, size_t capacity)
{
    snprintf(ret_words, capacity, "host %s, pid %d", ended->host, ended->pid);
}

void ended_how(const struct ended *ended, char *ret_words, size_t capacity)
{
    const char *name = ended->signal ? sigabbrev_np(ended->signal) : NULL;

    if (name)
        snprintf(ret_words, capacity, "was ended by signal %d (SIG%s)", ended->signal, name);
    else if (ended->signal)
        snprintf(ret_words, capacity, "was ended by signal %d", ended->signal);
    else
        snprintf(ret_words, capacity, "exited with code %d", ended->code);
}
