/* SPDX-License-Identifier: Apache-2.0 */
#include "run/records.h"

#include <arpa/inet.h>
#include <glib-unix.h>
#include <linux/filter.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tutti/status.h>

#include "base/exit_record.h"
#include "secret/key.h"

struct rank_record {
    struct exit_record said;
    pid_t sender;
    struct rank *culprit; /* once settled; NULL: none, or none of this job */
};

struct records {
    int fd;
    guint source;
    char *name;
    char token[EXIT_RECORD_TOKEN + 1];
    struct rank *ranks;
    int count;
    GHashTable *places; /* pid of each process that has said something -> its rank */
    record_fn fn;
    void *user;
};

static gboolean readable(gint fd, GIOCondition condition, gpointer user)
{
    (void)fd;
    (void)condition;
    records_read(user);
    return G_SOURCE_CONTINUE;
}

static bool make_token(char ret_token[EXIT_RECORD_TOKEN + 1])
{
    uint8_t random[EXIT_RECORD_TOKEN / 2];

    if (key_random(random, sizeof random))
        return false;
    for (size_t i = 0; i < sizeof random; i++)
        g_snprintf(ret_token + 2 * i, 3, "%02x", random[i]);
    return true;
}

/* Word by word: what is another one is dropped. A kernel that denies the filter leaves the queue open. */
static void filter_by_token(struct records *records)
{
    enum {
        WORDS = EXIT_RECORD_TOKEN / sizeof(uint32_t),
        TAKE = 2 * WORDS, /* the last instructions */
        DROP,
        LENGTH
    };
    struct sock_filter code[LENGTH];

    for (unsigned i = 0; i < WORDS; i++) {
        uint32_t word;

        memcpy(&word, records->token + i * sizeof word, sizeof word);
        code[2 * i] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS, i * sizeof word);
        code[2 * i + 1] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, ntohl(word), 0,
                                                       (uint8_t)(DROP - 2 * i - 2));
    }
    code[TAKE] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, UINT32_MAX);
    code[DROP] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, 0);

    const struct sock_fprog program = {.len = LENGTH, .filter = code};

    (void)setsockopt(records->fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program);
}

struct records *records_new(const char *run_id, struct rank *ranks, int count, record_fn fn,
                            void *user)
{
    struct records *records = g_new0(struct records, 1);
    struct sockaddr_un address = {.sun_family = AF_UNIX}; /* begins with a NUL: abstract */
    const int on = 1;

    *records = (struct records){.ranks = ranks, .count = count, .fn = fn, .user = user};
    records->places = g_hash_table_new(NULL, NULL);
    records->name = g_strdup_printf("tutti-run-%s", run_id);
    records->fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

    const size_t length = MIN(strlen(records->name), EXIT_RECORD_NAME_MAX);
    const socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length);

    memcpy(address.sun_path + 1, records->name, length);
    if (records->fd < 0 || !make_token(records->token)) {
        records_free(records);
        return NULL;
    }
    filter_by_token(records);
    if (setsockopt(records->fd, SOL_SOCKET, SO_PASSCRED, &on, sizeof on) < 0 ||
        bind(records->fd, (const struct sockaddr *)&address, size) < 0) {
        records_free(records);
        return NULL;
    }
    records->source =
        g_unix_fd_add_full(G_PRIORITY_HIGH, records->fd, G_IO_IN, readable, records, NULL);
    return records;
}

void records_free(struct records *records)
{
    if (!records)
        return;
    if (records->source)
        g_source_remove(records->source);
    if (records->fd >= 0)
        close(records->fd);
    for (int i = 0; i < records->count; i++)
        g_clear_pointer(&records->ranks[i].record, g_free);
    g_hash_table_unref(records->places);
    g_free(records->name);
    g_free(records);
}

char *records_name(const struct records *records, int rank)
{
    return g_strdup_printf("%s/%d/%s", records->name, rank, records->token);
}

/* Finds the culprit's rank by its process, which the launcher has started, or a wrapper has, and
 * which has sent a record; else, in a world of the job's size, by its number. */
static struct rank *find_culprit(const struct records *records, const struct exit_record *said)
{
    struct rank *found = NULL;

    if (said->culprit < 0 || said->culprit == said->rank)
        return NULL;
    for (int i = 0; i < records->count && !found && said->culprit_pid; i++)
        if (records->ranks[i].pid == said->culprit_pid)
            found = &records->ranks[i];
    if (!found && said->culprit_pid)
        found = g_hash_table_lookup(records->places, GINT_TO_POINTER(said->culprit_pid));
    if (!found && said->size == records->count && said->culprit < records->count)
        found = &records->ranks[said->culprit];
    return found == &records->ranks[said->place] ? NULL : found;
}

/* Only when all have been read: a rank may be named before it has sent its own record. */
static void settle(struct records *records)
{
    for (int i = 0; i < records->count; i++) {
        struct rank_record *record = records->ranks[i].record;

        if (record)
            record->culprit = record->said.kind == EXIT_RECORD_FAILED
                                  ? find_culprit(records, &record->said)
                                  : NULL;
    }
}

