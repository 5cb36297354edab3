# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A server ends when it is asked to and when its device fails, whatever hangs at that moment.

WARPFOLD_SERVER is faulting_server, which hangs on command.
"""

import os
import signal
import subprocess
import time
import unittest
from typing import Iterator

import floods
from executables import Server, TestCase, value, warpfold
from floods import Flood

_PUTTING_AWAY_S = 5.0
_SLACK_S = 5.0  # of a busy machine
_HOLD_UP_S = 15.0  # of a thread, before the server considers itself lost


def hang(server: Server) -> None:
    server.process.send_signal(signal.SIGALRM)
    server.await_log("nothing outside will answer")


class HangingTest(TestCase):
    def setUp(self):
        super().setUp()
        self.list = self.file("allow", b"* *\n")

    def assert_ends_soon(self, server: Server, code: int = 0, number: int = signal.SIGTERM):
        begin = time.monotonic()
        self.assertEqual(server.stop(number), code, server.log())
        self.assertLess(time.monotonic() - begin, _PUTTING_AWAY_S + _SLACK_S)
        if code != 0:
            server.kill()  # that exit code is not an error here

    def test_a_registration(self):
        path = f"{self.folder}/memory"
        with Server(f"--memory_socket={path}") as server:
            hang(server)
            self.start("bench", "--target", server.address, "--source", "memory", "--memory_socket", path,
                       "--duration", "1", "--rounds", "1", stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
            server.await_log("a registration hangs")
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
            self.assert_ends_soon(server)
            self.assertIn("not waiting for what does not end", server.log())
        self.assertFalse(os.path.exists(path))

    def test_the_driver(self):
        with Server("--admin_listen=127.0.0.1:0") as server:
            hang(server)
            server.await_log("the driver hangs")
            self.assert_ends_soon(server)

    @staticmethod
    def later(pieces: Iterator[bytes]) -> Iterator[bytes]:
        """Data that come with the handshake are read by the thread that accepts connections, and by no
        shard's."""
        time.sleep(0.5)
        yield from pieces

    def hold_up_a_shard(self, server: Server):
        """The shard's thread ends a connection that floods, and does not return from that."""
        # Once the server has been called it has all threads that it needs for the next call.
        self.assertEqual(warpfold("health", "--target", server.address).returncode, 0)
        hang(server)
        Flood(server.address, self.later(floods.empty_data()), 3)
        server.await_log("the end of a connection hangs")

    def test_a_shard_of_which_nobody_knows_why(self):
        with Server() as server:
            self.hold_up_a_shard(server)
            server.await_log("a thread that serves calls is held up")
            self.assert_ends_soon(server, 4, signal.SIGCONT)

    def test_a_shard_while_it_drains(self):
        with Server() as server:
            self.hold_up_a_shard(server)
            server.process.send_signal(signal.SIGTERM)
            server.await_log("a thread that serves calls is held up")
            self.assert_ends_soon(server, 4, signal.SIGCONT)

    def test_a_shard_that_is_idle_is_not_held_up(self):
        with Server() as server:
            time.sleep(_HOLD_UP_S + 3)
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
            self.assert_ends_soon(server)

    def test_a_file(self):
        with Server(f"--allow={self.list}", f"--memory_socket={self.folder}/memory") as server:
            hang(server)
            server.await_log("a file hangs")
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
            self.assert_ends_soon(server)
        self.assertFalse(os.path.exists(f"{self.folder}/memory"))

    def test_a_file_and_a_second_signal(self):
        with Server(f"--allow={self.list}", "--drain_seconds=3600") as server:
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "int32", "-",
                                stdin=subprocess.PIPE, stderr=subprocess.DEVNULL)
            client.stdin.write(bytes(4 << 20))
            client.stdin.flush()
            hang(server)
            server.await_log("a file hangs")
            server.process.send_signal(signal.SIGTERM)
            server.await_log("draining: 1 reductions")
            time.sleep(0.3)  # two signals in quick succession are one request
            self.assert_ends_soon(server, -signal.SIGTERM)

    def test_a_file_and_a_device_that_fails(self):
        with Server(f"--allow={self.list}") as server:
            hang(server)
            server.await_log("a file hangs")
            self.assert_ends_soon(server, 4, signal.SIGUSR2)

    def test_a_drain_needs_no_thread(self):
        with Server() as server:
            hang(server)
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
            self.assert_ends_soon(server)


if __name__ == "__main__":
    unittest.main()
