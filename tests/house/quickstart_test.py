# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What deploy/quickstart.sh asks cmake for: the cuda backend if there is a GPU, or if it is told to.

Scripts claim to be nvidia-smi, dpkg-query and cmake; the last writes down its arguments and fails.
"""

import os
import pathlib
import subprocess
import tempfile
import unittest

import tree

_CMAKE = """#!/bin/sh
printf '%s\\n' "$@" >"$ARGUMENTS"
exit 1
"""


class QuickstartTest(unittest.TestCase):

    def cache_entries(self, nvidia_smi: str, *arguments: str) -> dict[str, str]:
        """The variables that cmake is given; the last value of each name counts, as in cmake."""
        folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="warpfold_quickstart_")))
        written = folder / "arguments"
        for name, text in (("nvidia-smi", f"#!/bin/sh\n{nvidia_smi}\n"), ("cmake", _CMAKE),
                           ("dpkg-query", "#!/bin/sh\necho installed\n")):
            (folder / name).write_text(text, encoding="utf-8")
            (folder / name).chmod(0o755)
        environment = os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "ARGUMENTS": str(written)}
        done = subprocess.run([tree.ROOT / "deploy/quickstart.sh", *arguments], env=environment,
                              capture_output=True, text=True, timeout=60, check=False)
        self.assertNotEqual(done.returncode, 0, "cmake failed")
        self.assertTrue(written.exists(), done.stderr)
        entries = (a[2:].split("=", 1) for a in written.read_text(encoding="utf-8").split() if a[:2] == "-D")
        return dict(entries)

    def test_where_there_is_a_gpu(self):
        entries = self.cache_entries("echo 8.0; echo 9.0")
        self.assertEqual(entries["WARPFOLD_CUDA"], "AUTO")
        self.assertEqual(entries["CMAKE_CUDA_ARCHITECTURES"], "80-real")

    def test_where_there_is_none(self):
        for nvidia_smi in ("exit 127", "echo No devices were found; exit 6", "echo Failed to initialize NVML",
                           "exit 0"):
            with self.subTest(nvidia_smi):
                self.assertEqual(self.cache_entries(nvidia_smi)["WARPFOLD_CUDA"], "OFF")

    def test_arguments_decide(self):
        for told in ("ON", "OFF"):
            for nvidia_smi in ("exit 127", "echo 9.0"):
                with self.subTest(nvidia_smi, told=told):
                    entries = self.cache_entries(nvidia_smi, f"-DWARPFOLD_CUDA={told}")
                    self.assertEqual(entries["WARPFOLD_CUDA"], told)

    def test_on_without_a_gpu_is_for_one_architecture(self):
        entries = self.cache_entries("exit 127", "-DWARPFOLD_CUDA=ON")
        self.assertEqual(entries["CMAKE_CUDA_ARCHITECTURES"], "90-real")


if __name__ == "__main__":
    unittest.main()
