/* SPDX-License-Identifier: Apache-2.0 */
/* What comes over control connections: frames in any pieces, and reports and decisions that are cut. */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#include "agreement/agree_wire.h"
#include "control/frame.h"
#include "no_memory.h"

static void feed(struct frame_parser *parser, const void *data, size_t size)
{
    uint8_t *room;

    cr_assert_eq(frame_parser_room(parser, size, &room), TUTTI_OK);
    memcpy(room, data, size);
    parser->size += size;
}

Test(frame, whole_frames_come_out_of_any_fragmentation, .timeout = 10)
{
    uint8_t bytes[2 * FRAME_HEADER + 5];
    enum frame_type type;
    const uint8_t *body;
    size_t size;

    frame_header(bytes, FRAME_PROPOSE, 5);
    memcpy(bytes + FRAME_HEADER, "hello", 5);
    frame_header(bytes + FRAME_HEADER + 5, FRAME_LEAVE, 0);
    for (size_t step = 1; step <= sizeof bytes; step++) {
        struct frame_parser parser = {.limit = 64};
        int frames = 0;

        for (size_t at = 0; at < sizeof bytes; at += step) {
            feed(&parser, bytes + at, sizeof bytes - at < step ? sizeof bytes - at : step);
            while (!frame_parser_next(&parser, &type, &body, &size)) {
                cr_assert_eq(type, frames ? FRAME_LEAVE : FRAME_PROPOSE);
                cr_assert_eq(size, frames ? 0 : 5);
                cr_assert(frames || !memcmp(body, "hello", 5));
                frames++;
                frame_parser_consume(&parser);
            }
        }
        cr_assert_eq(frames, 2, "step %zu", step);
        frame_parser_free(&parser);
    }
}

Test(frame, nonsense_is_refused_before_it_is_kept, .timeout = 10)
{
    static const struct {
        uint8_t bytes[FRAME_HEADER];
        const char *what;
    } cases[] = {
        {{57, 0, 0, 0, FRAME_LEAVE, 0, 0, 0}, "longer than the limit"},
        {{0xff, 0xff, 0xff, 0xff, FRAME_LEAVE, 0, 0, 0}, "4 GiB"},
        {{0, 0, 0, 0, 0, 0, 0, 0}, "type 0"},
        {{0, 0, 0, 0, FRAME_TYPES, 0, 0, 0}, "unknown type"},
        {{0, 0, 0, 0, FRAME_LEAVE, 0, 1, 0}, "reserved bytes"},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct frame_parser parser = {.limit = 64};
        enum frame_type type;
        const uint8_t *body;
        uint8_t *room;
        size_t size;

        feed(&parser, cases[i].bytes, FRAME_HEADER);
        cr_assert_eq(frame_parser_next(&parser, &type, &body, &size), TUTTI_ERR_DENIED, "%s",
                     cases[i].what);
        cr_assert_eq(frame_parser_room(&parser, 1 << 20, &room), TUTTI_ERR_DENIED, "%s",
                     cases[i].what);
        frame_parser_free(&parser);
    }
}

Test(frame, a_failed_allocation_is_not_taken_for_a_long_frame, .timeout = 10)
{
    struct frame_parser parser = {
        .limit = 2 * NO_MEMORY_BYTES, .size = NO_MEMORY_BYTES, .capacity = NO_MEMORY_BYTES};
    uint8_t *room;

    cr_assert_eq(frame_parser_room(&parser, 1, &room), TUTTI_ERR_NO_MEMORY);
}

static struct sockaddr_storage an_address(void)
{
    struct sockaddr_storage address = {.ss_family = AF_INET};
    struct sockaddr_in *v4 = (struct sockaddr_in *)&address;

    v4->sin_port = htons(4711);
    inet_pton(AF_INET, "192.0.2.7", &v4->sin_addr);
    return address;
}

