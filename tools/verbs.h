/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs; argv[0] is the verb's name. Each returns the exit code. */
#ifndef TUTTI_TOOLS_VERBS_H
#define TUTTI_TOOLS_VERBS_H

int run_main(int argc, char **argv);
int info_main(int argc, char **argv);
int explain_main(int argc, char **argv);

#endif
