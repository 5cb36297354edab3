# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Norms, moments, logsumexp and the ordered operators over every element type, compared with exact
fractions."""

import dataclasses
import math
import struct
import unittest

import numpy

import oracles
import service
import statistics_oracles
from service import Failure, pb
from statistics_oracles import Array, Wanted

_INTEGERS = oracles.INTEGERS + ("bool",)
_FLOATS = oracles.FLOATS + ("bfloat16",)


def floats(dtype: str, rng: numpy.random.Generator):
    """Random and adversarial arrays of values that the type can hold, each with a name."""
    limit = 1e4 if dtype == "float16" else 1e30
    for size in (1, 2, 3, 17, 1025, 4099):
        yield f"normal {size}", rng.standard_normal(size)
        yield f"around 1000, {size}", rng.standard_normal(size) + 1000
        yield f"of all magnitudes, {size}", rng.choice([-1, 1], size) * limit**rng.uniform(-1, 0.5, size)
    yield "constant", numpy.full(3001, 0.1)
    yield "one outlier", numpy.array([1e-3] * 2000 + [limit] + [1e-3] * 500)
    yield "cancels", numpy.array([limit, 1, -limit] * 700)
    yield "around a billion", rng.standard_normal(3000) + (limit if dtype == "float16" else 1e9)
    yield "runs", numpy.repeat([1.0, -1.5, 0.5, -0.25], 600)
    yield "tiny", numpy.array([5e-324, 1e-310, 0, -5e-324, 1e-300] * 300)
    yield "zeros", numpy.array([0.0, -0.0] * 40)
    yield "negative zeros", numpy.full(40, -0.0)
    yield "falling", -numpy.arange(2000.0)
    yield "empty", numpy.empty(0)
    sprinkled = rng.standard_normal(2500)
    sprinkled[rng.integers(0, 2500, 700)] = math.nan
    yield "some NaN", sprinkled
    yield "NaN at both ends", numpy.array([math.nan] * 600 + [-1, 2, -0.5] + [math.nan] * 600)
    yield "negative zeros and NaN", numpy.array([-0.0, math.nan] * 300)
    yield "only NaN", numpy.full(700, math.nan)
    yield "infinity", numpy.array([1.0] * 600 + [math.inf] + [-2.0] * 600)
    yield "minus infinity", numpy.array([1.0] * 600 + [-math.inf] + [-2.0] * 600)
    yield "only minus infinity", numpy.full(50, -math.inf)
    yield "both infinities", numpy.array([math.inf, 1, -math.inf] * 30)


def integers(dtype: str, rng: numpy.random.Generator):
    limits = numpy.iinfo("uint8" if dtype == "bool" else dtype)
    low, high = (0, 1) if dtype == "bool" else (limits.min, limits.max)
    for size in (1, 2, 3, 17, 1025, 9001):
        yield f"any {size}", rng.integers(low, high, size, limits.dtype, endpoint=True)
        yield f"small {size}", rng.integers(max(low, -9), min(high, 9), size, limits.dtype, endpoint=True)
    yield "largest", numpy.full(3000, high)
    yield "smallest", numpy.full(3000, low)
    yield "both ends", numpy.array([low, high, high] * 700)
    yield "zeros", numpy.zeros(5000)
    yield "runs", numpy.repeat([high // 2 + 1, low // 2, 0, high // 3, low], 500)
    yield "empty", numpy.zeros(0)


def on_the_wire(dtype: str, array: numpy.ndarray) -> tuple[numpy.ndarray, Array]:
    """The array to send, and its values."""
    if dtype == "bfloat16":
        with numpy.errstate(all="ignore"):
            bits = array.astype("<f4").view("<u4")
        # NaN and infinities stay as they are; other numbers lose their lower bits.
        sent = (bits >> 16).astype("<u2")
        return sent, Array((sent.astype("<u4") << 16).view("<f4").tolist(), is_float=True)
    if dtype == "bool":
        return array.astype("u1") * 3, Array(array.astype(int).tolist(), False, bits=8, is_bool=True)
    with numpy.errstate(all="ignore"):
        sent = array.astype(dtype)
    return sent, Array(sent.tolist(), dtype in _FLOATS, sent.dtype.kind == "i", 8 * sent.dtype.itemsize)


def _bits(x):
    return struct.pack("<d", x) if isinstance(x, float) else x


class StatisticsTest(service.ServerTestCase):

    def assert_wanted(self, got, wanted: Wanted):
        self.assertIs(type(got), type(wanted.value))
        if not isinstance(wanted.value, float) or not wanted.tolerance:
            self.assertEqual(_bits(got), _bits(math.nan if wanted.value != wanted.value else wanted.value),
                             f"got {got!r}, wanted {wanted.value!r}")
        elif math.isfinite(wanted.value):
            self.assertLessEqual(abs(got - wanted.value), wanted.tolerance, (got, wanted))
        else:
            self.assertEqual(got, wanted.value)

    def check_max_subarray_sum(self, result: pb.OperatorResult, array: Array, places: list[int]):
        """`places` are the places of the array's elements, without ignored NaN, among all elements."""
        got = service.value(result)
        values = array.exactly() if array.finite else array.values
        if any(x != x for x in values) or {math.inf, -math.inf} <= set(values):
            self.assertEqual((_bits(got), result.HasField("index")), (_bits(math.nan), False))
            return
        best, begin, end = statistics_oracles.max_subarray_sum(values)
        got_part = [x for x, place in zip(values, places) if result.index <= place < result.end_index]
        if not array.is_float or not array.finite:
            self.assertEqual((got, result.index, result.end_index),
                             (best, places[begin], places[end - 1] + 1))
            return
        # Rounding may make another part the best.
        scale = sum(map(abs, values))
        self.assert_wanted(got, Wanted.near(best, scale))
        self.assert_wanted(statistics_oracles.to_float(sum(got_part)), Wanted.near(best, scale))

    @staticmethod
    def wanted(name: str, kept: Array, every: Array, ignore_nan: bool, wrap: bool, ddof: int) -> dict:
        if name != "max_subarray_sum":
            return statistics_oracles.fields(name, kept, every, ignore_nan, wrap, ddof)
        if not kept.values:
            raise Failure("INVALID_ARGUMENT", "EMPTY_ARRAY")
        if not kept.is_float:
            statistics_oracles.integer(kept, statistics_oracles.max_subarray_sum(kept.values)[0], wrap=False)
        return {}  # check_max_subarray_sum knows

    def check(self, name: str, dtype: str, array: numpy.ndarray, ignore_nan=False, wrap=False, ddof=0):
        options = {"nan_policy": pb.NAN_POLICY_IGNORE if ignore_nan else pb.NAN_POLICY_PROPAGATE,
                   "overflow_policy": pb.OVERFLOW_POLICY_WRAP if wrap else pb.OVERFLOW_POLICY_ERROR}
        if ddof:
            options["ddof"] = ddof
        sent, every = on_the_wire(dtype, array)
        places = [i for i, x in enumerate(every.values) if not (ignore_nan and x != x)]
        kept = dataclasses.replace(every, values=[every.values[i] for i in places])
        call = (service.reduce, self.server, sent, [name])
        try:
            wanted = self.wanted(name, kept, every, ignore_nan, wrap, ddof)
        except Failure as failure:
            self.assert_fails(failure.code, failure.reason, *call, element_type=dtype, **options)
            return
        result = call[0](*call[1:], element_type=dtype, **options).results[0]
        if name == "max_subarray_sum":
            self.check_max_subarray_sum(result, kept, places)
            return
        self.assertFalse(result.HasField("index") or result.HasField("end_index"))
        got = service.value(result)
        got = got if isinstance(got, dict) else {"": got}
        self.assertEqual(list(got), list(wanted))
        for field, value in wanted.items():
            with self.subTest(field=field):
                self.assert_wanted(got[field], value)

    def check_all(self, dtypes, arrays, names, **options):
        for dtype in dtypes:
            for label, array in arrays(dtype, numpy.random.default_rng(41)):
                for name in names:
                    with self.subTest(name, dtype=dtype, array=label, **options):
                        self.check(name, dtype, array, **options)

    def test_integers(self):
        self.check_all(_INTEGERS, integers, statistics_oracles.INTEGER_OPERATORS)

    def test_integers_that_wrap(self):
        self.check_all(_INTEGERS, integers, ("sum_of_squares", "describe"), wrap=True)

    def test_floats(self):
        self.check_all(_FLOATS, floats, statistics_oracles.FLOAT_OPERATORS)

    def test_floats_without_nan(self):
        self.check_all(_FLOATS, floats, statistics_oracles.FLOAT_OPERATORS, ignore_nan=True)

    def test_ddof(self):
        for ddof in (1, 2, 3000):
            for dtype, arrays in (("float64", floats), ("int16", integers)):
                self.check_all([dtype], arrays, ("variance", "stddev", "describe"), ddof=ddof)

    def test_ddof_is_for_moments_alone(self):
        self.assert_fails("INVALID_ARGUMENT", "BAD_HEADER", service.reduce, self.server, numpy.ones(3),
                          ["sum"], ddof=1)

    def test_variance_beyond_float64(self):
        for array in (numpy.full(2, 1e308), numpy.array([1e200, -1e200])):
            result = service.reduce(self.server, array, ["variance"]).results[0]
            self.assertEqual(service.value(result), math.inf)


