# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What WARPFOLD_CUDA does if nvcc is too old: with a script that claims to be nvcc, in a tiny project."""

import os
import pathlib
import subprocess
import tempfile
import unittest

import tree

_NVCC = """#!/bin/sh
echo "nvcc: NVIDIA (R) Cuda compiler driver"
echo "Cuda compilation tools, release {0}, V{0}.131"
"""
_PROJECT = f"""cmake_minimum_required(VERSION 3.25)
project(cuda_option LANGUAGES NONE)
include({tree.ROOT.as_posix()}/cmake/WarpfoldCuda.cmake)
message(STATUS "have=${{WARPFOLD_HAVE_CUDA}}")
"""


class CudaOptionTest(unittest.TestCase):

    def configure(self, version: str, option: str, by_path: bool) -> subprocess.CompletedProcess:
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="warpfold_cuda_")))
        nvcc = folder / "nvcc"
        nvcc.write_text(_NVCC.format(version), encoding="utf-8")
        nvcc.chmod(0o755)
        (folder / "CMakeLists.txt").write_text(_PROJECT, encoding="utf-8")
        environment = {key: value for key, value in os.environ.items() if key != "CUDACXX"}
        if by_path:
            environment["PATH"] = f"{folder}:{environment['PATH']}"
        else:
            environment["CUDACXX"] = str(nvcc)
        # Not the default generator: make need not be installed.
        command = ["cmake", "-G", "Ninja", "-S", folder, "-B", folder / "build", f"-DWARPFOLD_CUDA={option}"]
        return subprocess.run(command,
                              env=environment, capture_output=True, text=True, timeout=60, check=False)

    def test_auto_goes_without_an_old_nvcc(self):
        for version in ("9.2", "12.4", "12.9"):
            for by_path in (True, False):
                with self.subTest(version, by_path=by_path):
                    done = self.configure(version, "AUTO", by_path)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    self.assertIn("have=FALSE", done.stdout)
                    self.assertIn("cuda backend: not built, there is no nvcc of CUDA 13.0 or later",
                                  done.stdout)
                    self.assertIn(f"is of CUDA {version}", done.stdout)

    def test_on_demands_a_new_one(self):
        done = self.configure("12.4", "ON", by_path=True)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("is of CUDA 12.4", " ".join(done.stderr.split()))


if __name__ == "__main__":
    unittest.main()
