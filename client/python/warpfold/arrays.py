# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What is accepted as an array, and how its bytes are obtained."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from warpfold import _native
from warpfold.element_types import (
    ELEMENT_TYPES,
    OF_COMPLEX,
    dtype_of,
    element_bytes,
    element_type,
    name_of,
    no_piece,
    remedy_of,
    type_named,
    unsupported,
)
from warpfold.exports import buffer_of, dtype_of_array, exported, format_of, is_of_bytes
from warpfold.mapped import Home, Mapping, home_of, mapping_at, mappings_of
from warpfold.masks import most_dimensions, refuse_mask_of, refuse_masked, refuse_masks_in
from warpfold.raw_bytes import BEGIN_BYTES, WholeElements, blocks_of, check_begin, check_begin_of

if TYPE_CHECKING:
    import numpy

    from warpfold.memory import MemoryOfCall

Way = Literal["memory", "copied", "staged", "pieces", "shared memory", "gpu memory", "resident", "parts"]

# An array on a GPU, or in a file, is copied to the host's memory in pieces of this size.
PIECE_BYTES = 16 << 20

# DLPack's numbers for memory that the host reads (plain, pinned for CUDA, for ROCm), and for GPUs (CUDA,
# ROCm, CUDA managed).
_HOST_DEVICES = (1, 3, 11)
_GPU_DEVICES = (2, 10, 13)
# How an array describes itself, except for the buffer protocol.
_PROTOCOLS = ("__dlpack__", "__cuda_array_interface__", "__array_interface__")


@dataclass(slots=True)
class Reference:
    """Elements that the server reads itself."""

    token: bytes
    byte_offset: int
    count: int  # of numbers: a matrix has many
    registration: Any = None  # what must live until they are read
    on_gpu: bool = False


@dataclass(slots=True)
class Elements:
    """An array on its way to the server. Which attributes it has depends on the way:

    memory, copied: a view of the host's memory.
    pieces: pieces, which come one after another, each with a view.
    staged: pieces, and the owner that they are copied from.
    gpu memory: a reference, and the owner, which send_instead() stages if the server has forgotten it.
    shared memory: a reference, and the view that is sent instead.
    resident: a reference alone.
    parts: nothing, since its states are merged.
    """

    type: str
    dtype: numpy.dtype[Any]  # of results that are elements
    way: Way
    view: _native.View | None = None
    pieces: Iterator[Elements] | None = None  # for views_of
    shape: tuple[int, ...] | None = None  # of the array, or of the first of its pieces
    owner: Any = None  # an array on a GPU, which is staged, or may have to be
    mapping: Mapping | None = None  # of a file, in which the elements lie
    reference: Reference | None = None
    matrix_of: Callable[[Elements], tuple[int, int]] | None = None  # which must be the same of all pieces
    kept_as: tuple[int, int] | None = None  # the matrices as which a server keeps them
    last: int | None = None  # the last byte's address, in memory of which nobody says whether it is a file's
    is_squeezed: bool = False  # the view has none of the array's dimensions of length 1

    @property
    def is_array(self) -> bool:
        """Whether `shape` is that of all elements: the pieces of an iterator or a file together have no
        shape."""
        return self.view is not None or self.reference is not None or self.owner is not None

    @property
    def bytes_to_send(self) -> int | None:
        """None if it is not known, or if the server reads the elements itself."""
        if self.view is not None:
            return self.view.nbytes
        is_staged = self.way == "staged" and self.shape is not None
        return math.prod(self.shape or ()) * element_bytes(self.type) if is_staged else None

    def check_mapping(self) -> None:
        """ValueError if a file under the elements was truncated, even if the call has a result: the missing
        bytes may have been read as zeros."""
        if self.mapping is not None:
            self.mapping.check()

    def send_instead(self) -> None:
        """Called when the server no longer knows the memory, for example because it is a new server."""
        self.reference = None
        if self.view is not None:
            self.way = "memory"
        else:
            self.pieces = _staged(self.owner).pieces
            self.way = "staged"


class ArrayElsewhere:
    """An array that a server keeps, or part of one: see warpfold.resident."""

    _elements: Elements


