/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

enum matrix_form { MATRIX_TEXT, MATRIX_MARKDOWN, MATRIX_JSON };

/* Prints what the backends serve; none given: all that are found. Returns the exit code. */
int info_matrix(char *const *backends, enum matrix_form form);
