/* SPDX-License-Identifier: Apache-2.0 */
/* TUTTI_UCX_NAME=VALUE is UCX's own setting NAME for tutti's contexts, without effect on others that use UCX. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "library.h"

enum { OPTIONS_MAX = 64, OPTION_NAME_MAX = 63 };

struct ucx_option {
    char name[OPTION_NAME_MAX + 1]; /* "TLS" */
    const char *value;              /* in the environment */
    bool tried, taken; /* by some transport's settings, and whether they take the value */
};

struct ucx_options {
    struct ucx_option list[OPTIONS_MAX];
    size_t count;
};

/* The variables of this process. INVALID_ARGUMENT: there are too many of them, or a name is too long. */
tutti_status options_read(const struct caller *caller, struct ucx_options *ret_options);

/* "NAME=VALUE\n" of each. The number of bytes, as of snprintf(). */
size_t options_settings(const struct ucx_options *options, char *ret_settings, size_t capacity);

/* Tries each on the settings of a transport or memory domain, for options_check(). */
void options_try(struct ucx_options *options, const struct ucx_library *library, void *config);

/* After options_try() on all: INVALID_ARGUMENT in words for a name that UCX does not have (it takes any), a name
 * that it reads only while it is loaded, or a value that no transport takes. */
tutti_status options_check(const struct caller *caller, const struct ucx_library *library,
                           const struct ucx_options *options, ucp_config_t *config);

/* Whether ucp_config_modify() takes a transport's setting by its full name. Else it takes it without the transport,
 * for every one that has it. */
bool options_name_transports(const struct ucx_library *library);

/* After options_check(): writes them into the settings of a context. INVALID_ARGUMENT in words for a value that is
 * not valid. */
tutti_status options_apply(const struct caller *caller, const struct ucx_library *library,
                           const struct ucx_options *options, ucp_config_t *config);
