/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* How long the threads of this process, or of another one, were ready and had no CPU, together, in ns;
 * proc_pid_schedstat(5). */
int64_t delay_ns(void);
int64_t delay_of_ns(int pid);
