# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The charts of the way in: streams beside their sinks and Arrow Flight, and arrays that need no transfer."""

from typing import Optional

from report import measurements as m
from report.shapes import Axis, Bars, Chart, Line, Panel

_TRANSPORTS = (("tcp", "TCP"), ("unix", "Unix socket"))
# Sides of a case, whose names are also names of styles. Sides that are drawn later lie above.
_SIDES = ("raw_socket", "plain_service", "flight", "async_copy", "async_hold", "async_drop", "warpfold")
_SOURCES = {"memory": "shared memory", "ipc": "GPU memory of another process", "resident": "kept array"}


def _line(lines: list, side: str, key: str) -> Optional[Line]:
    """Charts over the number of streams; Warpfold with the slowest and the fastest of its rounds. Values of
    0, such as CPU time below a tick of the clock, have no place on a logarithmic axis."""
    measured = {line["streams"].bit_length() - 1: line for line in lines
                if line["side"] == side and line.get(key)}
    if len(measured) < 2:
        return None
    present = [(log2, measured[log2]) for log2 in sorted(measured)]
    band = []
    if side == "warpfold":
        band = [(log2, line[f"{key}_min"], line[f"{key}_max"]) for log2, line in present
                if f"{key}_min" in line]
    return Line(side, [(log2, line[key]) for log2, line in present], band)


def _of_streams(lines: list, key: str, name: str, value_name: str, title: str) -> Optional[Chart]:
    panels = []
    for transport, panel_title in _TRANSPORTS:
        sent = [line for line in lines if (line["case"], line["transport"]) == ("streams", transport)]
        drawn = [_line(sent, side, key) for side in _SIDES]
        if any(drawn):
            panels.append(Panel(panel_title, [line for line in drawn if line]))
    if not panels:
        return None
    last = max(log2 for panel in panels for line in panel.lines for log2, _ in line.points)
    return Chart(name, title, value_name, panels, Axis(0, last, "streams"), scale="log")


def _in_place_label(line: dict) -> str:
    size = m.size_name(m.log2_size(line))
    if "segment_length" not in line:
        return f"{_SOURCES[line['source']]}, {size}"
    row = line["segment_length"] * m.element_bits(line["dtype"]) // 8
    # Runs before 2026-11-30 could only write to shared memory, and had a flag for that.
    place = line.get("results", "shared" if line.get("shared_results") else "sent")
    written = {"sent": "", "shared": ", written to memory", "gpu": ", written to GPU memory"}[place]
    return f"rows of {m.size_name((row - 1).bit_length())} of a kept array, {size}{written}"


def _in_place_bars(results: m.Results, lines: list) -> list:
    """A bar for each array. If calls about it went over both transports, the bar is for the Unix socket."""
    shown = {_in_place_label(line): line for line in sorted(lines, key=lambda line: line["transport"])}
    bars = [(label, "rows" if "segment_length" in line else "warpfold", line["gbps"])
            for label, line in shown.items()]
    ceiling = m.ceiling_line(results, max(lines, key=lambda line: line["bytes"]))
    if ceiling:
        size = m.size_name(m.log2_size(ceiling))
        bars.append((f"read-only ceiling of the GPU, {size}", "ceiling", ceiling["ceiling_gbps"]))
    return bars


def _in_place(results: m.Results, lines: list, name: str, title: str) -> Optional[Bars]:
    in_place = [line for line in lines if line.get("source") in _SOURCES]
    if not in_place:
        return None
    bars = _in_place_bars(results, in_place)
    sent = [line for line in lines
            if (line["case"], line["streams"], line["side"]) == ("streams", 1, "warpfold")]
    if sent:
        best = max(sent, key=lambda line: line["gbps"])
        bars.append((f"sent in one stream, {dict(_TRANSPORTS)[best['transport']]}, "
                     f"{m.size_name(m.log2_size(best))}", "sent", best["gbps"]))
    return Bars(name, title, "GB/s", sorted(bars, key=lambda bar: bar[2]))


def of_way_in(results: m.Results) -> list:
    """Three charts for each device of the run, GPUs first."""
    servers = sorted({line["server"] for line in results.way_in}, key=lambda name: (name == "cpu", name))
    charts = []
    for server in servers:
        lines = [line for line in results.way_in if line["server"] == server]
        device = "CPU backend" if server == "cpu" else m.device_name(server)
        suffix = "" if server == servers[0] else "-" + server.split(" ")[0].replace(":", "-")
        charts += [
            _of_streams(lines, "gbps", f"way-in-streams{suffix}", "GB/s",
                        f"Arrays sent in one stream and in several, {device}; shaded: Warpfold's rounds"),
            _of_streams(lines, "server_cpu_s_per_gb", f"way-in-cpu{suffix}", "server's CPU seconds for a GB",
                        f"What a GB that is sent takes of the server's CPU, {device}"),
            _in_place(results, lines, f"way-in-in-place{suffix}",
                      f"What one caller gets with and without a wire, {device}")]
    return [chart for chart in charts if chart]
