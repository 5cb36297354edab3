# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""out= along axes: the bits of the same call without it, and whether the server wrote them there itself."""

import asyncio
import functools
import gc

import ml_dtypes
import numpy
import pytest
from numpy.lib.stride_tricks import as_strided

import warpfold
from axis_test import METHODS
from conftest import OnGpu, Server, WithMask
from methods_test import INTEGERS, sample
from warpfold import aio, errors

TYPES = ("int8", "uint8", "int32", "uint64", "int64", "bool", "float16", "float32", "float64")


class Spy:
    """Passes calls on, and counts those whose results the server has written, and those that sent them."""

    def __init__(self, native):
        self.native, self.written, self.sent = native, 0, 0

    def __getattr__(self, name):
        method = getattr(self.native, name)
        if not name.startswith("reduce_segments"):
            return method

        def call(*args):
            answer = method(*args)
            has_place = args[3 if name == "reduce_segments" else 4] is not None
            assert not (has_place and any(values for _, columns, _ in answer[0] for _, values in columns))
            self.written += has_place
            self.sent += not has_place
            return answer

        return call


@pytest.fixture(scope="module")
def beside(path):
    with Server(f"--memory_socket={path}", "--resident_bytes=8388608") as server:
        yield server


@pytest.fixture
def client(beside, path):
    with warpfold.connect(beside.address, memory_socket=path) as client:
        client._native = Spy(client._native)
        yield client


def in_memory(client, array):
    shared = client.empty(array.shape, array.dtype)
    shared[...] = array
    return shared


def check(client, method, array, out, is_written, **options):
    """The method's result in `out` has the bits of its result without."""
    call = functools.partial(getattr(client, method), array, **options)
    want = numpy.asarray(call())
    out[...] = 77
    native = client._native
    written, sent = native.written + is_written, native.sent + (not is_written)
    assert call(out=out) is out
    assert (native.written, native.sent) == (written, sent)
    assert out.shape == want.shape and out.tobytes() == want.astype(out.dtype).tobytes()


@pytest.mark.parametrize("method", (*METHODS, "norm", "max_abs", "first"))
@pytest.mark.parametrize("dtype", TYPES)
def test_the_server_writes_to_memory_of_the_client(client, method, dtype):
    x = sample(dtype, (30, 5, 4))
    if method == "prod" and x.dtype.kind in "iu":
        x %= 2
    is_index = method.startswith("arg")  # beside it the server returns the element
    with client.put(numpy.concatenate([x, x])) as kept:
        for of in (x, numpy.asfortranarray(x), in_memory(client, x), kept, kept[30:]):
            for axis in (0, 1, 2, (1, 2)) if isinstance(of, numpy.ndarray) else (2, (1, 2)):
                if not is_index or axis != (1, 2):
                    like = getattr(client, method)(of, axis=axis)
                    column = {"f": "float64", "u": "uint64"}.get(like.dtype.kind, "int64")
                    check(client, method, of, client.empty(like.shape, column), not is_index, axis=axis)


@pytest.mark.parametrize("axis", [0, 1, 2, -1, (0, 1), (2, 1), (0, 1, 2), ()])
@pytest.mark.parametrize("keepdims", [False, True])
def test_shapes(client, axis, keepdims):
    x = in_memory(client, sample("int32", (6, 5, 4)))
    options = {"axis": axis, "keepdims": keepdims}
    shape = numpy.shape(x.sum(**options))
    check(client, "sum", x, client.empty(shape, "int64"), True, **options)
    check(client, "sum", x, numpy.empty(shape, "int64"), False, **options)
    for other in ((*shape, 1), (1, *shape), (7, *shape[1:]), numpy.shape(x.sum(axis, keepdims=not keepdims))):
        if other != shape:
            with pytest.raises(ValueError, match=r"out must have the shape of the result, \(.*\), not \("):
                client.sum(x, out=client.empty(other, "int64"), **options)


def test_parts_of_memory_and_of_kept_arrays(client):
    with client.put(sample("float32", (30_000, 4))) as kept:
        out = client.empty((2, 30_000))
        check(client, "sum", kept, out[1], True, axis=1)
        assert not out[0].any(), "what lies beside it"
        check(client, "var", kept[1000:], out[1, 1000:], True, axis=1, ddof=1)
    x = sample("float32", (30, 6, 7))
    for out, is_written in ((client.empty((31, 6))[1:], True), (client.empty((6, 30)).T, False),
                            (client.empty((30, 7))[:, 1:], False)):
        check(client, "sum", x, out, is_written, axis=2)