def elements_of(array: Any, dtype: Any, memory: MemoryOfCall | None = None) -> Elements:
    """Where the elements of `array` are. TypeError or ValueError for an array that cannot be sent as it is.

    dtype: the element type of arrays that do not carry one: bytes, files, an iterator of bytes or without
        pieces. For all others it must be the type that they have.
    memory: memory that the server reads itself.
    """
    import numpy

    named = dtype
    if dtype is not None:
        dtype = type_named(dtype)
    if isinstance(array, numpy.ndarray):
        if type(array) is not numpy.ndarray:
            refuse_masked(array)
        elements = _of_numpy(array)
    elif isinstance(array, ArrayElsewhere):
        elements = array._elements
    elif hasattr(array, "__dlpack__"):
        elements = _of_dlpack(array, memory)
    elif hasattr(array, "__cuda_array_interface__"):
        refuse_mask_of(array, array.__cuda_array_interface__)
        elements = _of_gpu(array, memory)
    elif hasattr(array, "__array_interface__"):
        refuse_mask_of(array, array.__array_interface__)
        elements = _of_numpy(numpy.asarray(array))
    elif isinstance(array, (list, tuple)):
        elements = _of_lists(array)
    elif isinstance(array, (bool, int, float)):
        elements = _of_numpy(numpy.asarray(array))
    elif (buffer := buffer_of(array)) is not None:
        elements = _of_buffer(buffer, dtype)
    elif hasattr(array, "read"):
        if dtype is None:
            raise TypeError("a file of raw elements does not say its type: pass dtype=, or what "
                            "warpfold.files makes of it")
        elements = _of_pieces(_iterator_pieces(blocks_of(array), dtype), dtype, "pieces")
    elif hasattr(array, "__next__"):
        elements = _of_pieces(_iterator_pieces(array, dtype), dtype, "pieces")
    else:
        raise TypeError(f"{name_of(array)} is no array, iterator or file: {remedy_of(array)}")
    if dtype is not None and elements.type != dtype:
        raise TypeError(f"dtype={dtype!r} was given, but the elements are {elements.type}: "
                        "dtype= is for what does not carry its own type")
    if dtype == "bfloat16" and not isinstance(named, str) and elements.way != "resident":
        elements.dtype = numpy.dtype(named)  # ml_dtypes', as of an array
    if memory is not None and elements.way == "memory":
        memory.refer(elements)
    return _asked(elements)


def _asked(elements: Elements) -> Elements:
    """ValueError if the elements lie in a file that was truncated, even if only the kernel knows this."""
    if elements.last is not None and elements.reference is None:
        elements.mapping = mapping_at(elements.last)
        elements.check_mapping()
    return elements


def comes_in_pieces(array: Any) -> bool:
    """Whether it is an iterator or a file, as elements_of distinguishes them from arrays. Consumes nothing of
    it."""
    if not hasattr(array, "read") and not hasattr(array, "__next__"):
        return False
    is_array = isinstance(array, ArrayElsewhere) or any(hasattr(array, name) for name in _PROTOCOLS)
    return not is_array and buffer_of(array) is None


def says_its_type(array: Any) -> bool:
    """Whether `dtype=` cannot refer to its elements: false for bytes, files and iterators."""
    import numpy

    if isinstance(array, (numpy.ndarray, ArrayElsewhere, list, tuple, bool, int, float)) \
            or any(hasattr(array, name) for name in _PROTOCOLS):
        return True
    buffer = buffer_of(array)
    return buffer is not None and not is_of_bytes(buffer)


def view_of(piece: Elements, expected: str) -> _native.View:
    """The view of one more piece, which must be of the type of those before it."""
    if piece.view is None:
        raise no_piece(piece.way)
    if piece.type != expected:
        raise TypeError(f"a piece of {piece.type} came after pieces of {expected}")
    return piece.view


def _check_matrix(piece: Elements, matrix_of: Callable[[Elements], tuple[int, int]],
                  expected: tuple[int, int]) -> None:
    try:
        matrix = matrix_of(piece)
    except ValueError:
        matrix = None
    if matrix != expected:
        raise ValueError(f"a piece of shape {piece.shape} came after matrices of "
                         f"{' x '.join(map(str, expected))}")


