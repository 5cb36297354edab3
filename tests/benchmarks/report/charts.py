# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The charts of docs/benchmarks.md, section by section. Those of the kernels are made here."""

from typing import Callable, Optional

from report import measurements as m
from report import tables, way_in_charts
from report.shapes import Axis, Bars, Chart, Line, Panel

# Contenders of the kernels: the key in a line, before "gbps", and the name of the style.
_CONTENDERS = (("ceiling_", "ceiling"), ("thrust_", "thrust"), ("cub_native_", "cub_native"), ("cub_", "cub"),
               ("", "warpfold"))
_HOST_CONTENDERS = (("empty_", "empty"), ("thrust_", "thrust"), ("thrust_scratch_", "thrust_scratch"),
                    ("cub_", "cub"), ("cub_mapped_", "cub_mapped"), ("", "warpfold"))
_NARROW_BITS = 16
_SIZES = Axis(10, 33)


def _line(case: list, prefix: str, style: str, unit: str) -> Optional[Line]:
    key = f"{prefix}{unit}"
    present = [line for line in case if line.get(key) is not None]
    if not present:
        return None
    band = []
    if style == "warpfold":
        band = [(m.log2_size(line), line[f"{key}_p10"], line[f"{key}_p90"]) for line in present
                if f"{key}_p10" in line]
    return Line(style, [(m.log2_size(line), line[key]) for line in present], band)


def _panel(title: str, case: list, contenders: tuple, unit: str) -> Panel:
    lines = (_line(case, prefix, style, unit) for prefix, style in contenders)
    return Panel(title, [line for line in lines if line])


def _has_sizes(case: list) -> bool:
    return len({line["bytes"] for line in case}) > 1


def _gbps_chart(name: str, title: str, panels: list) -> Chart:
    return Chart(name, title, "GB/s", panels, _SIZES)


def of_kernels(results: m.Results) -> list:
    """GB/s over size: one chart per operator and group of types, one panel per type."""
    groups: dict = {}
    for (op, dtype, matrix, _), case in m.by_case(results.kernels).items():
        if not matrix and _has_sizes(case):
            bits = "8 and 16 bits" if m.element_bits(dtype) <= _NARROW_BITS else "32 and 64 bits"
            groups.setdefault((op, bits), []).append(_panel(dtype, case, _CONTENDERS, "gbps"))
    return [_gbps_chart(f"{op}-{bits.replace(' and ', '-').replace(' ', '-')}".replace("_", "-"),
                        f"{op}, elements of {bits}", panels) for (op, bits), panels in groups.items()]


def of_matrices(results: m.Results) -> list:
    """GB/s over size: one chart per operator, one panel per dimension, one line per type."""
    styles = {("float32", False): "float32", ("uint32", False): "wrapping", ("uint32", True): "modular"}
    operators: dict = {}
    for (op, dtype, d, modulus), case in m.by_case(results.kernels).items():
        style = styles.get((dtype, bool(modulus)))
        if d and style and _has_sizes(case):
            lines = operators.setdefault(op, {}).setdefault(d, [])
            if not lines:
                lines.append(_line(case, "ceiling_", "ceiling", "gbps"))
            lines.append(_line(case, "", style, "gbps"))
    return [_gbps_chart(f"{op}-matrices".replace("_", "-"), f"{op} over arrays of square matrices",
                        [Panel(f"{d} x {d}", lines) for d, lines in dimensions.items()])
            for op, dimensions in operators.items()]


def _ratio_chart(results: m.Results, rival: str, name: str) -> Optional[Chart]:
    operators: dict = {}
    for (op, dtype, matrix, _), case in m.by_case(results.kernels).items():
        points = [(m.log2_size(line), m.ratio(line, rival)) for line in case if m.ratio(line, rival)]
        if not matrix and len(points) > 1 and m.element_bits(dtype) > _NARROW_BITS:
            operators.setdefault(op, []).append(Line(dtype, points))
    if not operators:
        return None
    return Chart("times-" + rival.replace("_", "-"), f"Warpfold relative to {name}", "times CUB",
                 [Panel(op, lines) for op, lines in operators.items()], _SIZES, scale="ratio",
                 goals=[(16, 22, 1.5)])


def of_ratios(results: m.Results) -> list:
    charts = [_ratio_chart(results, "cub", "CUB with the same contract"),
              _ratio_chart(results, "cub_native", "CUB as it comes")]
    return [chart for chart in charts if chart]


def of_host_calls(results: m.Results) -> list:
    """Microseconds from host call to value."""
    panels = [_panel(m.case_name(case[0]), case, _HOST_CONTENDERS, "us")
              for case in m.by_case(results.from_host).values() if _has_sizes(case)]
    if not panels:
        return []
    return [Chart("from-host", "From host call to value on the host", "microseconds", panels, Axis(10, 22))]


def of_ladder(results: m.Results) -> list:
    """The textbook algorithms as bars: one chart per operator and element type."""
    charts = []
    for (op, dtype, *_), case in m.by_case(results.ladder).items():
        bars = [("Warpfold" if line["algorithm"] == "auto" else line["algorithm"],
                 "warpfold" if line["algorithm"] == "auto" else "textbook", line["gbps"]) for line in case]
        largest = case[-1]
        if largest.get("ceiling_gbps"):
            bars.append(("read-only ceiling", "ceiling", largest["ceiling_gbps"]))
        bars.sort(key=lambda bar: bar[2])
        title = f"{m.case_name(largest)}, {m.size_name(m.log2_size(largest))}: the textbook algorithms"
        charts.append(Bars(f"ladder-{op}-{dtype}".replace("_", "-"), title, "GB/s", bars))
    return charts


SECTIONS: dict[str, Callable[[m.Results], list]] = {
    "ratios": of_ratios, "kernels": of_kernels, "matrices": of_matrices, "ladder": of_ladder,
    "from_host": of_host_calls, "way_in": way_in_charts.of_way_in,
}


def all_charts(results: m.Results) -> list:
    return [chart for section in SECTIONS.values() for chart in section(results)]
