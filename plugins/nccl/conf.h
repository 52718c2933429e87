/* SPDX-License-Identifier: Apache-2.0 */
/* NCCL's files of variables. */
#pragma once

/* What they set a variable to; NULL: nothing. They are read by the first call, as NCCL reads them once a process. */
const char *conf_value(const char *variable);
