# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A Warpfold client in Python, made from only the .proto files, and a server process for it to call.

Everything that a client in another language needs is in proto/: this file is the proof, and an example.
Environment: WARPFOLD_SERVER, the executable.
"""

import os
import pathlib
import selectors
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from typing import Iterable, Iterator

import google
import grpc
import numpy

_PROTO = pathlib.Path(__file__).resolve().parents[2] / "proto"
_READY_TIMEOUT_S = 60
_STOP_TIMEOUT_S = 30


def _generate_stubs() -> None:
    """Runs protoc, and puts its output on the import path."""
    folder = tempfile.TemporaryDirectory(prefix="warpfold_stubs_")
    subprocess.run(["protoc", f"-I{_PROTO}", f"--python_out={folder.name}", f"--grpc_out={folder.name}",
                    "--plugin=protoc-gen-grpc=/usr/bin/grpc_python_plugin",
                    "warpfold/v1/reduction.proto", "warpfold/v1/segments.proto", "warpfold/v1/arrays.proto",
                    "google/rpc/status.proto"], cwd=_PROTO, check=True)
    sys.path.insert(0, folder.name)
    google.__path__.append(os.path.join(folder.name, "google"))  # protobuf's own package has that name
    _generate_stubs.folder = folder  # removed at exit


_generate_stubs()
from google.rpc import status_pb2  # noqa: E402
from warpfold.v1 import reduction_pb2 as pb  # noqa: E402
from warpfold.v1 import reduction_pb2_grpc  # noqa: E402

_DEVICE = os.environ.get("WARPFOLD_DEVICE", "cpu")
# By their NumPy names; NumPy has no bfloat16.
ELEMENT_TYPES = {name.removeprefix("ELEMENT_TYPE_").lower(): number
                 for name, number in pb.ElementType.items() if number}


def operator(name: str) -> int:
    return pb.Operator.Value("OPERATOR_" + name.upper())


class Server:
    """A warpfold-server process on a free port of the loopback interface."""

    def __init__(self, *flags: str):
        self._log = tempfile.TemporaryFile()
        self._process = subprocess.Popen(
            [os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", f"--device={_DEVICE}", *flags],
            stdout=subprocess.PIPE, stderr=self._log)
        self.address = self._wait_until_ready()
        self.channel = grpc.insecure_channel(self.address)
        self.stub = reduction_pb2_grpc.ReductionServiceStub(self.channel)

    def _wait_until_ready(self) -> str:
        deadline = time.monotonic() + _READY_TIMEOUT_S
        with selectors.DefaultSelector() as selector:
            selector.register(self._process.stdout, selectors.EVENT_READ)
            selector.select(deadline - time.monotonic())
        line = self._process.stdout.readline().decode()
        fields = dict(word.split("=", 1) for word in line.split() if "=" in word)
        if not line.startswith("READY ") or "listen" not in fields:
            self._process.kill()
            self._log.seek(0)
            raise RuntimeError(f"no READY line but {line!r}: {self._log.read().decode()}")
        return fields["listen"]

    def log(self) -> str:
        # Without seeking: the server writes at this file's offset.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def stop(self) -> int:
        """Drains the server and returns its exit code."""
        self.channel.close()
        self.send_signal(signal.SIGTERM)
        return self.wait()

    def wait(self) -> int:
        """The exit code of a server that is about to end."""
        try:
            return self._process.wait(_STOP_TIMEOUT_S)
        finally:
            self.kill()

    def kill(self) -> None:
        """For a server that may or may not have ended."""
        self.channel.close()
        self._process.kill()
        self._process.wait()
        self._process.stdout.close()
        self._log.close()


class Failure(Exception):
    """A call that failed, as a program sees it: a code and a reason, not a text."""

    def __init__(self, code: str, reason: str, metadata=None, message: str = ""):
        super().__init__(code, reason)
        self.code, self.reason, self.metadata, self.message = code, reason, metadata or {}, message

    @classmethod
    def of(cls, error: grpc.RpcError) -> "Failure":
        for key, value in error.trailing_metadata() or ():
            if key == "grpc-status-details-bin":
                for detail in status_pb2.Status.FromString(value).details:
                    info = status_pb2.ErrorInfo()
                    if detail.Unpack(info) and info.domain == "warpfold":
                        return cls(error.code().name, info.reason, dict(info.metadata), error.details())
        return cls(error.code().name, "", {}, error.details())


def call(method, request, timeout_s: float = 60):
    """Makes a call and turns an error into a Failure."""
    try:
        return method(request, timeout=timeout_s)
    except grpc.RpcError as error:
        raise Failure.of(error) from None


def spec(array: numpy.ndarray, operators: Iterable[str], element_type: str = "",
         **options) -> pb.ReductionSpec:
    made = pb.ReductionSpec(operators=[operator(name) for name in operators],
                            element_type=ELEMENT_TYPES[element_type or array.dtype.name], **options)
    if array.ndim == 3:
        made.matrix_shape.rows, made.matrix_shape.columns = array.shape[1:]
    return made


def header(of: pb.ReductionSpec, **fields) -> pb.ReduceRequest:
    return pb.ReduceRequest(header=pb.ReduceHeader(spec=of, **fields))


def chunk(data: bytes, **fields) -> pb.ReduceRequest:
    return pb.ReduceRequest(chunk=pb.ReduceChunk(data=data, **fields))


def commit(element_count: int, byte_count: int, **fields) -> pb.ReduceRequest:
    return pb.ReduceRequest(
        commit=pb.ReduceCommit(element_count=element_count, byte_count=byte_count, **fields))


def requests(array: numpy.ndarray, of: pb.ReductionSpec, cuts: Iterable[int] = (),
             **header_fields) -> Iterator[pb.ReduceRequest]:
    """The stream of one array, whose bytes are cut at the given places."""
    yield header(of, **header_fields)
    data, begin = array.tobytes(), 0
    for end in [*cuts, len(data)]:
        yield chunk(data[begin:end])
        begin = end
    yield commit(len(array), len(data))


def reduce(server: Server, array: numpy.ndarray, operators: Iterable[str], cuts: Iterable[int] = (),
           **options) -> pb.Reduction:
    return call(server.stub.Reduce, requests(array, spec(array, operators, **options), cuts)).reduction


def value(result: pb.OperatorResult):
    """The value as a Python number, an array for a matrix, or a dict of fields; None if it has none."""
    kind = result.WhichOneof("value")
    if kind == "fields_value":
        return {field.name: getattr(field, field.WhichOneof("value")) for field in result.fields_value.fields}
    if kind != "matrix_value":
        return kind and getattr(result, kind)
    matrix = result.matrix_value
    for entries, dtype in ((matrix.int64_entries, object), (matrix.uint64_entries, object),
                           (matrix.double_entries, float), (matrix.bool_entries, bool)):
        if entries:
            return numpy.array(list(entries), dtype=dtype).reshape(matrix.rows, matrix.columns)
    raise AssertionError("a matrix without entries")


class ServerTestCase(unittest.TestCase):
    """One server for all tests of a class; it must drain cleanly after whatever they did to it."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server()

    @classmethod
    def tearDownClass(cls):
        code = cls.server.stop()
        assert code == 0, f"warpfold-server exited with {code}"

    def assert_fails(self, code: str, reason: str, function, *arguments, **named):
        with self.assertRaises(Failure) as raised:
            function(*arguments, **named)
        failure = raised.exception
        self.assertEqual((failure.code, failure.reason), (code, reason), failure.message)
        self.assert_serves()
        return failure

    def assert_serves(self):
        array = numpy.arange(10, dtype=numpy.int32)
        self.assertEqual(value(reduce(self.server, array, ["sum"]).results[0]), 45)
