# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Kept arrays: a client sends them once, and a server keeps them in its device's memory for many calls."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    NamedTuple,
    NoReturn,
    ParamSpec,
    SupportsIndex,
    TypeVar,
)

from warpfold import _native, forks
from warpfold.arrays import ArrayElsewhere, Elements, Reference
from warpfold.calls import Work, check_one_stream, elements_for, progress_of, settings_of, task_of
from warpfold.docstrings import of_kept_array
from warpfold.element_types import dtype_of, element_bytes
from warpfold.errors import NotFoundError
from warpfold.later import Later
from warpfold.matrices import matrix_of
from warpfold.methods import Methods, R, V
from warpfold.options import flag, number, text
from warpfold.progress import Meter
from warpfold.results import Result
from warpfold.stops import Stop

if TYPE_CHECKING:
    import numpy
else:
    numpy = Later("numpy")

P = ParamSpec("P")
T = TypeVar("T")


# How long the end of a block that raised an exception waits: the array's time to live deletes it, too.
_FAREWELL_S = 5


class ArrayInfo(NamedTuple):
    """One of a server's kept arrays. Times are in seconds; expires_in holds if nobody uses it."""

    id: int
    owner: str
    type: str
    matrix: tuple[int, int] | None
    element_count: int
    nbytes: int
    age: float
    expires_in: float


