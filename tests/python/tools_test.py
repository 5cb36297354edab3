# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The server as gRPC's tools see it: reflection and channelz, with the packages of the gRPC project."""

import asyncio
import contextlib
import struct
import sys

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor_pool import DescriptorPool
from grpc_channelz.v1 import channelz_pb2, channelz_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from conftest import Server

_OPTIONS = [("grpc.enable_http_proxy", 0)]


def test_a_client_that_has_no_proto_file_calls_by_reflection():
    with Server("--reflection") as server, grpc.insecure_channel(server.address, _OPTIONS) as channel:
        database = ProtoReflectionDescriptorDatabase(channel)
        services = set(database.get_services())
        assert services >= {"warpfold.v1.ReductionService", "warpfold.v1.ArrayService",
                            "warpfold.v1.SegmentService", "grpc.health.v1.Health"}
        pool = DescriptorPool(database)
        for name in services:
            assert pool.FindServiceByName(name).methods
        # The reflection service also has the message of errors' details.
        assert pool.FindMessageTypeByName("google.rpc.ErrorInfo").fields_by_name["reason"]
        service = pool.FindServiceByName("warpfold.v1.ReductionService")
        method = service.FindMethodByName("ReduceArray")
        request = message_factory.GetMessageClass(method.input_type)()
        request.spec.operators.append(pool.FindEnumTypeByName("warpfold.v1.Operator").values_by_name[
            "OPERATOR_SUM"].number)
        request.spec.element_type = pool.FindEnumTypeByName("warpfold.v1.ElementType").values_by_name[
            "ELEMENT_TYPE_INT32"].number
        request.data = struct.pack("<3i", 1, 2, 39)
        answer = message_factory.GetMessageClass(method.output_type)
        call = channel.unary_unary(f"/{service.full_name}/{method.name}",
                                   request_serializer=type(request).SerializeToString,
                                   response_deserializer=answer.FromString)
        assert call(request).reduction.results[0].int64_value == 42


async def early_error(address, by_iterator):
    """The status and the reason's bytes for a header that the server rejects, with 64 chunks after it."""
    # ReduceRequest { header { spec { element_type: 99 } } }, then { chunk { data } } of 64 KiB.
    header = bytes.fromhex("0a040a021063")
    chunk = bytes.fromhex("7a8480047a808004") + bytes(1 << 16)
    async with grpc.aio.insecure_channel(address, _OPTIONS) as channel:
        method = channel.stream_unary("/warpfold.v1.ReductionService/Reduce")

        async def requests():
            yield header
            for _ in range(64):
                yield chunk

        call = method(requests()) if by_iterator else method()
        with contextlib.suppress(grpc.RpcError, asyncio.InvalidStateError):
            if not by_iterator:
                async for request in requests():
                    await call.write(request)
                await call.done_writing()
            await call
        metadata = await call.trailing_metadata() or ()
        return await call.code(), dict(metadata).get("grpc-status-details-bin", b"")


def test_grpc_aio_may_lose_an_early_error(server):
    """As docs/calling.md says: what arrives is the whole of the server's status, or gRPC's own."""
    whole = {}
    for by_iterator in (True, False):
        heard = [asyncio.run(early_error(server.address, by_iterator)) for _ in range(10)]
        for code, details in heard:
            expected = grpc.StatusCode.INVALID_ARGUMENT if details else grpc.StatusCode.INTERNAL
            assert code == expected and (not details or b"warpfold" in details)
        whole[by_iterator] = sum(bool(details) for _, details in heard)
    print(f"grpcio {grpc.__version__}: whole of 10 by an iterator {whole[True]}, by write() {whole[False]}",
          file=sys.stderr)
    assert whole[True] > 0


def test_channelz_counts_calls_and_shows_connections():
    with Server("--channelz") as server, grpc.insecure_channel(server.address, _OPTIONS) as channel:
        channelz = channelz_pb2_grpc.ChannelzStub(channel)
        (found,) = channelz.GetServers(channelz_pb2.GetServersRequest()).server
        assert found.data.calls_started > 0
        request = channelz_pb2.GetServerSocketsRequest(server_id=found.ref.server_id)
        sockets = channelz.GetServerSockets(request)
        assert len(sockets.socket_ref) == 1


@pytest.mark.parametrize("service", ["reflection", "channelz"])
def test_neither_is_there_without_its_flag(server, service):
    with grpc.insecure_channel(server.address, _OPTIONS) as channel:
        with pytest.raises(grpc.RpcError) as raised:
            if service == "reflection":
                ProtoReflectionDescriptorDatabase(channel).get_services()
            else:
                channelz_pb2_grpc.ChannelzStub(channel).GetServers(channelz_pb2.GetServersRequest())
        assert raised.value.code() == grpc.StatusCode.UNIMPLEMENTED
