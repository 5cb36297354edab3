# SPDX-FileCopyrightText: The Warpfold Authors
# SPDX-License-Identifier: Apache-2.0
"""The canonical order in Python, written from docs/canonical-order.md alone: the proof that it suffices.

reduce() answers the partial state and the value of an array. Slow and plain on purpose.
"""

import dataclasses
import struct
from typing import Any, Callable

import numpy

_NAN = {"f4": struct.pack("<I", 0x7FC00000), "f8": struct.pack("<Q", 0x7FF8000000000000)}
# NumPy's codes; it has none for bfloat16, which is read as the upper half of a float32.
_CODES = {"int8": "i1", "uint8": "u1", "int16": "i2", "uint16": "u2", "int32": "i4", "uint32": "u4",
          "int64": "i8", "uint64": "u8", "float16": "f2", "bfloat16": "b2", "float32": "f4", "float64": "f8",
          "bool": "u1"}


class Refused(Exception):
    """Finish has no result: EMPTY_ARRAY or OVERFLOW."""


@dataclasses.dataclass(frozen=True)
class Spec:
    operator: str
    type: str  # "int32"
    rows: int = 0
    columns: int = 0
    ignore_nan: bool = False
    wrap: bool = False
    modulus: int = 0

    @property
    def code(self) -> str:
        return _CODES[self.type]

    @property
    def is_float(self) -> bool:
        return self.code[0] in "fb"

    @property
    def bits(self) -> int:
        return 8 * int(self.code[1])

    @property
    def entries(self) -> int:
        return self.rows * self.columns if self.rows else 1


@dataclasses.dataclass(frozen=True)
class Operator:
    identity: Any
    lift: Callable[[Any, int], Any]
    combine: Callable[[Any, Any], Any]
    finish: Callable[[Any, int], Any]  # the result, or (result, index)
    pack: Callable[[Any], bytes]
    reads_keys: bool = False  # lift takes keys instead of elements
    has_identity: bool = True


def _bytes_of_float(x, code: str) -> bytes:
    return _NAN[code] if x != x else struct.pack("<f" if code == "f4" else "<d", x)


def _wide(spec: Spec, value: int) -> int:
    """An exact integer as the result of sum or product."""
    if spec.wrap:
        return _as_type(spec, value)
    low, high = (-2**63, 2**63) if spec.code[0] == "i" else (0, 2**64)
    if not low <= value < high:
        raise Refused("OVERFLOW")
    return value


def _as_type(spec: Spec, value: int) -> int:
    value %= 2**spec.bits
    return value - 2**spec.bits if spec.code[0] == "i" and value >= 2**(spec.bits - 1) else value


def _add(a, b):
    return a + b


def _sum(spec: Spec) -> Operator:
    if spec.is_float:
        return Operator(-0.0, lambda x, _: 0.0 if spec.ignore_nan and x != x else x, _add,
                        lambda s, n: s if n else 0.0, lambda s: _bytes_of_float(s, "f8"))
    return Operator(0, lambda x, _: x, _add, lambda s, _: _wide(spec, s),
                    lambda s: (s % 2**128).to_bytes(16, "little"))


def _mean(spec: Spec) -> Operator:
    plain = _sum(spec)
    if spec.is_float and spec.ignore_nan:
        return Operator((-0.0, 0), lambda x, _: (-0.0, 0) if x != x else (x, 1),
                        lambda a, b: (a[0] + b[0], a[1] + b[1]),
                        lambda s, _: s[0] / s[1] if s[1] else float("nan"),
                        lambda s: _bytes_of_float(s[0], "f8") + s[1].to_bytes(8, "little"),
                        has_identity=False)
    # Python divides integers exactly and rounds once.
    finish = (lambda s, n: s / float(n)) if spec.is_float else (lambda s, n: s / n)
    return dataclasses.replace(plain, finish=finish, has_identity=False)


def _product(spec: Spec) -> Operator:
    if spec.is_float:
        return Operator(1.0, lambda x, _: 1.0 if spec.ignore_nan and x != x else x, lambda a, b: a * b,
                        lambda s, _: s, lambda s: _bytes_of_float(s, "f8"))

    def combine(a, b):
        if a[0] == a[2] == 0 or b[0] == b[2] == 0:
            return 0, 0, 0
        magnitude = a[0] * b[0]
        return magnitude % 2**64, a[1] ^ b[1], a[2] | b[2] | int(magnitude >= 2**64)

    def finish(s, _):
        magnitude = s[0] + 2**64 * (s[2] and not spec.wrap)
        return _wide(spec, -magnitude if s[1] else magnitude)

    return Operator((1, 0, 0), lambda x, _: (abs(x), int(x < 0), 0), combine, finish,
                    lambda s: struct.pack("<QII", *s))