def _of_numpy(array: numpy.ndarray[Any, Any], home: Home | None = None) -> Elements:
    """home: that of the object that it is a part of, if that is known."""
    import numpy

    squeezed = array
    dtype = array.dtype
    name = element_type(dtype)
    if name is None:
        raise unsupported(array)
    # NumPy exports only its own types.
    if not array.flags.c_contiguous and any(stride % dtype.itemsize for stride in array.strides):
        squeezed = _with_place_for_one_more(array)
        view = _native.View(numpy.asarray(_Bytes(squeezed)))  # strides count elements, for DLPack
    elif name == "bfloat16":
        view = _native.View(array.view("uint16"))
    else:
        view = _native.View(array)
    elements = Elements(name, dtype, "memory" if view.contiguous else "copied", view, shape=array.shape,
                        is_squeezed=squeezed is not array)
    if array.flags.owndata:
        view.may_be_mapped = False
        return elements
    if home is None:
        home = home_of(array)
        home.check()
    elements.mapping, elements.last = home
    view.may_be_mapped = home.may_be_mapped
    return elements


def _of_lists(items: list[Any] | tuple[Any, ...]) -> Elements:
    """Elements of the array that NumPy makes from lists; it copies arrays that are in them."""
    import numpy

    mappings = mappings_of(refuse_masks_in(items))
    for mapping in mappings:
        mapping.check()
    array = numpy.asarray(items)
    if array.dtype == object:
        raise _not_numbers(array)
    elements = _of_numpy(_exactly(items, array))
    for mapping in mappings:
        mapping.check()
    return elements


