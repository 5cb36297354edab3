# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Reads the source tree for the house tests: which files there are, and what they include."""

import os
import pathlib
import re
from typing import Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]

CXX_SUFFIXES = (".h", ".cc", ".cuh", ".cu")
CODE_SUFFIXES = CXX_SUFFIXES + (".py", ".sh", ".cmake", ".proto")
_CODE_NAMES = ("CMakeLists.txt", "Dockerfile", "run")
_SKIPPED_FOLDERS = ("build", ".git", ".gpu", "__pycache__")
_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')


class Include(NamedTuple):
    path: str  # of the including file, from the root, with forward slashes
    line: int
    header: str  # as written


def files() -> Iterator[str]:
    """All files of the project, as paths from the root."""
    for folder, folders, names in os.walk(ROOT):
        folders[:] = sorted(f for f in folders if f not in _SKIPPED_FOLDERS)
        for name in sorted(names):
            path = pathlib.Path(folder, name).relative_to(ROOT).as_posix()
            if path != ".git":  # a file in a linked worktree
                yield path


def code_files() -> Iterator[str]:
    for path in files():
        if path.endswith(CODE_SUFFIXES) or path.rsplit("/", 1)[-1] in _CODE_NAMES:
            yield path


def cxx_files() -> Iterator[str]:
    return (path for path in files() if path.endswith(CXX_SUFFIXES))


def lines(path: str) -> list[str]:
    return (ROOT / path).read_text(encoding="utf-8").splitlines()


def parse_includes(path: str, text: list[str]) -> list[Include]:
    found = []
    for number, line in enumerate(text, start=1):
        match = _INCLUDE.match(line)
        if match:
            found.append(Include(path, number, match.group(1)))
    return found


def all_includes() -> list[Include]:
    return [include for path in cxx_files() for include in parse_includes(path, lines(path))]
