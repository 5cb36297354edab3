# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What a shell sees of the two processes: lines, exit codes, addresses, and how soon they end."""

import os
import pathlib
import signal
import socket
import subprocess
import tempfile
import time
import unittest

from executables import DEVICE, Server, reduce, value, warpfold


class ProcessTest(unittest.TestCase):
    def test_ready_line_names_address_and_device(self):
        with Server() as server:
            words = server.ready_line.split(" ", 2)
            self.assertEqual(words[0], "READY")
            self.assertRegex(words[1], r"^listen=127\.0\.0\.1:[1-9][0-9]*$")
            expected = "cpu" if DEVICE == "cpu" else DEVICE + " "
            self.assertTrue(words[2].startswith("device=" + expected), server.ready_line)
            self.assertEqual(reduce(server.address, "--op", "sum", "--iota", "10")["device"],
                             words[2].removeprefix("device="))

    def test_unix_socket(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "warpfold.sock"
            with Server(listen=f"unix:{path}") as server:
                self.assertEqual(server.address, f"unix:{path}")
                self.assertEqual(value(server.address, "sum", "--iota", "1000000"), 499999500000)
            self.assertFalse(path.exists())

    def test_two_addresses_at_once(self):
        with tempfile.TemporaryDirectory() as folder:
            with Server(listen=f"127.0.0.1:0,unix:{folder}/s") as server:
                for address in server.address.split(","):
                    self.assertEqual(value(address, "max", "--iota", "1000"), 999)

    def test_signals_drain(self):
        for number in (signal.SIGTERM, signal.SIGINT):
            server = Server()
            value(server.address, "sum", "--iota", "100")
            self.assertEqual(server.stop(number), 0)

    def test_health_follows_the_server(self):
        with Server() as server:
            self.assertEqual(warpfold("health", "--target", server.address).returncode, 0)
        self.assertEqual(warpfold("health", "--target", server.address).returncode, 1)

    def test_address_in_use(self):
        with Server() as server:
            with self.assertRaisesRegex(RuntimeError, "exit [1-9]"):
                Server(listen=server.address)

    def test_device_that_is_not_there(self):
        with self.assertRaisesRegex(RuntimeError, "exit 3"):
            Server(device="cuda:99")

    def test_auto_takes_what_there_is(self):
        environment = {"CUDA_VISIBLE_DEVICES": ""} if DEVICE == "cpu" else {}
        with Server(device="auto", environment=environment) as server:
            self.assertIn("device=" + ("cpu" if DEVICE == "cpu" else "cuda:0 "), server.ready_line)
            self.assertEqual("taking the CPU" in server.log(), DEVICE == "cpu")

    @unittest.skipIf(DEVICE == "cpu", "needs a GPU")
    def test_auto_does_not_hide_a_gpu_that_cannot_be_used(self):
        # CUDA reserves more address space than this process may have.
        done = subprocess.run(["prlimit", f"--as={8 << 30}", os.environ["WARPFOLD_SERVER"],
                               "--listen=127.0.0.1:0", "--device=auto"],
                              capture_output=True, timeout=60, check=False)
        self.assertEqual(done.returncode, 3, done.stderr)

    def test_bad_flags(self):
        server = os.environ["WARPFOLD_SERVER"]
        for flag in ("--device=gpu", "--slots=0", "--no_such_flag", "--slot_bytes=many", "--cpu_threads=-1"):
            done = subprocess.run([server, "--listen=127.0.0.1:0", flag], capture_output=True, timeout=60,
                                  check=False)
            self.assertEqual(done.returncode, 2, flag)
            self.assertTrue(done.stderr, flag)

    def test_errors_of_the_server_exit_1_with_the_status_name(self):
        with Server("--max_stream_bytes=1000000") as server:
            cases = {"OUT_OF_RANGE": ["--op", "product", "--dtype", "int32", "--random", "100"],
                     "INVALID_ARGUMENT": ["--op", "bit_and", "--dtype", "float32", "--random", "10"],
                     "RESOURCE_EXHAUSTED": ["--op", "sum", "--dtype", "int64", "--iota", "1000000"]}
            for name, arguments in cases.items():
                done = warpfold("reduce", "--target", server.address, *arguments)
                self.assertEqual(done.returncode, 1, name)
                self.assertIn(name.encode(), done.stderr)
                self.assertEqual(done.stdout, b"")
            done = warpfold("reduce", "--target", server.address, "--op", "min", "--dtype", "int32", "-",
                            stdin=b"")
            self.assertEqual((done.returncode, b"INVALID_ARGUMENT" in done.stderr), (1, True))
            # The server goes on.
            self.assertEqual(value(server.address, "sum", "--iota", "10"), 45)

    def test_nobody_listens(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            address = "127.0.0.1:%d" % unused.getsockname()[1]
            done = warpfold("reduce", "--target", address, "--op", "sum", "--iota", "10")
        self.assertEqual(done.returncode, 1)
        self.assertIn(b"UNAVAILABLE", done.stderr)

    def test_exits_within_100_ms_of_the_answer(self):
        """200 runs, because the fault that this guards against is one of chance."""
        command = [os.environ["WARPFOLD_CLI"], "reduce", "--op", "sum", "--iota", "1000", "--target"]
        late = []
        with Server() as server:
            for _ in range(200):
                process = subprocess.Popen([*command, server.address], stdout=subprocess.PIPE)
                answer = process.stdout.readline()
                begin = time.monotonic()
                self.assertEqual(process.wait(60), 0)
                process.stdout.close()
                self.assertEqual(answer, b"sum 499500\n")
                late.append(time.monotonic() - begin)
        # A busy machine may hold up a process or two; the fault would hold up many, for ten seconds.
        late.sort()
        self.assertLess(late[-4], 0.1, late[-5:])
        self.assertLess(late[-1], 5, late[-5:])


if __name__ == "__main__":
    unittest.main()
