# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Implements a part of docs/canonical-order.md: the operators that sweep twice, and max_subarray_sum."""

import dataclasses
import math
import struct

import canonical_operators
from canonical_elements import (Operator, Refused, Spec, Sweeps, Unsigned, bytes_of_float, bytes_of_int,
                                is_ignored, wide)

_NAN = math.nan


def _rounded_off(a: float, b: float) -> float:
    """The part that rounding takes from a + b."""
    b_part = (a + b) - a
    return (a - ((a + b) - b_part)) + (b - b_part)


def _merge_moments(a, b):
    if a[3] == 0 or b[3] == 0:
        return b if a[3] == 0 else a
    (a_mean, a_low, a_deviations, a_count), (b_mean, b_low, b_deviations, b_count) = a, b
    count = a_count + b_count
    if a_count == b_count:
        step = (b_mean - a_mean) + (b_low - a_low)
        low = _rounded_off(0.5 * a_mean, 0.5 * b_mean) + 0.5 * (a_low + b_low)
        return (0.5 * a_mean + 0.5 * b_mean, low,
                a_deviations + b_deviations + step * step * (0.5 * float(a_count)), count)
    (more_mean, more_low, _, more), (less_mean, less_low, _, less) = (a, b) if a_count > b_count else (b, a)
    step = (less_mean - more_mean) + (less_low - more_low)
    share = float(less) / float(count)
    return (more_mean + step * share, _rounded_off(more_mean, step * share) + more_low,
            a_deviations + b_deviations + step * step * (float(more) * share), count)


def _moments_around(center: float, deviations: float, squares: float, count: int):
    step = deviations / float(count)
    share = float(count) / 64
    excess = deviations * (deviations / 64)
    total = squares * share
    rest = (total - excess) / share if excess < total else 0.0 if excess < math.inf else squares
    return center + step, _rounded_off(center, step), rest, count


def _moments_sweeps(spec: Spec) -> Sweeps:
    def deviations(x, center):
        if is_ignored(spec, x):
            return 0.0, 0.0
        return x - center, (x - center) * (x - center)

    return Sweeps((-0.0, 0), lambda x: (0.0, 0) if is_ignored(spec, x) else (x, 1),
                  lambda a, b: (a[0] + b[0], a[1] + b[1]), lambda s: s[0] / float(s[1]) if s[1] else _NAN,
                  deviations,
                  lambda s, center, second: _moments_around(center, *second, s[1]) if s[1] else _NO_MOMENTS,
                  nothing=(0.0, 0.0), add=lambda a, b: (a[0] + b[0], a[1] + b[1]))


_NO_MOMENTS = (0.0, 0.0, 0.0, 0)


def _pack_moments(state) -> bytes:
    return b"".join(map(bytes_of_float, state[:3])) + bytes_of_int(state[3], 64)


def _variance_of_moments(spec: Spec, state) -> float:
    divisor = float(state[3]) - spec.ddof
    return state[2] / divisor if divisor > 0 else _NAN


def _add_powers(a, b):
    return a[0] + b[0], a[1] + b[1]


def _pack_powers(spec: Spec, state) -> bytes:
    return bytes_of_int(state[0], 128) + bytes_of_int(state[1], 192 if spec.bits == 64 else 128)


def _variance_of_powers(spec: Spec, state, n: int) -> float:
    divisor = float(n) - spec.ddof
    if not divisor > 0:
        return _NAN
    return float(n * state[1] - state[0] * state[0]) / (float(n) * divisor)


def _variance(spec: Spec) -> Operator:
    def result(variance: float) -> float:
        return variance if spec.operator == "variance" else math.sqrt(variance)

    if spec.is_float:
        return Operator(_NO_MOMENTS, None, _merge_moments, lambda s, _: result(_variance_of_moments(spec, s)),
                        _pack_moments, has_identity=False, sweeps=_moments_sweeps(spec))
    return Operator((0, 0), lambda x, _: (x, x * x), _add_powers,
                    lambda s, n: result(_variance_of_powers(spec, s, n)), lambda s: _pack_powers(spec, s),
                    has_identity=False)


