# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Which tests cover a source, for mutate.py: of the entries that its path begins with, the longest."""

_CORE = tuple(f"server_{name}_test" for name in """
    algorithm allow_list array_parser array_reducer array_writer call call_events checksum crossover cuts
    device_health merge party_tags protocol request_parser resident resident_pool segments segments_device
    server_info session session_device several_devices slot_share slot_share_devices thread_beat
    trace_context turns whole_array wire_guard stream_mutation simulation""".split())
_CLIENT = tuple(f"{name}_test" for name in """
    answer_check asking_first client client_failure crc32c keep_going look_ahead refusals retry segment_answer
    share_queue streams stripes translate wire""".split())
_STATES = ("kernels_partial_state_test",)
_KERNELS = _STATES + ("kernels_contract_test", "server_cuts_test", "server_merge_test",
                      "server_segments_test", "server_segments_device_test",
                      "server_stream_mutation_test")

TESTS = {
    "server/core/": _CORE,
    "client/": _CLIENT,
    "client/answer_check.cc": ("answer_check_test", "segment_answer_test"),
    "client/cli/npy": ("npy_test",),
    "client/refusals.cc": ("refusals_test",),
    "client/share_queue.cc": ("share_queue_test",),
    "client/stripes.cc": ("stripes_test",),
    "client/translate.cc": ("translate_test", "answer_check_test"),
    "kernels/": _KERNELS,
}


def tests_of(file: str) -> tuple[str, ...]:
    return TESTS[max((prefix for prefix in TESTS if file.startswith(prefix)), key=len)]
