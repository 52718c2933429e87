/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TUTTI_TOOLS_INFO_MATRIX_H
#define TUTTI_TOOLS_INFO_MATRIX_H

#include <stdbool.h>

/* Prints what the backends serve; none given: all that are found. Returns the exit code. */
int info_matrix(char *const *backends, bool json);

#endif
