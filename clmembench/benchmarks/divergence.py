"""Cost of divergence: how many neighbouring work-items must take the same branch so that none waits for the other branch."""

from __future__ import annotations

import numpy as np

from clmembench.benchmarks import (
    axis_of,
    benchmark,
    work_group_sizes,
)
from clmembench.model import Array, Device, DeviceInfo, Launch, Metric, Skip, Slope, Work
from clmembench.resources import kernel_source

MULTIPLY_ADD_TIME = Metric("multiply_add", "ns", "ops", "slope", "lower", cycles=True)
MAX_GROUP_SIZE = 128  # work-items, if the device allows it: twice the widest common sub-group
STEPS_PER_ROUND = 16  # as in divergence.cl; a multiple of CHAINS, so that chains end in their own variables
CHAINS = 4
CHAIN_WEIGHTS = np.array([1, 3, 5, 7], dtype=np.uint32)
UINT_MASK = (1 << 32) - 1
# multiplier and summand of each branch: odd, so that no bit is lost, and opaque to the compiler
BRANCH_CONSTANTS = ((1664525, 1013904223), (22695477, 12345671))


def _group_size(info: DeviceInfo) -> int:
    return work_group_sizes(info, MAX_GROUP_SIZE)[0]


def _spans(info: DeviceInfo) -> tuple[int, ...]:
    """1, 2, 4 ... and all work-items of the group, which then take the same branch."""
    return tuple(1 << k for k in range(_group_size(info).bit_length()))


@benchmark(
    MULTIPLY_ADD_TIME,
    suite="access",
    source="Fang et al. 2017 (sub-groups as what accesses memory at once); divergence as in Wong et al. 2010",
    figure_axis="span",
    span=axis_of(_spans),
)
def divergence(device: Device, span: int) -> Slope:
    """Cost of a multiply-add where alternate runs of `span` work-items take different branches: it doubles within a sub-group.

    The work-items of one work-group perform equally many multiply-adds, each in one of two loops. A sub-group with work-items
    in both loops executes both, one after the other. With `span` equal to the size of the group all work-items take the same
    branch. Raises Skip for a larger span.
    """
    group = _group_size(device.info)
    if span > group:
        raise Skip(f"a work-group of {group} work-items has no {span} neighbours")
    kernel = device.build(kernel_source("divergence"), GROUP_SIZE=group)["diverge"]
    facts = device.compiled(kernel)
    target = device.alloc(4 * group)
    constants = [np.uint32(number) for way in BRANCH_CONSTANTS for number in way]

    def work(steps: int) -> Work:
        def check() -> None:
            ends, wanted = device.download(target, np.uint32, group), _expected(group, span, steps)
            wrong = int((ends != wanted).sum())
            assert not wrong, f"{wrong} of {group} work-items did not make {steps} steps of their branch"

        return Work(
            commands=(Launch(kernel, (target, np.uint32(span), *constants, np.uint32(steps)), (group,), (group,)),),
            ops=steps * STEPS_PER_ROUND * CHAINS,
            outputs=((target, 4 * group),),
            check=check,
            facts=facts,
        )

    return Slope(work, start=1, most=1 << 30)


def _expected(group: int, span: int, steps: int) -> Array:
    """The expected result of each work-item, shape (group,)."""
    lid = np.arange(group, dtype=np.uint32)
    first = (4 * lid + 1)[:, None] + np.arange(CHAINS, dtype=np.uint32)
    (a, b), (c, d) = (_compose_multiply_add(way, steps * STEPS_PER_ROUND) for way in BRANCH_CONSTANTS)
    other = ((lid // np.uint32(span)) & 1)[:, None] == 1
    last = np.where(other, first * np.uint32(c) + np.uint32(d), first * np.uint32(a) + np.uint32(b))
    return np.asarray((last * CHAIN_WEIGHTS).sum(axis=1, dtype=np.uint32))


def _compose_multiply_add(way: tuple[int, int], times: int) -> tuple[int, int]:
    """Multiplier and summand of `times` operations x := x * a + b modulo 2^32, by repeated squaring."""
    (a, b), (all_a, all_b) = way, (1, 0)
    while times:
        if times & 1:
            all_a, all_b = all_a * a & UINT_MASK, (all_b * a + b) & UINT_MASK
        a, b = a * a & UINT_MASK, (b * a + b) & UINT_MASK
        times >>= 1
    return all_a, all_b
