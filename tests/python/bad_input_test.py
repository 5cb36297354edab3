# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What cannot be reduced: a clear exception, nothing sent, and the client goes on."""

import copy
import ctypes
import fractions
import io
import math
import os
import pathlib
import pickle

import numpy
import pytest

import dlpack
import warpfold
from conftest import OnGpu, WithMask
from dlpack import Foreign
from warpfold import errors


@pytest.fixture(autouse=True)
def goes_on(client):
    yield
    assert client.sum(numpy.arange(5)) == 10


def released():
    view = memoryview(bytes(8))
    view.release()
    return view


MASKED = WithMask.of([1.0, 2.0], numpy.array([True, False]))


@pytest.mark.parametrize("array, words", [
    (numpy.array([None]), "object"), (numpy.array(["text"]), "<U4"), (numpy.array([b"text"]), "S4"),
    (numpy.array(["2026-01-01"], "M8[D]"), "int64"), (numpy.array([1], "m8[s]"), "int64"),
    (numpy.array([1], ">i4"), "byte order"), (numpy.array([1.5], ">f8"), "byte order"),
    (numpy.array([1j]), "array.real"), (numpy.zeros(2, [("a", "i4")]), "cannot be reduced"),
    (numpy.array([1], "longdouble"), "cannot be reduced"),
    (numpy.ma.array([1, 2], mask=[True, False]), "masked"),
    (MASKED, "masked"), (iter([numpy.ones(2), MASKED]), "masked"),
    ({1: 2}, "dict"), ({1, 2}, "set"), ("x.npy", r"str .*files\.npy"), (pathlib.Path("x.npy"), r"files\.npy"),
    (None, "NoneType"), (range(3), r"numpy\.arange"), (3 + 4j, "real and imag"),
    (iter([{}]), "dict"), (iter([numpy.ones(2), numpy.ones(2, "int8")]), "int8 came after pieces of float64"),
    (iter([iter([1])]), "another series"), (["text"], "<U4"),
    (iter([OnGpu(numpy.ones(2))]), "on a GPU is no piece"),
    ([io.BytesIO(b"12345678")], r"list of files or iterators .*iter\(\[\.\.\.\]\)"),
    ([iter([1]), iter([2])], "list of files or iterators"), ([1, None], "None in a list is no element"),
    ([[1.5, fractions.Fraction(1, 2)]], r"Fraction\(1, 2\) in a list"),
    ([2**64], "does not fit 64 bits"), ([[1, 2.5], [-2**63 - 1, 0]], "does not fit 64 bits"),
    (released(), "memoryview is no array, .*it was released"), (iter([released()]), "it was released"),
    (numpy.zeros(3, "V2"), r"\(piece\.view\(ml_dtypes\.bfloat16\) for piece in pieces\)")])
def test_no_array_of_elements(client, array, words):
    with pytest.raises(TypeError, match=words):
        client.sum(array)
    assert issubclass(errors.InvalidArgumentError, ValueError)


def test_no_pieces_and_no_type(client):
    with pytest.raises(ValueError, match="dtype="):
        client.sum(iter([]))
    with pytest.raises(TypeError, match="float31"):
        client.sum(iter([]), dtype="float31")
    with pytest.raises(TypeError, match="dtype="):
        client.max(numpy.ones(2), dtype="float32")


def test_files(client, tmp_path):
    path = tmp_path / "raw"
    path.write_bytes(b"1234567")
    with open(path, "rb") as file, pytest.raises(TypeError, match="dtype="):
        client.sum(file)
    with open(path, "rb") as file, pytest.raises(ValueError, match="inside an element"):
        client.sum(file, dtype="int32")
    with open(path, encoding="ascii") as file, pytest.raises(TypeError, match="binary"):
        client.sum(file, dtype="int32")
    path.write_bytes(numpy.full(3, -1.5).tobytes())  # no text in any encoding
    with open(path, encoding="utf-8") as file:
        for array in (file, iter([file])):
            with pytest.raises(TypeError, match="file of text has no elements: open it in binary"):
                client.sum(array, dtype="float64")
    with pytest.raises(ValueError):
        client.sum(b"1234567", dtype="int32")


@pytest.mark.parametrize("buffering", [0, -1])
def test_a_non_blocking_file_does_not_end_where_it_has_nothing_yet(client, buffering):
    read, write = os.pipe()
    os.set_blocking(read, False)
    with open(read, "rb", buffering) as file, open(write, "wb", 0) as writer:
        writer.write(numpy.arange(4).tobytes())
        with pytest.raises(BlockingIOError, match="nothing to read yet"):
            client.sum(file, dtype="int64")


