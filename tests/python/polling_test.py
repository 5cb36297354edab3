# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The threads of a client wait for their own sockets (docs/adr/0123); programs that it starts need not do
so."""

import os
import subprocess
import sys

import pytest

# With gRPC's default the process has one epoll set; with the strategy `poll` it has none.
_SCRIPT = """
import os, sys, warpfold
warpfold.connect(sys.argv[1]).sum([1, 2, 3])
links = set()
for name in os.listdir("/proc/self/fd"):
    try:
        links.add(os.readlink("/proc/self/fd/" + name))
    except FileNotFoundError:
        pass
if "anon_inode:[eventpoll]" in links:
    print("epoll")
sys.stdout.flush()
os.system("echo strategy $GRPC_POLL_STRATEGY")
"""


@pytest.mark.parametrize("given, says", [({}, "strategy\n"),
                                         ({"GRPC_POLL_STRATEGY": "epoll1"}, "epoll\nstrategy epoll1\n")])
def test_the_polling_strategy(server, given, says):
    environment = {name: value for name, value in os.environ.items() if name != "GRPC_POLL_STRATEGY"}
    done = subprocess.run([sys.executable, "-c", _SCRIPT, server.address], check=False,
                          env={**environment, **given}, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, says), done.stderr
