/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUTTI_TOOLS_INFO_INFO_ENV_H
#define TUTTI_TOOLS_INFO_INFO_ENV_H

/* Each returns the exit code. */
int info_env_text(void);
int info_env_json(void);

#endif
