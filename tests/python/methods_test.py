# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Every method compared with the NumPy reduction of its name: values, types, shapes, options."""

import asyncio
import math
import pathlib
import re

import numpy
import pytest

import warpfold

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
SHAPES = ((1,), (7,), (1000,), (3, 5), (40, 50, 6), (1, 1, 1), ())
_TABLE = pathlib.Path(__file__).resolve().parents[2] / "docs/operators.md"


def sample(dtype, shape, seed=1):
    random = numpy.random.default_rng(seed)
    if dtype == "bool":
        return random.integers(0, 2, shape).astype(bool)
    if dtype in INTEGERS:
        return random.integers(0 if dtype.startswith("u") else -100, 100, shape).astype(dtype)
    return numpy.asarray(random.normal(0, 3, shape)).astype(dtype)


def wide(dtype):
    return "uint64" if dtype.startswith("u") else "float64" if dtype in FLOATS else "int64"


def same(got, expected, dtype, rtol=0.0):
    assert got.dtype == numpy.dtype(dtype)
    assert got.shape == ()
    numpy.testing.assert_allclose(got, expected, rtol=rtol, atol=rtol)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", (*INTEGERS, *FLOATS, "bool"))
class TestBesideNumpy:

    def test_sum(self, client, dtype, shape):
        x = sample(dtype, shape)
        same(client.sum(x), x.sum(dtype=wide(dtype)), wide(dtype), 1e-12)

    def test_prod(self, client, dtype, shape):
        x = sample(dtype, shape) | 1 if dtype in INTEGERS else sample(dtype, shape)
        if dtype in INTEGERS and x.size > 7:
            assert client.prod(x, overflow="wrap").dtype == wide(dtype)
            return
        same(client.prod(x), x.prod(dtype=wide(dtype)), wide(dtype), 1e-12)

    def test_extremes(self, client, dtype, shape):
        x = sample(dtype, shape)
        same(client.min(x), x.min(), dtype)
        same(client.max(x), x.max(), dtype)
        assert client.minmax(x) == (x.min(), x.max())
        same(client.argmin(x), x.argmin(), "int64")
        same(client.argmax(x), x.argmax(), "int64")

    def test_moments(self, client, dtype, shape):
        x, y = sample(dtype, shape), sample(dtype, shape).astype("float64")
        same(client.mean(x), y.mean(), "float64", 1e-12)
        same(client.var(x), y.var(), "float64", 1e-12)
        same(client.std(x), y.std(), "float64", 1e-12)
        if x.size > 2:
            same(client.var(x, ddof=2), y.var(ddof=2), "float64", 1e-12)
            same(client.std(x, correction=1), y.std(ddof=1), "float64", 1e-12)

    def test_truth(self, client, dtype, shape):
        x = sample(dtype, shape)
        same(client.any(x), x.any(), "bool")
        same(client.all(x), x.all(), "bool")
        same(client.count_nonzero(x), numpy.count_nonzero(x), "int64")

    def test_norms(self, client, dtype, shape):
        x, y = sample(dtype, shape), sample(dtype, shape).astype("float64").reshape(-1)
        for ord_ in (None, 1, 2, math.inf):
            same(client.norm(x, ord_), numpy.linalg.norm(y, ord_), "float64", 1e-12)
        same(client.max_abs(x), abs(y).max(), "float64" if dtype in FLOATS else "uint64")
        same(client.sum_of_squares(x), (y * y).sum(), wide(dtype), 1e-12)

    def test_ends(self, client, dtype, shape):
        x = sample(dtype, shape)
        same(client.first(x), x.reshape(-1)[0], dtype)
        same(client.last(x), x.reshape(-1)[-1], dtype)


@pytest.mark.parametrize("dtype", (*INTEGERS, "bool"))
def test_bits(client, dtype):
    x = sample(dtype, (50,))
    same(client.bit_and(x), numpy.bitwise_and.reduce(x), dtype)
    same(client.bit_or(x), numpy.bitwise_or.reduce(x), dtype)
    same(client.bit_xor(x), numpy.bitwise_xor.reduce(x), dtype)


