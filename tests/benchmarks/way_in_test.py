# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""Which cases way_in.py has, and how it divides its time among them. Nothing is started."""

import unittest
from unittest import mock

import way_in

_GIB = 1 << 30
_GPU_BUDGET_S = 560
# The time that processes and memory took for a case of the runs on an H200; the first case took less.
_OVERHEADS_S = (1.0, 3.0)


def gpu_cases() -> list:
    return way_in.all_cases(_GIB, "cuda:0 A GPU", advised_streams=4)


def bytes_of(case: way_in.Case) -> int:
    return int(case.arguments[case.arguments.index("--bytes") + 1])


class CasesTest(unittest.TestCase):

    def test_what_lies_in_place_is_called_about_over_both_transports(self):
        by_transport = {transport: [(case.name, case.arguments) for case in gpu_cases()
                                    if case.transport == transport and "--source" in case.arguments]
                        for transport in ("tcp", "unix")}
        self.assertEqual(by_transport["tcp"], by_transport["unix"])
        sizes = {(case.name, bytes_of(case)) for case in gpu_cases() if "--source" in case.arguments}
        rows = {"rows_of_1_kib", "rows_of_16_kib", "rows_of_128_kib", "rows_of_1024_kib"}
        self.assertEqual(sizes, {("memory", _GIB),
                                 *((name, size) for name in {"ipc", "resident"} | rows
                                   for size in (_GIB, 4 * _GIB)),
                                 *((f"{name}_to_{place}", 4 * _GIB) for name in rows
                                   for place in ("memory", "gpu_memory"))})

    def test_a_cpu_has_no_memory_of_a_gpu_and_nothing_larger_than_asked_for(self):
        cases = way_in.all_cases(_GIB, "cpu", advised_streams=2)
        self.assertNotIn("ipc", {case.name for case in cases})
        self.assertEqual(max(bytes_of(case) for case in cases if "--bytes" in case.arguments), _GIB)

    def test_only_registered_memory_has_the_memory_socket(self):
        self.assertEqual({case.name for case in gpu_cases()
                          if case.socket and "--results" not in case.arguments}, {"memory", "ipc"})

    def test_no_case_is_there_twice(self):
        cases = [(case.name, case.transport, case.arguments) for case in gpu_cases()]
        self.assertEqual(len(cases), len(set(cases)))


class ClockTest(unittest.TestCase):

    def turns(self, cases: list, budget_s: float, overheads_s: tuple) -> tuple:
        """The turns that a clock gives to cases, which have such overheads in turns, and when the last one
        ends."""
        now = 0.0
        with mock.patch.object(way_in.time, "monotonic", lambda: now):
            clock = way_in.Clock(budget_s, cases, has_flight=True)
            turns = []
            for number, case in enumerate(cases):
                turns.append(clock.next_turn_s())
                if turns[-1]:
                    now += turns[-1] * case.turns(True) + overheads_s[number % len(overheads_s)]
        return turns, now

    def test_all_of_a_gpus_cases_fit_their_budget(self):
        cases = gpu_cases()
        turns, end = self.turns(cases, _GPU_BUDGET_S, _OVERHEADS_S)
        self.assertLess(end, _GPU_BUDGET_S + _OVERHEADS_S[-1])
        self.assertGreater(min(turn / case.weight for turn, case in zip(turns, cases)), 1)

    def test_a_quick_run_leaves_none_out(self):
        turns, _ = self.turns(gpu_cases(), way_in._QUICK_BUDGET_S * 0.95, _OVERHEADS_S)
        self.assertGreaterEqual(min(turns), way_in._LEAST_TURN_S)

    def test_a_turn_of_its_own_is_the_same_in_any_budget(self):
        cases = [case for case in gpu_cases() if case.name in ("array_4_kib_long", "empty_call")]
        for budget_s in (60, 600):
            turns, end = self.turns(cases, budget_s, (1.0,))
            with self.subTest(budget_s=budget_s):
                self.assertEqual([turn for turn, case in zip(turns, cases) if case.turn_s],
                                 [way_in._LONG_TURN_S] * 2)
                self.assertAlmostEqual(end, budget_s, delta=2)

    def test_a_turn_of_its_own_has_10_5_calls_of_45_us_after_the_warm_up(self):
        left_s = way_in._LONG_TURN_S * (1 - way_in._WARM_UP_SHARE)
        self.assertGreater(left_s, 100_000 * 45e-6)

    def test_no_time_left(self):
        cases = [case for case in gpu_cases() if case.name == "array_4_kib_long"]
        self.assertEqual(self.turns(cases, 4, (1.0,))[0], [0, 0])


if __name__ == "__main__":
    unittest.main()
