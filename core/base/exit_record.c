/* SPDX-License-Identifier: Apache-2.0 */
#include "base/exit_record.h"

#include <string.h>

#include "base/codec.h"

enum { MAGIC = 0x31525554 }; /* "TUR1" */

size_t exit_record_encode(const struct exit_record *record, uint8_t ret_data[EXIT_RECORD_MAX])
{
    struct writer w = {.data = ret_data, .capacity = EXIT_RECORD_MAX};

    write_bytes(&w, record->token, sizeof record->token);
    write_u32(&w, MAGIC);
    write_u8(&w, (uint8_t)record->kind);
    write_u32(&w, record->place);
    write_u32(&w, (uint32_t)record->status);
    write_u32(&w, (uint32_t)record->rank);
    write_u32(&w, (uint32_t)record->size);
    write_u32(&w, (uint32_t)record->culprit);
    write_u32(&w, (uint32_t)record->culprit_pid);
    write_string(&w, record->message);
    return w.bad ? 0 : w.size;
}

bool exit_record_decode(const uint8_t *data, size_t size, struct exit_record *ret_record)
{
    struct reader r = {.data = data, .size = size};
    struct exit_record record;
    const uint8_t *token = read_bytes(&r, sizeof record.token);

    if (token)
        memcpy(record.token, token, sizeof record.token);
    if (read_u32(&r) != MAGIC)
        return false;
    record.kind = (enum exit_record_kind)read_u8(&r);
    record.place = read_u32(&r);
    record.status = (int32_t)read_u32(&r);
    record.rank = (int32_t)read_u32(&r);
    record.size = (int32_t)read_u32(&r);
    record.culprit = (int32_t)read_u32(&r);
    record.culprit_pid = (int32_t)read_u32(&r);
    read_string(&r, record.message, sizeof record.message);
    if (r.bad || r.at != size || record.kind >= EXIT_RECORD_KINDS || record.status > 0 ||
        record.size < 0 || record.rank < -1 || record.culprit < -1 || record.culprit_pid < 0)
        return false;
    *ret_record = record;
    return true;
}
