# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The systemd unit, judged by systemd's own tools. Skipped if they are not installed.

Environment: WARPFOLD_SERVER, WARPFOLD_CLI.
"""

import configparser
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import unittest

_UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd/warpfold-server.service"
# systemd-analyze's exposure level, in tenths: 0 is no exposure, 96 a service without any sandbox.
_MOST_EXPOSED = 20


def analyze(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True)


def system_calls(group: str) -> set[str]:
    """The system calls of one of systemd's groups, such as "@system-service"."""
    names = re.findall(r"^ {4}(@?\w[\w-]*)$", analyze("syscall-filter", group).stdout, re.MULTILINE)
    return set().union(*(system_calls(name) if name.startswith("@") else {name} for name in names))


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
class UnitTest(unittest.TestCase):

    def verify(self, text: str) -> str:
        """What systemd says about the unit, with an executable that exists."""
        with tempfile.TemporaryDirectory(prefix="warpfold_unit_") as folder:
            path = pathlib.Path(folder) / _UNIT.name
            path.write_text(text.replace("ExecStart=warpfold-server", "ExecStart=/bin/true"))
            done = analyze("verify", "--man=no", "--recursive-errors=no", str(path))
            return done.stderr if done.returncode or _UNIT.name in done.stderr else ""

    def test_verify(self):
        self.assertEqual(self.verify(_UNIT.read_text()), "")

    def test_verify_finds_faults(self):
        self.assertIn("Unknown key", self.verify(_UNIT.read_text().replace("RestartSec", "RestartSeconds")))

    def test_sandbox(self):
        done = analyze("security", "--offline=true", f"--threshold={_MOST_EXPOSED}", str(_UNIT))
        self.assertEqual(done.returncode, 0, done.stdout)
        weak = _UNIT.read_text().replace("ProtectSystem=strict", "").replace("CapabilityBoundingSet=\n", "")
        with tempfile.TemporaryDirectory(prefix="warpfold_unit_") as folder:
            path = pathlib.Path(folder) / _UNIT.name
            path.write_text(weak)
            self.assertNotEqual(analyze("security", "--offline=true", f"--threshold={_MOST_EXPOSED}",
                                        str(path)).returncode, 0)

    @unittest.skipUnless(shutil.which("strace"), "strace is not installed")
    def test_what_the_server_asks_of_the_kernel(self):
        """A call that the unit forbids would end the process. On the CPU: a GPU's driver needs more calls."""
        filters = re.findall(r"^SystemCallFilter=(~?)(\S+)$", _UNIT.read_text(), re.MULTILINE)
        self.assertEqual([sign for sign, _ in filters], ["", "~"])
        allowed = system_calls(filters[0][1]) - system_calls(filters[1][1])
        self.assertGreater(len(allowed), 200)
        with tempfile.TemporaryDirectory(prefix="warpfold_unit_") as folder:
            used = self.used_by_a_server(folder)
        self.assertGreater(len(used), 20)
        self.assertEqual(used - allowed, set())

    def used_by_a_server(self, folder: str) -> set[str]:
        """System calls of a server that reduces an array, opens a memory socket and drains."""
        trace, address = f"{folder}/trace", f"unix:{folder}/grpc"
        server = subprocess.Popen(
            ["strace", "-f", "-qq", "-o", trace, os.environ["WARPFOLD_SERVER"], f"--listen={address}",
             "--device=cpu", f"--memory_socket={folder}/memory", "--resident_bytes=65536"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.assertIn("READY", server.stdout.readline())
            sum_of = [os.environ["WARPFOLD_CLI"], "reduce", "--target", address, "--op", "sum", "--iota", "9"]
            self.assertEqual(subprocess.run(sum_of, check=True, capture_output=True).stdout, b"sum 36\n")
            pid = pathlib.Path(trace).read_text().split()[0]
            os.kill(int(pid), signal.SIGTERM)
            self.assertEqual(server.wait(60), 0)
        finally:
            server.kill()
            server.wait()
            server.stdout.close()
        return set(re.findall(r"^\d+ +(\w+)\(", pathlib.Path(trace).read_text(), re.MULTILINE))

    def test_contract_of_the_process(self):
        """Its exit codes and its drain: docs/operating.md."""
        unit = configparser.ConfigParser(strict=False, interpolation=None)
        unit.optionxform = str
        unit.read(_UNIT)
        service = unit["Service"]
        self.assertEqual(service["RestartForceExitStatus"], "4")
        self.assertEqual(service["RestartPreventExitStatus"], "2")
        self.assertGreater(int(service["TimeoutStopSec"]), 25)
        self.assertNotEqual(service["User"], "root")
        # Things that come late are waited for, but not in a loop that keeps the machine busy.
        self.assertEqual(unit["Unit"]["StartLimitIntervalSec"], "0")
        self.assertGreaterEqual(int(service["RestartSec"]), 5)
        # The server reports when it serves: server_process_test.py.
        self.assertEqual(service["Type"], "notify")

    def test_the_module_that_cuda_needs(self):
        """A program that is missing is not a failure, and one that is there has the privileges it needs."""
        text = _UNIT.read_text()
        self.assertIn("\nExecStartPre=-+/usr/bin/nvidia-modprobe -u -c 0\n", text)
        for devices in ("char-nvidia", "char-nvidia-frontend", "char-nvidia-uvm"):
            self.assertIn(f"\nDeviceAllow={devices} rwm\n", text)


if __name__ == "__main__":
    unittest.main()
