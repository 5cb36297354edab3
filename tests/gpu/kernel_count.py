#!/usr/bin/python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the kernels in compiled CUDA sources, and fails where there are more than a limit.

  tests/gpu/kernel_count.py LIMIT FOLDER

FOLDER has the objects of one target. Each kernel has a function on the host that launches it,
__device_stub__..., which nvcc makes and names after the kernel; its symbols are in the object even where
the function itself was inlined. Needs nm (binutils) and no CUDA.
"""

import pathlib
import re
import subprocess
import sys


def kernels_of(symbols: str) -> set[str]:
    """The names of stubs among the symbols, mangled: <length>__device_stub__<kernel>."""
    names = set()
    for match in re.finditer(r"(\d+)__device_stub__", symbols):
        begin = match.end(1)
        names.add(symbols[begin:begin + int(match.group(1))])
    return names


def main() -> None:
    limit, folder = int(sys.argv[1]), pathlib.Path(sys.argv[2])
    objects = sorted(folder.rglob("*.cu.o"))
    count = 0
    for path in objects:
        listing = subprocess.run(["nm", path], check=True, capture_output=True, text=True).stdout
        count += len(kernels_of(listing))
    print(f"{folder.name}: {count} kernels in {len(objects)} objects, of at most {limit}")
    if count == 0:
        sys.exit(f"no kernels in {folder}: are the objects there, and does nvcc still name stubs so?")
    if count > limit:
        sys.exit(f"more than {limit} kernels: let types share them (docs/adr/0022, traits.h: SameBytes), or "
                 "drop some")


if __name__ == "__main__":
    main()
