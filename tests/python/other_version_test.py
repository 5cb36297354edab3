# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Servers of another version, or of another kind: a clear exception, no value, and the client goes on."""

import subprocess

import numpy
import pytest

import warpfold
from warpfold import errors

# A gRPC server made with the distribution's grpcio, which responds to every call in the same way: with the
# bytes in its first argument, or like one that knows no method.
_SERVER = """
import sys
from concurrent import futures
import grpc

answer = bytes.fromhex(sys.argv[1]) if len(sys.argv) > 1 else None

class Everything(grpc.GenericRpcHandler):
    def service(self, details):
        def answer_all(requests, context):
            for request in requests:
                pass
            return answer
        return None if answer is None else grpc.stream_unary_rpc_method_handler(answer_all)

server = grpc.server(futures.ThreadPoolExecutor(2), handlers=[Everything()])
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
server.stop(None)
"""

# In protobuf's encoding: reduction { results { operator, value } element_count }, for five elements.
ANSWERS = {
    "an empty answer": "",
    "no message": "ff",
    "text": b"hello".hex(),
    "a reduction without results": "0a021005",
    "a result without a value": "0a060a0208011005",
    "a result of another operator": "0a080a04080320021005",
    "another count of elements": "0a080a040801100a1006",
    "fields that this version does not know": "0a080a0408017805" + "1005"}


@pytest.fixture(params=[None, *ANSWERS])
def foreign(request):
    if subprocess.run(["/usr/bin/python3", "-c", "import grpc"], capture_output=True, check=False).returncode:
        pytest.skip("the distribution's grpcio is not installed")
    fits = "0a0f0a0b08012100000000000014401005"
    arguments = [] if request.param is None else [ANSWERS.get(request.param, fits)]
    with subprocess.Popen(["/usr/bin/python3", "-c", _SERVER, *arguments], stdin=subprocess.PIPE,
                          stdout=subprocess.PIPE, text=True) as process:
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}", request.param
        finally:
            process.stdin.close()
            process.wait(60)


@pytest.mark.parametrize("count", [5, 100_000])
def test_a_clear_exception(foreign, client, count):
    address, answer = foreign
    x = numpy.ones(count)
    expected = errors.UnimplementedError if answer is None else errors.InternalError
    with warpfold.connect(address) as other:
        for call in (lambda: other.sum(x), lambda: other.sum(x, streams=2), lambda: other.sum(iter([x])),
                     lambda: other.partial(x, ["sum"])):
            with pytest.raises(expected) as raised:
                call()
            assert raised.value.message and "Traceback" not in str(raised.value)
    assert client.sum(x) == count


def test_other_methods(foreign, client):
    """Axes, kept arrays, states and what the server reports about itself."""
    address, answer = foreign
    x = numpy.ones((100, 512))
    states = [client.partial(x, ["sum"])]
    expected = errors.UnimplementedError if answer is None else errors.InternalError
    with warpfold.connect(address) as other:
        calls = [lambda: other.sum(x, 1), lambda: other.sum(x, 0), lambda: other.put(x),
                 lambda: other.array(b"t" * 16), lambda: other.merge(states),
                 lambda: other.merge_to_state(states), other.info]
        # A server that keeps nothing returns an empty message.
        calls += [] if answer == "an empty answer" else [other.arrays]
        for call in calls:
            with pytest.raises(expected) as raised:
                call()
            assert raised.value.message
        # A response that does not say whether it serves does not mean that it does.
        try:
            assert other.is_serving() is False
        except expected as error:
            assert error.message
    assert client.sum(x) == x.size


# The sum of five ones, as a server of this version returns it: this shows that the server above is heard.
@pytest.mark.parametrize("foreign", ["what fits"], indirect=True)
def test_an_answer_that_fits_is_taken(foreign):
    with warpfold.connect(foreign[0]) as other:
        assert other.sum(numpy.ones(5)) == 5
