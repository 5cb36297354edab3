# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The parts of a chart of docs/benchmarks.md: plain data, which drawing.py draws.

Every chart has a digest of its data. It is written into the SVG, so that a test can tell without drawing
whether a chart belongs to the results.
"""

import dataclasses
import hashlib
import json


@dataclasses.dataclass
class Line:
    style: str  # a key of drawing.STYLES
    points: list  # (log2 of the axis's quantity, value)
    band: list = dataclasses.field(default_factory=list)  # (log2, low, high); may be empty


@dataclasses.dataclass
class Panel:
    title: str
    lines: list


@dataclasses.dataclass
class Axis:
    """Of powers of two."""

    first_log2: int
    last_log2: int
    name: str = ""  # of the quantity; none for bytes, whose numbers have a unit: 64 KiB


@dataclasses.dataclass
class Chart:
    name: str  # of its file
    title: str
    value_name: str
    panels: list
    axis: Axis
    # Scale of the values: linear, from 0; log, where equal distances are equal ratios; ratio, log with 1
    # marked.
    scale: str = "linear"
    goals: list = dataclasses.field(default_factory=list)  # (first log2, last log2, value)


@dataclasses.dataclass
class Bars:
    name: str
    title: str
    value_name: str
    bars: list  # (label, style, value), bottom to top


def digest(chart) -> str:
    text = json.dumps([type(chart).__name__, dataclasses.asdict(chart)], sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]
