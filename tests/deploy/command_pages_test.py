# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Manual pages and completions say everything that --help says, and work in their programs.

Environment: WARPFOLD_SERVER, WARPFOLD_CLI; WARPFOLD_PAGES, the folder to which the build wrote them.
"""

import os
import pathlib
import shutil
import subprocess
import unittest

import flags

_PAGES = pathlib.Path(os.environ["WARPFOLD_PAGES"])
_QUICK = {"arrays", "delete", "info", "health"}  # commands without --timeout


def complete(*words: str) -> set[str]:
    """What bash offers after these words, the last of which is being typed."""
    function = {"warpfold": "_warpfold", "warpfold-server": "_warpfold_server"}[words[0]]
    script = f"""
        . {_PAGES}/bash
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
        {function}
        printf '%s\\n' "${{COMPREPLY[@]}}"
        """
    done = subprocess.run(["bash", "-c", script, "bash", *words], check=True, text=True,
                          stdout=subprocess.PIPE)
    return set(done.stdout.split())


class ManualPagesTest(unittest.TestCase):

    def text(self, page: str) -> str:
        """The page as a reader sees it, without hyphenation."""
        return subprocess.run(["mandoc", "-O", "width=300", "-T", "ascii", str(_PAGES / page)], check=True,
                              text=True, stdout=subprocess.PIPE).stdout.replace("\b", "")

    def test_formatted_without_complaint(self):
        for page in ("warpfold.1", "warpfold-server.8"):
            done = subprocess.run(["mandoc", "-T", "lint", "-W", "error", _PAGES / page], check=False,
                                  capture_output=True, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_every_flag_of_the_server(self):
        source = (_PAGES / "warpfold-server.8").read_text()
        for flag in flags.server():
            self.assertIn("\\fB" + flag.replace("-", "\\-") + "\\fR", source)
        self.assertIn("From 1 to 256. Default: two for each shard.", source)
        self.assertIn("multiple of 65536, from 65536 to 1073741824", source)

    def test_every_flag_of_the_client(self):
        sections = (_PAGES / "warpfold.1").read_text().split(".SH OPTIONS OF ")
        self.assertEqual([section.split("\n")[0].lower() for section in sections[1:]], flags.commands())
        for command, section in zip(flags.commands(), sections[1:]):
            for flag in flags.client(command):
                self.assertIn("\\fB" + flag.replace("-", "\\-") + "\\fR", section, command)
        self.assertIn("Exit codes: 0 success; 1 the server returned an error", sections[1])
        self.assertIn("One of chunks, ipc, memory, resident. Default: chunks.", sections[-1])
        for command, section in zip(flags.commands(), sections[1:]):
            self.assertEqual("Waits 5 s for the server." in section, command in _QUICK, command)


class CompletionTest(unittest.TestCase):

    def test_commands(self):
        self.assertEqual(complete("warpfold", ""), set(flags.commands()) | {"-h", "--help", "--version"})
        self.assertEqual(complete("warpfold", "he"), {"health"})

    def test_flags(self):
        self.assertEqual(complete("warpfold-server", "-"), flags.server())
        for command in flags.commands():
            self.assertEqual(complete("warpfold", command, "-"), flags.client(command))

    def test_values(self):
        self.assertEqual(complete("warpfold-server", "--log_format", ""), {"text", "json"})
        self.assertEqual(complete("warpfold", "bench", "--transport", "u"), {"unix"})
        self.assertEqual(complete("warpfold", "bench", "--method", ""), {"array", "health", "info", "reduce"})
        self.assertEqual(complete("warpfold-server", "--slots", ""), set())
        folder = f"{_PAGES}/"
        self.assertIn(f"{folder}bash", complete("warpfold", "reduce", "--tls_ca", folder))
        self.assertIn(f"{folder}bash", complete("warpfold", "put", folder))

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_zsh(self):
        subprocess.run(["zsh", "-n", _PAGES / "_warpfold"], check=True)
        text = (_PAGES / "_warpfold").read_text()
        for flag in flags.server().union(*map(flags.client, flags.commands())):
            self.assertRegex(text, f"'{flag}=?\\[")


if __name__ == "__main__":
    unittest.main()
