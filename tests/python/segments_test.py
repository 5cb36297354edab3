# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""reduce_segments: the bits and types of a call for each segment alone, and what is rejected before anything
is sent. Along axes: axis_test.py and several_along_axes_test.py."""

import array
import asyncio
import itertools
import os

import ml_dtypes
import numpy
import pytest

import warpfold
from conftest import OnGpu, Server, WithMask
from gpu_memory_test import SETTINGS, Connection, Driver
from methods_test import FLOATS, INTEGERS, sample
from warpfold import _native, aio, arrays, errors, gpu

OF_MATRICES = {"matrix_product", "affine_compose"}
OF_FLOATS = {"exact_sum", "logsumexp"}
X = numpy.random.default_rng(5).normal(size=1000)
LENGTHS = numpy.array([10, 0, 300, 1, 680, 9, 0])


def operators_of(dtype):
    """Two lists, since a call takes 16, both with an operator that has a value for any array."""
    others = OF_FLOATS if dtype not in FLOATS and dtype != "bfloat16" else {"bit_and", "bit_or", "bit_xor"}
    names = [name for name in warpfold.operator_names() if name not in OF_MATRICES | others | {"any"}]
    return [[*names[::2], "any"], [*names[1::2], "any"]]


def cut(size, count, seed):
    """Random lengths, of which some are 0, with this sum."""
    random = numpy.random.default_rng(seed)
    ends = numpy.sort(random.integers(0, size, count - 1, endpoint=True))
    return numpy.diff(ends, prepend=0, append=size)


def fields_of(outcome):
    values = outcome.value if isinstance(outcome.value, tuple) else (outcome.value,)
    return [*values, outcome.element]


def in_array(values):
    return numpy.array([-1 if value is None else value for value in values])


def check(client, array, operators, lengths, of=None, **options):
    """The Result, which was compared with calls for each segment of the array; `of` is another form of it."""
    result = client.reduce_segments(array if of is None else of, operators, lengths=lengths, **options)
    assert list(result) == operators and result.element_count == len(array)
    rows = numpy.split(array, numpy.cumsum(lengths)[:-1]) if len(lengths) else []
    alone = [client.reduce(row, operators, **options).outcomes for row in rows]
    for name, outcome in result.outcomes.items():
        wanted = [row[name] for row in alone]
        failed = [at for at, one in enumerate(wanted) if one.error is not None]
        if failed:
            error, want = outcome.error, wanted[failed[0]].error
            assert outcome.value is None and (type(error), error.reason) == (type(want), want.reason)
            assert error.fields == {**want.fields, "segment": str(failed[0])}
            assert str(error).startswith(f"{error.code} ({error.reason}): segment {failed[0]}: ")
            continue
        for got, *of_each in zip(fields_of(outcome), *map(fields_of, wanted), strict=True):
            if got is None:
                assert set(of_each) <= {None}
                continue
            want = in_array(of_each)
            assert got.shape == want.shape and got.dtype == want.dtype, (name, got.dtype, want.dtype)
            assert got.tobytes() == want.tobytes(), name
    return result


@pytest.mark.parametrize("dtype", (*INTEGERS, *FLOATS, "bool", "bfloat16"))
@pytest.mark.parametrize("seed", range(3))
def test_every_operator_over_every_type(client, dtype, seed):
    x = sample("float32", 500, seed).astype(ml_dtypes.bfloat16) if dtype == "bfloat16" \
        else sample(dtype, 500, seed)
    if seed == 1 and dtype in (*FLOATS, "bfloat16"):
        x[::97] = numpy.nan
        x[::89] = -numpy.inf
    for operators in operators_of(dtype):
        full = numpy.array([1, 3, 246, 250])
        assert all(outcome.error is None or outcome.error.reason == "OVERFLOW"
                   for outcome in check(client, x, operators, full).outcomes.values())
        check(client, x, operators, cut(500, 12, seed), ddof=seed)


@pytest.mark.parametrize("seed", range(4))
def test_numpys_reduceat(client, seed):
    x = sample("int32", 10_000, seed)
    lengths = cut(10_000, 200, seed)
    lengths = lengths[lengths > 0]
    offsets = numpy.append(0, numpy.cumsum(lengths))
    result = client.reduce_segments(x, ["sum", "min", "max"], offsets=offsets)
    numpy.testing.assert_array_equal(result["sum"], numpy.add.reduceat(x.astype("int64"), offsets[:-1]))
    numpy.testing.assert_array_equal(result["min"], numpy.minimum.reduceat(x, offsets[:-1]))
    numpy.testing.assert_array_equal(result["max"], numpy.maximum.reduceat(x, offsets[:-1]))
    assert result == client.reduce_segments(x, ["sum", "min", "max"], lengths=lengths)


def test_segments_longer_than_a_message(client):
    x = sample("float32", 3_000_000)
    lengths = numpy.array([7, 1_500_000, 0, 1_400_000, 99_993])
    check(client, x, ["sum", "variance", "argmax", "last"], lengths, checksum=True, nan="ignore")


def test_a_hundred_thousand_segments(client):
    lengths = numpy.random.default_rng(3).integers(0, 20, 100_000)
    x = sample("float64", lengths.sum())
    whole = (x * 1000).astype("int64")
    ends = numpy.append(0, numpy.cumsum(whole))[numpy.append(0, numpy.cumsum(lengths))]
    numpy.testing.assert_array_equal(client.reduce_segments(whole, ["sum"], lengths=lengths)["sum"],
                                     numpy.diff(ends))
    result = client.reduce_segments(x, ["sum", "count_nonzero", "mean"], lengths=lengths)
    assert result.outcomes["mean"].error.fields["segment"] == str(numpy.flatnonzero(lengths == 0)[0])
    assert result["count_nonzero"].sum() == numpy.count_nonzero(x)
    rows = numpy.split(x, numpy.cumsum(lengths)[:-1])
    for at in numpy.random.default_rng(4).integers(0, len(lengths), 200):
        assert result["sum"][at] == client.sum(rows[at])
    assert client.reduce_segments(x, ["mean"], lengths=lengths[lengths > 0])["mean"].size \
        == numpy.count_nonzero(lengths)


def test_segments_without_elements(client):
    x = numpy.array([5, 7])
    result = client.reduce_segments(x, ["sum", "product", "all", "any", "max_abs", "min", "describe"],
                                    lengths=[0, 1, 0, 0, 1, 0])
    assert result["sum"].tolist() == [0, 5, 0, 0, 7, 0] and result["product"].tolist() == [1, 5, 1, 1, 7, 1]
    assert result["all"].tolist() == [True] * 6 and result["max_abs"].dtype == "uint64"
    for name in ("min", "describe"):
        with pytest.raises(errors.InvalidArgumentError, match=r"EMPTY_ARRAY.*segment 0: ") as raised:
            result[name]
        assert raised.value.fields == {"operator": name, "segment": "0"}
    for empty in (x[:0], numpy.empty(0, "int8")):
        assert client.reduce_segments(empty, ["sum"], lengths=[0, 0])["sum"].tolist() == [0, 0]
        for lengths in ({"lengths": []}, {"offsets": [0]}, {"lengths": numpy.empty(0, "int32")}):
            result = client.reduce_segments(empty, ["max", "minmax"], **lengths)
            assert result["max"].shape == result["minmax"].min.shape == (0,)
            assert result["max"].dtype == empty.dtype


def test_an_operator_without_a_value_for_one_segment(client):
    x = numpy.array([1, 2**62, 2**62, 3, 2**62, 2**62])
    result = client.reduce_segments(x, ["sum", "max", "product"], lengths=[1, 2, 1, 2])
    assert result["max"].tolist() == [1, 2**62, 3, 2**62] and "sum" in result
    for name in ("sum", "product"):
        with pytest.raises(OverflowError, match=r'segment 1: .* does not fit 64 bits; overflow="wrap" would'):
            result[name]
        assert result.outcomes[name].error.fields == {"operator": name, "segment": "1"}
    with pytest.raises(OverflowError, match=r"segment 1: .*product"):
        client.reduce_segments(x, ["product", "sum"], lengths=[1, 2, 1, 2])
    wrapped = client.reduce_segments(x, ["sum"], lengths=[1, 2, 1, 2], overflow="wrap")
    assert wrapped["sum"].tolist() == [1, -2**63, 3, -2**63]
    with pytest.raises(errors.InvalidArgumentError, match="segment 1: "):
        client.reduce_segments([1.0, numpy.nan], ["argmin"], lengths=[1, 1], nan="ignore")


def test_what_a_result_says(client):
    result = client.reduce_segments(X, ["sum", "argmin"], lengths=LENGTHS[LENGTHS > 0], timeout=60)
    assert result.element_count == 1000 and result.way == "memory" and result.timings.total > 0
    assert result.device.startswith(result.backend)
    assert "argmin=array(" in repr(result) and "1000 float64" in repr(result)
    assert result == dict(result) and result != client.reduce_segments(X, ["sum", "argmin"], lengths=[1000])
    minmax = client.reduce_segments(X, ["minmax"], lengths=[500, 500])
    assert minmax == client.reduce_segments(X, ["minmax"], offsets=[0, 500, 1000])
    assert minmax != client.reduce_segments(-X, ["minmax"], lengths=[500, 500])


@pytest.mark.parametrize("form", [
    list, tuple, lambda x: x.astype("uint8" if x.max() < 256 else "uint16"), lambda x: x.astype(">i8"),
    lambda x: x.astype("uint64"), lambda x: numpy.repeat(x, 2)[::2], lambda x: array.array("q", x),
    lambda x: [numpy.int16(one) for one in x], lambda x: x.astype("int8") if x.max() < 128 else x])
def test_integers_of_any_kind(client, form):
    want = check(client, X, ["sum"], LENGTHS)
    offsets = numpy.append(0, numpy.cumsum(LENGTHS))
    assert client.reduce_segments(X, ["sum"], lengths=form(LENGTHS)) == want
    assert client.reduce_segments(X, ["sum"], offsets=form(offsets)) == want
    tens = numpy.full(100, 10)
    assert client.reduce_segments(X, ["sum"], lengths=form(tens))["sum"].tobytes() \
        == client.sum(X.reshape(-1, 10), axis=1).tobytes()


def test_lists_of_arrow(client):
    pyarrow = pytest.importorskip("pyarrow")
    for kind in (pyarrow.list_, pyarrow.large_list):
        lists = pyarrow.array([[1.0, 2.0], [], [3.0, 4.0, 5.0]], kind(pyarrow.float64()))
        result = client.reduce_segments(lists.values.to_numpy(), ["sum"], offsets=lists.offsets)
        assert result["sum"].tolist() == [3, 0, 12]
        part = lists[1:]
        assert part.offsets[0].as_py() == 2
        with pytest.raises(ValueError, match=r"not from 2 to 5: of a part"):
            client.reduce_segments(part.values.to_numpy(), ["sum"], offsets=part.offsets)


@pytest.mark.parametrize("form", [lambda m: m, numpy.asarray, lambda m: memoryview(m._mmap)])
def test_lengths_in_a_file_that_became_shorter(client, tmp_path, form):
    path = tmp_path / "lengths"
    numpy.ones(10_000, "uint8").tofile(path)
    lengths, x = form(numpy.memmap(path, "uint8", "r")), numpy.arange(10_000)
    assert client.reduce_segments(x, ["sum"], lengths=lengths)["sum"].tolist() == x.tolist()
    os.truncate(path, 4096)
    with pytest.raises(ValueError, match="shorter"):
        client.reduce_segments(x, ["sum"], lengths=lengths)


class Masked:
    """An array of another library, of which some elements do not count."""

    def __init__(self, array):
        self.array = array
        self.__array_interface__ = {**array.__array_interface__, "mask": numpy.zeros(array.shape, bool)}


@pytest.mark.parametrize("given, kind, words", [
    ({}, TypeError, "lengths= or by offsets=.*one of them"),
    ({"lengths": [10], "offsets": [0, 10]}, TypeError, "only one"),
    ({"lengths": [3, 8]}, ValueError, "add up to 11, and the array has 10"),
    ({"lengths": [3, 6]}, ValueError, "add up to 9, "),
    ({"lengths": []}, ValueError, "add up to 0, "),
    ({"lengths": [4, -1, 7]}, ValueError, r"lengths\[1\] is -1, which is negative"),
    ({"lengths": numpy.array([10, -2**63])}, ValueError, r"lengths\[1\] is -9223372036854775808, .*negative"),
    ({"lengths": numpy.array([11, 2**64 - 1], "uint64")}, ValueError, r"lengths\[0\] is 11, .*more than"),
    ({"lengths": numpy.array([0, 2**64 - 1], "uint64")}, ValueError, r"lengths\[1\] is 18446744073709551615"),
    ({"lengths": numpy.array([200], "uint8")}, ValueError, r"lengths\[0\] is 200, which is more"),
    ({"lengths": [2**64]}, ValueError, r"lengths\[0\] does not fit int64"),
    ({"lengths": [10, 10**5000]}, ValueError, r"lengths\[1\] does not fit int64"),
    ({"lengths": [5, -2**64]}, ValueError, r"lengths\[1\] does not fit int64"),
    ({"lengths": [True] * 10}, TypeError, r"lengths\[0\] must be a whole number, not True"),
    ({"lengths": [9, True]}, TypeError, r"lengths\[1\] must be a whole number, not True"),
    ({"lengths": [9, numpy.True_]}, TypeError, r"lengths\[1\] must be a whole number"),
    ({"lengths": [9, 1.0]}, TypeError, r"lengths\[1\] must be a whole number, not 1.0"),
    ({"lengths": (None, 10)}, TypeError, r"lengths\[0\] must be a whole number, not None"),
    ({"lengths": [[1, 2], [3]]}, TypeError, r"lengths\[0\] must be a whole number"),
    ({"lengths": numpy.ones(10)}, TypeError, "lengths must be integers.* float64"),
    ({"lengths": numpy.empty(0)}, TypeError, "lengths must be integers.* float64"),
    ({"lengths": numpy.ones(10, bool)}, TypeError, "lengths must be integers.* bool"),
    ({"lengths": numpy.ones(10, object)}, TypeError, "lengths must be integers.* object"),
    ({"lengths": numpy.ones(10, "m8[s]")}, TypeError, "lengths must be integers.* timedelta64"),
    ({"lengths": numpy.ones((5, 2), int)}, ValueError, r"one dimension, not the shape \(5, 2\)"),
    ({"lengths": numpy.ma.array([10])}, TypeError, "masked"),
    ({"lengths": WithMask.of([3, 7], [True, False])}, TypeError, "masked"),
    ({"lengths": [3, numpy.ma.array(7, mask=True)]}, TypeError, "masked"),
    ({"lengths": Masked(numpy.array([3, 7]))}, TypeError, "has a mask"),
    ({"lengths": 5}, TypeError, r"not 5: .*reshape\(-1, length\) and axis=1"),
    ({"lengths": numpy.array(10)}, TypeError, "must be an array or a list"),
    ({"lengths": True}, TypeError, "lengths must be integers"),
    ({"lengths": iter([10])}, TypeError, "lengths must be integers"),
    ({"lengths": "10"}, TypeError, "lengths must be integers"),
    ({"lengths": {0: 10}}, TypeError, "lengths must be integers"),
    ({"lengths": OnGpu(numpy.array([10]))}, TypeError, "lengths must be integers"),
    ({"offsets": []}, ValueError, r"at least \[0\]"),
    ({"offsets": [0]}, ValueError, "from 0 to the array's 10 elements, not from 0 to 0"),
    ({"offsets": [1, 10]}, ValueError, "not from 1 to 10"),
    ({"offsets": [0, 5]}, ValueError, "not from 0 to 5"),
    ({"offsets": [0, 11]}, ValueError, "not from 0 to 11"),
    ({"offsets": [-1, 10]}, ValueError, "not from -1 to 10"),
    ({"offsets": [0, 6, 5, 10]}, ValueError, r"offsets\[2\] is 5, which is less than the one before it, 6"),
    ({"offsets": numpy.array([0, 6, 5, 10], "uint64")}, ValueError, r"offsets\[2\] is 5"),
    ({"offsets": numpy.array([0, 2**64 - 1, 10], "uint64")}, ValueError, r"offsets\[2\] is 10, .*less"),
    ({"offsets": [0, 2**64]}, ValueError, r"offsets\[1\] does not fit int64"),
    ({"offsets": [False, 10]}, TypeError, r"offsets\[0\] must be a whole number"),
    ({"offsets": numpy.array([0.0, 10.0])}, TypeError, "offsets must be integers.* float64"),
    ({"offsets": 10}, TypeError, "offsets must be an array or a list")])
def test_lengths_and_offsets_that_are_wrong(given, kind, words):
    with warpfold.connect("127.0.0.1:1", max_attempts=1) as nowhere:  # so nothing was sent
        with pytest.raises(kind, match=words):
            nowhere.reduce_segments(numpy.arange(10.0), ["sum"], timeout=20, **given)
        with pytest.raises(ConnectionError):
            nowhere.reduce_segments(numpy.arange(10.0), ["sum"], lengths=[10])


def test_sums_of_lengths_do_not_wrap(client):
    """Modulo 2^64 these five add up to the number of elements."""
    x = numpy.broadcast_to(numpy.int8(1), 2**62)
    with pytest.raises(ValueError, match=f"add up to {5 * 2**62}, "):
        client.reduce_segments(x, ["sum"], lengths=[2**62] * 5)


@pytest.mark.parametrize("call, kind, words", [
    (lambda client: client.reduce_segments(X.reshape(10, 100), ["sum"], lengths=[1000]), ValueError,
     r"one dimension, not of the shape \(10, 100\): pass array.reshape\(-1\), or axis="),
    (lambda client: client.reduce_segments(3.0, ["sum"], lengths=[1]), ValueError, "one dimension"),
    (lambda client: client.reduce_segments(OnGpu(X.reshape(10, 100)), ["sum"], lengths=[1000]), ValueError,
     "one dimension"),
    (lambda client: client.reduce_segments(iter([X]), ["sum"], lengths=[1000]), TypeError, "need an array"),
    (lambda client: client.reduce_segments(None, ["sum"], lengths=[1]), TypeError, "is no array"),
    (lambda client: client.reduce_segments(X, "sum", lengths=[1000]), TypeError, "list"),
    (lambda client: client.reduce_segments(X, ["prod"], lengths=[1000]), ValueError, "'product'"),
    (lambda client: client.reduce_segments(X, ["sum"], lengths=[1000], streams=2), ValueError, "one stream"),
    (lambda client: client.reduce_segments(X, ["sum"], lengths=[1000], axis=0), TypeError, "axis"),
    (lambda client: client.reduce_segments(X, ["sum"], lengths=[1000], ddof=-1), ValueError, "ddof"),
    (lambda client: client.reduce_segments(X, ["sum"], lengths=[1000], nan="skip"), ValueError, "nan"),
    (lambda client: client.reduce_segments(X, [], lengths=[1000]), ValueError, "1 to 16"),
    (lambda client: client.reduce_segments(X, ["sum", "sum"], lengths=[1000]), ValueError, "twice"),
    (lambda client: client.reduce_segments(X, ["matrix_product"], lengths=[1000]), ValueError, "matrices"),
    (lambda client: client.reduce_segments(X, ["bit_or"], lengths=[1000]), ValueError, "float64")])
def test_what_else_is_refused(client, call, kind, words):
    with pytest.raises(kind, match=words):
        call(client)


def test_arrays_of_other_kinds(client):
    for form in (X[::-1], numpy.repeat(X, 3)[::3], X.astype("float16"), X > 0):
        assert check(client, form, ["sum", "last"], [400, 600]).way in ("memory", "copied")
    check(client, X, ["sum"], LENGTHS, of=X.tolist())
    check(client, X, ["sum"], LENGTHS, of=array.array("d", X))
    result = client.reduce_segments(X.tobytes(), ["sum"], lengths=LENGTHS, dtype="float64")
    assert result == client.reduce_segments(X, ["sum"], lengths=LENGTHS)


def test_progress(client):
    told = []
    x = numpy.ones(1_000_000)
    client.reduce_segments(x, ["sum"], lengths=[1, 999_999], progress=lambda *one: told.append(one))
    assert told == sorted(told) and told[-1] == (x.nbytes, x.nbytes)


def test_kept_arrays(client):
    with client.put(X) as kept:
        result = kept.reduce_segments(["sum", "argmax"], lengths=[400, 600])
        assert result.way == "resident" and result == check(client, X, ["sum", "argmax"], [400, 600], of=kept)
        part = kept[100:400]
        check(client, X[100:400], ["sum", "first", "min"], cut(300, 9, 2), of=part)
        known = client.array(kept.token)
        assert known.reduce_segments(["sum"], offsets=[0, 400, 1000])["sum"].tobytes() \
            == result["sum"].tobytes()
        with pytest.raises(ValueError, match="one dimension"):
            kept.reshape(10, 100).reduce_segments(["sum"], lengths=[1000])
        with pytest.raises(ValueError, match="one stream"):
            kept.reduce_segments(["sum"], lengths=[1000], streams=2)
        with pytest.raises(ValueError, match="more than the array's 300"):
            part.reduce_segments(["sum"], lengths=[1000])
    with pytest.raises(errors.NotFoundError):
        kept.reduce_segments(["sum"], lengths=[1000])
    with client.put(numpy.ones((4, 2, 2)), matrix=True) as matrices, \
            pytest.raises(ValueError, match="put as matrices"):
        matrices.reduce_segments(["sum"], lengths=[16])


def test_shared_memory_and_a_server_that_does_not_know_it(tmp_path):
    with Server(f"--memory_socket={tmp_path}/socket") as server:
        client = warpfold.connect(server.address, memory_socket=tmp_path / "socket")
        shared = client.empty(1000)
        shared[:] = X
        result = check(client, X, ["sum", "argmin"], cut(1000, 9, 1), of=shared)
        assert result.way == "shared memory"
        part = check(client, X[10:991], ["sum", "argmin"], LENGTHS[2:5], of=shared[10:991])
        assert part.way == "shared memory"
        want = client.reduce_segments(shared, ["sum"], lengths=LENGTHS)
    with Server(f"--memory_socket={tmp_path}/socket", listen=server.address):
        result = client.reduce_segments(shared, ["sum"], lengths=LENGTHS)
        assert result == want and result.way == "memory"
    client.close()


def test_asyncio(server):
    async def ask():
        async with aio.connect(server.address) as client:
            with pytest.raises(TypeError, match="only one"):
                client.reduce_segments(X, ["sum"], lengths=[1000], offsets=[0, 1000])
            with pytest.raises(TypeError, match="timeout"):
                client.reduce_segments(X, ["sum"], lengths=[1000], timeout="3")
            late = client.reduce_segments(X, ["sum"], lengths=[1000], timeout=0.05)
            wrong = client.reduce_segments(X, ["sum"], lengths=[999])
            await asyncio.sleep(0.1)
            with pytest.raises(errors.DeadlineExceededError):
                await late
            with pytest.raises(ValueError, match="add up"):
                await wrong
            async with await client.put(X) as kept:
                return await asyncio.gather(
                    *(client.reduce_segments(X, ["sum"], lengths=[at, 1000 - at]) for at in range(20)),
                    kept.reduce_segments(["sum"], offsets=[0, 20, 1000]))

    with warpfold.connect(server.address) as client:
        for at, got in enumerate(asyncio.run(ask())):
            assert got == client.reduce_segments(X, ["sum"], lengths=[at, 1000 - at])


PIECE_ELEMENTS = 8


@pytest.mark.parametrize("lengths", [
    [1000], [8, 992], [0, 1000, 0], [0, 0, 500, 0, 500, 0], [3, 5, 0, 9, 0, 8, 1, 7, 0, 967], [1] * 1000,
    [7] * 142 + [6], [100, 0, 8, 892], LENGTHS])
def test_arrays_on_a_gpu_that_are_copied_part_by_part(client, monkeypatch, lengths):
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_ELEMENTS * 8)
    OnGpu.largest = 0
    for dtype in ("float64", "int16"):
        x = (X * 100).astype(dtype)
        operators = ["sum", "argmax", "max_subarray_sum", "minmax", "count_nonzero"]
        result = check(client, x, operators, lengths, of=OnGpu(x))
        assert result.way == "staged" and result.timings.total > result.timings.receive > 0
    assert 0 < OnGpu.largest <= PIECE_ELEMENTS
    told = []
    client.reduce_segments(OnGpu(X), ["sum"], lengths=lengths, progress=lambda *one: told.append(one))
    assert told == sorted(told) and told[-1] == (X.nbytes, X.nbytes)
    assert len(set(told)) >= len(lengths) // PIECE_ELEMENTS


def test_errors_of_arrays_on_a_gpu_name_the_segment(client, monkeypatch):
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_ELEMENTS * 8)
    x = numpy.ones(100, "int64")
    x[[50, 51]] = 2**62
    for lengths, operators in itertools.product(([10, 10, 25, 55], [10, 10, 0, 29, 4, 47]),
                                                (["sum"], ["sum", "count_nonzero"])):
        named = str(numpy.searchsorted(numpy.cumsum(lengths), 50, "right"))
        with pytest.raises(OverflowError, match=f"segment {named}: ") as raised:
            client.reduce_segments(OnGpu(x), operators, lengths=lengths)["sum"]
        assert raised.value.fields == {"operator": "sum", "segment": named}


def test_the_first_of_several_segments_without_a_value_is_named(client, monkeypatch):
    """Also if a later one, which is larger than a part, has no value for any operator."""
    monkeypatch.setattr(arrays, "PIECE_BYTES", PIECE_ELEMENTS * 8)
    x = numpy.ones(100, "int64")
    x[[2, 3]] = x[50:] = 2**62
    for operators in (["sum"], ["sum", "sum_of_squares"], ["product", "sum"], ["sum", "product", "max"]):
        for one in (x, OnGpu(x)):
            with pytest.raises(OverflowError, match="segment 0: "):
                client.reduce_segments(one, operators, lengths=[5, 45, 50])[operators[0]]


def test_arrays_on_a_gpu_without_elements(client):
    empty = OnGpu(numpy.empty(0, "int16"))
    assert client.reduce_segments(empty, ["sum"], lengths=[0, 0])["sum"].tolist() == [0, 0]
    result = client.reduce_segments(empty, ["max"], lengths=[])
    assert result["max"].shape == (0,) and result["max"].dtype == "int16"


def test_arrays_on_the_servers_gpu(near, path, monkeypatch):
    real = _native.MemoryConnection.open(path, SETTINGS, None)
    shared = real.allocate(8_000, False, SETTINGS, None)
    x = shared.bytes().view("float64")
    x[:] = X
    monkeypatch.setattr(gpu, "_driver", lambda: driver.native)
    driver = Driver(shared.address, 8_000)
    with warpfold.connect(near.address, memory_socket=path) as client:
        client._memory._connection = Connection(real, shared)
        array = OnGpu(x[100:])
        assert check(client, X[100:], ["sum", "first"], [0, 400, 500], of=array).way == "gpu memory"
        opened, = client._memory._opened.values()
        opened.registered.token = b"?" * 16  # as after a restart
        assert check(client, X[100:], ["sum", "first"], [400, 500], of=array).way == "staged"
