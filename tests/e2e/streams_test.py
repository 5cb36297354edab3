# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that make the server hold as much as HTTP/2 allows them."""

import base64
import contextlib
import re
import shutil
import signal
import struct
import time
import unittest

import floods
from executables import Server, TestCase, value, warpfold
from floods import resident_bytes
from http2_client import Connection
from keys import make_keys

_MEBIBYTE = 2**20
_WINDOW = 4 * _MEBIBYTE
_TIMEOUT_S = 60
_FIRST_WINDOW = 65535  # of a connection, in bytes
_LONGEST_MESSAGE = 2**32 - 1
_WATCH = "/grpc.health.v1.Health/Watch"
_REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
_SERVICE = "/warpfold.v1.ReductionService"
# Methods with one message, and how large the message may be, or is.
_ONE_MESSAGE = {f"{_SERVICE}/ReduceArray": _WINDOW, f"{_SERVICE}/Merge": _WINDOW,
                f"{_SERVICE}/GetServerInfo": 1024, "/grpc.health.v1.Health/Check": 1024}
# Values of grpc-status.
_DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED, _UNIMPLEMENTED, _UNAVAILABLE = "4", "8", "12", "14"
_REDUCE = ("reduce", "--op", "sum", "--iota", "1000", "--timeout", "5")
_EMPTY = bytes(5)  # a message without any field


def budget(server: Server) -> int:
    """The bytes that the server has said it may hold."""
    server.await_log("memory: at most ")
    return int(re.search(r"memory: at most (\d+) MiB", server.log())[1]) * _MEBIBYTE


def header(name: bytes, text: bytes) -> bytes:
    """A header in HPACK's form, without compression."""
    return bytes([0, len(name)]) + name + bytes([len(text)]) + text


