# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The outer form of every file: licence, size, length of functions, and nothing left behind."""

import ast
import re
import unittest

import tree

_MOST_FILES_MAX_LINES = 300  # nine in ten
_FILE_MAX_LINES = 500
_FUNCTION_MAX_LINES = 70
_README_MAX_LINES = 150
_MAX_COLUMNS = 110
_TEMPORARY_FOLDER = "tests/temporary_folder.h"

_SPDX = ("SPDX-FileCopyrightText: The Warpfold Authors", "SPDX-License-Identifier: Apache-2.0")
# Split, so that this file does not contain what it looks for.
_LEFT_BEHIND = re.compile("|".join((r"\bTO" "DO\\b", r"\bFIX" "ME\\b", r"\bX" "XX\\b", "^<{7} ", "^>{7} ")))
_HOME_PATH = re.compile(r"(?<![\w.$}])/(?:home|work|Users|mnt)/\w")

_NO_FUNCTION = re.compile(r"^\s*(namespace|class|struct|enum|union|extern|message|\}|#)|=\s*\{$")


def long_cxx_functions(path: str, text: list[str]) -> list[str]:
    """Relies on clang-format: the brace that ends a function stands alone, indented like its first line.
    Lines that follow the first line of a signature are indented further."""
    complaints, open_at, begun_at = [], {}, {}
    for number, line in enumerate(text, start=1):
        for indent in ("", "  "):
            if line == indent + "}" and indent in open_at:
                start = open_at.pop(indent)
                if number - start + 1 > _FUNCTION_MAX_LINES:
                    complaints.append(_too_long(path, start, number - start + 1))
            elif re.match(indent + r"\S", line) and not _NO_FUNCTION.match(line):
                begun_at.pop(indent, None)
                if line.endswith("{"):
                    open_at[indent] = number
                elif "(" in line and not line.endswith((";", "}")):
                    begun_at[indent] = number
            elif indent in begun_at and line.startswith(indent + "    ") and line.endswith("{"):
                open_at[indent] = begun_at.pop(indent)
    return complaints


def long_python_functions(path: str, text: list[str]) -> list[str]:
    nodes = (n for n in ast.walk(ast.parse("\n".join(text))) if isinstance(n, ast.FunctionDef))
    return [_too_long(path, n.lineno, n.end_lineno - n.lineno + 1)
            for n in nodes if n.end_lineno - n.lineno + 1 > _FUNCTION_MAX_LINES]


def _too_long(path: str, line: int, length: int) -> str:
    return (f"{path}:{line} a function of {length} lines; the limit is {_FUNCTION_MAX_LINES}. "
            "Remedy: give each of its steps a name.")


class FormTest(unittest.TestCase):
    maxDiff = None

    @classmethod
    def setUpClass(cls):
        cls.code = {path: tree.lines(path) for path in tree.code_files()}

    def assert_none(self, complaints: list[str]):
        if complaints:
            self.fail("\n" + "\n".join(complaints))

    def test_licence(self):
        head = {path: "\n".join(text[:3]) for path, text in self.code.items() if text}
        self.assert_none([f"{path} lacks the SPDX lines. Remedy: copy the first two lines of CMakeLists.txt."
                          for path, text in head.items()
                          if not all(line in text for line in _SPDX)])

    def test_headers_are_guarded(self):
        self.assert_none([f"{path} lacks '#pragma once'." for path, text in self.code.items()
                          if path.endswith((".h", ".cuh")) and "#pragma once" not in text])

    def test_no_file_is_huge(self):
        self.assert_none([f"{path} has {len(text)} lines; no file has more than {_FILE_MAX_LINES}. "
                          "Remedy: one idea each." for path, text in self.code.items()
                          if len(text) > _FILE_MAX_LINES])

    def test_nine_in_ten_files_are_short(self):
        long = sorted(path for path, text in self.code.items() if len(text) > _MOST_FILES_MAX_LINES)
        self.assertLessEqual(len(long), len(self.code) / 10,
                             f"\n{len(long)} of {len(self.code)} files have more than "
                             f"{_MOST_FILES_MAX_LINES} lines; at most one in ten may. Remedy: split some of "
                             + ", ".join(long))

    def test_functions_are_short(self):
        complaints = []
        for path, text in self.code.items():
            if path.endswith(tree.CXX_SUFFIXES):
                complaints += long_cxx_functions(path, text)
            elif path.endswith(".py"):
                complaints += long_python_functions(path, text)
        self.assert_none(complaints)

    def test_tests_leave_no_files(self):
        self.assert_none([f"{path} has testing::TempDir. Remedy: {_TEMPORARY_FOLDER}."
                          for path, text in self.code.items()
                          if path.endswith(tree.CXX_SUFFIXES) and path != _TEMPORARY_FOLDER
                          and any("testing::TempDir" in line for line in text)])

    def test_readme_is_short(self):
        if (tree.ROOT / "README.md").exists():
            self.assertLessEqual(len(tree.lines("README.md")), _README_MAX_LINES,
                                 "Remedy: move detail from README.md to docs/.")

    def test_nothing_left_behind(self):
        complaints = []
        for path, text in self.code.items():
            for number, line in enumerate(text, start=1):
                if _LEFT_BEHIND.search(line):
                    complaints.append(f"{path}:{number} leaves work behind. Remedy: do it, or file an issue.")
                if _HOME_PATH.search(line):
                    complaints.append(f"{path}:{number} names one machine's path. Remedy: make it relative.")
                if line != line.rstrip():
                    complaints.append(f"{path}:{number} ends in blanks.")
                if len(line) > _MAX_COLUMNS:
                    complaints.append(f"{path}:{number} has more than {_MAX_COLUMNS} columns.")
        self.assert_none(complaints)


class RulesCatchBreakersTest(unittest.TestCase):
    """The rules themselves, on text that breaks them."""

    def test_long_functions(self):
        body = ["  x();"] * _FUNCTION_MAX_LINES
        self.assertEqual(len(long_cxx_functions("a.cc", ["void F() {", *body, "}"])), 1)
        method = ["class A {", "  void F() {", *body, "  }", "};"]
        self.assertEqual(len(long_cxx_functions("a.cc", method)), 1)
        wrapped = ["class A {", "  void F(int a,", "         int b) {", *body, "  }", "};"]
        self.assertEqual(len(long_cxx_functions("a.cc", wrapped)), 1)
        self.assertEqual(long_cxx_functions("a.cc", ["void F();", "    {", *body, "}"]), [])
        self.assertEqual(long_cxx_functions("a.cc", ["namespace a {", *body, "}"]), [])
        self.assertEqual(long_cxx_functions("a.cc", ["void F() {", *body[2:], "}"]), [])
        self.assertEqual(len(long_python_functions("a.py", ["def f():", *["  x()"] * 70])), 1)

    def test_leftovers(self):
        self.assertTrue(_LEFT_BEHIND.search("// TO" "DO: later"))
        self.assertTrue(_HOME_PATH.search("include /home" "/me/x.h"))
        self.assertFalse(_HOME_PATH.search("build/work/x"))


if __name__ == "__main__":
    unittest.main()
