"""Runs PTX programs of the benchmarks on the host: the instructions that they use, a work-group at a time, all its work-items
in step."""

from __future__ import annotations

import re
from functools import partial

import numpy as np

SUB_GROUP = 32
INTEGERS = {
    "add": np.add,
    "sub": np.subtract,
    "mul.lo": np.multiply,
    "mul.wide": np.multiply,
    "div": np.floor_divide,
    "rem": np.remainder,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "shl": np.left_shift,
    "shr": np.right_shift,
}
COMPARISONS = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "ge": np.greater_equal}
GROUP_ITEMS = 128  # that issue wgmma together
MAX_TURNS = 10_000  # of work-items that wait
MAP_FIELDS = {  # places in a tensor map here, in words of 8 bytes; NVIDIA's are its own
    "global_address": 0, "rank": 1, "box_dim": 2, "global_dim": 4, "global_stride": 6, "element_stride": 8,
    "elemtype": 10, "interleave_layout": 11, "swizzle_mode": 12, "fill_mode": 13,
}  # fmt: skip
BYTES_SWIZZLED_128 = {"rank": 1, "elemtype": 0, "interleave_layout": 0, "swizzle_mode": 3, "fill_mode": 0}
BASE = 1 << 20  # address of the first argument; address 0 and those before are of nothing


