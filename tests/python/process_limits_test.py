# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that may have no more descriptors, or no more threads."""

import os
import subprocess
import sys

import pytest

_LIMIT_S = 60

_NO_DESCRIPTOR = """
import os, resource, sys, warpfold
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
taken = []
try:
    while True:
        taken.append(os.open("/dev/null", os.O_RDONLY))
except OSError:
    pass
for _ in range(2):
    try:
        warpfold.connect(sys.argv[1])
    except warpfold.errors.ResourceExhaustedError as error:
        print(error)
for descriptor in taken:
    os.close(descriptor)
print(warpfold.connect(sys.argv[1]).sum([1.0, 2.0]))
"""

# Limits on processes do not apply to root. Whose they are, they count all threads of.
_NO_THREAD = """
import os, resource, sys, time, numpy, warpfold
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
for target in (sys.argv[1], "unix:/nobody-listens"):
    client = warpfold.connect(target)
    begin = time.monotonic()
    try:
        print(client.sum(numpy.ones(10), timeout=1))
    except (TimeoutError, ConnectionError) as error:
        print(type(error).__name__, time.monotonic() - begin < 10)
"""


def output_of(script, address):
    done = subprocess.run([sys.executable, "-c", script, address], check=False, capture_output=True,
                          text=True, timeout=_LIMIT_S)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.splitlines()


def test_without_a_descriptor_connect_raises_and_can_be_tried_again(server):
    """gRPC would end the process when it starts."""
    first, second, value = output_of(_NO_DESCRIPTOR, server.address)
    assert "no file descriptor left" in first
    assert first == second
    assert value == "3.0"


@pytest.mark.skipif(os.geteuid() != 0, reason="must become another user")
def test_a_call_ends_in_time_without_the_thread_of_grpcs_timers(server):
    """It either succeeds without that thread, or ends soon after its timeout."""
    served, not_served = output_of(_NO_THREAD, server.address)
    assert served in ("10.0", "DeadlineExceededError True")
    assert not_served in ("UnavailableError True", "DeadlineExceededError True")
