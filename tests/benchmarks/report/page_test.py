# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""docs/benchmarks.md and its charts are those of the results that are kept."""

import pathlib
import re
import unittest

from report import charts, page, shapes
from report import measurements as m

_BENCHMARKS = pathlib.Path(__file__).resolve().parents[1]
_DOCS = _BENCHMARKS.parents[1] / "docs"
_REMEDY = "\nRemedy: python3 tests/benchmarks/plot.py (needs matplotlib), and look at what it wrote."
_KEYS = ("bench", "operator", "dtype", "bytes", "device", "commit", "date")
_OTHER_KEYS = {  # for lines that are not of one reduction
    "dask_plan": ("bench", "case", "chunks", "commit", "date"),
    "python_client": ("bench", "case", "side", "server", "commit", "date"),
    "python_cuda": ("bench", "array", "operators", "bytes", "device", "commit", "date")}
_KERNEL_KEYS = {"algorithm", "gbps", "cub_gbps", "ceiling_gbps"}  # null if there is no such figure


class PageTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.lines = m.read(_BENCHMARKS / "results")
        cls.results = m.pick(cls.lines)
        cls.text = (_DOCS / "benchmarks.md").read_text(encoding="utf-8")

    def test_lines_say_what_they_are_of(self):
        self.assertTrue(self.lines)
        for line in self.lines:
            keys = _OTHER_KEYS.get(line["bench"], _KEYS)
            missing = [key for key in keys if line.get(key) is None]
            self.assertEqual(missing, [], f"{line['file']}: {line}")
            self.assertRegex(line["date"], r"^\d{4}-\d\d-\d\d$", line["file"])

    def test_lines_of_kernels_name_every_contender(self):
        for line in self.results.kernels:
            self.assertLessEqual(_KERNEL_KEYS, line.keys(), line)

    def test_page_is_what_the_results_say(self):
        self.assertEqual(self.text, page.render(self.text, self.results), _REMEDY)

    def test_every_block_is_shown_once(self):
        self.assertCountEqual(re.findall(r"<!-- begin (\w+) -->", self.text), page.BLOCKS)

    def test_charts_are_those_of_the_results(self):
        folder = _DOCS / page.CHART_FOLDER
        drawn = {path.stem: path.read_text(encoding="utf-8") for path in folder.glob("*.svg")}
        wanted = {chart.name: shapes.digest(chart) for chart in charts.all_charts(self.results)}
        self.assertEqual(set(drawn), set(wanted), _REMEDY)
        stale = [name for name, digest in wanted.items() if f"data {digest}" not in drawn[name]]
        self.assertEqual(stale, [], _REMEDY)

    def test_shown_charts_exist(self):
        for name in re.findall(r"\]\((benchmarks/[^)]*)\)", self.text):
            self.assertTrue((_DOCS / name).is_file(), name)


if __name__ == "__main__":
    unittest.main()