class NewTypesTest(service.ServerTestCase):
    """The older operators over bool and bfloat16, which NumPy does not have or defines differently."""

    def values(self, dtype: str, array: numpy.ndarray, names: list[str]) -> list:
        sent, _ = on_the_wire(dtype, array)
        results = service.reduce(self.server, sent, names, element_type=dtype).results
        return [service.value(result) for result in results]

    def test_bool(self):
        rng = numpy.random.default_rng(43)
        names = ["sum", "product", "min", "max", "bit_and", "bit_or", "bit_xor", "all", "any",
                 "count_nonzero", "mean"]
        for size in (1, 2, 4097, 50001):
            for share in (0, 0.5, 1):
                array = (rng.random(size) < share).astype(int)
                ones, odd = int(array.sum()), bool(array.sum() % 2)
                every, some = ones == size, ones > 0
                wanted = [ones, int(every), every, some, every, some, odd, every, some, ones, ones / size]
                self.assertEqual(self.values("bool", array, names), wanted)

    def test_bfloat16(self):
        rng = numpy.random.default_rng(47)
        for size in (1, 3, 2049, 30011):
            array = rng.standard_normal(size) * 2.0**rng.integers(-60, 60, size)
            exact = numpy.array(on_the_wire("bfloat16", array)[1].values)
            names = ["min", "max", "argmin", "argmax", "all", "count_nonzero", "sum", "mean"]
            *got, total, mean = self.values("bfloat16", array, names)
            self.assertEqual(got, [exact.min(), exact.max(), exact.min(), exact.max(), True, size])
            error = 40 * statistics_oracles.EPSILON * numpy.abs(exact).sum()
            self.assertLessEqual(abs(total - math.fsum(exact)), error)
            self.assertLessEqual(abs(mean - math.fsum(exact) / size), error / size)


if __name__ == "__main__":
    unittest.main()
