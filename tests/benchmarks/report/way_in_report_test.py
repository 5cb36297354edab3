# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The table, the goals and the charts that are made from runs of way_in.py."""

import unittest

from report import measurements as m
from report import tables, way_in_charts, way_in_goals
from report.samples import cells, everything, line, load
from report.shapes import Axis


def kept(case: str, **keys) -> dict:
    return load(case, **{"dtype": "float32", "source": "resident", **keys})


class WayInTableTest(unittest.TestCase):

    def test_a_column_per_side(self):
        results = m.pick([])._replace(way_in=[
            load("streams", transport="tcp", streams=2, gbps=4.5),
            load("streams", "raw_socket", transport="tcp", streams=2, gbps=9.0),
            load("empty_call", server="cpu", method="health", p50_us=55.5)])
        self.assertEqual(cells(tables.way_in(results)), [
            ["device", "transport", "case", "unit", "warpfold", "raw_socket"],
            [f"cuda:0 {m.GPU}", "tcp", "`streams x2`", "GB/s", "4.50", "9.00"],
            ["cpu", "unix", "`empty_call`", "us", "55.5", "-"]])

    def test_sizes_of_one_case_have_a_row_each(self):
        results = m.pick([])._replace(way_in=[
            kept("rows_of_1_kib", p50_us=4500.0), kept("rows_of_1_kib", p50_us=18000.0, bytes=4 << 30),
            kept("rows_of_1_kib", p50_us=4600.0, transport="tcp"), kept("memory", source="memory")])
        self.assertEqual([row[1:] for row in cells(tables.way_in(results))[1:]], [
            ["unix", "`rows_of_1_kib 1 GiB`", "us", "4500"], ["unix", "`rows_of_1_kib 4 GiB`", "us", "18000"],
            ["tcp", "`rows_of_1_kib 1 GiB`", "us", "4600"], ["unix", "`memory 1 GiB`", "GB/s", "4,000"]])


