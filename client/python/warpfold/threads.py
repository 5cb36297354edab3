# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Threads on which calls block, so that an event loop does not."""

from __future__ import annotations

import concurrent.futures
import queue
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, Generic, TypeVar

A = TypeVar("A")


class Job(Generic[A]):
    """Work to do on a thread, and its outcome."""

    def __init__(self, do: Callable[[], A]):
        self.future: concurrent.futures.Future[A] = concurrent.futures.Future()
        self._do = do

    def run(self) -> None:
        """Runs once. Releases the work before its future is done: the code that waits for the future may
        continue sooner than this thread."""
        future, do = self.future, self._do
        # An error's traceback has this frame: together with the future it would keep everything in the call
        # alive.
        del self._do, self
        try:
            if not future.set_running_or_notify_cancel():
                return
            try:
                answer = do()
            finally:
                del do
            future.set_result(answer)
        except BaseException as error:
            future.set_exception(error)
        finally:
            del future

    def forget(self) -> None:
        """Drops the work. The job is never run."""
        del self._do


class _Line:
    """The jobs that wait for a thread, and the threads' turns to take one."""

    def __init__(self) -> None:
        self.lock = threading.RLock()  # a signal handler may close what its own thread is using
        self.waiting: OrderedDict[Job[Any], None] = OrderedDict()
        self.busy = 0  # threads
        self.is_closed = False
        # One turn for each job, even for jobs that are no longer there; False is the end, and the last.
        self.turns: queue.SimpleQueue[bool] = queue.SimpleQueue()


class Threads:
    """Do jobs in the order in which they come, at most `most` at a time. Any thread may call.

    They are daemons, since one of them may be in an iterator that never ends: concurrent.futures waits for
    its threads when the interpreter ends. It also keeps a cancelled job until a thread comes to it.
    """

    def __init__(self, most: int):
        self._most = most
        self._started = 0
        self._line = _Line()
        # Threads refer only to the line, so that they end when nobody has this object any more.
        weakref.finalize(self, self._line.turns.put, False).atexit = False

    def add(self, job: Job[Any]) -> None:
        """RuntimeError once this is closed."""
        line = self._line
        with line.lock:
            if line.is_closed:
                raise RuntimeError("this client is closed")
            idle = self._started - line.busy
            if len(line.waiting) >= idle and self._started < self._most:
                threading.Thread(target=_serve, args=(line,), name="warpfold", daemon=True).start()
                self._started += 1
            line.waiting[job] = None
            line.turns.put(True)

    def withdraw(self, job: Job[Any]) -> bool:
        """Returns whether the job was still waiting: if so, it is never run, and nothing of it is kept."""
        with self._line.lock:
            was_waiting = self._line.waiting.pop(job, self) is None
        if was_waiting:
            job.forget()
        return was_waiting

    def close(self) -> None:
        """The threads end when everything that was added is done."""
        with self._line.lock:
            self._line.is_closed = True
            self._line.turns.put(False)


def _serve(line: _Line) -> None:
    while line.turns.get():
        with line.lock:
            if not line.waiting:
                continue
            job, _ = line.waiting.popitem(last=False)
            line.busy += 1
        job.run()
        del job
        with line.lock:
            line.busy -= 1
    line.turns.put(False)  # for the next one
