# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The client that blocks."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar, Unpack

from warpfold import _native, forks, plain
from warpfold.calls import CallOptions, Work, itself, settings_of
from warpfold.docstrings import documented
from warpfold.later import Later
from warpfold.methods import Methods
from warpfold.options import Path, Shape, check_one_target, file_path, targets_of, whole
from warpfold.partial import PartialState, Parts
from warpfold.resident import ArrayInfo, ResidentArray, asking, infos_of, listing, putting
from warpfold.results import Result

if TYPE_CHECKING:
    import numpy

    from warpfold.memory import Memory
else:
    numpy = Later("numpy")

A = TypeVar("A")
T = TypeVar("T")

DEFAULT_TARGET = "127.0.0.1:50051"


def connect(target: str | Sequence[str] = DEFAULT_TARGET, *, connections: int = 64, max_attempts: int = 4,
            tls_ca: Path | None = None, tls_cert: Path | None = None, tls_key: Path | None = None,
            memory_socket: Path | None = None) -> Client:
    """A client of one server, or of several, all of which each array uses.

    target: "host:port" or "unix:/path"; several in a list.
    connections: the maximum for each server, 1 to 64; each is made when a call finds all earlier ones busy.
    max_attempts: how often in a row a call, or a part of an array, may fail before the client gives it up.
    tls_ca, tls_cert, tls_key: PEM files; the authority enables TLS, the other two, which go together, give
        the client an identity.
    memory_socket: the --memory_socket of a server on this machine: for Client.empty, and so that arrays on
        its GPU are read in place.

    Does not wait for the server: the first call does, and raises what is wrong (UnavailableError). Raises
    OSError for a file that cannot be read, and RuntimeError in a process that was forked from one that has
    used this package.
    """
    return Client(target, connections=connections, max_attempts=max_attempts, tls_ca=tls_ca,
                  tls_cert=tls_cert, tls_key=tls_key, memory_socket=memory_socket)


