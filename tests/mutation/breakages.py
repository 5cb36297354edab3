#!/usr/bin/env python3
# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Breaks the server or the client in one place for each promise of docs/reliability.md, and checks that a
test of processes fails.

mutate.py covers what unit tests show; a breakage is compiled like its mutants. Each breakage is a line of
JSON in --output; the exit code is 1 if one was not noticed.

    cmake --preset mutation && cmake --build --preset mutation
    tests/mutation/breakages.py [NAME...]
"""

import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from typing import NamedTuple

from mutate import ROOT, Build
from suites import with_mutant

_LEAK = "Call::~Call() {\n  thread_local std::vector<std::string> kept;\n  kept.emplace_back(%d, 'x');"


class Breakage(NamedTuple):
    name: str
    file: str
    before: str
    after: str
    executable: str
    test: str  # suite, class, and test
    environment: dict[str, str] = {}  # for the test
    timeout_s: float = 150  # a test that hangs is one that fails


BREAKAGES = (
    Breakage("the log waits for its reader", "server/log/log_queue.cc",
             "  lines_.push_back({std::move(line), bytes});", "  WriteAll(descriptor_, line());",
             "warpfold-server",
             "e2e/server_process_test.py EndTest.test_goes_on_when_its_log_is_a_full_pipe"),
    Breakage("closed connections keep their places", "server/net/connections.cc",
             "if (!open || info.st_dev != known.device || info.st_ino != known.inode) Remove(here);",
             "static_cast<void>(open), static_cast<void>(known);", "warpfold-server",
             "e2e/connections_test.py ConnectionsTest.test_descriptors_run_out_and_come_back"),
    Breakage("a peer takes all connections", "server/net/acceptor.cc",
             "(max_connections + 1) / 2", "max_connections", "warpfold-server",
             "e2e/connections_test.py ConnectionsTest.test_a_cap_and_half_of_it_for_one_peer"),
    Breakage("listeners stay open while draining", "server/rpc/rpc_server.cc",
             "  StopListening();\n  service_", "  service_", "warpfold-server",
             "e2e/rolling_restart_test.py RollingRestartTest.test_a_draining_server_takes_nobody_in"),
    Breakage("no GOAWAY while draining", "server/rpc/rpc_server.cc",
             "  SendGoaways(*server_);\n", "", "warpfold-server",
             "e2e/rolling_restart_test.py RollingRestartTest.test_connections_are_told_to_go"),
    Breakage("the second signal changes nothing", "server/process/process_end.cc",
             "if (now - requested_at_ < kOneRequest) return;", "return;",
             "warpfold-server", "e2e/server_process_test.py EndTest.test_a_second_signal_ends_it_at_once"),
    Breakage("standard output is waited for", "server/server_main.cc",
             "output.Flush(kReadersTime)", "output.Flush(absl::Hours(1))",
             "warpfold-server",
             "e2e/server_process_test.py EndTest.test_serves_and_ends_when_its_output_is_a_full_pipe"),
    Breakage("what hangs at the end is waited for", "server/process/process_end.cc",
             "if (now < deadline_) return;", "if (now < deadline_ || true) return;", "faulting_server",
             "e2e/hanging_test.py HangingTest.test_a_registration"),
    Breakage("files are looked at by the thread that drains", "server/server_main.cc",
             "    call_log.SayLeftOut();\n", "    const FileWatch look({\"/\"});\n", "faulting_server",
             "e2e/hanging_test.py HangingTest.test_a_file"),
    Breakage("a device that hangs is waited for", "server/core/slots/slot_pool.cc",
             "if (device_ == nullptr) return;", "return;", "faulting_server",
             "interop/device_fault_test.py HangingDeviceTest.test_while_it_drains"),
    Breakage("a call to the device is waited for", "server/rpc/rpc_server.cc",
             'service_.device.Lose("a call', 'if (false) service_.device.Lose("a call', "faulting_server",
             "interop/device_fault_test.py HangingDeviceTest.test_a_call_to_the_device_that_does_not_return"),
    Breakage("an idle device is not tried", "server/core/slots/canary.cc",
             "if (!is_due || is_used) return;", "return;", "faulting_server",
             "interop/device_fault_test.py HangingDeviceTest.test_while_nobody_uses_it"),
    Breakage("a lost device does not end calls", "server/core/calls/shard.cc",
             "call.Stop(why);", "static_cast<void>(call);", "faulting_server",
             "interop/device_fault_test.py DeviceFaultTest.test_calls_health_and_exit_code"),
    Breakage("a key of another certificate", "proto/shared/tls_pem.cc",
             "if (!matches) return", "if (!matches && false) return", "warpfold-server",
             "e2e/tls_test.py TlsTest.test_a_key_that_does_not_fit_is_refused_by_name"),
    Breakage("expiry is not warned of", "server/files/expiry_notice.h",
             "now + absl::Hours(24 * 7) ?", "now - absl::Hours(24 * 7) ?", "warpfold-server",
             "e2e/tls_test.py TlsTest.test_expiry_is_warned_of"),
    Breakage("new keys may be of another time", "server/files/tls_renewal.cc",
             "if (!fault.empty()) return", "if (false) return", "warpfold-server",
             "e2e/tls_dates_test.py TlsDatesTest.test_new_keys_that_no_client_accepts_are_refused"),
    Breakage("no handshake is tried with a key", "proto/shared/tls_pem.cc",
             "if (CanShakeHands(context.get()))", "if (true || CanShakeHands(nullptr))", "warpfold-server",
             "e2e/tls_dates_test.py TlsDatesTest.test_new_keys_that_no_client_accepts_are_refused"),
    Breakage("new keys are not looked for", "server/files/tls_renewal.cc",
             "!files_.HasChanged(now)", "(files_.HasChanged(now), true)", "warpfold-server",
             "e2e/tls_test.py TlsTest.test_new_keys_are_used_without_a_restart"),
    Breakage("frames are not watched", "server/net/watched_sockets.cc",
             "if (size < 0 || connection == nullptr) return size;", "return size;", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_over_a_unix_socket_too"),
    Breakage("frames over TLS are not watched", "server/net/watched_tls.cc",
             "tls->complaint = tls->connection->TakeReceived(Bytes(data, size));",
             "tls->connection->TakeReceived(Bytes(data, size));", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_more_headers_than_are_counted_are_cut"),
    Breakage("each connection may take back calls of its own", "server/net/watched_connection.cc",
             "if (resets > 0 &&", "if (false &&", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_many_connections_of_one_host_are_one"),
    Breakage("descriptors are closed where they come", "server/net/watched_connection.cc",
             "may_bring_descriptors_(MayBringDescriptors(descriptor)),", "may_bring_descriptors_(false),",
             "faulting_server",
             "e2e/descriptors_test.py DescriptorsTest.test_who_sends_some_is_cut"),
    Breakage("sockets are closed by whoever serves", "server/net/foreign_descriptors.cc",
             "if (!MayBringDescriptors(socket.get())) {", "if (true) {", "faulting_server",
             "e2e/descriptors_test.py DescriptorsTest.test_some_that_lie_unread_when_the_connection_is_cut"),
    Breakage("the memory socket takes any descriptor", "server/net/unix_socket.cc",
             "const bool is_in_memory = fcntl(packet.descriptor.get(), F_GET_SEALS) >= 0;",
             "const bool is_in_memory = true;", "warpfold-server",
             "e2e/descriptors_test.py MemorySocketTest.test_descriptors_that_are_read"),
    Breakage("a thread that is held up goes unnoticed", "server/rpc/rpc_server.cc",
             'service_.device.Lose("a thread', 'if (false) service_.device.Lose("a thread', "faulting_server",
             "e2e/hanging_test.py HangingTest.test_a_shard_of_which_nobody_knows_why"),
    Breakage("settings may be acknowledged before they are sent", "server/net/frame_watch.cc",
             "if (!server_speaks_) return", "if (false) return", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_settings_are_not_acknowledged_before_they_come"),
    Breakage("calls that are begun may wait for a minute", "server/core/calls/call_time.cc",
             "return is_short ? kCheckIdle", "return false ? kCheckIdle", "warpfold-server",
             "e2e/streams_test.py StreamsTest.test_calls_that_are_begun_and_not_sent_keep_nobody_out"),
    Breakage("who has yet to send is waited for", "server/core/calls/call_time.cc",
             "const absl::Status overdue =",
             "if (!timer_.has_come()) return;\n  const absl::Status overdue =",
             "warpfold-server",
             "e2e/streams_test.py StreamsTest.test_calls_that_stop_one_byte_short_hold_little_and_end"),
    Breakage("a drain does not say why it stops calls", "server/rpc/rpc_server.cc",
             "StopAll(draining);", "StopAll(absl::CancelledError());", "warpfold-server",
             "e2e/streams_test.py StreamsTest.test_a_slow_upload_that_outlasts_a_drain_is_told_why"),
    Breakage("whoever connects may register memory", "server/memory/memory_socket.cc",
             "if (user != geteuid() &&", "if (false &&", "warpfold-server",
             "e2e/connections_test.py ConnectionsTest.test_memory_is_taken_of_listed_users_alone"),
    Breakage("a stopped call's line knows nothing of it", "server/core/calls/call.cc",
             "if (session_ != nullptr) session_->Describe",
             "if (status.ok() && session_ != nullptr) session_->Describe",
             "warpfold-server", "e2e/log_test.py LogTest.test_a_stopped_call_is_known_by_its_line"),
    Breakage("a connection may have calls without end", "server/rpc/transport_settings.cc",
             "StreamsOfConnection(max_concurrent_reductions));", "100'000);", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_a_connection_has_so_many_calls"),
    Breakage("memory is not given back", "server/process/memory_return.cc",
             "if (now < next_check_) return;", "return;", "warpfold-server",
             "e2e/floods_test.py FloodsTest.test_memory_comes_back_of_what_is_not_seen"),
    Breakage("calls leave memory behind", "server/core/calls/call.cc",
             "Call::~Call() {", _LEAK % 99_000,
             "warpfold-server", "e2e/soak_test.py SoakTest.test_everything_is_given_back"),
    Breakage("calls leave 300 bytes behind, for ten minutes", "server/core/calls/call.cc",
             "Call::~Call() {", _LEAK % 300,
             "warpfold-server", "e2e/soak_test.py SoakTest.test_everything_is_given_back",
             {"WARPFOLD_SOAK_SECONDS": "600"}, 900),
    Breakage("the list of who may call is not obeyed", "server/core/calls/call.cc",
             "!denied.ok()", "!denied.ok() && false", "warpfold-server",
             "e2e/identity_test.py IdentityTest.test_what_no_line_allows_is_denied"),
    Breakage("users of a Unix socket are not known", "server/net/unix_peers.cc",
             "address->sa_family != AF_UNIX) return 0;", "true) return 0;", "warpfold-server",
             "e2e/identity_test.py IdentityTest.test_users_of_a_unix_socket_and_plaintext"),
    Breakage("a DNS name comes before a SPIFFE ID", "server/rpc/caller_identity.cc",
             "!spiffe.empty()", "false", "warpfold-server",
             "e2e/identity_test.py IdentityTest.test_certificates_say_who_calls"),
    Breakage("a new list is not looked for", "server/files/allow_file.cc",
             "!watch_.HasChanged(now)", "(watch_.HasChanged(now), true)", "warpfold-server",
             "e2e/identity_test.py IdentityTest.test_a_new_list_is_used_and_a_bad_one_is_not"),
    Breakage("mistakes in a list are overlooked", "server/core/admission/allow_list.cc",
             'return absl::InvalidArgumentError(absl::StrCat("line ", number, ": ", status.message()));',
             "continue;", "warpfold-server",
             "e2e/identity_test.py IdentityTest.test_bad_lists_are_refused_at_the_start"),
    Breakage("plaintext for every machine", "server/rpc/rpc_server.cc",
             "|| listeners[i].is_local()", "|| true", "warpfold-server",
             "e2e/connections_test.py ConnectionsTest.test_plaintext_for_other_machines_must_be_asked_for"),
    Breakage("ports are not checked", "client/connections/target_names.cc", "number <= 65535", "number >= 1",
             "warpfold", "e2e/client_process_test.py NoServerTest.test_ports_that_do_not_exist"),
)


def passes(build: Build, breakage: Breakage, scratch: pathlib.Path) -> bool:
    """Whether its test passes with the code that was compiled to `scratch`."""
    built = {"WARPFOLD_SERVER": "warpfold-server", "WARPFOLD_CLI": "warpfold",
             "WARPFOLD_STEADY_CALLERS": "steady_callers"}
    paths = {key: str(build.folder / "bin" / name) for key, name in built.items()}
    executable = str(build.folder / "bin" / breakage.executable)
    key = "WARPFOLD_CLI" if breakage.executable == "warpfold" else "WARPFOLD_SERVER"
    paths[key] = with_mutant(executable, scratch)
    suite, name = breakage.test.split()
    try:
        return subprocess.run(["/usr/bin/python3", "-B", str(ROOT / "tests" / suite), name], check=False,
                              env={**os.environ, **paths, **breakage.environment},
                              timeout=breakage.timeout_s, capture_output=True).returncode == 0
    except subprocess.TimeoutExpired:
        return False


def outcome_of(build: Build, breakage: Breakage) -> str:
    text = (ROOT / breakage.file).read_text()
    if text.count(breakage.before) != 1:
        return "the source has changed: describe the breakage anew"
    with tempfile.TemporaryDirectory(prefix="warpfold_broken_") as folder:
        scratch = pathlib.Path(folder)
        # The source as it is, loaded in the same way: if this fails, the breakage is not the cause.
        if not build.compile(breakage.file, text, scratch):
            return "the source does not compile without it"
        if not passes(build, breakage, scratch):
            return "the test fails without it"
        if not build.compile(breakage.file, text.replace(breakage.before, breakage.after), scratch):
            return "not compiled"
        return "not noticed" if passes(build, breakage, scratch) else "noticed"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("names", nargs="*", help="words of their names; all without any")
    parser.add_argument("--build", type=pathlib.Path, default=ROOT / "build/mutation")
    parser.add_argument("--jobs", type=int, default=1, help="breakages at a time")
    parser.add_argument("--output", type=pathlib.Path, default=pathlib.Path("breakages.jsonl"))
    arguments = parser.parse_args()
    build = Build(arguments.build.resolve())
    wanted = [breakage for breakage in BREAKAGES
              if not arguments.names or any(name in breakage.name for name in arguments.names)]
    all_noticed = True
    with (concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool,
          arguments.output.open("a") as out):
        list(pool.map(build.precompile, {breakage.file for breakage in wanted}))
        outcomes = pool.map(lambda breakage: outcome_of(build, breakage), wanted)
        for breakage, outcome in zip(wanted, outcomes):
            all_noticed &= outcome == "noticed"
            print(f"{breakage.name}: {outcome}", flush=True)
            out.write(json.dumps({"name": breakage.name, "file": breakage.file, "test": breakage.test,
                                  "outcome": outcome}) + "\n")
            out.flush()
    sys.exit(0 if all_noticed else 1)


if __name__ == "__main__":
    main()
