/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs below `tutti trace`; argv[0] is the verb's name. Each returns the exit code. */
#pragma once

int trace_analyze_main(int argc, char **argv);
int trace_merge_main(int argc, char **argv);
