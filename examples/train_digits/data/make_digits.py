#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes the three data files of this folder from scikit-learn's copy of the UCI digits.

    pip download --no-deps scikit-learn
    ./make_digits.py scikit_learn-*.whl

The argument is a wheel or the digits.csv.gz inside it. Only Python's own library is needed. The
same input gives the same bytes: the held-out images are drawn with a fixed seed.
"""

import csv
import gzip
import io
import random
import struct
import sys
import zipfile
from pathlib import Path

IMAGES, SIDE, BRIGHTEST, CLASSES = 1797, 8, 16, 10
HELD_OUT_SHARE = 0.2
SEED = 20240501
MEMBER = "sklearn/datasets/data/digits.csv.gz"


def read_rows(path):
    if path.endswith(".whl"):
        with zipfile.ZipFile(path) as wheel:
            packed = wheel.read(MEMBER)
    else:
        packed = Path(path).read_bytes()
    text = io.StringIO(gzip.decompress(packed).decode("ascii"))
    rows = [[int(float(cell)) for cell in row] for row in csv.reader(text)]
    for number, row in enumerate(rows, 1):
        *pixels, label = row
        if len(pixels) != SIDE * SIDE or not 0 <= label < CLASSES:
            sys.exit(f"{path}: row {number} is not {SIDE * SIDE} pixels and a digit")
        if not all(0 <= pixel <= BRIGHTEST for pixel in pixels):
            sys.exit(f"{path}: row {number} has a pixel outside 0..{BRIGHTEST}")
    if len(rows) != IMAGES:
        sys.exit(f"{path}: {len(rows)} rows, expected {IMAGES}")
    return rows


def choose_held_out(labels):
    """A fifth of each class, so that every digit is judged on as many images."""
    draw = random.Random(SEED)
    held_out = []
    for digit in range(CLASSES):
        members = [index for index, label in enumerate(labels) if label == digit]
        held_out += draw.sample(members, round(HELD_OUT_SHARE * len(members)))
    return sorted(held_out)


def main():
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    rows = read_rows(sys.argv[1])
    labels = bytes(row[-1] for row in rows)
    folder = Path(__file__).resolve().parent
    (folder / "digits-images-idx3-ubyte").write_bytes(
        struct.pack(">IIII", 0x803, len(rows), SIDE, SIDE)
        + b"".join(bytes(row[:-1]) for row in rows))
    (folder / "digits-labels-idx1-ubyte").write_bytes(
        struct.pack(">II", 0x801, len(rows)) + labels)
    held_out = choose_held_out(labels)
    (folder / "heldout-indices.txt").write_text(
        f"# {len(held_out)} of {len(rows)} images, a fifth of each class; see README.md\n"
        + "".join(f"{index}\n" for index in held_out))


if __name__ == "__main__":
    main()
