# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Files as arrays. The result of each function can be passed to any method of a client:

    client.sum(warpfold.files.npy("measurements.npy"))
    client.sum(warpfold.files.parquet("trips.parquet", "distance"))
    client.sum(itertools.chain(warpfold.files.npz("a.npz", "x"), warpfold.files.npz("b.npz", "x")))
    client.sum(iter([warpfold.files.npy("a.npy"), warpfold.files.npy("b.npy")]))

None of them reads a file as a whole: they map it, or are iterators of pieces. Errors: OSError for a file that
cannot be read, ValueError for one that is not of this format or contains more, KeyError for a member or a
column that does not exist, TypeError for an argument that is not a path.
"""

from __future__ import annotations

import contextlib
import math
import os
import zipfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING, Any

from warpfold.arrays import PIECE_BYTES
from warpfold.element_types import dtype_of, type_named
from warpfold.later import Later
from warpfold.mapped import Mapping
from warpfold.options import Path
from warpfold.raw_bytes import BEGIN_BYTES, check_begin

if TYPE_CHECKING:
    import numpy
else:
    numpy = Later("numpy")

# How many bytes end an Arrow stream, in today's format and in that before Arrow 0.15. Messages have more.
_END_MARK_BYTES = (8, 4)


class _FortranOrderError(ValueError):
    """A member cannot be read in pieces."""


def npy(path: Path) -> numpy.ndarray[Any, Any]:
    """The array of a .npy file, mapped. ValueError for a file of another kind, for elements that are objects,
    or for bytes after the array, such as those of another one."""
    import numpy

    name = _path(path)
    try:
        with open(name, "rb") as file:
            # This does not use zipfile.is_zipfile, which looks at the end, where the elements may look like
            # an archive, too.
            if file.peek(2)[:2] == b"PK":
                raise ValueError("it is an archive of arrays: pass warpfold.files.npz(path, member)")
            shape, _, dtype = _header_of(file)
            _check_end(os.fstat(file.fileno()).st_size - file.tell(), shape, dtype)
        return numpy.lib.format.open_memmap(name, mode="r")
    except ValueError as error:
        raise ValueError(f"{name} is no .npy file of elements: {error}") from None


def raw(path: Path, dtype: Any) -> numpy.ndarray[Any, Any]:
    """A file that contains only little-endian elements, mapped. ValueError for a .npy file or an archive.

    dtype: their type, such as "float32", or a NumPy type: numpy.float32, "f4", ml_dtypes.bfloat16. TypeError
        for anything else.
    """
    import numpy

    name = type_named(dtype)
    if name == "bfloat16" and isinstance(dtype, str):
        raise ValueError("NumPy has no type of this name: pass ml_dtypes.bfloat16, or the open file with "
                         "dtype='bfloat16'")
    kind = numpy.dtype(dtype) if name == "bfloat16" else dtype_of(name)
    with open(_path(path), "rb") as file:
        begin = file.read(BEGIN_BYTES)
    check_begin(begin)
    if not begin:
        return numpy.empty(0, kind)
    return numpy.memmap(_path(path), kind, "r")


def npz(path: Path, member: str) -> Iterator[numpy.ndarray[Any, Any]]:
    """The pieces of one array of a .npz file, unpacked as they are requested. ValueError for a file of
    another kind, for an array in Fortran order (numpy.load reads it), and for bytes after the array."""
    where = _path(path)
    try:
        with zipfile.ZipFile(where) as archive:
            there = archive.namelist()
            name = member if member in there else f"{member}.npy"  # in this order, as NumPy
            if name not in there:
                raise KeyError(f"there is no array {member!r} in {where}")
            with archive.open(name) as file:
                yield from _npy_pieces(file, archive.getinfo(name).file_size)
    except Exception as error:
        # Each kind of compression has its own errors: bzip2's is an OSError, but not one of the system.
        is_of_system = getattr(error, "errno", None) is not None
        if is_of_system or isinstance(error, (KeyError, MemoryError, ImportError)):
            raise
        if isinstance(error, _FortranOrderError):
            raise ValueError(f"array {member!r} in {where} is in Fortran order and cannot be read in pieces: "
                             "use numpy.load") from None
        if isinstance(error, ValueError):
            raise ValueError(f"{where} has no array {member!r} of elements: {error}") from None
        raise ValueError(f"{where} is no .npz file, or a broken one: {error}") from None


def arrow(path: Path, column: str) -> Iterator[numpy.ndarray[Any, Any]]:
    """The pieces of a column of an Arrow IPC file (Feather 2), or of a file with an IPC stream.

    ValueError if an element is null, for a batch with fewer elements than it announces, for a stream without
    its end mark, of which batches may be missing, and for one with bytes after it, such as those of another
    stream; TypeError for a column whose type is not an element type.
    """
    pyarrow = _pyarrow("arrow")
    with _broken_is_value_error(path, "Arrow file"), open(_path(path), "rb") as file, \
            pyarrow.memory_map(_path(path)) as source, _ipc_reader(source) as reader:
        # pyarrow itself reads the mapping, and the process would end if the file behind it had become
        # shorter.
        mapping = Mapping(lambda: os.fstat(file.fileno()).st_size, source.size())
        index = _column_index(reader.schema, column)
        yield _empty_piece(reader.schema.field(index).type, column)
        batches = _batches(reader, source, path)
        while True:
            mapping.check()
            batch = next(batches, None)
            if batch is None:
                return
            yield _column_piece(batch.column(index), column)


def parquet(path: Path, column: str) -> Iterator[numpy.ndarray[Any, Any]]:
    """The pieces of a column of a Parquet file. ValueError and TypeError as for arrow(); ValueError, too, for
    a page that does not match its checksum, if it has one."""
    pyarrow = _pyarrow("parquet")
    # Pages need not have checksums. Those that there are would otherwise be ignored.
    with _broken_is_value_error(path, "Parquet file"), \
            pyarrow.parquet.ParquetFile(_path(path), page_checksum_verification=True) as file:
        index = _column_index(file.schema_arrow, column)
        yield _empty_piece(file.schema_arrow.field(index).type, column)
        for batch in file.iter_batches(batch_size=1 << 20, columns=[column]):
            yield _column_piece(batch.column(column), column)  # it may also name a field of a struct


def _pyarrow(function: str) -> Any:
    """The module, with the submodule that reads Parquet files if these are to be read."""
    try:
        import pyarrow

        if function == "parquet":
            import pyarrow.parquet
    except ModuleNotFoundError as error:
        if error.name != "pyarrow":
            raise
        raise ModuleNotFoundError(f"warpfold.files.{function} needs pyarrow (pip install pyarrow)",
                                  name="pyarrow") from None
    return pyarrow


@contextlib.contextmanager
def _broken_is_value_error(path: Path, kind: str) -> Iterator[None]:
    """pyarrow's own errors do not name the file, and not all of its OSErrors are the system's."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowInvalid, OSError) as error:
        if getattr(error, "errno", None) is not None:
            raise
        raise ValueError(f"{_path(path)} is no {kind}, or a broken one: {error}") from None


