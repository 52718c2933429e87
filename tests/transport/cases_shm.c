/* SPDX-License-Identifier: Apache-2.0 */
#include "cases.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static void map_body(struct member *member)
{
    int size = member->world->size;

    for (int i = 0; i < size; i++) {
        check((uintptr_t)member->base[i] % 4096 == 0);
        for (uint64_t j = 0; j < member->map_bytes; j++)
            check(member->base[i][j] == 0);
        for (int j = 0; j < i; j++)
            check(((uintptr_t)member->base[i] - (uintptr_t)member->base[j]) % (256 << 20) != 0);
    }
    all_meet(member);
    fill_pattern(member->base[member->rank], member->map_bytes, member->rank, 0);
    all_meet(member);
    for (int i = 0; i < size; i++)
        check_pattern(member->base[i], member->map_bytes, i, 0);
    all_meet(member);
}

void case_map(const tutti_transport_ops *ops)
{
    run_threads(ops, 3, map_body);
    run_forked(ops, MEMBERS_MAX, -1, map_body);
}

/* The rings stay after the group that brought them, and a second map leaves them where they are. */
static void map_outlives_body(struct member *member)
{
    tutti_map *first = member->map;
    struct operation operation;
    uint64_t word = (uint64_t)member->rank + 10;
    int other = 1 - member->rank;

    member->map_bytes = 256 << 20;
    check(member_map(member) == TUTTI_OK, "%s", member->words);
    check(((uintptr_t)member->base[0] - (uintptr_t)member->base[1]) % (256 << 20) != 0);
    member->ops->map_close(member->endpoint, first);
    if (member->rank == 0)
        send_to(member, other, &word, sizeof word, 0, &operation);
    else
        receive_from(member, other, &word, sizeof word, &operation);
    check(wait_for(member, &operation) == TUTTI_OK && word == 10);
    all_meet(member);
}

void case_map_outlives(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, map_outlives_body);
}

/* The size of a member's whole segment, from the mapping that it lies in. */
static off_t segment_bytes(const void *base)
{
    FILE *maps = fopen("/proc/self/maps", "re");
    char line[512];
    unsigned long from, to;

    check(maps);
    while (fgets(line, sizeof line, maps))
        if (sscanf(line, "%lx-%lx", &from, &to) == 2 && from == (uintptr_t)base) {
            check(strstr(line, "/memfd:tutti-"), "%s", line);
            fclose(maps);
            return (off_t)(to - from);
        }
    check(false, "not mapped");
    return 0;
}

/* ---- long messages, and the slots that travel with them ---------------------------------------- */

static void pass(struct member *member, int from, uint64_t bytes, uint64_t number)
{
    uint8_t *data = malloc(bytes);
    struct operation operation;

    check(data);
    if (member->rank == from) {
        fill_pattern(data, bytes, from, number);
        send_to(member, 1 - from, data, bytes, 0, &operation);
    } else {
        receive_from(member, from, data, bytes, &operation);
    }
    check(wait_for(member, &operation) == TUTTI_OK);
    if (member->rank != from)
        check_pattern(data, bytes, from, number);
    free(data);
}

/* Whether the pages before the end of a segment have memory: the slots of its last local peer. */
static bool end_has_memory(struct member *member, int owner, uint64_t bytes)
{
    uint8_t *end = member->base[owner] + segment_bytes(member->base[owner]);
    unsigned char pages[1024] = {0};

    check(bytes / 4096 <= sizeof pages && !mincore(end - bytes, bytes, pages));
    return memchr(pages, 1, bytes / 4096) || memchr(pages, 0xff, bytes / 4096);
}

static void slots_body(struct member *member)
{
    enum { SLOTS = 256 << 10 }; /* the bytes that each of two brings */
    static const uint64_t lengths[] = {16385, 65536, SLOTS, 3 * SLOTS + 77, 4 << 20, 20000};
    uint64_t number = 0;

    /* Rank 1 is the last peer of rank 0, and the first message goes through the slots that rank 0 brings. */
    check(!end_has_memory(member, 0, SLOTS));
    all_meet(member);
    pass(member, 0, SLOTS, 0);
    all_meet(member);
    check(end_has_memory(member, 0, SLOTS));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        for (int j = 0; j < 3; j++)
            pass(member, 0, lengths[i], number++); /* all slots are with rank 1 before long */
        pass(member, 1, lengths[i] / 2, number++);
        for (int j = 0; j < 20; j++)
            pass(member, j % 2, lengths[i], number++);
    }
    all_meet(member);
}

void case_slots(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, slots_body);
    run_forked(ops, 2, -1, slots_body);
}

/* ---- descriptors that a local peer should not have passed ---------------------------------------- */

