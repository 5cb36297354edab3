# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The log as programs read it: a line for each finished call, with fields."""

import base64
import contextlib
import json
import pathlib
import re
import shutil
import socket
import struct
import subprocess
import time
import unittest
from typing import Callable

import hpack

from executables import Server, TestCase, warpfold
from http2_client import Connection
from http_pages import get, metric, wait_until
from keys import allow_all, make_keys

_PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs/observability.md"

_RECEIVED = 'warpfold_array_bytes_total{method="Reduce"}'


def calls(log: str, method: str) -> list[dict]:
    lines = [json.loads(line) for line in log.splitlines()]
    return [line for line in lines if line["event"] == "call" and line["method"] == method]


def documented_fields() -> set[str]:
    table = _PAGE.read_text().split("| field | meaning |")[1].split("\n\n")[0]
    return {name for row in table.splitlines()[2:] for name in re.findall(r"`(\w+)`", row.split("|")[1])}


class LogTest(TestCase):
    @unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
    def test_a_finished_call_is_a_line_of_fields(self):
        cert, key = make_keys(str(self.folder), "server")
        client = make_keys(str(self.folder), "client", names="DNS:Client.example")
        trust = ("--tls_ca", cert, "--tls_cert", client[0], "--tls_key", client[1])
        with Server("--log_format=json", f"--tls_cert={cert}", f"--tls_key={key}",
                    f"--tls_client_ca={client[0]}", allow_all(str(self.folder))) as server:
            common = ("reduce", "--target", server.address, *trust, "--request_id")
            one = (*common, 'my "id"', "--streams", "1")
            warpfold(*one, "--op", "sum,max", "--dtype", "float32", "--iota", "1000000")
            warpfold(*one, "--op", "matrix_product", "--iota", "1000000")
            warpfold(*common, "two", "--streams", "2", "--op", "sum", "--iota", "1000000")
            self.assertEqual(server.stop(), 0)
            done, refused, *parts = calls(server.log(), "Reduce")
            merges = calls(server.log(), "Merge")
        self.assertEqual([line["request_id"] for line in parts + merges], ["two"] * 3)
        self.assertEqual(
            {name: done[name] for name in ("level", "status", "bytes", "identity", "request_id", "operators",
                                           "type")},
            {"level": "info", "status": "OK", "bytes": 4_000_000, "identity": "dns:client.example",
             "request_id": 'my "id"', "operators": ["sum", "max"], "type": "float32"})
        self.assertRegex(done["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertRegex(done["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
        self.assertGreaterEqual(done["duration_ms"], done["receive_ms"])
        for name in ("queue_ms", "receive_ms", "copy_ms", "kernel_ms"):
            self.assertIsInstance(done[name], (int, float))
        self.assertEqual((refused["status"], refused["reason"]), ("INVALID_ARGUMENT", "UNSUPPORTED_TYPE"))
        self.assertIn("matrix_product", refused["message"])
        fields = (set(done) | set(refused) | {"trace_id", "parent_span_id", "span_id", "tracestate"})
        self.assertEqual(fields - {"time", "level", "event"}, documented_fields())

    def test_a_put_names_the_type_of_its_array(self):
        with Server("--log_format=json", "--resident_bytes=1048576") as server:
            for bytes_of_array in (4000, 4_000_000):
                path = self.folder / "array"
                path.write_bytes(bytes(bytes_of_array))
                warpfold("put", "--target", server.address, "--dtype=float32", str(path))
            self.assertEqual(server.stop(), 0)
            kept, refused = calls(server.log(), "PutArray")
        self.assertEqual((kept["status"], kept["type"]), ("OK", "float32"))
        self.assertEqual((refused["reason"], refused["type"]), ("ARRAY_TOO_LARGE", "float32"))

    def stopped(self, end: Callable[[Server, subprocess.Popen], None], flag: str) -> dict:
        """The log's line for a call that `end` stops once the server has had 1,000 bytes of its array."""
        with Server("--log_format=json", "--admin_listen=127.0.0.1:0", flag) as server:
            caller = self.start("reduce", "--target", server.address, "--op=sum", "--dtype=int8",
                                "--request_id=stopped", "-", stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL)
            caller.stdin.write(bytes(1000))
            caller.stdin.flush()
            wait_until(lambda: metric(server.ready_line, _RECEIVED) == 1000, "the array")
            end(server, caller)
            server.await_log('"event":"call","method":"Reduce"')
            server.stop()
            return calls(server.log(), "Reduce")[0]

    def test_a_stopped_call_is_known_by_its_line(self):
        """Whoever stopped it, the line had 0 bytes, and did not say which call it was or whose."""
        cases = (
            # A broken connection is not a stream that ended without its commit.
            ({"CANCELLED"}, "--drain_seconds=0", lambda _, caller: caller.kill()),
            ({"DEADLINE_EXCEEDED"}, "--idle_timeout_seconds=1", lambda *_: None),
            ({"UNAVAILABLE"}, "--drain_seconds=0", lambda server, _: server.process.terminate()),
        )
        for statuses, flag, end in cases:
            with self.subTest(statuses):
                line = self.stopped(end, flag)
                self.assertIn(line["status"], statuses)
                self.assertEqual((line["bytes"], line["request_id"]), (1000, "stopped"))
                self.assertTrue(0 < line["receive_ms"] <= line["duration_ms"], line)
                self.assertRegex(line["peer"], r"^ipv4:127\.0\.0\.1:\d+$")
                self.assertEqual((line["operators"], line["type"]), (["sum"], "int8"))

    def test_refusals_are_sampled(self):
        with Server("--log_format=json") as server:
            arguments = ("reduce", "--target", server.address, "--op", "matrix_product", "--iota", "10")
            begin = time.monotonic()
            processes = [self.start(*arguments, stderr=subprocess.DEVNULL) for _ in range(30)]
            for process in processes:
                self.assertEqual(process.wait(), 1)
            seconds = int(time.monotonic() - begin) + 2  # seconds of the clock that overlap with it
            self.assertEqual(server.stop(), 0)
            lines = [json.loads(line) for line in server.log().splitlines()]
        told = sum(line["event"] == "call" and line.get("reason") == "UNSUPPORTED_TYPE" for line in lines)
        left_out = sum(line["calls"] for line in lines if line["event"] == "calls_left_out")
        self.assertEqual(told + left_out, 30)
        self.assertLessEqual(told, 10 * seconds)

    @unittest.skipUnless(shutil.which("openssl"), "makes its keys with openssl")
    def test_errors_of_grpc_are_sampled(self):
        """Ten lines in a second, and then how many there were, even if there is no further error."""
        cert, key = make_keys(str(self.folder), "server")
        with Server(f"--tls_cert={cert}", f"--tls_key={key}", "--admin_listen=127.0.0.1:0") as server:
            for _ in range(20):
                with socket.create_connection(server.address.rsplit(":", 1), timeout=10) as stranger, \
                        contextlib.suppress(ConnectionError):
                    stranger.sendall(b"GET / HTTP/1.1\r\n\r\n")
                    stranger.recv(4096)
            errors = metric(server.ready_line, "warpfold_grpc_errors_total")
            self.assertGreaterEqual(errors, 20)
            told = r"warning gRPC: |left out (\d+) more lines: errors of gRPC's"
            wait_until(lambda: sum(int(count or 1) for count in re.findall(told, server.log())) >= errors,
                       "those that had no line")

    def test_a_client_writes_no_lines_of_its_own(self):
        """gRPC complains about headers in the client's words."""
        forged = "2026-11-28T00:00:00.000Z critical the device failed"
        with Server("--log_level=debug", device="cpu") as server:
            for name in ("te", "grpc-timeout", "content-type", "grpc-encoding"):
                with Connection(server.address) as client:
                    client.begin("/warpfold.v1.Reduction/GetServerInfo",
                                 hpack.Encoder().encode([(name, f"x\n{forged}\x1b[2J")]))
                    client.look(0.2)
            self.assertEqual(server.stop(), 0)
            log = server.log()
        self.assertIn(forged, log)
        for line in log.splitlines():
            self.assertFalse(line.startswith(forged), line)
        self.assertNotIn("\x1b", log)

    def test_what_arrays_contain_is_told_to_nobody(self):
        """The array repeats one word of text, and neither the word nor a sum of it may appear in an error, in
        the log or on a page. A response has it, of course."""
        word = b"PAYLOAD!"
        number = int.from_bytes(word, "little")
        forms = ("PAYLOAD", word.hex(), f"{number:x}", str(number), str(2 * number), f"{number:.6g}"[:7],
                 f"{struct.unpack('<d', word)[0]:.6g}"[:7], base64.b64encode(word * 3).decode()[:10])
        few, many = self.file("few", word * 1008), self.file("many", word * 100800)
        with Server("--log_format=json", "--admin_listen=127.0.0.1:0", "--resident_bytes=1048576",
                    device="cpu") as server:
            told = []

            def call(refused: bool, command: str, *arguments: str) -> str:
                done = warpfold(command, "--target", server.address, *arguments)
                self.assertEqual(done.returncode != 0, refused, done.stderr)
                told.append(done.stderr)
                return done.stdout

            words = ("--dtype=int64",)
            for array in (few, many):
                call(True, "reduce", "--op=product", *words, array)
                call(True, "reduce", "--op=sum,product,max_subarray_sum", *words, array)
                call(True, "reduce", "--op=matrix_product,affine_compose", "--matrix=3x3", *words, array)
                call(True, "reduce", "--op=sum", "--algorithm=last_block", *words, array)
                call(True, "reduce", "--op=sum", "--modulus=7", *words, array)
                call(True, "reduce", "--op=sum,bit_and", "--dtype=float64", array)
                call(False, "reduce", "--op=first,max,mean,variance", *words, array)
                call(False, "reduce", "--op=sum,describe,logsumexp", "--dtype=float64", array)
                call(True, "reduce", "--op=sum", "--segment_length=504", *words, array)
                call(False, "reduce", "--op=last,argmax", "--segment_length=504", *words, array)
            call(False, "reduce", "--op=max", "--streams=2", *words, many)
            call(True, "reduce", "--op=sum", "--streams=2", *words, many)
            token = re.search(r"\b[0-9a-f]{32}\b", call(False, "put", "--ttl=60", *words, many))[0]
            call(True, "reduce", "--op=sum", "--array", token)
            call(False, "reduce", "--op=min", "--array", token)
            with socket.create_connection(server.address.rsplit(":", 1)) as stranger:
                stranger.sendall(word * 1000)  # instead of HTTP/2
                stranger.settimeout(10)
                with contextlib.suppress(ConnectionError):
                    told.append(stranger.recv(4096).decode("latin-1"))
            admin = re.search(r" admin=(\S+) device=", server.ready_line)[1]
            told += [get(admin, page)[1] for page in ("/metrics", "/statusz", "/healthz", "/readyz")]
            self.assertEqual(server.stop(), 0)
            log = server.log()
        for method, least in (("ReduceArray", 8), ("Reduce", 8), ("ReduceSegments", 4), ("PutArray", 1)):
            self.assertGreaterEqual(len(calls(log, method)), least, method)
        for text in (*told, log):
            for form in forms:
                self.assertNotIn(form, text)
            self.assertNotIn(str(self.folder), text)


if __name__ == "__main__":
    unittest.main()
