/* SPDX-License-Identifier: Apache-2.0 */
/* The functions of the plugin template without what it exports: who includes this exports them
 * otherwise. */
#ifndef TESTS_COMPAT_TEMPLATE_ALONE_H
#define TESTS_COMPAT_TEMPLATE_ALONE_H

#define _GNU_SOURCE 1

#include <tutti/plugin.h>

#pragma push_macro("TUTTI_PLUGIN_EXPORT")
#undef TUTTI_PLUGIN_EXPORT
#define TUTTI_PLUGIN_EXPORT(name, version, license, providers, count)                              \
    __attribute__((unused)) static const tutti_provider *const *const not_exported = providers
#include "template.c"
#pragma pop_macro("TUTTI_PLUGIN_EXPORT")

#endif
