# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The generated parts of docs/benchmarks.md: between <!-- begin NAME --> and <!-- end NAME -->."""

import functools
import re
from typing import Callable

from report import charts, goals, tables, way_in_goals
from report import measurements as m

CHART_FOLDER = "benchmarks"  # beside the page

_BLOCK = re.compile(r"(<!-- begin (\w+) -->\n).*?(<!-- end \2 -->)", re.DOTALL)
# Shown at once; the others on a click.
_MAIN_CHARTS = ("sum-32-64-bits", "sum-8-16-bits", "argmin-32-64-bits")


def _images(shown: list) -> str:
    return "\n\n".join(f"![{chart.title}]({CHART_FOLDER}/{chart.name}.svg)" for chart in shown)


def _section(name: str, results: m.Results) -> str:
    return _images(charts.SECTIONS[name](results)) or tables.NO_RESULTS


def _kernel_charts(results: m.Results) -> str:
    every = charts.of_kernels(results)
    main = [chart for chart in every if chart.name in _MAIN_CHARTS]
    others = [chart for chart in every if chart.name not in _MAIN_CHARTS]
    if not every:
        return tables.NO_RESULTS
    parts = (_images(main), _folded("The other operators", _images(others)))
    return "\n\n".join(part for part in parts if part)


def _folded(title: str, text: str) -> str:
    return f"<details><summary>{title}</summary>\n\n{text}\n\n</details>" if text else ""


def _over_sizes(titles: dict, results: m.Results) -> str:
    """A folded table for each rival that took part."""
    return "\n\n".join(_folded(title, tables.to_rival(results, rival)) for rival, title in titles.items()
                       if any(m.ratio(line, rival) for line in results.kernels)) or tables.NO_RESULTS


BLOCKS: dict[str, Callable[[m.Results], str]] = {
    "runs": tables.runs, "goals": goals.table, "kernel_charts": _kernel_charts, "at_large": tables.at_large,
    "ladder": tables.ladder, "from_host": tables.from_host, "cpu": tables.cpu,
    "way_in": tables.way_in, "way_in_goals": way_in_goals.table,
    "to_cub": functools.partial(_over_sizes, {"cub": "Times CUB with the same contract, over size",
                                              "cub_native": "Times CUB as it comes, over size"}),
    "ceiling_share": functools.partial(_over_sizes, {"ceiling": "Of the ceiling, over size"}),
    **{f"{name}_charts": functools.partial(_section, name)
       for name in ("ratios", "matrices", "ladder", "from_host", "way_in")},
}


def render(page: str, results: m.Results) -> str:
    """The page with its blocks written anew. KeyError for a block with an unknown name."""
    return _BLOCK.sub(lambda block: f"{block[1]}{BLOCKS[block[2]](results)}\n{block[3]}", page)
