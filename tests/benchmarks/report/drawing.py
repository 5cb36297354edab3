# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Draws charts as SVG with matplotlib. The same data give the same bytes."""

import io
import math
import pathlib
import re
from typing import NamedTuple

import matplotlib

matplotlib.use("svg")
# pylint: disable-next=wrong-import-position
from matplotlib import pyplot, ticker  # noqa: E402

from report import measurements as m  # noqa: E402
from report import shapes  # noqa: E402


class Style(NamedTuple):
    label: str
    color: str
    width: float = 1.3
    dashes: tuple = ()
    marker: str = "o"
    layer: int = 3


_INK = "#24292f"
_MUTED = "#6e7781"
_GRID = "#e4e7eb"

# Warpfold is what one should see first, and its bounds last. The colours are those of Okabe and Ito, which do
# not depend on telling red from green.
STYLES = {
    "warpfold": Style("Warpfold", "#0b5fa5", width=2.0, layer=5),
    "cub": Style("CUB, same contract", "#d55e00"),
    "cub_native": Style("CUB as it comes", "#e69f00", dashes=(4, 2), layer=4),
    "cub_mapped": Style("CUB, mapped result", "#e69f00", dashes=(4, 2)),
    "thrust": Style("Thrust", "#009e73"),
    "thrust_scratch": Style("Thrust, scratch given", "#009e73", dashes=(4, 2)),
    "textbook": Style("textbook algorithm", "#9ebcda"),
    "int32": Style("int32", "#0b5fa5"),
    "int64": Style("int64", "#0b5fa5", dashes=(4, 2)),
    "uint32": Style("uint32", "#56b4e9"),
    "uint64": Style("uint64", "#56b4e9", dashes=(4, 2)),
    "float32": Style("float32", "#d55e00"),
    "float64": Style("float64", "#d55e00", dashes=(4, 2)),
    "wrapping": Style("uint32", "#0b5fa5", width=1.6),
    "modular": Style("uint32, with a modulus", "#009e73"),
    "async_drop": Style("async_drop: gRPC, no copy", "#d55e00"),
    "async_hold": Style("async_hold: gRPC, holds 8 MiB", "#e69f00", dashes=(4, 2), layer=4),
    "async_copy": Style("async_copy: gRPC, one copy", "#009e73"),
    "raw_socket": Style("raw_socket: no gRPC", "#57606a", dashes=(1, 1.5)),
    "plain_service": Style("plain_service: gRPC as it comes", "#56b4e9"),
    "flight": Style("Arrow Flight", "#cc79a7", dashes=(6, 1.5, 1, 1.5)),
    "rows": Style("rows of a kept array", "#9ebcda"),
    "sent": Style("sent in a stream", "#d55e00"),
    "ceiling": Style("read-only ceiling", "#8c959f", width=1.1, marker="", layer=2),
    "empty": Style("empty kernel and sync", "#8c959f", width=1.1, marker="", layer=2),
    "goal": Style("goal", "#57606a", width=1.0, dashes=(1, 2), marker=""),
}

RC = {
    "svg.hashsalt": "warpfold", "svg.fonttype": "none", "font.family": "DejaVu Sans", "font.size": 8.5,
    "text.color": _INK, "axes.labelcolor": _MUTED, "axes.edgecolor": _MUTED, "axes.linewidth": 0.6,
    "axes.spines.top": False, "axes.spines.right": False, "axes.titlesize": 9, "axes.titleweight": "bold",
    "axes.titlelocation": "left", "xtick.color": _MUTED, "ytick.color": _MUTED, "xtick.labelsize": 7.5,
    "ytick.labelsize": 7.5, "axes.grid": True, "axes.axisbelow": True, "grid.color": _GRID,
    "grid.linewidth": 0.6, "legend.frameon": False, "legend.fontsize": 8.5, "savefig.facecolor": "white",
    "figure.facecolor": "white",
}

_WIDTH_INCHES = 9.2
_PANEL_INCHES = 2.15  # height
_LOG_PANEL_INCHES = 3.0  # its lines use all of it, from the bottom to the top
_HEAD_INCHES = 0.36  # title
_LEGEND_INCHES = 0.2  # a row
_LEGEND_COLUMNS = 5
_MAX_MARKERS = 12  # of a line; more of them hide it
_BAR_INCHES = 0.23
_LEFT = 0.1 / _WIDTH_INCHES


