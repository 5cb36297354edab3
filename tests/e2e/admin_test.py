# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The pages of --admin_listen, as probes, scrapes and people see them."""

import contextlib
import http.client
import re
import shutil
import signal
import socket
import subprocess
import unittest

from executables import DEVICE, Server, TestCase, run_server, value, warpfold
from http_pages import get, samples, wait_until

_ADMIN = "--admin_listen=127.0.0.1:0"


def admin_of(server: Server) -> str:
    return re.search(r" admin=(\S+) device=", server.ready_line)[1]


class PagesTest(TestCase):
    def test_the_pages_are_there(self):
        with Server(_ADMIN) as server:
            admin = admin_of(server)
            self.assertNotEqual(admin, server.address)
            self.assertEqual(get(admin, "/healthz"), (200, "ok\n"))
            self.assertEqual(get(admin, "/readyz"), (200, "ready\n"))
            self.assertEqual(get(admin, "/nothing")[0], 404)
            self.assertIn("statusz", get(admin, "/")[1])

    def test_without_the_flag_there_are_none(self):
        with Server() as server:
            self.assertNotIn("admin=", server.ready_line)

    def test_metrics_count_what_was_asked(self):
        with Server(_ADMIN) as server:
            admin = admin_of(server)
            total = value(server.address, "sum", "--iota", "1000000", "--streams", "1")
            self.assertEqual(total, 499999500000)
            warpfold("reduce", "--target", server.address, "--op", "matrix_product", "--iota", "1000")
            refused = 'warpfold_rejections_total{reason="UNSUPPORTED_TYPE"}'
            wait_until(lambda: samples(get(admin, "/metrics")[1])[refused] == 1, "the refusal")
            page = samples(get(admin, "/metrics")[1])
            self.assertEqual(page['warpfold_results_total{operator="sum",code="OK"}'], 1)
            self.assertEqual(page['warpfold_array_bytes_total{method="Reduce"}'], 8_000_000)
            self.assertEqual(page['warpfold_stage_duration_seconds_count{stage="receive"}'], 1)
            self.assertGreater(page['warpfold_stage_duration_seconds_sum{stage="kernel"}'], 0)
            self.assertGreater(page["warpfold_slots"], 0)
            if DEVICE != "cpu":
                # The driver is asked in the background.
                used = 'warpfold_device_memory_used_bytes{device="cuda:0"}'
                wait_until(lambda: used in samples(get(admin, "/metrics")[1]), "what the driver tells")
                page = samples(get(admin, "/metrics")[1])
                self.assertGreater(page[used], 0)
                self.assertGreater(page['warpfold_device_temperature_celsius{device="cuda:0"}'], 0)

    def test_metrics_of_a_process_that_has_no_descriptor_left(self):
        """The open connections, which an alert compares with the limit, were counted as none, and the memory
        as 0."""
        with Server(_ADMIN) as server, \
                contextlib.closing(http.client.HTTPConnection(admin_of(server), timeout=60)) as connection:
            connection.request("GET", "/healthz")
            connection.getresponse().read()
            with server.without_descriptors() as files:
                connection.request("GET", "/metrics")
                page = samples(connection.getresponse().read().decode())
            self.assertEqual(page["process_max_fds"], files)
            self.assertGreaterEqual(page["process_open_fds"], files)
            self.assertGreater(page["process_resident_memory_bytes"], 2**20)

    def test_metrics_of_a_process_without_proc(self):
        """The memory was reported as 0."""
        unshare = ("unshare", "--mount", "--map-root-user")
        if subprocess.run([*unshare, "mount", "-t", "tmpfs", "none", "/proc"], check=False,
                          capture_output=True).returncode != 0:
            self.skipTest("may not make namespaces")
        hide = ("sh", "-c", 'mount -t tmpfs none /proc && exec "$0" "$@"')
        with Server(_ADMIN, prefix=(*unshare, *hide)) as server:
            page = samples(get(admin_of(server), "/metrics")[1])
        self.assertGreater(page["process_max_fds"], 0)
        self.assertNotIn("process_open_fds", page)
        self.assertNotIn("process_resident_memory_bytes", page)

    @unittest.skipUnless(shutil.which("promtool"), "needs promtool")
    def test_promtool_finds_nothing_to_say(self):
        with Server(_ADMIN) as server:
            value(server.address, "sum", "--iota", "1000")
            page = get(admin_of(server), "/metrics")[1]
            done = subprocess.run(["promtool", "check", "metrics"], input=page, text=True,
                                  capture_output=True, check=False, timeout=60)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))

    def test_a_connection_ends_with_its_answer(self):
        """A process that sealed memory had the connection as well, and kept it open for the 10 s until it
        ended."""
        memory = f"--memory_socket={self.folder}/m"
        with Server(_ADMIN, memory) as server:
            host, port = admin_of(server).rsplit(":", 1)
            with socket.create_connection((host, int(port)), timeout=5) as connection:
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b"ok", connection.recv(4096))
                done = warpfold("bench", "--target", server.address, "--source=memory", memory,
                                "--memory_bytes=4096", "--bytes=4096", "--duration=0.01", "--warm_up=0")
                self.assertEqual(done.returncode, 0, done.stderr)
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
                while connection.recv(4096):
                    pass

    def test_alive_while_clients_have_all_connections(self):
        with Server(_ADMIN, "--max_connections=4") as server, contextlib.ExitStack() as stack:
            for _ in range(2):  # one peer gets half of them
                connection = socket.create_connection(server.address.rsplit(":", 1), timeout=10)
                stack.enter_context(connection)
            done = warpfold("health", "--target", server.address)
            self.assertEqual(done.returncode, 1, done.stdout)
            self.assertEqual(get(admin_of(server), "/healthz")[0], 200)

    def test_not_ready_while_it_drains(self):
        with Server(_ADMIN, "--drain_seconds=60") as server:
            admin = admin_of(server)
            client = self.start("reduce", "--target", server.address, "--op", "sum", "--dtype", "int32", "-",
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE)
            client.stdin.write(bytes(4 << 20))
            client.stdin.flush()
            series = 'warpfold_calls_in_progress{method="Reduce"}'
            wait_until(lambda: samples(get(admin, "/metrics")[1])[series] == 1, "the call")
            self.assertRegex(get(admin, "/statusz")[1], r"<td>Reduce</td><td>[0-9.]+m?s</td><td>\d")
            server.process.send_signal(signal.SIGTERM)
            wait_until(lambda: get(admin, "/readyz")[0] == 503, "the drain")
            self.assertEqual(get(admin, "/healthz")[0], 200)
            client.stdin.close()
            self.assertEqual(client.wait(), 0)
            # The end of the test would be a second signal, which ends a server that has not ended yet.
            self.assertEqual(server.process.wait(60), 0)


class RefusalTest(TestCase):
    def refused(self, code: int, *flags: str) -> None:
        done = run_server("--device=cpu", *flags)
        self.assert_exit(code, done, "--admin_listen")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)

    def test_addresses_that_are_none(self):
        for address in ("", "nowhere", "127.0.0.1", "127.0.0.1:65536", "unix:/run/admin.sock"):
            with self.subTest(address):
                self.assert_exit(2, run_server("--device=cpu", f"--admin_listen={address}"), "--admin_listen")

    def test_an_address_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", 0))
            other.listen()
            self.refused(2, f"--admin_listen=127.0.0.1:{other.getsockname()[1]}")

    def test_the_address_of_the_service(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.refused(2, f"--listen=127.0.0.1:{port}", f"--admin_listen=127.0.0.1:{port}")
        # The same address under other names.
        for listen in (f"localhost:{port}", f"0.0.0.0:{port}", f"[::]:{port}"):
            self.refused(2, "--allow_insecure", f"--listen={listen}", f"--admin_listen=127.0.0.1:{port}")


if __name__ == "__main__":
    unittest.main()
