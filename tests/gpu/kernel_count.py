#!/usr/bin/python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Counts the kernels in compiled CUDA sources, and their device code. Fails if there is more than a limit.

  tests/gpu/kernel_count.py KERNELS MEGABYTES FOLDER

FOLDER has the objects of one target, with device code of one architecture. For each kernel there is a
function on the host that launches it, __device_stub__..., which nvcc makes and names after the kernel; its
symbols are in the object even if the function itself was inlined. Needs nm and size (binutils), but no CUDA.
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


def device_code_of(sections: str) -> int:
    """Bytes of the sections that nvcc makes from device code, in the output of size -A."""
    return sum(int(size) for size in re.findall(r"^\.nv_fatbin\s+(\d+)", sections, re.MULTILINE))


def listing(*command) -> str:
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def main() -> None:
    limit, megabytes, folder = int(sys.argv[1]), float(sys.argv[2]), pathlib.Path(sys.argv[3])
    objects = sorted(folder.rglob("*.cu.o"))
    count = sum(len(kernels_of(listing("nm", path))) for path in objects)
    code = sum(device_code_of(listing("size", "-A", path)) for path in objects) / 1e6
    print(f"{folder.name}: {count} kernels in {len(objects)} objects, of at most {limit}; "
          f"{code:.2f} MB of device code, of at most {megabytes}")
    if count == 0:
        sys.exit(f"no kernels in {folder}: are the objects there, and does nvcc still name stubs so?")
    if count > limit:
        sys.exit(f"more than {limit} kernels: let types share them (docs/adr/0022, traits.h: SameBytes), or "
                 "drop some")
    if not 0 < code <= megabytes:
        sys.exit(f"not within {megabytes} MB: is the device code compressed (-Xfatbin), or what has grown?")


if __name__ == "__main__":
    main()
