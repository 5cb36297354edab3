# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The short way (warpfold.plain) compared with the general one, which any option takes: the results are the
same."""

import numpy
import pytest

import warpfold
from warpfold import errors, plain

TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float16",
         "float32", "float64")
METHODS = ("sum", "prod", "min", "max", "mean", "var", "std", "any", "all", "count_nonzero", "norm",
           "max_abs", "sum_of_squares", "exact_sum", "logsumexp", "bit_and", "bit_or", "bit_xor", "first",
           "last", "argmin", "argmax", "minmax", "describe", "max_subarray_sum")
# These return several numbers, or, in the case of norm, one of another type.
GENERAL = ("argmin", "argmax", "minmax", "describe", "max_subarray_sum", "norm")
OTHER_WAY = {"request_id": "general"}


def answer_of(method, array, **options):
    """What a call returns or raises, with everything that can be observed from outside."""
    try:
        value = method(array, **options)
    except Exception as error:
        return type(error), str(error), getattr(error, "reason", None)
    return type(value), repr(value)


@pytest.fixture
def taken(monkeypatch):
    """What the short way has returned: None if it left a call to the general one."""
    answers = []
    value_of = plain.value_of

    def noted(*arguments):
        answers.append(value_of(*arguments))
        return answers[-1]

    monkeypatch.setattr(plain, "value_of", noted)
    return answers


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("method", METHODS)
def test_answers_the_same(client, method, dtype, taken):
    x = numpy.random.default_rng(7).integers(0, 3, 1001).astype(dtype)
    call = getattr(client, method)
    for array in (x, x[3:], x[:0], x[5:6], x[:1000].reshape(10, 100)):
        taken.clear()
        answer = answer_of(call, array)
        if not issubclass(answer[0], Exception):  # an exception comes out of the short way, too
            assert any(one is not None for one in taken) == (method not in GENERAL)
        assert answer == answer_of(call, array, **OTHER_WAY)


@pytest.mark.parametrize("method", ("sum", "prod", "sum_of_squares"))
def test_raises_the_same_where_the_value_does_not_fit(client, method):
    x = numpy.full(1001, 2**62)
    call = getattr(client, method)
    answer = answer_of(call, x)
    assert answer == answer_of(call, x, **OTHER_WAY)
    assert answer[0] is errors.OutOfRangeError
    assert client.sum(x, overflow="wrap") == x.sum()


@pytest.mark.parametrize("options", ({"nan": "both"}, {"nan": []}, {"nan": 1}, {"overflow": True},
                                     {"overflow": {}}))
def test_options_of_another_kind_raise_the_same(client, options):
    x = numpy.ones(3)
    answer = answer_of(client.sum, x, **options)
    assert answer == answer_of(client.sum, x, **options, **OTHER_WAY)
    assert issubclass(answer[0], (TypeError, ValueError))


def test_numbers_that_are_equal_are_not_taken_for_each_other(client):
    x = numpy.arange(4.0)
    assert client.var(x, ddof=1) == client.var(x, ddof=1.0) == x.var(ddof=1)
    assert answer_of(client.var, x, ddof=True) == \
        answer_of(client.var, x, ddof=True, **OTHER_WAY)


def test_takes_arrays_in_memory_of_numpys(client, taken):
    x = numpy.arange(24.0)
    for array in (x, x[5:], x.reshape(2, 3, 4), x[:0], numpy.asarray(1.5), x.reshape(4, 6)[1]):
        assert client.sum(array) == array.sum()
    assert client.max(x, nan="ignore") == 23
    assert None not in taken and len(taken) == 7


def test_leaves_all_others_to_the_general_way(client, taken, tmp_path):
    class Own(numpy.ndarray):
        pass

    numpy.save(tmp_path / "x.npy", numpy.ones(24))
    x = numpy.ones(24)
    others = (x[::2], x[::-1], x.reshape(4, 6).T, numpy.asfortranarray(x.reshape(4, 6)), x.view(Own),
              numpy.broadcast_to(x, (2, 24)), numpy.zeros(3, [("a", "f4"), ("b", "f8")])["b"],
              numpy.load(tmp_path / "x.npy", mmap_mode="r"), numpy.frombuffer(bytes(64)), [1.0, 2.0],
              numpy.asarray(numpy.load(tmp_path / "x.npy", mmap_mode="r"))[3:])
    for array in others:
        assert client.sum(array) == numpy.sum(array)
    assert taken == [None] * len(others)
    for array in (x.astype(">f8"), x.astype(complex), x.astype(object), numpy.ma.masked_less(x, 2)):
        with pytest.raises(TypeError):
            client.sum(array)
    assert taken == [None] * (len(others) + 4)


def test_takes_bfloat16(client, taken):
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numpy.ones(24, ml_dtypes.bfloat16)
    assert client.sum(x) == 24 and client.max(x).dtype == ml_dtypes.bfloat16
    assert None not in taken and len(taken) == 2


def test_options_take_the_general_way(client, taken):
    x = numpy.ones((4, 6))
    assert client.sum(x, axis=0).shape == (6,)
    assert client.sum(x, keepdims=True).shape == (1, 1)
    assert client.sum(x, dtype="float32").dtype == "float32"
    assert client.sum(x, timeout=5) == 24
    assert not taken


def test_a_closed_client_says_so(server):
    with warpfold.connect(server.address) as other:
        assert other.sum(numpy.ones(3)) == 3
    with pytest.raises(RuntimeError, match="closed"):
        other.sum(numpy.ones(3))
