# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Arguments of every wrong type or value: the exception names them, and nothing was sent."""

import asyncio
import decimal
import fractions
import io
import math
import traceback
import weakref

import numpy
import pytest

import warpfold
import warpfold.aio
from warpfold import errors, files

X = numpy.arange(12.0).reshape(3, 4)


@pytest.mark.parametrize("call, kind, words", [
    (lambda client: client.sum(X, streams="2"), TypeError, "streams"),
    (lambda client: client.sum(X, streams=1.5), TypeError, "streams"),
    (lambda client: client.sum(X, streams=True), TypeError, "streams"),
    (lambda client: client.sum(X, streams=-1), ValueError, "streams"),
    (lambda client: client.sum(X, streams=2**40), ValueError, "streams"),
    (lambda client: client.sum(X, request_id=7), TypeError, "request_id"),
    (lambda client: client.sum(X, request_id=None), TypeError, "request_id"),
    (lambda client: client.sum(X, traceparent=b"00"), TypeError, "traceparent"),
    (lambda client: client.sum(X, tracestate=1), TypeError, "tracestate"),
    (lambda client: client.sum(X, checksum="yes"), TypeError, "checksum"),
    (lambda client: client.sum(X, checksum=1), TypeError, "checksum"),
    (lambda client: client.sum(X, 0, keepdims="no"), TypeError, "keepdims"),
    (lambda client: client.argmax(X, keepdims=1), TypeError, "keepdims"),
    (lambda client: client.var(X, keepdims=None), TypeError, "keepdims"),
    (lambda client: client.reduce(X, ["sum"], matrix="no"), TypeError, "matrix"),
    (lambda client: client.reduce(X, ["sum"], 0, keepdims="no"), TypeError, "keepdims"),
    (lambda client: client.reduce_segments(X[0], ["sum"], lengths=[4], checksum=1), TypeError, "checksum"),
    (lambda client: client.put(X, matrix=(3, 4)), TypeError, "matrix"),
    (lambda client: client.partial(X, ["sum"], matrix=1), TypeError, "matrix"),
    (lambda client: client.sum(X, timeout="3"), TypeError, "timeout"),
    (lambda client: client.sum(X, timeout=True), TypeError, "timeout"),
    (lambda client: client.info(timeout="3"), TypeError, "timeout"),
    (lambda client: client.sum(X, timeout=[1]), TypeError, "timeout"),
    (lambda client: client.sum(X, progress=3), TypeError, "progress"),
    (lambda client: client.put(X, progress="bar"), TypeError, "progress"),
    (lambda client: client.put(X, ttl="3"), TypeError, "ttl"),
    (lambda client: client.put(X, owner=3), TypeError, "owner"),
    (lambda client: client.arrays(3), TypeError, "owner"),
    (lambda client: client.var(X, ddof="1"), TypeError, "ddof"),
    (lambda client: client.var(X, correction=[1]), TypeError, "ddof"),
    (lambda client: client.matrix_product(numpy.ones((3, 2, 2), "int64"), modulus="a"), TypeError, "modulus"),
    (lambda client: client.reduce(X, ["sum"], algorithm=3), TypeError, "algorithm"),
    (lambda client: client.sum(X, nan=["ignore"]), ValueError, "nan"),
    (lambda client: client.sum(X, overflow=3), ValueError, "overflow"),
    (lambda client: client.norm(X, [1]), TypeError, "ord"),
    (lambda client: client.norm(X, "fro"), TypeError, "ord"),
    (lambda client: client.norm(X, 3), ValueError, "ord"),
    (lambda client: client.reduce(X, [3]), TypeError, "named by a str"),
    (lambda client: client.reduce(X, 3), TypeError, "list of names"),
    (lambda client: client.reduce(X, "sum"), TypeError, "list"),
    (lambda client: client.partial(X, [None]), TypeError, "named by a str"),
    (lambda client: client.partial(X, ["sum"], "0"), TypeError, "first_element"),
    (lambda client: client.partial(X, ["sum"], 2**64), ValueError,
     r"first_element must be 0 to 2\*\*64 - 1, not 18446744073709551616$"),
    (lambda client: client.matrix_product(numpy.ones((3, 2, 2), "int32"), modulus=-5), ValueError,
     "modulus must be 2 to the largest value of the elements' type, not -5"),
    (lambda client: client.sum(X, request_id="\ud800"), ValueError, "request_id"),
    (lambda client: client.sum(X, traceparent="\udfff"), ValueError, "traceparent"),
    (lambda client: client.sum(X, tracestate="\udfff"), ValueError, "tracestate"),
    (lambda client: client.put(X, owner="me\ud800"), ValueError, "owner"),
    (lambda client: client.arrays("\ud800"), ValueError, "owner"),
    (lambda client: client.reduce(X, ["sum"], algorithm="\ud800"), ValueError, "algorithm"),
    (lambda client: client.reduce(numpy.ones((0, 2**33, 1)), ["sum"], matrix=True), ValueError, "matrices"),
    (lambda client: client.sum(X, timeout=10**400), ValueError, "timeout is beyond"),
    (lambda client: client.sum(X, timeout=-10**5000), ValueError, "timeout is beyond"),
    (lambda client: client.var(X, ddof=fractions.Fraction(10**400)), ValueError, "ddof is beyond"),
    (lambda client: client.put(X, ttl=10**400), ValueError, "ttl is beyond"),
    (lambda client: client.norm(X, 10**400), ValueError, "ord is beyond"),
    (lambda client: client.sum(X, streams=10**5000), ValueError, "streams has more than"),
    (lambda client: client.partial(X, ["sum"], 10**5000), ValueError, "first_element has more than"),
    (lambda client: client.sum(X, dtype="float31"), TypeError, "float31"),
    (lambda client: client.sum(b"1234", dtype="float31"), TypeError, "float31"),
    (lambda client: client.sum(b"1234", dtype=">f4"), TypeError, "no element type.*byte order"),
    (lambda client: client.max(X, dtype=numpy.dtype(">i8")), TypeError, r"'>i8'\)\.astype\('int64'\)"),
    (lambda client: client.sum(b"1234", dtype=complex), TypeError, "no element type"),
    (lambda client: client.sum(X, dtype="bfloat16"), TypeError, "float32"),
    (lambda client: client.sum(X, dtype=int), TypeError, "astype")])
