# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What docs/grpc.md tells clients to set: the service config with its retries, and the rate of pings."""

import json
import pathlib
import socket
import struct
import threading
import time
import unittest

import grpc
import numpy
import service
from service import pb, reduction_pb2_grpc
from warpfold.v1 import arrays_pb2, segments_pb2

_CONFIG = pathlib.Path(__file__).resolve().parents[2] / "deploy/grpc_service_config.json"
_TIMEOUT_S = 120
_PING_INTERVAL_S = 11  # the page allows 10


class RetryTest(unittest.TestCase):
    """A server with one place, which a stream holds until the server has rejected a call."""

    def setUp(self):
        self.server = service.Server("--max_concurrent_reductions=1")
        self.addCleanup(self.server.kill)

    def _call_while_full(self, options: list) -> float:
        array = numpy.arange(10, dtype=numpy.int32)
        of = service.spec(array, ["sum"])
        free, held = threading.Event(), threading.Event()

        def stream():
            yield service.header(of)
            held.set()
            free.wait(_TIMEOUT_S)
            yield service.chunk(array.tobytes())
            yield service.commit(10, 40)

        def wait_for_refusal():
            while "TOO_MANY_REDUCTIONS" not in self.server.log() and not free.is_set():
                time.sleep(0.01)
            free.set()

        holding = self.server.stub.Reduce.future(stream(), timeout=_TIMEOUT_S)
        held.wait(_TIMEOUT_S)
        # The header is on its way before this call.
        service.call(self.server.stub.GetServerInfo, pb.GetServerInfoRequest())
        watcher = threading.Thread(target=wait_for_refusal)
        watcher.start()
        try:
            with grpc.insecure_channel(self.server.address, options) as channel:
                stub = reduction_pb2_grpc.ReductionServiceStub(channel)
                request = pb.ReduceArrayRequest(spec=of, data=array.tobytes())
                reduction = service.call(stub.ReduceArray, request, _TIMEOUT_S).reduction
                return service.value(reduction.results[0])
        finally:
            free.set()
            watcher.join()
            holding.result()

    def test_the_service_config_has_refused_calls_made_again(self):
        config = json.loads(_CONFIG.read_text())
        for method in config["methodConfig"]:
            # The place is free by then, however slow the machine.
            method["retryPolicy"]["initialBackoff"] = "2s"
        self.assertEqual(self._call_while_full([("grpc.service_config", json.dumps(config))]), 45)

    def test_without_it_they_fail(self):
        with self.assertRaises(service.Failure) as raised:
            self._call_while_full([("grpc.enable_retries", 0)])
        self.assertEqual(raised.exception.reason, "TOO_MANY_REDUCTIONS")

    def test_it_names_methods_that_there_are(self):
        config = json.loads(_CONFIG.read_text())
        known = {(of.full_name, method.name) for file in (pb, arrays_pb2, segments_pb2)
                 for of in file.DESCRIPTOR.services_by_name.values() for method in of.methods}
        named = {(name["service"], name["method"]) for method in config["methodConfig"]
                 for name in method["name"]}
        # These would do something twice that is to be done once: docs/grpc.md.
        once = {("warpfold.v1.ArrayService", method) for method in ("PutArray", "DeleteArray")}
        self.assertEqual(named, known - once | {("grpc.health.v1.Health", "Check")})


class Http2Connection:
    """A connection that speaks just enough HTTP/2 to send pings and to read the responses."""

    SETTINGS, PING, GOAWAY, ACK = 4, 6, 7, 1
    MAX_FRAME_SIZE = 5

    def __init__(self, address: str):
        host, port = address.rsplit(":", 1)
        self._socket = socket.create_connection((host, int(port)), timeout=_TIMEOUT_S)
        self._changed = threading.Condition()
        self._acknowledged, self.goaway = 0, None
        self.settings: dict[int, int] = {}
        self._socket.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + self._frame(self.SETTINGS, 0, b""))
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    @staticmethod
    def _frame(kind: int, flags: int, payload: bytes) -> bytes:
        return struct.pack(">I", len(payload))[1:] + bytes([kind, flags, 0, 0, 0, 0]) + payload

    def _read(self) -> None:
        stream = self._socket.makefile("rb")
        while len(head := stream.read(9)) == 9:
            payload = stream.read(int.from_bytes(head[:3], "big"))
            with self._changed:
                if head[3] == self.PING and head[4] & self.ACK:
                    self._acknowledged += 1
                elif head[3] == self.PING:
                    self._socket.sendall(self._frame(self.PING, self.ACK, payload))
                elif head[3] == self.SETTINGS:
                    self.settings |= dict(struct.iter_unpack(">HI", payload))
                elif head[3] == self.GOAWAY:
                    self.goaway = payload[8:]
                self._changed.notify_all()

    def ping(self) -> bool:
        """Whether the response is an acknowledgement, and not GOAWAY."""
        with self._changed:
            wanted = self._acknowledged + 1
            self._socket.sendall(self._frame(self.PING, 0, b"warpfold"))
            return self._changed.wait_for(lambda: self.goaway is not None or self._acknowledged >= wanted,
                                          _TIMEOUT_S) and self.goaway is None

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._reader.join()
        self._socket.close()


class FrameTest(unittest.TestCase):
    def test_clients_may_send_large_frames(self):
        server = service.Server()
        self.addCleanup(server.stop)
        connection = Http2Connection(server.address)
        self.addCleanup(connection.close)
        self.assertTrue(connection.ping())  # the settings came before
        self.assertEqual(connection.settings[Http2Connection.MAX_FRAME_SIZE], 256 * 1024)


class KeepaliveTest(unittest.TestCase):
    def test_pings_at_the_documented_rate_are_welcome_and_a_flood_is_not(self):
        server = service.Server()
        self.addCleanup(server.stop)
        connection = Http2Connection(server.address)
        self.addCleanup(connection.close)
        # More than the two that gRPC forgives, with no call in the meantime.
        self.assertTrue(connection.ping(), connection.goaway)
        for _ in range(3):
            time.sleep(_PING_INTERVAL_S)
            self.assertTrue(connection.ping(), connection.goaway)
        while connection.ping():
            pass
        self.assertEqual(connection.goaway, b"too_many_pings")


if __name__ == "__main__":
    unittest.main()
