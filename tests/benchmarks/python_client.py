# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The Python package beside the C++ client, in turns: large arrays from NumPy, small calls; and its import.

    PYTHON python_client.py --bin DIR --output FILE [--device cpu|cuda:N] [--wheel FILE] [--commit HASH]

PYTHON is one that has the package (deploy/python_environment.sh makes it). DIR holds warpfold-server and
warpfold, whose `bench` is the C++ side. JSON lines go to FILE, one per case and side; a table is printed.
"""

import argparse
import datetime
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time
from typing import NamedTuple

import numpy
from processes import ServerProcess, cpu_seconds

import warpfold

_IMPORTS = 21
_IMPORT = "import time; begin = time.perf_counter(); import {}; print(time.perf_counter() - begin)"


class Case(NamedTuple):
    name: str
    method: str  # as `warpfold bench` names it
    bytes: int
    streams: int


class Turn(NamedTuple):
    gbps: float
    p50_us: float
    cpu_us_per_call: float


def cxx_turn(flags: argparse.Namespace, address: str, case: Case) -> Turn:
    command = [flags.bin / "warpfold", "bench", "--json", "--target", address, "--method", case.method,
               "--bytes", case.bytes, "--streams", case.streams, "--rounds", 1, "--warm_up", 0.2,
               "--duration", flags.duration_s, "--memory_bytes", flags.bytes]
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True, check=True)
    line = json.loads(done.stdout)
    return Turn(line["gbps"], line["p50_us"], line["client_cpu_us_per_call"])


def python_turn(flags: argparse.Namespace, client: warpfold.Client, memory: numpy.ndarray,
                case: Case) -> Turn:
    """Each call uses the next part of the memory, as in the C++ load."""
    count = case.bytes // memory.itemsize
    arrays = [memory[begin:begin + count] for begin in range(0, len(memory) - count + 1, count)][:1 << 16]
    options = {"streams": case.streams} if case.method == "reduce" else {}
    client.sum(arrays[0], **options)
    times_s, cpu_s, begin_s = [], cpu_seconds(os.getpid()), time.perf_counter()
    end_s = begin_s + flags.duration_s
    while (now_s := time.perf_counter()) < end_s:
        client.sum(arrays[len(times_s) % len(arrays)], **options)
        times_s.append(time.perf_counter() - now_s)
    wall_s = time.perf_counter() - begin_s
    cpu_s = cpu_seconds(os.getpid()) - cpu_s
    return Turn(len(times_s) * case.bytes / wall_s / 1e9, statistics.median(times_s) * 1e6,
                cpu_s / len(times_s) * 1e6)


def lines_of(case: Case, flags: argparse.Namespace, sides: dict) -> list:
    turns = {side: [] for side in sides}
    for index in range(flags.rounds):
        order = list(sides) if index % 2 == 0 else list(sides)[::-1]
        for side in order:
            turns[side].append(sides[side](case))
    lines = []
    for side, measured in turns.items():
        rates = [cxx.gbps and own.gbps / cxx.gbps for own, cxx in zip(measured, turns["cxx"], strict=True)]
        beyond = [own.p50_us - cxx.p50_us for own, cxx in zip(measured, turns["cxx"], strict=True)]
        lines.append({
            "case": case.name, "bytes": case.bytes, "streams": case.streams, "rounds": flags.rounds,
            "side": side, "gbps": round(statistics.median(turn.gbps for turn in measured), 4),
            "p50_us": round(statistics.median(turn.p50_us for turn in measured), 2),
            "client_cpu_us_per_call": round(statistics.median(turn.cpu_us_per_call for turn in measured), 2),
            "rate_to_cxx": round(statistics.median(rates), 4), "rate_to_cxx_min": round(min(rates), 4),
            "rate_to_cxx_max": round(max(rates), 4),
            "p50_beyond_cxx_us": round(statistics.median(beyond), 2)})
    return lines


def import_line(module: str) -> dict:
    times_ms = []
    for _ in range(_IMPORTS):
        done = subprocess.run([sys.executable, "-c", _IMPORT.format(module)], capture_output=True, text=True,
                              check=True)
        times_ms.append(float(done.stdout) * 1e3)
    return {"case": "import", "side": module, "rounds": _IMPORTS,
            "p50_ms": round(statistics.median(times_ms), 1), "min_ms": round(min(times_ms), 1),
            "max_ms": round(max(times_ms), 1)}


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--wheel", type=pathlib.Path, help="one that deploy/python_wheel.sh wrote")
    parser.add_argument("--bytes", type=int, default=1 << 30, help="of the memory that arrays are parts of")
    parser.add_argument("--streams", type=int, default=4, help="of the striped case")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--duration_s", type=float, default=1.5, help="of a turn")
    parser.add_argument("--commit", default="unknown")
    return parser.parse_args()


def main() -> int:
    flags = parse()
    memory = numpy.random.default_rng(1).random(flags.bytes // 4, dtype=numpy.float32)
    large = flags.bytes // 4
    lines = []
    with ServerProcess(flags.bin / "warpfold-server", "--listen=127.0.0.1:0", f"--device={flags.device}",
                       "--max_concurrent_reductions=256") as server:
        address = server.addresses[0]
        with warpfold.connect(address) as client:
            sides = {"cxx": lambda case: cxx_turn(flags, address, case),
                     "python": lambda case: python_turn(flags, client, memory, case)}
            for case in (Case("streams", "reduce", large, 1), Case("streams", "reduce", large, flags.streams),
                         Case("array_4_kib", "array", 4096, 1)):
                lines += lines_of(case, flags, sides)
        device = server.device
    lines += [import_line("warpfold"), import_line("numpy")]
    if flags.wheel is not None:
        lines.append({"case": "wheel", "side": flags.wheel.name, "bytes": flags.wheel.stat().st_size})
    head = {"bench": "python_client", "date": datetime.date.today().isoformat(), "commit": flags.commit,
            "cores": os.cpu_count(), "server": device}
    flags.output.write_text("".join(f"{json.dumps({**head, **line})}\n" for line in lines), encoding="utf-8")
    for line in lines:
        print(" ".join(f"{name}={value}" for name, value in line.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