@documented
class Client(Methods[Any, Result], Parts[Result, PartialState]):
    """See connect. For a with statement, or close().

    All methods may be called from any thread at the same time; calls run without Python's lock. Signals are
    handled while the main thread calls: KeyboardInterrupt ends the call, and the array is then no longer in
    use.
    """

    def __init__(self, target: str | Sequence[str] = DEFAULT_TARGET, *, connections: int = 64,
                 max_attempts: int = 4, tls_ca: Path | None = None,
                 tls_cert: Path | None = None, tls_key: Path | None = None,
                 memory_socket: Path | None = None):
        self._targets = targets_of(target)
        self._native: _native.Client | None = None
        if not 1 <= whole("connections", connections) <= 64:
            raise ValueError(f"connections must be 1 to 64, not {connections}")
        if not 1 <= whole("max_attempts", max_attempts) < 2**31:
            raise ValueError(f"max_attempts must be 1 to 2**31 - 1, not {max_attempts}")
        if tls_ca is None and (tls_cert is not None or tls_key is not None):
            raise ValueError("tls_cert and tls_key need tls_ca")
        if (tls_cert is None) != (tls_key is None):
            raise ValueError("tls_cert and tls_key go together: a certificate proves nothing without its key")
        if memory_socket is not None and len(self._targets) > 1:
            raise ValueError("a memory socket is one server's: pass one target")
        tls = None if tls_ca is None else (_pem("tls_ca", tls_ca), _pem("tls_cert", tls_cert),
                                            _pem("tls_key", tls_key))
        if tls is not None and tls_ca is not None:
            _check_tls(tls[0], tls_ca, tls_cert, tls_key)
        forks.start()
        if memory_socket is not None:
            from warpfold.memory import Memory

            self._memory = Memory(memory_socket)
        self._native = _native.Client(self._targets, connections, max_attempts, tls)

    def info(self, *, timeout: float | None = None) -> dict[str, Any]:
        """What the server, or one of several, can do: version, backend, device, operators and limits."""
        information: dict[str, Any] = self._perform(informing(timeout), itself)
        return information

    def is_serving(self, *, timeout: float | None = None) -> bool:
        """Whether the server, or any of several, accepts calls; UnavailableError if none responds."""
        is_serving: bool = self._perform(asking_whether_it_serves(timeout), itself)
        return is_serving

    def put(self, array: Any, *, matrix: bool = False, ttl: float | None = None, owner: str = "",
            **options: Unpack[CallOptions]) -> ResidentArray:
        """Sends an array once, to be kept in the server's device memory, and returns a ResidentArray. Only
        for a client with one target.

        array: in the host's memory: a NumPy array, or anything that has DLPack or a buffer.
        matrix: as in reduce; reductions of the array are then of matrices, too, and only then can they be.
            Pairs for affine_compose are matrices of one row: array.reshape(-1, 1, 2).
        ttl: seconds without use after which the array is deleted. None: the server's default.
        owner: the owner's name, for quotas and lists; at most 128 printable ASCII characters.

        Raises ResourceExhaustedError (RESIDENT_FULL, OWNER_QUOTA; ARRAY_TOO_LARGE if waiting cannot make
        room), UnimplementedError (NO_RESIDENT_ARRAYS), and TypeError for arrays that are not in the host's
        memory: iterators, files, arrays on a GPU, kept arrays.
        """
        check_one_target(self._targets)
        work = putting(array, matrix, ttl, owner, options)
        kept: ResidentArray = self._perform(work, lambda answer: ResidentArray(self, *answer))
        return kept

    def array(self, token: bytes, *, timeout: float | None = None) -> ResidentArray:
        """The array with a ResidentArray's token: it has one dimension, or three if it is of matrices. Its
        reshape gives it another shape.

        Raises NotFoundError if the server keeps no array with this token, and ValueError for a client with
        several targets.
        """
        check_one_target(self._targets)
        work = asking(token, timeout)
        kept: ResidentArray = self._perform(work, lambda answer: ResidentArray(self, answer))
        return kept

    def arrays(self, owner: str = "", *, timeout: float | None = None) -> list[ArrayInfo]:
        """The arrays that the server keeps, oldest first, of one owner or of all, without their tokens. Only
        for a client with one target."""
        check_one_target(self._targets)
        infos: list[ArrayInfo] = self._perform(listing(owner, timeout), infos_of)
        return infos

    def empty(self, shape: Shape, dtype: Any = "float64", *, timeout: float | None = None) \
            -> numpy.ndarray[Any, Any]:
        """A new NumPy array of zeros in memory that the server reads in place, and can write results to.

        shape: a length, or a tuple of them.
        dtype: the name of an element type, or anything that NumPy converts to one; bfloat16 is that of
            ml_dtypes.
        timeout: seconds to wait for the server; then TimeoutError.

        This client passes it, and contiguous parts of it, by reference (way "shared memory"), also as `out`.
        The memory is released with the last array that lies in it. An array must not be written to while it
        is reduced.
        Raises UnavailableError if nobody listens at the memory socket, or the server has not responded for
        two minutes, and ResourceExhaustedError (TOO_MUCH_MEMORY) for more than the server allows, or this
        machine has, and if this client has 1,024 such arrays; to these the server counts the GPU memory that
        it has opened.
        """
        work = allocating(self._memory, shape, dtype, timeout)
        array: numpy.ndarray[Any, Any] = self._perform(work, itself)
        return array

    def close(self) -> None:
        """Later calls raise RuntimeError; those in progress on other threads run to their end.

        GPU memory that the server has opened is released, even if its arrays still live.

        Raises nothing, even if the client is already closed.
        """
        self._native = None
        if self._memory is not None:
            self._memory.close()

    def _perform(self, work: Work[A], finish: Callable[[A], T],
                 undo: Callable[[_native.Client, A], Any] | None = None) -> T:
        return finish(work.run(self._open(), None))

    def _plain(self, operator: str, array: Any, spec: dict[str, Any]) -> Any:
        return plain.value_of(self._open(), operator, array, spec)

    def _open(self) -> _native.Client:
        native = self._native  # which another thread, or a signal handler, may remove
        if native is None:
            raise RuntimeError("this client is closed")
        forks.check()
        return native

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *unused: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "" if self._native is not None else " closed"
        return f"<warpfold.Client {','.join(self._targets)}{state}>"


def informing(timeout: float | None) -> Work[dict[str, Any]]:
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: client.info(settings.native(), stop))


def asking_whether_it_serves(timeout: float | None) -> Work[bool]:
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: client.is_serving(settings.native(), stop))


def allocating(memory: Memory | None, shape: Shape, dtype: Any, timeout: float | None) \
        -> Work[numpy.ndarray[Any, Any]]:
    if memory is None:
        raise RuntimeError("this client has no memory socket: connect(target, memory_socket=path)")
    settings = settings_of({"timeout": timeout})
    return Work(settings, lambda client, stop: memory.empty(shape, dtype, settings, stop))


def _check_tls(authorities: str, ca: Path, cert: Path | None, key: Path | None) -> None:
    """gRPC does not say what is wrong with a file: it has no server then."""
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    path = ca
    try:
        context.load_verify_locations(cadata=authorities)
        # A pipe cannot be read again, and Python's OpenSSL accepts these two only as files.
        if cert is not None and key is not None and os.path.isfile(cert) and os.path.isfile(key):
            path = f"{os.fsdecode(cert)} with {os.fsdecode(key)}"
            # Without a password OpenSSL would ask for one at the terminal; gRPC accepts no encrypted key.
            context.load_cert_chain(cert, key, password="")
    except ssl.SSLError as error:
        what = error.reason or "it cannot be read, or the key is encrypted"
        raise ValueError(f"{os.fsdecode(path)}: {what}") from error


def _pem(name: str, path: Path | None) -> str:
    if path is None:
        return ""
    where = file_path(name, path)
    with open(where, "rb") as file:
        # Text between the certificates may be in any language, but Python's OpenSSL accepts only ASCII.
        text = file.read().decode("ascii", "replace").replace("\ufffd", "?")
    # gRPC would take an empty authority to mean the system's.
    if "-----BEGIN " not in text:
        raise ValueError(f"{where} is not a PEM file")
    return text
