# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The canonical order in Python, written only from docs/canonical-order.md: the proof that the page suffices.

reduce() returns the partial state and the value of an array. It is slow and plain on purpose.
"""

import numpy

import canonical_elements
import canonical_operators
import canonical_sweeps
from canonical_elements import Operator, Refused, Spec

_MAKERS = {**canonical_operators.MAKERS, **canonical_sweeps.MAKERS}


def _pairwise(combine, states: list):
    while len(states) > 1:
        pairs = [states[i:i + 2] for i in range(0, len(states), 2)]
        states = [combine(*pair) if len(pair) == 2 else pair[0] for pair in pairs]
    return states[0]


def _chain(combine, states: list):
    state = states[0]
    for right in states[1:]:
        state = combine(state, right)
    return state


def _lanes(spec: Spec, combine, identity, leaf: list) -> list:
    """Steps 1 and 2."""
    columns, vector = 512 * 8 // spec.bits, 128 // spec.bits
    states = [_chain(combine, leaf[j::columns]) if j < len(leaf) else identity for j in range(columns)]
    return [_pairwise(combine, states[i:i + vector]) for i in range(0, columns, vector)]


def _swept_twice(op: Operator, spec: Spec, leaf: list) -> list:
    sweeps = op.sweeps
    lane_of = [i % (512 * 8 // spec.bits) // (128 // spec.bits) for i in range(len(leaf))]
    present = set(lane_of)
    first = _lanes(spec, sweeps.combine, sweeps.identity, [sweeps.lift(x) for x in leaf])
    centers = [sweeps.center(state) if lane in present else None for lane, state in enumerate(first)]
    second = _lanes(spec, sweeps.add, sweeps.nothing,
                    [sweeps.lift_second(x, centers[lane]) for lane, x in zip(lane_of, leaf)])
    return [sweeps.join(first[lane], centers[lane], second[lane]) if lane in present else op.identity
            for lane in range(32)]


def _lane_pattern(op: Operator, spec: Spec, leaf: list, first: int):
    if op.sweeps:
        lanes = _swept_twice(op, spec, leaf)
    else:
        lanes = _lanes(spec, op.combine, op.identity, [op.lift(x, first + i) for i, x in enumerate(leaf)])
    for distance in (16, 8, 4, 2, 1):
        for lane in range(distance):
            lanes[lane] = op.combine(lanes[lane], lanes[lane + distance])
    return lanes[0]


class _Array:
    """Leaves and nodes of one entry's (or the whole elements') states."""

    def __init__(self, op: Operator, spec: Spec, first: int, elements: list):
        self.op, self.spec, self.first = op, spec, first
        self.elements = elements
        self.leaf_size = leaf_size(spec)

    def leaf(self, index: int):
        begin = index * self.leaf_size - self.first
        leaf = self.elements[begin:begin + self.leaf_size]
        if not self.spec.rows and not self.op.ordered:
            return _lane_pattern(self.op, self.spec, leaf, self.first + begin)
        states = [self.op.lift(x, self.first + begin + i) for i, x in enumerate(leaf)]
        if not self.op.ordered:
            return _chain(self.op.combine, states)
        length = self.leaf_size // min(self.leaf_size, 32)
        runs = [states[i:i + length] for i in range(0, len(states), length)]
        return _pairwise(self.op.combine, [_chain(self.op.combine, run) for run in runs])

    def node(self, level: int, index: int):
        """None if no element of the array is in it."""
        begin = (index << level) * self.leaf_size
        if begin >= self.first + len(self.elements) or begin + (self.leaf_size << level) <= self.first:
            return None
        if level == 0:
            return self.leaf(index)
        children = [self.node(level - 1, 2 * index), self.node(level - 1, 2 * index + 1)]
        present = [child for child in children if child is not None]
        return self.op.combine(*present) if len(present) == 2 else present[0]


def leaf_size(spec: Spec) -> int:
    size = 1
    while 2 * size * spec.entries * spec.bits // 8 <= 4096:
        size *= 2
    return size


def maximal_nodes(begin: int, end: int) -> list[tuple[int, int]]:
    """The maximal nodes of leaves begin to end - 1."""
    nodes = []
    while begin < end:
        level = 0
        while begin % 2**(level + 1) == 0 and begin + 2**(level + 1) <= end:
            level += 1
        nodes.append((level, begin >> level))
        begin += 1 << level
    return nodes


def _fold(op: Operator, nodes: list[tuple[int, int]], states: list):
    odd = [s for (_, index), s in zip(nodes, states) if index % 2]
    even = [s for (_, index), s in zip(nodes, states) if index % 2 == 0]
    sides = [_chain(op.combine, odd)] if odd else []
    if even:
        sides.append(_chain(lambda right, left: op.combine(left, right), even[::-1]))
    return _chain(op.combine, sides)


def _finish(op: Operator, folded: list, count: int):
    if count == 0 and not op.has_identity:
        return "EMPTY_ARRAY"
    try:
        results = [op.finish(state, count) for state in folded]
    except Refused as refused:
        return str(refused)
    return results[0] if op.several else results


def reduce(spec: Spec, data: bytes, first: int = 0):
    """(nodes, range state, results): nodes are (level, index, state bytes), or there is the state of the
    range if the operator is associative; results are a list with one per entry or field, each a number,
    (number, index) or (number, index, end_index); or the reason why there are none."""
    with numpy.errstate(all="ignore"):
        op = _MAKERS[spec.operator](spec)
        read = canonical_elements.elements(spec, data, op.reads)
        count = len(read) // spec.entries
        if spec.takes_whole:
            parts = [[read[i:i + spec.entries] for i in range(0, len(read), spec.entries)]]
        else:
            parts = [read[entry::spec.entries] for entry in range(spec.entries)]
        arrays = [_Array(op, spec, first, part) for part in parts]
        size = leaf_size(spec)
        positions = maximal_nodes(first // size, -(-(first + count) // size) if count else first // size)
        states = [[array.node(*position) for array in arrays] for position in positions]
        folded = [_fold(op, positions, [s[part] for s in states]) if count else op.identity
                  for part in range(len(arrays))]
        nodes, range_state = [], b""
        if not spec.is_associative:
            nodes = [(*position, b"".join(map(op.pack, state))) for position, state in zip(positions, states)]
        elif count:
            range_state = b"".join(map(op.pack, folded))
        return nodes, range_state, _finish(op, folded, count)
