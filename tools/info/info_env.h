/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* Each returns the exit code. */
int info_env_text(void);
int info_env_json(void);
