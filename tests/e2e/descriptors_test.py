# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients send descriptors over Unix sockets whose close takes hours, or their lock does: no thread that
serves waits for them.

WARPFOLD_SERVER serves with the kernel as it is, WARPFOLD_FAULTING_SERVER as if the kernel could not refuse
descriptors, as before Linux 6.16.
"""

import contextlib
import ctypes
import fcntl
import mmap
import os
import platform
import socket
import struct
import threading
import time
import unittest
from unittest import mock

import floods
from executables import Server, TestCase, value
from floods import frame

_LINGERING_S = 3600
_TRIES = 8  # more than there are threads that could hang
_SOON_S = 15.0
_SEALING_S = 10.0
_REGISTER_A_BYTE = b"\x0a\x02\x08\x01"  # MemoryRequest, of register_host.byte_count
_F_ADD_SEALS = 1033
_F_SEAL_SHRINK = 2


class Lingering:
    """A TCP socket whose last close waits for an hour: its peer reads nothing."""

    def __init__(self):
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self.socket = socket.create_connection(self._listener.getsockname())
        self._peer, _ = self._listener.accept()
        self.socket.setblocking(False)
        with contextlib.suppress(BlockingIOError):
            while True:
                self.socket.send(bytes(1 << 16))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, _LINGERING_S))

    def give_away(self, connection: socket.socket, message: bytes, flags: int = 0) -> bool:
        """Sends the descriptor, which is then the last except for this process's; whether it could be
        sent."""
        try:
            socket.send_fds(connection, [message], [self.socket.fileno()], flags)
            sent = True
        except OSError:
            sent = False
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 0, 0))
        # By then the server may have released it, so that this is the close that waits.
        number = self.socket.fileno()
        threading.Thread(target=self.socket.close, daemon=True).start()
        # A program that is started before that has it, too, and waits for an hour to close it.
        while os.path.exists(f"/proc/self/fd/{number}"):
            time.sleep(0.001)
        return sent

    def __enter__(self) -> "Lingering":
        return self

    def __exit__(self, *unused) -> None:
        self._peer.close()
        self._listener.close()


class Locked:
    """A memfd to which somebody writes for ever: the data to write lie in a page that never comes."""

    def __init__(self):
        # The numbers are for x86-64 and arm64. With this call the process may handle page faults, but does
        # not (userfaultfd(2)).
        number = {"x86_64": 323, "aarch64": 282}.get(platform.machine())
        libc = ctypes.CDLL(None, use_errno=True)
        self._faults = libc.syscall(number, os.O_CLOEXEC) if number is not None else -1
        if self._faults < 0:
            raise unittest.SkipTest("may not hold up page faults of the kernel")
        self._page = mmap.mmap(-1, mmap.PAGESIZE)
        start = ctypes.addressof(ctypes.c_char.from_buffer(self._page))
        fcntl.ioctl(self._faults, 0xC018AA3F, struct.pack("QQQ", 0xAA, 0, 0))  # UFFDIO_API
        fcntl.ioctl(self._faults, 0xC020AA00,  # UFFDIO_REGISTER, of missing pages
                    struct.pack("QQQQ", start, mmap.PAGESIZE, 1, 0))
        self.memfd = os.memfd_create("locked", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.write(self.memfd, bytes(mmap.PAGESIZE))
        fcntl.fcntl(self.memfd, _F_ADD_SEALS, _F_SEAL_SHRINK)
        libc.write.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_size_t]
        self._writer = threading.Thread(target=libc.write, args=(self.memfd, start, mmap.PAGESIZE),
                                        daemon=True)
        self._writer.start()
        time.sleep(0.2)

    def __enter__(self) -> "Locked":
        return self

    def __exit__(self, *unused) -> None:
        os.close(self._faults)
        self._writer.join()
        os.close(self.memfd)


class DescriptorsTest(TestCase):
    def setUp(self):
        super().setUp()
        self.path = f"{self.folder}/s"
        self.stack = self.enterContext(contextlib.ExitStack())

    def old_kernel(self):
        """For servers that are started from now on."""
        server = os.environ.get("WARPFOLD_FAULTING_SERVER", os.environ["WARPFOLD_SERVER"])
        self.enterContext(mock.patch.dict(os.environ, {"WARPFOLD_SERVER": server}))

    def serve(self, *flags: str) -> Server:
        return Server(*flags, listen=f"127.0.0.1:0,unix:{self.path}")

    def connect(self) -> socket.socket:
        connection = self.stack.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(10)
        connection.connect(self.path)
        return connection

    def lingering(self) -> Lingering:
        return self.stack.enter_context(Lingering())

    def assert_unharmed(self, server: Server):
        """Each shard's thread serves, and the end comes in time."""
        for address in server.address.split(","):
            for _ in range(4):
                self.assertEqual(value(address, "sum", "--iota", "1000", "--timeout", "10"), 499_500)
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0, server.log())
        self.assertLess(time.monotonic() - begin, _SOON_S)

    def send_over_grpc(self) -> list[socket.socket]:
        connections = []
        for _ in range(_TRIES):
            connection = self.connect()
            connection.sendall(floods.BEGINNING)
            connection.recv(65536)
            connection.sendall(floods.ACKNOWLEDGEMENT)
            self.lingering().give_away(connection, frame(6, 0, 0, bytes(8)))
            connections.append(connection)
        return connections

    def test_with_this_kernel(self):
        with self.serve() as server:
            self.send_over_grpc()
            self.assert_unharmed(server)

    def test_who_sends_some_is_cut(self):
        self.old_kernel()
        with self.serve() as server:
            connections = self.send_over_grpc()
            server.await_log("closed a connection of unix:")
            self.assertIn("it sends descriptors", server.log())
            for connection in connections:
                with contextlib.suppress(ConnectionError):
                    while connection.recv(65536):
                        pass
            self.assert_unharmed(server)

    def test_some_that_come_with_a_byte_out_of_band(self):
        """Which a look at the socket's bytes would pass over."""
        self.old_kernel()
        with self.serve() as server:
            for _ in range(_TRIES):
                connection = self.connect()
                connection.sendall(floods.BEGINNING)
                connection.recv(65536)
                connection.sendall(floods.ACKNOWLEDGEMENT)
                if not self.lingering().give_away(connection, b"x", socket.MSG_OOB):
                    self.skipTest("the kernel has no such bytes on Unix sockets")
            server.await_log("it sends descriptors")
            self.assert_unharmed(server)

    def test_some_that_lie_unread_when_the_connection_is_cut(self):
        self.old_kernel()
        with self.serve() as server:
            for _ in range(_TRIES):
                connection = self.connect()
                with contextlib.suppress(OSError):
                    connection.sendall(floods.BEGINNING + frame(0, 0, 1) * 20_000)
                    self.lingering().give_away(connection, b"x")
            server.await_log("closed a connection of unix:")
            self.assert_unharmed(server)

    def test_some_of_who_is_not_served_at_all(self):
        self.old_kernel()
        with self.serve("--max_connections=4") as server:
            held = [self.connect() for _ in range(2)]
            for _ in range(_TRIES):
                self.lingering().give_away(self.connect(), b"x")
            server.await_log("refused")
            for connection in held:
                connection.close()
            begin = time.monotonic()
            self.assertEqual(value(server.address.split(",", maxsplit=1)[0], "sum", "--iota", "10"), 45)
            self.assertEqual(server.stop(), 0, server.log())
            self.assertLess(time.monotonic() - begin, _SOON_S)

    def test_large_arrays_over_a_unix_socket_are_right(self):
        self.old_kernel()
        with self.serve() as server:
            for count in (1, 1000, 10_000_000):
                self.assertEqual(value(f"unix:{self.path}", "sum", "--iota", str(count)),
                                 count * (count - 1) // 2)
            self.assertNotIn("closed a connection", server.log())


class MemorySocketTest(TestCase):
    def setUp(self):
        super().setUp()
        self.path = f"{self.folder}/m"
        self.stack = self.enterContext(contextlib.ExitStack())

    def connect(self) -> socket.socket:
        client = self.stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
        client.settimeout(10)
        client.connect(self.path)
        return client

    def assert_answers(self):
        begin = time.monotonic()
        client = self.connect()
        client.send(b"?")
        self.assertIn(b"BAD_MESSAGE", client.recv(4096))
        self.assertLess(time.monotonic() - begin, 5)

    def assert_unharmed(self, server: Server):
        self.assert_answers()
        begin = time.monotonic()
        self.assertEqual(server.stop(), 0, server.log())
        self.assertLess(time.monotonic() - begin, _SOON_S)

    def test_descriptors_that_are_read(self):
        with Server(f"--memory_socket={self.path}") as server:
            for _ in range(_TRIES):
                client = self.connect()
                self.stack.enter_context(Lingering()).give_away(client, b"?")
                self.assertIn(b"BAD_MESSAGE", client.recv(4096))
                self.assertEqual(client.recv(4096), b"")
            self.assert_unharmed(server)

    def test_descriptors_that_are_not(self):
        """One message asks for the end of the connection, and what lies after it is never read."""
        with Server(f"--memory_socket={self.path}") as server:
            for _ in range(_TRIES):
                client = self.connect()
                lingering = self.stack.enter_context(Lingering())
                socket.send_fds(client, [b"?"], [0, 1])
                lingering.give_away(client, b"?")
                with contextlib.suppress(ConnectionError):
                    client.recv(4096)
            self.assert_unharmed(server)

    def test_a_memfd_whose_lock_is_held(self):
        with Locked() as locked, Server(f"--memory_socket={self.path}") as server:
            waiting = [self.connect() for _ in range(_TRIES)]
            for client in waiting:
                socket.send_fds(client, [_REGISTER_A_BYTE], [locked.memfd])
            self.assert_answers()
            for client in waiting[:-1]:
                client.settimeout(_SEALING_S + _SOON_S)
                self.assertIn(b"takes no seals", client.recv(4096))
            waiting[-1].close()
            # The processes for it cannot even be killed, so this user has to wait for the lock's end.
            socket.send_fds(self.connect(), [_REGISTER_A_BYTE], [locked.memfd])
            self.assert_answers()
            self.assert_unharmed(server)

    def test_many_of_them(self):
        with Server(f"--memory_socket={self.path}") as server:
            client = self.connect()
            socket.send_fds(client, [b"?"], [client.fileno()] * 253)
            self.assertIn(b"BAD_MESSAGE", client.recv(4096))
            self.assertEqual(client.recv(4096), b"")
            self.assert_unharmed(server)


if __name__ == "__main__":
    unittest.main()
