# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Implements a part of docs/canonical-order.md: the operators that sweep once."""

import dataclasses
import math
import struct
from fractions import Fraction

import numpy

from canonical_elements import (Operator, Refused, Spec, Unsigned, as_type, bytes_of_float, bytes_of_int,
                                element_of_bits, element_of_key, fma, is_ignored, key_bounds, wide)


def _add(a, b):
    return a + b


def _sum(spec: Spec) -> Operator:
    if spec.is_float:
        return Operator(-0.0, lambda x, _: 0.0 if spec.ignore_nan and x != x else x, _add,
                        lambda s, n: s if n else 0.0, lambda s: bytes_of_float(s))
    return Operator(0, lambda x, _: x, _add, lambda s, _: wide(spec, s),
                    lambda s: bytes_of_int(s, 128))


def _exact_sum(spec: Spec) -> Operator:
    """A state is a number of units, or None if an element is not a number, and which infinities there are."""
    unit, words = {"f2": (24, 2), "b2": (133, 6), "f4": (149, 6), "f8": (1074, 34)}[spec.code]

    def lift(x, _):
        if not math.isfinite(x):
            return (0, 0) if is_ignored(spec, x) else (0, 3 if x != x else 1 if x > 0 else 2)
        return int(Fraction(x) * 2**unit), 0

    def combine(a, b):
        special = a[1] | b[1]
        return (0 if special else a[0] + b[0]), special

    def finish(state, _):
        if state[1]:
            return [math.inf, -math.inf, math.nan][state[1] - 1]
        try:
            return state[0] / 2**unit  # Python rounds the quotient of two integers once
        except OverflowError:
            return math.inf if state[0] > 0 else -math.inf

    return Operator((0, 0), lift, combine, finish,
                    lambda s: bytes_of_int(s[0], 64 * words) + s[1].to_bytes(8, "little"))


def _mean(spec: Spec) -> Operator:
    plain = _sum(spec)
    if spec.is_float and spec.ignore_nan:
        return Operator((-0.0, 0), lambda x, _: (-0.0, 0) if x != x else (x, 1),
                        lambda a, b: (a[0] + b[0], a[1] + b[1]),
                        lambda s, _: s[0] / s[1] if s[1] else float("nan"),
                        lambda s: bytes_of_float(s[0]) + s[1].to_bytes(8, "little"),
                        has_identity=False)
    # Python divides integers exactly and rounds once.
    finish = (lambda s, n: s / float(n)) if spec.is_float else (lambda s, n: s / n)
    return dataclasses.replace(plain, finish=finish, has_identity=False)


def _product(spec: Spec) -> Operator:
    if spec.is_float:
        return Operator(1.0, lambda x, _: 1.0 if spec.ignore_nan and x != x else x, lambda a, b: a * b,
                        lambda s, _: s, lambda s: bytes_of_float(s))

    def combine(a, b):
        if a[0] == a[2] == 0 or b[0] == b[2] == 0:
            return 0, 0, 0
        magnitude = a[0] * b[0]
        return magnitude % 2**64, a[1] ^ b[1], a[2] | b[2] | int(magnitude >= 2**64)

    def finish(s, _):
        magnitude = s[0] + 2**64 * (s[2] and not spec.wrap)
        return wide(spec, -magnitude if s[1] else magnitude)

    return Operator((1, 0, 0), lambda x, _: (abs(x), int(x < 0), 0), combine, finish,
                    lambda s: struct.pack("<QII", *s))


def _extremum(spec: Spec) -> Operator:
    smallest, largest = key_bounds(spec)
    best, worst = (smallest, largest) if spec.operator == "min" else (largest, smallest)
    choose = min if spec.operator == "min" else max
    nan = worst if spec.ignore_nan else best
    return Operator(worst, lambda key, _: nan if key is None else key, choose,
                    lambda s, _: element_of_key(spec, s),
                    lambda s: bytes_of_int(s, spec.bits),
                    reads="keys", has_identity=False)


def _arg_extremum(spec: Spec) -> Operator:
    smallest, largest = key_bounds(spec)
    best, worst = (smallest, largest) if spec.operator == "argmin" else (largest, smallest)
    identity = (2**64 - 1, worst)

    def lift(key, index):
        if key is None:
            return identity if spec.ignore_nan else (index, best)
        return index, key

    def order(state):
        value = 0 if spec.is_float and state[1] == -1 else state[1]
        return (value if spec.operator == "argmin" else -value), state[0]

    def finish(state, _):
        if state[0] == 2**64 - 1:
            raise Refused("EMPTY_ARRAY")
        return element_of_key(spec, state[1]), state[0]

    return Operator(identity, lift, lambda a, b: min(a, b, key=order), finish,
                    lambda s: struct.pack("<QQ" if spec.code[0] == "u" else "<Qq", *s),
                    reads="keys", has_identity=False)


def _bitwise(spec: Spec) -> Operator:
    combine = {"bit_and": lambda a, b: a & b, "bit_or": lambda a, b: a | b,
               "bit_xor": lambda a, b: a ^ b}[spec.operator]
    ones = 2**spec.bits - 1
    finish = (lambda s, _: bool(s)) if spec.type == "bool" else (lambda s, _: as_type(spec, s))
    return Operator(ones if spec.operator == "bit_and" else 0, lambda x, _: x % 2**spec.bits, combine,
                    finish, lambda s: bytes_of_int(s, spec.bits))


