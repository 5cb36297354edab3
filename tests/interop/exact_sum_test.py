# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""exact_sum compared with math.fsum, and with exact fractions if math.fsum refuses."""

import math
import unittest
from fractions import Fraction

import numpy

import service
from service import pb

_FLOATS = {"float16": numpy.uint16, "float32": numpy.uint32, "float64": numpy.uint64}


def exact_sum(array: numpy.ndarray) -> float:
    values = array.astype(float).tolist()
    if any(x != x for x in values) or (math.inf in values and -math.inf in values):
        return math.nan
    try:
        return math.fsum(values)
    except OverflowError:  # perhaps only a partial sum overflows
        total = sum(map(Fraction, values))
        try:
            return float(total)
        except OverflowError:
            return math.inf if total > 0 else -math.inf


class ExactSumTest(service.ServerTestCase):

    def check(self, array: numpy.ndarray, cuts=(), **options):
        wanted = exact_sum(array[~numpy.isnan(array)] if options else array)
        got = service.value(service.reduce(self.server, array, ["exact_sum"], cuts, **options).results[0])
        if math.isnan(wanted):
            self.assertTrue(math.isnan(got), got)
        else:
            self.assertEqual((got, math.copysign(1, got)), (wanted, math.copysign(1, wanted)))

    def test_any_finite_bits(self):
        rng = numpy.random.default_rng(1)
        for dtype, bits in _FLOATS.items():
            for size in (1, 2, 31, 1024, 5000):
                array = rng.integers(0, numpy.iinfo(bits).max, size, bits, endpoint=True).view(dtype)
                array = array[numpy.isfinite(array)]
                with self.subTest(dtype, size=size):
                    self.check(array)
                    self.check(numpy.concatenate([array, -array[::-1]]))
                    self.check(numpy.concatenate([array, [numpy.finfo(dtype).smallest_subnormal], -array]))

    def test_like_magnitudes(self):
        rng = numpy.random.default_rng(2)
        for dtype in _FLOATS:
            for size in (100, 100_003):
                with self.subTest(dtype, size=size):
                    self.check(rng.standard_normal(size).astype(dtype))
                    self.check(rng.random(size).astype(dtype))

    def test_outliers_among_like_magnitudes(self):
        rng = numpy.random.default_rng(3)
        for dtype in _FLOATS:
            limits = numpy.finfo(dtype)
            array = rng.standard_normal(60_000).astype(dtype)
            for outlier in (limits.max, -limits.max, limits.smallest_subnormal, -limits.tiny, 0.0):
                array[rng.integers(0, len(array), 3)] = outlier
                with self.subTest(dtype, outlier=outlier):
                    self.check(array)

    def test_ties_round_to_even(self):
        for addends in ([1.0, 2.0**-53], [1.0, 3 * 2.0**-53], [1.0, 2.0**-53, 2.0**-1074],
                        [-1.0, -2.0**-53], [1.0, 2.0**-54, 2.0**-54], [2.0**53, 1.0], [2.0**53, 1.0, 5e-324]):
            with self.subTest(addends):
                self.check(numpy.array(addends))

    def test_beyond_float64_on_the_way(self):
        largest = numpy.finfo(float).max
        for addends in ([largest, largest, -largest], [largest] * 5 + [-largest] * 4, [largest] * 3,
                        [-largest, -largest], [largest, 2.0**970], [largest, 2.0**969],
                        [largest] * 3 + [-3.0]):
            with self.subTest(addends):
                self.check(numpy.array(addends))

    def test_what_is_no_number(self):
        inf, nan = math.inf, math.nan
        for addends in ([inf, 1.0], [1.0, -inf], [inf, -inf], [nan, 1.0], [inf, nan], [], [-0.0],
                        [0.0, -0.0]):
            for dtype in _FLOATS:
                with self.subTest(dtype, addends=addends):
                    array = numpy.array(addends * 700, dtype)
                    self.check(array)
                    self.check(array, nan_policy=pb.NAN_POLICY_IGNORE)

    def test_bfloat16(self):
        """NumPy has no such type: its values are the upper halves of float32."""
        rng = numpy.random.default_rng(5)
        for size in (1, 31, 2048, 10_000):
            bits = rng.integers(0, 2**16, size, numpy.uint16)
            numbers = (bits.astype(numpy.uint32) << 16).view(numpy.float32)
            finite = numpy.isfinite(numbers)
            for sent, summed in ((bits[finite], numbers[finite]), (bits, numbers)):
                with self.subTest(size=size, sent=len(sent)):
                    wanted = exact_sum(summed)
                    reduction = service.reduce(self.server, sent, ["exact_sum"], element_type="bfloat16")
                    got = service.value(reduction.results[0])
                    self.assertTrue(got == wanted or (math.isnan(got) and math.isnan(wanted)), (got, wanted))

    def test_neither_order_nor_cuts_matter(self):
        rng = numpy.random.default_rng(4)
        array = rng.standard_normal(20_000) * 10.0**rng.integers(-300, 300, 20_000)
        for _ in range(5):
            rng.shuffle(array)
            self.check(array, sorted(rng.integers(0, array.nbytes, 9)))


if __name__ == "__main__":
    unittest.main()
