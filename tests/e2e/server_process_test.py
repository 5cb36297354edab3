# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What a shell sees of warpfold-server: its READY line, addresses, log, signals and exit codes."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import time
import unittest
from typing import BinaryIO

import numpy

from executables import (DEVICE, Server, TestCase, full_pipe, killed_after, open_terminal, reduce, run_server,
                         value, warpfold)
from http_pages import metric

_LOG_TIMEOUT_S = 60
_LIMIT_TIMEOUT_S = 60


def begin_drain(server: Server) -> None:
    """Sends SIGTERM and waits until the server has taken it."""
    server.process.send_signal(signal.SIGTERM)
    await_log(server, "draining")


def await_reduction(server: Server) -> None:
    """Waits until the server, which has pages, has admitted a reduction."""
    deadline = time.monotonic() + _LOG_TIMEOUT_S
    while not metric(server.ready_line, "warpfold_reductions_in_progress") and time.monotonic() < deadline:
        time.sleep(0.01)


def granted_processors() -> float:
    """How many processors' time the tests' control group has, as far as its file tells."""
    try:
        with open("/sys/fs/cgroup/cpu.max", encoding="ascii") as file:
            quota, period = file.read().split()
    except FileNotFoundError:
        return float("inf")
    return float("inf") if quota == "max" else int(quota) / int(period)


def await_log(server: Server, text: str) -> None:
    deadline = time.monotonic() + _LOG_TIMEOUT_S
    while text not in server.log() and time.monotonic() < deadline:
        time.sleep(0.01)


def await_share(progress: BinaryIO, percent: int) -> None:
    """Reads a client's progress bar from its terminal until that share of the array is sent."""
    line = b""
    with contextlib.suppress(OSError):  # the client has ended
        while piece := progress.read(4096):
            line = (line + piece).rsplit(b"\r", 1)[-1]
            share = re.match(rb" *(\d+) %", line)
            if share and int(share[1]) >= percent:
                break


