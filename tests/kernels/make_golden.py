# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Writes golden/values.json and golden/states.json. Run by hand, results are checked in.

values.json: hard little arrays and what they reduce to, by Python's exact numbers and by NumPy.
states.json: partial states as they travel, from canonical_order.py. Frozen within v1: if this file would
change, clients and servers of different builds would no longer agree.
"""

import json
import math
import pathlib
import struct
import warnings

import numpy

import canonical_order
import golden_oracles
from canonical_elements import Spec
from canonical_order_test import describe

_FOLDER = pathlib.Path(__file__).parent / "golden"
_INTEGERS = ("int32", "int64", "uint32", "uint64")
_FLOATS = ("float32", "float64")
_MORE_INTEGERS = ("int8", "uint8", "int16", "uint16", "bool")
_MORE_FLOATS = ("float16", "bfloat16")
_ALL_FLOATS = _FLOATS + _MORE_FLOATS
_SCALAR_OPERATORS = ("sum", "product", "min", "max", "argmin", "argmax", "bit_and", "bit_or", "bit_xor",
                     "all", "any", "count_nonzero", "mean")
_EXACT_OPERATORS = ("exact_sum",)
_MORE_OPERATORS = ("sum_of_squares", "l1_norm", "l2_norm", "max_abs", "variance", "stddev", "minmax",
                   "describe", "logsumexp", "first", "last", "max_subarray_sum")


def integer_arrays(type_name: str) -> list[list[int]]:
    low, high = (0, 1) if type_name == "bool" else _limits(type_name)
    arrays = [[], [0], [7], [high], [low], [high, high], [high, 1], [low, low], [low, high], [3, 1, 3, 1, 2],
              [0] * 5, [1] * 5, [2] * 63, [2] * 64, [high] * 9, [high, high, 0], [0, high, high], [6, 5, 3],
              [high // 3] * 3, [1, 2], [2**53 // 2**22 + 1, 2], [1, 0, 0], [12345, 678, 91011]]
    if low < 0:
        arrays += [[-1], [-1, -1, -1], [low, -1], [-1, low], [2] * 62 + [-2], [2] * 63 + [-1], [-5, 2],
                   [-7, 2, 2], [low, high, -1, 1]]
    # Those of 32 bits are older than this filter, and stay.
    return [a for a in arrays if type_name in _INTEGERS or all(low <= x <= high for x in a)]


def _limits(type_name: str) -> tuple[int, int]:
    limits = numpy.iinfo(type_name)
    return int(limits.min), int(limits.max)


def float_arrays(type_name: str) -> list[list[float]]:
    if type_name == "bfloat16":
        big, tiny, least = float.fromhex("0x1.fep127"), 2.0**-126, 2.0**-133
    else:
        limits = numpy.finfo(type_name)
        big, tiny, least = float(limits.max), float(limits.tiny), float(limits.smallest_subnormal)
    nan, inf = math.nan, math.inf
    return [[], [0.0], [-0.0], [-0.0, -0.0], [0.0, -0.0], [-0.0, 0.0], [1.5], [nan], [nan, nan], [1.0, nan],
            [nan, 1.0], [3.0, nan, 1.0, nan, 2.0], [inf], [-inf], [inf, -inf], [inf, inf], [inf, nan],
            [0.0, inf], [big, big], [-big, -big], [big, -big], [tiny, -tiny], [least], [least, least],
            [-least, 0.0, -0.0], [least, 0.5], [3.0, 1.0, 3.0, 1.0], [-1.0, 2.0, -1.0, 2.0], [0.1] * 3,
            [1.0, 2.0, 4.0, 8.0], [nan, -0.0], [nan, -inf, inf], [-nan, 5.0], [0.1, 0.2, 0.3, 0.4]]


def array_of(type_name: str, elements: list) -> tuple[numpy.ndarray, bytes]:
    """The elements' values as golden_oracles.py takes them, and their bytes."""
    if type_name == "bool":
        array = numpy.array(elements, "uint8")
        return array, (array * 2).tobytes()  # a byte other than 1 is true, too
    if type_name == "bfloat16":  # to the nearest, ties to even
        bits = numpy.array(elements, "<f4").view("<u4").astype("<u8")
        upper = ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")
        return (upper.astype("<u4") << 16).view("<f4"), upper.tobytes()
    array = numpy.array(elements, type_name)
    return array, array.tobytes()


def _takes(operator: str, type_name: str) -> bool:
    floats = type_name in _ALL_FLOATS
    only_floats = operator in ("logsumexp", "exact_sum")
    return not (floats and operator.startswith("bit_")) and (floats or not only_floats)


def _options(spec: Spec, array: numpy.ndarray) -> list[dict]:
    """The options that could matter for this array."""
    options = [{}]
    if spec.is_float and numpy.isnan(array).any():
        options.append({"ignore_nan": True})
    if not spec.is_float and spec.operator in ("sum", "product", "sum_of_squares", "describe"):
        options.append({"wrap": True})
    if spec.operator in ("variance", "stddev", "describe") and len(array) < 4:
        options.append({"ddof": 1})
    return options


def _values_of(type_name: str, array: numpy.ndarray) -> dict[str, str]:
    values = {}
    for operator in _SCALAR_OPERATORS + _MORE_OPERATORS + _EXACT_OPERATORS:
        if not _takes(operator, type_name):
            continue
        for options in _options(Spec(operator, type_name), array):
            text = golden_oracles.answer(Spec(operator, type_name, **options), array)
            if text is not None:
                values[" ".join([operator, *options])] = text
    return values


