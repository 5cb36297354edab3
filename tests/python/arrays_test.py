# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What is accepted as an array: which elements arrive, in which order, and in which way."""

import array as standard_array
import io
import itertools
import mmap
import subprocess
import sys
import zipfile

import numpy
import pytest

from conftest import OnGpu
from dlpack import Bfloat16, Foreign
from warpfold import files
from warpfold.masks import has_mask, most_dimensions

BIG = 256 << 20  # bytes of an array that must not be copied
# A separate process, whose peak does not include other tests. The sizes are those of parts of the array.
_PEAK = """
import sys
import numpy
import warpfold

def peak_bytes():
    with open("/proc/self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM")) << 10

def grown(action):
    with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
        file.write("5")  # the peak is what there is now
    before = peak_bytes()
    action()
    return peak_bytes() - before

x = numpy.ones((BIG // 8, 2), "float32")
with warpfold.connect(sys.argv[1]) as client:
    client.sum(x[:4])
    client.sum(x[:1 << 18, 0])
    for action in (lambda: client.sum(x), lambda: client.sum(x[:, 0], streams=1), lambda: client.sum(x.T),
                   lambda: client.sum(x[::-1], streams=2), lambda: client.sum(x, 0),
                   lambda: client.sum(x, checksum=True), lambda: client.reduce(iter([x, x.T]), ["max"]),
                   lambda: x.copy()):
        print(grown(action))
"""


def grid(dtype="float32"):
    return numpy.random.default_rng(3).normal(size=(60, 41, 7)).astype(dtype)


def arrives_as(client, array, elements, way, **options):
    """Order matters to first, last and argmax; every element matters to exact_sum."""
    elements = numpy.asarray(elements).reshape(-1)
    result = client.reduce(array, ["first", "last", "argmax", "sum"], **options)
    assert result.way == way
    assert result.element_count == elements.size
    assert (result["first"], result["last"]) == (elements[0], elements[-1])
    assert result["argmax"] == elements.argmax()
    assert result["sum"] == pytest.approx(elements.sum(dtype="float64"), rel=1e-12)


@pytest.mark.parametrize("cut", [
    lambda x: x.T, lambda x: x[::-1], lambda x: x[:, ::-1, :], lambda x: x[::2, 1::3, ::-2],
    lambda x: x[:, 5, :], lambda x: x.transpose(1, 0, 2), lambda x: x.transpose(2, 0, 1)[::3],
    lambda x: numpy.broadcast_to(x[:, :1, :], x.shape), lambda x: numpy.asfortranarray(x)[1:]])
@pytest.mark.parametrize("dtype", ["int8", "float16", "float32", "float64"])
def test_any_strides(client, cut, dtype):
    x = cut((grid() * 40).astype(dtype))
    for streams in (1, 3):
        arrives_as(client, x, x, "copied", streams=streams)


def test_large_strided_array_on_several_streams(client):
    x = numpy.random.default_rng(4).normal(size=(2000, 3000)).T
    for streams in (1, 4):
        arrives_as(client, x, x, "copied", streams=streams)
    y = numpy.ascontiguousarray(x)
    assert client.sum(x) == client.sum(y) == client.sum(y, streams=4)  # the same bits


def test_contiguous_parts_go_from_their_place(client):
    x = grid()
    arrives_as(client, x[3:50], x[3:50], "memory")
    arrives_as(client, x[7, 3], x[7, 3], "memory")
    arrives_as(client, x.reshape(-1)[1:], x.reshape(-1)[1:], "memory")
    unaligned = numpy.frombuffer(b"x" + x.tobytes(), "uint8")[1:].view("float32")
    arrives_as(client, unaligned, x, "memory")


def test_read_only_arrays(client):
    x = grid()
    x.flags.writeable = False
    arrives_as(client, x, x, "memory")
    arrives_as(client, numpy.frombuffer(x.tobytes(), "float32"), x, "memory")


def test_no_copy_is_made_of_a_large_array(server):
    done = subprocess.run([sys.executable, "-c", _PEAK.replace("BIG", str(BIG)), server.address],
                          capture_output=True, text=True, check=True)
    *grown, copied = map(int, done.stdout.split())
    assert len(grown) == 7 and max(grown) < BIG // 8, grown
    assert copied > BIG * 9 // 10  # a copy would show this much