@pytest.mark.parametrize("place", [
    lambda empty: empty(30, "float32"), lambda empty: empty(30).view(">f8"), lambda empty: empty(60)[::2],
    lambda empty: empty(30)[::-1], lambda empty: empty(30 * 8 + 4, "int8")[4:].view("float64"),
    lambda empty: empty(60).view("complex128"), lambda _: numpy.empty(30),
    lambda _: numpy.empty(30, "float32"), lambda _: numpy.empty(30, "float16"),
    lambda _: numpy.empty((30, 2), "float32")[:, 1], lambda _: numpy.empty(30, ">f4")])
def test_other_arrays_take_what_is_sent(client, place):
    check(client, "mean", sample("float32", (30, 7)), place(client.empty), False, axis=1)


@pytest.mark.parametrize("method, dtype, out, is_written", [
    ("min", "int8", "int64", True), ("min", "uint8", "uint64", True), ("min", "uint8", "int64", True),
    ("min", "float16", "float64", True), ("min", "float32", "float64", True), ("max", "bool", "int64", True),
    ("any", "float32", "int64", True), ("any", "int8", "uint64", True), ("any", "int8", "bool", False),
    ("count_nonzero", "int8", "int64", True), ("sum", "bool", "int64", True),
    ("argmax", "int8", "int64", False),
    ("min", "int8", "float64", False), ("any", "int8", "float64", False), ("sum", "int32", "float64", False),
    ("min", "uint64", "int64", False), ("sum", "uint8", "int64", False), ("sum", "int32", "int32", False),
    ("min", "float32", "float32", False), ("norm", "float32", "float64", True),
    ("norm", "int8", "float64", True)])
def test_types(client, method, dtype, out, is_written):
    x = in_memory(client, sample(dtype, (30, 6)))
    check(client, method, x, client.empty(30, out), is_written, axis=1)


def test_values_that_python_converts(client):
    x, y = sample("float32", (30, 6)), sample("int32", (30, 6))
    for of, dtype, out, is_written in ((x, "float64", "float64", True), (x, "float32", "float64", False),
                                       (x, "float32", "float32", False), (x, "float16", "float64", False),
                                       (y, "int64", "int64", True), (y, "int16", "int64", False),
                                       (y, "float64", "float64", False)):
        check(client, "sum", of, client.empty(30, out), is_written, axis=1, dtype=dtype)
    check(client, "sum", bytes(12), client.empty((), "int64"), True, axis=0, dtype="int32")
    check(client, "norm", y, client.empty(30), False, axis=1, ord=numpy.inf)
    with pytest.raises(errors.OutOfRangeError, match="dtype=int8"):
        client.sum(numpy.full((3, 2), 100), axis=1, dtype="int8", out=client.empty(3, "int64"))


def test_special_values(client):
    x = in_memory(client, numpy.array([[numpy.nan, 1], [-numpy.inf, 3], [-0.0, -0.0], [1e-45, 1]], "float32"))
    for method in ("min", "max", "sum", "std"):
        check(client, method, x, client.empty(4), True, axis=1)
        check(client, method, x, client.empty(4), True, axis=1, nan="ignore")
    x = sample("float32", (5, 6)).astype(ml_dtypes.bfloat16)
    for dtype in ("float64", "float32", "bfloat16"):
        check(client, "max", x, client.empty(5, dtype), dtype == "float64", axis=1)


@pytest.mark.parametrize("dtype", INTEGERS)
def test_integers_modulo(client, dtype):
    x = in_memory(client, numpy.full((30, 9), numpy.iinfo(dtype).max, dtype))
    out = client.empty(30, "uint64" if dtype.startswith("u") else "int64")
    check(client, "prod", x, out, True, axis=1, overflow="wrap")


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("method", ["sum", "max", "all", "std"])
def test_types_that_numpy_casts(client, method, dtype):
    x = sample(dtype, (3, 4))
    if x.dtype.kind in "iu":
        x %= 10  # so that sums fit everywhere
    want = getattr(client, method)(x, axis=1)
    for kind in (*TYPES, "float16", "complex64", "O", "U30", ">i8", "M8[s]"):
        calls = client._native.sent + client._native.written
        out, expected = numpy.zeros(3, kind), numpy.zeros(3, kind)
        try:
            numpy.copyto(expected, want, casting="same_kind")
        except TypeError:
            with pytest.raises(TypeError, match=r"out cannot be an array of .*: casting 'same_kind'"):
                getattr(client, method)(x, axis=1, out=out)
            assert client._native.sent + client._native.written == calls, "nothing was asked"
        else:
            assert getattr(client, method)(x, axis=1, out=out).tolist() == expected.tolist()


