#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What the compiler gave each production kernel: registers, stack, shared memory. One JSON object a line.

    tests/gpu/resources.py EXECUTABLE_OR_OBJECT...

Reads the CUDA code in the files with cuobjdump. A stack holds registers that did not fit, and arrays that are
indexed at run time; only ptxas reports spills separately (-Xptxas -v).
"""

import json
import re
import subprocess
import sys

_FUNCTION = re.compile(r"^ Function (\S+):\s*$")
_USAGE = re.compile(r"REG:(\d+) STACK:(\d+) SHARED:(\d+)")


def _output(*command: str, given: str = "") -> list[str]:
    run = subprocess.run(command, input=given, capture_output=True, text=True, check=True)
    return run.stdout.splitlines()


def _kernel(name: str) -> str:
    """ReduceKernel<WarpLeaves<Sum<int, false>>, false>"""
    return re.sub(r"\w+::", "", name).replace("> >", ">>").replace("> >", ">>")


def usages(path: str):
    names, numbers = [], []
    for line in _output("cuobjdump", "--dump-resource-usage", path):
        if match := _FUNCTION.match(line):
            names.append(match.group(1))
        elif match := _USAGE.search(line):
            numbers.append(tuple(map(int, match.groups())))
    demangled = _output("c++filt", "-p", given="\n".join(names))
    for name, (registers, stack, shared) in zip(demangled, numbers, strict=True):
        if "Kernel<warpfold::kernels::" in name and "textbook" not in name:
            yield {"kernel": _kernel(name), "registers": registers, "stack_bytes": stack,
                   "shared_bytes": shared}


def main():
    found = {usage["kernel"]: usage for path in sys.argv[1:] for usage in usages(path)}
    for kernel in sorted(found):
        print(json.dumps(found[kernel]))


if __name__ == "__main__":
    main()
