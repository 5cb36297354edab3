# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates to test with. Needs the program openssl."""

import os
import subprocess

_TIMEOUT_S = 60


def expired() -> list[str]:
    """The arguments of "openssl x509 -req" for a certificate of the past: -1 days are none since OpenSSL 3.4,
    which can say the days instead."""
    options = subprocess.run(["openssl", "x509", "-help"], capture_output=True, timeout=_TIMEOUT_S).stderr
    if b"-not_after" not in options:
        return ["-days", "-1"]
    return ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]


def allow_all(folder: str) -> str:
    """The flag of a list that allows everything to everybody, without which --tls_client_ca is refused."""
    path = os.path.join(folder, "allow_all")
    with open(path, "w", encoding="ascii") as file:
        file.write("* *\n")
    return f"--allow={path}"


def make_keys(folder: str, name: str, days: int = 1, names: str = "IP:127.0.0.1") -> tuple[str, str]:
    """Paths of a self-signed certificate, for 127.0.0.1 unless `names` says otherwise, and of its key."""
    cert, key = os.path.join(folder, f"{name}.crt"), os.path.join(folder, f"{name}.key")
    command = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
               "-days", str(days), "-subj", f"/CN={name}", "-addext", f"subjectAltName={names}",
               "-keyout", key, "-out", cert]
    subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT_S)
    return cert, key
