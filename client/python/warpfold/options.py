# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Checks of callers' arguments, so that a wrong type is a TypeError that names the argument."""

from __future__ import annotations

import functools
import operator
import os
from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex

from warpfold import _native
from warpfold.errors import UnimplementedError

# Names of methods, shared with NumPy, for operators that have other names.
_METHODS = {"prod": "'product'", "var": "'variance'", "std": "'stddev'",
            "norm": "'l1_norm', 'l2_norm' or 'max_abs'"}


Path = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Shape = SupportsIndex | Sequence[SupportsIndex]

# NumPy's kinds of types whose values are not numbers.
_NO_NUMBERS = frozenset("bcSUMm")


def number(name: str, value: Any) -> float:
    kind = type(value)
    if kind is float:
        return value  # type: ignore[no-any-return]
    if kind is int:
        return _float(name, value)
    # NumPy converts texts, truth values, dates and complex numbers to a float, too; number types of other
    # libraries, such as bfloat16, have the kind of bare bytes, but not their name.
    dtype = getattr(value, "dtype", None)
    is_none = isinstance(value, (bool, complex)) or getattr(dtype, "kind", "f") in _NO_NUMBERS \
        or str(dtype).startswith("|V")
    if is_none or not (hasattr(kind, "__float__") or hasattr(kind, "__index__")):
        raise TypeError(f"{name} must be a number, not {value!r}")
    return _float(name, value)


def _float(name: str, value: Any) -> float:
    try:
        return float(value)
    except (TypeError, ValueError):  # for example for an array of several
        raise TypeError(f"{name} must be a number, not {value!r}") from None
    except OverflowError:  # its digits may be too many to be printed
        raise ValueError(f"{name} is beyond the largest float") from None


# No option has a number with more bits, and Python does not print numbers of thousands of digits.
_MOST_BITS = 1024


def whole(name: str, value: Any) -> int:
    try:
        if isinstance(value, bool):
            raise TypeError
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} must be a whole number, not {value!r}") from None
    if number.bit_length() > _MOST_BITS:
        raise ValueError(f"{name} has more than {_MOST_BITS} bits")
    return number


def unsigned(name: str, value: Any) -> int:
    """A whole number that fits 64 bits."""
    number = whole(name, value)
    if not 0 <= number < 2**64:
        raise ValueError(f"{name} must be 0 to 2**64 - 1, not {number}")
    return number


def flag(name: str, value: Any) -> bool:
    # NumPy's own bool is none of Python's.
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):
        return bool(value)
    raise TypeError(f"{name} must be True or False, not {value!r}")


def text(name: str, value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a str, not {value!r}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"{name} is no text that can be sent: {error}") from None
    return value


def file_path(name: str, value: Path) -> str:
    """TypeError for a value that does not name a file, such as a number, which open() takes for a descriptor,
    and closes."""
    if not isinstance(value, (str, bytes, os.PathLike)):
        raise TypeError(f"{name} must be a path, not {value!r}")
    return os.fsdecode(value)


def socket_path(name: str, value: Path) -> str:
    decoded = text(name, file_path(name, value))
    if not decoded or "\0" in decoded:
        raise ValueError(f"{name} is no path: {value!r}")
    return decoded


def choice(name: str, value: Any, first: str, second: str) -> None:
    if not isinstance(value, str) or value not in (first, second):
        raise ValueError(f"{name} must be {first!r} or {second!r}, not {value!r}")


def operators_of(operators: Sequence[str]) -> tuple[str, ...]:
    """The names in a list, all of which exist."""
    if isinstance(operators, str):
        raise TypeError(f"operators are a list, as [{operators!r}]")
    # Asking whether it is an Iterable takes longer than all other checks of a call.
    if not isinstance(operators, (list, tuple)) and not isinstance(operators, Iterable):
        raise TypeError(f"operators are a list of names, not {operators!r}")
    names = tuple(operators)
    for name in names:
        if not isinstance(name, str):
            raise TypeError(f"an operator is named by a str, not {name!r}: {', '.join(_known())}")
        if name in _METHODS:
            raise ValueError(f"the operator of the method {name} is called {_METHODS[name]}")
        if name not in _known():
            raise UnimplementedError(f"unknown operator {name!r}: there are {', '.join(_known())}",
                                     "UNKNOWN_OPERATOR")
    return names


def targets_of(target: str | Sequence[str]) -> list[str]:
    """A server's address or several, in the form that the command line takes."""
    if not isinstance(target, (str, Iterable)) or isinstance(target, (bytes, bytearray)):
        raise TypeError(f"a target is a str, as '127.0.0.1:50051', or a list of them, not {target!r}")
    targets = [target] if isinstance(target, str) else list(target)
    if not targets:
        raise ValueError("no target, and so no server")
    for name in targets:
        if not isinstance(name, str):
            raise TypeError(f"a target is a str, as '127.0.0.1:50051', not {name!r}")
        text("a target", name)
        if not name or name != name.strip() or "," in name or "\0" in name:
            raise ValueError(f"{name!r} is no target: several are a list")
        if fault := _native.fault_of_target(name):
            raise ValueError(f"{name!r}: {fault}")
    return targets


def check_one_target(targets: Sequence[str]) -> None:
    """ValueError if there are several, for something that one server keeps."""
    if len(targets) > 1:
        raise ValueError("an array is kept by one server, and this client has several: connect to one target")


@functools.cache
def _known() -> dict[str, None]:
    """Names, in their order, which are looked up by their hashes."""
    return dict.fromkeys(_native.operator_names())
