# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Keys that are well formed but that no peer would accept, at the start and while the server serves; and
files that contain no keys."""

import datetime
import os
import pathlib
import shutil
import unittest

from executables import Server, TestCase, run_server, warpfold
from http_pages import metric
from keys import allow_all, make_keys, make_keys_valid

_NOW = datetime.datetime.now(datetime.timezone.utc)
_YEAR = datetime.timedelta(days=365)
_PAST = (_NOW - 2 * _YEAR, _NOW - _YEAR)
_FUTURE = (_NOW + _YEAR, _NOW + 2 * _YEAR)
_PRESENT = (_NOW - _YEAR, _NOW + _YEAR)
_REFUSED = "new keys are refused, the old ones stay in use: "


def day(date: datetime.datetime) -> str:
    return f"{date:%Y-%m-%d}"


@unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
class TlsDatesTest(TestCase):
    def setUp(self):
        super().setUp()
        self.cert, self.key = make_keys(str(self.folder), "server", days=30)
        self.first = str(self.folder / "first.crt")
        shutil.copy(self.cert, self.first)

    def keys(self, name: str, dates: tuple[datetime.datetime, datetime.datetime],
             curve: str = "P-256") -> tuple[str, str]:
        return make_keys_valid(str(self.folder), name, *dates, curve)

    def serve(self, *flags: str) -> Server:
        return Server(f"--tls_cert={self.cert}", f"--tls_key={self.key}", "--admin_listen=127.0.0.1:0",
                      *flags)

    def assert_in_use(self, server: Server, cert: str, newest: int) -> None:
        """Checks that handshakes use this certificate, and that the metrics say whether it is the newest."""
        health = warpfold("health", "--target", server.address, "--tls_ca", cert)
        self.assertEqual(health.returncode, 0, health.stderr)
        self.assertEqual(metric(server.ready_line, 'warpfold_reload_successful{file="keys"}'), newest)

    def test_new_keys_that_no_client_accepts_are_refused(self):
        cases = (("past", _PAST, "P-256", f"--tls_cert: the certificate expired on {day(_PAST[1])}"),
                 ("future", _FUTURE, "P-256",
                  f"--tls_cert: the certificate is not valid before {day(_FUTURE[0])}"),
                 ("curve", _PRESENT, "secp256k1",
                  "--tls_key: no handshake comes about with a key of the type EC secp256k1: no suitable"))
        with self.serve() as server:
            for name, dates, curve, reason in cases:
                with self.subTest(name):
                    for source, target in zip(self.keys(name, dates, curve), (self.cert, self.key)):
                        os.replace(source, target)
                    server.await_log(_REFUSED + reason)
                    self.assert_in_use(server, self.first, newest=0)
            good, key = self.keys("good", _PRESENT)
            shutil.copy(good, self.cert)
            shutil.copy(key, self.key)
            server.await_log("a new certificate is in use")
            self.assert_in_use(server, good, newest=1)

    def test_a_certificate_of_the_near_future_is_taken_up_when_it_is_valid(self):
        """For example one from an authority whose clock is ahead: nobody has to write it again."""
        with self.serve() as server:
            begin = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=10)
            soon, key = self.keys("soon", (begin, _FUTURE[0]))
            os.replace(key, self.key)
            shutil.copy(soon, self.cert)
            server.await_log(_REFUSED + "--tls_cert: the certificate is not valid before ")
            server.await_log("a new certificate is in use")
            self.assert_in_use(server, soon, newest=1)

    def test_an_intermediate_certificate_that_is_valid_no_more(self):
        """Peers reject the whole chain: its first certificate alone proves nothing."""
        past, good = self.keys("past", _PAST)[0], self.keys("good", _PRESENT)
        chain = pathlib.Path(good[0]).read_bytes() + pathlib.Path(past).read_bytes()
        fault = f"--tls_cert: another certificate of the chain expired on {day(_PAST[1])}"
        with self.serve() as server:
            shutil.copy(good[1], self.key)
            pathlib.Path(self.cert).write_bytes(chain)
            server.await_log(_REFUSED + fault)
            self.assert_in_use(server, self.first, newest=0)
        with self.serve() as server:
            server.await_log(fault)
            expiry = metric(server.ready_line, "warpfold_certificate_expiry_timestamp_seconds")
            self.assertAlmostEqual(expiry, _PAST[1].timestamp(), delta=2)

    def test_what_expires_while_it_is_in_use_is_said(self):
        soon = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(seconds=10)
        cert, key = self.keys("short", (_PRESENT[0], soon))
        with Server(f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={cert}",
                    allow_all(str(self.folder)), "--admin_listen=127.0.0.1:0") as server:
            expiry = metric(server.ready_line, "warpfold_client_authority_expiry_timestamp_seconds")
            self.assertAlmostEqual(expiry, soon.timestamp(), delta=2)
            for name in ("--tls_cert: the certificate", "--tls_client_ca: the last certificate"):
                server.await_log(f"{name} expired on ")

    def test_authorities_that_are_valid_no_more(self):
        past, future = (self.keys(name, dates)[0] for name, dates in (("past", _PAST), ("future", _FUTURE)))
        client = make_keys(str(self.folder), "client")
        authority = str(self.folder / "authority.pem")
        shutil.copy(client[0], authority)
        own = ("--tls_cert", client[0], "--tls_key", client[1])
        with self.serve(f"--tls_client_ca={authority}", allow_all(str(self.folder))) as server:
            for source, reason in ((past, f"the last certificate expired on {day(_PAST[1])}"),
                                   (future, f"no certificate is valid before {day(_FUTURE[0])}")):
                shutil.copy(source, authority)
                server.await_log(f"{_REFUSED}--tls_client_ca: {reason}")
                health = warpfold("health", "--target", server.address, "--tls_ca", self.first, *own)
                self.assertEqual(health.returncode, 0, health.stderr)
                self.assertEqual(metric(server.ready_line, 'warpfold_reload_successful{file="keys"}'), 0)
            with open(authority, "ab") as file:  # one that is valid is enough
                file.write(pathlib.Path(client[0]).read_bytes())
            server.await_log("new authorities are in use")

    def test_an_old_certificate_does_not_keep_authorities_in_force(self):
        """Operators may withdraw an authority whatever the server's own certificate is."""
        cert, key = self.keys("past", _PAST)
        authority = str(self.folder / "authority.pem")
        shutil.copy(self.keys("withdrawn", _PRESENT)[0], authority)
        with Server(f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={authority}",
                    allow_all(str(self.folder))) as server:
            shutil.copy(self.keys("its_heir", _PRESENT)[0], authority)
            server.await_log("new authorities are in use")

    def test_a_start_warns_of_dates_and_serves(self):
        past, future = self.keys("past", _PAST), self.keys("future", _FUTURE)
        for (cert, key), authority, *warnings in (
                (past, future[0], f"--tls_cert: the certificate expired on {day(_PAST[1])}",
                 f"--tls_client_ca: no certificate is valid before {day(_FUTURE[0])}"),
                (future, past[0], f"--tls_cert: the certificate is not valid before {day(_FUTURE[0])}",
                 f"--tls_client_ca: the last certificate expired on {day(_PAST[1])}")):
            with Server(f"--tls_cert={cert}", f"--tls_key={key}", f"--tls_client_ca={authority}",
                        allow_all(str(self.folder))) as server:
                for warning in warnings:
                    server.await_log(warning)

    def test_a_key_of_a_curve_without_a_signature_is_refused_by_name(self):
        cert, key = self.keys("curve", _PRESENT, "secp256k1")
        self.assert_exit(2, run_server("--device=cpu", f"--tls_cert={cert}", f"--tls_key={key}"),
                         "--tls_key: no handshake comes about with a key of the type EC secp256k1")
        self.assert_exit(2, warpfold("health", "--tls_ca", self.cert, "--tls_cert", cert, "--tls_key", key),
                         "curve.key: no handshake comes about with a key of the type EC secp256k1")

    def test_each_reason_for_a_file_that_cannot_be_read_is_logged(self):
        fifo, huge = str(self.folder / "fifo"), self.file("huge", bytes((4 << 20) + 1))
        os.mkfifo(fifo)
        link = self.folder / "link"
        link.symlink_to(self.cert)
        self.cert = str(link)
        with self.serve() as server:
            for target, reason in ((str(self.folder / "none"), "No such file or directory"),
                                   (fifo, "it is a FIFO"), ("/dev/zero", "it is a device"),
                                   (str(self.folder), "it is a directory"),
                                   (huge, "it is larger than 4 MiB")):
                with self.subTest(reason):
                    os.remove(link)
                    link.symlink_to(target)
                    server.await_log(f"{_REFUSED}--tls_cert: the file cannot be read: {reason}")
                    self.assert_in_use(server, self.first, newest=0)


if __name__ == "__main__":
    unittest.main()
