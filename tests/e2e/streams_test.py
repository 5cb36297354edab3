# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that let the server hold as much as HTTP/2 allows them."""

import contextlib
import re
import shutil
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
_LONGEST_MESSAGE = 2**32 - 1
_WATCH = "/grpc.health.v1.Health/Watch"
_REFLECTION = "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo"
_EMPTY = bytes(5)  # a message without any field


def budget(server: Server) -> int:
    """What the server has said that it may hold, in bytes."""
    server.await_log("memory: at most ")
    return int(re.search(r"memory: at most (\d+) MiB", server.log())[1]) * _MEBIBYTE


class StreamsTest(TestCase):
    def assert_served(self, server: Server):
        self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)

    def test_watches_that_do_not_begin_hold_little_and_end(self):
        """A watch lasts for ever, and is not read; but it begins only when its client can send no more."""
        connections, each = 10, 80
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

    def send_endless_message(self, server: Server, trusted: str) -> int:
        """Until the server ends it. How much memory the server has had at most."""
        most = 0
        with contextlib.suppress(OSError), Connection(server.address, trusted=trusted) as connection:
            stream = connection.begin("/warpfold.v1.ReductionService/GetServerInfo")
            connection.send(stream, struct.pack(">BI", 0, _LONGEST_MESSAGE))
            while connection.send(stream, bytes(_MEBIBYTE)) and most < 2 * budget(server):
                most = max(most, resident_bytes(server.process.pid))
            self.assertTrue(connection.is_over or stream in connection.ended)
        return most

    @unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
    def test_a_message_without_an_end_keeps_to_the_budget(self):
        """gRPC receives a message of any length before it looks at the length: a call could hold 4 GiB."""
        cert, key = make_keys(str(self.folder), "server")
        for flags, trusted in (((), ""), ((f"--tls_cert={cert}", f"--tls_key={key}"), cert)):
            with self.subTest(trusted=trusted), \
                    Server("--max_concurrent_reductions=16", *flags) as server:
                most = 0
                # By one thread of the server after the other, each of which has an allocator's arena.
                for _ in range(5):
                    most = max(most, self.send_endless_message(server, trusted))
                print(f"{most / _MEBIBYTE:.0f} MiB at most, of {budget(server) / _MEBIBYTE:.0f}")
                # What one thread has freed may for a moment lie beside what another receives.
                self.assertLess(most, 1.5 * budget(server))
                trust = ("--tls_ca", cert) if trusted else ()
                self.assertEqual(value(server.address, "sum", "--iota", "1000", *trust), 499_500)

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
                # All addresses of loopback are one party, which gets seven eighths of 64 places.
                self.assertGreaterEqual(sum(one.await_ends(80, 0.3) for one in crowd), 80 - 56)
            begin = time.monotonic()
            for call in (("reduce", "--op", "sum", "--iota", "1000", "--timeout", "5"), ("info",)):
                while (done := warpfold(*call, "--target", server.address)).returncode != 0:
                    self.assertLess(time.monotonic() - begin, 15, done.stderr)

    def test_an_answer_that_is_not_taken_is_not_waited_for(self):
        """As those of reflection, of which one is sent after the other."""
        with Server("--reflection", "--idle_timeout_seconds=1") as server, \
                Connection(server.address) as connection:
            connection.close_window()
            stream = connection.begin(_REFLECTION)
            connection.send(stream, _EMPTY)
            self.assertEqual(connection.await_ends(1, 10), 1)

    def test_a_binary_header_that_is_none_ends_the_connection(self):
        """CVE-2023-32732: gRPC 1.51 ends the connection, and with it the calls of all who share it."""
        with Server() as server, Connection(server.address) as connection, \
                Connection(server.address) as other:
            for one in (connection, other):
                stream = one.begin(_WATCH)
                one.send(stream, _EMPTY)
                one.half_close(stream)
            name, text = b"x-bin", b"!not base64!"
            connection.begin(_WATCH, headers=bytes([0, len(name)]) + name + bytes([len(text)]) + text)
            connection.await_ends(3, 5)
            self.assertTrue(connection.is_over)
            self.assertEqual((other.await_ends(1, 1), other.is_over), (0, False))
            self.assert_served(server)


if __name__ == "__main__":
    unittest.main()
