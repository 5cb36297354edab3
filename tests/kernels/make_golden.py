# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/values.json and golden/states.json. Run by hand, results are checked in.

values.json: hard little arrays and what they reduce to, by Python's exact numbers and by NumPy.
states.json: partial states as they travel, from canonical_order.py. Frozen within v1: if this file would
change, clients and servers of different builds would no longer agree.
"""

import functools
import json
import math
import pathlib
import struct
import warnings
from fractions import Fraction

import numpy

import canonical_order
from canonical_order import Spec
from canonical_order_test import describe

_FOLDER = pathlib.Path(__file__).parent / "golden"
_INTEGERS = ("int32", "int64", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_SCALAR_OPERATORS = ("sum", "product", "min", "max", "argmin", "argmax", "bit_and", "bit_or", "bit_xor",
                     "all", "any", "count_nonzero", "mean")
_NEED_ELEMENTS = ("min", "max", "argmin", "argmax", "mean")


def integer_arrays(type_name: str) -> list[list[int]]:
    limits = numpy.iinfo(type_name)
    low, high = int(limits.min), int(limits.max)
    arrays = [[], [0], [7], [high], [low], [high, high], [high, 1], [low, low], [low, high], [3, 1, 3, 1, 2],
              [0] * 5, [1] * 5, [2] * 63, [2] * 64, [high] * 9, [high, high, 0], [0, high, high], [6, 5, 3],
              [high // 3] * 3, [1, 2], [2**53 // 2**22 + 1, 2], [1, 0, 0], [12345, 678, 91011]]
    if low < 0:
        arrays += [[-1], [-1, -1, -1], [low, -1], [-1, low], [2] * 62 + [-2], [2] * 63 + [-1], [-5, 2],
                   [-7, 2, 2], [low, high, -1, 1]]
    return arrays


def float_arrays(type_name: str) -> list[list[float]]:
    limits = numpy.finfo(type_name)
    big, tiny, least = float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)
    nan, inf = math.nan, math.inf
    return [[], [0.0], [-0.0], [-0.0, -0.0], [0.0, -0.0], [-0.0, 0.0], [1.5], [nan], [nan, nan], [1.0, nan],
            [nan, 1.0], [3.0, nan, 1.0, nan, 2.0], [inf], [-inf], [inf, -inf], [inf, inf], [inf, nan],
            [0.0, inf], [big, big], [-big, -big], [big, -big], [tiny, -tiny], [least], [least, least],
            [-least, 0.0, -0.0], [least, 0.5], [3.0, 1.0, 3.0, 1.0], [-1.0, 2.0, -1.0, 2.0], [0.1] * 3,
            [1.0, 2.0, 4.0, 8.0], [nan, -0.0], [nan, -inf, inf], [-nan, 5.0], [0.1, 0.2, 0.3, 0.4]]


def _wide_integer(array: numpy.ndarray, value: int, wrap: bool):
    if wrap:
        value %= 2**(8 * array.itemsize)
        top = 2**(8 * array.itemsize - 1)
        return value - 2 * top if array.dtype.kind == "i" and value >= top else value
    low, high = (-2**63, 2**63) if array.dtype.kind == "i" else (0, 2**64)
    return value if low <= value < high else "OVERFLOW"


def _extremum(spec: Spec, array: numpy.ndarray) -> float | int:
    """NumPy's, but for zeros, which it takes for equal: -0.0 is below 0.0."""
    value = (numpy.min if spec.operator == "min" else numpy.max)(array).item()
    if value == 0 and spec.is_float:
        signs = numpy.signbit(array[array == 0])
        return -0.0 if (signs.any() if spec.operator == "min" else signs.all()) else 0.0
    return value


def _arg(spec: Spec, array: numpy.ndarray):
    if numpy.isnan(array).all() and spec.ignore_nan:
        return "EMPTY_ARRAY"
    index = int(getattr(numpy, ("nan" if spec.ignore_nan else "") + spec.operator)(array))
    return array[index].item(), index


def _float_fold(spec: Spec, array: numpy.ndarray) -> float:
    """Of these short arrays the order of rounding is plain: from the first element to the last."""
    values = [float(x) for x in array]
    if spec.operator == "product":
        return functools.reduce(lambda a, b: a * b, values, 1.0)
    return functools.reduce(lambda a, b: a + b, values, -0.0)


