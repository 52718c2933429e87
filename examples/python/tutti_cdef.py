#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""tutti's headers as cffi's cdef() takes them: preprocessed, tutti's own declarations only.

cffi reads neither directives nor attributes nor inline functions. So the C preprocessor takes the
directives (its line marks tell which lines are tutti's own), and the rest is taken out here.

python3 tutti_cdef.py [FOLDER_OF_HEADERS]    prints the declarations
"""

import re
import subprocess
import sys

INLINE = re.compile(r"static inline [^{;]*\{.*?\n\}\n", re.DOTALL)
ATTRIBUTE = re.compile(r"__attribute__\s*\(\((?:[^()]|\([^()]*\))*\)\)\s*")


def preprocess(include, headers):
    """What cc makes of the headers; `include` None: where it or pkg-config finds them."""
    if include is None:
        flags = subprocess.run(
            ["pkg-config", "--cflags", "tutti"], capture_output=True, text=True, check=False
        ).stdout.split()
    else:
        flags = [f"-I{folder}" for folder in include]
    done = subprocess.run(
        ["cc", "-E", "-x", "c", "-std=c99", *flags, "-"],
        input="".join(f"#include <{header}>\n" for header in headers),
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:  # cc has told what it misses
        sys.exit(
            "tutti's headers are not found: install them, or pass the folders that hold tutti/*.h "
            "(tutti/include of the Python package)"
        )
    return done.stdout


def cdef(include=None, headers=("tutti/tutti.h",)):
    """The text for cdef(); `include`: folders to search, those with `tutti/…` among them."""
    kept, ours = [], False
    for line in preprocess(include, headers).splitlines():
        mark = re.match(r'# \d+ "([^"]*)"', line)
        if mark:
            ours = re.search(r"(^|/)tutti/[a-z0-9_]+\.h$", mark[1]) is not None
        elif ours and line.strip():
            kept.append(line + "\n")
    return ATTRIBUTE.sub("", INLINE.sub("", "".join(kept)))


if __name__ == "__main__":
    print(cdef(sys.argv[1:] or None), end="")
