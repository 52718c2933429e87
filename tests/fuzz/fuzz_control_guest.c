/* SPDX-License-Identifier: Apache-2.0 */
/* What a stranger may send to the listener of a group's control connections: it becomes no member, changes
 * nothing, and hears a challenge at most. */
#include "base/clock.h"
#include "control/inside.h"
#include "guest.h"

enum { SIZE = 4 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void never_joined(void *user, struct control_conn *conn)
{
    (void)user;
    (void)conn;
    abort();
}

static void never_gone(void *user, int rank, const char *words)
{
    (void)user;
    (void)rank;
    (void)words;
    abort();
}

static void never_frame(void *user, enum frame_type type, const uint8_t *body, size_t size)
{
    (void)user;
    (void)type;
    (void)body;
    (void)size;
    abort();
}

static const struct control_handlers handlers = {
    .frame = never_frame, .gone = never_gone, .joined = never_joined};
static struct guest_socket at;

/* Rank 0, which dials nobody. */
static struct control *the_control(void)
{
    static const uint8_t salt[CONTROL_SALT_BYTES] = "one salt of all";
    static const struct key key = {{1, 2, 3}};
    static struct control *control;

    if (control)
        return control;
    if (control_open(0, SIZE, "world", NULL, "127.0.0.1", &control))
        abort();
    control->handlers = &handlers;
    at = guest_listen(control->listener.watch.fd, SOCK_STREAM);
    if (control_start(control, salt, &key))
        abort();
    return control;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct control *control = the_control();
    const int fd = guest_connect(&at, SOCK_STREAM);
    const uint8_t *piece;
    size_t bytes, heard = 0;

    while (guest_piece(&data, &size, &piece, &bytes)) {
        (void)!send(fd, piece, bytes, MSG_NOSIGNAL);
        control_poll(control);
        heard += guest_heard(fd);
    }
    heard += guest_heard(fd);
    close(fd);
    for (int i = 0; control->half_open && i < 3; i++)
        control_poll(control);
    if (heard > PROOF_CHALLENGE_BYTES || control->half_open || control->connections ||
        control->verdict.status)
        abort();
    for (int r = 0; r < SIZE; r++)
        if (control->members[r].left || control->members[r].dead)
            abort();
    return 0;
}
