# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""`warpfold bench` against a server, and beside its sinks: complete lines whose figures agree."""

import contextlib
import csv
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import time
import unittest
import unittest.mock

from executables import DEVICE, Server, TestCase, warpfold

_SIDES = ["warpfold", "raw_socket", "async_copy", "async_drop", "async_hold", "plain_service"]
_SHORT = ("--rounds", "2", "--duration", "0.2", "--warm_up", "0.05", "--memory_bytes", str(1 << 24))
_METHODS = {
    "reduce": ("--bytes", str(1 << 22), "--streams", "2", "--chunk_bytes", str(1 << 18)),
    "array": ("--bytes", "4096", "--callers", "3"),
    "info": (),
    "health": ("--pause_ms", "1"),
}
# Null if a call has no array, or the server's process is not known.
_MAY_BE_NULL = {"client_cpu_s_per_gb", "server_cpu_s_per_gb", "server_cpu_us_per_call", "set_up_ms"}


def bench(*arguments: str, **process) -> list[dict]:
    done = warpfold("bench", "--json", *_SHORT, *arguments, **process)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def children_of(parent: int) -> list[int]:
    """The children that run: processes that have ended and wait for their parent do not count."""
    children = []
    for path in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # ended meanwhile
            state, its_parent = path.read_text(encoding="utf-8").rpartition(")")[2].split()[:2]
            if int(its_parent) == parent and state != "Z":
                children.append(int(path.parent.name))
    return children


def runs(pid: int) -> bool:
    with contextlib.suppress(OSError):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
        return stat.rpartition(")")[2].split()[0] != "Z"
    return False


def has_epoll_set(pid: int) -> bool:
    """With gRPC's default the process has one; with its strategy `poll` it has none (docs/adr/0029, 0123)."""
    for path in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):  # closed meanwhile
            if os.readlink(path) == "anon_inode:[eventpoll]":
                return True
    return False


