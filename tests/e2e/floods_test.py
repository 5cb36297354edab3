# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Clients that abuse HTTP/2 lose their connection, at little cost; others notice nothing."""

import concurrent.futures
import contextlib
import itertools
import re
import socket
import struct
import subprocess
import threading
import time
import unittest
from typing import Iterator

import crowds
import floods
from executables import Server, TestCase, value, warpfold
from floods import Flood, resident_bytes
from http2_client import Connection
from http_pages import metric, wait_until
from keys import make_keys

_INVALID_ARGUMENT = "3"
_MEBIBYTE = 2**20
_TIMEOUT_S = 60  # and the time in which memory comes back


class FloodsTest(TestCase):
    """Each flood in plaintext, and encrypted: then `trusted` is the file of the server's certificate."""

    def setUp(self):
        super().setUp()
        self.cert, self.key = make_keys(str(self.folder), "server")
        self.tls = (f"--tls_cert={self.cert}", f"--tls_key={self.key}")

    @contextlib.contextmanager
    def serving(self, trusted: str, listen: str = "127.0.0.1:0") -> Iterator[Server]:
        with self.subTest(tls=bool(trusted)), Server(*(self.tls if trusted else ()), listen=listen) as server:
            yield server

    def assert_served(self, server: Server, trusted: str = ""):
        trust = ["--tls_ca", trusted] if trusted else []
        self.assertEqual(value(server.address, "sum", "--iota", "1000", *trust), 499_500)

    def test_each_is_cut(self):
        complaints = {floods.resets: "calls that are taken back",
                      floods.continuations: "headers without an end",
                      floods.long_string: "headers without an end",
                      floods.empty_data: "frames that carry nothing",
                      floods.ends: "frames that carry nothing",
                      floods.trailers: "frames that carry nothing",
                      floods.trailers_in_two_frames: "frames that carry nothing",
                      floods.tiny_data: "its data in frames of a few bytes",
                      floods.settings: "frames that carry nothing",
                      floods.pings: "frames that carry nothing"}
        self.assertEqual(set(complaints), set(floods.FLOODS))
        for trusted, (flood, complaint) in itertools.product(("", self.cert), complaints.items()):
            with self.subTest(flood.__name__), self.serving(trusted) as server:
                before = resident_bytes(server.process.pid)
                self.assertTrue(Flood(server.address, flood(), _TIMEOUT_S, trusted).cut)
                self.assertLess(resident_bytes(server.process.pid) - before, 100 * _MEBIBYTE)
                # gRPC has its own limit on pings, and sees one record before the watch sees the next.
                if flood is not floods.pings or not trusted:
                    server.await_log(f"closed a connection of 127.0.0.1: it sends {complaint}")
                self.assert_served(server, trusted)
                self.assertNotIn("gRPC: ", server.log())  # nothing has happened to it

    def test_of_many_that_are_cut_each_is_told(self):
        """The log has lines for ten in a second. The others were reported with the next one, if ever."""
        with Server() as server:
            with concurrent.futures.ThreadPoolExecutor(20) as threads:
                done = list(threads.map(lambda _: Flood(server.address, floods.pings(), _TIMEOUT_S).cut,
                                        range(20)))
            self.assertTrue(all(done))
            told = r"(?:left out (\d+) more lines: )?closed a connection(?: of \S+)?: it sends frames that"
            wait_until(lambda: sum(int(count or 1) for count in re.findall(told, server.log())) == 20,
                       "those that had no line")

    def test_many_connections_of_one_host_are_one(self):
        """Each takes back fewer calls than one may: 1,343 and 2,128 MiB when nothing else counted."""
        for trusted, crowd in itertools.product(("", self.cert), crowds.TAKE_BACK):
            with self.subTest(crowd.name), self.serving(trusted) as server:
                before = resident_bytes(server.process.pid)
                self.assertGreater(crowd.flood(server.address, 20, trusted), 0.9 * crowd.connections)
                self.assertLess(resident_bytes(server.process.pid) - before, 150 * _MEBIBYTE)
                server.await_log(f"closed a connection of {crowds.SOURCE}: it sends calls that are taken "
                                 "back, as its peer's other connections do")
                self.assert_served(server, trusted)
                self.assertNotIn("closed a connection of 127.0.0.1", server.log())

    def test_calls_that_are_left_behind_count_as_taken_back(self):
        """1,800 MiB after 6 s, and an honest call took 12, when connections came and went as they liked."""
        unix = f"unix:{self.folder}/s"
        with Server(listen=f"127.0.0.1:0,{unix}") as server:
            before = resident_bytes(server.process.pid)
            self.assertGreater(crowds.COMINGS.flood(server.address.split(",")[0], 4), 100)
            self.assertLess(resident_bytes(server.process.pid) - before, 500 * _MEBIBYTE)
            self.assertEqual(value(unix, "sum", "--iota", "1000"), 499_500)
            # As many as one peer gets may be waiting for their end.
            server.await_log(f"refused a connection of {crowds.SOURCE}: ")

    def test_who_has_left_too_many_calls_behind_is_refused_for_that(self):
        piece = floods.ACKNOWLEDGEMENT + b"".join(crowds.begun(stream) for stream in range(1, 129, 2))
        refused = 'warpfold_connections_refused_total{reason="left_calls"}'

        def is_let_in(address: str) -> bool:
            with contextlib.suppress(ConnectionError), \
                    contextlib.closing(floods.connect(address, source=crowds.SOURCE)) as connection:
                if connection.recv(65536):
                    connection.sendall(piece)
                    connection.recv(65536)
                    return True
            return False

        with Server("--admin_listen=127.0.0.1:0") as server:
            while is_let_in(server.address) or metric(server.ready_line, refused) == 0:
                continue
            server.await_log(f"refused a connection of {crowds.SOURCE}: it has taken back, or left behind, "
                             "more calls than it may")
            self.assert_served(server)

    def test_who_does_not_acknowledge_settings_is_cut(self):
        """Until then gRPC counts none of the calls of a connection."""
        with Server() as server, contextlib.closing(floods.connect(server.address)) as connection:
            with contextlib.suppress(ConnectionError):  # the connection is cut while it sends
                connection.sendall(b"".join(crowds.begun(stream) for stream in range(1, 20_000, 2)))
            server.await_log("it sends calls, and does not acknowledge settings")
            self.assert_served(server)

    def test_what_connections_may_have_fits_into_the_budget(self):
        """All connections, of two peers, with as many calls as each may have: nobody is cut off."""
        unix = f"unix:{self.folder}/s"
        for trusted, crowd in itertools.product(("", self.cert), crowds.AS_ALLOWED):
            with self.subTest(crowd.name), self.serving(trusted, f"127.0.0.1:0,{unix}") as server:
                tcp = server.address.split(",")[0]
                server.await_log("memory: at most ")
                base, connections = (int(re.search(rf"{part} (\d+)", server.log())[1]) * _MEBIBYTE
                                     for part in ("base", "connections"))
                cut, most = [], 0
                threads = [threading.Thread(target=lambda *to: cut.append(crowd.flood(*to)), args=to)
                           for to in ((tcp, 4, trusted), (unix, 4))]
                for thread in threads:
                    thread.start()
                while any(thread.is_alive() for thread in threads):
                    most = max(most, resident_bytes(server.process.pid))
                    time.sleep(0.02)
                print(f"{crowd.name}: {most / _MEBIBYTE:.0f} MiB at most, of "
                      f"{(base + connections) / _MEBIBYTE:.0f}")
                self.assertEqual(cut, [0, 0], server.log())
                self.assertLess(most, base + connections)
                self.assertEqual(value(unix, "sum", "--iota", "1000"), 499_500)

    def test_more_headers_than_are_counted_are_cut(self):
        """Within gRPC's limits, which are 8 KiB for each frame, a call took 45 KiB to 1.6 MiB."""
        for trusted, crowd in itertools.product(("", self.cert), crowds.MANY_HEADERS):
            with self.subTest(crowd.name), \
                    self.serving(trusted, f"127.0.0.1:0,unix:{self.folder}/s") as server:
                tcp, unix = server.address.split(",")
                before = resident_bytes(server.process.pid)
                self.assertEqual(crowd.flood(tcp, 4, trusted), crowd.connections)
                self.assertLess(resident_bytes(server.process.pid) - before, 100 * _MEBIBYTE)
                server.await_log(f"closed a connection of {crowds.SOURCE}: it sends ")
                self.assertEqual(value(unix, "sum", "--iota", "1000"), 499_500)

    def test_a_connection_has_so_many_calls(self):
        """64 at once; a client that does not wait before it sends more loses the connection."""
        for calls, seconds in ((64, 0.5), (120, 10)):
            with self.subTest(calls), Server() as server, Connection(server.address) as connection:
                try:
                    for _ in range(calls):
                        connection.begin("/warpfold.v1.ReductionService/Reduce")
                except ConnectionError:  # the 65th had come before the last was sent
                    self.assertGreater(calls, 64)
                connection.await_ends(calls, seconds)
                self.assertEqual(connection.is_over, calls > 64)

    def test_settings_are_not_acknowledged_before_they_come(self):
        """Or they come in time, and gRPC obeys them; 2 in 10 won this race, and had no limit at all."""
        with Server() as server, contextlib.ExitStack() as opened:
            for _ in range(60):
                connection = opened.enter_context(contextlib.closing(floods.connect(server.address)))
                connection.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    connection.sendall(floods.ACKNOWLEDGEMENT)
                    connection.sendall(b"".join(crowds.begun(stream) for stream in range(1, 4000, 2)))
                    while connection.recv(65536):
                        pass
            self.assert_served(server)

    def test_answers_that_nobody_takes_are_not_kept(self):
        with Server("--idle_timeout_seconds=1") as server, floods.connect(server.address) as connection:
            connection.sendall(floods.closed_window())
            calls = 30
            for stream in range(1, 2 * calls, 2):
                connection.sendall(
                    floods.whole_call(stream, "/warpfold.v1.ReductionService/GetServerInfo"))
            resets = (kind for kind in floods.frame_types(connection) if kind == floods.RST_STREAM)
            self.assertEqual(sum(1 for _ in itertools.islice(resets, calls)), calls)  # or a timeout
            self.assert_served(server)

    def test_unknown_fields_are_not_kept_for_who_takes_no_answer(self):
        """40 headers of 3 MiB: 12 MiB more, and 672 if the server parses such headers and keeps them."""
        calls = 40
        with Server() as server, Connection(server.address) as connection:
            before = resident_bytes(server.process.pid)
            connection.close_window()
            streams = [self.send_unknown_fields(connection, 3 * _MEBIBYTE) for _ in range(calls)]
            self.assertLess(resident_bytes(server.process.pid) - before, 60 * _MEBIBYTE)
            self.assertEqual(connection.await_ends(calls, _TIMEOUT_S), calls)
            self.assertEqual({connection.headers[stream]["grpc-status"] for stream in streams},
                             {_INVALID_ARGUMENT})
            self.assert_served(server)

    def send_unknown_fields(self, connection: Connection, size: int) -> int:
        """A Reduce of no elements whose header has this many meaningless bytes."""
        spec = bytes.fromhex("0a 05 0a 01 01 10 01")  # the sum, of int32
        header = spec + b"\x80\x7d\x00" * (size // 3)
        messages = (b"\x0a" + floods.varint(len(header)) + header, bytes.fromhex("12 00"))
        stream = connection.begin("/warpfold.v1.ReductionService/Reduce")
        for message in messages:
            connection.send(stream, struct.pack(">BI", 0, len(message)) + message, patience=_TIMEOUT_S)
        if stream not in connection.ended:
            connection.half_close(stream)
        return stream

    def test_again_and_again(self):
        with Server() as server:
            before = resident_bytes(server.process.pid)
            for _ in range(20):
                for flood in (floods.resets, floods.continuations, floods.empty_data):
                    self.assertTrue(Flood(server.address, flood(), _TIMEOUT_S).cut)
            self.assertLess(resident_bytes(server.process.pid) - before, 200 * _MEBIBYTE)
            self.assert_served(server)

    def test_honest_callers_notice_nothing(self):
        """Large arrays and small ones, beside one flood after the other from another peer."""
        with Server(listen=f"127.0.0.1:0,unix:{self.folder}/s") as server:
            tcp, unix = server.address.split(",")
            calls = [self.start("bench", "--target", unix, *arguments, "--duration", "4",
                                "--rounds", "1", stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
                     for arguments in (("--bytes", "100000000", "--streams", "2"),
                                       ("--method", "array", "--callers", "2"))]
            over = threading.Event()

            def attack():
                for flood in itertools.cycle(floods.FLOODS):
                    if over.is_set():
                        return
                    Flood(tcp, flood(), _TIMEOUT_S)

            attacker = threading.Thread(target=attack)
            attacker.start()
            try:
                for call in calls:
                    error = call.communicate(timeout=_TIMEOUT_S)[1]
                    self.assertEqual(call.returncode, 0, error)
            finally:
                over.set()
                attacker.join()
            self.assertNotIn("closed a connection of unix:", server.log())

    def test_honest_traffic_is_not_cut(self):
        loads = (("--method", "array", "--callers", "16"), ("--method", "health", "--callers", "4"),
                 ("--bytes", "1000000", "--callers", "8"), ("--bytes", "100000000", "--streams", "4"))
        for trusted in ("", self.cert):
            trust = ("--tls_ca", trusted) if trusted else ()
            with self.serving(trusted) as server:
                for load in loads:
                    done = warpfold("bench", "--target", server.address, *trust, *load, "--duration", "1",
                                    "--rounds", "1")
                    self.assertEqual(done.returncode, 0, done.stderr)
                self.assertNotIn("closed a connection", server.log())

    def test_over_a_unix_socket_too(self):
        with Server(listen=f"127.0.0.1:0,unix:{self.folder}/s") as server:
            cut = False
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(f"{self.folder}/s")
                connection.settimeout(_TIMEOUT_S)
                pieces = floods.empty_data()
                connection.sendall(floods.BEGINNING)
                try:
                    for _ in range(10_000):
                        connection.sendall(next(pieces))
                except OSError:
                    cut = True
            self.assertTrue(cut)
            server.await_log("closed a connection of unix:")

    def assert_comes_back(self, server: Server, most: float):
        deadline = time.monotonic() + _TIMEOUT_S
        while (left := resident_bytes(server.process.pid)) > most and time.monotonic() < deadline:
            time.sleep(0.5)
        self.assertLessEqual(left / _MEBIBYTE, most / _MEBIBYTE)

    def test_memory_comes_back(self):
        for trusted in ("", self.cert):
            with self.serving(trusted) as server:
                self.assert_served(server, trusted)
                before = resident_bytes(server.process.pid)
                for _ in range(5):
                    for flood in floods.FLOODS:
                        Flood(server.address, flood(), _TIMEOUT_S, trusted)
                self.assert_comes_back(server, 1.5 * before)


if __name__ == "__main__":
    unittest.main()
