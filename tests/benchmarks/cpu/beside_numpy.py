# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU backend and numpy.sum on arrays of the same size, in turns, as JSON lines.

    python3 beside_numpy.py --bin DIR [--dtypes int32,...] [--log2_bytes 16,...] [--threads 1,0]
                            [--budget_ms N] [--commit HASH] [--date YYYY-MM-DD]

For each type and size NumPy runs half of its rounds before warpfold-cpu-bench and half after it. NumPy uses
one thread. Run this on a machine that does nothing else.
"""

import argparse
import json
import pathlib
import subprocess
import time
from typing import Optional

import numpy

_BATCH_BYTES = 1 << 25
_MAX_CALLS = 128
_MIN_ROUNDS = 4
_SEED = 20261121


def element_types(bench: pathlib.Path) -> list:
    """The types that the executable knows, in its order."""
    return [line["dtype"] for line in run(bench, "--log2_bytes=12", "--threads=1", "--budget_ms=1")]


def run(bench: pathlib.Path, *flags: str) -> list:
    done = subprocess.run([bench, *flags], capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def random_array(dtype: str, bytes_: int) -> Optional[numpy.ndarray]:
    """The same data as in warpfold-cpu-bench: no NaN, no infinity. None for a type that NumPy lacks."""
    words = numpy.random.default_rng(_SEED).integers(0, 1 << 63, bytes_ // 8, dtype=numpy.uint64)
    words &= numpy.uint64(0x0101010101010101 if dtype == "bool" else 0xBFFFBFFFBFFFBFFF)
    try:
        return words.view(dtype)
    except TypeError:
        return None


def numpy_times(array: numpy.ndarray, budget_ms: float) -> list:
    """Seconds per call, one figure for each round."""
    calls = min(max(_BATCH_BYTES // array.nbytes, 1), _MAX_CALLS)
    rounds, end = [], time.perf_counter() + budget_ms / 1e3
    numpy.sum(array)
    while len(rounds) < _MIN_ROUNDS or time.perf_counter() < end:
        begin = time.perf_counter()
        for _ in range(calls):
            numpy.sum(array)
        rounds.append((time.perf_counter() - begin) / calls)
    return rounds


def numpy_figures(times: list, bytes_: int) -> dict:
    if not times:
        return {"numpy_gbps": None}
    low, median, high = numpy.quantile(times, (0.1, 0.5, 0.9))
    keys = ("numpy_gbps", "numpy_gbps_p10", "numpy_gbps_p90")
    return {key: float(f"{bytes_ / s / 1e9:.4g}") for key, s in zip(keys, (median, high, low))}


def beside_numpy(bench: pathlib.Path, dtype: str, log2: int, threads: str, budget_ms: float) -> list:
    array = random_array(dtype, 1 << log2)
    times = numpy_times(array, budget_ms / 2) if array is not None else []
    lines = run(bench, f"--dtypes={dtype}", f"--log2_bytes={log2}", f"--threads={threads}",
                f"--budget_ms={budget_ms}")
    times += numpy_times(array, budget_ms / 2) if array is not None else []
    figures = numpy_figures(times, 1 << log2)
    for line in lines:
        line |= figures
        gbps = line["numpy_gbps"]
        line |= {"to_numpy": float(f"{line['gbps'] / gbps:.4g}") if gbps else None,
                 "numpy_version": numpy.__version__}
    return lines


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--dtypes", help="all if none")
    parser.add_argument("--log2_bytes", default="16,20,24,28,30")
    parser.add_argument("--threads", default="1,0", help="0 for one per core")
    parser.add_argument("--budget_ms", type=float, default=150)
    parser.add_argument("--commit", default="unknown")
    parser.add_argument("--date", default="unknown")
    arguments = parser.parse_args()
    bench = arguments.bin / "warpfold-cpu-bench"
    dtypes = arguments.dtypes.split(",") if arguments.dtypes else element_types(bench)
    with numpy.errstate(all="ignore"):  # float16 overflows
        for dtype in dtypes:
            for log2 in arguments.log2_bytes.split(","):
                for line in beside_numpy(bench, dtype, int(log2), arguments.threads, arguments.budget_ms):
                    line |= {"commit": arguments.commit, "date": arguments.date}
                    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
