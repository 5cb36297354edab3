# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Segments on the CPU and the same rows in NumPy, in turns, as JSON lines.

    python3 segments_beside_numpy.py --bin DIR [--operators sum,max,argmax] [--dtypes float32,int32]
                                     [--segment_elements 4,16,...] [--budget_ms N]

For segments of one length NumPy reduces the last axis of a matrix; for others it uses add.reduceat and the
like, as far as it has them. Both sides use one thread. Run this on a machine that does nothing else.
"""

import argparse
import json
import pathlib
import subprocess
import time

import numpy

_TOTAL_BYTES = 64 << 20
_MIN_ROUNDS = 3
_REDUCEAT = {"sum": numpy.add, "max": numpy.maximum, "min": numpy.minimum}


def numpy_call(operator: str, array: numpy.ndarray, length: int, varying: bool):
    """A function that reduces all segments; None if NumPy has none."""
    segments = array.size // length
    if not varying:
        rows = array[:segments * length].reshape(segments, length)
        return lambda: getattr(numpy, operator)(rows, axis=1)
    if operator not in _REDUCEAT:
        return None
    lengths = numpy.full(segments, length)
    lengths[0::2] -= 1
    lengths[1::2] += 1
    starts = numpy.cumsum(lengths) - lengths
    return lambda: _REDUCEAT[operator].reduceat(array, starts)


def gbps(call, bytes_: int, budget_ms: float) -> float:
    rounds, end = [], time.perf_counter() + budget_ms / 1e3
    call()
    while len(rounds) < _MIN_ROUNDS or time.perf_counter() < end:
        begin = time.perf_counter()
        call()
        rounds.append(time.perf_counter() - begin)
    return bytes_ / float(numpy.median(rounds)) / 1e9


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--operators", default="sum,max,argmax")
    parser.add_argument("--dtypes", default="float32,int32")
    parser.add_argument("--segment_elements", default="4,16,256,1024,4096,262144")
    parser.add_argument("--budget_ms", type=float, default=300)
    arguments = parser.parse_args()
    for operator in arguments.operators.split(","):
        for dtype in arguments.dtypes.split(","):
            words = numpy.random.default_rng(1).integers(0, 1 << 63, _TOTAL_BYTES // 8, dtype=numpy.uint64)
            array = (words & numpy.uint64(0xBFBFBFBFBFBFBFBF)).view(dtype)
            for length in arguments.segment_elements.split(","):
                for varying in (False, True):
                    call = numpy_call(operator, array, int(length), varying)
                    flags = ["--varying"] if varying else []
                    done = subprocess.run(
                        [arguments.bin / "warpfold-cpu-segment-bench", f"--operators={operator}",
                         f"--dtypes={dtype}", f"--segment_elements={length}",
                         f"--budget_ms={arguments.budget_ms}", *flags],
                        capture_output=True, text=True, check=True)
                    line = json.loads(done.stdout)
                    rival = gbps(call, array.nbytes, arguments.budget_ms) if call else None
                    line["numpy_gbps"] = round(rival, 3) if call else None
                    line["to_numpy"] = round(line["gbps"] / rival, 3) if call else None
                    print(json.dumps(line | {"numpy_version": numpy.__version__}), flush=True)


if __name__ == "__main__":
    main()
