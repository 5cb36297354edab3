# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arrays with elements that do not count, which are refused: NumPy itself takes no notice of masks where it
makes a plain array of something."""

from __future__ import annotations

from typing import Any

from warpfold.element_types import name_of

_NUMBERS = frozenset({bool, int, float})


def refuse_masked(array: Any) -> None:
    """TypeError for one of NumPy's masked arrays."""
    import numpy

    if isinstance(array, numpy.ma.MaskedArray):
        raise TypeError("a masked array has elements that do not count: pass array.compressed(), or "
                        "array.filled(value)")


def refuse_mask_of(array: Any, interface: Any) -> None:
    """TypeError where an array says so by its __array_interface__ or __cuda_array_interface__."""
    if isinstance(interface, dict) and interface.get("mask") is not None:
        raise TypeError(f"{name_of(array)} has a mask, and so elements that do not count: pass those that "
                        "do, as an array without one")


def refuse_masks_in(items: list[Any] | tuple[Any, ...]) -> None:
    """TypeError where there is such an array in a list, or in a list in it."""
    # Of numbers by the million this is all that is done, in half the time that NumPy takes for them.
    kinds = set(map(type, items)) - _NUMBERS
    if not kinds:
        return
    import numpy

    kinds = {kind for kind in kinds if kind is not numpy.ndarray and not issubclass(kind, numpy.generic)}
    for item in items if kinds else ():
        if isinstance(item, (list, tuple)):
            refuse_masks_in(item)
        elif isinstance(item, (numpy.ndarray, numpy.generic)):
            refuse_masked(item)
        else:
            refuse_mask_of(item, getattr(item, "__array_interface__", None))
