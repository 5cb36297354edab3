# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The systemd unit, judged by systemd's own tools. Skipped where they are not installed."""

import configparser
import pathlib
import shutil
import subprocess
import tempfile
import unittest

_UNIT = pathlib.Path(__file__).resolve().parents[2] / "deploy/systemd/warpfold-server.service"
# systemd-analyze's exposure level, in tenths: 0 is no exposure, 96 a service without any sandbox.
_MOST_EXPOSED = 20


def analyze(*arguments: str) -> subprocess.CompletedProcess:
    return subprocess.run(["systemd-analyze", *arguments], check=False, capture_output=True, text=True)


@unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
class UnitTest(unittest.TestCase):

    def verify(self, text: str) -> str:
        """What systemd says of the unit, with an executable that is there."""
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


if __name__ == "__main__":
    unittest.main()
