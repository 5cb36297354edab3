# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The goals of the kernels, and how far a run reaches them. Every figure is a ratio (or a difference) of
contenders that took turns in one process."""

from typing import Callable, NamedTuple, Optional

from report import measurements as m
from report import tables

_CUB_OPERATORS = {"sum", "min", "max", "product", "bit_and", "bit_or", "bit_xor"}
_CUB_TYPES = {"int32", "int64", "float32", "float64"}
_STATISTICS = {"argmin", "argmax", "minmax", "mean", "variance", "stddev", "describe", "l1_norm", "l2_norm",
               "max_abs", "sum_of_squares"}
_ORDERED_SCALARS = {"affine_compose", "max_subarray_sum"}
_ENDS = {"first", "last"}
_MILLION_FLOATS_BYTES = 1 << 22
_IN_MEMORY_BYTES = 1 << 28  # of the CPU: more than its caches hold


class Goal(NamedTuple):
    what: str
    limit: float
    lines: str  # the kind: a field of Results
    applies: Callable[[dict], bool]
    value: Callable[[dict], Optional[float]]
    at_most: bool = False  # the limit is the highest value that is good, not the lowest

    def reached_by(self, value: float) -> bool:
        return value <= self.limit if self.at_most else value >= self.limit


def _is_scalar(line: dict) -> bool:
    return not line.get("matrix")


def _has_cub(line: dict) -> bool:
    return _is_scalar(line) and line["operator"] in _CUB_OPERATORS and line["dtype"] in _CUB_TYPES


def _narrow(line: dict) -> bool:
    return m.element_bits(line["dtype"]) <= 16


def _large(line: dict) -> bool:
    return m.log2_size(line) >= tables.LARGE_LOG2


def _to(rival: str) -> Callable[[dict], Optional[float]]:
    return lambda line: m.ratio(line, rival)


def _large_scalars(what: str, limit: float, applies: Callable[[dict], bool]) -> Goal:
    return Goal(f"{what}, from 1 GiB: of the ceiling", limit, "kernels",
                lambda line: _is_scalar(line) and _large(line) and applies(line), _to("ceiling"))


def _against_cub() -> list:
    goals = []
    for rival, name in (("cub", "CUB, same contract"), ("cub_native", "CUB as it comes")):
        what = "sum, min, max, product, bitwise of 32 and 64 bits"
        goals += [
            Goal(f"{what}, every size: times {name}", 0.98, "kernels", _has_cub, _to(rival)),
            Goal(f"the same, 64 KiB to 4 MiB: times {name}", 1.5, "kernels",
                 lambda line: _has_cub(line) and 16 <= m.log2_size(line) <= 22, _to(rival))]
    return goals


def _matrix_products() -> list:
    goals = []
    for dimensions, limit in (((2, 4), 0.9), ((8,), 0.7), ((16,), 0.5), ((32,), 0.3)):
        for modular in (False, True):
            def applies(line, dimensions=dimensions, modular=modular):
                return (line["operator"] == "matrix_product" and line.get("matrix") in dimensions and
                        m.element_bits(line["dtype"]) == 32 and bool(line.get("modulus")) == modular and
                        _large(line))

            name = " and ".join(f"{d} x {d}" for d in dimensions) + (", with a modulus" if modular else "")
            goals.append(Goal(f"matrix_product, {name}, from 1 GiB: of the ceiling",
                              limit / 2 if modular else limit, "kernels", applies, _to("ceiling")))
    return goals


def _host_call(line: dict) -> Optional[float]:
    return line["us"] - line["empty_us"] if line.get("us") and line.get("empty_us") else None


def all_goals() -> list:
    def in_memory(line):
        return line["operator"] == "sum" and line["bytes"] >= _IN_MEMORY_BYTES

    return _against_cub() + [
        _large_scalars("sum, min, max, product, bitwise of 32 and 64 bits", 0.97, _has_cub),
        _large_scalars("types of 8 and 16 bits, but for statistics", 0.90,
                       lambda line: _narrow(line) and line["operator"] not in _STATISTICS),
        _large_scalars("statistics of 8 and 16 bits", 0.90,
                       lambda line: _narrow(line) and line["operator"] in _STATISTICS),
        _large_scalars("argmin, argmax, minmax, mean, variance, describe, norms", 0.90,
                       lambda line: line["operator"] in _STATISTICS and not _narrow(line)),
        _large_scalars("exact_sum of float32", 0.80,
                       lambda line: (line["operator"], line["dtype"]) == ("exact_sum", "float32")),
        _large_scalars("exact_sum of float64", 0.60,
                       lambda line: (line["operator"], line["dtype"]) == ("exact_sum", "float64")),
        _large_scalars("affine_compose, max_subarray_sum", 0.90,
                       lambda line: line["operator"] in _ORDERED_SCALARS),
        _large_scalars("first, last (which need not read on)", 0.90, lambda line: line["operator"] in _ENDS),
        *_matrix_products(),
        Goal("host call to value, up to 4 MiB: us more than an empty kernel and sync", 2.0, "from_host",
             lambda line: line["bytes"] <= _MILLION_FLOATS_BYTES, _host_call, at_most=True),
        Goal("textbook algorithms: times the published form", 0.95, "ladder", lambda line: True,
             lambda line: line.get("ratio")),
        Goal("the published last block: of the ceiling", 0.90, "ladder",
             lambda line: line["algorithm"] == "last_block",
             lambda line: line.get("published_to_ceiling")),
        Goal("CPU, sum of any type, from 256 MiB: of a read-only loop", 0.90, "cpu", in_memory,
             _to("ceiling")),
        Goal("CPU, sum of any type, from 256 MiB: times numpy.sum", 1.0, "cpu", in_memory, _to("numpy")),
    ]


def _where(line: dict) -> str:
    threads = f", {line['threads']} threads" if line.get("threads", 1) != 1 else ""
    return f"{m.case_name(line)}, {m.size_name(m.log2_size(line))}{threads}"


def table(results: m.Results) -> str:
    """Each goal: how many figures of the runs reach it, and the worst."""
    rows = []
    for goal in all_goals():
        values = [(goal.value(line), line) for line in getattr(results, goal.lines) if goal.applies(line)]
        values = [(value, line) for value, line in values if value is not None]
        limit = ("at most " if goal.at_most else "") + f"{goal.limit:.4g}"
        if not values:
            rows.append([goal.what, limit, "no results", "-", "-"])
            continue
        pick = max if goal.at_most else min
        worst, line = pick(values, key=lambda pair: pair[0])
        reached = sum(goal.reached_by(value) for value, _ in values)
        rows.append([goal.what, limit, f"{reached} of {len(values)}", f"{worst:.3g}", _where(line)])
    if all(row[2] == "no results" for row in rows):
        return tables.NO_RESULTS
    return tables.markdown(["goal", "limit", "reached by", "worst", "where"], rows, text_columns=5)
