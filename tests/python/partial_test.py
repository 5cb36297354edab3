# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Parts of arrays: their states merge to the bits of one call, and bad states are rejected."""

import asyncio
import dataclasses
import functools
import itertools
import os
import pickle

import numpy
import pytest

import warpfold
from warpfold import aio
from warpfold.calls import settings_of

CUT = warpfold.cut_elements(2)


def parts(client, x, operators, *cuts, **options):
    edges = [0, *cuts, len(x)]
    return [
        client.partial(x[begin:end], operators, begin, **options) for begin, end in itertools.pairwise(edges)
    ]


@pytest.fixture(scope="module")
def x():
    return numpy.random.default_rng(1).standard_normal(20_000)


def test_the_bits_of_one_call(client, x):
    operators = ["sum", "variance", "argmin", "describe", "max_subarray_sum"]
    expected = client.reduce(x, operators)
    for cuts in ((), (512,), (512, 1024, 19_456), (19_456, )):
        states = parts(client, x, operators, *cuts)
        result = client.merge(states)
        for name in operators:
            assert numpy.asarray(result[name]).tobytes() == numpy.asarray(expected[name]).tobytes()
        assert (result.element_count, result.way) == (x.size, "parts")
        halves = [client.merge_to_state(states[:2]), *states[2:]]
        assert client.merge(halves)["sum"].tobytes() == expected["sum"].tobytes()


def test_the_nan_policy_of_integers_does_not_count(client):
    x = numpy.arange(1000)
    states = [client.partial(x[:512], ["sum"], nan="ignore"), client.partial(x[512:], ["sum"], 512)]
    assert client.merge(states)["sum"] == x.sum()
    floats = [client.partial(x[:512] / 1, ["sum"], nan="ignore"), client.partial(x[512:] / 1, ["sum"], 512)]
    with pytest.raises(TypeError, match="differ in nan"):
        client.merge(floats)


def test_states_can_be_sent_anywhere(client, x):
    states = pickle.loads(pickle.dumps(parts(client, x, ["sum"], 512)))
    assert client.merge(iter(states))["sum"] == client.sum(x)
    assert repr(states[1]).startswith("<warpfold.PartialState sum of float64 [512:20000], ")
    assert (states[1].first_element, states[1].element_count) == (512, 19_488)


def test_parts_of_no_elements_do_not_count_but_for_the_first(client):
    x = numpy.arange(1030.0)
    states = [client.partial(x[at:at + 512], ["sum", "argmax"], at) for at in range(0, 4096, 512)]
    states.insert(1, client.partial(x[:0], ["sum", "argmax"]))
    assert dict(client.merge(states)) == dict(client.reduce(x, ["sum", "argmax"]))
    whole = client.merge_to_state(states)
    assert (whole.first_element, whole.element_count) == (0, 1030)
    assert client.merge([whole])["sum"] == x.sum()
    with pytest.raises(ValueError, match="number 1 begins at element 0"):
        client.merge([states[-1], states[0]])


def test_a_part_needs_no_value(client):
    x = numpy.array([3, 1, 2], "int8")
    states = [client.partial(x[:0], ["min"]), client.partial(x, ["min"])]
    assert client.merge(states)["min"] == 1
    large = [client.partial(numpy.full(512, 2**62), ["sum"], first) for first in (0, 512)]
    with pytest.raises(OverflowError):
        client.merge(large)


def test_what_is_about_the_final_values_may_differ(client):
    """docs/operators.md says so, and the servers and the C++ client do the same."""
    x = numpy.full(1024, 2**62)
    plain, error, wrap = (functools.partial(client.partial, operators=["sum", "variance"], overflow=overflow)
                          for overflow in (None, "error", "wrap"))
    states = [plain(x[:512]), wrap(x[512:], first_element=512, ddof=2)]
    with pytest.raises(TypeError, match="differ in overflow and ddof: pass overflow= and ddof= to merge"):
        client.merge(states)
    with pytest.raises(TypeError, match="differ in ddof: pass ddof= to merge"):
        client.merge(states, overflow="wrap")
    whole = client.reduce(x, ["sum", "variance"], overflow="wrap", ddof=1)
    assert client.merge(states, overflow="wrap", ddof=1) == whole
    merged = client.merge(states, overflow="error", ddof=1)
    assert merged["variance"] == whole["variance"]
    with pytest.raises(OverflowError, match='overflow="wrap" would answer'):
        merged["sum"]
    mixed = [error(x[:512]), plain(x[512:], first_element=512)]
    for same in (mixed, [client.merge_to_state(mixed)]):
        assert client.merge(same)["variance"] == 0
    for options, kind, word in (({"overflow": "saturate"}, ValueError, "overflow"),
                                ({"ddof": "1"}, TypeError, "ddof"), ({"ddof": -1}, ValueError, "ddof")):
        with pytest.raises(kind, match=word):
            client.merge(mixed, **options)


