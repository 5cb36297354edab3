# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The proxies of deploy/proxies before two servers that are restarted in turns: no call is lost.

Each proxy is first told that a server will be away, as docs/operating.md asks: a proxy learns of a drain
later than a client that is connected itself, and no proxy can send again what a draining server rejects.
Environment as for rolling_restart_test.py. Skips programs that are not installed: haproxy, nginx.
"""

import contextlib
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time
import unittest

from executables import TestCase, values, warpfold
from rolling_restart_test import Pair, free_port

_PROXIES = pathlib.Path(__file__).resolve().parents[2] / "deploy/proxies"
_CALLS = os.environ.get("WARPFOLD_PROXY_CALLS", "4000")
_START_TIMEOUT_S = 30
_TAKE_OUT_TIMEOUT_S = 60
# The addresses in the files of deploy/proxies, for a trial on one machine.
_FRONT, _BACK = "127.0.0.1:50050", ("127.0.0.1:50051", "127.0.0.1:50052")


def wait_until(condition, seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{what}: not within {seconds} s")
        time.sleep(0.02)


class Proxy:
    """A proxy process with its file from deploy/proxies on other ports, for a with statement."""

    name: str

    def __init__(self, folder: pathlib.Path, backends: list[str]):
        self.folder = folder
        self.address = f"127.0.0.1:{free_port()}"
        self._backends = backends
        self._process = None

    def write_configuration(self, *changes: tuple[str, str]) -> str:
        """Returns the path; each change is to a text that must occur once."""
        text = (_PROXIES / self.name).read_text(encoding="utf-8")
        for old, new in [*changes, (_FRONT, self.address), *zip(_BACK, self._backends)]:
            if text.count(old) != 1:
                raise RuntimeError(f"{self.name} has {text.count(old)} times '{old}'")
            text = text.replace(old, new)
        path = self.folder / self.name
        path.write_text(text, encoding="utf-8")
        return str(path)

    def start(self) -> subprocess.Popen:
        raise NotImplementedError

    def is_listening(self) -> bool:
        if self._process.poll() is not None:
            raise RuntimeError(f"the proxy has ended with {self._process.poll()}")
        host, port = self.address.rsplit(":", 1)
        with contextlib.suppress(ConnectionRefusedError):
            socket.create_connection((host, int(port))).close()
            return True
        return False

    def __enter__(self) -> "Proxy":
        self._process = self.start()
        wait_until(self.is_listening, _START_TIMEOUT_S, "the proxy listens")
        return self

    def __exit__(self, *unused) -> None:
        self._process.terminate()
        self._process.wait(60)


class Haproxy(Proxy):
    name = "haproxy.cfg"
    executable = shutil.which("haproxy", path=f"{os.environ['PATH']}:/usr/sbin")

    def start(self) -> subprocess.Popen:
        path = self.write_configuration(("socket /run/haproxy/warpfold", f"socket {self.folder}/admin"))
        return subprocess.Popen([self.executable, "-db", "-f", path], stderr=subprocess.DEVNULL)

    def _tell(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(str(self.folder / "admin"))
            connection.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: connection.recv(1 << 16), b"")).decode()

    def _statistic(self, turn: int, column: str) -> str:
        names, *lines = self._tell("show stat").splitlines()
        (line,) = (line for line in lines if line.startswith(f"warpfold,{'ab'[turn]},"))
        return line.split(",")[names.removeprefix("# ").split(",").index(column)]

    def take_out(self, turn: int) -> None:
        self._tell(f"set server warpfold/{'ab'[turn]} state drain")
        wait_until(lambda: self._statistic(turn, "scur") == "0", _TAKE_OUT_TIMEOUT_S, "its calls end")

    def put_back(self, turn: int) -> None:
        self._tell(f"set server warpfold/{'ab'[turn]} state ready")
        wait_until(lambda: self._statistic(turn, "status") == "UP", _TAKE_OUT_TIMEOUT_S, "it is up")


class Nginx(Proxy):
    name = "nginx.conf"
    executable = shutil.which("nginx", path=f"{os.environ['PATH']}:/usr/sbin")

    def _write(self, *changes: tuple[str, str]) -> str:
        # The user who runs the test may write here, and perhaps not in the package's folder.
        folders = "".join(f"  {kind}_temp_path {self.folder}/{kind};\n"
                          for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
        return self.write_configuration(*changes, ("http {\n", "http {\n" + folders))

    def start(self) -> subprocess.Popen:
        settings = f"daemon off; pid {self.folder}/pid;"
        return subprocess.Popen([self.executable, "-e", f"{self.folder}/error.log", "-g", settings, "-c",
                                 self._write()])

    def _workers(self) -> set[str]:
        pid = self._process.pid
        return set(pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8").split())

    def _reload(self, *changes: tuple[str, str]) -> None:
        old = self._workers()
        self._write(*changes)
        self._process.send_signal(signal.SIGHUP)
        wait_until(lambda: self._workers() and not self._workers() & old, _TAKE_OUT_TIMEOUT_S,
                   "nginx's old workers end")

    def take_out(self, turn: int) -> None:
        self._reload((f"server {_BACK[turn]} ", f"server {_BACK[turn]} down "))

    def put_back(self, turn: int) -> None:
        del turn
        self._reload()


class ProxiedPair(Pair):
    """Two servers behind a proxy."""

    def __init__(self, proxy_class: type[Proxy], folder: pathlib.Path):
        super().__init__()
        self.proxy = proxy_class(folder, self.addresses)
        self.take_out = self.proxy.take_out
        self.put_back = self.proxy.put_back

    def __enter__(self) -> "ProxiedPair":
        self.proxy.__enter__()
        return super().__enter__()

    def __exit__(self, failure, *unused) -> None:
        super().__exit__(failure, *unused)
        self.proxy.__exit__()


class ProxyTest:
    """What holds behind any proxy."""

    proxy_class: type[Proxy]
    maxDiff = None

    def setUp(self):
        super().setUp()
        if self.proxy_class.executable is None:
            self.skipTest(f"{self.proxy_class.__name__.lower()} is not installed")

    def test_restarts_lose_no_call(self):
        with ProxiedPair(self.proxy_class, self.folder) as pair:
            self.assertEqual(pair.what_callers_say(pair.proxy.address, _CALLS), {f"failed 0 of {_CALLS}\n"})
            self.assertGreaterEqual(pair.restarts, 2)

    def test_what_is_passed_on(self):
        """Large arrays, errors with their reasons, health."""
        with Pair(restarts=False) as pair, self.proxy_class(self.folder, pair.addresses) as proxy:
            self.assertEqual(values(proxy.address, "sum,max", "--iota", "20000000"),
                             [199999990000000, 19999999])
            refused = warpfold("reduce", "--target", proxy.address, "--op", "sum", "--dtype", "int64",
                               self.file("large", (1 << 62).to_bytes(8, "little") * 2))
            self.assert_exit(1, refused, "OUT_OF_RANGE")
            self.assertEqual(warpfold("health", "--target", proxy.address).stdout, "SERVING\n")


class HaproxyTest(ProxyTest, TestCase):
    proxy_class = Haproxy


class NginxTest(ProxyTest, TestCase):
    proxy_class = Nginx


if __name__ == "__main__":
    unittest.main()
