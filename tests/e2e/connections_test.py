# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""More connections than a server can take: those beyond that are closed, and nothing of it lasts."""

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import socket
import struct
import subprocess
import time
import unittest

from executables import Server, TestCase, run_server, value, warpfold
from http_pages import get, metric, wait_until

_DESCRIPTORS = 64
_FEW_DESCRIPTORS = ("prlimit", f"--nofile={_DESCRIPTORS}")
_SOME_DESCRIPTORS = ("prlimit", "--nofile=700")
_PAGE_CONNECTIONS = 64
_MEMORY_CONNECTIONS = 256
_MOST_DESCRIPTORS_OF_A_MESSAGE = 253
_OTHER_USER = 65534
_STRANGER = 65533
_REGISTER_A_BYTE = b"\x0a\x02\x08\x01"  # MemoryRequest, of register_host.byte_count
_TOKEN = b"\x22\x10"  # MemoryResponse with only a token: what comes before its 16 bytes
_needs_root = unittest.skipUnless(os.geteuid() == 0, "connects as two users")


def connect(address: str, count: int, source: str = "") -> list[socket.socket]:
    """This many connections that send nothing."""
    host, port = address.rsplit(":", 1)
    own = (source, 0) if source else None
    return [socket.create_connection((host, int(port)), timeout=10, source_address=own)
            for _ in range(count)]


def connect_to_unix(path: str, count: int) -> list[socket.socket]:
    """The same over a Unix socket: the peer is not the one that all loopback addresses together are."""
    clients = [socket.socket(socket.AF_UNIX) for _ in range(count)]
    for client in clients:
        client.settimeout(10)
        client.connect(path)
    return clients


@contextlib.contextmanager
def as_user(user: int):
    """While this lasts, the system reports this user for connections that are made."""
    own = os.geteuid()
    os.seteuid(user)
    try:
        yield
    finally:
        os.seteuid(own)


def connect_to_memory(path: str, user: int) -> socket.socket:
    with as_user(user):
        client = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The connection may have to wait until others have been accepted.
        client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", 10, 0))
        client.connect(path)
        client.settimeout(10)
        return client


def register_a_byte(client: socket.socket) -> bytes:
    """The server's MemoryResponse, or nothing if it ends the connection."""
    with open(os.memfd_create("test", os.MFD_ALLOW_SEALING), "r+b", buffering=0) as memory, \
            contextlib.suppress(ConnectionError):
        memory.write(b"1")
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK)
        socket.send_fds(client, [_REGISTER_A_BYTE], [memory.fileno()])
        return client.recv(4096)
    return b""


def register_gpu_memory_for_results(client: socket.socket) -> bytes:
    """Of a made-up handle, which goes to the driver if the server has one."""
    request = b"\x0a\x40" + b"h" * 64 + b"\x18\x01" + b"\x28\x01"  # handle, byte_count, writable
    client.send(b"\x12" + bytes([len(request)]) + request)  # register_gpu
    return client.recv(4096)


def count_ended(clients: list[socket.socket]) -> int:
    """How many the server has closed by now."""
    ended = select.poll()
    for client in clients:
        ended.register(client, select.POLLRDHUP)
    return len(ended.poll(0))


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it: the server sends first."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) != b""
    return False


def count_told(server: Server, why: str) -> int:
    """The number of rejected connections that the log reports."""
    log, why = server.log(), re.escape(why)
    left_out = re.findall(rf"left out (\d+) more lines: refused a connection: {why}", log)
    return len(re.findall(rf"refused a connection of \S+: {why}", log)) + sum(map(int, left_out))


def refused(server: Server, reason: str) -> float:
    return metric(server.ready_line, f'warpfold_connections_refused_total{{reason="{reason}"}}')


def get_or_nothing(address: str, path: str):
    with contextlib.suppress(OSError):
        return get(address, path)


