# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The tables of docs/benchmarks.md, from the lines of result files."""

from typing import Optional

from report import measurements as m

_NOTHING = "-"
NO_RESULTS = "*No results yet.*"
_MAX_SIZE_COLUMNS = 12
# The size at which most goals are set.
LARGE_LOG2 = 30


def number(value: Optional[float]) -> str:
    """Three digits or four: 0.81, 12.5, 230, 4,217."""
    if value is None:
        return _NOTHING
    if value < 10:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 100 else f"{value:,.0f}"


def ratio(value: Optional[float]) -> str:
    return _NOTHING if value is None else f"{value:.2f}"


def microseconds(value: Optional[float]) -> str:
    return _NOTHING if value is None else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def markdown(header: list, rows: list, text_columns: int) -> str:
    """The first columns are text, the others are figures; columns without any figure are left out."""
    if not rows:
        return NO_RESULTS
    kept = [i for i in range(len(header))
            if i < text_columns or any(row[i] != _NOTHING for row in rows)]
    rule = ["---" if i < text_columns else "---:" for i in kept]
    table = [[header[i] for i in kept], rule, *([row[i] for i in kept] for row in rows)]
    return "\n".join("| " + " | ".join(cells) + " |" for cells in table)


def runs(results: m.Results) -> str:
    rows = []
    for name, lines in (("kernels on the device", results.kernels), ("textbook algorithms", results.ladder),
                        ("host call to value", results.from_host), ("CPU backend", results.cpu),
                        ("the way in", results.way_in)):
        if lines:
            devices = {line.get("server") or line["device"]: None for line in lines}
            first = lines[0]
            files = sorted({line["file"] for line in lines})
            rows.append([name, ", ".join(devices), first.get("driver", _NOTHING), f"`{first['commit']}`",
                         first["date"], ", ".join(f"`{file}`" for file in files), str(len(lines))])
    return markdown(["what", "device", "driver", "commit", "date", "file", "figures"], rows, text_columns=6)


def at_large(results: m.Results) -> str:
    """Every case at LARGE_LOG2."""
    rows = []
    for line in results.kernels:
        if m.log2_size(line) != LARGE_LOG2:
            continue
        rows.append([
            line["operator"], m.element_name(line), number(line["gbps"]), number(line["ceiling_gbps"]),
            ratio(m.ratio(line, "ceiling")), number(line.get("cub_gbps")), ratio(m.ratio(line, "cub")),
            number(line.get("cub_native_gbps")), ratio(m.ratio(line, "cub_native")),
            number(line.get("thrust_gbps")), ratio(m.ratio(line, "thrust"))])
    header = ["operator", "elements", "GB/s", "ceiling", "of the ceiling", "CUB, same contract", "times that",
              "CUB as it comes", "times that", "Thrust", "times that"]
    return markdown(header, rows, text_columns=2)


def size_columns(lines: list) -> list:
    """All sizes that occur, or every other one if there are many."""
    sizes = sorted({m.log2_size(line) for line in lines})
    return sizes if len(sizes) <= _MAX_SIZE_COLUMNS else [log2 for log2 in sizes if log2 % 2 == 0]


def over_sizes(lines: list, cell, columns: Optional[list] = None) -> str:
    """One row per case, one column per size. `cell` makes text of a line; cases without any cell are left
    out."""
    columns = columns or size_columns(lines)
    rows = []
    for case in m.by_case(lines).values():
        cells = {m.log2_size(line): cell(line) for line in case}
        if any(text != _NOTHING for text in cells.values()):
            rows.append([case[0]["operator"], m.element_name(case[0]),
                         *(cells.get(log2, _NOTHING) for log2 in columns)])
    return markdown(["operator", "elements", *map(m.size_name, columns)], rows, text_columns=2)


def to_rival(results: m.Results, rival: str) -> str:
    return over_sizes(results.kernels, lambda line: ratio(m.ratio(line, rival)))


def ladder(results: m.Results) -> str:
    """One row per algorithm."""
    rows = [[f"`{line['algorithm']}`", line.get("published") or "", m.size_name(m.log2_size(line)),
             number(line["gbps"]), number(line.get("published_gbps")), ratio(line.get("ratio")),
             number(line.get("wide_gbps")), ratio(line.get("to_ceiling")),
             ratio(line.get("published_to_ceiling"))] for line in results.ladder]
    header = ["algorithm", "published form", "bytes", "GB/s", "of the published form", "times that",
              "with wide states", "of the ceiling", "the published form of the ceiling"]
    return markdown(header, rows, text_columns=2)


def from_host(results: m.Results) -> str:
    """Microseconds, at every other size."""
    contenders = (("empty kernel and sync", "empty_us"), ("Warpfold", "us"), ("CUB, same contract", "cub_us"),
                  ("CUB as it comes", "cub_native_us"), ("CUB, result in mapped memory", "cub_mapped_us"),
                  ("thrust::reduce", "thrust_us"), ("thrust::reduce, scratch given", "thrust_scratch_us"),
                  ("read-only kernel and sync", "ceiling_us"))
    columns = size_columns(results.from_host)
    rows = []
    for case in m.by_case(results.from_host).values():
        lines = {m.log2_size(line): line for line in case}
        for name, key in contenders:
            cells = [microseconds(lines[log2].get(key)) if log2 in lines else _NOTHING for log2 in columns]
            if any(cell != _NOTHING for cell in cells):
                rows.append([m.case_name(case[0]), name, *cells])
    return markdown(["of", "who", *map(m.size_name, columns)], rows, text_columns=2)


def cpu(results: m.Results) -> str:
    """The largest size, at which the data are in memory and not in a cache."""
    largest = max((line["bytes"] for line in results.cpu), default=0)
    rows = []
    for line in results.cpu:
        if line["bytes"] == largest:
            rows.append([m.case_name(line), str(line["threads"]), number(line["gbps"]),
                         number(line["ceiling_gbps"]), ratio(m.ratio(line, "ceiling")),
                         number(line.get("numpy_gbps")), ratio(m.ratio(line, "numpy"))])
    header = ["of", "threads", "GB/s", "read-only loop", "of that", "numpy.sum", "times that"]
    return markdown(header, rows, text_columns=1)


def way_in(results: m.Results) -> str:
    """One row per case, one column per side: GB/s if arrays stream, otherwise the median in microseconds."""
    sides = list(dict.fromkeys(line["side"] for line in results.way_in))
    rows: dict = {}
    for line in results.way_in:
        streams = line["method"] == "reduce" and line.get("source") not in ("ipc", "resident")
        cell = number(line["gbps"]) if streams else microseconds(line["p50_us"])
        key = (line["server"], line["transport"], f"`{m.load_name(line)}`", "GB/s" if streams else "us")
        rows.setdefault(key, {})[line["side"]] = cell
    table = [[*key, *(cells.get(side, _NOTHING) for side in sides)] for key, cells in rows.items()]
    return markdown(["device", "transport", "case", "unit", *sides], table, text_columns=4)
