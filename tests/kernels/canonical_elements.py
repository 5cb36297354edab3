# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Implements a part of docs/canonical-order.md: requests, elements, and the parts of an operator."""

import dataclasses
import operator
import math
import struct
from fractions import Fraction
from typing import Any, Callable

import numpy

NAN = {"f4": struct.pack("<I", 0x7FC00000), "f8": struct.pack("<Q", 0x7FF8000000000000)}
# NumPy's codes; it has none for bfloat16, which is read as the upper half of a float32.
_CODES = {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
          "int64": "i8", "uint64": "u8", "float16": "f2", "bfloat16": "b2", "float32": "f4", "float64": "f8",
          "bool": "u1"}
_ASSOCIATIVE_OVER_FLOATS = ("min", "max", "argmin", "argmax", "minmax", "max_abs", "exact_sum", "first",
                            "last", "all", "any", "count_nonzero")


class Refused(Exception):
    """Finish has no result: EMPTY_ARRAY or OVERFLOW."""


class Unsigned(int):
    """A result that is uint64 even if elements are signed."""


@dataclasses.dataclass(frozen=True)
class Spec:
    operator: str
    type: str  # "int32"
    rows: int = 0
    columns: int = 0
    ignore_nan: bool = False
    wrap: bool = False
    modulus: int = 0
    ddof: int = 0

    @property
    def code(self) -> str:
        return _CODES[self.type]

    @property
    def is_float(self) -> bool:
        return self.code[0] in "fb"

    @property
    def is_signed(self) -> bool:
        return self.code[0] == "i"

    @property
    def is_associative(self) -> bool:
        """Whether the operator is associative to the bit."""
        return not self.is_float or self.operator in _ASSOCIATIVE_OVER_FLOATS

    @property
    def bits(self) -> int:
        return 8 * int(self.code[1])

    @property
    def entries(self) -> int:
        return self.rows * self.columns if self.rows else 1

    @property
    def takes_whole(self) -> bool:
        """Whether the operator takes whole matrices, and not entry by entry."""
        return self.operator in ("matrix_product", "affine_compose")


@dataclasses.dataclass(frozen=True)
class Sweeps:
    """The functions of an operator that sweeps each lane twice."""
    identity: Any
    lift: Callable[[Any], Any]
    combine: Callable[[Any, Any], Any]
    center: Callable[[Any], float]
    lift_second: Callable[[Any, float], float]
    join: Callable[[Any, float, Any], Any]
    nothing: Any = 0.0  # the second state of no elements
    add: Callable[[Any, Any], Any] = operator.add  # combines second states


@dataclasses.dataclass(frozen=True)
class Operator:
    identity: Any
    lift: Callable[[Any, int], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any, int], Any]  # the result, or (result, index) or (result, index, end_index)
    pack: Callable[[Any], bytes]
    reads: str = "values"  # the part of an element that lift takes: value, key, bits, or (value, key)
    has_identity: bool = True
    several: bool = False  # finish makes a list of results
    ordered: bool = False
    sweeps: Sweeps | None = None


def bytes_of_float(x, code: str = "f8") -> bytes:
    return NAN[code] if x != x else struct.pack("<f" if code == "f4" else "<d", x)


def bytes_of_int(x: int, bits: int) -> bytes:
    """Two's complement."""
    return (x % 2**bits).to_bytes(bits // 8, "little")


def fma(a, b, c, code: str):
    """a b + c, rounded once, for numbers of the type: with exact fractions if everything is finite."""
    if math.isfinite(a) and math.isfinite(b) and not math.isfinite(c):
        return c  # even if a b alone would be infinite
    unfused = a * b + c
    if not (math.isfinite(a) and math.isfinite(b)) or (c == 0 and 0 in (a, b)):
        return unfused  # this is exact, signs of zeros included
    exact = Fraction(float(a)) * Fraction(float(b)) + Fraction(float(c))
    return type(unfused)(_rounded(exact, *((24, -149, 128) if code == "f4" else (53, -1074, 1024))))


def _rounded(exact: Fraction, digits: int, least: int, beyond: int) -> float:
    """The nearest number with this many binary digits, ties to even. Its last digit is worth 2^least or more;
    from 2^beyond on it is infinite."""
    if exact == 0:
        return 0.0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if magnitude < Fraction(2)**exponent:
        exponent -= 1
    last = max(exponent - digits + 1, least)
    rounded = round(magnitude / Fraction(2)**last)  # ties to even
    result = math.inf if rounded * Fraction(2)**last >= 2**beyond else math.ldexp(rounded, last)
    return -result if exact < 0 else result


def wide(spec: Spec, value: int) -> int:
    """An exact integer as the result of sum or product."""
    if spec.wrap:
        return as_type(spec, value)
    low, high = (-2**63, 2**63) if spec.is_signed else (0, 2**64)
    if not low <= value < high:
        raise Refused("OVERFLOW")
    return value


def as_type(spec: Spec, value: int) -> int:
    value %= 2**spec.bits
    return value - 2**spec.bits if spec.is_signed and value >= 2**(spec.bits - 1) else value


def is_ignored(spec: Spec, x) -> bool:
    return spec.ignore_nan and x != x


def key_bounds(spec: Spec) -> tuple[int, int]:
    return (0, 2**spec.bits - 1) if spec.code[0] == "u" else (-2**(spec.bits - 1), 2**(spec.bits - 1) - 1)


def element_of_key(spec: Spec, key: int):
    if not spec.is_float:
        return bool(key) if spec.type == "bool" else key
    if key < 0:
        key ^= 2**(spec.bits - 1) - 1
    return element_of_bits(spec, key % 2**spec.bits)


def element_of_bits(spec: Spec, bits: int):
    value = scalars(spec, bytes_of_int(bits, spec.bits))[0]
    return bool(value) if spec.type == "bool" else value


def scalars(spec: Spec, data: bytes) -> list:
    """The elements' values."""
    if spec.type == "bool":
        return [int(byte != 0) for byte in data]
    if spec.type == "bfloat16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").tolist()
    return numpy.frombuffer(data, "<" + spec.code).tolist()


def _keys(spec: Spec, data: bytes) -> list:
    """The keys of elements; None for NaN."""
    if not spec.is_float:
        return scalars(spec, data)
    flip = 2**(spec.bits - 1) - 1
    infinity = {"f2": 0x7C00, "b2": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF0000000000000}[spec.code]
    patterns = numpy.frombuffer(data, f"<i{spec.bits // 8}").tolist()
    return [None if (p & flip) > infinity else p ^ flip if p < 0 else p for p in patterns]


def elements(spec: Spec, data: bytes, reads: str) -> list:
    """The arguments of an operator's lift."""
    if reads == "bits":
        return numpy.frombuffer(data, f"<u{spec.bits // 8}").tolist()
    if reads == "keys":
        return _keys(spec, data)
    return scalars(spec, data) if reads == "values" else list(zip(scalars(spec, data), _keys(spec, data)))
