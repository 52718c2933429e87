/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attacks on the ports of a job: of its store, of control connections and of the transport tcp. The
 * attacker does not know which port is which, so each gets all.
 *
 * What a listener may say to somebody without a proof is a challenge, and that only to a whole hello. Any
 * byte more is a gain. What an attack does to the job shows when the job goes on.
 */
#include <fcntl.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/buffer.h"
#include "control/inside.h"
#include "dialog.h"
#include "secret/proof.h"
#include "unit/store_talk.h"

enum {
    AWAIT_MS = 300,
    NOISY = 70, /* connections to each port, more than a listener has places */
    NOISE_BYTES = 64 << 10,
    STREAMS_AT_ONCE = 16, /* fewer than a listener has places, so that no one is pushed out */
    STORE_CHALLENGE_BYTES = 8 + PROOF_CHALLENGE_BYTES + 1,
    TCP_HELLO = 64, /* bytes */
    TLS_HEADER = 5
};

static const uint8_t store_magic[] = {0, 0xce, 0xf7, 0x85, 0x3c};
static const uint8_t proof_magic[] = {0x63, 0x74, 0x74, 0x74};
static const uint8_t tls_magic[] = {0x16, 3, 1, 1};
static const char tcp_magic[] = "tutti-h";

static struct dialogs dialogs; /* of this process, which makes one attack */

void attack_read_all(const struct attack_scene *scene, struct attack_result *ret_result)
{
    struct attack_port ports[ATTACK_PORTS];
    const int count = dialog_ports(scene, ports);

    for (int i = 0; i < count; i++)
        (void)dialog_open(&dialogs, ports[i], 0, ret_result);
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "a silent connection", ret_result);
}

/* ---- the store ---------------------------------------------------------------------------------- */

void attack_use_store(const struct attack_scene *scene, struct attack_result *ret_result)
{
    struct attack_port ports[ATTACK_PORTS];
    const int count = dialog_ports(scene, ports);
    struct buffer requests[] = {talk("1", STORE_LIST_KEYS),
                                talk("1", STORE_GETNUMKEYS),
                                talk("1b", STORE_GET, "/key"),
                                talk("1nb", STORE_MULTI_GET, 1L, "/key"),
                                talk("1nb", STORE_CHECK, 1L, "/key"),
                                talk("1bb", STORE_SET, "/key", "x"),
                                talk("1bb", STORE_APPEND, "/tutti/run/ended", "\4\0\0\0rank"),
                                talk("14", STORE_PING, 7),
                                talk("1bbb", STORE_COMPARE_SET, "/key", "", "x"),
                                talk("1b8", STORE_ADD, "/n", 1L),
                                talk("1b", STORE_DELETE_KEY, "/key"),
                                talk("1bb", STORE_QUEUE_PUSH, "/q", "x")};

    for (size_t r = 0; r < sizeof requests / sizeof requests[0]; r++) {
        for (int i = 0; i < count; i++) {
            const struct dialog *dialog = dialog_open(&dialogs, ports[i], 0, ret_result);

            if (!dialog)
                continue;
            dialog_say(dialog, store_magic, sizeof store_magic);
            dialog_say(dialog, requests[r].data, requests[r].size);
        }
        buffer_free(&requests[r]);
    }
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "a request of the store", ret_result);
}

void attack_flood(const struct attack_scene *scene, struct attack_result *ret_result)
{
    static uint8_t noise[NOISE_BYTES];
    struct attack_port ports[ATTACK_PORTS];
    const int count = dialog_ports(scene, ports);

    (void)!getrandom(noise, sizeof noise, 0);
    for (int i = 0; i < NOISY; i++) {
        if (i % 5 == 1)
            memcpy(noise, store_magic, sizeof store_magic);
        else if (i % 5 == 2)
            memcpy(noise, proof_magic, sizeof proof_magic);
        else if (i % 5 == 3)
            memcpy(noise, tcp_magic, sizeof tcp_magic);
        else if (i % 5 == 4)
            memcpy(noise, tls_magic, sizeof tls_magic);
        for (int p = 0; p < count; p++) {
            const struct dialog *dialog = dialog_open(&dialogs, ports[p], 0, ret_result);

            if (dialog)
                dialog_say(dialog, noise, sizeof noise);
        }
        if (dialogs.count + count > DIALOGS)
            dialogs_end(&dialogs, "noise", ret_result);
    }
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "noise", ret_result);
}

/* ---- forged proofs, frames and farewells ---------------------------------------------------------- */