class WayInGoalsTest(unittest.TestCase):

    def rows(self, *lines, kernels=()) -> dict:
        table = cells(way_in_goals.table(m.pick([])._replace(way_in=list(lines), kernels=list(kernels))))
        return {row[0]: row[1:] for row in table[1:] if row[2] != "no results"}

    def test_streams_are_compared_with_the_sinks_of_their_device(self):
        cpu = {"server": "cpu"}
        rows = self.rows(load("streams"), load("streams", "async_drop", rate_ratio=0.9),
                         load("streams", streams=4, server_cpu_s_per_gb=0.5),
                         load("streams", "async_drop", streams=4, rate_ratio=1.0),
                         load("streams", "async_copy", rate_ratio=0.1),
                         load("streams", **cpu),
                         load("streams", "async_copy", rate_ratio=0.97, **cpu))
        self.assertEqual(rows["GPU, streams: times the sink that copies nothing"],
                         ["0.95", "1 of 2", "0.9", "cuda:0, unix, streams x1"])
        self.assertEqual(rows["the same: the server's CPU seconds for a GB, times the sink's"],
                         ["at most 1.15", "1 of 2", "2.5", "cuda:0, unix, streams x4"])
        self.assertEqual(rows["CPU, streams: times the sink that copies"],
                         ["0.95", "1 of 1", "0.97", "cpu, unix, streams x1"])

    def test_what_lies_on_the_gpu_is_compared_with_its_kernel_and_an_empty_call(self):
        large = {"bytes": 4 << 30, "p50_us": 1100.0, "kernel_us": 950.0, "source": "resident"}
        rows = self.rows(load("empty_call", p50_us=50.0), load("ipc", **large),
                         load("resident", **large), load("resident", p50_us=9999.0))
        self.assertEqual(rows["GPU memory of another process, 4 GiB: us beyond the kernel and an empty call"],
                         ["at most 60", "0 of 1", "100", "cuda:0, unix, ipc 4 GiB"])
        self.assertEqual(rows["kept array, 4 GiB: us beyond the kernel"],
                         ["at most 100", "0 of 1", "150", "cuda:0, unix, resident 4 GiB"])

    def test_rows_of_kept_arrays_are_compared_with_the_ceiling_of_their_device_and_size(self):
        rows = self.rows(kept("rows_of_1_kib", gbps=200.0), kept("rows_of_1024_kib", gbps=4550.0),
                         kept("rows_of_1024_kib", gbps=300.0, bytes=4 << 30, transport="tcp"),
                         kept("rows_of_16_kib", gbps=1.0, server="cuda:0 A GPU"),
                         kept("rows_streamed", gbps=1.0),
                         kernels=[*(line(**{"dtype": "float32", "ceiling_gbps": 1.0, **other}) for other in (
                                      {"log2": 20}, {"dtype": "int8"}, {"operator": "min"}, {"matrix": 2})),
                                  line(dtype="float32"), line(log2=32, dtype="float32", ceiling_gbps=1e4)])
        what = "rows of 1 KiB to 1 MiB of a kept array, 1 and 4 GiB, whole calls: of the ceiling"
        self.assertEqual(rows, {what: ["0.9", "1 of 3", "0.03", "cuda:0, tcp, rows_of_1024_kib 4 GiB"]})

    def test_a_size_without_a_ceiling_has_that_of_the_next_larger_one_or_else_of_the_largest(self):
        results = m.pick([])._replace(kernels=[line(log2=log2, dtype="float32") for log2 in (33, 20, 29, 31)])
        sizes = [m.ceiling_line(results, kept("rows_of_1_kib", log2=log2))["bytes"] for log2 in (29, 30, 34)]
        self.assertEqual(sizes, [1 << 29, 1 << 31, 1 << 33])
        self.assertIsNone(m.ceiling_line(results, kept("rows_of_1_kib", server="cuda:0 A GPU")))

    def test_small_calls(self):
        rows = self.rows(load("empty_call", p50_us=80.0), load("array_4_kib", p50_us=100.0),
                         load("array_after_pause", max_us=4900.0),
                         load("array_after_long_pause", max_us=6000.0), load("array_1_kib"),
                         load("array_1_kib_beside_streams", p99_us=500.0))
        self.assertEqual([row[2] for row in rows.values()], ["1.25", "2.5", "6", "2.5"])

    def test_a_percentile_is_that_of_10_5_calls_where_there_are_so_many(self):
        def row(*lines) -> list:
            return self.rows(load("empty_call"), *lines)[
                "the same: its 99th percentile, times the median of an empty call"][1:]

        old = load("array_4_kib", p99_us=250.0)
        self.assertEqual(row(old), ["1 of 1", "2.5", "cuda:0, unix, array_4_kib"])
        for calls, answer in ((99_999, ["1 of 1", "2.5", "cuda:0, unix, array_4_kib"]),
                              (100_000, ["0 of 1", "4", "cuda:0, unix, array_4_kib_long"])):
            with self.subTest(calls=calls):
                self.assertEqual(row(old, load("array_4_kib_long", p99_us=400.0, calls=calls)), answer)
        self.assertEqual(row(old, load("array_4_kib_long", p99_us=400.0, calls=100_000, transport="tcp"),
                             load("empty_call", transport="tcp"))[0], "1 of 2")

    def test_no_figures_no_goals(self):
        self.assertEqual(way_in_goals.table(m.pick([])), tables.NO_RESULTS)


