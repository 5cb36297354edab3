# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""A backend's own way of folding an operator's leaves is found by its file's name, and cannot be forgotten.

The header of the primary template declares every specialisation, so that code without the include does not
compile. These rules compare the declarations with the files.
"""

import re
import unittest
from pathlib import PurePath

import tree

# The primary template, its header, and the folder of its specialisations.
_BACKENDS = (
    ("ScalarLeaf", "kernels/cpu/scalar_leaf.h", "kernels/cpu/leaf/"),
    ("LaneFold", "kernels/cuda/leaf/lane_fold.cuh", "kernels/cuda/leaf/"),
)


def file_of(family: str) -> str:
    """CountNonzero: count_nonzero, as CMake has it."""
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", family).lower()


def declared(template: str, header: str) -> set[str]:
    return set(re.findall(rf"^struct {template}<(\w+)<T, kIgnoreNan>>;$", header, re.MULTILINE))


def complaints(template: str, header: str, files: dict[str, str]) -> list[str]:
    """`files` are the texts of the folder by path."""
    found = []
    expected = declared(template, header)
    defined = set()
    for path, text in files.items():
        for family in re.findall(rf"^struct {template}<(\w+)<.*\{{", text, re.MULTILINE):
            defined.add(family)
            if file_of(family) != PurePath(path).stem:
                found.append(f"{path} specialises {template} for {family}. Remedy: do that in a file named "
                             f"{file_of(family)}, which that operator's row includes.")
            if family not in expected:
                found.append(f"{path} specialises {template} for {family}, which is not declared. Remedy: "
                             f"declare it where {template} is, so that nobody forgets the include.")
    found += [f"{template} is declared for {family}, but no file defines that. Remedy: remove the "
              "declaration." for family in sorted(expected - defined)]
    return found


class LeafTest(unittest.TestCase):

    def test_specialisations_are_declared_and_named(self):
        for template, header, folder in _BACKENDS:
            files = {path: "\n".join(tree.lines(path)) for path in tree.files() if path.startswith(folder)
                     and path != header}
            text = "\n".join(tree.lines(header))
            self.assertGreater(len(declared(template, text)), 5)
            self.assertEqual(complaints(template, text, files), [])


class RulesCatchBreakersTest(unittest.TestCase):

    def test_breakers(self):
        header = "struct ScalarLeaf<Sum<T, kIgnoreNan>>;\n"
        sum_h = "struct ScalarLeaf<Sum<T, kIgnoreNan>> : PlainLeaf<Sum<T, kIgnoreNan>> {};\n"
        self.assertEqual(complaints("ScalarLeaf", header, {"leaf/sum.h": sum_h}), [])
        self.assertEqual(len(complaints("ScalarLeaf", header, {"leaf/summ.h": sum_h})), 1)
        self.assertEqual(len(complaints("ScalarLeaf", header, {})), 1)
        self.assertEqual(len(complaints("ScalarLeaf", "", {"leaf/sum.h": sum_h})), 1)


if __name__ == "__main__":
    unittest.main()