def _exactly(items: list[Any] | tuple[Any, ...], array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """The array without rounding: NumPy makes float64 of integers if some are uint64's and others int64's.

    Raises TypeError if neither type can represent all of them.
    """
    import numpy

    if array.dtype != "float64" or numpy.abs(array).max(initial=0) < 2**53:
        return array
    numbers = numpy.array(items, dtype=object)
    if not all(isinstance(number, (int, numpy.integer, numpy.bool_)) for number in numbers.flat):
        return array
    # Python's integers are compared, since NumPy compares its bools as C does.
    whole = list(map(int, numbers.flat))
    if min(whole) >= 0:
        return numpy.array(whole, "uint64").reshape(numbers.shape)
    if max(whole) >= 2**63:
        raise TypeError("neither int64 nor uint64 has all of these integers: pass "
                        "numpy.array(..., dtype=...) of the type that is meant")
    return numpy.array(whole, "int64").reshape(numbers.shape)


def _not_numbers(array: numpy.ndarray[Any, Any]) -> TypeError:
    """The error for lists of which NumPy makes an array of objects."""
    import numpy

    for item in array.flat:
        if comes_in_pieces(item):
            return TypeError("a list of files or iterators is no array: pass iter([...]), with dtype= if "
                             "their pieces are bytes")
        if not isinstance(item, (int, float, numpy.generic)):
            return TypeError(f"{item!r:.100} in a list is no element: pass integers, floats and bools, or an "
                             "array of them")
    if any(isinstance(item, int) and not -2**63 <= item < 2**64 for item in array.flat):
        return TypeError("an integer in a list does not fit 64 bits: pass floats")
    return unsupported(array)


class _Bytes:
    """An array's elements as bytes, in one more dimension. This is for fields of structured arrays, whose
    elements need not lie at multiples of their size."""

    def __init__(self, array: numpy.ndarray[Any, Any]):
        self.array = array
        self.__array_interface__ = {
            "version": 3, "typestr": "|u1", "data": array.__array_interface__["data"],
            "shape": (*array.shape, array.itemsize), "strides": (*array.strides, 1)}


def _with_place_for_one_more(array: numpy.ndarray[Any, Any]) -> numpy.ndarray[Any, Any]:
    """The array, or the same without its dimensions of length 1 if NumPy cannot have one more dimension."""
    # Some have a length of 1 then: memory has no 2^64 elements. NumPy 1 has 32 dimensions at most, and itself
    # rejects an array of 2^32 elements with strides of 0.
    return array.squeeze() if array.ndim == most_dimensions() else array


def _of_dlpack(array: Any, memory: MemoryOfCall | None) -> Elements:
    if getattr(array, "requires_grad", False):
        raise TypeError("a tensor that requires grad: pass tensor.detach(), results have no gradient")
    # DLPack does not mention that bit, and PyTorch's __dlpack__ looks only for the other one of its kind.
    is_negated = getattr(array, "is_neg", None)
    if is_negated is not None and is_negated():
        raise TypeError("a tensor whose elements are the negatives of those in its memory, as of "
                        "tensor.conj().imag: pass tensor.resolve_neg()")
    try:
        device = int(array.__dlpack_device__()[0])
    except MemoryError:
        raise
    except Exception as error:
        raise TypeError(f"{name_of(array)} does not say where its elements are: {error}") from error
    if device in _GPU_DEVICES:
        return _of_gpu(array, memory)
    if device not in _HOST_DEVICES:
        raise TypeError(f"{name_of(array)} is on a device of DLPack's kind {device}: copy it to the host "
                        "first")
    view = exported(array)
    if view.type not in ELEMENT_TYPES:
        remedy = f"element types are {', '.join(sorted(ELEMENT_TYPES))}"
        raise TypeError(f"elements of {view.type} cannot be reduced: "
                        f"{OF_COMPLEX if view.type.startswith('complex') else remedy}")
    way: Way = "memory" if view.contiguous else "copied"
    return Elements(view.type, dtype_of_array(array, view.type), way, view, shape=view.shape,
                    last=view.last_byte)


def _of_buffer(buffer: memoryview, dtype: str | None) -> Elements:
    import numpy

    if dtype is not None and is_of_bytes(buffer):
        check_begin_of(buffer)
        return _of_raw(buffer, dtype)
    if format_of(buffer) == "c":
        raise TypeError("a buffer of the format c does not say what elements its bytes are: pass dtype=")
    try:
        array = numpy.asarray(buffer)
    except ValueError:  # it does not know such a format
        raise TypeError(f"elements of the buffer format {buffer.format!r} cannot be reduced: pass "
                        "numpy.array(list(...), dtype), or numpy.frombuffer(..., dtype), of an element type: "
                        f"{', '.join(sorted(ELEMENT_TYPES))}") from None
    return _of_numpy(array)


def _of_raw(buffer: memoryview, dtype: str, home: Home | None = None) -> Elements:
    """Bytes that are elements of a type that the caller has named.

    home: that of the object that they are a part of, if that is known.
    """
    import numpy

    kind = numpy.dtype("uint16") if dtype == "bfloat16" else dtype_of(dtype)
    if buffer.nbytes % kind.itemsize:
        raise ValueError(f"{buffer.nbytes} bytes are no whole number of elements of {dtype}")
    if kind.itemsize == 1:
        elements = _of_numpy(numpy.asarray(buffer).view(kind), home)  # in the buffer's own shape
    elif buffer.ndim > 1:
        raise ValueError(f"bytes of the shape {buffer.shape} do not say what shape elements of {dtype} have: "
                         "pass bytes(...) of them, or memoryview(...).cast('B') without a copy")
    elif buffer.c_contiguous or buffer.nbytes == 0:
        elements = _of_numpy(numpy.frombuffer(bytes(buffer) if buffer.nbytes == 0 else buffer, kind), home)
    else:
        raise ValueError(f"bytes with gaps, or in another order than in rows, are no elements of {dtype}: "
                         "pass bytes(...) of them")
    elements.type, elements.dtype = dtype, dtype_of(dtype)
    return elements


def _of_pieces(pieces: Iterator[Elements], dtype: str | None, way: Way) -> Elements:
    first = next(pieces, None)
    if first is None:
        if dtype is None:
            raise ValueError("the iterator has no piece, and so no type: say it by dtype=")
        return Elements(dtype, dtype_of(dtype), way, pieces=iter(()))
    whole = Elements(first.type, first.dtype, way, shape=first.shape)
    whole.pieces = itertools.chain((first,), pieces)
    return whole


def views_of(pieces: Iterator[Elements], whole: Elements) -> Iterator[_native.View]:
    """The views of the pieces of `whole`, which must no longer refer to the pieces: it would form a cycle
    with this generator, and live until Python's garbage collector looks for cycles."""
    for piece in pieces:
        view = view_of(piece, whole.type)
        if whole.matrix_of is not None:
            _check_matrix(piece, whole.matrix_of, whole.matrix_of(whole))
        yield view
        piece.check_mapping()  # it was read meanwhile


def _iterator_pieces(pieces: Iterator[Any], dtype: str | None) -> Iterator[Elements]:
    """The elements of pieces: arrays or, if the caller has named a type, also bytes and files of that type.
    Bytes may be split inside elements, files may not."""
    if dtype is None:
        begin = b""
        for piece in pieces:
            if isinstance(piece, (bytes, bytearray)) and len(begin) < BEGIN_BYTES:
                begin += piece[:BEGIN_BYTES]
                check_begin(begin)
            yield elements_of(piece, None)
        return
    cut = WholeElements(dtype)
    for piece in pieces:
        buffer = None if says_its_type(piece) else buffer_of(piece)
        if buffer is not None and (buffer.c_contiguous or buffer.nbytes == 0):
            yield from _whole_elements(buffer, cut, dtype)
        elif buffer is None and hasattr(piece, "read") and comes_in_pieces(piece):
            cut.check_end()
            yield from _iterator_pieces(blocks_of(piece), dtype)
        else:
            cut.check_end()
            yield elements_of(piece, None) if buffer is None else _asked(_of_raw(buffer, dtype))
    cut.check_end()


def _whole_elements(buffer: memoryview, cut: WholeElements, dtype: str) -> Iterator[Elements]:
    """The elements in bytes without gaps, which may begin and end inside an element."""
    import numpy

    if buffer.nbytes == 0:
        return
    data = numpy.frombuffer(buffer, "uint8")
    home = home_of(data).asked()
    home.check()
    for part in cut.parts_of(data.data, home.copy):
        yield _of_raw(part, dtype, None if isinstance(part.obj, bytes) else home)
    home.check()  # elements were copied from it


def _of_gpu(array: Any, memory: MemoryOfCall | None) -> Elements:
    elements = None if memory is None else memory.of_gpu(array)
    return elements or _staged(array)


def _staged(array: Any) -> Elements:
    """The elements of an array on a GPU, copied to the host part by part."""
    from warpfold import gpu

    if not hasattr(array, "shape"):
        raise TypeError(f"{name_of(array)} is on a GPU and has no shape, by which it could be copied to the "
                        "host in parts")
    gpu.finish(array)
    pieces = (elements_of(to_host(part), None) for part in _parts(array))
    elements = _of_pieces(pieces, None, "staged")
    elements.shape, elements.owner = tuple(array.shape), array
    return elements


def _parts(array: Any) -> Iterator[Any]:
    """Rows of the first dimension, or parts of one row, as large as a piece may be. What lies in the last
    dimensions is split only if it is larger than a piece, and each part is then a separate piece."""
    shape = tuple(array.shape)
    count = 1
    for length in shape:
        count *= length
    if count * 8 <= PIECE_BYTES or not shape:  # no element is larger than 8 bytes
        yield array
        return
    rows = max(PIECE_BYTES // (count // shape[0] * 8), 1)
    for begin in range(0, shape[0], rows):
        yield from [array[begin:begin + rows]] if rows > 1 else _parts(array[begin])


def to_host(part: Any) -> Any:
    """Copies it with its own library: PyTorch's cpu, CuPy's get, Numba's copy_to_host, or NumPy's
    protocol."""
    import numpy

    for method in ("cpu", "get", "copy_to_host"):
        if hasattr(part, method):
            return getattr(part, method)()
    if hasattr(part, "__array__"):
        return numpy.asarray(part)
    raise TypeError(f"{name_of(part)} is on a GPU and has no method that copies it to the host")
