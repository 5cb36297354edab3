# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What clang-format and shellcheck report. Skipped if they are not installed.

deploy/install_packages.sh test installs them.
"""

import shutil
import subprocess
import unittest

import tree

# Other versions format differently.
_CLANG_FORMAT = "clang-format-14"


def run(*command: str) -> str:
    """What the command complains about; empty if nothing."""
    done = subprocess.run(command, cwd=tree.ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          encoding="utf-8", check=False)
    return done.stdout if done.returncode else ""


@unittest.skipUnless(shutil.which(_CLANG_FORMAT), f"{_CLANG_FORMAT} is not installed")
class ClangFormat(unittest.TestCase):

    def test_sources_are_formatted(self):
        complaints = run(_CLANG_FORMAT, "--dry-run", "-Werror", *tree.cxx_files())
        if complaints:
            self.fail(f"\n{complaints}\nRemedy: {_CLANG_FORMAT} -i <file>")


@unittest.skipUnless(shutil.which("shellcheck"), "shellcheck is not installed")
class Shellcheck(unittest.TestCase):

    def test_scripts_are_clean(self):
        scripts = [path for path in tree.code_files() if tree.lines(path)[:1] == ["#!/usr/bin/env bash"]]
        self.assertIn("deploy/test.sh", scripts)
        complaints = run("shellcheck", *scripts)
        if complaints:
            self.fail(f"\n{complaints}")


if __name__ == "__main__":
    unittest.main()