def _describe(spec: Spec) -> Operator:
    """Elements are (value, key)."""
    return _describe_floats(spec) if spec.is_float else _describe_integers(spec)


def _describe_integers(spec: Spec) -> Operator:
    """States are ((sum, sum of squares), keys)."""
    keys = canonical_operators.MAKERS["minmax"](spec)

    def finish(state, n):
        powers, extrema = state
        return [Unsigned(n), *keys.finish(extrema, n), wide(spec, powers[0]), powers[0] / n,
                _variance_of_powers(spec, powers, n)]

    return Operator(((0, 0), keys.identity), lambda x, i: ((x[0], x[0] * x[0]), keys.lift(x[1], i)),
                    lambda a, b: (_add_powers(a[0], b[0]), keys.combine(a[1], b[1])), finish,
                    lambda s: _pack_powers(spec, s[0]) + b"".join(bytes_of_int(k, 64) for k in s[1]),
                    reads="values and keys", has_identity=False, several=True)


def _describe_floats(spec: Spec) -> Operator:
    """States are (sum, moments, keys)."""
    sums = canonical_operators.MAKERS["sum"](dataclasses.replace(spec, operator="sum"))
    keys = canonical_operators.MAKERS["minmax"](spec)
    moments = _moments_sweeps(spec)
    sweeps = Sweeps(
        (sums.identity, moments.identity, keys.identity),
        lambda x: (sums.lift(x[0], 0), moments.lift(x[0]), keys.lift(x[1], 0)),
        lambda a, b: (sums.combine(a[0], b[0]), moments.combine(a[1], b[1]), keys.combine(a[2], b[2])),
        lambda s: moments.center(s[1]), lambda x, center: moments.lift_second(x[0], center),
        lambda s, center, second: (s[0], moments.join(s[1], center, second), s[2]),
        nothing=moments.nothing, add=moments.add)

    def mean(state, count):
        if count == 0:
            return _NAN
        negative_zeros = spec.ignore_nan and state[2][1] == -1 and state[0] == 0
        return -0.0 if negative_zeros else state[0] / float(count)

    def finish(state, n):
        return [Unsigned(state[1][3]), *keys.finish(state[2], n), sums.finish(state[0], n),
                mean(state, state[1][3]), _variance_of_moments(spec, state[1])]

    return Operator((sums.identity, _NO_MOMENTS, keys.identity), None,
                    lambda a, b: (sums.combine(a[0], b[0]), _merge_moments(a[1], b[1]),
                                  keys.combine(a[2], b[2])),
                    finish,
                    lambda s: sums.pack(s[0]) + _pack_moments(s[1]) + b"".join(bytes_of_int(k, 64)
                                                                              for k in s[2]),
                    reads="values and keys", has_identity=False, several=True, sweeps=sweeps)


def exp_of_negative(x: float) -> float:
    if not x > -745.2:
        return x if x != x else 0.0
    number = float.fromhex
    to_integer = number("0x1.8p+52")
    k = (x * number("0x1.71547652b82fep+0") + to_integer) - to_integer
    r = (x - k * number("0x1.62e42feep-1")) - k * number("0x1.a39ef35793c76p-33")
    p = 1 / math.factorial(13)
    for i in range(12, -1, -1):
        p = p * r + 1 / math.factorial(i)
    n = int(k) + 500 if k < -1000 else int(k)
    return p * math.ldexp(1.0, n) * math.ldexp(1.0, int(k) - n)


