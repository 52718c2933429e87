/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of local peers, all of them played by this process. tests/fault kills real ones. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "control/inside.h"
#include "local/local.h"
#include "mapping_flags.h"

TestSuite(local, .timeout = 60);

enum { MEMBERS = 5 };

static const int ranks[MEMBERS] = {0, 1, 2, 3, 4};
static const uint8_t salt[CONTROL_SALT_BYTES] = "one salt of all";
static const struct key group_key = {{1, 2, 3}};

struct member {
    struct control *control;
    struct local_peers *local;
    int doorbell;
};

static void join(struct member *member, int rank, const char *name, int listener)
{
    *member = (struct member){.doorbell = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)};
    cr_assert_eq(control_open(rank, MEMBERS, "world", NULL, "127.0.0.1", &member->control),
                 TUTTI_OK);
    cr_assert_eq(control_start(member->control, salt, &group_key), TUTTI_OK);
    cr_assert_eq(local_new(member->control, 1, ranks, MEMBERS, NULL, name, &listener,
                           member->doorbell, &member->local),
                 TUTTI_OK);
}

static void leave(struct member *member)
{
    local_free(member->local);
    control_close(member->control);
    close(member->doorbell);
}

/* Moves them until the first one is not forming any more. */
static void form(struct member *members, const bool *here)
{
    int64_t end = clock_deadline_ms(20000);

    while (members[0].local->state == LOCAL_FORMING && clock_now_ns() < end) {
        for (int i = 0; i < MEMBERS; i++)
            if (here[i])
                control_poll(members[i].control);
        usleep(200);
    }
}

static void join_all(struct member *members)
{
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    for (int i = 0; i < MEMBERS; i++)
        join(&members[i], i, name, i ? -1 : listener);
    form(members, (bool[MEMBERS]){true, true, true, true, true});
    for (int i = 0; i < MEMBERS; i++)
        cr_assert_eq(members[i].local->state, LOCAL_READY, "rank %d: %s", i,
                     members[i].local->message);
}

static void leave_all(struct member *members)
{
    for (int i = MEMBERS - 1; i >= 0; i--)
        leave(&members[i]);
}

Test(local, are_ready_when_each_has_proven_itself)
{
    struct member members[MEMBERS];
    char flags[256];

    join_all(members);
    flags_of(members[0].local->key, flags);
    cr_expect(strstr(flags, " dd"), "the key may be in a core dump: %s", flags);
    leave_all(members);
}

/* How often it rang since it was asked last. */
static uint64_t rings(int bell)
{
    uint64_t count = 0;

    return read(bell, &count, sizeof count) == sizeof count ? count : 0;
}

Test(local, one_sleeper_is_rung_by_its_own_bell_many_by_the_common_one)
{
    static const bool sleep[][MEMBERS] = {
        {0}, {0, 0, 1}, {0, 1, 0, 0, 1}, {0, 1, 1, 1, 0}, {0, 1, 1, 1, 1}};
    struct member members[MEMBERS];

    join_all(members);
    for (size_t c = 0; c < sizeof sleep / sizeof *sleep; c++) {
        int asleep = 0;

        for (int i = 0; i < MEMBERS; i++)
            if (sleep[c][i]) {
                local_sleep(members[i].local);
                asleep++;
            }
        for (int twice = 0; twice < 2; twice++) /* each once a sleep */
            local_notify_all(members[0].local);
        for (int i = 0; i < MEMBERS; i++)
            cr_expect_eq(rings(members[i].doorbell), asleep < 3 && sleep[c][i],
                         "case %zu: local peer %d's own bell", c, i);
        cr_expect_eq(rings(members[MEMBERS - 1].local->bell), asleep >= 3, "case %zu", c);
    }
    leave_all(members);
}

