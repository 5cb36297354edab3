# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""How both processes start, refuse, end and fail: exit codes, signals, bad input, a server that dies."""

import os
import signal
import socket
import subprocess
import threading
import time
import unittest

from harness import DEVICE, Server, TestCase, command, environment, npy, pack, run_server, warpfold


def sums_stdin(server: Server, **options) -> subprocess.Popen:
    """A command line that waits for int32 elements."""
    return subprocess.Popen(
        command("reduce", "--target", server.target, "--op", "sum", "--dtype", "int32", "-"),
        stdin=subprocess.PIPE, env=environment(), **options)


def sum_iota(server: Server, count: int) -> list:
    return ["reduce", "--target", server.target, "--op", "sum", "--iota", str(count)]


class ServerProcessTest(TestCase):
    def test_ready_line_names_address_and_device(self):
        with Server() as server:
            self.assertRegex(server.ready_line, r"^READY listen=127\.0\.0\.1:[1-9][0-9]* device=\S")
            self.assertIn(f"device={DEVICE}", server.ready_line)
            self.assertEqual(server.stop(), 0)

    def test_drains_on_both_signals(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server() as server:
                server.process.send_signal(number)
                self.assertEqual(server.process.wait(60), 0, server.log())

    def test_finishes_the_array_under_way_while_draining(self):
        with Server() as server:
            client = sums_stdin(server, stdout=subprocess.PIPE)
            client.stdin.write(pack("i", [1]) * (1 << 20))
            client.stdin.flush()
            time.sleep(0.5)
            server.process.send_signal(signal.SIGTERM)
            time.sleep(0.5)
            answer, _ = client.communicate(pack("i", [1]) * 5, timeout=60)
            self.assertEqual((client.returncode, answer), (0, b"sum 1048581\n"))
            self.assertEqual(server.process.wait(60), 0)

    def test_port_in_use(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            done = run_server(f"--listen=127.0.0.1:{taken.getsockname()[1]}", "--device=cpu")
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)

    def test_two_servers_do_not_share_a_port(self):
        with Server() as server:
            self.assertNotEqual(run_server(f"--listen={server.target}", "--device=cpu").returncode, 0)

    def test_bad_flags(self):
        for flag in ("--devise=cpu", "--device=tpu", "--slots=0", "--slots=x", "--listen="):
            self.assertEqual(run_server("--listen=127.0.0.1:0", "--device=cpu", flag).returncode, 2, flag)

    def test_missing_device(self):
        self.assertEqual(run_server("--listen=127.0.0.1:0", "--device=cuda:63").returncode, 3)

    def test_goes_on_when_clients_vanish(self):
        with Server() as server:
            for _ in range(10):
                client = sums_stdin(server)
                client.stdin.write(bytes(4 << 20))
                client.stdin.flush()
                client.kill()
                client.wait()
                client.stdin.close()
            self.assertEqual(self.values(server, "--op", "sum", "--iota", "1000"), [499_500])
            self.assertEqual(server.stop(), 0)


class ClientProcessTest(TestCase):
    def test_no_server(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            target = f"127.0.0.1:{unused.getsockname()[1]}"
            for arguments in (("reduce", "--op", "sum", "--iota", "5"), ("health",), ("info",)):
                self.assert_exit(1, warpfold(*arguments, "--target", target), "UNAVAILABLE")

    def test_server_dies_in_the_middle(self):
        with Server() as server:
            client = sums_stdin(server, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            client.stdin.write(bytes(8 << 20))
            client.stdin.flush()
            server.process.kill()
            server.process.wait()
            answer, error = client.communicate(bytes(8 << 20), timeout=60)
            self.assertEqual((client.returncode, answer), (1, b""))
            self.assertIn(b"UNAVAILABLE", error)

    def test_unreadable_input(self):
        data = pack("i", range(6))
        good = npy("<i4", (2, 3), data)
        table = {
            "truncated": good[:-1],
            "bytes left over": good + b"x",
            "big-endian": npy(">i4", (2, 3), data),
            "Fortran-ordered": npy("<i4", (2, 3), data, fortran_order=True),
            "unsupported dtype '<f2'": npy("<f2", (6,), bytes(12)),
            "unsupported dtype '|b1'": npy("|b1", (6,), bytes(6)),
            "not an .npy file": b"hello",
            "truncated: the file ends in its header": good[:8],
            "unsupported .npy version": good[:6] + b"\x09" + good[7:],
            "malformed": good.replace(b"descr", b"descx"),
        }
        for reason, content in table.items():
            path = self.file("bad.npy", content)
            self.assert_exit(2, warpfold("reduce", "--op", "sum", path), "bad.npy", reason)
        good_path = self.file("good.npy", good)
        raw = self.file("a.raw", data)
        cut = self.file("cut.raw", data[:-1])
        for reason, arguments in (
                ("--dtype says int64", ("--dtype", "int64", good_path)),
                ("2x3, not 3x2", ("--matrix", "3x2", good_path)),
                ("No such file", (self.folder / "none.npy",)),
                ("not a regular file", ("--dtype", "int32", self.folder)),
                ("raw elements need --dtype", (raw,)),
                ("not a whole number of elements", ("--dtype", "int32", cut)),
                ("one stream", ("--dtype", "int32", "--streams", "2", "-")),
                ("--iota of int32", ("--dtype", "int32", "--iota", 2**31 + 1))):
            self.assert_exit(2, warpfold("reduce", "--op", "sum", *arguments), reason)

    def test_stdin_that_ends_inside_an_element(self):
        with Server() as server:
            done = warpfold("reduce", "--target", server.target, "--op", "sum", "--dtype", "int32", "-",
                            stdin=bytes(7))
            self.assert_exit(2, done, "not a whole number of elements")

    def test_output_that_cannot_be_written(self):
        with Server() as server, open("/dev/full", "wb") as full:
            done = subprocess.run(command(*sum_iota(server, 5)), stdout=full, stderr=subprocess.PIPE,
                                  timeout=60, env=environment())
            self.assertEqual(done.returncode, 2)
            self.assertIn(b"standard output", done.stderr)

    def test_progress_only_on_a_terminal(self):
        with Server() as server:
            done = warpfold(*sum_iota(server, 10_000_000))
            self.assertEqual(done.stderr, "")
            master, terminal = os.openpty()
            shown = bytearray()

            def collect():
                try:
                    while piece := os.read(master, 4096):
                        shown.extend(piece)
                except OSError:  # the other end is closed
                    pass

            reader = threading.Thread(target=collect)
            reader.start()
            done = subprocess.run(command(*sum_iota(server, 100_000_000)), stdout=subprocess.PIPE,
                                  stderr=terminal, timeout=120, env=environment())
            os.close(terminal)
            reader.join()
            os.close(master)
            self.assertEqual((done.returncode, done.stdout), (0, b"sum 4999999950000000\n"))
            self.assertIn(b"GB/s", shown)


if __name__ == "__main__":
    unittest.main()
