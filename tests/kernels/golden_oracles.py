# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What operators answer over short arrays, by Python's exact numbers and by NumPy: for make_golden.py.

Answers are text as Describe in expect_same.h has it, but where arithmetic rounds: "near:1.25:1e-15" stands
for a double that is off by at most the second number. An array of bfloat16 is one of float32, of bool one
of uint8.
"""

import functools
import math
from fractions import Fraction

import numpy

from canonical_elements import Spec, Unsigned
from canonical_order_test import describe

_NEED_ELEMENTS = ("min", "max", "argmin", "argmax", "mean")
_FIELDS = {"minmax": ("min", "max"), "describe": ("count", "min", "max", "sum", "mean", "variance")}


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


def _natural(spec: Spec, value):
    """An element, as a result."""
    return bool(value) if spec.type == "bool" else value


def _arg(spec: Spec, array: numpy.ndarray):
    if numpy.isnan(array).all() and spec.ignore_nan:
        return "EMPTY_ARRAY"
    index = int(getattr(numpy, ("nan" if spec.ignore_nan else "") + spec.operator)(array))
    return _natural(spec, array[index].item()), index


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
        return _natural(spec, _extremum(spec, kept))
    if spec.operator in ("all", "any"):
        return bool(getattr(numpy, spec.operator)(kept))
    if spec.operator == "count_nonzero":
        return Unsigned(numpy.count_nonzero(kept))
    if spec.operator.startswith("bit_"):
        ufunc = getattr(numpy, "bitwise_" + spec.operator[4:])
        return _natural(spec, ufunc.reduce(kept).item() if len(kept) else _as_identity(spec))
    if spec.operator == "exact_sum":
        return _exact_sum(kept)
    if spec.is_float:
        total = _float_fold(spec, kept)
        if spec.operator == "mean":
            return total / len(kept)
        # As numpy.nansum: a NaN that is ignored counts as 0.0.
        return 0.0 if total == 0 and spec.operator == "sum" and len(kept) < max(1, len(array)) else total
    return _exact_integer(spec, array)


def _exact_sum(array: numpy.ndarray) -> float:
    """math.fsum, but for what it refuses."""
    values = [float(x) for x in array]
    if math.inf in values and -math.inf in values:
        return math.nan
    try:
        return math.fsum(values)
    except OverflowError:  # also of a partial sum
        return _as_float(sum(map(Fraction, values)))


def _as_identity(spec: Spec) -> int:
    if spec.operator != "bit_and":
        return 0
    return -1 if spec.is_signed else 2**spec.bits - 1


def _exact_integer(spec: Spec, array: numpy.ndarray):
    values = array.tolist()
    if spec.operator == "mean":
        return float(Fraction(sum(values), len(values)))
    return _wide_integer(array, sum(values) if spec.operator == "sum" else math.prod(values), spec.wrap)


def _plain_order(spec: Spec, array: numpy.ndarray) -> bool:
    """Whether the canonical order rounds this array as a loop from its first element does."""
    return spec.operator not in ("sum", "mean", "product") or not spec.is_float or len(array) <= 3 or \
        numpy.isnan(array).any() or numpy.all(array == numpy.round(array))


def _near(value: float, scale: float) -> str:
    """Rounded a few times on the way. Zeros, infinities and NaN have to be as they are."""
    if value == 0 or not math.isfinite(value):
        return describe(Spec("sum", "float64"), [value])
    return f"near:{value!r}:{scale * 2e-15!r}"


def _variance(spec: Spec, kept: numpy.ndarray):
    """(variance, scale of its error)"""
    if len(kept) <= spec.ddof or not numpy.isfinite(kept).all():
        return math.nan, 0
    values = [Fraction(x) for x in kept.tolist()]
    mean = sum(values) / len(values)
    variance = _as_float(sum((x - mean)**2 for x in values) / (len(values) - spec.ddof))
    return variance, variance + float(abs(mean)) * math.sqrt(variance)


def _as_float(value: Fraction) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _squares(kept: numpy.ndarray) -> float:
    return _sum_of(float(x) * float(x) for x in kept.tolist())


def _sum_of(values) -> float:
    try:
        return math.fsum(values)
    except OverflowError:
        return math.inf


def _logsumexp(kept: numpy.ndarray) -> float:
    values = [float(x) for x in kept.tolist()]
    largest = max(values, default=-math.inf)
    if any(x != x for x in values):
        return math.nan
    if math.isinf(largest):
        return largest
    return largest + math.log(math.fsum(math.exp(x - largest) for x in values))


def _max_subarray_sum(spec: Spec, array: numpy.ndarray) -> str:
    """All parts, one after the other."""
    values = array.tolist()
    places = [i for i, x in enumerate(values) if not (spec.ignore_nan and x != x)]
    best = None
    for i, begin in enumerate(places):
        total = -0.0 if spec.is_float else 0
        for end in places[i:]:
            total += values[end]
            if total != total:
                return describe(spec, [math.nan])
            if best is None or total > best[0]:
                best = total, begin, end + 1
    if best is None:
        return "EMPTY_ARRAY"
    if not spec.is_float:
        value = _wide_integer(array, best[0], wrap=False)
        return value if isinstance(value, str) else describe(spec, [best])
    return f"{_near(best[0], abs(best[0]))} at {best[1]} to {best[2]}"


def _rounded(spec: Spec, array: numpy.ndarray, kept: numpy.ndarray) -> str | None:
    """Of the operators whose answer is a double, of integers too."""
    if spec.operator in ("variance", "stddev"):
        if len(array) == 0:
            return "EMPTY_ARRAY"
        if numpy.isfinite(kept).all() and max(map(abs, kept.tolist()), default=0) > 1e150:
            return None  # a square, or a sum on the way, is beyond float64
        variance, scale = _variance(spec, kept)
        if spec.operator == "variance" or variance == 0:
            return _near(variance, scale)
        return _near(math.sqrt(variance), scale / math.sqrt(variance))
    if spec.operator == "logsumexp":
        value = _logsumexp(kept)
        return _near(value, 5 * (1 + abs(value)))
    if not spec.is_float:
        values = array.tolist()
        exact = sum(map(abs, values)) if spec.operator == "l1_norm" else sum(x * x for x in values)
        return describe(spec, [float(exact) if spec.operator == "l1_norm" else math.sqrt(exact)])
    value = _sum_of(abs(x) for x in kept.tolist()) if spec.operator == "l1_norm" else _squares(kept)
    return _near(*[math.sqrt(value) if spec.operator == "l2_norm" else value] * 2)


def _fields(spec: Spec, array: numpy.ndarray, kept: numpy.ndarray) -> str | None:
    if len(array) == 0:
        return "EMPTY_ARRAY"
    texts = []
    for field in _FIELDS[spec.operator]:
        alone = Spec(field, spec.type, ignore_nan=spec.ignore_nan, wrap=spec.wrap, ddof=spec.ddof)
        texts.append(f"uint64 {len(kept)}" if field == "count" else answer(alone, array))
    if "OVERFLOW" in texts:
        return "OVERFLOW"
    return None if None in texts else " ".join(texts)


def answer(spec: Spec, array: numpy.ndarray) -> str | None:
    """The text; None where the order of rounding is not plain, and the canonical one would tell."""
    kept = array[~numpy.isnan(array)] if spec.ignore_nan else array
    operator = spec.operator
    if operator in _FIELDS:
        return _fields(spec, array, kept)
    if operator == "max_subarray_sum":
        return _max_subarray_sum(spec, array)
    if operator in ("first", "last"):
        if len(kept) == 0:
            return "EMPTY_ARRAY"
        return describe(spec, [_natural(spec, kept[0 if operator == "first" else -1].item())])
    if operator == "max_abs":
        largest = max(map(abs, kept.tolist()), default=0)
        if spec.is_float:
            largest = math.nan if numpy.isnan(kept).any() else float(largest)
        return describe(spec, [largest if spec.is_float else Unsigned(largest)])
    if operator == "sum_of_squares" and not spec.is_float:
        value = _wide_integer(array, sum(x * x for x in array.tolist()), spec.wrap)
        return value if isinstance(value, str) else describe(spec, [value])
    if operator in ("variance", "stddev", "logsumexp", "l1_norm", "l2_norm", "sum_of_squares"):
        return _rounded(spec, array, kept)
    if not _plain_order(spec, array):
        return None
    result = expected(spec, array)
    return result if isinstance(result, str) else describe(spec, [result])
