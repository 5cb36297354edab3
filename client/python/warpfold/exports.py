# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What arrays of other libraries export: DLPack's capsules, and Python's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.element_types import dtype_of, name_of

if TYPE_CHECKING:
    import numpy


def exported(array: Any) -> _native.View:
    """TypeError, with the cause, for what does not export its elements."""
    try:
        capsule = _capsule_of(array)
    except MemoryError:
        raise
    except Exception as error:  # whatever the library raises says why
        buffer = buffer_of(array)
        if buffer is None:
            raise TypeError(f"{name_of(array)} cannot be read in place: {error}") from error
        capsule = buffer
    try:
        return _native.View(capsule)
    except TypeError:
        raise TypeError(f"{name_of(array)} cannot be read in place: its DLPack capsule is not one") from None


def _capsule_of(array: Any) -> Any:
    """Asks once, since a library may have to wait, or copy, and again only where it knows of no versions."""
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError as error:
        # However the language words it that a function is written in.
        if "argument" not in str(error):
            raise
        return array.__dlpack__()


def dtype_of_array(array: Any, type_name: str) -> numpy.dtype[Any]:
    """JAX's arrays say what NumPy's type of bfloat16 is."""
    import numpy

    said = getattr(array, "dtype", None)
    return said if isinstance(said, numpy.dtype) and said.name == type_name else dtype_of(type_name)


def buffer_of(array: Any) -> memoryview | None:
    try:
        return memoryview(array)
    except (TypeError, ValueError, BufferError):  # arrays whose memory cannot be read say so in several ways
        return None


def format_of(buffer: memoryview) -> str:
    """ctypes puts the byte order before the format."""
    return buffer.format.lstrip("<>=@|")


def is_of_bytes(buffer: memoryview) -> bool:
    """Whether its elements are bytes, of which the caller says what they are: a buffer of any other format
    says it."""
    return format_of(buffer) in ("B", "b", "c")
