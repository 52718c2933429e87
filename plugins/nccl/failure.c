/* SPDX-License-Identifier: Apache-2.0 */
#include "failure.h"

#include <stdio.h>

void failure_words(const struct nccl_library *nccl, char *ret_words, size_t capacity)
{
    const char *words = nccl->ncclGetLastError(NULL);

    snprintf(ret_words, capacity, "%s", words ? words : "");
    for (char *at = ret_words; *at; at++)
        if (*at == '\n' || *at == '\t')
            *at = ' ';
}

tutti_status failure_tell(const struct caller *caller, const struct nccl_library *nccl,
                          const char *what, ncclResult_t result)
{
    char words[256];

    failure_words(nccl, words, sizeof words);
    return fail(caller, result == ncclRemoteError ? TUTTI_ERR_PEER_LOST : TUTTI_ERR_PLUGIN, 0,
                "%s failed: %.100s%s%s; TUTTI_DEBUG=INFO NCCL_DEBUG=INFO tells more", what,
                nccl->ncclGetErrorString(result), *words ? ": " : "", words);
}
