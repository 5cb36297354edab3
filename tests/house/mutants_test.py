# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Each test that tests/mutation/tests_of.py names exists, since mutate.py ignores others."""

import pathlib
import sys
import unittest
from typing import Iterable

import tree

sys.path.insert(0, str(tree.ROOT / "tests/mutation"))
from tests_of import SERVED, TESTS  # noqa: E402


def complaints(tests: Iterable[str], files: set[str]) -> list[str]:
    """`files` are the names of all files of tests. An executable has the name of its source, or that name
    after the name of its folder: server_turns_test."""
    def is_there(test: str) -> bool:
        if test.endswith(".py"):
            return test in files
        return any(f"{name}.cc" in files for name in (test, test.partition("_")[2]))
    return [f"There is no {test}. Remedy: name the test that took its place in tests_of.py."
            for test in tests if not is_there(test)]


class MutantsTest(unittest.TestCase):

    def test_their_tests_are_there(self):
        tests = sorted({test for entries in (TESTS, SERVED) for some in entries.values() for test in some})
        files = {pathlib.PurePath(file).name for file in tree.files() if file.startswith("tests/")}
        self.assertEqual(complaints(tests, files), [])


class RulesCatchBreakersTest(unittest.TestCase):

    def test_breakers(self):
        files = {"turns_test.cc", "wire_test.cc", "log_test.py"}
        self.assertEqual(complaints(["server_turns_test", "wire_test", "log_test.py"], files), [])
        self.assertEqual(len(complaints(["server_call_test", "call_test", "call_test.py"], files)), 3)


if __name__ == "__main__":
    unittest.main()