Test(local, name_one_that_proved_its_key_and_was_gone_when_the_last_came)
{
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);
    join(&members[1], 1, name, -1);
    for (int64_t end = clock_deadline_ms(20000); !members[0].local->peers[1].link;) {
        cr_assert(clock_now_ns() < end);
        control_poll(members[0].control);
        control_poll(members[1].control);
    }
    leave(&members[1]);
    control_poll(members[0].control);
    for (int i = 2; i < MEMBERS; i++)
        join(&members[i], i, name, -1);
    form(members, (bool[MEMBERS]){true, false, true, true, true});
    cr_expect_eq(members[0].local->state, LOCAL_FAILED);
    cr_expect_neq(members[0].local->suspect_ns, 0); /* its death may be told in a moment */
    while (!local_settled(members[0].local))
        control_poll(members[0].control);
    cr_expect_not_null(strstr(members[0].local->message, "rank 1 is not connected any more"),
                       "«%s»", members[0].local->message);
    for (int i = MEMBERS - 1; i >= 2; i--)
        leave(&members[i]);
    leave(&members[0]);
}

/* Else the leader reported a failure of its own, before the control plane could name the one that was lost. */
Test(local, a_member_lost_after_it_sent_descriptors_fails_no_other)
{
    struct member members[MEMBERS];
    tutti_exchange *exchanges[MEMBERS];
    int32_t descriptors[MEMBERS * LOCAL_DESCRIPTORS_MAX];
    const int64_t end = clock_deadline_ms(20000);
    tutti_status status;

    join_all(members);
    for (int i = MEMBERS - 1; i >= 1; i--) {
        const int32_t own = members[i].doorbell;

        cr_assert_eq(local_share_start(members[i].local, &own, 1, &exchanges[i]), TUTTI_OK);
    }
    leave(&members[2]);
    control_poll(members[0].control);

    const int32_t own = members[0].doorbell;

    cr_assert_eq(local_share_start(members[0].local, &own, 1, &exchanges[0]), TUTTI_OK, "%s",
                 tutti_last_error());
    for (int i = 0; i < MEMBERS; i++) {
        if (i == 2)
            continue;
        do
            status = local_share_test(members[i].local, exchanges[i], descriptors);
        while (status == TUTTI_ERR_NOT_READY && clock_now_ns() < end);
        cr_assert_eq(status, TUTTI_OK, "rank %d: %s", i, tutti_last_error());
        cr_expect_not(members[i].local->broken, "rank %d: %s", i, members[i].local->message);
        for (int k = 0; k < MEMBERS; k++)
            close(descriptors[k]);
    }
    for (int i = MEMBERS - 1; i >= 0; i--)
        if (i != 2)
            leave(&members[i]);
}

/* Descriptors that a message has no use for are closed, here told by the end of a pipe. */
Test(local, keep_no_descriptor_that_came_with_a_proof)
{
    struct member members[MEMBERS];
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};
    const int64_t end = clock_deadline_ms(20000);
    int ends[2];
    char byte;

    join_all(members);
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    write_u32(&w, LOCAL_PROVEN);
    write_u64(&w, members[1].local->page->lines[1].nonce);
    cr_assert_eq(local_send(members[1].local, 0, body, w.size, &ends[1], 1), TUTTI_OK);
    close(ends[1]);
    while (read(ends[0], &byte, 1) < 0 && clock_now_ns() < end)
        control_poll(members[0].control);
    cr_expect_eq(read(ends[0], &byte, 1), 0, "the descriptor is still open");
    close(ends[0]);
    leave_all(members);
}

/* It looks like the end of the connection. */
Test(local, keep_no_descriptor_that_came_with_no_bytes)
{
    struct member members[MEMBERS];
    const int64_t end = clock_deadline_ms(20000);
    int ends[2];
    char byte;

    join_all(members);
    cr_assert_eq(pipe2(ends, O_CLOEXEC | O_NONBLOCK), 0);
    cr_assert_eq(local_send(members[1].local, 0, NULL, 0, &ends[1], 1), TUTTI_OK);
    close(ends[1]);
    while (read(ends[0], &byte, 1) < 0 && clock_now_ns() < end)
        control_poll(members[0].control);
    cr_expect_eq(read(ends[0], &byte, 1), 0, "the descriptor is still open");
    close(ends[0]);
    leave_all(members);
}

/* ---- strangers of this user that know the socket's name --------------------------------------- */

