# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Suites of tests/e2e with a command line or a server that contains a mutant, for mutate.py; breakages.py
loads its own in the same way."""

import os
import pathlib
import signal
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Less than all memory: the suites map files that are larger than any machine's memory.
_MOST_BYTES = 8 << 30
_LONGEST_END_S = 90


def is_suite(test: str) -> bool:
    return test.endswith("_test.py")


def with_mutant(executable: str, scratch: pathlib.Path) -> str:
    """Writes a script that runs the executable with the mutant that lies in `scratch`."""
    wrapper = scratch / "executable"
    wrapper.write_text(f'#!/bin/sh\nexec prlimit --data={_MOST_BYTES} env LD_PRELOAD="'
                       f'{scratch / "mutant.so"}" "{executable}" "$@"\n')
    wrapper.chmod(0o755)
    return str(wrapper)


def suite_passes(build: pathlib.Path, suite: str, scratch: pathlib.Path | None, timeout_s: float) -> bool:
    """Runs with the mutant that lies in `scratch`, if there is one. Its processes have ended then."""
    executables = {"WARPFOLD_CLI": str(build / "bin/warpfold"),
                   "WARPFOLD_SERVER": str(build / "bin/warpfold-server")}
    if scratch is not None:
        # mutate.py writes the changed source to the same folder of `scratch`.
        broken = "WARPFOLD_CLI" if (scratch / "client").is_dir() else "WARPFOLD_SERVER"
        executables[broken] = with_mutant(executables[broken], scratch)
    environment = {**os.environ, **executables}
    with subprocess.Popen(["/usr/bin/python3", "-B", str(ROOT / "tests/e2e" / suite), "--failfast"],
                          env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        try:
            return process.wait(timeout_s) == 0
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # so that it ends its servers
            try:
                process.wait(_LONGEST_END_S)
            except subprocess.TimeoutExpired:
                process.kill()
            raise