/* Every control frame, with a body that is long enough for each decoder. */
static void say_frames(const struct dialog *dialog)
{
    for (int type = FRAME_WELCOME; type < FRAME_TYPES; type++) {
        uint8_t frame[FRAME_HEADER + 64] = {0};

        frame_header(frame, (enum frame_type)type, 64);
        dialog_say(dialog, frame, sizeof frame);
    }
}

static void send_frames(const struct attack_scene *scene, const struct attack_port *ports,
                        int count, struct attack_result *ret_result)
{
    static const struct key key = {{1, 2, 3}};
    static struct control_member members[ATTACK_RANKS];
    const struct control stranger = {.size = scene->ranks, .key = &key, .members = members};

    for (int p = 0; p < count; p++) {
        const struct dialog *dialog = dialog_open(&dialogs, ports[p], 0, ret_result);

        if (dialog)
            say_frames(dialog);
        for (int rank = 0; rank < scene->ranks && rank < ATTACK_RANKS; rank++) {
            uint8_t farewell[FAREWELL_BYTES];

            dialog = dialog_open(&dialogs, ports[p], 0, ret_result);
            if (dialog && !farewell_write(&stranger, rank, farewell))
                dialog_say(dialog, farewell, sizeof farewell);
        }
    }
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "a frame or farewell without a proof", ret_result);
}

/* What stands in the place of the answer that only a member can compute. */
enum forgery { FORGED_ZEROS, FORGED_REFLECTED, FORGED_CROSSED, FORGERIES };

/* A hello of each rank to each port; then, in the place of each answer, the listener's own MAC, or the one
 * that it gave to another connection which repeats its nonce. */
static void send_proofs(const struct attack_scene *scene, const struct attack_port *ports,
                        int count, enum forgery forgery, struct attack_result *ret_result)
{
    for (int p = 0; p < count; p++)
        for (int rank = 0; rank < scene->ranks; rank++) {
            const struct dialog *dialog =
                dialog_open(&dialogs, ports[p], PROOF_CHALLENGE_BYTES, ret_result);
            uint8_t hello[PROOF_HELLO_BYTES];
            struct proof proof;

            if (!dialog || proof_hello(rank, 0, &proof, hello))
                continue;
            if (forgery == FORGED_CROSSED && dialogs.count > 1 && rank % 2)
                memcpy(hello + sizeof hello - PROOF_NONCE_BYTES, dialog[-1].got, PROOF_NONCE_BYTES);
            dialog_say(dialog, hello, sizeof hello);
            if (forgery == FORGED_CROSSED)
                dialogs_await(&dialogs, PROOF_CHALLENGE_BYTES, 10);
        }
    dialogs_await(&dialogs, PROOF_CHALLENGE_BYTES, AWAIT_MS);
    for (int i = 0; i < dialogs.count; i++) {
        const struct dialog *from =
            &dialogs.each[forgery == FORGED_CROSSED ? (i ^ 1) % dialogs.count : i];
        uint8_t answer[PROOF_ANSWER_BYTES] = {0};

        if (forgery != FORGED_ZEROS)
            memcpy(answer, from->got + PROOF_NONCE_BYTES, sizeof answer);
        dialog_say(&dialogs.each[i], answer, sizeof answer);
        say_frames(&dialogs.each[i]);
    }
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "a forged proof", ret_result);
}

void attack_forge(const struct attack_scene *scene, struct attack_result *ret_result)
{
    struct attack_port ports[ATTACK_PORTS];
    const int count = dialog_ports(scene, ports);

    send_frames(scene, ports, count, ret_result);
    for (int forgery = 0; forgery < FORGERIES; forgery++)
        send_proofs(scene, ports, count, (enum forgery)forgery, ret_result);
}

/* ---- what was recorded ---------------------------------------------------------------------------- */

enum replay { REPLAY_WHOLE, REPLAY_STEPS, REPLAY_BACKWARDS, REPLAY_REFLECTED, REPLAYS };

/* Bytes of the first message, and of the answer that a stranger may get to it. */
static size_t first_message(const struct wire_stream *stream, size_t *ret_allowed)
{
    const uint8_t *hello = memmem(stream->bytes, stream->size < 128 ? stream->size : 128,
                                  proof_magic, sizeof proof_magic);
    size_t first = TCP_HELLO;

    *ret_allowed = PROOF_CHALLENGE_BYTES;
    if (stream->bytes[0] == tls_magic[0]) {
        first = TLS_HEADER + ((size_t)stream->bytes[3] << 8) + stream->bytes[4];
    } else if (hello) {
        first = (size_t)(hello - stream->bytes) + PROOF_HELLO_BYTES;
        if (hello > stream->bytes) { /* in a request of the store, whose last field is empty */
            first += 8;
            *ret_allowed = STORE_CHALLENGE_BYTES;
        }
    }
    return first < stream->size ? first : stream->size;
}

