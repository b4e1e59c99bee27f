"""Cost of private arrays: which of them a compiler keeps in registers, and what the others cost."""

from __future__ import annotations

import math

import numpy as np

from clmembench.benchmarks import axis, axis_of, benchmark
from clmembench.model import Array, Device, DeviceInfo, Launch, Metric, Skip, Slope, Value, Work
from clmembench.resources import kernel_source

STEP_TIME = Metric("step", "ns", "ops", "slope", "lower", cycles=True)
PATTERN_CODES = {"add": 0, "matmul": 1, "sort": 2}
GPU_GROUP_SIZE = 32  # the only work-group on a GPU is small, so that each work-item can have many registers
MAX_EXACT_ROUNDS = (1 << 24) - 1024  # exact additions of 1 to a float below 1024
# 4-byte words of one array, dense near the limit of devices with 256 registers per work-item
ARRAY_WORDS = (2, 4, 8, 16, 32, 64, 96, 128, 192, 224, 240, 248, 252, 256, 320)
MATRIX_WORDS = (4, 9, 16, 25, 36, 49, 64, 81, 100, 121)  # three of them in registers: compiling larger ones takes seconds
DYNAMIC_WORDS = (2, 4, 16, 36, 64, 256)  # with dynamic indexing the size hardly matters
CPU_WORDS = (4, 16, 64, 256)


def _word_counts(info: DeviceInfo) -> tuple[int, ...]:
    return CPU_WORDS if info.has_cpu_cores else tuple(sorted({*ARRAY_WORDS, *MATRIX_WORDS}))


def _where(info: DeviceInfo, pattern: str, indexing: str, words: int) -> bool:
    return words in (MATRIX_WORDS if pattern == "matmul" else ARRAY_WORDS)


def _in_default_subset(info: DeviceInfo, pattern: str, indexing: str, words: int) -> bool:
    return indexing == "static" or words in DYNAMIC_WORDS


def steps_per_round(pattern: str, indexing: str, words: int) -> int:
    """Inner steps of one round: additions to an element, multiply-adds, or compare-and-move steps of two neighbours."""
    if pattern == "add":
        return words
    if pattern == "matmul":
        return math.isqrt(words) ** 3
    # insertion moves every element past all earlier ones; transposition has as many phases as there are elements
    return words * (words - 1) // 2 if indexing == "dynamic" else -(-words // 2) * (words - 1)


@benchmark(
    STEP_TIME,
    suite="access",
    source="Fang et al. 2017, section 6.1 (private arrays in registers)",
    where=_where,
    default_subset=_in_default_subset,
    figure_axis="words",
    pattern=axis(*PATTERN_CODES),
    indexing=axis("static", "dynamic"),
    words=axis_of(_word_counts),
)
def private_array(device: Device, pattern: str, indexing: str, words: int) -> Slope:
    """Cost of one step on a private array, by its size: in registers or spilled to memory.

    `words` is the number of 4-byte elements of one array. A step is an addition to one element (`add`, all in order), a
    multiply-add of `matmul` (a := a * b through a third matrix of the same size), or the comparison and move of two neighbours
    (`sort`: the worst case of insertion with dynamic indexing, and of odd-even transposition, whose indices do not depend on
    data, with static indexing). With `static` indexing the compiler knows all bounds and is asked to unroll the loops; with
    `dynamic` indexing bounds and indices are known at run time only. There is one work-group of 32 work-items (one on CPUs),
    whose size the compiler knows. The compiler's report on the kernel is stored. Raises Skip for a matrix that is not square.
    """
    side = math.isqrt(words)
    if pattern == "matmul" and side * side != words:
        raise Skip(f"a square matrix cannot have {words} words")
    if words < 2:
        raise Skip(f"an array of {words} words has no neighbours")
    group = 1 if device.info.has_cpu_cores else min(GPU_GROUP_SIZE, device.info.max_work_group)
    defines: dict[str, Value] = {
        "PATTERN": PATTERN_CODES[pattern],
        "WORDS": words,
        "GROUP_SIZE": group,
        "DYNAMIC": indexing == "dynamic",
    }
    if pattern == "matmul":
        defines["N"] = side
    kernel = device.build(kernel_source("private_array"), **defines)[pattern]
    facts = device.compiled(kernel)
    given = _initial_contents(pattern, words, group, device.seed)
    source, target = device.alloc(given.nbytes), device.alloc(4 * words * group)
    device.upload(source, given)
    # run-time arguments, opaque to the compiler
    run_time = {
        "add": (np.uint32(words), np.uint32(1), np.float32(1)),
        "matmul": (np.uint32(side),),
        "sort": (np.uint32(words), np.uint32(-(-words // 2))),
    }[pattern]
    steps = steps_per_round(pattern, indexing, words)

    def work(least: int) -> Work:
        # a single round reveals an unsorted part; the other numbers of rounds reveal if every second, third or fourth sort was
        # left out, since the final order then differs
        rounds = least + (2 - least) % 12 if pattern == "sort" and least > 1 else least

        def check() -> None:
            contents = device.download(target, given.dtype, words * group).reshape(words, group)
            wanted = _expected(pattern, given, rounds)
            wrong = contents != wanted
            assert not wrong.any(), f"{int(wrong.sum())} of {wrong.size} elements are wrong after {rounds} rounds of {pattern}"

        return Work(
            commands=(Launch(kernel, (source, target, *run_time, np.uint32(rounds)), (group,), (group,)),),
            ops=rounds * steps,
            outputs=((target, 4 * words * group),),
            check=check,
            facts=facts,
        )

    return Slope(work, start=1, most=MAX_EXACT_ROUNDS if pattern == "add" else 1 << 30)


def _initial_contents(pattern: str, words: int, group: int, seed: int) -> Array:
    """Initial contents of the arrays, shape (words, work-items); for a matrix product both factors, one after the other."""
    rng = np.random.default_rng(seed)
    if pattern == "add":
        return rng.integers(0, 1024, (words, group)).astype(np.float32)
    if pattern == "matmul":
        first, left, right = rng.integers(0, 1 << 32, (3, group, math.isqrt(words), math.isqrt(words)), dtype=np.uint32)
        one = np.eye(math.isqrt(words), dtype=np.uint32)
        # determinant 1: powers of other matrices may soon be 0, which hides the number of rounds
        second = (np.tril(left, -1) + one) @ (np.triu(right, 1) + one)
        return np.ascontiguousarray(np.concatenate([m.reshape(group, words).T for m in (first, second)]))
    # strictly descending, so that each element must pass all earlier ones; rounds move all of them by up to 2^29
    gaps = rng.integers(1, (1 << 31) // words, (words, group), dtype=np.uint32)
    return np.ascontiguousarray(np.cumsum(gaps, axis=0, dtype=np.uint32)[::-1] + np.uint32(1 << 30))


def _expected(pattern: str, given: Array, rounds: int) -> Array:
    """Expected contents of the arrays after `rounds` rounds, shape (words, work-items)."""
    if pattern == "add":
        return np.asarray(given + np.float32(rounds))
    if pattern == "sort":  # a subtraction reverses the order, so that it is descending again
        return np.ascontiguousarray(~given[::-1] if rounds % 2 else given) - np.uint32(rounds // 2)
    words = len(given) // 2
    side = math.isqrt(words)
    a, b = (part.T.reshape(-1, side, side) for part in (given[:words], given[words:]))
    while rounds:  # power of the second factor by repeated squaring; unsigned words wrap as on the device
        if rounds & 1:
            a = a @ b
        b = b @ b
        rounds >>= 1
    return np.ascontiguousarray(a.reshape(-1, words).T)