/* Encodes, then decodes the whole and every shorter prefix: only the whole may be taken. */
#define ROUND_TRIP(w, decode)                                                                      \
    do {                                                                                           \
        for (size_t n = 0; n < (w).size; n++) {                                                    \
            uint8_t *exact = malloc(n ? n : 1); /* a sanitizer sees a read past it */              \
            memcpy(exact, (w).data, n);                                                            \
            const uint8_t *data = exact;                                                           \
            size_t bytes = n;                                                                      \
            cr_assert_not(decode, "prefix of %zu bytes", n);                                       \
            free(exact);                                                                           \
        }                                                                                          \
        const uint8_t *data = (w).data;                                                            \
        size_t bytes = (w).size;                                                                   \
        cr_assert(decode);                                                                         \
    } while (0)

Test(agree_wire, reports_survive_the_way_and_cut_ones_are_refused, .timeout = 10)
{
    uint8_t buffer[8192];
    struct writer w = {.data = buffer, .capacity = sizeof buffer};
    static struct report out;
    struct report in = {.phase = REPORT_OPENED,
                        .round = 3,
                        .rank = 2,
                        .status = TUTTI_ERR_PLUGIN,
                        .failed_level = 1,
                        .message = "no such file",
                        .host = "h",
                        .pid = 17,
                        .address = an_address(),
                        .provider_address = {(const uint8_t *)"ab", (const uint8_t *)"cde"},
                        .provider_address_size = {2, 3}};

    report_encode(&w, &in);
    ROUND_TRIP(w, report_decode(data, bytes, 4, &out));
    cr_assert_eq(out.rank, 2);
    cr_assert_eq(out.failed_level, 1);
    cr_assert_str_eq(out.message, "no such file");
    cr_assert_eq(out.provider_address_size[1], 3);
    cr_assert_eq(memcmp(&out.address, &in.address, sizeof in.address), 0);
    cr_assert_not(report_decode(buffer, w.size, 2, &out), "rank 2 of 2");
}

Test(agree_wire, decisions_survive_the_way_and_cut_ones_are_refused, .timeout = 10)
{
    static struct decision in = {.kind = DECISION_GO, .provider = {"shm", "tcp"}}, out;
    size_t capacity = decision_bytes(20, 2);
    uint8_t *buffer = malloc(capacity);
    struct writer w = {.data = buffer, .capacity = capacity};

    cr_assert_eq(decision_allocate(&in, 20, 2), TUTTI_OK);
    cr_assert_eq(in.interior, 2, "ranks 0 and 1 have children");
    for (int r = 0; r < 20; r++) {
        in.nonces[r] = 1000u + (unsigned)r;
        in.host_of[r] = r % 2;
        in.cpu_sharers[r] = 1 + r;
    }
    in.crowded[1] = true;
    for (int i = 0; i < in.interior; i++)
        in.addresses[i] = an_address();
    decision_encode(&w, &in);
    cr_assert_not(w.bad);
    ROUND_TRIP(w, decision_decode(data, bytes, 20, &out));
    cr_assert_eq(out.nonces[19], 1019);
    cr_assert_eq(out.host_of[19], 1);
    cr_assert_eq(out.cpu_sharers[19], 20);
    cr_assert(!out.crowded[0] && out.crowded[1]);
    decision_free(&out);
    cr_assert_not(decision_decode(buffer, w.size, 19, &out), "of another size");
    decision_free(&in);
    free(buffer);
}

Test(agree_wire, an_outcome_must_be_one, .timeout = 10)
{
    uint8_t buffer[256];
    struct writer w = {.data = buffer, .capacity = sizeof buffer};
    static struct outcome out;
    struct outcome in = {.kind = OUTCOME_ABORT,
                         .round = 1,
                         .status = TUTTI_ERR_TIMEOUT,
                         .culprit = 3,
                         .message = "rank 3 did not come"};

    outcome_encode(&w, &in);
    ROUND_TRIP(w, outcome_decode(data, bytes, 4, &out));
    cr_assert_str_eq(out.message, in.message);
    cr_assert_not(outcome_decode(buffer, w.size, 3, &out), "culprit 3 of 3");
    buffer[0] = 9;
    cr_assert_not(outcome_decode(buffer, w.size, 4, &out), "unknown kind");
}