def test_buffers(client):
    numbers = standard_array.array("i", [3, 9, 4])
    arrives_as(client, numbers, numbers, "memory")
    arrives_as(client, memoryview(numbers)[::-1], [4, 9, 3], "copied")
    arrives_as(client, bytearray(b"\x05\x01"), [5, 1], "memory")
    arrives_as(client, numpy.array([2.5, 1.5]).tobytes(), [2.5, 1.5], "memory", dtype="float64")
    with mmap.mmap(-1, 4096) as mapping:
        mapping[:4] = b"\x01\x02\x03\x04"
        assert client.sum(mapping) == 10


def test_lists_of_integers_that_no_type_holds(client):
    for items in ([-1, 2**63], [[2**63, -1]], (-(2**63), 2**64 - 1), [numpy.int64(-1), numpy.uint64(2**63)]):
        with pytest.raises(TypeError, match="neither int64 nor uint64"):
            client.sum(items)
    assert client.sum([2**63, 1]) == 2**63 + 1
    assert client.sum([-1, 2**63 - 1]) == 2**63 - 2
    assert client.sum([-1.0, 2**63]) == 2.0**63
    for items in ([numpy.uint64(2**53 + 1), -1], [[-2**63], [numpy.uint64(2**63 - 1)]]):  # float64, to NumPy
        values = [int(item) for item in numpy.array(items, object).flat]
        assert client.sum(items) == sum(values) and client.max(items) == max(values)
        assert client.max(items).dtype == "int64"


def test_bools_beside_large_integers(client):
    largest = 2**63 + 1
    for items in ([numpy.True_, 1, largest], [[True, numpy.False_], [largest, numpy.int8(1)]],
                  [numpy.array(True), largest, 1]):
        assert client.max(items) == largest
    with pytest.raises(TypeError, match="neither int64 nor uint64"):
        client.sum([numpy.True_, -1, largest])


def test_numbers_and_arrays_in_one_list(client):
    one = numpy.array(1.0)
    for items in ([one, 2], [1.5, one], [[one], [3]], (numpy.array(True), True), [numpy.float32(2), one, 3],
                  [[1, 2], numpy.array([3, 4])], [[one, 2], numpy.ones(2)]):
        x = numpy.asarray(items)
        assert client.sum(items) == x.sum() and client.max(items).dtype == x.dtype
    for uneven in ([numpy.array([1, 2]), 3], [1.0, numpy.ones(2)], [one, 2.0, [1]], [numpy.ones(1), 2]):
        with pytest.raises(ValueError, match="inhomogeneous"):
            client.sum(uneven)


def test_numbers_and_lists(client):
    assert client.sum([[1, 2], [3, 4]]) == 10
    assert client.max((1.5, 2.5)) == 2.5
    assert client.sum(numpy.float32(2)) == 2 and client.sum(7) == 7


def test_array_interface(client):
    class Exporter:
        def __init__(self, array):
            self.array = array
            self.__array_interface__ = array.__array_interface__

    x = grid()
    arrives_as(client, Exporter(x), x, "memory")


def test_dlpack(client):
    x = grid()
    arrives_as(client, Foreign(x), x, "memory")
    arrives_as(client, Foreign(x[::-2]), x[::-2], "copied")


def test_gpu_arrays_are_staged_part_by_part(client):
    """Through the protocol alone, for an array that claims to be on a GPU and is not."""
    OnGpu.largest = 0
    for shape in ((5,), (3 << 20,), (6 << 20, 1), (2, 3 << 20), (7, 700_000)):
        x = numpy.random.default_rng(5).normal(size=shape)
        arrives_as(client, OnGpu(x), x, "staged")
    assert 0 < OnGpu.largest * 8 <= 16 << 20


