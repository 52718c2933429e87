/* SPDX-License-Identifier: Apache-2.0 */
#include "group/exit_record.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/error.h"
#include "base/exit_record.h"
#include "base/text.h"

enum { SEND_MS = 100 };

static _Atomic bool said; /* a failure, which nothing has made void since */

/* Where TUTTI_RUN_SOCKET says that records go, with the place and token of this rank. False: nowhere. */
static bool find_place(struct sockaddr_un *ret_to, socklen_t *ret_size, struct exit_record *record)
{
    const char *value = secure_getenv("TUTTI_RUN_SOCKET"),
               *slash = value ? strchr(value, '/') : NULL;
    char *end = NULL;

    if (!slash || slash == value || slash - value > EXIT_RECORD_NAME_MAX)
        return false;
    const unsigned long place = strtoul(slash + 1, &end, 10);
    if (end == slash + 1 || place > INT32_MAX || *end != '/' ||
        strlen(end + 1) != sizeof record->token)
        return false;
    *ret_to = (struct sockaddr_un){.sun_family = AF_UNIX}; /* begins with a NUL: abstract */
    memcpy(ret_to->sun_path + 1, value, (size_t)(slash - value));
    *ret_size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)(slash - value));
    record->place = (uint32_t)place;
    memcpy(record->token, end + 1, sizeof record->token);
    return true;
}

bool exit_record_place(uint32_t *ret_place)
{
    struct sockaddr_un to;
    struct exit_record record;
    socklen_t size;

    if (!find_place(&to, &size, &record))
        return false;
    *ret_place = record.place;
    return true;
}

static void send_record(struct exit_record *record)
{
    const struct timeval patience = {.tv_usec = SEND_MS * 1000};
    const int error = errno;
    uint8_t data[EXIT_RECORD_MAX];
    struct sockaddr_un to;
    socklen_t to_size;

    _Static_assert(EXIT_RECORD_NAME_MAX < sizeof to.sun_path - 1, "the name has room");
    if (!find_place(&to, &to_size, record))
        return;
    const size_t size = exit_record_encode(record, data);
    const int fd = size ? socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0) : -1;
    if (fd >= 0) {
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
        (void)!sendto(fd, data, size, MSG_NOSIGNAL, (const struct sockaddr *)&to, to_size);
        close(fd);
    }
    atomic_store(&said, record->kind == EXIT_RECORD_FAILED);
    errno = error;
}

static int32_t world_rank(const struct control *control, int rank)
{
    if (rank < 0 || rank >= control->size)
        return -1;
    const int32_t in_world = control->members[rank].world_rank;
    return in_world >= 0 ? in_world : rank;
}

static struct exit_record record_of(const struct tutti_group *group, enum exit_record_kind kind)
{
    return (struct exit_record){.kind = kind,
                                .rank = world_rank(group->control, group->rank),
                                .size = group->bootstrap.size,
                                .culprit = -1};
}

void exit_record_failed(struct tutti_group *group)
{
    struct exit_record record = record_of(group, EXIT_RECORD_FAILED);
    struct control *control = group->control;

    if (group->ending.exit_recorded)
        return;
    group->ending.exit_recorded = true;
    pthread_mutex_lock(&control->lock);
    const struct control_verdict verdict = control->verdict;
    record.status = verdict.status;
    record.culprit = world_rank(control, verdict.culprit);
    if (record.culprit >= 0)
        record.culprit_pid = control->members[verdict.culprit].pid;
    pthread_mutex_unlock(&control->lock);
    snprintf(record.message, sizeof record.message, "%.*s",
             TEXT_CUT(verdict.message, sizeof record.message - 1));
    send_record(&record);
}

static void say_not_formed(const struct tutti_group *world)
{
    tutti_error_info info = {.struct_size = sizeof info};
    struct exit_record record = {.kind = EXIT_RECORD_FAILED, .rank = -1};

    if (tutti_last_error_info(&info))
        return;
    if (world->bootstrap.size > 0) {
        record.rank = world->bootstrap.rank;
        record.size = world->bootstrap.size;
    }
    record.status = info.status;
    record.culprit = info.peer;
    snprintf(record.message, sizeof record.message, "%.*s",
             TEXT_CUT(error_message(), sizeof record.message - 1));
    send_record(&record);
}

void exit_record_formed(const struct tutti_group *world, tutti_status status)
{
    struct exit_record nothing = {.kind = EXIT_RECORD_NONE, .rank = -1, .culprit = -1};

    if (status)
        say_not_formed(world);
    else if (atomic_load(&said))
        send_record(&nothing);
}

void exit_record_leaving(const struct tutti_group *group)
{
    struct exit_record record = record_of(group, EXIT_RECORD_LEAVING);

    if (!atomic_load(&said)) /* else the failure of another group is why it exits */
        send_record(&record);
}
