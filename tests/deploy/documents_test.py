# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The pages: their commands run, their links exist, and so do the flags on the pages for operators.

A block of commands runs here as it stands, on other ports, unless the line above it says what it needs or
which test of ctest runs it: <!-- needs: a cluster -->, <!-- run by: package -->. In a console block, commands
follow a "$", and the other lines are their output; the blocks of a page run one after the other in one shell,
as a reader would type them. Environment: WARPFOLD_SERVER, WARPFOLD_CLI.
"""

import os
import pathlib
import re
import socket
import subprocess
import tempfile
import unittest

import flags

_ROOT = pathlib.Path(__file__).resolve().parents[2]
# Pages on which all flags are ours, or match _OTHER_FLAGS.
_OPERATORS_PAGES = ("docs/operating.md", "docs/versioning.md", "CONTRIBUTING.md", "CHANGELOG.md",
                    "SECURITY.md")
_PAGES = sorted(str(path.relative_to(_ROOT)) for folder in (".", "docs") for path in
                (_ROOT / folder).glob("*.md"))
_NEEDS = {"a GPU", "a cluster", "Docker", "Docker and a GPU", "Docker and a registry", "systemd",
          "four GPUs", "half an hour", "deploy/test.sh before", "GitHub", "grpcurl", "a debugger",
          "matplotlib", "Chromium"}
_BLOCK = re.compile(r"^(?:<!-- (needs|run by): (.*?) -->\n)?```(sh|bash|console)\n(.*?)^```$",
                    re.MULTILINE | re.DOTALL)
# Flags of other programs that the pages call.
_OTHER_FLAGS = re.compile(r"^(?:docker|cmake|ctest|cpack|dpkg|kubectl|journalctl|openssl)\b"
                          r"|--build-arg|deploy/test\.sh --all")
_TIMEOUT_S = 120
_SHORT = "--duration 0.1 --warm_up 0 --rounds 1"
_UNTIL_IT_SERVES = ("until warpfold health --target 127.0.0.1:50051 2>/dev/null; "
                    "do kill -0 $!; sleep 0.2; done")


def text_of(page: str) -> str:
    return (_ROOT / page).read_text(encoding="utf-8")


def blocks() -> list[tuple[str, str | None, str | None, str, str]]:
    """(page, needs or run by, the text after that, sh or console, text) of each block."""
    return [(page, *match.groups()) for page in _PAGES for match in _BLOCK.finditer(text_of(page))]


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class DocumentsTest(unittest.TestCase):

    def test_commands(self):
        consoles: dict[str, str] = {}
        ran = 0
        for page, kind, _, language, text in blocks():
            if kind is not None:
                continue
            ran += 1
            if language == "console":
                consoles[page] = consoles.get(page, "") + text
                continue
            with self.subTest(page=page, text=text):
                self.run_block(text)
        for page, text in consoles.items():
            with self.subTest(page=page, text=text):
                self.run_console(text)
        self.assertGreaterEqual(ran, 5)

    def run_block(self, commands: str) -> str:
        path = ":".join([*{os.path.dirname(os.environ[name]) for name in ("WARPFOLD_SERVER", "WARPFOLD_CLI")},
                         os.environ["PATH"]])
        port = f":{free_port()}"
        with tempfile.TemporaryDirectory(prefix="warpfold_documents_") as folder:
            # Job control, for %1. A block that fails leaves no server behind.
            script = f"set -em\ntrap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n{commands}".replace(
                ":50051", port)
            done = subprocess.run(["bash", "-c", script], cwd=folder, env={**os.environ, "PATH": path},
                                  capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.replace(port, ":50051")

    def run_console(self, text: str):
        """For people, who wait until a server serves, or has ended, and have time."""
        script = []
        for line in re.findall(r"^\$ (.*)", text, re.MULTILINE):
            command = line.replace("build/release/bin/", "").partition("#")[0].rstrip()
            command = re.sub(r"\bwarpfold (reduce|put|info|bench)\b", r"warpfold \1 --target 127.0.0.1:50051",
                             command)
            command = command.replace("warpfold bench", f"warpfold bench {_SHORT}")
            if command.startswith("warpfold-server"):
                command = command.removesuffix("&") + "--listen=127.0.0.1:50051 &\n" + _UNTIL_IT_SERVES
            if command.startswith("kill"):
                command += "\nwait || true"
            script.append(command)
        printed = self.run_block("\n".join(script))
        for line in re.findall(r"^[^$\n].*", text, re.MULTILINE):
            self.assertIn(line, printed)

    def test_blocks_that_are_not_run_say_why(self):
        tests = {match for path in (_ROOT / "tests").rglob("CMakeLists.txt")
                 for match in re.findall(r"[\w]+", path.read_text(encoding="utf-8"))}
        for page, kind, what, _, _ in blocks():
            if kind == "needs":
                self.assertIn(what, _NEEDS, page)
            elif kind == "run by" and what != ".ci/run":
                # Names are made of a room and a suite.
                self.assertTrue(what in tests or set(what.split("_", 1)) <= tests, f"{page}: {what}")

    def test_flags_exist(self):
        known = flags.server().union(*map(flags.client, flags.commands()))
        for page in _OPERATORS_PAGES:
            for line in text_of(page).replace("\\\n", " ").splitlines():
                if _OTHER_FLAGS.search(line):
                    continue
                for flag in re.findall(r"(?<![\w-])--[a-z][\w-]*", line):
                    self.assertIn(flag, known, f"{page}: {line}")

    def test_every_flag_of_the_server_is_described(self):
        page = text_of("docs/operating.md")
        table = page[page.index("## Flags"):page.index("## Sizing")]
        described = set(re.findall(r"`(--\w+)`", "\n".join(
            line.split("|")[1] for line in table.splitlines() if line.startswith("| `"))))
        self.assertEqual(described, {flag for flag in flags.server() if flag.startswith("--")}
                         - {"--help", "--version"})

    def test_exit_codes(self):
        codes = re.findall(r"^\| (\d) \|", text_of("docs/operating.md"), re.MULTILINE)
        self.assertEqual(codes, ["0", "2", "3", "4"])

    def test_links(self):
        for page in _PAGES:
            for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", text_of(page)):
                self.assertTrue(((_ROOT / page).parent / target).exists(), f"{page} leads to {target}")

    def test_files_that_are_named_exist(self):
        for page in _PAGES:
            for name in re.findall(r"`((?:deploy|docs|tests|kernels|client|proto)/[\w/.-]+)`", text_of(page)):
                self.assertTrue((_ROOT / name).exists(), f"{page} names {name}")


if __name__ == "__main__":
    unittest.main()
