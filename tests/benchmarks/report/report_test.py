# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Which lines are shown, and the tables, goals and charts that are made from them."""

import dataclasses
import json
import pathlib
import tempfile
import unittest

from report import charts, goals, page, shapes, tables
from report import measurements as m
from report.samples import cells, cub, everything, line


class PickTest(unittest.TestCase):

    def test_newest_run_of_each_kind(self):
        old = line(commit="c0", date="2026-01-01", file="z.jsonl")
        results = m.pick([old, line(), line("cpu", device="Some CPU", threads=1, date="2025-12-31")])
        self.assertEqual([l["commit"] for l in results.kernels], ["c1"])
        self.assertEqual(len(results.cpu), 1)
        self.assertEqual(m.pick([]), m.Results([], [], [], [], []))

    def test_a_run_in_several_files(self):
        again = line(gbps=4100.0, file="b.jsonl")
        results = m.pick([line(), line(log2=20), again])
        self.assertEqual(sorted(l["gbps"] for l in results.kernels), [4000.0, 4100.0])

    def test_of_two_commits_of_a_day_the_later_file_counts(self):
        results = m.pick([line(), line(commit="c0", file="b.jsonl")])
        self.assertEqual([l["commit"] for l in results.kernels], ["c0"])

    def test_other_devices_are_not_mixed_in(self):
        results = m.pick([line(), line(device="Another GPU", date="2027-01-01"),
                          line("cpu", device="A", threads=1), line("cpu", device="B", threads=1, file="b")])
        self.assertEqual([l["device"] for l in results.kernels], [m.GPU])
        self.assertEqual([l["device"] for l in results.cpu], ["B"])

    def test_ladder_is_the_newest_run_of_the_textbook_on_any_gpu(self):
        newest = line("textbook", algorithm="tree", device="Another GPU", commit="c2", date="2026-01-03")
        results = m.pick([line(algorithm="tree"), line("textbook", algorithm="tree"), newest])
        self.assertEqual(results.ladder, [newest])

    def test_files(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            # Before there was a contender cub_native.
            first = {**line(), "cub_gbps": 8.0, "to_cub": 0.5}
            (folder / "b.jsonl").write_text(json.dumps(first) + "\n\n")
            (folder / "a.jsonl").write_text(json.dumps(cub()) + "\n")
            (folder / "notes.txt").write_text("not a result")
            new, old = m.read(folder)
        self.assertEqual((new["file"], new["cub_gbps"]), ("a.jsonl", 2000.0))
        self.assertEqual((old["file"], old["cub_native_gbps"], old["to_cub_native"]), ("b.jsonl", 8.0, 0.5))
        self.assertNotIn("cub_gbps", old)


class NamesTest(unittest.TestCase):

    def test_sizes(self):
        names = [m.size_name(log2) for log2 in (6, 10, 16, 29, 33)]
        self.assertEqual(names, ["64 B", "1 KiB", "64 KiB", "512 MiB", "8 GiB"])
        self.assertEqual(m.log2_size(line()), 30)
        # As many 3 x 3 matrices of 36 bytes as there is room for.
        self.assertEqual(m.log2_size(line(bytes=(1 << 30) // 36 * 36)), 30)

    def test_elements(self):
        self.assertEqual(m.case_name(line()), "sum of int32")
        self.assertEqual(m.case_name(line(matrix=4, modulus=7)), "sum of 4 x 4 int32 modulo 7")
        bits = [m.element_bits(dtype) for dtype in ("bool", "bfloat16", "uint8", "float64")]
        self.assertEqual(bits, [8, 16, 8, 64])

    def test_figures(self):
        self.assertEqual([tables.number(x) for x in (None, 0.814, 12.46, 229.6, 4216.6)],
                         ["-", "0.81", "12.5", "230", "4,217"])
        self.assertEqual([tables.microseconds(x) for x in (None, 8.949, 102.5)], ["-", "8.9", "102"])

    def test_ratios(self):
        self.assertEqual(m.ratio(line(), "ceiling"), 0.8)
        self.assertEqual(m.ratio(line(to_ceiling=0.81), "ceiling"), 0.81)
        self.assertIsNone(m.ratio(line(), "cub"))
        self.assertIsNone(m.ratio(line(cub_gbps=None, to_cub=None), "cub"))


class TablesTest(unittest.TestCase):

    def test_columns_without_figures_are_left_out(self):
        table = tables.markdown(["a", "b", "c"], [["x", "-", "1"], ["-", "-", "-"]], text_columns=1)
        self.assertEqual(table, "| a | c |\n| --- | ---: |\n| x | 1 |\n| - | - |")
        self.assertEqual(tables.markdown(["a"], [], text_columns=1), tables.NO_RESULTS)

    def test_at_large(self):
        results = everything()._replace(kernels=[cub(), cub(log2=29), line(operator="mean")])
        self.assertEqual(cells(tables.at_large(results)), [
            ["operator", "elements", "GB/s", "ceiling", "of the ceiling", "CUB, same contract", "times that",
             "CUB as it comes", "times that"],
            ["sum", "int32", "4,000", "5,000", "0.80", "2,000", "2.00", "3,200", "1.25"],
            ["mean", "int32", "4,000", "5,000", "0.80", "-", "-", "-", "-"]])

    def test_over_sizes(self):
        kernels = [cub(log2=20), cub(log2=10), cub(log2=20, dtype="int8"), line()]
        results = everything()._replace(kernels=kernels)
        self.assertEqual(cells(tables.to_rival(results, "cub")), [
            ["operator", "elements", "1 KiB", "1 MiB"], ["sum", "int32", "2.00", "2.00"],
            ["sum", "int8", "-", "2.00"]])

    def test_many_sizes(self):
        every = [line(log2=log2) for log2 in range(10, 34)]
        self.assertEqual(tables.size_columns(every), list(range(10, 34, 2)))
        self.assertEqual(tables.size_columns(every[:3]), [10, 11, 12])

    def test_ladder(self):
        self.assertEqual(cells(tables.ladder(everything())), [
            ["algorithm", "published form", "bytes", "GB/s", "of the published form", "times that",
             "with wide states", "of the ceiling"],
            ["`tree`", "sumTree", "1 GiB", "8.00", "4.00", "2.00", "6.00", "0.00"],
            ["`auto`", "", "1 GiB", "4,000", "-", "-", "-", "0.80"]])

    def test_from_host(self):
        self.assertEqual(cells(tables.from_host(everything())), [
            ["of", "who", "1 KiB", "1 MiB"], ["sum of int32", "empty kernel and sync", "9.0", "9.0"],
            ["sum of int32", "Warpfold", "10.0", "10.0"],
            ["sum of int32", "CUB, same contract", "12.0", "12.0"],
            ["sum of int32", "CUB, result in mapped memory", "11.0", "11.0"],
            ["sum of int32", "thrust::reduce", "23.4", "23.4"],
            ["sum of int32", "thrust::reduce, scratch given", "18.0", "18.0"]])

    def test_cpu(self):
        self.assertEqual(cells(tables.cpu(everything())), [
            ["of", "threads", "GB/s", "read-only loop", "of that", "numpy.sum", "times that"],
            ["sum of int32", "1", "10.0", "20.0", "0.50", "5.00", "2.00"],
            ["sum of int32", "8", "80.0", "160", "0.50", "5.00", "16.00"],
            ["sum of bfloat16", "1", "10.0", "20.0", "0.50", "-", "-"],
            ["sum of bfloat16", "8", "80.0", "160", "0.50", "-", "-"]])

    def test_runs(self):
        first = cells(tables.runs(everything()))[1]
        self.assertEqual(first, ["kernels on the device", m.GPU, "1.2", "`c1`", "2026-01-02", "`a.jsonl`",
                                 "22"])


class GoalsTest(unittest.TestCase):

    def rows(self, **lines) -> dict:
        table = goals.table(m.Results(*([] for _ in m.Results._fields))._replace(**lines))
        return {row[0]: row[1:] for row in cells(table)[1:] if row[2] != "no results"}

    def test_goals_without_figures_are_listed(self):
        table = goals.table(m.pick([])._replace(cpu=everything().cpu))
        self.assertEqual(len(cells(table)) - 1, len(goals.all_goals()))
        self.assertEqual(sum(row[2] == "no results" for row in cells(table)), len(goals.all_goals()) - 2)

    def test_counts_and_names_the_worst(self):
        rows = self.rows(kernels=[cub(log2=16, cub_gbps=4000.0), cub(log2=22, operator="min"),
                                  cub(log2=24, cub_gbps=5000.0), cub(operator="argmin", ceiling_gbps=4000.0)])
        every = "sum, min, max, product, bitwise of 32 and 64 bits, every size: times CUB, same contract"
        self.assertEqual(rows[every], ["0.98", "2 of 3", "0.8", "sum of int32, 16 MiB"])
        middle = "the same, 64 KiB to 4 MiB: times CUB, same contract"
        self.assertEqual(rows[middle], ["1.5", "1 of 2", "1", "sum of int32, 64 KiB"])
        statistics = "argmin, argmax, minmax, mean, variance, describe, norms, from 1 GiB: of the ceiling"
        self.assertEqual(rows[statistics], ["0.9", "1 of 1", "1", "argmin of int32, 1 GiB"])

    def test_a_limit_from_above(self):
        rows = self.rows(from_host=[line("from_host", log2, us=us, empty_us=9.0)
                                    for log2, us in ((10, 10.0), (20, 11.5), (23, 99.0))])
        self.assertEqual(list(rows.values()), [["at most 2", "1 of 2", "2.5", "sum of int32, 1 MiB"]])

    def test_matrices_with_and_without_modulus(self):
        rows = self.rows(kernels=[line(operator="matrix_product", dtype="uint32", matrix=8, modulus=modulus,
                                       gbps=2000.0) for modulus in (0, 7)])
        self.assertEqual([row[:3] for row in rows.values()],
                         [["0.7", "0 of 1", "0.4"], ["0.35", "1 of 1", "0.4"]])

    def test_cpu_in_memory_only(self):
        rows = self.rows(cpu=everything().cpu)
        self.assertEqual([row[1] for row in rows.values()], ["0 of 4", "2 of 2"])

    def test_no_figures_no_goals(self):
        self.assertEqual(goals.table(m.pick([])), tables.NO_RESULTS)


class ChartsTest(unittest.TestCase):

    def test_a_chart_per_operator_and_group_of_types(self):
        drawn = {chart.name: chart for chart in charts.all_charts(everything())}
        self.assertEqual(set(drawn), {
            "times-cub", "times-cub-native", "sum-32-64-bits", "sum-8-16-bits", "min-32-64-bits",
            "min-8-16-bits", "max-32-64-bits", "max-8-16-bits", "matrix-product-matrices", "ladder-sum-int32",
            "from-host", "way-in-streams", "way-in-cpu", "way-in-in-place"})
        panels = drawn["sum-32-64-bits"].panels
        self.assertEqual([panel.title for panel in panels], ["int32", "float64"])
        self.assertEqual([l.style for l in panels[0].lines], ["ceiling", "cub_native", "cub", "warpfold"])
        self.assertEqual(panels[0].lines[-1], shapes.Line("warpfold", [(20, 4000.0), (30, 4000.0)],
                                                          [(20, 3900.0, 4100.0), (30, 3900.0, 4100.0)]))
        self.assertEqual([l.style for l in drawn["matrix-product-matrices"].panels[0].lines],
                         ["ceiling", "wrapping", "modular"])

    def test_bars_are_sorted(self):
        bars, = charts.of_ladder(everything())
        self.assertEqual([label for label, _, _ in bars.bars],
                         ["tree", "Warpfold", "read-only ceiling"])

    def test_one_size_is_no_line(self):
        results = everything()._replace(kernels=[cub()], ladder=[], from_host=[], way_in=[])
        self.assertEqual(charts.all_charts(results), [])

    def test_digest_is_that_of_the_data(self):
        chart = charts.of_kernels(everything())[0]
        self.assertEqual(shapes.digest(chart), shapes.digest(charts.of_kernels(everything())[0]))
        for other in ({"axis": shapes.Axis(9, 33)}, {"axis": shapes.Axis(10, 33, "streams")},
                      {"scale": "log"}):
            self.assertNotEqual(shapes.digest(chart), shapes.digest(dataclasses.replace(chart, **other)))


class RenderTest(unittest.TestCase):

    def test_only_blocks_change(self):
        text = "# Title\n<!-- begin cpu -->\nold\n<!-- end cpu -->\ntail, 3 x\n"
        once = page.render(text, everything())
        self.assertTrue(once.startswith("# Title\n<!-- begin cpu -->\n| of |"))
        self.assertTrue(once.endswith("|\n<!-- end cpu -->\ntail, 3 x\n"))
        self.assertEqual(page.render(once, everything()), once)

    def test_blocks_without_results(self):
        for name, block in page.BLOCKS.items():
            with self.subTest(block=name):
                self.assertIn(block(m.pick([])), ("", tables.NO_RESULTS))

    def test_unknown_blocks_are_refused(self):
        with self.assertRaises(KeyError):
            page.render("<!-- begin nonsense -->\n<!-- end nonsense -->", everything())


if __name__ == "__main__":
    unittest.main()
