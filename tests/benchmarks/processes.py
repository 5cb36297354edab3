# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Servers as child processes that print "READY listen=ADDRESS[,ADDRESS] ..." once they accept calls."""

import os
import pathlib
import re
import subprocess


class ServerProcess:
    """For a with statement. `addresses` is where it listens; `device` is what it reports of its device."""

    def __init__(self, *command):
        self._process = subprocess.Popen([str(word) for word in command], stdout=subprocess.PIPE,
                                         stderr=subprocess.DEVNULL, text=True)
        self.pid = self._process.pid
        ready, _, rest = self._process.stdout.readline().strip().partition(" listen=")
        if ready != "READY":
            self.__exit__()
            raise RuntimeError(f"{command[0]} did not get ready to take calls")
        addresses, _, self.device = rest.partition(" device=")
        self.addresses = addresses.split(",")

    def __enter__(self) -> "ServerProcess":
        return self

    def __exit__(self, *unused) -> None:
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, in steps of 10 ms."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def peak_mib(pid: int) -> float:
    """The most memory that a process has had so far."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    return int(re.search(r"VmHWM:\s+(\d+) kB", status)[1]) / 1024