class ReadyTest(TestCase):
    def test_ready_line_names_address_and_device(self):
        with Server() as server:
            words = server.ready_line.split(" ", 2)
            self.assertEqual(words[0], "READY")
            self.assertRegex(words[1], r"^listen=127\.0\.0\.1:[1-9][0-9]*$")
            self.assertRegex(words[2], "^device=cpu$" if DEVICE == "cpu" else f"^device={DEVICE} ")
            self.assertEqual(reduce(server.address, "--op", "sum", "--iota", "10")["device"],
                             words[2].removeprefix("device="))

    def test_ready_is_said_before_the_log_says_so(self):
        server = subprocess.Popen(
            [os.environ["WARPFOLD_SERVER"], f"--listen=unix:{self.folder}/s", f"--device={DEVICE}"],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        with killed_after(_LIMIT_TIMEOUT_S, server), server:
            lines = iter(server.stdout.readline, "")
            first = next(line for line in lines if line.startswith("READY ") or "serves on" in line)
            self.assertTrue(first.startswith("READY "), first)
            server.send_signal(signal.SIGTERM)

    def test_the_log_says_where_it_serves_if_nobody_reads_ready(self):
        for output in (">/dev/full", ">&-"):
            command = f'exec "$WARPFOLD_SERVER" --listen=127.0.0.1:0 --device=cpu {output}'
            with subprocess.Popen(["sh", "-c", command], stderr=subprocess.PIPE, text=True) as server, \
                    killed_after(_LOG_TIMEOUT_S, server):
                lines = iter(server.stderr.readline, "")
                serves = next(line for line in lines if "serves on" in line)
                warning = next(lines)
                done = warpfold("health", "--target", serves.split()[-1])
                server.terminate()
                server.stderr.read()
            self.assertEqual(done.stdout, "SERVING\n", done.stderr)
            self.assertIn("warning standard output has not taken the line READY", warning)

    def test_two_addresses_at_once(self):
        with Server(listen=f"127.0.0.1:0,unix:{self.folder}/s") as server:
            addresses = server.address.split(",")
            self.assertEqual(len(addresses), 2)
            for address in addresses:
                self.assertEqual(value(address, "max", "--iota", "1000"), 999)

    def test_closed_output_and_log_stay_closed(self):
        """Descriptors that were opened next got their numbers: the log went into a descriptor of gRPC."""
        path = self.folder / "s"
        command = 'exec "$WARPFOLD_SERVER" "--listen=unix:$0" --device=cpu >&- 2>&-'
        with subprocess.Popen(["sh", "-c", command, str(path)]) as server, \
                killed_after(_LOG_TIMEOUT_S, server):
            while warpfold("health", "--target", f"unix:{path}").returncode != 0:
                time.sleep(0.1)
            self.assertEqual([os.readlink(f"/proc/{server.pid}/fd/{number}") for number in (1, 2)],
                             ["/dev/null"] * 2)
            self.assertEqual(value(f"unix:{path}", "sum", "--iota", "1000"), 499_500)
            server.terminate()
            self.assertEqual(server.wait(), 0)

    def test_a_unix_socket_replaces_a_stale_one_and_is_removed(self):
        path = self.folder / "warpfold.sock"
        with socket.socket(socket.AF_UNIX) as stale:
            stale.bind(str(path))
        with Server(listen=f"unix:{path}") as server:
            self.assertEqual(server.address, f"unix:{path}")
            self.assertEqual(value(server.address, "sum", "--iota", "1000000"), 499999500000)
        self.assertFalse(path.exists())

    def test_the_sockets_of_another_server_stay(self):
        """The server's own sockets were removed, and another server has put others in their place."""
        path, memory = self.folder / "warpfold.sock", self.folder / "memory.sock"
        with Server(f"--memory_socket={memory}", listen=f"unix:{path}") as first:
            path.unlink()
            memory.unlink()
            with Server(f"--memory_socket={memory}", listen=f"unix:{path}"):
                first.process.terminate()
                self.assertEqual(first.process.wait(10), 0)
                self.assertTrue(path.exists() and memory.exists())
            self.assertFalse(path.exists() or memory.exists())

    def test_json_log(self):
        with Server("--log_format=json") as server:
            self.assertEqual(server.stop(), 0)
            log = server.log()
        for line in log.splitlines():
            self.assertEqual(set(json.loads(line)), {"time", "level", "event", "message"})
        self.assertIn("drained", log)

    def test_a_refused_start_is_logged_in_the_form_that_was_asked_for(self):
        for flags in (("--log_format=json", "--slots=0"), ("--no_such_flag", "--log_format=json"),
                      ("--log_format=json", f"--listen=unix:{self.folder}/none/s")):
            with self.subTest(flags):
                done = run_server("--device=cpu", *flags)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (2, 1), done.stderr)
                line = json.loads(done.stderr)
                self.assertEqual((line["level"], line["event"]), ("critical", "message"))
                self.assertIn("--no_such" if "--no_such_flag" in flags else flags[1].split("=")[0],
                              line["message"])

    def test_lines_of_calls_can_be_left_out(self):
        for level, lines in (("info", 1), ("warning", 0)):
            with self.subTest(level), Server(f"--log_level={level}") as server:
                self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
                self.assertEqual(server.stop(), 0)
                self.assertEqual(server.log().count(" info Reduce"), lines, server.log())
                self.assertEqual("draining" in server.log(), level == "info")

    def test_tells_systemd_when_it_serves_and_when_it_ends(self):
        for address in (f"{self.folder}/notify", f"\0warpfold-test-{os.getpid()}"):
            with self.subTest(address), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.settimeout(_LOG_TIMEOUT_S)
                manager.bind(address)
                with Server(environment={"NOTIFY_SOCKET": address.replace("\0", "@")}) as server:
                    self.assertEqual(manager.recv(64), b"READY=1")
                    self.assertEqual(server.stop(), 0)
                    self.assertEqual(manager.recv(64), b"STOPPING=1")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:  # reads nothing
            manager.bind(f"{self.folder}/full")
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
                filler.setblocking(False)
                with self.assertRaises(BlockingIOError):
                    while True:
                        filler.sendto(b"x", f"{self.folder}/full")
            with Server(environment={"NOTIFY_SOCKET": f"{self.folder}/full"}) as server:
                self.assertEqual(server.stop(), 0)
        for nobody in (f"{self.folder}/nobody", "/" + "x" * 200, ""):  # these are no reason not to serve
            with Server(environment={"NOTIFY_SOCKET": nobody}) as server:
                self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)

    def test_threads_are_for_the_processors_that_it_may_use(self):
        def threads(*prefix: str) -> int:
            with Server(prefix=prefix) as server:
                return len(os.listdir(f"/proc/{server.process.pid}/task"))

        processors = sorted(os.sched_getaffinity(0))
        if len(processors) == 1 or granted_processors() <= 1:
            self.skipTest("there is one processor")
        self.assertLess(threads("taskset", "-c", str(processors[0])), threads())

    def test_auto_takes_what_there_is(self):
        environment = {"CUDA_VISIBLE_DEVICES": ""} if DEVICE == "cpu" else {}
        with Server(device="auto", environment=environment) as server:
            self.assertIn("device=" + ("cpu" if DEVICE == "cpu" else "cuda:0 "), server.ready_line)
            self.assertEqual("taking the CPU" in server.log(), DEVICE == "cpu")

    def test_simt_runs_the_textbook_without_a_gpu(self):
        with Server(device="simt:7") as server:
            self.assertIn("device=simt:7 (slow", server.ready_line)
            for algorithm in ("last_block", "last_block_ordered", "cooperative_grid", "auto"):
                with self.subTest(algorithm):
                    self.assertEqual(
                        value(server.address, "sum", "--iota", "10000", "--algorithm", algorithm), 49995000)