def figure_of(chart):
    """The caller closes it."""
    return _draw_bars(chart) if isinstance(chart, shapes.Bars) else _draw_lines(chart)


def draw(chart, folder: pathlib.Path) -> None:
    """Writes folder/<name>.svg."""
    with matplotlib.rc_context(RC):
        figure = figure_of(chart)
        about = {"Title": chart.title, "Description": f"data {shapes.digest(chart)}", "Date": None,
                 "Creator": None}
        svg = io.StringIO()
        figure.savefig(svg, format="svg", metadata=about)
        pyplot.close(figure)
        (folder / f"{chart.name}.svg").write_text(_compact(svg.getvalue()), encoding="utf-8")


def _compact(svg: str) -> str:
    """Half the bytes and the same picture. If DejaVu Sans is not available, a font of about its widths is
    used."""
    svg = svg.replace("'DejaVu Sans'", "'DejaVu Sans', Verdana, sans-serif")
    for pattern, text in ((r"<!--.*?-->", ""), (r' transform="rotate\(-0 [^"]*"', ""),
                          (r"(\d\.\d\d)\d+", r"\1"), (r"\n\s*", "\n")):
        svg = re.sub(pattern, text, svg, flags=re.DOTALL)
    return svg


def _draw_lines(chart: shapes.Chart):
    columns = min(len(chart.panels), 2 if len(chart.panels) in (2, 4) else 3)
    rows = math.ceil(len(chart.panels) / columns)
    shown = _shown_styles(chart)
    legend_rows = math.ceil(len(shown) / _LEGEND_COLUMNS)
    head = _HEAD_INCHES + legend_rows * _LEGEND_INCHES
    height = rows * (_LOG_PANEL_INCHES if chart.scale == "log" else _PANEL_INCHES) + head
    figure, grid = pyplot.subplots(rows, columns, figsize=(_WIDTH_INCHES, height), sharey=True, squeeze=False)
    axes = list(grid.flat)
    for ax in axes[len(chart.panels):]:
        ax.remove()
    for index, (ax, panel) in enumerate(zip(axes, chart.panels)):
        _draw_panel(ax, chart, panel)
        _scale(ax, chart)
        _powers_axis(ax, chart.axis, columns)
        if index % columns == 0:
            ax.set_ylabel(chart.value_name)
    figure.tight_layout(rect=(0, 0, 1, 1 - head / height), h_pad=1.4, w_pad=1.6)
    _title(figure, chart, height)
    _legend(figure, shown, legend_rows, height)
    return figure


def _draw_panel(ax, chart: shapes.Chart, panel: shapes.Panel) -> None:
    ax.set_title(panel.title)
    if chart.scale == "ratio":
        ax.axhline(1, color=_MUTED, linewidth=0.8, zorder=2)
    for first, last, value in chart.goals:
        style = STYLES["goal"]
        ax.plot((first, last), (value, value), color=style.color, linewidth=style.width, zorder=2,
                linestyle=(0, style.dashes))
    for line in panel.lines:
        style = STYLES[line.style]
        if line.band:
            sizes, low, high = zip(*line.band)
            ax.fill_between(sizes, low, high, color=style.color, alpha=0.15, linewidth=0, zorder=style.layer)
        marker = style.marker if len(line.points) <= _MAX_MARKERS else ""
        ax.plot(*zip(*line.points), color=style.color, linewidth=style.width, marker=marker,
                markersize=2.6, markeredgewidth=0, zorder=style.layer,
                linestyle=(0, style.dashes) if style.dashes else "-")


