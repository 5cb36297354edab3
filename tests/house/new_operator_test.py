# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What ADR 60 says about a new operator stays true: its example applies, touches no more, and compiles."""

import pathlib
import re
import shutil
import subprocess
import tempfile
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

    def test_the_example_compiles(self):
        self.assertNotIn("error:", _errors_of(), "with docs/adr/0060-gcd.diff")

    def test_an_operator_that_is_not_classified_does_not_compile(self):
        for property_name in ["kCommutative", "kHasIdentity"]:
            with self.subTest(property_name):
                errors = _errors_of(without=f"static constexpr bool {property_name} =")
                self.assertIn(property_name, errors)
                self.assertIn("concept", errors)


def _errors_of(without=None):
    """What the compiler says of the CPU backend's code for the example, in which the operator's concept and
    its traits are checked. `without` is the start of a line of its header to leave out."""
    with tempfile.TemporaryDirectory() as copy:
        for folder in ["kernels", "proto"]:
            shutil.copytree(tree.ROOT / folder, pathlib.Path(copy, folder))
        pathlib.Path(copy, "docs").mkdir()
        shutil.copy(tree.ROOT / "docs/operators.md", pathlib.Path(copy, "docs"))
        subprocess.run(["patch", "--force", "--silent", "-p1", "-d", copy], input=_EXAMPLE.read_text(),
                       text=True, check=True)
        if without is not None:
            header = pathlib.Path(copy, "kernels/operators/gcd.h")
            lines = header.read_text().splitlines(keepends=True)
            kept = [line for line in lines if not line.strip().startswith(without)]
            assert len(kept) == len(lines) - 1, without
            header.write_text("".join(kept))
        row = (tree.ROOT / "kernels/row.in").read_text()
        for name, value in {"row_PRELUDE": "#define WARPFOLD_ISA baseline\n", "row_LEAF": "",
                            "row_ROW_OF": "kernels/cpu/row_of.h", "row_FUNCTION": "Row& RowOf",
                            "row_NAMESPACE": "warpfold::kernels::cpu::baseline", "header": "gcd",
                            "kind": "ScalarFamily", "family": "Gcd"}.items():
            row = row.replace(f"@{name}@", value)
        source = pathlib.Path(copy, "gcd.cc")
        source.write_text(row + '#include "kernels/operators/operator_list.h"\n')
        done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", f"-I{copy}", source], text=True,
                              capture_output=True, check=False)
        assert (done.returncode == 0) == ("error:" not in done.stderr), done.returncode
        return done.stderr


if __name__ == "__main__":
    unittest.main()
