#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each public header by itself, as cffi reads it: headers_cffi.py FOLDER...

Run by test_python.c, with examples/python in PYTHONPATH.
"""

import glob
import os
import sys

import cffi

import tutti_cdef

headers = sorted(
    os.path.basename(path) for folder in sys.argv[1:] for path in glob.glob(f"{folder}/tutti/*.h")
)
assert len(headers) >= 12, headers
for header in headers:
    ffi = cffi.FFI()
    text = tutti_cdef.cdef(sys.argv[1:], [f"tutti/{header}"])
    ffi.cdef(text)
    print(f"{header}: {text.count(';')}")
