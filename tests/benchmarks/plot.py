# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes the results into docs/benchmarks.md, and draws its charts. Needs matplotlib.

    python3 tests/benchmarks/plot.py [--results DIR] [--docs DIR]

Of each kind of benchmark the newest run counts: put the JSON lines of a run into results/ and start this
script.
"""

import argparse
import pathlib

from report import charts, drawing, measurements, page

_HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path, default=_HERE / "results")
    parser.add_argument("--docs", type=pathlib.Path, default=_HERE.parents[1] / "docs")
    arguments = parser.parse_args()
    results = measurements.pick(measurements.read(arguments.results))
    text = arguments.docs / "benchmarks.md"
    text.write_text(page.render(text.read_text(encoding="utf-8"), results), encoding="utf-8")
    folder = arguments.docs / page.CHART_FOLDER
    folder.mkdir(exist_ok=True)
    for old in folder.glob("*.svg"):
        old.unlink()
    drawn = charts.all_charts(results)
    for chart in drawn:
        drawing.draw(chart, folder)
    print(f"{text.name} and {len(drawn)} charts")


if __name__ == "__main__":
    main()