def expected(spec: Spec, array: numpy.ndarray):
    """A number, (number, index), or the reason why there is none."""
    kept = array[~numpy.isnan(array)] if spec.ignore_nan else array
    if spec.operator in _NEED_ELEMENTS and len(array) == 0:
        return "EMPTY_ARRAY"
    if spec.operator in ("argmin", "argmax"):
        return _arg(spec, array)
    if spec.operator in ("min", "max", "mean") and len(kept) == 0:
        return math.nan  # as numpy.nanmin and numpy.nanmean
    if spec.operator in ("min", "max"):
        return _extremum(spec, kept)
    if spec.operator in ("all", "any"):
        return bool(getattr(numpy, spec.operator)(kept))
    if spec.operator == "count_nonzero":
        return int(numpy.count_nonzero(kept))
    if spec.operator.startswith("bit_"):
        ufunc = getattr(numpy, "bitwise_" + spec.operator[4:])
        return ufunc.reduce(kept).item() if len(kept) else _as_identity(spec)
    if spec.is_float:
        total = _float_fold(spec, kept)
        if spec.operator == "mean":
            return total / len(kept)
        # As numpy.nansum: a NaN that is ignored counts as 0.0.
        return 0.0 if total == 0 and spec.operator == "sum" and len(kept) < max(1, len(array)) else total
    return _exact_integer(spec, array)


def _as_identity(spec: Spec) -> int:
    if spec.operator != "bit_and":
        return 0
    return -1 if spec.code[0] == "i" else 2**spec.bits - 1


def _exact_integer(spec: Spec, array: numpy.ndarray):
    values = array.tolist()
    if spec.operator == "mean":
        return float(Fraction(sum(values), len(values)))
    return _wide_integer(array, sum(values) if spec.operator == "sum" else math.prod(values), spec.wrap)


def _plain_order(spec: Spec, array: numpy.ndarray) -> bool:
    """Whether the canonical order rounds this array as a loop from its first element does."""
    return spec.operator not in ("sum", "mean", "product") or not spec.is_float or len(array) <= 3 or \
        numpy.isnan(array).any() or numpy.all(array == numpy.round(array))


def _options(spec: Spec, array: numpy.ndarray) -> list[dict]:
    """The options that could matter for this array."""
    options = [{}]
    if spec.is_float and numpy.isnan(array).any():
        options.append({"ignore_nan": True})
    if not spec.is_float and spec.operator in ("sum", "product"):
        options.append({"wrap": True})
    return options


def _values_of(type_name: str, array: numpy.ndarray) -> dict[str, str]:
    values = {}
    for operator in _SCALAR_OPERATORS:
        if type_name in _FLOATS and operator.startswith("bit_"):
            continue
        for options in _options(Spec(operator, type_name), array):
            spec = Spec(operator, type_name, **options)
            if _plain_order(spec, array):
                result = expected(spec, array)
                values[" ".join([operator, *options])] = (
                    result if isinstance(result, str) else describe(spec, [result]))
    return values


def values() -> list[dict]:
    cases = []
    for type_name in _INTEGERS + _FLOATS:
        arrays = float_arrays(type_name) if type_name in _FLOATS else integer_arrays(type_name)
        for elements in arrays:
            array = numpy.array(elements, type_name)
            cases.append({"type": type_name, "array": " ".join(map(repr, elements)),
                          "data": array.tobytes().hex(), "values": _values_of(type_name, array)})
    return cases


def _pseudo_random(count: int, seed: int) -> list[int]:
    """Knuth's linear congruential generator, the high half."""
    numbers = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append(seed >> 32)
    return numbers


def _frozen_array(type_name: str, count: int) -> bytes:
    bits = _pseudo_random(count, 2026)
    if type_name in _FLOATS:  # of many magnitudes, so that every bracket shows
        return numpy.array([math.ldexp(b % 2**24 - 2**23, b % 41 - 40) for b in bits], type_name).tobytes()
    pairs = zip(bits, _pseudo_random(count, 7))
    data = b"".join(struct.pack("<II", *pair) for pair in pairs)
    return data[:count * numpy.dtype(type_name).itemsize]


def states() -> list[dict]:
    cases = []

    def add(spec: Spec, count: int, first: int):
        data = _frozen_array(spec.type, count * spec.entries)
        nodes, results = canonical_order.reduce(spec, data, first)
        cases.append({"operator": spec.operator, "type": spec.type, "rows": spec.rows,
                      "columns": spec.columns, "modulus": spec.modulus, "first": first, "count": count,
                      "nodes": [[level, index, state.hex()] for level, index, state in nodes],
                      "value": describe(spec, results)})

    for type_name in _INTEGERS + _FLOATS:
        for operator in _SCALAR_OPERATORS:
            if not (type_name in _FLOATS and operator.startswith("bit_")):
                leaf = canonical_order.leaf_size(Spec(operator, type_name))
                add(Spec(operator, type_name), 3 * leaf + 21, leaf)
        add(Spec("sum", type_name, 2, 3), 200, 0)
        for d in (1, 3, 4):
            add(Spec("matrix_product", type_name, d, d), 70 if type_name in _FLOATS else 300, 0)
        if type_name in _INTEGERS:
            add(Spec("matrix_product", type_name, 2, 2, modulus=1000003), 600, 0)
    return cases


def write(name: str, cases: list[dict]):
    text = ",\n".join(json.dumps(case) for case in cases)
    (_FOLDER / name).write_text(f"[\n{text}\n]\n", encoding="ascii")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _FOLDER.mkdir(exist_ok=True)
    write("values.json", values())
    write("states.json", states())
