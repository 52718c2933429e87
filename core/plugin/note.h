/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ELF note by which a file says, before any code of it runs, that it is a tutti plugin and of
 * which ABI.
 *
 * The file is hostile input: every offset and length is checked against the file's size, and no
 * more than some kilobytes are read. A file that is shorter than its own headers claim is refused
 * here, since the dynamic loader would map it and die of SIGBUS.
 */
#pragma once

#include <stdint.h>

#include <tutti/status.h>

/* Reads from the open file `fd` (its position is not used). PLUGIN, with a message that does not name the
 * file, when it is no shared object for this machine, is truncated or has no such note. */
tutti_status note_read(int fd, uint32_t *ret_major, uint32_t *ret_minor);
