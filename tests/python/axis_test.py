# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""axis= and keepdims= compared with NumPy's: values, types and shapes of every method that has them."""

import asyncio
import itertools

import ml_dtypes
import numpy
import pytest

import warpfold
from conftest import Server
from methods_test import sample
from warpfold import aio, errors

METHODS = ("sum", "prod", "min", "max", "argmin", "argmax", "mean", "var", "std", "any", "all",
           "count_nonzero")
X = sample("int32", (7, 30, 11))


def expected(name, array, axis, keepdims):
    # In float64, in which the server computes; NumPy stays in the element type.
    of = array.astype("float64") if array.dtype.kind == "f" and "arg" not in name else array
    return numpy.asarray(getattr(numpy, name)(of, axis=axis, keepdims=keepdims))


@pytest.mark.parametrize("axis", [0, 1, 2, -1, -3, (0, 1), (1, 2), (0, 2), (2, 0), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_shapes_are_numpys(client, axis, keepdims):
    got = client.sum(X, axis, keepdims=keepdims)
    want = X.sum(axis, keepdims=keepdims)
    assert numpy.shape(got) == want.shape and got.dtype == "int64"
    numpy.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("dtype", ["int8", "uint64", "float16", "float32", "float64", "bool"])
def test_values_are_numpys(client, name, dtype):
    array = sample(dtype, (6, 5, 4))
    if (name, dtype) == ("prod", "uint64"):
        array %= 2  # so that the product of all fits in 64 bits
    for axis, keepdims in itertools.product(range(3), (False, True)):
        got = getattr(client, name)(array, axis, keepdims=keepdims)
        flat = getattr(client, name)(array)
        want = expected(name, array, axis, keepdims)
        assert got.shape == want.shape and got.dtype == flat.dtype, (axis, got.dtype)
        rtol = 1e-3 if dtype == "float16" else 1e-6
        numpy.testing.assert_allclose(got.astype("float64"), want.astype("float64"), rtol=rtol, atol=rtol)


@pytest.mark.parametrize("cut", [lambda x: x, lambda x: x.T, lambda x: x[::-2, :, ::3], lambda x: x[:, 5:6],
                                 lambda x: numpy.broadcast_to(x[0], (3, 30, 11)), numpy.asfortranarray])
def test_the_bits_of_a_call_for_each(client, cut):
    array = cut(numpy.random.default_rng(3).lognormal(0, 20, (7, 30, 11)))
    for axis in range(3):
        got = client.sum(array, axis)
        rows = numpy.moveaxis(array, axis, -1)
        for place in numpy.ndindex(got.shape):
            assert got[place] == client.sum(numpy.ascontiguousarray(rows[place]))


def test_norms(client):
    array = numpy.random.default_rng(4).normal(size=(20, 30))
    for of in (None, 1, 2, numpy.inf):
        got = client.norm(array, of, axis=0)
        numpy.testing.assert_allclose(got, numpy.linalg.norm(array, of, axis=0))
        assert got.dtype == "float64"


@pytest.mark.parametrize("name", ["max_abs", "sum_of_squares", "exact_sum", "logsumexp", "bit_and", "bit_or",
                                  "bit_xor", "first", "last"])
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float64"])
def test_operators_that_numpy_does_not_have(client, name, dtype):
    """The bits and the type of a call for each row."""
    is_float = dtype.startswith("float")
    if is_float if name.startswith("bit_") else not is_float and name in ("exact_sum", "logsumexp"):
        return
    array, method = sample(dtype, (6, 5, 4)), getattr(client, name)
    for axis, keepdims in itertools.product((0, 1, 2, (0, 2)), (False, True)):
        got = method(array, axis, keepdims=keepdims)
        axes = axis if isinstance(axis, tuple) else (axis,)
        rows = numpy.moveaxis(array, axes, range(-len(axes), 0))
        rows = rows.reshape(-1, array.size // got.size)
        want = numpy.array([method(row) for row in rows])
        assert got.dtype == want.dtype and got.shape == array.sum(axis, keepdims=keepdims).shape
        assert got.tobytes() == want.tobytes()
        out = numpy.zeros_like(got)
        assert method(array, axis, keepdims=keepdims, out=out) is out and out.tobytes() == got.tobytes()
    assert method(array, keepdims=True).shape == (1, 1, 1)
    with client.put(array) as kept:
        assert getattr(kept, name)(axis=-1).tobytes() == method(array, -1).tobytes()


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint32", "float16", "float64"])
def test_results_with_fields(client, dtype):
    """Each field is an array, with the values and the type of a call for each row."""
    array = sample(dtype, (6, 5, 4))
    for name, options in (("minmax", {}), ("describe", {"ddof": 1})):
        method = getattr(client, name)
        for axis, keepdims in itertools.product((0, 1, -1), (False, True)):
            got = method(array, axis, keepdims=keepdims, **options)
            rows = numpy.moveaxis(array, axis, -1).reshape(-1, array.shape[axis])
            wanted = [method(row, **options) for row in rows]
            for field in got._fields:
                want, values = numpy.array([getattr(row, field) for row in wanted]), getattr(got, field)
                assert values.shape == array.sum(axis, keepdims=keepdims).shape, field
                assert values.dtype == want.dtype and values.tobytes() == want.tobytes(), field
    with client.put(array) as kept:
        numpy.testing.assert_array_equal(kept.describe(axis=2).max, array.max(2))
    assert client.minmax(array, keepdims=True).max.shape == (1, 1, 1)
    with pytest.raises(errors.InvalidArgumentError, match="EMPTY_ARRAY"):
        client.describe(array[:, :0], axis=1)
    assert client.describe(array[:0], axis=1).count.shape == (0, 4)
    with pytest.raises(errors.OutOfRangeError):
        client.describe(numpy.full((3, 2), 2**62), axis=1)


def test_bfloat16(client):
    array = sample("float32", (5, 6)).astype(ml_dtypes.bfloat16)
    got = client.max(array, axis=1)
    assert got.dtype == array.dtype
    numpy.testing.assert_array_equal(got.astype("float32"), array.astype("float32").max(axis=1))


def test_options(client):
    array = numpy.array([[1.0, numpy.nan], [numpy.nan, 5.0]])
    numpy.testing.assert_array_equal(client.max(array, 0, nan="ignore"), [1.0, 5.0])
    numpy.testing.assert_array_equal(client.var(X, 1, ddof=1), client.var(X, axis=1, correction=1))
    sent = []
    big = numpy.ones((1000, 1000))
    client.sum(big, 0, progress=lambda done, total: sent.append((done, total)), checksum=True, timeout=60)
    assert sent[-1] == (big.nbytes, big.nbytes)


def test_empty_axes_and_empty_arrays(client):
    assert client.sum(numpy.empty((3, 0)), axis=1).tolist() == [0, 0, 0]
    assert client.sum(numpy.empty((0, 3)), axis=1).shape == (0,)
    assert client.sum(numpy.empty((0, 3), "int8"), axis=0).tolist() == [0, 0, 0]
    with pytest.raises(ValueError):
        client.max(numpy.empty((3, 0)), axis=1)
    with pytest.raises(errors.OutOfRangeError):
        client.sum(numpy.full((3, 2), 2**62), axis=1)
    numpy.testing.assert_array_equal(client.sum(numpy.full((1, 2), 2**62), axis=1, overflow="wrap"), [-2**63])


@pytest.mark.parametrize("shape", [(2**20, 0), (2**40, 0), (2**62, 0), (0, 2**62)])
def test_many_rows_of_no_elements(client, shape):
    """Their values, or a list of the rows, may need more memory than there is."""
    x = numpy.zeros(shape, "int8")

    def outcome(of):
        try:
            values = of.sum(x, axis=1)
        except (MemoryError, ValueError) as error:
            return type(error), str(error)
        return values.shape, values.dtype, values.flags.writeable, int(values.sum())

    assert outcome(client) == outcome(numpy)
    if len(x) > 0:
        with pytest.raises(errors.InvalidArgumentError, match="EMPTY_ARRAY"):
            client.max(x, axis=1)


def test_what_is_refused(client):
    with pytest.raises(numpy.exceptions.AxisError):
        client.sum(X, axis=3)
    with pytest.raises(ValueError, match="duplicate"):
        client.sum(X, axis=(1, -2))
    with pytest.raises(TypeError):
        client.sum(X, axis=1.5)
    with pytest.raises(TypeError, match="one axis"):
        client.argmax(X, axis=(0, 1))
    with pytest.raises(TypeError, match="no axes"):
        client.sum(iter([X, X]), axis=0)
    for axis in (True, (0, True), numpy.True_, [0]):
        with pytest.raises(TypeError):
            client.sum(X, axis=axis)


@pytest.mark.parametrize("name", METHODS)
@pytest.mark.parametrize("shape", [(), (0, 0), (0, 0, 3)])
@pytest.mark.parametrize("axis", [0, -1, 1, (), (0,), True])
@pytest.mark.filterwarnings("ignore:.*(empty slice|Degrees|invalid value):RuntimeWarning")
def test_axes_of_scalars_and_of_nothing(client, name, shape, axis):
    def outcome(of):
        try:
            value = getattr(of, name)(numpy.zeros(shape), axis=axis)
        except (ValueError, TypeError) as error:  # an AxisError is a ValueError, too
            return next(kind for kind in (numpy.exceptions.AxisError, ValueError, TypeError)
                        if isinstance(error, kind))
        return numpy.shape(value), numpy.asarray(value).tolist()

    if name.startswith("arg") and isinstance(axis, tuple):
        pytest.skip("takes one axis, which NumPy finds out later")
    got, want = outcome(client), outcome(numpy)
    if axis is True:
        want = TypeError  # even if NumPy takes it for 1, and misses that axis
    # NumPy returns NaN, with a warning, if a mean has no elements.
    assert got == want or (got is ValueError and "nan" in str(want))


@pytest.mark.parametrize("call", [
    lambda client, axis: client.sum(numpy.full((3, 4), 2**62), axis),
    lambda client, axis: client.prod(numpy.full((4, 4), 2**62), axis),
    lambda client, axis: client.argmin(numpy.full((3, 4), numpy.nan), axis, nan="ignore"),
    lambda client, axis: client.mean(numpy.ones((0, 4)), axis),
    lambda client, axis: client.max(numpy.ones((0, 4)), axis),
    lambda client, axis: client.min(numpy.ones((0, 0)), axis),
    lambda client, axis: client.minmax(numpy.ones((0, 0)), axis),
    lambda client, axis: client.first(numpy.ones((0, 0)), axis),
    lambda client, axis: client.last(numpy.ones((0, 0)), axis),
    lambda client, axis: client.describe(numpy.ones((0, 0)), axis)])
def test_errors_say_what_those_without_axes_say(client, call):
    with pytest.raises(errors.WarpfoldError) as whole:
        call(client, None)
    with pytest.raises(type(whole.value)) as along:
        call(client, 0)
    assert (along.value.code, along.value.reason) == (whole.value.code, whole.value.reason)
    assert along.value.fields == whole.value.fields and "operator" in whole.value.fields
    if whole.value.reason == "EMPTY_ARRAY":
        assert str(along.value) == str(whole.value)


def test_what_has_an_index_is_an_axis(client):
    class Last:
        def __index__(self):
            return -1

    assert client.sum(X, Last()).tolist() == client.sum(X, (Last(),)).tolist() == X.sum(-1).tolist()
    assert client.sum(numpy.array(3), Last()) == client.sum(numpy.array(3), numpy.int8(0)) == 3


def test_kept_arrays(client):
    with client.put(X) as kept:
        numpy.testing.assert_array_equal(kept.sum(axis=2), X.sum(axis=2))
        numpy.testing.assert_array_equal(kept[2:5].argmax(axis=-1), X[2:5].argmax(axis=-1))
        numpy.testing.assert_array_equal(client.max(kept, axis=(1, 2), keepdims=True),
                                         X.max(axis=(1, 2), keepdims=True))
        with pytest.raises(ValueError, match="last axes"):
            kept.sum(axis=0)
    with pytest.raises(errors.NotFoundError):
        kept.sum(axis=2)


def test_shared_memory(tmp_path):
    with Server(f"--memory_socket={tmp_path}/socket") as server, \
            warpfold.connect(server.address, memory_socket=tmp_path / "socket") as client:
        shared = client.empty((50, 40), "float32")
        shared[:] = sample("float32", (50, 40))
        for axis in (0, 1):
            numpy.testing.assert_array_equal(client.max(shared, axis), shared.max(axis))


def test_asyncio(server):
    async def ask():
        async with aio.connect(server.address) as client:
            return await asyncio.gather(*(client.sum(X, axis) for axis in range(3)))

    for axis, got in enumerate(asyncio.run(ask())):
        numpy.testing.assert_array_equal(got, X.sum(axis))
