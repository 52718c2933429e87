/* SPDX-License-Identifier: Apache-2.0 */
/* The algorithms, which of them a call may take, and which it takes. */
#ifndef TUTTI_DISPATCH_CHOOSE_H
#define TUTTI_DISPATCH_CHOOSE_H

#include "dispatch/dispatch.h"

enum { ALGORITHMS = 67 };
extern const struct algorithm *const algorithms[ALGORITHMS];

/* NULL: the group's providers can run algorithms of this kind; else why not. */
const char *choose_obstacle(const struct group_facts *facts, enum algorithm_kind kind);
/* NULL: this call could take the algorithm, which is one of its operation; else why not. `bytes` as
 * in struct request. */
const char *choose_objection(const struct group_facts *facts, const struct algorithm *algorithm,
                             const struct call_words *words, uint64_t bytes);

/* Whether it reduces partial results of some members. */
bool choose_reduces_in_turns(const struct algorithm *algorithm);

/* The algorithm that the call takes, possible or not; NULL: there is no such operation. */
const struct algorithm *choose_algorithm(const struct group_facts *facts,
                                         const struct call_words *words, uint64_t bytes);

/* Those of the group, or the built-in ones. */
const struct thresholds *choose_thresholds(const struct group_facts *facts);

#endif
