# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The two executables as a test sees them, and files to feed them.

Environment: WARPFOLD_SERVER and WARPFOLD_CLI, the executables; WARPFOLD_DEVICE, cpu (default) or cuda:N;
WARPFOLD_SUITE_TIMEOUT_S, the number of seconds after which a suite is killed: the place where it hangs is
printed before that. Needs only Python's standard library and NumPy: a machine with a GPU may have no more.
"""

import contextlib
import faulthandler
import io
import json
import os
import pathlib
import resource
import signal
import subprocess
import tempfile
import threading
import time
import unittest
from typing import Callable, Iterator

import numpy

DEVICE = os.environ.get("WARPFOLD_DEVICE", "cpu")
_READY_TIMEOUT_S = 120  # a GPU's driver may have to be loaded first
_STOP_TIMEOUT_S = 60
_CALL_TIMEOUT_S = 300


if timeout := os.environ.get("WARPFOLD_SUITE_TIMEOUT_S"):
    faulthandler.dump_traceback_later(float(timeout) - 10)


def _environment(changes: dict[str, str] | None = None) -> dict[str, str]:
    """Our environment, without proxies: gRPC would use them for loopback too."""
    ours = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**ours, **(changes or {})}


@contextlib.contextmanager
def killed_after(seconds: float, process: subprocess.Popen) -> Iterator[None]:
    """Kills the process if the block takes longer, so that code that waits for it there goes on."""
    watchdog = threading.Timer(seconds, process.kill)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.cancel()
        watchdog.join()


def _least_of_looks(look: Callable[[], int]) -> int:
    found = []
    for _ in range(4):
        found.append(look())
        time.sleep(0.1)
    return min(found)


class Server:
    """A server process, for a with statement. `address` is where it listens."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0", device: str = DEVICE,
                 environment: dict[str, str] | None = None, stderr: int | None = None,
                 prefix: tuple[str, ...] = ()):
        self._killed = False
        self._log = tempfile.TemporaryFile()  # stays empty if `stderr` is given
        self.process = subprocess.Popen(
            [*prefix, os.environ["WARPFOLD_SERVER"], f"--listen={listen}", f"--device={device}", *flags],
            stdout=subprocess.PIPE, stderr=self._log if stderr is None else stderr, text=True,
            env=_environment(environment))
        try:
            with killed_after(_READY_TIMEOUT_S, self.process):
                self.ready_line = self.process.stdout.readline().rstrip("\n")
            if not self.ready_line.startswith("READY "):
                raise RuntimeError(f"exit {self.stop()}, not ready: {self.log()}")
        except BaseException:
            self.kill()
            self._close()
            raise
        self.address = self.ready_line.split()[1].removeprefix("listen=")

    def log(self) -> str:
        """What it has logged so far. For use within the with statement."""
        # Without seeking: the server writes at this file's offset.
        return os.pread(self._log.fileno(), os.fstat(self._log.fileno()).st_size, 0).decode()

    def await_log(self, text: str, times: int = 1) -> None:
        """Waits until it has logged this, this many times: a separate thread writes the lines."""
        deadline = time.monotonic() + _READY_TIMEOUT_S
        while self.log().count(text) < times:
            if time.monotonic() > deadline:
                raise RuntimeError(f"not logged {times} times: {text!r} but {self.log()}")
            time.sleep(0.02)

    @contextlib.contextmanager
    def without_descriptors(self) -> Iterator[int]:
        """Meanwhile the process can open nothing: its limit, which is given, is the first number that is
        free."""
        def first_free() -> int:
            taken = set(map(int, os.listdir(f"/proc/{self.process.pid}/fd")))
            return min(set(range(len(taken) + 1)) - taken)

        before = resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE)
        # Its threads may have begun a moment ago, and open files for a moment: so the least of several looks
        # counts.
        files = -1
        while files != (least := _least_of_looks(first_free)):
            files = least
        resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, (files, before[1]))
        try:
            yield files
        finally:
            resource.prlimit(self.process.pid, resource.RLIMIT_NOFILE, before)

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Drains the server and returns its exit code; that of SIGKILL if it does not end."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        with killed_after(_STOP_TIMEOUT_S, self.process):
            return self.process.wait()

    def kill(self) -> None:
        """Ends it like a crash. Then an exit code other than 0 is not an error."""
        self._killed = True
        self.process.kill()
        self.process.wait()

    def _close(self) -> None:
        self.process.stdout.close()
        self._log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, failure, *unused) -> None:
        code, log = self.stop(), self.log()
        self._close()
        if failure is None and code != 0 and not self._killed:
            raise RuntimeError(f"the server's exit code is {code}: {log}")