class StreamTestCase(TestCase):
    def sum_of_stdin(self, server: Server, **pipes) -> subprocess.Popen:
        """A command line that waits for int32 elements."""
        return self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "int32", "-",
                          stdin=subprocess.PIPE, **pipes)


class LimitTest(StreamTestCase):
    def assert_ended(self, server: Server, client: subprocess.Popen, limit: str):
        self.assertEqual(client.wait(_LIMIT_TIMEOUT_S), 1)
        error = client.stderr.read().decode()
        self.assertIn("DEADLINE_EXCEEDED", error)
        self.assertIn(limit, error)
        self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)

    def test_a_client_that_falls_silent(self):
        with Server("--idle_timeout_seconds=1") as server:
            client = self.sum_of_stdin(server, stderr=subprocess.PIPE)
            with contextlib.suppress(BrokenPipeError):
                client.stdin.write(bytes(4 << 20))
                client.stdin.flush()
                await_log(server, "reason=IDLE")
                client.stdin.close()  # it looks for a response when it has read everything
            self.assert_ended(server, client, "idle_timeout_seconds = 1")

    def test_a_client_that_never_ends(self):
        with Server("--max_stream_seconds=2") as server:
            client = self.sum_of_stdin(server, stderr=subprocess.PIPE)
            deadline = time.monotonic() + _LIMIT_TIMEOUT_S
            with contextlib.suppress(BrokenPipeError):
                while client.poll() is None and time.monotonic() < deadline:
                    client.stdin.write(bytes(1 << 20))
                    time.sleep(0.05)
            self.assert_ended(server, client, "max_stream_seconds = 2")