def test_integers_must_fit(client):
    x = numpy.array([[100, 27], [100, 28]])
    for kind in ("int8", "int32"):
        assert client.sum(x[:1], axis=1, out=client.empty(1, kind)).tolist() == [127]
    with pytest.raises(errors.OutOfRangeError, match="does not fit out, an array of int8") as raised:
        client.sum(x, axis=1, out=client.empty(2, "int8"))
    assert raised.value.reason == "OVERFLOW" and raised.value.fields == {"operator": "sum"}
    large = numpy.full((3, 1), 2**63, "uint64")
    with pytest.raises(OverflowError):
        client.max(large, axis=1, out=client.empty(3, "int64"))
    check(client, "max", large, client.empty(3, "uint64"), True, axis=1)


@pytest.mark.parametrize("method", [*METHODS, "norm"])
def test_what_is_no_output(client, method):
    x = sample("float64", (3, 4))
    read_only = client.empty(3)
    read_only.flags.writeable = False
    for bad, kind, words in (([0.0] * 3, TypeError, "or an array on a GPU, not list"),
                             (3.0, TypeError, "not float"), ((client.empty(3),), TypeError, "not tuple"),
                             (numpy.float64(3), TypeError, "not float64"),
                             (numpy.ma.array([0.0] * 3), TypeError, "without a mask"),
                             (WithMask.of([0.0] * 3, [False] * 3), TypeError, "without a mask"),
                             (read_only, ValueError, "read-only")):
        for axis in (1, None):
            with pytest.raises(kind, match=words):
                getattr(client, method)(x, axis=axis, out=bad)
    assert client._native.sent == client._native.written == 0


def test_without_axes(client):
    """A value without dimensions is one as for NumPy. Methods whose results have fields have no output."""
    x = sample("float32", (3, 4))
    for out in (numpy.zeros(()), client.empty(()), numpy.zeros((), "float32")):
        assert client.sum(x, out=out) is out and out == numpy.asarray(client.sum(x)).astype(out.dtype)
    out = numpy.zeros((1, 1), "int64")
    assert client.argmax(x, keepdims=True, out=out) is out and out[0, 0] == x.argmax()
    with pytest.raises(ValueError, match=r"shape of the result, \(\), not \(1,\)"):
        client.sum(x, out=numpy.zeros(1))
    with pytest.raises(TypeError, match="same_kind"):
        client.sum(x, out=numpy.zeros((), "int64"))
    for call in (client.minmax, client.max_subarray_sum, client.describe):
        with pytest.raises(TypeError, match="no argument out"):
            call(x, out=client.empty(()))
    client._native, out = client._native.native, numpy.zeros(())
    assert client.sum(iter([x, x]), out=out) is out and out == client.sum(iter([x, x]))


@pytest.mark.parametrize("method, array, axis", [
    ("sum", numpy.full((3, 2), 2**62), 1), ("prod", numpy.full((2, 3), 2**62), 0),
    ("mean", numpy.empty((3, 0)), 1), ("max", numpy.empty((3, 0)), 1), ("sum", numpy.empty((3, 2)), 2),
    ("argmin", numpy.empty((3, 2)), (0, 1)), ("argmin", numpy.full((3, 2), numpy.nan), 1)])
def test_errors_are_those_without_it(client, method, array, axis):
    options = {"nan": "ignore"} if array.dtype.kind == "f" else {}
    kind = "float64" if method in ("mean", "max") else "int64"
    with pytest.raises((errors.WarpfoldError, ValueError, TypeError)) as without:
        getattr(client, method)(array, axis, **options)
    for out in (client.empty(3, kind), numpy.empty(3, kind)):
        with pytest.raises(type(without.value)) as raised:
            getattr(client, method)(array, axis, out=out, **options)
        assert str(raised.value) == str(without.value)
        assert getattr(raised.value, "fields", None) == getattr(without.value, "fields", None)
    with pytest.raises(TimeoutError):
        client.sum(numpy.ones((3, 4)), axis=1, out=client.empty(3), timeout=1e-9)


def test_of_nothing(client):
    check(client, "sum", numpy.empty((3, 0)), client.empty(3), False, axis=1)
    check(client, "sum", numpy.empty((0, 3)), client.empty(0), False, axis=1)
    check(client, "sum", numpy.empty((3, 0)), client.empty(0), False, axis=0)
    with client.put(numpy.empty((3, 0))) as kept:
        check(client, "prod", kept, client.empty(3), False, axis=1)


