# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Each breakage of tests/mutation/breakages.py finds its place in the sources: otherwise it cannot be run."""

import sys
import unittest
from typing import Iterable

import tree

sys.path.insert(0, str(tree.ROOT / "tests/mutation"))
from breakages import BREAKAGES, Breakage  # noqa: E402


def complaints(breakages: Iterable[Breakage], texts: dict[str, str]) -> list[str]:
    """`texts` are those of the files, by path."""
    return [f"{breakage.name!r} finds its place {count} times in {breakage.file}. Remedy: describe it anew."
            for breakage in breakages if (count := texts.get(breakage.file, "").count(breakage.before)) != 1]


class BreakagesTest(unittest.TestCase):

    def test_each_finds_its_place(self):
        texts = {breakage.file: "\n".join(tree.lines(breakage.file)) + "\n" for breakage in BREAKAGES}
        self.assertEqual(complaints(BREAKAGES, texts), [])


class RulesCatchBreakersTest(unittest.TestCase):

    def test_breakers(self):
        breakage = Breakage("a", "a.cc", "x = 1;", "x = 2;", "warpfold-server", "a_test.py A.test_a")
        self.assertEqual(complaints([breakage], {"a.cc": "x = 1;\n"}), [])
        self.assertEqual(len(complaints([breakage], {"a.cc": "x = 2;\n"})), 1)
        self.assertEqual(len(complaints([breakage], {"a.cc": "x = 1;\nx = 1;\n"})), 1)
        self.assertEqual(len(complaints([breakage], {})), 1)


if __name__ == "__main__":
    unittest.main()
