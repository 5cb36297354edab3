# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What the norms, moments, logsumexp and the ordered operators must return, computed with exact fractions.

A result is a dict of fields (one, named "", if the operator has one result) to Wanted, and where it is.
"""

import dataclasses
import decimal
import math
from fractions import Fraction

from service import Failure

EPSILON = 2.0**-52
INTEGER_OPERATORS = ("sum_of_squares", "l1_norm", "l2_norm", "max_abs", "variance", "stddev", "minmax",
                     "describe", "first", "last", "max_subarray_sum")
FLOAT_OPERATORS = INTEGER_OPERATORS + ("logsumexp", "exact_sum")
HAVE_IDENTITY = ("sum_of_squares", "l1_norm", "l2_norm", "max_abs", "logsumexp", "exact_sum")
# No array here passes an element through this many roundings.
_ROUNDINGS = 40


@dataclasses.dataclass(frozen=True)
class Wanted:
    value: int | float | bool
    tolerance: float = 0.0  # 0: to the bit

    @classmethod
    def near(cls, exact: Fraction, scale: Fraction) -> "Wanted":
        """For a double, computed from numbers that add up to `scale`."""
        return cls(to_float(exact), _ROUNDINGS * EPSILON * to_float(scale) + 2.0**-1070)


@dataclasses.dataclass(frozen=True)
class Array:
    values: list  # Python's numbers
    is_float: bool
    is_signed: bool = False
    bits: int = 0
    is_bool: bool = False

    @property
    def finite(self) -> bool:
        return not self.is_float or all(map(math.isfinite, self.values))

    def exactly(self) -> list[Fraction]:
        return [Fraction(x) for x in self.values]

    def element(self, x):
        return bool(x) if self.is_bool else x


def to_float(x: Fraction) -> float:
    try:
        return float(x)
    except OverflowError:
        return math.inf if x > 0 else -math.inf


def _root(x: Fraction) -> Fraction:
    """Accurate to a hundred bits and more."""
    shift = max(0, 240 - x.numerator.bit_length() + x.denominator.bit_length()) // 2 + 1
    return Fraction(math.isqrt((x.numerator << 2 * shift) // x.denominator), 1 << shift)


def integer(array: Array, exact: int, wrap: bool) -> Wanted:
    if wrap:
        residue, half = exact % 2**array.bits, 2**(array.bits - 1)
        return Wanted(residue - 2 * half if array.is_signed and residue >= half else residue)
    low, high = (-2**63, 2**63) if array.is_signed else (0, 2**64)
    if not low <= exact < high:
        raise Failure("OUT_OF_RANGE", "OVERFLOW")
    return Wanted(exact)


def _norm(name: str, array: Array, wrap: bool) -> Wanted:
    if name == "max_abs":
        largest = max(map(abs, array.values), default=0.0 if array.is_float else 0)
        return Wanted(math.nan if any(x != x for x in array.values) else largest)
    if not array.finite:
        return Wanted(math.nan if any(x != x for x in array.values) else math.inf)
    terms = [abs(x) for x in array.exactly()] if name == "l1_norm" else [x * x for x in array.exactly()]
    exact = sum(terms, Fraction())
    if name == "sum_of_squares" and not array.is_float:
        return integer(array, int(exact), wrap)
    if not array.is_float:
        return Wanted(math.sqrt(float(exact)) if name == "l2_norm" else float(exact))
    if name != "l1_norm":  # squares are doubles, and may be 0.0 or infinite
        exact = to_float(exact) if to_float(exact) == math.inf else sum(
            (Fraction(x * x) for x in array.values), Fraction())
        if exact == math.inf:
            return Wanted(math.inf)
    return Wanted.near(_root(exact), _root(exact)) if name == "l2_norm" else Wanted.near(exact, exact)


def _moments(array: Array, ddof: int) -> tuple[Fraction, Fraction] | None:
    """The variance, and the scale of its error; None for NaN."""
    count = len(array.values)
    if count <= ddof or not array.finite:
        return None
    values = array.exactly()
    mean = sum(values) / count
    variance = sum((x - mean)**2 for x in values) / (count - ddof)
    from_mean = abs(mean) * _root(variance) + Fraction(EPSILON) * mean**2
    return variance, variance + from_mean * count / (count - ddof)


def _variance(name: str, array: Array, ddof: int) -> Wanted:
    moments = _moments(array, ddof)
    if moments is None:
        return Wanted(math.nan)
    variance, scale = moments
    if name == "variance":
        return Wanted.near(variance, scale)
    root = _root(variance)
    error = _ROUNDINGS * EPSILON * to_float(scale)  # of the variance
    return Wanted(float(root), min(error / float(root) if root else math.inf, math.sqrt(error)) + 1e-150)


def _extremum(name: str, array: Array) -> Wanted:
    if any(x != x for x in array.values) or not array.values:
        return Wanted(math.nan)  # of nothing: only ignored NaN were there
    # -0.0 is below 0.0.
    order = {"min": min, "max": max}[name]
    return Wanted(array.element(order(array.values, key=lambda x: (x, math.copysign(1, x)))))


def _sum(array: Array, wrap: bool) -> Wanted:
    if not array.is_float:
        return integer(array, sum(array.values), wrap)
    if not array.finite:
        return Wanted(sum(array.values))
    exact = array.exactly()
    if not any(exact):
        return Wanted(-0.0 if array.values and all(math.copysign(1, x) < 0 for x in array.values) else 0.0)
    return Wanted.near(sum(exact), sum(map(abs, exact)))


def _mean(array: Array) -> Wanted:
    count = len(array.values)
    if count == 0:
        return Wanted(math.nan)
    if not array.is_float:
        return Wanted(float(Fraction(sum(array.values), count)))
    total = _sum(array, wrap=False)
    if not math.isfinite(total.value) or total.tolerance == 0:
        return total
    exact = array.exactly()
    return Wanted.near(sum(exact) / count, sum(map(abs, exact)) / count)


def _logsumexp(array: Array) -> Wanted:
    if not array.finite:
        if any(not x < math.inf for x in array.values):  # NaN or infinity
            return Wanted(sum(x for x in array.values if not x < math.inf))
        return _logsumexp(dataclasses.replace(array, values=[x for x in array.values if x > -math.inf]))
    if not array.values:
        return Wanted(-math.inf)
    with decimal.localcontext(decimal.Context(prec=40, Emin=-10**6, Emax=10**6)) as context:
        largest = decimal.Decimal(max(array.values))
        total = sum((context.exp(decimal.Decimal(x) - largest) for x in array.values), decimal.Decimal())
        value = float(largest + context.ln(total))
    return Wanted(value, 1e-14 + 4 * EPSILON * abs(value))


def max_subarray_sum(values: list):
    """Kadane's algorithm: (sum, begin, end); among equal sums the one that starts first, then the
    shortest."""
    best, ending, begin = None, None, 0
    for i, x in enumerate(values):
        if ending is None or ending < 0:
            ending, begin = x, i
        else:
            ending += x
        if best is None or ending > best[0] or (ending == best[0] and begin < best[1]):
            best = ending, begin, i + 1
    return best


def fields(name: str, array: Array, every: Array, ignore_nan: bool, wrap: bool, ddof: int) -> dict:
    """`array` is without ignored NaN, `every` includes them. Not for max_subarray_sum."""
    if not every.values and name not in HAVE_IDENTITY:
        raise Failure("INVALID_ARGUMENT", "EMPTY_ARRAY")
    if name in ("first", "last"):
        if not array.values:
            raise Failure("INVALID_ARGUMENT", "EMPTY_ARRAY")
        return {"": Wanted(array.element(array.values[0 if name == "first" else -1]))}
    if name == "minmax":
        return {field: _extremum(field, array) for field in ("min", "max")}
    if name == "describe":
        # A sum counts ignored NaN as 0.0.
        zeros = [0.0 if ignore_nan and x != x else x for x in every.values]
        return {"count": Wanted(len(array.values)), "min": _extremum("min", array),
                "max": _extremum("max", array), "sum": _sum(dataclasses.replace(every, values=zeros), wrap),
                "mean": _mean(array), "variance": _variance("variance", array, ddof)}
    if name == "logsumexp":
        return {"": _logsumexp(array)}
    if name == "exact_sum":
        return {"": Wanted(to_float(sum(array.exactly()))) if array.finite else Wanted(sum(array.values))}
    return {"": _variance(name, array, ddof) if name in ("variance", "stddev") else _norm(name, array, wrap)}