def _count(spec: Spec) -> Operator:
    ignored = spec.ignore_nan and spec.operator != "all"
    finish = {"all": lambda s, n: s == n, "any": lambda s, _: s > 0,
              "count_nonzero": lambda s, _: Unsigned(s)}
    return Operator(0, lambda x, _: int(x != 0 and not (ignored and x != x)), _add, finish[spec.operator],
                    lambda s: bytes_of_int(s, 64))


def _ring(spec: Spec):
    """The function that makes a number of an entry, and the one by which a whole number is reduced."""
    scalar = numpy.float32 if spec.code == "f4" else float if spec.is_float else int
    if spec.is_float:
        return scalar, lambda x: x
    return scalar, lambda x: x % spec.modulus if spec.modulus else as_type(spec, x)


def _pack_entries(spec: Spec, state) -> bytes:
    if spec.is_float:
        return b"".join(bytes_of_float(x, spec.code) for x in state)
    return b"".join(bytes_of_int(x, spec.bits) for x in state)


def _matrix_product(spec: Spec) -> Operator:
    d = spec.rows
    scalar, reduced = _ring(spec)

    def entry(a, b, i, j):
        total = a[i * d] * b[j]
        for k in range(1, d):
            left, right = a[i * d + k], b[k * d + j]
            total = fma(left, right, total, spec.code) if spec.is_float else total + left * right
        return reduced(total)

    return Operator([scalar(i % (d + 1) == 0) for i in range(d * d)],
                    lambda x, _: [reduced(scalar(e)) for e in x],
                    lambda a, b: [entry(a, b, i, j) for i in range(d) for j in range(d)],
                    lambda s, _: s, lambda s: _pack_entries(spec, s), several=True, ordered=True)


def _affine_compose(spec: Spec) -> Operator:
    scalar, reduced = _ring(spec)
    return Operator([scalar(1), scalar(0)], lambda x, _: [reduced(scalar(e)) for e in x],
                    lambda f, g: [reduced(g[0] * f[0]), reduced(g[0] * f[1] + g[1])],
                    lambda s, _: s, lambda s: _pack_entries(spec, s), several=True, ordered=True)


def _sum_of_squares(spec: Spec) -> Operator:
    norm = spec.operator == "l2_norm"
    if spec.is_float:
        return Operator(0.0, lambda x, _: 0.0 if is_ignored(spec, x) else x * x, _add,
                        lambda s, _: math.sqrt(s) if norm else s, bytes_of_float)
    finish = (lambda s, _: math.sqrt(float(s))) if norm else (lambda s, _: wide(spec, s))
    return Operator(0, lambda x, _: x * x, _add, finish,
                    lambda s: bytes_of_int(s, 192 if spec.bits == 64 else 128))


def _l1_norm(spec: Spec) -> Operator:
    if spec.is_float:
        return Operator(0.0, lambda x, _: 0.0 if is_ignored(spec, x) else abs(x), _add, lambda s, _: s,
                        bytes_of_float)
    return Operator(0, lambda x, _: abs(x), _add, lambda s, _: float(s), lambda s: bytes_of_int(s, 128))


def _max_abs(spec: Spec) -> Operator:
    if not spec.is_float:
        return Operator(0, lambda x, _: abs(x), max, lambda s, _: Unsigned(s),
                        lambda s: bytes_of_int(s, spec.bits))
    magnitude = 2**(spec.bits - 1) - 1

    def lift(bits, _):
        if math.isnan(element_of_bits(spec, bits)):
            return 0 if spec.ignore_nan else magnitude
        return bits & magnitude

    return Operator(0, lift, max, lambda s, _: element_of_bits(spec, s),
                    lambda s: bytes_of_int(s, spec.bits), reads="bits")


def _minmax(spec: Spec) -> Operator:
    parts = [_extremum(dataclasses.replace(spec, operator=name)) for name in ("min", "max")]
    return Operator(tuple(part.identity for part in parts),
                    lambda key, i: tuple(part.lift(key, i) for part in parts),
                    lambda a, b: tuple(part.combine(*pair) for part, *pair in zip(parts, a, b)),
                    lambda s, n: [part.finish(x, n) for part, x in zip(parts, s)],
                    lambda s: b"".join(part.pack(x) for part, x in zip(parts, s)),
                    reads="keys", has_identity=False, several=True)


def _first_or_last(spec: Spec) -> Operator:
    def lift(bits, _):
        return (0, 0) if spec.ignore_nan and math.isnan(element_of_bits(spec, bits)) else (bits, 1)

    def combine(a, b):
        preferred, other = (a, b) if spec.operator == "first" else (b, a)
        return preferred if preferred[1] else other

    def finish(state, _):
        if not state[1]:
            raise Refused("EMPTY_ARRAY")
        return element_of_bits(spec, state[0])

    return Operator((0, 0), lift, combine, finish, lambda s: struct.pack("<QQ", *s), reads="bits",
                    has_identity=False, ordered=True)


MAKERS = {"sum": _sum, "exact_sum": _exact_sum, "mean": _mean, "product": _product,
          "min": _extremum, "max": _extremum,
          "argmin": _arg_extremum, "argmax": _arg_extremum, "bit_and": _bitwise, "bit_or": _bitwise,
          "bit_xor": _bitwise, "all": _count, "any": _count, "count_nonzero": _count,
          "matrix_product": _matrix_product, "affine_compose": _affine_compose,
          "sum_of_squares": _sum_of_squares, "l2_norm": _sum_of_squares, "l1_norm": _l1_norm,
          "max_abs": _max_abs, "minmax": _minmax, "first": _first_or_last, "last": _first_or_last}