class EndTest(StreamTestCase):
    def test_signals_drain(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server() as server:
                value(server.address, "sum", "--iota", "100")
                self.assertEqual(server.stop(number), 0)
                self.assertIn("drained", server.log())

    def test_who_can_connect_is_drained(self):
        path = str(self.folder / "first.socket")
        command = [os.environ["WARPFOLD_SERVER"], f"--listen=unix:{path}", f"--device={DEVICE}"]
        server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)  # before that
        with killed_after(_LIMIT_TIMEOUT_S, server), socket.socket(socket.AF_UNIX) as connection:
            while connection.connect_ex(path) != 0:
                self.assertIsNone(server.poll())
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)

    def test_finishes_the_array_under_way_while_draining(self):
        with Server("--admin_listen=127.0.0.1:0") as server:
            client = self.sum_of_stdin(server, stdout=subprocess.PIPE)
            client.stdin.write(numpy.ones(1 << 20, "<i4").tobytes())
            client.stdin.flush()
            await_reduction(server)
            begin_drain(server)
            time.sleep(0.5)  # a drain that waits for nobody would be over
            answer, _ = client.communicate(numpy.ones(5, "<i4").tobytes(), timeout=60)
            self.assertEqual((client.returncode, answer), (0, b"sum 1048581\n"))
            self.assertEqual(server.process.wait(60), 0)

    def test_finishes_a_striped_array_while_draining(self):
        with Server() as server:
            shown, terminal = open_terminal()
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--streams", "2",
                                "--iota", "200000000", stdout=subprocess.PIPE, stderr=terminal)
            os.close(terminal)
            with open(shown, "rb", buffering=0) as progress:
                await_share(progress, 60)  # more than a stripe: both are under way
                client.send_signal(signal.SIGSTOP)
            begin_drain(server)
            client.send_signal(signal.SIGCONT)
            answer, _ = client.communicate(timeout=60)
            self.assertEqual((client.returncode, answer), (0, b"sum 19999999900000000\n"))
            self.assertEqual(server.process.wait(60), 0)

    def test_a_hangup_changes_nothing(self):
        """Files are watched: a SIGHUP, with which other servers are asked to read theirs, must not end it."""
        with Server() as server:
            server.process.send_signal(signal.SIGHUP)
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)
            self.assertEqual(server.stop(), 0)

    def test_a_second_signal_ends_it_at_once(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            with Server("--drain_seconds=3600", "--admin_listen=127.0.0.1:0") as server:
                client = self.sum_of_stdin(server)
                client.stdin.write(bytes(4 << 20))
                client.stdin.flush()
                await_reduction(server)
                begin_drain(server)
                time.sleep(0.3)  # two signals in quick succession are one request
                self.assertEqual(server.stop(number), -number)
                server.kill()  # that exit code is not an error here

    def test_health_follows_the_server(self):
        with Server() as server:
            self.assertEqual(warpfold("health", "--target", server.address).returncode, 0)
        self.assert_exit(1, warpfold("health", "--target", server.address))

    def test_goes_on_when_nobody_reads_its_log(self):
        reader, writer = os.pipe()
        with Server(stderr=writer) as server:
            os.close(writer)
            os.close(reader)
            server.process.stdout.close()
            for _ in range(3):  # a line of log each
                self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)
            self.assertEqual(server.stop(), 0)

    def test_goes_on_when_its_log_is_a_full_pipe(self):
        reader, writer = full_pipe()
        with Server("--admin_listen=127.0.0.1:0", stderr=writer) as server:
            # Some thousand calls a second, each with a line of log, until no more lines are kept.
            deadline = time.monotonic() + _LIMIT_TIMEOUT_S
            while metric(server.ready_line, "warpfold_log_lines_dropped_total") == 0:
                self.assertLess(time.monotonic(), deadline)
                done = warpfold("bench", "--target", server.address, "--method", "array", "--bytes", "4000",
                                "--callers", "4", "--duration", "1", "--rounds", "1")
                self.assertEqual(done.returncode, 0, done.stderr)
            self.assertEqual(server.stop(), 0)
        os.close(writer)
        os.close(reader)

    def test_lines_that_a_full_disk_refuses_are_counted(self):
        with open("/dev/full", "wb") as full, Server("--admin_listen=127.0.0.1:0", stderr=full) as server:
            self.await_dropped(server, 2)  # those of the start
            for _ in range(3):
                self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)
            self.await_dropped(server, 5)

    def test_a_log_at_its_limit_is_no_end(self):
        with open(self.folder / "log", "wb") as log, \
                Server("--admin_listen=127.0.0.1:0", stderr=log, prefix=("prlimit", "--fsize=10")) as server:
            self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)
            self.await_dropped(server, 1)

    def await_dropped(self, server: Server, lines: float) -> None:
        deadline = time.monotonic() + _LIMIT_TIMEOUT_S
        while metric(server.ready_line, "warpfold_log_lines_dropped_total") < lines:
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.01)

    def test_serves_and_ends_when_its_output_is_a_full_pipe(self):
        reader, writer = full_pipe()
        path = f"unix:{self.folder}/s"
        server = subprocess.Popen([os.environ["WARPFOLD_SERVER"], f"--listen={path}", f"--device={DEVICE}"],
                                  stdout=writer, stderr=subprocess.DEVNULL)
        self.addCleanup(server.wait)
        self.addCleanup(server.kill)  # before that
        os.close(writer)
        with killed_after(_LIMIT_TIMEOUT_S, server):
            while warpfold("health", "--target", path).returncode != 0:
                self.assertIsNone(server.poll())
            self.assertEqual(value(path, "sum", "--iota", "1000"), 499_500)
            time.sleep(0.5)  # it has given up on a reader by then
            server.send_signal(signal.SIGTERM)
            self.assertEqual(server.wait(), 0)
        os.close(reader)

    def test_goes_on_when_clients_vanish(self):
        with Server() as server:
            for _ in range(10):
                client = self.sum_of_stdin(server)
                client.stdin.write(bytes(4 << 20))
                client.stdin.flush()
                client.kill()
                client.wait()
            self.assertEqual(value(server.address, "sum", "--iota", "1000"), 499_500)


if __name__ == "__main__":
    unittest.main()
