# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads result files, and picks from them the runs that docs/benchmarks.md shows: the newest of each kind.

A line is a dict, as the benchmarks printed it. A run consists of all lines of one kind with the same commit
and date, in however many files.
"""

import json
import pathlib
import re
from typing import Iterable, NamedTuple, Optional

# The device for which the goals are set.
GPU = "NVIDIA H200"

# Values that may not occur twice in a run. The later line counts.
_IDENTITY = ("bench", "algorithm", "operator", "dtype", "matrix", "modulus", "bytes", "threads", "transport",
             "streams", "device", "data", "server", "case", "side")


class Results(NamedTuple):
    """The lines shown, by kind."""

    kernels: list  # Warpfold, CUB, Thrust and the ceiling, on the device
    ladder: list  # the textbook algorithms, their published forms and the production kernel, on any GPU
    from_host: list  # host call to value
    cpu: list
    way_in: list  # end to end, of all sides


def read(folder: pathlib.Path) -> list:
    """All lines of all files, each with the name of its file."""
    return [_normal({**json.loads(text), "file": path.name})
            for path in sorted(folder.glob("*.jsonl"))
            for text in path.read_text(encoding="utf-8").splitlines() if text.strip()]


def _normal(line: dict) -> dict:
    """Until 2026-11-20 only CUB as it comes took part, under the name that its wide accumulator has now."""
    if "cub_gbps" in line and line["bench"] == "kernel" and "cub_native_gbps" not in line:
        line["cub_native_gbps"] = line.pop("cub_gbps")
        line["to_cub_native"] = line.pop("to_cub", None)
    return line


def pick(lines: list) -> Results:
    def of(bench: str) -> list:
        return [line for line in lines if line["bench"] == bench]

    # A run of way_in.py names the server's device; single benches, for example of variants in turns, do not.
    way_in = [line for line in of("load") if "server" in line]
    # Arrays of all exponents are for cases that depend on them: the page says in words what they show.
    kernels = [line for line in of("kernel") if line["device"] == GPU and line.get("data") != "wide"]
    production = [line for line in kernels if line["algorithm"] == "auto"]
    cpu = of("cpu")
    if cpu:
        device = _newest(cpu)["device"]
        cpu = newest_run([line for line in cpu if line["device"] == device])
    return Results(
        kernels=newest_run(production),
        ladder=newest_run(of("textbook")),
        from_host=newest_run([line for line in of("from_host") if line["device"] == GPU]),
        cpu=cpu,
        way_in=newest_run(way_in),
    )


def _newest(lines: list) -> dict:
    return max(lines, key=lambda line: (line["date"], line["file"]))


def newest_run(lines: list) -> list:
    if not lines:
        return []
    newest = _newest(lines)
    return unique(line for line in lines
                  if (line["date"], line["commit"]) == (newest["date"], newest["commit"]))


def unique(lines: Iterable[dict]) -> list:
    return list({(line["date"], line["commit"], *(line.get(key) for key in _IDENTITY)): line
                 for line in lines}.values())


def ratio(line: dict, rival: str) -> Optional[float]:
    """How many times faster Warpfold was: as the benchmark wrote it, or else computed from the two
    figures."""
    written = line.get(f"to_{rival}")
    if written is not None:
        return written
    ours, theirs = line.get("gbps"), line.get(f"{rival}_gbps")
    return ours / theirs if ours and theirs else None


def log2_size(line: dict) -> int:
    """The power of two in which the line's bytes were meant to fit: 3 x 3 matrices leave a few bytes over."""
    return (line["bytes"] - 1).bit_length()


def size_name(log2: int) -> str:
    """64 KiB for 16."""
    unit, exponent = divmod(log2, 10)
    return f"{1 << exponent} {('B', 'KiB', 'MiB', 'GiB', 'TiB')[unit]}"


def element_bits(dtype: str) -> int:
    digits = re.search(r"\d+$", dtype)
    return int(digits.group()) if digits else 8  # bool


def element_name(line: dict) -> str:
    """float32, or 4 x 4 uint32 modulo 998244353."""
    d = line.get("matrix") or 0
    shape = f"{d} x {d} " if d else ""
    modulus = f" modulo {line['modulus']}" if line.get("modulus") else ""
    return shape + line["dtype"] + modulus


def case_name(line: dict) -> str:
    """sum of float32"""
    return f"{line['operator']} of {element_name(line)}"


def case_key(line: dict) -> tuple:
    return line["operator"], line["dtype"], line.get("matrix") or 0, line.get("modulus") or 0


def by_case(lines: list) -> dict:
    """Lines of one operator and element type, in the order of their first lines, each sorted by size."""
    cases: dict = {}
    for line in lines:
        cases.setdefault(case_key(line), []).append(line)
    return {key: sorted(case, key=lambda line: line["bytes"]) for key, case in cases.items()}


def load_name(line: dict) -> str:
    """The subject of a line of the way in: streams x2, or ipc 4 GiB, or array_4_kib."""
    if line["case"] == "streams":
        return f"streams x{line['streams']}"
    in_place = line.get("source", "chunks") != "chunks"
    return f"{line['case']} {size_name(log2_size(line))}" if in_place else line["case"]


def device_name(server: str) -> str:
    """NVIDIA H200 for cuda:0 NVIDIA H200, as in the lines of kernels."""
    return server.split(" ", 1)[-1]


def ceiling_line(results: Results, line: dict) -> Optional[dict]:
    """The line of the kernels that shows the most that the device of a line of the way in can read: for a sum
    over as many bytes of the same type. If that was not measured, the line is over the next larger number,
    whose ceiling is no lower, so that no share of it is flattered; if there is no larger one, it is over the
    largest."""
    sums = [other for other in results.kernels
            if other["operator"] == "sum" and not other.get("matrix") and other.get("ceiling_gbps") and
            (other["device"], other["dtype"]) == (device_name(line["server"]), line["dtype"])]
    enough = [other for other in sums if other["bytes"] >= line["bytes"]]
    if enough:
        return min(enough, key=lambda other: other["bytes"])
    return max(sums, key=lambda other: other["bytes"], default=None)
