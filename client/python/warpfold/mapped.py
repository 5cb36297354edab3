# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays that lie in the mapping of a file, which another process can truncate before a call, or during
it."""

from __future__ import annotations

import bisect
import errno
import mmap  # Loading it takes a descriptor, of which a call may find none.
import operator
import os
import stat
import struct
from collections.abc import Callable
from types import NoneType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy

# What stands between an array and its mapping: views of views, and a buffer.
_MOST_BASES = 16

# Linux 6.11 can be asked about a single mapping (linux/fs.h: PROCMAP_QUERY, struct procmap_query).
_QUERY = 0xC0686611
_QUERY_FIELDS = struct.Struct("9Q4I2Q")
_LONGEST_PATH = 4096

_CUT = "the file under this memory map has become shorter than the map: open it again"


class _Place(NamedTuple):
    """What is mapped at an address: which file, and which position in it."""

    path: str
    inode: int
    offset: int

    def size(self) -> int:
        """OSError for a file that no longer has this name, or that has no size, such as a device."""
        status = os.stat(self.path)
        if status.st_ino != self.inode or not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(self.path)
        return status.st_size


class Mapping(NamedTuple):
    """A mapping of a file, or the part of one that an array has."""

    size: Callable[[], int]  # of the file now; raises where that is not known any more
    end: int  # where in the file the mapping, or the part, ends

    def check(self) -> None:
        """ValueError if the file has been truncated. The missing part cannot be read, or reads as zeros."""
        try:
            size = self.size()
        except (OSError, ValueError):
            return  # of no file, or closed
        if size < self.end:
            raise ValueError(_CUT)


class Home(NamedTuple):
    """What is known of the memory that an array lies in."""

    mapping: Mapping | None = None
    last: int | None = None  # the last byte's address, in memory of which nobody says whether it is a file's

    @property
    def may_be_mapped(self) -> bool:
        return self.mapping is not None or self.last is not None

    def check(self) -> None:
        """ValueError if it belongs to a file that was truncated."""
        if self.mapping is not None:
            self.mapping.check()

    def asked(self) -> Home:
        """The same with its mapping, if only the kernel can say whether the memory belongs to a file."""
        return self if self.last is None else self._replace(mapping=mapping_at(self.last))

    def copy(self, data: memoryview) -> bytes:
        """Some of its bytes. ValueError if the file no longer has them."""
        return _read_by_the_system(data) if self.may_be_mapped and len(data) > 0 else bytes(data)


_AT_HOME = Home()


def home_of(array: numpy.ndarray[Any, Any]) -> Home:
    """The home of a NumPy array. The kernel is not asked yet, since that takes longer than everything
    else."""
    base = array.base
    if type(base) is type(array) and base.flags.owndata:  # a part of a plain array, as most are
        return _AT_HOME
    mapping, owner = mapping_of(array)
    return Home(mapping, None if owner is None else last_byte(array))


def mappings_of(arrays: list[numpy.ndarray[Any, Any]]) -> list[Mapping]:
    """All the memory that these lie in; they may be many parts of a few arrays."""
    import numpy

    bases = list(map(operator.attrgetter("base"), arrays))
    distinct = dict(zip(map(id, bases), bases, strict=True))
    wholes = [base for base in distinct.values() if isinstance(base, numpy.ndarray)]
    # The kernel has to be asked about each of these.
    others = {id(base) for base in distinct.values()
              if not isinstance(base, (numpy.ndarray, bytes, NoneType))}
    if others:
        wholes += [array for array, base in zip(arrays, bases, strict=True) if id(base) in others]
    return [home.mapping for home in map(Home.asked, map(home_of, wholes)) if home.mapping is not None]


def mapping_of(array: Any) -> tuple[Mapping | None, Any]:
    """The mapping that a NumPy array, or a view of one, lies in, if there is one; or else the object whose
    memory it is, which may belong to a file, or None if it certainly does not."""
    import numpy

    base = array
    for _ in range(_MOST_BASES):
        if isinstance(base, numpy.ndarray):
            if base.flags.owndata:
                return None, None
            memory = getattr(base, "_mmap", None)
            if memory is not None:  # of a numpy.memmap
                offset = int(getattr(base, "offset", 0))
                offset -= offset % mmap.ALLOCATIONGRANULARITY
                return Mapping(memory.size, offset + len(memory)), None
            base = base.base
        elif isinstance(base, memoryview):
            base = base.obj
        elif isinstance(base, mmap.mmap):
            found = _mapping_of_map(base)
            return found, base if found is None else None
        else:
            break
    if isinstance(base, (bytes, bytearray)):
        return None, None
    return None, array if base is None else base


def mapping_at(last: int) -> Mapping | None:
    """The part of a file's mapping that ends with the byte at this address, if a file is mapped there."""
    place = _place_of(last)
    return None if place is None else Mapping(place.size, place.offset + 1)


