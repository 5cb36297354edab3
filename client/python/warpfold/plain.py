# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The short way: a call without options, for a NumPy array in its own memory, that returns one number.

The general way runs some thirty Python functions. In a loop they take 4 us, but a call waits for the server
in between, and the processor's caches have lost them by then: 10 us of a call of 4 KiB, which takes 75 us in
C++ (docs/adr/0120). This way returns the same value, raises the same errors, and returns None for anything
that is not plain, which then goes the general way.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from warpfold import _native
from warpfold.calls import task_of
from warpfold.element_types import element_type
from warpfold.results import number_of

if TYPE_CHECKING:
    import numpy

# Operators that return more than one number.
_OF_SEVERAL = frozenset({"minmax", "argmin", "argmax", "describe", "max_subarray_sum"})


@dataclass(slots=True)
class _Plan:
    """What calls of one method have in common, for arrays of one type."""

    task: _native.Task
    type: str
    dtype: numpy.dtype[Any]


def value_of(client: _native.Client, operator: str, array: Any, spec: dict[str, Any]) -> Any:
    """The operator's value, or None if the array or the method is not plain. `spec` comes from task_of."""
    if type(array) is not _ndarray() or operator in _OF_SEVERAL:
        return None
    base = array.base
    # Arrays whose memory belongs to another library, or to a file, need more checks.
    owner = array if base is None else base
    if type(owner) is not _ndarray() or not owner.flags.owndata:
        return None
    try:
        plan = _plan(operator, array.dtype, **spec)
    except TypeError:  # also for values without a hash; the general way says what is wrong
        return None
    if plan is None:
        return None
    raw = client.reduce_plain(array, plan.task)
    return None if raw is None else number_of(operator, raw, plan)


@functools.cache
def _ndarray() -> Any:
    import numpy

    return numpy.ndarray


@functools.lru_cache(maxsize=256, typed=True)  # 1, 1.0 and True are equal, but not all of them are a ddof
def _plan(operator: str, dtype: numpy.dtype[Any], **spec: Any) -> _Plan | None:
    name = element_type(dtype)
    return None if name is None else _Plan(task_of(name, (operator,), None, **spec), name, dtype)