def run_server(*flags: str, prefix: tuple[str, ...] = ()) -> subprocess.CompletedProcess:
    """A server that is expected to end by itself, on a free port unless a flag says otherwise."""
    return subprocess.run([*prefix, os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", *flags],
                          capture_output=True, text=True, timeout=_CALL_TIMEOUT_S, env=_environment(),
                          check=False)


def start_warpfold(*arguments: str, **pipes) -> subprocess.Popen:
    """The command line as a process of the caller, who ends it."""
    return subprocess.Popen([os.environ["WARPFOLD_CLI"], *arguments], env=_environment(), **pipes)


def warpfold(*arguments: str, stdin: bytes = b"", **pipes) -> subprocess.CompletedProcess:
    """Runs the command line; stdout and stderr are text, unless `pipes` leads them elsewhere."""
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **pipes}
    done = subprocess.run([os.environ["WARPFOLD_CLI"], *arguments], input=stdin, timeout=_CALL_TIMEOUT_S,
                          env=_environment(), check=False, **pipes)
    done.stdout, done.stderr = (done.stdout or b"").decode(), (done.stderr or b"").decode()
    return done


def reduce(address: str, *arguments: str, stdin: bytes = b"") -> dict:
    """Runs `warpfold reduce --json` and returns its output with results by operator."""
    done = warpfold("reduce", "--target", address, "--json", *arguments, stdin=stdin)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr}")
    answer = json.loads(done.stdout)
    answer["results"] = {result["op"]: result for result in answer["results"]}
    return answer


def values(address: str, operators: str, *arguments: str, stdin: bytes = b"") -> list:
    """The values of several operators, in their order."""
    results = reduce(address, "--op", operators, *arguments, stdin=stdin)["results"]
    return [results[operator]["value"] for operator in operators.split(",")]


def value(address: str, operator: str, *arguments: str, stdin: bytes = b""):
    return values(address, operator, *arguments, stdin=stdin)[0]


def npy_bytes(array: numpy.ndarray, version: tuple[int, int] = (1, 0)) -> bytes:
    """A file in NumPy's format, as NumPy writes it."""
    file = io.BytesIO()
    numpy.lib.format.write_array(file, array, version)
    return file.getvalue()


class TestCase(unittest.TestCase):
    """A scratch folder for each test, and processes that end with it."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory(prefix="warpfold_e2e_")))

    def file(self, name: str, data: bytes) -> str:
        path = self.folder / name
        path.write_bytes(data)
        return str(path)

    def save(self, name: str, array: numpy.ndarray) -> str:
        path = self.folder / name
        numpy.save(path, array)
        return str(path)

    def start(self, *arguments: str, **pipes) -> subprocess.Popen:
        """The command line as a process that is killed if the test leaves it running."""
        process = start_warpfold(*arguments, **pipes)
        self.addCleanup(_end, process)
        return process

    def assert_exit(self, code: int, done: subprocess.CompletedProcess, *words: str) -> None:
        """Checks for a failure with that exit code, no output, and these words of explanation."""
        self.assertEqual((done.returncode, done.stdout), (code, ""), done.stderr)
        self.assertTrue(done.stderr)
        for word in words:
            self.assertIn(word, done.stderr)


def _end(process: subprocess.Popen) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()


def full_pipe() -> tuple[int, int]:
    """A pipe that takes nothing more, like one that nobody reads."""
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    for size in (1 << 16, 1):
        with contextlib.suppress(BlockingIOError):
            while os.write(writer, bytes(size)):
                pass
    os.set_blocking(writer, True)
    return reader, writer


def open_terminal() -> tuple[int, int]:
    """A pseudo terminal's two ends; skips the test if the machine has none, as in a bare chroot."""
    try:
        return os.openpty()
    except OSError as error:
        raise unittest.SkipTest(f"no pseudo terminal: {error}") from error
