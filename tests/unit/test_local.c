/* SPDX-License-Identifier: Apache-2.0 */
/* The proof of local peers, all of them played by this process. tests/fault kills real ones. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/codec.h"
#include "control/inside.h"
#include "local/local.h"

TestSuite(local, .timeout = 60);

enum { MEMBERS = 5 };

static const int ranks[MEMBERS] = {0, 1, 2, 3, 4};
static const uint8_t token[CONTROL_TOKEN_BYTES] = "one token of all";

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
    cr_assert_eq(control_start(member->control, token), TUTTI_OK);
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

    join_all(members);
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

Test(local, name_one_that_said_hello_and_was_gone_when_the_last_one_came)
{
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);
    join(&members[1], 1, name, -1);
    control_poll(members[0].control);
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

/* ---- strangers of this user that know the socket's name --------------------------------------- */

static int connect_to(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t length = strlen(name);
    int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

    memcpy(address.sun_path + 1, name, length);
    cr_assert_eq(connect(fd, (struct sockaddr *)&address,
                         (socklen_t)(offsetof(struct sockaddr_un, sun_path) + 1 + length)),
                 0);
    return fd;
}

static bool is_closed(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_DONTWAIT) == 0;
}

/* The hello of `rank`, with a descriptor, as a local peer says it. */
static void say_hello(int fd, const uint8_t *shown, uint32_t rank, int descriptor)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr align;
    } control = {{0}};
    uint8_t body[LOCAL_MESSAGE_MAX];
    struct writer w = {.data = body, .capacity = sizeof body};

    write_u32(&w, LOCAL_HELLO);
    write_bytes(&w, shown, CONTROL_TOKEN_BYTES);
    write_u32(&w, rank);
    write_u32(&w, 1);
    struct iovec iov = {.iov_base = body, .iov_len = w.size};
    struct msghdr message = {.msg_iov = &iov,
                             .msg_iovlen = 1,
                             .msg_control = control.bytes,
                             .msg_controllen = sizeof control.bytes};
    struct cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = SOL_SOCKET;
    header->cmsg_type = SCM_RIGHTS;
    header->cmsg_len = CMSG_LEN(sizeof(int));
    memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
    cr_assert_eq(sendmsg(fd, &message, MSG_NOSIGNAL), (ssize_t)w.size);
}

Test(local, a_stranger_with_another_token_is_refused)
{
    struct member members[MEMBERS];
    char name[LOCAL_NAME_MAX];
    int listener, strangers[CONTROL_TOKEN_BYTES];

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&members[0], 0, name, listener);
    for (int i = 0; i < CONTROL_TOKEN_BYTES; i++) {
        uint8_t wrong[CONTROL_TOKEN_BYTES];

        memcpy(wrong, token, sizeof wrong);
        wrong[i] ^= 1;
        strangers[i] = connect_to(name);
        say_hello(strangers[i], wrong, 1, members[0].doorbell);
    }
    control_poll(members[0].control);
    control_poll(members[0].control);
    for (int i = 0; i < CONTROL_TOKEN_BYTES; i++) {
        cr_expect(is_closed(strangers[i]), "byte %d differs", i);
        close(strangers[i]);
    }
    for (int i = 1; i < MEMBERS; i++)
        join(&members[i], i, name, -1);
    form(members, (bool[MEMBERS]){true, true, true, true, true});
    cr_expect_eq(members[0].local->state, LOCAL_READY, "%s", members[0].local->message);
    leave_all(members);
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

Test(local, a_hello_that_came_while_stopped_counts_after_its_deadline)
{
    struct member leader;
    char name[LOCAL_NAME_MAX];
    int listener;

    cr_assert_eq(local_listen(name, &listener), TUTTI_OK);
    join(&leader, 0, name, listener);

    int silent = connect_to(name), local_peer = connect_to(name);

    control_poll(leader.control);
    for (struct local_link *link = leader.local->links; link; link = link->next)
        link->hello_deadline_ns = 1; /* as if the leader had been stopped since */

    int late = connect_to(name); /* is looked at before the hello, as it came first */

    say_hello(local_peer, token, 1, leader.doorbell);
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
