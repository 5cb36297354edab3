# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Bytes whose element type the caller gives, as they come from files and iterators."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from typing import Any

from warpfold.element_types import element_bytes, name_of
from warpfold.mapped import home_of

_BLOCK_BYTES = 1 << 20
_TEXT = "a file of text has no elements: open it in binary mode"

# The bytes with which files of other formats begin. An archive has a header of 30 bytes before its first
# member, which elements that begin with the same four bytes by chance are unlikely to be.
BEGIN_BYTES = 30
_NPY = b"\x93NUMPY"
_MEMBER = struct.Struct("<4sHHH16xHH")  # signature, version, flags, method, lengths of the name and the rest
_LATEST_VERSION = 63
# An archive without members consists only of its end: a signature, and numbers that are all 0.
_EMPTY = b"PK\x05\x06" + bytes(16)
_EMPTY_BYTES = 22
_METHODS = frozenset({0, 8, 9, 12, 14, 93, 95, 98})


def check_begin(begin: bytes) -> None:
    """ValueError if these first bytes, of which BEGIN_BYTES are enough, cannot be those of a file of
    elements."""
    if begin.startswith(_NPY):
        raise ValueError("this begins like a .npy file, whose header is not data: pass "
                         "warpfold.files.npy(path), or numpy.load(io.BytesIO(data)) of bytes")
    if _is_archive(begin):
        raise ValueError("this begins like an archive, as .npz files are, which has more than data: pass "
                         "warpfold.files.npz(path, member), or numpy.memmap(path, dtype) of a file or "
                         "numpy.frombuffer(piece, dtype) of bytes if its own bytes are meant")


def _is_archive(begin: bytes) -> bool:
    if len(begin) >= _EMPTY_BYTES and begin.startswith(_EMPTY):
        return True
    if len(begin) < BEGIN_BYTES:
        return False
    signature, version, _, method, name_bytes, _ = _MEMBER.unpack(begin[:BEGIN_BYTES])
    return (signature == b"PK\x03\x04" and version <= _LATEST_VERSION and method in _METHODS
            and name_bytes > 0)


def blocks_of(file: Any) -> Iterator[bytes]:
    """The blocks of a binary file, from where it stands to its end."""
    if isinstance(file, io.TextIOBase):  # whose bytes may not even be text, which reading would report first
        raise TypeError(_TEXT)
    return iter(lambda: _read(file), b"")


def _read(file: Any) -> bytes:
    data = file.read(_BLOCK_BYTES)
    if data is None:  # for a non-blocking file, whose writer may write more
        raise BlockingIOError("the file is non-blocking and has nothing to read yet: pass one that waits")
    # Their memory may be reused for the next block.
    if isinstance(data, bytearray):
        data = bytes(data)
    elif isinstance(data, memoryview):
        data = _copy_of(data)
    if not isinstance(data, bytes):
        raise TypeError(_TEXT if isinstance(data, str)
                        else f"read() answers {name_of(data)}, where a binary file's answers bytes")
    return data


def check_begin_of(data: memoryview) -> None:
    """check_begin for bytes that are all there, without gaps; reading them is safe even in a mapped file."""
    if data.nbytes > 0 and data.c_contiguous:
        check_begin(_copy_of(data, BEGIN_BYTES))


def _copy_of(data: memoryview, most: int | None = None) -> bytes:
    """A copy of the bytes, or of the first of them."""
    import numpy

    if data.nbytes == 0 or not data.c_contiguous:
        return bytes(data)
    array = numpy.frombuffer(data, "uint8")
    home = home_of(array).asked()
    home.check()
    copied = home.copy(array.data[:most])
    home.check()
    return copied


class WholeElements:
    """Makes whole elements from consecutive pieces of bytes, split anywhere. An element that lies in several
    pieces is copied, all others are not. ValueError if the bytes begin like a file that contains more than
    elements."""

    def __init__(self, dtype: str):
        self._dtype = dtype
        self._element_bytes = element_bytes(dtype)
        self._begin = b""
        self._rest = b""

    def parts_of(self, data: memoryview, copy: Callable[[memoryview], bytes]) -> Iterator[memoryview]:
        """The elements that end in these bytes, some of which `copy` copies. They must be taken before the
        next bytes."""
        if len(self._begin) < BEGIN_BYTES:
            self._begin += copy(data[:BEGIN_BYTES])
            check_begin(self._begin)
        if self._rest:
            missing = self._element_bytes - len(self._rest)
            self._rest += copy(data[:missing])
            data = data[missing:]
            if len(self._rest) < self._element_bytes:
                return
            yield memoryview(self._rest)
        whole = len(data) - len(data) % self._element_bytes
        self._rest = copy(data[whole:])
        if whole:
            yield data[:whole]

    def check_end(self) -> None:
        """ValueError if the bytes end inside an element."""
        if self._rest:
            left = "1 byte is" if len(self._rest) == 1 else f"{len(self._rest)} bytes are"
            raise ValueError(f"the bytes end inside an element of {self._dtype}: {left} left over")
