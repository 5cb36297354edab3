# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The flags that the executables have, as their --help lists them.

Environment: WARPFOLD_SERVER and WARPFOLD_CLI, the executables.
"""

import functools
import os
import re
import subprocess


def _help(executable: str, *arguments: str) -> str:
    return subprocess.run([os.environ[executable], *arguments, "--help"], check=True, text=True,
                          stdout=subprocess.PIPE).stdout


def _flags(text: str) -> set[str]:
    """Flags at the beginnings of lines; other flags are mentioned in descriptions."""
    return {name for line in re.findall(r"^ {2,4}(-\S+)", text, re.MULTILINE) for name in line.split(",")}


@functools.cache
def server() -> set[str]:
    return _flags(_help("WARPFOLD_SERVER"))


@functools.cache
def client(command: str) -> set[str]:
    return _flags(_help("WARPFOLD_CLI", command))


@functools.cache
def commands() -> list[str]:
    text = _help("WARPFOLD_CLI").partition("Subcommands:")[2]
    return re.findall(r"^  (\S+)", text, re.MULTILINE)