def last_byte(array: numpy.ndarray[Any, Any]) -> int | None:
    """The highest address of an array's elements, if it has any."""
    if array.size == 0:
        return None
    reach: int = sum(max((length - 1) * stride, 0)
                     for length, stride in zip(array.shape, array.strides, strict=True))
    return int(array.__array_interface__["data"][0]) + reach + array.itemsize - 1


def _read_by_the_system(data: memoryview) -> bytes:
    """If the file was truncated, a system call fails with EFAULT, while a read by Python would end the
    process."""
    copied = b""
    # The pipe has room for at least a page, so that this never waits.
    reader, writer = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        while len(copied) < len(data):
            count = os.write(writer, data[len(copied):])
            copied += os.read(reader, count)
    except OSError as error:
        if error.errno != errno.EFAULT:
            raise
        raise ValueError(_CUT) from None
    finally:
        os.close(reader)
        os.close(writer)
    return copied


def _mapping_of_map(memory: mmap.mmap) -> Mapping | None:
    """None for a mapping that does not know its file (trackfd=False), or that is of a device or of no
    file."""
    import numpy

    try:
        memory.size()
    except (OSError, ValueError):
        return None
    # It does not say at which position in its file it begins.
    place = _place_of(numpy.frombuffer(memory, "uint8").__array_interface__["data"][0])
    if place is None or place.path.startswith("/dev/"):
        return None
    return Mapping(memory.size, place.offset + len(memory))


def _place_of(address: int) -> _Place | None:
    """None for memory that does not belong to a file."""
    try:
        return _asked(address)
    except OSError:  # of an older kernel
        return None if _is_anonymous(address) else _found(address)


def _asked(address: int) -> _Place | None:
    import ctypes
    import fcntl

    path = ctypes.create_string_buffer(_LONGEST_PATH)
    query = bytearray(_QUERY_FIELDS.pack(_QUERY_FIELDS.size, 0, address, *[0] * 8, len(path), 0,
                                         ctypes.addressof(path), 0))
    with open("/proc/self/maps", "rb", buffering=0) as maps:
        fcntl.ioctl(maps, _QUERY, query)
    _, _, _, begin, _, _, _, offset, inode, *_ = _QUERY_FIELDS.unpack(query)
    return None if inode == 0 else _Place(os.fsdecode(path.value), inode, offset + address - begin)


def _is_anonymous(address: int) -> bool:
    """Whether its page certainly belongs to no file. Takes a fraction of the time that the list of all
    mappings takes."""
    page = os.sysconf("SC_PAGESIZE")
    try:
        descriptor = os.open("/proc/self/pagemap", os.O_RDONLY | os.O_CLOEXEC)
        try:
            entry = int.from_bytes(os.pread(descriptor, 8, address // page * 8), "little")
        finally:
            os.close(descriptor)
    except OSError:
        return False
    is_present, is_of_file = entry >> 63 & 1, entry >> 61 & 1
    return bool(is_present and not is_of_file)


def _found(address: int) -> _Place | None:
    """Looks in the list of all mappings, which takes 2 us for each."""
    try:
        with open("/proc/self/maps", "rb") as file:
            lines = file.read().split(b"\n")[:-1]  # a path may have any other end of a line in it
    except OSError:
        return None
    at = bisect.bisect_right(lines, address, key=lambda line: int(line.partition(b"-")[0], 16)) - 1
    if at < 0:
        return None
    addresses, _, offset, _, inode, *path = lines[at].split(maxsplit=5)
    begin, end = (int(text, 16) for text in addresses.split(b"-"))
    if address >= end or inode == b"0" or not path:
        return None
    name = path[0].replace(b"\\012", b"\n")
    return _Place(os.fsdecode(name), int(inode), int(offset, 16) + address - begin)
