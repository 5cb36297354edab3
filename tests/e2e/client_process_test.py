# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What a shell sees of warpfold when something is amiss, and on a terminal."""

import io
import os
import resource
import signal
import socket
import subprocess
import threading
import time
import unittest

import numpy

from doorman import Doorman
from executables import Server, TestCase, full_pipe, npy_bytes, open_terminal, warpfold


class NoServerTest(TestCase):
    """Nobody listens at `target`, and nobody else can while the test lasts."""

    def setUp(self):
        super().setUp()
        unused = self.enterContext(socket.socket())
        unused.bind(("127.0.0.1", 0))
        self.target = f"127.0.0.1:{unused.getsockname()[1]}"

    def assert_refused(self, reason: str, *arguments: str) -> None:
        """Exit code 2, and not 1: the input is rejected before a server is needed."""
        with self.subTest(reason):
            done = warpfold("reduce", "--target", self.target, "--op", "sum", *arguments)
            self.assert_exit(2, done, reason)

    def test_every_command_says_unavailable(self):
        for arguments in (("reduce", "--op", "sum", "--iota", "5"), ("health",), ("info",)):
            self.assert_exit(1, warpfold(*arguments, "--target", self.target), "UNAVAILABLE")

    def test_unreadable_npy_files(self):
        array = numpy.arange(6, dtype="<i4").reshape(2, 3)
        good = npy_bytes(array)
        for reason, content in {
                "truncated": good[:-1],
                "too long: the header announces": good + b"x",
                "big-endian": npy_bytes(array.astype(">i4")),
                "Fortran-ordered": npy_bytes(numpy.asfortranarray(array)),
                "unsupported dtype '<c8'": npy_bytes(array.astype("<c8")),
                "unsupported dtype '|S1'": npy_bytes(array.astype("|S1")),
                "not an .npy file": b"hello, world",
                "truncated: the input ends in its header": good[:8],
                "unsupported .npy version": good[:6] + b"\x09" + good[7:],
                "malformed": good.replace(b"descr", b"descx")}.items():
            path = self.file("bad.npy", content)
            self.assert_refused(f"bad.npy: {reason}", path)

    def test_calls_that_are_refused_before_they_are_sent(self):
        array = self.save("a.npy", numpy.arange(10))
        negative = self.save("negative.npy", numpy.array([-1, 11]))
        shorter, longer = (self.save(f"{n}.npy", numpy.array([n, 4])) for n in (5, 7))
        for reason, *arguments in (
                ("the lengths add up to 1 less than the 10 elements", "--segment_lengths", shorter, array),
                ("the lengths add up to more than the 10 elements", "--segment_lengths", longer, array),
                ("request_id must be", "--request_id", "a" * 129, array),
                ("not a whole number of segments of 4", "--segment_length", "4", array),
                ("length 0 is negative: -1", "--segment_lengths", negative, array),
                ("--member needs an .npz file", "--member", "x", array)):
            self.assert_refused(reason, *arguments)
        two = warpfold("put", "--target", f"{self.target},{self.target}", array)
        self.assert_exit(2, two, "INVALID_ARGUMENT (BAD_HEADER): arrays that stay with a server")
        for command in (("put", array), ("arrays",)):
            for owner in (b"x\xff", "\u00e9", "x" * 129):
                done = warpfold(*command, "--target", self.target, "--owner", owner)
                self.assertEqual((done.returncode, done.stderr), (
                    2, "warpfold: INVALID_ARGUMENT (BAD_HEADER): owner must be at most 128 printable ASCII "
                       "characters\n"))

    def test_a_file_whose_size_nobody_knows(self):
        self.assert_refused("/proc/self/status: the system does not know the file's size", "--dtype", "uint8",
                            "/proc/self/status")

    def test_keys_that_no_file_holds(self):
        fifo = self.folder / "fifo"
        os.mkfifo(fifo)
        self.assert_exit(2, warpfold("health", "--tls_ca", str(fifo)), f"{fifo}: not a regular file")

    def test_ports_that_do_not_exist(self):
        for target in ("localhost:99999", "localhost:0", "[::1]:65536", "ipv4:127.0.0.1:70000",
                       "127.0.0.1:-23261", "127.0.0.1:107811x", "127.0.0.1: 107811", "127.0.0.1:+107811",
                       "127.0.0.1:107811/x"):
            with self.subTest(target):
                self.assert_exit(2, warpfold("health", "--target", target), target, "1 to 65535")
        for target in ("localhost", "::1", "dns:///localhost"):
            with self.subTest(target):
                self.assert_exit(2, warpfold("health", "--target", target), target, "there is no port")

    def test_files_that_are_no_keys_are_named(self):
        garbage = self.folder / "garbage.pem"
        garbage.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        self.assert_exit(2, warpfold("health", "--tls_ca", str(garbage)), f"{garbage}: certificate 1")

    def test_the_environment_names_a_target(self):
        environment = {**os.environ, "WARPFOLD_TARGET": self.target}
        for flags, named in (((), self.target), (("--target", "unix:/nobody"), "/nobody")):
            done = subprocess.run([os.environ["WARPFOLD_CLI"], "info", *flags], env=environment, text=True,
                                  capture_output=True, timeout=60, check=False)
            self.assert_exit(1, done, "UNAVAILABLE", named)
        environment["WARPFOLD_TARGET"] = "host:0"
        done = subprocess.run([os.environ["WARPFOLD_CLI"], "info"], env=environment, text=True,
                              capture_output=True, timeout=60, check=False)
        self.assert_exit(2, done, "host:0", "1 to 65535")

    def test_the_error_says_that_nobody_listens(self):
        """gRPC says so of every second attempt only; of the others it says "FD shutdown"."""
        for _ in range(4):
            self.assert_exit(1, warpfold("info", "--target", self.target), "UNAVAILABLE", self.target,
                             "Connection refused")

    def test_a_polling_strategy_that_grpc_does_not_have_is_no_choice(self):
        """gRPC would end the process with SIGABRT."""
        for strategy in ("epollex", "bogus", "none", "", "bogus,none", "bogus,epoll1"):
            with self.subTest(strategy):
                environment = {**os.environ, "GRPC_POLL_STRATEGY": strategy}
                with Server(environment=environment) as server:
                    done = subprocess.run([os.environ["WARPFOLD_CLI"], "health", "--target", server.address],
                                          env=environment, capture_output=True, timeout=60, check=False)
                self.assertEqual((done.returncode, done.stdout), (0, b"SERVING\n"), done.stderr)

    def test_no_proxy_for_this_machine(self):
        environment = {**os.environ, "http_proxy": f"http://{self.target}", "https_proxy": "http://nobody"}
        with Server() as server:
            done = subprocess.run([os.environ["WARPFOLD_CLI"], "health", "--target", server.address],
                                  env=environment, text=True, capture_output=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (0, "SERVING\n"), done.stderr)

    def test_where_descriptors_are_short(self):
        with Server() as server:
            for most in (6, 8, 10):
                with self.subTest(most):
                    limits = (most, most)
                    done = subprocess.run(
                        [os.environ["WARPFOLD_CLI"], "reduce", "--target", server.address, "--op", "sum",
                         "--iota", "10000000"], text=True, capture_output=True, timeout=60, check=False,
                        preexec_fn=lambda limits=limits: resource.setrlimit(resource.RLIMIT_NOFILE, limits))
                    self.assert_exit(1, done, "no file descriptor left")
                    self.assertEqual(done.stderr.count("\n"), 1)

    def test_names_do_not_steer_the_terminal(self):
        name = str(self.folder / "\x1b[31mred\x07\u009b")
        for arguments in (("reduce", "--op", "sum", "--dtype", "int32", name),
                          ("reduce", "--op", "sum", "--dtype", name, "--iota", "5"),
                          ("reduce", "--op", name, "--iota", "5"),
                          ("health", "--tls_ca", name)):
            done = warpfold(*arguments)
            self.assert_exit(2, done, "\\x1b[31mred\\x07")
            self.assertTrue(all(c.isprintable() or c == "\n" for c in done.stderr), repr(done.stderr))
        path = self.file("steering.npy", npy_bytes(numpy.arange(3)).replace(b"<i8", b"\x1b[3"))
        done = warpfold("reduce", "--op", "sum", path)
        self.assertEqual(done.returncode, 2)
        self.assertNotIn("\x1b", done.stderr)

    def test_stdin_without_dtype_is_no_raw_array(self):
        for reason, data in (("raw elements need --dtype", b"hello, world"),
                             ("raw elements need --dtype", b""),
                             ("unsupported dtype '<c8'", npy_bytes(numpy.arange(3, dtype="<c8")))):
            done = warpfold("reduce", "--target", self.target, "--op", "sum", "-", stdin=data)
            self.assert_exit(2, done, reason)

    def test_inputs_that_do_not_fit_their_flags(self):
        array = numpy.arange(6, dtype="<i4").reshape(2, 3)
        good, raw = self.save("good.npy", array), self.file("a.raw", array.tobytes())
        disguised = self.file("a.bin", npy_bytes(array))
        cut = self.file("cut.raw", array.tobytes()[:-1])
        for reason, *arguments in (
                ("--dtype says int64", "--dtype", "int64", good),
                ("--dtype says int64", "--dtype", "int64", disguised),
                ("2x3, not 3x2", "--matrix", "3x2", good),
                ("No such file", str(self.folder / "none.npy")),
                ("not a regular file", "--dtype", "int32", str(self.folder)),
                ("raw elements need --dtype", raw),
                ("not a whole number of elements", "--dtype", "int32", cut),
                ("24 bytes are not a whole number of 5x1", "--dtype", "int32", "--matrix", "5x1", raw),
                ("33x1 matrices are larger than the 32x32", "--dtype", "int32", "--matrix", "33x1", raw),
                ("one stream", "--dtype", "int32", "--streams", "2", "-"),
                ("--iota of int32", "--dtype", "int32", "--iota", str(2**31 + 1))):
            self.assert_refused(reason, *arguments)