def _scale(ax, chart: shapes.Chart) -> None:
    points = [value for panel in chart.panels for line in panel.lines for _, value in line.points]
    if chart.scale == "ratio":
        ax.set_yscale("log", base=2)
        _ticks(ax, (0.25, 0.5, 0.75, 1, 1.5, 2, 3, 4, 6, 8, 16))
        ax.set_ylim(bottom=min(0.7, ax.get_ylim()[0]), top=max(2.2, ax.get_ylim()[1]))
    elif chart.scale == "log":
        shaded = [value for panel in chart.panels for line in panel.lines for _, *edges in line.band
                  for value in edges]
        ax.set_yscale("log")
        _ticks(ax, [digits * 10.0**power for power in range(-3, 4) for digits in (1, 1.5, 2, 3, 4, 5, 6, 8)])
        ax.set_ylim(min(points + shaded) / 1.1, max(points + shaded) * 1.1)
    else:
        ax.set_ylim(0, max(points) * 1.06)
        ax.yaxis.set_major_locator(ticker.MaxNLocator(5, steps=(1, 2, 5, 10)))
        ax.yaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))


def _ticks(ax, places) -> None:
    ax.yaxis.set_major_locator(ticker.FixedLocator(places))
    ax.yaxis.set_major_formatter(ticker.FormatStrFormatter("%g"))
    ax.yaxis.set_minor_locator(ticker.NullLocator())


def _powers_axis(ax, axis: shapes.Axis, columns: int) -> None:
    """Each power is named, or, if there are many, every few and the last; a small tick stands at every
    one."""
    first, last = axis.first_log2, axis.last_log2
    step = 6 if last - first > 16 else 1 if last - first < 6 else 2 if columns < 3 else 4
    named = list(range(first, last + 1, step))
    if named[-1] != last:
        named.append(last)
    margin = min(0.4, 0.06 * (last - first))
    ax.set_xlim(first - margin, last + margin)
    ax.xaxis.set_major_locator(ticker.FixedLocator(named))
    ax.xaxis.set_minor_locator(ticker.FixedLocator(range(first, last + 1)))
    ax.set_xticklabels([str(1 << log2) if axis.name else m.size_name(log2) for log2 in named])
    ax.tick_params(axis="x", which="minor", length=2, color=_MUTED)
    ax.set_xlabel(axis.name)


def _title(figure, chart, height: float) -> None:
    figure.text(_LEFT, 1 - 0.1 / height, chart.title, fontsize=10.5, fontweight="bold", va="top")


def _shown_styles(chart: shapes.Chart) -> list:
    present = {line.style for panel in chart.panels for line in panel.lines}
    if chart.goals:
        present.add("goal")
    return [style for name, style in STYLES.items() if name in present]


def _legend(figure, shown: list, rows: int, height: float) -> None:
    handles = [pyplot.Line2D([], [], color=style.color, linewidth=style.width,
                             linestyle=(0, style.dashes) if style.dashes else "-") for style in shown]
    figure.legend(handles, [style.label for style in shown], ncol=math.ceil(len(shown) / rows),
                  loc="upper left", bbox_to_anchor=(_LEFT, 1 - _HEAD_INCHES / height), borderpad=0,
                  borderaxespad=0, columnspacing=1.8, handlelength=2.2, handletextpad=0.6, labelspacing=0.35)


def _draw_bars(chart: shapes.Bars):
    height = len(chart.bars) * _BAR_INCHES + 0.85
    figure, ax = pyplot.subplots(figsize=(_WIDTH_INCHES, height))
    places = range(len(chart.bars))
    values = [value for _, _, value in chart.bars]
    ax.barh(places, values, color=[STYLES[style].color for _, style, _ in chart.bars], height=0.72)
    for place, value in zip(places, values):
        text = f"{value:,.0f}" if value >= 10 else f"{value:.2g}"
        ax.text(value + max(values) * 0.006, place, text, va="center", fontsize=7.5)
    ax.set_yticks(places, [label for label, _, _ in chart.bars], color=_INK, fontsize=8)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="y", visible=False)
    ax.set_xlim(0, max(values) * 1.07)
    ax.set_ylim(-0.6, len(chart.bars) - 0.4)
    ax.xaxis.set_major_formatter(ticker.FuncFormatter(lambda value, _: f"{value:,.0f}"))
    ax.set_xlabel(chart.value_name)
    figure.tight_layout(rect=(0, 0, 1, 1 - 0.32 / height))
    _title(figure, chart, height)
    return figure
