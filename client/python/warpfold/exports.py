# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What arrays of other libraries export: DLPack capsules, and Python buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.element_types import dtype_of, name_of

if TYPE_CHECKING:
    import numpy


def exported(array: Any) -> _native.View:
    """TypeError, with the cause, for an object that does not export its elements."""
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
    """Asks once, since a library may have to wait, or copy, and again only if the library does not know
    versions."""
    try:
        return array.__dlpack__(max_version=(1, 0))
    except TypeError as error:
        # However the function's language words this.
        if "argument" not in str(error):
            raise
        return array.__dlpack__()


def dtype_of_array(array: Any, type_name: str) -> numpy.dtype[Any]:
    """JAX arrays have the NumPy type for bfloat16."""
    import numpy

    said = getattr(array, "dtype", None)
    return said if isinstance(said, numpy.dtype) and said.name == type_name else dtype_of(type_name)


def buffer_of(array: Any) -> memoryview | None:
    try:
        return memoryview(array)
    except (TypeError, ValueError, BufferError):  # arrays whose memory cannot be read raise various errors
        return None


def format_of(buffer: memoryview) -> str:
    """ctypes puts the byte order before the format."""
    return buffer.format.lstrip("<>=@|")


def is_of_bytes(buffer: memoryview) -> bool:
    """Whether its elements are bytes, whose meaning the caller gives: a buffer of any other format carries
    its type."""
    return format_of(buffer) in ("B", "b", "c")
