# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Files that are broken, or claim the impossible: ValueError for every kind of them, and no value."""

import array as standard_array
import ast
import ctypes
import io
import itertools
import math
import mmap
import os
import struct
import sys
import zipfile

import numpy
import pytest

import warpfold
from warpfold import files

_DATA = numpy.arange(6.0).tobytes()


def npy(header, version=(1, 0), data=_DATA):
    text = header.encode() + b"\n"
    length = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + length + text + data


def of_shape(shape):
    return f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}}}"


def archive(path, content, **options):
    with zipfile.ZipFile(path, "w", **options) as file:
        file.writestr("x.npy", content)


@pytest.mark.parametrize("header, version", [
    (of_shape("(-1,)"), (1, 0)), (of_shape("(-6, 1)"), (1, 0)), (of_shape("(-2, -3)"), (1, 0)),
    (of_shape("(True,)"), (1, 0)), (of_shape(f"(0, {2**70})"), (1, 0)), (of_shape(f"({2**70}, 0)"), (1, 0)),
    (of_shape(f"(0, {2**40}, {2**40})"), (1, 0)), (of_shape(f"({2**62},)"), (1, 0)),
    (of_shape("(7,)"), (1, 0)), (of_shape("(6.0,)"), (1, 0)), (of_shape("6"), (1, 0)),
    (of_shape("(6,)"), (9, 0)), (of_shape("(6,)"), (0, 1)),
    ("{'descr'", (1, 0)), ("((((", (1, 0)), ("{'descr'", (2, 0)), ("", (1, 0)), ("{[]: 1}", (1, 0)),
    ("(" * 5000, (1, 0)), ("-" * 9000 + "1", (1, 0)), ("\x00", (1, 0)),
    ("{'descr': '<q9', 'fortran_order': False, 'shape': (6,)}", (1, 0))])
def test_headers_that_say_what_cannot_be(client, tmp_path, header, version):
    content = npy(header, version)
    (tmp_path / "x.npy").write_bytes(content)
    with pytest.raises(ValueError, match=r"is no \.npy file"):
        client.sum(files.npy(tmp_path / "x.npy"))
    archive(tmp_path / "x.npz", content)
    with pytest.raises(ValueError, match=r"x\.npz has no array 'x' of elements"):
        client.sum(files.npz(tmp_path / "x.npz", "x"))


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
@pytest.mark.parametrize("shape", ["(6,)", "(2, 3)", "(6, 1)", "()", "(0,)", f"(0, {2**50})"])
def test_headers_that_are_right(client, tmp_path, version, shape):
    content = npy(of_shape(shape), version, _DATA[:8 * math.prod(ast.literal_eval(shape))])
    (tmp_path / "x.npy").write_bytes(content)
    archive(tmp_path / "x.npz", content)
    want = 0 if "0" in shape or shape == "()" else 15
    assert client.sum(files.npz(tmp_path / "x.npz", "x")) == want
    if "0" not in shape:  # NumPy does not map these
        assert client.sum(files.npy(tmp_path / "x.npy")) == want


@pytest.mark.parametrize("junk", [b"x", npy(of_shape("(6,)"))])
def test_bytes_behind_the_array(client, tmp_path, junk):
    for shape in ("(6,)", "(2, 3)", "(0,)", "()"):
        content = npy(of_shape(shape), data=_DATA[:8 * math.prod(ast.literal_eval(shape))]) + junk
        (tmp_path / "x.npy").write_bytes(content)
        with pytest.raises(ValueError, match=rf"x\.npy is no .*: {len(junk)} bytes left over after the"):
            files.npy(tmp_path / "x.npy")
        for compression in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            archive(tmp_path / "x.npz", content, compression=compression)
            with pytest.raises(ValueError, match=rf"'x' .*: {len(junk)} bytes left over after the array"):
                client.sum(files.npz(tmp_path / "x.npz", "x"))


def test_what_is_no_path():
    for read in (files.npy, lambda path: files.raw(path, "i4"), lambda path: next(files.npz(path, "x")),
                 lambda path: next(files.parquet(path, "x"))):
        for path in (3, None, io.BytesIO(_DATA)):
            with pytest.raises(TypeError, match=r"named by a path, as 'measurements\.npy', not by "):
                read(path)