class ReconnectTest(TestCase):
    def test_first_connections_that_break_are_made_again(self):
        # gRPC connects only while some thread waits on it, and here only the calls' own threads can do that.
        behind = self.folder / "server"
        with Server(listen=f"unix:{behind}"), Doorman(self.folder / "door") as doorman:
            client = self.start("reduce", "--target", doorman.address, "--op", "sum", "--iota", "100000",
                                "--streams", "4", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            doorman.turn_away(4, behind)
            answer, error = client.communicate(timeout=60)
            self.assertEqual((client.returncode, answer), (0, b"sum 4999950000\n"), error)


class ClientProcessTest(TestCase):
    def test_a_closed_standard_input_is_no_array(self):
        """One of gRPC's descriptors had its number, and the command waited for it until its timeout."""
        command = 'exec "$WARPFOLD_CLI" reduce --target "$0" --op sum --dtype int8 --timeout 20 - <&-'
        with Server() as server:
            done = subprocess.run(["sh", "-c", command, server.address], capture_output=True, text=True,
                                  check=False)
            self.assert_exit(2, done, "cannot read")

    def test_server_dies_in_the_middle(self):
        with Server() as server:
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "int32", "-",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
            client.stdin.write(bytes(8 << 20))
            client.stdin.flush()
            server.kill()
            answer, error = client.communicate(bytes(8 << 20), timeout=60)
            self.assertEqual((client.returncode, answer), (1, b""))
            self.assertIn(b"UNAVAILABLE", error)

    def test_an_end_of_the_call_is_heard_while_stdin_is_silent(self):
        with Server() as server:
            client = self.reduce_stdin(server, "bit_and", "float32")
            self.assertEqual(client.wait(30), 1)
            self.assertIn(b"INVALID_ARGUMENT", client.stderr.read())
            client = self.reduce_stdin(server, "sum", "float32")
            client.stdin.write(bytes(4))
            client.stdin.flush()
            server.kill()
            self.assertEqual(client.wait(30), 1)
            self.assertIn(b"UNAVAILABLE", client.stderr.read())

    def test_a_slow_producer_is_not_an_idle_one(self):
        with Server("--idle_timeout_seconds=4") as server:
            client = self.reduce_stdin(server, "sum", "int32")
            for _ in range(10):
                time.sleep(0.5)
                client.stdin.write(numpy.ones(100, "<i4").tobytes())
                client.stdin.flush()
            answer, error = client.communicate(timeout=60)
            self.assertEqual((client.returncode, answer), (0, b"sum 1000\n"), error)
            # The limit still holds.
            client = self.reduce_stdin(server, "sum", "int32")
            self.assertEqual(client.wait(30), 1)
            self.assertIn(b"DEADLINE_EXCEEDED", client.stderr.read())

    def reduce_stdin(self, server: Server, operator: str, dtype: str) -> subprocess.Popen:
        return self.start("reduce", "--target", server.address, "--op", operator, "--dtype", dtype, "-",
                          stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def test_stdin_that_is_not_what_it_was_said_to_be(self):
        npy = npy_bytes(numpy.arange(6, dtype="<i4"))
        archive = io.BytesIO()
        numpy.savez(archive, a=numpy.arange(6))
        empty = io.BytesIO()
        numpy.savez(empty)
        with Server() as server:
            for reason, data, *flags in (("not a whole number of elements", bytes(7), "--dtype", "int32"),
                                         ("not a whole number of 2x2 matrices", bytes(24), "--dtype", "int32",
                                          "--matrix", "2x2"),
                                         ("an .npy file", npy, "--dtype", "int32"),
                                         ("an archive", archive.getvalue(), "--dtype", "int32"),
                                         ("an archive", b"PK\3\4" + bytes(96)),
                                         ("an archive", empty.getvalue()),
                                         ("an archive", empty.getvalue(), "--dtype", "uint8"),
                                         ("an archive", empty.getvalue()[:-2] + b"\x20\0" + bytes(32),
                                          "--dtype", "uint8"),
                                         ("truncated", npy[:-4]),
                                         ("too long: the header announces 24 bytes", npy + bytes(4)),
                                         ("too long: the header announces 24 bytes", npy + bytes(5_000_000))):
                done = warpfold("reduce", "--target", server.address, "--op", "sum", *flags, "-", stdin=data)
                with self.subTest(reason):
                    self.assert_exit(2, done, reason)

    def test_an_input_that_does_not_come(self):
        with Server() as server:
            for flags in ((), ("--dtype", "int32")):
                client = self.start("reduce", "--target", server.address, "--op", "sum", "--timeout", "1",
                                    *flags, "-", stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
                self.assert_time_is_up(client, time.monotonic() + 1, slack_s=3)

    def test_an_answer_that_nobody_reads(self):
        with Server() as server:
            reader, writer = os.pipe()
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--timeout", "2",
                                "--segment_length", "1", "--iota", "1000000", stdout=writer,
                                stderr=subprocess.PIPE)
            os.close(writer)
            self.assert_time_is_up(client, time.monotonic() + 2)
            os.close(reader)

    def test_a_server_that_reads_no_more(self):
        """As in a debugger, in the middle of an array: data that the socket does not accept hold the call
        up."""
        array = str(self.folder / "array.raw")
        with open(array, "wb") as file:
            file.truncate(64 << 30)  # this takes no space, and cannot be sent before the server stops
        for listen in ("127.0.0.1:0", f"unix:{self.folder}/server"):
            with self.subTest(listen), Server(listen=listen) as server:
                client = self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "float64",
                                    "--timeout", "3", "--progress", array, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE)
                deadline = time.monotonic() + 3
                self.assertIn(b"GB/s", client.stderr.readline())  # after a second
                server.process.send_signal(signal.SIGSTOP)
                try:
                    self.assert_time_is_up(client, deadline)
                finally:
                    server.process.send_signal(signal.SIGCONT)

    def test_a_server_that_does_not_begin(self):
        path = self.file("small.raw", bytes(8))
        with Server() as server:
            server.process.send_signal(signal.SIGSTOP)
            try:
                for arguments in (("reduce", "--op", "sum"), ("put",)):
                    client = self.start(*arguments, "--target", server.address, "--dtype", "int32",
                                        "--timeout", "1", path, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE)
                    self.assert_time_is_up(client, time.monotonic() + 1, slack_s=3)
            finally:
                server.process.send_signal(signal.SIGCONT)

    def assert_time_is_up(self, client: subprocess.Popen, deadline: float, slack_s: float = 10) -> None:
        """The process ends within this time after the deadline, and says why. The slack is for things that
        may delay it for 3 or 5 s, and for a busy machine."""
        code = client.wait(60)
        self.assertLess(time.monotonic() - deadline, slack_s)
        self.assertEqual(code, 1)
        self.assertIn(b"DEADLINE_EXCEEDED", client.stderr.read())

    def test_output_that_cannot_be_written(self):
        with Server() as server, open("/dev/full", "wb") as full:
            done = warpfold("reduce", "--target", server.address, "--op", "sum", "--iota", "5", stdout=full)
            self.assert_exit(2, done, "standard output")
            for command in ("reduce", "bench"):
                self.assert_exit(2, warpfold(command, "--help", stdout=full), "standard output")

    def test_output_at_the_limit_of_files(self):
        path = self.folder / "answer"
        with Server() as server, open(path, "wb") as file:
            done = subprocess.run(["prlimit", "--fsize=0", os.environ["WARPFOLD_CLI"], "reduce", "--target",
                                   server.address, "--op", "sum", "--iota", "5"],
                                  stdout=file, stderr=subprocess.PIPE, timeout=60, check=False)
        self.assertEqual((done.returncode, path.read_bytes()), (2, b""), done.stderr)
        self.assertIn(b"cannot write to standard output", done.stderr)

    def test_short_answers_and_complaints_end_though_nobody_reads_them(self):
        reader, writer = full_pipe()
        self.addCleanup(os.close, reader)
        self.addCleanup(os.close, writer)
        with Server() as server:
            to = ("--target", server.address)
            answers = [self.start(command, *to, stdout=writer, stderr=subprocess.PIPE)
                       for command in ("info", "health")]
            complaints = [(self.start(*command, stdout=subprocess.DEVNULL, stderr=writer), code)
                          for command, code in ((("health", "--no_such_flag"), 2),
                                                (("health", "--tls_ca", self.file("empty", b"")), 2),
                                                (("delete", "0" * 32, "--target", "unix:/nobody"), 1))]
            for client in answers:
                self.assertEqual(client.wait(60), 1)
                self.assertIn(b"DEADLINE_EXCEEDED (DEADLINE): the time is up", client.stderr.read())
            for client, code in complaints:
                self.assertEqual(client.wait(60), code)

    def test_a_pipe_that_somebody_made_non_blocking(self):
        """As when another process has the same pipe: a full pipe is not the end of the output."""
        with Server() as server:
            reader, writer = os.pipe()
            os.set_blocking(writer, False)
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--segment_length", "1",
                                "--iota", "100000", stdout=writer)
            os.close(writer)
            time.sleep(0.2)  # it is full now
            with open(reader, encoding="ascii") as pipe:
                lines = pipe.read().splitlines()
            self.assertEqual(client.wait(60), 0)
        self.assertEqual(len(lines), 100_000)
        self.assertEqual(lines[-1].split()[0], "99999")

    def test_progress_only_on_a_terminal(self):
        with Server() as server:
            call = ("reduce", "--target", server.address, "--op", "sum", "--iota")
            done = warpfold(*call, "10000000")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            done, shown = run_on_terminal(*call, "100000000")
            self.assertEqual((done.returncode, done.stdout), (0, "sum 4999999950000000\n"))
            self.assertIn(b"GB/s", shown)


def run_on_terminal(*arguments: str) -> tuple[subprocess.CompletedProcess, bytes]:
    """Runs the command line with a terminal for standard error; also returns what the terminal was sent."""
    master, terminal = open_terminal()
    shown = bytearray()

    def collect():
        try:
            while piece := os.read(master, 4096):
                shown.extend(piece)
        except OSError:  # the other end is closed
            pass

    reader = threading.Thread(target=collect)
    reader.start()
    try:
        done = warpfold(*arguments, stderr=terminal)
    finally:
        os.close(terminal)
        reader.join()
        os.close(master)
    return done, bytes(shown)


if __name__ == "__main__":
    unittest.main()