def test_states_are_merged_in_groups_whatever_is_about_the_final_values(client):
    x = numpy.full(1536, 2**62)
    operators = ["sum", "variance"]
    states = [client.partial(x[at:at + 512], operators, at, ddof=ddof, overflow=overflow)
              for at, ddof, overflow in ((0, 0, None), (512, 2, "wrap"), (1024, 1, "error"))]
    with pytest.raises(TypeError, match="pass overflow= and ddof= to merge"):
        client.merge_to_state(states[:2])
    group = client.merge_to_state(states[:2], overflow="wrap", ddof=1)
    assert (group.question.ddof, group.question.overflow) == (1, "wrap")
    whole = client.reduce(x, operators, overflow="wrap", ddof=1)
    assert client.merge([group, states[2]], overflow="wrap") == whole
    assert client.merge([client.merge_to_state([group], ddof=2)])["sum"] == client.sum(x[:1024],
                                                                                      overflow="wrap")


@pytest.mark.parametrize("dtype", ["int8", "float64", "bfloat16"])
def test_parts_with_gaps_are_copied(client, dtype):
    pytest.importorskip("ml_dtypes")  # by which NumPy knows bfloat16
    numbers = (numpy.arange(6 * 4096) % 101).reshape(6, 64, 64).astype(dtype)
    fields = numpy.zeros((6, 64), [("gap", "u1"), ("x", numbers.dtype)])
    fields["x"] = numbers[:, :, 0]
    operators = ["sum", "argmax", "max_subarray_sum"]
    for array in (numbers[::2], numbers[:, ::-1], numpy.asfortranarray(numbers), numbers[:, :, 1],
                  fields["x"], numbers[:0, ::2]):
        operators = ["sum"] if array.size == 0 else operators
        state = client.partial(array, operators)
        assert client.merge([state]) == client.reduce(array, operators)
        assert state.element_count == array.size
    if dtype != "bfloat16":
        matrices = numbers.reshape(-1, 8, 8).transpose(0, 2, 1)
        state = client.partial(matrices, ["max"], matrix=True)
        assert client.merge([state]) == client.reduce(matrices, ["max"], matrix=True)


def test_a_part_with_gaps_in_a_file_that_was_cut(client, tmp_path):
    path = tmp_path / "x"
    numpy.ones(4096).tofile(path)
    x = numpy.memmap(path, "float64", "r")[::2]
    os.truncate(path, 4096)
    with pytest.raises(ValueError, match="shorter"):
        client.partial(x, ["sum"])


def test_options_of_products_that_wrap(client):
    x = numpy.ones((1024, 2, 2), "int64")
    states = [client.partial(x[at:at + 512], ["matrix_product"], at, matrix=True) for at in (0, 512)]
    assert (client.merge(states)["matrix_product"] == client.matrix_product(x)).all()
    with pytest.raises(ValueError, match="overflow"):
        client.merge(states, overflow="error")


def test_states_of_bfloat16_of_several_libraries(client):
    """The types of ml_dtypes, and of PyTorch, for which NumPy has no type: here they are bytes."""
    ml_dtypes = pytest.importorskip("ml_dtypes")
    x = numpy.arange(2 * CUT).astype(ml_dtypes.bfloat16)
    ours = client.partial(x[:CUT], ["sum", "max"])
    others = client.partial(x[CUT:].tobytes(), ["sum", "max"], CUT, dtype="bfloat16")
    for states, kind in (([ours, others], ml_dtypes.bfloat16),
                         ([client.partial(x[:CUT].tobytes(), ["sum", "max"], dtype="bfloat16"),
                           client.partial(x[CUT:], ["sum", "max"], CUT)], numpy.float32)):
        result = client.merge([client.merge_to_state(states)])
        assert result["sum"] == client.sum(x) and result["max"] == x.max() and result["max"].dtype == kind
    other_type = client.partial(x[CUT:].view("uint16"), ["sum", "max"], CUT)
    with pytest.raises(TypeError, match="same question"):
        client.merge([ours, other_type])