def test_bfloat16(client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = grid().astype(ml_dtypes.bfloat16)
    arrives_as(client, x, x.astype("float32"), "memory")
    arrives_as(client, x.T, x.T.astype("float32"), "copied")
    assert client.max(x).dtype == ml_dtypes.bfloat16
    arrives_as(client, x.tobytes(), x.astype("float32"), "memory", dtype="bfloat16")


def test_torch(client):
    torch = pytest.importorskip("torch")
    x = torch.randn(50, 30)
    arrives_as(client, x, x.numpy(), "memory")
    arrives_as(client, x.T, x.T.numpy(), "copied")
    half = x.to(torch.bfloat16)
    arrives_as(client, half, half.to(torch.float32).numpy(), "memory")
    assert client.max(half).dtype == numpy.float32


def test_jax(client):
    jax = pytest.importorskip("jax.numpy")
    x = jax.asarray(grid())
    arrives_as(client, x, numpy.asarray(x), "memory")
    half = x.astype("bfloat16")
    arrives_as(client, half, numpy.asarray(half, "float32"), "memory")
    assert client.max(half).dtype == half.dtype


def test_bfloat16_of_who_names_the_type_of_ml_dtypes(client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = grid().astype(ml_dtypes.bfloat16)
    data, kind = x.tobytes(), ml_dtypes.bfloat16
    for dtype in (kind, numpy.dtype(kind)):
        for raw in (data, io.BytesIO(data), iter([data[:99], data[99:]])):
            largest = client.max(raw, dtype=dtype)
            assert largest == x.max() and largest.dtype == kind
        assert client.sum(iter(()), dtype=dtype) == 0
        with client.put(data, dtype=dtype) as kept:
            assert kept.dtype == kept.max().dtype == kind
        assert client.merge([client.partial(data, ["max"], dtype=dtype)])["max"].dtype == kind


def test_bfloat16_by_dlpack_of_a_known_type(client):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = grid().astype(ml_dtypes.bfloat16)
    assert client.max(Bfloat16(x)) == x.max() and client.max(Bfloat16(x)).dtype == ml_dtypes.bfloat16
    assert client.sum(Bfloat16(x)) == client.sum(x)


def test_iterators(client):
    x = grid()
    arrives_as(client, iter(x), x, "pieces")
    arrives_as(client, (part.T for part in x), [part.T for part in x], "pieces")
    assert client.sum(iter([]), dtype="int32") == 0
    assert client.sum(iter([[1, 2], numpy.int64(3)])) == 6


def test_files_of_raw_elements(client):
    x = grid()
    arrives_as(client, io.BytesIO(x.tobytes()), x, "pieces", dtype="float32")

    class Trickle(io.BytesIO):  # cuts elements
        def read(self, size=-1):
            return super().read(min(size, 999))

    arrives_as(client, Trickle(x.tobytes()), x, "pieces", dtype="float32")


def test_npy_and_raw_files_are_mapped(client, tmp_path):
    x = grid()
    numpy.save(tmp_path / "x.npy", x)
    arrives_as(client, files.npy(tmp_path / "x.npy"), x, "memory")
    x.tofile(tmp_path / "x.raw")
    arrives_as(client, files.raw(tmp_path / "x.raw", "float32"), x, "memory")
    arrives_as(client, numpy.memmap(tmp_path / "x.raw", "float32", "r")[::3], x.reshape(-1)[::3], "copied")
    (tmp_path / "empty.raw").touch()
    assert client.sum(files.raw(tmp_path / "empty.raw", "int8")) == 0


def test_npz_members_whose_names_end_as_files_do(client, tmp_path):
    for arrays in ({"q.npy": [1.0, 2.0]}, {"q.npy": [1.0, 2.0], "q": [5.0]}):
        numpy.savez(tmp_path / "x.npz", **arrays)
        there = numpy.load(tmp_path / "x.npz")
        for name in ("q.npy", "q.npy.npy", "q"):
            if name in there:
                assert client.sum(files.npz(tmp_path / "x.npz", name)) == there[name].sum()


def test_npz_members_are_streamed(client, tmp_path):
    x = numpy.random.default_rng(6).normal(size=(3000, 1000))
    numpy.savez_compressed(tmp_path / "x.npz", x=x, y=x[:2], empty=x[:0])
    arrives_as(client, files.npz(tmp_path / "x.npz", "x"), x, "pieces")
    together = itertools.chain(files.npz(tmp_path / "x.npz", "x"), files.npz(tmp_path / "x.npz", "y"))
    arrives_as(client, together, numpy.concatenate([x, x[:2]]), "pieces")
    assert client.sum(files.npz(tmp_path / "x.npz", "empty")) == 0
    matrices = x.reshape(-1, 4, 4)
    numpy.savez(tmp_path / "m.npz", m=matrices)
    result = client.reduce(files.npz(tmp_path / "m.npz", "m"), ["max"], matrix=True)
    assert (result["max"] == matrices.max(0)).all()


class Reads(io.BytesIO):
    """A file whose read() returns another kind of bytes, which it may fill again."""

    def __init__(self, data, kind):
        super().__init__(data)
        self.kind, self.buffer = kind, bytearray(1000)

    def read(self, size=-1):
        count = self.readinto(memoryview(self.buffer)[:size if 0 <= size < 1000 else 1000])
        return self.kind(self.buffer)[:count]


@pytest.mark.parametrize("kind", [bytearray, memoryview])
def test_files_that_answer_other_kinds_of_bytes(client, kind):
    x = grid()
    arrives_as(client, Reads(x.tobytes(), kind), x, "pieces", dtype="float32")


def test_files_that_answer_no_bytes(client):
    with pytest.raises(TypeError, match=r"read\(\) answers builtins\.list"):
        client.sum(Reads(b"1234", list), dtype="float32")


@pytest.mark.parametrize("content", [b"", b"text", b"\x93NUMPY", b"\x80\x04K\x01.", b"PK\x03\x04"])
def test_npy_and_npz_files_that_are_none(client, tmp_path, content):
    path = tmp_path / "x"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is no \.npy file") as raised:
        client.sum(files.npy(path))
    assert "pickle" not in str(raised.value)
    with pytest.raises(ValueError, match=r"is no \.npz file"):
        client.sum(files.npz(path, "x"))


def test_npy_files_of_objects_and_archives(client, tmp_path):
    numpy.save(tmp_path / "o.npy", numpy.array([None]), allow_pickle=True)
    with pytest.raises(ValueError, match=r"is no \.npy file of elements"):
        files.npy(tmp_path / "o.npy")
    numpy.savez(tmp_path / "x.npz", x=grid())
    with pytest.raises(ValueError, match=r"files\.npz"):
        files.npy(tmp_path / "x.npz")
    archive = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "x.npz").write_bytes(archive[:3000] + b"?" * 100 + archive[3100:])
    with pytest.raises(ValueError, match="a broken one"):
        client.sum(files.npz(tmp_path / "x.npz", "x"))


def test_npz_that_is_bad(client, tmp_path):
    numpy.savez(tmp_path / "x.npz", f=numpy.asfortranarray(grid()), o=numpy.array([None]))
    with pytest.raises(KeyError, match="nothing"):
        client.sum(files.npz(tmp_path / "x.npz", "nothing"))
    for member, words in (("f", "Fortran"), ("o", "objects")):
        with pytest.raises(ValueError, match=words):
            client.sum(files.npz(tmp_path / "x.npz", member))
    with zipfile.ZipFile(tmp_path / "short.npz", "w") as archive:
        whole = io.BytesIO()
        numpy.save(whole, grid())
        archive.writestr("x.npy", whole.getvalue()[:-1])
    with pytest.raises(ValueError, match="shorter"):
        client.sum(files.npz(tmp_path / "short.npz", "x"))


def test_arrow_and_parquet(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    feather = pytest.importorskip("pyarrow.feather")
    x = grid().reshape(-1)
    table = pyarrow.table({"x": x, "flag": x > 0, "null": [None, *x[1:]]})
    parquet.write_table(table, tmp_path / "t.parquet", row_group_size=1000)
    feather.write_feather(table, tmp_path / "t.arrow", compression="uncompressed", chunksize=3000)
    for read, name in ((files.parquet, "t.parquet"), (files.arrow, "t.arrow")):
        arrives_as(client, read(tmp_path / name, "x"), x, "pieces")
        assert client.count_nonzero(read(tmp_path / name, "flag")) == (x > 0).sum()
        with pytest.raises(ValueError, match="null"):
            client.sum(read(tmp_path / name, "null"))
        with pytest.raises(KeyError, match="nothing"):
            client.sum(read(tmp_path / name, "nothing"))
    parquet.write_table(table.slice(0, 0), tmp_path / "empty.parquet")
    assert client.sum(files.parquet(tmp_path / "empty.parquet", "x")) == 0


def test_parquet_columns_with_dots_in_their_names(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    x = grid().reshape(-1)
    fields = pyarrow.StructArray.from_arrays([pyarrow.array(-x)], ["x"])
    for names in (["s", "s.x", "a"], ["s.x", "a", "s"], ["a", "s.x"]):
        columns = {"s": fields, "s.x": x, "a": x + 1}
        parquet.write_table(pyarrow.table({name: columns[name] for name in names}), tmp_path / "t")
        arrives_as(client, files.parquet(tmp_path / "t", "s.x"), x, "pieces")
        arrives_as(client, files.parquet(tmp_path / "t", "a"), x + 1, "pieces")
        if "s" in names:
            with pytest.raises(TypeError, match="struct"):
                client.sum(files.parquet(tmp_path / "t", "s"))
    parquet.write_table(pyarrow.table({"s": fields}), tmp_path / "t")
    with pytest.raises(KeyError, match=r"s\.x"):
        client.sum(files.parquet(tmp_path / "t", "s.x"))


@pytest.mark.filterwarnings("error")
def test_arrays_of_pyarrow(client):
    """PyArrow warns about capsules of DLPack that have no version."""
    pyarrow = pytest.importorskip("pyarrow")
    x = numpy.arange(50.0)
    arrives_as(client, pyarrow.array(x), x, "memory")
    with pytest.raises(TypeError, match="no nulls"):
        client.sum(pyarrow.array([1, None]))


def test_dlpack_of_who_knows_no_versions(client):
    class Old(Foreign):
        def __dlpack__(self):
            return self.array.__dlpack__()

    arrives_as(client, Old(grid()), grid(), "memory")
    with pytest.raises(TypeError, match=r"in place: .*DLPack"):
        client.sum(Old(numpy.array(["text"])))


def test_arrow_streams(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    x = grid().reshape(-1)
    table = pyarrow.table({"x": x, "flag": x > 0})
    with pyarrow.OSFile(str(tmp_path / "t.arrows"), "wb") as sink, \
            pyarrow.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=3000)
    arrives_as(client, files.arrow(tmp_path / "t.arrows", "x"), x, "pieces")
    assert client.count_nonzero(files.arrow(tmp_path / "t.arrows", "flag")) == (x > 0).sum()
    (tmp_path / "text").write_bytes(b"text" * 100)
    with pytest.raises(ValueError):
        client.sum(files.arrow(tmp_path / "text", "x"))


def test_arrow_columns_of_other_types(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    feather = pytest.importorskip("pyarrow.feather")
    parquet = pytest.importorskip("pyarrow.parquet")
    words = pyarrow.array(["a", "b", "a"])
    columns = {"dictionary": words.dictionary_encode(), "text": words, "list": pyarrow.array([[1], [2], [3]]),
               "time": pyarrow.array([1, 2, 3], pyarrow.timestamp("us")),
               "decimal": pyarrow.array([1, 2, 3], pyarrow.decimal128(5))}
    table = pyarrow.table(columns)
    feather.write_feather(table, tmp_path / "t.arrow")
    parquet.write_table(table, tmp_path / "t.parquet")
    for name in columns:
        for read, path in ((files.arrow, "t.arrow"), (files.parquet, "t.parquet")):
            with pytest.raises(TypeError, match=f"column '{name}' is of ({name[:4]}|string)"):
                client.sum(read(tmp_path / path, name))


@pytest.mark.parametrize("dtype", ["<i2", "<f4", "<f8", "?", "bfloat16"])
def test_fields_that_lie_at_no_multiples_of_their_size(client, dtype):
    kind = pytest.importorskip("ml_dtypes").bfloat16 if dtype == "bfloat16" else dtype
    x = numpy.zeros((40, 50), [("odd", "i1"), ("field", kind), ("more", "i2")])
    x["field"] = numpy.random.default_rng(3).integers(-90, 90, x.shape)
    for part in (x["field"], x["field"].T, x["field"][::-2, 3:]):
        result = client.reduce(part, ["sum", "argmax"])
        assert result["sum"] == numpy.ascontiguousarray(part).astype("float64").sum()
        assert result["argmax"] == numpy.ascontiguousarray(part).astype("float64").argmax()
        assert result.way == "copied"


@pytest.mark.parametrize("fewer", [0, 1])
def test_fields_of_as_many_dimensions_as_can_be(client, fewer):
    dimensions = most_dimensions() - fewer
    x = numpy.zeros((1,) * (dimensions - 2) + (3, 2), [("odd", "i1"), ("field", "f8")])["field"]
    x[...] = [[1, 2], [3, 8], [5, 6]]
    arrives_as(client, x, x, "copied")
    assert client.sum(x, keepdims=True).shape == (1,) * dimensions
    for axis in (0, dimensions - 2, -1, (0, -1), (dimensions - 2, 3)):
        assert numpy.array_equal(client.sum(x, axis), x.sum(axis))
        assert numpy.array_equal(client.sum(x.T, axis, keepdims=True), x.T.sum(axis, keepdims=True))


class _Unmasked(numpy.ndarray):
    mask = False


class _Failing(numpy.ndarray):
    @property
    def mask(self):
        raise RuntimeError("no mask here")


def test_what_is_called_mask_and_masks_nothing(client):
    for kind in (_Unmasked, _Failing):
        assert client.sum(numpy.array([1.0, 2.0]).view(kind)) == 3
    assert not has_mask(numpy.rec.array([(1, True)], dtype=[("x", "i4"), ("mask", "?")]))