/* -1: there is no room in the backlog. */
static int dial(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    cr_assert_geq(fd, 0);
    memcpy(address.sun_path + 1, name, length);
    if (!connect(fd, (struct sockaddr *)&address,
                 (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)))
        return fd;
    cr_assert_eq(errno, EAGAIN);
    close(fd);
    return -1;
}

static int connect_to(const char *name)
{
    const int fd = dial(name);

    cr_assert_geq(fd, 0);
    return fd;
}

/* A reset: the other side has not read all. */
static bool is_closed(int fd)
{
    char byte;
    ssize_t n;

    do
        n = recv(fd, &byte, 1, MSG_DONTWAIT);
    while (n > 0);
    return n == 0 || errno == ECONNRESET;
}

/* A message of the star, with a descriptor unless it is -1. */
static void say(int fd, enum local_message type, const void *bytes, size_t size, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, type);
    write_bytes(&w, bytes, size);
    cr_assert_not(w.bad);
    struct iovec iov = {.iov_base = body, .iov_len = w.size};
    struct msghdr message = {.msg_iov = &iov, .msg_iovlen = 1};
    if (descriptor >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof control.bytes;
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    }
    cr_assert_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)w.size);
}

/* The hello of rank 1 to the leader. */
static struct proof say_hello(int fd)
{
    uint8_t hello[PROOF_HELLO_BYTES];
    struct proof proof;

    cr_assert_eq(proof_hello(1, 0, &proof, hello), TUTTI_OK);
    say(fd, LOCAL_HELLO, hello, sizeof hello, -1);
    return proof;
}

/* The leader's challenge, once it is polled. */
static void take_challenge(struct member *leader, int fd, uint8_t ret[PROOF_CHALLENGE_BYTES])
{
    uint8_t body[LOCAL_MESSAGE_MAX];

    for (int turn = 0; turn < 2; turn++) /* accepts it, and reads */
        control_poll(leader->control);
    cr_assert_eq(recv(fd, body, sizeof body, MSG_DONTWAIT), 4 + PROOF_CHALLENGE_BYTES);
    memcpy(ret, body + 4, PROOF_CHALLENGE_BYTES);
}

/* The key of descriptors in one round. */
static struct key key_of_round(uint8_t round)
{
    const uint8_t context[4] = {round};
    struct key key;

    cr_assert_eq(key_derive(&group_key, "local", context, sizeof context, &key), TUTTI_OK);
    return key;
}

/* All that a process of the same user can say, before and instead of a right proof. */
Test(local, a_stranger_gets_no_descriptor_and_gives_none)
{
    enum {
        WRONG_ANSWER,
        ANSWER_OF_BEFORE,
        EARLIER_ROUND,
        REFLECTED,
        NO_HELLO,
        TWO_HELLOS,
        STRANGERS
    };
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener, strangers[STRANGERS];
    uint8_t challenge[PROOF_CHALLENGE_BYTES], answer[STRANGERS][PROOF_ANSWER_BYTES] = {{0}};
    struct key key = key_of_round(1), earlier = key_of_round(0);

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);
    for (int i = 0; i < STRANGERS; i++) {
        strangers[i] = connect_to(name);
        if (i == NO_HELLO)
            continue;
        struct proof proof = say_hello(strangers[i]);
        if (i == TWO_HELLOS) {
            (void)say_hello(strangers[i]);
            continue;
        }
        take_challenge(&members[0], strangers[i], challenge);
        if (i == EARLIER_ROUND)
            cr_expect_eq(proof_answer(&proof, &earlier, challenge, answer[i]), TUTTI_ERR_DENIED);
        else if (i == REFLECTED)
            memcpy(answer[i], challenge + PROOF_NONCE_BYTES, PROOF_ANSWER_BYTES);
        else if (i == WRONG_ANSWER) /* it is the right one for this connection alone */
            cr_expect_eq(proof_answer(&proof, &key, challenge, answer[ANSWER_OF_BEFORE]), TUTTI_OK);
    }
    for (int i = 0; i < STRANGERS; i++)
        say(strangers[i], LOCAL_ANSWER, answer[i], PROOF_ANSWER_BYTES, members[0].doorbell);
    control_poll(members[0].control);
    control_poll(members[0].control);
    for (int i = 0; i < STRANGERS; i++) {
        cr_expect(is_closed(strangers[i]), "stranger %d", i);
        close(strangers[i]);
    }
    for (int i = 1; i < MEMBERS; i++)
        join(&members[i], i, name, -1);
    form(members, (bool[MEMBERS]){true, true, true, true, true});
    cr_expect_eq(members[0].local->state, LOCAL_READY, "%s", members[0].local->message);
    leave_all(members);
}

