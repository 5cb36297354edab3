# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""What clients and an orchestrator see of a server whose device fails while it serves."""

import os
import signal
import subprocess
import threading
import time
import unittest

import numpy

import service
from service import Failure, chunk, header

_SERVING, _NOT_SERVING = b"\x08\x01", b"\x08\x02"  # grpc.health.v1.HealthCheckResponse
_TIMEOUT_S = 60
_ARRAY = numpy.ones(100_000, numpy.int32)
_SPEC = service.spec(_ARRAY, ["sum"])


class DeviceAtStartTest(unittest.TestCase):

    def test_a_device_that_cannot_reduce_is_not_served(self):
        done = subprocess.run([os.environ["WARPFOLD_SERVER"], "--listen=127.0.0.1:0", "--slots=1"],
                              capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
        self.assertEqual((done.returncode, done.stdout), (3, ""))
        self.assertIn("--device=auto: the device failed", done.stderr)


class FaultTestCase(unittest.TestCase):

    def setUp(self):
        self.server = service.Server()
        self.addCleanup(self.server.kill)
        self.fault_is_over = threading.Event()
        self.addCleanup(self.fault_is_over.set)

    def reduce(self, *messages):
        """A Reduce call that sends these messages and then goes on for as long as the test does."""

        def stream():
            yield from messages
            self.fault_is_over.wait(_TIMEOUT_S)

        return self.server.stub.Reduce.future(stream(), timeout=_TIMEOUT_S)

    def await_log(self, text: str):
        deadline = time.monotonic() + _TIMEOUT_S
        while text not in self.server.log() and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertIn(text, self.server.log())

    def start_one_that_hangs(self):
        self.server.send_signal(signal.SIGUSR1)
        self.await_log("slots will hang")
        call = self.reduce(header(_SPEC), chunk(_ARRAY.tobytes()))
        self.await_log("a slot hangs")
        return call

    def assert_lost(self, call):
        failure = Failure.of(call.exception())
        self.assertEqual((failure.code, failure.reason), ("UNAVAILABLE", "DEVICE_LOST"))


class DeviceFaultTest(FaultTestCase):

    def test_calls_health_and_exit_code(self):
        watch = self.server.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=_TIMEOUT_S)
        self.assertEqual(next(watch), _SERVING)
        waits, hangs = self.reduce(header(_SPEC)), self.start_one_that_hangs()
        self.assertFalse(waits.done() or hangs.done())
        self.server.send_signal(signal.SIGUSR2)
        self.assertEqual(next(watch), _NOT_SERVING)
        self.assert_lost(waits)
        self.assert_lost(hangs)
        self.await_log(" warning Reduce UNAVAILABLE ")
        self.assertEqual(self.server.wait(), 4)

    def test_while_it_drains(self):
        hangs = self.start_one_that_hangs()
        self.server.send_signal(signal.SIGTERM)
        self.await_log("draining")
        self.server.send_signal(signal.SIGUSR2)
        self.assert_lost(hangs)
        self.assertEqual(self.server.wait(), 4)


class HangingDeviceTest(FaultTestCase):
    """The device reports nothing: the server notices by itself, 10 s after it gave the device its work."""

    def assert_ends(self, why: str):
        self.await_log("the device failed: " + why)
        self.assertEqual(self.server.wait(), 4)

    def test_calls_health_and_exit_code(self):
        watch = self.server.channel.unary_stream("/grpc.health.v1.Health/Watch")(b"", timeout=_TIMEOUT_S)
        self.assertEqual(next(watch), _SERVING)
        waits, hangs = self.reduce(header(_SPEC)), self.start_one_that_hangs()
        self.assertEqual(next(watch), _NOT_SERVING)
        self.assert_lost(waits)
        self.assert_lost(hangs)
        self.assert_ends("the device did not end within 10 s")

    def test_while_it_drains(self):
        """SIGTERM ends the process, although its device is still at work for a client that has left."""
        hangs = self.start_one_that_hangs()
        hangs.cancel()
        self.server.send_signal(signal.SIGTERM)
        self.assert_ends("the device did not end within 10 s")

    def test_while_nobody_uses_it(self):
        self.server.send_signal(signal.SIGUSR1)
        self.assert_ends("the device did not end within 10 s")

    def test_a_call_to_the_device_that_does_not_return(self):
        self.server.send_signal(signal.SIGHUP)
        self.await_log("starts will not return")
        stuck = self.reduce(header(_SPEC), chunk(_ARRAY.tobytes()))
        self.assertEqual(Failure.of(stuck.exception()).code, "UNAVAILABLE")
        self.assert_ends("a call to the device does not return")


if __name__ == "__main__":
    unittest.main()
