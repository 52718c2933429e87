/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that an application needs: includes every public header but those of plugins. */
#ifndef TUTTI_TUTTI_H
#define TUTTI_TUTTI_H

#include <tutti/batch.h>
#include <tutti/collective.h>
#include <tutti/dlpack.h>
#include <tutti/export.h>
#include <tutti/group.h>
#include <tutti/info.h>
#include <tutti/memory.h>
#include <tutti/p2p.h>
#include <tutti/plan.h>
#include <tutti/recorder.h>
#include <tutti/reduce.h>
#include <tutti/status.h>
#include <tutti/store.h>
#include <tutti/tensor.h>
#include <tutti/version.h>
#include <tutti/work.h>

#endif