def test_pieces_one_behind_the_other(client, x):
    """As Dask's chunks are sent: a body, and the heads of the chunks after it."""
    from warpfold.arrays import elements_of

    question = client.partial(x[:512], ["sum"]).question
    for cuts in ((0, 20_000), (0, 0, 7, 7, 19_999, 20_000), tuple(range(0, 20_001, 100))):
        pieces = [elements_of(x[begin:end], None) for begin, end in itertools.pairwise(cuts)]
        state = client._partial(lambda stop, pieces=pieces: (pieces, question), 0, {"checksum": True})
        assert client.merge([state])["sum"] == client.sum(x)


def test_options(client, x):
    told = []
    state = client.partial(x, ["sum"], progress=lambda done, total: told.append((done, total)), checksum=True,
                           timeout=60, request_id="part")
    assert told[-1] == (x.nbytes, x.nbytes) and client.merge([state], timeout=60)["sum"] == client.sum(x)
    with pytest.raises(ValueError, match="one stream"):
        client.partial(x, ["sum"], streams=2)


def test_bad_parts(client, x):
    for bad, words in ((lambda: client.partial(x, ["sum"], 7), "first_element"),
                       (lambda: client.partial(x, ["sum"], -512), r"must be 0 to .*not -512"),
                       (lambda: client.partial(x, ["sum"], 2**61), "first_element"),
                       (lambda: client.partial(x, []), "operators")):
        with pytest.raises(ValueError, match=words):
            bad()
    with pytest.raises(TypeError, match="host"):
        client.partial(iter([x]), ["sum"])
    task, settings = client.partial(x, ["sum"]).question.task(), settings_of({}).native()
    for bad in ((0,), (), (0, 1, b"", 2), [0, 1, b""], 7):
        for merge in (client._native.merge, client._native.merge_to_state):
            with pytest.raises(TypeError, match="a state is"):
                merge([bad], task, settings, None)
    with pytest.raises(TypeError, match="list"):
        client.partial(x, "sum")
    with pytest.raises(TypeError, match="algorithm"):
        client.partial(x, ["sum"], algorithm="last_block")


def test_bad_states(client, x):
    first, second, third = parts(client, x, ["sum"], 512, 1024)
    for bad in ([first, third], [second, first], [first, first], [dataclasses.replace(first, data=b"\xff")],
                [dataclasses.replace(first, data=second.data)
                 ], [dataclasses.replace(first, data=b"")], [dataclasses.replace(first, first_element=512)]):
        for merge in (client.merge, client.merge_to_state):
            with pytest.raises(warpfold.errors.InvalidArgumentError) as raised:
                merge(bad)
            assert raised.value.reason == "BAD_STATE"
    other = client.partial(x[512:1024], ["max"], 512)
    with pytest.raises(TypeError, match="same question"):
        client.merge([first, other])
    # A state that claims to be for another question than the one for which the server made it.
    with pytest.raises(warpfold.errors.InvalidArgumentError):
        client.merge([dataclasses.replace(first, question=client.partial(x, ["describe"]).question)])
    with pytest.raises(TypeError, match="PartialState"):
        client.merge([b"state"])
    with pytest.raises(ValueError, match="no state"):
        client.merge([])


@pytest.mark.parametrize("change, kind", [
    ({"first_element": -1}, ValueError), ({"first_element": 2**64}, ValueError),
    ({"first_element": 1.5}, TypeError), ({"first_element": None}, TypeError),
    ({"element_count": -1}, ValueError), ({"element_count": 2**64}, ValueError),
    ({"element_count": "3"}, TypeError), ({"data": "x"}, TypeError), ({"data": bytearray(b"x")}, TypeError),
    ({"data": None}, TypeError), ({"question": None}, TypeError), ({"question": "sum"}, TypeError)])
def test_states_that_cannot_be_sent(client, x, change, kind):
    state = dataclasses.replace(client.partial(x, ["sum"]), **change)
    for merge in (client.merge, client.merge_to_state):
        with pytest.raises(kind, match=rf"{next(iter(change))} .*must be"):
            merge([state])


def test_units_of_cuts():
    assert warpfold.cut_elements(numpy.int64(8)) == 512
    for bad in (0, -8):
        with pytest.raises(ValueError, match="element_bytes"):
            warpfold.cut_elements(bad)
    for bad in (1.5, "8", None, True):
        with pytest.raises(TypeError, match="element_bytes"):
            warpfold.cut_elements(bad)


def test_asyncio(server, x):

    async def main():
        async with aio.connect(server.address) as client:
            states = await asyncio.gather(*(client.partial(x[at:at + 512], ["sum"], at)
                                            for at in range(0, len(x), 512)))
            state = await client.merge_to_state(states)
            return (await client.merge([state]))["sum"]

    with warpfold.connect(server.address) as client:
        assert asyncio.run(main()) == client.sum(x)