def _bound(method: Callable[Concatenate[Methods[V, R], Any, P], T]) \
        -> Callable[Concatenate[ArrayPart[V, R], P], T]:
    """A client's method, as a method of the array."""

    @functools.wraps(method)
    def call(self: ArrayPart[V, R], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return method(self._client, self, *args, **kwargs)

    signature = inspect.signature(method)
    parameters = [parameter for name, parameter in signature.parameters.items() if name != "array"]
    call.__doc__ = of_kept_array(method.__doc__)
    call.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


class ArrayPart(ArrayElsewhere, Generic[V, R]):
    """Adjacent rows of a kept array, or all of them: array[begin:end], array.reshape(shape).

    Its methods are those of the client, whose docstrings say what they take and return; a client's methods
    accept it as an array, too. If the array was deleted or has expired, they raise NotFoundError
    (UNKNOWN_MEMORY).
    """

    def __init__(self, client: Methods[V, R], elements: Elements):
        self._client = client
        self._elements = elements

    reduce = _bound(Methods[V, R].reduce)
    reduce_segments = _bound(Methods[V, R].reduce_segments)
    sum = _bound(Methods[V, R].sum)
    prod = _bound(Methods[V, R].prod)
    min = _bound(Methods[V, R].min)
    max = _bound(Methods[V, R].max)
    minmax = _bound(Methods[V, R].minmax)
    argmin = _bound(Methods[V, R].argmin)
    argmax = _bound(Methods[V, R].argmax)
    mean = _bound(Methods[V, R].mean)
    var = _bound(Methods[V, R].var)
    std = _bound(Methods[V, R].std)
    any = _bound(Methods[V, R].any)
    all = _bound(Methods[V, R].all)
    count_nonzero = _bound(Methods[V, R].count_nonzero)
    norm = _bound(Methods[V, R].norm)
    max_abs = _bound(Methods[V, R].max_abs)
    sum_of_squares = _bound(Methods[V, R].sum_of_squares)
    exact_sum = _bound(Methods[V, R].exact_sum)
    logsumexp = _bound(Methods[V, R].logsumexp)
    bit_and = _bound(Methods[V, R].bit_and)
    bit_or = _bound(Methods[V, R].bit_or)
    bit_xor = _bound(Methods[V, R].bit_xor)
    first = _bound(Methods[V, R].first)
    last = _bound(Methods[V, R].last)
    describe = _bound(Methods[V, R].describe)
    max_subarray_sum = _bound(Methods[V, R].max_subarray_sum)
    matrix_product = _bound(Methods[V, R].matrix_product)
    affine_compose = _bound(Methods[V, R].affine_compose)

    @property
    def shape(self) -> tuple[int, ...]:
        return self._elements.shape or ()

    @property
    def dtype(self) -> numpy.dtype[Any]:
        """The type of results that are elements: float32 for bfloat16 if that of ml_dtypes is not known."""
        return self._elements.dtype

    @property
    def size(self) -> int:
        return math.prod(self.shape)

    @property
    def ndim(self) -> int:
        return len(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the elements, in the server's memory."""
        return self.size * element_bytes(self._elements.type)

    # NumPy's functions would otherwise look for __array__, or call the methods with NumPy's arguments.
    __array_ufunc__ = None

    def __array__(self, *unused: object, **options: object) -> NoReturn:
        raise TypeError("a kept array is on its server, not here: it has methods of its own, as kept.sum()")

    def __array_function__(self, function: Any, *unused: object) -> NoReturn:
        raise TypeError(f"numpy.{function.__name__} does not take a kept array, which is on its server: it "
                        "has methods of its own, as kept.sum()")

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("an array without dimensions has no length")
        return self.shape[0]

    # Python would otherwise ask for [0], [1] and so on.
    __iter__ = None

    def __getitem__(self, part: slice) -> ArrayPart[V, R]:
        """Rows of the first dimension, as in NumPy; nothing is copied or sent."""
        if not isinstance(part, slice):
            raise TypeError(f"a kept array has only slices, as array[begin:end], and no [{part!r}]")
        begin, end, step = part.indices(len(self))
        if step != 1:
            raise ValueError(f"elements of a part must be adjacent: the step must be 1, not {step}")
        rows = max(end - begin, 0)
        shape = (rows, *self.shape[1:])
        whole = self._elements
        assert whole.reference is not None
        row_bytes = math.prod(self.shape[1:]) * element_bytes(whole.type)
        offset = whole.reference.byte_offset + (begin * row_bytes if rows else 0)
        return self._view(shape, offset)

    def reshape(self, *shape: SupportsIndex | Sequence[SupportsIndex]) -> ArrayPart[V, R]:
        """The same elements in this shape, as numpy.ndarray.reshape takes one: integers or a tuple, of which
        one may be -1. Nothing is copied or sent, and the result is deleted with the array, as a part is.

        Client.array does not know the shape in which an array was put, and returns its elements in one row:
        reshape gives it a shape, for axis= and parts. Raises ValueError for a shape with another number of
        elements.
        """
        import numpy

        assert self._elements.reference is not None
        # This uses NumPy's own rules and errors; a single element is repeated without memory.
        shaped = numpy.broadcast_to(numpy.bool_(False), self.size).reshape(*shape)  # type: ignore[arg-type]
        return self._view(shaped.shape, self._elements.reference.byte_offset)

    def _view(self, shape: tuple[int, ...], byte_offset: int) -> ArrayPart[V, R]:
        whole = self._elements
        assert whole.reference is not None
        reference = Reference(whole.reference.token, byte_offset, math.prod(shape))
        return ArrayPart(self._client, Elements(whole.type, whole.dtype, whole.way, shape=shape,
                                                reference=reference, kept_as=whole.kept_as))

    def __repr__(self) -> str:
        return f"<warpfold.{type(self).__name__} {self._elements.type} {self.shape}>"


class _Whole(ArrayPart[V, R]):
    """What the server reported about an array when it was put, or requested by its token."""

    def __init__(self, client: Methods[V, R], answer: _native.Array, put: Elements | None = None):
        super().__init__(client, _elements_of(answer, put))
        self.token = answer[0]
        self.info = ArrayInfo(*answer[1:])

    @property
    def expires_in(self) -> float:
        """Seconds without use, as of when this object was made."""
        return self.info.expires_in

    def __repr__(self) -> str:
        owner = f", owner {self.info.owner!r}" if self.info.owner else ""
        return f"{super().__repr__()[:-1]} id {self.info.id}{owner}, expires in {self.expires_in:.3g} s>"


class ResidentArray(_Whole[Any, Result]):
    """A kept array: it is in the server's memory. The end of a with statement deletes it, as does delete().

    If neither is used, the server deletes it when nobody has used it for its time to live.

    token: bytes; anyone who has them may reduce and delete the array (Client.array).
    info: an ArrayInfo.
    """

    def delete(self, *, timeout: float | None = None) -> None:
        """NotFoundError if it is gone already. Reductions that have begun go on."""
        self._client._perform(deleting(self.token, timeout), _nothing)

    def __enter__(self) -> ResidentArray:
        return self

    def __exit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        try:
            self.delete(timeout=None if kind is None else _FAREWELL_S)
        except NotFoundError:
            pass
        except Exception:  # for example of a client that is closed, or forked
            if kind is None:  # otherwise the earlier exception says more
                raise


class AsyncResidentArray(_Whole[Coroutine[Any, Any, Any], Coroutine[Any, Any, Result]]):
    """As ResidentArray, for `async with await client.put(array) as kept`."""

    def delete(self, *, timeout: float | None = None) -> Coroutine[Any, Any, None]:
        """As ResidentArray.delete."""
        coroutine: Coroutine[Any, Any, None] = self._client._perform(deleting(self.token, timeout), _nothing)
        return coroutine

    async def __aenter__(self) -> AsyncResidentArray:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *unused: object) -> None:
        try:
            await self.delete(timeout=None if kind is None else _FAREWELL_S)
        except NotFoundError:
            pass
        except Exception:
            if kind is None:
                raise


def putting(array: Any, matrix: bool, ttl: float | None, owner: str, options: Mapping[str, Any]) \
        -> Work[tuple[_native.Array, Elements]]:
    """Sends an array to be kept: the work of a client. Returns what the server reports about it, and what it
    was."""
    ttl_s = 0.0  # the server's own time
    if ttl is not None:
        ttl_s = number("ttl", ttl)
        if not 0 < ttl_s < math.inf:
            raise ValueError(f"ttl must be seconds, or None for the server's own time, not {ttl!r}")
        ttl_s = max(ttl_s, 1.0)  # for the client library, a time too short to be counted is none
    text("owner", owner)
    matrix = flag("matrix", matrix)
    settings = settings_of(options)
    check_one_stream(options, "an array to keep has")
    progress = progress_of(options)

    def work(client: _native.Client, stop: Stop | None) -> tuple[_native.Array, Elements]:
        elements = elements_for(array, options.get("dtype"), stop)
        view = elements.view
        if view is None:
            raise TypeError("what is kept must be an array in the host's memory, which says how large it is: "
                            "numpy.concatenate(list(pieces)), array.cpu() or array.get() is one")
        task = task_of(elements.type, (), matrix_of(elements) if matrix else None)
        answers: list[_native.Array] = []
        try:
            with Meter(progress, view.nbytes) as tell:
                client.put(view, task, ttl_s, owner, settings.native(), tell, stop, answers)
            elements.check_mapping()
        except BaseException as error:  # such as those from `progress` and signal handlers
            for kept in answers:
                _delete_nevertheless(client, kept[0])
            if isinstance(error, Exception):
                elements.check_mapping()
            raise
        # The result has no view, which would keep the array that was put alive.
        return answers[0], Elements(elements.type, elements.dtype, elements.way, shape=elements.shape)

    return Work(settings, work)


def asking(token: bytes, timeout: float | None) -> Work[_native.Array]:
    _check_token(token)
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: client.get_array(token, settings.native(), stop))


