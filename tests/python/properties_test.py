# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Properties over arrays that Hypothesis chooses: any values, shapes, strides and cuts."""

import math

import numpy
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import warpfold
from conftest import Server

INTEGERS = arrays.integer_dtypes(endianness="=") | arrays.unsigned_integer_dtypes(endianness="=")
FLOATS = arrays.floating_dtypes(endianness="=", sizes=(16, 32, 64))
SHAPES = arrays.array_shapes(min_dims=0, max_dims=4, min_side=1, max_side=8)
MANY = settings(max_examples=150, deadline=None, database=None,
                suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])


def strided(data, array):
    """A view of some of the array's elements, in another order."""
    axes = data.draw(st.permutations(range(array.ndim)))
    steps = data.draw(st.tuples(*(st.sampled_from((1, -1, 2, -3)) for _ in axes)))
    return array.transpose(axes)[tuple(slice(None, None, step) for step in steps)]


def bits(value):
    return value.tobytes(), value.dtype


@MANY
@given(data=st.data(), array=arrays.arrays(INTEGERS, SHAPES))
def test_integers_are_exact(client, data, array):
    view = strided(data, array)
    numbers = [int(element) for element in view.reshape(-1)]
    low, high = (0, 2**64) if view.dtype.kind == "u" else (-2**63, 2**63)
    for method, exact in ((client.sum, sum(numbers)), (client.prod, math.prod(numbers))):
        if low <= exact < high:
            assert int(method(view)) == exact
        else:
            with pytest.raises(OverflowError):
                method(view)
    assert (client.min(view), client.max(view)) == (min(numbers), max(numbers))
    assert client.argmin(view) == view.argmin() and client.argmax(view) == view.argmax()


@MANY
@given(data=st.data(), array=arrays.arrays(FLOATS, SHAPES))
def test_floats(client, data, array):
    view = strided(data, array)
    flat = view.reshape(-1).astype("float64")
    assert client.argmax(view) == flat.argmax() and client.argmin(view) == flat.argmin()
    assert numpy.array_equal(client.max(view), flat.max(), equal_nan=True)
    assert client.count_nonzero(view) == numpy.count_nonzero(flat)
    if numpy.isfinite(flat).all():
        try:
            exact = math.fsum(flat)
        except OverflowError:
            return
        assert client.exact_sum(view) == exact
    kept = flat[~numpy.isnan(flat)]
    if kept.size:
        assert client.min(view, nan="ignore") == kept.min()


@MANY
@given(data=st.data(), array=arrays.arrays(FLOATS, st.integers(0, 5000)))
def test_the_same_bits_however_they_come(client, data, array):
    operators = ["sum", "l2_norm", "product"]
    whole = client.reduce(array, operators)
    cuts = sorted(data.draw(st.lists(st.integers(0, array.size), max_size=4)))
    pieces = client.reduce(iter(numpy.split(array, cuts)), operators)
    gaps = client.reduce(numpy.repeat(array, 2)[::2], operators, streams=2)
    for operator in operators:
        assert bits(whole[operator]) == bits(pieces[operator]) == bits(gaps[operator])


@pytest.fixture(scope="module")
def near(tmp_path_factory):
    path = tmp_path_factory.mktemp("socket") / "memory"
    with Server(f"--memory_socket={path}") as server, \
            warpfold.connect(server.address, memory_socket=path) as client:
        yield client


@MANY
@given(data=st.data(), dtype=INTEGERS, shape=SHAPES, before=st.integers(0, 9), behind=st.integers(0, 9))
def test_fields_of_structures_in_shared_memory(near, data, dtype, shape, before, behind):
    """Their elements need not lie at multiples of their size, and a single one is contiguous."""
    record = numpy.dtype([("before", "u1", before), ("field", dtype), ("behind", "u1", behind)])
    memory = near.empty(math.prod(shape) * record.itemsize, "uint8")
    memory[:] = numpy.random.default_rng(5).integers(0, 256, memory.size)
    view = strided(data, memory.view(record)["field"].reshape(shape))
    result = near.reduce(view, ["bit_xor", "argmax"])
    assert result.element_count == view.size and result["argmax"] == view.argmax()
    assert result["bit_xor"] == numpy.bitwise_xor.reduce(view, axis=None)
    for axis in range(view.ndim):
        numpy.testing.assert_array_equal(near.max(view, axis), view.max(axis))
