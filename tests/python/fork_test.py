# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that are forked in the middle of a call: the parent's call goes on, whatever they do."""

import subprocess
import sys

import pytest

# Reports how the child has ended, and then the sum. The array is longer than a message, so that some of it is
# sent before the fork and some after it.
_SCRIPT = """
import os, sys, numpy, warpfold
client = warpfold.connect(sys.argv[1])
x = numpy.ones(300_000)
client.sum(x)
def pieces():
    yield x
    child = os.fork()
    if child == 0:
        {child}
    else:
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        yield x
print(client.sum(pieces()))
"""


@pytest.mark.parametrize("child, code, says", [
    ("yield x", 1, "RuntimeError: this process was forked"),
    ("return", 1, "RuntimeError: this process was forked"),
    ("raise KeyError('no more')", 1, "KeyError: 'no more'"), ("sys.exit(7)", 7, ""), ("os._exit(7)", 7, "")])
def test_a_fork_in_an_iterator(server, child, code, says):
    done = subprocess.run([sys.executable, "-c", _SCRIPT.format(child=child), server.address], check=False,
                          capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, f"{code}\n600000.0\n"), done.stderr
    # From 3.12 on Python warns of every such fork.
    assert says in done.stderr and ("Traceback" in done.stderr) == bool(says)
