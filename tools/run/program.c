/* SPDX-License-Identifier: Apache-2.0 */
#include "run/program.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cli.h"

static bool is_file(const char *path)
{
    struct stat about;

    return stat(path, &about) == 0 && S_ISREG(about.st_mode);
}

static int use_python(char *const *words, char **ret_path, char ***ret_argv)
{
    g_autofree char *python = g_find_program_in_path("python3");
    g_autoptr(GPtrArray) argv = g_ptr_array_new();

    if (!python) {
        cli_say("run", "%s is a Python script, and there is no python3 in PATH", words[0]);
        return EXIT_NOT_FOUND;
    }
    g_ptr_array_add(argv, g_strdup("python3"));
    g_ptr_array_add(argv, g_strdup("-u")); /* else its lines wait in a buffer: stdout is a pipe */
    for (; *words; words++)
        g_ptr_array_add(argv, g_strdup(*words));
    g_ptr_array_add(argv, NULL);
    *ret_argv = (char **)g_ptr_array_free(g_steal_pointer(&argv), FALSE);
    *ret_path = g_steal_pointer(&python);
    return 0;
}

static int say_why_not(const char *program)
{
    struct stat about;

    if (!strchr(program, '/')) {
        if (is_file(program))
            cli_say("run", "program '%s' was not found in PATH; for the file here, say ./%s",
                    program, program);
        else
            cli_say("run", "program '%s' was not found in PATH", program);
        return EXIT_NOT_FOUND;
    }
    if (stat(program, &about) < 0) {
        cli_say("run", "program '%s' cannot be started: %s", program, strerror(errno));
        return errno == EACCES ? EXIT_NOT_EXECUTABLE : EXIT_NOT_FOUND;
    }
    if (S_ISDIR(about.st_mode))
        cli_say("run", "program '%s' cannot be started: it is a directory", program);
    else
        cli_say("run", "program '%s' cannot be started: it is not executable (chmod +x %s)",
                program, program);
    return EXIT_NOT_EXECUTABLE;
}

int program_find(char *const *words, char **ret_path, char ***ret_argv)
{
    g_autofree char *path = g_find_program_in_path(words[0]);

    if (!path && g_str_has_suffix(words[0], ".py") && is_file(words[0]))
        return use_python(words, ret_path, ret_argv);
    if (!path)
        return say_why_not(words[0]);
    *ret_path = g_steal_pointer(&path);
    *ret_argv = g_strdupv((char **)words);
    return 0;
}

/* The interpreter of a script whose first line is "#! /path/to/interpreter -x"; NULL: it has no
 * such line. */
static char *interpreter_of(const char *path)
{
    char line[256] = "";
    FILE *file = fopen(path, "re");

    if (file && !fgets(line, sizeof line, file))
        *line = 0;
    if (file)
        fclose(file);
    if (!g_str_has_prefix(line, "#!"))
        return NULL;

    const char *start = line + 2 + strspn(line + 2, " \t");

    return g_strndup(start, strcspn(start, " \t\n"));
}

char *program_exec_error(const char *path, int error)
{
    g_autofree char *interpreter = NULL, *shown = NULL;

    if (error == ENOEXEC)
        return g_strdup_printf("%s (built for another machine, or a script without a #! line)",
                               strerror(error));
    if (error != ENOENT || !is_file(path))
        return g_strdup(strerror(error));
    interpreter = interpreter_of(path);
    shown = interpreter ? g_strescape(interpreter, NULL) : NULL; /* "python3\r" of other systems */
    return shown
               ? g_strdup_printf("there is no interpreter '%s', which its first line names", shown)
               : g_strdup(
                     "the dynamic linker that it was built for is not there (file, readelf -l)");
}
