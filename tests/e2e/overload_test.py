# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A full server and what its callers send: after a client's first rejection, nothing of its array."""

import contextlib
import json
import socket
import threading
import time
import unittest
from typing import Iterator

import numpy

from executables import Server, TestCase, warpfold
from http_pages import metric, wait_until

_WINDOW = 65_535  # of a new connection: what a client may send before it receives anything
_DELAY_S = 0.05  # of everything that the server sends, so that a client that does not wait fills its window


class SlowAnswers:
    """For a with statement: a way to `server` at `address`, which counts what is sent to it in `sent`."""

    def __init__(self, server: str):
        host, port = server.rsplit(":", 1)
        self._server = (host, int(port))
        self._threads = []
        self._sockets = []
        self.sent = 0

    def __enter__(self) -> "SlowAnswers":
        self._sockets.append(socket.create_server(("127.0.0.1", 0)))
        self.address = f"127.0.0.1:{self._sockets[0].getsockname()[1]}"
        self._start(self._accept)
        return self

    def __exit__(self, *unused) -> None:
        # Those that have ended already are no longer connected.
        for one in self._sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for one in self._sockets:
            one.close()

    def _start(self, function, *arguments) -> None:
        self._threads.append(threading.Thread(target=function, args=arguments))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._sockets[0].accept()
                server = socket.create_connection(self._server)
                self._sockets += client, server
                self._start(self._pump, client, server, True)
                self._start(self._pump, server, client, False)

    def _pump(self, source: socket.socket, to: socket.socket, is_up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                if is_up:
                    self.sent += len(data)
                else:
                    time.sleep(_DELAY_S)
                to.sendall(data)
            to.shutdown(socket.SHUT_WR)


class OverloadTest(TestCase):
    @contextlib.contextmanager
    def full(self, server: Server) -> Iterator[None]:
        """The server's only place is taken during the with statement."""
        holder = self.start("reduce", "--target", server.address, "--op=sum", "--dtype=int8", "-",
                            stdin=-1, stdout=-3)
        holder.stdin.write(b"1")
        holder.stdin.flush()
        wait_until(lambda: metric(server.ready_line, "warpfold_reductions_in_progress"), "a reduction")
        try:
            yield
        finally:
            holder.stdin.close()
            holder.wait()

    def setUp(self):
        super().setUp()
        self.server = self.enterContext(Server("--max_concurrent_reductions=1", "--resident_bytes=67108864",
                                                "--admin_listen=127.0.0.1:0"))
        self.way = self.enterContext(SlowAnswers(self.server.address))
        self.array = self.save("ones.npy", numpy.ones((8, 1 << 20), numpy.int32))

    def run_through(self, command: str, *flags: str):
        return warpfold(command, "--target", self.way.address, "--json", self.array, *flags)

    def test_only_the_first_attempt_sends_what_is_refused(self):
        with self.full(self.server):
            for arguments in (("reduce", "--op=sum", "--streams=1"), ("put",),
                              ("reduce", "--op=sum", "--axis=1")):
                with self.subTest(arguments):
                    self.way.sent = 0
                    done = self.run_through(*arguments)
                    self.assert_exit(1, done, "RESOURCE_EXHAUSTED")
                    self.assertGreater(self.way.sent, _WINDOW)
                    self.assertLess(self.way.sent, _WINDOW * 3)

    def test_who_is_admitted_later_has_the_right_answer(self):
        with self.full(self.server):
            calling = self.start("reduce", "--target", self.way.address, "--json", self.array, "--op=sum",
                                 "--streams=1", stdout=-1)
            time.sleep(0.3)
        answer = json.loads(calling.communicate(timeout=60)[0])
        self.assertEqual(answer["results"][0]["value"], 8 << 20)


if __name__ == "__main__":
    unittest.main()