/* With these contents; NULL: zeros. */
static int sealed_memory(const void *contents, off_t bytes, int seals)
{
    int fd = memfd_create("tutti-test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

    check(fd >= 0 && ftruncate(fd, bytes) == 0);
    check(!contents || pwrite(fd, contents, (size_t)bytes, 0) == bytes);
    check(fcntl(fd, F_ADD_SEALS, seals) == 0);
    return fd;
}

static void bad_descriptors_body(struct member *member)
{
    const int all = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
    off_t right = segment_bytes(member->base[member->rank]);
    const struct {
        int fd;
        tutti_status status;
        const char *words;
    } passed[] = {
        {sealed_memory(NULL, right - 4096, all), TUTTI_ERR_MISMATCH, "bytes"},
        {sealed_memory(NULL, 0, all), TUTTI_ERR_MISMATCH, "bytes"},
        {sealed_memory(NULL, right, F_SEAL_GROW | F_SEAL_SEAL), TUTTI_ERR_DENIED, "resize"},
        {sealed_memory(NULL, right, all | F_SEAL_WRITE), TUTTI_ERR_SYSTEM, "cannot map"},
        {open("/dev/null", O_RDWR | O_CLOEXEC), TUTTI_ERR_DENIED, "sealed"},
        {dup(member->world->socket[0][1]), TUTTI_ERR_DENIED, "sealed"},
        {sealed_memory(NULL, right, all), TUTTI_ERR_MISMATCH, "rings of 0 bytes"},
        {sealed_memory(member->base[member->rank], right, all), TUTTI_OK, ""},
    };

    member->ops->map_close(member->endpoint, member->map);
    for (size_t i = 0; i < sizeof passed / sizeof *passed; i++) {
        member->give_instead = member->rank == 1 ? passed[i].fd : -1;
        tutti_status status = member_map(member);
        if (member->rank == 0) {
            check(status == passed[i].status, "%zu: %d %s", i, status, member->words);
            check(status == TUTTI_OK || (strstr(member->words, "local peer 1") &&
                                         strstr(member->words, passed[i].words)),
                  "%s", member->words);
        } else {
            check(status == TUTTI_OK, "%s", member->words);
        }
        member->ops->map_close(member->endpoint, member->map);
        close(passed[i].fd);
        all_meet(member);
    }
    member->map = NULL;
}

void case_bad_descriptors(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, bad_descriptors_body);
}

/* ---- a local peer that writes nonsense over rings and indices ------------------------------------ */

/* Member 1 scribbles over all of both segments that lies behind the core's bytes, while member 0
 * sends and receives: nothing may be touched outside its buffers (the sanitizers look), and nothing
 * hangs once the requests are cancelled. */
static void look_at_shown(struct member *member)
{
    static _Thread_local uint8_t copy[1 << 20];
    tutti_shown message;
    tutti_status status = member->ops->show(member->endpoint, member->peer[1], 0, &message);

    check(status == TUTTI_OK || status == TUTTI_ERR_NOT_READY || status == TUTTI_ERR_BUSY ||
          status == TUTTI_ERR_INTERNAL);
    if (status != TUTTI_OK)
        return;
    check(message.bytes + message.rest_bytes <= member->ops->short_bytes);
    copy_shown(&message, copy);
    member->ops->take(member->endpoint, member->peer[1], 0);
}

static void hostile_body(struct member *member)
{
    off_t bytes = segment_bytes(member->base[member->rank]);
    uint64_t state = member->world->word[0], core = 12288;
    struct operation receive, send;
    enum { MOST = 80000 };
    uint8_t *in = malloc(MOST), *out = calloc(1, 300000);

    if (member->rank == 1) {
        for (int i = 0; i < 2000; i++) {
            uint64_t at = core + random_next(&state) % (i % 4 ? 8192 : (uint64_t)bytes - core);
            uint64_t kinds[] = {
                UINT64_MAX, 8 * (random_next(&state) % 40000) + i % 4, 33,
                (uint64_t)random_next(&state) << 20,
                ((uint64_t)(random_next(&state) % 40) << 32 | random_next(&state) % 20000) << 2 |
                    2};
            volatile uint64_t *word =
                (volatile uint64_t *)(void *)(member->base[i % 2] + (at & ~UINT64_C(7)));

            if (at < (uint64_t)bytes - 8)
                *word = kinds[random_next(&state) % 5];
        }
    } else {
        for (int i = 0; i < 200; i++) {
            memset(&receive, 0, sizeof receive);
            memset(&send, 0, sizeof send);
            tutti_status r = member->ops->irecv(member->endpoint, member->peer[1], 0, in,
                                                i % 2 ? MOST : 5000, &receive.request);
            tutti_status s = member->ops->isend(member->endpoint, member->peer[1], 0, out,
                                                (uint64_t)(i * 1500), 0, &send.request);
            check(r == TUTTI_OK || r == TUTTI_ERR_INTERNAL);
            check(s == TUTTI_OK || s == TUTTI_ERR_INTERNAL || s == TUTTI_ERR_ABORTED);
            receive.request.user = &receive;
            send.request.user = &send;
            for (int j = 0; j < 5; j++)
                turn(member);
            if (r == TUTTI_OK)
                member->ops->cancel(member->endpoint, &receive.request);
            if (s == TUTTI_OK)
                member->ops->cancel(member->endpoint, &send.request);
            look_at_shown(member);
        }
    }
    free(in);
    free(out);
    all_meet(member);
}

