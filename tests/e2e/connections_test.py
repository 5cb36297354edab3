# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""More connections than a server can take: those beyond are closed, and none of it lasts."""

import contextlib
import socket
import time
import unittest

from executables import Server, TestCase, run_server, value

_DESCRIPTORS = 64
_FEW_DESCRIPTORS = ("prlimit", f"--nofile={_DESCRIPTORS}")


def connect(address: str, count: int, source: str = "") -> list[socket.socket]:
    """So many connections that say nothing."""
    host, port = address.rsplit(":", 1)
    own = (source, 0) if source else None
    return [socket.create_connection((host, int(port)), timeout=10, source_address=own)
            for _ in range(count)]


def is_open(connection: socket.socket) -> bool:
    """Whether the server has not closed it: it speaks first."""
    with contextlib.suppress(ConnectionError):
        return connection.recv(1) != b""
    return False


class ConnectionsTest(TestCase):
    def assert_served(self, server: Server):
        self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)

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
        with Server("--max_connections=8") as server:
            with contextlib.ExitStack() as stack:
                crowd = [stack.enter_context(one) for one in connect(server.address, 20)]
                self.assertEqual(sum(map(is_open, crowd)), 4)
                # Others still find room, up to the cap.
                others = [stack.enter_context(one) for one in connect(server.address, 3, "127.0.0.2")]
                others += [stack.enter_context(one) for one in connect(server.address, 3, "127.0.0.3")]
                self.assertEqual(sum(map(is_open, others)), 4)
            self.assert_served(server)
            self.assertIn("--max_connections=8", server.log())

    def test_a_cap_that_the_limit_on_files_does_not_allow(self):
        self.assert_exit(2, run_server("--device=cpu", "--max_connections=100", prefix=_FEW_DESCRIPTORS),
                         "--max_connections=100", "open files")

    def test_addresses_that_cannot_be_listened_on(self):
        for listen, reason in ((f"unix:{self.folder}/none/s", "No such file or directory"),
                               ("no-such-host.invalid:0", "no-such-host.invalid"),
                               ("192.0.2.1:0", "Cannot assign requested address")):
            with self.subTest(listen):
                self.assert_exit(2, run_server("--device=cpu", f"--listen={listen}"), f"--listen: {listen}",
                                 reason)

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
