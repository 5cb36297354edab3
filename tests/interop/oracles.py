# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What each operator must return, computed with NumPy and Python's exact numbers."""

import fractions
import functools
import math
import struct

import numpy

from service import Failure

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float16", "float32", "float64")
NEED_ELEMENTS = ("min", "max", "argmin", "argmax", "mean")
# The order of rounding is Warpfold's own: results equal NumPy's only up to rounding.
ROUNDED = ("sum", "product", "mean")
_CANONICAL_NAN = struct.pack("<Q", 0x7FF8000000000000)


def _wide_range(dtype: numpy.dtype) -> tuple[int, int]:
    return (-2**63, 2**63 - 1) if dtype.kind == "i" else (0, 2**64 - 1)


def _exact(array: numpy.ndarray, value: int) -> int:
    low, high = _wide_range(array.dtype)
    if not low <= value <= high:
        raise Failure("OUT_OF_RANGE", "OVERFLOW")
    return value


def _signed_zero(array: numpy.ndarray, extremum, negative_wins: bool):
    """NumPy considers zeros equal; the contract puts -0.0 below +0.0."""
    if extremum == 0 and array.dtype.kind == "f":
        signs = numpy.signbit(array[array == 0])
        return -0.0 if (signs.any() if negative_wins else signs.all()) else 0.0
    return extremum.item()


def _fold(function, array: numpy.ndarray, start: int) -> int:
    return functools.reduce(function, array.tolist(), start)


def _sum(array, wrap):
    if array.dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            return numpy.sum(array, dtype=numpy.float64).item()
    return numpy.sum(array, dtype=array.dtype).item() if wrap else _exact(array, sum(array.tolist()))


def _exact_product(array):
    if not array.all():
        return 0
    product = 1
    for factor in array.tolist():
        product *= factor
        if abs(product) > 2**64:  # and it never shrinks again
            break
    return _exact(array, product)


def _product(array, wrap):
    if array.dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            return numpy.prod(array, dtype=numpy.float64).item()
    return numpy.prod(array, dtype=array.dtype).item() if wrap else _exact_product(array)


def _mean(array):
    if array.dtype.kind == "f":
        with numpy.errstate(all="ignore"):
            return numpy.mean(array, dtype=numpy.float64).item()
    return float(fractions.Fraction(sum(array.tolist()), len(array)))


def expected(name: str, array: numpy.ndarray, wrap: bool = False, ignore_nan: bool = False):
    """(value, index or None); raises the Failure that the service must return."""
    kept = array[~numpy.isnan(array)] if ignore_nan else array
    if name in NEED_ELEMENTS and len(array) == 0:
        raise Failure("INVALID_ARGUMENT", "EMPTY_ARRAY")
    if name in ("min", "max", "mean") and len(kept) == 0:
        return math.nan, None  # as numpy.nanmin and numpy.nanmean
    if name in ("argmin", "argmax"):
        if len(kept) == 0:
            raise Failure("INVALID_ARGUMENT", "EMPTY_ARRAY")  # as numpy.nanargmin
        index = int(getattr(numpy, ("nan" if ignore_nan else "") + name)(array))
        return array[index].item(), index
    by_name = {
        "sum": lambda: _sum(kept, wrap),
        "product": lambda: _product(kept, wrap),
        "min": lambda: _signed_zero(kept, numpy.min(kept), negative_wins=True),
        "max": lambda: _signed_zero(kept, numpy.max(kept), negative_wins=False),
        "bit_and": lambda: numpy.bitwise_and.reduce(kept).item(),
        "bit_or": lambda: _fold(lambda a, b: a | b, kept, 0),
        "bit_xor": lambda: _fold(lambda a, b: a ^ b, kept, 0),
        "all": lambda: bool(numpy.all(kept)),
        "any": lambda: bool(numpy.any(kept)),
        "count_nonzero": lambda: int(numpy.count_nonzero(kept)),
        "mean": lambda: _mean(kept),
    }
    return by_name[name](), None


def same(name: str, array: numpy.ndarray, got, wanted) -> bool:
    """Equal in type and bits; if the order of rounding is free, equal up to rounding."""
    if type(got) is not type(wanted):
        return False
    if not isinstance(wanted, float):
        return got == wanted
    if math.isnan(wanted):
        return struct.pack("<d", got) == _CANONICAL_NAN
    if name in ROUNDED and math.isfinite(wanted):
        with numpy.errstate(over="ignore"):
            size = numpy.abs(array[numpy.isfinite(array)].astype(numpy.float64)).sum()
        scale = {"product": abs(wanted), "sum": size, "mean": size / len(array)}[name]
        return abs(got - wanted) <= 1e-12 * scale
    return struct.pack("<d", got) == struct.pack("<d", wanted)


def matrix_product(array: numpy.ndarray, modulus: int = 0) -> numpy.ndarray:
    """A plain loop over Python's integers, or over the array's own floats."""
    integers = array.dtype.kind != "f"
    ring = modulus or 2**(8 * array.dtype.itemsize)
    matrices = array.astype(object) if integers else array
    product = numpy.identity(array.shape[1], dtype=object if integers else array.dtype)
    for matrix in matrices:
        product = product.dot(matrix)
        if integers:
            product %= ring
    if integers and not modulus and array.dtype.kind == "i":
        product = numpy.where(product >= ring // 2, product - ring, product)
    return product


def affine_compose(array: numpy.ndarray, modulus: int = 0) -> list[int]:
    """The slope and the offset of all maps, the first applied first, over Python's integers."""
    bits = 8 * array.dtype.itemsize
    ring = modulus or 2**bits
    slope, offset = 1 % ring, 0
    for a, b in array[:, 0].tolist():
        slope, offset = a * slope % ring, (a * offset + b) % ring
    if not modulus and array.dtype.kind == "i":
        return [x - ring if x >= ring // 2 else x for x in (slope, offset)]
    return [slope, offset]
