# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Whom a server and a client with TLS keys talk to."""

import itertools
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import socket
import ssl
import subprocess
import time
import unittest

from executables import Server, TestCase, run_server, value, warpfold
from http_pages import metric
from keys import allow_all, expired, make_keys

_TIMEOUT_S = 60
_ODD_ADDRESS = "DER:30:0a:87:08:01:02:03:04:05:06:07:08"  # an alternative name: an IP address of 8 bytes
_PING = bytes([0, 0, 8, 6, 0, 0, 0, 0, 0]) + b"are you?"  # an HTTP/2 frame and the response to it
_PONG = bytes([0, 0, 8, 6, 1, 0, 0, 0, 0]) + b"are you?"


def connect(address: str, trusted: str, own: tuple[str, str] | None = None) -> ssl.SSLSocket:
    """A connection on which HTTP/2 has begun."""
    context = ssl.create_default_context(cafile=trusted)
    context.set_alpn_protocols(["h2"])
    if own:
        context.load_cert_chain(*own)
    host, port = address.split(":")
    secure = context.wrap_socket(socket.create_connection((host, int(port)), timeout=_TIMEOUT_S),
                                 server_hostname=host)
    secure.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
    return secure


def first_bytes(address: str, trusted: str, own: tuple[str, str] | None = None) -> bytes:
    """What the server sends first (its HTTP/2 settings) after the handshake; nothing if it rejects us."""
    try:
        with connect(address, trusted, own) as secure:
            return secure.recv(9)
    except (ssl.SSLError, ConnectionError):
        return b""


def read_to_end_of(connection: socket.socket, text: bytes) -> bytes:
    """Everything that comes up to this text, or until the connection ends."""
    read = b""
    while text not in read and (more := connection.recv(4096)):
        read += more
    return read


@unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
class TlsTest(TestCase):
    def setUp(self):
        super().setUp()
        self.cert, self.key = make_keys(str(self.folder), "server")
        self.client = make_keys(str(self.folder), "client")
        self.flags = [f"--tls_cert={self.cert}", f"--tls_key={self.key}"]
        self.client_ca = (f"--tls_client_ca={self.client[0]}", allow_all(str(self.folder)))
        self.own = ("--tls_cert", self.client[0], "--tls_key", self.client[1])

    def health(self, server: Server, *flags: str) -> int:
        return warpfold("health", "--target", server.address, *flags).returncode

    def why_not(self, server: Server, *flags: str) -> str:
        done = warpfold("reduce", "--iota", "10", "--op", "sum", "--target", server.address, *flags)
        self.assertEqual(done.returncode, 1)
        return done.stderr

    def test_the_server_proves_who_it_is(self):
        with Server(*self.flags) as server:
            self.assertTrue(first_bytes(server.address, self.cert))
            self.assertFalse(first_bytes(server.address, self.client[0]))
            self.assertEqual(self.health(server, "--tls_ca", self.cert), 0)
            self.assertIn("certificate verify failed", self.why_not(server, "--tls_ca", self.client[0]))
            self.assertIn("it may expect TLS or a client certificate", self.why_not(server))

    def test_clients_prove_who_they_are_where_an_authority_is_given(self):
        with Server(*self.flags, *self.client_ca) as server:
            self.assertTrue(first_bytes(server.address, self.cert, self.client))
            self.assertFalse(first_bytes(server.address, self.cert))
            self.assertFalse(first_bytes(server.address, self.cert, (self.cert, self.key)))
            self.assertEqual(self.health(server, "--tls_ca", self.cert, *self.own), 0)
            self.assertIn("it may expect TLS or a client certificate",
                          self.why_not(server, "--tls_ca", self.cert))

    def test_every_command_connects(self):
        with Server(*self.flags) as server:
            trust = ("--tls_ca", self.cert)
            sums = [value(server.address, "sum", "--iota", "1000000", "--streams", streams, *trust)
                    for streams in ("1", "4")]
            self.assertEqual(sums, [499999500000] * 2)
            for command in (("info",), ("bench", "--bytes", "4000000", "--duration", "0.1", "--rounds", "1")):
                done = warpfold(*command, "--target", server.address, *trust)
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_bad_flags(self):
        empty, none = self.file("empty.pem", b""), str(self.folder / "none.pem")
        for reason, *flags in (("empty.pem: the file holds no PEM block CERTIFICATE", "--tls_ca", empty),
                               ("none.pem", "--tls_ca", none),
                               ("--tls_key", "--tls_ca", self.cert, "--tls_cert", self.client[0]),
                               ("--tls_cert", "--tls_ca", self.cert, "--tls_key", self.client[1]),
                               ("--tls_ca", *self.own)):
            with self.subTest(reason):
                self.assert_exit(2, warpfold("health", *flags), reason)

    def test_files_without_keys_are_refused(self):
        contents = {"empty": b"", "no PEM": b"hello\n",
                    "no end": b"-----BEGIN CERTIFICATE-----\n", "another block": b"-----BEGIN X-----\n"}
        good = [*self.flags, *self.client_ca]
        for i, flag in enumerate(("--tls_cert", "--tls_key", "--tls_client_ca")):
            for name, content in contents.items():
                with self.subTest(f"{flag}: {name}"):
                    flags = [*good[:i], f"{flag}={self.file('bad.pem', content)}", *good[i + 1:]]
                    self.assert_exit(2, run_server("--device=cpu", *flags), f"{flag}: ")

    def test_a_key_that_does_not_fit_is_refused_by_name(self):
        other = ["--tls_cert", self.cert, "--tls_key", self.client[1]]
        self.assert_exit(2, run_server("--device=cpu", *other), "--tls_key: the key is not that of")
        encrypted = str(self.folder / "encrypted.key")
        subprocess.run(["openssl", "pkcs8", "-topk8", "-in", self.key, "-out", encrypted,
                        "-passout", "pass:x"], check=True, capture_output=True, timeout=_TIMEOUT_S)
        self.assert_exit(2, run_server("--device=cpu", "--tls_cert", self.cert, "--tls_key", encrypted),
                         "--tls_key: the key is encrypted")

    def test_keys_that_openssl_finds_too_weak(self):
        """No handshake would succeed with them: neither a start nor a renewal accepts them."""
        weak, key = str(self.folder / "weak.crt"), str(self.folder / "weak.key")
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:1024", "-nodes", "-days", "30", "-subj",
                        "/CN=w", "-keyout", key, "-out", weak], check=True, capture_output=True)
        done = run_server("--device=cpu", f"--tls_cert={weak}", f"--tls_key={key}")
        self.assert_exit(2, done, "--tls_cert", "key too small")
        chain = self.folder / "chain.crt"  # a good certificate, and a weak one that might have signed it
        chain.write_bytes(pathlib.Path(self.cert).read_bytes() + pathlib.Path(weak).read_bytes())
        self.assert_exit(2, run_server("--device=cpu", f"--tls_cert={chain}", f"--tls_key={self.key}"),
                         "--tls_cert", "ca key too small")
        with Server(*self.flags, "--admin_listen=127.0.0.1:0") as server:
            old = str(self.folder / "old.crt")
            shutil.copy(self.cert, old)
            shutil.copy(weak, self.cert)
            shutil.copy(key, self.key)
            server.await_log("new keys are refused, the old ones stay in use: --tls_cert: ee key too small")
            self.assertEqual(self.in_use(server), 0)
            self.assertEqual(self.health(server, "--tls_ca", old), 0)

    def test_keys_that_cannot_be_read_for_a_while(self):
        """Rejected files are read again, although they do not change."""
        with Server(*self.flags, "--admin_listen=127.0.0.1:0") as server:
            limits = resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE)
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, (3, limits[1]))
            os.utime(self.cert)
            server.await_log("new keys are refused, the old ones stay in use: --tls_cert: the file cannot be")
            resource.prlimit(server.process.pid, resource.RLIMIT_NOFILE, limits)
            server.await_log("a new certificate is in use")
            self.assertEqual(server.log().count("are refused"), 1)
            self.assertEqual(self.in_use(server), 1)

    def test_expiry_is_warned_of(self):
        with Server(*self.flags) as server:  # a day is left
            self.assertIn("warn", server.log())
            self.assertIn("--tls_cert: the certificate expires on", server.log())
        request, old = str(self.folder / "old.csr"), str(self.folder / "old.crt")
        for command in (["req", "-new", "-key", self.key, "-subj", "/CN=old", "-out", request],
                        ["x509", "-req", "-in", request, "-signkey", self.key, *expired(), "-out", old]):
            subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=_TIMEOUT_S)
        with Server("--tls_cert", old, "--tls_key", self.key) as server:
            self.assertIn("--tls_cert: the certificate expired on", server.log())

    def test_new_keys_are_used_without_a_restart(self):
        authority = str(self.folder / "authority.pem")
        shutil.copy(self.client[0], authority)
        with Server(*self.flags, f"--tls_client_ca={authority}", self.client_ca[1]) as server:
            old = str(self.folder / "old.crt")
            shutil.copy(self.cert, old)
            self.assertEqual(self.health(server, "--tls_ca", old, *self.own), 0)
            stays = self.enterContext(connect(server.address, old, self.client))
            for source, target in zip(make_keys(str(self.folder), "new"), (self.cert, self.key)):
                os.replace(source, target)
            server.await_log("--tls_cert: a new certificate is in use")
            self.assertEqual(self.health(server, "--tls_ca", self.cert, *self.own), 0)
            self.assertEqual(self.health(server, "--tls_ca", old, *self.own), 1)
            # Existing connections go on.
            stays.sendall(_PING)
            self.assertIn(_PONG, read_to_end_of(stays, _PONG))

            # So is the authority for clients.
            other = make_keys(str(self.folder), "other")
            shutil.copy(other[0], authority)
            server.await_log("--tls_client_ca: new authorities are in use")
            self.assertEqual(server.log().count("a new certificate is in use"), 1)
            self.assertEqual(self.health(server, "--tls_ca", self.cert, *self.own), 1)
            self.assertEqual(self.health(server, "--tls_ca", self.cert, "--tls_cert", other[0],
                                         "--tls_key", other[1]), 0)

    def test_keys_of_a_mounted_secret_are_renewed(self):
        """As the kubelet does it (deploy/kubernetes/overlays/mtls): a link is changed to lead to another
        folder."""
        folders = []
        for days, name in enumerate(("first", "second"), start=1):
            folders.append(self.folder / name)
            folders[-1].mkdir()
            for source, target in zip(make_keys(str(self.folder), name, days), ("tls.crt", "tls.key")):
                os.replace(source, folders[-1] / target)
        current = self.folder / "..data"
        current.symlink_to(folders[0])
        for name in ("tls.crt", "tls.key"):
            (self.folder / name).symlink_to(f"..data/{name}")
        with Server(f"--tls_cert={self.folder}/tls.crt", f"--tls_key={self.folder}/tls.key",
                    "--admin_listen=127.0.0.1:0") as server:
            self.assertEqual(self.health(server, "--tls_ca", str(folders[0] / "tls.crt")), 0)
            first_expiry = self.expiry(server)
            (self.folder / "..new").symlink_to(folders[1])
            os.replace(self.folder / "..new", current)
            server.await_log("--tls_cert: a new certificate is in use")
            self.assertEqual(self.health(server, "--tls_ca", str(folders[1] / "tls.crt")), 0)
            self.assertAlmostEqual(self.expiry(server) - first_expiry, 24 * 3600, delta=600)

    def expiry(self, server: Server) -> float:
        """The expiry according to the metrics."""
        return metric(server.ready_line, "warpfold_certificate_expiry_timestamp_seconds")

    def in_use(self, server: Server) -> float:
        """Whether the newest keys are in use, according to the metrics."""
        return metric(server.ready_line, 'warpfold_reload_successful{file="keys"}')

    def test_bad_new_keys_are_refused_and_the_old_ones_stay(self):
        old = str(self.folder / "old.crt")
        shutil.copy(self.cert, old)
        with Server(*self.flags, "--admin_listen=127.0.0.1:0") as server:
            self.assertEqual(self.in_use(server), 1)
            for content, reason in ((b"", "--tls_cert: the file holds no PEM block"),
                                    (b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
                                     "--tls_cert: certificate 1 of the file cannot be read"),
                                    (pathlib.Path(self.client[0]).read_bytes(),
                                     "--tls_key: the key is not that of the certificate"),
                                    (None, "--tls_cert: the file cannot be read")):
                with self.subTest(reason):
                    if content is None:
                        os.remove(self.cert)
                    else:
                        self.file("server.crt", content)
                    server.await_log(f"new keys are refused, the old ones stay in use: {reason}")
                    self.assertEqual(self.health(server, "--tls_ca", old), 0)
                    self.assertEqual(self.in_use(server), 0)
            shutil.copy(old, self.cert)
            server.await_log("a new certificate is in use")
            self.assertEqual(self.in_use(server), 1)
            self.assertEqual(self.health(server, "--tls_ca", old), 0)

    def test_names_that_grpc_cannot_read(self):
        """It would end the process, the server's or the client's."""
        odd_cert, odd_key = make_keys(str(self.folder), "odd", names=_ODD_ADDRESS)
        authorities = self.file("authorities", b"".join(
            pathlib.Path(path).read_bytes() for path in (odd_cert, self.client[0])))
        both = (f"--tls_client_ca={authorities}", allow_all(str(self.folder)))
        with Server(*self.flags, *both) as server:
            for _ in range(3):
                self.assertFalse(first_bytes(server.address, self.cert, (odd_cert, odd_key)))
            self.assertTrue(first_bytes(server.address, self.cert, self.client))
            shutil.copy(odd_cert, self.cert)
            shutil.copy(odd_key, self.key)
            server.await_log("new keys are refused, the old ones stay in use: --tls_cert: the certificate "
                             "has a name that gRPC cannot read")
            self.assertEqual(server.stop(), 0)
        done = run_server(*self.flags)
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("--tls_cert: the certificate has a name that gRPC cannot read", done.stderr)

    def test_a_server_with_names_that_grpc_cannot_read(self):
        odd_cert, odd_key = make_keys(str(self.folder), "odd", names=_ODD_ADDRESS)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(odd_cert, odd_key)
        context.set_alpn_protocols(["h2"])
        command = [os.environ["WARPFOLD_CLI"], "reduce", "--iota=10", "--op=sum", "--timeout=5", "--tls_ca",
                   odd_cert, "--target"]
        with socket.create_server(("127.0.0.1", 0)) as listener, \
                subprocess.Popen([*command, f"127.0.0.1:{listener.getsockname()[1]}"], stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) as client:
            listener.settimeout(_TIMEOUT_S)
            connection, _ = listener.accept()
            connection.settimeout(_TIMEOUT_S)
            with self.assertRaises((ssl.SSLError, ConnectionError)):
                context.wrap_socket(connection, server_side=True).recv(1)
            listener.close()
            client.communicate(timeout=_TIMEOUT_S)
            self.assertEqual(client.returncode, 1)

    def test_a_file_that_is_shortened_while_it_is_sent(self):
        keys = (("plaintext", [], []), ("TLS", self.flags, ["--tls_ca", self.cert]))
        commands = (("reduce", "--op", "sum", "--streams", "1"), ("put",))
        for (name, flags, trust), command in itertools.product(keys, commands):
            with self.subTest(name, command=command[0]), \
                    Server("--resident_bytes=268435456", *flags) as server:
                path = self.folder / "large.bin"
                path.write_bytes(b"")
                os.truncate(path, 128 << 20)
                server.process.send_signal(signal.SIGSTOP)
                client = self.start(*command, "--target", server.address, *trust, "--dtype", "int32",
                                    str(path), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.await_mapping(client, path)
                time.sleep(0.3)  # so that some of it is sent
                os.truncate(path, 0)
                server.process.send_signal(signal.SIGCONT)
                answer, error = client.communicate(timeout=_TIMEOUT_S)
                self.assertEqual((client.returncode, answer), (2, b""), error)
                self.assertIn(b"large.bin: the file was shortened", error)
                kept = warpfold("arrays", "--target", server.address, *trust, "--json")
                self.assertEqual(json.loads(kept.stdout)["arrays"], [], kept.stderr)

    def await_mapping(self, client: subprocess.Popen, path: pathlib.Path) -> None:
        while str(path) not in pathlib.Path(f"/proc/{client.pid}/maps").read_text(encoding="utf-8"):
            self.assertIsNone(client.poll())
            time.sleep(0.01)

    def test_blocks_that_cannot_be_read_are_refused(self):
        garbage = self.file("garbage.pem", b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
        self.assert_exit(2, run_server("--device=cpu", *self.flags, f"--tls_client_ca={garbage}",
                                       self.client_ca[1]), "--tls_")
        self.assert_exit(2, run_server("--device=cpu", *self.flags, "--tls_client_ca="), "--tls_client_ca")


if __name__ == "__main__":
    unittest.main()
