# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Real series with missing values, compared with NumPy, Python's exact sums and a published figure."""

import csv
import math
import pathlib
import unittest

import numpy

from executables import Server, TestCase, reduce, values

_CO2 = pathlib.Path(__file__).parent / "data" / "mauna_loa_co2_weekly.csv"
_OPERATORS = "sum,min,max,mean,argmin,argmax"

# Daily mean ozone at Roosevelt Island, New York, in May 1973, ppb; NaN if the record has a gap. From J. M.
# Chambers et al., Graphical Methods for Data Analysis (1983), table A1. Its mean is known as 23.61538.
_NAN = float("nan")
_OZONE = [41, 36, 12, 18, _NAN, 28, 23, 19, 8, _NAN, 7, 16, 11, 14, 18, 14, 34, 6, 30, 11, 1, 11, 4, 32,
          _NAN, _NAN, _NAN, 23, 45, 115, 37]


class RealDataTest(TestCase):
    """Weekly CO2 at Mauna Loa: 2,284 weeks, 59 of them without a value. data/README.md has the source."""

    def setUp(self):
        super().setUp()
        with _CO2.open() as lines:
            weeks = [float(row["co2"] or "nan") for row in csv.DictReader(lines)]
        self.weeks = numpy.array(weeks)
        self.assertEqual((len(weeks), int(numpy.isnan(self.weeks).sum())), (2284, 59))
        self.path = self.save("co2.npy", self.weeks)
        self.address = self.enterContext(Server()).address

    def test_missing_values_propagate(self):
        results = reduce(self.address, "--op", _OPERATORS, self.path)["results"]
        self.assertEqual([result["value"] for result in results.values()], ["nan"] * 6)
        first = int(numpy.argmax(numpy.isnan(self.weeks)))
        self.assertEqual([results["argmin"]["index"], results["argmax"]["index"]], [first, first])

    def test_missing_values_ignored(self):
        results = reduce(self.address, "--ignore-nan", "--op", _OPERATORS, self.path)["results"]
        total, smallest, largest, mean, argmin, argmax = (result["value"] for result in results.values())
        known = self.weeks[~numpy.isnan(self.weeks)]
        self.assertAlmostEqual(total / math.fsum(known), 1, delta=1e-14)
        self.assertAlmostEqual(mean / (math.fsum(known) / len(known)), 1, delta=1e-14)
        self.assertEqual((smallest, largest), (known.min(), known.max()))
        self.assertEqual((argmin, argmax), (known.min(), known.max()))
        self.assertEqual([results["argmin"]["index"], results["argmax"]["index"]],
                         [numpy.nanargmin(self.weeks), numpy.nanargmax(self.weeks)])

    def test_whole_numbers_give_the_exact_sum_and_the_published_mean(self):
        path = self.save("ozone.npy", numpy.array(_OZONE))
        total, mean = values(self.address, "sum,mean", "--ignore-nan", path)
        self.assertEqual((total, mean), (614, numpy.nanmean(_OZONE)))
        self.assertAlmostEqual(mean, 23.61538, places=5)


if __name__ == "__main__":
    unittest.main()