class StreamsTest(TestCase):
    def assert_served(self, server: Server):
        self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)

    def assert_served_soon(self, server: Server, *call: str):
        """By then the places of clients that send nothing have to be free."""
        begin = time.monotonic()
        while (done := warpfold(*call, "--target", server.address)).returncode != 0:
            self.assertLess(time.monotonic() - begin, 15, done.stderr)

    def test_watches_that_do_not_begin_hold_little_and_end(self):
        """A watch lasts for ever, and is not read; but it begins only when its client can send no more."""
        connections, each = 10, 64
        with Server() as server, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Connection(server.address)) for _ in range(connections)]
            most = 0
            begin = time.monotonic()
            for one in crowd:
                for _ in range(each):
                    stream = one.begin(_WATCH)
                    one.send(stream, _EMPTY)
                    one.send(stream, struct.pack(">BI", 0, _WINDOW) + bytes(_WINDOW - 10), patience=0.1)
                most = max(most, resident_bytes(server.process.pid))
            print(f"{sum(sum(one.sent.values()) for one in crowd) / _MEBIBYTE:.0f} MiB sent in "
                  f"{time.monotonic() - begin:.1f} s, {most / _MEBIBYTE:.0f} MiB at most")
            self.assertLess(most, budget(server))
            self.assertEqual(sum(one.await_ends(each, 3) for one in crowd), connections * each)
            self.assert_served(server)

    def test_calls_that_stop_one_byte_short_hold_little_and_end(self):
        """1,000 held 4.1 GiB, and none had ended after 200 s, when only whole messages reached us."""
        connections, each = 20, 50
        with Server("--idle_timeout_seconds=5") as server, contextlib.ExitStack() as stack:
            crowd = [stack.enter_context(Connection(server.address)) for _ in range(connections)]
            most = 0
            for number, one in enumerate(crowd):
                path, size = list(_ONE_MESSAGE.items())[number % len(_ONE_MESSAGE)]
                for _ in range(each):
                    stream = one.begin(path)
                    one.send(stream, struct.pack(">BI", 0, size) + bytes(size - 1), patience=0.1)
                most = max(most, resident_bytes(server.process.pid))
                self.assert_served_soon(server, *_REDUCE)
            print(f"{sum(sum(one.sent.values()) for one in crowd) / _MEBIBYTE:.0f} MiB sent, "
                  f"{most / _MEBIBYTE:.0f} MiB at most, of {budget(server) / _MEBIBYTE:.0f}")
            self.assertLess(most, budget(server))
            deadline = time.monotonic() + _TIMEOUT_S
            ended = [one.await_ends(each, deadline - time.monotonic()) for one in crowd]
            self.assertEqual(ended, [each] * connections)
            self.assertFalse(any(one.is_over for one in crowd))
            statuses = {headers["grpc-status"] for one in crowd for headers in one.headers.values()}
            self.assertEqual(statuses, {_DEADLINE_EXCEEDED, _RESOURCE_EXHAUSTED})
            self.assert_served(server)

    def send_endless_message(self, server: Server, trusted: str) -> int:
        """Runs until the server ends it. Returns the most memory that the server has had."""
        most = 0
        with contextlib.suppress(OSError), Connection(server.address, trusted=trusted) as connection:
            stream = connection.begin("/warpfold.v1.ReductionService/GetServerInfo")
            connection.send(stream, struct.pack(">BI", 0, _LONGEST_MESSAGE))
            while connection.send(stream, bytes(_MEBIBYTE), patience=10) and most < 2 * budget(server):
                most = max(most, resident_bytes(server.process.pid))
            self.assertTrue(connection.is_over or stream in connection.ended)
        return most

    @unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
    def test_a_message_without_an_end_keeps_to_the_budget(self):
        """gRPC receives a message of any length before it checks the length: a call could hold 4 GiB."""
        cert, key = make_keys(str(self.folder), "server")
        for flags, trusted in (((), ""), ((f"--tls_cert={cert}", f"--tls_key={key}"), cert)):
            with self.subTest(trusted=trusted), \
                    Server("--max_concurrent_reductions=16", *flags) as server:
                most = 0
                # Through one thread of the server after the other, each of which has its own arena of the
                # allocator.
                for _ in range(5):
                    most = max(most, self.send_endless_message(server, trusted))
                print(f"{most / _MEBIBYTE:.0f} MiB at most, of {budget(server) / _MEBIBYTE:.0f}")
                # Memory that one thread has freed may for a moment exist beside what another receives.
                self.assertLess(most, 1.5 * budget(server))
                trust = ("--tls_ca", cert) if trusted else ()
                self.assertEqual(value(server.address, "sum", "--iota", "1000", *trust), 499_500)

    def test_nor_do_such_messages_exceed_it_in_a_drain(self):
        """873 MiB of 535 when nothing was given back to the system after SIGTERM."""
        flags = ("--max_concurrent_reductions=16", "--max_connections=32", "--drain_seconds=60")
        with Server(*flags) as server, contextlib.ExitStack() as opened:
            connections = [opened.enter_context(Connection(server.address)) for _ in range(12)]
            streams = [connection.begin("/warpfold.v1.ReductionService/Reduce") for connection in connections]
            for connection in connections:
                connection.look(0.1)
            server.process.send_signal(signal.SIGTERM)
            server.await_log("draining")
            most = 0
            for connection, stream in zip(connections, streams):
                with contextlib.suppress(OSError):
                    connection.send(stream, struct.pack(">BI", 0, _LONGEST_MESSAGE))
                    while connection.send(stream, bytes(_MEBIBYTE), patience=10) and \
                            most < 2 * budget(server):
                        most = max(most, resident_bytes(server.process.pid))
                connection.__exit__()
            print(f"{most / _MEBIBYTE:.0f} MiB at most, of {budget(server) / _MEBIBYTE:.0f}")
            self.assertEqual(server.process.wait(_TIMEOUT_S), 0)
            self.assertLess(most, 1.5 * budget(server))

    def test_watches_of_a_client_that_half_closes_last(self):
        with Server("--idle_timeout_seconds=1") as server, Connection(server.address) as connection:
            stream = connection.begin(_WATCH)
            connection.send(stream, _EMPTY)
            connection.half_close(stream)
            self.assertEqual(connection.await_ends(1, 4), 0)

    def test_calls_that_are_begun_and_not_sent_keep_nobody_out(self):
        """They took all places for a minute, and could come again."""
        service = "/warpfold.v1.ReductionService"
        with Server() as server, contextlib.ExitStack() as stack:
            for method in ("ReduceArray", "Merge", "GetServerInfo"):
                crowd = [stack.enter_context(Connection(server.address, source=source))
                         for source in ("127.0.0.2", "127.0.0.3")]
                for connection in crowd:
                    for _ in range(40):
                        connection.begin(f"{service}/{method}")
                # All loopback addresses are one party, which gets seven eighths of 64 places.
                self.assertGreaterEqual(sum(one.await_ends(80, 0.3) for one in crowd), 80 - 56)
            self.assert_served_soon(server, *_REDUCE)
            self.assert_served_soon(server, "info")

    def test_a_slow_upload_that_outlasts_a_drain_is_told_why(self):
        """It was cut off after 0.5 s, and ended with CANCELLED, after which nobody tries again."""
        for method in ("ReduceArray", "Merge"):
            with self.subTest(method), Server("--drain_seconds=2") as server, \
                    Connection(server.address) as connection:
                stream = connection.begin(f"{_SERVICE}/{method}")
                connection.send(stream, struct.pack(">BI", 0, _WINDOW))
                # More than a connection may send unread: the call has begun before the drain does.
                connection.send(stream, bytes(_FIRST_WINDOW + 1000))
                self.assertGreater(connection.sent[stream], _FIRST_WINDOW)
                server.process.terminate()
                with contextlib.suppress(OSError):  # the connection is over
                    while stream not in connection.ended and not connection.is_over:
                        connection.send(stream, bytes(1000))
                        self.assertLess(connection.sent[stream], _WINDOW)
                        time.sleep(0.01)
                # What the server sent at the end may have come while the last bytes were rejected.
                self.assertEqual(connection.await_ends(1, _TIMEOUT_S), 1)
                headers = connection.headers[stream]
                self.assertEqual(headers.get("grpc-status"), _UNAVAILABLE, headers)
                self.assertIn(b"DRAINING", base64.b64decode(headers["grpc-status-details-bin"] + "=="))
                self.assertEqual(server.process.wait(_TIMEOUT_S), 0)

    def test_an_answer_that_is_not_taken_is_not_waited_for(self):
        """As with calls of reflection, whose responses are sent one after the other."""
        with Server("--reflection", "--idle_timeout_seconds=1") as server, \
                Connection(server.address) as connection:
            connection.close_window()
            stream = connection.begin(_REFLECTION)
            connection.send(stream, _EMPTY)
            self.assertEqual(connection.await_ends(1, 10), 1)

    def test_a_deadline_in_hundreds_of_years_is_none(self):
        """Go and Java send this for a deadline that has not been set; gRPC's own conversion makes it a past
        one."""
        with Server() as server, Connection(server.address) as connection:
            for calls, hours in enumerate((b"2063185H", b"2562047H", b"99999999H") * 10, 1):
                stream = connection.begin(f"{_SERVICE}/GetServerInfo", header(b"grpc-timeout", hours))
                connection.send(stream, _EMPTY)
                connection.half_close(stream)
                self.assertEqual(connection.await_ends(calls, _TIMEOUT_S), calls)
                self.assertEqual(connection.headers[stream]["grpc-status"], "0")

    def test_compression_is_refused_by_grpc(self):
        """Before the service learns of the call, and so without ErrorInfo (docs/grpc.md)."""
        for encoding in (b"gzip", b"deflate"):
            with self.subTest(encoding), Server() as server, Connection(server.address) as connection:
                stream = connection.begin(f"{_SERVICE}/GetServerInfo", header(b"grpc-encoding", encoding))
                connection.send(stream, _EMPTY)
                connection.half_close(stream)
                self.assertEqual(connection.await_ends(1, _TIMEOUT_S), 1)
                headers = connection.headers[stream]
                self.assertEqual((headers["grpc-status"], headers["grpc-message"]), (
                    _UNIMPLEMENTED, f"Compression algorithm '{encoding.decode()}' is disabled."))
                self.assertNotIn("grpc-status-details-bin", headers)
                self.assert_served(server)

    def test_a_binary_header_that_is_none_ends_the_connection(self):
        """CVE-2023-32732: gRPC 1.51 ends the connection, and with it the calls of all who share it."""
        with Server() as server, Connection(server.address) as connection, \
                Connection(server.address) as other:
            for one in (connection, other):
                stream = one.begin(_WATCH)
                one.send(stream, _EMPTY)
                one.half_close(stream)
            connection.begin(_WATCH, headers=header(b"x-bin", b"!not base64!"))
            connection.await_ends(3, 5)
            self.assertTrue(connection.is_over)
            self.assertEqual((other.await_ends(1, 1), other.is_over), (0, False))
            self.assert_served(server)

    def test_metadata_of_more_than_8_kib_end_the_calls_of_their_connection(self):
        """Sizes as HTTP/2 counts them, with 32 bytes more for each header: gRPC 1.51's own limit."""
        one_header = header(b"x-long", b"a" * 126)
        with Server() as server, Connection(server.address) as connection, \
                Connection(server.address) as other:
            for one, headers in ((connection, b""), (other, b""), (connection, 46 * one_header)):
                stream = one.begin(_WATCH, headers)
                one.send(stream, _EMPTY)
                one.half_close(stream)
            self.assertEqual((connection.await_ends(1, 0.5), connection.is_over), (0, False))
            connection.begin(_WATCH, 50 * one_header)
            self.assertTrue(connection.await_ends(3, 5) == 3 or connection.is_over)
            self.assertEqual((other.await_ends(1, 0.5), other.is_over), (0, False))
            self.assert_served(server)


if __name__ == "__main__":
    unittest.main()
