# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Two servers that are restarted in turns lose no call, however a client names them.

WARPFOLD_ROLLING_CALLS says how many calls to make, 4,000 without it. The longer run:
  WARPFOLD_ROLLING_CALLS=10000 ctest --preset dev -R rolling_restart
"""

import os
import signal
import socket
import subprocess
import tempfile
import threading
import time
import unittest

import floods
from executables import Server, TestCase, killed_after, warpfold

_CALLS = os.environ.get("WARPFOLD_ROLLING_CALLS", "4000")
_TIMEOUT_S = 280
_GOAWAY = 7  # a type of HTTP/2 frames


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Pair:
    """Two servers with fixed addresses, restarted in turns until the with statement ends.

    As docs/operating.md asks, the second is not restarted before calls go to the first again: so no call
    meets more than one restart, however slow the machine is.
    """

    def __init__(self, restarts: bool = True, callers: int = 4):
        """Each caller makes one call after another, and reports this with call_ended; steady_callers are
        four."""
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        self._servers = [Server(listen=address) for address in self.addresses]
        self._over = threading.Event()
        self._changed = threading.Condition()
        self._callers = callers
        self._ends = {}  # how many calls of each caller have ended since the last restart
        if not restarts:
            self._over.set()
        self._thread = threading.Thread(target=self._restart_in_turns)
        self.restarts = 0
        self.exit_codes = []

    def _restart_in_turns(self):
        turn = 0
        while not self._over.is_set():
            self.take_out(turn)
            self.exit_codes.append(self._servers[turn].stop())
            self._servers[turn].__exit__(None)
            self._servers[turn] = Server(listen=self.addresses[turn])
            self.put_back(turn)
            self.restarts += 1
            turn = 1 - turn
            self._await_calls()

    def _await_calls(self):
        """Waits until every caller has ended a call that began after this: its second, as one may be in
        progress."""
        with self._changed:
            self._ends = {}
            self._changed.wait_for(lambda: self._over.is_set() or (
                len(self._ends) == self._callers and min(self._ends.values()) >= 2))

    def call_ended(self, caller: bytes = b"") -> None:
        with self._changed:
            self._ends[caller] = self._ends.get(caller, 0) + 1
            self._changed.notify_all()

    def what_callers_say(self, target: str, calls: str) -> set[str]:
        """Makes this many calls to the target, and goes on until each server has been restarted."""
        said = set()
        end = time.monotonic() + _TIMEOUT_S
        while not said or (self.restarts < 2 and time.monotonic() < end):
            said.add(self._what_they_say_once(target, calls))
        return said

    def _what_they_say_once(self, target: str, calls: str) -> str:
        command = [os.environ["WARPFOLD_STEADY_CALLERS"], target, calls]
        reader, writer = os.pipe()
        with os.fdopen(reader, "rb", buffering=0) as ends, tempfile.TemporaryFile("w+") as said:
            try:
                process = subprocess.Popen(command, stdout=said, pass_fds=[writer],
                                           env={**os.environ, "WARPFOLD_ENDS_TO": str(writer)})
            finally:
                os.close(writer)
            with process, killed_after(_TIMEOUT_S, process):
                while caller := ends.read(1):
                    self.call_ended(caller)
            if process.returncode != 0:
                raise RuntimeError(f"steady_callers: exit {process.returncode}")
            said.seek(0)
            return said.read()

    def take_out(self, turn: int) -> None:
        """Called before a server is stopped; here there is nobody to be told."""

    def put_back(self, turn: int) -> None:
        """Called when it serves again."""

    def __enter__(self) -> "Pair":
        self._thread.start()
        return self

    def __exit__(self, failure, *unused) -> None:
        self._over.set()
        with self._changed:
            self._changed.notify_all()
        self._thread.join()
        for server in self._servers:
            server.__exit__(failure)


class RollingRestartTest(TestCase):
    def test_callers_of_one_name_with_two_addresses(self):
        with Pair() as pair:
            self.assert_none_lost("ipv4:" + ",".join(pair.addresses), pair)

    def test_callers_of_two_names(self):
        with Pair() as pair:
            self.assert_none_lost(";".join(pair.addresses), pair)

    def assert_none_lost(self, target: str, pair: Pair):
        self.assertEqual(pair.what_callers_say(target, _CALLS), {f"failed 0 of {_CALLS}\n"})
        self.assertGreaterEqual(pair.restarts, 2)
        self.assertEqual(set(pair.exit_codes), {0})

    def test_command_lines(self):
        with Pair(callers=1) as pair:
            for name in ("ipv4:" + ",".join(pair.addresses), ",".join(pair.addresses)):
                for _ in range(30):
                    done = warpfold("reduce", "--target", name, "--op", "sum", "--iota", "1000")
                    pair.call_ended()
                    self.assertEqual((done.returncode, done.stdout), (0, "sum 499500\n"), done.stderr)
                    done = warpfold("health", "--target", name)
                    pair.call_ended()
                    self.assertEqual((done.returncode, done.stdout), (0, "SERVING\n"), done.stderr)
            self.assertGreaterEqual(pair.restarts, 2)

    def test_connections_are_told_to_go(self):
        with Server() as server:
            upload = self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "int32", "-",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            upload.stdin.write(bytes(4 << 20))
            upload.stdin.flush()
            time.sleep(0.2)
            with floods.connect(server.address) as connection:
                frames = floods.frame_types(connection)
                # Connections that wait to be accepted are reset when the server stops listening: this one is
                # not.
                next(frames)
                server.process.send_signal(signal.SIGTERM)
                self.assertIn(_GOAWAY, frames)  # otherwise a timeout
            self.assertIsNone(upload.poll())
            self.assertEqual(upload.communicate(timeout=60)[0], b"sum 0\n")

    def test_a_draining_server_takes_nobody_in(self):
        addresses = [f"127.0.0.1:{free_port()}" for _ in range(2)]
        with Server(listen=addresses[0]) as leaving, Server(listen=addresses[1]):
            # An upload that has not ended keeps the first from ending.
            upload = self.start("reduce", "--target", addresses[0], "--op", "sum", "--dtype", "int32", "-",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            upload.stdin.write(bytes(4 << 20))
            upload.stdin.flush()
            time.sleep(0.2)
            leaving.process.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            done = warpfold("health", "--target", "ipv4:" + ",".join(addresses))
            self.assertEqual((done.returncode, done.stdout), (0, "SERVING\n"), done.stderr)
            with self.assertRaises(ConnectionRefusedError):
                socket.create_connection(("127.0.0.1", int(addresses[0].rsplit(":", 1)[1])))
            self.assertEqual(upload.communicate(timeout=60)[0], b"sum 0\n")
            self.assertEqual(leaving.process.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
