/* SPDX-License-Identifier: Apache-2.0 */
/*
 * UCC's score map, for `tutti explain`.
 *
 * UCC decides what does an operation when a team is made, by the team's size, and tells it in its log only. So a
 * team is made, of several members that are all in this process: through ucc_collectives, with a host of its own
 * whose gathers copy memory and whose log keeps the line about the operation. Nothing may connect meanwhile: UCC
 * would wait for the other members in a loop, under the lock that they need.
 */
#include "scores.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "../common/environment.h"
#include "library.h"
#include "operations.h"

/* A member takes some 5 MiB of /dev/shm; the gathers are those of a context and a team, 5 at most so far. */
enum { MEMBERS_MAX = 8, GATHERS_MAX = 16, ADDRESS_MAX = 256, LIMIT_MS = 5000, NAP_NS = 1000000 };

struct room;

/* A gather that a member has begun. */
struct tutti_exchange {
    struct room *room;
    int number; /* among the member's */
    uint64_t bytes;
    uint8_t *data;
};

struct member {
    struct room *room;
    int begun; /* gathers */
    struct tutti_exchange gathers[GATHERS_MAX];
};

/* All under the lock, but for what never changes. */
struct room {
    pthread_mutex_t lock;
    struct caller caller; /* who wants to know */
    const char *name;     /* UCC's, of the operation */
    int size;
    struct member members[MEMBERS_MAX];
    char line[WORDS_BYTES], reason[WORDS_BYTES]; /* "": none */
};

/* ---- the host of the members --------------------------------------------------------------- */

static struct room *room_of(void *self)
{
    return ((struct member *)self)->room;
}

/* "Allreduce: Host: {0..inf}:TL_UCP:10" */
static void keep_line(void *self, int32_t level, const char *words)
{
    struct room *room = room_of(self);
    const size_t length = strlen(room->name);

    (void)level;
    if (strncasecmp(words, room->name, length) != 0 || words[length] != ':')
        return;
    words += length + 1;
    pthread_mutex_lock(&room->lock);
    snprintf(room->line, sizeof room->line, "%s", words + strspn(words, " "));
    pthread_mutex_unlock(&room->lock);
}

static int64_t now_ns(void *self)
{
    const struct caller *c = &room_of(self)->caller;

    return c->host->now_ns(c->self);
}

static void *allocate(void *self, uint64_t bytes)
{
    const struct caller *c = &room_of(self)->caller;

    return c->host->allocate(c->self, bytes);
}

static void release(void *self, void *memory)
{
    const struct caller *c = &room_of(self)->caller;

    c->host->release(c->self, memory);
}

static const char *config(void *self, const char *key)
{
    const struct caller *c = &room_of(self)->caller;

    return c->host->config(c->self, key);
}

static tutti_status keep_reason(void *self, tutti_status status, int32_t system_errno,
                                const char *words)
{
    struct room *room = room_of(self);

    (void)system_errno;
    pthread_mutex_lock(&room->lock);
    if (!*room->reason)
        snprintf(room->reason, sizeof room->reason, "%s", words);
    pthread_mutex_unlock(&room->lock);
    return status;
}

static tutti_status gather_start(void *self, const void *bytes, uint64_t count,
                                 tutti_exchange **ret_exchange)
{
    struct member *member = self;
    struct room *room = member->room;
    uint8_t *data = member->begun < GATHERS_MAX ? malloc(count + 1) : NULL;

    if (!data)
        return TUTTI_ERR_NO_MEMORY;
    memcpy(data, bytes, count);
    pthread_mutex_lock(&room->lock);
    struct tutti_exchange *gather = &member->gathers[member->begun];
    *gather = (struct tutti_exchange){
        .room = room, .number = member->begun++, .bytes = count, .data = data};
    pthread_mutex_unlock(&room->lock);
    *ret_exchange = gather;
    return TUTTI_OK;
}

static tutti_status gather_test(void *self, tutti_exchange *gather, void *ret_all)
{
    struct room *room = gather->room;
    tutti_status status = TUTTI_OK;

    (void)self;
    pthread_mutex_lock(&room->lock);
    for (int r = 0; r < room->size && !status; r++)
        if (room->members[r].begun <= gather->number)
            status = TUTTI_ERR_NOT_READY;
        else if (room->members[r].gathers[gather->number].bytes != gather->bytes)
            status = TUTTI_ERR_MISMATCH;
    for (int r = 0; r < room->size && !status; r++)
        memcpy((uint8_t *)ret_all + (uint64_t)r * gather->bytes,
               room->members[r].gathers[gather->number].data, gather->bytes);
    pthread_mutex_unlock(&room->lock);
    return status;
}

