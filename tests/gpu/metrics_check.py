#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the pages of --admin_listen for metrics.sh, and checks their content.

    metrics_check.py pages ADDRESS PREFIX    writes PREFIX-metrics.txt, PREFIX-statusz.html, ...
    metrics_check.py check FOLDER DEVICE     fails unless the pages in FOLDER say what the mix did
"""

import json
import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))

from http_pages import get, names, samples  # noqa: E402

_SUFFIXES = {"/metrics": "metrics.txt", "/statusz": "statusz.html", "/healthz": "healthz.txt",
             "/readyz": "readyz.txt"}
_OF_A_GPU = ("warpfold_device_memory_used_bytes", "warpfold_device_memory_bytes",
             "warpfold_device_temperature_celsius")
_REASONS = ("UNSUPPORTED_TYPE", "OVERFLOW", "EMPTY_ARRAY", "UNKNOWN_MEMORY", "ARRAY_TOO_LARGE", "IDLE")
_METHODS = ("Reduce", "ReduceArray", "PutArray")


def write_pages(address: str, prefix: str):
    for path, suffix in _SUFFIXES.items():
        begin = time.monotonic()
        status, text = get(address, path)
        took_ms = 1e3 * (time.monotonic() - begin)
        print(f"{pathlib.Path(prefix).name} {path}: {status}, {len(text)} bytes in {took_ms:.1f} ms")
        pathlib.Path(f"{prefix}-{suffix}").write_text(text, encoding="utf-8")


class Pages:
    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.failures = 0

    def text(self, name: str) -> str:
        return (self.folder / name).read_text(encoding="utf-8")

    def expect(self, holds: bool, what: str):
        print(f"{'ok    ' if holds else 'FAILED'} {what}")
        self.failures += not holds


def check(folder: pathlib.Path, device: str) -> int:
    pages = Pages(folder)
    begin, load, after = (samples(pages.text(f"{time}-metrics.txt")) for time in ("begin", "load", "after"))
    pages.expect(begin["warpfold_ready"] == 1, "ready at the beginning")
    backend = device.partition(":")[0]
    info = next(series for series in after if series.startswith("warpfold_build_info"))
    pages.expect(f'backend="{backend}"' in info, f"the build says {backend}")
    pages.expect(load["warpfold_reductions_in_progress"] > 0, "reductions in progress under load")
    for stage in ("queue", "receive", "copy", "kernel"):
        count = after[f'warpfold_stage_duration_seconds_count{{stage="{stage}"}}']
        total = after[f'warpfold_stage_duration_seconds_sum{{stage="{stage}"}}']
        pages.expect(count > 0, f"{stage}: {count:.0f} reductions, {total:.3f} s")
    for method in _METHODS:
        count = sum(value for series, value in after.items()
                    if series.startswith(f'warpfold_calls_total{{method="{method}"'))
        pages.expect(count > 0, f"{method}: {count:.0f} calls")
    for reason in _REASONS:
        count = after.get(f'warpfold_rejections_total{{reason="{reason}"}}', 0)
        pages.expect(count >= 1, f"{reason}: {count:.0f} refused")
    pages.expect(after["warpfold_kept_array_bytes"] >= 1 << 20, "an array is kept")
    pages.expect(set(begin) <= set(after), f"{len(begin)} series at first, {len(after)} after the mix")
    if backend == "cuda":
        for name in _OF_A_GPU:
            series = f'{name}{{device="{device}"}}'
            pages.expect(after.get(series, 0) > 0, f"{series} {after.get(series, 0):.0f}")
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/observability.md").read_text(encoding="utf-8")
    documented = set(re.findall(r"^\| `((?:warpfold|process)_\w+)` \|", page, re.MULTILINE))
    there = {re.sub(r"_(bucket|sum|count)$", "", name) for name in names(pages.text("after-metrics.txt"))}
    pages.expect(there <= documented, "every metric is in docs/observability.md")
    for when, healthy, ready in (("load", "ok\n", "ready\n"), ("drain", "ok\n", None)):
        pages.expect(pages.text(f"{when}-healthz.txt") == healthy, f"/healthz during {when}")
        says = pages.text(f"{when}-readyz.txt")
        pages.expect(says == ready if ready else "ready" != says.strip(), f"/readyz during {when}: {says!r}")
    pages.expect("Reduce" in pages.text("load-statusz.html"), "/statusz shows calls in progress")
    lines = [json.loads(line) for line in pages.text("log.jsonl").splitlines()]
    calls = [line for line in lines if line["event"] == "call"]
    pages.expect(len(calls) > 10, f"{len(calls)} lines of calls in the log")
    return 1 if pages.failures else 0


def main() -> int:
    if len(sys.argv) == 4 and sys.argv[1] == "pages":
        write_pages(sys.argv[2], sys.argv[3])
        return 0
    if len(sys.argv) == 4 and sys.argv[1] == "check":
        return check(pathlib.Path(sys.argv[2]), sys.argv[3])
    print(__doc__, file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main())
