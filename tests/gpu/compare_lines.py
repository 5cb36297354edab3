#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What compare.sh measured, one line per case: microseconds of both builds, and the ratio of new to old.

    tests/gpu/compare_lines.py LINES

A build's time is the median of its turns' medians. Cases that lost more than the limits are marked: 3 % from
64 MiB up, a microsecond below. The exit code is 1 if there are any.
"""

import json
import statistics
import sys
from collections import defaultdict

_LARGE_BYTES = 64 << 20
_LARGE_RATIO = 1.03
_SMALL_LOSS_US = 1.0
_CASE = ("bench", "operator", "dtype", "matrix", "modulus", "log2")


def _case(line: dict) -> tuple:
    # Matrices of three rows have a little less than a power of two.
    line["log2"] = (line["bytes"] - 1).bit_length()
    return tuple(line[key] for key in _CASE)


def _times(path: str) -> dict:
    times = defaultdict(lambda: {"old": [], "new": []})
    with open(path, encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            times[_case(line)][line["build"]].append(line["us"])
    return times


def _name(case: tuple) -> str:
    bench, operator, dtype, matrix, modulus, log2 = case
    shape = f" {matrix}x{matrix}" if matrix else ""
    return (f"{operator} {dtype}{shape}{' mod' if modulus else ''} 2^{log2}"
            f"{' from host' if bench == 'from_host' else ''}")


def main() -> int:
    lost, ratios = 0, []
    for case, builds in sorted(_times(sys.argv[1]).items()):
        if not builds["old"] or not builds["new"]:
            continue
        old, new = statistics.median(builds["old"]), statistics.median(builds["new"])
        large = 1 << case[-1] >= _LARGE_BYTES
        is_lost = new > _LARGE_RATIO * old if large else new > old + _SMALL_LOSS_US
        lost += is_lost
        ratios.append(new / old)
        print(f"{_name(case):48} {old:10.2f} {new:10.2f} us {new / old:7.3f}{'  LOST' if is_lost else ''}")
    if ratios:
        print(f"{len(ratios)} cases, new / old: median {statistics.median(ratios):.3f}, "
              f"{min(ratios):.3f} to {max(ratios):.3f}; {lost} lost more than the limits")
    return 1 if lost or not ratios else 0


if __name__ == "__main__":
    sys.exit(main())
