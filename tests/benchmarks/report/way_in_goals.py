# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The goals of the way in, and how far a run of way_in.py reaches them.

Figures compare lines of that run, except for the ceiling of the device's memory, which comes from the
kernels' run.
"""

from typing import Iterable, NamedTuple, Optional

from report import measurements as m
from report import tables

_IN_PLACE_BYTES = 4 << 30
_MANY_CALLS = 100_000
_KEPT_ROWS = ("rows_of_1_kib", "rows_of_16_kib", "rows_of_128_kib", "rows_of_1024_kib")
_ROWS_TO_MEMORY = tuple(f"{case}_to_memory" for case in _KEPT_ROWS)
_ROWS_TO_GPU_MEMORY = tuple(f"{case}_to_gpu_memory" for case in _KEPT_ROWS)


class _Figure(NamedTuple):
    value: float
    where: str


class _Goal(NamedTuple):
    what: str
    limit: float
    figures: list
    at_most: bool = False  # the limit is the highest value that is good, not the lowest


class _Run:
    """Lines by their subject."""

    def __init__(self, results: m.Results):
        self._results = results
        lines = self._lines = results.way_in
        self._found = {(line["server"], line["transport"], line["case"], line["streams"], line["side"]): line
                       for line in lines}

    def of(self, cases: Iterable[str], side: str, on_gpu: Optional[bool] = None) -> list:
        return [line for line in self._lines if line["case"] in cases and line["side"] == side and
                (on_gpu is None or on_gpu == (line["server"] != "cpu"))]

    def beside(self, line: dict, case: Optional[str] = None, side: str = "warpfold") -> Optional[dict]:
        """The line with the same server and transport, for another case or side."""
        streams = line["streams"] if case is None else 1
        return self._found.get((line["server"], line["transport"], case or line["case"], streams, side))

    def best_streams(self, line: dict) -> float:
        return max((other["gbps"] for other in self.of(("streams",), "warpfold")
                    if (other["server"], other["transport"]) == (line["server"], line["transport"])),
                   default=0.0)

    def ceiling_gbps(self, line: dict) -> Optional[float]:
        """The most that the device reads."""
        ceiling = m.ceiling_line(self._results, line)
        return ceiling["ceiling_gbps"] if ceiling else None

    def many_small_calls(self) -> list:
        """The 4 KiB calls that are enough for a percentile: 10^5, or fewer if a run has no such line."""
        enough = [line for line in self.of(("array_4_kib_long",), "warpfold")
                  if line.get("calls", 0) >= _MANY_CALLS]
        return list({(line["server"], line["transport"]): line
                     for line in self.of(("array_4_kib",), "warpfold") + enough}.values())


def _where(line: dict) -> str:
    return f"{line['server'].split(' ')[0]}, {line['transport']}, {m.load_name(line)}"


def _figures(lines: list, value) -> list:
    values = [(value(line), line) for line in lines]
    return [_Figure(figure, _where(line)) for figure, line in values if figure is not None]


def _of_streams(run: _Run) -> list:
    def cpu_ratio(line: dict) -> Optional[float]:
        ours, theirs = run.beside(line), line["server_cpu_s_per_gb"]
        return ours["server_cpu_s_per_gb"] / theirs if ours and theirs else None

    def rate(line: dict) -> float:
        return line["rate_ratio"]

    def to_one_stream(line: dict) -> Optional[float]:
        plain = run.beside(line, "streams")
        return line["gbps"] / plain["gbps"] if plain else None

    drop = run.of(("streams",), "async_drop", on_gpu=True)
    return [
        _Goal("GPU, streams: times the sink that copies nothing", 0.95, _figures(drop, rate)),
        _Goal("the same: the server's CPU seconds for a GB, times the sink's", 1.15,
              _figures(drop, cpu_ratio), at_most=True),
        _Goal("CPU, streams: times the sink that copies", 0.95,
              _figures(run.of(("streams",), "async_copy", on_gpu=False), rate)),
        _Goal("streams, given or as advised: times Arrow Flight with as many", 1.0,
              _figures(run.of(("streams", "streams_as_advised"), "flight"), rate)),
        _Goal("generated classes: times our client", 0.9,
              _figures(run.of(("generated_x1", "generated_x4"), "generated"),
                       lambda line: 1 / line["rate_ratio"])),
        _Goal("a million rows of 1 KiB, streamed: times one stream of one array", 0.9,
              _figures(run.of(("rows_streamed",), "warpfold"), to_one_stream))]


def _in_place(run: _Run) -> list:
    def beyond_kernel(line: dict) -> Optional[float]:
        return line["p50_us"] - line["kernel_us"] if line["bytes"] == _IN_PLACE_BYTES else None

    def beyond_kernel_and_call(line: dict) -> Optional[float]:
        beyond, call = beyond_kernel(line), run.beside(line, "empty_call")
        return None if beyond is None or call is None else beyond - call["p50_us"]

    def to_ceiling(line: dict) -> Optional[float]:
        ceiling = run.ceiling_gbps(line)
        return line["gbps"] / ceiling if ceiling else None

    return [
        _Goal("rows of 1 KiB to 1 MiB of a kept array, 1 and 4 GiB, whole calls: of the ceiling", 0.9,
              _figures(run.of(_KEPT_ROWS, "warpfold", on_gpu=True), to_ceiling)),
        _Goal("the same, 4 GiB, values written to shared memory: of the ceiling", 0.9,
              _figures(run.of(_ROWS_TO_MEMORY, "warpfold", on_gpu=True), to_ceiling)),
        _Goal("the same, values written to another process's GPU memory: of the ceiling", 0.9,
              _figures(run.of(_ROWS_TO_GPU_MEMORY, "warpfold", on_gpu=True), to_ceiling)),
        _Goal("shared memory of 1 GiB, registered, GPU: GB/s", 50.0,
              _figures(run.of(("memory",), "warpfold", on_gpu=True), lambda line: line["gbps"])),
        _Goal("GPU memory of another process, 4 GiB: us beyond the kernel and an empty call", 60.0,
              _figures(run.of(("ipc",), "warpfold"), beyond_kernel_and_call), at_most=True),
        _Goal("kept array, 4 GiB: us beyond the kernel", 100.0,
              _figures(run.of(("resident",), "warpfold", on_gpu=True), beyond_kernel), at_most=True)]


def _of_small_calls(run: _Run) -> list:
    def to(case: str, key: str, other_key: str):
        def value(line: dict) -> Optional[float]:
            other = run.beside(line, case)
            return line[key] / other[other_key] if other else None
        return value

    def longest_ms(line: dict) -> float:
        return line["max_us"] / 1e3

    def to_best_streams(line: dict) -> Optional[float]:
        best = run.best_streams(line)
        return line["gbps"] / best if best else None

    small, many = run.of(("array_4_kib",), "warpfold"), run.of(("64_callers_1_mib",), "warpfold")
    return [
        _Goal("ReduceArray of 4 KiB: its median, times that of an empty call", 1.10,
              _figures(small, to("empty_call", "p50_us", "p50_us")), at_most=True),
        _Goal("the same: its 99th percentile, times the median of an empty call", 3.0,
              _figures(run.many_small_calls(), to("empty_call", "p99_us", "p50_us")), at_most=True),
        _Goal("the same after a pause: ms of the longest call", 5.0,
              _figures(run.of(("array_after_pause", "array_after_long_pause"), "warpfold"), longest_ms),
              at_most=True),
        _Goal("64 callers, 1 MiB each: times the best number of streams", 0.9,
              _figures(many, to_best_streams)),
        _Goal("the same: its 99th percentile, times its median", 10.0,
              _figures(many, lambda line: line["p99_us"] / line["p50_us"]), at_most=True),
        _Goal("ReduceArray of 1 KiB beside eight large streams: its 99th percentile, times that alone", 3.0,
              _figures(run.of(("array_1_kib_beside_streams",), "warpfold"),
                       to("array_1_kib", "p99_us", "p99_us")), at_most=True)]


def table(results: m.Results) -> str:
    """Each goal: how many figures of the run reach it, and the worst."""
    run = _Run(results)
    rows = []
    for goal in _of_streams(run) + _in_place(run) + _of_small_calls(run):
        limit = ("at most " if goal.at_most else "") + f"{goal.limit:.4g}"
        if not goal.figures:
            rows.append([goal.what, limit, "no results", "-", "-"])
            continue
        worst = (max if goal.at_most else min)(goal.figures)
        reached = sum(figure.value <= goal.limit if goal.at_most else figure.value >= goal.limit
                      for figure in goal.figures)
        count = f"{reached} of {len(goal.figures)}"
        rows.append([goal.what, limit, count, f"{worst.value:.3g}", worst.where])
    if all(row[2] == "no results" for row in rows):
        return tables.NO_RESULTS
    return tables.markdown(["goal", "limit", "reached by", "worst", "where"], rows, text_columns=5)
