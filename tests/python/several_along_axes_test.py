# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""reduce with axis= and keepdims=: the values, types and errors of each operator's own method."""

import asyncio
import itertools

import numpy
import pytest

import warpfold
from conftest import OnGpu, Server
from gpu_memory_test import SETTINGS, Connection, Driver
from methods_test import FLOATS, INTEGERS, sample
from segments_test import fields_of, in_array, operators_of
from warpfold import _native, aio, arrays, errors, gpu

METHODS = {"product": "prod", "variance": "var", "stddev": "std"}
X = sample("int32", (7, 30, 11))
WITH_AN_ERROR = numpy.array([[1, 2, 3], [2**62, 2**62, 1], [4, 5, 6]])


def by_method(client, array, name, axis, keepdims):
    """The value that the operator's own method returns."""
    if name in ("l1_norm", "l2_norm"):
        return client.norm(array, 1 if name == "l1_norm" else 2, axis, keepdims=keepdims)
    return getattr(client, METHODS.get(name, name))(array, axis, keepdims=keepdims)


def same(got, want):
    for one, other in zip(*(each if isinstance(each, tuple) else (each,) for each in (got, want)),
                          strict=True):
        assert type(one) is type(other) and one.dtype == other.dtype and one.shape == other.shape
        assert one.tobytes() == other.tobytes()


def check(client, array, operators, axis, keepdims=False, of=None):
    """The Result, of which each value is that of the method for the array; `of` is another form of it."""
    result = client.reduce(array if of is None else of, operators, axis, keepdims=keepdims)
    assert list(result) == list(operators) and result.element_count == numpy.size(array)
    for name, outcome in result.outcomes.items():
        try:
            want = by_method(client, array, name, axis, keepdims)
        except errors.WarpfoldError as error:
            assert outcome.value is None
            assert (outcome.error.reason, outcome.error.fields) == (error.reason, error.fields)
            with pytest.raises(type(error)):
                result[name]
        else:
            same(result[name], want)
    return result


@pytest.mark.parametrize("dtype", (*INTEGERS, *FLOATS, "bool"))
@pytest.mark.parametrize("axis", [0, 1, -1, (0, 2), (), (0, 1, 2)])
def test_each_value_is_that_of_the_method(client, dtype, axis):
    x = sample(dtype, (6, 5, 4))
    for operators, keepdims in itertools.product(operators_of(dtype), (False, True)):
        names = [name for name in operators if name != "max_subarray_sum"
                 and not (name.startswith("arg") and isinstance(axis, tuple))]
        check(client, x, names, axis, keepdims)


@pytest.mark.parametrize("dtype", ["int8", "float32"])
def test_what_a_single_array_has(client, dtype):
    """The elements at the indices, and the operator whose method has no axis, have the bits of a call for
    each row."""
    x = sample(dtype, (6, 5, 4))
    if dtype == "float32":
        x[2, 3, 1] = numpy.nan
    operators = ["argmin", "max_subarray_sum", "argmax"]
    for axis, keepdims in itertools.product((0, 1, 2), (False, True)):
        result = client.reduce(x, operators, axis, keepdims=keepdims)
        rows = numpy.moveaxis(x, axis, -1).reshape(-1, x.shape[axis])
        alone = [client.reduce(row, operators).outcomes for row in rows]
        for name, outcome in result.outcomes.items():
            for got, *of_each in zip(fields_of(outcome), *(fields_of(row[name]) for row in alone),
                                     strict=True):
                if got is not None:
                    want = in_array(of_each)
                    assert got.shape == x.sum(axis, keepdims=keepdims).shape and got.dtype == want.dtype
                    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("cut", [lambda x: x.T, lambda x: x[::-2, :, ::3], numpy.asfortranarray,
                                 lambda x: x[:0], lambda x: x[:, :0], lambda x: x[:0, :0]])
def test_strides_and_arrays_without_elements(client, cut):
    x = cut(X)
    for axis, keepdims in itertools.product((0, 1, 2), (False, True)):
        check(client, x, ["sum", "max", "mean", "describe", "any"], axis, keepdims)