static const tutti_host host_of_members = {.struct_size = sizeof(tutti_host),
                                           .abi_minor = TUTTI_PLUGIN_ABI_MINOR,
                                           .log = keep_line,
                                           .now_ns = now_ns,
                                           .allocate = allocate,
                                           .release = release,
                                           .config = config,
                                           .error = keep_reason,
                                           .gather_start = gather_start,
                                           .gather_test = gather_test};

/* ---- a team -------------------------------------------------------------------------------- */

static tutti_status form(tutti_team *const *teams, int size)
{
    uint8_t data[MEMBERS_MAX][ADDRESS_MAX];
    const void *addresses[MEMBERS_MAX];
    uint64_t bytes[MEMBERS_MAX];
    tutti_status status = TUTTI_OK;

    for (int r = 0; r < size && !status; r++) {
        addresses[r] = data[r];
        status = ucc_collectives.address(teams[r], data[r], ADDRESS_MAX, &bytes[r]);
    }
    for (int r = 0; r < size && !status; r++)
        status = ucc_collectives.form(teams[r], addresses, bytes);
    return status;
}

static tutti_status wait_for(struct room *room, tutti_team *const *teams, int64_t deadline_ns)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};

    for (int r = 0; r < room->size; r++) {
        tutti_status status = ucc_collectives.form_test(teams[r]);

        for (; status == TUTTI_ERR_NOT_READY; status = ucc_collectives.form_test(teams[r])) {
            if (now_ns(&room->members[0]) >= deadline_ns)
                return TUTTI_ERR_TIMEOUT;
            nanosleep(&nap, NULL);
        }
        if (status)
            return status;
    }
    return TUTTI_OK;
}

/* Makes a team for its line of words. */
static tutti_status play(struct room *room)
{
    const int64_t deadline_ns =
        room->caller.host->now_ns(room->caller.self) + LIMIT_MS * INT64_C(1000000);
    static const int32_t host_of[MEMBERS_MAX]; /* one host */
    tutti_team *teams[MEMBERS_MAX];
    tutti_status status = TUTTI_OK;
    int opened = 0;

    while (opened < room->size && !status) {
        const tutti_team_options options = {.struct_size = sizeof options,
                                            .rank = opened,
                                            .size = room->size,
                                            .is_world = 1,
                                            .name = "explain",
                                            .run_id = "explain",
                                            .host_of = host_of,
                                            .deadline_ns = deadline_ns};

        status = ucc_collectives.open(&host_of_members, &room->members[opened], &options,
                                      &teams[opened]);
        opened += !status;
    }
    if (!status)
        status = form(teams, room->size);
    if (!status)
        status = wait_for(room, teams, deadline_ns);
    for (int r = 0; r < opened; r++) {
        if (status)
            ucc_collectives.abort(teams[r]);
        ucc_collectives.close(teams[r]);
    }
    return status;
}

/* ---- what is told -------------------------------------------------------------------------- */

/* One that UCC may come back to stays: a thread that is left behind asks for gathers. */
static struct room *room_new(const struct caller *caller, const tutti_collective *what)
{
    struct room *room = calloc(1, sizeof *room);

    if (!room)
        return NULL;
    pthread_mutex_init(&room->lock, NULL);
    room->caller = *caller;
    room->name = operations_name(what);
    room->size = what->size < MEMBERS_MAX ? what->size : MEMBERS_MAX;
    for (int r = 0; r < room->size; r++)
        room->members[r].room = room;
    return room;
}

static void tell(struct room *room, tutti_status status, char *ret_words, uint64_t capacity)
{
    pthread_mutex_lock(&room->lock);
    if (status)
        snprintf(ret_words, capacity, "no score map of UCC: %s",
                 *room->reason ? room->reason : "a team of it takes too long");
    else if (*room->line)
        snprintf(ret_words, capacity, "UCC's score map for %d members on one host: %s: %s",
                 room->size, room->name, room->line);
    else
        snprintf(ret_words, capacity,
                 "UCC tells no score map; it needs UCC_LOG_LEVEL=info, which is set if nothing "
                 "else is");
    pthread_mutex_unlock(&room->lock);
}

void scores_describe(const tutti_host *host, void *host_self, const tutti_collective *what,
                     char *ret_words, uint64_t capacity)
{
    static char level[] = "UCC_LOG_LEVEL=info", early[] = "UCC_TL_UCP_PRECONNECT=0";
    static char *const lent[] = {level, early};
    const struct caller caller = {host, host_self};
    const struct ucc_library *ucc;
    struct environment environment;

    if (!what && !library_open(&caller, &ucc))
        snprintf(ret_words, capacity, "UCC %u.%u.%u, %s", ucc->major, ucc->minor, ucc->release,
                 ucc->path);
    struct room *room = what && what->size > 1 ? room_new(&caller, what) : NULL;
    if (!room)
        return;
    const bool has_lent = environment_lend_these(&environment, lent, 2);
    const tutti_status status = play(room);
    if (has_lent)
        environment_take_back(&environment);
    tell(room, status, ret_words, capacity);
}