def test_paths_of_bytes(client, tmp_path):
    path = os.fsencode(tmp_path / "\udcff")  # a name that is not text
    numpy.arange(5).tofile(path)
    assert client.sum(files.raw(path, "int64")) == 10
    with pytest.raises(ValueError, match=r"^/.*\udcff is no \.npy file"):
        files.npy(path)
    with pytest.raises(ValueError, match=r"^/.*\udcff is no \.npz file"):
        next(files.npz(path, "x"))
    with pytest.raises(ValueError, match=r"^/.*\udcff is not a PEM file"):
        warpfold.connect(tls_ca=path)
    for name in ("tls_ca", "memory_socket"):
        with pytest.raises(TypeError, match=f"{name} must be a path, not 3"):
            warpfold.connect(**{name: 3})  # otherwise this would be somebody's descriptor


@pytest.mark.parametrize("comment", [b"", b"of nothing at all"])
def test_an_archive_without_members_is_no_elements(client, tmp_path, comment):
    path = tmp_path / "x"
    with zipfile.ZipFile(path, "w") as file:
        file.comment = comment
    with pytest.raises(ValueError, match="begins like an archive"):
        files.raw(path, "uint8")
    for file in (io.BytesIO(path.read_bytes()), Trickle(path.read_bytes())):
        with pytest.raises(ValueError, match="begins like an archive"):
            client.sum(file, dtype="uint8")
    content = path.read_bytes()
    for pieces in ([content], [content[:3], content[3:]], [bytearray(content)]):
        with pytest.raises(ValueError, match="begins like an archive"):
            client.sum(iter(pieces))  # without a type, bytes are uint8
    x = numpy.array([0x06054B50, *range(9)], "i4")  # begins like one by chance
    x.tofile(path)
    assert client.sum(files.raw(path, "int32")) == x.sum()


def test_a_member_that_is_no_array_is_named(tmp_path):
    with zipfile.ZipFile(tmp_path / "x.zip", "w") as file:
        file.writestr("a.txt", "text")
    with pytest.raises(ValueError, match=r"x\.zip has no array 'a\.txt' of elements"):
        next(files.npz(tmp_path / "x.zip", "a.txt"))


@pytest.mark.parametrize("compression", ["STORED", "DEFLATED", "BZIP2", "LZMA"])
def test_members_with_flipped_bits(client, tmp_path, compression):
    path = tmp_path / "x.npz"
    whole = io.BytesIO()
    numpy.save(whole, numpy.random.default_rng(2).normal(size=4000))
    archive(path, whole.getvalue(), compression=getattr(zipfile, f"ZIP_{compression}"))
    right = path.read_bytes()
    value = client.sum(files.npz(path, "x"))
    refused = 0
    for at in (40, 41, 45, 60, 5000, 20_000):
        path.write_bytes(right[:at] + bytes([right[at] ^ 0x10]) + right[at + 1:])
        try:
            assert client.sum(files.npz(path, "x")) == value, at  # LZMA states twice how much memory it takes
        except ValueError:
            refused += 1
    assert refused >= 4


@pytest.mark.parametrize("offset, value", [(6, 1), (8, 77)])  # encrypted; an unknown compression
def test_members_that_zipfile_does_not_read(client, tmp_path, offset, value):
    path = tmp_path / "x.npz"
    archive(path, npy(of_shape("(6,)")))
    content = bytearray(path.read_bytes())
    directory = content.index(b"PK\x01\x02")
    content[offset] = content[directory + offset + 2] = value
    path.write_bytes(content)
    with pytest.raises(ValueError, match=r"is no \.npz file"):
        client.sum(files.npz(path, "x"))


def test_elements_that_are_an_archive(client, tmp_path):
    archive(tmp_path / "x.npz", npy(of_shape("(6,)")))
    x = numpy.frombuffer((tmp_path / "x.npz").read_bytes(), "uint8")
    numpy.save(tmp_path / "x.npy", x)
    assert client.sum(files.npy(tmp_path / "x.npy")) == x.sum(dtype="uint64")
    with pytest.raises(ValueError, match=r"files\.npz"):
        files.npy(tmp_path / "x.npz")