def listing(owner: str, timeout: float | None) -> Work[list[_native.Array]]:
    text("owner", owner)
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: client.list_arrays(owner, settings.native(), stop))


def deleting(token: bytes, timeout: float | None) -> Work[None]:
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: client.delete_array(token, settings.native(), stop))


def _delete_nevertheless(client: _native.Client, token: bytes) -> None:
    """Deletes an array that the caller does not learn of, since an exception is raised. Its ttl would end it,
    too."""
    with contextlib.suppress(Exception):
        forks.check()  # `progress` may have forked, and have left the new process by sys.exit()
        deleting(token, _FAREWELL_S).run(client, None)


def infos_of(answers: list[_native.Array]) -> list[ArrayInfo]:
    return [ArrayInfo(*answer[1:]) for answer in answers]


def _nothing(answer: None) -> None:
    return answer


def _check_token(token: bytes) -> None:
    if isinstance(token, str):
        raise TypeError("a token is bytes, as ResidentArray.token, not str: pass bytes.fromhex(token) if it "
                        "is one that `warpfold put` has printed")
    if not isinstance(token, bytes):
        raise TypeError(f"a token is bytes, as ResidentArray.token, not {type(token).__name__}")


def _elements_of(answer: _native.Array, put: Elements | None) -> Elements:
    info = ArrayInfo(*answer[1:])
    shape: tuple[int, ...] = (info.element_count, *(info.matrix or ()))
    dtype = dtype_of(info.type)
    if put is not None:
        shape, dtype = put.shape or (), put.dtype
    return Elements(info.type, dtype, "resident", shape=shape,
                    reference=Reference(answer[0], 0, math.prod(shape)), kept_as=info.matrix)