def logarithm(x: float) -> float:
    if not math.isfinite(x):
        return x
    number = float.fromhex
    mantissa, exponent = math.frexp(x)  # [1/2, 1)
    fraction = int(mantissa * 2**53) - 2**52
    k = exponent - 1
    f = 2 * mantissa - 1
    if fraction >= 2**52 - 0x95f6400000000:
        k += 1
        f = mantissa - 1
    s = f / (2.0 + f)
    z = s * s
    series = 0.0
    for term in ("0x1.2f112df3e5244p-3", "0x1.39a09d078c69fp-3", "0x1.7466496cb03dep-3",
                 "0x1.c71c51d8e78afp-3", "0x1.2492494229359p-2", "0x1.999999997fa04p-2",
                 "0x1.5555555555593p-1"):
        series = series * z + number(term)
    half = 0.5 * f * f
    low = k * number("0x1.a39ef35793c76p-33")
    return k * number("0x1.62e42feep-1") - ((half - (s * (half + z * series) + low)) - f)


def _logsumexp(spec: Spec) -> Operator:
    def larger(a, b):
        return a if a > b or a != a else b

    def combine(a, b):
        largest = larger(a[0], b[0])
        scaled = [s if m == largest else s * exp_of_negative(m - largest) for m, s in (a, b)]
        return largest, scaled[0] + scaled[1]

    def second(x, center):
        if is_ignored(spec, x):
            return 0.0
        return 1.0 if x == center else exp_of_negative(x - center)

    def finish(state, _):
        return state[0] + logarithm(state[1]) if state[1] != 0 else -math.inf

    sweeps = Sweeps(-math.inf, lambda x: -math.inf if is_ignored(spec, x) else x + 0.0, larger, lambda s: s,
                    second, lambda _, center, total: (center, total))
    return Operator((-math.inf, 0.0), None, combine, finish,
                    lambda s: bytes_of_float(s[0]) + bytes_of_float(s[1]), sweeps=sweeps)


@dataclasses.dataclass(frozen=True)
class _Part:
    """A sum and its place: begin, end; for a prefix only the end counts, for a suffix only the begin."""
    sum: int | float
    begin: int
    end: int


def _max_subarray_sum(spec: Spec) -> Operator:
    """States are None, or (total, best, prefix, suffix)."""
    def lift(x, i):
        return None if is_ignored(spec, x) else (x, *[_Part(x, i, i + 1)] * 3)

    def combine(a, b):
        if a is None or b is None:
            return b if a is None else a
        (a_total, best, a_prefix, a_suffix), (b_total, b_best, b_prefix, b_suffix) = a, b
        across = _Part(a_suffix.sum + b_prefix.sum, a_suffix.begin, b_prefix.end)
        for part in (across, b_best):
            if part.sum > best.sum or (part.sum == best.sum and part.begin < best.begin):
                best = part
        longer = _Part(a_total + b_prefix.sum, a_prefix.begin, b_prefix.end)
        prefix = longer if longer.sum > a_prefix.sum else a_prefix
        longer = _Part(a_suffix.sum + b_total, a_suffix.begin, b_suffix.end)
        suffix = longer if longer.sum >= b_suffix.sum else b_suffix
        return a_total + b_total, best, prefix, suffix

    def pack(state):
        if state is None:
            return bytes(4 * (8 if spec.is_float else 16) + 40)
        total, best, prefix, suffix = state
        pack_sum = bytes_of_float if spec.is_float else lambda s: bytes_of_int(s, 128)
        return b"".join(map(pack_sum, (total, best.sum, prefix.sum, suffix.sum))) + struct.pack(
            "<5Q", best.begin, best.end, prefix.end, suffix.begin, 1)

    def finish(state, _):
        if state is None:
            raise Refused("EMPTY_ARRAY")
        total, best = state[:2]
        if total != total:
            return _NAN
        value = best.sum if spec.is_float else wide(dataclasses.replace(spec, wrap=False), best.sum)
        return value, best.begin, best.end

    return Operator(None, lift, combine, finish, pack, has_identity=False, ordered=True)


MAKERS = {"variance": _variance, "stddev": _variance, "describe": _describe, "logsumexp": _logsumexp,
          "max_subarray_sum": _max_subarray_sum}
