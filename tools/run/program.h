/* SPDX-License-Identifier: Apache-2.0 */
/* Which file to start for the words that follow the options of `tutti run`. */
#pragma once

/*
 * Finds words[0] as a shell would. A Python script that is not executable is run by `python3 -u`.
 * Returns 0 with the file and the argument vector (both freed by the caller, g_free and
 * g_strfreev), else 126 or 127 after having said what is wrong.
 */
int program_find(char *const *words, char **ret_path, char ***ret_argv);

/* Why the file that was found could not be executed, by execve()'s errno; freed with g_free(). */
char *program_exec_error(const char *path, int error);
