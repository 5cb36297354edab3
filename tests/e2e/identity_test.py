# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Who calls, and what an allow list lets callers do."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from executables import Server, TestCase, run_server, warpfold
from http_pages import get, metric, samples, wait_until
from keys import allow_all, make_keys

_NOBODY = 65534
_IN_USE = 'warpfold_reload_successful{file="allow"}'  # 1: the newest list is in use
_REDUCE = ("reduce", "--op", "sum", "--iota", "1000")


@unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
class IdentityTest(TestCase):
    def setUp(self):
        super().setUp()
        self.keys = make_keys(str(self.folder), "server")
        self.tls = (f"--tls_cert={self.keys[0]}", f"--tls_key={self.keys[1]}")
        self.allow = self.folder / "allow"

    def client(self, name: str, names: str) -> tuple[str, ...]:
        """Flags of a client with a certificate for these names, which the server's authority includes."""
        cert, key = make_keys(str(self.folder), name, names=names)
        with open(self.folder / "authority.pem", "a", encoding="ascii") as authority:
            authority.write(pathlib.Path(cert).read_text(encoding="ascii"))
        return ("--tls_ca", self.keys[0], "--tls_cert", cert, "--tls_key", key)

    def call(self, server: Server, *flags: str, command: tuple[str, ...] = _REDUCE, target: str = "") -> str:
        """Returns "" if the call succeeds, otherwise the error."""
        done = warpfold(*command, "--target", target or server.address, *flags)
        self.assertIn(done.returncode, (0, 1), done.stderr)
        return "" if done.returncode == 0 else done.stderr

    def identities(self, server: Server) -> list[tuple[str, str]]:
        """The identity of each Reduce or ReduceArray in the log, with its reason or status."""
        server.stop()
        lines = [json.loads(line) for line in server.log().splitlines()]
        return [(line["identity"], line.get("reason", line["status"])) for line in lines
                if line["event"] == "call" and line["method"].startswith("Reduce")]

    def test_certificates_say_who_calls(self):
        clients = {
            "spiffe://example.org/a": self.client("one", "URI:spiffe://example.org/a,DNS:one.example"),
            "dns:client.example": self.client("two", "DNS:Client.Example,DNS:second.example"),
            "anonymous": self.client("three", "IP:127.0.0.1,email:a@example.org"),
            # SPIFFE does not allow two URIs.
            "dns:four.example": self.client("four", "URI:spiffe://a/b,URI:https://a/,DNS:four.example"),
        }
        with Server(*self.tls, f"--tls_client_ca={self.folder}/authority.pem", allow_all(str(self.folder)),
                    "--log_format=json") as server:
            for flags in clients.values():
                self.assertEqual(self.call(server, *flags), "")
            self.assertEqual(self.identities(server), [(identity, "OK") for identity in clients])

    def test_what_no_line_allows_is_denied(self):
        reader = self.client("reader", "URI:spiffe://example.org/reader")
        writer = self.client("writer", "DNS:writer.example")
        stranger = self.client("stranger", "DNS:stranger.example")
        self.allow.write_text("spiffe://example.org/reader GetServerInfo\n"
                              "dns:writer.example *\n* Check\n", encoding="ascii")
        with Server(*self.tls, f"--tls_client_ca={self.folder}/authority.pem", f"--allow={self.allow}",
                    "--log_format=json", "--admin_listen=127.0.0.1:0") as server:
            self.assertEqual(self.call(server, *writer), "")
            self.assertEqual(self.call(server, *reader, command=("info",)), "")
            for flags in (reader, stranger):
                self.assertEqual(self.call(server, *flags, command=("health",)), "")
                said = self.call(server, *flags)
                self.assertIn("PERMISSION_DENIED", said)
                self.assert_tells_nothing(said)
            self.assertIn("PERMISSION_DENIED", self.call(server, *stranger, command=("info",)))
            admin = re.search(r" admin=(\S+) ", server.ready_line)[1]
            rejections = 'warpfold_rejections_total{reason="NOT_ALLOWED"}'
            # The library asks for the server's limits first, if it may. A client may have its answer before
            # the call is counted.
            wait_until(lambda: samples(get(admin, "/metrics")[1]).get(rejections, 0) >= 3, "the rejections")
            counts = samples(get(admin, "/metrics")[1])
            denied = counts[rejections]
            calls = [count for series, count in counts.items()
                     if series.startswith("warpfold_calls_total") and "PERMISSION_DENIED" in series]
            self.assertEqual(sum(calls), denied)
            self.assertEqual(self.identities(server),
                             [("dns:writer.example", "OK"), ("spiffe://example.org/reader", "NOT_ALLOWED"),
                              ("dns:stranger.example", "NOT_ALLOWED")])

    def assert_tells_nothing(self, said: str):
        """Contains no path, no address of another client, and nobody else's name."""
        for word in (str(self.folder), "writer", "authority", "ipv4:", "uid:"):
            self.assertNotIn(word, said)

    def test_users_of_a_unix_socket_and_plaintext(self):
        self.allow.write_text(f"uid:{os.geteuid()} *\nanonymous Check\n", encoding="ascii")
        os.chmod(self.folder, 0o755)
        socket = f"unix:{self.folder}/s"
        with Server(f"--allow={self.allow}", "--log_format=json", listen=f"127.0.0.1:0,{socket}") as server:
            os.chmod(self.folder / "s", 0o777)
            tcp = server.address.split(",")[0]
            self.assertEqual(self.call(server, target=socket), "")
            self.assertIn("PERMISSION_DENIED", self.call(server, target=tcp))
            self.assertEqual(self.call(server, target=tcp, command=("health",)), "")
            expected = [(f"uid:{os.geteuid()}", "OK"), ("anonymous", "NOT_ALLOWED")]
            if os.geteuid() == 0:
                client = shutil.copy(os.environ["WARPFOLD_CLI"], self.folder / "client")
                os.chmod(client, 0o755)
                done = subprocess.run([client, *_REDUCE, "--target", socket], user=_NOBODY, check=False,
                                      capture_output=True, timeout=60, env={})
                self.assertEqual(done.returncode, 1, done.stderr)
                self.assertIn(b"PERMISSION_DENIED", done.stderr)
                expected.append((f"uid:{_NOBODY}", "NOT_ALLOWED"))
            self.assertEqual(self.identities(server), expected)
            self.assertIn(f'"peer":"unix:{os.geteuid()}"', server.log())
            # Only the line that says where the server serves has the path.
            others = [line for line in server.log().splitlines() if "serves on" not in line]
            self.assertNotIn(str(self.folder), "".join(others))

    def test_a_new_list_is_used_and_a_bad_one_is_not(self):
        self.allow.write_text("anonymous Check\n", encoding="ascii")
        with Server(f"--allow={self.allow}", "--admin_listen=127.0.0.1:0") as server:
            self.assertIn("PERMISSION_DENIED", self.call(server))
            self.assertEqual(metric(server.ready_line, _IN_USE), 1)
            self.allow.write_text("anonymous Check\nanonymous Reduce ReduceArray\n", encoding="ascii")
            server.await_log("--allow: a new list is in force")
            self.assertNotIn("asterisk", server.log())
            self.allow.write_text("* *\ndns:*.example.org Check\n", encoding="ascii")
            server.await_log("--allow: dns:*.example.org is for the certificate that has this very name")
            self.allow.write_text("anonymous Check Reduce ReduceArray\n", encoding="ascii")
            server.await_log("--allow: a new list is in force", times=3)
            self.assertEqual(self.call(server), "")
            self.allow.write_text("anonymous Nothing\n", encoding="ascii")
            server.await_log("a new list is refused, the old one stays: --allow: line 1: word 2 is not")
            self.assertEqual(self.call(server), "")
            self.assertEqual(metric(server.ready_line, _IN_USE), 0)
            os.remove(self.allow)
            server.await_log("a new list is refused, the old one stays: --allow: the file cannot be read")
            self.assertEqual(self.call(server), "")

    def test_what_is_no_file_is_not_waited_for(self):
        self.allow.write_text("anonymous *\n", encoding="ascii")
        os.mkfifo(self.folder / "pipe")
        with Server(f"--allow={self.allow}") as server:
            os.replace(self.folder / "pipe", self.allow)
            server.await_log("a new list is refused, the old one stays: --allow: the file cannot be read")
            self.assertEqual(self.call(server), "")
        for path in ("/dev/zero", str(self.allow)):
            self.assert_exit(2, run_server("--device=cpu", f"--allow={path}"), "--allow")

    def test_bad_lists_are_refused_at_the_start(self):
        for text, reason in (("", "--allow: the list allows nothing"),
                             ("uid:0\n", "--allow: line 1: no methods"),
                             ("\nroot *\n", "--allow: line 2: the identity must be")):
            with self.subTest(reason):
                self.allow.write_text(text, encoding="ascii")
                done = run_server("--device=cpu", f"--allow={self.allow}")
                self.assert_exit(2, done, reason)
                self.assertNotIn(str(self.folder), done.stderr)
        self.assert_exit(2, run_server("--device=cpu", f"--allow={self.folder}/none"), "--allow")
        self.allow.write_text("* *\n", encoding="ascii")
        self.assert_exit(2, run_server("--device=cpu", "--channelz", f"--allow={self.allow}"), "--channelz",
                         "--allow")


if __name__ == "__main__":
    unittest.main()
