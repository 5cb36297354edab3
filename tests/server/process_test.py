# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The process contract of warpfold-server: READY line, exit codes, sockets. Takes the executable's path."""

import json
import os
import re
import signal
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import unittest

SERVER = sys.argv.pop()
READY = re.compile(r"^READY listen=(\S+) device=(.+)$")
SECONDS = 60  # until a hanging server fails the test


class Server:
    """A server that runs until the end of the `with` block."""

    def __init__(self, *flags):
        self.process = subprocess.Popen([SERVER, "--device=cpu", *flags], text=True,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ready = READY.match(self.process.stdout.readline())

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.communicate()

    def stop(self, how):
        """The exit code and what was logged."""
        self.process.send_signal(how)
        _, log = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, log


def run(*flags):
    return subprocess.run([SERVER, *flags], text=True, capture_output=True, timeout=SECONDS, check=False)


def make_keys(folder, name):
    """Paths of a self-signed certificate for 127.0.0.1 and of its key."""
    cert, key = os.path.join(folder, f"{name}.crt"), os.path.join(folder, f"{name}.key")
    subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                    "-nodes", "-days", "1", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
                    "-keyout", key, "-out", cert], check=True, capture_output=True, timeout=SECONDS)
    return cert, key


def first_bytes(address, trusted, own=None):
    """What the server says first (its HTTP/2 settings) after the handshake; nothing if it refuses us."""
    context = ssl.create_default_context(cafile=trusted)
    context.set_alpn_protocols(["h2"])
    if own:
        context.load_cert_chain(*own)
    host, port = address.split(":")
    try:
        with socket.create_connection((host, int(port)), timeout=SECONDS) as plain:
            with context.wrap_socket(plain, server_hostname=host) as secure:
                secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
                return secure.recv(9)
    except (ssl.SSLError, ConnectionError):
        return b""


class ProcessTest(unittest.TestCase):
    def test_ready_names_the_port_that_was_bound(self):
        with Server("--listen=127.0.0.1:0") as server:
            self.assertEqual(server.ready[2], "cpu")
            host, port = server.ready[1].split(":")
            self.assertNotEqual(port, "0")
            socket.create_connection((host, int(port)), timeout=SECONDS).close()

    def test_drains_at_sigterm_and_sigint(self):
        for how in (signal.SIGTERM, signal.SIGINT):
            with Server("--listen=127.0.0.1:0") as server:
                code, log = server.stop(how)
                self.assertEqual(code, 0)
                self.assertIn("drained", log)

    def test_a_unix_socket_is_removed_and_a_stale_one_replaced(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            with socket.socket(socket.AF_UNIX) as stale:
                stale.bind(path)
            with Server(f"--listen=unix:{path},127.0.0.1:0") as server:
                self.assertEqual(len(server.ready[1].split(",")), 2)
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)
                self.assertEqual(server.stop(signal.SIGTERM)[0], 0)
            self.assertFalse(os.path.exists(path))

    def test_an_address_in_use_is_refused(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")
            with Server(f"--listen=unix:{path},127.0.0.1:0") as server:
                for address in server.ready[1].split(","):
                    second = run("--device=cpu", f"--listen={address}")
                    self.assertEqual(second.returncode, 2)
                    self.assertNotIn("READY", second.stdout)
                with socket.socket(socket.AF_UNIX) as client:
                    client.connect(path)  # still the first server's

    def test_bad_flags(self):
        with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
            file.write("not a certificate")
            file.flush()
            for flags in (["--slots=0"], ["--nonsense"], ["--listen=nowhere"],
                          [f"--tls_cert={file.name}", f"--tls_key={file.name}", "--device=cpu"]):
                result = run("--listen=127.0.0.1:0", *flags)
                self.assertEqual(result.returncode, 2, result)
                self.assertNotIn("READY", result.stdout)
                self.assertTrue(result.stderr)

    @unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
    def test_tls(self):
        with tempfile.TemporaryDirectory() as folder:
            cert, key = make_keys(folder, "server")
            client = make_keys(folder, "client")
            flags = ["--listen=127.0.0.1:0", f"--tls_cert={cert}", f"--tls_key={key}"]
            with Server(*flags) as server:
                self.assertTrue(first_bytes(server.ready[1], cert))
                self.assertFalse(first_bytes(server.ready[1], client[0]))
            with Server(*flags, f"--tls_client_ca={client[0]}") as server:
                self.assertTrue(first_bytes(server.ready[1], cert, client))
                self.assertFalse(first_bytes(server.ready[1], cert))
                self.assertFalse(first_bytes(server.ready[1], cert, (cert, key)))

    def test_a_device_that_is_not_there(self):
        result = run("--listen=127.0.0.1:0", "--device=cuda:4711")
        self.assertEqual(result.returncode, 3)
        self.assertIn("cuda:4711", result.stderr)

    def test_json_log(self):
        with Server("--listen=127.0.0.1:0", "--log_format=json") as server:
            _, log = server.stop(signal.SIGTERM)
        for line in log.splitlines():
            self.assertEqual(set(json.loads(line)), {"time", "level", "message"})
        self.assertIn("drained", log)


if __name__ == "__main__":
    unittest.main()
