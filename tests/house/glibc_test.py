# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Tests deploy/check_glibc.sh, which keeps a promise of README.md, on executables of this machine."""

import shutil
import subprocess
import unittest

import tree


def check(version: str, executable: str) -> subprocess.CompletedProcess:
    return subprocess.run([tree.ROOT / "deploy/check_glibc.sh", version, executable],
                          capture_output=True, text=True, timeout=60, check=False)


@unittest.skipUnless(shutil.which("objdump"), "reads symbols with objdump")
class GlibcTest(unittest.TestCase):
    def test_what_needs_a_newer_one_is_refused(self):
        self.assertEqual(check("99.9", "/bin/true").returncode, 0)
        done = check("2.2", "/bin/true")
        self.assertEqual(done.returncode, 1)
        self.assertIn("newer than 2.2:", done.stderr)

    def test_other_libraries_are_refused(self):
        done = check("99.9", shutil.which("objdump"))  # libbfd's
        self.assertEqual(done.returncode, 1)
        self.assertIn("libbfd", done.stderr)

    def test_what_is_no_executable_is_refused(self):
        self.assertNotEqual(check("99.9", __file__).returncode, 0)

    def test_ci_checks_what_the_readme_says(self):
        self.assertIn("glibc 2.36", " ".join((tree.ROOT / "README.md").read_text(encoding="utf-8").split()))
        self.assertIn("check_glibc.sh 2.36", (tree.ROOT / ".ci/run").read_text(encoding="utf-8"))


if __name__ == "__main__":
    unittest.main()