def _path(path: Path) -> str:
    # Otherwise numbers would be opened as descriptors.
    if not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"a file is named by a path, as 'measurements.npy', not by {path!r}")
    return os.fsdecode(path)


def _check_end(data_bytes: int, shape: tuple[int, ...], dtype: numpy.dtype[Any]) -> None:
    """ValueError if there are more bytes than the array's: several may have been saved in one file."""
    left = data_bytes - math.prod(shape) * dtype.itemsize
    if left > 0:
        raise ValueError(f"{left} bytes left over after the array")


def _header_of(file: IO[bytes]) -> tuple[tuple[int, ...], bool, numpy.dtype[Any]]:
    """Shape, whether in Fortran order, and type of an open .npy file. ValueError for values that are not
    possible."""
    import numpy

    version = numpy.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0), (3, 0)):
        raise ValueError(f"version {version} of the format, which nobody knows")
    read = getattr(numpy.lib.format, f"read_array_header_{'1_0' if version == (1, 0) else '2_0'}")
    try:
        shape, fortran, dtype = read(file)
    except (OSError, ValueError, zipfile.BadZipFile):
        raise
    except Exception as error:  # Python's parser reads it
        raise ValueError(f"a header that cannot be read: {error}") from None
    if any(isinstance(length, bool) or length < 0 for length in shape) \
            or math.prod(max(length, 1) for length in shape) * max(dtype.itemsize, 1) >= 2**63:
        raise ValueError(f"a shape that no array has: {shape}")
    if dtype.hasobject:
        raise ValueError("an array of Python objects, which is not read")
    return shape, fortran, dtype


