#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks sources on purpose, one small change at a time, and checks whether the tests notice.

Changes are made in lines of code, not in comments: OPERATORS lists them. A mutant is compiled into a separate
library that is loaded before all others, so that its functions replace ours and nothing is linked again; this
needs a build whose libraries are shared. For a header, the sources of its folder that include it are
compiled, but what a test itself uses of it stays as it was. A mutant that survives all tests of its file
(tests_of.py) is a check that no test needs: a missing test, or code without effect. Mutants of the command
line are also run as processes, in suites of tests/e2e. Each mutant is a line of JSON in --output; those that
are there already do not run again.

    cmake --preset mutation && cmake --build --preset mutation
    tests/mutation/mutate.py server/core/slots/slot_pool.cc client/calls/retry.cc
"""

import argparse
import collections
import concurrent.futures
import itertools
import json
import os
import pathlib
import random
import re
import shlex
import subprocess
import tempfile
import threading
import time
from typing import Iterator, NamedTuple

from suites import is_suite, suite_passes
from tests_of import tests_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
_ENVIRONMENT = {"CCACHE_DISABLE": "1", "WARPFOLD_SIMULATION_SCHEDULES": "3000",
                "WARPFOLD_TEST_SCALE": "small"}
_COMPILE_TIMEOUT_S = 300
_SLOWEST_TEST_S = 60
_SLOWEST_SUITE_S = 300
_MOST_BYTES = 8 << 30


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
    Operator("swapped arguments", r"(?<!std::min)(?<!std::max)\((\w+), (\w+)\)", r"(\2, \1)"),
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


_INCLUDE = re.compile(r'^#include "([^"]+)"', re.MULTILINE)
_ANY_INCLUDE = re.compile(r'^#include ["<].+$', re.MULTILINE)


class Build:
    """A build folder whose libraries are shared: it compiles a mutant, and runs with it."""

    def __init__(self, folder: pathlib.Path):
        self.folder = folder
        self.entries = {os.path.relpath(entry["file"], ROOT): entry
                        for entry in json.loads((folder / "compile_commands.json").read_text())}

    def sources_of(self, file: str) -> list[str]:
        """The file itself, or, for a header, those of its folder that include it, directly or not."""
        if not file.endswith(".h"):
            return [file] if file in self.entries else []
        near = [path for path in (ROOT / file).parent.iterdir() if path.suffix in (".cc", ".h")]
        includes = {str(path.relative_to(ROOT)): set(_INCLUDE.findall(path.read_text())) for path in near}
        having = {file}
        while more := {name for name in includes if name not in having and includes[name] & having}:
            having |= more
        return sorted(name for name in having if name in self.entries)

    def precompile(self, file: str) -> None:
        """Compiles what the source includes once for all mutants, which then take a third of the time."""
        if file.endswith(".h"):
            return
        header = self._headers_of(file)
        header.parent.mkdir(parents=True, exist_ok=True)
        header.write_text("\n".join(_ANY_INCLUDE.findall((ROOT / file).read_text())) + "\n")
        words, folder = self._command_of(file)
        self._runs([*words, "-x", "c++-header", str(header), "-o", f"{header}.gch"], folder,
                   _COMPILE_TIMEOUT_S)

    def _headers_of(self, file: str) -> pathlib.Path:
        return self.folder / "mutants" / f"{file}.h"

    def _command_of(self, file: str) -> tuple[list[str], pathlib.Path]:
        """The command that compiles the source at -O0, for a shared library, whatever it warns about, without
        names of files; and the folder for it."""
        entry = self.entries[file]
        words = shlex.split(entry["command"])
        del words[words.index("-o"):]  # and "-c", which comes after it
        return [*words, "-O0", "-fPIC", "-w"], pathlib.Path(entry["directory"])

    def compile(self, file: str, text: str, scratch: pathlib.Path) -> bool:
        """Compiles into scratch/mutant.so."""
        changed = scratch / file
        changed.parent.mkdir(parents=True, exist_ok=True)
        changed.write_text(text)
        sources = self.sources_of(file)
        words, folder = self._command_of(sources[0])
        words[1:1] = ["-I", str(scratch)]
        if sources == [file]:
            words += ["-include", str(self._headers_of(file)), str(changed)]
        else:
            words += [str(ROOT / source) for source in sources]
        # A header's functions may be in a test, too: the mutant's code is to call its own.
        words += ["-shared", "-Wl,-Bsymbolic-functions", "-o", str(scratch / "mutant.so")]
        return self._runs(words, folder, _COMPILE_TIMEOUT_S)

    def passes(self, test: str, scratch: pathlib.Path | None, timeout_s: float) -> bool:
        """Runs with the mutant that lies in `scratch`, if there is one."""
        if is_suite(test):
            return suite_passes(self.folder, test, scratch, timeout_s)
        mutant = [] if scratch is None else [f"LD_PRELOAD={scratch / 'mutant.so'}"]
        return (self.folder / "bin" / test).exists() and self._runs(
            ["prlimit", f"--as={_MOST_BYTES}", "env", *mutant, str(self.folder / "bin" / test),
             "--gtest_brief=1", "--gtest_fail_fast"], scratch or self.folder, timeout_s)

    @staticmethod
    def _runs(words: list[str], folder: pathlib.Path, timeout_s: float) -> bool:
        done = subprocess.run(words, cwd=folder, env={**os.environ, **_ENVIRONMENT}, timeout=timeout_s,
                              check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        return done.returncode == 0


class Judge:
    """Determines what becomes of mutants. Threads: any."""

    def __init__(self, build: Build, deadline: float):
        self.build, self.deadline = build, deadline
        self._seconds: dict[str, float | None] = {}  # the time of each test; none: it fails, or is not built
        self._whole: dict[tuple[str, str], bool] = {}  # whether a test passes with the file as it is
        self._locks: dict[object, threading.Lock] = collections.defaultdict(threading.Lock)

    def learn(self, file: str) -> str:
        """The obstacle to judging the file's mutants, if there is any."""
        if not self.build.sources_of(file):
            return f"{file} is not of this build"
        self.build.precompile(file)
        with tempfile.TemporaryDirectory(prefix="warpfold_mutant_") as scratch:
            good = self.build.compile(file, (ROOT / file).read_text(), pathlib.Path(scratch))
        return "" if good else f"{file} does not compile as it is"

    def seconds_of(self, test: str) -> float | None:
        with self._locks[test]:
            if test not in self._seconds:
                start = time.monotonic()
                passes = self._passes(test, None)
                self._seconds[test] = time.monotonic() - start if passes else None
            return self._seconds[test]

    def _passes_as_it_is(self, file: str, test: str) -> bool:
        with self._locks[file, test]:
            if (file, test) not in self._whole:
                with tempfile.TemporaryDirectory(prefix="warpfold_mutant_") as folder:
                    scratch = pathlib.Path(folder)
                    self.build.compile(file, (ROOT / file).read_text(), scratch)
                    self._whole[file, test] = self._passes(test, scratch)
            return self._whole[file, test]

    def _passes(self, test: str, scratch: pathlib.Path | None) -> bool:
        try:
            return self.build.passes(test, scratch, _SLOWEST_SUITE_S if is_suite(test) else _SLOWEST_TEST_S)
        except subprocess.TimeoutExpired:
            return False

    def outcome_of(self, mutant: Mutant) -> str | None:
        """Returns "survived", "killed by" a test, "hangs" a test, "not compiled", or none: there was no
        time."""
        lines = (ROOT / mutant.file).read_text().split("\n")
        lines[mutant.line - 1] = mutant.after
        times = {test: self.seconds_of(test) for test in tests_of(mutant.file)}
        known = {test: seconds for test, seconds in times.items() if seconds is not None}
        with tempfile.TemporaryDirectory(prefix="warpfold_mutant_") as folder:
            scratch = pathlib.Path(folder)
            if self._left() <= 0:
                return None
            if not self.build.compile(mutant.file, "\n".join(lines), scratch):
                return "not compiled"
            for test, seconds in sorted(known.items(), key=lambda entry: entry[1]):
                outcome = "killed by"
                try:
                    if self.build.passes(test, scratch, min(10 + 5 * seconds, max(self._left(), 0))):
                        continue
                except subprocess.TimeoutExpired:
                    outcome = "hangs"
                if self._left() <= 0:
                    return None
                if self._passes_as_it_is(mutant.file, test):
                    return f"{outcome} {test}"
        return "survived"

    def _left(self) -> float:
        return self.deadline - time.monotonic()