@pytest.mark.parametrize("dtype", FLOATS)
def test_floats_alone(client, dtype):
    x = sample(dtype, (1000,))
    same(client.exact_sum(x), math.fsum(x.astype("float64")), "float64")
    same(client.logsumexp(x), numpy.log(numpy.exp(x.astype("float64")).sum()), "float64", 1e-13)


def test_composite_answers(client):
    x = numpy.array([3, -5, 4, 2, -9, 6], dtype="int16")
    described = client.describe(x, ddof=1)
    assert isinstance(described, warpfold.Description)
    assert described == (6, -9, 6, 1, numpy.mean(x), pytest.approx(x.var(ddof=1)))
    assert [field.dtype.name for field in described] == ["int64", "int16", "int16", "int64", "float64",
                                                         "float64"]
    part = client.max_subarray_sum(x)
    assert part == (6, 2, 4)
    assert x[part.begin:part.end].sum() == 6
    assert client.max_subarray_sum(numpy.array([1.0, math.nan])).begin is None


def test_matrices(client):
    x = sample("int64", (9, 3, 3))
    product = numpy.eye(3, dtype="int64")
    for matrix in x:
        product @= matrix
    assert (client.matrix_product(x) == product).all()
    assert (client.matrix_product(x, modulus=7) == product % 7).all()
    assert client.affine_compose(numpy.array([[2, 1], [3, 4]])).tolist() == [[6, 7]]
    result = client.reduce(x, ["sum", "max", "all"], matrix=True)
    for operator, expected in (("sum", x.sum(0)), ("max", x.max(0)), ("all", x.all(0))):
        assert (result[operator] == expected).all()
        assert result[operator].dtype == expected.dtype


def test_nan_policy(client):
    x = numpy.array([1.0, math.nan, 3.0])
    assert math.isnan(client.sum(x)) and client.sum(x, nan="ignore") == numpy.nansum(x)
    assert client.argmax(x) == x.argmax() == 1 and client.argmax(x, nan="ignore") == numpy.nanargmax(x)
    assert client.mean(x, nan="ignore") == numpy.nanmean(x)


@pytest.mark.parametrize("call", [
    lambda client, x: client.sum(x), lambda client, x: client.sum(x, 0), lambda client, x: client.prod(x, 1),
    lambda client, x: client.reduce(x, ["sum"])["sum"], lambda client, x: client.sum_of_squares(iter([x]))])
def test_overflow_names_the_option_that_goes_on(client, call):
    with pytest.raises(OverflowError, match=r'does not fit.*; overflow="wrap" would .* modulo 2\*\*bits'):
        call(client, numpy.full((2, 2), 2**62))
    with pytest.raises(OverflowError, match=r"max_subarray_sum.* 64 bits$"):
        client.max_subarray_sum(numpy.full(2, 2**62))


def test_overflow_policy(client):
    x = numpy.array([2**63 - 1, 1])
    with pytest.raises(OverflowError):
        client.sum(x)
    assert client.sum(x, overflow="wrap") == -2**63
    with pytest.raises(OverflowError):
        client.sum(x, overflow="error")


def test_overflow_is_refused_where_operators_wrap_only_if_it_is_named(client, server):
    x = numpy.full((3, 2, 2), 2**31 - 1, "int32")
    pairs = x.reshape(-1, 1, 2)
    for array, name in ((x, "matrix_product"), (pairs, "affine_compose")):
        value = client.reduce(array, [name], matrix=True)[name]
        for overflow in (None, "wrap"):
            assert (client.reduce(array, [name], matrix=True, overflow=overflow)[name] == value).all()
        for method in (client.reduce, client.partial):
            with pytest.raises(ValueError, match="wrap: they report no overflow") as raised:
                method(array, [name], matrix=True, overflow="error")
            assert raised.value.reason == "BAD_HEADER"
            # A value that is computed modulo a number does not overflow.
            assert method(array, [name], matrix=True, overflow="error", modulus=7) is not None
        assert client.reduce(array.astype("float32"), [name], matrix=True, overflow="error")[name].size

    async def awaited():
        async with warpfold.aio.connect(server.address) as loop:
            return await loop.reduce(x, ["matrix_product"], matrix=True, overflow="error")

    with pytest.raises(ValueError, match="wrap: they report no overflow"):
        asyncio.run(awaited())


