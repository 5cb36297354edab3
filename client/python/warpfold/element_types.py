# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The types that elements can have, and the error messages for objects of any other type."""

from __future__ import annotations

import functools
import os
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy

ELEMENT_TYPES = frozenset({"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool",
                           "float16", "bfloat16", "float32", "float64"})
OF_COMPLEX = "pass array.real and array.imag"


def type_named(dtype: Any) -> str:
    """The element type that `dtype` names: one of their names, or anything that NumPy converts to a type."""
    import numpy

    if isinstance(dtype, str) and dtype in ELEMENT_TYPES:
        return dtype
    try:
        kind = numpy.dtype(dtype)
    except TypeError:
        kind = None
    name = None if kind is None or dtype is None else element_type(kind)
    if name is None:
        own = None if kind is None or dtype is None else in_other_byte_order(kind)
        if kind is not None and own is not None:
            raise TypeError(f"no element type is called {kind.str!r}, which has the other byte order: pass "
                            f"numpy.frombuffer(data, {kind.str!r}).astype({own!r})")
        raise TypeError(f"no element type is called {dtype!r}: {', '.join(sorted(ELEMENT_TYPES))}")
    return name


@functools.cache
def dtype_of(type_name: str) -> numpy.dtype[Any]:
    """NumPy's type for an element type; float32 for bfloat16, which NumPy lacks and float32 holds exactly."""
    import numpy

    if type_name not in ELEMENT_TYPES:
        raise TypeError(f"no element type is called {type_name!r}: {', '.join(sorted(ELEMENT_TYPES))}")
    return numpy.dtype("float32" if type_name == "bfloat16" else type_name)


def bfloat16() -> numpy.dtype[Any]:
    """NumPy knows it by this library alone."""
    import numpy

    try:
        import ml_dtypes
    except ImportError:
        raise TypeError("NumPy has no bfloat16 without ml_dtypes (pip install ml_dtypes)") from None
    dtype: numpy.dtype[Any] = numpy.dtype(ml_dtypes.bfloat16)
    return dtype


def element_bytes(type_name: str) -> int:
    return 2 if type_name == "bfloat16" else dtype_of(type_name).itemsize


@functools.lru_cache(maxsize=64)
def element_type(dtype: numpy.dtype[Any]) -> str | None:
    """The element type's name, if it is one. Cached, since NumPy takes 2 us to return a type's name; the
    cache is bounded, since there is no end of other types."""
    return dtype.name if dtype.name in ELEMENT_TYPES and dtype.isnative else None


def in_other_byte_order(dtype: numpy.dtype[Any]) -> str | None:
    """The element type that has the other byte order in `dtype`, if there is one."""
    return None if dtype.isnative else element_type(dtype.newbyteorder("="))


def unsupported(array: numpy.ndarray[Any, Any]) -> TypeError:
    dtype = array.dtype
    if in_other_byte_order(dtype) is not None:
        remedy = "array.astype(array.dtype.newbyteorder('=')) has this machine's order"
        return TypeError(f"elements of {dtype.name} in the other byte order: {remedy}")
    if dtype.kind == "V" and dtype.itemsize == 2 and dtype.fields is None:
        return TypeError(f"elements of {dtype} cannot be reduced: if they are bfloat16, of which NumPy's "
                         "files keep no more, pass array.view(ml_dtypes.bfloat16), or of pieces, as of "
                         "warpfold.files.npz, (piece.view(ml_dtypes.bfloat16) for piece in pieces)")
    remedies = {"c": OF_COMPLEX, "M": "pass array.view('int64')",
                "m": "pass array.view('int64')", "O": "pass array.astype(...) of the type that they have"}
    remedy = remedies.get(dtype.kind, f"element types are {', '.join(sorted(ELEMENT_TYPES))}")
    return TypeError(f"elements of {dtype} cannot be reduced: {remedy}")


def remedy_of(array: Any) -> str:
    """What the caller can do with an array of a kind that is not accepted."""
    if isinstance(array, (str, os.PathLike)):
        return "to read a file pass warpfold.files.npy(path), or an open one with dtype="
    if isinstance(array, (complex, range)):
        return "pass numpy.arange(...)" if isinstance(array, range) else "pass its real and imag"
    if type(array).__module__.startswith("dask.array"):
        return "pass it to warpfold.dask.reduce"
    if type(array).__module__.startswith("scipy.sparse"):
        return "pass its toarray(), or its data, which lacks the zeros that are not stored"
    if hasattr(array, "iterchunks"):  # PyArrow's ChunkedArray
        return "pass (chunk.to_numpy(zero_copy_only=False) for chunk in array.iterchunks())"
    if hasattr(array, "__aiter__"):
        return "pieces come from an iterator that blocks, as a generator without async"
    if hasattr(array, "to_numpy"):  # pandas', xarray's, Polars'
        return "pass its to_numpy()"
    if hasattr(array, "__array__"):
        return "pass numpy.asarray(...) of it"
    if isinstance(array, memoryview):
        return "it was released"
    if hasattr(array, "__iter__"):
        return "pass iter(...) of pieces that are arrays, or numpy.fromiter(...) of numbers"
    return "pass what has DLPack, a buffer or __array_interface__, or iter(...) of such pieces"


def no_piece(way: str) -> TypeError:
    """The error for a piece whose elements are not in the host's memory, but come in this way."""
    if way == "resident":
        return TypeError("a kept array is no piece: reduce it by itself")
    if way in ("staged", "gpu memory"):
        return TypeError("an array on a GPU is no piece: pass a copy of it in the host's memory")
    return TypeError("a piece must be an array in the host's memory, not another series of pieces, which are "
                     "put in a row by itertools.chain")


def name_of(array: Any) -> str:
    kind = type(array)
    return f"{kind.__module__}.{kind.__qualname__}"
