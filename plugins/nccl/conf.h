/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's files of variables. */
#pragma once

/* Reads them as the NCCL of this process will, once, before conf_value() is called. `code` is NCCL's version: 22809. */
void conf_read(int code);
/* What they set a variable to; NULL: nothing. */
const char *conf_value(const char *variable);