class BenchTest(TestCase):

    @classmethod
    def setUpClass(cls):
        cls.server = cls.enterClassContext(Server())

    def assert_consistent(self, line: dict) -> None:
        self.assertGreaterEqual(line["calls"], line["rounds"])
        self.assertEqual(line["total_bytes"], line["calls"] * line["bytes"])
        self.assertEqual({key for key, value in line.items() if value is None} - _MAY_BE_NULL, set())
        self.assertLessEqual(line["p50_us"], line["p90_us"])
        self.assertLessEqual(line["p90_us"], line["p99_us"])
        self.assertLessEqual(line["p99_us"], line["p999_us"])
        self.assertLessEqual(line["p999_us"], line["max_us"])
        self.assertLessEqual(line["max_us"], line["seconds"] * 1e6)
        for rate, total in (("gbps", line["total_bytes"] * 1e-9), ("calls_per_s", line["calls"])):
            self.assertLessEqual(line[f"{rate}_min"], line[rate])
            self.assertLessEqual(line[rate], line[f"{rate}_max"])
            # The mean over all rounds lies between the slowest and the fastest.
            self.assertGreaterEqual(total / line["seconds"], line[f"{rate}_min"] * 0.999)
            self.assertLessEqual(total / line["seconds"], line[f"{rate}_max"] * 1.001)
        self.assertGreater(line["client_cpu_us_per_call"], 0)

    def test_every_method_beside_the_sinks(self):
        pid = str(self.server.process.pid)
        for method, arguments in _METHODS.items():
            with self.subTest(method):
                lines = bench("--target", self.server.address, "--server_pid", pid, "--baseline",
                              "--method", method, *arguments)
                self.assertEqual([line["side"] for line in lines], _SIDES)
                for line in lines:
                    self.assert_consistent(line)
                    self.assertEqual((line["method"], line["transport"]), (method, "tcp"))
                    self.assertEqual(list(line), list(lines[0]))
                    self.assertIsNotNone(line["server_cpu_us_per_call"])
                    self.assertAlmostEqual(line["rate_ratio"] * line["calls_per_s"], lines[0]["calls_per_s"],
                                           delta=lines[0]["calls_per_s"] * 1e-3)
                self.assertEqual(lines[0]["rate_ratio"], 1)

    def test_a_server_of_its_own(self):
        for transport in ("tcp", "unix"):
            line, = bench("--server", os.environ["WARPFOLD_SERVER"], "--transport", transport,
                          "--server_flags", f"--device={DEVICE} --slots=2", "--bytes", "200000")
            self.assert_consistent(line)
            self.assertEqual((line["side"], line["transport"]), ("warpfold", transport))
            self.assertIsNotNone(line["server_cpu_s_per_gb"])
            self.assertGreater(line["receive_us"], 0)
            self.assertTrue(line["device"].startswith(DEVICE), line["device"])

    def test_generated_classes_beside_the_library(self):
        lines = bench("--target", self.server.address, "--generated", "--bytes", "1000000", "--callers", "2",
                      "--op", "min,argmax")
        self.assertEqual([line["side"] for line in lines], ["warpfold", "generated"])
        for line in lines:
            self.assert_consistent(line)
            self.assertEqual(line["device"], lines[0]["device"])

    def test_segments(self):
        for source in ("chunks", "resident"):
            line, = bench("--server", os.environ["WARPFOLD_SERVER"],
                          "--server_flags", f"--device={DEVICE}", "--source", source, "--bytes", "200000",
                          "--segment_length", "50")
            self.assert_consistent(line)
            self.assertEqual((line["segment_length"], line["source"]), (50, source))

    def test_results_of_segments_that_are_not_sent(self):
        for source in ("memory", "resident"):
            line, = bench("--server", os.environ["WARPFOLD_SERVER"],
                          "--server_flags", f"--device={DEVICE}", "--source", source, "--bytes", "200000",
                          "--segment_length", "50", "--results", "shared", "--op", "sum,argmax")
            self.assert_consistent(line)
            self.assertEqual((line["segment_length"], line["source"]), (50, source))
            self.assertEqual(line["results"], "shared")

    def test_more_callers_than_a_user_may_have_connections_or_descriptors(self):
        line, = bench("--server", os.environ["WARPFOLD_SERVER"], "--server_flags", f"--device={DEVICE}",
                      "--source", "memory", "--callers", "150", "--bytes", "4096",
                      preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 4096)))
        self.assert_consistent(line)

    def test_a_pause_after_the_last_call_does_not_count(self):
        line, = bench("--target", self.server.address, "--method", "health", "--pause_ms", "60000")
        self.assertLess(line["seconds"], 60)

    def test_sinks_over_a_unix_socket(self):
        with Server(listen=f"unix:{self.folder}/socket") as server:
            lines = bench("--target", server.address, "--baseline", "--bytes", "1000000")
        self.assertEqual([line["side"] for line in lines], _SIDES)
        self.assertEqual({line["transport"] for line in lines}, {"unix"})

    def test_csv_and_table(self):
        arguments = ("bench", "--target", self.server.address, "--method", "health", "--baseline", *_SHORT)
        done = warpfold(*arguments, "--csv")
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([row["side"] for row in rows], _SIDES)
        self.assertGreater(float(rows[0]["p50_us"]), 0)
        table = warpfold(*arguments).stdout
        for side in _SIDES:
            self.assertIn(side, table)

    def test_who_waits_for_its_own_sockets(self):
        process = self.start("bench", "--target", self.server.address, "--baseline", "--method", "health",
                             "--duration", "60", stdout=subprocess.DEVNULL)
        self.wait_for(lambda: len(children_of(process.pid)) == len(_SIDES) - 1)
        sinks = {pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[2].decode(): pid
                 for pid in children_of(process.pid)}
        self.wait_for(lambda: has_epoll_set(sinks["plain_service"]))
        for side in ("async_copy", "async_drop", "async_hold"):
            self.assertFalse(has_epoll_set(sinks[side]), side)
        self.assertFalse(has_epoll_set(process.pid))
        process.kill()

    def test_sinks_end_with_a_bench_that_is_killed(self):
        process = self.start("bench", "--target", self.server.address, "--baseline", "--method", "health",
                             "--duration", "60", stdout=subprocess.DEVNULL)
        self.wait_for(lambda: len(children_of(process.pid)) == len(_SIDES) - 1)
        sinks = children_of(process.pid)
        process.kill()
        self.wait_for(lambda: not any(map(runs, sinks)))

    def test_a_bench_that_is_interrupted_leaves_no_folder(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number=number):
                with unittest.mock.patch.dict(os.environ, TMPDIR=str(self.folder)):
                    process = self.start("bench", "--server", os.environ["WARPFOLD_SERVER"], "--server_flags",
                                         "--device=cpu", "--transport", "unix", "--baseline", "--method",
                                         "health", "--duration", "60", stdout=subprocess.DEVNULL)
                self.wait_for(lambda parent=process.pid: len(children_of(parent)) == len(_SIDES))
                self.wait_for(lambda: len(list(self.folder.glob("warpfold_bench_*/*"))) == len(_SIDES))
                children = children_of(process.pid)
                process.send_signal(number)
                self.assertEqual(process.wait(60), -number)
                self.wait_for(lambda these=children: not any(map(runs, these)))
                self.assertEqual(list(self.folder.glob("warpfold_bench_*")), [])

    def test_sinks_end_in_an_orderly_way(self):
        """Otherwise nobody learns which lines they ran, as with processes that are killed."""
        for sink in _SIDES[1:]:
            for listen in ("127.0.0.1:0", f"unix:{self.folder}/{sink}"):
                with self.subTest(sink, listen=listen):
                    process = self.start("bench-sink", sink, "--listen", listen, stdout=subprocess.PIPE)
                    self.assertTrue(process.stdout.readline().startswith(b"READY listen="))
                    process.terminate()
                    self.assertEqual(process.wait(60), 0)

    def wait_for(self, condition) -> None:
        deadline = time.monotonic() + 20
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            time.sleep(0.05)

    def test_streams_as_the_server_advises(self):
        lines = bench("--target", self.server.address, "--bytes", str(1 << 24), "--streams", "0")
        self.assertEqual([line["side"] for line in lines], ["warpfold"])
        self.assertEqual(lines[0]["streams"], 0)

    def test_bad_options(self):
        target = ("--target", self.server.address)
        for arguments in (("--method", "sum"), ("--source", "ipc"), ("--bytes", "4096"),
                          ("--bytes", "1000001"), ("--streams", "2", "--method", "array"),
                          ("--chunk_bytes", "5000"), ("--json", "--csv"), ("--callers", "0"),
                          ("--server", os.environ["WARPFOLD_SERVER"])):
            self.assert_exit(2, warpfold("bench", *target, *arguments), arguments[0])
        self.assert_exit(2, warpfold("bench", "--server", str(self.folder / "none")), "--server")

    def test_no_server(self):
        nobody = ("--target", f"unix:{self.folder}/nobody", "--method", "health")
        self.assert_exit(1, warpfold("bench", *nobody, *_SHORT), "UNAVAILABLE")
        refuses = ("--server", os.environ["WARPFOLD_SERVER"], "--server_flags", "--device=none")
        self.assert_exit(1, warpfold("bench", *refuses, *_SHORT), "did not get ready",
                         "exit code 2: --device: ")

    def test_servers_that_do_not_start(self):
        plain = self.file("plain", b"not a program")
        script = self.folder / "script"
        script.write_text("#!/bin/sh\nseq 100000 >&2\necho nothing to serve >&2\nkill -9 $$\n")
        script.chmod(0o755)
        for server, why in (("/bin/true", "exit code 0\n"), (plain, "exit code 127: Permission denied\n"),
                            (str(script), "signal 9: ")):
            done = warpfold("bench", "--server", server, "--method", "health", *_SHORT)
            self.assert_exit(1, done, f"{server} did not get ready to take calls, {why}")

    def test_errors_of_a_side(self):
        done = warpfold("bench", "--target", self.server.address, "--op", "sum,sum", "--bytes", "100000",
                        *_SHORT)
        self.assert_exit(1, done, "INVALID_ARGUMENT (BAD_HEADER): side warpfold: operators: names sum twice")


if __name__ == "__main__":
    unittest.main()