def test_kept_dimensions_without_axes(client):
    result = client.reduce(X, ["sum", "argmax", "minmax", "max_subarray_sum"], keepdims=True)
    assert result["sum"].shape == result["minmax"].max.shape == result["max_subarray_sum"].end.shape \
        == result.outcomes["argmax"].element.shape == (1, 1, 1)
    same(result["argmax"], client.argmax(X, keepdims=True))
    none = client.reduce([numpy.nan, 1.0], ["max_subarray_sum"], keepdims=True)["max_subarray_sum"]
    assert none.begin.tolist() == none.end.tolist() == [-1]
    kept = client.reduce(WITH_AN_ERROR, ["sum", "max"], keepdims=True)
    assert kept["max"].tolist() == [[2**62]] and kept.outcomes["sum"].error.reason == "OVERFLOW"


def test_an_operator_without_a_value_at_one_position(client):
    result = check(client, WITH_AN_ERROR, ["sum", "product", "max", "argmin"], 1)
    assert {name for name, one in result.outcomes.items() if one.error is not None} == {"sum", "product"}
    assert result["max"].tolist() == [3, 2**62, 6]
    with pytest.raises(OverflowError, match="product"):
        client.reduce(WITH_AN_ERROR, ["product", "sum"], 1)
    assert client.reduce(WITH_AN_ERROR, ["sum"], 1, overflow="wrap")["sum"][1] == -2**63 + 1
    assert client.reduce(WITH_AN_ERROR, ["variance"], 1, ddof=1)["variance"][0] == 1
    x = numpy.array([[1.0, numpy.nan], [numpy.nan, numpy.nan]])
    result = client.reduce(x, ["argmax", "sum"], 1, nan="ignore")
    assert result["sum"].tolist() == [1, 0] and result.outcomes["argmax"].error.reason == "EMPTY_ARRAY"


def test_operators_without_a_value_where_nothing_is(client):
    """There is no segment for which the server could report this. docs/python.md names these operators."""
    without = ["min", "max", "minmax", "argmin", "argmax", "first", "last", "describe"]
    result = client.reduce(numpy.empty((0, 0)), ["sum", "mean", *without], 0)
    assert result["sum"].shape == result["mean"].shape == (0,)
    for name in without:
        with pytest.raises(errors.InvalidArgumentError, match=rf"EMPTY_ARRAY.*{name} of no elements"):
            result[name]
    with warpfold.connect("127.0.0.1:1") as nowhere, \
            pytest.raises(errors.InvalidArgumentError, match="max of no elements"):
        nowhere.reduce(numpy.empty((0, 0)), ["max", "min"], 0)


@pytest.mark.parametrize("call, kind, words", [
    (lambda client: client.reduce(X, ["sum"], 3), numpy.exceptions.AxisError, "out of bounds"),
    (lambda client: client.reduce(X, ["sum"], (0, 0)), ValueError, "duplicate"),
    (lambda client: client.reduce(X, ["sum"], 1.5), TypeError, "integer"),
    (lambda client: client.reduce(X, ["sum"], True), TypeError, "not a bool"),
    (lambda client: client.reduce(X, ["sum"], numpy.True_), TypeError, "not a bool"),
    (lambda client: client.reduce(X, ["sum"], (numpy.False_, 1)), TypeError, "not a bool"),
    (lambda client: client.reduce(X, ["sum", "argmax"], (0, 1)), TypeError, "argmax takes one axis"),
    (lambda client: client.reduce(numpy.array(1), ["sum", "mean"], 0), numpy.exceptions.AxisError, "bounds"),
    (lambda client: client.reduce(iter([X]), ["sum"], 0), TypeError, "no axes"),
    (lambda client: client.reduce(iter([X]), ["sum"], keepdims=True), TypeError, "no dimensions"),
    (lambda client: client.reduce(X, ["sum"], 0, keepdims=1), TypeError, "keepdims"),
    (lambda client: client.reduce(X, ["sum"], 0, matrix=True), ValueError, "matrix= cannot be combined"),
    (lambda client: client.reduce(X, ["sum"], matrix=True, keepdims=True), ValueError, "matrix= cannot"),
    (lambda client: client.reduce(X, ["sum"], 0, algorithm="last_block"), ValueError, "algorithm= cannot"),
    (lambda client: client.reduce(X, ["sum"], 0, modulus=7), ValueError, "modulus"),
    (lambda client: client.reduce(X, ["matrix_product"], 0), ValueError, "matrices"),
    (lambda client: client.reduce(X, ["sum"], 0, streams=2), ValueError, "one stream"),
    (lambda client: client.reduce(X, ["sum"], 0, out=X), TypeError, "out"),
    (lambda client: client.reduce(X, [], 0), ValueError, "1 to 16"),
    (lambda client: client.reduce(X, ["sum"] * 2, 0), ValueError, "twice")])
