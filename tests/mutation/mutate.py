#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks sources on purpose, one small change at a time, and looks whether the tests notice.

Changes lie in lines of code, not in comments: OPERATORS lists them. Each mutant costs one compilation and
the links of the tests that cover its file (TESTS), whose executables must be built. What survives is a check
that no test needs: a missing test, or code without effect. Each mutant is a line of JSON in --output.

    tests/mutation/mutate.py --build build/dev --minutes 10 server/core/slot_share.cc client/retry.cc
"""

import argparse
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import tempfile
import time
from typing import Iterator, NamedTuple

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Which tests cover a file: the longest prefix counts. Quick ones come first.
TESTS = {
    "server/core/slot_share.cc": ("server_slot_share_test", "server_device_health_test",
                                  "server_simulation_test"),
    "server/core/device_health.cc": ("server_device_health_test",),
    "server/core/canary.cc": ("server_device_health_test",),
    "server/core/": ("server_call_test", "server_session_device_test", "server_simulation_test"),
    "server/net/frame_watch.cc": ("server_frame_watch_test",),
    "client/answer_check.cc": ("answer_check_test",),
    "client/retry.cc": ("retry_test", "client_failure_test", "client_test"),
    "kernels/partial_state.cc": ("kernels_partial_state_test",),
}
_ENVIRONMENT = {**os.environ, "CCACHE_DISABLE": "1", "WARPFOLD_SIMULATION_SCHEDULES": "3000"}
_TEST_TIMEOUT_S = 60


class Operator(NamedTuple):
    name: str
    pattern: str
    replacement: str


OPERATORS = (
    Operator("less to less or equal", r"(?<=\w) < (?=\w)", " <= "),
    Operator("less or equal to less", r" <= ", " < "),
    Operator("greater to greater or equal", r"(?<=[\w)]) > (?=[\w(])", " >= "),
    Operator("greater or equal to greater", r" >= ", " > "),
    Operator("flipped comparison", r"(?<=\w) < (?=\w)", " > "),
    Operator("equal to unequal", r" == ", " != "),
    Operator("unequal to equal", r" != ", " == "),
    Operator("and to or", r" && ", " || "),
    Operator("or to and", r" \|\| ", " && "),
    Operator("negated condition", r"\bif \(((?:[^();]|\((?:[^()]|\([^()]*\))*\))+)\) ", r"if (!(\1)) "),
    Operator("plus to minus", r"(?<=[\w)]) \+ (?=[\w(])", " - "),
    Operator("minus to plus", r"(?<=[\w)]) - (?=[\w(])", " + "),
    Operator("off by one", r"(?<![\w.\"])(\d+)(?![\w.\"])", r"(\1 + 1)"),
    Operator("increment to decrement", r"\+\+(?=\w)", "--"),
    Operator("true to false", r"\btrue\b", "false"),
    Operator("false to true", r"\bfalse\b", "true"),
    Operator("min to max", r"\bstd::min\b", "std::max"),
    Operator("max to min", r"\bstd::max\b", "std::min"),
    Operator("swapped arguments", r"\((\w+), (\w+)\)", r"(\2, \1)"),
    Operator("removed guard", r"^ +if \([^;{]*\) return [^;]*;$", ""),
    Operator("removed statement", r"^ +(?!return|using|const|static|auto|case|default|break|else|for|while"
             r"|if)[\w.:>*-]+(?:\(.*\)| [-+]?= .*);$", ""),
)


class Mutant(NamedTuple):
    file: str
    line: int
    operator: str
    before: str
    after: str


def mutants_of(file: str) -> Iterator[Mutant]:
    for number, line in enumerate((ROOT / file).read_text().split("\n"), 1):
        code = line.split("//")[0].rstrip()
        if not code or code.startswith(("#", "namespace", "}")):
            continue
        for operator in OPERATORS:
            for found in re.finditer(operator.pattern, code):
                after = code[:found.start()] + found.expand(operator.replacement) + code[found.end():]
                yield Mutant(file, number, operator.name, line.strip(), after.strip())


class Build:
    """Commands of a build folder, without its archives: a mutant's object comes before them."""

    def __init__(self, folder: pathlib.Path, scratch: pathlib.Path):
        self.folder, self.scratch = folder, scratch
        entries = json.loads(self._ninja("-t", "compdb"))
        self.commands = {os.path.relpath(entry["file"], ROOT): entry["command"] for entry in entries
                         if entry["file"].endswith(".cc") and entry["file"].startswith(str(ROOT))}

    def _ninja(self, *arguments: str) -> str:
        return subprocess.run(["ninja", "-C", str(self.folder), *arguments], check=True, capture_output=True,
                              text=True).stdout

    def compile(self, file: str, text: str) -> bool:
        source, words = self.scratch / "mutant.cc", shlex.split(self.commands[file])
        source.write_text(text)
        words[words.index("-c") + 1] = str(source)
        words[words.index("-o") + 1] = str(self.scratch / "mutant.o")
        words[words.index("-MF") + 1] = str(self.scratch / "mutant.d")
        return self._runs(words, 300)

    def link(self, test: str) -> bool:
        """Any executable of the build, into the scratch folder."""
        command = self._ninja("-t", "commands", test).rstrip().split("\n")[-1]
        words = shlex.split(command.removeprefix(": && ").removesuffix(" && :"))
        words[words.index("-o") + 1] = str(self.scratch / test)
        words.insert(words.index("-o"), str(self.scratch / "mutant.o"))
        return self._runs(words, 300)

    def passes(self, test: str) -> bool:
        return self._runs([str(self.scratch / test), "--gtest_brief=1", "--gtest_fail_fast"], _TEST_TIMEOUT_S)

    def _runs(self, words: list[str], timeout_s: float) -> bool:
        try:
            return subprocess.run(words, cwd=self.folder, env=_ENVIRONMENT, timeout=timeout_s, check=False,
                                  stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode == 0
        except subprocess.TimeoutExpired:
            return False


def tests_of(file: str) -> tuple[str, ...]:
    return TESTS[max((prefix for prefix in TESTS if file.startswith(prefix)), key=len)]


def outcome_of(build: Build, mutant: Mutant | None, file: str) -> str:
    """"survived", "killed by" a test, or "not compiled". Without a mutant: of the source as it is."""
    lines = (ROOT / file).read_text().split("\n")
    if mutant is not None:
        lines[mutant.line - 1] = mutant.after
    if not build.compile(file, "\n".join(lines)):
        return "not compiled"
    for test in tests_of(file):
        if not build.link(test):
            return "not compiled"
        if not build.passes(test):
            return f"killed by {test}"
    return "survived"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/dev")
    parser.add_argument("--minutes", type=float, default=10, help="for all files together")
    parser.add_argument("--seed", type=int, default=1, help="in which order mutants are taken")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("mutants.jsonl"))
    arguments = parser.parse_args()
    deadline = time.monotonic() + 60 * arguments.minutes
    counts: dict[str, int] = {}
    with (tempfile.TemporaryDirectory(prefix="warpfold_mutants_") as scratch,
          arguments.output.open("a") as out):
        build = Build(arguments.build.resolve(), pathlib.Path(scratch))
        todo = []
        for file in arguments.files:
            if outcome_of(build, None, file) != "survived":
                raise SystemExit(f"{file}: its tests fail without a change, or are not built")
            todo += mutants_of(file)
        random.Random(arguments.seed).shuffle(todo)
        for done, mutant in enumerate(todo):
            if time.monotonic() > deadline:
                break
            outcome = outcome_of(build, mutant, mutant.file)
            kind = outcome.split(" by")[0]
            counts[kind] = counts.get(kind, 0) + 1
            out.write(json.dumps({**mutant._asdict(), "outcome": outcome}) + "\n")
            out.flush()
            if kind == "survived":
                print(f"{mutant.file}:{mutant.line}: {mutant.operator}: "
                      f"{mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{len(todo)} mutants, of which ran: {counts}")


if __name__ == "__main__":
    main()
