"""What a device can do, found by behaviour in a child process: a claim, or code that compiles, proves nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from clmembench.model import Array, BuildError, Device, DeviceError, Kernel, Launch, Value
from clmembench.resources import kernel_source

OPS_PER_STEP = 32  # as written out in clock.cl
TICKS_DEFINE_BY_FEATURE = {"ptx": 1, "tsc": 2}  # feature: TICKS in clock.cl
COUNTER_CHAIN_STEPS = 2000
MAX_COUNTER_ATTEMPTS = 3
FENCED_CHAIN_STEPS = 4  # between two readings of the counter: few enough that a core could read the second one before they end
FENCED_REPEATS = 256
NONTEMPORAL_PROBE_WORDS = 256
COMPUTING_TYPES = {"fp64": ("double_add", "FP64"), "fp16": ("half_add", "FP16")}  # feature: kernel of clock.cl, and its define


@dataclass(frozen=True, slots=True)
class ProbedFeatures:
    """Features that were seen to work, and how many cycles one operation of the chain takes (None: not known) and why so."""

    features: frozenset[str]
    cycles_per_op: float | None
    origin: str


def build_alu_chain(device: Device, counter: str = "") -> tuple[Callable[[int], Sequence[Launch]], Callable[[], int]]:
    """The dependent-ALU chain as launches of a number of steps, and a function that reads its last launch's ticks."""
    kernel = device.build(kernel_source("clock"), TICKS=TICKS_DEFINE_BY_FEATURE.get(counter, 0), NONTEMPORAL=0, FP64=0)[
        "alu_chain"
    ]
    out, ticks = device.alloc(4), device.alloc(8)

    def launches(steps: int) -> Sequence[Launch]:
        return [Launch(kernel, (out, ticks, np.uint32(steps), np.uint32(0x9E3779B9), np.uint32(1)), (1,), (1,))]

    return launches, lambda: int(device.download(ticks, np.uint64, 1)[0])


def probe(device: Device) -> ProbedFeatures:
    """Try every feature that benchmarks ask for. A feature whose try fails to build or gives a wrong answer is absent."""
    features = set(device.info.features)
    ticks_per_op: dict[str, float] = {}
    for counter in TICKS_DEFINE_BY_FEATURE:
        per_op = _ticks_per_op(device, counter)
        if per_op is not None:
            ticks_per_op[counter] = per_op
            features.add(counter)
    if "tsc" in ticks_per_op and _is_fenced(device, ticks_per_op["tsc"]):
        features.add("fence")
    if _has_nontemporal(device):
        features.add("nontemporal")
    for name, (kernel, define) in COMPUTING_TYPES.items():
        if name in features and not _computes(device, kernel, define):
            features.discard(name)
    if "ptx" in ticks_per_op:
        return ProbedFeatures(
            frozenset(features), ticks_per_op["ptx"], "dependent-ALU chain, calibrated by the in-kernel counter"
        )
    # not on any core: a thread of a Xeon Phi's first generation issues in every other cycle at most
    if device.info.kind == "cpu":
        return ProbedFeatures(frozenset(features), 1.0, "dependent-ALU chain, taking 1 cycle an operation as CPUs do")
    return ProbedFeatures(frozenset(features), None, "no in-kernel cycle counter that can be trusted")


def _ticks_per_op(device: Device, counter: str) -> float | None:
    """Ticks of one operation, if four times the work reads four times the ticks (within 15%) three times in a row; on a busy
    host that may take another attempt."""
    try:
        launches, ticks = build_alu_chain(device, counter)
        for _ in range(MAX_COUNTER_ATTEMPTS):
            read = []
            for steps in (COUNTER_CHAIN_STEPS, 4 * COUNTER_CHAIN_STEPS) * 4:
                device.run(launches(steps))
                read.append(ticks())
            near, far = read[2::2], read[3::2]  # the first pair warms up
            if all(0 < a < 1 << 40 and 3.4 <= b / a <= 4.6 for a, b in zip(near, far, strict=True)):
                return float(
                    np.median([(b - a) / (3 * COUNTER_CHAIN_STEPS * OPS_PER_STEP) for a, b in zip(near, far, strict=True)])
                )
    except (BuildError, DeviceError):
        pass
    return None


def _is_fenced(device: Device, per_op: float) -> bool:
    """Whether fences around a counter's readings make it see all of the little work between them, within 25%: a core that runs
    ahead would read it too early."""
    defines: dict[str, Value] = {
        "TICKS": TICKS_DEFINE_BY_FEATURE["tsc"],
        "NONTEMPORAL": 0,
        "FP64": 0,
        "FENCE": 1,
        "REPEATS": FENCED_REPEATS,
    }
    try:
        kernel = device.build(kernel_source("clock"), **defines)["fenced_chain"]
        out, ticks = device.alloc(4), device.alloc(8)
        read = []
        for steps in (0, FENCED_CHAIN_STEPS) * 6:
            device.run([Launch(kernel, (out, ticks, np.uint32(steps), np.uint32(0x9E3779B9), np.uint32(1)), (1,), (1,))])
            read.append(int(device.download(ticks, np.uint64, 1)[0]))
    except (BuildError, DeviceError):
        return False
    # disturbances only add
    extra = (min(read[3::2]) - min(read[2::2])) / (FENCED_CHAIN_STEPS * OPS_PER_STEP * FENCED_REPEATS)
    return 0.75 * per_op <= extra <= 1.25 * per_op


def _has_nontemporal(device: Device) -> bool:
    found = _run_probe_kernel(device, "nontemporal", NONTEMPORAL_PROBE_WORDS, NONTEMPORAL=1, FP64=0)
    return found is not None and np.array_equal(found, np.arange(NONTEMPORAL_PROBE_WORDS, dtype=np.uint32) * 3 + 1)


def _computes(device: Device, kernel: str, define: str) -> bool:
    found = _run_probe_kernel(device, kernel, 1, np.uint32(1), **{"NONTEMPORAL": 0, "FP64": 0, define: 1})
    return found is not None and found[0] == 1


def _run_probe_kernel(device: Device, name: str, words: int, *args: np.generic, **defines: Value) -> Array | None:
    """The words that a probe kernel wrote; None where it cannot be built or run."""
    try:
        kernel: Kernel = device.build(kernel_source("clock"), TICKS=0, **defines)[name]
        out = device.alloc(4 * words)
        device.upload(out, np.zeros(words, np.uint32))
        device.run([Launch(kernel, (out, *args), (words,))])
        return device.download(out, np.uint32, words)
    except (BuildError, DeviceError):
        return None
