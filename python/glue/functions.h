/* SPDX-License-Identifier: Apache-2.0 */
/* What cffi calls of the glue; read by it too, so without directives in between. */
#ifndef TUTTI_PYTHON_FUNCTIONS_H
#define TUTTI_PYTHON_FUNCTIONS_H

#include <stdint.h>

/* Puts the functions of functions.c into a dict. Objects are passed by their id(). `error` makes an
 * exception of a status, `refusal` one of an array that no protocol describes. 0 on success. */
int tutti_python_functions(uintptr_t namespace, uintptr_t error, uintptr_t refusal);

#endif