/* Indices that cannot be are an error in words at once. */
static void corrupt_body(struct member *member)
{
    off_t bytes = segment_bytes(member->base[member->rank]);
    struct operation receive;
    uint64_t word = 0;

    all_meet(member); /* both have mapped, and looked at what is there then */
    if (member->rank == 1)
        memset(member->base[0] + 12288, 0xff, (size_t)bytes - 12288);
    all_meet(member);
    if (member->rank == 0) {
        receive_from(member, 1, &word, sizeof word, &receive);
        check(wait_for(member, &receive) == TUTTI_ERR_INTERNAL);
        check(strstr(member->words, "corrupt"), "%s", member->words);
        check(member->ops->isend(member->endpoint, member->peer[1], 0, &word, sizeof word, 0,
                                 &receive.request) == TUTTI_ERR_INTERNAL);
    }
    all_meet(member);
}

static _Atomic uint64_t hostile_seed = 1;

static void seeded_hostile_body(struct member *member)
{
    if (member->rank == 0)
        member->world->word[0] = hostile_seed;
    all_meet(member);
    hostile_body(member);
}

void case_hostile_ring(const tutti_transport_ops *ops)
{
    run_threads(ops, 2, corrupt_body);
    for (hostile_seed = 1; hostile_seed <= 30; hostile_seed++)
        run_threads(ops, 2, seeded_hostile_body);
}

/* ---- a pair whose pieces are not what they were ---- */

enum { PAIR_BODY = 20000, PAIR_WORDS = 4, IN_SLOT = 2, WHOLE = 1, LENGTH = 3 };

static _Atomic unsigned pair_fault;

/* The words of the pieces of the only pair in member 0's segment, a line each. */
static volatile uint64_t *words_of_pair(uint8_t *segment, off_t bytes)
{
    for (off_t at = 0; at + 64 * (2 + PAIR_WORDS) <= bytes; at += 64) {
        volatile uint64_t *word = (volatile uint64_t *)(void *)(segment + at);

        if (word[0] == (8 << 2 | WHOLE) && word[8] == (PAIR_BODY << 2 | LENGTH))
            return word + 16;
    }
    check(false, "the pair is not found");
    return NULL;
}

/* False: a receive of the second message waits, instead of finding the fault. */
static bool spoil(volatile uint64_t *word)
{
    const uint64_t in_slot = UINT64_C(1) << 34;

    check((word[0] & 3) == IN_SLOT && (word[24] & 3) == IN_SLOT);
    switch (pair_fault) {
    case 0:
        word[8] = word[0]; /* the slot twice */
        break;
    case 1:
        word[16] = 999 * in_slot | 100 << 2 | IN_SLOT;
        break;
    case 2:
        word[8] = word[8] & ~(in_slot - 1); /* no bytes, and no kind */
        break;
    case 3:
        word[24] = word[24] + (40000 << 2); /* more than is left, and than a slot has */
        break;
    case 4:
        word[0] = UINT64_C(1) << 40 | WHOLE;
        break;
    case 5:
        word[8] = PAIR_BODY << 2 | LENGTH;
        break;
    default:
        for (int i = 0; i < PAIR_WORDS; i++)
            word[8 * i] = 8 << 2 | WHOLE; /* short ones, in the ring */
        return false;
    }
    return true;
}

static void hostile_pair_body(struct member *member)
{
    uint8_t *data = calloc(1, PAIR_BODY);
    struct operation operation;
    const uint64_t word = 7;
    tutti_shown message;

    if (member->rank == 1) {
        check(member->ops->send_pair(member->endpoint, member->peer[0], 0, &word, sizeof word, data,
                                     PAIR_BODY) == TUTTI_OK);
        member->world->word[0] =
            spoil(words_of_pair(member->base[0], segment_bytes(member->base[0])));
    }
    all_meet(member);
    if (member->rank == 0) {
        check(wait_shown(member, 1, &message) == TUTTI_OK);
        check(member->ops->take_pair(member->endpoint, member->peer[1], 0, data, PAIR_BODY) ==
              TUTTI_ERR_NOT_READY);
        if (strstr(member->words, "corrupt")) {
            check(member->ops->show(member->endpoint, member->peer[1], 0, &message) ==
                  TUTTI_ERR_INTERNAL);
        } else if (member->world->word[0]) {
            member->ops->take(member->endpoint, member->peer[1], 0);
            receive_from(member, 1, data, PAIR_BODY, &operation);
            check(wait_for(member, &operation) == TUTTI_ERR_INTERNAL);
            check(strstr(member->words, "corrupt"), "%s", member->words);
        }
    }
    all_meet(member);
    free(data);
}

void case_hostile_pair(const tutti_transport_ops *ops)
{
    for (pair_fault = 0; pair_fault <= 6; pair_fault++)
        run_threads(ops, 2, hostile_pair_body);
}
