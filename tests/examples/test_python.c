/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The C API from Python, without a binding: ctypes and cffi, with NumPy's arrays. Debian's Python,
 * as its NumPy and cffi are what the tests' packages bring.
 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OUTPUT_MAX = 8192 };

#define PYTHON "/usr/bin/python3 "
#define EXAMPLE PYTHON TUTTI_SOURCE_DIR "/examples/python/"
#define SCRIPT PYTHON TUTTI_SOURCE_DIR "/tests/examples/"
#define HEADERS " " TUTTI_SOURCE_DIR "/api " TUTTI_BINARY_DIR "/api"

static void skip_under_sanitizers(void)
{
#ifdef __SANITIZE_ADDRESS__
    cr_skip_test("a Python without sanitizers cannot open a library that has them");
#endif
}

TestSuite(python, .init = skip_under_sanitizers);

static void run(const char *command, char ret_output[OUTPUT_MAX])
{
    char line[2048];

    setenv("TUTTI_PLUGIN_PATH", TUTTI_BINARY_DIR "/lib/tutti/0", 1);
    setenv("LD_LIBRARY_PATH", TUTTI_BINARY_DIR "/lib", 1);
    setenv("PYTHONPATH", TUTTI_SOURCE_DIR "/examples/python", 1);
    setenv("PYTHONDONTWRITEBYTECODE", "1", 1);
    snprintf(line, sizeof line, "%s 2>&1", command);
    FILE *pipe = popen(line, "r");
    cr_assert_not_null(pipe);
    size_t n = fread(ret_output, 1, OUTPUT_MAX - 1, pipe);
    ret_output[n] = 0;
    cr_expect_eq(pclose(pipe), 0, "%s: %s", command, ret_output);
}

static void expect(const char *output, const char *words)
{
    cr_expect_not_null(strstr(output, words), "no «%s» in: %s", words, output);
}

Test(python, ctypes_reduces_arrays_of_any_layout, .timeout = 60)
{
    char output[OUTPUT_MAX];

    run(TUTTI_COMMAND " run -n 3 " EXAMPLE "all_reduce_ctypes.py", output);
    expect(output, "rank 2 of 3: [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]] "
                   "[[0, 3, 6], [3, 4, 5], [18, 21, 24], [9, 10, 11]]");
}

Test(python, cffi_reduces_an_array, .timeout = 60)
{
    char output[OUTPUT_MAX];

    run(TUTTI_COMMAND " run -n 3 " EXAMPLE "all_reduce_cffi.py" HEADERS, output);
    expect(output, "rank 0 of 3: [[3.0, 3.0, 3.0], [3.0, 3.0, 3.0]]");
}

Test(python, cffi_reads_every_header_alone, .timeout = 60)
{
    char output[OUTPUT_MAX];

    run(SCRIPT "headers_cffi.py" HEADERS, output);
    expect(output, "\nplugin.h: ");
    expect(output, "\ntensor.h: ");
}

Test(python, managed_tensors_of_numpy_are_imported_and_given_back, .timeout = 60)
{
    char output[OUTPUT_MAX];

    run(TUTTI_COMMAND " run -n 2 " SCRIPT "numpy_dlpack.py", output);
    expect(output, "rank 0: imported and given back");
    expect(output, "rank 1: imported and given back");
}
