# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The two executables as a test sees them.

Environment: WARPFOLD_SERVER and WARPFOLD_CLI, the executables; WARPFOLD_DEVICE, cpu (default) or cuda:N.
Needs Python's standard library and, in the tests that compare values, NumPy.
"""

import json
import os
import signal
import subprocess
import tempfile
import threading

DEVICE = os.environ.get("WARPFOLD_DEVICE", "cpu")
_STOP_TIMEOUT_S = 60
_CALL_TIMEOUT_S = 300


class Server:
    """A server process; use it in a with statement. `address` is where it listens."""

    def __init__(self, *flags: str, listen: str = "127.0.0.1:0", device: str = DEVICE,
                 environment: dict[str, str] | None = None):
        self._log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [os.environ["WARPFOLD_SERVER"], f"--listen={listen}", f"--device={device}", *flags],
            stdout=subprocess.PIPE, stderr=self._log, text=True, env={**os.environ, **(environment or {})})
        watchdog = threading.Timer(_STOP_TIMEOUT_S, self.process.kill)
        watchdog.start()
        self.ready_line = self.process.stdout.readline().rstrip("\n")
        watchdog.cancel()
        if not self.ready_line.startswith("READY "):
            self.process.wait(_STOP_TIMEOUT_S)
            error = RuntimeError(f"exit {self.process.returncode}, not ready: {self.log()}")
            self.process.stdout.close()
            self._log.close()
            raise error
        self.address = self.ready_line.split()[1].removeprefix("listen=")

    def log(self) -> str:
        self._log.seek(0)
        return self._log.read().decode()

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Drains the server and returns its exit code."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(_STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise
        finally:
            self.process.stdout.close()
            self._log.close()

    def __enter__(self) -> "Server":
        return self

    def __exit__(self, failure, *unused) -> None:
        code = self.stop()
        if failure is None and code != 0:
            raise RuntimeError(f"the server's exit code is {code}")


def warpfold(*arguments: str, stdin: bytes | None = None) -> subprocess.CompletedProcess:
    return subprocess.run([os.environ["WARPFOLD_CLI"], *arguments], input=stdin, capture_output=True,
                          timeout=_CALL_TIMEOUT_S, check=False)


def reduce(address: str, *arguments: str) -> dict:
    """Runs `warpfold reduce --json` and returns its answer with results by operator."""
    done = warpfold("reduce", "--target", address, "--json", *arguments)
    if done.returncode != 0:
        raise RuntimeError(f"exit {done.returncode}: {done.stderr.decode()}")
    answer = json.loads(done.stdout)
    answer["results"] = {result["op"]: result for result in answer["results"]}
    return answer


def value(address: str, operator: str, *arguments: str):
    return reduce(address, "--op", operator, *arguments)["results"][operator]["value"]