class ConnectionsTest(TestCase):
    def assert_served(self, server: Server):
        self.assertEqual(value(server.address.split(",")[0], "sum", "--iota", "1000"), 499_500)

    def test_descriptors_run_out_and_come_back(self):
        for listen in ("127.0.0.1:0", f"unix:{self.folder}/s"):
            with self.subTest(listen), Server(listen=listen, prefix=_FEW_DESCRIPTORS) as server:
                self.assert_served(server)
                for _ in range(3):
                    self.flood(server, 104)
                    self.assert_served(server)  # the client tries again for a second

    def flood(self, server: Server, count: int):
        crowd = []
        with contextlib.ExitStack() as stack:
            for _ in range(count):
                family = socket.AF_UNIX if server.address.startswith("unix:") else socket.AF_INET
                one = stack.enter_context(socket.socket(family))
                one.settimeout(10)
                host, _, port = server.address.partition(":")
                one.connect(port if family == socket.AF_UNIX else (host, int(port)))
                crowd.append(one)
            time.sleep(0.1)

    def test_a_cap_and_half_of_it_for_one_peer(self):
        path = f"{self.folder}/s"
        with Server("--max_connections=7", listen=f"127.0.0.1:0,unix:{path}") as server:
            tcp = server.address.split(",")[0]
            with contextlib.ExitStack() as stack:
                # One party, whichever loopback address it uses. Half of the limit is rounded up.
                crowd = [stack.enter_context(one) for source in ("127.0.0.1", "127.0.0.2")
                         for one in connect(tcp, 10, source)]
                self.assertEqual(list(map(is_open, crowd)), [True] * 4 + [False] * 16)
                # Others still find room, up to the cap.
                others = [stack.enter_context(one) for one in connect_to_unix(path, 6)]
                self.assertEqual(list(map(is_open, others)), [True] * 3 + [False] * 3)
            self.assert_served(server)
            # All are reported, even those of the last second, although nobody else is rejected.
            wait_until(lambda: count_told(server, "--max_connections=7, half of it for one peer") >= 19,
                       "the refusals that had no line")

    def test_more_streams_than_connections(self):
        """An array goes over the connections that its client gets, and so does the merge."""
        for most in (1, 2, 5):
            with self.subTest(most), Server(f"--max_connections={most}") as server:
                info = json.loads(warpfold("info", "--json", "--target", server.address).stdout)
                self.assertEqual(info["transfer_advice"]["streams"], (most + 1) // 2)
                for streams in ("2", "4", "16") * 3:
                    found = value(server.address, "sum", "--iota", "3000000", "--streams", streams)
                    self.assertEqual(found, 3000000 * 2999999 // 2)

    def test_connections_that_are_gone_already_are_no_errors(self):
        """For example those of a program that checks whether the port is open, and resets the connection."""
        with Server("--admin_listen=127.0.0.1:0") as server:
            server.process.send_signal(signal.SIGSTOP)
            try:
                for one in connect(server.address, 8):
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                    one.close()
            finally:
                server.process.send_signal(signal.SIGCONT)
            self.assert_served(server)
            self.assertEqual(metric(server.ready_line, "warpfold_grpc_errors_total"), 0)
            # On a busy machine the client connects a second time.
            self.assertLess(metric(server.ready_line, "warpfold_connections_total"), 8)

    def test_refusals_for_want_of_descriptors_are_told_as_such(self):
        with Server("--admin_listen=127.0.0.1:0") as server:
            with server.without_descriptors(), contextlib.ExitStack() as stack:
                crowd = [stack.enter_context(one) for one in connect(server.address, 15)]
                self.assertFalse(any(map(is_open, crowd)))
            self.assertEqual((refused(server, "descriptors"), refused(server, "limit")), (15, 0))
            wait_until(lambda: count_told(server, "the limit on open files leaves no descriptor") == 15,
                       "the refusals that had no line")
            self.assertNotIn("--max_connections", server.log())

    def test_a_cap_that_the_limit_on_files_does_not_allow(self):
        self.assert_exit(2, run_server("--device=cpu", "--max_connections=100", prefix=_FEW_DESCRIPTORS),
                         "--max_connections=100", "open files")

    @_needs_root
    def test_silent_clients_of_the_memory_socket_shut_nobody_out(self):
        self.folder.chmod(0o755)
        path = f"{self.folder}/m"
        flags = (f"--memory_socket={path}", f"--memory_socket_users={_OTHER_USER}",
                 "--idle_timeout_seconds=4")
        with Server(*flags) as server, contextlib.ExitStack() as stack:
            silent = [stack.enter_context(connect_to_memory(path, os.geteuid()))
                      for _ in range(_MEMORY_CONNECTIONS)]
            begin = time.monotonic()
            other = stack.enter_context(connect_to_memory(path, _OTHER_USER))
            other.send(b"?")
            self.assertIn(b"BAD_MESSAGE", other.recv(4096))
            self.assertLess(time.monotonic() - begin, 1)
            wait_until(lambda: count_ended(silent) == _MEMORY_CONNECTIONS // 2, "the end of half of them")
            wait_until(lambda: count_ended(silent) == _MEMORY_CONNECTIONS, "the end of who is silent")
            self.assert_served(server)

    @_needs_root
    def test_memory_is_taken_of_listed_users_alone(self):
        """A process that may register memory makes the server read it: others get no response, and the
        connection ends."""
        self.folder.chmod(0o755)
        path = f"{self.folder}/m"
        with Server(f"--memory_socket={path}", f"--memory_socket_users={_OTHER_USER}",
                    "--admin_listen=127.0.0.1:0") as server:
            for user in (os.geteuid(), _OTHER_USER):
                with connect_to_memory(path, user) as client:
                    answer = register_a_byte(client)
                    self.assertEqual((answer[:len(_TOKEN)], len(answer)), (_TOKEN, len(_TOKEN) + 16))
            with connect_to_memory(path, _STRANGER) as client:
                self.assertEqual(register_a_byte(client), b"")
                wait_until(lambda: metric(server.ready_line, "warpfold_registrations") == 0,
                           "the end of what others had registered")
            command = shutil.copy(os.environ["WARPFOLD_CLI"], self.folder / "warpfold")
            os.chmod(command, 0o755)
            done = subprocess.run([command, "bench", "--target", server.address, "--source=memory",
                                   f"--memory_socket={path}", "--memory_bytes=4096", "--bytes=4096"],
                                  user=_STRANGER, capture_output=True, text=True, timeout=60, env={},
                                  check=False)
            self.assert_exit(1, done, "UNAVAILABLE", "the memory socket ")
            done = subprocess.run([command, "bench", "--target", server.address, "--source=memory",
                                   f"--memory_socket={path}", "--memory_bytes=4096", "--bytes=4096",
                                   "--segment_length=4", "--results=shared"], user=_OTHER_USER,
                                  capture_output=True, text=True, timeout=60, env={}, check=False)
            self.assert_exit(1, done, "PERMISSION_DENIED", "the server's own user")
            for user, words in ((_OTHER_USER, b"NOT_ALLOWED"), (os.geteuid(), b"_MEMORY")):
                with connect_to_memory(path, user) as client:
                    self.assertIn(words, register_gpu_memory_for_results(client))
            self.assert_served(server)
            # Two connections of the stranger, and two requests of the other user.
            series = 'warpfold_registrations_rejected_total{reason="NOT_ALLOWED"}'
            self.assertGreaterEqual(metric(server.ready_line, series), 4)  # the command tries again
            server.await_log(f"warning --memory_socket: rejected uid:{_STRANGER}: NOT_ALLOWED: ", times=2)

    @_needs_root
    def test_users_of_other_namespaces_are_not_the_one_whose_number_they_have(self):
        """In a server's user namespace all users that it does not map have the number 65534."""
        self.folder.chmod(0o755)
        path, grpc_path = f"{self.folder}/m", f"{self.folder}/s"
        allow = self.file("allow", b"uid:65534 *\nuid:1000 *\n")
        namespace = ("unshare", "--user", "--map-user=1000")
        if subprocess.run([*namespace, "true"], capture_output=True, check=False).returncode != 0:
            self.skipTest("may not make a user namespace")
        with Server(f"--memory_socket={path}", f"--allow={allow}", listen=f"unix:{grpc_path}",
                    prefix=namespace) as server:
            command = shutil.copy(os.environ["WARPFOLD_CLI"], self.folder / "warpfold")
            os.chmod(command, 0o755)
            os.chmod(grpc_path, 0o777)
            for user, code in ((os.geteuid(), 0), (_STRANGER, 1)):
                with connect_to_memory(path, user) as client:
                    self.assertEqual(bool(register_a_byte(client)), code == 0, user)
                done = subprocess.run([command, "info", "--target", server.address], user=user,
                                      capture_output=True, text=True, timeout=60, env={}, check=False)
                self.assertEqual(done.returncode, code, done.stderr)
                self.assertEqual("PERMISSION_DENIED" in done.stderr, code == 1, done.stderr)
            server.await_log("--memory_socket: rejected an unknown user: NOT_ALLOWED: the server's user ")

    @_needs_root
    def test_the_memory_socket_and_the_pages_have_descriptors_of_their_own(self):
        self.folder.chmod(0o755)
        flags = ("--admin_listen=127.0.0.1:0", f"--listen=unix:{self.folder}/s",
                 f"--memory_socket={self.folder}/m", f"--memory_socket_users={_OTHER_USER}")
        done = run_server("--device=cpu", *flags, "--max_connections=100000", prefix=_SOME_DESCRIPTORS)
        self.assert_exit(2, done, "leaves room for ")
        room = int(re.search(r"leaves room for (\d+)", done.stderr)[1])
        done = run_server("--device=cpu", *flags, f"--max_connections={room + 1}", prefix=_SOME_DESCRIPTORS)
        self.assert_exit(2, done, f"leaves room for {room}\n")
        for most in (room - 1, room):
            with Server(*flags, f"--max_connections={most}", prefix=_SOME_DESCRIPTORS) as server:
                self.fill(server, most, re.search(r" admin=(\S+)", server.ready_line)[1])
                self.assert_served(server)

    def fill(self, server: Server, connections: int, admin: str):
        """Everything that a server may have open, at once, and each client is served."""
        with contextlib.ExitStack() as stack:
            half = connections // 2
            tcp, unix = server.address.split(",")
            crowd = [stack.enter_context(one) for one in
                     connect(tcp, half) + connect_to_unix(unix.removeprefix("unix:"), half)]
            self.assertEqual(sum(map(is_open, crowd)), 2 * half)
            pages = [stack.enter_context(one) for one in connect(admin, _PAGE_CONNECTIONS)]
            # One more replaces the oldest, which has asked for nothing.
            pages.append(stack.enter_context(connect(admin, 1)[0]))
            self.assertFalse(is_open(pages.pop(0)))
            clients = [stack.enter_context(connect_to_memory(f"{self.folder}/m", user))
                       for user in (os.geteuid(), _OTHER_USER) for _ in range(_MEMORY_CONNECTIONS // 2)]
            # Only memory may come with a message, and one piece at a time.
            with open(os.memfd_create("test"), "rb") as memory:
                for client in clients:
                    socket.send_fds(client, [b"?"], [memory.fileno()])
                    self.assertIn(b"BAD_MESSAGE", client.recv(4096))
            self.await_turn(clients)
            for client in clients:
                socket.send_fds(client, [b"?"], [client.fileno()] * _MOST_DESCRIPTORS_OF_A_MESSAGE)
                self.assertIn(b"BAD_MESSAGE", client.recv(4096))
            wait_until(lambda: get_or_nothing(admin, "/healthz") == (200, "ok\n"), "a page")

    def await_turn(self, clients: list[socket.socket]):
        """One more client of the memory socket is served when another leaves, and not before."""
        with connect_to_memory(f"{self.folder}/m", _OTHER_USER) as beyond:
            beyond.send(b"?")
            clients[0].send(b"?")
            clients[0].recv(4096)
            beyond.setblocking(False)
            with self.assertRaises(BlockingIOError):
                beyond.recv(4096)
            clients.pop().close()
            beyond.settimeout(10)
            self.assertIn(b"BAD_MESSAGE", beyond.recv(4096))

    def test_too_few_descriptors_for_any_connection(self):
        done = run_server("--device=cpu", f"--memory_socket={self.folder}/m", prefix=_FEW_DESCRIPTORS)
        self.assert_exit(2, done, "--max_connections", "open files", "room for none")

    def test_addresses_that_cannot_be_listened_on(self):
        done = run_server("--device=cpu", f"--listen=unix:{self.folder}/none/s")
        self.assert_exit(2, done, f"--listen: unix:{self.folder}/none/s", "No such file or directory")
        os.mkfifo(self.folder / "fifo")
        (self.folder / "link").symlink_to("nobody")
        for path, kind in ((self.file("file", b""), "a regular file"), (str(self.folder), "a directory"),
                           (str(self.folder / "fifo"), "a FIFO"),
                           (str(self.folder / "link"), "a symbolic link")):
            done = run_server("--device=cpu", f"--listen=unix:{path}")
            self.assert_exit(2, done, f"--listen: unix:{path}: there is {kind} at this path")
        # An address that no interface has may come later, and then a restart helps.
        late = "192.0.2.1:0"
        for flag in ("--listen", "--admin_listen"):
            done = run_server("--device=cpu", f"--listen=unix:{self.folder}/s", f"{flag}={late}")
            self.assert_exit(3, done, f"{flag}: {late}", "Cannot assign requested address")
        scoped = "[fe80::1%nosuch0]:0"  # of an interface that may come later
        self.assert_exit(3, run_server("--device=cpu", f"--listen={scoped}"), f"--listen: {scoped}")
        # Nobody has this name (RFC 6761); if nobody can be asked, that may change.
        done = run_server("--device=cpu", "--listen=no-such-host.invalid:0")
        self.assertIn(done.returncode, (2, 3))
        self.assertIn("--listen: no-such-host.invalid:0: ", done.stderr)

    def test_all_families(self):
        for listen in ("0.0.0.0:0", "[::]:0", "localhost:0", "[::1]:0"):
            with self.subTest(listen), Server("--allow_insecure", listen=listen) as server:
                port = server.address.rsplit(":", 1)[1]
                names = {"[::1]:0": ["[::1]"]}.get(listen, ["127.0.0.1", "localhost"])
                for name in names:
                    self.assertEqual(value(f"{name}:{port}", "sum", "--iota", "1000"), 499_500)
                if "127.0.0.1" in names:
                    self.assertIn("peer=ipv4:127.0.0.1:", server.log())

    def test_plaintext_for_other_machines_must_be_asked_for(self):
        for listen in ("0.0.0.0:0", "[::]:0", "127.0.0.1:0,0.0.0.0:0"):
            with self.subTest(listen):
                self.assert_exit(2, run_server("--device=cpu", f"--listen={listen}"), "--allow_insecure",
                                 f"--listen: {listen.rsplit(',', 1)[-1]}: ")
        for listen in ("127.0.0.1:0", "127.9.9.9:0", "[::1]:0", "localhost:0", f"unix:{self.folder}/s"):
            with self.subTest(listen), Server(listen=listen) as server:
                self.assert_served(server)


if __name__ == "__main__":
    unittest.main()
