# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What a call raises when the server rejects it, or cannot be reached.

Every exception is a WarpfoldError, and also the built-in exception that fits: code that catches ValueError or
TimeoutError also catches ours. Arguments that cannot be sent at all raise plain TypeError and ValueError,
before anything is sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_ARGUMENTS = frozenset({"message", "reason", "fields"})


class WarpfoldError(Exception):
    """A call that failed.

    code: the status, such as "INVALID_ARGUMENT".
    reason: why, for programs, such as "EMPTY_ARRAY". The reasons are listed at the top of
        warpfold/v1/reduction.proto; the client gives the same ones if it finds a fault before anything is
        sent. "" for errors without one, such as a connection that cannot be made.
    fields: details, by name: the field that is wrong, the limit.
    message: the same for people.
    """

    code = "UNKNOWN"

    def __init__(self, message: str, reason: str = "", fields: Mapping[str, str] | None = None):
        super().__init__(message)
        self.message = message
        self.reason = reason
        self.fields = dict(fields or {})

    def __str__(self) -> str:
        return f"{self.code}{f' ({self.reason})' if self.reason else ''}: {self.message}"

    def __reduce__(self) -> tuple[Any, ...]:
        # Attributes that callers have added are copied, too; notes are not shared with a copy.
        state = {name: value for name, value in vars(self).items() if name not in _ARGUMENTS}
        if "__notes__" in state:
            state["__notes__"] = list(state["__notes__"])
        return type(self), (self.message, self.reason, self.fields), {**state, "code": self.code}


class InvalidArgumentError(WarpfoldError, ValueError):
    """The operator does not support this type, shape or option, or has no value for an empty array."""

    code = "INVALID_ARGUMENT"


class FailedPreconditionError(WarpfoldError, ValueError):
    """The call does not fit what went before it."""

    code = "FAILED_PRECONDITION"


class OutOfRangeError(WarpfoldError, OverflowError):
    """The exact integer value does not fit its type. `overflow="wrap"` asks for it modulo
    2^bits of the element type."""

    code = "OUT_OF_RANGE"


class DeadlineExceededError(WarpfoldError, TimeoutError):
    """The call's own timeout (DEADLINE), or a limit of the server's (IDLE, RATE, DURATION)."""

    code = "DEADLINE_EXCEEDED"


class UnavailableError(WarpfoldError, ConnectionError):
    """No server, a broken connection, or a server that is shutting down."""

    code = "UNAVAILABLE"


class ResourceExhaustedError(WarpfoldError, RuntimeError):
    """A limit of the server: too many calls at once, or an array that is too large."""

    code = "RESOURCE_EXHAUSTED"


class NotFoundError(WarpfoldError, LookupError):
    """An array that was deleted or has expired, or a token of another server (UNKNOWN_MEMORY)."""

    code = "NOT_FOUND"


class DataLossError(WarpfoldError, OSError):
    """What arrived is not what was sent."""

    code = "DATA_LOSS"


class UnimplementedError(WarpfoldError, NotImplementedError):
    """An operator, an algorithm or a method that this server, or this version of it, does not have."""

    code = "UNIMPLEMENTED"


class PermissionDeniedError(WarpfoldError, PermissionError):
    """The server does not accept calls from this client."""

    code = "PERMISSION_DENIED"


class UnauthenticatedError(WarpfoldError, PermissionError):
    """The server does not know this client."""

    code = "UNAUTHENTICATED"


class InternalError(WarpfoldError, RuntimeError):
    """A fault of the server, or a response that does not match the request."""

    code = "INTERNAL"


class CancelledError(WarpfoldError):
    """The call was ended by this client."""

    code = "CANCELLED"


class UnknownError(WarpfoldError, RuntimeError):
    """A failure of a kind for which this package has no name; `code` is the status."""


_BY_CODE: dict[str, type[WarpfoldError]] = {
    error.code: error
    for error in (InvalidArgumentError, FailedPreconditionError, OutOfRangeError, DeadlineExceededError,
                  NotFoundError, UnavailableError, ResourceExhaustedError, DataLossError, UnimplementedError,
                  PermissionDeniedError, UnauthenticatedError, InternalError, CancelledError)
}


def from_status(code: str, message: str, reason: str, fields: Mapping[str, str]) -> WarpfoldError:
    """The exception for a status; called by the extension module."""
    kind = _BY_CODE.get(code, UnknownError)
    # The server names the protocol's option, and the client library names none. This operator has none,
    # either.
    if reason == "OVERFLOW" and "max_subarray_sum" not in message:
        message = f'{message.partition(";")[0]}; overflow="wrap" would answer it modulo 2**bits of the ' \
                  "element type"
    error = kind(message, reason, fields)
    if kind is UnknownError:
        error.code = code
    return error