def test_what_is_refused(client, call, kind, words):
    with pytest.raises(kind, match=words):
        call(client)


def test_axes_of_a_scalar(client):
    assert client.reduce(numpy.array(3), ["sum", "argmax"], 0) == {"sum": 3, "argmax": 0}


def test_what_a_result_says(client):
    sent = []
    result = client.reduce(X, ["min", "minmax"], axis=0, timeout=60, checksum=True,
                           progress=lambda *one: sent.append(one))
    assert result.way == "copied" and client.reduce(X, ["min"], -1).way == "memory"
    for axis in (0, (0, 1)):
        assert client.reduce(X.T, ["min"], axis).way == "copied"
    assert client.reduce(X.transpose(2, 0, 1), ["min"], 0).way == "memory"
    assert result.device.startswith(result.backend)
    assert result.timings.total > 0 and sent[-1] == (X.nbytes, X.nbytes) and "min=array(" in repr(result)
    assert result == client.reduce(X, ["min", "minmax"], 0) and result != client.reduce(X, ["min", "minmax"])
    assert result != client.reduce(-X, ["min", "minmax"], 0)


def test_kept_arrays(client):
    with client.put(X) as kept:
        assert check(client, X, ["sum", "argmax", "minmax"], -1, of=kept).way == "resident"
        check(client, X[2:5], ["sum", "describe"], (1, 2), True, of=kept[2:5])
        same(kept.reduce(["max"], axis=2, keepdims=True)["max"], X.max(axis=2, keepdims=True))
        with pytest.raises(ValueError, match="last axes"):
            kept.reduce(["sum", "max"], 0)
    with pytest.raises(errors.NotFoundError):
        kept.reduce(["sum"], 2)


def test_shared_memory(tmp_path):
    with Server(f"--memory_socket={tmp_path}/socket") as server, \
            warpfold.connect(server.address, memory_socket=tmp_path / "socket") as client:
        shared = client.empty((50, 40), "float32")
        shared[:] = sample("float32", (50, 40))
        for axis, way in ((0, "copied"), (1, "shared memory"), ((0, 1), "shared memory")):
            assert check(client, shared.copy(), ["sum", "max"], axis, of=shared).way == way


@pytest.mark.parametrize("shape", [(6, 5), (3, 20), (2, 3, 4), (0, 3), (3, 0), (2, 2, 20)])
def test_arrays_on_a_gpu_that_are_copied_part_by_part(client, monkeypatch, shape):
    monkeypatch.setattr(arrays, "PIECE_BYTES", 64)
    x = sample("float64", shape)
    for keepdims in (False, True):
        result = check(client, x, ["sum", "argmax", "minmax", "mean"], -1, keepdims, of=OnGpu(x))
        assert result.way == "staged" and result.timings.total > 0
    with pytest.raises(ValueError, match="last axes"):
        client.reduce(OnGpu(x), ["sum"], 0)


@pytest.mark.parametrize("width", [3, 20])  # several rows to a part, several parts to a row
def test_errors_of_arrays_on_a_gpu_are_kept(client, monkeypatch, width):
    monkeypatch.setattr(arrays, "PIECE_BYTES", 64)
    x = numpy.ones((4, width), "int64")
    x[2] = 2**62
    check(client, x, ["sum", "max"], 1, of=OnGpu(x))
    with pytest.raises(OverflowError):
        client.reduce(OnGpu(x), ["sum", "sum_of_squares"], 1)


def test_arrays_on_the_servers_gpu(near, path, monkeypatch):
    real = _native.MemoryConnection.open(path, SETTINGS, None)
    shared = real.allocate(8_000, False, SETTINGS, None)
    x = shared.bytes().view("float64").reshape(50, 20)
    x[:] = sample("float64", x.shape)
    driver = Driver(shared.address, 8_000)
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    with warpfold.connect(near.address, memory_socket=path) as client:
        client._memory._connection = Connection(real, shared)
        assert check(client, x.copy(), ["sum", "argmin"], 1, of=OnGpu(x)).way == "gpu memory"


def test_asyncio(server):
    async def ask():
        async with aio.connect(server.address) as client:
            with pytest.raises(TypeError, match="keepdims"):
                client.reduce(X, ["sum"], 0, keepdims="no")
            return await asyncio.gather(*(client.reduce(X, ["sum", "argmax"], axis) for axis in range(3)))

    for axis, got in enumerate(asyncio.run(ask())):
        same(got["argmax"], X.argmax(axis))
        numpy.testing.assert_array_equal(got["sum"], X.sum(axis))
