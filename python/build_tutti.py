#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the C source of the module tutti._tutti, from tutti's headers.

build_tutti.py OUTPUT FOLDER_OF_HEADERS...    run by python/CMakeLists.txt
"""

import os
import re
import sys

import cffi

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "examples", "python"))
import tutti_cdef  # noqa: E402  the examples show how the headers are read


def glue_declarations():
    """functions.h without its directives."""
    with open(os.path.join(HERE, "glue", "functions.h"), encoding="utf-8") as header:
        return re.sub(r"^#.*$", "", header.read(), flags=re.MULTILINE)


def main():
    output, *headers = sys.argv[1:]
    ffi = cffi.FFI()
    ffi.cdef(tutti_cdef.cdef(headers) + glue_declarations())
    source = '#include <tutti/tutti.h>\n#include "functions.h"\n'
    ffi.set_source("tutti._tutti", source, py_limited_api=True)
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main()
