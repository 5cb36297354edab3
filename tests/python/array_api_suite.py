# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""NumPy as an array API namespace whose statistical functions are the package's, for the public array test
suite: array_api_suite_test.py runs it.

Environment: WARPFOLD_TARGET, the server; WARPFOLD_COUNTS, a file for the number of calls; WARPFOLD_TYPES,
"warpfold" for results as the package gives them, or "array" for results of floats in the array's type, as the
standard wants them: through dtype= if a function has it, otherwise through a conversion here. Examples with
complex numbers, which are rejected, do not count then.
"""

import atexit
import collections
import json
import os
import pathlib

import numpy
from hypothesis import reject

import warpfold

_client = warpfold.connect(os.environ["WARPFOLD_TARGET"])
_in_the_arrays_type = os.environ["WARPFOLD_TYPES"] == "array"
_counts = collections.Counter()

__array_api_version__ = "2024.12"


def __getattr__(name):
    # The package has no scans: the suite should not test NumPy's.
    if name.startswith("cumulative_"):
        raise AttributeError(name)
    return getattr(numpy, name)


@atexit.register
def _write_counts():
    pathlib.Path(os.environ["WARPFOLD_COUNTS"]).write_text(json.dumps(_counts), encoding="utf-8")


def _ask(name, x, *, dtype=None, **options):
    if _in_the_arrays_type and "c" in (x.dtype.kind, numpy.dtype(dtype or x.dtype).kind):
        reject()
    _counts[name] += 1
    if name in ("sum", "prod"):
        if dtype is None and _in_the_arrays_type and x.dtype.kind == "f":
            dtype = x.dtype
        return getattr(_client, name)(x, dtype=dtype, **options)
    value = getattr(_client, name)(x, **options)
    return value.astype(x.dtype) if _in_the_arrays_type else value


def sum(x, /, *, axis=None, dtype=None, keepdims=False):
    return _ask("sum", x, axis=axis, dtype=dtype, keepdims=keepdims)


def prod(x, /, *, axis=None, dtype=None, keepdims=False):
    return _ask("prod", x, axis=axis, dtype=dtype, keepdims=keepdims)


def min(x, /, *, axis=None, keepdims=False):
    return _ask("min", x, axis=axis, keepdims=keepdims)


def max(x, /, *, axis=None, keepdims=False):
    return _ask("max", x, axis=axis, keepdims=keepdims)


def mean(x, /, *, axis=None, keepdims=False):
    return _ask("mean", x, axis=axis, keepdims=keepdims)


def var(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _ask("var", x, axis=axis, correction=correction, keepdims=keepdims)


def std(x, /, *, axis=None, correction=0.0, keepdims=False):
    return _ask("std", x, axis=axis, correction=correction, keepdims=keepdims)
