# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""One server on several devices: the same values, whichever of them has the array or a part of it.

WARPFOLD_DEVICE is cuda:all, for as many GPUs as there are, or a list of fake ones for the faulting server.
"""

import json
import os
import re
import signal
import unittest

import numpy

from executables import DEVICE, Server, TestCase, values, warpfold
from http_pages import get, samples, wait_until

_KEEPS = "--resident_bytes=402653184"
_OPERATORS = "sum,max,argmin,variance"
_IS_FAKE = "faulting" in os.environ["WARPFOLD_SERVER"]


class SeveralDevicesTest(TestCase):

    def test_says_which_it_has(self):
        with Server("--admin_listen=127.0.0.1:0") as server:
            devices = re.search(r"device=(\S+)", server.ready_line)[1].split(",")
            if DEVICE != "cuda:all":
                self.assertEqual(len(devices), len(DEVICE.split(",")))
            info = warpfold("info", "--target", server.address).stdout
            self.assertIn(",".join(devices), info)
            admin = re.search(r"admin=(\S+)", server.ready_line)[1]
            for device in devices:
                series = f'warpfold_device_temperature_celsius{{device="{device}"}}'
                wait_until(lambda: series in samples(get(admin, "/metrics")[1]), series)

    def test_arrays_of_all_devices_have_the_values_of_those_that_are_sent(self):
        # More than 64 MiB for each of two devices: the first part ends in the middle.
        array = numpy.random.default_rng(1).standard_normal(20_000_003)
        path = self.save("array.npy", array)
        half = len(array) // 2
        with Server(_KEEPS) as server:
            done = warpfold("put", "--target", server.address, "--json", path)
            self.assertEqual(done.returncode, 0, done.stderr)
            token = json.loads(done.stdout)["token"]
            for first, count in ((0, len(array)), (1, len(array) - 1), (half - 300, 1000), (7, half)):
                part = self.save("part.npy", array[first:first + count])
                found = values(server.address, _OPERATORS, "--array", token, f"--first={first}",
                               f"--count={count}")
                self.assertEqual(found, values(server.address, _OPERATORS, part))
                self.assertEqual(found[1], array[first:first + count].max())

    def test_memory_of_the_host(self):
        socket = f"{self.folder}/memory"
        with Server(f"--memory_socket={socket}") as server:
            done = warpfold("bench", "--target", server.address, "--source", "memory", "--memory_socket",
                            socket, "--bytes", "16777216", "--memory_bytes", "33554432", "--duration", "0.2",
                            "--warm_up", "0", "--rounds", "1", "--json")
            self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(_IS_FAKE, "breaks the device")
    def test_one_lost_ends_the_process(self):
        with Server() as server:
            server.process.send_signal(signal.SIGUSR2)
            self.assertEqual(server.process.wait(60), 4)
            server.kill()


if __name__ == "__main__":
    unittest.main()