def _npy_pieces(file: IO[bytes], file_bytes: int) -> Iterator[numpy.ndarray[Any, Any]]:
    import numpy

    shape, fortran, dtype = _header_of(file)
    if fortran and len(shape) > 1:
        raise _FortranOrderError
    _check_end(file_bytes - file.tell(), shape, dtype)
    left = math.prod(shape) * dtype.itemsize
    row_bytes = math.prod(shape[1:]) * dtype.itemsize
    # Rows, unless these are huge, so that matrices keep their shape.
    step = max(PIECE_BYTES // row_bytes, 1) * row_bytes if 0 < row_bytes <= PIECE_BYTES else PIECE_BYTES
    row_shape = shape[1:] if row_bytes <= PIECE_BYTES else ()
    yield numpy.empty((0, *row_shape), dtype)
    while left > 0:
        data = file.read(min(step, left))
        if len(data) < min(step, left):
            raise ValueError("the array is shorter than its header says")
        left -= len(data)
        yield numpy.frombuffer(data, dtype).reshape(-1, *row_shape)


def _column_index(schema: Any, column: str) -> int:
    there = schema.get_all_field_indices(column)
    if not there:
        raise KeyError(f"there is no column {column!r}: {', '.join(schema.names)}")
    if len(there) > 1:
        raise KeyError(f"there are {len(there)} columns called {column!r}: {', '.join(schema.names)}")
    return int(there[0])


def _ipc_reader(source: Any) -> Any:
    """A reader for a file, which has a footer, or otherwise for a stream, which has none."""
    import pyarrow

    try:
        return pyarrow.ipc.open_file(source)
    except pyarrow.ArrowInvalid:
        source.seek(0)
        return pyarrow.ipc.open_stream(source)


def _batches(reader: Any, source: Any, path: Path) -> Iterator[Any]:
    if hasattr(reader, "num_record_batches"):  # a file's
        for number in range(reader.num_record_batches):
            yield reader.get_batch(number)
        return
    end = source.tell()
    for batch in reader:
        yield batch
        end = source.tell()
    # pyarrow also accepts the end of the file as the end of the stream.
    if source.tell() - end not in _END_MARK_BYTES:
        raise ValueError(f"{_path(path)} is an Arrow stream without the mark of its end: it was cut, or "
                         "its writer was not closed")
    if left := source.size() - source.tell():
        raise ValueError(f"{_path(path)} has {left} bytes left over after the Arrow stream: an "
                         "array is in one stream")


def _empty_piece(arrow_type: Any, name: str) -> numpy.ndarray[Any, Any]:
    """Gives the type even of a column without rows."""
    import numpy
    import pyarrow

    if not (pyarrow.types.is_integer(arrow_type) or pyarrow.types.is_floating(arrow_type)
            or pyarrow.types.is_boolean(arrow_type)):
        raise TypeError(f"column {name!r} is of {arrow_type}, which is no element type: cast it first")
    return numpy.empty(0, arrow_type.to_pandas_dtype())


def _column_piece(column: Any, name: str) -> numpy.ndarray[Any, Any]:
    try:
        # pyarrow believes a batch's number of rows: beyond its buffers, somebody else's memory would be read.
        column.validate()
    except ValueError as error:
        raise ValueError(f"column {name!r} does not have the elements that its file announces: "
                         f"{error}") from None
    if column.null_count:
        raise ValueError(f"column {name!r} has nulls, which are no elements: drop or fill them")
    return column.to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]
