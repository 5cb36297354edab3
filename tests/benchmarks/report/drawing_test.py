# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""That every kind of chart is drawn, and twice the same. Skipped where matplotlib is not installed."""

import importlib
import importlib.util
import itertools
import pathlib
import tempfile
import unittest
import xml.etree.ElementTree as xml

from report import charts
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
                self.assertIn(f"data {charts.digest(chart)}", svg)
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
