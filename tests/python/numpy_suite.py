# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A plugin for pytest that makes NumPy's own tests reduce with a Warpfold server: numpy.sum, numpy.nanmax and
the others are the package's methods while the tests run. numpy_suite_test.py runs them.

Calls that the package rejects by its contract (docs/python.md) go to NumPy's function, and are counted under
the name of the rule. Environment: WARPFOLD_TARGET, the server; WARPFOLD_COUNTS, a file for the counts.
"""

import collections
import functools
import inspect
import json
import os

import numpy

import warpfold

# The client's method, and its options, for each of NumPy's functions.
_NAN = {"nan": "ignore"}
FUNCTIONS = {
    "sum": ("sum", {}),
    "prod": ("prod", {}),
    "min": ("min", {}),
    "amin": ("min", {}),
    "max": ("max", {}),
    "amax": ("max", {}),
    "argmin": ("argmin", {}),
    "argmax": ("argmax", {}),
    "mean": ("mean", {}),
    "var": ("var", {}),
    "std": ("std", {}),
    "any": ("any", {}),
    "all": ("all", {}),
    "count_nonzero": ("count_nonzero", {}),
    "nansum": ("sum", _NAN),
    "nanprod": ("prod", _NAN),
    "nanmin": ("min", _NAN),
    "nanmax": ("max", _NAN),
    "nanargmin": ("argmin", _NAN),
    "nanargmax": ("argmax", _NAN),
    "nanmean": ("mean", _NAN),
    "nanvar": ("var", _NAN),
    "nanstd": ("std", _NAN)
}
_OPTIONS = ("axis", "keepdims", "ddof", "correction", "out")
# Those among them that have dtype=, as the result's type.
_WITH_DTYPE = ("sum", "prod", "nansum", "nanprod")

counts = collections.Counter()


def rule_of(function, array, options):
    """The rule of the contract by which the package does not accept this call; None if it does."""
    for name in options:
        if name not in _OPTIONS and not (name == "dtype" and function in _WITH_DTYPE):
            return f"no {name}="
    plain = (numpy.ndarray, list, tuple, int, float, bool)
    if type(array) not in plain and not isinstance(array, numpy.generic):
        return "subclasses of ndarray, which NumPy's functions answer in kind"
    try:
        kind = numpy.asarray(array).dtype
    except ValueError:
        return "no array"
    if kind.kind not in "biuf" or not kind.isnative or kind.itemsize > 8:
        return "element types that are refused"
    return None if "dtype" not in options else rule_of_dtype(kind, options["dtype"])


def rule_of_dtype(kind, dtype):
    """What the package rejects as the type of a result: ADR 85."""
    try:
        answered = numpy.dtype(dtype)
    except TypeError:
        return "no type"
    if answered.kind not in "iuf" or not answered.isnative or answered.itemsize > 8:
        return "dtype= that is no integer or float of NumPy's of at most 64 bits"
    if kind.kind == "f" and answered.kind != "f":
        return "dtype= that makes integers of floats"
    return None


def through(client, name, original):
    method, fixed = FUNCTIONS[name]
    signature = inspect.signature(original)
    empty = (None, numpy._NoValue)

    @functools.wraps(original)
    def call(*args, **kwargs):
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return original(*args, **kwargs)
        options = {
            key: value
            for key, value in list(given.items())[1:] if all(value is not no for no in empty)
        }
        array = next(iter(given.values()))
        rule = rule_of(name, array, options)
        if rule is None:
            value = getattr(client, method)(numpy.asarray(array), **options, **fixed)
            counts["by the server"] += 1
            counts["by the server with axis="] += "axis" in options
            counts["by the server with dtype="] += "dtype" in options
            counts["by the server with out="] += "out" in options
            return value
        counts[rule] += 1
        return original(*args, **kwargs)

    return call


def pytest_configure():
    client = warpfold.connect(os.environ["WARPFOLD_TARGET"])
    for name in FUNCTIONS:
        setattr(numpy, name, through(client, name, getattr(numpy, name)))


def pytest_unconfigure():
    with open(os.environ["WARPFOLD_COUNTS"], "w", encoding="utf-8") as file:
        json.dump(counts, file)
