# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A real series with missing values, against NumPy and Python's exact sums."""

import csv
import math
import pathlib
import unittest

import numpy

from harness import Server, TestCase

_CO2 = pathlib.Path(__file__).parent / "data" / "mauna_loa_co2_weekly.csv"


class RealDataTest(TestCase):
    """Weekly CO2 at Mauna Loa: 2,284 weeks, 59 of them without a value. data/README.md has the source."""

    def setUp(self):
        super().setUp()
        with _CO2.open() as lines:
            weeks = [float(row["co2"] or "nan") for row in csv.DictReader(lines)]
        self.weeks = numpy.array(weeks)
        self.assertEqual((len(weeks), int(numpy.isnan(self.weeks).sum())), (2284, 59))
        self.path = str(self.folder / "co2.npy")
        numpy.save(self.path, self.weeks)
        self.server = self.enterContext(Server())

    def test_missing_values_propagate(self):
        results = self.reduce(self.server, "--op", "sum,min,max,mean,argmax", self.path)["results"]
        self.assertEqual([result["value"] for result in results], ["nan"] * 5)
        self.assertEqual(results[4]["index"], int(numpy.argmax(numpy.isnan(self.weeks))))

    def test_missing_values_ignored(self):
        operators = ("--ignore-nan", "--op", "sum,min,max,mean,argmin,argmax")
        results = self.reduce(self.server, *operators, self.path)["results"]
        total, smallest, largest, mean, argmin, argmax = (result["value"] for result in results)
        known = self.weeks[~numpy.isnan(self.weeks)]
        self.assertAlmostEqual(total / math.fsum(known), 1, delta=1e-14)
        self.assertAlmostEqual(mean / (math.fsum(known) / len(known)), 1, delta=1e-14)
        self.assertEqual((smallest, largest), (known.min(), known.max()))
        self.assertEqual((argmin, argmax), (known.min(), known.max()))
        self.assertEqual([results[4]["index"], results[5]["index"]],
                         [numpy.nanargmin(self.weeks), numpy.nanargmax(self.weeks)])


if __name__ == "__main__":
    unittest.main()
