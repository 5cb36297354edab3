# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""dtype= of sum and prod: the same value in another type, along axes, and the types that are impossible."""

import array
import ctypes
import itertools
import math

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from standard_test import REAL, SHAPES, STANDARD
from warpfold import element_types
from warpfold.errors import OutOfRangeError

FLOATS = [numpy.dtype(name) for name in ("float16", "float32", "float64")]
INTEGERS = [dtype for dtype in REAL if dtype.kind in "iu"]


def axes_of(x):
    """None, one axis, or several."""
    some = st.lists(st.integers(0, max(x.ndim - 1, 0)), unique=True, max_size=x.ndim).map(tuple)
    return st.none() | some | (st.integers(-x.ndim, x.ndim - 1) if x.ndim else st.none())


def exact(function, x, axis):
    """Uses an object array of Python's integers, which have no width."""
    return numpy.asarray(function(x.astype(object), axis=axis))


@pytest.mark.parametrize("answered", [*INTEGERS, *FLOATS], ids=str)
def test_integers_are_exact_or_refused(client, answered):
    @STANDARD
    @given(st.data())
    def check(data):
        x = data.draw(arrays.arrays(data.draw(st.sampled_from(INTEGERS)), SHAPES))
        axis, keepdims = data.draw(axes_of(x)), data.draw(st.booleans())
        unsigned = x.dtype.kind == "u"
        bounds = [(0, 2**64 - 1) if unsigned else (-2**63, 2**63 - 1)]
        if answered.kind in "iu":
            bounds.append((numpy.iinfo(answered).min, numpy.iinfo(answered).max))
        for function, reduce in ((client.sum, numpy.sum), (client.prod, numpy.prod)):
            want = exact(reduce, x, axis)
            fits = all(low <= value <= high for value in want.flat for low, high in bounds)
            if not fits:
                with pytest.raises(OutOfRangeError):
                    function(x, axis, dtype=answered, keepdims=keepdims)
                continue
            with numpy.errstate(over="ignore"):
                got = function(x, axis, dtype=answered, keepdims=keepdims)
                rounded = want.astype("uint64" if unsigned else "int64").astype(answered)
            assert got.dtype == answered and got.shape == reduce(x, axis, keepdims=keepdims).shape
            assert numpy.array_equal(got.reshape(want.shape), rounded)

    check()


@pytest.mark.parametrize("dtypes", itertools.product(FLOATS, FLOATS), ids=lambda two: "-".join(map(str, two)))
def test_floats_are_summed_in_float64_and_rounded_once(client, dtypes):
    elements, answered = dtypes

    @STANDARD
    @given(st.data())
    def check(data):
        x = data.draw(arrays.arrays(elements, SHAPES))
        axis, keepdims = data.draw(axes_of(x)), data.draw(st.booleans())
        for function in (client.sum, client.prod):
            with numpy.errstate(over="ignore"):
                got = function(x, axis, dtype=answered, keepdims=keepdims)
                want = function(x, axis, keepdims=keepdims).astype(answered)
            assert got.dtype == answered and got.shape == want.shape
            assert got.tobytes() == want.tobytes()

    check()


def test_a_narrow_sum_is_better_than_one_of_narrow_elements(client):
    x = numpy.full(5000, 0.1, "float16")
    assert client.sum(x, dtype="float16") == numpy.float16(math.fsum(x.astype("float64")))


@pytest.mark.parametrize(("elements", "answered", "says"), [
    ("float32", "int64", "astype"), ("float32", "complex64", "complex"), ("int8", "bool", "any"),
    ("float64", ">f8", "byte order: pass dtype='float64'"),
    ("int32", ">i4", "byte order: pass dtype='int32'"), ("uint8", ">f4", "byte order: pass dtype='float32'"),
    ("float32", ">i4", "byte order"), ("int32", ">c8", "complex"), ("int32", "longdouble", "64 bits"),
    ("int32", "datetime64[s]", "NumPy"),
])
def test_types_that_an_answer_cannot_have(client, elements, answered, says):
    for x in (numpy.ones(3, elements), numpy.ones((2, 3), elements)):
        for function in (client.sum, client.prod):
            with pytest.raises(TypeError, match=f"dtype=.*{says}"):
                function(x, x.ndim - 1, dtype=answered)


@pytest.mark.parametrize(("elements", "answered", "remedy"), [
    ("int64", "uint64", r"int64, in which .*astype\('uint64'\)"),
    ("int64", "float64", r"int64, in which .*astype\('float64'\)"), ("int64", "float32", "float64"),
    ("int64", "int32", "no type of integers"), ("uint64", "int64", "uint64, in which .*no type of integers"),
    ("uint64", "float64", r"uint64, in which .*astype\('float64'\)")])
