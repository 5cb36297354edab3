# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Certificates for tests. Needs the program openssl."""

import datetime
import os
import subprocess

_TIMEOUT_S = 60


def expired() -> list[str]:
    """The arguments of "openssl x509 -req" for a certificate of the past: since OpenSSL 3.4, -1 days are not
    allowed; that version accepts dates instead."""
    options = subprocess.run(["openssl", "x509", "-help"], capture_output=True, timeout=_TIMEOUT_S).stderr
    if b"-not_after" not in options:
        return ["-days", "-1"]
    return ["-not_before", "20200101000000Z", "-not_after", "20200102000000Z"]


def allow_all(folder: str) -> str:
    """The flag for a list that allows everything to everybody, without which --tls_client_ca is rejected."""
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


def make_keys_valid(folder: str, name: str, begin: datetime.datetime, end: datetime.datetime,
                    curve: str = "P-256") -> tuple[str, str]:
    """Like make_keys, with these dates in UTC: `openssl req` has no way to say when a certificate begins."""
    cert, key = os.path.join(folder, f"{name}.crt"), os.path.join(folder, f"{name}.key")
    request, config = os.path.join(folder, f"{name}.csr"), os.path.join(folder, f"{name}.conf")
    index = os.path.join(folder, f"{name}.index")
    with open(config, "w", encoding="ascii") as file:
        file.write(f"[ca]\ndefault_ca=us\n[us]\ndatabase={index}\nnew_certs_dir={folder}\nrand_serial=yes\n"
                   "default_md=sha256\npolicy=any\nx509_extensions=names\nunique_subject=no\n"
                   "[any]\ncommonName=supplied\n[names]\nsubjectAltName=IP:127.0.0.1\n")
    with open(index, "w", encoding="ascii"):
        pass
    dates = ["-startdate", f"{begin:%Y%m%d%H%M%SZ}", "-enddate", f"{end:%Y%m%d%H%M%SZ}"]
    for command in (["req", "-newkey", "ec", "-pkeyopt", f"ec_paramgen_curve:{curve}", "-nodes", "-subj",
                     f"/CN={name}", "-keyout", key, "-out", request],
                    ["ca", "-batch", "-selfsign", "-config", config, "-keyfile", key, "-in", request, *dates,
                     "-notext", "-out", cert]):
        subprocess.run(["openssl", *command], check=True, capture_output=True, timeout=_TIMEOUT_S)
    return cert, key