def values() -> list[dict]:
    cases = []
    for type_name in _INTEGERS + _FLOATS + _MORE_INTEGERS + _MORE_FLOATS:
        arrays = float_arrays(type_name) if type_name in _ALL_FLOATS else integer_arrays(type_name)
        for elements in arrays:
            array, data = array_of(type_name, elements)
            cases.append({"type": type_name, "array": " ".join(map(repr, elements)), "data": data.hex(),
                          "values": _values_of(type_name, array)})
    return cases


def _pseudo_random(count: int, seed: int) -> list[int]:
    """Knuth's linear congruential generator, the high half."""
    numbers = []
    for _ in range(count):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        numbers.append(seed >> 32)
    return numbers


def _frozen_array(type_name: str, count: int, with_nan: bool) -> bytes:
    bits = _pseudo_random(count, 2026)
    if type_name in _ALL_FLOATS:  # of many magnitudes, so that every bracket shows; no more bits than fit
        bits_each = {"float16": 11, "bfloat16": 8}.get(type_name, 24)
        octaves = 13 if type_name in _MORE_FLOATS else 41
        floats = [math.ldexp(b % 2**bits_each - 2**(bits_each - 1), b % octaves - octaves + 1) for b in bits]
        if with_nan:
            floats[3::7] = [math.nan] * len(floats[3::7])
        return array_of(type_name, floats)[1]
    pairs = zip(bits, _pseudo_random(count, 7))
    data = b"".join(struct.pack("<II", *pair) for pair in pairs)
    return data[:count * Spec("sum", type_name).bits // 8]


def states() -> list[dict]:
    cases = []

    def add(spec: Spec, count: int, first: int):
        data = _frozen_array(spec.type, count * spec.entries, spec.ignore_nan)
        nodes, range_state, results = canonical_order.reduce(spec, data, first)
        value = describe(spec, results)
        if spec.operator == "logsumexp":  # whose logarithm is the library's
            value = f"near:{results[0]!r}:{1e-15 * (1 + abs(results[0]))!r}"
        cases.append({"operator": spec.operator, "type": spec.type, "rows": spec.rows,
                      "columns": spec.columns, "modulus": spec.modulus, "ignore_nan": spec.ignore_nan,
                      "first": first, "count": count,
                      "nodes": [[level, index, state.hex()] for level, index, state in nodes],
                      "range": range_state.hex(), "value": value})

    def add_scalars(type_name: str, operators):
        for operator in operators:
            if _takes(operator, type_name):
                leaf = canonical_order.leaf_size(Spec(operator, type_name))
                add(Spec(operator, type_name), 3 * leaf + 21, leaf)

    for type_name in _INTEGERS + _FLOATS:
        add_scalars(type_name, _SCALAR_OPERATORS)
        add(Spec("sum", type_name, 2, 3), 200, 0)
        for d in (1, 3, 4):
            add(Spec("matrix_product", type_name, d, d), 70 if type_name in _FLOATS else 300, 0)
        if type_name in _INTEGERS:
            add(Spec("matrix_product", type_name, 2, 2, modulus=1000003), 600, 0)
    # What came later stands behind.
    for type_name in _INTEGERS + _FLOATS:
        add_scalars(type_name, _MORE_OPERATORS)
        add(Spec("affine_compose", type_name, 1, 2), 70 if type_name in _FLOATS else 300, 0)
        if type_name in _INTEGERS:
            add(Spec("affine_compose", type_name, 1, 2, modulus=1000003), 600, 0)
        add(Spec("l2_norm", type_name, 2, 3), 200, 0)
    for type_name in _MORE_INTEGERS + _MORE_FLOATS:
        add_scalars(type_name, _SCALAR_OPERATORS + _MORE_OPERATORS)
        add(Spec("sum", type_name, 2, 3), 900, 0)
    # Few, so that floats stay finite.
    add(Spec("matrix_product", "float32", 16, 16), 3, 0)
    add(Spec("matrix_product", "float64", 31, 31), 3, 2)
    add(Spec("matrix_product", "uint32", 32, 32, modulus=2**32 - 5), 5, 0)
    add(Spec("matrix_product", "int64", 17, 17, modulus=2**63 - 25), 9, 4)
    for type_name in _ALL_FLOATS:
        add_scalars(type_name, _EXACT_OPERATORS)
    # Lanes that count 13 to 15 elements of float64, and twice or four times as many of narrower types: there
    # the states of two sweeps take divisions that round. With each seventh NaN, and without.
    for type_name in _ALL_FLOATS:
        for operator in _SCALAR_OPERATORS + _MORE_OPERATORS + _EXACT_OPERATORS:
            if _takes(operator, type_name):
                leaf = canonical_order.leaf_size(Spec(operator, type_name))
                for ignore_nan in (False, True):
                    add(Spec(operator, type_name, ignore_nan=ignore_nan), leaf + 7 * leaf // 8 + 13, 0)
    return cases


def write(name: str, cases: list[dict]):
    text = ",\n".join(json.dumps(case) for case in cases)
    (_FOLDER / name).write_text(f"[\n{text}\n]\n", encoding="ascii")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    _FOLDER.mkdir(exist_ok=True)
    write("values.json", values())
    write("states.json", states())