static void keep(struct records *records, const struct exit_record *said, pid_t sender)
{
    struct rank *rank = &records->ranks[said->place];

    if (!rank->record)
        rank->record = g_new0(struct rank_record, 1);
    rank->record->said = *said;
    rank->record->sender = sender;
    g_hash_table_insert(records->places, GINT_TO_POINTER(sender), rank);
    records->fn(rank, records->user);
}

/* The sender's process, as the kernel says. 0: of another user, or not given. */
static pid_t sender_of(struct msghdr *message)
{
    for (struct cmsghdr *c = CMSG_FIRSTHDR(message); c; c = CMSG_NXTHDR(message, c)) {
        struct ucred sender;

        if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_CREDENTIALS ||
            c->cmsg_len < CMSG_LEN(sizeof sender))
            continue;
        memcpy(&sender, CMSG_DATA(c), sizeof sender);
        return sender.uid == getuid() || sender.uid == geteuid() ? sender.pid : 0;
    }
    return 0;
}

void records_read(struct records *records)
{
    enum {
        ROUND = 2 * LAUNCHER_MAX_RANKS
    }; /* signals have the same priority and are served between rounds */

    for (int i = 0; records && i < ROUND; i++) {
        uint8_t data[EXIT_RECORD_MAX + 1];
        union {
            struct cmsghdr header;
            char space[CMSG_SPACE(sizeof(struct ucred))];
        } control;
        struct iovec part = {.iov_base = data, .iov_len = sizeof data};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = &control,
                                 .msg_controllen = sizeof control};
        struct exit_record said;
        ssize_t got = recvmsg(records->fd, &message, MSG_CMSG_CLOEXEC);

        if (got < 0)
            return;

        pid_t sender = sender_of(&message);

        if (sender && exit_record_decode(data, (size_t)got, &said) &&
            key_same(said.token, records->token, sizeof said.token) &&
            said.place < (uint32_t)records->count)
            keep(records, &said, sender);
    }
}

const char *record_message(const struct rank *rank)
{
    const struct rank_record *record = rank->record;

    return record && record->said.kind == EXIT_RECORD_FAILED && *record->said.message
               ? record->said.message
               : NULL;
}

bool record_is_leaving(const struct rank *rank)
{
    return rank->record && rank->record->said.kind == EXIT_RECORD_LEAVING &&
           rank->record->sender == rank->pid;
}

/* A member of a group that is there is known by its process. */
bool record_never_joined(const struct rank *ranks, int count, const struct rank *rank)
{
    for (int i = 0; i < count; i++) {
        const struct rank_record *record = ranks[i].record;

        if (record && record->culprit == rank && !record->said.culprit_pid &&
            record->said.status == TUTTI_ERR_PEER_LOST)
            return true;
    }
    return false;
}

const struct rank *record_awaited(const struct rank *rank)
{
    return record_is_victim(rank) && rank->record->said.status == TUTTI_ERR_TIMEOUT
               ? rank->record->culprit
               : NULL;
}

bool record_is_victim(const struct rank *rank)
{
    return rank->record && rank->record->culprit;
}

/* ---- whom to blame ---- */

bool rank_failed(const struct rank *rank)
{
    return rank->exited && !rank->terminated &&
           (!WIFEXITED(rank->wait_status) || WEXITSTATUS(rank->wait_status) != 0);
}

/* It said that it left on its own account, and was ended by the launcher before it had. */
static bool was_leaving(const struct rank *rank)
{
    return rank->terminated && rank->record && rank->record->said.kind == EXIT_RECORD_LEAVING;
}

static bool is_to_blame(const struct rank *rank)
{
    return (rank_failed(rank) || was_leaving(rank)) && !record_is_victim(rank);
}

/* Its group has said so, and it is gone with code 0. */
static bool has_left_a_group(const struct rank *rank, const struct rank *victim)
{
    return rank->exited && !rank->terminated && victim->record->said.status == TUTTI_ERR_PEER_LOST;
}

const struct rank *records_culprit(struct records *records, const struct rank *seen)
{
    const struct rank *at = seen, *best = NULL;

    if (!records)
        return seen;
    settle(records);
    for (int hops = 0; hops < records->count && record_is_victim(at); hops++) {
        const struct rank *next = at->record->culprit;

        if (is_to_blame(next))
            return next;
        if (!rank_failed(next) && !has_left_a_group(next, at))
            break;
        at = next;
    }
    if (is_to_blame(at) && rank_failed(at))
        return at;
    for (int i = 0; i < records->count; i++) {
        const struct rank *rank = &records->ranks[i];

        if (is_to_blame(rank) && (!best || rank->exit_order < best->exit_order))
            best = rank;
    }
    if (best)
        return best;
    return at != seen && !rank_failed(at) ? at : seen;
}