class Memory:
    """Bytes with addresses from `first` on."""

    def __init__(self, nbytes: int, first: int) -> None:
        self.bytes, self.first = np.zeros(-(-nbytes // 16) * 16, np.uint8), first

    def at(self, address, kind, width):
        """The values at each address, one row for each of `width` neighbours; raises IndexError outside."""
        size = np.dtype(kind).itemsize
        index, rest = np.divmod(address.astype(np.int64) - self.first, size)
        assert not rest.any() and (index >= 0).all()
        return self.bytes.view(kind), index[None, :] + np.arange(width)[:, None]


class Interpreter:
    """A program with its arguments: arrays, which it may change, and numbers."""

    def __init__(self, text: str, groups: int | tuple[int, int], *arguments) -> None:
        self.items = int(re.search(r"\.reqntid (\d+)", text)[1])
        self.local_bytes = int(re.search(r"slabs\[(\d+)\]", text)[1])
        names = re.findall(r"\.param \S+ (?:.* )?(\w+)", text)
        self.across, down = groups if isinstance(groups, tuple) else (groups, 1)
        self.groups, self.values, self.arrays = self.across * down, {}, []
        first = BASE
        for name, value in zip(names, arguments, strict=True):
            self.values[name] = value
            if isinstance(value, np.ndarray):
                self.arrays.append((first, value))
                self.values[name], first = first, first + -(-value.nbytes // 256) * 256
        self.memory = Memory(first - BASE, BASE)
        self.lines, self.labels = [], {}
        for line in text[text.rindex("\t.reg") :].splitlines()[1:]:
            if label := re.fullmatch(r"(\w+):", line):
                self.labels[label[1]] = len(self.lines)
            elif found := re.fullmatch(r"\t(?:@(\S+) )?(\S+)(?: (.*))?;", line):
                operands = re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s]+", found[3] or "")
                self.lines.append((found[1], found[2], operands))

    def run(self) -> None:
        """Runs every work-group, and stores the results in the arguments."""
        for first, array in self.arrays:
            self.memory.bytes[first - BASE :][: array.nbytes] = array.view(np.uint8).ravel()
        for group in range(self.groups):
            self._run_group(group)
        for first, array in self.arrays:
            array.view(np.uint8).ravel()[:] = self.memory.bytes[first - BASE :][: array.nbytes]

    def _run_group(self, group: int) -> None:
        items = np.arange(self.items)
        self.registers = {
            "%tid.x": items,
            "%ctaid.x": group % self.across + 0 * items,
            "%ctaid.y": group // self.across + 0 * items,
            "%nctaid.x": self.across + 0 * items,
            "slabs": 0 * items,
        }
        self.registers = {name: value.astype(np.uint64) for name, value in self.registers.items()}
        self.local, self.copies, self.flying = Memory(self.local_bytes, 0), [], []
        self.local.bytes[:] = 0xFF  # what was never written is not a number
        self.barriers: dict[int, list[int]] = {}  # by place: arrivals of a phase, those and bytes still to come, phases done
        self.landing: dict[int, list] = {}  # by place of a barrier: copies of boxes, done when somebody waits there
        streams, tries = [(0, np.ones(self.items, bool))], 0
        while streams:
            at, active = streams.pop(0)
            tries += 1
            assert tries < MAX_TURNS, "work-items wait for each other"
            streams += self._run_stream(at, active)
        assert not any(self.flying) and not any(self.landing.values()), "copies that nobody waited for"

    def _run_stream(self, at: int, active):
        """Runs work-items that go the same way until they end, part or wait; gives where they go on."""
        while self.lines[at][1] != "ret":
            when, name, operands = self.lines[at]
            mask = self.registers[when].astype(bool) & active if when else active
            at += 1
            if name in ("bra", "bra.uni"):
                target = self.labels[operands[0]]
                if mask.any() and not np.array_equal(mask, active):
                    return [(target, mask), (at, active & ~mask)]
                at = target if mask.any() else at
            elif name.startswith("mbarrier.try_wait"):
                place, parity = (int(x[active][0]) for x in (self._address(operands[1]), self._value(operands[2])))
                while self.landing.get(place):
                    self.landing[place].pop()()
                if self.barriers[place][3] % 2 == parity:
                    return [(at - 1, active)]
                self._set(operands[0], np.ones(self.items, bool), active)
            else:
                self._step(name, operands, mask)
        return []

    def _value(self, text: str):
        if text in self.registers:
            return self.registers[text]
        if text.startswith(("0d", "0f")):
            return np.zeros(self.items)
        return np.full(self.items, int(text), np.uint64)

    def _address(self, text: str):
        name, _, offset = text.strip("[]").partition("+")
        return self._value(name) + np.uint64(offset or 0)

    def _set(self, name: str, value, mask) -> None:
        old = self.registers.get(name)
        self.registers[name] = value if mask.all() or old is None else np.where(mask, value, old)

    def _step(self, name: str, operands: list[str], mask) -> None:
        parts = name.split(".")
        if parts[0] == "tensormap":
            words, index = self.memory.at(self._address(operands[0])[:1], np.uint64, 14)
            place = MAP_FIELDS[parts[3]] + (int(operands[1]) if len(operands) == 3 else 0)
            words[index[place]] = self._value(operands[-1])[0]
        elif name.startswith("cp.async"):
            self._copy(parts, operands, mask)
        elif parts[0] in ("bar", "fence", "setmaxnreg") or (parts[0] == "wgmma" and parts[1] != "mma_async"):
            return
        elif parts[0] == "wgmma":
            self._multiply_by_groups(parts, operands, mask)
        elif parts[0] == "mbarrier":
            self._arrive(parts[1], operands, mask)
        elif name.startswith("ld.param"):
            self._set(operands[0], np.full(self.items, self.values[operands[1].strip("[]")], np.uint64), mask)
        elif parts[0] == "mma":
            self._multiply_matrices(operands)
        elif parts[0] in ("ld", "st"):
            self._access(parts, operands, mask)
        elif parts[0] == "atom":
            values, ((index, *_),) = self.memory.at(self._address(operands[1])[:1], np.uint32, 1)
            self._set(operands[0], np.full(self.items, values[index], np.uint64), mask)
            values[index] += np.uint32(self._value(operands[2])[0])
        else:
            self._set(operands[0], self._compute(parts, [self._value(o) for o in operands[1:]]), mask)

    def _compute(self, parts: list[str], values):
        kind = parts[-1]
        if parts[0] == "fma":
            return values[0] * values[1] + values[2]
        if parts[0] == "cvt" and kind == "f32":
            return np.rint(values[0]).astype(np.uint64)
        if parts[0] == "selp":
            return np.where(values[2], values[0], values[1])
        if parts[0] == "shfl":
            assert parts[2] == "bfly" and values[1][0] == 1
            return values[0].reshape(-1, 2)[:, ::-1].ravel()
        if kind in ("f32", "f64"):
            with np.errstate(invalid="ignore"):
                return values[0].astype(np.float32 if kind == "f32" else np.float64) + (values[1] if parts[0] == "add" else 0)
        if parts[0] == "setp":
            return COMPARISONS[parts[1]](*values)
        if kind == "pred":
            return ~values[0] if parts[0] == "not" else np.logical_and.reduce(values)
        if parts[0] == "mov" and values[0].dtype == np.float32:
            return values[0].view(np.uint32).astype(np.uint64)
        if parts[0] == "mad":
            found = values[0] * values[1] + values[2]
        elif parts[0] in ("mov", "cvt"):
            found = values[0]
        else:
            found = INTEGERS[f"mul.{parts[1]}" if parts[0] == "mul" else parts[0]](*values)
        wide = parts[1] in ("wide", "u64") if parts[0] in ("mul", "cvt") else kind.endswith("64")
        return found if wide else found & np.uint64(0xFFFFFFFF)

    def _copy(self, parts: list[str], operands: list[str], mask) -> None:
        what = parts[3] if parts[2] == "bulk" else parts[2]
        if what == "commit_group" and mask.any():
            self.flying.append(self.copies)
            self.copies = []
        elif what == "wait_group" and mask.any():
            while len(self.flying) > int(operands[0]):
                for copy in self.flying.pop(0):
                    copy()
        elif what == "tensor":
            self._add_boxes(parts[5] == "global", operands, mask)
        elif what == "cg" or what == "ca":
            to, source = (self._address(o)[mask] for o in operands[:2])
            assert not (to % int(operands[2])).any() and not (source % int(operands[2])).any(), "a copy is not aligned"
            if to.size:
                self.copies.append(partial(self._copy_lines, to, source, int(operands[2])))

    def _copy_lines(self, to, source, nbytes: int) -> None:
        target, there = self.local.at(to, np.uint32, nbytes // 4)
        values, here = self.memory.at(source, np.uint32, nbytes // 4)
        target[there] = values[here]

    def _add_boxes(self, is_store: bool, operands: list[str], mask) -> None:
        """Copies of boxes by each work-item: stores fly in groups, loads until somebody waits at their barrier."""
        tensor_map, *corner = re.findall(r"%\w+", operands[0 if is_store else 1])
        for item in np.flatnonzero(mask):
            numbers = [int(self._value(name)[item]) for name in (tensor_map, *corner)]
            local = int(self._address(operands[1 if is_store else 0])[item])
            if is_store:
                self.copies.append(partial(self._copy_box, None, local, *numbers))
            else:
                barrier = int(self._address(operands[2])[item])
                self.landing.setdefault(barrier, []).append(partial(self._copy_box, barrier, local, *numbers))

    def _access(self, parts: list[str], operands: list[str], mask) -> None:
        width = int(next((p[1:] for p in parts if re.fullmatch(r"v\d", p)), 1))
        kind = {"f64": np.float64, "b64": np.float64, "f32": np.float32}.get(parts[-1], np.uint32)
        memory = self.local if "shared" in parts else self.memory
        into, at = operands if parts[0] == "ld" else reversed(operands)
        names, address = into.strip("{}").split(", "), self._address(at)[mask]
        assert not (address % (width * np.dtype(kind).itemsize)).any(), "a vector is not aligned"
        values, index = memory.at(address, kind, width)
        for name, where in zip(names, index, strict=True):
            if parts[0] == "ld":
                found = np.zeros(self.items, kind if kind != np.uint32 else np.uint64)
                found[mask] = values[where]
                self._set(name, found, mask)
            else:
                values[where] = self._value(name)[mask].astype(kind)

    def _multiply_matrices(self, operands: list[str]) -> None:
        a, b, c = ([self._value(n).reshape(-1, 8, 4) for n in o.strip("{}").split(", ")] for o in operands[1:])
        rows = np.concatenate((np.concatenate((a[0], a[2]), axis=2), np.concatenate((a[1], a[3]), axis=2)), axis=1)
        columns = np.concatenate((b[0].transpose(0, 2, 1), b[1].transpose(0, 2, 1)), axis=1)
        product = rows @ columns
        for i, name in enumerate(operands[0].strip("{}").split(", ")):
            part = product[:, 8 * (i // 2) : 8 * (i // 2) + 8, i % 2 :: 2]
            self.registers[name] = (c[i] + part).ravel()

    def _arrive(self, what: str, operands: list[str], mask) -> None:
        places = self._address(operands[what == "arrive"])[mask]
        for place in places.tolist():
            if what == "init":
                self.barriers[place] = [int(operands[1]), int(operands[1]), 0, 0]
            else:
                self._count(place, 1, -int(operands[2]) if len(operands) == 3 else 0)

    def _count(self, place: int, arrivals: int, nbytes: int) -> None:
        """Counts what has come to a barrier; bytes that an arrival expects are negative."""
        barrier = self.barriers[place]
        barrier[1] -= arrivals
        barrier[2] -= nbytes
        if not barrier[1] and not barrier[2]:
            barrier[1], barrier[3] = barrier[0], barrier[3] + 1

    def _copy_box(self, barrier: int | None, local: int, tensor_map: int, along: int, row: int) -> None:
        """Loads a box of bytes that a barrier counts, or stores one; pieces of 16 are permuted in local memory.

        What lies outside the matrix is loaded as zeros, and not stored.
        """
        words, index = self.memory.at(np.array([tensor_map]), np.uint64, 14)
        words = words[index.ravel()].astype(np.int64)
        assert all(words[MAP_FIELDS[name]] == value for name, value in BYTES_SWIZZLED_128.items()) and (words[8:10] == 1).all()
        width, height = words[2:4]
        x, y = along + np.arange(width), row + np.arange(height)[:, None]
        inside = (x < words[4]) & (y < words[5])
        at = local + np.arange(height)[:, None] * width + np.arange(width)
        at ^= (at >> 7 & 7) << 4
        there = np.where(inside, words[0] + y * words[6] + x, words[0]) - BASE
        if barrier is None:
            self.memory.bytes[there[inside]] = self.local.bytes[at[inside]]
        else:
            self.local.bytes[at] = np.where(inside, self.memory.bytes[there], 0)
            self._count(barrier, 0, int(width * height))

    def _multiply_by_groups(self, parts: list[str], operands: list[str], mask) -> None:
        """wgmma, done at once: each 128 work-items multiply the matrices that their descriptors name."""
        rows, columns, depth = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", parts[4]).groups())
        names = operands[0].strip("{}").split(", ")
        number, item = np.arange(len(names)), np.arange(GROUP_ITEMS)[:, None]
        row = 16 * (item // 32) + item % 32 // 4 + 8 * (number // 2 % 2)
        column = 8 * (number // 4) + 2 * (item % 4) + number % 2
        for first in np.flatnonzero(mask)[::GROUP_ITEMS].tolist():
            a, b = (
                self._operand(int(self._value(o)[first]), parts[6], n, depth)
                for o, n in zip(operands[1:3], (rows, columns), strict=True)
            )
            products = (a @ b.T)[row, column]
            for name, product in zip(names, products.T, strict=True):
                old = self.registers.setdefault(name, np.zeros(self.items))
                mine = slice(first, first + GROUP_ITEMS)
                total = product + (old[mine] if self._value(operands[3])[first] else 0)
                self.registers[name] = old.copy() if parts[5] == "f32" else old.astype(np.uint64)
                self.registers[name][mine] = total if parts[5] == "f32" else total.astype(np.int64) & 0xFFFFFFFF

    def _operand(self, descriptor: int, kind: str, rows: int, depth: int):
        """The matrix that a descriptor names, as float64: core matrices of 8 rows of 16 B, or swizzled rows of 128 B."""
        start, along_depth, along_rows = ((descriptor >> shift & 0x3FFF) << 4 for shift in (0, 16, 32))
        stored = {"f16": np.float16, "bf16": np.uint16, "tf32": np.float32, "s8": np.int8, "e4m3": np.uint8}[kind]
        size = np.dtype(stored).itemsize
        row, byte = np.arange(rows)[:, None], size * np.arange(depth)
        if descriptor >> 62:
            at = start + row // 8 * along_rows + row % 8 * 128 + byte
            at = at ^ (at >> 7 & 7) << 4
        else:
            at = start + row // 8 * along_rows + byte // 16 * along_depth + row % 8 * 16 + byte % 16
        found = self.local.bytes.view(stored)[at // size]
        if kind == "bf16":
            return (found.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
        if kind == "e4m3":  # of normal numbers
            sign, exponent, fraction = found >> 7, found >> 3 & 15, found & 7
            return (1 - 2.0 * sign) * (1 + fraction / 8) * 2.0 ** (exponent.astype(int) - 7)
        return found.astype(np.float64)
