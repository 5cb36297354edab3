# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Processes that end while calls are in progress."""

import subprocess
import sys

import pytest

from calls_test import silence

# Far more than a process takes to start and to end, and far less than the timeout of a call.
_LIMIT_S = 20

_DAEMON = """
import sys, threading, time, numpy, warpfold
client = warpfold.connect(sys.argv[1])
x = numpy.ones(1 << 20)
def call():
    {call}
def loop():
    while True:
        try:
            call()
        except (ConnectionError, ValueError):
            pass
for _ in range({threads}):
    threading.Thread(target=loop, daemon=True).start()
time.sleep(0.4)
"""


def ending_of(script, address):
    """The exit code of a process that runs this, its errors and its output."""
    done = subprocess.run([sys.executable, "-c", script, address], check=False, capture_output=True,
                          text=True, timeout=_LIMIT_S)
    return done.returncode, done.stderr, done.stdout


@pytest.mark.parametrize("call", ["client.sum(x[:9])", "client.sum(x)", "client.sum(x[::2])",
                                  "client.sum(iter([x[:9], x[:9]]))", "client.sum(x.reshape(-1, 64), 1)",
                                  "client.sum(x, progress=lambda *sent: sum(range(1000)))",
                                  "client.partial(x, ['sum'])", "client.info()",
                                  "client.min(x[:0])"])
@pytest.mark.parametrize("threads", [1, 8])
def test_daemon_threads_in_calls_do_not_disturb_the_end(server, call, threads):
    assert ending_of(_DAEMON.format(call=call, threads=threads), server.address) == (0, "", "")


@pytest.mark.parametrize("call", ["client.sum(x)", "client.sum(x[::2])", "client.sum(iter([x]))",
                                  "client.info()"])
def test_a_daemon_thread_that_waits_for_a_silent_server_does_not_disturb_the_end(call):
    with silence() as address:
        assert ending_of(_DAEMON.format(call=call, threads=1), address) == (0, "", "")


def test_a_daemon_thread_that_finds_no_server_does_not_disturb_the_end():
    assert ending_of(_DAEMON.format(call="client.sum(x)", threads=3), "127.0.0.1:1") == (0, "", "")


_ASYNC = """
import asyncio, os, queue, sys, threading, time, numpy
from warpfold import aio
x = numpy.ones(9)
def pieces():
    for _ in range(10):
        time.sleep(0.1)
        yield x
client = aio.connect(sys.argv[1])
async def say(): print(await client.sum(pieces()))
loop = asyncio.new_event_loop()
"""
_LOOP_THAT_STOPS = """
tasks = [loop.create_task({call}) for _ in range({count})]
loop.call_later(0.3, loop.stop)
loop.run_forever()
"""
_LOOP_ON_A_THREAD = """
thread = threading.Thread(target=loop.run_until_complete, args=({call},), daemon={daemon})
thread.start()
time.sleep(0.3)
"""


# More of them than there are threads.
@pytest.mark.parametrize("count", [1, 100])
@pytest.mark.parametrize("call", ["client.sum(x)", "client.sum(pieces())", "client.info()", "client.put(x)",
                                  "client.sum(iter(queue.SimpleQueue().get, None))"])
def test_calls_of_a_loop_that_was_stopped_do_not_hold_up_the_end(call, count):
    with silence() as address:
        assert ending_of(_ASYNC + _LOOP_THAT_STOPS.format(call=call, count=count), address)[0] == 0


def test_calls_of_a_loop_on_a_daemon_thread_do_not_hold_up_the_end():
    with silence() as address:
        script = _ASYNC + _LOOP_ON_A_THREAD.format(call="client.sum(x)", daemon=True)
        assert ending_of(script, address)[0] == 0


def test_the_end_waits_for_a_loop_on_another_thread(server):
    script = _ASYNC + _LOOP_ON_A_THREAD.format(call="say()", daemon=False)
    assert ending_of(script, server.address) == (0, "", "90.0\n")


def test_the_end_of_a_forked_process_leaves_its_parents_calls_alone(server):
    script = _ASYNC + """
async def fork():
    task = asyncio.create_task(say())
    await asyncio.sleep(0.3)
    child = os.fork()
    if child == 0:
        sys.exit(7)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    await task
loop.run_until_complete(fork())
"""
    code, _, said = ending_of(script, server.address)
    assert (code, said) == (0, "7\n90.0\n")
