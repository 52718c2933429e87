/* SPDX-License-Identifier: Apache-2.0 */
/* tcp with the defect of KIT_DEFECT (broken.h), or one of the file: BROKEN_MAJOR, BROKEN_MINOR, BROKEN_EXPORT. */
#include "broken.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#pragma push_macro("TUTTI_PLUGIN_EXPORT_ABOUT")
#undef TUTTI_PLUGIN_EXPORT_ABOUT
#define TUTTI_PLUGIN_EXPORT_ABOUT(name, version, license, list, count, leave, trial, options,      \
                                  launchers, cost)                                                 \
    __attribute__((unused)) static const void *const not_exported[] = {list, cost}
#include "tcp.c"
#pragma pop_macro("TUTTI_PLUGIN_EXPORT_ABOUT")

const tutti_transport_ops *const sound = &tcp_ops;

static tutti_transport_ops ops;

#define TAKE(member) ops.member = defect->ops.member ? defect->ops.member : ops.member

static void apply(const struct defect *defect)
{
    TAKE(struct_size);
    TAKE(capabilities);
    TAKE(lanes);
    TAKE(open);
    TAKE(connect);
    TAKE(isend);
    TAKE(irecv);
    TAKE(close);
    TAKE(progress);
    TAKE(cancel);
    TAKE(wait_fd);
    TAKE(arm);
    if (defect->received)
        messages_look(&ops, defect->received);
    if (defect->told_lost)
        endpoints_tell(defect->told_lost);
    if (!strcmp(defect->name, "misses-function"))
        ops.irecv = NULL;
    if (!strcmp(defect->name, "constructor"))
        umask(0);
}

static void choose_from(const struct defect *defects, const char *name)
{
    for (; defects->name; defects++)
        if (!strcmp(defects->name, name))
            apply(defects);
}

/* Before anything reads the operations. */
__attribute__((constructor)) static void choose(void)
{
    const char *name = getenv("KIT_DEFECT");

    ops = tcp_ops;
    if (!name)
        return;
    choose_from(message_defects, name);
    choose_from(endpoint_defects, name);
}

#ifdef BROKEN_EXPORT
TUTTI_API void another_name(void);

void another_name(void)
{
}
#endif

#ifdef BROKEN_MAJOR
#undef TUTTI_PLUGIN_ABI_MAJOR
#define TUTTI_PLUGIN_ABI_MAJOR 7
#endif
#ifdef BROKEN_MINOR
#undef TUTTI_PLUGIN_ABI_MINOR
#define TUTTI_PLUGIN_ABI_MINOR 99
#endif

#ifdef BROKEN_KIND
#define BROKEN_KIND_IS 7
#else
#define BROKEN_KIND_IS TUTTI_PROVIDER_TRANSPORT
#endif

static const tutti_provider broken_transport = {
    .struct_size = sizeof(tutti_provider), .kind = BROKEN_KIND_IS, .name = "broken", .ops = &ops};
static const tutti_provider *const broken_providers[] = {&broken_transport};

TUTTI_PLUGIN_EXPORT("broken", "1.0, tcp with a defect", "Apache-2.0", broken_providers, 1);