@pytest.mark.parametrize("shape", ((4,), (2, 3), ()))
def test_keepdims(client, shape):
    x = sample("float32", shape)
    for name in ("sum", "max", "argmax", "mean", "var", "any", "norm"):
        kept = getattr(client, name)(x, keepdims=True)
        assert kept.shape == (1,) * len(shape)
        assert kept.reshape(()) == getattr(client, name)(x)


def test_keepdims_of_a_number(client):
    for axis in (None, ()):
        got = client.sum(numpy.array(5.0), axis, keepdims=True)
        assert type(got) is type(numpy.sum(numpy.array(5.0), axis, keepdims=True)) is numpy.float64


def test_several_in_one_pass(client):
    x = sample("float32", (1000,))
    result = client.reduce(x, ["min", "argmax", "variance"])
    assert dict(result) == {"min": x.min(), "argmax": x.argmax(),
                            "variance": pytest.approx(x.astype("float64").var())}
    assert result.outcomes["argmax"].element == x.max()
    assert result.element_count == 1000 and result.way == "memory" and result.timings.total > 0
    assert result.device.startswith(result.backend)
    assert "argmax=" in repr(result) and "1000 float32" in repr(result)


def test_one_of_several_fails(client):
    result = client.reduce(numpy.array([2**62, 2**62]), ["sum", "max"])
    assert result["max"] == 2**62
    error = result.outcomes["sum"].error
    assert (error.reason, error.fields) == ("OVERFLOW", {"operator": "sum"})
    with pytest.raises(OverflowError):
        result["sum"]


def test_every_operator_has_a_method(client):
    rows = re.findall(r"^\| (\w+) \|", _TABLE.read_text(encoding="utf-8"), re.MULTILINE)
    operators = [name for name in rows if name != "operator"]
    assert sorted(operators) == sorted(warpfold.operator_names())
    named = {"product": "prod", "variance": "var", "stddev": "std", "l1_norm": "norm", "l2_norm": "norm"}
    for operator in operators:
        method = getattr(warpfold.Client, named.get(operator, operator))
        # package_test.py checks the rest of them.
        assert len(method.__doc__.splitlines()[0]) > 20, operator
    scalars = [name for name in operators if name not in ("matrix_product", "affine_compose", "logsumexp",
                                                          "exact_sum")]
    x = sample("int32", (5,))
    for begin in range(0, len(scalars), 16):
        result = client.reduce(x, scalars[begin:begin + 16])
        assert all(outcome.error is None for outcome in result.outcomes.values())


def test_empty_arrays(client):
    x = numpy.empty(0, "int32")
    assert (client.sum(x), client.prod(x), client.all(x), client.any(x)) == (0, 1, True, False)
    for name in ("min", "max", "argmin", "mean", "var", "first", "describe"):
        with pytest.raises(ValueError) as raised:
            getattr(client, name)(x)
        assert raised.value.reason == "EMPTY_ARRAY"


def test_info(client):
    info = client.info(timeout=60)
    assert info["backend"] in ("cpu", "cuda") and "float32" in info["operators"]["sum"]["scalars"]
    limits = info["limits"]
    assert limits["max_matrix_dimension"] == 32 and limits["max_first_byte"] >= limits["max_stream_bytes"]
    # What the server says of kept arrays, too: how much of them there may be, and for how long.
    assert limits["default_time_to_live_seconds"] <= limits["max_time_to_live_seconds"] == 86400
    assert 0 <= limits["resident_owner_bytes"] <= limits["resident_bytes"]
    assert limits["slots"] >= 1 and limits["leaf_bytes"] == 4096
    assert client.is_serving()
