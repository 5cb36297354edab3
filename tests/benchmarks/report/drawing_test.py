# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Every kind of chart is drawn, and twice the same. Skipped if matplotlib is not installed."""

import importlib
import importlib.util
import itertools
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as xml

from report import charts, shapes
from report.samples import everything

_SVG = "{http://www.w3.org/2000/svg}"


@unittest.skipUnless(importlib.util.find_spec("matplotlib"), "matplotlib is not installed")
class DrawingTest(unittest.TestCase):

    @classmethod
    def setUpClass(cls):
        cls.drawing = importlib.import_module("report.drawing")
        cls.charts = charts.all_charts(everything())

    def draw(self, chart) -> str:
        with tempfile.TemporaryDirectory() as folder:
            self.drawing.draw(chart, pathlib.Path(folder))
            return pathlib.Path(folder, f"{chart.name}.svg").read_text(encoding="utf-8")

    def test_every_kind(self):
        for chart in self.charts:
            with self.subTest(chart=chart.name):
                svg = self.draw(chart)
                self.assertIn(f"data {shapes.digest(chart)}", svg)
                self.assertEqual(svg, self.draw(chart))
                texts = [text.text for text in xml.fromstring(svg).iter(f"{_SVG}text")]
                self.assertIn(chart.title, texts)

    def test_no_label_is_clipped_or_hides_another(self):
        for chart in self.charts:
            with self.subTest(chart=chart.name):
                labels = self.label_boxes(chart)
                self.assertGreater(len(labels), 5)
                for (text, box), (other, other_box) in itertools.combinations(labels, 2):
                    self.assertFalse(box.overlaps(other_box), f"{text} and {other}")

    def test_what_is_counted_has_a_name_and_bytes_have_units(self):
        texts = {chart.name: [text for text, _ in self.label_boxes(chart)] for chart in self.charts}
        for text in ("streams", "1", "2", "4", "8", "TCP", "Unix socket", "GB/s", "Arrow Flight"):
            self.assertIn(text, texts["way-in-streams"])
        self.assertIn("server's CPU seconds for a GB", texts["way-in-cpu"])
        self.assertIn("1 KiB", texts["from-host"])
        self.assertIn("8 GiB", texts["times-cub"])

    def test_lines_of_one_chart_look_different(self):
        for chart in self.charts:
            if isinstance(chart, shapes.Chart):
                used = {line.style for panel in chart.panels for line in panel.lines}
                styles = [self.drawing.STYLES[style] for style in used]
                looks = {(style.color, style.dashes) for style in styles}
                self.assertEqual(len(looks), len(used), chart.name)

    def test_every_line_and_band_lies_inside_its_panel(self):
        pyplot = importlib.import_module("matplotlib.pyplot")
        for chart in self.charts:
            if not isinstance(chart, shapes.Chart) or chart.scale == "linear":
                continue
            figure = self.drawing.figure_of(chart)
            for ax, panel in zip(figure.axes, chart.panels):
                low, high = ax.get_ylim()
                for line in panel.lines:
                    values = [value for _, *values in line.points + line.band for value in values]
                    self.assertGreater(min(values), low, f"{chart.name}, {line.style}")
                    self.assertLess(max(values), high, f"{chart.name}, {line.style}")
            pyplot.close(figure)

    def label_boxes(self, chart) -> list:
        """Each label and where it is drawn, inside the picture."""
        pyplot = importlib.import_module("matplotlib.pyplot")
        with importlib.import_module("matplotlib").rc_context(self.drawing.RC):
            figure = self.drawing.figure_of(chart)
            canvas = importlib.import_module("matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
            canvas.draw()
            labels = figure.texts + [text for legend in figure.legends for text in legend.get_texts()]
            for ax in figure.axes:
                labels += [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label, *ax.texts]
                for axis, (low, high) in ((ax.xaxis, ax.get_xlim()), (ax.yaxis, ax.get_ylim())):
                    labels += [tick.label1 for tick in axis.get_major_ticks()
                               if low <= tick.get_loc() <= high]
            boxes = [(label.get_text(), label.get_window_extent(canvas.get_renderer()))
                     for label in labels if label.get_text() and label.get_visible()]
            for text, box in boxes:
                inside = box.x0 >= 0 and box.y0 >= 0 and box.x1 <= figure.bbox.x1 and box.y1 <= figure.bbox.y1
                self.assertTrue(inside, f"clipped: {text}")
            pyplot.close(figure)
            return boxes


if __name__ == "__main__":
    unittest.main()
