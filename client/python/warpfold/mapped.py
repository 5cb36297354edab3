# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that lie in a file's mapping, which another process can cut while they are reduced."""

from __future__ import annotations

from typing import Any, NamedTuple

# What stands between an array and its mapping: views of views, and a buffer.
_MOST_BASES = 16


class Mapping(NamedTuple):
    """A mapping of a file, and where in the file it begins (0 where that is not known)."""

    memory: Any  # an mmap.mmap
    offset: int

    def check(self) -> None:
        """ValueError if the file has been cut. What is missing cannot be read, or is zeros."""
        try:
            size = self.memory.size()
        except (OSError, ValueError):
            return  # of no file, or closed
        if size < self.offset + len(self.memory):
            raise ValueError("the file under this memory map has become shorter than the map: open it again")


def mapping_of(array: Any) -> tuple[Mapping | None, bool]:
    """The mapping that a NumPy array, or a view of one, lies in, if there is one; and whether that is sure:
    False of memory that another library has made."""
    import mmap

    import numpy

    base = array
    for _ in range(_MOST_BASES):
        if isinstance(base, numpy.ndarray):
            if base.flags.owndata:
                return None, True
            memory = getattr(base, "_mmap", None)
            if memory is not None:  # of a numpy.memmap
                offset = int(getattr(base, "offset", 0))
                return Mapping(memory, offset - offset % mmap.ALLOCATIONGRANULARITY), True
            base = base.base
        elif isinstance(base, memoryview):
            base = base.obj
        elif isinstance(base, mmap.mmap):
            return Mapping(base, 0), True
        else:
            break
    return None, isinstance(base, (bytes, bytearray))