/* Such a message looks like one whose descriptors were lost. */
Test(local, a_stranger_with_too_much_to_say_breaks_nothing)
{
    struct member members[MEMBERS];
    static const uint8_t much[4 * LOCAL_MESSAGE_MAX];
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);

    const int fd = connect_to(name);

    (void)say_hello(fd);
    control_poll(members[0].control);
    cr_assert_eq(send(fd, much, sizeof much, MSG_NOSIGNAL), sizeof much);
    control_poll(members[0].control);
    cr_expect(is_closed(fd));
    for (int i = 1; i < MEMBERS; i++)
        join(&members[i], i, name, -1);
    form(members, (bool[MEMBERS]){true, true, true, true, true});
    cr_expect_eq(members[0].local->state, LOCAL_READY, "%s", members[0].local->message);
    close(fd);
    leave_all(members);
}

/* A process that took the leader's name, and sends a member's own words back. */
Test(local, a_member_gives_a_false_leader_no_descriptor)
{
    struct member member;
    char name[LOCAL_NAME_MAX];
    int listener;
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct iovec iov = {.iov_base = body, .iov_len = sizeof body};
    char control[CMSG_SPACE(8 * sizeof(int))];

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&member, 1, name, -1);
    int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    struct msghdr message = {
        .msg_iov = &iov, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
    cr_assert_eq(recvmsg(fd, &message, 0), 4 + PROOF_HELLO_BYTES);
    cr_expect_eq(message.msg_controllen, 0, "descriptors came before the proof");
    say(fd, LOCAL_CHALLENGE, body, PROOF_CHALLENGE_BYTES, -1);
    control_poll(member.control);
    cr_expect_eq(member.local->state, LOCAL_FAILED);
    cr_expect(strstr(member.local->message, "not a member of the group answers for rank 0"), "%s",
              member.local->message);
    cr_expect(is_closed(fd));
    close(fd);
    close(listener);
    leave(&member);
}

Test(local, silent_strangers_are_closed_and_hold_up_local_peers_briefly)
{
    enum { STRANGERS = CONTROL_HALF_OPEN_MAX + 6 };
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener, strangers[STRANGERS], kept = 0;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);
    for (int i = 0; i < STRANGERS; i++)
        strangers[i] = connect_to(name);
    control_poll(members[0].control);
    for (const struct local_link *link = members[0].local->links; link; link = link->next)
        kept++;
    cr_expect_eq(kept, CONTROL_HALF_OPEN_MAX);

    const int64_t start = clock_now_ns();

    for (int i = 1; i < MEMBERS; i++)
        join(&members[i], i, name, -1);
    form(members, (bool[MEMBERS]){true, true, true, true, true});

    const int64_t seconds = (clock_now_ns() - start) / CLOCK_NS_PER_S;

    cr_expect_eq(members[0].local->state, LOCAL_READY, "%s", members[0].local->message);
    cr_expect(seconds >= CONTROL_HELLO_SECONDS - 1 && seconds <= CONTROL_HELLO_SECONDS + 5, "%d s",
              (int)seconds);
    control_poll(members[0].control);
    for (int i = 0; i < STRANGERS; i++) { /* a member that is ready expects no connection */
        cr_expect(is_closed(strangers[i]), "%d", i);
        close(strangers[i]);
    }
    leave_all(members);
}