def test_a_column_whose_file_is_cut_meanwhile(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"x": numpy.arange(100_000.0)})
    with pyarrow.ipc.new_file(tmp_path / "x", batch.schema) as writer:
        for _ in range(4):
            writer.write_batch(batch)
    pieces = files.arrow(tmp_path / "x", "x")
    assert [len(next(pieces)) for _ in range(3)] == [0, 100_000, 100_000]
    os.truncate(tmp_path / "x", 4096)
    with pytest.raises(ValueError, match="shorter"):
        next(pieces)


@pytest.mark.parametrize("legacy", [False, True])
def test_arrow_streams_that_were_cut(client, tmp_path, legacy):
    pyarrow = pytest.importorskip("pyarrow")
    # If a dictionary is replaced there is one more message between two batches.
    names = [pyarrow.array([name] * 9).dictionary_encode() for name in ("one", "one", "other")]
    batches = [pyarrow.record_batch({"x": numpy.arange(9), "name": name}) for name in names]
    options = pyarrow.ipc.IpcWriteOptions(use_legacy_format=legacy)
    with pyarrow.ipc.new_stream(tmp_path / "x", batches[0].schema, options=options) as writer:
        for batch in batches:
            writer.write_batch(batch)
    whole = (tmp_path / "x").read_bytes()
    assert client.sum(files.arrow(tmp_path / "x", "x")) == 3 * 36
    for length in range(0, len(whole), 4):
        (tmp_path / "x").write_bytes(whole[:length])
        with pytest.raises((ValueError, OSError)):
            client.sum(files.arrow(tmp_path / "x", "x"))
    with pytest.raises(ValueError, match="x is an Arrow stream without the mark of its end"):
        (tmp_path / "x").write_bytes(whole[:-4 if legacy else -8])
        client.sum(files.arrow(tmp_path / "x", "x"))


@pytest.mark.parametrize("legacy", [False, True])
def test_bytes_behind_an_arrow_stream(client, tmp_path, legacy):
    pyarrow = pytest.importorskip("pyarrow")
    for batches in (0, 2):
        batch = pyarrow.record_batch({"x": numpy.arange(9)})
        options = pyarrow.ipc.IpcWriteOptions(use_legacy_format=legacy)
        with pyarrow.ipc.new_stream(tmp_path / "x", batch.schema, options=options) as writer:
            for _ in range(batches):
                writer.write_batch(batch)
        whole = (tmp_path / "x").read_bytes()
        assert client.sum(files.arrow(tmp_path / "x", "x")) == batches * 36
        for junk in (b"x", bytes(8), whole):
            (tmp_path / "x").write_bytes(whole + junk)
            with pytest.raises(ValueError, match=rf"x has {len(junk)} bytes left over after the Arrow"):
                client.sum(files.arrow(tmp_path / "x", "x"))


@pytest.mark.parametrize("rows", [-1, 13_000, 10**9, 2**62 + 1, 2**63 - 1])
@pytest.mark.parametrize("dtype", ["float64", "bool"])
def test_arrow_columns_of_fewer_elements_than_rows(client, tmp_path, rows, dtype):
    """Without the check memory beyond the column is reduced, or its absence ends the process."""
    pyarrow = pytest.importorskip("pyarrow")
    batch = pyarrow.record_batch({"x": numpy.ones(12_347, dtype)})
    for new_writer in (pyarrow.ipc.new_file, pyarrow.ipc.new_stream):
        with new_writer(tmp_path / "x", batch.schema) as writer:
            writer.write_batch(batch)
        whole = (tmp_path / "x").read_bytes()
        assert client.count_nonzero(files.arrow(tmp_path / "x", "x")) == 12_347
        number = (12_347).to_bytes(8, "little")  # of the batch's rows, and of the column's elements
        assert whole.count(number) == 2
        (tmp_path / "x").write_bytes(whole.replace(number, rows.to_bytes(8, "little", signed=True)))
        with pytest.raises(ValueError, match="column 'x' does not have the elements that its file announces"):
            client.count_nonzero(files.arrow(tmp_path / "x", "x"))


