/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From the lists of a plugin's about.h to the tables of its descriptor. The same lists are compiled into
 * the core, so that it knows the variables of tutti's own plugins without opening one.
 */
#pragma once

#include <tutti/plugin.h>

#define ABOUT_OPTION(plugin, variable, values, standard, across, idle, meaning)                    \
    {variable, values, standard, meaning, idle, across, {0}},
#define ABOUT_OPTIONS_END                                                                          \
    {                                                                                              \
        NULL, NULL, NULL, NULL, NULL, 0,                                                           \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

#define ABOUT_LAUNCHER(plugin, variable, launcher) {variable, launcher},
#define ABOUT_LAUNCHERS_END                                                                        \
    {                                                                                              \
        NULL, NULL                                                                                 \
    }