/* Strangers connect for as long as the leader is not there, more than the kernel keeps for it. */
Test(local, a_full_backlog_keeps_no_local_peer_out)
{
    enum { STRANGERS = 8000 };
    const struct rlimit files = {STRANGERS + 100, STRANGERS + 100};
    static int strangers[STRANGERS];
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener, count = 0;

    if (setrlimit(RLIMIT_NOFILE, &files))
        cr_skip_test("the limit of descriptors cannot be %u", STRANGERS + 100);
    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    while (count < STRANGERS && (strangers[count] = dial(name)) >= 0)
        count++;
    if (count == STRANGERS)
        cr_skip_test("the kernel keeps %d connections and more (net.core.somaxconn)", STRANGERS);
    for (int i = 1; i < MEMBERS; i++) {
        join(&members[i], i, name, -1);
        control_poll(members[i].control);
        cr_expect_eq(members[i].local->state, LOCAL_FORMING, "%s", members[i].local->message);
    }
    while (count)
        close(strangers[--count]);
    join(&members[0], 0, name, listener);
    form(members, (bool[MEMBERS]){true, true, true, true, true});
    for (int i = 0; i < MEMBERS; i++)
        cr_expect_eq(members[i].local->state, LOCAL_READY, "rank %d: %s", i,
                     members[i].local->message);
    leave_all(members);
}

Test(local, a_proof_that_came_while_stopped_counts_after_its_deadline)
{
    struct member leader;
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&leader, 0, name, listener);

    int silent = connect_to(name), local_peer = connect_to(name);
    uint8_t challenge[PROOF_CHALLENGE_BYTES];
    struct proof proof = say_hello(local_peer);
    uint8_t answer[PROOF_ANSWER_BYTES];
    const struct key key = key_of_round(1);

    take_challenge(&leader, local_peer, challenge);
    cr_assert_eq(proof_answer(&proof, &key, challenge, answer), TUTTI_OK);
    for (struct local_link *link = leader.local->links; link; link = link->next)
        link->hello_deadline_ns = 1; /* as if the leader had been stopped since */

    int late = connect_to(name); /* is looked at before the answer, as it came first */

    say(local_peer, LOCAL_ANSWER, answer, sizeof answer, leader.doorbell);
    control_poll(leader.control);
    cr_expect(is_closed(silent));
    cr_expect_not(is_closed(late)); /* has its ten seconds */
    cr_expect_not(is_closed(local_peer));
    cr_expect_not_null(leader.local->peers[1].link);
    close(silent);
    close(late);
    close(local_peer);
    leave(&leader);
}

Test(local, a_stranger_that_comes_with_the_last_proof_breaks_nothing)
{
    enum { STRANGERS = CONTROL_HALF_OPEN_MAX - MEMBERS };
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener, strangers[STRANGERS], count = 0;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    for (int i = 0; i < MEMBERS; i++)
        join(&members[i], i, name, i ? -1 : listener);
    while (members[0].local->state == LOCAL_FORMING && count < STRANGERS) {
        for (int i = 1; i < MEMBERS; i++)
            control_poll(members[i].control);
        strangers[count++] = connect_to(name);  /* is looked at after the proof, as it came last */
        for (int twice = 0; twice < 2; twice++) /* epoll forgets the stranger in the second one */
            control_poll(members[0].control);
    }
    cr_expect_eq(members[0].local->state, LOCAL_READY);
    cr_expect_not(members[0].local->broken, "%s", members[0].local->message);
    while (count)
        close(strangers[--count]);
    leave_all(members);
}

/* Any local peer may write into the page. */
Test(local, make_the_words_of_a_verdict_printable_that_they_find_or_propose)
{
    const struct control_timeout late = {
        .verdict = {.culprit = 2, .message = "waited for \x1b[2J\xff"}, .heard = {-1, -1}};
    struct member members[MEMBERS];

    join_all(members);
    control_time_out(members[0].control, &late);
    cr_expect_str_eq(members[0].control->proposal.message, "group world: waited for ?[2J?");

    struct local_page *page = members[3].local->page;

    page->status = TUTTI_ERR_PEER_LOST;
    page->culprit = 2;
    strcpy(page->message, "lost \x1b[2J\xff");
    atomic_store(&page->verdict_state, 2);
    control_poll(members[1].control);
    cr_expect_eq(control_verdict_status(members[1].control), TUTTI_ERR_PEER_LOST);
    cr_expect_str_eq(members[1].control->verdict.message, "lost ?[2J?");
    leave_all(members);
}