def sample_of(file: str, seed: int, most: int | None) -> list[Mutant]:
    mutants = list(mutants_of(file))
    random.Random(seed).shuffle(mutants)
    return mutants[:most]


def in_turns(files: dict[str, list[Mutant]]) -> list[Mutant]:
    """A mutant of each file, then the next of each, so that all files get a share of the time."""
    return [mutant for turn in itertools.zip_longest(*files.values()) for mutant in turn if mutant]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/mutation")
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="mutants at a time")
    parser.add_argument("--minutes", type=float, default=10, help="for all files together")
    parser.add_argument("--most", type=int, help="mutants of each file, or else all")
    parser.add_argument("--seed", type=int, default=1, help="in which order mutants are taken")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("mutants.jsonl"))
    arguments = parser.parse_args()
    judge = Judge(Build(arguments.build.resolve()), time.monotonic() + 60 * arguments.minutes)
    counts: collections.Counter[str] = collections.Counter()
    with (concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool,
          arguments.output.open("a+") as out):
        out.seek(0)
        known = {Mutant(*list(json.loads(line).values())[:-1]) for line in out}
        files = {}
        for file, trouble in zip(arguments.files, pool.map(judge.learn, arguments.files)):
            if trouble:
                print(trouble, flush=True)
            else:
                files[file] = [mutant for mutant in sample_of(file, arguments.seed, arguments.most)
                               if mutant not in known]
        todo = in_turns(files)
        running = {pool.submit(judge.outcome_of, mutant): mutant for mutant in todo}
        for done in concurrent.futures.as_completed(running):
            mutant, outcome = running[done], done.result()
            if outcome is None:
                continue
            counts[outcome.split(" ")[0]] += 1
            out.write(json.dumps({**mutant._asdict(), "outcome": outcome}) + "\n")
            out.flush()
            if outcome == "survived":
                print(f"{mutant.file}:{mutant.line}: {mutant.operator}: "
                      f"{mutant.before}  ->  {mutant.after}", flush=True)
    print(f"{len(todo)} mutants, of which ran: {dict(counts)}")


if __name__ == "__main__":
    main()