def test_wrong_options(client, call, kind, words):
    with pytest.raises(kind, match=words):
        call(client)
    assert client.sum(X) == 66


@pytest.mark.parametrize("method, right", [("prod", "product"), ("var", "variance"), ("std", "stddev"),
                                           ("norm", "l2_norm")])
def test_methods_names_are_no_operators(client, method, right):
    for call in (client.reduce, client.partial):
        with pytest.raises(ValueError, match=f"'{right}'"):
            call(X, ["sum", method])
        with pytest.raises(errors.UnimplementedError, match="median") as raised:
            call(X, ["median"])
        assert isinstance(raised.value, NotImplementedError) and raised.value.reason == "UNKNOWN_OPERATOR"


@pytest.mark.parametrize("options, words", [
    ({"dtype": "junk"}, "dtype"), ({"dtype": "float64"}, "dtype"), ({"dtype": None}, "dtype"),
    ({"progress": print}, "progress"), ({"progress": True}, "progress"), ({"streams": 1000}, "streams"),
    ({"streams": 1}, "streams"), ({"checksum": True}, "checksum"), ({"where": True}, "where")])
def test_merges_take_no_options_of_arrays(client, options, words):
    states = [client.partial(X, ["sum"])]
    for merge in (client.merge, client.merge_to_state):
        with pytest.raises(TypeError, match=words):
            merge(states, **options)
        for bad in ({"timeout": -1}, {"request_id": "\ud800"}):
            with pytest.raises(ValueError, match=next(iter(bad))):
                merge(states, **bad)
    assert client.merge(states, timeout=60, request_id="me", traceparent="", tracestate="")["sum"] == 66