def _key_bounds(spec: Spec) -> tuple[int, int]:
    return (0, 2**spec.bits - 1) if spec.code[0] == "u" else (-2**(spec.bits - 1), 2**(spec.bits - 1) - 1)


def _element_of_key(spec: Spec, key: int):
    if not spec.is_float:
        return bool(key) if spec.type == "bool" else key
    if key < 0:
        key ^= 2**(spec.bits - 1) - 1
    return _scalars(spec, key.to_bytes(spec.bits // 8, "little", signed=True))[0]


def _extremum(spec: Spec) -> Operator:
    smallest, largest = _key_bounds(spec)
    best, worst = (smallest, largest) if spec.operator == "min" else (largest, smallest)
    choose = min if spec.operator == "min" else max
    nan = worst if spec.ignore_nan else best
    return Operator(worst, lambda key, _: nan if key is None else key, choose,
                    lambda s, _: _element_of_key(spec, s),
                    lambda s: s.to_bytes(spec.bits // 8, "little", signed=spec.code[0] != "u"),
                    reads_keys=True, has_identity=False)


def _arg_extremum(spec: Spec) -> Operator:
    smallest, largest = _key_bounds(spec)
    best, worst = (smallest, largest) if spec.operator == "argmin" else (largest, smallest)
    identity = (2**64 - 1, worst)

    def lift(key, index):
        if key is None:
            return identity if spec.ignore_nan else (index, best)
        return index, key

    def order(state):
        value = 0 if spec.is_float and state[1] == -1 else state[1]
        return (value if spec.operator == "argmin" else -value), state[0]

    def finish(state, _):
        if state[0] == 2**64 - 1:
            raise Refused("EMPTY_ARRAY")
        return _element_of_key(spec, state[1]), state[0]

    return Operator(identity, lift, lambda a, b: min(a, b, key=order), finish,
                    lambda s: struct.pack("<QQ" if spec.code[0] == "u" else "<Qq", *s),
                    reads_keys=True, has_identity=False)


def _bitwise(spec: Spec) -> Operator:
    combine = {"bit_and": lambda a, b: a & b, "bit_or": lambda a, b: a | b,
               "bit_xor": lambda a, b: a ^ b}[spec.operator]
    ones = 2**spec.bits - 1
    finish = (lambda s, _: bool(s)) if spec.type == "bool" else (lambda s, _: _as_type(spec, s))
    return Operator(ones if spec.operator == "bit_and" else 0, lambda x, _: x % 2**spec.bits, combine,
                    finish, lambda s: s.to_bytes(spec.bits // 8, "little"))


def _count(spec: Spec) -> Operator:
    ignored = spec.ignore_nan and spec.operator != "all"
    finish = {"all": lambda s, n: s == n, "any": lambda s, _: s > 0, "count_nonzero": lambda s, _: s}
    return Operator(0, lambda x, _: int(x != 0 and not (ignored and x != x)), _add, finish[spec.operator],
                    lambda s: s.to_bytes(8, "little"))


def _matrix_product(spec: Spec) -> Operator:
    d = spec.rows
    scalar = numpy.float32 if spec.code == "f4" else float if spec.is_float else int

    def reduced(x):
        return x if spec.is_float else x % spec.modulus if spec.modulus else _as_type(spec, x)

    def entry(a, b, i, j):
        total = a[i * d] * b[j]
        for k in range(1, d):
            total = total + a[i * d + k] * b[k * d + j]
        return reduced(total)

    def pack(state):
        if spec.is_float:
            return b"".join(_bytes_of_float(x, spec.code) for x in state)
        return b"".join((x % 2**spec.bits).to_bytes(spec.bits // 8, "little") for x in state)

    return Operator([scalar(i % (d + 1) == 0) for i in range(d * d)],
                    lambda x, _: [reduced(scalar(e)) for e in x],
                    lambda a, b: [entry(a, b, i, j) for i in range(d) for j in range(d)],
                    lambda s, _: s, pack)


_MAKERS = {"sum": _sum, "mean": _mean, "product": _product, "min": _extremum, "max": _extremum,
           "argmin": _arg_extremum, "argmax": _arg_extremum, "bit_and": _bitwise, "bit_or": _bitwise,
           "bit_xor": _bitwise, "all": _count, "any": _count, "count_nonzero": _count,
           "matrix_product": _matrix_product}


def _scalars(spec: Spec, data: bytes) -> list:
    """The elements' values."""
    if spec.type == "bool":
        return [int(byte != 0) for byte in data]
    if spec.type == "bfloat16":
        return (numpy.frombuffer(data, "<u2").astype("<u4") << 16).view("<f4").tolist()
    return numpy.frombuffer(data, "<" + spec.code).tolist()


def _keys(spec: Spec, data: bytes) -> list:
    """The keys of elements; None for NaN."""
    if not spec.is_float:
        return _scalars(spec, data)
    flip = 2**(spec.bits - 1) - 1
    infinity = {"f2": 0x7C00, "b2": 0x7F80, "f4": 0x7F800000, "f8": 0x7FF0000000000000}[spec.code]
    patterns = numpy.frombuffer(data, f"<i{spec.bits // 8}").tolist()
    return [None if (p & flip) > infinity else p ^ flip if p < 0 else p for p in patterns]


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


def _lane_pattern(op: Operator, spec: Spec, leaf: list):
    columns, vector = 512 * 8 // spec.bits, 128 // spec.bits
    states = [_chain(op.combine, leaf[j::columns]) if j < len(leaf) else op.identity
              for j in range(columns)]
    lanes = [_pairwise(op.combine, states[i:i + vector]) for i in range(0, columns, vector)]
    for distance in (16, 8, 4, 2, 1):
        for lane in range(distance):
            lanes[lane] = op.combine(lanes[lane], lanes[lane + distance])
    return lanes[0]


class _Array:
    """Leaves and nodes of one entry's (or the whole elements') states."""

    def __init__(self, op: Operator, spec: Spec, first: int, elements: list):
        self.op, self.spec, self.first = op, spec, first
        self.lifted = [op.lift(x, first + i) for i, x in enumerate(elements)]
        self.leaf_size = leaf_size(spec)

    def leaf(self, index: int):
        begin = index * self.leaf_size - self.first
        states = self.lifted[begin:begin + self.leaf_size]
        if not self.spec.rows:
            return _lane_pattern(self.op, self.spec, states)
        if self.spec.operator != "matrix_product":
            return _chain(self.op.combine, states)
        length = self.leaf_size // min(self.leaf_size, 32)
        runs = [states[i:i + length] for i in range(0, len(states), length)]
        return _pairwise(self.op.combine, [_chain(self.op.combine, run) for run in runs])

    def node(self, level: int, index: int):
        """None if no element of the array is in it."""
        begin = (index << level) * self.leaf_size
        if begin >= self.first + len(self.lifted) or begin + (self.leaf_size << level) <= self.first:
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
    """Of leaves begin to end - 1."""
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


def reduce(spec: Spec, data: bytes, first: int = 0):
    """(nodes, results): nodes of (level, index, state bytes); results a list with one per entry, each a
    Python number, or (number, index); or the reason why there is none."""
    with numpy.errstate(all="ignore"):
        op = _MAKERS[spec.operator](spec)
        scalars = (_keys if op.reads_keys else _scalars)(spec, data)
        count = len(scalars) // spec.entries
        if spec.operator == "matrix_product":
            parts = [[scalars[i:i + spec.entries] for i in range(0, len(scalars), spec.entries)]]
        else:
            parts = [scalars[entry::spec.entries] for entry in range(spec.entries)]
        arrays = [_Array(op, spec, first, part) for part in parts]
        size = leaf_size(spec)
        positions = maximal_nodes(first // size, -(-(first + count) // size) if count else first // size)
        states = [[array.node(*position) for array in arrays] for position in positions]
        nodes = [(*position, b"".join(map(op.pack, state))) for position, state in zip(positions, states)]
        if count == 0 and not op.has_identity:
            return nodes, "EMPTY_ARRAY"
        try:
            results = [op.finish(_fold(op, positions, [s[part] for s in states]) if count else op.identity,
                                 count) for part in range(len(arrays))]
        except Refused as refused:
            return nodes, str(refused)
        return nodes, results[0] if spec.operator == "matrix_product" else results
