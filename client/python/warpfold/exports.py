# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What arrays of other libraries export: DLPack's capsules, and Python's buffers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.element_types import dtype_of, name_of
from warpfold.mapped import last_byte

if TYPE_CHECKING:
    import numpy


def exported(array: Any) -> _native.View:
    """Asks for a capsule that has a version: nanobind asks for one without first, of which PyArrow warns."""
    try:
        capsule, why = array.__dlpack__(max_version=(1, 0)), "its DLPack capsule is not one"
    except Exception as error:  # whatever the library raises says why
        capsule, why = array, str(error)
    try:
        return _native.View(capsule)  # of the array itself nanobind also takes a buffer
    except TypeError:
        if "max_version" in why:  # the library knows of no versions
            why = _export_error(array)
        raise TypeError(f"{name_of(array)} cannot be read in place: {why}") from None


def _export_error(array: Any) -> str:
    try:
        array.__dlpack__()
    except Exception as error:  # whatever the library raises says why
        return str(error)
    return "its DLPack capsule is not one"


def dtype_of_array(array: Any, type_name: str) -> numpy.dtype[Any]:
    """JAX's arrays say what NumPy's type of bfloat16 is."""
    import numpy

    said = getattr(array, "dtype", None)
    return said if isinstance(said, numpy.dtype) and said.name == type_name else dtype_of(type_name)


def last_byte_of(array: Any, view: _native.View) -> int | None:
    import numpy

    if view.contiguous:
        return view.address + view.nbytes - 1 if view.nbytes else None
    try:
        return last_byte(numpy.from_dlpack(array))
    except Exception:  # of a type that NumPy lacks: whatever it raises, the view is there
        return None


def buffer_of(array: Any) -> memoryview | None:
    try:
        return memoryview(array)
    except TypeError:
        return None


def format_of(buffer: memoryview) -> str:
    """ctypes puts the byte order before the format."""
    return buffer.format.lstrip("<>=@|")


def is_of_bytes(buffer: memoryview) -> bool:
    """Whether its elements are bytes, of which the caller says what they are: a buffer of any other format
    says it."""
    return format_of(buffer) in ("B", "b", "c")