def test_what_goes_on_one_stream_takes_no_more(client):
    with client.put(X) as kept:
        for call in (kept.sum, kept[1:].max, lambda **options: kept.sum(1, **options),
                     lambda **options: kept.reduce(["sum"], **options),
                     lambda **options: client.put(X, ttl=1, **options).delete(),
                     lambda **options: client.sum(X, 0, **options),
                     lambda **options: client.reduce(X, ["sum"], 0, **options),
                     lambda **options: client.reduce_segments(X[0], ["sum"], lengths=[4], **options),
                     lambda **options: client.partial(X, ["sum"], **options),
                     lambda **options: client.sum(iter([X]), **options)):
            for streams in (2, 1000):
                with pytest.raises(ValueError, match="one stream"):
                    call(streams=streams)
            call(streams=1)
            call(streams=0)
    pieces, file = iter([X, X]), io.BytesIO(bytes(80))
    for rest, options in ((pieces, {}), (file, {"dtype": "int64"})):
        with pytest.raises(ValueError, match="one stream"):
            client.sum(rest, streams=2, **options)
    assert len(list(pieces)) == 2 and file.tell() == 0, "nothing was taken"


def test_numbers_of_numpys_types(client):
    assert client.sum(X, timeout=numpy.float32(60), streams=numpy.int64(1), checksum=numpy.bool_(True)) == 66
    assert client.var(X, ddof=numpy.int8(1)) == client.var(X, ddof=1)
    for one in (numpy.array(1), numpy.float16(1), fractions.Fraction(1), decimal.Decimal(1)):
        assert client.var(X, ddof=one) == client.var(X, ddof=1)
    assert client.norm(X, numpy.float64(1)) == 66 and client.norm(X, numpy.inf) == 11
    assert client.sum(X, progress=False) == client.sum(X, progress=None) == 66
    assert client.partial(X, ["sum"], numpy.int64(0)).element_count == 12
    assert client.sum(X, 0, keepdims=numpy.bool_(True)).shape == (1, 4)
    assert client.reduce(X[None], ["sum"], matrix=numpy.True_)["sum"].shape == (3, 4)


@pytest.mark.parametrize("bad", [
    numpy.str_("1"), numpy.bytes_(b"1"), numpy.bool_(True), numpy.complex64(1), numpy.timedelta64(1, "s"),
    numpy.datetime64(1, "s"), numpy.void(b"1"), numpy.array("1"), numpy.array(1j), numpy.array([1, 2])])
def test_what_numpy_makes_a_float_of(client, bad):
    for name, call in (("timeout", lambda: client.sum(X, timeout=bad)),
                       ("ttl", lambda: client.put(X, ttl=bad)),
                       ("ddof", lambda: client.var(X, ddof=bad)), ("ord", lambda: client.norm(X, bad)),
                       ("ddof", lambda: client.reduce(X, ["variance"], ddof=bad))):
        with pytest.raises(TypeError, match=f"{name} must be a number, not"):
            call()