def test_checksums_of_parquet_pages(client, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    x = numpy.arange(1000.0)
    for has_checksums in (False, True):
        parquet.write_table(pyarrow.table({"x": x}), tmp_path / "x", compression="none", use_dictionary=False,
                            write_page_checksum=has_checksums)
        assert client.sum(files.parquet(tmp_path / "x", "x")) == x.sum()
    whole = (tmp_path / "x").read_bytes()
    (tmp_path / "x").write_bytes(whole.replace(x[500:510].tobytes(), x[501:511].tobytes()))
    with pytest.raises(ValueError, match=r"/x is no Parquet file, or a broken one: .*checksum"):
        client.sum(files.parquet(tmp_path / "x", "x"))


@pytest.mark.parametrize("content", [b"", b"1,2\n3,4\n", b"PAR1" + bytes(100) + b"PAR1",
                                     b"ARROW1" + bytes(100), bytes(100), npy(of_shape("(6,)"))])
def test_files_that_are_no_arrow_or_parquet_files(tmp_path, content):
    pytest.importorskip("pyarrow")
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(ValueError, match="/x is no Arrow file, or a broken one: "):
        next(files.arrow(tmp_path / "x", "x"))
    with pytest.raises(ValueError, match="/x is no Parquet file, or a broken one: "):
        next(files.parquet(tmp_path / "x", "x"))
    for read in (files.arrow, files.parquet):
        with pytest.raises(FileNotFoundError):
            next(read(tmp_path / "none", "x"))


class Trickle(io.BytesIO):
    """Returns a byte at a time, as a slow pipe may do."""

    def read(self, size=-1):
        return super().read(1)


@pytest.mark.parametrize("dtype", ["float64", "uint8", "bfloat16"])
def test_headers_are_no_elements(client, tmp_path, dtype):
    numpy.save(tmp_path / "x.npy", numpy.arange(6.0))
    numpy.savez(tmp_path / "x.npz", x=numpy.arange(6.0))
    for name, remedy in (("x.npy", r"files\.npy\(path\)"), ("x.npz", r"files\.npz\(path, member\)")):
        path = tmp_path / name
        content = path.read_bytes()
        for file in (io.BytesIO(content), Trickle(content), io.FileIO(path),
                     io.BufferedReader(io.FileIO(path))):
            with file, pytest.raises(ValueError, match=remedy):
                client.sum(file, dtype=dtype)
        if dtype != "bfloat16":
            with pytest.raises(ValueError, match=remedy):
                files.raw(path, dtype)
            # The message suggests this to callers who mean these bytes.
            assert client.reduce(numpy.memmap(path, dtype, "r"), ["first"])
        with open(path, "rb") as file:
            file.seek(len(content) % 8 + 8)  # the caller has to know what is skipped
            assert client.reduce(file, ["first"], dtype=dtype)


def test_several_files_in_order(client, tmp_path):
    x = numpy.random.default_rng(5).normal(size=400_000)
    parts = x[:300_000], x[300_000:]
    for at, part in enumerate(parts):
        part.tofile(tmp_path / f"{at}.raw")
        numpy.save(tmp_path / f"{at}.npy", part)
        numpy.savez(tmp_path / f"{at}.npz", x=part)
    want = client.reduce(x, ["sum", "first", "last", "argmax"])

    class Recorded(io.FileIO):
        def read(self, size=-1):
            sizes.append(size)
            return super().read(size)

    sizes = []
    with Recorded(tmp_path / "0.raw") as first, open(tmp_path / "1.raw", "rb") as second:
        assert client.reduce(iter([first, second]), list(want), dtype="float64") == want
    assert len(sizes) >= 3 and set(sizes) == {1 << 20}  # never as a whole
    with open(tmp_path / "1.raw", "rb") as second:
        assert client.reduce(iter([parts[0], second]), list(want), dtype="float64") == want
    for read, suffix in ((files.npy, "npy"), (lambda path: files.raw(path, "float64"), "raw")):
        assert client.reduce(iter([read(tmp_path / f"{at}.{suffix}") for at in range(2)]), list(want)) == want
    members = [files.npz(tmp_path / f"{at}.npz", "x") for at in range(2)]
    assert client.reduce(itertools.chain(*members), list(want)) == want
    with pytest.raises(TypeError, match=r"itertools\.chain"):
        client.sum(iter([files.npz(tmp_path / "0.npz", "x")]))


def test_files_in_order_each_have_whole_elements(client):
    for pieces in ([io.BytesIO(bytes(9)), io.BytesIO(bytes(7))], [bytes(9), io.BytesIO(bytes(7))]):
        with pytest.raises(ValueError, match="end inside an element"):
            client.sum(iter(pieces), dtype="float64")
    with pytest.raises(TypeError, match="pass dtype="):
        client.sum(iter([io.BytesIO(bytes(8))]))


def test_headers_in_pieces_are_no_elements(client, tmp_path):
    """A chain of files consists of their lines, which nothing distinguishes from other bytes."""
    numpy.save(tmp_path / "x.npy", numpy.ones(1000))
    content = (tmp_path / "x.npy").read_bytes()
    raw = io.BytesIO(bytes(800))
    with open(tmp_path / "x.npy", "rb") as file, open(tmp_path / "x.npy", "rb") as again:
        for pieces in (itertools.chain(file, again), iter([raw, again]), iter([numpy.ones(3), content]),
                       iter([content[:3], content[3:]])):
            with pytest.raises(ValueError, match=r"files\.npy\(path\)"):
                client.sum(pieces, dtype="float64")


@pytest.mark.parametrize("suffix", ["npy", "npz"])
def test_headers_in_bytes_are_no_elements(client, tmp_path, suffix):
    numpy.save(tmp_path / "x.npy", numpy.ones(1000))
    numpy.savez(tmp_path / "x.npz", x=numpy.ones(1000))
    content = (tmp_path / f"x.{suffix}").read_bytes()
    content += bytes(-len(content) % 8)
    with open(tmp_path / f"x.{suffix}", "rb") as file, \
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        for data in (content, bytearray(content), memoryview(content), memoryview(content).cast("c"), mapped,
                     (ctypes.c_ubyte * len(content)).from_buffer_copy(content),
                     numpy.frombuffer(content, "uint8").data, standard_array.array("b", content)):
            for call in (client.sum, client.put, lambda x, **options: client.partial(x, ["sum"], **options)):
                with pytest.raises(ValueError, match=rf"files\.{suffix}\(path"):
                    call(data, dtype="uint8")
        assert client.sum(mapped) == client.sum(mapped[:]) > 0  # without a type, bytes are uint8
    assert client.sum(content[8:], dtype="float64") is not None


def test_headers_in_a_map_that_was_cut(client, tmp_path):
    (tmp_path / "x").write_bytes(bytes(8192))
    with open(tmp_path / "x", "rb") as file, \
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        os.truncate(tmp_path / "x", 0)
        with pytest.raises(ValueError, match="shorter"):
            client.sum(mapped, dtype="float64")


def test_members_in_fortran_order_are_for_numpy(client, tmp_path):
    numpy.savez(tmp_path / "x.npz", x=numpy.asfortranarray(numpy.ones((2, 3))), y=numpy.ones(3))
    with pytest.raises(ValueError, match=r"array 'x' in .*x\.npz is in Fortran order .*: use numpy\.load$"):
        client.sum(files.npz(tmp_path / "x.npz", "x"))
    assert client.sum(files.npz(tmp_path / "x.npz", "y")) == 3


def test_bfloat16_members(client, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    numpy.savez(tmp_path / "x.npz", x=numpy.arange(6).astype("bfloat16"))
    with pytest.raises(TypeError, match=r"for piece in pieces"):
        client.sum(files.npz(tmp_path / "x.npz", "x"))
    pieces = files.npz(tmp_path / "x.npz", "x")
    assert client.sum(piece.view(ml_dtypes.bfloat16) for piece in pieces) == 15


@pytest.mark.parametrize("read", [files.arrow, files.parquet])
def test_columns_that_are_not_there_or_several(tmp_path, read):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x"])
    with pyarrow.OSFile(str(tmp_path / "t"), "wb") as sink:
        if read is files.arrow:
            with pyarrow.ipc.new_file(sink, table.schema) as writer:
                writer.write_table(table)
        else:
            pytest.importorskip("pyarrow.parquet").write_table(table, sink)
    with pytest.raises(KeyError, match="there is no column 'zz': x, x"):
        next(read(tmp_path / "t", "zz"))
    with pytest.raises(KeyError, match="there are 2 columns called 'x'"):
        next(read(tmp_path / "t", "x"))


@pytest.mark.parametrize("read", [files.arrow, files.parquet])
def test_columns_without_pyarrow(tmp_path, monkeypatch, read):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ModuleNotFoundError, match=r"needs pyarrow \(pip install pyarrow\)"):
        next(read(tmp_path / "t", "x"))


def test_elements_that_begin_as_an_archive_does_by_chance(client, tmp_path):
    x = numpy.array([0x04034B50, *range(1, 20)], "i4")
    (tmp_path / "x").write_bytes(x.tobytes())
    for pieces in (iter([x.tobytes()]), io.BytesIO(x.tobytes()), files.raw(tmp_path / "x", "int32"),
                   iter([x.tobytes()[:30], x.tobytes()[30:]])):
        assert client.sum(pieces, dtype="int32") == x.sum()


def test_short_files_of_elements(client, tmp_path):
    for content in (b"", b"\x93", b"\x93NUMP", b"PK", b"\x93NUMPx"):
        (tmp_path / "x").write_bytes(content)
        for file in (io.BytesIO(content), Trickle(content)):
            assert client.sum(file, dtype="uint8") == sum(content)
        assert client.sum(files.raw(tmp_path / "x", "uint8")) == sum(content)


def test_bfloat16(client, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numpy.arange(24).reshape(2, 12).astype(ml_dtypes.bfloat16)
    numpy.save(tmp_path / "x.npy", x)
    numpy.savez(tmp_path / "x.npz", x=x)
    remedy = r"V2 .*bfloat16.*array\.view\(ml_dtypes\.bfloat16\)"
    for read in (lambda: files.npy(tmp_path / "x.npy"), lambda: files.npz(tmp_path / "x.npz", "x")):
        with pytest.raises(TypeError, match=remedy):
            client.sum(read())
    # What the message says:
    result = client.reduce(files.npy(tmp_path / "x.npy").view(ml_dtypes.bfloat16), ["sum", "max"])
    assert dict(result) == {"sum": 276, "max": 23} and result.way == "memory"
    pieces = (piece.view(ml_dtypes.bfloat16) for piece in files.npz(tmp_path / "x.npz", "x"))
    assert client.sum(pieces) == 276
    with pytest.raises(TypeError, match="element types are"):
        client.sum(numpy.zeros(2, "V3"))


def test_raw_files_of_bfloat16(client, tmp_path):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numpy.arange(24).astype(ml_dtypes.bfloat16)
    x.tofile(tmp_path / "x")
    (tmp_path / "empty").touch()
    for dtype in (ml_dtypes.bfloat16, numpy.dtype(ml_dtypes.bfloat16)):
        result = client.reduce(files.raw(tmp_path / "x", dtype), ["sum", "max"])
        assert dict(result) == {"sum": 276, "max": 23} and result.way == "memory"
        assert result["max"].dtype == files.raw(tmp_path / "empty", dtype).dtype == ml_dtypes.bfloat16
    with pytest.raises(ValueError, match=r"ml_dtypes\.bfloat16"):
        files.raw(tmp_path / "x", "bfloat16")


def test_files_that_are_not_there(tmp_path):
    for read in (lambda: files.npy(tmp_path / "x"), lambda: files.raw(tmp_path / "x", "int8"),
                 lambda: next(files.npz(tmp_path / "x", "x"))):
        with pytest.raises(FileNotFoundError):
            read()