def test_values_beyond_the_64_bits_of_the_elements(client, elements, answered, remedy):
    x = numpy.full((2, 2), 2**62 if elements == "int64" else 2**63, elements)
    for axis in (None, 1):
        for function in (client.sum, client.prod):
            with pytest.raises(OutOfRangeError, match=remedy) as raised:
                function(x, axis, dtype=answered)
            assert raised.value.reason == "OVERFLOW" and "WRAP" not in str(raised.value)
            assert raised.value.fields["operator"] == ("sum" if function == client.sum else "product")
    if answered in ("uint64", "float64"):  # the message says this
        assert int(client.sum(x[0].astype(answered), dtype=answered)) == 2 * int(x[0, 0])


def test_values_beyond_the_type_that_is_asked_for(client):
    for x, axis in ((numpy.array([300]), None), (numpy.array([[1, 2], [300, 4]]), 1)):
        for function, operator in ((client.sum, "sum"), (client.prod, "product")):
            with pytest.raises(OutOfRangeError, match="dtype=uint8") as raised:
                function(x, axis, dtype="u1")
            assert (raised.value.reason, raised.value.fields) == ("OVERFLOW", {"operator": operator})
    with pytest.warns(RuntimeWarning, match="overflow"):  # NumPy's
        assert client.sum([70000], dtype="f2") == numpy.inf


def test_to_wrap_is_of_the_elements_type(client):
    with pytest.raises(ValueError, match="cannot be combined with dtype="):
        client.sum(numpy.ones(3, "int8"), overflow="wrap", dtype="int64")


def test_means_have_no_dtype_of_the_answer(client):
    for name in ("mean", "var", "std", "min", "max"):
        with pytest.raises(TypeError, match="dtype="):
            getattr(client, name)(numpy.ones(3, "float64"), dtype="float32")


def test_of_what_does_not_say_its_type_it_is_the_elements(client):
    x = numpy.arange(5, dtype="float32")
    for unnamed in (x.tobytes, lambda: memoryview(x.tobytes()), lambda: array.array("b", x.tobytes()),
                    lambda: iter([x])):
        got = client.sum(unnamed(), dtype="float32")
        assert got == 10 and got.dtype == "float64"
    with client.put(x) as kept:
        assert kept.sum(dtype="float32").dtype == "float32"


@pytest.mark.parametrize("make", [
    lambda x: array.array("i", x), lambda x: (ctypes.c_int * len(x))(*x),
    lambda x: memoryview(numpy.array(x)), lambda x: memoryview(numpy.array(x, "float32"))[::-1],
    lambda x: memoryview(numpy.array(x, "int8") > 0)])
def test_buffers_that_are_no_bytes_say_their_type(client, make):
    buffer = make([1, 2, 3, 4])
    for function, reduce in ((client.sum, numpy.sum), (client.prod, numpy.prod)):
        got = function(buffer, dtype="float64")
        assert got == reduce(numpy.asarray(buffer), dtype="float64") and got.dtype == "float64"
    for call in (client.max, lambda x, **options: client.reduce(x, ["max"], **options)):
        assert call(buffer, dtype=numpy.asarray(buffer).dtype) is not None  # which says the same
        with pytest.raises(TypeError, match="dtype="):
            call(buffer, dtype="uint16")


@pytest.mark.parametrize("make", [
    bytes, bytearray, lambda x: array.array("b", x), lambda x: array.array("B", x),
    lambda x: memoryview(x).cast("c"), lambda x: (ctypes.c_char * len(x))(*x),
    lambda x: (ctypes.c_ubyte * len(x))(*x)])
def test_bytes_of_every_kind_are_elements_of_the_type_that_is_said(client, make):
    x = make(numpy.array([1.5, 2], "float32").tobytes())
    assert client.sum(x, dtype="float32") == 3.5
    assert client.max(x, dtype="float32") == 2


@pytest.mark.parametrize("dtype", ["int8", "uint8", "bool"])
@pytest.mark.parametrize("kind", ["B", "b", "c"])
def test_bytes_in_several_dimensions_keep_their_shape(client, kind, dtype):
    x = memoryview(b"\0\1\1\0\1\1").cast(kind, (2, 3))
    for axis in (0, 1, (0, 1)):
        want = numpy.frombuffer(x, dtype).reshape(2, 3).sum(axis)
        assert numpy.array_equal(client.sum(x, axis, dtype=dtype), want)
    assert client.argmax(x, 1, dtype=dtype).tolist() == [1, 1]
    with client.put(x, dtype=dtype) as kept:
        assert kept.shape == (2, 3) and kept.sum(axis=1).tolist() == [2, 2]
    if kind != "c":
        with pytest.raises(ValueError, match="one dimension"):
            client.reduce_segments(x, ["sum"], lengths=[6])
    with pytest.raises(ValueError, match=r"one dimension, not of the shape \(2, 3\)"):
        client.reduce_segments(x, ["sum"], lengths=[6], dtype=dtype)
    matrices = memoryview(bytes(range(8))).cast(kind, (2, 2, 2))
    assert client.reduce(matrices, ["sum"], matrix=True, dtype="uint8")["sum"].tolist() == [[4, 6], [8, 10]]