def test_an_output_in_the_array_itself(client):
    for axis in (0, 1):
        x = in_memory(client, sample("float64", (50, 50)))
        want = client.sum(x, axis)
        assert client.sum(x, axis, out=x[7]).tobytes() == want.tobytes()
    assert client._native.written == 0
    client.sum(x[:10], axis=0, out=x[10])
    client.sum(memoryview(x[11:20]), axis=0, out=x[10])
    client.sum(memoryview(x[:10]), axis=0, out=x[10])
    assert client._native.written == 3, "they lie beside each other"


def test_an_output_in_memory_of_an_array_that_is_not_numpys(client):
    class Interface:
        def __init__(self, array):
            self.array = array  # it has the memory
            self.__array_interface__ = array.__array_interface__

    for of in (memoryview, Interface):
        x = in_memory(client, sample("float64", (50, 50)))
        for array, out in ((x, x[7]), (x[::-1], x[49]), (x[20:], x[20]), (x[:21], x[20])):
            want = client.sum(array.copy(), axis=0)
            assert client.sum(of(array), axis=0, out=out).tobytes() == want.tobytes()
    assert client._native.written == 0


def test_memory_of_others(client, beside, path):
    x = sample("float64", (30, 4))
    with warpfold.connect(beside.address, memory_socket=path) as other, \
            warpfold.connect(beside.address) as without:
        check(client, "sum", x, other.empty(30), False, axis=1)
        for of in (other, without):
            out = client.empty(30)
            assert of.sum(x, axis=1, out=out) is out and out.tobytes() == client.sum(x, axis=1).tobytes()
    place_of = client._memory.place_of
    assert place_of(out) and not place_of(as_strided(out, (31,))), "it would end behind the memory"
    out = client.empty((10, 30))[3]
    gc.collect()
    check(client, "sum", x, out, True, axis=1)
    check(client, "sum", OnGpu(x), out, False, axis=1)


def test_a_server_of_another_user(client, monkeypatch):
    """It writes to no memory of this one, but reads it."""
    asked = []

    class Refusing:
        def __init__(self, connection):
            self.connection = connection

        def allocate(self, byte_count, for_results, *rest):
            asked.append(for_results)
            if for_results:
                raise errors.PermissionDeniedError("another user's", "NOT_ALLOWED")
            return self.connection.allocate(byte_count, for_results, *rest)

    connect = client._memory._connect
    monkeypatch.setattr(client._memory, "_connect",
                        lambda *args: (Refusing(connect(*args)[0]), True))
    x = in_memory(client, sample("float64", (30, 4)))
    assert client.reduce(x, ["sum"]).way == "shared memory"
    check(client, "sum", x, client.empty(30), False, axis=1)
    assert asked == [True, False, False]


def test_progress(client):
    x, told = numpy.ones((1000, 1000)), []
    out = client.empty(1000)
    client.sum(x, 0, out=out, progress=lambda *numbers: told.append(numbers), checksum=True)
    assert told[-1] == (x.nbytes, x.nbytes) and (out == 1000).all() and client._native.written == 1


def test_servers_that_do_not_know_what_is_named(tmp_path):
    flags = f"--memory_socket={tmp_path}/socket", "--resident_bytes=1048576"
    x = sample("float32", (30, 4))
    with Server(*flags) as server:
        address = server.address
        client = warpfold.connect(address, memory_socket=tmp_path / "socket")
        client._native = Spy(client._native)
        shared, out, old = in_memory(client, x), client.empty(30), client.put(x)
        check(client, "sum", shared, out, True, axis=1)
    with Server(*flags, listen=address), client:
        assert client.max(x) == x.max()  # connects again
        for of in (x, shared, client.put(x)):
            check(client, "sum", of, out, False, axis=1)
        check(client, "sum", shared, client.empty(30), True, axis=1)
        for place in (out, client.empty(30)):
            with pytest.raises(errors.NotFoundError) as raised:
                old.sum(axis=1, out=place)
            assert raised.value.reason == "UNKNOWN_MEMORY"


def test_asyncio(beside, path):
    x = sample("int32", (30, 4))

    async def scenario():
        async with aio.connect(beside.address, memory_socket=path) as client:
            native = client._client._native = Spy(client._client._native)
            out = await client.empty(30, "int64")
            with pytest.raises(TypeError, match="out must be"):
                client.sum(x, axis=1, out=[])  # at once
            assert await client.sum(x, axis=1, out=out) is out
            assert out.tolist() == x.sum(axis=1).tolist() and native.written == 1
            async with await client.put(x) as kept:
                outs = [await client.empty(30, "int64") for _ in range(5)]
                await asyncio.gather(*(kept[:].sum(axis=1, out=one) for one in outs))
                assert all(one.tolist() == out.tolist() for one in outs) and native.written == 6

    asyncio.run(scenario())
