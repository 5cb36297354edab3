# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The statistical functions of the Python array API standard (2024.12), compared with its text.

https://data-apis.org/array-api/2024.12/API_specification/statistical_functions.html; as far as the package
has them: without dtype=, with axis= in axis_test.py, and without cumulative_sum and cumulative_prod.
Differences by contract are named in TestByContract, and there are no others.
"""

import math

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.extra import numpy as arrays

REAL = [numpy.dtype(name) for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32",
                                       "uint64", "float32", "float64")]
FLOATING = [dtype for dtype in REAL if dtype.kind == "f"]
SHAPES = arrays.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=6)
STANDARD = settings(max_examples=40, deadline=None, database=None,
                    suppress_health_check=[HealthCheck.function_scoped_fixture])


def of(dtype):
    bounded = {"min_value": -1000, "max_value": 1000} if dtype.kind == "f" else {}
    return arrays.arrays(dtype, SHAPES, elements=arrays.from_dtype(dtype, **bounded, **(
        {"allow_nan": False} if dtype.kind == "f" else {})))


def can_be_multiplied(elements):
    """Whether their product is the same in any order, except for rounding: no part of it is infinite, or
    loses digits near 0. For floats; the server multiplies them in the order of a tree."""
    large = math.prod(max(abs(element), 1.0) for element in elements)
    small = math.prod(min(abs(element), 1.0) for element in elements if element != 0)
    return math.isfinite(large) and small > 1e-290


def each(function, array, **options):
    """The value, checked to have no dimensions, or with keepdims as many as the array."""
    value = function(array, **options)
    kept = function(array, keepdims=True, **options)
    assert numpy.shape(value) == () and kept.shape == (1,) * array.ndim
    assert kept.reshape(())[()] == value or math.isnan(value)
    return value


@pytest.mark.parametrize("dtype", REAL, ids=str)
class TestStatisticalFunctions:

    def test_min_and_max(self, client, dtype):
        @STANDARD
        @given(of(dtype))
        def check(x):
            low, high = each(client.min, x), each(client.max, x)
            assert low.dtype == high.dtype == dtype
            assert (x >= low).all() and (x <= high).all() and low in x and high in x

        check()

    def test_sum_and_prod(self, client, dtype):
        @STANDARD
        @given(of(dtype))
        def check(x):
            elements = [element.item() for element in x.reshape(-1)]
            for function, exact in ((client.sum, sum(elements)), (client.prod, math.prod(elements))):
                value = each(function, x, overflow="wrap")
                assert value.dtype.kind == dtype.kind and value.dtype.itemsize == 8
                if dtype.kind == "f":
                    assert value == pytest.approx(exact, rel=1e-9, abs=1e-9) \
                        or (function == client.prod and not can_be_multiplied(elements))
                elif numpy.iinfo(dtype).min <= exact <= numpy.iinfo(dtype).max:
                    assert value == exact

        check()

    def test_mean_var_and_std(self, client, dtype):
        @STANDARD
        @given(of(dtype))
        def check(x):
            elements = [element.item() for element in x.reshape(-1)]
            mean = math.fsum(elements) / len(elements)
            scale = max(map(abs, elements)) + 1
            assert each(client.mean, x) == pytest.approx(mean, rel=1e-9, abs=1e-9 * scale)
            squares = math.fsum((element - mean)**2 for element in elements)
            for correction in (0, 0.5, 1):
                value = each(client.var, x, correction=correction)
                deviation = each(client.std, x, correction=correction)
                if len(elements) <= correction:
                    assert math.isnan(value) and math.isnan(deviation)
                    continue
                variance = squares / (len(elements) - correction)
                assert value == pytest.approx(variance, rel=1e-6, abs=1e-9 * scale**2)
                assert deviation == pytest.approx(math.sqrt(variance), rel=1e-6, abs=1e-4 * scale)

        check()

    def test_of_no_elements(self, client, dtype):
        x = numpy.empty((0, 3), dtype)
        assert client.sum(x) == 0 and client.prod(x) == 1


@pytest.mark.parametrize("dtype", FLOATING, ids=str)
@pytest.mark.parametrize("name", ["min", "max", "sum", "prod", "mean", "var", "std"])
def test_nan_is_kept(client, name, dtype):
    assert math.isnan(getattr(client, name)(numpy.array([1, math.nan, 2], dtype)))


class TestByContract:
    """What the package returns differently from the standard, on purpose (docs/python.md)."""

    def test_floats_are_summed_and_answered_as_float64(self, client):
        x = numpy.ones(3, "float32")
        for name in ("sum", "prod", "mean", "var", "std"):
            assert getattr(client, name)(x).dtype == numpy.float64

    def test_overflow_is_an_error_where_the_standard_leaves_it_open(self, client):
        with pytest.raises(OverflowError):
            client.sum(numpy.array([2**63 - 1, 1]))

    def test_the_mean_of_no_elements_is_an_error_instead_of_nan(self, client):
        for name in ("mean", "var", "std"):
            with pytest.raises(ValueError):
                getattr(client, name)(numpy.empty(0))

    def test_what_no_correction_leaves_is_nan(self, client):
        for correction in (2, 2.5, 3):  # NumPy divides by 0 and returns infinity
            assert math.isnan(client.var(numpy.array([1.0, 2.0]), correction=correction))
