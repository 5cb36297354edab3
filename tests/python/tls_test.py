# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Servers with TLS, and those that also ask for a client's certificate: with both clients, and from Dask's
tasks."""

import asyncio
import shutil

import numpy
import pytest

import warpfold
from conftest import Server
from keys import allow_all, make_keys
from warpfold import aio, errors

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="makes its keys with openssl")
X = numpy.arange(1 << 20)
TIMEOUT_S = 60  # so that a failure does not hang


class Keys:
    """For each, a certificate, which is its own authority, and its key."""

    def __init__(self, folder):
        self.folder = folder
        self.server, self.client, self.other = (make_keys(folder, name) for name in ("server", "me", "other"))

    def flags(self, *, mutual):
        flags = [f"--tls_cert={self.server[0]}", f"--tls_key={self.server[1]}", "--resident_bytes=16777216"]
        return [*flags, f"--tls_client_ca={self.client[0]}", allow_all(self.folder)] if mutual else flags

    def own(self, pair):
        return {"tls_ca": self.server[0], "tls_cert": pair[0], "tls_key": pair[1]}


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    return Keys(str(tmp_path_factory.mktemp("keys")))


@pytest.fixture(scope="module")
def secure(keys):
    with Server(*keys.flags(mutual=False)) as server:
        yield server.address


@pytest.fixture(scope="module")
def mutual(keys):
    with Server(*keys.flags(mutual=True)) as server:
        yield server.address


def total(address, **tls):
    with warpfold.connect(address, max_attempts=1, **tls) as client:
        return client.sum(X, timeout=TIMEOUT_S)


def total_in_asyncio(address, **tls):
    async def main():
        async with aio.connect(address, max_attempts=1, **tls) as client:
            return await client.sum(X, timeout=TIMEOUT_S)

    return asyncio.run(main())


BOTH = pytest.mark.parametrize("total_by", [total, total_in_asyncio])


@BOTH
def test_the_server_proves_who_it_is(keys, secure, server, total_by):
    assert total_by(secure, tls_ca=keys.server[0]) == X.sum()
    assert total_by(secure, **keys.own(keys.client)) == X.sum()  # nobody asked for a certificate
    for tls in ({}, {"tls_ca": keys.other[0]}):
        with pytest.raises(errors.UnavailableError):
            total_by(secure, **tls)
    with pytest.raises(errors.UnavailableError):
        total_by(server.address, tls_ca=keys.server[0])  # this server has no TLS


@BOTH
def test_what_is_said_of_a_certificate_may_be_in_any_language(keys, secure, tmp_path, total_by):
    with open(keys.server[0], "rb") as file:
        certificate = file.read()
    for encoding in ("utf-8", "latin-1"):
        (tmp_path / "ca.pem").write_bytes("Größe und Güte\n".encode(encoding) + certificate)
        assert total_by(secure, tls_ca=tmp_path / "ca.pem") == X.sum()
    (tmp_path / "ca.pem").write_bytes(certificate.replace(b"A", b"\xe9", 1))
    with pytest.raises(ValueError, match=r"ca\.pem"):
        warpfold.connect(secure, tls_ca=tmp_path / "ca.pem")


@BOTH
def test_the_client_proves_who_it_is(keys, mutual, total_by):
    assert total_by(mutual, **keys.own(keys.client)) == X.sum()
    for tls in ({}, {"tls_ca": keys.server[0]}, keys.own(keys.other)):
        with pytest.raises(errors.UnavailableError):
            total_by(mutual, **tls)


def test_every_kind_of_call(keys, mutual):
    with warpfold.connect(mutual, **keys.own(keys.client)) as client:
        assert client.is_serving() and client.info()["version"]
        assert client.sum(X, streams=4) == client.sum(X[::-1]) == client.sum(iter([X])) == X.sum()
        assert (client.max(X.reshape(4, -1), 1) == X.reshape(4, -1).max(1)).all()
        with client.put(X) as kept:
            assert kept[1:].sum() == X.sum() and client.array(kept.token).max() == X[-1]
            assert len(client.arrays()) == 1
        states = [client.partial(X[:4096], ["sum"]), client.partial(X[4096:], ["sum"], 4096)]
        assert client.merge([client.merge_to_state(states)])["sum"] == X.sum()


def test_chunks_of_dask(keys, mutual):
    dask_array = pytest.importorskip("dask.array")
    import warpfold.dask

    chunks = dask_array.from_array(X, chunks=1 << 18)
    for tls, right in ((keys.own(keys.client), True), (keys.own(keys.other), False)):
        delayed = warpfold.dask.reduce(chunks, "sum", [mutual], timeout=TIMEOUT_S, **tls)
        if right:
            assert delayed.compute(scheduler="threads") == X.sum()
        else:
            with pytest.raises(errors.UnavailableError):
                delayed.compute(scheduler="threads")


@pytest.mark.parametrize("connect", [warpfold.connect, aio.connect])
def test_files_that_are_no_keys_are_named(keys, connect, tmp_path):
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    with pytest.raises(ValueError, match=r"garbage\.pem"):
        connect("127.0.0.1:1", tls_ca=garbage)
    with pytest.raises(ValueError, match=r"other.*KEY_VALUES_MISMATCH"):
        connect("127.0.0.1:1", **keys.own((keys.client[0], keys.other[1])))


@pytest.mark.parametrize("connect", [warpfold.connect, aio.connect])
def test_a_certificate_and_its_key_go_together(keys, connect):
    for own in ({"tls_cert": keys.client[0]}, {"tls_key": keys.client[1]}):
        with pytest.raises(ValueError, match="tls_cert and tls_key go together"):
            connect("127.0.0.1:1", tls_ca=keys.server[0], **own)
        with pytest.raises(ValueError, match="tls_ca"):
            connect("127.0.0.1:1", **own)