class WayInChartsTest(unittest.TestCase):

    def charts(self, *lines, **others) -> dict:
        results = m.pick([])._replace(way_in=list(lines), **others)
        return {chart.name: chart for chart in way_in_charts.of_way_in(results)}

    def test_a_panel_per_transport_and_a_line_per_side_over_streams(self):
        drawn = self.charts(*everything().way_in)
        for name in ("way-in-streams", "way-in-cpu"):
            chart = drawn[name]
            self.assertEqual([panel.title for panel in chart.panels], ["TCP", "Unix socket"])
            self.assertEqual(chart.axis, Axis(0, 3, "streams"))
            for panel in chart.panels:
                self.assertEqual([line.style for line in panel.lines], [
                    "raw_socket", "plain_service", "flight", "async_copy", "async_hold", "async_drop",
                    "warpfold"])
        self.assertEqual(drawn["way-in-streams"].panels[0].lines[-1].points,
                         [(0, 4.5), (1, 9.0), (2, 18.0), (3, 36.0)])
        self.assertEqual(drawn["way-in-cpu"].panels[1].lines[2].points, [(log2, 0.5) for log2 in range(4)])

    def test_only_the_rates_of_warpfold_have_a_band(self):
        drawn = self.charts(*everything().way_in)
        *others, ours = drawn["way-in-streams"].panels[0].lines
        self.assertEqual(ours.band, [(0, 4.05, 5.625), (1, 8.1, 11.25), (2, 16.2, 22.5), (3, 32.4, 45.0)])
        self.assertEqual([line.band for line in others + drawn["way-in-cpu"].panels[0].lines], [[]] * 13)

    def test_what_was_not_measured_is_left_out(self):
        lines = [load("streams", streams=streams, **keys) for streams in (2, 1)
                 for keys in ({}, {"side": "flight", "server_cpu_s_per_gb": None},
                              {"side": "raw_socket", "gbps": None, "server_cpu_s_per_gb": 0.0})]
        drawn = self.charts(*lines, load("streams", "async_drop"))
        self.assertEqual([line.style for line in drawn["way-in-streams"].panels[0].lines],
                         ["flight", "warpfold"])
        self.assertEqual([line.style for line in drawn["way-in-cpu"].panels[0].lines], ["warpfold"])
        self.assertEqual(drawn["way-in-cpu"].panels[0].lines[0].points, [(0, 0.2), (1, 0.2)])
        self.assertEqual(self.charts(load("streams"), load("empty_call", method="health")), {})

    def test_arrays_in_place_beside_the_best_stream_and_the_ceiling_of_the_largest(self):
        chart = self.charts(
            load("streams", transport="tcp", gbps=4.5), load("streams", gbps=5.5),
            load("streams", "async_drop", gbps=6.5), load("streams", streams=8, gbps=30.0),
            kept("memory", source="memory", gbps=50.0), kept("ipc", source="ipc", gbps=3500.0),
            kept("resident", gbps=4200.0, bytes=4 << 30),
            kept("resident", gbps=4000.0, bytes=4 << 30, transport="tcp"),
            kept("rows_of_16_kib", gbps=1000.0, segment_length=4096),
            kernels=[line(log2=log2, dtype="float32", ceiling_gbps=4000.0 + log2) for log2 in (30, 32)],
        )["way-in-in-place"]
        self.assertEqual(chart.bars, [
            ("sent in one stream, Unix socket, 1 GiB", "sent", 5.5),
            ("shared memory, 1 GiB", "warpfold", 50.0),
            ("rows of 16 KiB of a kept array, 1 GiB", "rows", 1000.0),
            ("GPU memory of another process, 1 GiB", "warpfold", 3500.0),
            ("read-only ceiling of the GPU, 4 GiB", "ceiling", 4032.0),
            ("kept array, 4 GiB", "warpfold", 4200.0)])

    def test_a_device_without_a_ceiling_or_streams(self):
        chart = self.charts(kept("memory", source="memory", server="cpu"),
                            kernels=everything().kernels)["way-in-in-place"]
        self.assertEqual(chart.bars, [("shared memory, 1 GiB", "warpfold", 4000.0)])
        self.assertIn("CPU backend", chart.title)

    def test_each_device_has_charts_of_its_own_and_the_gpu_comes_first(self):
        lines = [load("streams", streams=streams, server=server)
                 for server in ("cpu", "cuda:0 A GPU") for streams in (1, 2)]
        drawn = self.charts(*lines)
        self.assertEqual(list(drawn),
                         ["way-in-streams", "way-in-cpu", "way-in-streams-cpu", "way-in-cpu-cpu"])
        self.assertIn("A GPU", drawn["way-in-streams"].title)
        self.assertIn("CPU backend", drawn["way-in-cpu-cpu"].title)


if __name__ == "__main__":
    unittest.main()
