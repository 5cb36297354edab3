# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What ADR 60 says of a new operator stays true: its example applies to the tree, and touches no more."""

import re
import subprocess
import unittest

import tree

_EXAMPLE = tree.ROOT / "docs/adr/0060-gcd.diff"
# A header, an entry of the list, a value of the enumeration, a row of the documented table.
_PLACES = ["docs/operators.md", "kernels/operators/gcd.h", "kernels/operators/operator_list.h",
           "proto/warpfold/v1/reduction.proto"]


class NewOperatorTest(unittest.TestCase):

    def test_the_example_changes_four_places(self):
        self.assertEqual(re.findall(r"^\+\+\+ b/(.+)$", _EXAMPLE.read_text(), re.MULTILINE), _PLACES)

    def test_the_example_applies(self):
        # Lines may have moved, but those around a change must be as they were.
        done = subprocess.run(["patch", "--dry-run", "--force", "--fuzz=0", "-p1", "-d", str(tree.ROOT)],
                              input=_EXAMPLE.read_text(), text=True, capture_output=True, check=False)
        self.assertEqual(done.returncode, 0, "docs/adr/0060-gcd.diff no longer applies:\n" + done.stdout +
                         "Remedy: apply it to a copy of the tree by hand, try it, and make the diff anew.")


if __name__ == "__main__":
    unittest.main()
