# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The two executables as processes, and files to feed them. Standard library only.

Environment: WARPFOLD_BIN, the folder of both executables; WARPFOLD_DEVICE, what --device says (default cpu).
"""

import json
import os
import pathlib
import selectors
import signal
import struct
import subprocess
import tempfile
import unittest

_BIN = pathlib.Path(os.environ["WARPFOLD_BIN"])
DEVICE = os.environ.get("WARPFOLD_DEVICE", "cpu")
_READY_TIMEOUT_S = 120
_STOP_TIMEOUT_S = 60
_CALL_TIMEOUT_S = 300


def environment() -> dict:
    """Ours, without proxies: gRPC would take them for loopback too."""
    return {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}


class Server:
    """A warpfold-server process. Ended by stop, or killed at exit from a with block."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0", device: str = DEVICE):
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [_BIN / "warpfold-server", f"--listen={listen}", f"--device={device}", *flags],
            stdout=subprocess.PIPE, stderr=self._log, env=environment())
        try:
            self.ready_line = self._wait_until_ready()
        except BaseException:
            self._close()
            raise
        fields = dict(word.split("=", 1) for word in self.ready_line.split() if "=" in word)
        self.target = fields["listen"]

    def _wait_until_ready(self) -> str:
        with selectors.DefaultSelector() as selector:
            selector.register(self.process.stdout, selectors.EVENT_READ)
            selector.select(_READY_TIMEOUT_S)
        line = self.process.stdout.readline().decode()
        if not line.startswith("READY "):
            raise RuntimeError(f"no READY line but {line!r}: {self.log()}")
        return line

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def _close(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self._log.close()

    def stop(self) -> int:
        """Asks it to drain; its exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_TIMEOUT_S)

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, *_) -> None:
        self._close()


def run_server(*arguments: str) -> subprocess.CompletedProcess:
    """A warpfold-server that is expected to exit by itself."""
    return subprocess.run([_BIN / "warpfold-server", *arguments], capture_output=True, text=True,
                          timeout=_CALL_TIMEOUT_S, env=environment())


def command(*arguments: str) -> list:
    return [str(_BIN / "warpfold"), *map(str, arguments)]


def warpfold(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess:
    """Runs the command line; stdout and stderr are text."""
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, timeout=_CALL_TIMEOUT_S,
                          env=environment())
    done.stdout, done.stderr = done.stdout.decode(), done.stderr.decode()
    return done


def npy(descr: str, shape: tuple, data: bytes, fortran_order: bool = False, version: int = 1) -> bytes:
    """A file in NumPy's format."""
    header = repr({"descr": descr, "fortran_order": fortran_order, "shape": shape}).encode()
    length = 2 if version == 1 else 4
    padding = -(len(header) + 9 + length) % 64
    header += b" " * padding + b"\n"
    return b"\x93NUMPY" + bytes([version, 0]) + len(header).to_bytes(length, "little") + header + data


def pack(code: str, values) -> bytes:
    values = list(values)
    return struct.pack(f"<{len(values)}{code}", *values)


class TestCase(unittest.TestCase):
    """A scratch folder, and assertions over the command line."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="warpfold_e2e_")
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def file(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def assert_exit(self, code: int, done: subprocess.CompletedProcess, *words: str) -> None:
        self.assertEqual(done.returncode, code, done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)
        if code != 0:
            self.assertEqual(done.stdout, "")

    def reduce(self, server: Server, *arguments: str, stdin: bytes = b"") -> dict:
        """The object that --json prints."""
        done = warpfold("reduce", "--target", server.target, "--json", *arguments, stdin=stdin)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def values(self, server: Server, *arguments: str, stdin: bytes = b"") -> list:
        return [result["value"] for result in self.reduce(server, *arguments, stdin=stdin)["results"]]
