# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The CPU backend's benchmark runs for every element type and prints what it should. Speed is not tested."""

import json
import os
import pathlib
import subprocess
import sys
import unittest

_SCRIPT = pathlib.Path(__file__).with_name("beside_numpy.py")
_BENCH = pathlib.Path(os.environ["WARPFOLD_CPU_BENCH"])
_KEYS = {"bench", "algorithm", "operator", "dtype", "bytes", "gbps", "ceiling_gbps", "to_ceiling",
         "numpy_gbps", "to_numpy", "threads", "device", "commit", "date"}


class BesideNumpyTest(unittest.TestCase):

    def test_every_type(self):
        done = subprocess.run(
            [sys.executable, "-B", _SCRIPT, f"--bin={_BENCH.parent}", "--log2_bytes=12,17", "--threads=1,2",
             "--budget_ms=1", "--commit=abc", "--date=2026-01-31"],
            capture_output=True, text=True, check=True)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(done.stderr, "")
        dtypes = {line["dtype"] for line in lines}
        self.assertLessEqual({"int32", "float64", "bfloat16", "bool"}, dtypes)
        self.assertEqual(len(lines), len(dtypes) * 2 * 2)
        for line in lines:
            self.assertLessEqual(_KEYS, line.keys())
            self.assertEqual((line["bench"], line["operator"], line["commit"]), ("cpu", "sum", "abc"))
            self.assertGreater(line["gbps"], 0)
            self.assertGreater(line["ceiling_gbps"], 0)
            # NumPy has no bfloat16.
            self.assertEqual(line["numpy_gbps"] is None, line["dtype"] == "bfloat16")

    def test_what_cannot_be_reduced_is_named(self):
        done = subprocess.run([_BENCH, "--operators=bit_and", "--dtypes=float32", "--log2_bytes=12"],
                              capture_output=True, text=True, check=True)
        self.assertEqual(done.stdout, "")
        self.assertIn("left out: bit_and of float32", done.stderr)

    def test_bad_flags(self):
        for flag in ("--dtypes=int7", "--log2_bytes=99", "--threads=-1"):
            with self.subTest(flag=flag):
                done = subprocess.run([_BENCH, flag], capture_output=True, check=False)
                self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
