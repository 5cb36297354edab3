# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What the docstrings of many methods have in common, written once: arguments, options and errors.

A method's own docstring says what it returns, and describes the arguments that are special to it.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Callable
from typing import Any, TypeVar

C = TypeVar("C")

_ARGUMENTS = {
    "array": "of any shape, flattened in row-major order: NumPy's, or whatever has DLPack or a buffer; an "
             "iterator of arrays, or a binary file; a kept array (docs/python.md, \"Arrays\").",
    "axis": "an axis, or a tuple of them, along which the array is reduced: the result is an array with one "
            "value for each position in the other dimensions. None: all of them. An array in the host's "
            "memory has any, one on a GPU or kept by a server its last ones, an iterator or a file none.",
    "out": "a NumPy array, or one on a GPU, that takes the result, and is returned. It must have the "
           "result's shape, and a type to which NumPy casts the result's type by the rule 'same_kind'. After "
           "an error its contents mean nothing, and may still change for a moment. The server writes to an "
           "array of Client.empty, or on its GPU, itself if it can (docs/python.md, \"Arrays that are sent "
           "once, or never\").",
    "keepdims": "whether the dimensions that are reduced stay, with a length of 1.",
    "matrix": "whether the last two dimensions are the rows and columns of matrices, which operators take "
              "entry by entry, or multiply; they are the same of all pieces.",
    "nan": "\"ignore\" skips NaN elements; indices still count them.",
    "overflow": "\"error\" raises OutOfRangeError (an OverflowError) where the exact integer value does not "
                "fit, \"wrap\" returns the value modulo 2^bits of the element type. None: as \"error\", "
                "but matrix_product and affine_compose wrap, and are rejected with \"error\".",
    "ddof": "the divisor of a variance or a deviation is the count minus ddof.",
    "modulus": "matrix_product and affine_compose over integers compute modulo this.",
    "dtype": "the element type of bytes, of a file, or of an iterator of bytes, as \"float32\". Other "
             "arrays carry their type, as do buffers except those of formats B, b and c.",
    "timeout": "seconds for the whole call; then TimeoutError. None: 3700. math.inf: no limit."}
# These take neither a file nor an iterator.
_OF_ARRAYS_ALONE = frozenset({"reduce_segments", "put", "partial"})
_DTYPE_OF_BYTES = ("the element type of bytes, as \"float32\". Other arrays carry their type, as do buffers "
                   "except those of formats B, b and c.")
_OPTIONS = ("timeout (seconds), streams, checksum, request_id, traceparent, tracestate and progress: see "
            "warpfold.calls.CommonOptions.")
_ERRORS = ("Raises TypeError for what cannot be sent as it is and for an argument of another type, "
           "ValueError for a value that does not fit, and the errors of warpfold.errors that the server "
           "returns: InvalidArgumentError (a ValueError) where the operator does not take these elements, "
           "or has no value where there are none; DeadlineExceededError (a TimeoutError), UnavailableError "
           "(a ConnectionError), ResourceExhaustedError.")
_CALL_ERRORS = ("Raises DeadlineExceededError (a TimeoutError), UnavailableError (a ConnectionError), and "
                "RuntimeError of a client that is closed.")
_LINE = 100


def documented(kind: type[C]) -> type[C]:
    """Completes the docstrings of a class's own public methods, from their signatures."""
    for name, method in vars(kind).items():
        if not name.startswith("_") and inspect.isfunction(method) and method.__doc__ is not None:
            method.__doc__ = _completed(method, method.__doc__)
    return kind


def of_kept_array(text: str | None) -> str | None:
    """A method's docstring, adapted for the same method of a kept array, which has a type of its own."""
    if text is None:
        return None
    for item in (r"^array:.*\n(?: +.*\n)*", r"^dtype: the element type.*\n(?: +.*\n)*",
                 r" +For bytes, files and\s+iterators, dtype is the elements'\s+type\."):
        text = re.sub(item, "", text, count=1, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text)


def _completed(method: Callable[..., Any], own: str) -> str:
    parts = [inspect.cleandoc(own)]
    parameters = inspect.signature(method).parameters
    arguments = []
    for name in parameters:
        if name in _ARGUMENTS and not re.search(rf"^ *(?:\w+, )*{name}(?:, \w+)*:", own, re.MULTILINE):
            arguments.append(_item(name, _ARGUMENTS[name]))
    if "options" in parameters:
        if "dtype" not in parameters and "array" in parameters:
            alone = method.__name__ in _OF_ARRAYS_ALONE
            arguments.append(_item("dtype", _DTYPE_OF_BYTES if alone else _ARGUMENTS["dtype"]))
        arguments.append(_item("options", _OPTIONS))
    if arguments:
        parts.append("\n".join(arguments))
    if "Raises" not in own:
        errors = _ERRORS if "array" in parameters else _CALL_ERRORS
        parts.append("\n".join(textwrap.wrap(errors, _LINE)))
    return "\n\n".join(parts) + "\n"


def _item(name: str, text: str) -> str:
    return "\n".join(textwrap.wrap(f"{name}: {text}", _LINE, subsequent_indent="    "))