static void begin_replay(const struct wire_stream *stream, enum replay how,
                         const struct attack_port *ports, int count,
                         struct attack_result *ret_result)
{
    size_t allowed;
    const size_t first = first_message(stream, &allowed);

    for (int p = 0; p < count; p++) {
        struct dialog *dialog = dialog_open(&dialogs, ports[p], allowed, ret_result);

        if (!dialog)
            continue;
        dialog->stream = stream;
        if (how == REPLAY_BACKWARDS)
            dialog_say(dialog, stream->bytes + first, stream->size - first);
        dialog_say(dialog, stream->bytes, how == REPLAY_WHOLE ? stream->size : first);
    }
}

static void end_replay(enum replay how, struct attack_result *ret_result)
{
    if (how == REPLAY_STEPS || how == REPLAY_REFLECTED)
        dialogs_await(&dialogs, PROOF_CHALLENGE_BYTES, AWAIT_MS);
    for (int i = 0; i < dialogs.count; i++) {
        const struct dialog *at = &dialogs.each[i];
        size_t allowed, first = first_message(at->stream, &allowed);

        if (how == REPLAY_STEPS)
            dialog_say(at, at->stream->bytes + first, at->stream->size - first);
        else if (how == REPLAY_REFLECTED && at->size >= PROOF_CHALLENGE_BYTES)
            dialog_say(at, at->got + (allowed == STORE_CHALLENGE_BYTES ? 8 : 0) + PROOF_NONCE_BYTES,
                       PROOF_ANSWER_BYTES);
    }
    dialogs_await(&dialogs, DIALOG_BYTES, AWAIT_MS);
    dialogs_end(&dialogs, "a recorded stream", ret_result);
}

static void replay(const struct wire *wire, enum replay how, const struct attack_port *ports,
                   int count, struct attack_result *ret_result)
{
    int at_once = 0;

    for (int i = 0; i < wire->count; i++) {
        if (!wire->streams[i].size)
            continue;
        begin_replay(&wire->streams[i], how, ports, count, ret_result);
        if (++at_once % STREAMS_AT_ONCE == 0)
            end_replay(how, ret_result);
    }
    end_replay(how, ret_result);
}

void attack_replay(const struct attack_scene *scene, struct attack_result *ret_result)
{
    struct attack_port ports[ATTACK_PORTS];
    const int count = dialog_ports(scene, ports);

    for (int r = 0; r < ATTACK_RECORDS; r++)
        for (int how = 0; scene->records[r] && how < REPLAYS; how++)
            replay(scene->records[r], (enum replay)how, ports, count, ret_result);
}

/* ---- connections that stay ------------------------------------------------------------------------ */

enum { HELD = 10000, MORE_A_ROUND = 2 };

static int held[HELD];

/* Silent, in the middle of a hello or behind one: the oldest one makes room. */
static void hold_one(struct attack_port to, struct attack_result *ret_result)
{
    int *fd = &held[ret_result->tried % HELD];
    uint8_t hello[PROOF_HELLO_BYTES];
    struct proof proof;
    static const size_t shown[] = {0, 1, PROOF_HELLO_BYTES / 2, PROOF_HELLO_BYTES};

    if (ret_result->tried >= HELD)
        close(*fd);
    *fd = dialog_dial(to);
    if (*fd >= 0 && !proof_hello(1, 0, &proof, hello))
        (void)!send(*fd, hello, shown[ret_result->tried % 4], MSG_NOSIGNAL | MSG_DONTWAIT);
    ret_result->tried++;
}

void attack_besiege(const struct attack_scene *scene, struct attack_result *ret_result)
{
    static struct attack_port known[1 << 16];
    const struct timespec moment = {.tv_nsec = 1000000};

    for (;;) {
        struct attack_port ports[ATTACK_PORTS];
        const int count = dialog_ports(scene, ports);

        for (int p = 0; p < count; p++) {
            const bool is_new = known[ports[p].port].address != ports[p].address;

            known[ports[p].port] = ports[p];
            for (int i = 0; i < (is_new ? scene->flood : MORE_A_ROUND); i++)
                hold_one(ports[p], ret_result);
        }
        nanosleep(&moment, NULL);
    }
}