@pytest.mark.parametrize("dtype", ["int8", "bool", "float32"])
def test_bytes_that_are_none_have_the_sum_0(client, dtype):
    for x in (b"", bytearray(), array.array("B"), (ctypes.c_ubyte * 0)(), memoryview(b"12")[:0]):
        assert client.sum(x, dtype=dtype) == 0


@pytest.mark.parametrize("dtype", ["int16", "bfloat16", "float32", "float64"])
def test_wider_elements_have_no_shape_in_bytes_of_several_dimensions(client, dtype):
    data = numpy.arange(16, dtype="uint8").tobytes()
    x = memoryview(data).cast("B", (2, 8))
    for call in (client.max, client.put, lambda x, **options: client.sum(x, 1, **options)):
        for bad in (x, x[::-1], (ctypes.c_ubyte * 8 * 2)()):
            with pytest.raises(ValueError, match=r"shape \(2, 8\) .*pass bytes\(.*cast\('B'\)"):
                call(bad, dtype=dtype)
    # What the message says:
    want = client.max(data, dtype=dtype)
    assert client.max(bytes(x), dtype=dtype) == client.max(x.cast("B"), dtype=dtype) == want


def test_types_that_are_none_are_not_remembered(client):
    def refuse(count):
        for length in range(count):
            with pytest.raises(TypeError):
                client.sum(numpy.zeros(1, f"S{length + 1}"))
            with pytest.raises(TypeError):
                client.sum(b"1234", dtype=numpy.dtype([(f"field{length}", "i4")]))

    refuse(300)
    for x in (numpy.ones(3), numpy.ones(3, "int8")):
        assert client.sum(x) == 3
    assert element_types.element_type.cache_info().currsize <= 64


def test_bytes_with_gaps(client):
    for x in (memoryview(b"1234")[::2], memoryview(b"1234")[::-2]):
        assert client.sum(x, dtype="int8") == client.sum(x) == sum(bytes(x))
        with pytest.raises(ValueError, match=r"gaps.*bytes\(\.\.\.\)"):
            client.sum(x, dtype="int16")
        assert client.sum(bytes(x), dtype="int16") == int(numpy.frombuffer(bytes(x), "int16")[0])


def cut_at(data, *places):
    edges = [0, *places, len(data)]
    return [data[begin:end] for begin, end in itertools.pairwise(edges)]


@pytest.mark.parametrize("dtype", ["int8", "bool", "float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("places", [(), (0, 0), (8, 8, 16), (1, 2, 3, 4, 5, 11), (1, 30), (7, 7, 9, 31)])
@pytest.mark.parametrize("kind", [bytes, bytearray, lambda data: array.array("b", data),
                                  lambda data: (ctypes.c_ubyte * len(data))(*data)])
def test_pieces_of_bytes_are_elements_of_the_type_that_is_said(client, dtype, places, kind):
    data = (numpy.arange(32) % 2 * 63).astype("uint8").tobytes()  # positive numbers of every type
    whole = client.reduce(data, ["sum", "max", "first", "argmax"], dtype=dtype)
    result = client.reduce(map(kind, cut_at(data, *places)), list(whole), dtype=dtype)
    assert result == whole and (result.way, result.element_count) == ("pieces", whole.element_count)
    assert result["max"].dtype == whole["max"].dtype
    assert client.sum(map(kind, cut_at(data, *places)), dtype=dtype) == whole["sum"]


def test_bytes_of_which_no_type_is_said(client):
    for data in (b"\xff\x01", bytearray(b"\xff\x01"), memoryview(b"\xff\x01")):
        assert repr(client.max(data)) == "np.uint8(255)" and client.sum(data) == 256
    assert repr(client.max(array.array("b", [-1, -2]))) == "np.int8(-1)"


def test_pieces_of_bytes_among_arrays(client):
    x = numpy.arange(6, dtype="float32")
    pieces = [x[:2], x[2:3].tobytes()[:1], x[2:3].tobytes()[1:], b"", x[3:5], x[5:].tobytes()]
    assert client.sum(iter(pieces), dtype="float32") == 15
    assert client.sum(iter([b"\x01\x02", bytearray(b"\x03")])) == 6  # uint8, if no type is given
    for bad, words in (([b"123"], "inside an element of float32: 3 bytes are left over"),
                       ([b"1", x], "inside an element of float32: 1 byte is left over"),
                       ([x, b"12345"], "inside an element"), ([memoryview(x.tobytes())[::2]], "gaps")):
        with pytest.raises(ValueError, match=words):
            client.sum(iter(bad), dtype="float32")
    for bad in ([numpy.zeros(4, "uint8")], [bytes(4), numpy.zeros(4, "uint8")]):
        with pytest.raises(TypeError, match="uint8"):
            client.sum(iter(bad), dtype="float32")


def test_pieces_of_bytes_in_one_buffer_that_is_filled_again(client):
    def pieces():
        buffer = bytearray(6)
        for begin in range(0, 48, 6):
            buffer[:] = x.tobytes()[begin:begin + 6]
            yield buffer

    x = numpy.arange(6.0)
    assert client.sum(pieces(), dtype="float64") == 15