def test_torch(client):
    torch = pytest.importorskip("torch")
    with pytest.raises(TypeError, match=r"tensor\.detach\(\)"):
        client.sum(torch.ones(3, requires_grad=True))
    with pytest.raises(TypeError, match=r"torch\.Tensor"):
        client.sum(torch.ones(3, device="meta"))
    with pytest.raises(TypeError, match=r"complex64.*array\.real and array\.imag"):
        client.sum(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(TypeError, match=r"torch\.Tensor.*([Ss]parse|layout)"):
        client.sum(torch.ones(3).to_sparse())
    negated = torch.tensor([1 + 2j]).conj().imag
    with pytest.raises(TypeError, match=r"tensor\.resolve_neg\(\)"):
        client.sum(negated)
    assert client.sum(negated.resolve_neg()) == -2


def test_complex_numbers_by_dlpack(client):
    """Such arrays as JAX and PyTorch export them."""
    with pytest.raises(TypeError, match=r"complex64 cannot be reduced: pass array\.real and array\.imag"):
        client.sum(Foreign(numpy.ones(3, "complex64")))


class Interface:
    """Objects with only one of the two interfaces, of an array in the host's memory."""

    def __init__(self, name, array, **more):
        self.array, self.shape = array, array.shape
        setattr(self, name, array.__array_interface__ | more)

    def get(self):
        return self.array


@pytest.mark.parametrize("name", ["__array_interface__", "__cuda_array_interface__"])
def test_interfaces_with_masks(client, name):
    x = numpy.arange(3.0)
    for other in (Interface(name, x), Interface(name, x, mask=None)):
        assert client.sum(other) == 3
    other = Interface(name, x, mask=numpy.array([True, False, False]))
    for call in (client.sum, client.put, lambda x: client.partial(x, ["sum"]),
                 lambda x: client.sum(iter([x]))):
        with pytest.raises(TypeError, match=r"bad_input_test\.Interface has a mask"):
            call(other)


class OnGpu:
    """It is on a GPU as far as it says; nothing else is known of it."""

    def __dlpack_device__(self):
        return 2, 0

    def __dlpack__(self, **unused):
        pytest.fail("it is not asked")


def test_arrays_on_a_gpu_that_say_no_shape(client):
    nameless = type("Nameless", (), {"__cuda_array_interface__": numpy.ones(3).__array_interface__})()
    for other in (nameless, OnGpu()):
        for call in (client.sum, client.put, lambda x: client.sum(iter([x]))):
            with pytest.raises(TypeError, match=r"on a GPU|in the host's memory"):
                call(other)


def test_lists_with_masks(client):
    x = numpy.ma.array([1.0, 2.0], mask=[True, False])
    other = Interface("__array_interface__", numpy.ones(2), mask=numpy.array([True, False]))
    for bad in ([x, x], (x,), [numpy.ones(2), x], [[x, [3, 4]], [[5, 6], x]], [1, numpy.ma.masked],
                [other, other], [numpy.ones(2).tolist(), other], [MASKED, MASKED], [[1.0, 2.0], MASKED]):
        with pytest.raises(TypeError, match="mask"):
            client.sum(bad)
    for masked in (x, MASKED):  # what the message says
        assert client.sum(numpy.asarray(masked)[~masked.mask]) == 2
    assert client.sum(WithMask.of([1.0, 2.0], None)) == 3
    plain = Interface("__array_interface__", numpy.ones(2))
    assert client.sum([plain, plain]) == client.sum([numpy.ones(2), [1, 1]]) == 4
    assert client.sum([numpy.float32(1), 2, True, 1.5]) == 5.5
    assert client.sum([]) == client.sum(()) == client.sum([[], []]) == 0


def nested(depth, value=1.0):
    for _ in range(depth):
        value = [value]
    return value


def containing_itself(times):
    x = []
    x.extend([x] * times)
    return x


DIMENSIONS = getattr(numpy, "MAXDIMS", 64)


@pytest.mark.parametrize("bad", [
    containing_itself(1), containing_itself(2), containing_itself(10_000), (containing_itself(3), [1.0]),
    [containing_itself(2)] * 20, nested(2000), nested(DIMENSIONS + 1)],
    ids=["once", "twice", "often", "in another", "some", "deep", "just too deep"])
def test_lists_in_more_others_than_dimensions(client, bad):
    for call in (client.sum, client.put, lambda x: client.sum(iter([x]))):
        with pytest.raises(TypeError, match=f"lists nested more than {DIMENSIONS} deep, or containing"):
            call(bad)


def test_lists_in_lists(client):
    assert client.sum(nested(DIMENSIONS)) == 1
    row = [1.0, 2.0]
    assert client.sum([[row] * 50] * 50) == 7500
    masked = numpy.ma.array([1.0, 2.0], mask=[True, False])
    for uneven in ([1.0, [2.0]], [[1.0], 2.0], [[[1.0], [2.0]], [3.0, [4.0]]]):
        with pytest.raises(ValueError, match="inhomogeneous"):
            client.sum(uneven)
    for bad in ([1.0, [masked]], nested(DIMENSIONS - 1, masked), [[row] * 50] * 50 + [[row] * 49 + [masked]]):
        with pytest.raises(TypeError, match="masked array"):
            client.sum(bad)


def test_other_libraries_remedies(client):
    class Column:
        """Like a pandas.Series, a polars.Series and an xarray.DataArray."""

        def to_numpy(self):
            return numpy.ones(3)

        def __array__(self, *unused, **options):
            return numpy.ones(3)

    with pytest.raises(TypeError, match=r"Column .*to_numpy\(\)"):
        client.sum(Column())
    del Column.to_numpy
    with pytest.raises(TypeError, match=r"numpy\.asarray"):
        client.sum(Column())

    sparse = type("csr_array", (), {"__module__": "scipy.sparse._csr", "__iter__": iter})
    with pytest.raises(TypeError, match=r"csr_array .*toarray\(\), or its data"):
        client.sum(sparse())

    async def pieces():
        yield numpy.ones(3)

    with pytest.raises(TypeError, match=r"async_generator .*generator without async"):
        client.sum(pieces())


def test_chunked_arrays_of_pyarrow(client):
    pyarrow = pytest.importorskip("pyarrow")
    array = pyarrow.chunked_array([[1.0, 2.0], [3.0]])
    with pytest.raises(TypeError, match=r"iterchunks\(\)"):
        client.sum(array)
    # What the message says:
    assert client.sum(chunk.to_numpy(zero_copy_only=False) for chunk in array.iterchunks()) == 6


def test_a_tensor_that_requires_grad(client):
    class Tensor:
        requires_grad = True

        def __dlpack__(self, **options):
            raise AssertionError("is not asked for")

    with pytest.raises(TypeError, match=r"tensor\.detach\(\)"):
        client.sum(Tensor())


def test_a_tensor_whose_elements_are_the_negatives_of_its_memory(client):
    """Like PyTorch's views of that kind: its __dlpack__ exports the memory as it is."""
    class Tensor(Foreign):
        is_negated = True

        def is_neg(self):
            return self.is_negated

    x = Tensor(numpy.ones(3))
    for call in (client.sum, client.put, lambda x: client.partial(x, ["sum"]),
                 lambda x: client.sum(iter([x]))):
        with pytest.raises(TypeError, match=r"tensor\.resolve_neg\(\)"):
            call(x)
    x.is_negated = False
    assert client.sum(x) == 3


def test_dlpack_elsewhere(client):
    class Elsewhere:
        def __dlpack__(self, **options):
            raise BufferError("this is far away")

        def __dlpack_device__(self):
            return 12, 0

    with pytest.raises(TypeError, match="kind 12"):
        client.sum(Elsewhere())
    Elsewhere.__dlpack_device__ = lambda self: (1, 0)
    with pytest.raises(TypeError, match="far away"):
        client.sum(Elsewhere())
    Elsewhere.__dlpack_device__ = lambda self: (2, 0)
    Elsewhere.shape = (3,)
    with pytest.raises(TypeError, match="GPU"):
        client.sum(Elsewhere())


@pytest.mark.parametrize("cut", [slice(None), slice(None, None, 2)])
@pytest.mark.parametrize("knows_versions", [True, False])
def test_dlpack_is_asked_once(client, cut, knows_versions):
    calls = []

    class Counting(Foreign):
        def __dlpack__(self, **options):
            calls.append(options)
            if options and not knows_versions:
                raise TypeError("no keyword arguments")
            return self.array.__dlpack__(**options)

    assert client.sum(Counting(numpy.arange(10.0)[cut])) == numpy.arange(10.0)[cut].sum()
    assert calls == [{"max_version": (1, 0)}, {}][:1 if knows_versions else 2]


@pytest.mark.parametrize("error, kind", [
    (BufferError("far away"), TypeError), (RuntimeError("far away"), TypeError),
    (TypeError("far away"), TypeError), (MemoryError("far away"), MemoryError),
    (KeyboardInterrupt("far away"), KeyboardInterrupt)])
@pytest.mark.parametrize("method", ["__dlpack__", "__dlpack_device__"])
def test_what_dlpack_raises_is_the_cause(client, method, error, kind):
    def fail(self, **options):
        raise error

    x = type("Failing", (Foreign,), {method: fail})(numpy.ones(3))
    for call in (client.sum, client.put, lambda x: client.sum(iter([x]))):
        with pytest.raises(kind, match="far away") as raised:
            call(x)
        assert raised.value is error if kind is not TypeError else raised.value.__cause__ is error


def test_a_buffer_serves_where_dlpack_does_not(client):
    class Both(bytearray):
        def __dlpack__(self, **options):
            raise BufferError("far away")

        def __dlpack_device__(self):
            return 1, 0

    assert client.sum(Both(b"123")) == sum(b"123")


@pytest.mark.parametrize("buffer, words", [
    ((ctypes.c_wchar * 2)("a", "b"), r"numpy\.frombuffer"),
    ((ctypes.c_longdouble * 2)(1, 2), r"numpy\.array\(list"),
    ((ctypes.c_void_p * 2)(1, 2), r"'<P'"), (memoryview(bytes(16)).cast("P"), "element type"),
    (memoryview(b"\1\2").cast("c"), "pass dtype=")])
def test_buffers_of_other_formats(client, buffer, words):
    for call in (client.sum, client.put, lambda x: client.sum(iter([x]))):
        with pytest.raises(TypeError, match=words):
            call(buffer)


class Expanded(dlpack.Exporter):
    """Like torch.ones(1).expand(count): it has one element in memory."""

    def __init__(self, count):
        super().__init__(numpy.ones(1), dlpack.HOST)
        self._lengths[0] = count
        self._strides = (ctypes.c_int64 * 1)(0)
        self._tensor.strides = ctypes.addressof(self._strides)


def test_more_bytes_than_64_bits_can_count(client):
    for count in (2**60, 2**61, 2**61 + 1000, 2**62, 2**63 - 1):
        for call in (client.sum, client.put, lambda x: client.sum(x, axis=0),
                     lambda x: client.reduce_segments(x, ["sum"], lengths=[1])):
            with pytest.raises(ValueError, match=r"2\*\*63 bytes"):
                call(Expanded(count))
    assert client.sum(Expanded(1000)) == 1000


@pytest.mark.parametrize("cut", [slice(None), slice(None, None, 2)])
def test_a_file_that_became_shorter_than_its_map(client, tmp_path, cut):
    path = tmp_path / "x"
    numpy.zeros(1 << 20).tofile(path)
    mapped = numpy.memmap(path, "float64", "r")[cut]
    assert client.sum(mapped) == 0
    os.truncate(path, 4096)
    with pytest.raises(ValueError, match="shorter"):
        client.sum(mapped)


def test_options_by_name(client):
    x = numpy.ones((3, 4))
    with pytest.raises(NotImplementedError, match="where="):
        client.sum(x, where=x > 0)
    with pytest.raises(TypeError, match=r"no argument initial: besides its own, .* checksum, "):
        client.sum(x, initial=3)
    with pytest.raises(TypeError, match="list"):
        client.reduce(x, "sum")
    for options in ({"nan": "omit"}, {"overflow": "clip"}, {"timeout": -1}, {"timeout": math.nan}):
        with pytest.raises(ValueError, match=next(iter(options))):
            client.sum(x, **options)
    for options in ({"ddof": -1}, {"ddof": 1, "correction": 1}, {"correction": -0.5},
                    {"ddof": math.inf}, {"ddof": math.nan}):
        with pytest.raises(ValueError):
            client.var(x, **options)
    with pytest.raises(ValueError, match="ord"):
        client.norm(x, 3)
    with pytest.raises(TypeError, match="keepdims"):
        client.sum(iter([x]), keepdims=True)
    for shape in ((3,), (3, 4)):
        with pytest.raises(ValueError, match="matrices"):
            client.matrix_product(numpy.ones(shape))
    with pytest.raises(ValueError, match="pairs"):
        client.affine_compose(numpy.ones((4, 3)))


def test_what_the_server_refuses(client):
    x = numpy.ones(4, "float32")
    with pytest.raises(NotImplementedError) as raised:
        client.reduce(x, ["median"])
    assert raised.value.reason == "UNKNOWN_OPERATOR"
    oblong = numpy.ones((2, 2, 3))
    for bad in (lambda: client.bit_and(x), lambda: client.reduce(x, []),
                lambda: client.reduce(x, ["sum", "sum"]), lambda: client.matrix_product(oblong),
                lambda: client.sum(x, request_id="\n"), lambda: client.sum(x, streams=1000)):
        with pytest.raises(ValueError) as raised:
            bad()
        assert isinstance(raised.value, warpfold.WarpfoldError)
        assert raised.value.code == "INVALID_ARGUMENT" and raised.value.reason
        assert raised.value.reason in str(raised.value)


def test_errors_keep_what_they_say(client):
    with pytest.raises(ValueError) as raised:
        client.min(numpy.array([]))
    for error in (raised.value, pickle.loads(pickle.dumps(raised.value))):
        assert type(error) is errors.InvalidArgumentError
        assert (error.code, error.reason) == ("INVALID_ARGUMENT", "EMPTY_ARRAY")
        assert error.fields == {"operator": "min"}


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
def test_what_is_put_on_an_error_is_kept(client, copied):
    error = client.reduce(numpy.array([2**62, 2**62]), ["sum", "max"]).outcomes["sum"].error
    error.add_note("of the second file")
    error.file = "b.npy"
    other = copied(error)
    assert (other.__notes__, other.file, other.fields) == (["of the second file"], "b.npy", error.fields)
    other.add_note("once more")
    other.fields["file"] = "c.npy"
    assert error.__notes__ == ["of the second file"] and error.fields == {"operator": "sum"}


def test_every_kind_of_error():
    kinds = {"OUT_OF_RANGE": OverflowError, "DEADLINE_EXCEEDED": TimeoutError, "UNAVAILABLE": ConnectionError,
             "DATA_LOSS": OSError, "UNIMPLEMENTED": NotImplementedError, "PERMISSION_DENIED": PermissionError,
             "UNAUTHENTICATED": PermissionError, "INTERNAL": RuntimeError, "ABORTED": RuntimeError,
             "RESOURCE_EXHAUSTED": RuntimeError, "NOT_FOUND": LookupError, "CANCELLED": errors.CancelledError}
    for code, kind in kinds.items():
        error = errors.from_status(code, "words", "REASON", {"field": "1"})
        assert isinstance(error, kind) and isinstance(error, warpfold.WarpfoldError)
        assert str(error) == f"{code} (REASON): words"
        again = pickle.loads(pickle.dumps(error))
        assert (type(again), str(again), again.fields) == (type(error), str(error), {"field": "1"})


def test_connect():
    for options in ({"connections": 0}, {"connections": 65}, {"max_attempts": 0}, {"tls_key": "x"}):
        with pytest.raises(ValueError):
            warpfold.connect("127.0.0.1:1", **options)
    with pytest.raises(ValueError):
        warpfold.connect([])
    with pytest.raises(OSError):
        warpfold.connect(tls_ca="/nowhere")
    with pytest.raises(ValueError, match="PEM"):
        warpfold.connect(tls_ca=__file__)
    with warpfold.connect("127.0.0.1:1", max_attempts=1) as nobody:
        for call in (lambda: nobody.sum(numpy.ones(3)), nobody.info, nobody.is_serving):
            with pytest.raises(ConnectionError):
                call()


@pytest.mark.parametrize("shapes", [
    [(1, 2, 3), (1, 3, 2)], [(1, 2, 2), (1, 4, 4)], [(1, 2, 2), (2, 8)], [(2, 2, 2), (2, 2)],
    [(1, 2, 2), (4,)], [(1, 2, 2), (1, 1, 1)], [(0, 2, 2), (1, 2, 2), (1, 4, 1)], [(1, 2, 2), (0, 3, 2)]])
def test_pieces_of_other_matrices(client, shapes):
    for call in (lambda pieces: client.reduce(pieces, ["sum"], matrix=True), client.matrix_product):
        if call == client.matrix_product and shapes[0][1] != shapes[0][2]:
            continue
        with pytest.raises(ValueError, match=r"a piece of shape .* came after matrices of 2 x [23]"):
            call(numpy.ones(shape) for shape in shapes)


def test_pieces_of_other_pairs(client):
    for shape in ((4, 1), (4,), (4, 3), (2, 4)):
        with pytest.raises(ValueError, match=r"a piece of shape .* came after matrices of 1 x 2"):
            client.affine_compose(iter([numpy.ones((2, 2)), numpy.ones(shape)]))
    assert client.affine_compose(iter([numpy.ones((2, 2)), numpy.ones((3, 1, 2))])).tolist() == [[1, 5]]


def test_pieces_of_the_same_matrices(client):
    pieces = [numpy.ones((1, 2, 3)), numpy.ones((0, 2, 3)), numpy.ones((2, 2, 2, 3))]
    assert (client.reduce(iter(pieces), ["sum"], matrix=True)["sum"] == 5).all()
    assert client.sum(iter([*pieces, numpy.ones((3, 2)), 1.0])) == 6 + 24 + 6 + 1  # without matrices