@pytest.mark.parametrize("dtype", ["float32", numpy.float32, numpy.dtype("float32"), "f4", "<f4", "single"])
def test_element_types_by_any_name(client, dtype):
    x = numpy.arange(5, dtype="float32")
    assert client.sum(x.tobytes(), dtype=dtype) == 10
    assert client.max(x.tobytes(), dtype=dtype).dtype == numpy.float32
    assert client.sum(iter([]), dtype=dtype) == 0
    assert client.reduce(x.tobytes(), ["sum"], dtype=dtype)["sum"] == 10
    assert client.max(x, dtype=dtype) == 4  # this says the same
    with client.put(x.tobytes(), dtype=dtype) as kept:
        assert kept.sum() == 10
    assert client.merge([client.partial(x.tobytes(), ["sum"], dtype=dtype)])["sum"] == 10
    with pytest.raises(TypeError, match="float64"):
        client.max(x.astype("float64"), dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", numpy.float32, numpy.dtype("float32"), "f4", "<f4", "single"])
def test_raw_files_have_types_of_any_name(client, tmp_path, dtype):
    numpy.arange(5, dtype="float32").tofile(tmp_path / "x")
    (tmp_path / "empty").touch()
    for path, total in ((tmp_path / "x", 10), (tmp_path / "empty", 0)):
        assert files.raw(path, dtype).dtype == "float32" and client.sum(files.raw(path, dtype)) == total
    for bad in ("float31", ">f4", complex, None, object):
        with pytest.raises(TypeError, match="no element type"):
            files.raw(tmp_path / "x", bad)
    with pytest.raises(ValueError, match="bfloat16"):
        files.raw(tmp_path / "x", "bfloat16")


def test_no_time(client):
    for call in (lambda: client.sum(X, timeout=0), lambda: client.info(timeout=0.0),
                 lambda: client.put(X, timeout=0)):
        with pytest.raises(TimeoutError) as raised:
            call()
        assert raised.value.reason == "DEADLINE"
    assert client.sum(X, timeout=math.inf) == 66


@pytest.mark.parametrize("target, kind", [
    ("127.0.0.1:0", ValueError), ("127.0.0.1:65536", ValueError), ("node1:115587", ValueError),
    ("[::1]:99999", ValueError), ("127.0.0.1:-23261", ValueError), ("127.0.0.1:107811x", ValueError),
    ("127.0.0.1: 107811", ValueError), ("127.0.0.1:+107811", ValueError), ("127.0.0.1:107811/x", ValueError),
    ("127.0.0.1:\u0661", ValueError), ("unixhost:107811", ValueError), ("node:name", ValueError),
    ("node", ValueError), ("dns:50051", ValueError), ("[::1]:1:2", ValueError),
    ("::1", ValueError), ("[::1]", ValueError), ("dns:///node", ValueError),
    ("", ValueError), ([], ValueError), (["127.0.0.1:1", ""], ValueError),
    ("127.0.0.1:1,127.0.0.1:2", ValueError), (" 127.0.0.1:1", ValueError), (7, TypeError), ([7], TypeError),
    (None, TypeError), (b"127.0.0.1:1", TypeError), ("\0", ValueError), ("127.0.0.1:1\0x", ValueError),
    (["127.0.0.1:1", "unix:/run/\0x"], ValueError), ("host\ud800:1", ValueError)])
def test_targets_that_are_none(target, kind):
    for connect in (warpfold.connect, warpfold.aio.connect):
        with pytest.raises(kind, match=r"target|port"):
            connect(target)


@pytest.mark.parametrize("target", ["127.0.0.1:65535", "[::1]:1", "unix:/run/x:99999", "dns:///node:1",
                                    "dns://1.1.1.1:53/node:1", "xds:///node", "xds:node"])
def test_targets_that_may_be_one(target):
    warpfold.connect(target).close()


@pytest.mark.parametrize("path", ["", "/run/\0x", "/run/\ud800x", b"/run/\0x"])
def test_memory_sockets_that_are_none(path):
    with pytest.raises(ValueError, match="memory_socket"):
        warpfold.connect("127.0.0.1:1", memory_socket=path)
    warpfold.connect("127.0.0.1:1", memory_socket=b"/run/x").close()
    with pytest.raises(TypeError):
        warpfold.connect("127.0.0.1:1", memory_socket=3)


def test_a_client_of_asyncio_that_is_closed_says_so(server):
    async def scenario():
        client = warpfold.aio.connect(server.address)
        client.close()
        for call in (client.info, client.is_serving, client.arrays, lambda: client.sum(X)):
            with pytest.raises(RuntimeError, match="this client is closed"):
                await call()

    asyncio.run(scenario())


def test_attempts_are_as_many_as_can_be_counted():
    warpfold.connect("127.0.0.1:1", max_attempts=2**31 - 1).close()
    for bad in (0, 2**31, 10**30):
        with pytest.raises(ValueError, match=rf"max_attempts must be 1 to 2\*\*31 - 1, not {bad}$"):
            warpfold.connect("127.0.0.1:1", max_attempts=bad)


def test_connections_are_whole_numbers():
    for options in ({"connections": "3"}, {"connections": 1.5}, {"max_attempts": "4"}):
        with pytest.raises(TypeError, match=next(iter(options))):
            warpfold.connect("127.0.0.1:1", **options)


def test_a_result_has_the_operators_that_failed(client):
    result = client.reduce(numpy.array([2**62, 2**62]), ["sum", "max"])
    assert "sum" in result and "max" in result and "min" not in result
    with pytest.raises(OverflowError):
        result["sum"]
    assert result.get("min", 3) == 3 and list(result) == ["sum", "max"]


def test_results_are_equal_as_mappings_are(client):
    result, same = (client.reduce(numpy.array([1, 2]), ["sum", "max"]) for _ in range(2))
    assert result == same and result == {"sum": 3, "max": 2} and result not in ({"sum": 3}, 3)
    failed, same = (client.reduce(numpy.array([2**62, 2**62]), ["sum", "max"]) for _ in range(2))
    assert failed in (failed,) and failed not in (same, {"max": 2**62}, result)


def test_results_of_matrices_are_compared(client):
    matrices = numpy.arange(24.0).reshape(2, 3, 4)
    result, same = (client.reduce(matrices, ["sum", "max"], matrix=True) for _ in range(2))
    assert result == same == dict(result)
    assert result == {"sum": matrices.sum(0), "max": matrices.max(0).tolist()}
    for other in (client.reduce(-matrices, ["sum", "max"], matrix=True),
                  client.reduce(matrices, ["sum", "min"], matrix=True), client.reduce(X, ["sum", "max"]),
                  client.reduce(matrices[:, :2], ["sum", "max"], matrix=True), {"sum": 3, "max": None}, {}):
        assert result != other and other != result


def test_where_no_operator_has_a_value_reduce_raises(client):
    for operators in (["sum"], ["sum", "product"]):
        with pytest.raises(OverflowError, match="sum"):
            client.reduce(numpy.array([2**62, 2**62]), operators)


def test_subclasses_are_taken_for_their_elements(client):
    got = client.sum(numpy.asmatrix([[1, 2], [3, 4]]), 0)
    assert type(got) is numpy.ndarray and got.tolist() == [4, 6]


def test_a_client_is_closed_twice(server):
    client = warpfold.connect(server.address)
    client.close()
    client.close()
    assert "Raises nothing" in warpfold.Client.close.__doc__


def test_an_operators_error_is_raised_anew_each_time(client):
    class Local:
        pass

    result = client.reduce(numpy.array([2**62, 2**62]), ["sum", "max"])
    seen, kept = [], []
    for _ in range(3):
        local = Local()
        kept.append(weakref.ref(local))
        try:
            result["sum"]
        except errors.OutOfRangeError as error:
            seen.append((type(error), str(error), error.code, error.reason, error.fields))
            assert error is not result.outcomes["sum"].error
            assert len(list(traceback.walk_tb(error.__traceback__))) == 2
    del local
    assert len(set(map(repr, seen))) == 1 and seen[0][3] == "OVERFLOW"
    assert result.outcomes["sum"].error.__traceback__ is None
    assert not any(reference() for reference in kept)


def test_numpys_functions_and_kept_arrays(client):
    with client.put(X) as kept:
        assert (kept.ndim, kept.nbytes, kept.size) == (2, 96, 12)
        assert (kept[1:].ndim, kept[1:].nbytes) == (2, 64)
        for call in (lambda: numpy.sum(kept), lambda: numpy.mean(kept, axis=0), lambda: numpy.asarray(kept),
                     lambda: numpy.add(kept, 1)):
            with pytest.raises(TypeError, match=r"kept\.sum\(\)|__array_ufunc__"):
                call()
