# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Which tests cover a source, for mutate.py: of the entries with which its path begins, the longest
counts."""


def _server(names: str) -> tuple[str, ...]:
    return tuple(f"server_{name}_test" for name in names.split())


_CORE = _server("""
    admission algorithm allow_list array_parser array_reducer array_writer call_events call_timer call_turns
    checksum crossover cuts device_health expected_messages merge one_stream party_tags protocol
    request_parser resident resident_pool segments segments_device server_info session session_device
    several_devices slot_pool slot_pool_devices slot_work thread_beat trace_context turns whole_array
    wire_guard
    stream_mutation simulation""")
_CLIENT = tuple(f"{name}_test" for name in """
    argument_check asking_first callbacks client client_failure draining keep_going late_call look_ahead parts
    target_load resting retry segment_answer share_queue side_by_side streams translate wire""".split())
_STATES = ("kernels_partial_state_test",)
_KERNELS = _STATES + ("kernels_contract_test", "server_cuts_test", "server_merge_test",
                      "server_segments_test", "server_segments_device_test",
                      "server_stream_mutation_test")

_CPU = ("kernels_values_test", "kernels_thread_pool_test", "kernels_contract_test",
        "kernels_short_leaves_test", "kernels_variance_accuracy_test", "server_segments_test")

_STREAMS = _server("""
    array_parser checksum cuts request_parser session session_device whole_array protocol stream_mutation
    simulation""")
_SEGMENTS = _server("""
    cuts segment_results segments segments_device protocol stream_mutation simulation""")
_KEPT = _server("array_writer call_events resident several_devices stream_mutation simulation")
_CALLS = _server("admission call_events call_timer call_turns device_health protocol turns simulation")
_SLOTS = _server("""
    array_reducer crossover session session_device slot_pool slot_pool_devices slot_work
    whole_array simulation""")

TESTS = {
    "proto/crc32c": ("crc32c_test", "server_checksum_test"),
    "proto/shared/system_memory": ("system_memory_test", "server_memory_budget_test"),
    "server/": _server("""
        flags log_line log_queue memory_budget process_end unix_socket admin rpc rpc_end trace"""),
    "server/admin/": _server("admin trace"),
    "server/core/": _CORE,
    "server/core/admission/admission.cc": _CALLS,
    "server/core/admission/allow_list.cc": _server("allow_list"),
    "server/core/slots/array_reducer.cc": _SLOTS,
    "server/core/slots/array_segment_reducer.cc": _SEGMENTS + _server("segment_shares"),
    "server/core/calls/array_session.cc": _STREAMS + _SEGMENTS,
    "server/core/slots/array_writer.cc": _KEPT,
    "server/core/calls/call.cc": _CALLS,
    "server/core/calls/call_requests.cc": _CALLS + _server("resident merge server_info"),
    "server/core/calls/call_time.cc": _CALLS,
    "server/core/calls/call_timer.cc": _CALLS,
    "server/core/slots/canary": _server("device_health"),
    "server/core/slots/crossover.cc": _SLOTS,
    "server/core/slots/device_health": _server("device_health session_device"),
    "server/core/slots/slot_fill.cc": _server("slot_fill session whole_array") + _KEPT,
    "server/core/calls/incoming_array.cc": _STREAMS,
    "server/core/slots/memory_reducer.cc": _STREAMS + _server("resident"),
    "server/core/references/memory_registry.cc": _KEPT,
    "server/core/slots/memory_segment_reducer.cc": _SEGMENTS + _server("resident"),
    "server/core/calls/merge.cc": _server("merge algorithm"),
    "server/core/wire/messages.cc": _STREAMS + _server("merge segments resident server_info algorithm"),
    "server/core/wire/operator_names.cc": _server("algorithm merge server_info request_parser"),
    "server/core/admission/party.cc": _server("admission party_tags turns simulation"),
    "server/core/admission/party_tags.cc": _server("party_tags turns simulation"),
    "server/core/calls/plan_cache.cc": _STREAMS + _server("resident algorithm"),
    "server/core/calls/put_session.cc": _KEPT,
    "server/core/references/range_allocator.cc": _server("resident resident_pool"),
    "server/core/wire/request_parser.cc": _server(
        "array_parser request_parser protocol resident segments simulation"),
    "server/core/references/resident_arrays.cc": _KEPT + _server("resident_pool"),
    "server/core/references/resident_pool.cc": _server("resident_pool resident"),
    "server/core/slots/segment_reducer.cc": _SEGMENTS,
    "server/core/wire/segment_results.cc": _SEGMENTS + ("answer_check_test",),
    "server/core/calls/segment_session.cc": _SEGMENTS,
    "server/core/calls/server_info.cc": _server("server_info algorithm"),
    "server/core/calls/reduce_session.cc": _STREAMS,
    "server/core/calls/shard.cc": _CALLS,
    "server/core/slots/slot_reducer.cc": _SLOTS + _server("segments"),
    "server/core/slots/slot_pool.cc": _SLOTS,
    "server/core/wire/state_messages.cc": _server("merge algorithm"),
    "server/core/trace_context.cc": _server("trace_context"),
    "server/core/admission/turns.cc": _server(
        "turns expected_messages one_stream call_turns party_tags simulation"),
    "server/core/slots/warm_up.cc": _server("device_health crossover"),
    "server/core/wire/wire_guard.cc": _server("wire_guard"),
    "server/log/": _server("log_line log_queue"),
    "server/memory/": (_server("""handle_prober memfd memfd_sealer registrar unix_peers unix_socket
                                  rpc_memory_probes rpc_memory_socket rpc_memory_turns""") +
                       ("memory_connection_test",)),
    "server/process/memory_budget.cc": _server("memory_budget"),
    "server/net/": _server("""frame_heads frame_watch header_fields peer_allowances unix_peers rpc
                           rpc_bad_input rpc_admission"""),
    "server/rpc/": _server("""
        receive_arena status_translation rpc rpc_admission rpc_bad_input rpc_end rpc_kept_arrays rpc_segments
        rpc_shard trace admin""") + ("draining_test", "client_failure_test"),
    "client/": _CLIENT,
    "client/calls/answer_check.cc": ("answer_check_test", "segment_answer_test"),
    "client/calls/argument_check.cc": ("argument_check_test", "client_test"),
    "client/connections/connection.cc": ("asking_first_test", "client_test", "dead_target_test",
                                         "late_call_test", "resting_test"),
    "client/connections/target_names.cc": ("target_names_test", "argument_check_test"),
    "client/connections/targets.cc": ("client_test", "client_failure_test", "dead_target_test",
                                      "resting_test", "streams_test"),
    "client/cli/": ("cli_test", "cli_deadline_test", "cli_files_test", "cli_flags_test"),
    "client/cli/bench/": ("bench_test", "cli_flags_test"),
    "client/cli/files": ("cli_files_test",),
    "client/cli/mapped_file": ("mapped_file_test", "cli_files_test"),
    "client/cli/npy": ("npy_test",),
    "client/cli/npz": ("npz_test", "cli_files_test"),
    "client/cli/unpacker": ("npz_test", "cli_files_test"),
    "client/cli/zip_directory": ("npz_test",),
    "client/calls/lent_memory.cc": ("wire_test",),
    "client/connections/target_load.cc": ("target_load_test", "asking_first_test"),
    "client/connections/registrations.cc": ("memory_connection_test", "server_rpc_memory_socket_test"),
    "client/shared_memory.cc": ("memory_connection_test", "server_rpc_memory_socket_test"),
    "proto/shared/send_buffer": ("send_buffer_test",),
    "client/connections/sockets.cc": ("memory_connection_test", "dead_connection_test", "late_call_test"),
    "client/calls/share_queue.cc": ("share_queue_test", "streams_test", "look_ahead_test"),
    "client/calls/side_by_side.cc": ("side_by_side_test", "callbacks_test", "keep_going_test",
                                     "streams_test"),
    "client/calls/stripes.cc": ("stripes_test",),
    "client/calls/translate.cc": ("translate_test", "answer_check_test", "client_test"),
    "client/calls/wire.cc": ("wire_test", "client_test"),
    "client/calls/advice.cc": ("streams_test", "asking_first_test", "client_test"),
    "client/questions.cc": ("asking_first_test", "client_test"),
    "kernels/": _KERNELS,
    "kernels/cpu/": _CPU,
    "kernels/devices.cc": _server("several_devices"),
    "kernels/error.cc": _STATES + _server("status_translation merge"),
    "kernels/reduction.cc": ("textbook_refusals_test", "kernels_operators_table_test") + _KERNELS +
                            _server("algorithm"),
    "kernels/segment": _CPU + _SEGMENTS,
    "kernels/partial_state.cc": _STATES + _server("cuts merge segments") + ("kernels_contract_test",),
}


# Tests with a server, for mutants that pass the tests above; they take longer. Names that end in .py are
# suites of tests/e2e.
SERVED = {
    "server/core/": _server("admin reflection rpc rpc_admission rpc_bad_input rpc_end rpc_kept_arrays "
                            "rpc_memory_socket rpc_memory_turns rpc_segments rpc_shard trace") +
                    ("parts_test",),
    "client/": ("parts_test", "dead_connection_test", "cut_file_test", "resting_test") +
               _server("rpc rpc_kept_arrays rpc_memory_socket rpc_segments trace"),
    "client/cli/": ("refusals_test.py", "segments_test.py", "files_test.py", "reduce_test.py",
                    "kept_arrays_test.py", "client_process_test.py"),
    "client/cli/bench/": ("bench_test.py",),
    "client/cli/server": ("client_process_test.py", "tls_test.py"),
    "server/": ("server_process_test.py", "log_test.py", "admin_test.py", "identity_test.py"),
    "server/net/": ("connections_test.py", "descriptors_test.py", "server_process_test.py"),
    "server/rpc/": ("tls_test.py", "identity_test.py", "leaving_test.py"),
    "server/files/tls": ("tls_test.py", "identity_test.py"),
}


def tests_of(file: str) -> tuple[str, ...]:
    nearest = max((prefix for prefix in TESTS if file.startswith(prefix)), key=len)
    served = max((prefix for prefix in SERVED if file.startswith(prefix)), key=len, default="")
    return tuple(dict.fromkeys(TESTS[nearest] + SERVED.get(served, ())))
